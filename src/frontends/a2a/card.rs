//! The agent card: who this agent is and what it speaks (spec 5.5; RFC 3.1).

use serde_json::{Map, Value, json};

use super::server::A2aServer;
use tandem_content::media::Media;
use tandem_wire::development_tool::URI;

/// Path below which the HTTP+JSON binding is served.
pub(super) const HTTP_JSON: &str = "/v1";

/// The card: for 1.0 alone, or one that clients of both versions can read.
pub(super) fn card(server: &A2aServer, v1: bool) -> Value {
    // Whoever has a token is shown the same card; without tokens there is nothing to show it by.
    let authenticates = server.principals.are_asked();
    let url = &server.network.url;
    let http_json = format!("{}{}", url.trim_end_matches('/'), HTTP_JSON);
    let texts = ["text/plain", "application/json"];
    let input_modes: Vec<_> = texts.into_iter().chain(Media::types()).collect();
    let mut card = json!({
        "name": "tandem",
        "description": "A coding agent: answers with a language model, works in a project with \
            tools, and asks before it changes anything.",
        "version": env!("CARGO_PKG_VERSION"),
        "provider": { "organization": "tandem", "url": url },
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
    if !v1 {
        card["url"] = json!(url);
        card["preferredTransport"] = json!("JSONRPC");
        card["protocolVersion"] = json!("0.3.0");
        card["capabilities"]["stateTransitionHistory"] = json!(true);
        card["supportsAuthenticatedExtendedCard"] = json!(authenticates);
    } else if let Some(interfaces) = card["supportedInterfaces"].as_array_mut() {
        interfaces.retain(|interface| interface["protocolVersion"] == "1.0");
    }
    if authenticates {
        secure(&mut card, server, v1);
    }
    card
}

/// Adds to the card that callers must show who they are, and how: by any of the schemes.
fn secure(card: &mut Value, server: &A2aServer, v1: bool) {
    let principals = &server.principals;
    let mut schemes = Map::new();
    if let Some(url) = principals.openid_connect_url() {
        let scheme = json!({ "openIdConnectSecurityScheme": { "openIdConnectUrl": url } });
        let old = json!({ "type": "openIdConnect", "openIdConnectUrl": url });
        schemes.insert("openIdConnect".to_owned(), both(scheme, old, v1));
    }
    if principals.have_tokens() || schemes.is_empty() {
        let scheme = json!({ "httpAuthSecurityScheme": { "scheme": "bearer" } });
        let old = json!({ "type": "http", "scheme": "bearer" });
        schemes.insert("bearer".to_owned(), both(scheme, old, v1));
    }
    let requirements = schemes.keys().map(|name| json!({ "schemes": { name: { "list": [] } } }));
    card["securityRequirements"] = requirements.collect();
    if !v1 {
        card["security"] = schemes.keys().map(|name| json!({ name: [] })).collect();
    }
    card["securitySchemes"] = schemes.into();
}

/// Returns a scheme in the form of 1.0, and unless the card is for that alone, in that of 0.3 as well.
fn both(mut scheme: Value, old: Value, v1: bool) -> Value {
    if let (Some(scheme), Value::Object(old), false) = (scheme.as_object_mut(), old, v1) {
        scheme.extend(old);
    }
    scheme
}
