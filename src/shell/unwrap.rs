//! Removes wrappers (`nice`, `xargs`, `bash -c`) from commands, so that the inner command is seen.

use std::iter;
use std::sync::LazyLock;

use serde::Deserialize;

use super::line::{Assignment, MAX_DEPTH, Read, ReadContext, SimpleCommand, Step};
use super::options::gives;
use super::table::table;
use super::word::{Dynamic, Word};

static WRAPPER_PROGRAMS: LazyLock<Wrappers> =
    LazyLock::new(|| table(include_str!("wrappers.toml")));

/// Data of `wrappers.toml`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Wrappers {
    shells: Vec<String>,
    wrapper: Vec<Wrapper>,
}

/// A program that runs the command that follows its own options.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Wrapper {
    name: String,
    /// Options of one letter without a value, joined.
    #[serde(default)]
    flags: String,
    /// Options of one letter that take a value, joined.
    #[serde(default)]
    valued: String,
    #[serde(default)]
    long: Vec<String>,
    /// Number of arguments before the command.
    #[serde(default)]
    operands: usize,
    /// Options that leave the command no variables.
    #[serde(default)]
    clears: Vec<String>,
    /// Options of one letter whose value is the name of a variable that the command does not get, joined.
    #[serde(default)]
    unsets: String,
}

/// Returns whether a program is a shell whose command lines can be read here.
pub fn is_shell(name: &str) -> bool {
    WRAPPER_PROGRAMS.shells.iter().any(|shell| shell == name)
}

/// Reads a command line, such as the argument of `bash -c`.
pub(super) type ReadLine = fn(&str, ReadContext) -> Read<Vec<Step>>;

/// Returns the steps of a command without its wrappers.
pub(super) fn unwrap(
    mut command: SimpleCommand,
    mut around: ReadContext,
    read: ReadLine,
) -> Read<Vec<Step>> {
    around.depth += 1;
    if around.depth > MAX_DEPTH {
        return Err("it is nested too deeply".to_owned());
    }
    let name = command.name();
    let Some(wrapper) =
        WRAPPER_PROGRAMS.wrapper.iter().find(|wrapper| Some(wrapper.name.as_str()) == name)
    else {
        return in_turn(command, around, read);
    };
    let whole = command.words.clone();
    match take_off(wrapper, &mut command) {
        Ok(true) if matches!(wrapper.name.as_str(), "builtin" | "command") => {
            let mut steps = vec![Step::Wrapper(whole)];
            steps.extend(unwrap(command, around, read)?);
            Ok(steps)
        }
        // The wrapper is another process. So a `cd` in it does not move the shell.
        Ok(true) => {
            let mut steps = vec![Step::Enter, Step::Wrapper(whole)];
            steps.extend(unwrap(command, around, read)?);
            steps.push(Step::Leave);
            Ok(steps)
        }
        Ok(false) => Ok(vec![Step::Command(command)]),
        Err(Unknown) => {
            command.words[0].dynamic = Dynamic::Many;
            Ok(vec![Step::Command(command)])
        }
    }
}

/// Returns the commands in the arguments of `eval`, `find` or a shell, if they are known; otherwise the command itself.
fn in_turn(command: SimpleCommand, around: ReadContext, read: ReadLine) -> Read<Vec<Step>> {
    let mut steps = assignments_step(&command);
    match command.name() {
        Some("eval") => {
            let texts: Option<Vec<&str>> = command.args().iter().map(Word::literal).collect();
            if let Some(texts) = texts {
                let fails = !command.redirects.is_empty();
                steps.push(Step::Wrapper(command.words.clone()));
                let around = ReadContext { conditional: around.conditional || fails, ..around };
                steps.extend(read(&texts.join(" "), around)?);
                return Ok(steps);
            }
        }
        Some("find") => {
            let executed = executed(&command, around, read)?;
            return Ok(iter::once(Step::Command(command)).chain(executed).collect());
        }
        Some(name) if is_shell(name) => {
            if let Some(script) = script(command.args()) {
                let plain_shell = name != "bash";
                let own_shell =
                    ReadContext { depth: around.depth, plain_shell, ..ReadContext::default() };
                steps.extend([Step::Enter, Step::Wrapper(command.words.clone())]);
                steps.extend(read(script, own_shell)?);
                steps.push(Step::Leave);
                return Ok(steps);
            }
        }
        _ => {}
    }
    Ok(vec![Step::Command(command)])
}

/// Returns a step with only the assignments and redirections of a command; no step if the command has neither. The
/// caller reads the command's words as command lines of their own.
fn assignments_step(command: &SimpleCommand) -> Vec<Step> {
    if command.assignments.is_empty() && command.redirects.is_empty() {
        return Vec::new();
    }
    vec![Step::Command(SimpleCommand { words: Vec::new(), ..command.clone() })]
}

/// Error of a wrapper whose options are not known.
struct Unknown;

/// Removes a wrapper from its command. Returns `false` if there is no command to wrap.
fn take_off(wrapper: &Wrapper, command: &mut SimpleCommand) -> Result<bool, Unknown> {
    let words = &command.words;
    let asks = |word: &Word| matches!(word.text.as_str(), "-v" | "-V");
    if wrapper.name == "command" && words.get(1).is_some_and(asks) {
        // `command -v` prints where a command is, and runs nothing.
        return Ok(false);
    }
    let WrapperOptions { mut at, placeholders, appends, unset } = options(wrapper, words)?;
    let mut set = unset;
    while wrapper.name == "env"
        && let Some(word) = words.get(at)
        && let Some((name, _)) = word.text.split_once('=')
    {
        if word.may_be_option() {
            return Err(Unknown);
        }
        set.push(Assignment { name: name.to_owned(), source: word.source.clone() });
        at += 1;
    }
    if words.iter().skip(at).take(wrapper.operands).any(|word| word.literal().is_none()) {
        return Err(Unknown);
    }
    at += wrapper.operands;
    let mut inner = words.get(at..).unwrap_or_default().to_vec();
    if wrapper.name == "xargs" {
        if inner.is_empty() {
            inner.push(Word { source: "echo".into(), text: "echo".into(), ..Word::default() });
        }
        for placeholder in &placeholders {
            mark(&mut inner, placeholder);
        }
        if appends {
            inner.push(Word::unknown("…"));
        }
    }
    if inner.is_empty() {
        return Ok(false);
    }
    command.words = inner;
    command.assignments.extend(set);
    Ok(true)
}

/// The options that a call of a wrapper has.
struct WrapperOptions {
    /// Index of the word after the options.
    at: usize,
    /// Placeholders that `xargs` replaces by its input.
    placeholders: Vec<String>,
    /// `true` if `xargs` may append its input to the command. Some options undo `-I`.
    appends: bool,
    /// Variables that the command does not get.
    unset: Vec<Assignment>,
}

fn options(wrapper: &Wrapper, words: &[Word]) -> Result<WrapperOptions, Unknown> {
    let mut found =
        WrapperOptions { at: 1, placeholders: Vec::new(), appends: true, unset: Vec::new() };
    let mut groups = false;
    while let Some(word) = words.get(found.at) {
        let text = word.literal().filter(|text| !text.is_empty()).ok_or(Unknown)?;
        let Some(letters) = text.strip_prefix('-') else { break };
        found.at += 1;
        if text == "--" {
            break;
        }
        let unset = |variable: &str, option: &str| Assignment {
            name: variable.to_owned(),
            source: format!("{} {option}", wrapper.name),
        };
        if wrapper.clears.iter().any(|option| gives(text, option)) {
            // `PATH` stands for all the variables that are cleared, because it decides most.
            found.unset.push(unset("PATH", text));
        }
        if text == "-" && wrapper.name == "env" {
            continue;
        }
        if text.starts_with("--") {
            let is = |long: &String| {
                text == *long || (long.ends_with('=') && text.starts_with(long.as_str()))
            };
            if !wrapper.long.iter().any(is) {
                return Err(Unknown);
            }
            continue;
        }
        let flags = letters.trim_start_matches(|c| wrapper.flags.contains(c));
        let Some(valued) = flags.chars().next() else { continue };
        if !wrapper.valued.contains(valued) {
            return Err(Unknown);
        }
        let mut value = &flags[1..];
        if value.is_empty() {
            value = words.get(found.at).and_then(Word::literal).ok_or(Unknown)?;
            found.at += 1;
        }
        if wrapper.unsets.contains(valued) {
            found.unset.push(unset(value, &format!("-{valued} {value}")));
        }
        match valued {
            'I' => found.placeholders.push(value.to_owned()),
            'L' | 'n' => groups = true,
            _ => {}
        }
    }
    found.appends = groups || found.placeholders.is_empty();
    Ok(found)
}

/// Marks the words in which input will replace `placeholder`.
fn mark(words: &mut [Word], placeholder: &str) {
    for word in words {
        if word.text.contains(placeholder) {
            word.dynamic = word.dynamic.max(Dynamic::One);
            word.is_filled_in = true;
        }
    }
}

/// Returns the text of `bash -c text`, if it is known.
fn script(args: &[Word]) -> Option<&str> {
    let mut text_follows = false;
    let mut args = args.iter();
    while let Some(word) = args.next() {
        let text = word.literal()?;
        let Some(letters) = text.strip_prefix('-').filter(|letters| !letters.is_empty()) else {
            return text_follows.then_some(text);
        };
        // `-i` and `-s` are excluded, because the shell would take commands from elsewhere, too. With `-l` the shell
        // runs what this machine and its user have set up, which is trusted.
        if !letters.chars().all(|c| "celoux".contains(c)) {
            return None;
        }
        if letters.contains('o') && args.next()?.literal()? != "pipefail" {
            return None;
        }
        text_follows |= letters.contains('c');
    }
    None
}

/// Returns the commands that `find` runs for each file.
fn executed(find: &SimpleCommand, around: ReadContext, read: ReadLine) -> Read<Vec<Step>> {
    let mut steps = Vec::new();
    let is_exec =
        |word: &Word| matches!(word.text.as_str(), "-exec" | "-execdir" | "-ok" | "-okdir");
    let mut rest = find.args();
    while let Some(at) = rest.iter().position(is_exec) {
        rest = &rest[at + 1..];
        let is_end = |word: &Word| matches!(word.text.as_str(), ";" | "+");
        let end = rest.iter().position(is_end).unwrap_or(rest.len());
        // After a word other than `{}`, GNU `find` takes `+` for an argument, and other versions end the command there.
        if rest.get(end).is_some_and(|word| word.text == "+")
            && rest[..end].last().is_none_or(|word| word.text != "{}")
        {
            return Err("`find` may take a `+` that does not follow `{}` in two ways".to_owned());
        }
        let mut words = rest[..end].to_vec();
        mark(&mut words, "{}");
        rest = &rest[end..];
        if !words.is_empty() {
            let command = SimpleCommand {
                words,
                repeated: true,
                conditional: true,
                ..SimpleCommand::default()
            };
            steps.push(Step::Enter);
            steps.extend(unwrap(command, around, read)?);
            steps.push(Step::Leave);
        }
    }
    Ok(steps)
}
