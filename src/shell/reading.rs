//! Programs that only read, if their arguments are of a known kind.

use std::sync::LazyLock;

use serde::Deserialize;

use super::options::is_given;
use super::table::has;
use super::{SimpleCommand, Word, brief, table};

static READ_ONLY_PROGRAMS: LazyLock<ReadOnlyPrograms> =
    LazyLock::new(|| table(include_str!("reading.toml")));

/// Data of `reading.toml`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ReadOnlyPrograms {
    program: Vec<ReadOnly>,
    version: Vec<VersionPrinters>,
    find: Find,
    names_only: NamesOnly,
    printing: Printing,
    search: Vec<RecursiveSearch>,
    pattern: Pattern,
    filter: Filter,
}

/// Commands that only read, if their arguments are of the known kind.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ReadOnly {
    names: Vec<String>,
    operands: OperandKind,
    #[serde(default)]
    flags: String,
    #[serde(default)]
    texts: String,
    #[serde(default)]
    apart: bool,
    #[serde(default)]
    ends: String,
    #[serde(default)]
    files: String,
    #[serde(default)]
    long: Vec<String>,
    #[serde(default)]
    long_texts: Vec<String>,
    #[serde(default)]
    long_files: Vec<String>,
    #[serde(default)]
    long_pairs: Vec<String>,
    #[serde(rename = "reason")]
    _reason: String,
}

/// Kind of a program's operands; see `reading.toml`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum OperandKind {
    Texts,
    Files,
    OneFile,
    PlainFiles,
    PatternAndFiles,
    Format,
    FilterAndFiles,
}

/// Programs that print their version, with the arguments that make them do so.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct VersionPrinters {
    programs: Vec<String>,
    arguments: Vec<String>,
    #[serde(default)]
    unless: Vec<String>,
    #[serde(rename = "reason")]
    _reason: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Find {
    looks: Vec<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct NamesOnly {
    programs: Vec<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Printing {
    programs: Vec<String>,
}

/// A program that searches all files below directories.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RecursiveSearch {
    program: String,
    recursive: Option<Vec<String>>,
    hidden: Option<Vec<String>>,
    #[serde(default)]
    hidden_letters: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Pattern {
    options: Vec<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Filter {
    names: Vec<String>,
}

/// The effect of a command, as far as its options tell.
#[derive(Debug)]
pub enum CommandEffect<'a> {
    /// The program is not known to only read.
    Unknown,
    /// The command prints or compares its arguments, and reads no file.
    Texts,
    /// The command reads these files.
    Files(Arguments<'a>),
    /// The command may do more than read the workspace; the reason, for people.
    More(String),
}

/// The files among a command's arguments.
#[derive(Debug, Default)]
pub struct Arguments<'a> {
    /// Operands that are files, and perhaps directories.
    pub operands: Vec<&'a Word>,
    /// Files that options name.
    pub files: Vec<Word>,
    /// `true` if the command would follow links in a directory.
    pub no_directories: bool,
}

/// Returns the effect of a command, by the row of its program in the table.
pub fn reading(command: &SimpleCommand) -> CommandEffect<'_> {
    let Some(row) = command.name().and_then(find_program) else { return CommandEffect::Unknown };
    if row.operands == OperandKind::Texts {
        return CommandEffect::Texts;
    }
    match row.arguments(command) {
        Ok(arguments) => CommandEffect::Files(arguments),
        Err(why) => CommandEffect::More(why),
    }
}

/// Returns the files and directories among a command's operands, if its options are all known.
pub fn operands(command: &SimpleCommand) -> Option<Vec<&Word>> {
    Some(find_program(command.name()?)?.arguments(command).ok()?.operands)
}

/// Returns the operands of `find`; an error is the reason why the command may do more than look.
pub fn find_operands(command: &SimpleCommand) -> Result<Vec<&Word>, String> {
    let is_number = |text: &str| text[1..].starts_with(|c: char| c.is_ascii_digit());
    let is_known = |text: &str| has(&READ_ONLY_PROGRAMS.find.looks, text) || is_number(text);
    let is_option = |word: &&Word| word.text.starts_with('-') && word.text.len() > 1;
    let mut options = command.args().iter().filter(is_option);
    if let Some(word) = options.find(|word| !is_known(&word.text)) {
        return Err(format!("`find {}` may do more than look", brief(&word.source)));
    }
    Ok(command.args().iter().filter(|word| !is_option(word)).collect())
}

/// Returns the names of certain project files, if a command only prints the version of its program. Below a
/// directory with such a file, another program would run in its place.
pub fn version(command: &SimpleCommand) -> Option<&'static [String]> {
    let (name, [argument]) = (command.name()?, command.args()) else { return None };
    let says = |row: &&VersionPrinters| {
        has(&row.programs, name) && argument.literal().is_some_and(|it| has(&row.arguments, it))
    };
    READ_ONLY_PROGRAMS.version.iter().find(says).map(|row| row.unless.as_slice())
}

/// Returns whether a command is a `set` that only makes the shell stricter, or has it print its commands.
pub fn is_strictness(command: &SimpleCommand) -> bool {
    let mut args = command.args().iter().map(|word| word.literal().unwrap_or_default());
    let mut some = false;
    while let Some(text) = args.next() {
        let letters = text.strip_prefix(['-', '+']).unwrap_or_default();
        // Excluded are `-a` and `-k`, with which later words of the line decide what programs do, and arguments that
        // set positional parameters.
        if letters.is_empty() || letters.contains(|c| !"euxo".contains(c)) {
            return false;
        }
        let named = ["pipefail", "errexit", "nounset", "xtrace"];
        if letters.contains('o') && !args.next().is_some_and(|name| named.contains(&name)) {
            return false;
        }
        some = true;
    }
    some && command.name() == Some("set")
}

/// Returns `true` if a program only looks at names, or only prints its arguments.
pub fn looks_at_names(program: &str) -> bool {
    has(&READ_ONLY_PROGRAMS.names_only.programs, program)
}

/// Returns whether a program prints the content, or a part of it, of the files that it is given.
pub fn prints_files(program: &str) -> bool {
    has(&READ_ONLY_PROGRAMS.printing.programs, program)
}

/// Returns whether a command reads all files below the directories that it is given.
pub fn searches_below(command: &SimpleCommand) -> bool {
    search(command).is_some_and(|row| {
        row.recursive.as_ref().is_none_or(|options| is_given(command.args(), options))
    })
}

/// Returns whether a searching command may read hidden files: because it always does, because an option tells it to, or
/// because it chooses files by a name pattern, which outweighs that they are hidden.
pub fn reads_hidden(command: &SimpleCommand) -> bool {
    let Some(row) = search(command) else { return true };
    let short = |word: &Word| {
        let is_short = word.text.starts_with('-') && !word.text.starts_with("--");
        is_short && word.text.contains(|c| row.hidden_letters.contains(c))
    };
    row.hidden
        .as_ref()
        .is_none_or(|options| is_given(command.args(), options) || command.args().iter().any(short))
}

/// Returns the reason to ask about a command with arguments that are known only when it runs.
pub fn unknown(command: &SimpleCommand) -> String {
    format!("the arguments of `{}` are known only when it runs", command.brief())
}

fn search(command: &SimpleCommand) -> Option<&'static RecursiveSearch> {
    let name = command.name()?;
    READ_ONLY_PROGRAMS.search.iter().find(|row| row.program == name)
}

fn find_program(name: &str) -> Option<&'static ReadOnly> {
    READ_ONLY_PROGRAMS.program.iter().find(|row| has(&row.names, name))
}

impl ReadOnly {
    /// Returns the files among the arguments, inside the workspace or not; an error is the reason why the arguments are
    /// not of the known kind.
    fn arguments<'a>(&self, command: &'a SimpleCommand) -> Result<Arguments<'a>, String> {
        let mut found = self.split(command)?;
        found.no_directories = self.operands == OperandKind::PlainFiles;
        let operands = &mut found.operands;
        let several = operands.len() > 1 || operands.iter().any(|word| word.glob.is_some());
        match self.operands {
            OperandKind::OneFile if several => {
                return Err(format!("`{}` may write a second file", command.brief()));
            }
            OperandKind::PatternAndFiles
                if !operands.is_empty()
                    && !is_given(command.args(), &READ_ONLY_PROGRAMS.pattern.options) =>
            {
                operands.remove(0);
            }
            OperandKind::FilterAndFiles if !operands.is_empty() => {
                let filter = operands.remove(0);
                if filter.literal().is_none_or(reaches_out) {
                    return Err(format!("`{}` may do more than filter", command.brief()));
                }
            }
            OperandKind::Format => {
                if !operands.iter().all(|word| word.text.starts_with('+')) {
                    return Err(format!("`{}` may set the clock", command.brief()));
                }
                operands.clear();
            }
            _ => {}
        }
        Ok(found)
    }

    /// Returns the operands, and the files that options name; an error if an option is not known.
    fn split<'a>(&self, command: &'a SimpleCommand) -> Result<Arguments<'a>, String> {
        let refuse = |word: &Word| {
            let name = command.name().unwrap_or_default();
            Err(format!("`{name} {}` may do more than read the workspace", brief(&word.source)))
        };
        let mut found = Arguments::default();
        let mut args = command.args().iter();
        while let Some(word) = args.next() {
            let text = word.text.as_str();
            if text == "--" {
                found.operands.extend(args);
                break;
            }
            if !text.starts_with('-') || text == "-" {
                found.operands.push(word);
                continue;
            }
            match self.option(text) {
                None => return refuse(word),
                Some(OptionValue::Glued(file)) => found.files.push(Word::from(file)),
                Some(OptionValue::Texts(count)) => {
                    // A pattern may become several words. Then it would not be known which word belongs to which
                    // option.
                    if args.by_ref().take(count).any(|word| word.glob.is_some()) {
                        return Err(unknown(command));
                    }
                }
                Some(OptionValue::File) => match args.next() {
                    Some(word) if word.glob.is_some() => return Err(unknown(command)),
                    file => found.files.extend(file.cloned()),
                },
            }
        }
        Ok(found)
    }

    /// Returns the value that belongs to an option; `None` if the option is not known.
    fn option(&self, text: &str) -> Option<OptionValue> {
        if text.starts_with("--") {
            let (name, value) = match text.split_once('=') {
                Some((name, value)) => (name, Some(value)),
                None => (text, None),
            };
            let is = |list: &Vec<String>| list.iter().any(|known| known == name);
            return if is(&self.long) || matches!(text, "--help" | "--version") {
                Some(OptionValue::Texts(0))
            } else if is(&self.long_texts) {
                Some(OptionValue::Texts(usize::from(value.is_none())))
            } else if is(&self.long_files) {
                Some(value.map_or(OptionValue::File, |file| OptionValue::Glued(file.to_owned())))
            } else if is(&self.long_pairs) && value.is_none() {
                Some(OptionValue::Texts(2))
            } else {
                None
            };
        }
        let letters = &text[1..];
        for (at, letter) in letters.char_indices() {
            let rest = &letters[at + letter.len_utf8()..];
            if self.ends.contains(letter) {
                break;
            }
            if self.texts.contains(letter) && self.apart && !rest.is_empty() {
                return None;
            }
            if self.texts.contains(letter) {
                return Some(OptionValue::Texts(usize::from(rest.is_empty())));
            }
            if self.files.contains(letter) && rest.is_empty() {
                return Some(OptionValue::File);
            }
            if !self.flags.contains(letter) {
                return None;
            }
        }
        Some(OptionValue::Texts(0))
    }
}

/// Value that belongs to an option.
enum OptionValue {
    /// Texts in the next words, of this number.
    Texts(usize),
    /// File in the next word.
    File,
    /// File in the same word.
    Glued(String),
}

/// Returns whether a filter of `jq` may read more than its input: the environment, or modules.
fn reaches_out(filter: &str) -> bool {
    let mut names = filter.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    names.any(|name| has(&READ_ONLY_PROGRAMS.filter.names, name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_letter_of_a_program_is_of_two_kinds() {
        for row in &READ_ONLY_PROGRAMS.program {
            let all = [&row.flags, &row.texts, &row.ends, &row.files].map(String::as_str).concat();
            let mut letters: Vec<char> = all.chars().collect();
            letters.sort_unstable();
            let count = letters.len();
            letters.dedup();
            assert_eq!(letters.len(), count, "{:?}", row.names);
        }
    }
}
