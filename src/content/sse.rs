//! Splitting of a byte stream into server-sent events or into lines of JSON, with bounded memory and in linear time.

use std::borrow::Cow;
use std::fmt;

use memchr::memchr2;

/// Maximum capacity in bytes that an empty buffer keeps; a larger buffer is freed.
const MAX_IDLE_CAPACITY: usize = 64 * 1024;

/// Maximum length of an id, in bytes.
const ID_BYTES: usize = 512;

/// A parser of events that arrive in pieces, which may be cut at any byte.
pub struct Events {
    buffer: Vec<u8>,
    /// Start of the first block that has not been returned.
    block: usize,
    /// Start of the line whose end has not been found.
    line: usize,
    /// Position up to which that line has been searched.
    searched: usize,
    /// `true` if the last line ended in a carriage return: a line feed right after it belongs to the same line end.
    after_return: bool,
    /// `true` if each line is an event.
    lines: bool,
    max: usize,
}

/// One event. The event's name is not read, since all APIs repeat the name in the data.
#[derive(Debug, PartialEq, Eq)]
pub struct ServerEvent<'a> {
    /// The data lines of the event, joined by line feeds.
    pub data: Cow<'a, [u8]>,
    /// Id of the event, with which a client can resume the stream; `None` if there is no id, or if the id is too long,
    /// has control characters or is not UTF-8.
    pub id: Option<&'a str>,
}

/// Reason why there are no more events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SseError {
    /// One event is longer than this many bytes.
    TooLong(usize),
    /// The stream ended within an event.
    Cut,
}

impl fmt::Display for SseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLong(max) => write!(f, "one event is longer than {max} bytes"),
            Self::Cut => f.write_str("the stream ended within an event"),
        }
    }
}

impl std::error::Error for SseError {}

impl Events {
    /// Returns a parser of server-sent events of at most `max` bytes each.
    pub fn new(max: usize) -> Self {
        let buffer = Vec::new();
        Self { buffer, block: 0, line: 0, searched: 0, after_return: false, lines: false, max }
    }

    /// Returns a parser that reads each line of JSON as an event, of at most `max` bytes.
    pub fn lines(max: usize) -> Self {
        Self { lines: true, ..Self::new(max) }
    }

    /// Adds bytes that have arrived. The caller should take out all events before adding more bytes.
    pub fn push(&mut self, bytes: &[u8]) {
        // The bytes of returned blocks are dropped only once they are half of the buffer. No more bytes are moved than
        // dropped, so each byte is moved once on average.
        if self.block > 0 && self.block >= self.buffer.len() / 2 {
            self.buffer.drain(..self.block);
            self.line -= self.block;
            self.searched -= self.block;
            self.block = 0;
        }
        if self.buffer.is_empty() && self.buffer.capacity() > MAX_IDLE_CAPACITY {
            self.buffer = Vec::new();
        }
        self.buffer.extend_from_slice(bytes);
    }

    /// Returns the next complete event; `None` if more bytes are needed.
    pub fn next_event(&mut self) -> Result<Option<ServerEvent<'_>>, SseError> {
        while let Some(block) = self.next_block()? {
            // This check comes before `event`, whose result borrows the buffer until the caller is done, so the loop
            // could not go on. A block may have comments alone.
            if has_data(&self.buffer[block.clone()]) {
                return Ok(event(&self.buffer[block]));
            }
        }
        Ok(None)
    }

    /// Returns the last event when the stream has ended: none, or an error message as bare JSON without a line end. The
    /// stream must not end within another event.
    pub fn end(&mut self) -> Result<Option<ServerEvent<'_>>, SseError> {
        let rest = &self.buffer[self.block..];
        self.block = self.buffer.len();
        if is_bare_json(rest) {
            return Ok(event(rest));
        }
        let nothing = |line: &[u8]| line.trim_ascii().is_empty() || line.starts_with(b":");
        if lines(rest).all(nothing) { Ok(None) } else { Err(SseError::Cut) }
    }

    /// Returns the range of the next complete block: the lines before an empty line, or a single line if each line is
    /// an event. Searches each byte once.
    fn next_block(&mut self) -> Result<Option<std::ops::Range<usize>>, SseError> {
        loop {
            if self.after_return && self.searched < self.buffer.len() {
                self.after_return = false;
                self.skip_line_feed();
            }
            let found = memchr2(b'\n', b'\r', &self.buffer[self.searched..]);
            let end = found.map_or(self.buffer.len(), |at| self.searched + at);
            // The limit also holds for a block whose end has not arrived, so an endless line cannot fill the memory.
            if end - self.block > self.max {
                return Err(SseError::TooLong(self.max));
            }
            self.searched = end;
            if found.is_none() {
                return Ok(None);
            }
            self.after_return = self.buffer[end] == b'\r';
            self.searched += 1;
            let ends = self.lines || end == self.line;
            self.line = self.searched;
            if ends {
                let block = self.block..end;
                self.block = self.line;
                return Ok(Some(block));
            }
        }
    }

    /// Skips a line feed that belongs to the carriage return before it, which may have come in an earlier piece.
    fn skip_line_feed(&mut self) {
        if self.buffer[self.searched] != b'\n' {
            return;
        }
        let between_blocks = self.block == self.line;
        self.searched += 1;
        self.line = self.searched;
        if between_blocks {
            self.block = self.line;
        }
    }
}

/// Returns `true` for JSON without framing, with which some servers report an error within a stream.
fn is_bare_json(block: &[u8]) -> bool {
    matches!(block.trim_ascii_start().first(), Some(b'{' | b'['))
}

/// Returns `true` if a block is an event. A block with empty data is none: some gateways send it to keep a connection
/// alive, and JSON is never empty.
fn has_data(block: &[u8]) -> bool {
    let says =
        |line: &[u8]| matches!(field(line), (b"data", value) if !value.trim_ascii().is_empty());
    is_bare_json(block) || lines(block).any(says)
}

fn event(block: &[u8]) -> Option<ServerEvent<'_>> {
    if is_bare_json(block) {
        return Some(ServerEvent { data: Cow::Borrowed(block.trim_ascii()), id: None });
    }
    let (mut data, mut id) = (None::<Cow<'_, [u8]>>, None);
    for line in lines(block) {
        match field(line) {
            (b"data", value) => match &mut data {
                None => data = Some(Cow::Borrowed(value)),
                Some(data) => {
                    let data = data.to_mut();
                    data.push(b'\n');
                    data.extend_from_slice(value);
                }
            },
            (b"id", value)
                if value.len() <= ID_BYTES && !value.iter().any(u8::is_ascii_control) =>
            {
                id = str::from_utf8(value).ok();
            }
            _ => {}
        }
    }
    Some(ServerEvent { data: data?, id })
}

fn field(line: &[u8]) -> (&[u8], &[u8]) {
    let line = line.strip_prefix("\u{feff}".as_bytes()).unwrap_or(line);
    let Some(colon) = memchr::memchr(b':', line) else { return (line, b"") };
    let value = &line[colon + 1..];
    (&line[..colon], value.strip_prefix(b" ").unwrap_or(value))
}

/// Returns the lines of a block, which may end in a line feed, a carriage return, or both.
fn lines(block: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = block;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let end = memchr2(b'\n', b'\r', rest).unwrap_or(rest.len());
        let line = &rest[..end];
        let ended = if rest[end..].starts_with(b"\r\n") { end + 2 } else { end + 1 };
        rest = rest.get(ended..).unwrap_or_default();
        Some(line)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks that the same events come out however the input is cut into pieces.
    #[track_caller]
    fn check(input: &str, expected: &[&str]) {
        for size in 1..=input.len().max(1) {
            assert_eq!(events(input, size), expected, "in pieces of {size}");
        }
    }

    fn events(input: &str, size: usize) -> Vec<String> {
        let mut events = Events::new(1000);
        let mut all = Vec::new();
        let text = |event: ServerEvent<'_>| String::from_utf8(event.data.into_owned()).unwrap();
        for piece in input.as_bytes().chunks(size) {
            events.push(piece);
            loop {
                match events.next_event() {
                    Ok(Some(event)) => all.push(text(event)),
                    Ok(None) => break,
                    Err(broken) => {
                        all.push(broken.to_string());
                        return all;
                    }
                }
            }
        }
        match events.end() {
            Ok(event) => all.extend(event.map(text)),
            Err(broken) => all.push(broken.to_string()),
        }
        all
    }

    #[test]
    fn blocks_end_in_any_kind_of_blank_line() {
        check("", &[]);
        check("data: a\n\ndata: b\n\n", &["a", "b"]);
        check("data: a\r\n\r\ndata: b\r\n\r\n", &["a", "b"]);
        check("data: a\r\rdata: b\r\r", &["a", "b"]);
        check("\n\n\r\n\r\rdata: a\r\n\n\n\n", &["a"]);
    }

    #[test]
    fn a_block_is_handed_out_before_the_next_byte_comes() {
        for end in ["\n\n", "\r\n\r\n", "\r\r"] {
            let mut events = Events::new(100);
            events.push(format!("data: a{end}").as_bytes());
            assert!(events.next_event().unwrap().is_some(), "{end:?}");
        }
    }

    #[test]
    fn lines_of_data_are_joined() {
        for end in ["\n", "\r\n", "\r"] {
            let lines = "data: a\ndata:b\ndata\ndata:  c\n\n".replace('\n', end);
            check(&lines, &["a\nb\n\n c"]);
        }
    }

    #[test]
    fn everything_but_data_is_ignored() {
        check(": hello\nevent: ping\nid: 7\nretry: 3\ndata: a\nother: b\n\n", &["a"]);
        check(": hello\n\n:\n\nevent: ping\n\ndata: a\n\n", &["a"]);
        check("\u{feff}data: a\n\n", &["a"]);
    }

    #[test]
    fn an_event_with_empty_data_keeps_the_connection_alive_and_says_nothing() {
        check("data:\n\ndata: a\n\ndata\n\ndata: \ndata: \n\n", &["a"]);
    }

    #[test]
    fn what_is_left_at_the_end_is_an_error() {
        check("data: a\n\ndata: b", &["a", "the stream ended within an event"]);
        check("data: a\n", &["the stream ended within an event"]);
        check("data: a\n\n\n \n: bye\n", &["a"]);
    }

    #[test]
    fn json_without_framing_is_an_event() {
        check("data: a\n\n{\"error\":\n1}", &["a", "{\"error\":\n1}"]);
        check("[{\"error\": 1}\n]\n", &["[{\"error\": 1}\n]"]);
        check("{\"error\":1}\n\ndata: a\n\n", &["{\"error\":1}", "a"]);
    }

    #[test]
    fn lines_of_json_are_events_too() {
        let input = "x\n{\"a\":1}\n\n {\"b\":2}\r\n{\"c\":3}\r{\"d\":4}";
        for size in 1..=input.len() {
            let mut events = Events::lines(1000);
            let mut all = Vec::new();
            for piece in input.as_bytes().chunks(size) {
                events.push(piece);
                while let Some(event) = events.next_event().unwrap() {
                    all.push(event.data.into_owned());
                }
            }
            all.extend(events.end().unwrap().map(|event| event.data.into_owned()));
            let expected = ["{\"a\":1}", "{\"b\":2}", "{\"c\":3}", "{\"d\":4}"];
            assert_eq!(all, expected.map(str::as_bytes), "in pieces of {size}");
        }
        let mut events = Events::lines(1000);
        events.push(&[b'x'; 1001]);
        assert_eq!(events.next_event(), Err(SseError::TooLong(1000)));
    }

    #[test]
    fn an_event_over_the_limit_is_an_error() {
        let long = "x".repeat(994);
        check(&format!("data:{long}\n\n"), &[&long]);
        check(&format!("data:{long}x\n\n"), &["one event is longer than 1000 bytes"]);
        check(&"data:\n".repeat(300), &["one event is longer than 1000 bytes"]);
    }

    #[test]
    fn memory_is_given_back_after_a_huge_event() {
        let mut events = Events::new(usize::MAX);
        events.push(format!("data: {}\n\n", "x".repeat(1 << 20)).as_bytes());
        assert!(events.next_event().unwrap().is_some());
        events.push(b"data: a\n\n");
        assert!(events.buffer.capacity() <= MAX_IDLE_CAPACITY);
    }

    #[test]
    fn single_bytes_take_linear_time() {
        // A parser that takes quadratic time would need hours for this input.
        let mut events = Events::new(usize::MAX);
        for _ in 0..2_000_000 {
            events.push(b"x");
            assert_eq!(events.next_event(), Ok(None));
        }
    }
}
