//! Calls of git that only read, and calls that are asked about every time.

use std::sync::LazyLock;

use serde::Deserialize;

use super::options::is_given;
use super::table::has;
use super::{SimpleCommand, Word, table};

static GIT_SUBCOMMANDS: LazyLock<GitSubcommands> =
    LazyLock::new(|| table(include_str!("git.toml")));

/// Data of `git.toml`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct GitSubcommands {
    reads: Vec<Reads>,
    lists: Lists,
    config: ConfigPrinting,
    every_time: Vec<EveryTime>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Reads {
    subcommands: Vec<String>,
    then: Option<Vec<String>>,
    #[serde(default)]
    unless: Vec<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Lists {
    subcommands: Vec<String>,
    options: Vec<String>,
    names: Vec<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ConfigPrinting {
    prints: Vec<String>,
    actions: Vec<String>,
    options: Vec<String>,
    values: Vec<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct EveryTime {
    words: Vec<String>,
    #[serde(default)]
    options: Vec<String>,
    #[serde(default)]
    prefixes: Vec<String>,
    effect: String,
}

/// A call of `git`, split into git's own options and the sub-command.
pub struct Git<'a> {
    /// Words from the sub-command on.
    pub words: &'a [Word],
    /// Directory that `-C` names.
    pub directory: Option<&'a str>,
}

impl<'a> Git<'a> {
    /// Reads the arguments of `git`; `None` if git's own options do more than choose a directory.
    pub fn read(args: &'a [Word]) -> Option<Self> {
        let mut git = Self { words: args, directory: None };
        while let Some(word) = git.words.first() {
            match word.literal()? {
                "--no-pager" | "-P" | "--no-optional-locks" => git.words = &git.words[1..],
                "-C" if git.directory.is_none() => {
                    git.directory = Some(git.words.get(1)?.literal()?);
                    git.words = &git.words[2..];
                }
                "--version" => break,
                option if option.starts_with('-') => return None,
                _ => break,
            }
        }
        Some(git)
    }

    /// Returns whether the call only reads, as far as the sub-command and its options say.
    pub fn reads(&self) -> bool {
        let [sub, args @ ..] = self.words else { return false };
        let sub = sub.text.as_str();
        if sub == "config" {
            return prints_config(args);
        }
        if let Some(row) = GIT_SUBCOMMANDS.reads.iter().find(|row| has(&row.subcommands, sub)) {
            return row.allows(args);
        }
        if has(&GIT_SUBCOMMANDS.lists.subcommands, sub) {
            return lists(args);
        }
        sub == "--version" && args.is_empty()
    }
}

/// Returns the reason why a call of `git` is asked about every time.
pub(super) fn every_time(command: &SimpleCommand) -> Option<String> {
    let said = command.brief();
    let Some(git) = Git::read(command.args()) else {
        return Some(format!("`{said}` has options that may change what git runs"));
    };
    let args = git.words.get(1..).unwrap_or_default();
    if git.words.first().is_some_and(|word| word.text == "config") && prints_config(args) {
        return None;
    }
    let row = GIT_SUBCOMMANDS.every_time.iter().find(|row| row.fits(git.words, args))?;
    Some(format!("`{said}` {}", row.effect))
}

impl EveryTime {
    fn fits(&self, words: &[Word], args: &[Word]) -> bool {
        let begins = words.len() >= self.words.len()
            && self.words.iter().zip(words).all(|(name, word)| word.text == *name);
        let any = self.options.is_empty() && self.prefixes.is_empty();
        let prefixed = |word: &Word| self.prefixes.iter().any(|it| word.text.starts_with(it));
        begins && (any || is_given(args, &self.options) || args.iter().any(prefixed))
    }
}

impl Reads {
    fn allows(&self, args: &[Word]) -> bool {
        let expected = self.then.as_ref().is_none_or(|then| {
            let options = args.iter().take_while(|word| matches!(&*word.text, "-v" | "--verbose"));
            has(then, args.get(options.count()).map_or("", |word| word.text.as_str()))
        });
        expected && !is_given(args, &self.unless)
    }
}

/// Returns `true` if a sub-command that can list names only lists them, because its arguments give no name to make,
/// move or delete.
fn lists(args: &[Word]) -> bool {
    let Lists { options: known, names: with_names, .. } = &GIT_SUBCOMMANDS.lists;
    let name = |word: &Word| word.text.split('=').next().unwrap_or_default().to_owned();
    let is_number = |text: &str| text.strip_prefix("-n").is_some_and(|n| n.parse::<u32>().is_ok());
    let (options, names): (Vec<_>, Vec<_>) =
        args.iter().map(name).partition(|arg| arg.starts_with('-'));
    let lists_names = options.iter().any(|option| with_names.contains(option));
    options.iter().all(|option| known.contains(option) || is_number(option))
        && (names.is_empty() || lists_names)
}

/// Returns whether `git config` only prints settings, and only from files that git itself would read.
fn prints_config(args: &[Word]) -> bool {
    let ConfigPrinting { prints, actions, options: known, values } = &GIT_SUBCOMMANDS.config;
    let Some(texts) = args.iter().map(Word::literal).collect::<Option<Vec<&str>>>() else {
        return false;
    };
    let (options, operands): (Vec<&str>, Vec<&str>) =
        texts.into_iter().partition(|text| text.starts_with('-'));
    let is_known = |text: &&str| {
        has(known, text) || values.iter().any(|option| text.starts_with(option.as_str()))
    };
    let action = operands.first().is_some_and(|first| has(actions, first));
    let prints = action || options.iter().any(|option| has(prints, option));
    prints && options.iter().all(is_known) && operands.len() <= 2
}
