//! Login to a server in the user's browser. The browser is redirected to a page on this machine, or the user pastes
//! the browser's last address.

mod landing;

use std::sync::Arc;

use futures::FutureExt as _;
use reqwest::Url;
use rmcp::transport::auth::{
    AuthError, AuthorizationManager, AuthorizationMetadata, CredentialStore as _,
    InMemoryCredentialStore, OAuthClientConfig,
};

pub(super) use self::landing::Callback;
use self::landing::Landing;
use super::auth::{self, OAuth, StoredLogin, TokenStore};
use super::config::{ServerConfig, ServerReach, has_token};
use super::error_text::causes;
use super::http::{self, NetworkPolicy};

/// Default redirect address for a configured client id; Gemini CLI uses the same.
const KNOWN_REDIRECT: &str = "http://localhost:7777/oauth/callback";

/// A login that has begun and is not finished.
pub(super) struct PendingLogin {
    manager: AuthorizationManager,
    /// Store that receives the tokens.
    got: InMemoryCredentialStore,
    /// Address of the server.
    server: String,
    /// `true` if a peer has named the server.
    is_confined: bool,
    /// Address of the page where the user logs in.
    pub(super) address: Url,
    metadata: AuthorizationMetadata,
    client: OAuthClientConfig,
}

/// Waits until the browser is redirected here with this login's state, and finishes the login.
pub(super) async fn wait(
    landing: Landing,
    login: &Arc<PendingLogin>,
    store: &Arc<dyn TokenStore>,
) -> Result<(), String> {
    let (finished, store) = (Arc::clone(login), Arc::clone(store));
    let finish = move |callback| {
        let (login, store) = (Arc::clone(&finished), Arc::clone(&store));
        async move { login.finish(callback, &store).await }.boxed()
    };
    landing.wait(login.state(), Box::new(finish)).await
}

pub(super) fn nobody_logs_in(name: &str) -> String {
    format!("`{name}` is not reached over HTTP, so it has no login.")
}

/// Finds out where the user logs in, and registers this program there. Also returns the listener for the browser,
/// unless the redirect address is on another machine.
pub(super) async fn begin(
    config: &ServerConfig,
    network: &NetworkPolicy,
) -> Result<(PendingLogin, Option<Landing>), String> {
    let name = &config.name;
    let ServerReach::Http { url, headers } = &config.reach else {
        return Err(nobody_logs_in(name));
    };
    if has_token(headers) {
        return Err(format!(
            "`{name}` has an `Authorization` among the `headers` of its settings: remove that header first."
        ));
    }
    // Building this client checks the address, and sets up what the client of rmcp needs.
    http::client(url, network).map_err(|why| format!("`{name}`: {why}."))?;
    let failed = |what: &str, err: AuthError| {
        let why = why(&err, config.confined.is_some());
        format!("`{name}`: {what}: {}.", config.concealed(&why))
    };
    let nothing = |err| failed("its login page could not be found", err);
    let mut manager = auth::authorization(url, network).await.map_err(nothing)?;
    let metadata = match configured_endpoints(&config.oauth) {
        Some(metadata) => metadata,
        None => manager.resolve_metadata().await.map_err(nothing)?.metadata,
    };
    manager.set_metadata(metadata.clone());
    let got = InMemoryCredentialStore::new();
    manager.set_credential_store(got.clone());
    let landing = Landing::open(wanted_redirect(&config.oauth)).await?;
    let redirect = redirect(&config.oauth, landing.as_ref());
    let scopes = match &config.oauth.scopes[..] {
        [] => manager.select_initial_scopes(&[]).await,
        scopes => scopes.to_vec(),
    };
    let scopes: Vec<_> = scopes.iter().map(String::as_str).collect();
    let client = if let Some(id) = &config.oauth.client_id {
        known_client(&config.oauth, id, &redirect)
    } else {
        let unknown = |err| failed(UNKNOWN_CLIENT_HINT, err);
        let us = "tandem";
        manager.register_client(us, &redirect, &scopes).await.map_err(unknown)?
    };
    let unusable = |err| failed("its login data are not valid", err);
    manager.configure_client(client.clone()).map_err(unusable)?;
    let address = manager.get_authorization_url(&scopes).await.map_err(unusable)?;
    let mut address = checked(&address).map_err(|why| format!("`{name}`: {why}"))?;
    if !config.oauth.audiences.is_empty() {
        address.query_pairs_mut().append_pair("audience", &config.oauth.audiences.join(" "));
    }
    let (server, is_confined) = (url.clone(), config.confined.is_some());
    Ok((PendingLogin { manager, got, server, is_confined, address, metadata, client }, landing))
}

const UNKNOWN_CLIENT_HINT: &str = "tandem could not register there as a client; if you have a client id, set it \
    in the settings (`oauth`, `clientId`)";

/// Returns the endpoints in the settings, if they are complete.
fn configured_endpoints(oauth: &OAuth) -> Option<AuthorizationMetadata> {
    let (authorization, token) = (oauth.authorization_url.clone()?, oauth.token_url.clone()?);
    let mut metadata = AuthorizationMetadata::default();
    metadata.authorization_endpoint = authorization;
    metadata.token_endpoint = token;
    metadata.registration_endpoint.clone_from(&oauth.registration_url);
    Some(metadata)
}

fn known_client(oauth: &OAuth, id: &str, redirect: &str) -> OAuthClientConfig {
    let client = OAuthClientConfig::new(id, redirect);
    match &oauth.client_secret {
        Some(secret) if !secret.is_empty() => client.with_client_secret(secret),
        _ => client,
    }
}

/// Returns the address to which the browser is redirected after the login.
fn redirect(oauth: &OAuth, landing: Option<&Landing>) -> String {
    match (wanted_redirect(oauth), landing) {
        (Some(redirect), _) => redirect.to_owned(),
        (None, Some(landing)) => landing.address(),
        (None, None) => String::new(),
    }
}

/// Returns the redirect address that must be used, if the settings or the client id determine it.
fn wanted_redirect(oauth: &OAuth) -> Option<&str> {
    let known = oauth.client_id.as_ref().map(|_| KNOWN_REDIRECT);
    oauth.redirect_uri.as_deref().or(known)
}

/// Checks the address of a login page before it is opened in a browser. A server could name any address, and the
/// program that opens pages also opens programs.
fn checked(address: &str) -> Result<Url, String> {
    let wrong = "the address of its login page is not a URL.";
    let url = Url::parse(address).map_err(|_| wrong.to_owned())?;
    let here = matches!(url.host_str(), Some("localhost" | "127.0.0.1" | "[::1]"));
    match url.scheme() {
        "https" => Ok(url),
        "http" if here => Ok(url),
        "http" => Err("the address of its login page does not begin with https.".to_owned()),
        _ => Err(wrong.to_owned()),
    }
}

impl PendingLogin {
    /// Returns the random value (`state`) that ties a redirect of the browser to this login.
    pub(super) fn state(&self) -> String {
        self.query("state")
    }

    fn query(&self, name: &str) -> String {
        let found = self.address.query_pairs().find(|(found, _)| found == name);
        found.map(|(_, value)| value.into_owned()).unwrap_or_default()
    }

    /// Exchanges the code in a callback for tokens, and stores them. The caller has checked that the callback has
    /// this login's state.
    pub(super) async fn finish(
        &self,
        callback: Callback,
        store: &Arc<dyn TokenStore>,
    ) -> Result<(), String> {
        let failed = |why: String| format!("The login failed: {why}.");
        let refused = callback.refused.map(|why| format!("the service says {}", brief(&why)));
        let code = match (refused, callback.code) {
            (None, Some(code)) => code,
            (why, _) => return Err(failed(why.unwrap_or_default())),
        };
        let exchanged = self
            .manager
            .exchange_code_for_token_with_issuer(&code, &callback.state, callback.issuer.as_deref())
            .await;
        exchanged.map_err(|err| failed(why(&err, self.is_confined)))?;
        let got = self.got.load().await.ok().flatten();
        let credentials = got.ok_or_else(|| failed("its answer has no token".to_owned()))?;
        let resource = Some(self.query("resource")).filter(|it| !it.is_empty());
        let record = StoredLogin {
            server: self.server.clone(),
            resource: resource.unwrap_or_else(|| self.server.clone()),
            metadata: self.metadata.clone(),
            client_secret: self.client.client_secret.clone(),
            redirect_uri: self.client.redirect_uri.clone(),
            credentials,
        };
        record.save(store).await.map_err(failed)
    }
}

/// Returns the reason why a step of a login has failed. For a server that a peer has named, the text has no part of
/// the server's answers.
fn why(error: &AuthError, is_confined: bool) -> String {
    let why = causes(error);
    if !is_confined {
        return why;
    }
    tracing::debug!("a login has failed: {why}");
    "its answer is not part of a login".to_owned()
}

fn brief(said: &str) -> String {
    tandem_content::shorten::one_line(&tandem_content::plain::plain(said.as_bytes()), 300)
}
