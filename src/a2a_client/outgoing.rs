//! Messages and requests to agents, in the form of each version.

use serde_json::value::{RawValue, to_raw_value};
use uuid::Uuid;

use tandem_wire::a2a::{
    LastEvent, Message, MessageSendConfiguration, MessageSendParams, Part, PartData,
    ProtocolVersion, Role, TaskIdParams,
};
use tandem_wire::development_tool::{EXTENSION_URI, ToolCallConfirmation};

/// Conversation and task for which a message is, as far as they are known.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Destination {
    pub(super) context: Option<String>,
    pub(super) task: Option<String>,
}

/// An answer to an agent's question about a tool call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct OptionChoice {
    pub(super) answer: ToolCallConfirmation,
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
    pub(super) fn params(&self, to: &Destination) -> CallParams {
        let (parts, extensions) = match self {
            Self::Text(said) => (vec![said.clone().into()], Vec::new()),
            Self::Choices(choices) => {
                let answers = choices.iter().map(|choice| choice.answer.clone());
                let answers = answers.map(|answer| PartData::Confirmation(answer).into());
                let remarks = choices.iter().filter_map(|choice| choice.remark.clone());
                (answers.chain(remarks.map(Part::from)).collect(), vec![EXTENSION_URI.into()])
            }
        };
        let message = Message {
            role: Role::User,
            message_id: Uuid::new_v4().to_string(),
            task_id: to.task.clone().unwrap_or_default(),
            context_id: to.context.clone().unwrap_or_default(),
            extensions,
            parts,
            ..Message::default()
        };
        let configuration = MessageSendConfiguration {
            returns_at_once: true,
            ..MessageSendConfiguration::default()
        };
        CallParams::Message(Box::new(MessageSendParams { message, configuration }))
    }
}

/// Parameters of a call.
#[derive(Debug, Clone)]
pub(super) enum CallParams {
    Message(Box<MessageSendParams>),
    Task(TaskIdParams),
}

impl CallParams {
    /// Returns the parameters of a call about a task. `after` is the id of the last event of the task that was seen.
    pub(super) fn of_task(id: &str, after: Option<&str>) -> Self {
        let metadata = after.map(|after| LastEvent { last_event_id: after.to_owned() });
        Self::Task(TaskIdParams { id: id.to_owned(), metadata })
    }

    /// Returns the JSON of the parameters in a version.
    pub(super) fn json(&self, version: ProtocolVersion) -> serde_json::Result<Box<RawValue>> {
        match self {
            Self::Message(params) => to_raw_value(&version.form(&**params)),
            Self::Task(params) => to_raw_value(params),
        }
    }
}

#[cfg(test)]
#[expect(clippy::needless_pass_by_value, reason = "a case reads better as a value")]
mod tests {
    use serde_json::{Value, json};

    use super::ProtocolVersion::{V1, V03};
    use super::*;

    #[track_caller]
    fn check(content: &OutgoingContent, version: ProtocolVersion, expected: Value) {
        let to = Destination { context: Some("c".to_owned()), task: Some("t".to_owned()) };
        let params = content.params(&to).json(version).unwrap();
        let mut params: Value = serde_json::from_str(params.get()).unwrap();
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
        let answer = ToolCallConfirmation {
            tool_call_id: "w".to_owned(),
            selected_option_id: "cancel".to_owned(),
            new_content: None,
            answers: Vec::new(),
        };
        let choice = OptionChoice { answer, remark };
        let data = json!({ "tool_call_id": "w", "selected_option_id": "cancel" });
        check(
            &OutgoingContent::Choices(vec![choice]),
            V1,
            json!({
                "message": { "parts": [{ "data": data }, { "text": "why" }], "role": "ROLE_USER",
                    "extensions": [EXTENSION_URI], "contextId": "c", "taskId": "t" },
                "configuration": { "returnImmediately": true },
            }),
        );
    }
}
