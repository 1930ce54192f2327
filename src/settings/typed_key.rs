//! Keys that the user typed: each is checked with the API, and only then stored.

use std::path::PathBuf;
use std::sync::Arc;

use futures::future::BoxFuture;

use super::credentials::Credentials;
use super::endpoint::clean_key;
use tandem_content::blocking::blocking;
use tandem_model::endpoint::Endpoint;
use tandem_model::provider::Provider;
use tandem_model::{Error, Secret};

/// Function that checks with a provider that the API can be called with an endpoint and its key.
pub type Check =
    Arc<dyn Fn(Provider, Endpoint) -> BoxFuture<'static, Result<(), Error>> + Send + Sync>;

/// Reason why a key was not stored: a sentence that does not contain the key.
pub(super) enum Refusal {
    /// The key was refused, but another key may be accepted.
    Key(String),
    /// The key could not be checked or stored; another key would fail too.
    Trouble(String),
}

/// Checks a typed key, stores it, and makes this process use it from now on. Returns the path of the file with the key.
pub(super) async fn accept(
    credentials: &Arc<Credentials>,
    check: &Check,
    provider: Provider,
    typed: &str,
) -> Result<PathBuf, Refusal> {
    let key = clean_key(typed).map_err(|why| Refusal::Key(format!("The key {why}.")))?;
    let typed = credentials.typed_key(provider, key.clone()).map_err(Refusal::Trouble)?;
    match check(provider, typed.endpoint.clone()).await {
        // A provider reports a rate limit only for a valid key.
        Ok(()) | Err(Error::RateLimited(_)) => {}
        Err(err @ (Error::NotAuthenticated(_) | Error::Rejected(_))) => {
            let why = without(&key, &err.to_string());
            return Err(Refusal::Key(format!(
                "The key was not accepted: {why} (You get keys at {}.)",
                credentials.keys_made_at(provider)
            )));
        }
        Err(err) => {
            let why = without(&key, &err.to_string());
            return Err(Refusal::Trouble(format!(
                "The key could not be checked, so it was not stored: {why}"
            )));
        }
    }
    let credentials = Arc::clone(credentials);
    let store = move || {
        let path = credentials.store(&typed)?;
        credentials.give(typed);
        Ok(path)
    };
    let stored = blocking(store).await;
    stored
        .map_err(|_| "The key could not be stored.".to_owned())
        .flatten()
        .map_err(Refusal::Trouble)
}

/// Removes the key from a text: servers may repeat the key in an error.
fn without(key: &Secret, text: &str) -> String {
    text.replace(key.expose(), "…")
}
