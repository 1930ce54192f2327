//! Finds the end of a JSON value that arrives in pieces, looking at each byte once.

/// How far a value has come.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Scan {
    begun: bool,
    depth: usize,
    in_string: bool,
    escaped: bool,
    complete: bool,
}

impl Scan {
    /// Whether the value has begun and not ended. A number never ends.
    pub(super) fn is_open(self) -> bool {
        self.begun && !self.complete
    }

    pub(super) fn is_complete(self) -> bool {
        self.complete
    }

    /// Takes more of it; how many bytes belong to the value.
    pub(super) fn take(&mut self, text: &str) -> usize {
        if self.complete {
            return 0;
        }
        for (at, byte) in text.bytes().enumerate() {
            self.step(byte);
            if self.complete {
                return at + 1;
            }
        }
        text.len()
    }

    fn step(&mut self, byte: u8) {
        if self.in_string {
            match byte {
                _ if self.escaped => self.escaped = false,
                b'\\' => self.escaped = true,
                b'"' => {
                    self.in_string = false;
                    self.complete = self.depth == 0;
                }
                _ => {}
            }
            return;
        }
        self.begun |= !byte.is_ascii_whitespace();
        match byte {
            b'"' => self.in_string = true,
            b'{' | b'[' => self.depth += 1,
            b'}' | b']' => {
                self.depth = self.depth.saturating_sub(1);
                self.complete = self.depth == 0;
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Scan;

    #[track_caller]
    fn check(text: &str, expected: Option<usize>) {
        let mut scan = Scan::default();
        let taken = scan.take(text);
        assert_eq!(scan.is_complete().then_some(taken), expected, "{text}");
        let mut single = Scan::default();
        let taken: usize = text.chars().map(|c| single.take(c.encode_utf8(&mut [0; 4]))).sum();
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
