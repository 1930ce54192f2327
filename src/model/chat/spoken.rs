//! Reads tool calls out of an answer's text, where a server leaves them if it does not know the model's format.
//!
//! Only complete calls at the end of a text count, and only outside of code. Everything else stays text, including
//! text about calls.

use serde_json::{Map, Value, json};

use super::calls::FinishedCall;
use crate::{Call, ToolDeclaration, names};

/// Marks that models write before their calls.
const CALL_MARKS: &[&str] = &[
    "<tool_call>",
    "<|tool_call|>",
    "<|tool_call_begin|>",
    "<\u{ff5c}tool\u{2581}calls\u{2581}begin\u{ff5c}>",
    "<\u{ff5c}tool\u{2581}call\u{2581}begin\u{ff5c}>",
    "<function_call>",
    "<function=",
    "<invoke name=",
    "<|python_tag|>",
    "[TOOL_CALLS]",
    "functools[",
    "to=functions.",
];

/// Marks without further meaning, which models write around and between calls.
const NOISE_MARKS: &[&str] = &[
    "<tool_call>",
    "</tool_call>",
    "<|tool_call|>",
    "<|tool_call_begin|>",
    "<|tool_call_end|>",
    "<|tool_call_argument_begin|>",
    "<\u{ff5c}tool\u{2581}calls\u{2581}begin\u{ff5c}>",
    "<\u{ff5c}tool\u{2581}calls\u{2581}end\u{ff5c}>",
    "<\u{ff5c}tool\u{2581}call\u{2581}begin\u{ff5c}>",
    "<\u{ff5c}tool\u{2581}call\u{2581}end\u{ff5c}>",
    "<\u{ff5c}tool\u{2581}sep\u{ff5c}>",
    "<function_call>",
    "</function_call>",
    "<|python_tag|>",
    "<|eom_id|>",
    "<|call|>",
    "[TOOL_CALLS]",
    "[/TOOL_CALLS]",
    "[ARGS]",
    "functools",
];

/// Tags of a format in which each argument of a call is enclosed in tags of its own.
struct TagFormat {
    /// Beginning of the tag that opens a call; the name of the tool follows.
    call: &'static str,
    /// End of the name of the tool.
    call_name_end: char,
    /// Beginning of the tag that opens an argument; the name of the argument follows.
    parameter: &'static str,
    /// End of the name of the argument.
    parameter_name_end: &'static str,
    /// Tag that closes a call.
    close: &'static str,
}

/// Tags of Qwen's coding models, and of Claude.
const TAG_FORMATS: [TagFormat; 2] = [
    TagFormat {
        call: "<function=",
        call_name_end: '>',
        parameter: "<parameter=",
        parameter_name_end: ">",
        close: "</function>",
    },
    TagFormat {
        call: "<invoke name=\"",
        call_name_end: '"',
        parameter: "<parameter name=\"",
        parameter_name_end: "\">",
        close: "</invoke>",
    },
];

/// End of the head of a call in the format of `gpt-oss`.
const MESSAGE_MARK: &str = "<|message|>";

/// Number of bytes at the end of a text that are searched.
const MAX_SEARCHED: usize = 64 * 1024;

/// Maximum number of places in a text that are tried as the beginning of its calls.
const MAX_TRIED: usize = 32;

/// Returns the calls of these tools that a text ends with:
/// 1. A text that is JSON from its beginning is read as calls.
/// 2. Otherwise, the rest of the text after each mark outside of code is tried, the earliest mark first. The first
///    rest that consists of calls only is taken.
pub(super) fn calls(text: &str, tools: &[ToolDeclaration]) -> Vec<FinishedCall> {
    let text = text.trim();
    let begin = text.ceil_char_boundary(text.len().saturating_sub(MAX_SEARCHED));
    let searched = &text[begin..];
    let all = if searched.starts_with(['{', '[']) { read(searched, tools) } else { None };
    let calls = all.or_else(|| {
        let mut starts: Vec<_> = CALL_MARKS
            .iter()
            .flat_map(|mark| searched.match_indices(mark))
            .map(|(at, _)| at)
            .collect();
        starts.sort_unstable();
        let outside = starts.into_iter().filter(|at| !is_in_code(&text[..begin + at]));
        outside.take(MAX_TRIED).find_map(|at| read(&searched[at..], tools))
    });
    calls
        .unwrap_or_default()
        .into_iter()
        .enumerate()
        .map(|(n, call)| FinishedCall {
            call: Call { id: format!("call_{n}"), ..call },
            extra: Map::new(),
        })
        .collect()
}

/// Returns `true` if a text ends inside a fenced code block or inline code.
fn is_in_code(text: &str) -> bool {
    let mut fence = None;
    for line in text.lines() {
        let line = line.trim_start();
        let open = ["```", "~~~"].into_iter().find(|mark| line.starts_with(mark));
        match (fence, open) {
            (None, open) => fence = open,
            (Some(begun), Some(end)) if begun == end => fence = None,
            _ => {}
        }
    }
    let last = text.rsplit('\n').next().unwrap_or_default();
    fence.is_some() || last.matches('`').count() % 2 == 1
}

/// Reads a text that consists of calls only; returns `None` for any other text.
fn read(text: &str, tools: &[ToolDeclaration]) -> Option<Vec<Call>> {
    let mut rest = skip_noise(text);
    let mut calls = Vec::new();
    while !rest.is_empty() {
        let (found, after) = segment(rest, tools)?;
        calls.extend(found);
        rest = skip_noise(after);
    }
    Some(calls).filter(|calls| !calls.is_empty())
}

/// Removes white space and the marks of [`NOISE`] from the beginning of a text.
fn skip_noise(mut text: &str) -> &str {
    loop {
        text = text.trim_start();
        match NOISE_MARKS.iter().find_map(|noise| text.strip_prefix(noise)) {
            Some(rest) => text = rest,
            None => return text,
        }
    }
}

/// Reads the calls that a text begins with, in any known format; returns the calls and the rest.
fn segment<'t>(text: &'t str, tools: &[ToolDeclaration]) -> Option<(Vec<Call>, &'t str)> {
    if text.starts_with(['{', '[']) {
        let (value, rest) = json_value(text)?;
        let values = match value {
            Value::Array(values) => values,
            value => vec![value],
        };
        let calls = values.into_iter().map(|value| object(value, tools)).collect::<Option<_>>()?;
        return Some((calls, rest));
    }
    if let Some(format) = TAG_FORMATS.iter().find(|format| text.starts_with(format.call)) {
        return tagged(&text[format.call.len()..], format, tools);
    }
    if let Some(rest) = text.strip_prefix("to=functions.") {
        let (head, rest) = rest.split_once(MESSAGE_MARK)?;
        let name = head.split(|c: char| c.is_whitespace() || c == '<').next()?;
        return read_named_call(name, rest, tools);
    }
    let text = text.strip_prefix("function").map_or(text, skip_noise);
    let end = text.find(|c: char| !(c.is_alphanumeric() || "_-.".contains(c)))?;
    let (name, rest) = text.split_at(end);
    let rest = skip_noise(rest);
    match rest.strip_prefix("```json") {
        Some(fenced) => {
            let (calls, rest) = read_named_call(name, fenced, tools)?;
            Some((calls, rest.trim_start().strip_prefix("```")?))
        }
        None => read_named_call(name, rest, tools),
    }
}

/// Reads the arguments of a call whose name has been read: a JSON object.
fn read_named_call<'t>(
    name: &str,
    arguments: &'t str,
    tools: &[ToolDeclaration],
) -> Option<(Vec<Call>, &'t str)> {
    let tool = known(name, tools)?;
    let (args, rest) = json_value(arguments)?;
    args.is_object().then(|| (vec![call(tool, args)], rest))
}

/// Reads a call whose arguments are enclosed in tags. `text` begins with the name of the tool.
fn tagged<'t>(
    text: &'t str,
    format: &TagFormat,
    tools: &[ToolDeclaration],
) -> Option<(Vec<Call>, &'t str)> {
    let (name, rest) = text.split_once(format.call_name_end)?;
    let tool = known(name, tools)?;
    let (body, rest) = rest.split_once(format.close)?;
    let mut args = Map::new();
    let mut parts = body.split(format.parameter);
    // A call has no text between its opening tag and its first parameter.
    parts.next()?.trim().trim_start_matches('>').is_empty().then_some(())?;
    for part in parts {
        let (parameter, value) = part.split_once(format.parameter_name_end)?;
        let (value, _) = value.rsplit_once("</parameter>")?;
        let value = value.strip_prefix('\n').unwrap_or(value);
        let value = value.strip_suffix('\n').unwrap_or(value);
        args.insert(parameter.to_owned(), typed(value, parameter, tool));
    }
    Some((vec![call(tool, Value::Object(args))], rest))
}

/// Returns the value of an argument that was written as text: a string, unless the tool's schema wants another type.
fn typed(text: &str, parameter: &str, tool: &ToolDeclaration) -> Value {
    let wanted = &tool.parameters["properties"][parameter]["type"];
    if wanted.is_null() || wanted == "string" {
        return json!(text);
    }
    serde_json::from_str(text.trim()).unwrap_or_else(|_| json!(text))
}

/// Reads a call that is an object with a name and arguments.
fn object(value: Value, tools: &[ToolDeclaration]) -> Option<Call> {
    let Value::Object(mut fields) = value else { return None };
    if let Some(Value::Object(function)) = fields.shift_remove("function") {
        fields = function;
    }
    let args = fields.shift_remove("arguments").or_else(|| fields.shift_remove("parameters"))?;
    let args = match args {
        Value::String(text) => serde_json::from_str(&text).ok()?,
        args => args,
    };
    let tool = known(fields.get("name")?.as_str()?, tools)?;
    args.is_object().then(|| call(tool, args))
}

/// Reads a JSON value at the beginning of a text; returns the value and the rest.
fn json_value(text: &str) -> Option<(Value, &str)> {
    let mut values = serde_json::Deserializer::from_str(text).into_iter::<Value>();
    let value = values.next()?.ok()?;
    let end = values.byte_offset();
    Some((value, &text[end..]))
}

/// Returns the tool that a call names, if there is one.
fn known<'a>(name: &str, tools: &'a [ToolDeclaration]) -> Option<&'a ToolDeclaration> {
    let own = names::original(name.trim(), tools);
    tools.iter().find(|tool| tool.name == own)
}

fn call(tool: &ToolDeclaration, args: Value) -> Call {
    Call { id: String::new(), name: tool.name.clone(), args }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: &[(&str, Value)]) {
        let parameters = json!({ "properties": { "pattern": { "type": "string" }, "deep": { "type": "boolean" } } });
        let tools =
            ["glob", "read_file"].map(|name| ToolDeclaration::new(name, "", parameters.clone()));
        let found = calls(text, &tools);
        let found: Vec<_> =
            found.iter().map(|it| (it.call.name.as_str(), it.call.args.clone())).collect();
        assert_eq!(found, expected, "{text}");
    }

    fn all() -> Value {
        json!({ "pattern": "*" })
    }

    #[test]
    fn whole_calls_at_the_end_of_a_text_are_calls() {
        check(
            "<tool_call>\n{\"name\": \"glob\", \"arguments\": {}}\n</tool_call>",
            &[("glob", json!({}))],
        );
        check(
            "I look.\n<tool_call>{\"name\":\"glob\",\"arguments\":{\"pattern\":\"*\"}}</tool_call>\n\
             <tool_call>{\"name\":\"read_file\",\"arguments\":{}}</tool_call>",
            &[("glob", all()), ("read_file", json!({}))],
        );
        check(
            "<tool_call>\n<function=glob>\n<parameter=pattern>\n*\n</parameter>\n<parameter=deep>\ntrue\n\
             </parameter>\n</function>\n</tool_call>",
            &[("glob", json!({ "pattern": "*", "deep": true }))],
        );
        check(
            "<invoke name=\"glob\"><parameter name=\"pattern\">*</parameter></invoke>",
            &[("glob", all())],
        );
        check("[TOOL_CALLS][{\"name\": \"glob\", \"arguments\": {}}]", &[("glob", json!({}))]);
        check("[TOOL_CALLS]glob[ARGS]{\"pattern\": \"*\"}", &[("glob", all())]);
        check(
            "<|channel|>commentary to=functions.glob <|constrain|>json<|message|>{}",
            &[("glob", json!({}))],
        );
        check("functools[{\"name\": \"glob\", \"arguments\": {}}]", &[("glob", json!({}))]);
        check(
            "<\u{ff5c}tool\u{2581}calls\u{2581}begin\u{ff5c}><\u{ff5c}tool\u{2581}call\u{2581}begin\u{ff5c}>function\
             <\u{ff5c}tool\u{2581}sep\u{ff5c}>glob\n```json\n{\"pattern\": \"*\"}\n```<\u{ff5c}tool\u{2581}call\u{2581}end\u{ff5c}>",
            &[("glob", all())],
        );
        check("{\"name\": \"glob\", \"parameters\": {\"pattern\": \"*\"}}", &[("glob", all())]);
        check("[{\"name\": \"glob\", \"arguments\": \"{}\"}]", &[("glob", json!({}))]);
    }

    #[test]
    fn text_about_calls_is_text() {
        let whole = "<tool_call>{\"name\": \"glob\", \"arguments\": {}}</tool_call>";
        check(&format!("Models write {whole} to find files."), &[]);
        check(&format!("An example:\n```\n{whole}\n```"), &[]);
        check(&format!("An example:\n```\n{whole}"), &[]);
        check(&format!("Write `{whole}`"), &[]);
        check("```json\n{\"name\": \"glob\", \"arguments\": {}}\n```", &[]);
        check("Call glob with {\"pattern\": \"*\"}.", &[]);
        check("`<tool_call>` stands before read_file.", &[]);
        check("{\"name\": \"glob\"}", &[]);
        check("", &[]);
    }

    #[test]
    fn half_calls_and_calls_of_no_tool_are_text() {
        check("I look.\n<tool_call>{\"name\":\"read_file\",\"argum", &[]);
        check("<function=glob><parameter=pattern>*", &[]);
        check("{\"name\": \"other\", \"arguments\": {}}", &[]);
        check("<tool_call>{\"name\": \"my_glob\", \"arguments\": {}}", &[]);
        check("<tool_call>{\"name\": \"glob\", \"arguments\": 5}</tool_call>", &[]);
        check(&"日本".repeat(MAX_SEARCHED), &[]);
        check(&"<tool_call>{".repeat(20_000), &[]);
    }
}
