//! Refusals of the Responses API, and of chat completions for models that need the Responses API. The names of fields
//! are those of the types in `OpenAI`'s own client for Python, version 3.57; the words of the refusals are those that
//! people have reported.

use std::collections::HashSet;

use serde_json::{Map, Value, json};

use crate::api_server::fields::{array, events, field, kind, text};
use crate::api_server::openai::refusal::{
    Refusal, keyed, known, longest, non_empty, object, pattern, required,
};
use crate::api_server::{Asked, Reply};

/// Fields of a request.
const FIELDS: &[&str] = &[
    "access_programs",
    "background",
    "background_options",
    // Not in the types, but codex sends it.
    "client_metadata",
    "context_management",
    "conversation",
    "image",
    "include",
    "input",
    "instructions",
    "max_output_tokens",
    "max_tool_calls",
    "metadata",
    "model",
    "moderation",
    "parallel_tool_calls",
    "previous_response_id",
    "prompt",
    "prompt_cache_key",
    "prompt_cache_options",
    "prompt_cache_retention",
    "reasoning",
    "safety_identifier",
    "service_tier",
    "store",
    "stream",
    "stream_options",
    "temperature",
    "text",
    "tool_choice",
    "tools",
    "top_logprobs",
    "top_p",
    "truncation",
    "user",
];

/// Types of tools that the server runs, or whose form it sets.
const SERVER_TOOLS: &[&str] = &[
    "apply_patch",
    "code_interpreter",
    "computer",
    "computer_use_preview",
    "file_search",
    "image_generation",
    "local_shell",
    "mcp",
    "programmatic_tool_calling",
    "shell",
    "tool_search",
    "web_search",
    "web_search_2025_08_26",
    "web_search_preview",
    "web_search_preview_2025_03_11",
];
/// Values of `include`: data that a request can ask for beside the answer.
const INCLUDES: &[&str] = &[
    "code_interpreter_call.outputs",
    "computer_call_output.output.image_url",
    "file_search_call.results",
    "message.input_image.image_url",
    "message.output_text.logprobs",
    "reasoning.encrypted_content",
    "web_search_call.action.sources",
    "web_search_call.results",
];

/// Returns the refusal of a request, if the API would refuse it. `given`: bodies of the replies so far.
pub fn check(asked: &Asked, given: &[Vec<u8>]) -> Option<Reply> {
    let refused = match asked.what.as_str() {
        "POST /v1/responses" => {
            keyed(asked).and_then(|()| Request { body: &asked.body, issued: issued(given) }.check())
        }
        "POST /v1/chat/completions" => chat(&asked.body),
        path => return Some(Reply::error(404, format!("{path} is not here"))),
    };
    refused.err().map(|refusal| refusal.reply())
}

/// Refuses tools, as chat completions do for the models of this API.
fn chat(body: &Value) -> Result<(), Refusal> {
    let model = body["model"].as_str().unwrap_or_default();
    if body.get("tools").is_none() {
        let message =
            "This model is only supported in v1/responses and not in v1/chat/completions.";
        return Err(Refusal::new(message, "model").status(404));
    }
    Err(Refusal::new(
        format!(
            "Function tools with reasoning_effort are not supported for {model} in \
             /v1/chat/completions. To use function tools, use /v1/responses or set reasoning_effort \
             to 'none'."
        ),
        "reasoning_effort",
    ))
}

/// Returns the items of each reply so far, in their final form.
fn issued(given: &[Vec<u8>]) -> Vec<Vec<Value>> {
    let items = |body: &Vec<u8>| {
        let events = events(body).into_iter();
        let ends = events.filter(|event| event["type"] == "response.output_item.done");
        ends.map(|event| event["item"].clone()).collect()
    };
    given.iter().map(items).collect()
}

struct Request<'a> {
    body: &'a Value,
    issued: Vec<Vec<Value>>,
}

impl Request<'_> {
    fn check(&self) -> Result<(), Refusal> {
        let body = object(self.body, "body")?;
        known(body, FIELDS, "")?;
        required(body, &["model", "input"], "")?;
        self.check_settings(body)?;
        for (n, tool) in array(&self.body["tools"]).iter().enumerate() {
            check_tool(tool, &format!("tools[{n}]"))?;
        }
        let items = array(&self.body["input"]).iter().enumerate();
        let items: Vec<_> = items
            .map(|(n, item)| object(item, &format!("input[{n}]")))
            .collect::<Result<_, _>>()?;
        for (n, item) in items.iter().enumerate() {
            check_item(item, &format!("input[{n}]"))?;
        }
        self.check_ids(&items)?;
        check_order(&items)?;
        check_calls(&items)
    }

    fn check_settings(&self, body: &Map<String, Value>) -> Result<(), Refusal> {
        // The words of the server of ChatGPT, which keeps nothing and only streams, as this one.
        for (name, needed) in [("store", false), ("stream", true)] {
            if field(body, name) != &Value::Bool(needed) {
                return Err(Refusal::new(format!("{name} must be set to {needed}"), name));
            }
        }
        let model = text(body, "model");
        if let Some(key) = body.get("prompt_cache_key").and_then(Value::as_str) {
            longest(key, 64, "prompt_cache_key")?;
        }
        for include in array(&self.body["include"]) {
            if !include.as_str().is_some_and(|include| INCLUDES.contains(&include)) {
                return Err(Refusal::value(include, "include"));
            }
        }
        check_text(&self.body["text"])?;
        let Some(reasoning) = body.get("reasoning").and_then(Value::as_object) else {
            return Ok(());
        };
        known(reasoning, &["context", "effort", "mode", "summary"], "reasoning.")?;
        let without_none = ["gpt-6.1-sol", "gpt-6-astra"].contains(&model);
        let efforts = ["none", "low", "medium", "high", "xhigh", "max"];
        let effort = reasoning.get("effort").and_then(Value::as_str);
        if effort.is_some_and(|it| !efforts.contains(&it) || it == "none" && without_none) {
            let message = format!("Unsupported value: '{}' is not supported.", effort.unwrap());
            return Err(Refusal::new(message, "reasoning.effort").code("unsupported_value"));
        }
        match reasoning.get("summary").map(|it| it.as_str().unwrap_or_default()) {
            None | Some("auto" | "concise" | "detailed") => Ok(()),
            Some(_) => Err(Refusal::value(&reasoning["summary"], "reasoning.summary")),
        }
    }

    /// Refuses items that claim to be the model's and are not, or that miss the reasoning before them.
    fn check_ids(&self, items: &[&Map<String, Value>]) -> Result<(), Refusal> {
        let mut seen = HashSet::new();
        let mut last = (0, 0);
        for (n, item) in items.iter().enumerate() {
            let Some(id) = item.get("id").and_then(Value::as_str) else { continue };
            if !seen.insert(id) {
                return Err(Refusal::new(format!("Duplicate item found with id {id}."), "input"));
            }
            // Clients may give ids to their own items, as codex does.
            let own = match kind(item) {
                "message" if text(item, "role") != "assistant" => Some("msg"),
                "function_call_output" => Some("fc"),
                "custom_tool_call_output" => Some("ctc"),
                _ => None,
            };
            if let Some(begin) = own {
                own_id(id, begin, n)?;
                continue;
            }
            let place = self.issued.iter().enumerate().find_map(|(reply, issued)| {
                Some((reply, issued.iter().position(|it| it["id"] == id)?))
            });
            let Some((reply, at)) = place else {
                let message = format!(
                    "Item with id '{id}' not found. Items are not persisted when `store` is set to \
                     false."
                );
                return Err(Refusal::new(message, "input").status(404));
            };
            let issued = &self.issued[reply];
            if issued[at].as_object().map(without_nulls) != Some(without_nulls(item)) {
                let message = "The encrypted content could not be verified.";
                return Err(Refusal::new(message, "input").code("invalid_encrypted_content"));
            }
            if (reply, at) < last {
                return Err(Refusal::new(format!("Item '{id}' is out of order."), "input"));
            }
            last = (reply, at);
            let before = at.checked_sub(1).map(|before| &issued[before]);
            let reasoning = before.filter(|before| before["type"] == "reasoning");
            if let Some(needed) = reasoning.and_then(|it| it["id"].as_str())
                && !seen.contains(needed)
            {
                return Err(Refusal::new(
                    format!(
                        "Item '{id}' of type '{}' was provided without its required 'reasoning' \
                         item: '{needed}'.",
                        kind(item)
                    ),
                    "input",
                ));
            }
        }
        Ok(())
    }
}

/// Returns the fields of an item that have a value: codex sends back `content: null` where the item had no content.
fn without_nulls(item: &Map<String, Value>) -> Map<String, Value> {
    let fields = item.iter().filter(|(_, value)| !value.is_null());
    fields.map(|(name, value)| (name.clone(), value.clone())).collect()
}

/// Refuses an id by which the kind of an item cannot be told.
fn own_id(id: &str, begin: &str, n: usize) -> Result<(), Refusal> {
    if id.starts_with(begin) {
        return Ok(());
    }
    let param = format!("input[{n}].id");
    let message = format!("Invalid '{param}': '{id}'. Expected an ID that begins with '{begin}'.");
    Err(Refusal::new(message, param).code("invalid_value"))
}

/// Refuses a format of the answer that is none, and a strict schema with what no strict schema has.
fn check_text(config: &Value) -> Result<(), Refusal> {
    let Some(config) = config.as_object() else { return Ok(()) };
    known(config, &["format", "verbosity"], "text.")?;
    let Some(format) = config.get("format").and_then(Value::as_object) else { return Ok(()) };
    known(format, &["type", "name", "description", "schema", "strict"], "text.format.")?;
    if text(format, "type") == "text" {
        return Ok(());
    }
    let schema = field(format, "schema");
    if text(format, "type") != "json_schema"
        || !schema.is_object()
        || !field(format, "name").is_string()
    {
        return Err(Refusal::new("Invalid value: 'text.format'.", "text.format"));
    }
    if field(format, "strict") != &json!(true) || is_strict(schema) {
        return Ok(());
    }
    let message = "Invalid schema for response_format 'answer': In context=(), 'additionalProperties' is \
                   required to be supplied and to be false.";
    Err(Refusal::new(message, "text.format.schema").code("invalid_json_schema"))
}

fn is_strict(schema: &Value) -> bool {
    let members = schema["properties"].as_object();
    let is_required =
        |name: &String| array(&schema["required"]).iter().any(|it| it == name.as_str());
    let closed = schema["additionalProperties"] == false
        && members.is_none_or(|members| members.keys().all(is_required));
    let inside = members.into_iter().flat_map(Map::values).chain(schema.get("items"));
    (schema["type"] != "object" || closed) && inside.into_iter().all(is_strict)
}

fn check_tool(tool: &Value, at: &str) -> Result<(), Refusal> {
    let within = format!("{at}.");
    let tool = object(tool, at)?;
    match kind(tool) {
        "function" => check_function(tool, &within),
        "custom" => {
            let fields = [
                "type",
                "name",
                "description",
                "format",
                "allowed_callers",
                "async",
                "defer_loading",
            ];
            known(tool, &fields, &within)?;
            let format = object(field(tool, "format"), &format!("{within}format"))?;
            known(format, &["type", "syntax", "definition"], &format!("{within}format."))?;
            if text(format, "type") != "grammar" || text(format, "syntax") != "lark" {
                return Err(Refusal::value(&tool["format"], format!("{within}format")));
            }
            pattern(text(tool, "name"), &format!("{within}name"))
        }
        "namespace" => {
            known(tool, &["type", "name", "description", "tools"], &within)?;
            pattern(text(tool, "name"), &format!("{within}name"))?;
            let tools = array(field(tool, "tools")).iter().enumerate();
            let mut tools = tools.map(|(n, tool)| check_tool(tool, &format!("{at}.tools[{n}]")));
            tools.find(Result::is_err).unwrap_or(Ok(()))
        }
        other if SERVER_TOOLS.contains(&other) => Ok(()),
        _ => Err(Refusal::value(field(tool, "type"), format!("{within}type"))),
    }
}

fn check_function(tool: &Map<String, Value>, within: &str) -> Result<(), Refusal> {
    let fields = [
        "type",
        "name",
        "description",
        "parameters",
        "strict",
        "allowed_callers",
        "async",
        "defer_loading",
        "output_schema",
    ];
    known(tool, &fields, within)?;
    pattern(text(tool, "name"), &format!("{within}name"))?;
    // The API takes a tool without `strict` for `strict: true`, so its schema must follow the strict rules.
    let schema = field(tool, "parameters");
    let follows = schema["type"] == "object" && is_strict(schema);
    if field(tool, "strict") != &json!(false) && !follows {
        let message =
            "Invalid schema for function: 'additionalProperties' is required to be false.";
        return Err(Refusal::new(message, format!("{within}parameters")));
    }
    Ok(())
}

fn check_item(item: &Map<String, Value>, at: &str) -> Result<(), Refusal> {
    let within = format!("{at}.");
    match kind(item) {
        "message" => check_message(item, at),
        "reasoning" => {
            let fields = ["type", "id", "summary", "content", "encrypted_content", "status"];
            known(item, &fields, &within)?;
            required(item, &["id", "summary"], &within)?;
            if text(item, "encrypted_content").is_empty() {
                let message = format!(
                    "Item with id '{}' not found. Items are not persisted when `store` is set to false.",
                    text(item, "id")
                );
                return Err(Refusal::new(message, "input").status(404));
            }
            match &item["summary"] {
                Value::Array(_) => Ok(()),
                _ => Err(Refusal::kind("an array", format!("{within}summary"))),
            }
        }
        "function_call" => {
            known(item, &["type", "id", "call_id", "name", "arguments", "status"], &within)?;
            check_call(item, "arguments", &within)?;
            let arguments = text(item, "arguments");
            match serde_json::from_str::<Map<String, Value>>(arguments) {
                Ok(_) => Ok(()),
                Err(_) => Err(Refusal::value(&item["arguments"], format!("{within}arguments"))),
            }
        }
        "custom_tool_call" => {
            known(item, &["type", "id", "call_id", "name", "input"], &within)?;
            check_call(item, "input", &within)
        }
        "function_call_output" | "custom_tool_call_output" => {
            known(item, &["type", "call_id", "output", "id", "status"], &within)?;
            required(item, &["call_id", "output"], &within)?;
            match &item["output"] {
                Value::String(_) => Ok(()),
                output => {
                    let allowed = ["input_text", "input_image", "input_file"];
                    parts(output, &allowed, &format!("{at}.output"))
                }
            }
        }
        _ => Err(Refusal::value(field(item, "type"), format!("{at}.type"))),
    }
}

fn check_message(item: &Map<String, Value>, at: &str) -> Result<(), Refusal> {
    let within = format!("{at}.");
    known(item, &["type", "role", "content", "id", "status", "phase"], &within)?;
    required(item, &["role", "content"], &within)?;
    let role = text(item, "role");
    if !["assistant", "user", "system", "developer"].contains(&role) {
        return Err(Refusal::value(&item["role"], format!("{at}.role")));
    }
    if !text(item, "content").is_empty() {
        return Ok(());
    }
    if role == "assistant" {
        required(item, &["id", "status"], &within)?;
    }
    let allowed: &[&str] = match role {
        "assistant" => &["output_text", "refusal"],
        _ => &["input_text", "input_image", "input_file"],
    };
    parts(&item["content"], allowed, &format!("{at}.content"))
}

/// Checks a call, whose arguments are the text in the field `content`.
fn check_call(item: &Map<String, Value>, content: &str, within: &str) -> Result<(), Refusal> {
    required(item, &["call_id", "name", content], within)?;
    longest(text(item, "call_id"), 64, &format!("{within}call_id"))?;
    pattern(text(item, "call_id"), &format!("{within}call_id"))?;
    pattern(text(item, "name"), &format!("{within}name"))?;
    if item[content].is_string() {
        return Ok(());
    }
    Err(Refusal::kind("a string", format!("{within}{content}")))
}

fn parts(parts: &Value, allowed: &[&str], at: &str) -> Result<(), Refusal> {
    non_empty(parts, at)?;
    for (n, part) in array(parts).iter().enumerate() {
        let part = object(part, &format!("{at}[{n}]"))?;
        if !allowed.contains(&kind(part)) {
            return Err(Refusal::value(field(part, "type"), format!("{at}[{n}]")));
        }
        let fields: &[&str] = match kind(part) {
            "output_text" => &["type", "text", "annotations", "logprobs"],
            "refusal" => &["type", "refusal"],
            "input_text" => &["type", "text"],
            "input_image" => &["type", "image_url", "detail"],
            _ => &["type", "filename", "file_data"],
        };
        let within = format!("{at}[{n}].");
        known(part, fields, &within)?;
        match kind(part) {
            "output_text" => required(part, &["annotations"], &within)?,
            "input_image" => required(part, &["detail"], &within)?,
            _ => {}
        }
    }
    Ok(())
}

/// Refuses reasoning that nothing of the model follows.
fn check_order(items: &[&Map<String, Value>]) -> Result<(), Refusal> {
    for (n, item) in items.iter().enumerate().filter(|(_, item)| kind(item) == "reasoning") {
        let is_models = |next: &&Map<String, Value>| match kind(next) {
            "message" => text(next, "role") == "assistant",
            "reasoning" | "function_call" | "custom_tool_call" => true,
            _ => false,
        };
        if !items.get(n + 1).is_some_and(is_models) {
            let id = text(item, "id");
            let message = format!(
                "Item '{id}' of type 'reasoning' was provided without its required following item."
            );
            return Err(Refusal::new(message, "input"));
        }
    }
    Ok(())
}

fn check_calls(items: &[&Map<String, Value>]) -> Result<(), Refusal> {
    let ids = |wanted: &str| -> Vec<&str> {
        let of_kind = items.iter().filter(|item| kind(item) == wanted);
        of_kind.map(|item| text(item, "call_id")).collect()
    };
    for (of, name) in [("function_call", "function call"), ("custom_tool_call", "custom tool call")]
    {
        let (calls, outputs) = (ids(of), ids(&format!("{of}_output")));
        if let Some(id) = outputs.iter().find(|id| !calls.contains(id)) {
            let message = format!("No tool call found for {name} output with call_id {id}.");
            return Err(Refusal::new(message, "input"));
        }
        if let Some(id) = calls.iter().find(|id| !outputs.contains(id)) {
            return Err(Refusal::new(format!("No tool output found for {name} {id}."), "input"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a request that the API accepts.
    fn good() -> Value {
        json!({
            "model": "gpt-6-sol", "stream": true, "store": false,
            "include": ["reasoning.encrypted_content"],
            "prompt_cache_key": "k",
            "input": [
                { "type": "message", "role": "user", "content": [{ "type": "input_text", "text": "hi" }] },
                { "type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "abc" },
                { "type": "function_call", "id": "fc_1", "call_id": "c1", "name": "glob",
                  "arguments": "{}" },
                { "type": "function_call_output", "call_id": "c1", "output": "ran" },
            ],
            "tools": [{ "type": "function", "name": "glob", "parameters": {}, "strict": false }],
        })
    }

    #[track_caller]
    fn refuses(change: impl Fn(&mut Value), words: &str) {
        let reply = crate::api_server::responses::items(&[
            json!({ "type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "abc" }),
            json!({ "type": "function_call", "id": "fc_1", "call_id": "c1", "name": "glob",
                "arguments": "{}" }),
        ]);
        let mut body = good();
        change(&mut body);
        let request = Request { body: &body, issued: issued(&[reply.into_bytes()]) };
        let refusal = request.check().err().map(|refusal| refusal.message).unwrap_or_default();
        assert!(refusal.contains(words) && words.is_empty() == refusal.is_empty(), "{refusal}");
    }

    #[test]
    fn the_stand_in_refuses_what_the_api_refuses() {
        refuses(|_| (), "");
        refuses(|body| body["max_tokens"] = json!(5), "Unknown parameter: 'max_tokens'");
        refuses(|body| body["prompt_cache_key"] = json!("k".repeat(65)), "maximum length 64");
        refuses(|body| body["tools"][0]["strict"] = Value::Null, "additionalProperties");
        refuses(|body| body["tools"][0]["name"] = json!("a.b"), "tools[0].name");
        refuses(|body| body["reasoning"] = json!({ "effort": "loud" }), "'loud' is not supported");
        refuses(|body| body["input"][2]["call_id"] = json!("c".repeat(65)), "maximum length 64");
        refuses(|body| body["input"][2]["call_id"] = json!("c:1"), "does not match pattern");
        refuses(|body| body["input"][0]["extra"] = json!(1), "Unknown parameter: 'input[0].extra'");
        let part = |body: &mut Value, part: Value| body["input"][0]["content"] = json!([part]);
        refuses(
            |body| part(body, json!({ "type": "input_image", "image_url": "data:" })),
            "Missing required parameter: 'input[0].content[0].detail'",
        );
        let retold = |body: &mut Value| {
            body["input"][0]["role"] = json!("assistant");
            part(body, json!({ "type": "output_text", "text": "hi", "annotations": [] }));
        };
        refuses(retold, "Missing required parameter: 'input[0].id'");
        refuses(|body| body["input"][1]["id"] = json!("rs_2"), "'rs_2' not found");
        refuses(|body| body["input"][1]["encrypted_content"] = json!("x"), "could not be verified");
        let without = |n: usize| {
            move |body: &mut Value| drop(body["input"].as_array_mut().unwrap().remove(n))
        };
        refuses(without(1), "without its required 'reasoning' item: 'rs_1'");
        refuses(without(3), "No tool output found for function call c1");
        let output_alone =
            |body: &mut Value| drop(body["input"].as_array_mut().unwrap().drain(1..3));
        refuses(output_alone, "No tool call found");
        let cut = |body: &mut Value| body["input"].as_array_mut().unwrap().truncate(2);
        refuses(cut, "without its required following item");
        let custom = |body: &mut Value| {
            let call = json!({ "type": "custom_tool_call", "call_id": "c1", "name": "apply_patch",
                "input": "" });
            let items = body["input"].as_array_mut().unwrap();
            items.splice(1..3, [call]);
            let format = json!({ "type": "grammar", "syntax": "lark", "definition": "start: /x/" });
            body["tools"] = json!([{ "type": "custom", "name": "apply_patch", "format": format }]);
        };
        refuses(custom, "No tool call found for function call output with call_id c1");
        let answered = |body: &mut Value| {
            custom(body);
            body["input"][2]["type"] = json!("custom_tool_call_output");
        };
        refuses(answered, "");
        let strict = |body: &mut Value| {
            answered(body);
            body["tools"][0]["strict"] = json!(false);
        };
        refuses(strict, "Unknown parameter: 'tools[0].strict'");
    }

    #[test]
    fn the_stand_in_accepts_what_other_clients_send() {
        refuses(|body| body["input"][0]["id"] = json!("msg_own"), "");
        refuses(|body| body["input"][0]["id"] = json!("own"), "an ID that begins with 'msg'");
        refuses(|body| body["input"][3]["id"] = json!("fc_own"), "");
        refuses(|body| body["input"][1]["content"] = Value::Null, "");
        let tools = |body: &mut Value| {
            let inner = body["tools"].take();
            body["tools"] = json!([{ "type": "web_search" },
                { "type": "namespace", "name": "n", "description": "", "tools": inner }]);
        };
        refuses(tools, "");
        refuses(|body| body["tools"][0]["type"] = json!("magic"), "Invalid value: 'magic'");
        let inside = |body: &mut Value| {
            tools(body);
            body["tools"][1]["tools"][0]["name"] = json!("a.b");
        };
        refuses(inside, "tools[1].tools[0].name");
    }
}
