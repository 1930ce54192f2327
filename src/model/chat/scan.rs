//! Finds the end of a JSON value that arrives in pieces, looking at each byte once.

/// A scanner of one JSON value.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct JsonScanner {
    state: ScanState,
    /// Number of open brackets.
    depth: usize,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum ScanState {
    #[default]
    NotBegun,
    Open,
    InString,
    /// Right after a backslash in a string.
    Escaped,
    Complete,
}

impl JsonScanner {
    /// Returns `true` if the value has begun and not ended. The end of a number is never found.
    pub(super) fn is_within_value(self) -> bool {
        !matches!(self.state, ScanState::NotBegun | ScanState::Complete)
    }

    pub(super) fn is_complete(self) -> bool {
        self.state == ScanState::Complete
    }

    /// Scans more text; returns the number of bytes that belong to the value.
    pub(super) fn advance(&mut self, text: &str) -> usize {
        if self.is_complete() {
            return 0;
        }
        for (at, byte) in text.bytes().enumerate() {
            self.step(byte);
            if self.is_complete() {
                return at + 1;
            }
        }
        text.len()
    }

    fn step(&mut self, byte: u8) {
        self.state = match (self.state, byte) {
            (ScanState::InString, b'\\') => ScanState::Escaped,
            (ScanState::InString, b'"') => self.closed(),
            (ScanState::InString | ScanState::Escaped, _) | (_, b'"') => ScanState::InString,
            (_, b'{' | b'[') => {
                self.depth += 1;
                ScanState::Open
            }
            (_, b'}' | b']') => {
                self.depth = self.depth.saturating_sub(1);
                self.closed()
            }
            (ScanState::NotBegun, _) if byte.is_ascii_whitespace() => ScanState::NotBegun,
            _ => ScanState::Open,
        };
    }

    /// Returns the state after a bracket or a quote has been closed.
    fn closed(self) -> ScanState {
        if self.depth == 0 { ScanState::Complete } else { ScanState::Open }
    }
}

#[cfg(test)]
mod tests {
    use super::JsonScanner;

    #[track_caller]
    fn check(text: &str, expected: Option<usize>) {
        let mut scan = JsonScanner::default();
        let taken = scan.advance(text);
        assert_eq!(scan.is_complete().then_some(taken), expected, "{text}");
        let mut single = JsonScanner::default();
        let taken: usize = text.chars().map(|c| single.advance(c.encode_utf8(&mut [0; 4]))).sum();
        assert_eq!(single.is_complete().then_some(taken), expected, "{text} byte by byte");
    }

    #[test]
    fn a_value_ends_where_its_last_bracket_or_quote_is() {
        check("{}", Some(2));
        check(" {\"a\": [1, {}]} }", Some(15));
        check("{\"a\": \"}\\\"{\"}", Some(13));
        check("\"{\\\"a\\\":1}\"x", Some(11));
        check("[1]", Some(3));
        check("{\"日本\": \"}\"}", Some(15));
        for open in ["", " ", "{", "{\"a\": \"}", "\"", "12", "null", "[[]"] {
            check(open, None);
        }
    }
}
