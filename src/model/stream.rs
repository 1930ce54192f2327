//! Reads the stream of an answer to its end.

use std::time::Duration;

use reqwest::Response;
use reqwest::header::CONTENT_TYPE;
use serde::de::DeserializeOwned;
use serde::{Deserialize as _, Deserializer};
use serde_json::Value;
use tokio::time::Instant;

use super::emit::Emitter;
use super::http;
use super::options::RequestOptions;
use super::retry::RequestFailure;
use super::{Chunk, Error};
use tandem_content::sse::{Events, SseError};

/// Maximum wait for the end of a stream after its last event. A connection that is read to its end can be reused.
const LAST_BYTES: Duration = Duration::from_millis(100);

/// Assembles an answer from the data of events.
pub(super) trait Assemble {
    /// `true` if each line of JSON is an event.
    const IS_LINES: bool = false;

    /// Adds the data of one event to the answer. Appends to `out` the chunks that the caller emits.
    fn add_event(&mut self, data: &[u8], out: &mut Vec<Chunk>) -> Result<(), StreamError>;

    /// Adds the chunks that were held to `out`, at the end of the stream.
    fn end(&mut self, _: &mut Vec<Chunk>) {}

    /// Returns `true` if the server has announced that the answer is complete.
    fn has_ended(&self) -> bool;

    /// Returns `true` if the server has announced that no further event follows, not even token counts.
    fn is_over(&self) -> bool {
        false
    }

    /// Returns `true` if chunks have been emitted that a new answer would have to replace.
    fn is_shown(&self) -> bool;

    /// Returns `true` if the running response has brought any event.
    fn has_begun(&self) -> bool {
        true
    }

    /// Returns the number of the last checkpoint, if another request can go on from there.
    fn checkpoint(&self) -> Option<u32> {
        None
    }

    /// Goes back to the last checkpoint, or to the beginning. If emitted chunks are void by this, returns the chunks
    /// that replace everything emitted so far.
    fn rewind(&mut self) -> Option<Vec<Chunk>>;
}

/// A failure of a stream.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum StreamError {
    /// An error that the server reports, as JSON.
    Reported(String),
    /// Data that cannot be parsed; the text says why.
    Garbled(String),
    /// A stream that broke off, or that is too long.
    Failed(RequestFailure),
}

impl From<RequestFailure> for StreamError {
    fn from(failure: RequestFailure) -> Self {
        Self::Failed(failure)
    }
}

impl From<SseError> for StreamError {
    fn from(broken: SseError) -> Self {
        Self::Failed(match broken {
            SseError::TooLong(max) => RequestFailure::terminal(Error::BadAnswer(format!(
                "An event of the answer is bigger than {} MiB, and was dropped. Ask for less at once.",
                max >> 20
            ))),
            SseError::Cut => broke_off(),
        })
    }
}

/// Reads events until the stream ends, and emits their chunks. Once the answer is complete, a broken connection is no
/// failure.
pub(super) async fn read<A: Assemble>(
    mut response: Response,
    answer: &mut A,
    emitter: &mut Emitter,
    options: &RequestOptions,
) -> Result<(), StreamError> {
    if is_web_page(&response) {
        return Err(RequestFailure::terminal(web_page()).into());
    }
    let max = options.max_event;
    let mut events = if A::IS_LINES { Events::lines(max) } else { Events::new(max) };
    let mut out = Vec::new();
    let mut ended_at = None;
    loop {
        let ended = answer.has_ended();
        // Reading goes on after the end of the answer: some servers send the token counts last.
        let patience = if ended {
            let since = ended_at.get_or_insert_with(Instant::now).elapsed();
            let linger = if answer.is_over() { LAST_BYTES } else { options.linger };
            linger.min(options.linger).saturating_sub(since)
        } else {
            options.idle
        };
        let bytes = match http::next_bytes(&mut response, patience).await {
            Ok(Some(bytes)) => bytes,
            Ok(None) => break,
            Err(_) if ended => return Ok(()),
            Err(failure) => return Err(failure.into()),
        };
        events.push(&bytes);
        // The parser has a copy, so this memory is freed before the events are handed to the consumer, which may take
        // long.
        drop(bytes);
        while let Some(event) = events.next_event()? {
            add_event_data(answer, &event.data, &mut out)?;
            for chunk in out.drain(..) {
                emitter.send(chunk).await;
            }
        }
    }
    match events.end() {
        Ok(Some(event)) => add_event_data(answer, &event.data, &mut out)?,
        Err(broken) if !answer.has_ended() => return Err(broken.into()),
        Ok(None) | Err(_) => {}
    }
    answer.end(&mut out);
    for chunk in out {
        emitter.send(chunk).await;
    }
    Ok(())
}

/// Adds the data of one event to the answer. Unreadable data is no failure once the answer is complete.
fn add_event_data<A: Assemble>(
    answer: &mut A,
    data: &[u8],
    out: &mut Vec<Chunk>,
) -> Result<(), StreamError> {
    let ended = answer.has_ended();
    match answer.add_event(data, out) {
        Err(StreamError::Garbled(_)) if ended => Ok(()),
        taken => taken,
    }
}

/// Returns the failure of a stream that ends before the answer does.
pub(super) fn broke_off() -> RequestFailure {
    let why = "The answer broke off before its end. Check the network and try again.";
    RequestFailure::passing("the connection was lost", Error::Unavailable(why.to_owned()))
}

fn is_web_page(response: &Response) -> bool {
    let kind = response.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    kind.is_some_and(|kind| kind.starts_with("text/html"))
}

fn web_page() -> Error {
    let what = "The API's address returned a web page. Check the address, or log in to the network if it asks \
        for a login.";
    Error::BadAnswer(what.to_owned())
}

/// Deserializes a field; `None` if it has another type. For fields that only inform, such as token counts: a gateway
/// that writes `"12"` for `12` must not make the answer fail.
pub(super) fn lenient<'de, D, T>(deserializer: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: DeserializeOwned,
{
    Ok(serde_json::from_value(Value::deserialize(deserializer)?).ok())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chat::answer::ChatAnswer;

    struct Answer(ChatAnswer);

    /// An answer for which every event except `end` is unreadable.
    impl Assemble for Answer {
        fn add_event(&mut self, data: &[u8], out: &mut Vec<Chunk>) -> Result<(), StreamError> {
            if data != b"end" {
                return Err(StreamError::Garbled("oops".to_owned()));
            }
            self.0.finish_with("stop".to_owned(), out);
            Ok(())
        }

        fn has_ended(&self) -> bool {
            self.0.has_ended()
        }

        fn is_shown(&self) -> bool {
            self.0.is_shown()
        }

        fn rewind(&mut self) -> Option<Vec<Chunk>> {
            self.0.rewind()
        }
    }

    #[test]
    fn garbage_costs_an_answer_only_before_its_end() {
        let mut answer = Answer(ChatAnswer::new(100));
        let mut take = |data: &[u8]| super::add_event_data(&mut answer, data, &mut Vec::new());
        assert!(matches!(take(b"?"), Err(StreamError::Garbled(_))));
        assert_eq!(take(b"end"), Ok(()));
        assert_eq!(take(b"?"), Ok(()));
    }
}
