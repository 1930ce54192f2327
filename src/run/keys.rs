//! API keys: asked for, checked, stored and forgotten.

use std::io::stderr;
use std::sync::Arc;

use anyhow::anyhow;
use futures::FutureExt as _;

use super::making::env;
use super::models;
use tandem_acp as acp;
use tandem_agent::session::Session;
use tandem_model::provider::Provider;
use tandem_settings::{self as config, Check, Credentials, KeyInput};

/// Asks for a provider's API key, checks it, and stores it.
pub(crate) async fn login(provider: Provider) -> anyhow::Result<()> {
    let credentials = credentials()?;
    config::login(&credentials, &check(), provider, KeyInput::stdin(provider), &mut stderr())
        .await
        .map_err(|why| anyhow!(why))
}

/// Forgets a provider's stored key.
pub(crate) fn logout(provider: Provider) -> anyhow::Result<()> {
    config::logout(&*credentials()?, provider, &mut stderr()).map_err(|why| anyhow!(why))
}

/// Returns the credentials for the working directory.
pub(super) fn credentials() -> anyhow::Result<Arc<Credentials>> {
    Ok(Credentials::new(env()?))
}

/// Returns the function that checks a key with its provider.
pub(super) fn check() -> Check {
    Arc::new(|provider, endpoint| models::check(provider, endpoint).boxed())
}

/// Returns what `authenticate` does: nothing if the model needs no key or has one.
pub(super) fn authenticate(
    session: &Arc<Session>,
    credentials: &Arc<Credentials>,
) -> acp::Authenticate {
    let (session, credentials) = (Arc::clone(session), Arc::clone(credentials));
    Arc::new(move || {
        let (session, credentials) = (Arc::clone(&session), Arc::clone(&credentials));
        async move {
            let (provider, _) = Provider::of(&session.model(), Provider::Gemini);
            credentials.refresh(provider);
            if session.ready().is_ok() {
                return Ok(());
            }
            config::authenticate(&credentials, &check(), provider).await
        }
        .boxed()
    })
}
