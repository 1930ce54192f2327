//! Words of a command line: their text without quotes, and the parts that only running would tell.

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
    /// `true` if that part comes from another program's input: `xargs` puts it in.
    pub is_filled_in: bool,
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
        let source = source.to_owned();
        Self { source, dynamic: Dynamic::Many, is_filled_in: true, ..Self::default() }
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
    pub(super) glob: Option<usize>,
    pub(super) dynamic: Dynamic,
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

/// Characters that end a word.
pub(super) fn is_meta(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\n' | '|' | '&' | ';' | '(' | ')' | '<' | '>')
}

/// Characters of the name of a variable.
pub(super) fn is_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}
