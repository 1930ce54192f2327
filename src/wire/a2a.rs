//! Types of A2A 0.3 and 1.0, each defined once: read in the form of either version, and written in the form of one
//! version.
//!
//! The specifications are <https://a2a-protocol.org/v0.3.0/specification> and
//! <https://a2a-protocol.org/v1.0.0/specification>. Most objects have the same fields in both versions. A type whose
//! JSON differs is written as an [`InVersion`]; all others are `Serialize`. Each file reads and writes its own
//! types.

mod card;
pub mod error;
mod fields;
mod message;
mod methods;
mod push;
mod send;
mod status;
mod task;
mod update;

pub use self::card::{
    AgentCapabilities, AgentCard, AgentExtension, AgentInterface, AgentProvider, AgentSkill,
    CardSignature, SecurityScheme,
};
pub use self::fields::Fields;
pub(crate) use self::fields::ObjectWriter;
pub use self::message::{Artifact, FilePart, Message, Part, PartData, Role};
pub use self::methods::{Method, MethodAddress, ProtocolVersion, Verb};
pub use self::push::{
    DEFAULT_PUSH_ID, PushAuthentication, PushNotificationConfig, TaskPushNotificationConfig,
};
pub use self::send::{LastEvent, MessageSendConfiguration, MessageSendParams, TaskIdParams};
pub use self::status::{RpcStatus, with_reason};
pub use self::task::{Task, TaskMetadata, TaskState, TaskStatus, UnknownContext};
pub use self::update::{ArtifactMetadata, ArtifactUpdate, StatusUpdate, StreamEvent};

use serde::{Serialize, Serializer};

/// A value that is written in the form of a version.
#[derive(Debug, Clone, Copy)]
pub struct InVersion<'a, T: ?Sized> {
    version: ProtocolVersion,
    value: &'a T,
}

impl ProtocolVersion {
    /// Returns the form of a value in this version.
    pub fn form<T: ?Sized>(self, value: &T) -> InVersion<'_, T> {
        InVersion { version: self, value }
    }
}

impl<T> Serialize for InVersion<'_, Vec<T>>
where
    for<'a> InVersion<'a, T>: Serialize,
{
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.value.iter().map(|item| self.version.form(item)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::development_tool::{AgentThought, EventKind, EventMetadata};

    #[test]
    fn one_update_has_a_form_in_each_version() {
        let message = Message {
            role: Role::Agent,
            message_id: "m".to_owned(),
            task_id: "t".to_owned(),
            context_id: "c".to_owned(),
            extensions: vec!["e".into()],
            parts: vec![
                "a".to_owned().into(),
                PartData::Thought(AgentThought {
                    subject: "s".to_owned(),
                    description: String::new(),
                })
                .into(),
            ],
            metadata: Fields::default(),
        };
        let status = TaskStatus {
            state: TaskState::InputRequired,
            message: Some(message),
            timestamp: "now".to_owned(),
        };
        let metadata = EventMetadata {
            kind: Some(EventKind::Thought),
            model: "x".to_owned(),
            event_id: "4.0".to_owned(),
            answered_by: Some("you".to_owned()),
            ..EventMetadata::default()
        };
        let update = StreamEvent::Status(Box::new(StatusUpdate {
            task_id: "t".to_owned(),
            context_id: "c".to_owned(),
            status,
            is_final: true,
            metadata,
        }));
        let metadata = format!(
            r#"{{"coderAgent":{{"kind":"thought"}},"model":"x","{}":{{"kind":"THOUGHT","model":"x"}},"eventId":"4.0","answeredBy":"you"}}"#,
            crate::development_tool::EXTENSION_URI
        );
        let in_03 = format!(
            r#"{{"kind":"status-update","taskId":"t","contextId":"c","status":{{"state":"input-required","message":{{"kind":"message","role":"agent","messageId":"m","taskId":"t","contextId":"c","extensions":["e"],"parts":[{{"kind":"text","text":"a"}},{{"kind":"data","data":{{"subject":"s","description":""}}}}]}},"timestamp":"now"}},"final":true,"metadata":{metadata}}}"#
        );
        let in_1 = format!(
            r#"{{"statusUpdate":{{"taskId":"t","contextId":"c","status":{{"state":"TASK_STATE_INPUT_REQUIRED","message":{{"role":"ROLE_AGENT","messageId":"m","taskId":"t","contextId":"c","extensions":["e"],"parts":[{{"text":"a"}},{{"data":{{"subject":"s","description":""}}}}]}},"timestamp":"now"}},"metadata":{metadata}}}}}"#
        );
        assert_eq!(serde_json::to_string(&ProtocolVersion::V03.form(&update)).unwrap(), in_03);
        assert_eq!(serde_json::to_string(&ProtocolVersion::V1.form(&update)).unwrap(), in_1);
    }

    #[test]
    fn a_file_has_a_form_in_each_version() {
        let file = FilePart {
            name: Some("src/a.rs".to_owned()),
            media_type: Some("text/plain".into()),
            base64: Some("YQ==".to_owned()),
            uri: None,
        };
        let artifact = Artifact {
            artifact_id: "file:src/a.rs".to_owned(),
            name: "src/a.rs".to_owned(),
            parts: vec![file.into()],
        };
        assert!(!artifact.is_text());
        let update = StreamEvent::Artifact(ArtifactUpdate {
            task_id: "t".to_owned(),
            context_id: "c".to_owned(),
            artifact,
            append: false,
            last_chunk: true,
            metadata: ArtifactMetadata { event_id: "4.1".to_owned() },
        });
        let in_03 = r#"{"kind":"artifact-update","taskId":"t","contextId":"c","artifact":{"artifactId":"file:src/a.rs","name":"src/a.rs","parts":[{"kind":"file","file":{"name":"src/a.rs","mimeType":"text/plain","bytes":"YQ=="}}]},"append":false,"lastChunk":true,"metadata":{"eventId":"4.1"}}"#;
        let in_1 = r#"{"artifactUpdate":{"taskId":"t","contextId":"c","artifact":{"artifactId":"file:src/a.rs","name":"src/a.rs","parts":[{"raw":"YQ==","filename":"src/a.rs","mediaType":"text/plain"}]},"append":false,"lastChunk":true,"metadata":{"eventId":"4.1"}}}"#;
        assert_eq!(serde_json::to_string(&ProtocolVersion::V03.form(&update)).unwrap(), in_03);
        assert_eq!(serde_json::to_string(&ProtocolVersion::V1.form(&update)).unwrap(), in_1);
    }

    #[track_caller]
    fn check_config(authentication: Option<(&[&str], &str)>, in_03: &str, in_1: &str) {
        let authentication = authentication.map(|(schemes, credentials)| PushAuthentication {
            schemes: schemes.iter().map(ToString::to_string).collect(),
            credentials: Some(credentials.to_owned()),
        });
        let config = TaskPushNotificationConfig {
            task_id: "t".to_owned(),
            config: PushNotificationConfig {
                id: "a".to_owned(),
                url: "https://x/".to_owned(),
                token: authentication.as_ref().map(|_| "s".to_owned()),
                authentication,
            },
        };
        let written = serde_json::to_string(&ProtocolVersion::V03.form(&config));
        assert_eq!(written.unwrap(), in_03);
        let written = serde_json::to_string(&ProtocolVersion::V1.form(&config));
        assert_eq!(written.unwrap(), in_1);
    }

    #[test]
    fn a_push_configuration_is_nested_in_0_3_and_flat_in_1_0() {
        check_config(
            None,
            r#"{"taskId":"t","pushNotificationConfig":{"id":"a","url":"https://x/"}}"#,
            r#"{"taskId":"t","id":"a","url":"https://x/"}"#,
        );
        check_config(
            Some((&["Basic", "Bearer"], "c")),
            r#"{"taskId":"t","pushNotificationConfig":{"id":"a","url":"https://x/","token":"s","authentication":{"schemes":["Basic","Bearer"],"credentials":"c"}}}"#,
            r#"{"taskId":"t","id":"a","url":"https://x/","token":"s","authentication":{"scheme":"Basic","credentials":"c"}}"#,
        );
        check_config(
            Some((&[], "c")),
            r#"{"taskId":"t","pushNotificationConfig":{"id":"a","url":"https://x/","token":"s","authentication":{"schemes":[],"credentials":"c"}}}"#,
            r#"{"taskId":"t","id":"a","url":"https://x/","token":"s","authentication":{"scheme":"Bearer","credentials":"c"}}"#,
        );
    }
}
