//! Commands that may read or change files with secrets in them.

use std::fs;
use std::path::{Path, PathBuf};

use super::assessed::Risk;
use super::cwd::Cwd;
use tandem_shell::options::value;
use tandem_shell::{RedirectKind, SimpleCommand, Word, brief, reading};
use tandem_tools::disk;
use tandem_tools::secrets::Secrets;

/// In more than so many directories and files, secrets are not looked for.
const MAX_ENTRIES: usize = 50_000;

/// Bytes of an ignore file that are looked at.
const MAX_IGNORE_FILE: u64 = 1 << 20;

/// A longer option has no file's name glued to it.
const MAX_GLUED: usize = 256;

/// Returns the risk of a command to what is secret: to be asked about if it may read or change some
/// of it.
pub(super) fn risk(command: &SimpleCommand, cwd: &Cwd<'_>, secrets: &Secrets) -> Risk {
    let redirected = command.redirects.iter().filter(|it| it.kind != RedirectKind::Text);
    let mut redirected = redirected.map(|it| &it.target);
    if let Some(risk) = redirected.find_map(|word| named(word, cwd, secrets, |_| true)) {
        return risk;
    }
    let Some(name) = command.name() else { return Risk::None };
    if reading::looks_at_names(name) {
        return Risk::None;
    }
    // Names that are no secret themselves can be listed.
    let lists = name == "ls";
    let mut words = command.args().iter().filter(|word| !lists || leads_below(word, cwd, secrets));
    // A pattern or a message may be called like a secret that is not there.
    let is_there = |path: &Path| fs::symlink_metadata(path).is_ok();
    if let Some(risk) = words.find_map(|word| named(word, cwd, secrets, is_there)) {
        return risk;
    }
    if name == "git"
        && let Some(risk) = command.args().iter().find_map(|word| object(word, secrets))
    {
        return risk;
    }
    if reading::searches_below(command) { below(command, cwd, secrets) } else { Risk::None }
}

/// Returns whether a word names a directory of secrets, or something in one.
fn leads_below(word: &Word, cwd: &Cwd<'_>, secrets: &Secrets) -> bool {
    cwd.named(word)
        .is_some_and(|paths| paths.iter().any(|path| secrets.why(&path.join("any")).is_some()))
}

/// The risk of a word that names a secret that counts: all of it, or what an option has at its end.
fn named(
    word: &Word,
    cwd: &Cwd<'_>,
    secrets: &Secrets,
    counts: impl Fn(&Path) -> bool,
) -> Option<Risk> {
    let why = |paths: Vec<PathBuf>| {
        paths.iter().filter(|path| counts(path)).find_map(|path| secrets.why(path))
    };
    let by_option = || {
        let path = value(&word.text).filter(|path| !path.is_empty())?;
        why(cwd.reached(path)?)
    };
    let found = cwd.named(word).and_then(why).or_else(by_option);
    let found = found.or_else(|| glued(&word.text, cwd, secrets));
    let found = found?;
    let file = brief(&word.source);
    Some(Risk::Forced(format!("`{file}` may hold secrets: {found}")))
}

/// Returns the risk of a word that names a secret among git's objects: `HEAD:.env`. It need not be in
/// the directory.
fn object(word: &Word, secrets: &Secrets) -> Option<Risk> {
    let (_, path) = word.text.rsplit_once(':')?;
    let why = secrets.why(&Path::new("/").join(path))?;
    Some(Risk::Forced(format!("`{}` may hold secrets: {why}", brief(&word.source))))
}

/// A secret whose name is glued to an option of one letter: `-f.env`.
fn glued(text: &str, cwd: &Cwd<'_>, secrets: &Secrets) -> Option<&'static str> {
    let letters = text.strip_prefix('-').filter(|text| !text.starts_with('-'))?;
    if letters.len() > MAX_GLUED {
        return None;
    }
    let ends = letters.char_indices().skip(1).map(|(at, _)| &letters[at..]);
    let paths = ends.filter_map(|end| cwd.reached(end)).flatten();
    paths.filter(|path| path.exists()).find_map(|path| secrets.why(&path))
}

/// Returns the risk from secrets below the directories that a command searches.
fn below(command: &SimpleCommand, cwd: &Cwd<'_>, secrets: &Secrets) -> Risk {
    let operands = reading::operands(command);
    let words = operands.clone().unwrap_or_else(|| command.args().iter().collect());
    let given = words.into_iter().filter_map(|word| cwd.named(word)).flatten();
    let mut directories: Vec<_> = given.filter(|path| path.is_dir()).collect();
    // Of what is not known to be an operand, a word may be a pattern or an option's value.
    if operands.is_none_or(|operands| operands.is_empty()) {
        directories.extend_from_slice(cwd.here());
    }
    // What is outside is asked about anyway.
    directories.retain(|dir| cwd.contains(dir));
    let inside = directories.iter().find_map(|dir| secrets.why(&dir.join("any")));
    if let Some(why) = inside {
        return Risk::Forced(format!("`{}` may read secrets: {why}", command.brief()));
    }
    let hidden = reading::reads_hidden(command);
    let mut left = MAX_ENTRIES;
    let found = directories.iter().find_map(|dir| first(dir, hidden, secrets, &mut left));
    match found {
        Some(file) => {
            let shown = directories.iter().find_map(|dir| file.strip_prefix(dir).ok());
            let shown = shown.unwrap_or(&file).display().to_string();
            Risk::Forced(format!(
                "`{}` may read `{}`, which may hold secrets",
                command.brief(),
                brief(&shown)
            ))
        }
        None if left == 0 => Risk::Runs(format!(
            "`{}` searches more files than are checked for secrets",
            command.brief()
        )),
        None => Risk::None,
    }
}

/// Returns whether an ignore file of the project makes hidden files seen that may be secrets.
fn shows_hidden(path: &Path, secrets: &Secrets) -> bool {
    const FILES: [&str; 3] = [".gitignore", ".ignore", ".rgignore"];
    if !path.file_name().is_some_and(|name| FILES.iter().any(|file| name == *file)) {
        return false;
    }
    let text = disk::read(path, MAX_IGNORE_FILE).unwrap_or_default();
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

/// The first secret below a directory. What git keeps of its own is left out.
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
