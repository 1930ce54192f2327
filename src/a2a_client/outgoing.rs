//! Messages and requests to agents, in the form of each version.

use serde_json::{Value, json};
use uuid::Uuid;

use tandem_wire::a2a::ProtocolVersion::{self, V1, V03};
use tandem_wire::development_tool::URI;

/// Conversation and task that a message goes to, as far as they are known.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Destination {
    pub(super) context: Option<String>,
    pub(super) task: Option<String>,
}

/// An answer to an agent's question about a tool call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct OptionChoice {
    pub(super) call: String,
    /// Id of the chosen option.
    pub(super) option: String,
    /// Remark of the user on the choice.
    pub(super) remark: Option<String>,
}

/// Content of a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum OutgoingContent {
    Text(String),
    Choices(Vec<OptionChoice>),
}

impl OutgoingContent {
    /// Returns the parameters of the call that sends this content.
    pub(super) fn params(&self, version: ProtocolVersion, to: &Destination) -> Value {
        let text = |text: &str| match version {
            V03 => json!({ "kind": "text", "text": text }),
            V1 => json!({ "text": text }),
        };
        let parts: Vec<Value> = match self {
            Self::Text(said) => vec![text(said)],
            Self::Choices(choices) => {
                let data = |choice: &OptionChoice| {
                    let data = json!({
                        "tool_call_id": choice.call, "selected_option_id": choice.option,
                    });
                    match version {
                        V03 => json!({ "kind": "data", "data": data }),
                        V1 => json!({ "data": data }),
                    }
                };
                let remarks = choices.iter().filter_map(|choice| choice.remark.as_deref());
                choices.iter().map(data).chain(remarks.map(text)).collect()
            }
        };
        let mut message = json!({ "messageId": Uuid::new_v4().to_string(), "parts": parts });
        let configuration = match version {
            V03 => {
                message["kind"] = json!("message");
                message["role"] = json!("user");
                json!({ "blocking": false })
            }
            V1 => {
                message["role"] = json!("ROLE_USER");
                json!({ "returnImmediately": true })
            }
        };
        if matches!(self, Self::Choices(_)) {
            message["extensions"] = json!([URI]);
        }
        if let Some(context) = &to.context {
            message["contextId"] = json!(context);
        }
        if let Some(task) = &to.task {
            message["taskId"] = json!(task);
        }
        json!({ "message": message, "configuration": configuration })
    }
}

/// Returns the parameters of a call about a task. `after` is the id of the last event of the task that was seen.
pub(super) fn about_task(id: &str, after: Option<&str>) -> Value {
    let mut params = json!({ "id": id });
    if let Some(after) = after {
        params["metadata"] = json!({ "lastEventId": after });
    }
    params
}

#[cfg(test)]
#[expect(clippy::needless_pass_by_value, reason = "a case reads better as a value")]
mod tests {
    use super::*;

    #[track_caller]
    fn check(content: &OutgoingContent, version: ProtocolVersion, expected: Value) {
        let to = Destination { context: Some("c".to_owned()), task: Some("t".to_owned()) };
        let mut params = content.params(version, &to);
        let id = params["message"].as_object_mut().unwrap().remove("messageId");
        assert!(id.is_some_and(|id| id.is_string()));
        assert_eq!(params, expected);
    }

    #[test]
    fn a_message_has_the_form_of_its_version() {
        let text = OutgoingContent::Text("hi".to_owned());
        check(
            &text,
            V03,
            json!({
                "message": { "parts": [{ "kind": "text", "text": "hi" }], "kind": "message", "role": "user",
                    "contextId": "c", "taskId": "t" },
                "configuration": { "blocking": false },
            }),
        );
        check(
            &text,
            V1,
            json!({
                "message": { "parts": [{ "text": "hi" }], "role": "ROLE_USER", "contextId": "c", "taskId": "t" },
                "configuration": { "returnImmediately": true },
            }),
        );
    }

    #[test]
    fn an_answer_names_the_call_and_the_option() {
        let remark = Some("why".to_owned());
        let choice = OptionChoice { call: "w".to_owned(), option: "cancel".to_owned(), remark };
        let data = json!({ "tool_call_id": "w", "selected_option_id": "cancel" });
        check(
            &OutgoingContent::Choices(vec![choice]),
            V1,
            json!({
                "message": { "parts": [{ "data": data }, { "text": "why" }], "role": "ROLE_USER",
                    "extensions": [URI], "contextId": "c", "taskId": "t" },
                "configuration": { "returnImmediately": true },
            }),
        );
    }
}
