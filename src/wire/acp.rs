//! The Agent Client Protocol 0.0.9 (requirements `acp-0.0.9.ts`): an editor drives an agent.
//!
//! Field order is the order on the wire. With 0.0.10 came `updatePlan`, with 0.0.11
//! `contextServers`; nothing else that is written here differs between 0.0.8 and 0.0.11.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use serde::de::value::MapAccessDeserializer;
use serde::de::{Error as _, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;

/// The version this program speaks.
pub const VERSION: &str = "0.0.9";

/// Editor to agent: the first call.
pub const INITIALIZE: &str = "initialize";
/// Editor to agent: log in; answered when that is complete.
pub const AUTHENTICATE: &str = "authenticate";
/// Editor to agent: run one turn; answered when the turn has ended.
pub const SEND_USER_MESSAGE: &str = "sendUserMessage";
/// Editor to agent: stop the running turn.
pub const CANCEL_SEND_MESSAGE: &str = "cancelSendMessage";
/// Agent to editor: more of the assistant's message.
pub const STREAM_ASSISTANT_MESSAGE_CHUNK: &str = "streamAssistantMessageChunk";
/// Agent to editor: show a tool call and ask whether it may run.
pub const REQUEST_TOOL_CALL_CONFIRMATION: &str = "requestToolCallConfirmation";
/// Agent to editor: show a tool call that runs without asking.
pub const PUSH_TOOL_CALL: &str = "pushToolCall";
/// Agent to editor: change a tool call that is shown.
pub const UPDATE_TOOL_CALL: &str = "updateToolCall";
/// Agent to editor, since 0.0.10: the plan as it is now.
pub const UPDATE_PLAN: &str = "updatePlan";

/// Parameters of [`INITIALIZE`].
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct InitializeParams {
    /// The client's latest version. Read as any JSON: old and new clients send odd ones.
    #[serde(default)]
    pub protocol_version: serde_json::Value,
    /// Since 0.0.11: the MCP servers that the client brings, each a [`ContextServer`] under its
    /// name. Read as any JSON: one that is wrong must not be in the way of the others.
    #[serde(default)]
    pub context_servers: serde_json::Value,
}

/// An MCP server that the client brings.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ContextServer {
    /// A program to start.
    Stdio {
        /// A path, or a name that is looked for.
        command: String,
        /// What follows it.
        #[serde(default)]
        args: Vec<String>,
        /// What is put into its environment.
        #[serde(default)]
        env: BTreeMap<String, String>,
    },
    /// A web service.
    Http {
        /// Where.
        url: String,
        /// What is sent with each request.
        #[serde(default)]
        headers: BTreeMap<String, String>,
    },
}

/// Result of [`INITIALIZE`].
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct InitializeResponse {
    /// The version the agent speaks.
    pub protocol_version: &'static str,
    /// Whether a model can be called, as far as is known without the network.
    pub is_authenticated: bool,
}

/// Parameters of [`SEND_USER_MESSAGE`].
#[derive(Debug, Deserialize)]
pub struct SendUserMessageParams {
    /// The message, in order.
    pub chunks: Vec<UserMessageChunk>,
}

/// A part of a user's message.
#[derive(Debug, PartialEq, Deserialize)]
#[serde(try_from = "UserMessageChunkFields")]
pub enum UserMessageChunk {
    /// What the user typed, Markdown.
    Text(String),
    /// A file or directory the user mentions: relative, absolute, or a `file://` URI.
    Path(String),
}

/// Which field is there says which chunk it is; any others are passed over.
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
    /// What is new.
    pub chunk: AssistantMessageChunk<'a>,
}

/// A part of an assistant's message.
#[derive(Debug, Clone, Copy, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum AssistantMessageChunk<'a> {
    /// Markdown.
    Text(&'a str),
    /// Markdown; usually begins with `**Subject**`.
    Thought(&'a str),
}

/// The whole set of icons. A client that gets another one never answers.
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

/// A place that a call is about.
#[derive(Debug, Serialize)]
pub struct ToolCallLocation<'a> {
    /// Absolute.
    pub path: &'a str,
    /// From 0: it is an editor's row.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<u32>,
}

/// Parameters of [`PUSH_TOOL_CALL`].
#[derive(Debug, Serialize)]
pub struct PushToolCallParams<'a> {
    /// What it looks like.
    pub icon: Icon,
    /// One line.
    pub label: &'a str,
    /// Always sent, empty if there are none: a real client needs it.
    pub locations: Vec<ToolCallLocation<'a>>,
}

/// Result of [`PUSH_TOOL_CALL`].
#[derive(Debug, Deserialize)]
#[serde(remote = "Self")]
pub struct PushToolCallResponse {
    /// The client's name for the call. Null is none.
    #[serde(deserialize_with = "not_null")]
    pub id: ToolCallId,
}

fn not_null<'de, D: Deserializer<'de>>(deserializer: D) -> Result<ToolCallId, D::Error> {
    let id = Option::deserialize(deserializer)?;
    id.ok_or_else(|| D::Error::custom("`id` is null"))
}

/// The client's name for a call: a number, by the schema, and any JSON in the wild.
/// Kept and sent back as it came.
pub type ToolCallId = Box<RawValue>;

/// Parameters of [`REQUEST_TOOL_CALL_CONFIRMATION`].
#[derive(Debug, Serialize)]
pub struct RequestToolCallConfirmationParams<'a> {
    /// One line.
    pub label: &'a str,
    /// What it looks like.
    pub icon: Icon,
    /// What would happen, or null.
    pub content: Option<ToolCallContent<'a>>,
    /// What is asked.
    pub confirmation: ToolCallConfirmation<'a>,
    /// Always sent.
    pub locations: Vec<ToolCallLocation<'a>>,
}

/// What is asked.
#[derive(Debug, Serialize)]
#[serde(tag = "type", rename_all = "camelCase", rename_all_fields = "camelCase")]
#[expect(missing_docs, reason = "the protocol's own names")]
pub enum ToolCallConfirmation<'a> {
    Edit {
        #[serde(skip_serializing_if = "Option::is_none")]
        description: Option<String>,
    },
    Execute {
        /// The command names that are not allowed yet, joined by `, `.
        root_command: String,
        /// The whole line.
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

/// Result of [`REQUEST_TOOL_CALL_CONFIRMATION`]. Both are needed, and clients forget both.
#[derive(Debug, Deserialize)]
#[serde(remote = "Self")]
pub struct RequestToolCallConfirmationResponse {
    /// The client's name for the call.
    pub id: Option<ToolCallId>,
    /// What the user chose: a [`ToolCallConfirmationOutcome`].
    #[serde(default)]
    pub outcome: serde_json::Value,
}

/// Has a result read from an object only. A struct would also be read from an array of its fields,
/// and nobody who sent an array meant it as consent.
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

/// What the user chose.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ToolCallConfirmationOutcome {
    /// This once.
    Allow,
    /// This kind of thing, from now on.
    AlwaysAllow,
    /// Every tool of this MCP server, from now on.
    AlwaysAllowMcpServer,
    /// This tool, from now on.
    AlwaysAllowTool,
    /// No.
    Reject,
    /// No, and stop the turn.
    Cancel,
}

/// Parameters of [`UPDATE_TOOL_CALL`].
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct UpdateToolCallParams<'a> {
    /// As the client gave it.
    pub tool_call_id: &'a RawValue,
    /// Where the call is.
    pub status: ToolCallStatus,
    /// Takes the place of what is shown; null leaves nothing but the label.
    pub content: Option<ToolCallContent<'a>>,
}

/// Where a call is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[expect(missing_docs, reason = "the protocol's own names")]
pub enum ToolCallStatus {
    Running,
    Finished,
    Error,
}

/// What is shown in a call's card.
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
        /// Absolute.
        path: &'a str,
        /// The file before; null if it is new.
        old_text: Option<Cow<'a, str>>,
        /// The file after.
        new_text: Cow<'a, str>,
    },
}

/// Parameters of [`UPDATE_PLAN`]: the whole plan each time.
#[derive(Debug, Serialize)]
pub struct UpdatePlanParams<'a> {
    /// In order.
    pub entries: Vec<PlanEntry<'a>>,
}

/// A step of a plan.
#[derive(Debug, Serialize)]
pub struct PlanEntry<'a> {
    /// What is to be done.
    pub content: Cow<'a, str>,
    /// How much it matters.
    pub priority: PlanEntryPriority,
    /// How far it is.
    pub status: PlanEntryStatus,
}

/// How much a step matters. The agent's todo list has no priorities: all are medium.
#[derive(Debug, Clone, Copy, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum PlanEntryPriority {
    /// The only one sent.
    Medium,
}

/// How far a step is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "the protocol's own names")]
pub enum PlanEntryStatus {
    Pending,
    InProgress,
    Completed,
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
