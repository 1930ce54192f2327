//! Files that commands write, by redirections or by arguments.

use super::command::Risk;
use super::cwd::Cwd;
use super::sensitive::{is_unprotected, sensitive};
use tandem_shell::options::value;
use tandem_shell::{Dynamic, Redirect, RedirectKind, SimpleCommand, Word, brief, every_time};

/// Returns the executable files that redirections overwrite, as written and joined by ` > `; `None` if there are none.
pub(super) fn overwritten(redirects: &[Redirect], cwd: &Cwd<'_>) -> Option<String> {
    let can_run = |redirect: &&Redirect| {
        redirect.kind == RedirectKind::Write && cwd.can_run(&redirect.target)
    };
    let files: Vec<_> =
        redirects.iter().filter(can_run).map(|redirect| redirect.target.plain()).collect();
    (!files.is_empty()).then(|| files.join(" > "))
}

/// Returns the risks of a command's redirections, and a description of the first one that writes an ordinary file of
/// the workspace.
pub(super) fn redirects_risks(
    redirects: &[Redirect],
    cwd: &Cwd<'_>,
) -> (Vec<Risk>, Option<String>) {
    let mut risks = Vec::new();
    let mut writes = None;
    for Redirect { kind, target } in redirects {
        let file = brief(&target.source);
        let found = match (kind, target.literal()) {
            (RedirectKind::Text, _) if target.dynamic <= Dynamic::Number => Risk::None,
            (RedirectKind::Text, _) => {
                Risk::Runs("a text on standard input is known only when the line runs".to_owned())
            }
            (_, Some("/dev/null" | "/dev/stdin" | "/dev/stdout" | "/dev/stderr")) => Risk::None,
            (RedirectKind::Read, Some(path)) if cwd.reaches_inside(path) => Risk::None,
            (RedirectKind::Read, _) => {
                Risk::Runs(format!("`< {file}` may read outside the workspace"))
            }
            (RedirectKind::Write, None) => Risk::Forced(format!(
                "the file that `> {file}` writes is known only when the line runs"
            )),
            (RedirectKind::Write, Some(_)) => match cwd.inside_root(target) {
                None => {
                    Risk::Forced(format!("a redirection writes to `{file}`, outside the workspace"))
                }
                Some(paths) => {
                    let writes_it = format!("a redirection writes to `{file}`");
                    if let Some(why) = paths.iter().find_map(|path| sensitive(path)) {
                        Risk::Forced(format!("{writes_it}: {why}"))
                    } else {
                        writes.get_or_insert_with(|| writes_it.clone());
                        Risk::Writes(writes_it)
                    }
                }
            },
        };
        risks.push(found);
    }
    (risks, writes)
}

/// Returns the reason to ask about an argument of a program that writes or deletes files.
pub(super) fn argument_concern(word: &Word, cwd: &Cwd<'_>) -> Option<String> {
    if word.dynamic > Dynamic::Number {
        return Some("may change files that are known only when it runs".to_owned());
    }
    let Some(paths) = cwd.inside_root(&named_file(word)?) else {
        return Some("may change files outside the workspace".to_owned());
    };
    let why = paths.iter().find_map(|path| sensitive(path))?;
    Some(format!("may change `{}`: {why}", brief(&word.source)))
}

/// Returns whether a command changes a file that takes effect without a person running it, and that the sandbox lets
/// programs write.
pub(super) fn plants(command: &SimpleCommand, cwd: &Cwd<'_>) -> bool {
    let is_write = |redirect: &&Redirect| redirect.kind == RedirectKind::Write;
    let redirected = command.redirects.iter().filter(is_write).map(|it| it.target.clone());
    let changed = every_time::changed(command);
    redirected.chain(changed.iter().filter_map(named_file)).any(|file| {
        let paths = cwd.inside_root(&file).unwrap_or_default();
        paths.iter().any(|path| is_unprotected(path))
    })
}

/// Returns the file that an argument may name; `None` for an option without a value.
fn named_file(word: &Word) -> Option<Word> {
    let mut file = word.clone();
    if word.glob.is_none() {
        value(&word.text)?.clone_into(&mut file.text);
    }
    Some(file)
}
