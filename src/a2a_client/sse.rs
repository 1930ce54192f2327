//! Splits a byte stream into server-sent events, with bounded memory and in linear time.

use memchr::memchr2;

/// An event.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct ServerEvent {
    /// Its data lines, joined by line feeds.
    pub(super) data: Vec<u8>,
    /// Id, by which a server knows where to go on.
    pub(super) id: Option<String>,
}

/// An event is longer than is allowed.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct EventTooLong;

/// Longest id that is kept.
const ID: usize = 512;

/// A parser of events that arrive in pieces, cut anywhere.
pub(super) struct EventParser {
    buffer: Vec<u8>,
    /// Start of the line whose end has not been found.
    line: usize,
    /// Position up to which that line has been searched.
    searched: usize,
    /// The last line ended in a carriage return; a line feed right after it belongs to it.
    after_return: bool,
    event: ServerEvent,
    max: usize,
}

impl EventParser {
    /// Takes no event longer than `max` bytes.
    pub(super) fn new(max: usize) -> Self {
        let (buffer, event) = (Vec::new(), ServerEvent::default());
        Self { buffer, line: 0, searched: 0, after_return: false, event, max }
    }

    /// Adds what has arrived. All events should be taken out before more is added.
    pub(super) fn push(&mut self, bytes: &[u8]) {
        // Only the line that is not whole is moved: of that no byte is searched twice.
        self.buffer.drain(..self.line);
        self.searched -= self.line;
        self.line = 0;
        self.buffer.extend_from_slice(bytes);
    }

    /// Returns the next event that is whole.
    pub(super) fn next_event(&mut self) -> Result<Option<ServerEvent>, EventTooLong> {
        loop {
            if self.after_return && self.searched < self.buffer.len() {
                self.after_return = false;
                if self.buffer[self.searched] == b'\n' {
                    self.searched += 1;
                    self.line = self.searched;
                }
            }
            let found = memchr2(b'\n', b'\r', &self.buffer[self.searched..]);
            let end = found.map_or(self.buffer.len(), |at| self.searched + at);
            if end - self.line + self.event.data.len() > self.max {
                return Err(EventTooLong);
            }
            self.searched = end;
            if found.is_none() {
                return Ok(None);
            }
            self.after_return = self.buffer[end] == b'\r';
            self.searched += 1;
            let line = self.line..end;
            self.line = self.searched;
            if line.is_empty() {
                let event = std::mem::take(&mut self.event);
                // Comments and empty data are signs of life alone.
                if !event.data.trim_ascii().is_empty() {
                    return Ok(Some(event));
                }
                continue;
            }
            self.read_line(line);
        }
    }

    fn read_line(&mut self, line: std::ops::Range<usize>) {
        let line = &self.buffer[line];
        let line = line.strip_prefix("\u{feff}".as_bytes()).unwrap_or(line);
        let colon = memchr::memchr(b':', line).unwrap_or(line.len());
        let value = line.get(colon + 1..).unwrap_or_default();
        let value = value.strip_prefix(b" ").unwrap_or(value);
        match &line[..colon] {
            b"data" => {
                if !self.event.data.is_empty() {
                    self.event.data.push(b'\n');
                }
                self.event.data.extend_from_slice(value);
            }
            b"id" if value.len() <= ID && !value.iter().any(u8::is_ascii_control) => {
                self.event.id = String::from_utf8(value.to_vec()).ok();
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The same events must come out however the input is cut.
    #[track_caller]
    fn check(input: &str, expected: &[(&str, Option<&str>)]) {
        for size in [1, 2, 3, 7, input.len().max(1)] {
            let mut parser = EventParser::new(100);
            let mut events = Vec::new();
            for piece in input.as_bytes().chunks(size) {
                parser.push(piece);
                while let Some(event) = parser.next_event().unwrap() {
                    events.push((String::from_utf8(event.data).unwrap(), event.id));
                }
            }
            let found: Vec<_> = events.iter().map(|(data, id)| (&**data, id.as_deref())).collect();
            assert_eq!(found, expected, "{size} bytes at a time");
        }
    }

    #[test]
    fn events_end_with_an_empty_line_of_any_kind() {
        check(
            "data: a\n\ndata:b\r\n\r\ndata: c\r\rdata: d\n",
            &[("a", None), ("b", None), ("c", None)],
        );
        check("\u{feff}data: a\n\n", &[("a", None)]);
    }

    #[test]
    fn lines_of_data_are_joined_and_others_left_out() {
        check("event: x\ndata: a\nretry: 5\nodd\ndata: b\nid: 7\n\n", &[("a\nb", Some("7"))]);
    }

    #[test]
    fn comments_are_no_events() {
        check(": alive\n\n: alive\n\ndata:\n\ndata: a\n\n", &[("a", None)]);
    }

    #[test]
    fn a_long_event_is_refused_in_one_line_or_in_many() {
        for input in ["data: ".to_owned() + &"x".repeat(100), "data: xxxxxxxxx\n".repeat(12)] {
            let mut parser = EventParser::new(100);
            parser.push(input.as_bytes());
            assert_eq!(parser.next_event(), Err(EventTooLong));
        }
    }
}
