//! Files that commands write, by redirections or by arguments.

use super::cwd::Cwd;
use super::fact::{Fact, Finding};
use super::sensitive::{is_unprotected, sensitive};
use tandem_approval::BuiltInRule;
use tandem_shell::options::value;
use tandem_shell::{Dynamic, Redirect, RedirectKind, Word, brief};

/// Returns the executable files that redirections overwrite, as written and joined by ` > `; `None` if there are none.
pub(super) fn overwritten(redirects: &[Redirect], cwd: &Cwd<'_>) -> Option<String> {
    let can_run = |redirect: &&Redirect| {
        redirect.kind == RedirectKind::Write && cwd.can_run(&redirect.target)
    };
    let files: Vec<_> =
        redirects.iter().filter(can_run).map(|redirect| redirect.target.plain()).collect();
    (!files.is_empty()).then(|| files.join(" > "))
}

/// Returns the findings of a command's redirections.
pub(super) fn redirections(redirects: &[Redirect], cwd: &Cwd<'_>) -> Vec<Finding> {
    let found = redirects.iter().filter_map(|redirect| redirection(redirect, cwd));
    found.map(|(fact, why)| Finding::new(fact, BuiltInRule::Redirections, why)).collect()
}

fn redirection(Redirect { kind, target }: &Redirect, cwd: &Cwd<'_>) -> Option<(Fact, String)> {
    let file = brief(&target.source);
    match (kind, target.literal()) {
        (RedirectKind::Text, _) if target.dynamic <= Dynamic::Number => None,
        (RedirectKind::Text, _) => Some((
            Fact::RunsUnknown,
            "a text on standard input is known only when the line runs".to_owned(),
        )),
        (_, Some("/dev/null" | "/dev/stdin" | "/dev/stdout" | "/dev/stderr")) => None,
        (RedirectKind::Read, Some(path)) if cwd.reaches_inside(path) => None,
        (RedirectKind::Read, _) => {
            Some((Fact::RunsUnknown, format!("`< {file}` may read outside the workspace")))
        }
        (RedirectKind::Write, literal) => {
            let is_known = literal.is_some();
            let (fact, why) = written(is_known, &file, target, cwd);
            let is_unprotected = is_unprotected_file(target, cwd);
            Some((if is_unprotected { Fact::ChangesUnprotected } else { fact }, why))
        }
    }
}

/// Returns the finding for a redirection that writes a file.
fn written(is_known: bool, file: &str, target: &Word, cwd: &Cwd<'_>) -> (Fact, String) {
    if !is_known {
        let why = format!("the file that `> {file}` writes is known only when the line runs");
        return (Fact::Unresolved, why);
    }
    let writes_it = format!("a redirection writes to `{file}`");
    let Some(paths) = cwd.inside_root(target) else {
        return (Fact::ChangesOutside, format!("{writes_it}, outside the workspace"));
    };
    match paths.iter().find_map(|path| sensitive(path)) {
        Some(why) => (Fact::ChangesSensitive, format!("{writes_it}: {why}")),
        None => (Fact::WritesFile, writes_it),
    }
}

/// Returns the fact about an argument of a program that writes or deletes files, and the end of a sentence on it.
pub(super) fn argument(word: &Word, cwd: &Cwd<'_>) -> Option<(Fact, String)> {
    if word.dynamic > Dynamic::Number {
        let why = "may change files that are known only when it runs";
        return Some((Fact::Unresolved, why.to_owned()));
    }
    let Some(paths) = cwd.inside_root(&named_file(word)?) else {
        let why = "may change files outside the workspace";
        return Some((Fact::ChangesOutside, why.to_owned()));
    };
    let why = paths.iter().find_map(|path| sensitive(path))?;
    Some((Fact::ChangesSensitive, format!("may change `{}`: {why}", brief(&word.source))))
}

/// Returns whether an argument names a file that takes effect without a person running it, and that the sandbox lets
/// programs write.
pub(super) fn is_unprotected_argument(word: &Word, cwd: &Cwd<'_>) -> bool {
    named_file(word).is_some_and(|file| is_unprotected_file(&file, cwd))
}

fn is_unprotected_file(file: &Word, cwd: &Cwd<'_>) -> bool {
    let paths = cwd.inside_root(file).unwrap_or_default();
    paths.iter().any(|path| is_unprotected(path))
}

/// Returns the file that an argument may name; `None` for an option without a value.
fn named_file(word: &Word) -> Option<Word> {
    let mut file = word.clone();
    if word.glob.is_none() {
        value(&word.text)?.clone_into(&mut file.text);
    }
    Some(file)
}
