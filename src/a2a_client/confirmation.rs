//! Questions of an agent about a tool that it wants to use where it runs: shown to the user of this session, and
//! answered with one of the options that the agent offers.

use super::outgoing::OptionChoice;
use tandem_content::plain::plain;
use tandem_content::shorten::{first_chars, one_line};
use tandem_host::{FileDiff, UserQuestion};
use tandem_wire::development_tool::{
    CANCEL_OPTION, ConfirmationDetails, ConfirmationRequest, INPUT_OPTIONS, ToolCall,
    ToolCallConfirmation,
};

/// Maximum length of a name or a label, and of a description, in characters.
const MAX_LABEL_CHARS: usize = 160;
const MAX_DESCRIPTION_CHARS: usize = 64 << 10;

/// Maximum length of an id, in bytes.
pub(super) const MAX_ID_BYTES: usize = 512;

/// Name of the tool by which other agents of this kind ask questions with answers of their own.
const INPUT_TOOL: &str = "ask_user";

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
    /// Reads the question in a tool call that an agent has sent; `None` if the call has no question, or asks one that no
    /// yes or no answers: the calling model is told such a question, and answers it with its next message.
    pub(super) fn read(call: &ToolCall) -> Option<Self> {
        let asked = call.confirmation_request.as_ref();
        let asked = asked.filter(|asked| call.tool_name != INPUT_TOOL || !takes_input(asked))?;
        let id =
            Some(&call.tool_call_id).filter(|id| !id.is_empty() && id.len() <= MAX_ID_BYTES)?;
        let text = |text: &str| one_line(&plain(text.as_bytes()), MAX_LABEL_CHARS);
        let tool = text(&call.tool_name);
        let label = text(call.description.as_deref().unwrap_or(&asked.title));
        let options = asked.options.iter().map(|it| &*it.id).filter(|id| !id.is_empty());
        let options: Vec<&str> = options.collect();
        let is_no = |id: &str| [CANCEL_OPTION, "reject", "deny"].iter().any(|no| id.contains(no));
        let named = |wanted: &str| options.iter().find(|id| **id == wanted);
        let yes = named("proceed_once").or_else(|| options.iter().find(|id| !is_no(id)));
        let no = named(CANCEL_OPTION).or_else(|| options.iter().find(|id| is_no(id)));
        Some(Self {
            call: id.clone(),
            description: description(asked, call),
            danger: asked.r#type == "danger" || !options.iter().any(|id| id.contains("always")),
            yes: yes.map_or("proceed_once", |id| *id).to_owned(),
            no: no.map_or(CANCEL_OPTION, |id| *id).to_owned(),
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
            label: one_line(&format!("{agent} asks: {label}"), MAX_LABEL_CHARS),
            description: format!(
                "The agent `{agent}` at {address} asks before it uses its tool `{tool}`:\n{description}"
            ),
            danger: *danger,
        }
    }

    /// Returns the answer to send to the agent.
    pub(super) fn choice(&self, yes: bool, remark: Option<String>) -> OptionChoice {
        let option = if yes { &self.yes } else { &self.no };
        let (tool_call_id, selected_option_id) = (self.call.clone(), option.clone());
        let answer = ToolCallConfirmation {
            tool_call_id,
            selected_option_id,
            new_content: None,
            answers: Vec::new(),
        };
        OptionChoice { answer, remark }
    }
}

/// Returns whether no option of a question allows anything. The name of a tool says too little: any agent may choose it,
/// and its question would then go to the model in place of the user.
fn takes_input(asked: &ConfirmationRequest) -> bool {
    let is_input = |id: &str| id == CANCEL_OPTION || INPUT_OPTIONS.contains(&id);
    !asked.options.is_empty() && asked.options.iter().all(|option| is_input(&option.id))
}

/// Describes the action that the agent asks about: the command, the change, or the arguments.
fn description(asked: &ConfirmationRequest, call: &ToolCall) -> String {
    let text = |text: &str| plain(text.as_bytes());
    let what = match &asked.details {
        ConfirmationDetails::ExecuteDetails { command, working_directory } => {
            let directory = match &**working_directory {
                "" => String::new(),
                directory => format!("In {}:\n", text(directory)),
            };
            format!("{directory}{}", text(command))
        }
        // The diff is made here from the two texts: a diff by the agent need not match them.
        ConfirmationDetails::FileEditDetails(edit) => {
            let old = edit.old_content.as_deref().map(|old| text(old).into());
            FileDiff::new(text(&edit.file_path), old, text(&edit.new_content)).unified()
        }
        ConfirmationDetails::GenericDetails { description } if !description.is_empty() => {
            format!("{}\n{}", text(description), arguments(call))
        }
        ConfirmationDetails::GenericDetails { .. } | ConfirmationDetails::McpDetails { .. } => {
            arguments(call)
        }
    };
    let what = format!("{what}\n{}", text(&asked.prompt));
    let what = what.trim();
    let first = first_chars(what, MAX_DESCRIPTION_CHARS);
    match what[first.len()..].chars().count() {
        0 => what.to_owned(),
        more => format!("{first}\n[{more} more characters are not shown]"),
    }
}

fn arguments(call: &ToolCall) -> String {
    let arguments = &call.input_parameters;
    if arguments.is_null() { String::new() } else { format!("{arguments:#}") }
}

#[cfg(test)]
#[expect(clippy::needless_pass_by_value, reason = "a case reads better as a value")]
mod tests {
    use serde_json::{Value, json};
    use tandem_wire::a2a::Fields;

    use super::*;

    fn read(call: Value) -> Option<Confirmation> {
        Confirmation::read(&Fields::from(call).into())
    }

    fn asked(request: Value) -> Option<Confirmation> {
        read(json!({
            "tool_call_id": "c", "tool_name": "t", "description": "Do\nit", "status": "PENDING",
            "input_parameters": { "a": 1 }, "confirmation_request": request,
        }))
    }

    #[track_caller]
    fn check(request: Value, yes: &str, no: &str, danger: bool) {
        let confirmation = asked(request).unwrap();
        assert_eq!(confirmation.choice(true, None).answer.selected_option_id, yes);
        assert_eq!(confirmation.choice(false, None).answer.selected_option_id, no);
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
        let long = shown(
            json!({ "generic_details": { "description": "x".repeat(MAX_DESCRIPTION_CHARS + 50) } }),
        );
        assert!(
            long.ends_with("more characters are not shown]"),
            "{}",
            &long[MAX_DESCRIPTION_CHARS..]
        );
    }

    #[test]
    fn a_question_of_the_agents_model_is_told_by_its_options_and_not_by_its_name_alone() {
        let is_for_user = |tool: &str, ids: &[&str]| {
            let options: Vec<_> = ids.iter().map(|id| json!({ "id": id, "name": "x" })).collect();
            let request = json!({ "options": options });
            let call =
                json!({ "tool_call_id": "c", "tool_name": tool, "confirmation_request": request });
            read(call).is_some()
        };
        assert!(!is_for_user("ask_user", &["option_1", "option_2", "cancel"]));
        assert!(!is_for_user("ask_user", &["cancel"]));
        assert!(is_for_user("ask_user", &["proceed_once", "cancel"]));
        assert!(is_for_user("ask_user", &["option_1", "proceed_once", "cancel"]));
        assert!(is_for_user("ask_user", &[]));
        assert!(is_for_user("other", &["option_1", "cancel"]));
    }

    #[test]
    fn what_asks_nothing_is_no_question() {
        assert_eq!(asked(Value::Null), None);
        assert_eq!(read(json!({ "confirmation_request": {} })), None);
        let long = "x".repeat(MAX_ID_BYTES + 1);
        assert_eq!(read(json!({ "tool_call_id": long, "confirmation_request": {} })), None);
    }
}
