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
use super::words::too_big;
use super::{Chunk, Error};
use tandem_content::sse::{Events, SseError};

/// Maximum wait for the end of a stream that brings nothing more: a connection read to its end can
/// be reused.
const LAST_BYTES: Duration = Duration::from_millis(100);

/// Assembles an answer from the data of events.
pub(super) trait Assemble {
    /// `true` if each line of JSON is an event.
    const LINES: bool = false;

    /// Adds one event's data to the answer, and the chunks to show to `out`.
    fn take(&mut self, data: &[u8], out: &mut Vec<Chunk>) -> Result<(), StreamError>;

    /// Adds the held chunks to `out`, once the stream has ended.
    fn end(&mut self, _: &mut Vec<Chunk>) {}

    /// Returns whether the server has said that the answer is whole.
    fn has_ended(&self) -> bool;

    /// Returns whether the server has said that nothing more will come at all.
    fn is_over(&self) -> bool {
        false
    }

    /// Returns whether chunks have been handed out that would have to be taken back.
    fn is_shown(&self) -> bool;

    /// Returns whether the running response has brought anything.
    fn has_begun(&self) -> bool {
        true
    }

    /// Returns the number of the last checkpoint, if another request can go on from there.
    fn checkpoint(&self) -> Option<u32> {
        None
    }

    /// Goes back to the last checkpoint, or to the beginning. If chunks are void that have been
    /// handed out, returns those that replace everything handed out so far.
    fn rewind(&mut self) -> Option<Vec<Chunk>>;
}

/// A failure of a stream.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum StreamError {
    /// An error that the server reports, as JSON.
    Reported(String),
    /// Data that cannot be parsed; the reason.
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
            SseError::TooLong(max) => {
                RequestFailure::terminal(too_big("An event of the answer", max, "event-bytes"))
            }
            SseError::Cut => broke_off(),
        })
    }
}

/// Reads events until the stream ends, and emits their chunks. Once the answer is whole, a broken
/// connection is no failure.
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
    let mut events = if A::LINES { Events::lines(max) } else { Events::new(max) };
    let mut out = Vec::new();
    let mut ended_at = None;
    loop {
        let ended = answer.has_ended();
        // Read on after the end of the answer: token counts come last with some servers.
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
        // The parser has a copy; an event may take long to be taken.
        drop(bytes);
        while let Some(event) = events.next_event()? {
            take(answer, &event.data, &mut out)?;
            for chunk in out.drain(..) {
                emitter.send(chunk).await;
            }
        }
    }
    match events.end() {
        Ok(Some(event)) => take(answer, &event.data, &mut out)?,
        Err(broken) if !answer.has_ended() => return Err(broken.into()),
        Ok(None) | Err(_) => {}
    }
    answer.end(&mut out);
    for chunk in out {
        emitter.send(chunk).await;
    }
    Ok(())
}

/// Adds one event's data to the answer. What cannot be read is no failure once the answer is whole.
fn take<A: Assemble>(answer: &mut A, data: &[u8], out: &mut Vec<Chunk>) -> Result<(), StreamError> {
    let ended = answer.has_ended();
    match answer.take(data, out) {
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
         for that.";
    Error::BadAnswer(what.to_owned())
}

/// Deserializes a field; `None` where its type is another one. For what only informs, such as
/// token counts: a gateway that writes `"12"` for `12` must not cost the answer.
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

    /// An answer whose every event is garbage, but for `end`.
    impl Assemble for Answer {
        fn take(&mut self, data: &[u8], out: &mut Vec<Chunk>) -> Result<(), StreamError> {
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
        let mut take = |data: &[u8]| super::take(&mut answer, data, &mut Vec::new());
        assert!(matches!(take(b"?"), Err(StreamError::Garbled(_))));
        assert_eq!(take(b"end"), Ok(()));
        assert_eq!(take(b"?"), Ok(()));
    }
}
