//! Finds tool calls in text: a server that does not know the model's format leaves them there.

use serde_json::Value;

use crate::ToolDeclaration;

/// Marks that models put before a call.
const MARKS: &[&str] = &[
    "<tool_call>",
    "<|tool_call|>",
    "<|tool_call_begin|>",
    "<\u{ff5c}tool\u{2581}call\u{2581}begin\u{ff5c}>",
    "<function_call>",
    "<function=",
    "<invoke name=",
    "<|python_tag|>",
    "[TOOL_CALLS]",
    "functools[",
    "to=functions.",
];
/// Maximum number of bytes that are searched: a call is at the end of a text, or is all of it.
const LOOKED_AT: usize = 64 * 1024;

/// Returns the tool that a text calls, if any.
pub(super) fn called<'a>(text: &str, tools: &'a [ToolDeclaration]) -> Option<&'a str> {
    let text = text.trim();
    let begin = text.ceil_char_boundary(text.len().saturating_sub(LOOKED_AT));
    let text = &text[begin..];
    let names =
        |text: &str| tools.iter().map(|tool| tool.name.as_str()).find(|name| is_named(text, name));
    let mark = MARKS.iter().filter_map(|mark| text.find(mark).map(|at| at + mark.len())).min();
    if let Some(after) = mark {
        return names(&text[after..]);
    }
    let object = without_fence(text);
    let call: Value = serde_json::from_str(object).ok()?;
    let call = call.get(0).unwrap_or(&call);
    let has_arguments = ["arguments", "parameters"].iter().any(|field| call.get(field).is_some());
    let name = call.get("name")?.as_str().filter(|_| has_arguments)?;
    tools.iter().map(|tool| tool.name.as_str()).find(|tool| *tool == name)
}

/// Returns whether a text has a name as a whole word.
fn is_named(text: &str, name: &str) -> bool {
    let part = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-');
    text.match_indices(name)
        .any(|(at, _)| !text[..at].ends_with(part) && !text[at + name.len()..].starts_with(part))
}

/// Removes the fences of a text that is one code block.
fn without_fence(text: &str) -> &str {
    let inner = text.strip_prefix("```").and_then(|rest| rest.strip_suffix("```"));
    let inner = inner.map(|rest| rest.strip_prefix("json").unwrap_or(rest));
    inner.unwrap_or(text).trim()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: Option<&str>) {
        let tools = ["glob", "read_file"].map(|name| ToolDeclaration {
            name: name.to_owned(),
            description: String::new(),
            parameters: Value::Null,
        });
        assert_eq!(called(text, &tools), expected, "{text}");
    }

    #[test]
    fn a_call_that_came_as_text_is_found() {
        check("<tool_call>\n{\"name\": \"glob\", \"arguments\": {}}\n</tool_call>", Some("glob"));
        check("I look.\n<tool_call>{\"name\":\"read_file\",\"argum", Some("read_file"));
        check("<function=glob><parameter=pattern>*</parameter></function>", Some("glob"));
        check("[TOOL_CALLS][{\"name\": \"glob\", \"arguments\": {}}]", Some("glob"));
        check("<|channel|>commentary to=functions.glob <|message|>{}", Some("glob"));
        check("{\"name\": \"glob\", \"parameters\": {\"pattern\": \"*\"}}", Some("glob"));
        check("```json\n{\"name\": \"glob\", \"arguments\": {}}\n```", Some("glob"));
        check("[{\"name\": \"glob\", \"arguments\": {}}]", Some("glob"));
    }

    #[test]
    fn text_about_calls_is_text() {
        check("Models write <tool_call>{\"name\": \"f\"}</tool_call>.", None);
        check("Call glob with {\"pattern\": \"*\"}.", None);
        check("{\"name\": \"glob\"}", None);
        check("{\"name\": \"other\", \"arguments\": {}}", None);
        check("<tool_call>{\"name\": \"my_glob\"}", None);
        check("", None);
        check(&"日本".repeat(LOOKED_AT), None);
    }
}
