//! The agent card: identity and capabilities of this agent (spec 5.5; RFC 3.1).

use bytes::Bytes;

use super::dialect::json;
use super::server::A2aServer;
use tandem_content::media::Media;
use tandem_wire::a2a::{
    AgentCapabilities, AgentCard, AgentExtension, AgentInterface, AgentProvider, AgentSkill,
    Fields, ProtocolVersion, SecurityScheme,
};
use tandem_wire::development_tool::EXTENSION_URI;

/// Path below which the HTTP+JSON binding is served.
pub(super) const HTTP_JSON: &str = "/v1";

/// Paths of the pages that the card links to.
pub(super) const DOCUMENTATION_PATH: &str = "/documentation.md";
pub(super) const ICON_PATH: &str = "/icon.svg";

/// Returns the URL of a path on the server.
fn beside(url: &str, path: &str) -> String {
    format!("{}{path}", url.trim_end_matches('/'))
}

/// Returns the card. `v1`: only clients of version 1.0 need to read the card; otherwise clients of both versions
/// can.
pub(super) fn card(server: &A2aServer, v1: bool) -> Bytes {
    let url = &server.network.url;
    let texts = ["text/plain", "text/*", "application/json", "application/octet-stream"];
    let input_modes: Vec<_> =
        texts.into_iter().chain(Media::types()).map(ToOwned::to_owned).collect();
    let interface = |url: &str, binding: &str, version: &str| AgentInterface {
        url: url.to_owned(),
        protocol_binding: binding.to_owned(),
        protocol_version: version.to_owned(),
    };
    let mut interfaces = vec![
        interface(url, "JSONRPC", "1.0"),
        interface(&beside(url, HTTP_JSON), "HTTP+JSON", "1.0"),
    ];
    if !v1 {
        interfaces.push(interface(url, "JSONRPC", "0.3"));
    }
    // The provider's URL should identify it to others, so the provider is left out if the server has no
    // public URL.
    let provider = server
        .network
        .is_public()
        .then(|| AgentProvider { organization: "tandem".to_owned(), url: url.clone() });
    let mut card = AgentCard {
        name: "tandem".to_owned(),
        description: "A coding agent: answers with a language model, works in a project with \
            tools, and asks before it changes anything."
            .to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        documentation_url: beside(url, DOCUMENTATION_PATH),
        icon_url: beside(url, ICON_PATH),
        capabilities: capabilities(server),
        default_input_modes: input_modes.clone(),
        default_output_modes: vec!["text/plain".to_owned(), "application/json".to_owned()],
        skills: vec![code_generation(input_modes)],
        interfaces,
        provider,
        security: security(server),
        signatures: None,
    };
    // Verifiers of 1.0 see only the fields of 1.0, so the signatures cover these.
    if let Some(key) = &server.options.card_key {
        let signed = key.sign(&serde_json::json!(ProtocolVersion::V1.form(&card)));
        card.signatures = Some(signed);
    }
    json(&if v1 { ProtocolVersion::V1 } else { ProtocolVersion::V03 }.form(&card))
}

fn capabilities(server: &A2aServer) -> AgentCapabilities {
    let params = [("version".to_owned(), "0".into())];
    AgentCapabilities {
        streaming: true,
        push_notifications: true,
        // The extended card has the same content as this card. The protocol has an extended card only where clients
        // authenticate.
        extended_agent_card: server.principals.are_asked(),
        extensions: vec![AgentExtension {
            uri: EXTENSION_URI.to_owned(),
            description: "Interactive development: tool calls that are asked about, their \
                live output, thoughts, slash commands."
                .to_owned(),
            required: false,
            params: Fields(params.into_iter().collect()),
        }],
    }
}

fn code_generation(input_modes: Vec<String>) -> AgentSkill {
    AgentSkill {
        id: "code_generation".to_owned(),
        name: "Code generation".to_owned(),
        description: "Reads, writes and runs code in a project, from instructions in plain \
            language."
            .to_owned(),
        tags: ["code", "development", "programming"].map(ToOwned::to_owned).to_vec(),
        examples: vec!["Find out why the tests fail, and fix it.".to_owned()],
        input_modes,
        output_modes: vec!["text/plain".to_owned()],
    }
}

/// Returns the schemes by which callers must authenticate; none if callers need not.
fn security(server: &A2aServer) -> Vec<SecurityScheme> {
    let principals = &server.principals;
    if !principals.are_asked() {
        return Vec::new();
    }
    let url = principals.openid_connect_url().map(ToOwned::to_owned);
    let needs_token = principals.have_tokens() || url.is_none();
    let connect = url.map(|url| SecurityScheme::OpenIdConnect { url });
    connect.into_iter().chain(needs_token.then_some(SecurityScheme::Bearer)).collect()
}
