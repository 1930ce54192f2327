//! Refusals of conversations: calls and their responses out of order, and calls without their signatures.

use serde_json::{Map, Value};

use super::{Content, Refusal};
use crate::api_server::fields::{array, events, field, text};

/// Signatures that the API accepts in place of its own, as its documentation says.
const DUMMY_SIGNATURES: [&str; 2] =
    ["skip_thought_signature_validator", "context_engineering_is_the_way_to_go"];

/// Checks a conversation. `given`: bodies of the replies so far.
pub(super) fn check_turns(
    contents: &[Content],
    model: &str,
    given: &[Vec<u8>],
) -> Result<(), Refusal> {
    for (n, content) in contents.iter().enumerate() {
        let before = n.checked_sub(1).map(|before| &contents[before]);
        let next = contents.get(n + 1);
        let calls = named(content, "functionCall").count();
        let responses = named(content, "functionResponse").count();
        if calls > 0 && before.is_none_or(|before| before.role == "model") {
            return Err(Refusal::new(
                "Please ensure that function call turn comes immediately after a user turn or after a \
                 function response turn.",
            ));
        }
        let called = before.map_or(0, |before| named(before, "functionCall").count());
        if responses > 0 && called == 0 {
            return Err(Refusal::new(
                "Please ensure that function response turn comes immediately after a function call turn.",
            ));
        }
        let answered = next.map(|next| named(next, "functionResponse").count());
        if calls > 0 && answered != Some(calls) {
            return Err(Refusal::new(
                "Please ensure that the number of function response parts is equal to the number of \
                 function call parts of the function call turn.",
            ));
        }
    }
    check_signatures(contents, model, given)
}

/// Returns the parts of a content with a field.
fn named<'a>(content: &'a Content, name: &'a str) -> impl Iterator<Item = &'a Map<String, Value>> {
    content.parts.iter().filter(move |part| part.contains_key(name))
}

/// Refuses a step of the running turn whose first call has no signature of the model.
fn check_signatures(contents: &[Content], model: &str, given: &[Vec<u8>]) -> Result<(), Refusal> {
    let issued: Vec<String> = given.iter().flat_map(|body| issued(body)).collect();
    let is_prompt = |content: &Content| {
        content.role != "model" && named(content, "functionResponse").next().is_none()
    };
    let begin = contents.iter().rposition(is_prompt).unwrap_or_default();
    for (n, content) in contents.iter().enumerate() {
        for (at, part) in content.parts.iter().enumerate() {
            let signature = text(part, "thoughtSignature");
            let is_accepted = DUMMY_SIGNATURES.contains(&signature)
                || issued.iter().any(|known| *known == bytes(signature));
            if !signature.is_empty() && !is_accepted {
                return Err(Refusal::new("Thought signature is not valid."));
            }
            let calls_before =
                content.parts[..at].iter().any(|part| part.contains_key("functionCall"));
            let is_first_call = part.contains_key("functionCall") && !calls_before;
            let wants = n > begin && is_first_call && !model.starts_with("gemini-2");
            if wants && signature.is_empty() {
                let name = field(part, "functionCall")["name"].as_str().unwrap_or_default();
                return Err(Refusal::new(format!(
                    "Function call is missing a thought_signature in functionCall parts. This is required \
                     for tools to work correctly, and missing thought_signature may lead to degraded \
                     model performance. Additional data, function call `default_api:{name}` , position {}.",
                    n + 1
                )));
            }
        }
    }
    Ok(())
}

/// Returns the signatures of one answer.
fn issued(body: &[u8]) -> Vec<String> {
    let parts = |event: &Value| array(&event["candidates"][0]["content"]["parts"]).to_vec();
    let parts = events(body).iter().flat_map(parts).collect::<Vec<_>>();
    parts.iter().filter_map(|part| part["thoughtSignature"].as_str()).map(bytes).collect()
}

/// Returns a signature in one alphabet, because some clients send the bytes in the other alphabet of Base64.
fn bytes(signature: &str) -> String {
    signature.trim_end_matches('=').replace('-', "+").replace('_', "/")
}
