//! The commands that are known to do nothing but read inside the workspace.

use std::sync::LazyLock;

use serde::Deserialize;

use super::options::{gives, value};
use super::place::Place;
use super::sed::Sed;
use super::{git, prefix, said};
use crate::shell::{Command, Dynamic, Word, brief};

const TABLE: &str = include_str!("reading.toml");

static TABLES: LazyLock<Tables> = LazyLock::new(|| toml::from_str(TABLE).unwrap_or_default());

/// The data of `reading.toml`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Tables {
    program: Vec<ReadOnly>,
    version: Vec<Version>,
}

/// Commands that only read, if their arguments are of the known kind.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ReadOnly {
    names: Vec<String>,
    operands: Operands,
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

/// What a command's arguments are, its options aside.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Operands {
    Texts,
    Files,
    OneFile,
    PlainFiles,
    PatternAndFiles,
    Format,
    FilterAndFiles,
}

/// Programs that say which version they are.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Version {
    programs: Vec<String>,
    arguments: Vec<String>,
    #[serde(default)]
    unless: Vec<String>,
    #[serde(rename = "reason")]
    _reason: String,
}

/// The arguments of a command, its options read.
#[derive(Default)]
struct Arguments<'a> {
    operands: Vec<&'a Word>,
    /// The files that options name.
    files: Vec<Word>,
}

/// Parts of a search of `find` that only look.
const FINDS: &[&str] = &[
    "-H",
    "-P",
    "-a",
    "-amin",
    "-and",
    "-atime",
    "-cmin",
    "-ctime",
    "-daystart",
    "-depth",
    "-empty",
    "-executable",
    "-false",
    "-iname",
    "-inum",
    "-ipath",
    "-iregex",
    "-links",
    "-ls",
    "-maxdepth",
    "-mindepth",
    "-mmin",
    "-mount",
    "-mtime",
    "-name",
    "-newer",
    "-not",
    "-o",
    "-or",
    "-path",
    "-perm",
    "-print",
    "-print0",
    "-printf",
    "-prune",
    "-quit",
    "-readable",
    "-regex",
    "-regextype",
    "-size",
    "-true",
    "-type",
    "-user",
    "-wholename",
    "-writable",
    "-xdev",
];

/// Why a command is not known to be harmless; nothing if it is.
pub(super) fn check(command: &Command, place: &Place<'_>) -> Result<(), String> {
    let name = command.name().unwrap_or_default();
    let args = command.args();
    let may_give_options = |word: &Word| word.glob.is_some() && word.text.starts_with('-');
    if name != "[[" && args.iter().any(may_give_options) {
        return Err(unknown(command));
    }
    match name {
        "git" => git::check(command, place),
        "[" | "[[" | "test" => files(command, args, place),
        "command" if args.first().is_some_and(|word| ["-v", "-V"].contains(&&*word.text)) => {
            files_not_needed(command, args, place)
        }
        "find" => find(command, place),
        "sed" => sed(command, place),
        "set" if is_strictness(args) => Ok(()),
        _ if says_version(command, place) => Ok(()),
        _ => match known(name) {
            Some(known) => known.check(command, place),
            None => Err(format!("`{}` is not known to only read", brief(&prefix::of(command)))),
        },
    }
}

fn known(name: &str) -> Option<&'static ReadOnly> {
    TABLES.program.iter().find(|known| known.names.iter().any(|known| known == name))
}

/// Returns whether all options of a command that only reads are known; none if it is no such
/// command.
pub(super) fn is_plain(command: &Command) -> Option<bool> {
    let known = known(command.name()?)?;
    Some(known.operands == Operands::Texts || known.fitting(command).is_ok())
}

/// Returns the files and directories among a command's arguments, if its options are all known.
pub(super) fn operands(command: &Command) -> Option<Vec<&Word>> {
    Some(known(command.name()?)?.fitting(command).ok()?.operands)
}

/// Returns whether a program does no more than say which version it is.
fn says_version(command: &Command, place: &Place<'_>) -> bool {
    let (Some(name), [argument]) = (command.name(), command.args()) else { return false };
    let has = |list: &Vec<String>, text: &str| list.iter().any(|known| known == text);
    let says = |row: &&Version| {
        has(&row.programs, name) && argument.literal().is_some_and(|it| has(&row.arguments, it))
    };
    let row = TABLES.version.iter().find(says);
    row.is_some_and(|row| !row.unless.iter().any(|file| place.has_above(file)))
}

impl ReadOnly {
    fn check(&self, command: &Command, place: &Place<'_>) -> Result<(), String> {
        let args = command.args();
        if self.operands == Operands::Texts {
            return files_not_needed(command, args, place);
        }
        let Arguments { operands, files: named } = self.fitting(command)?;
        // A pattern may match one.
        let is_directory = |word: &&Word| place.may_be_directory(word);
        let mut all = operands.iter().copied().chain(&named);
        if self.operands == Operands::PlainFiles && all.any(|word| is_directory(&word)) {
            return Err(format!("`{}` may follow links out of the workspace", said(command)));
        }
        files(command, operands.into_iter().chain(&named), place)
    }

    /// The files among the arguments, if those are of the known kind, wherever the files are.
    fn fitting<'a>(&self, command: &'a Command) -> Result<Arguments<'a>, String> {
        let mut found = self.arguments(command)?;
        let operands = &mut found.operands;
        let several = operands.len() > 1 || operands.iter().any(|word| word.glob.is_some());
        match self.operands {
            Operands::OneFile if several => {
                return Err(format!("`{}` may write a second file", said(command)));
            }
            Operands::PatternAndFiles if !operands.is_empty() && !gives_pattern(command.args()) => {
                operands.remove(0);
            }
            Operands::FilterAndFiles if !operands.is_empty() => {
                let filter = operands.remove(0);
                if filter.literal().is_none_or(reaches_out) {
                    return Err(format!("`{}` may do more than filter", said(command)));
                }
            }
            Operands::Format => {
                if !operands.iter().all(|word| word.text.starts_with('+')) {
                    return Err(format!("`{}` may set the clock", said(command)));
                }
                operands.clear();
            }
            _ => {}
        }
        Ok(found)
    }

    /// The arguments, if all options are known.
    fn arguments<'a>(&self, command: &'a Command) -> Result<Arguments<'a>, String> {
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
                    // A pattern may become several words.
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

    /// Returns the value that belongs to an option; none if the option is not known.
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
    /// So many of the next words, which are texts.
    Texts(usize),
    /// The next word, which is a file.
    File,
    /// A file that is part of the same word.
    Glued(String),
}

/// Returns whether a filter of jq's may read more than its input: the environment, or modules.
fn reaches_out(filter: &str) -> bool {
    let mut names = filter.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    names.any(|name| {
        matches!(name, "env" | "ENV" | "import" | "include" | "modulemeta" | "get_search_list")
    })
}

/// Whether an option gives the pattern, or is followed by a file, so that all that is no option
/// may be a file.
fn gives_pattern(args: &[Word]) -> bool {
    const GIVE: &[&str] =
        &["-e", "-f", "--exclude-from", "--file", "--files", "--ignore-file", "--regexp"];
    args.iter().any(|word| GIVE.iter().any(|option| gives(&word.text, option)))
}

/// Checks a command that touches no file, if its words stand for none.
fn files_not_needed(command: &Command, args: &[Word], place: &Place<'_>) -> Result<(), String> {
    for word in args {
        if word.dynamic > Dynamic::Number {
            return Err(unknown(command));
        }
        if word.glob.is_some() && !place.has(word) {
            return Err(outside(command));
        }
    }
    Ok(())
}

/// Checks that all words are known, and that these operands are inside, as are the files in
/// the options.
fn files<'a>(
    command: &Command,
    operands: impl IntoIterator<Item = &'a Word>,
    place: &Place<'_>,
) -> Result<(), String> {
    let is_test = matches!(command.name(), Some("[" | "[[" | "test"));
    let most = if is_test { Dynamic::Number } else { Dynamic::No };
    if command.args().iter().any(|word| word.dynamic > most) {
        return Err(unknown(command));
    }
    let in_option = |word: &&Word| word.text.starts_with("--");
    let hidden = command.args().iter().filter(in_option).filter_map(|word| value(&word.text));
    let mut hidden = hidden.filter(|path| !path.is_empty());
    let known = place.inside()
        && hidden.all(|path| place.reaches_inside(path))
        && command.args().iter().all(|word| place.has_glued(&word.text))
        && operands.into_iter().all(|word| place.has(word));
    if known { Ok(()) } else { Err(outside(command)) }
}

fn find(command: &Command, place: &Place<'_>) -> Result<(), String> {
    let args = command.args();
    let is_number = |text: &str| text[1..].starts_with(|c: char| c.is_ascii_digit());
    let is_known = |text: &str| FINDS.contains(&text) || is_number(text);
    let is_option = |word: &&Word| word.text.starts_with('-') && word.text.len() > 1;
    if let Some(word) = args.iter().filter(is_option).find(|word| !is_known(&word.text)) {
        return Err(format!("`find {}` may do more than look", brief(&word.source)));
    }
    files(command, args.iter().filter(|word| !is_option(word)), place)
}

fn sed(command: &Command, place: &Place<'_>) -> Result<(), String> {
    match Sed::read(command.args()) {
        Some(sed) if sed.prints() => files(command, sed.files, place),
        Some(sed) if sed.in_place => Err(format!("`{}` changes files", said(command))),
        _ => Err(format!("`{}` may do more than print", said(command))),
    }
}

/// Whether the arguments of `set` only make the shell stricter, or have it show what it does.
fn is_strictness(args: &[Word]) -> bool {
    let mut args = args.iter().map(|word| word.literal().unwrap_or_default());
    let mut some = false;
    while let Some(text) = args.next() {
        let letters = text.strip_prefix(['-', '+']).unwrap_or_default();
        if letters.is_empty() || letters.contains(|c| !"euxo".contains(c)) {
            return false;
        }
        let named = ["pipefail", "errexit", "nounset", "xtrace"];
        if letters.contains('o') && !args.next().is_some_and(|name| named.contains(&name)) {
            return false;
        }
        some = true;
    }
    some
}

fn unknown(command: &Command) -> String {
    format!("what `{}` reads, only running it tells", said(command))
}

fn outside(command: &Command) -> String {
    format!("`{}` may read outside the workspace", said(command))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tables_can_be_read() {
        let tables: Tables = toml::from_str(TABLE).unwrap();
        assert!(tables.program.len() > 20 && tables.version.len() > 3);
        for row in &tables.program {
            let all = [&row.flags, &row.texts, &row.ends, &row.files].map(String::as_str).concat();
            let mut letters: Vec<char> = all.chars().collect();
            letters.sort_unstable();
            let count = letters.len();
            letters.dedup();
            assert_eq!(letters.len(), count, "{:?}", row.names);
        }
    }
}
