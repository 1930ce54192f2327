//! Simple commands: assignments, words and redirections, in any order.

use super::reader::{Document, Read, Reader};
use super::word::{Dynamic, Word, is_meta};
use super::{Assignment, Command, Direction, Redirect, Step, brief};

/// Words that are no names of commands.
const RESERVED: &[&str] = &[
    "!", "[[", "case", "coproc", "do", "done", "elif", "else", "esac", "fi", "for", "function",
    "if", "in", "select", "then", "time", "until", "while", "{", "}",
];

/// Longest first.
const REDIRECTS: &[&str] =
    &["&>>", "<<<", "<<-", "&>", "<<", "<>", "<&", ">>", ">&", ">|", "<", ">"];

impl Reader<'_> {
    /// Reads the redirections of the group of commands whose steps begin with `first`.
    pub(super) fn redirects_of_group(&mut self, first: usize) -> Read<()> {
        let mut group = Command::default();
        loop {
            self.blanks();
            if !self.redirect(&mut group)? {
                break;
            }
        }
        if group.redirects.is_empty() {
            return Ok(());
        }
        // If one fails, the group does not run.
        for step in &mut self.steps[first..] {
            if let Step::Command(command) = step {
                command.conditional = true;
            }
        }
        self.emit(group)
    }

    pub(super) fn simple(&mut self) -> Read<()> {
        let mut command = Command::default();
        let start = self.at;
        loop {
            self.blanks();
            if self.redirect(&mut command)? {
                continue;
            }
            if self.peek().is_none_or(is_meta) && !self.at_process() {
                break;
            }
            if command.words.is_empty() && self.assignment(&mut command)? {
                continue;
            }
            let begin = self.at;
            let word = self.word()?;
            if !command.words.is_empty() {
                command.words.push(word);
                continue;
            }
            if RESERVED.contains(&word.text.as_str()) {
                self.at = begin;
                return Err(self.unexpected());
            }
            self.begins.insert(begin);
            command.words.push(word);
            self.blanks();
            if begin == start && self.take("(") {
                self.blanks();
                self.expect(")")?;
                return self.function_body(command.words.remove(0).source);
            }
        }
        if command.words.is_empty()
            && command.assignments.is_empty()
            && command.redirects.is_empty()
        {
            // Only `2>&1` and the like, or nothing at all.
            return if self.at == start { Err(self.unexpected()) } else { Ok(()) };
        }
        self.emit(command)
    }

    /// Reads `name=value`, if one is here.
    fn assignment(&mut self, command: &mut Command) -> Read<bool> {
        let start = self.at;
        let name = self.name().to_owned();
        if name.is_empty() || name.starts_with(|c: char| c.is_ascii_digit()) {
            self.at = start;
            return Ok(false);
        }
        if self.rest().starts_with('[') {
            return Err("`[` after a name, where a command could be".to_owned());
        }
        if !self.take("+=") && !self.take("=") {
            self.at = start;
            return Ok(false);
        }
        if self.take("(") {
            self.elements()?;
        } else if self.peek().is_some_and(|c| !is_meta(c)) || self.at_process() {
            self.word()?;
        }
        let source = self.text[start..self.at].to_owned();
        command.assignments.push(Assignment { name, source });
        Ok(true)
    }

    /// Reads `…)` of `name=(…)`.
    fn elements(&mut self) -> Read<()> {
        loop {
            self.lines()?;
            if self.take(")") {
                return Ok(());
            }
            if self.rest().starts_with('[') && !is_plain_element(self.rest()) {
                return Err("an element of an array whose number is not plain".to_owned());
            }
            self.word()?;
        }
    }

    /// Returns whether `<(` or `>(` is here, which begins a word.
    pub(super) fn at_process(&self) -> bool {
        self.rest().starts_with("<(") || self.rest().starts_with(">(")
    }

    /// Reads a redirection, if one is here.
    fn redirect(&mut self, command: &mut Command) -> Read<bool> {
        let digits = self.rest().trim_start_matches(|c: char| c.is_ascii_digit());
        let number = self.rest().len() - digits.len();
        let Some(operator) = REDIRECTS.iter().find(|operator| digits.starts_with(**operator))
        else {
            return Ok(false);
        };
        let process = operator.len() == 1 && digits[1..].starts_with('(');
        if process || (number > 0 && operator.starts_with('&')) {
            return Ok(false);
        }
        if number > 1 && self.around.plain_shell {
            return Err("a redirection that `sh` may read as a word".to_owned());
        }
        self.begins.insert(self.at + number);
        self.at += number + operator.len();
        self.blanks();
        let target = match *operator {
            "<<" | "<<-" => self.delimiter(*operator == "<<-")?,
            _ => self.word()?,
        };
        let direction = match *operator {
            "<<" | "<<-" | "<<<" => Direction::Text,
            "<" => Direction::Read,
            ">&" | "<&" if is_standard(&target) => return Ok(true),
            // It is no file, but may not be open, and then the command does not run.
            ">&" | "<&" if is_descriptor(&target) => Direction::Text,
            "<&" => return Err(format!("`<&{}`", brief(&target.source))),
            _ => Direction::Write,
        };
        command.redirects.push(Redirect { direction, target });
        Ok(true)
    }

    /// Reads the delimiter of a here-document; what comes back stands for its text.
    fn delimiter(&mut self, tabs: bool) -> Read<Word> {
        let word = self.word()?;
        let plain = |c: char| !"$`".contains(c);
        if word.dynamic != Dynamic::No
            || !word.source.chars().all(plain)
            || word.text.contains('\n')
        {
            return Err(format!("the here-document's delimiter `{}`", brief(&word.source)));
        }
        let quoted = word.source.contains(['\'', '"', '\\']);
        self.await_document(Document { delimiter: word.text, tabs, quoted })?;
        // The text is still to come; whether all that is left has an expansion is close enough.
        if !quoted && self.rest().contains(['$', '`']) {
            return Ok(Word::unknown(&word.source));
        }
        Ok(Word { source: word.source, ..Word::default() })
    }
}

/// Returns whether a text that begins with `[` gives an array's element by its number, or is a pattern for
/// files. Anything else before `]=` bash evaluates as arithmetic, and the commands in it.
fn is_plain_element(text: &str) -> bool {
    let Some((inside, after)) = text[1..].split_once(']') else { return false };
    let is_element = after.starts_with('=') || after.starts_with("+=");
    if is_element {
        return !inside.is_empty() && inside.chars().all(|c| c.is_ascii_digit());
    }
    let plain = |c: char| c.is_ascii_alphanumeric() || "!^-_.".contains(c);
    !inside.is_empty() && inside.chars().all(plain) && !after.starts_with(['\\', '+'])
}

/// Returns whether the target of `>&` or `<&` is always open, or closes an open file.
fn is_standard(word: &Word) -> bool {
    matches!(word.literal(), Some("0" | "1" | "2" | "-"))
}

/// Returns whether `>&` or `<&` is followed by the number of an open file, and not by a file's name.
fn is_descriptor(word: &Word) -> bool {
    let digits = word.literal().map(|text| text.strip_suffix('-').unwrap_or(text));
    digits.is_some_and(|digits| digits.chars().all(|c| c.is_ascii_digit()))
}
