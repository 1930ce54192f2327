//! OAuth tokens for servers that require a login. They are stored with the user's other secrets, renewed, and sent
//! only to the server that they are for.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use axum::http;
use futures::future::BoxFuture;
use reqwest::{Client, redirect};
use rmcp::transport::auth::{
    AuthError, AuthorizationManager, AuthorizationMetadata, CredentialRefreshGuard,
    CredentialStore, OAuthClientConfig, OAuthHttpClient, OAuthHttpClientFuture,
    OAuthHttpRedirectPolicy, OAuthHttpRequest, StoredCredentials,
};
use serde::{Deserialize, Serialize};

use super::http::NetworkPolicy;
use parking_lot::Mutex;
use tandem_content::blocking::try_blocking;
use tandem_net as net;

/// Settings for logging in to a server, for values that the server does not announce itself. The
/// names are those of Gemini CLI's settings.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct OAuth {
    /// Client id of this program; `None` if the program registers itself.
    pub client_id: Option<String>,
    /// Client secret, if there is one.
    pub client_secret: Option<String>,
    /// Authorization endpoint. It is used only together with `token_url`.
    pub authorization_url: Option<String>,
    /// Token endpoint.
    pub token_url: Option<String>,
    /// Registration endpoint.
    pub registration_url: Option<String>,
    /// Scopes to request; if empty, the scopes that the server names.
    pub scopes: Vec<String>,
    /// Redirect address with which this program is registered.
    pub redirect_uri: Option<String>,
    /// Audiences of the tokens, for services that require them in the request.
    pub audiences: Vec<String>,
}

/// Interfaces that logging in needs.
#[derive(Clone)]
pub struct Logins {
    /// Store of tokens.
    pub store: Arc<dyn TokenStore>,
    /// Function that opens an address in the user's browser. Its future resolves only if no browser can be opened, to
    /// the reason.
    pub open: Arc<dyn Fn(String) -> BoxFuture<'static, String> + Send + Sync>,
}

/// A store of tokens, which are texts under the addresses of servers. Its functions may block. Their errors are texts
/// for people, and never contain a token.
pub trait TokenStore: Send + Sync {
    /// Returns the text stored for a server.
    fn load(&self, server: &str) -> Result<Option<String>, String>;

    /// Stores a text in place of the former; with `None`, removes it.
    fn save(&self, server: &str, text: Option<&str>) -> Result<(), String>;

    /// Waits until no other process renews the token of a server, and takes the lock. The lock is released when the
    /// returned value is dropped.
    fn lock(&self, server: &str) -> Result<Box<dyn Send>, String>;
}

/// Stored login.
#[derive(Clone, Serialize, Deserialize)]
pub(super) struct StoredLogin {
    /// Address of the server that the login is for.
    pub(super) server: String,
    /// Resource that the tokens are for, in the server's own words.
    pub(super) resource: String,
    /// Endpoints of the authorization server, including the endpoint that renews tokens.
    pub(super) metadata: AuthorizationMetadata,
    pub(super) client_secret: Option<String>,
    pub(super) redirect_uri: String,
    pub(super) credentials: StoredCredentials,
}

impl StoredLogin {
    /// Returns the manager that sends and renews the tokens.
    async fn manager(&self, network: &NetworkPolicy) -> Result<AuthorizationManager, AuthError> {
        let mut manager = authorization(&self.resource, network).await?;
        manager.set_metadata(self.metadata.clone());
        let client = OAuthClientConfig::new(&self.credentials.client_id, &self.redirect_uri);
        manager.configure_client(match &self.client_secret {
            Some(secret) => client.with_client_secret(secret),
            None => client,
        })?;
        Ok(manager)
    }

    /// Stores the login.
    pub(super) async fn save(&self, store: &Arc<dyn TokenStore>) -> Result<(), String> {
        let text = serde_json::to_string(self).map_err(|err| err.to_string())?;
        let (store, server) = (Arc::clone(store), self.server.clone());
        try_blocking(move || store.save(&server, Some(&text))).await
    }
}

/// Returns a manager that finds out how the user logs in to a server, and gets tokens for it.
pub(super) async fn authorization(
    server: &str,
    network: &NetworkPolicy,
) -> Result<AuthorizationManager, AuthError> {
    if network.confined.is_none() {
        return AuthorizationManager::new(server).await;
    }
    let requests = ConfinedRequests::new(network.clone())?;
    AuthorizationManager::new_with_oauth_http_client(server, Arc::new(requests)).await
}

/// HTTP client for a login to a server that a peer has named. The server itself names the addresses of the login, so
/// each of them is judged.
struct ConfinedRequests {
    network: NetworkPolicy,
    follows: Client,
    stops: Client,
}

/// Maximum number of redirects of one request of a login.
const MAX_REDIRECTS: usize = 5;

/// Timeout of one request of a login.
const REQUEST_TIME: Duration = Duration::from_secs(30);

/// Maximum size of the answer to one request of a login, in bytes.
const MAX_ANSWER_BYTES: usize = 1 << 20;

impl ConfinedRequests {
    fn new(network: NetworkPolicy) -> Result<Self, AuthError> {
        let client = |redirects: &dyn Fn() -> redirect::Policy| {
            let client =
                net::build(|| network.client().timeout(REQUEST_TIME).redirect(redirects()));
            client.map_err(|err| AuthError::InternalError(err.to_string()))
        };
        let follows = client(&|| {
            let judge = network.clone();
            redirect::Policy::custom(move |attempt| {
                // The resolver judges only names; an address without a name is judged here.
                match judge.judge(attempt.url()) {
                    Err(why) => attempt.error(why),
                    Ok(()) if attempt.previous().len() > MAX_REDIRECTS => attempt.stop(),
                    Ok(()) => attempt.follow(),
                }
            })
        })?;
        let stops = client(&redirect::Policy::none)?;
        Ok(Self { network, follows, stops })
    }
}

impl OAuthHttpClient for ConfinedRequests {
    fn execute(&self, request: OAuthHttpRequest) -> OAuthHttpClientFuture<'_> {
        Box::pin(async move {
            let client = match request.redirect_policy {
                OAuthHttpRedirectPolicy::Follow => &self.follows,
                _ => &self.stops,
            };
            let request = reqwest::Request::try_from(request.request)?;
            self.network.judge(request.url())?;
            let mut response = client.execute(request).await?;
            let mut body = Vec::new();
            while let Some(more) = response.chunk().await? {
                if body.len() + more.len() > MAX_ANSWER_BYTES {
                    return Err("its answer is too long".into());
                }
                body.extend_from_slice(&more);
            }
            let mut whole = http::Response::new(body);
            *whole.status_mut() = response.status();
            *whole.headers_mut() = response.headers().clone();
            Ok(whole)
        })
    }
}

/// Returns the manager that sends the tokens for a server, if the user has logged in to it.
pub(super) async fn manager(
    server: &str,
    logins: &Logins,
    network: &NetworkPolicy,
) -> Result<Option<AuthorizationManager>, String> {
    let tokens = Tokens {
        server: server.to_owned(),
        store: Arc::clone(&logins.store),
        record: Mutex::default(),
    };
    tokens.read().await?;
    let Some(record) = tokens.record.lock().clone() else { return Ok(None) };
    let wrong = |err| format!("the stored login cannot be used: {err}; log in again");
    let mut manager = record.manager(network).await.map_err(wrong)?;
    manager.set_credential_store(tokens);
    Ok(Some(manager))
}

/// The tokens of one server, behind the interface through which rmcp reads and stores them.
struct Tokens {
    server: String,
    store: Arc<dyn TokenStore>,
    /// Login as it was last read or written; `None` without a login.
    record: Mutex<Option<StoredLogin>>,
}

impl Tokens {
    async fn read(&self) -> Result<(), String> {
        let (store, server) = (Arc::clone(&self.store), self.server.clone());
        let text = try_blocking(move || store.load(&server)).await?;
        let record = text.and_then(|text| serde_json::from_str::<StoredLogin>(&text).ok());
        *self.record.lock() = record.filter(|record| record.server == self.server);
        Ok(())
    }
}

#[async_trait]
impl CredentialStore for Tokens {
    async fn load(&self) -> Result<Option<StoredCredentials>, AuthError> {
        Ok(self.record.lock().as_ref().map(|record| record.credentials.clone()))
    }

    async fn save(&self, credentials: StoredCredentials) -> Result<(), AuthError> {
        let record = {
            let mut record = self.record.lock();
            let Some(record) = record.as_mut() else {
                return Err(AuthError::AuthorizationRequired);
            };
            record.credentials = credentials;
            record.clone()
        };
        record.save(&self.store).await.map_err(AuthError::CredentialStoreError)
    }

    async fn clear(&self) -> Result<(), AuthError> {
        *self.record.lock() = None;
        let (store, server) = (Arc::clone(&self.store), self.server.clone());
        let cleared = try_blocking(move || store.save(&server, None)).await;
        cleared.map_err(AuthError::CredentialStoreError)
    }

    /// Deletes the tokens: they cannot be renewed, and the user must log in again.
    async fn on_refresh_token_rejected(&self, _: &StoredCredentials) -> Result<(), AuthError> {
        self.clear().await
    }

    /// Takes the lock for renewing, and reads the tokens again: another process may have renewed them meanwhile, and
    /// its tokens count.
    async fn acquire_refresh_guard(&self) -> Result<Option<CredentialRefreshGuard>, AuthError> {
        let (store, server) = (Arc::clone(&self.store), self.server.clone());
        let locked = try_blocking(move || store.lock(&server)).await;
        let guard = locked.map_err(AuthError::CredentialStoreError)?;
        self.read().await.map_err(AuthError::CredentialStoreError)?;
        Ok(Some(CredentialRefreshGuard::new(guard)))
    }
}
