//! The agent card: identity and capabilities of this agent (spec 5.5; RFC 3.1).

use serde_json::{Map, Value, json};

use super::server::A2aServer;
use tandem_content::media::Media;
use tandem_wire::development_tool::URI;

/// Path below which the HTTP+JSON binding is served.
pub(super) const HTTP_JSON: &str = "/v1";

/// Paths of the pages that the card links to.
pub(super) const DOCUMENTATION: &str = "/documentation.md";
pub(super) const ICON: &str = "/icon.svg";

/// Returns the URL of a path on the server.
fn beside(url: &str, path: &str) -> String {
    format!("{}{path}", url.trim_end_matches('/'))
}

/// Returns the card: for clients of 1.0 only, or one that clients of both versions can read.
pub(super) fn card(server: &A2aServer, v1: bool) -> Value {
    // The extended card is the same card; without authentication, the protocol offers none.
    let authenticates = server.principals.are_asked();
    let url = &server.network.url;
    let http_json = beside(url, HTTP_JSON);
    let texts = ["text/plain", "text/*", "application/json", "application/octet-stream"];
    let input_modes: Vec<_> = texts.into_iter().chain(Media::types()).collect();
    let mut card = json!({
        "name": "tandem",
        "description": "A coding agent: answers with a language model, works in a project with \
            tools, and asks before it changes anything.",
        "version": env!("CARGO_PKG_VERSION"),
        "documentationUrl": beside(url, DOCUMENTATION),
        "iconUrl": beside(url, ICON),
        "capabilities": {
            "streaming": true,
            "pushNotifications": true,
            "extendedAgentCard": authenticates,
            "extensions": [{
                "uri": URI,
                "description": "Interactive development: tool calls that are asked about, their \
                    live output, thoughts, slash commands.",
                "required": false,
                "params": { "version": "0" },
            }],
        },
        "defaultInputModes": input_modes,
        "defaultOutputModes": ["text/plain", "application/json"],
        "skills": [{
            "id": "code_generation",
            "name": "Code generation",
            "description": "Reads, writes and runs code in a project, from instructions in plain \
                language.",
            "tags": ["code", "development", "programming"],
            "examples": ["Find out why the tests fail, and fix it."],
            "inputModes": input_modes,
            "outputModes": ["text/plain"],
        }],
        "supportedInterfaces": [
            { "url": url, "protocolBinding": "JSONRPC", "protocolVersion": "1.0" },
            { "url": http_json, "protocolBinding": "HTTP+JSON", "protocolVersion": "1.0" },
            { "url": url, "protocolBinding": "JSONRPC", "protocolVersion": "0.3" },
        ],
    });
    // The provider's URL should identify it to others, so the provider is left out if the server has no
    // public URL.
    if server.network.is_public() {
        card["provider"] = json!({ "organization": "tandem", "url": url });
    }
    if v1 && let Some(interfaces) = card["supportedInterfaces"].as_array_mut() {
        interfaces.retain(|interface| interface["protocolVersion"] == "1.0");
    }
    if authenticates {
        secure(&mut card, server);
    }
    // The card is signed before the fields of 0.3 are added, because verifiers of 1.0 see only the fields of 1.0.
    if let Some(key) = &server.options.card_key {
        key.sign(&mut card);
    }
    if !v1 {
        add_old_fields(&mut card, url, authenticates);
    }
    card
}

/// Adds to the card that callers must authenticate, by any one of the schemes.
fn secure(card: &mut Value, server: &A2aServer) {
    let principals = &server.principals;
    let mut schemes = Map::new();
    if let Some(url) = principals.openid_connect_url() {
        let scheme = json!({ "openIdConnectSecurityScheme": { "openIdConnectUrl": url } });
        schemes.insert("openIdConnect".to_owned(), scheme);
    }
    if principals.have_tokens() || schemes.is_empty() {
        let scheme = json!({ "httpAuthSecurityScheme": { "scheme": "bearer" } });
        schemes.insert("bearer".to_owned(), scheme);
    }
    let requirements = schemes.keys().map(|name| json!({ "schemes": { name: { "list": [] } } }));
    card["securityRequirements"] = requirements.collect();
    card["securitySchemes"] = schemes.into();
}

/// Adds the fields that only clients of 0.3 read.
fn add_old_fields(card: &mut Value, url: &str, authenticates: bool) {
    card["url"] = json!(url);
    card["preferredTransport"] = json!("JSONRPC");
    card["protocolVersion"] = json!("0.3.0");
    card["capabilities"]["stateTransitionHistory"] = json!(true);
    card["supportsAuthenticatedExtendedCard"] = json!(authenticates);
    let schemes = card.get_mut("securitySchemes").and_then(Value::as_object_mut);
    let Some(schemes) = schemes else { return };
    for scheme in schemes.values_mut() {
        for (name, kind) in
            [("openIdConnectSecurityScheme", "openIdConnect"), ("httpAuthSecurityScheme", "http")]
        {
            // In 0.3 the same fields are next to `type` instead of below it.
            if let Some(Value::Object(fields)) = scheme.get(name).cloned() {
                scheme["type"] = json!(kind);
                scheme.as_object_mut().into_iter().for_each(|scheme| scheme.extend(fields.clone()));
            }
        }
    }
    card["security"] = schemes.keys().map(|name| json!({ name: [] })).collect();
}
