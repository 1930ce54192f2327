//! The agent card: identity and capabilities of an agent, and the addresses of its interfaces.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize, Serializer};
use serde_json::Value;

use super::fields::{Fields, ObjectWriter};
use super::{InVersion, ProtocolVersion};

/// Binding of an interface that names none.
const DEFAULT_BINDING: &str = "JSONRPC";

/// The card of an agent (0.3, section 5.5; 1.0, section 4.4.1). In the form of 0.3 a card has the fields of both
/// versions.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(from = "Fields")]
pub struct AgentCard {
    /// Name of the agent.
    pub name: String,
    /// Description for people.
    pub description: String,
    /// Version of the agent.
    pub version: String,
    /// Address of the documentation.
    pub documentation_url: String,
    /// Address of an icon.
    pub icon_url: String,
    /// Abilities of the agent.
    pub capabilities: AgentCapabilities,
    /// Media types that the agent takes.
    pub default_input_modes: Vec<String>,
    /// Media types that the agent returns.
    pub default_output_modes: Vec<String>,
    /// Skills.
    pub skills: Vec<AgentSkill>,
    /// Interfaces, the preferred first: of a peer's card those of both versions.
    pub interfaces: Vec<AgentInterface>,
    /// Organization that offers the agent.
    pub provider: Option<AgentProvider>,
    /// Schemes by which clients have to authenticate, each of them sufficient.
    pub security: Vec<SecurityScheme>,
    /// Signatures of the fields of 1.0; `None` if the card is not signed.
    pub signatures: Option<Vec<CardSignature>>,
}

impl From<Fields> for AgentCard {
    /// Reads the fields that clients use.
    fn from(mut card: Fields) -> Self {
        let version: String = card.take("protocolVersion").unwrap_or_else(|| "0.3".to_owned());
        let read = |mut interface: Fields, binding: &str, version: &str| {
            let mut text =
                |name, default: &str| interface.take(name).unwrap_or_else(|| default.to_owned());
            AgentInterface {
                url: text("url", ""),
                protocol_binding: text(binding, DEFAULT_BINDING),
                protocol_version: text("protocolVersion", version),
            }
        };
        let has_url = |interface: &Fields| interface.value("url").is_some_and(Value::is_string);
        let listed = card.take_list::<Fields>("supportedInterfaces").into_iter().filter(has_url);
        let mut interfaces: Vec<_> = listed.map(|it| read(it, "protocolBinding", "1.0")).collect();
        let others = card.take_list::<Fields>("additionalInterfaces").into_iter().filter(has_url);
        let others = others.filter(|it| it.value("transport").is_some_and(Value::is_string));
        let capabilities = card.take_or_default("capabilities");
        let (name, description) =
            (card.take_or_default("name"), card.take_or_default("description"));
        let skills = card.take_list("skills");
        if has_url(&card) {
            interfaces.push(read(card, "preferredTransport", &version));
        }
        interfaces.extend(others.map(|it| read(it, "transport", &version)));
        Self { name, description, capabilities, skills, interfaces, ..Self::default() }
    }
}

impl Serialize for InVersion<'_, AgentCard> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self { version, value: card } = *self;
        let mut object = ObjectWriter::new(serializer)?;
        object.field("name", &card.name)?;
        object.field("description", &card.description)?;
        object.field("version", &card.version)?;
        object.field("documentationUrl", &card.documentation_url)?;
        object.field("iconUrl", &card.icon_url)?;
        object.field("capabilities", &version.form(&card.capabilities))?;
        object.field("defaultInputModes", &card.default_input_modes)?;
        object.field("defaultOutputModes", &card.default_output_modes)?;
        object.field("skills", &card.skills)?;
        object.field("supportedInterfaces", &card.interfaces)?;
        object.optional("provider", card.provider.as_ref())?;
        let names = || card.security.iter().map(SecurityScheme::name);
        if !card.security.is_empty() {
            let scopes = |name| BTreeMap::from([(name, BTreeMap::from([("list", [(); 0])]))]);
            let required = names().map(|name| BTreeMap::from([("schemes", scopes(name))]));
            object.field("securityRequirements", &required.collect::<Vec<_>>())?;
            object.field("securitySchemes", &version.form(&*card.security))?;
        }
        object.optional("signatures", card.signatures.as_ref())?;
        let in_03 = card.interfaces.iter().find(|it| it.protocol_version == "0.3");
        if let (Some(interface), ProtocolVersion::V03) = (in_03, version) {
            object.field("url", &interface.url)?;
            object.field("preferredTransport", &interface.protocol_binding)?;
            object.field("protocolVersion", "0.3.0")?;
            let is_extended = card.capabilities.extended_agent_card;
            object.field("supportsAuthenticatedExtendedCard", &is_extended)?;
            if !card.security.is_empty() {
                let required = names().map(|name| BTreeMap::from([(name, [(); 0])]));
                object.field("security", &required.collect::<Vec<_>>())?;
            }
        }
        object.end()
    }
}

/// Abilities of an agent (0.3, section 5.5.2; 1.0, section 4.4.3).
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(from = "Fields")]
pub struct AgentCapabilities {
    /// `true` if the agent sends events while it works.
    pub streaming: bool,
    /// `true` if the agent sends push notifications.
    pub push_notifications: bool,
    /// `true` if authenticated clients can ask for an extended card.
    pub extended_agent_card: bool,
    /// Extensions that the agent supports.
    pub extensions: Vec<AgentExtension>,
}

impl From<Fields> for AgentCapabilities {
    fn from(mut capabilities: Fields) -> Self {
        Self {
            streaming: capabilities.take_or_default("streaming"),
            push_notifications: capabilities.take_or_default("pushNotifications"),
            extended_agent_card: capabilities.take_or_default("extendedAgentCard"),
            extensions: capabilities.take_list("extensions"),
        }
    }
}

impl Serialize for InVersion<'_, AgentCapabilities> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self { version, value: capabilities } = *self;
        let mut object = ObjectWriter::new(serializer)?;
        object.field("streaming", &capabilities.streaming)?;
        object.field("pushNotifications", &capabilities.push_notifications)?;
        object.field("extendedAgentCard", &capabilities.extended_agent_card)?;
        object.field("extensions", &capabilities.extensions)?;
        // The history of a task has the messages of all its states.
        let history = (version == ProtocolVersion::V03).then_some(true);
        object.optional("stateTransitionHistory", history)?;
        object.end()
    }
}

/// Extension that an agent supports (0.3, section 5.5.2.1; 1.0, section 4.4.4).
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(from = "Fields")]
pub struct AgentExtension {
    /// Address of the extension's specification.
    pub uri: String,
    /// Use that the agent makes of the extension.
    pub description: String,
    /// `true` if clients have to know the extension.
    pub required: bool,
    /// Parameters, of the extension's own form.
    pub params: Fields,
}

impl From<Fields> for AgentExtension {
    fn from(mut extension: Fields) -> Self {
        Self { uri: extension.take_or_default("uri"), ..Self::default() }
    }
}

/// A skill of an agent (0.3, section 5.5.4; 1.0, section 4.4.5).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Fields", rename_all = "camelCase")]
pub struct AgentSkill {
    /// Id, unique in the card.
    pub id: String,
    /// Name for people.
    pub name: String,
    /// Description for people and models.
    pub description: String,
    /// Keywords.
    pub tags: Vec<String>,
    /// Prompts that use the skill.
    pub examples: Vec<String>,
    /// Media types that the skill takes.
    pub input_modes: Vec<String>,
    /// Media types that the skill returns.
    pub output_modes: Vec<String>,
}

impl From<Fields> for AgentSkill {
    fn from(mut skill: Fields) -> Self {
        let (name, description) =
            (skill.take_or_default("name"), skill.take_or_default("description"));
        Self { name, description, ..Self::default() }
    }
}

/// Interface of an agent (0.3, section 5.5.5; 1.0, section 4.4.6), written in the form of 1.0.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AgentInterface {
    /// Address of the interface.
    pub url: String,
    /// Name of the binding, such as `JSONRPC`.
    pub protocol_binding: String,
    /// Version of A2A.
    pub protocol_version: String,
}

/// Organization that offers an agent (0.3, section 5.5.1; 1.0, section 4.4.2).
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct AgentProvider {
    /// Name of the organization.
    pub organization: String,
    /// Address of the organization.
    pub url: String,
}

/// Scheme by which clients authenticate (0.3, section 5.5.3; 1.0, section 4.5.1).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SecurityScheme {
    /// A token of a provider of `OpenID` Connect.
    OpenIdConnect {
        /// Address of the provider's configuration.
        url: String,
    },
    /// A bearer token.
    Bearer,
}

impl SecurityScheme {
    /// Returns the name under which a card has the scheme.
    fn name(&self) -> &'static str {
        match self {
            Self::OpenIdConnect { .. } => "openIdConnect",
            Self::Bearer => "bearer",
        }
    }
}

/// Writes the schemes by their names.
impl Serialize for InVersion<'_, [SecurityScheme]> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let schemes = self.value.iter();
        serializer.collect_map(schemes.map(|scheme| (scheme.name(), self.version.form(scheme))))
    }
}

impl Serialize for InVersion<'_, SecurityScheme> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let (wrapper, kind, name, value) = match self.value {
            SecurityScheme::OpenIdConnect { url } => {
                ("openIdConnectSecurityScheme", "openIdConnect", "openIdConnectUrl", &**url)
            }
            SecurityScheme::Bearer => ("httpAuthSecurityScheme", "http", "scheme", "bearer"),
        };
        let mut object = ObjectWriter::new(serializer)?;
        object.field(wrapper, &BTreeMap::from([(name, value)]))?;
        if self.version == ProtocolVersion::V03 {
            // In 0.3 the same fields are next to `type` instead of below a wrapper.
            object.field("type", kind)?;
            object.field(name, value)?;
        }
        object.end()
    }
}

/// Signature of a card (1.0, section 4.4.7): a JWS without its payload.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CardSignature {
    /// The protected header, base64url-encoded.
    pub protected: String,
    /// The signature, base64url-encoded.
    pub signature: String,
}
