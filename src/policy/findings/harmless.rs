//! The commands that are known to only read inside the workspace.

use super::cwd::Cwd;
use super::git;
use tandem_shell::options::value;
use tandem_shell::reading::{self, Arguments, CommandEffect, unknown};
use tandem_shell::sed::Sed;
use tandem_shell::{Dynamic, SimpleCommand, Word, brief, prefix};

/// Checks that a command only reads inside the workspace. An error says why this is not known.
pub(super) fn check(command: &SimpleCommand, cwd: &Cwd<'_>) -> Result<(), String> {
    let name = command.name().unwrap_or_default();
    let args = command.args();
    let may_give_options = |word: &Word| word.glob.is_some() && word.text.starts_with('-');
    if name != "[[" && args.iter().any(may_give_options) {
        return Err(unknown(command));
    }
    match name {
        "git" => git::check(command, cwd),
        "[" | "[[" | "test" => files(command, args, cwd),
        "command" if args.first().is_some_and(|word| ["-v", "-V"].contains(&&*word.text)) => {
            texts(command, cwd)
        }
        "find" => files(command, reading::find_operands(command)?, cwd),
        "sed" => sed(command, cwd),
        _ if reading::is_strictness(command) => Ok(()),
        _ if says_version(command, cwd) => Ok(()),
        _ => match reading::reading(command) {
            CommandEffect::Unknown => Err(format!(
                "`{}` is not on the list of commands that only read",
                brief(&prefix::always_prefix(command))
            )),
            CommandEffect::Texts => texts(command, cwd),
            CommandEffect::Files(arguments) => arguments_inside(command, arguments, cwd),
            CommandEffect::More(why) => Err(why),
        },
    }
}

/// Returns `true` if a command only prints the version of its program. Below certain project files, a program runs
/// another program instead.
fn says_version(command: &SimpleCommand, cwd: &Cwd<'_>) -> bool {
    reading::version(command).is_some_and(|unless| !unless.iter().any(|file| cwd.has_above(file)))
}

fn arguments_inside(
    command: &SimpleCommand,
    arguments: Arguments<'_>,
    cwd: &Cwd<'_>,
) -> Result<(), String> {
    let Arguments { operands, files: named, no_directories } = arguments;
    let mut all = operands.iter().copied().chain(&named);
    // The command follows links in a directory, and a pattern may match a directory.
    if no_directories && all.any(|word| cwd.may_be_directory(word)) {
        return Err(format!("`{}` may follow links out of the workspace", command.brief()));
    }
    files(command, operands.into_iter().chain(&named), cwd)
}

/// Checks a command whose arguments are texts and no files: every argument must be known, and a pattern must match only
/// files inside the workspace.
fn texts(command: &SimpleCommand, cwd: &Cwd<'_>) -> Result<(), String> {
    for word in command.args() {
        if word.dynamic > Dynamic::Number {
            return Err(unknown(command));
        }
        if word.glob.is_some() && !cwd.has(word) {
            return Err(outside(command));
        }
    }
    Ok(())
}

/// Checks that all arguments are known, and that the operands and the files which options name are inside the
/// workspace.
fn files<'a>(
    command: &SimpleCommand,
    operands: impl IntoIterator<Item = &'a Word>,
    cwd: &Cwd<'_>,
) -> Result<(), String> {
    let is_test = matches!(command.name(), Some("[" | "[[" | "test"));
    let most = if is_test { Dynamic::Number } else { Dynamic::No };
    if command.args().iter().any(|word| word.dynamic > most) {
        return Err(unknown(command));
    }
    let in_option = |word: &&Word| word.text.starts_with("--");
    let hidden = command.args().iter().filter(in_option).filter_map(|word| value(&word.text));
    let mut hidden = hidden.filter(|path| !path.is_empty());
    let known = cwd.inside()
        && hidden.all(|path| cwd.reaches_inside(path))
        && command.args().iter().all(|word| cwd.has_glued(&word.text))
        && operands.into_iter().all(|word| cwd.has(word));
    if known { Ok(()) } else { Err(outside(command)) }
}

fn sed(command: &SimpleCommand, cwd: &Cwd<'_>) -> Result<(), String> {
    match Sed::read(command.args()) {
        Some(sed) if sed.prints() => files(command, sed.files, cwd),
        Some(sed) if sed.in_place => Err(format!("`{}` changes files", command.brief())),
        _ => Err(format!("`{}` may do more than print", command.brief())),
    }
}

fn outside(command: &SimpleCommand) -> String {
    format!("`{}` may read outside the workspace", command.brief())
}
