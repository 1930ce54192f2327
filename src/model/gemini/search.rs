//! Answers grounded in Google Search.

use std::time::Duration;

use serde::Deserialize;
use serde_json::json;
use tokio::time::sleep;

use super::call;
use super::errors;
use crate::Error;
use crate::endpoint::Endpoint;
use crate::http;
use crate::report::Report;
use crate::request_loop::ApiClient;
use crate::retry::{AttemptFailure, RequestFailure, RetryPolicy};
use tandem_content::shorten::first_chars;

/// Maximum size of an answer in bytes, and of an address or a title in characters.
const MAX_ANSWER_BYTES: usize = 4 << 20;
const MAX_LINK_CHARS: usize = 4096;

/// Maximum number of attempts. Few, because the caller waits for the answer.
const MAX_ATTEMPTS: u32 = 3;

/// Timeout of reading the answer.
const ANSWER_TIMEOUT: Duration = Duration::from_mins(1);

/// An answer grounded in sources.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GroundedAnswer {
    /// Text, with `[1]` after each passage that the first source supports.
    pub text: String,
    /// Titles and addresses of the sources, in the order of their numbers.
    pub sources: Vec<(String, String)>,
}

/// Answers a question with Google Search.
pub(super) async fn search(
    client: &ApiClient,
    model: &str,
    query: &str,
) -> Result<GroundedAnswer, Error> {
    let policy = RetryPolicy { attempts: MAX_ATTEMPTS, ..client.options.retry.clone() };
    let mut failed = 0;
    loop {
        let endpoint = client.endpoint()?;
        let RequestFailure { mut error, advice, .. } =
            match ask(client, &endpoint, model, query).await {
                Ok(answer) => return Ok(answer),
                Err(failure) => failure,
            };
        failed += 1;
        let Some(delay) = policy.delay(failed, advice, fastrand::f64()) else {
            // Servers repeat parts of requests in their messages, and also keys.
            endpoint.redact(error.text_mut());
            return Err(error);
        };
        sleep(delay).await;
    }
}

async fn ask(
    client: &ApiClient,
    endpoint: &Endpoint,
    model: &str,
    query: &str,
) -> Result<GroundedAnswer, RequestFailure> {
    let body = json!({
        "contents": [{ "role": "user", "parts": [{ "text": query }] }],
        "tools": [{ "googleSearch": {} }],
    });
    let request = call::post(endpoint, model, "generateContent", body.to_string().into());
    let request = request.map_err(RequestFailure::terminal)?;
    let response = client.http.send(endpoint, request, client.options.idle).await?;
    if !response.status().is_success() {
        let report = Report::from_response(response, ANSWER_TIMEOUT).await;
        return Err(match errors::classify(&report, endpoint.request_info(model), &[]) {
            AttemptFailure::Failed(failure) => failure,
            trouble => RequestFailure::terminal(trouble.into_error()),
        });
    }
    let body = http::body(response, MAX_ANSWER_BYTES, ANSWER_TIMEOUT).await;
    read(&body).map_err(RequestFailure::terminal)
}

#[derive(Deserialize)]
struct Response {
    #[serde(default)]
    candidates: Vec<Candidate>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Candidate {
    #[serde(default)]
    content: Content,
    #[serde(default)]
    grounding_metadata: Grounding,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Content {
    parts: Vec<Part>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Part {
    text: String,
    thought: bool,
}

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
struct Grounding {
    grounding_chunks: Vec<GroundingChunk>,
    grounding_supports: Vec<Support>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct GroundingChunk {
    web: Option<Web>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Web {
    uri: String,
    title: String,
}

/// Sources of a segment of the text.
#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
struct Support {
    segment: Segment,
    grounding_chunk_indices: Vec<usize>,
}

/// End of a segment, in bytes of UTF-8 from the beginning of a part.
#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
struct Segment {
    part_index: usize,
    end_index: usize,
}

fn read(body: &[u8]) -> Result<GroundedAnswer, Error> {
    let response: Response = serde_json::from_slice(body).map_err(|err| {
        Error::BadAnswer(format!("The answer of the search cannot be read ({err}). Try again."))
    })?;
    let Some(candidate) = response.candidates.into_iter().next() else {
        return Err(Error::BadAnswer("The search has no answer. Try other words.".to_owned()));
    };
    let Grounding { grounding_chunks, grounding_supports } = candidate.grounding_metadata;
    // Marks to insert: the part, the place in it, and the source.
    let mut marks: Vec<_> = grounding_supports
        .iter()
        .flat_map(|support| {
            let Segment { part_index, end_index } = support.segment;
            support.grounding_chunk_indices.iter().map(move |chunk| (part_index, end_index, *chunk))
        })
        .filter(|(.., chunk)| *chunk < grounding_chunks.len())
        .collect();
    marks.sort_unstable();
    marks.dedup();
    let parts = candidate.content.parts.iter().enumerate().filter(|(_, part)| !part.thought);
    let cite = |(index, part): (usize, &Part)| {
        let of_part = marks.iter().filter(|(part, ..)| *part == index);
        cited(&part.text, of_part.map(|(_, end, chunk)| (*end, *chunk)))
    };
    let text: String = parts.map(cite).collect();
    if text.trim().is_empty() {
        return Err(Error::BadAnswer("The search found nothing. Try other words.".to_owned()));
    }
    let link = |text: String| first_chars(&text, MAX_LINK_CHARS).to_owned();
    let source = |chunk: GroundingChunk| {
        let Web { uri, title } = chunk.web.unwrap_or_default();
        (link(title), link(uri))
    };
    Ok(GroundedAnswer { text, sources: grounding_chunks.into_iter().map(source).collect() })
}

/// Inserts the numbers of sources, from 1, into a text; `marks` are sorted.
fn cited(text: &str, marks: impl Iterator<Item = (usize, usize)>) -> String {
    let mut cited = String::with_capacity(text.len());
    let mut done = 0;
    for (end, source) in marks {
        // A place inside a character, or beyond the end, is moved to the next valid place.
        let end = text.ceil_char_boundary(end.min(text.len()));
        cited.push_str(&text[done..end]);
        cited.push_str(&format!("[{}]", source + 1));
        done = end;
    }
    cited.push_str(&text[done..]);
    cited
}

#[cfg(test)]
mod tests {
    use super::{Error, GroundedAnswer, read};

    #[track_caller]
    fn check(body: &str, text: &str, sources: &[(&str, &str)]) {
        let own = |(title, uri): &(&str, &str)| ((*title).to_owned(), (*uri).to_owned());
        let sources = sources.iter().map(own).collect();
        assert_eq!(
            read(body.as_bytes()).unwrap(),
            GroundedAnswer { text: text.to_owned(), sources }
        );
    }

    #[test]
    fn numbers_of_sources_stand_behind_what_they_say_counted_in_bytes() {
        check(
            r#"{"candidates":[{"content":{"parts":[{"text":"Müll","thought":true},
                {"text":"Zürich ist groß. Bern nicht."}]},"groundingMetadata":{
                "groundingChunks":[{"web":{"uri":"https://a.test","title":"A"}},
                    {"web":{"uri":"https://b.test","title":"B"}},{"retrieved":{}}],
                "groundingSupports":[
                    {"segment":{"partIndex":1,"endIndex":30},"groundingChunkIndices":[1]},
                    {"segment":{"partIndex":1,"startIndex":0,"endIndex":18},
                        "groundingChunkIndices":[1,0,0]}]}}]}"#,
            "Zürich ist groß.[1][2] Bern nicht.[2]",
            &[("A", "https://a.test"), ("B", "https://b.test"), ("", "")],
        );
    }

    #[test]
    fn places_and_sources_that_there_are_not_do_no_harm() {
        check(
            r#"{"candidates":[{"content":{"parts":[{"text":"aüb"}]},"groundingMetadata":{
                "groundingChunks":[{"web":{"uri":"u","title":"t"}}],
                "groundingSupports":[{"segment":{"endIndex":2},"groundingChunkIndices":[0,7]},
                    {"segment":{"endIndex":999},"groundingChunkIndices":[0]},
                    {"segment":{"partIndex":5,"endIndex":1},"groundingChunkIndices":[0]},{}]}}]}"#,
            "aü[1]b[1]",
            &[("t", "u")],
        );
    }

    #[test]
    fn an_answer_without_sources_is_an_answer() {
        check(r#"{"candidates":[{"content":{"parts":[{"text":"4"}]}}]}"#, "4", &[]);
    }

    #[test]
    fn what_is_no_answer_is_an_error() {
        for body in ["<html>", "{}", r#"{"candidates":[{"content":{"parts":[{"text":" "}]}}]}"#] {
            assert!(matches!(read(body.as_bytes()), Err(Error::BadAnswer(_))), "{body}");
        }
    }
}
