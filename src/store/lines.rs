//! The lines of a stored log: the head, then batches of events.

use std::sync::Arc;

use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use tandem_agent::session::{Batch, BatchSummary, Event, Head, Millis};

/// Version of the framing. Another one only if a program that knows this one would do harm.
pub(crate) const VERSION: u32 = 1;

/// Difference from which on the times of a batch's events are written one by one. Below it, all
/// have the time of the first.
const EXACT: Millis = 1000;

/// The first line.
#[derive(Serialize, Deserialize)]
struct HeadLine<Head> {
    tandem: u32,
    #[serde(flatten)]
    head: Head,
}

/// A batch, as it is written.
#[derive(Serialize)]
struct BatchOut<'a> {
    i: usize,
    t: Millis,
    /// Milliseconds from `t` to each event.
    #[serde(skip_serializing_if = "Option::is_none")]
    d: Option<Vec<Millis>>,
    e: Vec<&'a Event>,
    #[serde(skip_serializing_if = "Option::is_none")]
    s: Option<&'a BatchSummary>,
}

/// A batch, as it is read.
#[derive(Deserialize)]
struct BatchIn<E, S> {
    i: usize,
    #[serde(default)]
    t: Millis,
    #[serde(default)]
    d: Vec<Millis>,
    e: Vec<E>,
    #[serde(default = "none")]
    s: Option<S>,
}

fn none<S>() -> Option<S> {
    None
}

/// Writes the head, with its newline.
pub(crate) fn write_head(head: &Head) -> serde_json::Result<Vec<u8>> {
    let mut line = serde_json::to_vec(&HeadLine { tandem: VERSION, head })?;
    line.push(b'\n');
    Ok(line)
}

/// Reads the head; also returns the version of the framing.
pub(crate) fn read_head(line: &[u8]) -> serde_json::Result<(u32, Head)> {
    // Editors on other systems put a byte order mark there.
    let line = line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line);
    let HeadLine { tandem, head } = serde_json::from_slice(line)?;
    Ok((tandem, head))
}

/// Adds a batch, with its newline.
pub(crate) fn write_batch(batch: &Batch, out: &mut Vec<u8>) -> serde_json::Result<()> {
    let t = batch.events.first().map_or(0, |(at, _)| *at);
    let differs = batch.events.iter().any(|(at, _)| (at - t).abs() > EXACT);
    let line = BatchOut {
        i: batch.first,
        t,
        d: differs.then(|| batch.events.iter().map(|(at, _)| at - t).collect()),
        e: batch.events.iter().map(|(_, event)| &**event).collect(),
        s: batch.summary.as_ref(),
    };
    serde_json::to_writer(&mut *out, &line)?;
    out.push(b'\n');
    Ok(())
}

/// Reads a batch.
pub(crate) fn read_batch(line: &[u8]) -> serde_json::Result<Batch> {
    let line: BatchIn<Event, BatchSummary> = serde_json::from_slice(line)?;
    let at = |n: usize| line.t + line.d.get(n).copied().unwrap_or(0);
    let times: Vec<_> = (0..line.e.len()).map(at).collect();
    Ok(Batch {
        first: line.i,
        events: times.into_iter().zip(line.e.into_iter().map(Arc::new)).collect(),
        summary: line.s,
    })
}

/// Returns the index after a batch's last event, without reading its events.
pub(crate) fn batch_end(line: &[u8]) -> serde_json::Result<usize> {
    let line: BatchIn<IgnoredAny, IgnoredAny> = serde_json::from_slice(line)?;
    Ok(line.i.saturating_add(line.e.len()))
}

/// Returns a batch's summary, without reading its events.
pub(crate) fn batch_summary(line: &[u8]) -> Option<BatchSummary> {
    // Most lines have none, and are not read at all.
    memchr::memmem::find(line, b"\"s\":{")?;
    let line: BatchIn<IgnoredAny, BatchSummary> = serde_json::from_slice(line).ok()?;
    line.s
}

/// Beginnings of the JSON of what is said: prompts, the model's words, a command's output.
const SAID: [&[u8]; 5] =
    [b"{\"Text\":\"", b"{\"Input\":\"", b"{\"Path\":\"", b"{\"Shell\":\"", b"{\"Output\":\""];

/// Adds the texts of a line that may have been said, as they are on the disk: JSON's escapes and all,
/// and one behind the other, because an answer comes in pieces.
pub(crate) fn add_said(line: &[u8], said: &mut Vec<u8>) {
    let mut rest = line;
    while let Some(at) = memchr::memmem::find(rest, b"{\"") {
        rest = &rest[at..];
        let Some(begin) = SAID.iter().find(|begin| rest.starts_with(begin)) else {
            rest = &rest[2..];
            continue;
        };
        rest = &rest[begin.len()..];
        let end = end_of_string(rest);
        said.extend_from_slice(&rest[..end]);
        rest = &rest[end..];
    }
}

/// Returns where a JSON string ends: at its quotation mark.
fn end_of_string(bytes: &[u8]) -> usize {
    let mut at = 0;
    while let Some(found) = memchr::memchr2(b'"', b'\\', &bytes[at..]) {
        at += found;
        if bytes[at] == b'"' {
            return at;
        }
        at = (at + 2).min(bytes.len());
    }
    bytes.len()
}

/// Returns a text as it is inside a string of a line.
pub(crate) fn escaped(text: &str) -> String {
    let json = serde_json::Value::from(text).to_string();
    json[1..json.len() - 1].to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn batch(times: &[Millis]) -> Batch {
        let events = times.iter().enumerate();
        let events = events.map(|(n, at)| (*at, Arc::new(Event::Text(format!("{n}"))))).collect();
        Batch { first: 17, events, summary: None }
    }

    fn written(batch: &Batch) -> String {
        let mut line = Vec::new();
        write_batch(batch, &mut line).unwrap();
        String::from_utf8(line).unwrap()
    }

    #[test]
    fn a_batch_is_a_line_and_read_as_it_was_written() {
        let close = batch(&[5000, 5000]);
        assert_eq!(
            written(&close),
            "{\"i\":17,\"t\":5000,\"e\":[{\"Text\":\"0\"},{\"Text\":\"1\"}]}\n"
        );
        let mut far = batch(&[5000, 4000, 7001]);
        far.summary = Some(BatchSummary { turns: 2, title: None });
        for batch in [close, far] {
            let line = written(&batch);
            assert_eq!(read_batch(line.as_bytes()).unwrap(), batch);
            assert_eq!(batch_end(line.as_bytes()).unwrap(), batch.end());
            assert_eq!(batch_summary(line.as_bytes()), batch.summary);
        }
    }

    #[test]
    fn fields_of_a_later_version_are_no_error() {
        let line = br#"{"i":1,"t":2,"new":{},"e":[{"Invented":1}],"s":{"turns":3,"new":4}}"#;
        assert_eq!(read_batch(line).unwrap().events.len(), 1);
        assert_eq!(batch_summary(line).unwrap().turns, 3);
        let head = b"\xef\xbb\xbf{\"tandem\":2,\"id\":\"x\",\"t\":1,\"new\":[]}\r";
        assert_eq!(read_head(head).unwrap().0, 2);
    }

    #[test]
    fn what_was_said_is_found_in_the_bytes_of_a_line() {
        let said = |line: &str| {
            let mut said = Vec::new();
            add_said(line.as_bytes(), &mut said);
            String::from_utf8(said).unwrap()
        };
        let chunks = r#"{"i":1,"t":2,"e":[{"Text":"He"},{"Text":"llo"},{"Thought":"no"}]}"#;
        assert_eq!(said(chunks), "Hello");
        let quoted = r#"{"i":1,"t":2,"e":[{"Text":"say \"x\" {\"Text\":\"y\"}\\"},{"Text":"!"}]}"#;
        assert_eq!(said(quoted), r#"say \"x\" {\"Text\":\"y\"}\\!"#);
        assert_eq!(said(r#"{"i":1,"e":[{"Text":"cut"#), "cut");
        assert_eq!(escaped("a \"b\"\n"), r#"a \"b\"\n"#);
    }
}
