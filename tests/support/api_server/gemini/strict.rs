//! Refusals of the Gemini API.
//!
//! The names of fields are those of the types in Google's own client for Python, version 3.6. The words of the
//! refusals are those that people have reported.

mod turns;

use std::borrow::Cow;

use serde_json::{Map, Value, json};

use self::turns::check_turns;
use crate::api_server::fields::{array, field, text, unknown};
use crate::api_server::{Asked, Reply};

/// Fields of a request.
const FIELDS: &[&str] = &[
    "cachedContent",
    "contents",
    "continuationToken",
    "generationConfig",
    "model",
    "safetySettings",
    "serviceTier",
    "store",
    "systemInstruction",
    "toolConfig",
    "tools",
];
/// Fields of a part that are its content.
const DATA_FIELDS: &[&str] = &[
    "codeExecutionResult",
    "executableCode",
    "fileData",
    "functionCall",
    "functionResponse",
    "inlineData",
    "text",
    "toolCall",
    "toolResponse",
];
/// Other fields of a part.
const PART_FIELDS: &[&str] = &[
    "audioMetadata",
    "audioTranscription",
    "documentMetadata",
    "mediaProcessing",
    "mediaResolution",
    "partMetadata",
    "speechMetadata",
    "spreadsheetMetadata",
    "thought",
    "thoughtSignature",
    "videoMetadata",
];
/// Fields of the configuration of an answer.
const GENERATION_FIELDS: &[&str] = &[
    "audioTimestamp",
    "audioTranscriptionConfig",
    "candidateCount",
    "enableAffectiveDialog",
    "enableEnhancedCivicAnswers",
    "frequencyPenalty",
    "imageConfig",
    "logprobs",
    "maxOutputTokens",
    "mediaResolution",
    "modelSelectionConfig",
    "presencePenalty",
    "responseFormat",
    "responseJsonSchema",
    "responseLogprobs",
    "responseMimeType",
    "responseModalities",
    "responseSchema",
    "routingConfig",
    "seed",
    "speechConfig",
    "stopSequences",
    "temperature",
    "thinkingConfig",
    "topK",
    "topP",
    "translationConfig",
];
/// Words of the schemas in `parameters`, which are fewer than those of JSON Schema.
const SCHEMA_FIELDS: &[&str] = &[
    "additionalProperties",
    "anyOf",
    "default",
    "defs",
    "description",
    "enum",
    "example",
    "format",
    "items",
    "maxItems",
    "maxLength",
    "maxProperties",
    "maximum",
    "minItems",
    "minLength",
    "minProperties",
    "minimum",
    "nullable",
    "pattern",
    "properties",
    "propertyOrdering",
    "ref",
    "required",
    "title",
    "type",
];
/// Maximum length of a function's name.
const MAX_NAME_CHARS: usize = 64;

/// Returns the refusal of a request, if the API would refuse it. `given`: bodies of the replies so far.
pub fn check(asked: &Asked, given: &[Vec<u8>]) -> Option<Reply> {
    check_address(asked)
        .and_then(|model| check_body(&asked.body, model, given))
        .err()
        .map(|refusal| refusal.reply())
}

/// An error that the API answers a request with.
struct Refusal {
    code: u16,
    status: &'static str,
    message: String,
}

impl Refusal {
    fn new(message: impl Into<String>) -> Self {
        Self { code: 400, status: "INVALID_ARGUMENT", message: message.into() }
    }

    /// Returns the refusal of a value in a field of the request.
    fn at(place: &str, why: &str) -> Self {
        Self::new(format!("* GenerateContentRequest.{place}: {why}\n"))
    }

    fn reply(&self) -> Reply {
        let Self { code, status, message } = self;
        let error = json!({ "code": code, "message": message, "status": status });
        Reply::error(*code, json!({ "error": error }).to_string())
    }
}

/// Refuses a request without a key, or for anything but an answer; returns the model.
fn check_address(asked: &Asked) -> Result<&str, Refusal> {
    let (path, query) = asked.what.split_once('?').unwrap_or((&asked.what, ""));
    let mut versions = ["POST /v1beta/models/", "POST /v1/models/"].into_iter();
    let model = versions.find_map(|begin| path.strip_prefix(begin));
    let model = model.and_then(|path| path.strip_suffix(":streamGenerateContent"));
    let Some(model) = model.filter(|_| query.split('&').any(|field| field == "alt=sse")) else {
        let message = format!("{} is not here", asked.what);
        return Err(Refusal { code: 404, status: "NOT_FOUND", message });
    };
    let mut headers = ["x-goog-api-key", "authorization"].into_iter();
    let in_query = query.split('&').any(|field| field.starts_with("key="));
    if !in_query && !headers.any(|header| asked.headers.contains_key(header)) {
        let message = "Method doesn't allow unregistered callers (callers without established identity). \
                       Please use API Key or other form of API consumer identity to call this API.";
        let message = message.to_owned();
        return Err(Refusal { code: 403, status: "PERMISSION_DENIED", message });
    }
    Ok(model)
}

fn check_body(body: &Value, model: &str, given: &[Vec<u8>]) -> Result<(), Refusal> {
    let body = &spelled(body, "")?;
    known(body, FIELDS, "")?;
    check_generation(field(body, "generationConfig"), model)?;
    for (n, tool) in array(field(body, "tools")).iter().enumerate() {
        check_tool(tool, &format!("tools[{n}]"))?;
    }
    let system = field(body, "systemInstruction");
    if !system.is_null() {
        check_content(system, "system_instruction")?;
    }
    let contents = array(field(body, "contents"));
    if contents.is_empty() {
        return Err(Refusal::at("contents", "contents is not specified"));
    }
    let contents = contents.iter().enumerate();
    let contents = contents.map(|(n, content)| check_content(content, &format!("contents[{n}]")));
    check_turns(&contents.collect::<Result<Vec<_>, _>>()?, model, given)
}

fn check_generation(config: &Value, model: &str) -> Result<(), Refusal> {
    if config.is_null() {
        return Ok(());
    }
    let config = &spelled(config, "generation_config")?;
    known(config, GENERATION_FIELDS, "generation_config")?;
    let thinking = field(config, "thinkingConfig");
    if thinking.is_null() {
        return Ok(());
    }
    let place = "generation_config.thinking_config";
    let thinking = &spelled(thinking, place)?;
    known(thinking, &["includeThoughts", "thinkingBudget", "thinkingLevel"], place)?;
    let level = text(thinking, "thinkingLevel").to_uppercase();
    let least = ["gemini-3.7", "gemini-3.8", "gemini-4"];
    let knows_minimal = !least.iter().any(|begin| model.starts_with(begin));
    let levels = ["", "THINKING_LEVEL_UNSPECIFIED", "LOW", "MEDIUM", "HIGH"];
    if !levels.contains(&level.as_str()) && (level != "MINIMAL" || !knows_minimal) {
        let message = format!("Thinking level {level} is not supported for this model.");
        return Err(Refusal::new(message));
    }
    if thinking.contains_key("thinkingBudget") && model.starts_with("gemini-4") {
        return Err(Refusal::new("Thinking budget is not supported for this model."));
    }
    Ok(())
}

fn check_tool(tool: &Value, place: &str) -> Result<(), Refusal> {
    let tool = &spelled(tool, place)?;
    let fields = [
        "codeExecution",
        "computerUse",
        "enterpriseWebSearch",
        "exaAiSearch",
        "fileSearch",
        "functionDeclarations",
        "googleMaps",
        "googleSearch",
        "googleSearchRetrieval",
        "mcpServers",
        "parallelAiSearch",
        "retrieval",
        "urlContext",
    ];
    known(tool, &fields, place)?;
    for (n, declared) in array(field(tool, "functionDeclarations")).iter().enumerate() {
        let place = format!("{place}.function_declarations[{n}]");
        let declared = &spelled(declared, &place)?;
        let fields = [
            "behavior",
            "description",
            "name",
            "parameters",
            "parametersJsonSchema",
            "response",
            "responseJsonSchema",
        ];
        known(declared, &fields, &place)?;
        if !is_function_name(text(declared, "name")) {
            return Err(Refusal::at(
                &format!("{place}.name"),
                "[FIELD_INVALID] Invalid function name. Must start with a letter or an underscore. Must \
                 be alphanumeric (a-z, A-Z, 0-9), underscores (_), dots (.), colons (:), or dashes (-), \
                 with a maximum length of 64.",
            ));
        }
        if declared.contains_key("parameters") && declared.contains_key("parametersJsonSchema") {
            let why = "parameters and parameters_json_schema are mutually exclusive";
            return Err(Refusal::at(&place, why));
        }
        check_schema(field(declared, "parameters"), &format!("{place}.parameters"))?;
    }
    Ok(())
}

/// Refuses words of JSON Schema that `parameters` does not have.
fn check_schema(schema: &Value, place: &str) -> Result<(), Refusal> {
    if schema.is_null() {
        return Ok(());
    }
    let schema = &spelled(schema, place)?;
    known(schema, SCHEMA_FIELDS, place)?;
    let properties = field(schema, "properties").as_object();
    for (n, (_, inner)) in properties.into_iter().flatten().enumerate() {
        check_schema(inner, &format!("{place}.properties[{n}].value"))?;
    }
    for (n, inner) in array(field(schema, "anyOf")).iter().enumerate() {
        check_schema(inner, &format!("{place}.any_of[{n}]"))?;
    }
    check_schema(field(schema, "items"), &format!("{place}.items"))
}

/// Checks a content, and returns it with the parts as the API spells their fields.
fn check_content(content: &Value, place: &str) -> Result<Content, Refusal> {
    let content = &spelled(content, place)?;
    known(content, &["parts", "role"], place)?;
    let role = text(content, "role").to_owned();
    if !["", "user", "model"].contains(&role.as_str()) {
        return Err(Refusal::new("Please use a valid role: user, model."));
    }
    let parts = array(field(content, "parts"));
    if parts.is_empty() {
        return Err(Refusal::at(&format!("{place}.parts"), "contents.parts must not be empty."));
    }
    let parts = parts.iter().enumerate();
    let parts = parts.map(|(n, part)| check_part(part, &format!("{place}.parts[{n}]")));
    Ok(Content { role, parts: parts.collect::<Result<_, _>>()? })
}

/// A content of the conversation.
struct Content {
    role: String,
    parts: Vec<Map<String, Value>>,
}

fn check_part(part: &Value, place: &str) -> Result<Map<String, Value>, Refusal> {
    let part = spelled(part, place)?;
    known(&part, &[DATA_FIELDS, PART_FIELDS].concat(), place)?;
    if !DATA_FIELDS.iter().any(|field| part.contains_key(*field)) {
        let why = "required oneof field 'data' must have one initialized field";
        return Err(Refusal::at(&format!("{place}.data"), why));
    }
    let inner: [(&str, &str, &[&str]); 3] = [
        ("functionCall", "function_call", &["args", "id", "name", "partialArgs", "willContinue"]),
        (
            "functionResponse",
            "function_response",
            &["id", "name", "parts", "response", "scheduling", "willContinue"],
        ),
        ("inlineData", "inline_data", &["data", "displayName", "mimeType"]),
    ];
    for (name, shown, fields) in inner {
        let value = field(&part, name);
        if value.is_null() {
            continue;
        }
        let place = format!("{place}.{shown}");
        let value = &spelled(value, &place)?;
        known(value, fields, &place)?;
        if name != "inlineData" && !is_function_name(text(value, "name")) {
            let why = "[REQUIRED_FIELD_MISSING] Name cannot be empty.";
            return Err(Refusal::at(&format!("{place}.name"), why));
        }
        for content in ["args", "response"] {
            let value = field(value, content);
            if !value.is_null() && !value.is_object() {
                return Err(Refusal::new(format!(
                    "Invalid value at '{place}.{content}' (type.googleapis.com/google.protobuf.Struct)"
                )));
            }
        }
    }
    Ok(part)
}

/// Returns the fields of an object in the API's own spelling: as of every Protocol Buffers message in JSON,
/// `function_call` and `functionCall` are the same field.
fn spelled(value: &Value, place: &str) -> Result<Map<String, Value>, Refusal> {
    let Some(object) = value.as_object() else {
        return Err(Refusal::new(format!("Invalid value at '{place}': an object is expected")));
    };
    let fields = object.iter().map(|(name, value)| (camel(name).into_owned(), value.clone()));
    Ok(fields.collect())
}

fn camel(name: &str) -> Cow<'_, str> {
    let Some((first, rest)) = name.split_once('_') else { return Cow::Borrowed(name) };
    let rest = rest.split('_').map(|word| {
        let (first, rest) = word.split_at(word.len().min(1));
        first.to_uppercase() + rest
    });
    Cow::Owned(first.to_owned() + &rest.collect::<String>())
}

/// Refuses an object with a field that the API does not have.
fn known(object: &Map<String, Value>, fields: &[&str], place: &str) -> Result<(), Refusal> {
    let Some(field) = unknown(object, fields) else { return Ok(()) };
    let place = if place.is_empty() { String::new() } else { format!(" at '{place}'") };
    let message = format!(
        "Invalid JSON payload received. Unknown name \"{field}\"{place}: Cannot find field."
    );
    Err(Refusal::new(message))
}

fn is_function_name(name: &str) -> bool {
    let starts = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    let valid = |c: char| c.is_ascii_alphanumeric() || "_.:-".contains(c);
    starts && name.len() <= MAX_NAME_CHARS && name.chars().all(valid)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a request that the API accepts.
    fn good() -> Value {
        json!({
            "systemInstruction": { "parts": [{ "text": "Be brief." }] },
            "contents": [
                { "role": "user", "parts": [{ "text": "hi" }] },
                { "role": "model", "parts": [
                    { "functionCall": { "name": "glob", "args": {} }, "thoughtSignature": "c2ln+/==" },
                    { "functionCall": { "name": "glob", "args": {} } },
                ] },
                { "role": "user", "parts": [
                    { "functionResponse": { "name": "glob", "response": { "output": "ran" } } },
                    { "functionResponse": { "name": "glob", "response": { "output": "ran" } } },
                ] },
            ],
            "tools": [{ "functionDeclarations": [{ "name": "glob", "parametersJsonSchema": {} }] }],
            "generationConfig": { "thinkingConfig": { "includeThoughts": true, "thinkingLevel": "LOW" } },
        })
    }

    #[track_caller]
    fn refuses(change: impl Fn(&mut Value), words: &str) {
        let part = json!({ "functionCall": {}, "thoughtSignature": "c2ln+/==" });
        let given = json!({ "candidates": [{ "content": { "parts": [part] } }] });
        let given = format!("data: {given}\n\n").into_bytes();
        let mut body = good();
        change(&mut body);
        let refusal = check_body(&body, "gemini-3.8-flash", &[given]).err();
        let refusal = refusal.map(|refusal| refusal.message).unwrap_or_default();
        assert!(refusal.contains(words) && words.is_empty() == refusal.is_empty(), "{refusal}");
    }

    #[test]
    fn the_stand_in_refuses_what_the_api_refuses() {
        refuses(|_| (), "");
        refuses(
            |body| body["messages"] = json!([]),
            "Unknown name \"messages\": Cannot find field",
        );
        refuses(|body| body["contents"] = json!([]), "contents is not specified");
        refuses(|body| body["contents"][0]["role"] = json!("bot"), "Please use a valid role");
        refuses(|body| body["contents"][0]["parts"] = json!([]), "parts must not be empty");
        let part = |body: &mut Value, part: Value| body["contents"][0]["parts"] = json!([part]);
        refuses(|body| part(body, json!({ "thought": true })), "required oneof field 'data'");
        refuses(|body| part(body, json!({ "text": "x", "id": 1 })), "at 'contents[0].parts[0]'");
        let declared = |body: &mut Value, field: &str, value: Value| {
            body["tools"][0]["functionDeclarations"][0][field] = value;
        };
        refuses(|body| declared(body, "name", json!("a b")), "Invalid function name");
        refuses(|body| declared(body, "parameters", json!({})), "mutually exclusive");
        let schema = |body: &mut Value| {
            let object = json!({ "type": "object", "properties": { "a": { "const": 1 } } });
            body["tools"] =
                json!([{ "function_declarations": [{ "name": "t", "parameters": object }] }]);
        };
        refuses(
            schema,
            "Unknown name \"const\" at 'tools[0].function_declarations[0].parameters.properties[0]",
        );
        let minimal = |body: &mut Value| {
            body["generationConfig"]["thinkingConfig"]["thinkingLevel"] = json!("MINIMAL");
        };
        refuses(minimal, "Thinking level MINIMAL is not supported");
    }

    #[test]
    fn a_call_has_its_signature_and_its_response() {
        let call = |body: &mut Value, field: &str, value: Value| {
            body["contents"][1]["parts"][0][field] = value;
        };
        let unsigned = |body: &mut Value| {
            let part = body["contents"][1]["parts"][0].as_object_mut().unwrap();
            part.shift_remove("thoughtSignature");
        };
        refuses(unsigned, "missing a thought_signature in functionCall parts");
        refuses(|body| call(body, "thoughtSignature", json!("b3RoZXI")), "signature is not valid");
        refuses(|body| call(body, "thoughtSignature", json!("c2ln-_")), "");
        let dummy = json!("skip_thought_signature_validator");
        refuses(|body| call(body, "thoughtSignature", dummy.clone()), "");
        let earlier = |body: &mut Value| {
            unsigned(body);
            let more = json!([{ "role": "model", "parts": [{ "text": "ok" }] },
                { "role": "user", "parts": [{ "text": "go on" }] }]);
            body["contents"].as_array_mut().unwrap().extend(array(&more).to_vec());
        };
        refuses(earlier, "");
        let text = json!("ran");
        let wrong = |body: &mut Value| {
            body["contents"][2]["parts"][0]["functionResponse"]["response"] = text.clone();
        };
        refuses(wrong, "Invalid value at 'contents[2].parts[0].function_response.response'");
        let fewer = |body: &mut Value| {
            drop(body["contents"][2]["parts"].as_array_mut().unwrap().remove(0));
        };
        refuses(fewer, "number of function response parts is equal");
        let without = |n: usize| {
            move |body: &mut Value| drop(body["contents"].as_array_mut().unwrap().remove(n))
        };
        refuses(without(2), "number of function response parts is equal");
        refuses(without(1), "function response turn comes immediately after a function call turn");
        refuses(without(0), "function call turn comes immediately after a user turn");
    }
}
