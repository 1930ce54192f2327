//! Expansions: `$` and backquotes.

use super::Step;
use super::reader::{Read, Reader};
use super::word::{Dynamic, Partial, Quote, is_name};

impl Reader<'_> {
    /// Reads what `$` begins, here and in the body of a here-document.
    pub(super) fn dollar(&mut self, word: &mut Partial, quote: Quote) -> Read<()> {
        let next = self.rest()[1..].chars().next();
        let text = if quote == Quote::Double { Dynamic::One } else { Dynamic::Many };
        match next {
            Some('(') if self.rest().starts_with("$((") => {
                self.arithmetic()?;
                word.dynamic(Dynamic::Number);
            }
            Some('(') => {
                self.at += 2;
                self.substitution()?;
                word.dynamic(text);
            }
            Some('{') => {
                let start = self.at;
                self.deeper(|reader| reader.parameter(quote))?;
                // `"${@}"` is as many words as there are arguments.
                let many = self.text[start..self.at].contains('@');
                word.dynamic(if many { Dynamic::Many } else { text });
            }
            Some('\'') if quote == Quote::None => self.ansi_c(word)?,
            // Looked up in a catalogue of translations.
            Some('"') if quote == Quote::None => {
                self.at += 1;
                self.double_quoted(word)?;
                word.dynamic(Dynamic::One);
            }
            Some('[') => return Err("arithmetic in `$[`".to_owned()),
            // Bash removes the line break first, and then `$` may begin something.
            Some('\\') if self.rest().starts_with("$\\\n") => {
                return Err("a line break after `$`".to_owned());
            }
            Some('?' | '#' | '$') => {
                self.at += 2;
                word.dynamic(Dynamic::Number);
            }
            Some('@') => {
                self.at += 2;
                word.dynamic(Dynamic::Many);
            }
            Some(c) if "*!-".contains(c) || c.is_ascii_digit() => {
                self.at += 2;
                word.dynamic(text);
            }
            Some(c) if is_name(c) => {
                self.at += 1;
                self.name();
                word.dynamic(text);
            }
            _ => {
                self.at += 1;
                word.text.push('$');
            }
        }
        Ok(())
    }

    /// Reads `$((…))` of numbers alone. Names are not read: bash evaluates their values as
    /// arithmetic in turn, and a value may hold a command.
    fn arithmetic(&mut self) -> Read<()> {
        let body = &self.rest()[3..];
        let mut open = 0usize;
        for (at, c) in body.char_indices() {
            match c {
                ')' if open == 0 && body[at..].starts_with("))") => {
                    self.at += 3 + at + 2;
                    return Ok(());
                }
                ')' if open == 0 => break,
                '(' => open += 1,
                ')' => open -= 1,
                '0'..='9' | ' ' | '\t' => {}
                _ if "+-*/%=!&|^~?:".contains(c) => {}
                _ => break,
            }
        }
        Err("arithmetic with more than numbers".to_owned())
    }

    /// Reads `${…}`.
    fn parameter(&mut self, quote: Quote) -> Read<()> {
        let unknown = || "a form of `${…}` that may do more than read a variable".to_owned();
        self.at += 2;
        let length = self.rest().starts_with('#') && !self.rest().starts_with("#}");
        self.at += usize::from(length);
        if self.name().is_empty() {
            let special = self.peek().filter(|c| "*@?$!-#".contains(*c)).ok_or_else(unknown)?;
            self.at += special.len_utf8();
        }
        // Elements of an array: all, or one by its number.
        let index = self.rest().strip_prefix('[').and_then(|rest| rest.split_once(']'));
        if let Some((index, after)) = index
            && (index == "@" || index == "*" || index.parse::<u16>().is_ok())
        {
            self.at = self.text.len() - after.len();
        }
        let rest = self.rest();
        if rest.starts_with('}') {
            self.at += 1;
            return Ok(());
        }
        // `${x:1:2}`: arithmetic, and so only with numbers.
        let range = rest.trim_start_matches(|c: char| c.is_ascii_digit() || ": -".contains(c));
        if rest.starts_with(':') && range.starts_with('}') {
            self.at = self.text.len() - range.len() + 1;
            return Ok(());
        }
        let operator = rest.strip_prefix(':').unwrap_or(rest);
        let allowed = if operator.len() == rest.len() { "-+?#%/^," } else { "-+?" };
        if length || !operator.starts_with(|c| allowed.contains(c)) {
            return Err(unknown());
        }
        self.at = self.text.len() - operator.len() + 1;
        let mut ignored = Partial::default();
        loop {
            let c = self.peek().ok_or("`${` is not closed")?;
            match c {
                '}' => {
                    self.at += 1;
                    return Ok(());
                }
                // Whether these quote depends on the operator and on the quotes around.
                '\'' | '"' if quote == Quote::Double => return Err(unknown()),
                '\'' => drop(self.single_quoted()?),
                '"' => self.double_quoted(&mut ignored)?,
                '\\' => self.escape(&mut ignored)?,
                '`' => self.backquoted(quote)?,
                '$' => self.dollar(&mut ignored, quote)?,
                '{' | '(' | '<' | '>' | '[' => return Err(unknown()),
                _ => self.at += c.len_utf8(),
            }
        }
    }

    /// Reads `$'…'`.
    fn ansi_c(&mut self, word: &mut Partial) -> Read<()> {
        self.at += 2;
        loop {
            let c = self.peek().ok_or("`$'` is not closed")?;
            self.at += c.len_utf8();
            match c {
                '\'' => return Ok(()),
                '\\' => {
                    let escaped = self.peek().ok_or("`$'` is not closed")?;
                    self.at += escaped.len_utf8();
                    match escaped {
                        'n' => word.text.push('\n'),
                        't' => word.text.push('\t'),
                        'r' => word.text.push('\r'),
                        '\\' | '\'' | '"' => word.text.push(escaped),
                        // Written so that it cannot be read at a glance: not worth decoding.
                        _ => word.dynamic(Dynamic::One),
                    }
                }
                _ => word.text.push(c),
            }
        }
    }

    /// Reads `` `…` ``, whose text is unescaped before bash reads it.
    pub(super) fn backquoted(&mut self, quote: Quote) -> Read<()> {
        let start = self.at;
        let mut inner = String::new();
        let mut chars = self.rest()[1..].char_indices();
        while let Some((at, c)) = chars.next() {
            if c == '`' {
                self.at = start + 1 + at + 1;
                self.apart.push(start..self.at);
                self.push(Step::Enter)?;
                self.read_in_turn(&inner)?;
                return self.push(Step::Leave);
            }
            if c != '\\' {
                inner.push(c);
                continue;
            }
            match chars.next() {
                Some((_, c @ ('`' | '\\' | '$'))) => inner.push(c),
                Some((_, '"')) if quote == Quote::Double => break,
                Some((_, c)) => inner.extend(['\\', c]),
                None => break,
            }
        }
        Err("a backquote is not closed, or `\\\"` is between backquotes".to_owned())
    }
}
