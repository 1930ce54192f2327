//! Commands that may read or change files with secrets in them.

use std::cell::OnceCell;
use std::fs;
use std::path::{Path, PathBuf};

use super::cwd::Cwd;
use super::fact::{Fact, Finding};
use super::variables::Variables;
use tandem_approval::BuiltInRule;
use tandem_content::bounded;
use tandem_host::hidden_home::HiddenHome;
use tandem_host::secrets::Secrets;
use tandem_host::workspace::OutsideFile;
use tandem_shell::options::{glued, value};
use tandem_shell::{Dynamic, RedirectKind, SimpleCommand, Word, brief, every_time, reading};

/// Maximum number of directory entries that a search for secrets looks at.
const MAX_ENTRIES: usize = 50_000;

/// Maximum size of an ignore file that is read, in bytes.
const MAX_IGNORE_FILE: u64 = 1 << 20;

/// Secrets that a command may read or change.
#[derive(Default)]
pub(super) struct SecretFinding {
    /// The finding; `None` if the command reads and changes no secret.
    pub(super) finding: Option<Finding>,
    /// Secret files that the command names, as real paths.
    pub(super) files: Vec<PathBuf>,
}

impl SecretFinding {
    fn new(fact: Fact, why: String, files: Vec<PathBuf>) -> Self {
        Self { finding: Some(Finding::new(fact, BuiltInRule::Secrets, why)), files }
    }
}

/// Finds the secrets that the commands of a line may read or change.
pub(super) struct SecretFinder<'a> {
    secrets: &'a Secrets,
    variables: Variables<'a>,
    hidden: Option<&'a HiddenHome>,
    roots: &'a [PathBuf],
    /// A secret of the workspace, if there is one. The search is made once, when it is first needed.
    any: OnceCell<Option<PathBuf>>,
}

/// Files that a word may name. `is_open`: the word may name further files, which are known only when the command runs.
struct NamedFiles {
    files: Vec<PathBuf>,
    is_open: bool,
}

impl<'a> SecretFinder<'a> {
    pub(super) fn new(
        secrets: &'a Secrets,
        variables: Variables<'a>,
        hidden: Option<&'a HiddenHome>,
        roots: &'a [PathBuf],
    ) -> Self {
        Self { secrets, variables, hidden, roots, any: OnceCell::new() }
    }

    /// Returns `true` if a command names files of the hidden home and changes them; in the sandbox, the command
    /// cannot change them.
    pub(super) fn changes_hidden(&self, command: &SimpleCommand, cwd: &Cwd<'_>) -> bool {
        let Some(hidden) = self.hidden else { return false };
        let changed = every_time::changed_for_sure(command);
        let mut files = changed.iter().flat_map(|word| self.files(word, cwd).files);
        files.any(|path| hidden.asked_about(&path).is_some())
    }

    /// Returns the files of the hidden home that a command names, without the files that the command changes.
    pub(super) fn hidden(&self, command: &SimpleCommand, cwd: &Cwd<'_>) -> Vec<OutsideFile> {
        let Some(hidden) = self.hidden else { return Vec::new() };
        let changed = every_time::changed_for_sure(command);
        // `cd` counts as a command that reads: later commands of the line can read the directory that it enters.
        let looks_at_names = |name| name != "cd" && reading::looks_at_names(name);
        let is_read = !command.name().is_some_and(looks_at_names);
        let words = command.words.iter().filter(|word| is_read && !changed.contains(word));
        let read = command.redirects.iter().filter(|it| it.kind == RedirectKind::Read);
        let words = words.chain(read.map(|redirect| &redirect.target));
        let files = words.flat_map(|word| self.files(word, cwd).files);
        files.filter_map(|path| hidden.asked_about(&path)).collect()
    }

    /// Returns the secrets that a command may read or change, to be asked about.
    pub(super) fn find(&self, command: &SimpleCommand, cwd: &Cwd<'_>) -> SecretFinding {
        let redirects = command.redirects.iter().filter(|it| it.kind != RedirectKind::Text);
        let targets: Vec<_> = redirects.clone().map(|it| &it.target).collect();
        if let Some(found) = self.find_named(&targets, cwd, |_| true) {
            return found;
        }
        let mut reads = redirects.filter(|it| it.kind == RedirectKind::Read);
        let is_open = |word: &Word| self.files(word, cwd).is_open;
        if reads.any(|it| is_open(&it.target))
            && let Some(found) = self.possible(command)
        {
            return found;
        }
        let Some(name) = command.name().filter(|name| !reading::looks_at_names(name)) else {
            return SecretFinding::default();
        };
        // `ls` shows only names, and names are no secrets unless they are below a directory of secrets.
        let lists = name == "ls";
        let words = command.args().iter().filter(|word| !lists || self.leads_below(word, cwd));
        let words: Vec<_> = words.collect();
        // A word may be a search pattern or a message with the name of a secret: only names of files that exist count.
        let is_there = |path: &Path| fs::symlink_metadata(path).is_ok();
        if let Some(found) = self.find_named(&words, cwd, is_there) {
            return found;
        }
        if name == "git"
            && let Some(why) = command.args().iter().find_map(|word| object(word, self.secrets))
        {
            return SecretFinding::new(Fact::NamesSecret, why, Vec::new());
        }
        if reading::searches_below(command)
            && let Some(found) = below(command, cwd, self.secrets)
        {
            return found;
        }
        let prints = reading::prints_files(name) && words.iter().any(|word| is_open(word));
        self.possible(command).filter(|_| prints).unwrap_or_default()
    }

    /// Returns the finding for a command that may read a secret of the workspace, which is known only when the command
    /// runs; `None` if the workspace has no secret.
    fn possible(&self, command: &SimpleCommand) -> Option<SecretFinding> {
        let search = || {
            let mut left = MAX_ENTRIES;
            let mut roots = self.roots.iter();
            let found = roots.find_map(|root| first(root, true, self.secrets, &mut left));
            // A workspace with too many files to search counts as one that has a secret.
            found.or_else(|| (left == 0).then(|| self.roots.first().cloned()).flatten())
        };
        let file = self.any.get_or_init(search).as_ref()?;
        let inside = self.roots.iter().find_map(|root| file.strip_prefix(root).ok());
        let file = brief(&inside.unwrap_or(file).display().to_string());
        let why = format!(
            "`{}` may read `{file}`, which may hold secrets: the files that it reads are known only when it runs",
            command.brief()
        );
        Some(SecretFinding::new(Fact::MayNameSecret, why, Vec::new()))
    }

    /// Returns the finding for words that name secrets, as a whole or as the value of an option. `counts` selects the
    /// paths that matter.
    fn find_named(
        &self,
        words: &[&Word],
        cwd: &Cwd<'_>,
        counts: impl Fn(&Path) -> bool,
    ) -> Option<SecretFinding> {
        let (mut names, mut files, mut reason) = (Vec::new(), Vec::new(), None);
        for word in words {
            let found = self.files(word, cwd).files.into_iter().filter(|path| counts(path));
            let found = found.filter_map(|path| Some((self.secrets.why(&path)?, path)));
            let found: Vec<_> = found.collect();
            if let Some((why, _)) = found.first() {
                reason.get_or_insert(*why);
                names.push(format!("`{}`", brief(&word.source)));
                files.extend(found.into_iter().map(|(_, path)| path));
            }
        }
        names.dedup();
        let why = format!("{} may hold secrets: {}", names.join(", "), reason?);
        Some(SecretFinding::new(Fact::NamesSecret, why, files))
    }

    /// Returns the files that a word may name, by itself or as the value of an option.
    fn files(&self, word: &Word, cwd: &Cwd<'_>) -> NamedFiles {
        let (words, is_open) = if word.dynamic <= Dynamic::Number {
            (vec![word.clone()], false)
        } else {
            self.variables.expand(word, cwd)
        };
        let mut named = NamedFiles { files: Vec::new(), is_open };
        for word in words {
            match cwd.matched(&word) {
                Some(paths) => named.files.extend(paths),
                None => named.is_open = true,
            }
            // The value of an option or an operand may be a path, too: `--file=.env`, `if=.env`.
            let values = [value(&word.text), word.text.split_once('=').map(|(_, value)| value)];
            let values = values.into_iter().flatten();
            let values = values.filter(|path| !path.is_empty() && *path != word.text);
            named.files.extend(values.filter_map(|path| cwd.reached(path)).flatten());
            // A name may be glued to an option of one letter: `-f.env`.
            let ends = glued(&word.text).unwrap_or_default().into_iter();
            let glued = ends.filter_map(|end| cwd.reached(end)).flatten();
            named.files.extend(glued.filter(|path| path.exists()));
        }
        named
    }

    /// Returns whether a word names a directory of secrets, or a file in one.
    fn leads_below(&self, word: &Word, cwd: &Cwd<'_>) -> bool {
        let mut files = self.files(word, cwd).files.into_iter();
        files.any(|path| self.secrets.why(&path.join("any")).is_some())
    }
}

/// Returns the reason to ask about a word that names a secret among git's objects: `HEAD:.env`. The file need not be in
/// the work tree.
fn object(word: &Word, secrets: &Secrets) -> Option<String> {
    let (_, path) = word.text.rsplit_once(':')?;
    let why = secrets.why(&Path::new("/").join(path))?;
    Some(format!("`{}` may hold secrets: {why}", brief(&word.source)))
}

/// Returns the finding for a command that searches directories, with the first secret below them; `None` if there is no
/// secret.
fn below(command: &SimpleCommand, cwd: &Cwd<'_>, secrets: &Secrets) -> Option<SecretFinding> {
    let operands = reading::operands(command);
    let words = operands.clone().unwrap_or_else(|| command.args().iter().collect());
    let given = words.into_iter().filter_map(|word| cwd.paths_of(word)).flatten();
    let mut directories: Vec<_> = given.filter(|path| path.is_dir()).collect();
    // Without operands the command searches the working directory. If the operands are not known, it may do so, because
    // each word may be a search pattern or the value of an option.
    if operands.is_none_or(|operands| operands.is_empty()) {
        directories.extend_from_slice(cwd.here());
    }
    // Directories outside the workspace are asked about anyway.
    directories.retain(|dir| cwd.contains(dir));
    let inside = directories.iter().find_map(|dir| Some((dir, secrets.why(&dir.join("any"))?)));
    if let Some((dir, why)) = inside {
        let why = format!("`{}` may read secrets: {why}", command.brief());
        return Some(SecretFinding::new(Fact::NamesSecret, why, vec![dir.clone()]));
    }
    let hidden = reading::reads_hidden(command);
    let mut left = MAX_ENTRIES;
    let found = directories.iter().find_map(|dir| first(dir, hidden, secrets, &mut left));
    if let Some(file) = found {
        let shown = directories.iter().find_map(|dir| file.strip_prefix(dir).ok());
        let shown = shown.unwrap_or(&file).display().to_string();
        let why =
            format!("`{}` may read `{}`, which may hold secrets", command.brief(), brief(&shown));
        return Some(SecretFinding::new(Fact::NamesSecret, why, vec![file]));
    }
    let why = format!("`{}` searches more files than are checked for secrets", command.brief());
    (left == 0).then(|| SecretFinding::new(Fact::RunsUnknown, why, Vec::new()))
}

/// Returns whether a file is an ignore file with an exception (`!`) that makes a search include hidden files which may
/// be secrets.
fn shows_hidden(path: &Path, secrets: &Secrets) -> bool {
    const IGNORE_FILES: [&str; 3] = [".gitignore", ".ignore", ".rgignore"];
    if !path.file_name().is_some_and(|name| IGNORE_FILES.iter().any(|file| name == *file)) {
        return false;
    }
    let text = bounded::read(path, MAX_IGNORE_FILE).unwrap_or_default();
    String::from_utf8_lossy(&text).lines().any(|line| {
        let Some(pattern) = line.trim().strip_prefix('!') else { return false };
        let name = pattern.trim_end_matches('/').rsplit('/').next().unwrap_or_default();
        let is_glob = name.contains(['*', '?', '[', '{', '\\']);
        if is_glob {
            name.starts_with(['.', '*', '?', '['])
        } else {
            secrets.why(&Path::new("/").join(name)).is_some()
        }
    })
}

/// Returns the first secret below a directory, without `.git`. `hidden`: hidden files are searched, too. `left`: number
/// of entries that may still be looked at. The search ends without a result when `left` is used up.
fn first(dir: &Path, hidden: bool, secrets: &Secrets, left: &mut usize) -> Option<PathBuf> {
    let mut waiting = vec![dir.to_owned()];
    let mut hidden = hidden;
    while let Some(dir) = waiting.pop() {
        let entries: Vec<_> = fs::read_dir(&dir).into_iter().flatten().flatten().collect();
        hidden = hidden || entries.iter().any(|entry| shows_hidden(&entry.path(), secrets));
        for entry in entries {
            *left = left.checked_sub(1)?;
            let name = entry.file_name();
            if name == ".git" || !hidden && name.as_encoded_bytes().starts_with(b".") {
                continue;
            }
            let (path, kind) = (entry.path(), entry.file_type());
            let is_dir = kind.as_ref().is_ok_and(fs::FileType::is_dir);
            if secrets.hides(&path, is_dir) {
                return Some(path);
            }
            if is_dir {
                waiting.push(path);
            }
        }
    }
    None
}
