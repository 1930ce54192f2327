//! Frames in the form of an early implementation, which some clients still read (`/ws?format=flat`).

use serde::Serialize;
use serde_json::Value;

use tandem_wire::a2a::{PartData, Role, StatusUpdate};
use tandem_wire::development_tool::{
    AgentThought, ConfirmationDetails, ConfirmationOption, EventKind, ToolCall, ToolCallStatus,
};

/// A frame in this form.
#[derive(Serialize)]
pub(super) struct FlatFrame<'a> {
    #[serde(flatten)]
    content: FrameContent<'a>,
    kind: &'static str,
    #[serde(rename = "taskId")]
    task_id: &'a str,
}

/// The content of a frame, by its kind.
#[derive(Serialize)]
#[serde(untagged)]
enum FrameContent<'a> {
    Text { content: FlatText<'a> },
    Thought { thought: &'a AgentThought },
    Call(Box<FlatCall<'a>>),
}

#[derive(Serialize)]
struct FlatText<'a> {
    text: &'a str,
}

#[derive(Serialize)]
struct FlatCall<'a> {
    tool_call_id: &'a str,
    status: &'a ToolCallStatus,
    tool_name: &'a str,
    input_parameters: &'a Value,
    #[serde(skip_serializing_if = "Option::is_none")]
    live_content: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    result: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    confirmation_request: Option<FlatConfirmation<'a>>,
    metadata: CallMetadata<'a>,
}

#[derive(Serialize)]
struct FlatConfirmation<'a> {
    options: &'a [ConfirmationOption],
    details: &'a ConfirmationDetails,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct CallMetadata<'a> {
    correlation_id: &'a str,
}

/// Returns the frame of an update; `None` if this form has no frame for it.
pub(super) fn frame(update: &StatusUpdate) -> Option<FlatFrame<'_>> {
    let kind = update.metadata.kind?;
    let message = update.status.message.as_ref()?;
    if message.role == Role::User {
        return None;
    }
    let part = message.parts.first()?;
    let content = match (kind, &part.text, &part.data) {
        (EventKind::TextContent, Some(text), _) => {
            FrameContent::Text { content: FlatText { text } }
        }
        (EventKind::Thought, _, Some(PartData::Thought(thought))) => {
            FrameContent::Thought { thought }
        }
        (EventKind::ToolCallUpdate, _, Some(PartData::Call(call))) => {
            FrameContent::Call(Box::new(self::call(call)))
        }
        _ => return None,
    };
    Some(FlatFrame { content, kind: kind.upper(), task_id: &update.task_id })
}

fn call(call: &ToolCall) -> FlatCall<'_> {
    FlatCall {
        tool_call_id: &call.tool_call_id,
        status: &call.status,
        tool_name: &call.tool_name,
        input_parameters: &call.input_parameters,
        live_content: call.live_content.as_deref(),
        result: call.result(),
        confirmation_request: call.confirmation_request.as_ref().map(|request| FlatConfirmation {
            options: &request.options,
            details: &request.details,
        }),
        metadata: CallMetadata { correlation_id: &call.tool_call_id },
    }
}
