//! The beginning of a command line that was written to a program without its end, as a shell reads the text.

/// Beginning of the line that the next text continues. A line goes on after a backslash, and in quotes or a substitution
/// that is still open.
#[derive(Default)]
pub(super) struct UnfinishedLine {
    bytes: Vec<u8>,
    /// Quotes and substitutions around the next byte, the innermost last.
    open: Vec<Opened>,
    /// After a backslash, which takes the meaning of the next byte: the value of `is_in_word` before the backslash.
    escaped: Option<bool>,
    /// `true` up to the end of a line on which a comment has begun.
    is_comment: bool,
    /// `true` if the last byte belongs to a word. A comment begins outside of words only.
    is_in_word: bool,
    /// `true` if the last byte is a `$` that gives the next byte another meaning.
    is_after_dollar: bool,
}

/// Text between two marks.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Opened {
    /// `'...'`
    Single,
    /// `$'...'`, in which a backslash has a meaning.
    DollarSingle,
    /// `"..."`
    Double,
    /// A command between two backquotes.
    Backquotes,
    /// `$(...)`, or `(...)` in another text.
    Parentheses,
    /// `${...}`
    Braces,
}

impl UnfinishedLine {
    /// Returns the bytes of the line so far.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Adds a text that was written. Of a longer line, the last `most` bytes are kept.
    pub(super) fn push(&mut self, written: &[u8], most: usize) {
        for byte in written {
            self.bytes.push(*byte);
            if self.ends_line(*byte) {
                self.bytes.clear();
            }
        }
        let over = self.bytes.len().saturating_sub(most);
        self.bytes.drain(..over);
    }

    /// Follows one byte. Returns whether the byte ends the line.
    fn ends_line(&mut self, byte: u8) -> bool {
        let is_in_word = std::mem::replace(&mut self.is_in_word, true);
        let is_after_dollar = std::mem::take(&mut self.is_after_dollar);
        if let Some(was_in_word) = self.escaped.take() {
            // A shell removes a backslash with the line end after it.
            self.is_in_word = byte != b'\n' || was_in_word;
            return false;
        }
        if self.is_comment && byte != b'\n' {
            return false;
        }
        self.is_comment = false;
        let innermost = self.open.last().copied();
        match (innermost, byte) {
            (Some(Opened::Single | Opened::DollarSingle), b'\'')
            | (Some(Opened::Double), b'"')
            | (Some(Opened::Backquotes), b'`')
            | (Some(Opened::Parentheses), b')')
            | (Some(Opened::Braces), b'}') => _ = self.open.pop(),
            (Some(Opened::Single), _) => {}
            (_, b'\\') => self.escaped = Some(is_in_word),
            (Some(Opened::DollarSingle), _) => {}
            (_, b'`') => self.open.push(Opened::Backquotes),
            (_, b'"') => self.open.push(Opened::Double),
            (_, b'(') if is_after_dollar => self.open.push(Opened::Parentheses),
            (_, b'{') if is_after_dollar => self.open.push(Opened::Braces),
            // `$$` is a variable.
            (_, b'$') => self.is_after_dollar = !is_after_dollar,
            (Some(Opened::Double), _) => {}
            (_, b'\'') if is_after_dollar => self.open.push(Opened::DollarSingle),
            (_, b'\'') => self.open.push(Opened::Single),
            (Some(_), b'(') => self.open.push(Opened::Parentheses),
            (None | Some(Opened::Parentheses), b'#') if !is_in_word => self.is_comment = true,
            (None, b'\n') => {
                self.is_in_word = false;
                return true;
            }
            (_, b' ' | b'\t' | b'\n' | b';' | b'&' | b'|' | b'(' | b')' | b'<' | b'>') => {
                self.is_in_word = false;
            }
            _ => {}
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::UnfinishedLine;

    #[track_caller]
    fn check(texts: &[&str], expected: &str) {
        let mut line = UnfinishedLine::default();
        for text in texts {
            line.push(text.as_bytes(), 100);
        }
        assert_eq!(std::str::from_utf8(line.bytes()).unwrap(), expected, "{texts:?}");
    }

    #[test]
    fn a_line_is_unfinished_until_its_end_is_written() {
        check(&[], "");
        check(&["ls\n"], "");
        check(&["ls\nrm", " -r"], "rm -r");
        check(&["rm", " -r\n", "x"], "x");
        check(&["rm \\\n", "-r"], "rm \\\n-r");
        check(&["rm \\\n", "-r\n"], "");
        check(&["rm \\\\\n", "-r"], "-r");
        check(&["\n\n"], "");
    }

    #[test]
    fn a_line_goes_on_while_a_quote_is_open() {
        check(&["echo \"\n", "it's\n"], "echo \"\nit's\n");
        check(&["echo \"\n", "\"; ls\n"], "");
        check(&["echo '\\\n", "'\n"], "");
        check(&["echo \"\\\"\n", "x"], "echo \"\\\"\nx");
        check(&["echo $'\\'\n", "'\n"], "");
        check(&["echo $'\\'\n"], "echo $'\\'\n");
        check(&["echo \\'\n"], "");
        check(&["echo $$'\\' '\n"], "echo $$'\\' '\n");
        check(&["echo `\n", "`\n"], "");
        check(&["echo `\n"], "echo `\n");
    }

    #[test]
    fn quotes_in_substitutions_are_quotes_of_their_own() {
        check(&["echo \"$(echo \"\n"], "echo \"$(echo \"\n");
        check(&["echo \"$(echo \"\n", "\")\"\n"], "");
        check(&["echo \"$((1 + (2)))\"\n"], "");
        check(&["echo $(\n"], "echo $(\n");
        check(&["echo ${x:-\n", "# }\n"], "");
        check(&["echo \"$\"\n", "(\n"], "");
    }

    #[test]
    fn a_quote_in_a_comment_is_none() {
        check(&["# it's\n"], "");
        check(&["ls # it's\n"], "");
        check(&["ls;#\"\n"], "");
        check(&["echo a#'\n"], "echo a#'\n");
        check(&["echo \\ #'\n"], "echo \\ #'\n");
        check(&["echo \"#\"'\n"], "echo \"#\"'\n");
        check(&["# it\\\n", "x"], "x");
        check(&["ls \\\n# it's\n"], "");
        check(&["ls\\\n# it's\n"], "ls\\\n# it's\n");
    }

    #[test]
    fn of_a_long_line_the_end_is_kept() {
        let text = format!("echo '{}\n", "x".repeat(120));
        check(&[&text, "y"], &format!("{}\ny", "x".repeat(98)));
        check(&[&text, "'\n", "z"], "z");
    }
}
