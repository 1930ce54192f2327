//! Commands that may read or change files with secrets in them.

use std::fs;
use std::path::{Path, PathBuf};

use super::options::{gives, value};
use super::place::Place;
use super::{Risk, said};
use crate::permission::shell::{Command, Direction, Word, brief};
use crate::tools::secrets::Secrets;

/// Commands that look at names alone.
const NAMES_ONLY: &[&str] = &[
    ":", "[", "[[", "break", "cd", "continue", "echo", "exit", "export", "false", "find", "mkdir",
    "printf", "pwd", "rmdir", "set", "stat", "test", "touch", "true", "type", "unset", "which",
];

/// In more than so many directories and files, secrets are not looked for.
const MAX_ENTRIES: usize = 50_000;

/// A longer option has no file's name glued to it.
const MAX_GLUED: usize = 256;

/// What a command may do to what is secret: to be asked about if it may read or change some of it.
pub(super) fn risk(command: &Command, place: &Place<'_>, secrets: &Secrets) -> Risk {
    let redirected = command.redirects.iter().filter(|it| it.direction != Direction::Text);
    let mut redirected = redirected.map(|it| &it.target);
    if let Some(risk) = redirected.find_map(|word| named(word, place, secrets, |_| true)) {
        return risk;
    }
    let Some(name) = command.name() else { return Risk::None };
    if NAMES_ONLY.contains(&name) {
        return Risk::None;
    }
    // Names that are no secret themselves can be listed.
    let lists = name == "ls";
    let mut words =
        command.args().iter().filter(|word| !lists || leads_below(word, place, secrets));
    // A pattern or a message may be called like a secret that is not there.
    let is_there = |path: &Path| fs::symlink_metadata(path).is_ok();
    if let Some(risk) = words.find_map(|word| named(word, place, secrets, is_there)) {
        return risk;
    }
    if searches_below(command) { below(command, place, secrets) } else { Risk::None }
}

/// Whether a word names a directory of secrets, or something in one.
fn leads_below(word: &Word, place: &Place<'_>, secrets: &Secrets) -> bool {
    place
        .named(word)
        .is_some_and(|paths| paths.iter().any(|path| secrets.why(&path.join("any")).is_some()))
}

/// The risk of a word that names a secret that counts: all of it, or what an option has at its end.
fn named(
    word: &Word,
    place: &Place<'_>,
    secrets: &Secrets,
    counts: impl Fn(&Path) -> bool,
) -> Option<Risk> {
    let why = |paths: Vec<PathBuf>| {
        paths.iter().filter(|path| counts(path)).find_map(|path| secrets.why(path))
    };
    let by_option = || {
        let path = value(&word.text).filter(|path| !path.is_empty())?;
        why(place.reached(path)?)
    };
    let found = place.named(word).and_then(why).or_else(by_option);
    let found = found.or_else(|| glued(&word.text, place, secrets));
    let found = found?;
    let file = brief(&word.source);
    Some(Risk::Forced(format!("`{file}` may hold secrets: {found}")))
}

/// A secret whose name is glued to an option of one letter: `-f.env`.
fn glued(text: &str, place: &Place<'_>, secrets: &Secrets) -> Option<&'static str> {
    let letters = text.strip_prefix('-').filter(|text| !text.starts_with('-'))?;
    if letters.len() > MAX_GLUED {
        return None;
    }
    let ends = letters.char_indices().skip(1).map(|(at, _)| &letters[at..]);
    let paths = ends.filter_map(|end| place.reached(end)).flatten();
    paths.filter(|path| path.exists()).find_map(|path| secrets.why(&path))
}

/// Whether a command reads all files below the directories that it is given.
fn searches_below(command: &Command) -> bool {
    const SEARCH: [&str; 6] =
        ["-r", "-R", "-d", "--recursive", "--dereference-recursive", "--directories"];
    let asked = |word: &Word| SEARCH.iter().any(|option| gives(&word.text, option));
    match command.name() {
        Some("rg") => true,
        Some("grep") => command.args().iter().any(asked),
        _ => false,
    }
}

/// What is below the directories that a command searches.
fn below(command: &Command, place: &Place<'_>, secrets: &Secrets) -> Risk {
    let hidden = command.name() != Some("rg")
        || command.args().iter().any(|word| {
            let text = word.text.as_str();
            let short = text.starts_with('-') && !text.starts_with("--");
            text == "--hidden" || text == "--unrestricted" || short && text.contains(['.', 'u'])
        });
    let given = command.args().iter().filter_map(|word| place.named(word)).flatten();
    let given: Vec<_> = given.filter(|path| path.is_dir()).collect();
    let mut directories = if given.is_empty() { place.here().to_vec() } else { given };
    // What is outside is asked about anyway.
    directories.retain(|dir| place.contains(dir));
    let mut left = MAX_ENTRIES;
    let found = directories.iter().find_map(|dir| first(dir, hidden, secrets, &mut left));
    match found {
        Some(file) => {
            let shown = directories.iter().find_map(|dir| file.strip_prefix(dir).ok());
            let shown = shown.unwrap_or(&file).display().to_string();
            Risk::Forced(format!(
                "`{}` may read `{}`, which may hold secrets",
                said(command),
                brief(&shown)
            ))
        }
        None if left == 0 => {
            Risk::Runs(format!("`{}` searches too many files to know them all", said(command)))
        }
        None => Risk::None,
    }
}

/// The first secret below a directory. What git keeps of its own is left out.
fn first(dir: &Path, hidden: bool, secrets: &Secrets, left: &mut usize) -> Option<PathBuf> {
    let mut waiting = vec![dir.to_owned()];
    while let Some(dir) = waiting.pop() {
        for entry in fs::read_dir(&dir).into_iter().flatten().flatten() {
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
