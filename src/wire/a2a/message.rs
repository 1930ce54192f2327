//! A message, its parts, and the artifacts of a task, which have parts, too.

use std::borrow::Cow;

use serde::{Deserialize, Serialize, Serializer};
use serde_json::Value;

use super::fields::{Fields, ObjectWriter};
use super::{InVersion, ProtocolVersion};
use crate::development_tool::{AgentSettings, AgentThought, ToolCall, ToolCallConfirmation};

/// A message (0.3, section 6.4).
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(from = "Fields")]
pub struct Message {
    /// Author of the message.
    pub role: Role,
    /// Unique id of the message.
    pub message_id: String,
    /// Task that the message is part of; empty if the message names none.
    pub task_id: String,
    /// Conversation that the message is part of; empty if the message names none.
    pub context_id: String,
    /// URIs of the extensions that the parts follow.
    pub extensions: Vec<Cow<'static, str>>,
    /// Content.
    pub parts: Vec<Part>,
    /// Metadata, of any form: settings of a client, the source of a prompt.
    pub metadata: Fields,
}

impl From<Fields> for Message {
    fn from(mut message: Fields) -> Self {
        Self {
            role: message.take_or_default("role"),
            message_id: message.take_or_default("messageId"),
            task_id: message.take_or_default("taskId"),
            context_id: message.take_or_default("contextId"),
            extensions: message.take_list("extensions"),
            parts: message.take_list("parts"),
            metadata: message.take_or_default("metadata"),
        }
    }
}

impl Serialize for InVersion<'_, Message> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self { version, value: message } = *self;
        let mut object = ObjectWriter::new(serializer)?;
        object.optional("kind", (version == ProtocolVersion::V03).then_some("message"))?;
        object.field("role", message.role.name(version))?;
        object.field("messageId", &message.message_id)?;
        object.text("taskId", &message.task_id)?;
        object.text("contextId", &message.context_id)?;
        object.optional("extensions", Some(&message.extensions).filter(|all| !all.is_empty()))?;
        object.field("parts", &version.form(&message.parts))?;
        object.optional("metadata", Some(&message.metadata).filter(|all| !all.0.is_empty()))?;
        object.end()
    }
}

impl Message {
    /// Removes the parts that are no text.
    pub fn keep_text(&mut self) {
        self.parts.retain(|part| part.text.is_some());
    }
}

/// Author of a message (0.3, section 6.4).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(from = "String")]
pub enum Role {
    /// The client, or any other user of the session.
    User,
    /// The agent, or a role of no known name.
    #[default]
    Agent,
}

impl From<String> for Role {
    fn from(name: String) -> Self {
        if matches!(&*name, "user" | "ROLE_USER") { Self::User } else { Self::Agent }
    }
}

impl Role {
    fn name(self, version: ProtocolVersion) -> &'static str {
        match (self, version) {
            (Self::User, ProtocolVersion::V03) => "user",
            (Self::User, ProtocolVersion::V1) => "ROLE_USER",
            (Self::Agent, ProtocolVersion::V03) => "agent",
            (Self::Agent, ProtocolVersion::V1) => "ROLE_AGENT",
        }
    }
}

/// A piece of content (0.3, section 6.5; 1.0, section 4.1.6): a text, data or a file. Parts of peers may have several.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(from = "Fields")]
pub struct Part {
    /// Name of the kind, as a peer wrote the name. Version 1.0 has none.
    pub kind: Option<String>,
    /// Markdown for people and models.
    pub text: Option<String>,
    /// Data for programs.
    pub data: Option<PartData>,
    /// A file.
    pub file: Option<FilePart>,
}

impl From<Fields> for Part {
    fn from(mut part: Fields) -> Self {
        let kind = part.text("kind").or_else(|| part.text("type")).map(ToOwned::to_owned);
        let (text, data) = (part.take("text"), part.take("data").map(PartData::Received));
        // The file is an object of its own in 0.3, and among the other fields in 1.0.
        let inner = part.take::<Fields>("file").map(FilePart::from);
        let file = inner.or_else(|| Some(FilePart::from(part)).filter(FilePart::has_content));
        Self { kind, text, data, file }
    }
}

impl Part {
    /// Returns the fields of the data that a peer has sent.
    pub fn fields(&self) -> Option<Fields> {
        match &self.data {
            Some(PartData::Received(Value::Object(fields))) => Some(Fields(fields.clone())),
            _ => None,
        }
    }
}

impl Serialize for InVersion<'_, Part> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self { version, value: part } = *self;
        let mut object = ObjectWriter::new(serializer)?;
        if version == ProtocolVersion::V03 {
            let kind = match part {
                Part { text: Some(_), .. } => "text",
                Part { file: Some(_), .. } => "file",
                Part { .. } => "data",
            };
            object.field("kind", kind)?;
        }
        object.optional("text", part.text.as_ref())?;
        object.optional("data", part.data.as_ref())?;
        match (&part.file, version) {
            (Some(file), ProtocolVersion::V03) => object.field("file", file)?,
            (Some(file), ProtocolVersion::V1) => {
                object.optional("raw", file.base64.as_ref())?;
                object.optional("url", file.uri.as_ref())?;
                object.optional("filename", file.name.as_ref())?;
                object.optional("mediaType", file.media_type.as_ref())?;
            }
            (None, _) => {}
        }
        object.end()
    }
}

impl From<String> for Part {
    fn from(text: String) -> Self {
        Self { text: Some(text), ..Self::default() }
    }
}

impl From<PartData> for Part {
    fn from(data: PartData) -> Self {
        Self { data: Some(data), ..Self::default() }
    }
}

impl From<FilePart> for Part {
    fn from(file: FilePart) -> Self {
        Self { file: Some(file), ..Self::default() }
    }
}

/// Data of a part: what this side sends has the types of the development-tool extension.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
pub enum PartData {
    /// Reasoning of the model.
    Thought(AgentThought),
    /// A tool call.
    Call(Box<ToolCall>),
    /// Settings that the session uses.
    Settings(AgentSettings),
    /// Answer to a question about a tool call.
    Confirmation(ToolCallConfirmation),
    /// Data of a peer, of any form.
    Received(Value),
}

/// A file (0.3, section 6.6; 1.0, section 4.1.6), written in the form of 0.3.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct FilePart {
    /// Name of the file, which may have directories.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Type of the content.
    #[serde(rename = "mimeType", skip_serializing_if = "Option::is_none")]
    pub media_type: Option<Cow<'static, str>>,
    /// Content in base64.
    #[serde(rename = "bytes", skip_serializing_if = "Option::is_none")]
    pub base64: Option<String>,
    /// Address of the content.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uri: Option<String>,
}

impl From<Fields> for FilePart {
    fn from(mut file: Fields) -> Self {
        let mut first = |names: &[&str]| names.iter().find_map(|name| file.take::<String>(name));
        Self {
            name: first(&["name", "filename"]),
            media_type: first(&["mimeType", "mediaType"]).map(Cow::Owned),
            base64: first(&["bytes", "raw", "fileWithBytes"]),
            uri: first(&["uri", "url", "fileWithUri"]),
        }
    }
}

impl FilePart {
    fn has_content(&self) -> bool {
        self.base64.is_some() || self.uri.is_some()
    }
}

/// A result of a task (0.3, section 6.7).
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(from = "Fields")]
pub struct Artifact {
    /// Id, unique in its task.
    pub artifact_id: String,
    /// Name for people.
    pub name: String,
    /// Content.
    pub parts: Vec<Part>,
}

impl From<Fields> for Artifact {
    fn from(mut artifact: Fields) -> Self {
        Self {
            artifact_id: artifact.take_or_default("artifactId"),
            name: artifact.take_or_default("name"),
            parts: artifact.take_list("parts"),
        }
    }
}

impl Serialize for InVersion<'_, Artifact> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self { version, value: artifact } = *self;
        let mut object = ObjectWriter::new(serializer)?;
        object.field("artifactId", &artifact.artifact_id)?;
        object.field("name", &artifact.name)?;
        object.field("parts", &version.form(&artifact.parts))?;
        object.end()
    }
}

impl Artifact {
    /// Returns `true` if all of the content is text.
    pub fn is_text(&self) -> bool {
        self.parts.iter().all(|part| part.text.is_some())
    }
}
