//! Patterns of rules for command lines.
//!
//! A rule that allows is read narrowly: it allows only a command that surely fits. A rule that denies or asks also fits
//! the same command written in another way; if only running the command would tell whether the rule fits, the command
//! is asked about.

use regex::Regex;
use serde_json::Value;

use super::effect::{Certainty, RuleEffect};
use super::stable_json::stable;
use super::subject::Subject;
use crate::findings::AssessedCommand;
use tandem_shell::{Dynamic, Word};

/// Pattern of the commands that a rule is about.
#[derive(Debug, Clone)]
pub(super) enum CommandPattern {
    /// Commands that begin with the words of one of these prefixes.
    Prefixes(Vec<Vec<String>>),
    /// Commands that begin with the words of none of these prefixes.
    AllBut(Vec<Vec<String>>),
    /// Commands whose text this expression matches at the beginning.
    Regex(Regex),
}

impl CommandPattern {
    /// Returns whether the pattern names commands, and not only exceptions.
    pub(super) fn names(&self) -> bool {
        matches!(self, Self::Prefixes(_) | Self::Regex(_))
    }

    pub(super) fn matches(&self, subject: Subject<'_>, effect: RuleEffect) -> Certainty {
        let restricts = effect >= RuleEffect::Ask;
        match subject {
            Subject::Call => Certainty::No,
            Subject::Unclear(_) if matches!(self, Self::AllBut(_)) => is_certain(restricts),
            Subject::Line(line) => is_certain(self.matches_line(line, restricts)),
            // The commands of such a line are not known to be commands that a rule allows.
            Subject::Unclear(line) if !restricts || self.matches_line(line, true) => {
                is_certain(restricts)
            }
            Subject::Unclear(_) => Certainty::Perhaps,
            Subject::Command(command) if restricts => self.catches(command),
            Subject::Command(command) => is_certain(self.covers(command)),
        }
    }

    fn matches_line(&self, line: &str, restricts: bool) -> bool {
        match self {
            Self::Regex(regex) => regex.is_match(line),
            // The exceptions are compared with each command of the line.
            Self::AllBut(_) => false,
            Self::Prefixes(_) if restricts => false,
            Self::Prefixes(prefixes) => {
                let words: Vec<&str> = line.split_whitespace().collect();
                prefixes.iter().any(|prefix| words.starts_with(&borrowed(prefix)))
            }
        }
    }

    /// Returns whether a command surely fits, in its normalized form.
    fn covers(&self, command: &AssessedCommand) -> bool {
        let Some(form) = command.forms.first() else { return false };
        match self {
            Self::AllBut(_) => false,
            Self::Regex(regex) => regex.is_match(&written(form)),
            Self::Prefixes(prefixes) => covered(form, prefixes),
        }
    }

    /// Returns the certainty that a command fits, in any of its forms.
    fn catches(&self, command: &AssessedCommand) -> Certainty {
        if let Self::AllBut(prefixes) = self {
            return is_certain(!command.forms.first().is_some_and(|form| covered(form, prefixes)));
        }
        let caught = |form: &Vec<Word>| match self {
            Self::Regex(regex) if texts(form).iter().any(|text| regex.is_match(text)) => {
                Certainty::Yes
            }
            Self::Regex(_) if has_unknown_words(form) => Certainty::Perhaps,
            Self::Regex(_) | Self::AllBut(_) => Certainty::No,
            Self::Prefixes(prefixes) => {
                prefixes.iter().map(|prefix| begins(form, prefix)).max().unwrap_or(Certainty::No)
            }
        };
        let least = if command.hides { Certainty::Perhaps } else { Certainty::No };
        command.forms.iter().map(caught).max().unwrap_or(Certainty::No).max(least)
    }
}

/// Returns the certainty that a rule's pattern for arguments fits a call. For a command line, the pattern is
/// compared with each of its commands.
pub(super) fn args(
    pattern: &Regex,
    args: &Value,
    subject: Subject<'_>,
    effect: RuleEffect,
) -> Certainty {
    let with = |command: String| {
        let mut args = args.clone();
        args["command"] = command.into();
        pattern.is_match(&stable(&args))
    };
    let restricts = effect >= RuleEffect::Ask;
    match subject {
        Subject::Call | Subject::Line(_) => is_certain(pattern.is_match(&stable(args))),
        Subject::Unclear(_) if pattern.is_match(&stable(args)) => Certainty::Yes,
        Subject::Unclear(_) if restricts => Certainty::Perhaps,
        Subject::Unclear(_) => Certainty::No,
        Subject::Command(command) if restricts => {
            let mut texts = command.forms.iter().flat_map(|form| texts(form));
            if texts.any(with) {
                Certainty::Yes
            } else if command.hides || command.forms.iter().any(|form| has_unknown_words(form)) {
                Certainty::Perhaps
            } else {
                Certainty::No
            }
        }
        Subject::Command(command) => {
            is_certain(command.forms.first().is_some_and(|form| with(written(form))))
        }
    }
}

/// Returns whether a command surely begins with the words of one of these prefixes.
fn covered(form: &[Word], prefixes: &[Vec<String>]) -> bool {
    prefixes.iter().any(|prefix| {
        let words: Option<Vec<&str>> = form.iter().take(prefix.len()).map(Word::literal).collect();
        words.is_some_and(|words| words == borrowed(prefix))
    })
}

fn is_certain(yes: bool) -> Certainty {
    if yes { Certainty::Yes } else { Certainty::No }
}

fn borrowed(words: &[String]) -> Vec<&str> {
    words.iter().map(String::as_str).collect()
}

/// Returns a command as one text. A word is given as it was written if its text is not known, or may be taken for
/// several words.
fn written(form: &[Word]) -> String {
    form.iter().map(Word::plain).collect::<Vec<_>>().join(" ")
}

/// Returns a command in every spelling that a pattern may fit: with and without quotes, with and without the directory
/// of its program.
fn texts(form: &[Word]) -> Vec<String> {
    let bare = form.iter().map(|word| word.text.as_str()).collect::<Vec<_>>().join(" ");
    let mut texts = vec![written(form), bare];
    let name = form.first().map_or("", |word| word.text.as_str());
    let program = base(name);
    if program != name {
        texts.extend([0, 1].map(|at| match texts[at].split_once(' ') {
            Some((_, rest)) => format!("{program} {rest}"),
            None => program.clone(),
        }));
    }
    texts
}

/// Returns whether a command has words that are known only when it runs.
fn has_unknown_words(form: &[Word]) -> bool {
    form.iter().any(|word| word.dynamic > Dynamic::Number)
}

/// Returns the certainty that a command begins with these words; options may be anywhere.
fn begins(form: &[Word], prefix: &[String]) -> Certainty {
    let (Some((program, args)), Some((wanted, rest))) = (form.split_first(), prefix.split_first())
    else {
        return Certainty::No;
    };
    match program.literal() {
        None => return Certainty::Perhaps,
        Some(name) if !is_program(name, wanted) => return Certainty::No,
        Some(_) => {}
    }
    // A word that is known only when the command runs may be the word that the rule names.
    let known = args.iter().zip(rest).take_while(|(word, wanted)| word.literal() == Some(wanted));
    let next = args.get(known.count().min(rest.len().saturating_sub(1)));
    if !rest.is_empty() && next.is_some_and(|word| word.literal().is_none()) {
        return Certainty::Perhaps;
    }
    let (options, operands): (Vec<&String>, Vec<&String>) =
        rest.iter().partition(|word| word.starts_with('-'));
    let given = options.into_iter().map(|option| gives(args, option)).min();
    given.unwrap_or(Certainty::Yes).min(goes_on(args, &operands))
}

/// Returns the certainty that an option is given: as written, or by its letters among those of other options.
fn gives(args: &[Word], option: &str) -> Certainty {
    /// Maximum number of letters that count as several one-letter options. More letters are the name of one option.
    const MAX_JOINED_LETTERS: usize = 3;
    if args.iter().any(|word| word.text == option) {
        return Certainty::Yes;
    }
    let letters = option.trim_start_matches('-');
    let given = |letter: char| {
        let has = |word: &&Word| {
            let text = word.text.strip_prefix('-').filter(|text| !text.starts_with('-'));
            text.is_some_and(|text| text.contains(letter))
        };
        args.iter().any(|word| has(&word))
    };
    let is_letters = !option.starts_with("--") && (1..=MAX_JOINED_LETTERS).contains(&letters.len());
    if is_letters && letters.chars().all(given) { Certainty::Perhaps } else { Certainty::No }
}

/// Returns the certainty that these operands come first, options aside. A word after an option may be the value of the
/// option, or an operand.
fn goes_on(args: &[Word], operands: &[&String]) -> Certainty {
    let is_option = |word: &&Word| word.text.starts_with('-');
    let bare: Vec<_> = args.iter().filter(|word| !is_option(word)).map(Word::literal).collect();
    let same = bare.iter().zip(operands).all(|(text, wanted)| *text == Some(wanted));
    if bare.len() >= operands.len() && same {
        return Certainty::Yes;
    }
    let mut rest = bare.iter();
    let mut found = operands
        .iter()
        .map(|wanted| rest.any(|text| text.is_none_or(|text| text == wanted.as_str())));
    let begins_with_option = args.first().is_some_and(|word| is_option(&word));
    if begins_with_option && found.all(|found| found) { Certainty::Perhaps } else { Certainty::No }
}

/// Returns `true` if a program is the program that a rule names, in any directory and in any spelling.
fn is_program(text: &str, wanted: &str) -> bool {
    text == wanted || (!wanted.contains('/') && base(text) == wanted.to_lowercase())
}

/// Returns the name of a program without its directory and in lower case, because some file systems ignore case.
fn base(name: &str) -> String {
    let base = name.rsplit('/').next().unwrap_or(name).to_lowercase();
    base.strip_suffix(".exe").map(ToOwned::to_owned).unwrap_or(base)
}
