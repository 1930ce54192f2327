//! Words of a command line: their text without quotes, and the parts that are known only at run time.

/// One word of a command line.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Word {
    /// Word as written.
    pub source: String,
    /// Text without quotes, and without the parts that are known only at run time.
    pub text: String,
    /// Offset in `text` of the first `*`, `?` or `[` that matches file names.
    pub glob: Option<usize>,
    /// Kind of the parts that `text` leaves out.
    pub dynamic: Dynamic,
    /// `true` if the parts that `text` leaves out come from the input of a program: `xargs` inserts them.
    pub is_filled_in: bool,
}

/// Kind of the parts of a word that are known only at run time. A greater value leaves more unknown.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Dynamic {
    /// No such part: the word is known.
    #[default]
    No,
    /// A number: `$?`, `$#`, `$$`.
    Number,
    /// A text within one word.
    One,
    /// A text that may become any number of words.
    Many,
}

impl From<String> for Word {
    /// Returns a word whose text is known.
    fn from(text: String) -> Self {
        Self { source: text.clone(), text, ..Self::default() }
    }
}

impl Word {
    /// Returns a word of which nothing is known.
    pub(super) fn unknown(source: &str) -> Self {
        let source = source.to_owned();
        Self { source, dynamic: Dynamic::Many, is_filled_in: true, ..Self::default() }
    }

    /// Returns the text of the word, if the word is known and no pattern.
    pub fn literal(&self) -> Option<&str> {
        (self.dynamic == Dynamic::No && self.glob.is_none()).then_some(&self.text)
    }

    /// Returns whether the word is known, and is this text.
    pub fn is(&self, text: &str) -> bool {
        self.literal() == Some(text)
    }

    /// Returns the text of the word, or the word as written if the word is not known or a pattern, or if the text is
    /// empty or has blanks.
    pub fn plain(&self) -> &str {
        let is_plain = |text: &&str| !text.is_empty() && !text.contains(char::is_whitespace);
        self.literal().filter(is_plain).unwrap_or(&self.source)
    }

    /// Returns whether the word may become an option at run time that cannot be seen in it.
    pub(crate) fn may_be_option(&self) -> bool {
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
    pub(super) glob: Option<usize>,
    pub(super) dynamic: Dynamic,
    /// `true` if an unquoted `{` has been read.
    brace: bool,
    /// Offset of an unquoted `[` that has not been closed.
    bracket: Option<usize>,
}

impl Partial {
    pub(super) fn dynamic(&mut self, dynamic: Dynamic) {
        self.dynamic = self.dynamic.max(dynamic);
    }

    /// Adds an unquoted character.
    pub(super) fn bare(&mut self, c: char) {
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
pub(super) enum Quoting {
    None,
    /// Double quotes, or the body of a here-document.
    Double,
}

/// Returns whether an unquoted character ends a word.
pub(super) fn is_meta(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\n' | '|' | '&' | ';' | '(' | ')' | '<' | '>')
}

/// Returns whether a character may be part of the name of a variable.
pub(super) fn is_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}
