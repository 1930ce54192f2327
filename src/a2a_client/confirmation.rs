//! Questions of an agent about a tool that it wants to use where it runs: shown to the user of this session, and
//! answered with one of the options that the agent offers.

use serde_json::Value;

use super::outgoing::OptionChoice;
use tandem_content::plain::plain;
use tandem_content::shorten::{first_chars, one_line};
use tandem_host::{FileDiff, UserQuestion};

/// Maximum length of a name or a label, and of a description, in characters.
const LABEL: usize = 160;
const DESCRIPTION: usize = 64 << 10;

/// Maximum length of an id, in bytes.
pub(super) const ID: usize = 512;

/// A question about a tool call of the agent.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Confirmation {
    /// The agent's id of the call.
    pub(super) call: String,
    /// The agent's name of the tool.
    tool: String,
    label: String,
    description: String,
    danger: bool,
    /// Id of the option that allows the call this once, and of the option that rejects it.
    yes: String,
    no: String,
}

impl Confirmation {
    /// Reads the question in a tool call that an agent has sent; `None` if the call has no question.
    pub(super) fn read(call: &Value) -> Option<Self> {
        let id =
            field(call, &["tool_call_id", "toolCallId"])?.as_str().filter(|id| id.len() <= ID)?;
        let asked = field(call, &["confirmation_request", "confirmationRequest"])?;
        let text = |value: Option<&Value>| {
            let text = value.and_then(Value::as_str).unwrap_or_default();
            one_line(&plain(text.as_bytes()), LABEL)
        };
        let tool = text(field(call, &["tool_name", "toolName"]));
        let label = text(call.get("description").or_else(|| asked.get("title")));
        let options: Vec<_> = asked["options"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(|it| it["id"].as_str())
            .collect();
        let is_no = |id: &str| ["cancel", "reject", "deny"].iter().any(|no| id.contains(no));
        let named = |wanted: &str| options.iter().find(|id| **id == wanted);
        let yes = named("proceed_once").or_else(|| options.iter().find(|id| !is_no(id)));
        let no = named("cancel").or_else(|| options.iter().find(|id| is_no(id)));
        Some(Self {
            call: id.to_owned(),
            description: description(asked, call),
            danger: asked["type"] == "danger" || !options.iter().any(|id| id.contains("always")),
            yes: yes.map_or("proceed_once", |id| *id).to_owned(),
            no: no.map_or("cancel", |id| *id).to_owned(),
            label: if label.is_empty() { tool.clone() } else { label },
            tool,
        })
    }

    /// Returns the question for the user of this session.
    pub(super) fn question(&self, agent: &str, address: &str) -> UserQuestion {
        let Self { tool, description, danger, label, .. } = self;
        UserQuestion {
            agent: agent.to_owned(),
            tool: tool.clone(),
            label: one_line(&format!("{agent} asks: {label}"), LABEL),
            description: format!(
                "The agent `{agent}` at {address} asks before it uses `{tool}` there:\n{description}"
            ),
            danger: *danger,
        }
    }

    /// Returns the answer to send to the agent.
    pub(super) fn choice(&self, yes: bool, remark: Option<String>) -> OptionChoice {
        let option = if yes { &self.yes } else { &self.no };
        OptionChoice { call: self.call.clone(), option: option.clone(), remark }
    }
}

/// Returns the field under the first spelling of its name that exists.
pub(super) fn field<'a>(value: &'a Value, names: &[&str]) -> Option<&'a Value> {
    names.iter().find_map(|name| value.get(name)).filter(|value| !value.is_null())
}

/// Describes the action that the agent asks about: the command, the change, or the arguments.
fn description(asked: &Value, call: &Value) -> String {
    let text = |value: &Value| plain(value.as_str().unwrap_or_default().as_bytes());
    let named = |snake: &str, camel: &str| field(asked, &[snake, camel]).cloned();
    let what = if let Some(command) = named("execute_details", "executeDetails") {
        let directory = field(&command, &["working_directory", "workingDirectory"]);
        let directory = directory.map_or_else(String::new, |it| format!("In {}:\n", text(it)));
        format!("{directory}{}", text(&command["command"]))
    } else if let Some(edit) = named("file_edit_details", "fileEditDetails") {
        // The diff is made here from the two texts: a diff by the agent need not match them.
        let content = |names: &[&str]| field(&edit, names).map(text);
        let diff = FileDiff {
            path: content(&["file_path", "filePath"]).unwrap_or_default(),
            old: content(&["old_content", "oldContent"]).map(Into::into),
            new: content(&["new_content", "newContent"]).unwrap_or_default().into(),
        };
        diff.unified()
    } else {
        let arguments = field(call, &["input_parameters", "inputParameters"]);
        let arguments = arguments.map_or_else(String::new, |it| format!("{it:#}"));
        let generic = named("generic_details", "genericDetails");
        let generic = generic.map_or_else(String::new, |it| text(&it["description"]) + "\n");
        format!("{generic}{arguments}")
    };
    let what = format!("{what}\n{}", text(&asked["prompt"]));
    let what = what.trim();
    let first = first_chars(what, DESCRIPTION);
    match what[first.len()..].chars().count() {
        0 => what.to_owned(),
        more => format!("{first}\n[{more} more characters are not shown]"),
    }
}

#[cfg(test)]
#[expect(clippy::needless_pass_by_value, reason = "a case reads better as a value")]
mod tests {
    use serde_json::json;

    use super::*;

    fn asked(request: Value) -> Option<Confirmation> {
        Confirmation::read(&json!({
            "tool_call_id": "c", "tool_name": "t", "description": "Do\nit", "status": "PENDING",
            "input_parameters": { "a": 1 }, "confirmation_request": request,
        }))
    }

    #[track_caller]
    fn check(request: Value, yes: &str, no: &str, danger: bool) {
        let confirmation = asked(request).unwrap();
        assert_eq!(confirmation.choice(true, None).option, yes);
        assert_eq!(confirmation.choice(false, None).option, no);
        assert_eq!(confirmation.danger, danger);
    }

    #[test]
    fn the_options_that_mean_yes_and_no_are_found() {
        let options =
            |ids: &[&str]| ids.iter().map(|id| json!({ "id": id, "name": "x" })).collect::<Value>();
        let usual = ["proceed_always", "proceed_once", "cancel"];
        check(json!({ "options": options(&usual) }), "proceed_once", "cancel", false);
        check(
            json!({ "options": options(&usual), "type": "danger" }),
            "proceed_once",
            "cancel",
            true,
        );
        check(json!({ "options": options(&["reject_it", "go"]) }), "go", "reject_it", true);
        check(json!({}), "proceed_once", "cancel", true);
        check(json!({ "options": ["odd", { "id": 5 }] }), "proceed_once", "cancel", true);
    }

    #[test]
    fn what_is_asked_is_shown() {
        let shown = |request| asked(request).unwrap().description;
        let command = json!({ "command": "rm x\u{1b}[2J", "working_directory": "/p" });
        assert_eq!(
            shown(json!({ "execute_details": command, "prompt": "Allow it?" })),
            "In /p:\nrm x\nAllow it?"
        );
        let edit = json!({ "filePath": "/p/a", "old_content": "1\n", "new_content": "2\n", "formatted_diff": "none" });
        let diff = shown(json!({ "file_edit_details": edit }));
        assert!(diff.contains("-1\n+2") && diff.contains("/p/a"), "{diff}");
        assert_eq!(
            shown(json!({ "generic_details": { "description": "odd" } })),
            "odd\n{\n  \"a\": 1\n}"
        );
        let long =
            shown(json!({ "generic_details": { "description": "x".repeat(DESCRIPTION + 50) } }));
        assert!(long.ends_with("more characters are not shown]"), "{}", &long[DESCRIPTION..]);
    }

    #[test]
    fn what_asks_nothing_is_no_question() {
        assert_eq!(asked(Value::Null), None);
        assert_eq!(Confirmation::read(&json!({ "confirmation_request": {} })), None);
        let long = "x".repeat(ID + 1);
        assert_eq!(
            Confirmation::read(&json!({ "tool_call_id": long, "confirmation_request": {} })),
            None
        );
    }
}
