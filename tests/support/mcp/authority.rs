//! A web service with one tool for which users must log in, and the service for the login, in one server.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Bytes;
use axum::http::{HeaderMap, Method, StatusCode, Uri};
use axum::response::{IntoResponse as _, Response};
use axum::routing::any;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use reqwest::Url;
use serde_json::{Value, json};
use tokio_util::task::AbortOnDropHandle;

use super::{answer_of_one_with_tool, result};

/// Differences from a well-behaved service.
#[derive(Debug, Clone, Default)]
pub struct Ways {
    /// Resource that the service names; `None`: itself.
    pub resource: Option<String>,
    /// Issuer that the service names with the code; `None`: itself.
    pub issuer: Option<String>,
    /// Error that the browser gets instead of a code.
    pub refuses: Option<String>,
    /// Login page that the service names; `None`: its own page.
    pub authorization: Option<String>,
    /// Lifetime of a token in seconds.
    pub lasts: Option<u64>,
    /// Set if tokens are not renewed any more.
    pub no_renewal: bool,
    /// Set if programs cannot register.
    pub no_registration: bool,
}

#[derive(Default)]
struct State {
    /// Beginning of the service's addresses.
    base: String,
    ways: Ways,
    /// Addresses and forms of the requests, in order.
    asked: Vec<(String, BTreeMap<String, String>)>,
    /// Of each code: the challenge.
    challenges: BTreeMap<String, String>,
    /// Valid tokens.
    tokens: Vec<String>,
    given: usize,
}

/// A running service.
pub struct Authority {
    /// The beginning of its addresses.
    pub base: String,
    state: Arc<Mutex<State>>,
    _serving: AbortOnDropHandle<()>,
}

impl Authority {
    /// Starts a service that differs so from a good one.
    pub async fn new(ways: Ways) -> Self {
        let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let base = format!("http://{}", listener.local_addr().unwrap());
        let state = State { base: base.clone(), ways, ..State::default() };
        let state = Arc::new(Mutex::new(state));
        let shared = Arc::clone(&state);
        let answer = move |method: Method, uri: Uri, headers: HeaderMap, body: Bytes| {
            let answer = shared.lock().unwrap().answer(&method, &uri, &headers, &body);
            async move { answer }
        };
        let router = Router::new().fallback(any(answer));
        let serving = tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        Self { base, state, _serving: AbortOnDropHandle::new(serving) }
    }

    /// Returns the address of the MCP server.
    pub fn mcp(&self) -> String {
        format!("{}/mcp", self.base)
    }

    /// Changes the behaviour.
    pub fn set(&self, change: impl FnOnce(&mut Ways)) {
        change(&mut self.state.lock().unwrap().ways);
    }

    /// Revokes all tokens.
    pub fn revoke(&self) {
        self.state.lock().unwrap().tokens.clear();
    }

    /// Returns the forms that were sent to this address.
    pub fn asked(&self, path: &str) -> Vec<BTreeMap<String, String>> {
        let state = self.state.lock().unwrap();
        state
            .asked
            .iter()
            .filter(|(asked, _)| asked == path)
            .map(|(_, form)| form.clone())
            .collect()
    }
}

/// Opens an address as a browser does, follows redirections, and returns the text of the last page.
pub async fn go(address: Url) -> String {
    drop(rustls::crypto::ring::default_provider().install_default());
    let answer = reqwest::get(address).await.unwrap();
    answer.text().await.unwrap()
}

fn pairs(text: &[u8]) -> BTreeMap<String, String> {
    form_urlencoded::parse(text).into_owned().collect()
}

fn json_of(value: &Value) -> Response {
    ([("content-type", "application/json")], value.to_string()).into_response()
}

impl State {
    fn answer(
        &mut self,
        method: &Method,
        uri: &Uri,
        headers: &HeaderMap,
        body: &Bytes,
    ) -> Response {
        let base = &self.base.clone();
        let mut form = pairs(uri.query().unwrap_or_default().as_bytes());
        form.extend(pairs(body));
        let path = uri.path().to_owned();
        self.asked.push((path.clone(), form.clone()));
        match path.as_str() {
            "/mcp" => self.serve(base, headers, body),
            "/.well-known/oauth-protected-resource/mcp" => {
                let resource = self.ways.resource.clone().unwrap_or(format!("{base}/mcp"));
                json_of(&json!({ "resource": resource, "authorization_servers": [base],
                    "scopes_supported": ["read"] }))
            }
            "/.well-known/oauth-authorization-server" => json_of(&self.metadata(base)),
            "/register" if method == Method::POST => {
                let sent: Value = serde_json::from_slice(body).unwrap();
                json_of(&json!({ "client_id": "client-1", "redirect_uris": sent["redirect_uris"] }))
            }
            "/authorize" => self.authorize(base, &form),
            "/token" => self.token(&form),
            _ => StatusCode::NOT_FOUND.into_response(),
        }
    }

    fn metadata(&self, base: &str) -> Value {
        let authorization = self.ways.authorization.clone();
        let mut metadata = json!({
            "issuer": base,
            "authorization_endpoint": authorization.unwrap_or(format!("{base}/authorize")),
            "token_endpoint": format!("{base}/token"),
            "response_types_supported": ["code"],
            "code_challenge_methods_supported": ["S256"],
            "authorization_response_iss_parameter_supported": true,
        });
        if !self.ways.no_registration {
            metadata["registration_endpoint"] = format!("{base}/register").into();
        }
        metadata
    }

    fn serve(&self, base: &str, headers: &HeaderMap, body: &Bytes) -> Response {
        let sent = headers.get("authorization").and_then(|it| it.to_str().ok()).unwrap_or_default();
        let token = sent.strip_prefix("Bearer ").unwrap_or_default();
        if !self.tokens.iter().any(|good| good == token) {
            let place = format!("{base}/.well-known/oauth-protected-resource/mcp");
            let challenge = format!("Bearer resource_metadata=\"{place}\"");
            return (StatusCode::UNAUTHORIZED, [("www-authenticate", challenge)]).into_response();
        }
        let message = serde_json::from_slice::<Value>(body).unwrap_or_default();
        if message["method"] == "tools/call" {
            let content = json!({ "content": [{ "type": "text", "text": "for a known user" }] });
            return result(&message, content);
        }
        let status = if message.is_null() { 405 } else { 202 };
        answer_of_one_with_tool(&message)
            .unwrap_or_else(|| StatusCode::from_u16(status).unwrap().into_response())
    }

    /// As if the user had agreed.
    fn authorize(&mut self, base: &str, form: &BTreeMap<String, String>) -> Response {
        let mut back = Url::parse(&form["redirect_uri"]).unwrap();
        back.query_pairs_mut().append_pair("state", &form["state"]);
        let issuer = self.ways.issuer.as_deref().unwrap_or(base);
        back.query_pairs_mut().append_pair("iss", issuer);
        if let Some(refuses) = &self.ways.refuses {
            back.query_pairs_mut().append_pair("error", refuses);
        } else {
            let code = format!("code-{}-of-a-user", self.challenges.len());
            back.query_pairs_mut().append_pair("code", &code);
            self.challenges.insert(code, form["code_challenge"].clone());
        }
        (StatusCode::FOUND, [("location", back.to_string())]).into_response()
    }

    fn token(&mut self, form: &BTreeMap<String, String>) -> Response {
        let good = match form["grant_type"].as_str() {
            "authorization_code" => {
                let sum =
                    ring::digest::digest(&ring::digest::SHA256, form["code_verifier"].as_bytes());
                let challenge = self.challenges.remove(&form["code"]);
                challenge == Some(URL_SAFE_NO_PAD.encode(sum.as_ref()))
            }
            "refresh_token" => {
                let last = format!("renewal-{}-of-a-user", self.given);
                !self.ways.no_renewal && form["refresh_token"] == last
            }
            _ => false,
        };
        if !good {
            let refused = json!({ "error": "invalid_grant" });
            return (StatusCode::BAD_REQUEST, json_of(&refused)).into_response();
        }
        self.given += 1;
        let token = format!("token-{}-of-a-user", self.given);
        self.tokens = vec![token.clone()];
        json_of(&json!({
            "access_token": token, "token_type": "Bearer",
            "expires_in": self.ways.lasts.unwrap_or(3600),
            "refresh_token": format!("renewal-{}-of-a-user", self.given),
            "id_token": "an-id-of-a-user",
        }))
    }
}
