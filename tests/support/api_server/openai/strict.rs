//! Refusals of chat completions.
//!
//! The names of fields are those of the types in `OpenAI`'s own client for Python, version 3.57. The words of the
//! refusals are those that people have reported.

use serde_json::{Map, Value};

use super::refusal::{Refusal, keyed, known, longest, non_empty, object, pattern, required};
use crate::api_server::fields::{array, field, kind, text};
use crate::api_server::{Asked, Reply};

/// Fields of a request.
const FIELDS: &[&str] = &[
    "audio",
    "frequency_penalty",
    "function_call",
    "functions",
    "logit_bias",
    "logprobs",
    "max_completion_tokens",
    "max_tokens",
    "messages",
    "metadata",
    "modalities",
    "model",
    "moderation",
    "n",
    "parallel_tool_calls",
    "prediction",
    "presence_penalty",
    "prompt_cache_key",
    "prompt_cache_options",
    "prompt_cache_retention",
    "reasoning_effort",
    "response_format",
    "safety_identifier",
    "seed",
    "service_tier",
    "stop",
    "store",
    "stream",
    "stream_options",
    "temperature",
    "tool_choice",
    "tools",
    "top_logprobs",
    "top_p",
    "user",
    "verbosity",
    "web_search_options",
];
/// Fields of a message for reasoning, which `OpenAI` does not have. Servers of open models take back the fields that
/// they send.
const REASONING_FIELDS: [&str; 3] = ["reasoning", "reasoning_content", "reasoning_details"];
/// Maximum length of a call's id.
const MAX_CALL_ID_CHARS: usize = 40;

/// Returns the refusal of a request, if the API would refuse it. `given`: bodies of the replies so far.
pub fn check(asked: &Asked, given: &[Vec<u8>]) -> Option<Reply> {
    if asked.what != "POST /v1/chat/completions" {
        return Some(Reply::error(404, format!("{} is not here", asked.what)));
    }
    let refused = keyed(asked).and_then(|()| Request { body: &asked.body, given }.check());
    refused.err().map(|refusal| refusal.reply())
}

struct Request<'a> {
    body: &'a Value,
    given: &'a [Vec<u8>],
}

impl Request<'_> {
    fn check(&self) -> Result<(), Refusal> {
        let body = object(self.body, "body")?;
        known(body, FIELDS, "")?;
        required(body, &["model", "messages"], "")?;
        non_empty(&self.body["messages"], "messages")?;
        check_settings(body)?;
        for (n, tool) in array(&self.body["tools"]).iter().enumerate() {
            check_tool(tool, &format!("tools[{n}]"))?;
        }
        let messages = array(&self.body["messages"]).iter().enumerate();
        let messages: Vec<_> = messages
            .map(|(n, message)| object(message, &format!("messages[{n}]")))
            .collect::<Result<_, _>>()?;
        for (n, message) in messages.iter().enumerate() {
            self.check_message(message, &format!("messages[{n}]"))?;
        }
        check_order(&messages)
    }

    fn check_message(&self, message: &Map<String, Value>, at: &str) -> Result<(), Refusal> {
        let within = format!("{at}.");
        let (fields, parts): (&[&str], &[&str]) = match text(message, "role") {
            "system" | "developer" => (&["role", "content", "name"], &["text"]),
            "user" => (&["role", "content", "name"], &["text", "image_url", "input_audio", "file"]),
            "assistant" => (
                &["role", "content", "name", "refusal", "audio", "tool_calls", "function_call"],
                &["text", "refusal"],
            ),
            "tool" => (&["role", "content", "tool_call_id"], &["text"]),
            _ => return Err(Refusal::value(field(message, "role"), format!("{at}.role"))),
        };
        let sent = |field: &&str| self.given.iter().any(|body| contains(body, field));
        let reasoning = REASONING_FIELDS.iter().copied().filter(sent);
        let fields: Vec<_> = fields.iter().copied().chain(reasoning).collect();
        known(message, &fields, &within)?;
        if text(message, "role") == "tool" {
            required(message, &["content", "tool_call_id"], &within)?;
        }
        if let Some(calls) = message.get("tool_calls") {
            non_empty(calls, &format!("{at}.tool_calls"))?;
            for (n, call) in array(calls).iter().enumerate() {
                check_call(call, &format!("{at}.tool_calls[{n}]"))?;
            }
        }
        let calls = message.contains_key("tool_calls");
        check_content(message.get("content"), parts, calls, &format!("{at}.content"))
    }
}

/// Returns `true` if a body names a field.
fn contains(body: &[u8], field: &str) -> bool {
    String::from_utf8_lossy(body).contains(&format!("\"{field}\""))
}

fn check_settings(body: &Map<String, Value>) -> Result<(), Refusal> {
    let model = text(body, "model");
    let has = |field: &str| body.get(field).is_some_and(|value| !value.is_null());
    if has("tools") {
        non_empty(&body["tools"], "tools")?;
    }
    for field in ["parallel_tool_calls", "tool_choice"] {
        if has(field) && !has("tools") {
            let message = format!(
                "Invalid value for '{field}': '{field}' is only allowed when 'tools' are specified."
            );
            return Err(Refusal::new(message, field));
        }
    }
    if has("stream_options") && body.get("stream") != Some(&Value::Bool(true)) {
        let message = "The 'stream_options' parameter is only allowed when 'stream' is enabled.";
        return Err(Refusal::new(message, "stream_options"));
    }
    let thinks = ["gpt-5", "gpt-6", "o1", "o3", "o4"].iter().any(|begin| model.starts_with(begin));
    if thinks && has("max_tokens") {
        let message = "Unsupported parameter: 'max_tokens' is not supported with this model. Use \
                       'max_completion_tokens' instead.";
        return Err(Refusal::new(message, "max_tokens").code("unsupported_parameter"));
    }
    if thinks && has("temperature") && body["temperature"].as_f64() != Some(1.0) {
        let message = format!(
            "Unsupported value: 'temperature' does not support {} with this model. Only the default \
             (1) value is supported.",
            body["temperature"]
        );
        return Err(Refusal::new(message, "temperature").code("unsupported_value"));
    }
    Ok(())
}

fn check_tool(tool: &Value, at: &str) -> Result<(), Refusal> {
    let tool = object(tool, at)?;
    let kind = kind(tool);
    let fields: &[&str] = match kind {
        "function" => &["name", "description", "parameters", "strict"],
        "custom" => &["name", "description", "format"],
        _ => return Err(Refusal::value(field(tool, "type"), format!("{at}.type"))),
    };
    known(tool, &["type", kind], &format!("{at}."))?;
    required(tool, &[kind], &format!("{at}."))?;
    let declared = object(&tool[kind], &format!("{at}.{kind}"))?;
    known(declared, fields, &format!("{at}.{kind}."))?;
    pattern(text(declared, "name"), &format!("{at}.{kind}.name"))
}

fn check_call(call: &Value, at: &str) -> Result<(), Refusal> {
    let call = object(call, at)?;
    let kind = kind(call);
    let content: &[&str] = match kind {
        "function" => &["name", "arguments"],
        "custom" => &["name", "input"],
        _ => return Err(Refusal::value(field(call, "type"), format!("{at}.type"))),
    };
    known(call, &["id", "type", kind], &format!("{at}."))?;
    required(call, &["id", kind], &format!("{at}."))?;
    longest(text(call, "id"), MAX_CALL_ID_CHARS, &format!("{at}.id"))?;
    let called = object(&call[kind], &format!("{at}.{kind}"))?;
    let within = format!("{at}.{kind}.");
    known(called, content, &within)?;
    required(called, content, &within)?;
    pattern(text(called, "name"), &format!("{within}name"))?;
    if called[content[1]].is_string() {
        return Ok(());
    }
    Err(Refusal::kind("a string", format!("{within}{}", content[1])))
}

/// Checks the content of a message. `calls`: the message has calls, and so needs no content.
fn check_content(
    content: Option<&Value>,
    allowed: &[&str],
    calls: bool,
    at: &str,
) -> Result<(), Refusal> {
    let parts = match content {
        Some(Value::String(_)) => return Ok(()),
        None | Some(Value::Null) if calls => return Ok(()),
        None | Some(Value::Null) => {
            let message = "Invalid value for 'content': expected a string, got null.";
            return Err(Refusal::new(message, at));
        }
        Some(parts) => parts,
    };
    non_empty(parts, at)?;
    for (n, part) in array(parts).iter().enumerate() {
        let at = format!("{at}[{n}]");
        let part = object(part, &at)?;
        let kind = kind(part);
        if !allowed.contains(&kind) {
            return Err(Refusal::value(field(part, "type"), format!("{at}.type")));
        }
        // The field with the content of a part has the name of its type.
        known(part, &["type", kind], &format!("{at}."))?;
        required(part, &[kind], &format!("{at}."))?;
        if kind == "image_url" {
            let image = object(&part[kind], &format!("{at}.image_url"))?;
            known(image, &["url", "detail"], &format!("{at}.image_url."))?;
            required(image, &["url"], &format!("{at}.image_url."))?;
        }
    }
    Ok(())
}

/// Refuses calls without results, and results without calls.
fn check_order(messages: &[&Map<String, Value>]) -> Result<(), Refusal> {
    let mut open: Vec<&str> = Vec::new();
    let mut called: Vec<&str> = Vec::new();
    for (n, message) in messages.iter().enumerate() {
        let role = text(message, "role");
        if role == "tool" {
            let id = text(message, "tool_call_id");
            if called.is_empty() {
                let message = "Invalid parameter: messages with role 'tool' must be a response to a \
                               preceeding message with 'tool_calls'.";
                return Err(Refusal::new(message, format!("messages.[{n}].role")));
            }
            if !called.contains(&id) {
                let message = format!(
                    "Invalid parameter: 'tool_call_id' of '{id}' not found in 'tool_calls' of previous \
                     message."
                );
                return Err(Refusal::new(message, format!("messages.[{n}].tool_call_id")));
            }
            open.retain(|other| *other != id);
            continue;
        }
        answered(&open, n)?;
        let calls = message.get("tool_calls").map(array).unwrap_or_default();
        called = calls.iter().filter_map(|call| call["id"].as_str()).collect();
        open.clone_from(&called);
    }
    answered(&open, messages.len())
}

/// Refuses calls that no message before the message `n` has answered.
fn answered(open: &[&str], n: usize) -> Result<(), Refusal> {
    if open.is_empty() {
        return Ok(());
    }
    let message = format!(
        "An assistant message with 'tool_calls' must be followed by tool messages responding to each \
         'tool_call_id'. The following tool_call_ids did not have response messages: {}",
        open.join(", ")
    );
    Err(Refusal::new(message, format!("messages.[{n}].role")))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Returns a request that the API accepts.
    fn good() -> Value {
        let call = json!({ "id": "c1", "type": "function",
            "function": { "name": "glob", "arguments": "{}" } });
        json!({
            "model": "gpt-4.1", "stream": true, "stream_options": { "include_usage": true },
            "messages": [
                { "role": "system", "content": "Be brief." },
                { "role": "user", "content": [{ "type": "text", "text": "hi" }] },
                { "role": "assistant", "content": null, "tool_calls": [call] },
                { "role": "tool", "tool_call_id": "c1", "content": "ran" },
            ],
            "tools": [{ "type": "function", "function": { "name": "glob", "parameters": {} } }],
            "parallel_tool_calls": true,
        })
    }

    #[track_caller]
    fn refuses(change: impl Fn(&mut Value), words: &str) {
        refuses_after(&[], change, words);
    }

    #[track_caller]
    fn refuses_after(given: &[Vec<u8>], change: impl Fn(&mut Value), words: &str) {
        let mut body = good();
        change(&mut body);
        let refusal = Request { body: &body, given }.check().err();
        let refusal = refusal.map(|refusal| refusal.message).unwrap_or_default();
        assert!(refusal.contains(words) && words.is_empty() == refusal.is_empty(), "{refusal}");
    }

    #[test]
    fn the_stand_in_refuses_what_the_api_refuses() {
        refuses(|_| (), "");
        refuses(|body| *body = Value::Null, "expected an object");
        refuses(|body| body["max_output_tokens"] = json!(5), "Unknown parameter");
        refuses(|body| body["messages"] = json!([]), "empty array");
        refuses(|body| body["tools"] = json!([]), "empty array");
        refuses(|body| body["tools"] = Value::Null, "only allowed when 'tools' are specified");
        refuses(|body| body["stream"] = json!(false), "only allowed when 'stream' is enabled");
        refuses(|body| body["tools"][0]["function"]["name"] = json!("a.b"), "match pattern");
        refuses(|body| body["messages"][1]["role"] = json!("bot"), "Invalid value: 'bot'");
        refuses(|body| body["messages"][1]["content"] = Value::Null, "got null");
        refuses(
            |body| body["messages"][1]["content"][0]["type"] = json!("input_text"),
            "input_text",
        );
        let call = |body: &mut Value, field: &str, value: Value| {
            body["messages"][2]["tool_calls"][0][field] = value;
        };
        refuses(|body| call(body, "index", json!(0)), "messages[2].tool_calls[0].index");
        refuses(|body| call(body, "id", json!("c".repeat(41))), "maximum length 40");
        let arguments = json!({ "name": "glob", "arguments": {} });
        refuses(|body| call(body, "function", arguments.clone()), "expected a string");
        let without = |n: usize| {
            move |body: &mut Value| drop(body["messages"].as_array_mut().unwrap().remove(n))
        };
        refuses(without(3), "did not have response messages: c1");
        refuses(without(2), "must be a response to a preceeding message");
        refuses(|body| body["messages"][3]["tool_call_id"] = json!("c2"), "'c2' not found");
    }

    #[test]
    fn models_that_think_have_their_own_limit_and_no_temperature() {
        let set = |field: &str, value: Value| {
            let field = field.to_owned();
            move |body: &mut Value| {
                body["model"] = json!("gpt-5.1");
                body[&field] = value.clone();
            }
        };
        refuses(set("max_tokens", json!(5)), "Use 'max_completion_tokens' instead");
        refuses(set("temperature", json!(0.5)), "'temperature' does not support 0.5");
        refuses(set("max_completion_tokens", json!(5)), "");
    }

    #[test]
    fn only_a_server_that_sends_reasoning_takes_it_back() {
        let think = |body: &mut Value| body["messages"][2]["reasoning_content"] = json!("Hm.");
        refuses(think, "Unknown parameter: 'messages[2].reasoning_content'");
        refuses_after(&[br#"data: {"reasoning_content":"Hm."}"#.to_vec()], think, "");
    }
}
