//! Prefix of a command that an "always" remembers: as much of the beginning of the command as tells its action.

use std::sync::LazyLock;

use serde::Deserialize;

use super::git::Git;
use super::options::{gives, is_given};
use super::reading::{CommandEffect, reading};
use super::{SimpleCommand, Word, programs, table};

static ALWAYS_BREADTHS: LazyLock<AlwaysBreadths> =
    LazyLock::new(|| table(include_str!("always.toml")));

/// Data of `always.toml`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct AlwaysBreadths {
    program: Vec<Breadth>,
    reader: Vec<ProjectReader>,
}

/// Programs that run code which the files of a project name.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ProjectReader {
    names: Vec<String>,
    #[serde(default)]
    subcommands: Vec<String>,
    #[serde(default)]
    files: Vec<String>,
    #[serde(default)]
    above: bool,
    #[serde(default)]
    elsewhere: Vec<String>,
}

/// Files of a project that decide what a command runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProjectFiles {
    /// Files of these names in the working directory.
    Named {
        /// Names of the files.
        names: &'static [String],
        /// `true` if the files may also be in the nearest directory above that has one.
        above: bool,
    },
    /// Script that the command runs.
    Script(Word),
    /// Files that are not known.
    Unknown,
}

/// Row on the later calls that an "always" for one call of a program covers.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Breadth {
    names: Vec<String>,
    #[serde(default)]
    subcommands: Vec<String>,
    options: CoveredOptions,
    #[serde(default)]
    but: Vec<String>,
    #[serde(default)]
    only: Vec<String>,
    operands: CoveredOperands,
    #[serde(rename = "reason")]
    _reason: String,
}

/// Options that a later call may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum CoveredOptions {
    Any,
    None,
}

/// Operands that a later call may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum CoveredOperands {
    Any,
    Counted,
    Plain,
    Hosts,
    Remote,
}

/// Returns the prefix of a command that an "always" remembers.
pub fn always_prefix(command: &SimpleCommand) -> String {
    // 1. A runner (`poetry run`) is followed by the prefix of its inner command.
    // 2. `find` and `sed` have prefixes of their own where they run commands or change files.
    // 3. Of an interpreter all words are remembered, or `-m` and the module.
    // 4. Of any other program the sub-command is remembered, and as much of the rest as its row in the table says.
    //    Without a row, all words are, unless the command only reads.
    let Some((name, args)) = command.words.split_first() else { return String::new() };
    let program = name.text.as_str();
    if let Some(count) = programs::runner_words(command) {
        return match programs::inner_command(command) {
            Some(inner) => format!("{} {}", joined(&command.words[..count]), always_prefix(&inner)),
            None => joined(&command.words),
        };
    }
    match program {
        "find"
            if args
                .iter()
                .any(|word| word.text.starts_with("-exec") || word.text.starts_with("-ok")) =>
        {
            return "find -exec".to_owned();
        }
        "sed"
            if args
                .iter()
                .any(|word| word.text.starts_with("-i") || word.text.starts_with("--i")) =>
        {
            return "sed -i".to_owned();
        }
        _ => {}
    }
    let words = if program == "git" { Git::read(args).map_or(args, |git| git.words) } else { args };
    let is_interpreter = programs::interpreter(program).is_some();
    match words {
        [m, module, rest @ ..] if is_interpreter && m.text == "-m" => {
            let prefix = format!("{program} -m");
            if !module.literal().is_some_and(programs::has_subcommands) {
                return format!("{prefix} {}", module.source);
            }
            let words = std::iter::once(module).chain(rest).cloned().collect();
            return format!(
                "{prefix} {}",
                always_prefix(&SimpleCommand { words, ..SimpleCommand::default() })
            );
        }
        _ if is_interpreter => return joined(std::iter::once(name).chain(words)),
        _ => {}
    }
    let count = programs::subcommand_words(program, words);
    let exactly = || joined(std::iter::once(name).chain(words));
    let Some((first, rest)) = first_words(words, count) else { return exactly() };
    let prefix = joined(std::iter::once(name).chain(first));
    let more = match breadth(program, first) {
        Some(breadth) => breadth.remembered(rest),
        // The files that a reading command names are checked each time. So its arguments need not be remembered.
        None if matches!(reading(command), CommandEffect::Texts | CommandEffect::Files(_)) => {
            Some(String::new())
        }
        None => rest.is_empty().then(String::new),
    };
    more.map_or_else(exactly, |more| prefix + &more)
}

/// Returns the row for a program and its sub-command.
fn breadth(program: &str, first: &[Word]) -> Option<&'static Breadth> {
    let sub = subcommand(first);
    let is = |row: &&Breadth| {
        row.names.iter().any(|name| name == program)
            && (row.subcommands.is_empty() || row.subcommands.contains(&sub))
    };
    ALWAYS_BREADTHS.program.iter().find(is)
}

/// Returns the sub-command of a program, without the name of a toolchain (`+nightly`).
fn subcommand(first: &[Word]) -> String {
    joined(first.iter().skip_while(|word| word.text.starts_with('+')))
}

impl Breadth {
    /// Returns the part to remember of the words after the sub-command; `None` if all of them are to be remembered.
    fn remembered(&self, words: &[Word]) -> Option<String> {
        let mut operands = Vec::new();
        let mut rest = words.iter();
        while let Some(word) = rest.next() {
            if word.text == "--" {
                break;
            }
            if word.literal().is_some_and(programs::takes_text) {
                rest.next();
            }
            if !word.may_be_option() && (!word.text.starts_with('-') || word.text == "-") {
                operands.push(word);
            } else if !self.has_option(word) {
                return None;
            }
        }
        // Words after `--` are no options of the program itself.
        let is_any = self.operands == CoveredOperands::Any;
        operands.extend(rest.filter(|_| !is_any));
        let mut remembered = String::new();
        for (at, word) in operands.into_iter().enumerate() {
            let counted = match self.operands {
                CoveredOperands::Any => continue,
                CoveredOperands::Remote if at > 0 || word.text == "origin" => continue,
                CoveredOperands::Counted | CoveredOperands::Remote => word.plain().to_owned(),
                CoveredOperands::Plain => {
                    let is_plain = |c: char| c.is_alphanumeric() || "_/~".contains(c);
                    let first = word.literal()?.chars().next();
                    if word.text.starts_with("./") || first.is_some_and(is_plain) {
                        continue;
                    }
                    return None;
                }
                CoveredOperands::Hosts => host(word)?,
            };
            remembered.push(' ');
            remembered.push_str(&counted);
        }
        Some(remembered)
    }

    /// Returns whether later calls may have an option.
    fn has_option(&self, word: &Word) -> bool {
        let text = word.text.as_str();
        match self.options {
            CoveredOptions::Any => {
                let name = |text: &str| {
                    let name = text.trim_start_matches('-');
                    name.split('=').next().unwrap_or_default().to_owned()
                };
                let is = |option: &String| name(text) == name(option) || gives(text, option);
                self.but.is_empty() || (word.literal().is_some() && !self.but.iter().any(is))
            }
            CoveredOptions::None => {
                let letters = text.strip_prefix('-').unwrap_or_default();
                // Digits after a letter are surely the value of this letter's option.
                let letters = letters.trim_end_matches(|c: char| c.is_ascii_digit());
                let is_letter = |c: char| self.only.iter().any(|only| only[1..] == *c.to_string());
                word.literal().is_some_and(|text| self.only.iter().any(|only| only == text))
                    || (word.literal().is_some()
                        && !letters.is_empty()
                        && letters.chars().all(is_letter))
            }
        }
    }
}

/// Returns the origin of an `http` or `https` URL.
fn host(word: &Word) -> Option<String> {
    let url = url::Url::parse(word.literal()?).ok()?;
    let plain = matches!(url.scheme(), "http" | "https") && url.username().is_empty();
    // Curl expands a URL with such characters to several.
    let single = !word.text.contains(['{', '}', '[', ']', '\\']);
    (plain && single).then(|| url.origin().ascii_serialization())
}

/// Returns whether the path of a program looks like a file of the project.
fn is_script(program: &str) -> bool {
    program.contains('/') && !program.starts_with(['/', '~']) && !program.contains("..")
}

/// Returns the name that an "always" for the whole program remembers; `None` for a program that runs others.
pub fn program(command: &SimpleCommand) -> Option<String> {
    let name = command.name()?;
    let runs_others =
        programs::interpreter(name).is_some() || programs::runner_words(command).is_some();
    (!runs_others).then(|| name.to_owned())
}

/// Returns the files of a project that decide what a command runs; `None` if the command runs no code that a project
/// names.
pub fn project_files(command: &SimpleCommand) -> Option<ProjectFiles> {
    if let Some(inner) = programs::inner_command(command) {
        return project_files(&inner);
    }
    let (name, args) = (command.name()?, command.args());
    let count = programs::subcommand_words(name, args);
    let sub = first_words(args, count).map(|(first, _)| subcommand(first)).unwrap_or_default();
    let is = |row: &&ProjectReader| {
        row.names.iter().any(|known| known == name)
            && (row.subcommands.is_empty() || row.subcommands.contains(&sub))
    };
    if let Some(row) = ALWAYS_BREADTHS.reader.iter().find(is) {
        // Words after `--` are no options of the program itself.
        let own = args.split(|word| word.text == "--").next().unwrap_or_default();
        let is_known = !row.files.is_empty() && !is_given(own, &row.elsewhere);
        let named = ProjectFiles::Named { names: &row.files, above: row.above };
        return Some(if is_known { named } else { ProjectFiles::Unknown });
    }
    if is_script(name) {
        return command.words.first().cloned().map(ProjectFiles::Script);
    }
    programs::interpreter(name)?;
    let script = args.iter().find(|word| !word.text.starts_with('-'));
    let is_module = args.iter().any(|word| word.text == "-m");
    let script = script.filter(|word| !is_module && word.literal().is_some()).cloned();
    Some(script.map_or(ProjectFiles::Unknown, ProjectFiles::Script))
}

/// Returns the first `count` words, and the rest. `None` if one of the first words is an option, or not known.
fn first_words(args: &[Word], count: usize) -> Option<(&[Word], &[Word])> {
    // The name of a toolchain does not tell the action of cargo.
    let toolchain = count > 0 && args.first().is_some_and(|word| word.text.starts_with('+'));
    let count = (count + usize::from(toolchain)).min(args.len());
    let (first, rest) = args.split_at(count);
    let is_plain = |word: &Word| word.literal().is_some_and(|text| !text.starts_with('-'));
    first.iter().all(is_plain).then_some((first, rest))
}

fn joined<'a>(words: impl IntoIterator<Item = &'a Word>) -> String {
    words.into_iter().map(Word::plain).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exceptions_are_of_the_kind_that_the_options_are() {
        for row in &ALWAYS_BREADTHS.program {
            assert!(row.but.is_empty() || row.options == CoveredOptions::Any, "{:?}", row.names);
            assert!(row.only.is_empty() || row.options == CoveredOptions::None, "{:?}", row.names);
        }
    }
}
