//! Words of a command line: quotes removed, and what only running would tell marked.

use super::brief;
use super::reader::{Read, Reader};

/// One word of a command line.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Word {
    /// As written.
    pub source: String,
    /// Without quotes; what only running would tell is left out.
    pub text: String,
    /// Offset in `text` of the first `*`, `?` or `[` that stands for file names.
    pub glob: Option<usize>,
    /// Part of the word that is not in `text`.
    pub dynamic: Dynamic,
}

/// Part of a word that only running would tell.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Dynamic {
    /// Nothing.
    #[default]
    No,
    /// A number: `$?`, `$#`, `$$`.
    Number,
    /// Some text.
    One,
    /// Some text, and of how many words it is.
    Many,
}

impl From<String> for Word {
    /// A word that says what it is.
    fn from(text: String) -> Self {
        Self { source: text.clone(), text, ..Self::default() }
    }
}

impl Word {
    /// A word of which nothing is known.
    pub(super) fn unknown(source: &str) -> Self {
        Self { source: source.to_owned(), dynamic: Dynamic::Many, ..Self::default() }
    }

    /// Returns its text, if the text is the whole word.
    pub fn literal(&self) -> Option<&str> {
        (self.dynamic == Dynamic::No && self.glob.is_none()).then_some(&self.text)
    }

    /// Returns whether this text is the whole word.
    pub fn is(&self, text: &str) -> bool {
        self.literal() == Some(text)
    }

    /// Returns its text; or the word as written, if that says more.
    pub fn plain(&self) -> &str {
        let is_plain = |text: &&str| !text.is_empty() && !text.contains(char::is_whitespace);
        self.literal().filter(is_plain).unwrap_or(&self.source)
    }

    /// Returns whether it may turn out to be an option that is not seen in it.
    pub fn may_be_option(&self) -> bool {
        match self.dynamic {
            Dynamic::No | Dynamic::Number => false,
            Dynamic::Many => true,
            Dynamic::One => {
                let known = self.source.split(['$', '`']).next().unwrap_or_default();
                let known = known.trim_start_matches(['"', '\'']);
                known.is_empty() || (known.starts_with('-') && !known.contains('='))
            }
        }
    }
}

/// A word as far as it has been read.
#[derive(Default)]
pub(super) struct Partial {
    pub(super) text: String,
    glob: Option<usize>,
    dynamic: Dynamic,
    /// An unquoted `{` has been seen.
    brace: bool,
    /// Offset of an unquoted `[` that has not been closed.
    bracket: Option<usize>,
}

impl Partial {
    pub(super) fn dynamic(&mut self, dynamic: Dynamic) {
        self.dynamic = self.dynamic.max(dynamic);
    }

    /// A character that no quote protects.
    fn bare(&mut self, c: char) {
        match c {
            '*' | '?' => self.glob = self.glob.or(Some(self.text.len())),
            '[' => self.bracket = self.bracket.or(Some(self.text.len())),
            ']' if self.bracket.is_some() => {
                self.glob = self.glob.min(self.bracket).or(self.bracket);
            }
            '{' => self.brace = true,
            ',' if self.brace => self.dynamic(Dynamic::Many),
            '.' if self.brace && self.text.ends_with('.') => self.dynamic(Dynamic::Many),
            '~' if self.text.is_empty() || self.text.ends_with(['=', ':']) => {
                self.dynamic(Dynamic::One);
            }
            _ => {}
        }
        self.text.push(c);
    }
}

/// Quotes around an expansion.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Quote {
    None,
    /// Double quotes, or the body of a here-document.
    Double,
}

/// Characters that end a word.
pub(super) fn is_meta(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\n' | '|' | '&' | ';' | '(' | ')' | '<' | '>')
}

impl Reader<'_> {
    /// Reads a word, which may be empty only if it is quoted.
    pub(super) fn word(&mut self) -> Read<Word> {
        let start = self.at;
        let mut word = Partial::default();
        while let Some(c) = self.peek() {
            match c {
                '<' | '>' if self.rest()[1..].starts_with('(') => {
                    self.at += 2;
                    self.substitution()?;
                    word.dynamic(Dynamic::One);
                }
                _ if is_meta(c) => break,
                '\'' => word.text.push_str(self.single_quoted()?),
                '"' => self.double_quoted(&mut word)?,
                '\\' => self.escape(&mut word)?,
                '`' => self.backquoted(Quote::None).map(|()| word.dynamic(Dynamic::Many))?,
                '$' => self.dollar(&mut word, Quote::None)?,
                _ => {
                    self.at += c.len_utf8();
                    word.bare(c);
                }
            }
        }
        let source = &self.text[start..self.at];
        if source.is_empty() {
            return Err(self.unexpected());
        }
        if source.starts_with('{') && source.ends_with('}') && self.rest().starts_with(['<', '>']) {
            return Err(format!("`{}` before a redirection", brief(source)));
        }
        let Partial { text, glob, dynamic, .. } = word;
        Ok(Word { source: source.to_owned(), text, glob, dynamic })
    }

    pub(super) fn escape(&mut self, word: &mut Partial) -> Read<()> {
        let next = self.rest()[1..].chars().next().ok_or("`\\` at the end")?;
        self.at += 1 + next.len_utf8();
        if next != '\n' {
            word.text.push(next);
        }
        Ok(())
    }

    pub(super) fn single_quoted(&mut self) -> Read<&str> {
        let body = &self.rest()[1..];
        let end = body.find('\'').ok_or("`'` is not closed")?;
        let start = self.at + 1;
        self.at = start + end + 1;
        Ok(&self.text[start..start + end])
    }

    pub(super) fn double_quoted(&mut self, word: &mut Partial) -> Read<()> {
        self.at += 1;
        loop {
            let c = self.peek().ok_or("`\"` is not closed")?;
            match c {
                '"' => {
                    self.at += 1;
                    return Ok(());
                }
                '\\' if self.rest()[1..].starts_with(['$', '`', '"', '\\', '\n']) => {
                    self.escape(word)?;
                }
                '`' => self.backquoted(Quote::Double).map(|()| word.dynamic(Dynamic::One))?,
                '$' => self.dollar(word, Quote::Double)?,
                _ => {
                    self.at += c.len_utf8();
                    word.text.push(c);
                }
            }
        }
    }

    /// Reads the commands in the body of a here-document, which ends at `end`.
    pub(super) fn document(&mut self, end: usize) -> Read<()> {
        let mut ignored = Partial::default();
        while self.at < end {
            match self.peek() {
                Some('\\') => self.escape(&mut ignored)?,
                Some('$') => self.dollar(&mut ignored, Quote::Double)?,
                Some('`') => self.backquoted(Quote::Double)?,
                Some(c) => self.at += c.len_utf8(),
                None => break,
            }
        }
        if self.at == end {
            Ok(())
        } else {
            Err("a here-document ends in a substitution".to_owned())
        }
    }

    /// Reads the name of a variable, if one is here.
    pub(super) fn name(&mut self) -> &str {
        let rest = self.rest();
        if rest.starts_with(|c: char| c.is_ascii_digit()) {
            let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
            self.at += end;
            return &self.text[self.at - end..self.at];
        }
        let end = rest.find(|c| !is_name(c)).unwrap_or(rest.len());
        self.at += end;
        &self.text[self.at - end..self.at]
    }
}

pub(super) fn is_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}
