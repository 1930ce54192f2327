//! The arguments of programs: sub-commands, inner commands, and the files of interpreters.

use std::sync::LazyLock;

use serde::Deserialize;

use super::{SimpleCommand, Word, table};

static PROGRAM_ARGUMENTS: LazyLock<ProgramArguments> =
    LazyLock::new(|| table(include_str!("programs.toml")));

/// Data of `programs.toml`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ProgramArguments {
    subcommands: Vec<Subcommands>,
    group: Vec<Group>,
    runner: Vec<Runner>,
    interpreter: Vec<Interpreter>,
    text: Vec<TextOptions>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Subcommands {
    names: Vec<String>,
    #[serde(default = "one")]
    words: usize,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Group {
    name: String,
    after: Vec<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Runner {
    words: Vec<String>,
}

/// A program that runs files of code.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Interpreter {
    name: String,
    /// Options of one letter that only change how the file is run, joined.
    #[serde(default)]
    pub(super) flags: String,
    /// Other options that only change how the file is run.
    #[serde(default)]
    pub(super) long: Vec<String>,
    /// `true` if `-m` names a module to run.
    #[serde(default)]
    pub(super) modules: bool,
    #[serde(default)]
    shell: bool,
}

impl Interpreter {
    /// Returns whether the interpreter is the shell of exactly this name, to which commands may be given as a text.
    pub(super) fn is_shell(&self, name: &str) -> bool {
        self.shell && self.name == name
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct TextOptions {
    options: Vec<String>,
    #[serde(rename = "reason")]
    _reason: String,
}

fn one() -> usize {
    1
}

/// Returns the interpreter of this name: `python3.12` is `python`.
pub(super) fn interpreter(program: &str) -> Option<&'static Interpreter> {
    let name = program.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
    PROGRAM_ARGUMENTS.interpreter.iter().find(|row| row.name == name)
}

/// Returns whether an option takes the next word as a text. That word is no option then, even if it looks like one.
pub(super) fn takes_text(option: &str) -> bool {
    PROGRAM_ARGUMENTS.text.iter().any(|row| row.options.iter().any(|known| known == option))
}

/// Returns whether the action of a program depends on its first argument.
pub(super) fn has_subcommands(program: &str) -> bool {
    subcommands(program).is_some()
}

/// Returns the number of arguments that form the sub-command of a program; 0 if it has none.
pub(super) fn subcommand_words(program: &str, args: &[Word]) -> usize {
    let words = subcommands(program).map_or(usize::from(program == "git"), |row| row.words);
    let is_group = |row: &Group| {
        row.name == program && args.first().is_some_and(|sub| row.after.contains(&sub.text))
    };
    if words == 1 && PROGRAM_ARGUMENTS.group.iter().any(is_group) { 2 } else { words }
}

fn subcommands(program: &str) -> Option<&'static Subcommands> {
    PROGRAM_ARGUMENTS.subcommands.iter().find(|row| row.names.iter().any(|name| name == program))
}

/// Returns the number of words before an inner command that runs in an environment of its own, as in `poetry run
/// pytest`; `None` if there is no such command.
pub(super) fn runner_words(command: &SimpleCommand) -> Option<usize> {
    let begins = |runner: &&Runner| {
        command.words.len() > runner.words.len()
            && runner.words.iter().zip(&command.words).all(|(name, word)| word.is(name))
    };
    PROGRAM_ARGUMENTS.runner.iter().find(begins).map(|runner| runner.words.len())
}

/// Returns the inner command that a command runs in an environment of its own.
pub(super) fn inner_command(command: &SimpleCommand) -> Option<SimpleCommand> {
    let words = command.words[runner_words(command)?..].to_vec();
    let inner = SimpleCommand { words, ..SimpleCommand::default() };
    (!inner.words[0].text.starts_with('-') && runner_words(&inner).is_none()).then_some(inner)
}
