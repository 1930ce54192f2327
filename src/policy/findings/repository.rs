//! The repositories that git would work in, and the settings in them that could make git run programs.

use std::collections::HashSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use tandem_content::bounded;
use tandem_shell::git_config::{PathRule, Setting, settings};

// A stranger may have written the files of a repository. Without these limits, huge files would hold up every question.

/// Maximum size of a configuration file, in bytes. A larger one is an error.
const MAX_CONFIG: u64 = 1024 * 1024;
/// Maximum size of a `HEAD`, in bytes. A larger file does not count as a `HEAD`.
const MAX_HEAD: u64 = 4096;
/// Maximum size of an index, in bytes. A larger one is an error.
const MAX_INDEX: u64 = 256 * 1024 * 1024;
/// Maximum number of repositories that are read, submodules included. More are an error.
const MAX_REPOSITORIES: usize = 500;

/// A git repository, or a directory that git may take for one.
struct Repository {
    /// Git directory: `.git`, or the directory that a file of this name points to.
    git: PathBuf,
    /// Directory of the work tree; `None` for a bare repository.
    worktree: Option<PathBuf>,
}

/// Hooks that git runs only while a command changes, fetches or sends something, and not while it reads. Any other
/// hook counts as a hook of reading commands, because a later git may have more of these.
const HOOKS_OF_CHANGES: &[&str] = &[
    "applypatch-msg",
    "commit-msg",
    "post-applypatch",
    "post-checkout",
    "post-commit",
    "post-merge",
    "post-receive",
    "post-rewrite",
    "post-update",
    "pre-applypatch",
    "pre-auto-gc",
    "pre-commit",
    "pre-merge-commit",
    "pre-push",
    "pre-rebase",
    "pre-receive",
    "prepare-commit-msg",
    "proc-receive",
    "push-to-checkout",
    "sendemail-validate",
    "update",
];

/// Checks that git only reads in these directories. An error says why git may do more.
pub(super) fn check(directories: &[PathBuf], roots: &[PathBuf]) -> Result<(), String> {
    visit(directories, |repository| repository.check(roots))
}

/// Returns a hook that git may run while it reads in one of these directories, unless git is told to run no hooks.
pub(super) fn hook(directories: &[PathBuf]) -> Option<PathBuf> {
    let mut found = None;
    // An error is ignored here, because `check` has made the command a question for the same error.
    let _ = visit(directories, |repository| {
        if found.is_none() {
            found = repository.hook()?;
        }
        Ok(())
    });
    found
}

/// Visits the repositories that git may find from these directories, and their submodules.
fn visit(
    directories: &[PathBuf],
    mut visit: impl FnMut(&Repository) -> Result<(), String>,
) -> Result<(), String> {
    let mut open = Vec::new();
    for directory in directories {
        open.extend(discovered(directory)?);
    }
    let mut seen = HashSet::new();
    while let Some(repository) = open.pop() {
        let new = seen.insert((repository.git.clone(), repository.worktree.clone()));
        if seen.len() > MAX_REPOSITORIES {
            return Err("there are too many submodules to look at".to_owned());
        }
        if new {
            visit(&repository)?;
            // Git looks into each submodule for changes, as its configuration says.
            open.extend(repository.submodules()?);
        }
    }
    Ok(())
}

/// Returns the repositories that git may find from a directory upwards, up to the first that git surely takes.
fn discovered(directory: &Path) -> Result<Vec<Repository>, String> {
    let mut found = Vec::new();
    for above in directory.ancestors() {
        if let Some(repository) = checked_out(above)? {
            let ends = above.join(".git").is_file() || repository.is_valid();
            found.push(repository);
            if ends {
                break;
            }
        }
        if is_bare(above) {
            let repository = Repository { git: above.to_owned(), worktree: None };
            let ends = repository.is_valid();
            found.push(repository);
            if ends {
                break;
            }
        }
    }
    Ok(found)
}

/// Returns the repository whose work tree is a directory, if git may take the directory for a work tree.
fn checked_out(directory: &Path) -> Result<Option<Repository>, String> {
    let dot = directory.join(".git");
    let git = if dot.is_file() {
        let unclear = || format!("`{}` does not say where its repository is", dot.display());
        let text = read(&dot, MAX_CONFIG)?.ok_or_else(unclear)?;
        let path = text.strip_prefix("gitdir: ").ok_or_else(unclear)?;
        directory.join(path.trim_end_matches(['\n', '\r']))
    } else {
        dot
    };
    // Git takes no directory without a `HEAD` for a repository.
    let may_be = fs::symlink_metadata(git.join("HEAD")).is_ok();
    Ok(may_be.then(|| Repository { git, worktree: Some(directory.to_owned()) }))
}

/// Returns `true` if git would take a directory without `.git` for a repository, because of the files in the
/// directory.
pub(super) fn is_bare(dir: &Path) -> bool {
    // Git also accepts a `HEAD` that is a broken link, and objects and refs in another directory (`commondir`).
    let has = |name: &str| fs::symlink_metadata(dir.join(name)).is_ok();
    has("HEAD") && ((has("objects") && has("refs")) || has("commondir"))
}

impl Repository {
    /// Returns the directory that all worktrees of the repository have in common.
    fn common(&self) -> Result<PathBuf, String> {
        let common = read(&self.git.join("commondir"), MAX_CONFIG)?;
        Ok(common.map_or_else(|| self.git.clone(), |path| self.git.join(path.trim_end())))
    }

    /// Returns `true` if git surely takes the directory for a repository, and so does not search the directories
    /// above it.
    fn is_valid(&self) -> bool {
        let Ok(common) = self.common() else { return false };
        let head = read(&self.git.join("HEAD"), MAX_HEAD).ok().flatten().unwrap_or_default();
        let names = head.starts_with("ref: refs/")
            || (head.trim_end().len() == 40
                && head.trim_end().chars().all(|c| c.is_ascii_hexdigit()));
        names && common.join("objects").is_dir() && common.join("refs").is_dir()
    }

    /// Returns the settings in the repository's configuration files, with the file of each.
    fn settings(&self) -> Result<Vec<(PathBuf, Vec<Setting>)>, String> {
        let common = self.common()?;
        let files = [
            common.join("config"),
            common.join("config.worktree"),
            self.git.join("config.worktree"),
        ];
        let mut found = Vec::new();
        for file in files {
            let Some(text) = read(&file, MAX_CONFIG)? else { continue };
            let unclear = || format!("`{}` cannot be parsed", file.display());
            let settings = settings(&text).ok_or_else(unclear)?;
            found.push((file, settings));
        }
        Ok(found)
    }

    /// Returns a hook of the repository that git may run while it reads.
    fn hook(&self) -> Result<Option<PathBuf>, String> {
        let mut directories = vec![self.common()?.join("hooks")];
        for (_, settings) in self.settings()? {
            for setting in settings.iter().filter(|setting| setting.key == "core.hookspath") {
                // `~` and `%(prefix)` stand for directories elsewhere.
                if setting.value.starts_with(['~', '%']) {
                    return Ok(Some(PathBuf::from(&setting.value)));
                }
                let base = self.worktree.as_deref().unwrap_or(&self.git);
                directories.push(base.join(&setting.value));
            }
        }
        let may_run = |path: &PathBuf| {
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            !name.ends_with(".sample") && !HOOKS_OF_CHANGES.contains(&name) && path.is_file()
        };
        let mut entries = directories.iter().filter_map(|dir| fs::read_dir(dir).ok()).flatten();
        Ok(entries.find_map(|entry| Some(entry.ok()?.path()).filter(may_run)))
    }

    /// Checks that no setting of the repository makes git do more than read. An error names the setting.
    fn check(&self, roots: &[PathBuf]) -> Result<(), String> {
        for (file, settings) in self.settings()? {
            for setting in settings {
                if !setting
                    .harmless_if()
                    .any(|rule| rule.is_none_or(|it| self.has_path(it, &setting, roots)))
                {
                    return Err(format!(
                        "the repository's own configuration sets `{}`, which may make git run \
                         programs ({})",
                        setting.key,
                        file.display()
                    ));
                }
            }
        }
        Ok(())
    }

    /// Returns whether the value of a setting is the path that a rule requires.
    fn has_path(&self, rule: PathRule, setting: &Setting, roots: &[PathBuf]) -> bool {
        // `~` and `%(prefix)` stand for directories elsewhere.
        if setting.value.starts_with(['~', '%']) {
            return false;
        }
        let Some(worktree) = self.worktree.as_deref() else { return false };
        let base = if rule == PathRule::Worktree { &self.git } else { worktree };
        let real = |path: &Path| fs::canonicalize(path).ok();
        match (rule, real(&base.join(&setting.value))) {
            (PathRule::Worktree, Some(path)) => real(worktree) == Some(path),
            (PathRule::Inside, Some(path)) => roots.iter().any(|root| path.starts_with(root)),
            // A path that does not exist is not read.
            (rule, None) => rule == PathRule::Inside,
        }
    }

    /// Returns the submodules that are checked out.
    fn submodules(&self) -> Result<Vec<Self>, String> {
        let Some(worktree) = &self.worktree else { return Ok(Vec::new()) };
        let file = self.git.join("index");
        let unclear = || format!("`{}` cannot be parsed", file.display());
        let Some(index) = read_bytes(&file, MAX_INDEX)? else { return Ok(Vec::new()) };
        let mut found = Vec::new();
        for path in gitlinks(&index).ok_or_else(unclear)? {
            found.extend(checked_out(&worktree.join(path))?);
        }
        Ok(found)
    }
}

/// Returns the paths of the submodules in an index (versions 2 to 4, with SHA-1). `None` if the index has another
/// format, or is split into several files.
fn gitlinks(index: &[u8]) -> Option<Vec<PathBuf>> {
    /// Bytes of an entry before its path: times, numbers, the object's name and the path's flags.
    const FIXED_BYTES: usize = 62;
    const MODE_OFFSET: usize = 24;
    const GITLINK_MODE: u32 = 0o160_000;
    const FLAGS_OFFSET: usize = 60;
    const EXTENDED_FLAG: u16 = 0x4000;
    const CHECKSUM_BYTES: usize = 20;
    let number = |at: usize| Some(u32::from_be_bytes(index.get(at..at + 4)?.try_into().ok()?));
    let version = number(4)?;
    if index.get(..4)? != b"DIRC" || !(2..=4).contains(&version) {
        return None;
    }
    let (mut at, mut path, mut found) = (12, Vec::new(), Vec::new());
    for _ in 0..number(8)? {
        let flags =
            u16::from_be_bytes(index.get(at + FLAGS_OFFSET..at + FIXED_BYTES)?.try_into().ok()?);
        let mut name = at + FIXED_BYTES + if flags & EXTENDED_FLAG == 0 { 0 } else { 2 };
        if version == 4 {
            // Version 4 gives a path by the bytes to drop from the end of the path before, and the bytes to append.
            let (strip, after) = variable_length(index, name)?;
            path.truncate(path.len().checked_sub(strip)?);
            name = after;
        } else {
            path.clear();
        }
        let length = memchr::memchr(0, index.get(name..)?)?;
        path.extend_from_slice(&index[name..name + length]);
        if number(at + MODE_OFFSET)? == GITLINK_MODE {
            found.push(PathBuf::from(String::from_utf8(path.clone()).ok()?));
        }
        let end = name + length;
        // An entry ends with one to eight zeros, up to a multiple of eight bytes.
        at = if version == 4 { end + 1 } else { at + ((end - at) / 8 + 1) * 8 };
    }
    let end = index.len().checked_sub(CHECKSUM_BYTES)?;
    while at < end {
        // The extension `link` marks an index whose entries are partly in another file.
        if index.get(at..at + 4)? == b"link" {
            return None;
        }
        at = at.checked_add(8)?.checked_add(number(at + 4)? as usize)?;
    }
    Some(found)
}

/// Returns a number in the variable-length encoding of the index, and the offset behind the number.
fn variable_length(bytes: &[u8], mut at: usize) -> Option<(usize, usize)> {
    let mut byte = *bytes.get(at)?;
    let mut number = usize::from(byte & 127);
    while byte & 128 != 0 {
        at += 1;
        byte = *bytes.get(at)?;
        number = number.checked_add(1)?.checked_mul(128)?.checked_add(usize::from(byte & 127))?;
    }
    Some((number, at + 1))
}

fn read(path: &Path, max: u64) -> Result<Option<String>, String> {
    let Some(bytes) = read_bytes(path, max)? else { return Ok(None) };
    let text = String::from_utf8(bytes);
    text.map(Some).map_err(|_| format!("`{}` is not UTF-8", path.display()))
}

/// Returns the content of a file; `None` if there is no such file.
fn read_bytes(path: &Path, max: u64) -> Result<Option<Vec<u8>>, String> {
    match bounded::read(path, max) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(err)
            if matches!(err.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) =>
        {
            Ok(None)
        }
        Err(err) => Err(format!("`{}` cannot be read: {err}", path.display())),
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::sync::mpsc;
    use std::thread;
    use std::time::Duration;

    use rustix::fs::{CWD, FileType, Mode, mknodat};

    use super::*;

    /// Time limit for reading a repository, which takes milliseconds.
    const LOOK_LIMIT: Duration = Duration::from_secs(20);

    /// Reads a repository in which `make` replaces one file.
    fn check(file: &str, make: impl Fn(&Path)) {
        let dir = tempfile::tempdir().unwrap();
        let git = dir.path().join(".git");
        for made in ["objects", "refs"] {
            fs::create_dir_all(git.join(made)).unwrap();
        }
        fs::write(git.join("HEAD"), "ref: refs/heads/main\n").unwrap();
        let _ = fs::remove_file(git.join(file));
        make(&git.join(file));
        let (sender, receiver) = mpsc::channel();
        let directory = dir.path().to_owned();
        thread::spawn(move || sender.send(discovered(&directory).map(|found| found.len())));
        let found = receiver.recv_timeout(LOOK_LIMIT).expect("the look at a repository goes on");
        // The repository is found, or the fault is an error, and the search ends in time. Git may search further
        // upwards.
        assert_ne!(found, Ok(0), "{file}");
    }

    #[test]
    fn no_file_of_a_repository_holds_up_a_look_at_it() {
        for file in ["HEAD", "commondir"] {
            check(file, |path| mknodat(CWD, path, FileType::Fifo, Mode::RWXU, 0).unwrap());
            check(file, |path| File::create(path).unwrap().set_len(1 << 40).unwrap());
            check(file, |path| std::os::unix::fs::symlink("/dev/zero", path).unwrap());
        }
    }
}
