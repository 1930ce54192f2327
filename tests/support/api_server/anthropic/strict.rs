//! Refusals of the Messages API.
//!
//! The names of fields are those of the types in Anthropic's own client for Python, version 2.14. The words of the
//! refusals are those that people have reported.

mod blocks;

use std::collections::HashSet;

use serde_json::{Map, Value, json};

use self::blocks::Blocks;
use crate::api_server::fields::{array, field, is_name, kind, missing, text, unknown};
use crate::api_server::{Asked, Reply};

/// Fields of a request.
const FIELDS: &[&str] = &[
    "cache_control",
    "container",
    "diagnostics",
    "inference_geo",
    "max_tokens",
    "messages",
    "metadata",
    "model",
    "output_config",
    "service_tier",
    "speed",
    "stop_sequences",
    "stream",
    "system",
    "temperature",
    "thinking",
    "tool_choice",
    "tools",
    "top_k",
    "top_p",
    "user_profile_id",
    "workspace_id",
];
/// Version of the API that refuses the fields of [`SAMPLING_FIELDS`] for every model.
const NEW_VERSION: &str = "2026-10-21";
/// Fields that today's models refuse.
const SAMPLING_FIELDS: [&str; 3] = ["temperature", "top_p", "top_k"];
/// Beginnings of the names of models that are older than adaptive thinking, and take what today's refuse. Opus and
/// Sonnet 4.6 have both ways of thinking; the stand-in takes them for today's models.
const OLD_MODELS: &[&str] = &[
    "claude-3",
    "claude-haiku-4",
    "claude-opus-4-0",
    "claude-opus-4-1",
    "claude-opus-4-2",
    "claude-opus-4-5",
    "claude-sonnet-4-0",
    "claude-sonnet-4-2",
    "claude-sonnet-4-5",
];
/// Maximum number of marks for the cache.
const MAX_CACHE_MARKS: usize = 4;
/// Minimum budget for thinking in tokens.
const MIN_BUDGET_TOKENS: u64 = 1024;
/// Maximum length of a tool's name.
const MAX_NAME_CHARS: usize = 128;

/// Returns the refusal of a request, if the API would refuse it. `given`: bodies of the replies so far.
pub fn check(asked: &Asked, given: &[Vec<u8>]) -> Option<Reply> {
    let path = asked.what.split('?').next().unwrap_or_default();
    let refused = match path {
        "POST /v1/messages" => check_headers(asked).and_then(|version| {
            let blocks = Blocks::new(given);
            Request { body: &asked.body, version, blocks }.check()
        }),
        _ => Err(Refusal { status: 404, kind: "not_found_error", message: "Not Found".to_owned() }),
    };
    refused.err().map(|refusal| refusal.reply())
}

/// An error that the API answers a request with.
#[derive(Debug)]
struct Refusal {
    status: u16,
    kind: &'static str,
    message: String,
}

impl Refusal {
    fn new(message: impl Into<String>) -> Self {
        Self { status: 400, kind: "invalid_request_error", message: message.into() }
    }

    fn reply(&self) -> Reply {
        let error = json!({ "type": self.kind, "message": self.message });
        let body = json!({ "type": "error", "error": error, "request_id": "req_1" });
        Reply::error(self.status, body.to_string())
    }
}

/// Refuses a request without a key or without a version; returns the version.
fn check_headers(asked: &Asked) -> Result<&str, Refusal> {
    let header = |name: &str| asked.headers.get(name).and_then(|value| value.to_str().ok());
    if header("x-api-key").or(header("authorization")).is_none() {
        let message = "x-api-key header is required".to_owned();
        return Err(Refusal { status: 401, kind: "authentication_error", message });
    }
    match header("anthropic-version") {
        Some(version @ ("2023-06-01" | NEW_VERSION)) => Ok(version),
        Some(other) => {
            Err(Refusal::new(format!("anthropic-version: \"{other}\" is not a valid version")))
        }
        None => Err(Refusal::new("anthropic-version: header is required")),
    }
}

struct Request<'a> {
    body: &'a Value,
    /// Version of the API.
    version: &'a str,
    blocks: Blocks,
}

impl Request<'_> {
    fn check(&self) -> Result<(), Refusal> {
        let body = object(self.body, "body")?;
        known(body, FIELDS, "")?;
        required(body, &["model", "max_tokens", "messages"], "")?;
        let is_old = OLD_MODELS.iter().any(|begin| text(body, "model").starts_with(begin));
        self.check_sampling(body, is_old)?;
        check_thinking(body, is_old)?;
        check_output(field(body, "output_config"))?;
        check_tools(body)?;
        check_system(field(body, "system"))?;
        let turns = turns(body)?;
        for (n, turn) in turns.iter().enumerate() {
            self.blocks.check(turn, n)?;
        }
        check_marks(self.body)?;
        check_calls(&turns)?;
        self.check_last(body, &turns, is_old)
    }

    fn check_sampling(&self, body: &Map<String, Value>, is_old: bool) -> Result<(), Refusal> {
        let found = SAMPLING_FIELDS.iter().find(|field| body.contains_key(**field));
        match found.filter(|_| !is_old || self.version == NEW_VERSION) {
            Some(field) => Err(Refusal::new(format!("`{field}` is deprecated for this model."))),
            None => Ok(()),
        }
    }

    /// Refuses an answer at the end, which the model would have to continue, and thinking that is left out of a turn
    /// that goes on.
    fn check_last(
        &self,
        body: &Map<String, Value>,
        turns: &[Turn<'_>],
        is_old: bool,
    ) -> Result<(), Refusal> {
        let last = turns.last().expect("there is a message");
        if last.role == "assistant" && !is_old && !self.blocks.is_paused() {
            return Err(Refusal::new(
                "This model does not support assistant message prefill. The conversation must end \
                 with a user message.",
            ));
        }
        let thinks = field(body, "thinking")["type"] == "enabled";
        let answers = last.blocks.iter().any(|block| kind(block) == "tool_result");
        let Some(n) = turns.len().checked_sub(2).filter(|_| thinks && answers) else {
            return Ok(());
        };
        let first = turns[n].blocks.first().map(|block| kind(block)).unwrap_or_default();
        if matches!(first, "thinking" | "redacted_thinking") {
            return Ok(());
        }
        Err(Refusal::new(format!(
            "messages.{n}.content.0.type: Expected `thinking` or `redacted_thinking`, but found \
             `{first}`. When `thinking` is enabled, a final `assistant` message must start with a \
             thinking block (preceeding the lastmost set of `tool_use` and `tool_result` blocks)."
        )))
    }
}

fn check_thinking(body: &Map<String, Value>, is_old: bool) -> Result<(), Refusal> {
    let Some(thinking) = body.get("thinking") else { return Ok(()) };
    let thinking = object(thinking, "thinking")?;
    let kind = kind(thinking);
    let within = format!("thinking.{kind}");
    let refused = |how: &str| {
        Err(Refusal::new(format!(
            "\"thinking.type.{kind}\" is not supported for this model. Use {how} to control thinking \
             behavior."
        )))
    };
    match kind {
        "disabled" => known(thinking, &["type"], &within),
        "adaptive" if is_old => refused("\"thinking.type.enabled\" and \"budget_tokens\""),
        "adaptive" => known(thinking, &["type", "display"], &within),
        "enabled" if !is_old => refused("\"thinking.type.adaptive\" and \"output_config.effort\""),
        "enabled" => {
            known(thinking, &["type", "budget_tokens", "display"], &within)?;
            let budget = field(thinking, "budget_tokens").as_u64().unwrap_or_default();
            if budget < MIN_BUDGET_TOKENS {
                let message = format!(
                    "{within}.budget_tokens: Input should be greater than or equal to \
                     {MIN_BUDGET_TOKENS}"
                );
                return Err(Refusal::new(message));
            }
            match field(body, "max_tokens").as_u64() {
                Some(most) if most > budget => Ok(()),
                _ => {
                    Err(Refusal::new("`max_tokens` must be greater than `thinking.budget_tokens`."))
                }
            }
        }
        other => Err(Refusal::new(format!(
            "thinking: Input tag '{other}' found using 'type' does not match any of the expected tags: \
             'adaptive', 'disabled', 'enabled'"
        ))),
    }
}

/// Refuses an effort that is none, and a schema of the answer that is open.
fn check_output(config: &Value) -> Result<(), Refusal> {
    let Some(config) = config.as_object() else { return Ok(()) };
    known(config, &["effort", "format", "task_budget"], "output_config")?;
    let efforts = ["low", "medium", "high", "xhigh", "max"];
    if config.contains_key("effort") && !efforts.contains(&text(config, "effort")) {
        let message =
            "output_config.effort: Input should be 'low', 'medium', 'high', 'xhigh' or 'max'";
        return Err(Refusal::new(message));
    }
    let Some(format) = config.get("format") else { return Ok(()) };
    let format = object(format, "output_config.format")?;
    known(format, &["type", "schema"], "output_config.format")?;
    if is_closed(field(format, "schema")) {
        return Ok(());
    }
    Err(Refusal::new(
        "output_config.format.schema: For 'object' type, 'additionalProperties' must be explicitly set \
         to false",
    ))
}

fn is_closed(schema: &Value) -> bool {
    let inside = schema["properties"].as_object().into_iter().flat_map(Map::values);
    (schema["type"] != "object" || schema["additionalProperties"] == false)
        && inside.chain(schema.get("items")).all(is_closed)
}

fn check_tools(body: &Map<String, Value>) -> Result<(), Refusal> {
    let mut names = HashSet::new();
    for (n, tool) in array(field(body, "tools")).iter().enumerate() {
        let tool = object(tool, &format!("tools.{n}"))?;
        // Tools of the server have a type with a version, and fields of their own.
        if !["", "custom"].contains(&kind(tool)) {
            continue;
        }
        let at = format!("tools.{n}.custom");
        let fields = [
            "type",
            "name",
            "description",
            "input_schema",
            "cache_control",
            "strict",
            "input_examples",
            "defer_loading",
            "allowed_callers",
            "eager_input_streaming",
        ];
        known(tool, &fields, &at)?;
        required(tool, &["name", "input_schema"], &at)?;
        let name = text(tool, "name");
        if !is_name(name, MAX_NAME_CHARS) {
            return Err(Refusal::new(format!(
                "{at}.name: String should match pattern '^[a-zA-Z0-9_-]{{1,128}}$'"
            )));
        }
        if !names.insert(name) {
            return Err(Refusal::new("tools: Tool names must be unique."));
        }
        let schema = object(field(tool, "input_schema"), &format!("{at}.input_schema"))?;
        required(schema, &["type"], &format!("{at}.input_schema"))?;
        if ["oneOf", "allOf", "anyOf"].iter().any(|word| schema.contains_key(*word)) {
            return Err(Refusal::new(format!(
                "{at}.input_schema: input_schema does not support oneOf, allOf, or anyOf at the top level"
            )));
        }
    }
    Ok(())
}

fn check_system(system: &Value) -> Result<(), Refusal> {
    for (n, block) in array(system).iter().enumerate() {
        let at = format!("system.{n}");
        let block = object(block, &at)?;
        known(block, &["type", "text", "cache_control", "citations"], &at)?;
        if text(block, "text").is_empty() {
            return Err(Refusal::new("system: text content blocks must be non-empty"));
        }
    }
    Ok(())
}

/// A message. A text in place of blocks is no block.
struct Turn<'a> {
    role: &'a str,
    blocks: Vec<&'a Map<String, Value>>,
}

fn turns(body: &Map<String, Value>) -> Result<Vec<Turn<'_>>, Refusal> {
    let messages = array(field(body, "messages"));
    if messages.is_empty() {
        return Err(Refusal::new("messages: at least one message is required"));
    }
    let mut turns = Vec::new();
    for (n, message) in messages.iter().enumerate() {
        let at = format!("messages.{n}");
        let message = object(message, &at)?;
        known(message, &["role", "content"], &at)?;
        required(message, &["role", "content"], &at)?;
        let role = text(message, "role");
        if !["user", "assistant"].contains(&role) {
            return Err(Refusal::new(format!(
                "messages: Unexpected role \"{role}\". Allowed roles are \"user\" or \"assistant\"."
            )));
        }
        let content = field(message, "content");
        let is_last = n + 1 == messages.len();
        let is_empty = array(content).is_empty() && content.as_str().is_none_or(str::is_empty);
        if is_empty && !(is_last && role == "assistant") {
            return Err(Refusal::new(format!(
                "{at}: all messages must have non-empty content except for the optional final \
                 assistant message"
            )));
        }
        let blocks = array(content).iter().enumerate();
        let blocks =
            blocks.map(|(at_block, block)| object(block, &format!("{at}.content.{at_block}")));
        turns.push(Turn { role, blocks: blocks.collect::<Result<_, _>>()? });
    }
    Ok(turns)
}

/// Refuses too many marks for the cache.
fn check_marks(body: &Value) -> Result<(), Refusal> {
    fn count(value: &Value) -> usize {
        match value {
            Value::Object(fields) => {
                let marked = usize::from(fields.contains_key("cache_control"));
                marked + fields.values().map(count).sum::<usize>()
            }
            Value::Array(values) => values.iter().map(count).sum(),
            _ => 0,
        }
    }
    let found = count(body);
    if found <= MAX_CACHE_MARKS {
        return Ok(());
    }
    Err(Refusal::new(format!(
        "A maximum of {MAX_CACHE_MARKS} blocks with cache_control may be provided. Found {found}."
    )))
}

/// Refuses calls that the next message does not begin to answer, and results without calls.
fn check_calls(turns: &[Turn<'_>]) -> Result<(), Refusal> {
    let mut seen = HashSet::new();
    let mut called: Vec<&str> = Vec::new();
    for (n, turn) in turns.iter().enumerate() {
        let is_result = |block: &&&Map<String, Value>| kind(block) == "tool_result";
        let first = turn.blocks.iter().take_while(is_result);
        let answered: Vec<_> = first.map(|block| text(block, "tool_use_id")).collect();
        let open: Vec<_> = called.iter().copied().filter(|id| !answered.contains(id)).collect();
        if let Some(before) = n.checked_sub(1).filter(|_| !open.is_empty()) {
            return Err(unanswered(before, &open));
        }
        for (at, block) in
            turn.blocks.iter().enumerate().filter(|(_, it)| kind(it) == "tool_result")
        {
            let id = text(block, "tool_use_id");
            if !called.contains(&id) {
                return Err(Refusal::new(format!(
                    "messages.{n}.content.{at}: unexpected `tool_use_id` found in `tool_result` \
                     blocks: {id}. Each `tool_result` block must have a corresponding `tool_use` block \
                     in the previous message."
                )));
            }
        }
        let calls = turn.blocks.iter().filter(|block| kind(block) == "tool_use");
        called = calls.map(|block| text(block, "id")).collect();
        if !called.iter().all(|id| seen.insert(*id)) {
            return Err(Refusal::new("messages: `tool_use` ids must be unique"));
        }
    }
    if called.is_empty() { Ok(()) } else { Err(unanswered(turns.len() - 1, &called)) }
}

fn unanswered(n: usize, ids: &[&str]) -> Refusal {
    Refusal::new(format!(
        "messages.{n}: `tool_use` ids were found without `tool_result` blocks immediately after: {}. Each \
         `tool_use` block must have a corresponding `tool_result` block in the next message.",
        ids.join(", ")
    ))
}

fn object<'a>(value: &'a Value, at: &str) -> Result<&'a Map<String, Value>, Refusal> {
    let wrong = || Refusal::new(format!("{at}: Input should be a valid dictionary"));
    value.as_object().ok_or_else(wrong)
}

/// Refuses an object with a field that the API does not have.
fn known(object: &Map<String, Value>, fields: &[&str], at: &str) -> Result<(), Refusal> {
    let Some(field) = unknown(object, fields) else { return Ok(()) };
    Err(Refusal::new(format!("{}: Extra inputs are not permitted", joined(at, field))))
}

/// Refuses an object without a field.
fn required(object: &Map<String, Value>, fields: &[&str], at: &str) -> Result<(), Refusal> {
    let Some(field) = missing(object, fields) else { return Ok(()) };
    Err(Refusal::new(format!("{}: Field required", joined(at, field))))
}

fn joined(at: &str, field: &str) -> String {
    if at.is_empty() { field.to_owned() } else { format!("{at}.{field}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MODEL: &str = "claude-opus-5-5";

    /// Returns the body of the answer before [`good`].
    fn given() -> Vec<u8> {
        let thinking = json!({ "type": "thinking", "thinking": "", "signature": "" });
        let event = |index: u64, delta: Value| {
            let event = json!({ "type": "content_block_delta", "index": index, "delta": delta });
            format!("data: {event}\n\n")
        };
        let start = json!({ "type": "content_block_start", "index": 0, "content_block": thinking });
        let thought = event(0, json!({ "type": "thinking_delta", "thinking": "Hm." }));
        let signature = event(0, json!({ "type": "signature_delta", "signature": "c2ln" }));
        format!("data: {start}\n\n{thought}{signature}").into_bytes()
    }

    /// Returns a request that the API accepts.
    fn good() -> Value {
        json!({
            "model": MODEL, "max_tokens": 2000, "stream": true,
            "thinking": { "type": "adaptive", "display": "summarized" },
            "system": [{ "type": "text", "text": "Be brief.", "cache_control": { "type": "ephemeral" } }],
            "tools": [{ "name": "glob", "description": "Finds.", "input_schema": { "type": "object" } }],
            "messages": [
                { "role": "user", "content": "hi" },
                { "role": "assistant", "content": [
                    { "type": "thinking", "thinking": "Hm.", "signature": "c2ln" },
                    { "type": "tool_use", "id": "toolu_1", "name": "glob", "input": {} },
                ] },
                { "role": "user", "content": [{ "type": "tool_result", "tool_use_id": "toolu_1" }] },
            ],
        })
    }

    #[track_caller]
    fn refuses(change: impl Fn(&mut Value), words: &str) {
        let mut body = good();
        change(&mut body);
        let request =
            Request { body: &body, version: "2023-06-01", blocks: Blocks::new(&[given()]) };
        let refusal = request.check().err().map(|refusal| refusal.message).unwrap_or_default();
        assert!(refusal.contains(words) && words.is_empty() == refusal.is_empty(), "{refusal}");
    }

    #[test]
    fn the_stand_in_refuses_what_the_api_refuses() {
        refuses(|_| (), "");
        refuses(|body| body["reasoning"] = json!({}), "reasoning: Extra inputs are not permitted");
        refuses(|body| drop(body.as_object_mut().unwrap().remove("max_tokens")), "Field required");
        refuses(|body| body["temperature"] = json!(1), "`temperature` is deprecated");
        let budget = |tokens: u64| json!({ "type": "enabled", "budget_tokens": tokens });
        refuses(
            |body| body["thinking"] = budget(1024),
            "\"thinking.type.enabled\" is not supported",
        );
        let old = |tokens: u64| {
            move |body: &mut Value| {
                body["model"] = json!("claude-sonnet-4-5");
                body["thinking"] = budget(tokens);
            }
        };
        refuses(old(1024), "");
        refuses(old(1000), "greater than or equal to 1024");
        refuses(old(2000), "`max_tokens` must be greater");
        refuses(
            |body| body["output_config"] = json!({ "effort": "loud" }),
            "Input should be 'low'",
        );
        let format = json!({ "type": "json_schema", "schema": { "type": "object" } });
        refuses(
            |body| body["output_config"] = json!({ "format": format }),
            "explicitly set to false",
        );
        refuses(|body| body["tools"][0]["name"] = json!("a.b"), "tools.0.custom.name");
        refuses(
            |body| body["tools"][0]["input_schema"] = json!({}),
            "input_schema.type: Field required",
        );
        refuses(|body| body["messages"] = json!([]), "at least one message");
    }

    #[test]
    fn a_message_is_refused_as_the_api_refuses_it() {
        refuses(|body| body["messages"][0]["content"] = json!(""), "must have non-empty content");
        let said = |body: &mut Value, block: Value| body["messages"][0]["content"] = json!([block]);
        let text = |text: &str| json!({ "type": "text", "text": text });
        refuses(|body| said(body, text(" ")), "non-whitespace text");
        refuses(|body| said(body, json!({ "type": "thinking" })), "not permitted in user messages");
        let block = |body: &mut Value, n: usize, field: &str, value: Value| {
            body["messages"][1]["content"][n][field] = value;
        };
        let mark = json!({ "type": "ephemeral" });
        refuses(
            |body| block(body, 0, "cache_control", mark.clone()),
            "messages.1.content.0.thinking.cache_control: Extra inputs are not permitted",
        );
        refuses(|body| block(body, 0, "thinking", json!("No.")), "content.0: Invalid `signature`");
        refuses(|body| block(body, 1, "input", json!("{}")), "valid dictionary");
        refuses(|body| block(body, 1, "id", json!("c:1")), "should match pattern");
        let without = |n: usize| {
            move |body: &mut Value| drop(body["messages"].as_array_mut().unwrap().remove(n))
        };
        refuses(without(2), "messages.1: `tool_use` ids were found without `tool_result`");
        refuses(without(1), "messages.1.content.0: unexpected `tool_use_id`");
        let after = |body: &mut Value| {
            let results = body["messages"][2]["content"].as_array_mut().unwrap();
            results.insert(0, json!({ "type": "text", "text": "first" }));
        };
        refuses(after, "were found without `tool_result` blocks immediately after: toolu_1");
        let failed = |body: &mut Value| body["messages"][2]["content"][0]["is_error"] = json!(true);
        refuses(failed, "content cannot be empty if `is_error` is true");
        let begun = |body: &mut Value| {
            let more = json!({ "role": "assistant", "content": "All is" });
            body["messages"].as_array_mut().unwrap().push(more);
        };
        refuses(begun, "does not support assistant message prefill");
        let marks = |body: &mut Value| {
            let marked =
                json!({ "type": "text", "text": "x", "cache_control": { "type": "ephemeral" } });
            body["messages"][0]["content"] = json!([marked, marked, marked, marked]);
        };
        refuses(marks, "Found 5.");
        let unthinking = |body: &mut Value| {
            body["model"] = json!("claude-sonnet-4-5");
            body["thinking"] = json!({ "type": "enabled", "budget_tokens": 1024 });
            body["messages"][1]["content"].as_array_mut().unwrap().remove(0);
        };
        refuses(
            unthinking,
            "messages.1.content.0.type: Expected `thinking` or `redacted_thinking`",
        );
    }
}
