//! Version 0.0.9 of the Agent Client Protocol, over which an editor drives an agent. `docs/protocols.md` says where its
//! schema is.
//!
//! The order of fields is the order on the wire. Version 0.0.10 added `updatePlan`, and version 0.0.11 added
//! `contextServers`. The other types in this module are the same from 0.0.8 to 0.0.11.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use serde::de::value::MapAccessDeserializer;
use serde::de::{Error as _, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;

use super::PlanEntry;

/// Version that this program speaks.
pub const PROTOCOL_VERSION: &str = "0.0.9";

/// Editor to agent: runs one turn; answered when the turn has ended.
pub const SEND_USER_MESSAGE: &str = "sendUserMessage";
/// Editor to agent: stops the running turn.
pub const CANCEL_SEND_MESSAGE: &str = "cancelSendMessage";
/// Agent to editor: appends text to the assistant's message.
pub const STREAM_ASSISTANT_MESSAGE_CHUNK: &str = "streamAssistantMessageChunk";
/// Agent to editor: shows a tool call and asks for permission to run it.
pub const REQUEST_TOOL_CALL_CONFIRMATION: &str = "requestToolCallConfirmation";
/// Agent to editor: shows a tool call that runs without a question.
pub const PUSH_TOOL_CALL: &str = "pushToolCall";
/// Agent to editor: changes a tool call that is shown.
pub const UPDATE_TOOL_CALL: &str = "updateToolCall";
/// Agent to editor, since 0.0.10: replaces the plan.
pub const UPDATE_PLAN: &str = "updatePlan";

/// Parameters of [`INITIALIZE_METHOD`](super::INITIALIZE_METHOD).
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct InitializeParams {
    /// Latest version that the client speaks. It is read as any JSON, because old and new clients send other types too.
    #[serde(default)]
    pub protocol_version: serde_json::Value,
    /// MCP servers that the client sends along (since 0.0.11), each a [`ContextServer`] under its name. They are read
    /// as any JSON, so that a wrong description does not keep the session from using the other servers.
    #[serde(default)]
    pub context_servers: serde_json::Value,
}

/// An MCP server that the client sends along.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ContextServer {
    /// A program to start.
    Stdio {
        /// Path of the program, or a name that is searched for.
        command: String,
        /// Arguments of the command.
        #[serde(default)]
        args: Vec<String>,
        /// Variables that are added to the environment.
        #[serde(default)]
        env: BTreeMap<String, String>,
    },
    /// A web service.
    Http {
        /// Address of the service.
        url: String,
        /// Headers of each request.
        #[serde(default)]
        headers: BTreeMap<String, String>,
    },
}

/// Result of [`INITIALIZE_METHOD`](super::INITIALIZE_METHOD).
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct InitializeResponse {
    /// Version that the agent speaks.
    pub protocol_version: &'static str,
    /// `true` if a model can be called, as far as the agent knows without the network.
    pub is_authenticated: bool,
}

/// Parameters of [`SEND_USER_MESSAGE`].
#[derive(Debug, Deserialize)]
pub struct SendUserMessageParams {
    /// Parts of the message, in order.
    pub chunks: Vec<UserMessageChunk>,
}

/// A part of a user's message.
#[derive(Debug, PartialEq, Deserialize)]
#[serde(try_from = "UserMessageChunkFields")]
pub enum UserMessageChunk {
    /// Typed text, Markdown.
    Text(String),
    /// A file or directory the user mentions: relative, absolute, or a `file://` URI.
    Path(String),
}

/// Fields of a chunk. The kind of the chunk is decided by the field that is present; unknown fields are ignored.
#[derive(Deserialize)]
struct UserMessageChunkFields {
    text: Option<String>,
    path: Option<String>,
}

impl TryFrom<UserMessageChunkFields> for UserMessageChunk {
    type Error = &'static str;

    fn try_from(fields: UserMessageChunkFields) -> Result<Self, Self::Error> {
        match (fields.text, fields.path) {
            (Some(text), None) => Ok(Self::Text(text)),
            (None, Some(path)) => Ok(Self::Path(path)),
            _ => Err("a chunk has either `text` or `path`"),
        }
    }
}

/// Parameters of [`STREAM_ASSISTANT_MESSAGE_CHUNK`].
#[derive(Debug, Serialize)]
pub struct StreamAssistantMessageChunkParams<'a> {
    /// Text to append.
    pub chunk: AssistantMessageChunk<'a>,
}

/// A part of an assistant's message.
#[derive(Debug, Clone, Copy, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum AssistantMessageChunk<'a> {
    /// Markdown of the answer.
    Text(&'a str),
    /// Thoughts as Markdown; they usually begin with `**Subject**`.
    Thought(&'a str),
}

/// Icon of a call. These are all icons that clients know: a client that gets another icon never answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[expect(missing_docs, reason = "the names are all there is")]
pub enum Icon {
    FileSearch,
    Folder,
    Globe,
    Hammer,
    LightBulb,
    Pencil,
    Regex,
    Terminal,
}

/// File and line of a call.
#[derive(Debug, Serialize)]
pub struct ToolCallLocation<'a> {
    /// Absolute path.
    pub path: &'a str,
    /// Row in the editor, from 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<u32>,
}

/// Parameters of [`PUSH_TOOL_CALL`].
#[derive(Debug, Serialize)]
pub struct PushToolCallParams<'a> {
    /// Icon of the call.
    pub icon: Icon,
    /// Title of the call, one line.
    pub label: &'a str,
    /// Files that the call is about. The list is sent even if it is empty, because a client in use needs it.
    pub locations: Vec<ToolCallLocation<'a>>,
}

/// Result of [`PUSH_TOOL_CALL`].
#[derive(Debug, Deserialize)]
#[serde(remote = "Self")]
pub struct PushToolCallResponse {
    /// The client's id for the call. A response with the id `null` is an error.
    #[serde(deserialize_with = "not_null")]
    pub id: ToolCallId,
}

fn not_null<'de, D: Deserializer<'de>>(deserializer: D) -> Result<ToolCallId, D::Error> {
    let id = Option::deserialize(deserializer)?;
    id.ok_or_else(|| D::Error::custom("`id` is null"))
}

/// The client's id for a call: a number according to the schema, but any JSON from clients in use. It is sent back
/// unchanged.
pub type ToolCallId = Box<RawValue>;

/// Parameters of [`REQUEST_TOOL_CALL_CONFIRMATION`].
#[derive(Debug, Serialize)]
pub struct RequestToolCallConfirmationParams<'a> {
    /// Title of the call, one line.
    pub label: &'a str,
    /// Icon of the call.
    pub icon: Icon,
    /// Content of the proposed change, or null.
    pub content: Option<ToolCallContent<'a>>,
    /// The question.
    pub confirmation: ToolCallConfirmation<'a>,
    /// Files that the call is about. The list is sent even if it is empty.
    pub locations: Vec<ToolCallLocation<'a>>,
}

/// A question about a call.
#[derive(Debug, Serialize)]
#[serde(tag = "type", rename_all = "camelCase", rename_all_fields = "camelCase")]
#[expect(missing_docs, reason = "the protocol's own names")]
pub enum ToolCallConfirmation<'a> {
    Edit {
        #[serde(skip_serializing_if = "Option::is_none")]
        description: Option<String>,
    },
    Execute {
        /// Names of the commands that are not allowed yet, joined by `, `.
        root_command: String,
        /// The whole command line.
        command: Cow<'a, str>,
        #[serde(skip_serializing_if = "Option::is_none")]
        description: Option<String>,
    },
    Mcp {
        server_name: Cow<'a, str>,
        tool_name: Cow<'a, str>,
        tool_display_name: Cow<'a, str>,
    },
    Fetch {
        urls: Vec<Cow<'a, str>>,
    },
    Other {
        description: String,
    },
}

/// Result of [`REQUEST_TOOL_CALL_CONFIRMATION`]. The protocol requires both fields, but clients leave out either.
#[derive(Debug, Deserialize)]
#[serde(remote = "Self")]
pub struct RequestToolCallConfirmationResponse {
    /// The client's id for the call.
    pub id: Option<ToolCallId>,
    /// The user's choice: a [`ToolCallConfirmationOutcome`].
    #[serde(default)]
    pub outcome: serde_json::Value,
}

/// Implements `Deserialize` for JSON objects only. By default, `serde` would also read the struct from an array of its
/// fields, but an array must never count as the user's consent.
macro_rules! only_an_object {
    ($result:ident) => {
        impl<'de> Deserialize<'de> for $result {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                struct Object;

                impl<'de> Visitor<'de> for Object {
                    type Value = $result;

                    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                        f.write_str("an object")
                    }

                    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<$result, A::Error> {
                        $result::deserialize(MapAccessDeserializer::new(map))
                    }
                }

                deserializer.deserialize_map(Object)
            }
        }
    };
}

only_an_object!(PushToolCallResponse);
only_an_object!(RequestToolCallConfirmationResponse);

/// The user's choice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ToolCallConfirmationOutcome {
    /// Allows this call.
    Allow,
    /// Allows this kind of action from now on.
    AlwaysAllow,
    /// Allows every tool of this MCP server from now on.
    AlwaysAllowMcpServer,
    /// Allows this tool from now on.
    AlwaysAllowTool,
    /// Rejects the call.
    Reject,
    /// Rejects the call and ends the turn.
    Cancel,
}

/// Parameters of [`UPDATE_TOOL_CALL`].
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct UpdateToolCallParams<'a> {
    /// The client's id for the call.
    pub tool_call_id: &'a RawValue,
    /// Status of the call.
    pub status: ToolCallStatus,
    /// Content that replaces the shown content; null leaves only the label.
    pub content: Option<ToolCallContent<'a>>,
}

/// Status of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[expect(missing_docs, reason = "the protocol's own names")]
pub enum ToolCallStatus {
    Running,
    Finished,
    Error,
}

/// Content of a call's card.
#[derive(Debug, Serialize)]
#[serde(tag = "type", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum ToolCallContent<'a> {
    /// Text.
    Markdown {
        /// Markdown.
        markdown: Cow<'a, str>,
    },
    /// A change of one file.
    Diff {
        /// Absolute path.
        path: &'a str,
        /// Text before; null if the file is new.
        old_text: Option<Cow<'a, str>>,
        /// Text after.
        new_text: Cow<'a, str>,
    },
}

/// Parameters of [`UPDATE_PLAN`]: the whole plan each time.
#[derive(Debug, Serialize)]
pub struct UpdatePlanParams<'a> {
    /// Steps, in order.
    pub entries: Vec<PlanEntry<'a>>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(result: &str, pushed: bool, confirmed: bool) {
        let read = serde_json::from_str::<PushToolCallResponse>(result);
        assert_eq!(read.is_ok(), pushed, "{result}");
        let read = serde_json::from_str::<RequestToolCallConfirmationResponse>(result);
        assert_eq!(read.is_ok(), confirmed, "{result}");
    }

    #[test]
    fn a_result_is_an_object_and_nothing_else() {
        check(r#"{"id":1,"outcome":"allow"}"#, true, true);
        check(r#"{"id":{"a":[1.50]},"more":null}"#, true, true);
        check(r#"{"outcome":"allow"}"#, false, true);
        check(r#"[1,"allow"]"#, false, false);
        check("[1]", false, false);
        check("[]", false, false);
        check("null", false, false);
        check("1", false, false);
        check(r#"{"id":1,"outcome":"reject","outcome":"allow"}"#, true, false);
    }
}
