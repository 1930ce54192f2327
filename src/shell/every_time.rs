//! Commands that are asked about every time, whatever was allowed before.
//!
//! This is no list of all commands that can do harm, because a command that is not known to be harmless is asked about
//! anyway. The list has the commands that an earlier "always" must not cover.

use std::sync::LazyLock;

use serde::Deserialize;

use super::options::is_given;
use super::programs::{self, Interpreter};
use super::sed::Sed;
use super::table::has;
use super::{Dynamic, Redirect, RedirectKind, SimpleCommand, Word, git, reading, table, variables};

static EVERY_TIME_PROGRAMS: LazyLock<EveryTimePrograms> =
    LazyLock::new(|| table(include_str!("every_time.toml")));

/// Data of `every_time.toml`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct EveryTimePrograms {
    program: Vec<Programs>,
    option: Vec<OptionRow>,
    writer: Vec<Writers>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Programs {
    names: Vec<String>,
    effect: String,
    #[serde(default)]
    runs_others: bool,
    #[serde(default)]
    destroys: bool,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct OptionRow {
    names: Vec<String>,
    options: Vec<String>,
    effect: String,
    #[serde(default)]
    destroys: bool,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Writers {
    names: Vec<String>,
    /// Options that name the directory to write to. The programs of this row write only to their last argument without
    /// such an option.
    into: Option<Vec<String>>,
    /// `true` if an argument may be a file that is only read.
    #[serde(default)]
    may_read: bool,
    #[serde(rename = "reason")]
    _reason: String,
}

/// Reason to ask about a command every time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Concern {
    /// The command does harm by itself.
    Effect {
        /// Command and its effect, for people.
        why: String,
        /// `true` if the command may remove files of the workspace for good.
        destroys: bool,
    },
    /// Command as written, and its arguments. The command writes or deletes files, and is a concern if an argument may
    /// name any file but an ordinary one of the workspace.
    Writes(String, Vec<Word>),
}

/// Returns the reason to ask about a command every time, if there is one or may be one.
pub fn concern(command: &SimpleCommand) -> Option<Concern> {
    let name = base_name(command.name()?);
    let args = command.args();
    let effect = |why, destroys| Some(Concern::Effect { why, destroys });
    let said = |effect: &str| format!("`{}` {effect}", command.brief());
    let because = |text: &str| effect(said(text), false);
    if reading::is_strictness(command) {
        return None;
    }
    if let Some(row) = find_programs(&name) {
        return effect(said(&row.effect), row.destroys);
    }
    let options = EVERY_TIME_PROGRAMS.option.iter().find(|row| row.names.contains(&name));
    if let Some(row) = options.filter(|row| is_given(args, &row.options)) {
        return effect(said(&row.effect), row.destroys);
    }
    let flagged = options.is_some() || name == "git";
    if (flagged || programs::has_subcommands(&name)) && hides_option(args, !flagged) {
        return effect(reading::unknown(command), false);
    }
    if let Some(inner) = programs::inner_command(command) {
        return concern(&inner);
    }
    if let Some(interpreter) = programs::interpreter(&name) {
        return hidden_code(interpreter, args).and_then(because);
    }
    if writers(&name).is_some() {
        return Some(Concern::Writes(command.brief(), args.to_vec()));
    }
    match name.as_str() {
        "git" => git::every_time(command).and_then(|why| effect(why, false)),
        "awk" | "gawk" | "mawk" | "nawk" if awk(args) => because("may run commands or write files"),
        "sed" => match Sed::read(args) {
            Some(sed) if !sed.edits() => because("may run commands or write files"),
            Some(sed) if sed.in_place => {
                let files = sed.files.into_iter().cloned().collect();
                Some(Concern::Writes(command.brief(), files))
            }
            Some(_) => None,
            None => because("has options that are not known"),
        },
        "[" | "[[" | "test" | "printf" | "read" | "unset" | "wait" | "export" => {
            builtin(&name, args).and_then(because)
        }
        _ => None,
    }
}

/// Returns the arguments of a command that name files to change, as far as the words show these. Some may name a file
/// that is only read.
pub fn changed(command: &SimpleCommand) -> Vec<Word> {
    let Some(name) = command.name().map(base_name) else { return Vec::new() };
    if let Some(inner) = programs::inner_command(command) {
        return changed(&inner);
    }
    let args = command.args();
    match writers(&name) {
        Some(Writers { into: Some(into), .. }) if !is_given(args, into) => {
            args.last().into_iter().cloned().collect()
        }
        Some(_) => args.to_vec(),
        None if name == "ln" => args.to_vec(),
        None if name == "sed" => {
            let edited = Sed::read(args).filter(|sed| sed.in_place);
            edited.into_iter().flat_map(|sed| sed.files).cloned().collect()
        }
        None => Vec::new(),
    }
}

/// Returns the arguments of a command that name files to change, and no file that is only read.
pub fn changed_for_sure(command: &SimpleCommand) -> Vec<Word> {
    let Some(name) = command.name().map(base_name) else { return Vec::new() };
    if let Some(inner) = programs::inner_command(command) {
        return changed_for_sure(&inner);
    }
    let is_unsure = name == "ln" || writers(&name).is_some_and(|row| row.may_read);
    if is_unsure { Vec::new() } else { changed(command) }
}

fn find_programs(name: &str) -> Option<&'static Programs> {
    EVERY_TIME_PROGRAMS.program.iter().find(|row| has(&row.names, name))
}

fn writers(name: &str) -> Option<&'static Writers> {
    EVERY_TIME_PROGRAMS.writer.iter().find(|row| has(&row.names, name))
}

/// Returns whether a command may make a file whose name looks like an option.
pub fn makes_options(command: &SimpleCommand) -> bool {
    let makes_it = |redirect: &Redirect| {
        let name = redirect.target.text.rsplit('/').next().unwrap_or_default();
        redirect.kind == RedirectKind::Write && name.starts_with('-')
    };
    let name = command.name().map(base_name).unwrap_or_default();
    writers(&name).is_some() || command.redirects.iter().any(makes_it)
}

/// Returns the commands that a command which runs others may run. The own options of the command may be of any number,
/// so that each end of its words is returned.
pub fn inner_candidates(words: &[Word]) -> Vec<Vec<Word>> {
    /// Exclusive bound on the number of words before the inner command, the program's name included.
    const MAX_LEADING_WORDS: usize = 8;
    let name = words.first().and_then(Word::literal).map(base_name).unwrap_or_default();
    if !runs_others(&name) {
        return Vec::new();
    }
    (1..words.len().min(MAX_LEADING_WORDS)).map(|at| words[at..].to_vec()).collect()
}

fn runs_others(name: &str) -> bool {
    find_programs(name).is_some_and(|row| row.runs_others)
}

/// Returns whether a command runs other commands that its words do not show, from a text, its input or a file.
pub fn hides_commands(command: &SimpleCommand) -> bool {
    let Some(name) = command.name().map(base_name) else { return true };
    let args = command.args();
    let has_text = || args.iter().any(|word| word.text.contains(char::is_whitespace));
    match programs::interpreter(&name) {
        Some(shell) if shell.is_shell(&name) => hidden_code(shell, args).is_some(),
        _ => matches!(name.as_str(), "eval" | "source" | ".") || (runs_others(&name) && has_text()),
    }
}

/// Returns the name of a program without its directory and in lower case, because some file systems ignore case.
fn base_name(name: &str) -> String {
    let base = name.rsplit('/').next().unwrap_or(name).to_lowercase();
    match base.strip_suffix(".exe") {
        Some(base) => base.to_owned(),
        None if base.starts_with("mkfs.") => "mkfs".to_owned(),
        None => base,
    }
}

/// Returns `true` if an argument may become an option at run time. With `first_only`, only arguments up to the first
/// argument that is no option are examined, and an unknown argument among them also gives `true`.
fn hides_option(args: &[Word], first_only: bool) -> bool {
    let mut text_follows = false;
    for word in args {
        if !text_follows && (word.may_be_option() || (first_only && word.dynamic > Dynamic::No)) {
            return true;
        }
        if first_only && !word.text.starts_with('-') {
            return false;
        }
        text_follows = word.literal().is_some_and(programs::takes_text);
    }
    false
}

/// Returns the reason to ask about an interpreter: its code is in no file, or is known only when it runs.
fn hidden_code(interpreter: &Interpreter, args: &[Word]) -> Option<&'static str> {
    const INLINE_CODE: &str = "runs code from the line itself, or from its input";
    const UNKNOWN_CODE: &str = "runs code that is known only when it runs";
    for (at, word) in args.iter().enumerate() {
        let Some(text) = word.literal() else { return Some(UNKNOWN_CODE) };
        let Some(letters) = text.strip_prefix('-') else {
            return text.starts_with("/dev/").then_some(INLINE_CODE);
        };
        if text == "-m" && interpreter.modules {
            let known = args.get(at + 1).is_some_and(|module| module.literal().is_some());
            return (!known).then_some(UNKNOWN_CODE);
        }
        if args.len() == 1 && matches!(text, "--version" | "--help" | "-V" | "-v" | "-h") {
            return None;
        }
        let known = !letters.is_empty() && letters.chars().all(|c| interpreter.flags.contains(c));
        if !known && !interpreter.long.iter().any(|long| long == text) {
            return Some(INLINE_CODE);
        }
    }
    Some(INLINE_CODE)
}

/// Returns whether an `awk` program may run commands or write files.
fn awk(args: &[Word]) -> bool {
    let does =
        |text: &str| ["|", ">", "@", "system", "getline"].iter().any(|does| text.contains(does));
    let mut value_follows = false;
    for word in args {
        let text = word.text.as_str();
        if word.may_be_option() || does(text) {
            return true;
        }
        let is_option = !value_follows && text.starts_with('-') && text.len() > 1;
        if is_option && !text.starts_with("-F") && !text.starts_with("-v") {
            return true;
        }
        value_follows = is_option && text.len() == 2;
        if !is_option && !value_follows && word.dynamic != Dynamic::No {
            return true;
        }
    }
    false
}

/// Returns the reason why a builtin of bash may run a command. Bash evaluates subscripts in names and in arithmetic,
/// with the commands in them.
fn builtin(name: &str, args: &[Word]) -> Option<&'static str> {
    const EVALUATES_TEXT: &str = "may have bash evaluate a text";
    let evaluates = match name {
        "[[" => {
            let is_number = |word: Option<&Word>| {
                word.is_some_and(|word| {
                    word.dynamic <= Dynamic::Number
                        && word.text.trim_start_matches('-').chars().all(|c| c.is_ascii_digit())
                })
            };
            let compares =
                |text: &str| matches!(text, "-eq" | "-ne" | "-lt" | "-le" | "-gt" | "-ge");
            args.iter().enumerate().any(|(at, word)| match word.text.as_str() {
                "-v" | "-R" => true,
                text if compares(text) => {
                    !is_number(at.checked_sub(1).and_then(|at| args.get(at)))
                        || !is_number(args.get(at + 1))
                }
                _ => false,
            })
        }
        "[" | "test" => !is_plain_test(name, args),
        "printf" => args.iter().any(|word| word.glob.is_some() || writes_count(&word.text)),
        "export" => {
            let decisive = |word: &Word| {
                let name = word.text.split(['=', '+']).next().unwrap_or_default();
                word.may_be_option()
                    || name.starts_with('-')
                    || name.contains('[')
                    || variables::decides_what_runs(name)
            };
            return args.iter().any(decisive).then_some("may change what is run");
        }
        // The other builtins take names. `wait` takes a name after `-p`, and otherwise numbers.
        _ => {
            let plain = |word: &Word| word.literal().is_some_and(|text| !text.contains('['));
            let number = |word: &Word| name == "wait" && word.source == "$!";
            !args.iter().all(|word| plain(word) || number(word))
        }
    };
    evaluates.then_some(EVALUATES_TEXT)
}

/// Returns whether a format makes `printf` write a count into a variable: `%n`.
fn writes_count(format: &str) -> bool {
    let between = |c: char| "#'-+ .*0123456789hjlLtqz".contains(c);
    let mut parts = format.split('%').skip(1);
    while let Some(part) = parts.next() {
        if part.is_empty() {
            // `%%` is a percent sign.
            parts.next();
        } else if part.trim_start_matches(between).starts_with('n') {
            return true;
        }
    }
    false
}

/// Returns whether the operators of a test are known, and none of them evaluates a text.
fn is_plain_test(name: &str, args: &[Word]) -> bool {
    let mut args = if name == "[" { &args[..args.len().saturating_sub(1)] } else { args };
    while let [not, rest @ ..] = args
        && not.literal() == Some("!")
    {
        args = rest;
    }
    let is_operator = |word: &Word| word.literal().is_some_and(|text| !matches!(text, "-v" | "-R"));
    let is_one = |word: &Word| word.dynamic < Dynamic::Many;
    match args {
        [] => true,
        [one] => is_one(one),
        [operator, one] => is_operator(operator) && is_one(one),
        [one, operator, other] => is_operator(operator) && is_one(one) && is_one(other),
        _ => args.iter().all(|word| is_operator(word) || word.dynamic == Dynamic::Number),
    }
}
