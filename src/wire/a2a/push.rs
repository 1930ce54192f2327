//! Receivers of push notifications.

use serde::{Deserialize, Serialize, Serializer};

use super::fields::{Fields, ObjectWriter};
use super::{InVersion, ProtocolVersion};

/// Id of a receiver to which a client gives none (0.3, section 7.5).
pub const DEFAULT_PUSH_ID: &str = "default";

/// Receiver of a task's push notifications (0.3, section 6.8), written in the form of 0.3. It contains credentials.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Fields")]
pub struct PushNotificationConfig {
    /// Id, unique in its task.
    pub id: String,
    /// Address that notifications are sent to; empty if the client named none.
    pub url: String,
    /// Token that is sent with each notification, so that the receiver can check that the notification is meant for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token: Option<String>,
    /// Credentials for the address.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub authentication: Option<PushAuthentication>,
}

impl From<Fields> for PushNotificationConfig {
    fn from(mut config: Fields) -> Self {
        let text = |name| config.text(name).map(ToOwned::to_owned);
        Self {
            id: text("id").unwrap_or_else(|| DEFAULT_PUSH_ID.to_owned()),
            url: text("url").unwrap_or_default(),
            token: text("token"),
            authentication: config.take("authentication"),
        }
    }
}

/// Credentials for the address of a receiver (0.3, section 6.9), written in the form of 0.3.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Fields")]
pub struct PushAuthentication {
    /// Schemes that the receiver knows, such as `Bearer`, the preferred first. Version 1.0 has a single scheme.
    pub schemes: Vec<String>,
    /// Credentials in the form of the first scheme.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub credentials: Option<String>,
}

impl From<Fields> for PushAuthentication {
    fn from(mut authentication: Fields) -> Self {
        let text = |name| authentication.text(name).map(ToOwned::to_owned);
        let (scheme, credentials) = (text("scheme"), text("credentials"));
        let schemes = scheme.into_iter().chain(authentication.take_list("schemes"));
        Self { schemes: schemes.filter(|scheme| !scheme.is_empty()).collect(), credentials }
    }
}

impl PushAuthentication {
    /// Returns the scheme to use.
    pub fn scheme(&self) -> &str {
        self.schemes.first().map_or("Bearer", String::as_str)
    }
}

impl Serialize for InVersion<'_, PushAuthentication> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self { version, value: authentication } = *self;
        if version == ProtocolVersion::V03 {
            return authentication.serialize(serializer);
        }
        let mut object = ObjectWriter::new(serializer)?;
        object.field("scheme", authentication.scheme())?;
        object.optional("credentials", authentication.credentials.as_ref())?;
        object.end()
    }
}

/// Receiver of push notifications, with its task (0.3, section 7.5; 1.0, section 4.3.1).
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(from = "Fields")]
pub struct TaskPushNotificationConfig {
    /// Id of the task; empty if the client named none.
    pub task_id: String,
    /// Receiver of the task's notifications.
    pub config: PushNotificationConfig,
}

impl From<Fields> for TaskPushNotificationConfig {
    fn from(mut of_task: Fields) -> Self {
        let nested = of_task.take("pushNotificationConfig");
        let task_id = of_task.take_or_default("taskId");
        Self { task_id, config: nested.unwrap_or_else(|| of_task.into()) }
    }
}

impl Serialize for InVersion<'_, TaskPushNotificationConfig> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self { version, value: TaskPushNotificationConfig { task_id, config } } = *self;
        let mut object = ObjectWriter::new(serializer)?;
        object.field("taskId", task_id)?;
        match version {
            ProtocolVersion::V03 => object.field("pushNotificationConfig", config)?,
            ProtocolVersion::V1 => {
                object.field("id", &config.id)?;
                object.field("url", &config.url)?;
                object.optional("token", config.token.as_ref())?;
                let authentication = config.authentication.as_ref();
                object.optional("authentication", authentication.map(|it| version.form(it)))?;
            }
        }
        object.end()
    }
}
