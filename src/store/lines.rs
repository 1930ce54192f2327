//! The lines of a stored log: the head, then batches of events.

use std::sync::Arc;

use serde::de::{DeserializeOwned, IgnoredAny};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;
use tandem_agent::session::{Batch, BatchSummary, Event, Head, Millis};

/// Version of the lines' format. It changes only if programs that know this version would do harm to a newer log.
pub(crate) const FORMAT_VERSION: u32 = 1;

/// Difference between times of a batch's events above which each time is written, in milliseconds. Otherwise all
/// events get the time of the first.
const TIME_TOLERANCE_MS: Millis = 1000;

/// The first line of a log.
#[derive(Serialize, Deserialize)]
struct HeadLine<Head> {
    tandem: u32,
    #[serde(flatten)]
    head: Head,
}

/// A batch for writing: the index of its first event, its time, its events, and its summary.
#[derive(Serialize)]
struct BatchOut<'a> {
    i: usize,
    t: Millis,
    /// Milliseconds from `t` to each event.
    #[serde(skip_serializing_if = "Option::is_none")]
    d: Option<Vec<Millis>>,
    e: Vec<ElementOut<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    s: Option<&'a BatchSummary>,
}

/// An element of a batch for writing: one event, or a run of several.
#[derive(Serialize)]
#[serde(untagged)]
enum ElementOut<'a> {
    Event(&'a Event),
    Run(Run<&'a str>),
}

/// Consecutive chunks of one text as one element, which stands for as many events. This saves space: an event's name
/// would take a third of a typical chunk.
#[derive(Serialize, Deserialize)]
enum Run<S> {
    Text(Vec<S>),
    Thought(Vec<S>),
}

impl<'a> ElementOut<'a> {
    /// Returns the elements for events, in order.
    fn all(events: &'a [(Millis, Arc<Event>)]) -> impl Iterator<Item = Self> {
        let is_one_text = |(_, a): &(Millis, Arc<Event>), (_, b): &(Millis, Arc<Event>)| {
            matches!(
                (&**a, &**b),
                (Event::Text(_), Event::Text(_)) | (Event::Thought(_), Event::Thought(_))
            )
        };
        events.chunk_by(is_one_text).map(|run| {
            let chunks = || run.iter().filter_map(|(_, event)| chunk(event)).collect();
            match (&*run[0].1, run.len()) {
                (Event::Text(_), 2..) => Self::Run(Run::Text(chunks())),
                (Event::Thought(_), 2..) => Self::Run(Run::Thought(chunks())),
                (event, _) => Self::Event(event),
            }
        })
    }
}

/// Returns the text of an event that is a chunk of a text.
fn chunk(event: &Event) -> Option<&str> {
    match event {
        Event::Text(chunk) | Event::Thought(chunk) => Some(chunk),
        _ => None,
    }
}

/// The events of an element that was read.
struct ElementIn(Vec<Event>);

impl<'de> Deserialize<'de> for ElementIn {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // This calls the trait's function: `Event` has another function of that name, which does not know other
        // versions' events.
        let event = <Event as Deserialize>::deserialize(deserializer)?;
        // A line may hold a run, which stands for many events of one kind, such as the pieces of an answer. No event has
        // the shape of a run, so `Event` reads a run as an unknown event.
        let run = match &event {
            Event::Unknown(unknown) => serde_json::from_str(unknown.json()).ok(),
            _ => None,
        };
        Ok(Self(match run {
            Some(Run::Text(chunks)) => chunks.into_iter().map(Event::Text).collect(),
            Some(Run::Thought(chunks)) => chunks.into_iter().map(Event::Thought).collect(),
            None => vec![event],
        }))
    }
}

/// A batch for reading. `E` and `S` let a caller skip the events or the summary.
#[derive(Deserialize)]
struct BatchIn<E, S> {
    i: usize,
    #[serde(default)]
    t: Millis,
    #[serde(default)]
    d: Vec<Millis>,
    e: Vec<E>,
    #[serde(
        default = "none",
        deserialize_with = "readable",
        bound(deserialize = "S: DeserializeOwned")
    )]
    s: Option<S>,
}

fn none<S>() -> Option<S> {
    None
}

/// Reads a summary; returns `None` for a summary that this version cannot read, so that the events beside it still
/// count.
fn readable<'de, D, S>(deserializer: D) -> Result<Option<S>, D::Error>
where
    D: Deserializer<'de>,
    S: DeserializeOwned,
{
    let json = Box::<RawValue>::deserialize(deserializer)?;
    Ok(serde_json::from_str(json.get()).ok())
}

/// Returns the line of a head, with its newline.
pub(crate) fn write_head(head: &Head) -> serde_json::Result<Vec<u8>> {
    let mut line = serde_json::to_vec(&HeadLine { tandem: FORMAT_VERSION, head })?;
    line.push(b'\n');
    Ok(line)
}

/// Reads the head; also returns the version of the lines' format.
pub(crate) fn read_head(line: &[u8]) -> serde_json::Result<(u32, Head)> {
    // Editors on some systems add a byte order mark.
    let line = line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line);
    let HeadLine { tandem, head } = serde_json::from_slice(line)?;
    Ok((tandem, head))
}

/// Appends the line of a batch to `out`, with its newline.
pub(crate) fn write_batch(batch: &Batch, out: &mut Vec<u8>) -> serde_json::Result<()> {
    let t = batch.events.first().map_or(0, |(at, _)| *at);
    let differs = batch.events.iter().any(|(at, _)| (at - t).abs() > TIME_TOLERANCE_MS);
    let line = BatchOut {
        i: batch.first,
        t,
        d: differs.then(|| batch.events.iter().map(|(at, _)| at - t).collect()),
        e: ElementOut::all(&batch.events).collect(),
        s: batch.summary.as_ref(),
    };
    serde_json::to_writer(&mut *out, &line)?;
    out.push(b'\n');
    Ok(())
}

/// Reads a batch.
pub(crate) fn read_batch(line: &[u8]) -> serde_json::Result<Batch> {
    let line: BatchIn<ElementIn, BatchSummary> = serde_json::from_slice(line)?;
    let at = |n: usize| line.t + line.d.get(n).copied().unwrap_or(0);
    let events = line.e.into_iter().flat_map(|element| element.0).enumerate();
    let events = events.map(|(n, event)| (at(n), Arc::new(event))).collect();
    Ok(Batch { first: line.i, events, summary: line.s })
}

/// Returns the index after a batch's last event.
pub(crate) fn batch_end(line: &[u8]) -> serde_json::Result<usize> {
    let line: BatchIn<ElementIn, IgnoredAny> = serde_json::from_slice(line)?;
    let events = line.e.iter().map(|element| element.0.len());
    Ok(line.i.saturating_add(events.sum()))
}

/// Returns a batch's summary without parsing its events.
pub(crate) fn batch_summary(line: &[u8]) -> Option<BatchSummary> {
    // Most lines have no summary, and need not be parsed.
    memchr::memmem::find(line, b"\"s\":{")?;
    let line: BatchIn<IgnoredAny, BatchSummary> = serde_json::from_slice(line).ok()?;
    line.s
}

/// Beginnings of the JSON of events whose text is searched: prompts, the model's words, a command's output.
const TEXT_KEYS: [&[u8]; 6] = [
    b"{\"Text\":\"",
    b"{\"Text\":[\"",
    b"{\"Input\":\"",
    b"{\"Path\":\"",
    b"{\"Shell\":\"",
    b"{\"Output\":\"",
];

/// Bytes between two chunks of a run.
const NEXT_CHUNK: &[u8] = b"\",\"";

/// Appends the searchable texts of a line to `said`, with their JSON escapes. The texts follow each other without a
/// gap, because an answer is stored in pieces.
pub(crate) fn add_said(line: &[u8], said: &mut Vec<u8>) {
    let mut rest = line;
    while let Some(at) = memchr::memmem::find(rest, b"{\"") {
        rest = &rest[at..];
        let Some(begin) = TEXT_KEYS.iter().find(|begin| rest.starts_with(begin)) else {
            rest = &rest[2..];
            continue;
        };
        rest = &rest[begin.len()..];
        loop {
            let end = end_of_string(rest);
            said.extend_from_slice(&rest[..end]);
            rest = &rest[end..];
            let next = rest.strip_prefix(NEXT_CHUNK).filter(|_| begin.ends_with(b"[\""));
            let Some(next) = next else { break };
            rest = next;
        }
    }
}

/// Returns the offset of the quotation mark that ends a JSON string.
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

/// Returns a text with JSON escapes, as it is inside a string of a line.
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
        assert_eq!(written(&close), "{\"i\":17,\"t\":5000,\"e\":[{\"Text\":[\"0\",\"1\"]}]}\n");
        let mut far = batch(&[5000, 4000, 7001]);
        far.summary = Some(BatchSummary { turns: 2, ..BatchSummary::default() });
        for batch in [close, far] {
            let line = written(&batch);
            assert_eq!(read_batch(line.as_bytes()).unwrap(), batch);
            assert_eq!(batch_end(line.as_bytes()).unwrap(), batch.end());
            assert_eq!(batch_summary(line.as_bytes()), batch.summary);
        }
    }

    #[test]
    fn chunks_of_one_text_are_one_element_that_counts_as_many() {
        let (text, thought) =
            (|n: u8| Event::Text(n.to_string()), |n: u8| Event::Thought(n.to_string()));
        let unknown = serde_json::from_str(r#"{"Text":["a",5]}"#).unwrap();
        let events = [
            (vec![text(1)], r#"{"Text":"1"}"#),
            (vec![text(1), text(2), text(3)], r#"{"Text":["1","2","3"]}"#),
            (
                vec![thought(1), thought(2), text(3), thought(4)],
                r#"{"Thought":["1","2"]},{"Text":"3"},{"Thought":"4"}"#,
            ),
            (
                vec![text(1), Event::Forgotten, text(2), text(3)],
                r#"{"Text":"1"},"Forgotten",{"Text":["2","3"]}"#,
            ),
            (vec![text(1), unknown, text(2)], r#"{"Text":"1"},{"Text":["a",5]},{"Text":"2"}"#),
        ];
        for (events, elements) in events {
            let events: Vec<_> = events.into_iter().map(|event| (5, Arc::new(event))).collect();
            let batch = Batch { first: 17, events, summary: None };
            let line = written(&batch);
            assert_eq!(line, format!("{{\"i\":17,\"t\":5,\"e\":[{elements}]}}\n"));
            assert_eq!(read_batch(line.as_bytes()).unwrap(), batch);
            assert_eq!(batch_end(line.as_bytes()).unwrap(), batch.end());
        }
        // This is a line from before there were runs.
        let old = br#"{"i":1,"t":2,"e":[{"Text":"a"},{"Text":"b"}]}"#;
        assert_eq!((batch_end(old).unwrap(), read_batch(old).unwrap().end()), (3, 3));
    }

    #[test]
    fn fields_of_a_later_version_are_no_error() {
        let line = br#"{"i":1,"t":2,"new":{},"e":[{"Invented":1}],"s":{"turns":3,"new":4}}"#;
        assert_eq!(read_batch(line).unwrap().events.len(), 1);
        assert_eq!(batch_summary(line).unwrap().turns, 3);
        let line =
            br#"{"i":1,"t":2,"e":[{"Text":"a"}],"s":{"turns":3,"shares":{"bob":"invented"}}}"#;
        let batch = read_batch(line).unwrap();
        assert_eq!((batch.events.len(), batch.summary), (1, None));
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
        let run = r#"{"i":1,"e":[{"Text":["He","l\"lo",""," \\"]},{"Thought":["no","no"]},{"Text":"!"}]}"#;
        assert_eq!(said(run), r#"Hel\"lo \\!"#);
        assert_eq!(said(r#"{"i":1,"e":[{"Text":["a","cut"#), "acut");
        let quoted = r#"{"i":1,"t":2,"e":[{"Text":"say \"x\" {\"Text\":\"y\"}\\"},{"Text":"!"}]}"#;
        assert_eq!(said(quoted), r#"say \"x\" {\"Text\":\"y\"}\\!"#);
        assert_eq!(said(r#"{"i":1,"e":[{"Text":"cut"#), "cut");
        assert_eq!(escaped("a \"b\"\n"), r#"a \"b\"\n"#);
    }
}
