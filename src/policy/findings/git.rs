//! Calls of git that are known to only read inside the workspace.

use std::path::PathBuf;

use super::cwd::Cwd;
use tandem_shell::git::Git;
use tandem_shell::options::value;
use tandem_shell::reading::unknown;
use tandem_shell::{Dynamic, SimpleCommand, Word, brief, prefix};

/// Returns the repository that a call of git works in, if it is not the repository of the workspace.
pub(super) fn other_repository(command: &SimpleCommand, cwd: &Cwd<'_>) -> Option<PathBuf> {
    let directory = Git::read(command.args()).and_then(|git| git.directory);
    cwd.moved(directory).other_repository()
}

/// Returns a sentence for people on the hook that a reading call of git may run, if there is one.
pub(super) fn hook(command: &SimpleCommand, cwd: &Cwd<'_>) -> Option<String> {
    let git = Git::read(command.args()).filter(|git| !git.words.is_empty())?;
    let hook = cwd.moved(git.directory).hook()?;
    Some(format!("`{}` may run the hook `{}`", command.brief(), hook.display()))
}

/// Checks that a call of git only reads inside the workspace. An error says why this is not known.
pub(super) fn check(command: &SimpleCommand, cwd: &Cwd<'_>) -> Result<(), String> {
    let Some(git) = Git::read(command.args()).filter(|git| !git.words.is_empty()) else {
        return Err(format!("`{}` is not on the list of commands that only read", command.brief()));
    };
    if !git.reads() {
        return Err(format!(
            "`{}` is not on the list of commands that only read",
            brief(&prefix::always_prefix(command))
        ));
    }
    if command.args().iter().any(|word| word.dynamic != Dynamic::No) {
        return Err(unknown(command));
    }
    let cwd = cwd.moved(git.directory);
    let known = |word: &Word| match value(&word.text) {
        // Such a path begins at the top of the repository, which may be above the workspace.
        _ if word.text.starts_with(":/") || word.text.starts_with(":(") => false,
        _ if word.glob.is_some() => cwd.has(word),
        // A one-letter option may have a text or a path glued to it.
        Some(text) if word.text.starts_with('-') && !word.text.starts_with("--") => {
            !text.contains('/') && cwd.has_glued(&word.text)
        }
        Some(path) => cwd.reaches_inside(path),
        None => true,
    };
    if !cwd.inside() || !git.words[1..].iter().all(known) {
        return Err(format!("`{}` may read outside the workspace", command.brief()));
    }
    match cwd.other_repository() {
        Some(path) => Err(format!("the repository `{}` may run commands", path.display())),
        None if matches!(git.words[0].text.as_str(), "version" | "--version") => Ok(()),
        None => cwd.repositories_only_read(),
    }
}
