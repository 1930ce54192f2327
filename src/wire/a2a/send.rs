//! Parameters of calls that clients make of agents: a message, and the name of a task.

use serde::{Deserialize, Serialize, Serializer};

use super::fields::{Fields, ObjectWriter};
use super::{InVersion, Message, ProtocolVersion, PushNotificationConfig};
use crate::jsonrpc::Error;

/// Parameters of the call that sends a message (0.3, section 7.1.1; 1.0, section 3.2.1).
#[derive(Debug, Clone, Default, PartialEq)]
pub struct MessageSendParams {
    /// The message.
    pub message: Message,
    /// Form of the response that the client wants.
    pub configuration: MessageSendConfiguration,
}

impl Serialize for InVersion<'_, MessageSendParams> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self { version, value: params } = *self;
        let mut object = ObjectWriter::new(serializer)?;
        object.field("message", &version.form(&params.message))?;
        object.field("configuration", &version.form(&params.configuration))?;
        object.end()
    }
}

/// Form of the response that a client wants (0.3, section 7.1.1; 1.0, section 3.2.2).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MessageSendConfiguration {
    /// `true` to respond at once; `false` to respond when the turn has ended or asks a question.
    pub returns_at_once: bool,
    /// Media types that the client accepts; empty if it accepts all.
    pub accepted_output_modes: Vec<String>,
    /// Maximum number of messages of the history in the response.
    pub history_length: Option<usize>,
    /// Receiver of push notifications, if the client wants any.
    pub push: Option<PushNotificationConfig>,
}

/// Output modes of clients that accept data parts.
const DATA_MODES: [&str; 6] = ["application/json", "application/*", "*/*", "*", "json", "data"];

impl MessageSendConfiguration {
    /// Returns `true` if the output modes that the client accepts are only text modes.
    pub fn accepts_only_text(&self) -> bool {
        let takes_data = |mode: &String| {
            let mode = mode.to_ascii_lowercase();
            DATA_MODES.contains(&mode.split(';').next().unwrap_or_default().trim())
        };
        let modes = &self.accepted_output_modes;
        !modes.is_empty() && !modes.iter().any(takes_data)
    }
}

impl TryFrom<Fields> for MessageSendConfiguration {
    type Error = Error;

    fn try_from(mut configuration: Fields) -> Result<Self, Error> {
        let blocking = configuration.flag("blocking").map(|blocking| !blocking);
        // A receiver of another type than an object counts as one without an address, which the server refuses.
        let mut push =
            |name| configuration.value(name).is_some().then(|| configuration.take_or_default(name));
        let push = push("pushNotificationConfig").or_else(|| push("taskPushNotificationConfig"));
        Ok(Self {
            returns_at_once: configuration.flag("returnImmediately").or(blocking).unwrap_or(false),
            accepted_output_modes: configuration.take_list("acceptedOutputModes"),
            history_length: configuration.count("historyLength")?,
            push,
        })
    }
}

impl Serialize for InVersion<'_, MessageSendConfiguration> {
    /// Writes the fields that the client of this program sets.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self { version, value: configuration } = *self;
        let mut object = ObjectWriter::new(serializer)?;
        match version {
            ProtocolVersion::V03 => object.field("blocking", &!configuration.returns_at_once)?,
            ProtocolVersion::V1 => {
                object.field("returnImmediately", &configuration.returns_at_once)?;
            }
        }
        object.end()
    }
}

/// Parameters of a call about a task: its state, its events, its end (0.3, sections 7.3, 7.4 and 7.9).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Fields")]
pub struct TaskIdParams {
    /// Id of the task; empty if the client named none.
    pub id: String,
    /// The last event that the client has seen.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metadata: Option<LastEvent>,
}

/// Metadata of a call for a task's events, of tandem's own.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LastEvent {
    /// Id of the last event that the client has seen.
    #[serde(alias = "last_event_id")]
    pub last_event_id: String,
}

impl TaskIdParams {
    /// Returns the id of the last event that the client has seen.
    pub fn last_event(&self) -> Option<&str> {
        self.metadata.as_ref().map(|last| &*last.last_event_id)
    }
}

impl From<Fields> for TaskIdParams {
    fn from(mut params: Fields) -> Self {
        let id = params.text("id").or_else(|| params.text("taskId")).unwrap_or_default().to_owned();
        let metadata =
            params.take("metadata").filter(|it: &LastEvent| !it.last_event_id.is_empty());
        Self { id, metadata }
    }
}
