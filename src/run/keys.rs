//! `tandem login` and `tandem logout`, and logins from an editor: API keys are asked for, checked, stored and deleted.

use std::io::stderr;
use std::sync::Arc;

use anyhow::anyhow;
use futures::FutureExt as _;
use futures::future::BoxFuture;

use super::login_keys::LoginKeys;
use super::models;
use super::session_factory::env;
use tandem_acp as acp;
use tandem_agent::session::Session;
use tandem_host::terminals::Supervisor;
use tandem_model::Model;
use tandem_model::provider::Provider;
use tandem_settings::{self as config, Check, Credentials, KeyInput};

/// Asks for the API key of the provider with this name, checks the key, and stores it.
pub(crate) async fn login(provider: &str) -> anyhow::Result<()> {
    let credentials = credentials()?;
    let provider = credentials.servers().providers().find(provider).map_err(|why| anyhow!(why))?;
    let input = KeyInput::stdin(&credentials, provider);
    config::login(&credentials, &check(&credentials), provider, input, &mut stderr())
        .await
        .map_err(|why| anyhow!(why))
}

/// Deletes the stored key of the provider with this name.
pub(crate) fn logout(provider: &str) -> anyhow::Result<()> {
    let credentials = credentials()?;
    let provider = credentials.servers().providers().find(provider).map_err(|why| anyhow!(why))?;
    config::logout(&credentials, provider, &mut stderr()).map_err(|why| anyhow!(why))
}

/// Returns the credentials for the working directory.
pub(super) fn credentials() -> anyhow::Result<Arc<Credentials>> {
    let env = env()?;
    let settings = config::read_settings(&env, env.directory(), &[]);
    Ok(Credentials::with_servers(env, settings.model_servers(), &Supervisor::new()))
}

/// Returns the function that checks a key with its provider.
pub(super) fn check(credentials: &Credentials) -> Check {
    let providers = credentials.servers().providers().clone();
    Arc::new(move |provider, endpoint| models::check(providers.api(provider, ""), endpoint).boxed())
}

/// Logins from an editor, for the model that sessions begin with or for the model of a session.
pub(super) struct EditorLogin {
    credentials: Arc<Credentials>,
    login_keys: Arc<LoginKeys>,
    model: Arc<dyn Model>,
    provider: Provider,
}

impl EditorLogin {
    /// Makes the login for the model that sessions begin with, and its provider.
    pub(super) fn new(
        credentials: &Arc<Credentials>,
        login_keys: Arc<LoginKeys>,
        model: Arc<dyn Model>,
        provider: Provider,
    ) -> Arc<Self> {
        Arc::new(Self { credentials: Arc::clone(credentials), login_keys, model, provider })
    }
}

impl acp::Login for EditorLogin {
    fn provider(&self) -> Provider {
        self.provider
    }

    fn provider_of(&self, session: Option<&Session>) -> Provider {
        let providers = self.credentials.servers().providers();
        session.map_or(self.provider, |session| {
            providers.parse_id(&session.model(), Provider::Gemini).0
        })
    }

    /// Makes no change if the model needs no key or has a key.
    fn authenticate(
        &self,
        session: Option<Arc<Session>>,
        opened: acp::PageOpened,
    ) -> BoxFuture<'static, Result<(), String>> {
        let (credentials, model) = (Arc::clone(&self.credentials), Arc::clone(&self.model));
        let provider = self.provider_of(session.as_deref());
        let login_keys = Arc::clone(&self.login_keys);
        async move {
            login_keys.find(provider).await;
            credentials.refresh(provider);
            let ready = session.map_or_else(|| model.ready(), |session| session.ready());
            if ready.is_ok() {
                return Ok(());
            }
            config::authenticate(&credentials, &check(&credentials), provider, &*opened).await
        }
        .boxed()
    }

    fn may_find_key(&self, session: &Session) -> bool {
        self.login_keys.may_find(self.provider_of(Some(session)))
    }

    fn accept(&self, key: String) -> BoxFuture<'static, Result<(), String>> {
        let (credentials, provider) = (Arc::clone(&self.credentials), self.provider);
        async move {
            config::accept_key(&credentials, &check(&credentials), provider, &key).await.map(drop)
        }
        .boxed()
    }

    fn logout(&self) -> Result<Option<String>, String> {
        let mut said = Vec::new();
        config::logout(&self.credentials, self.provider, &mut said)?;
        let endpoint = self.credentials.endpoint(self.provider);
        let has_key = endpoint.is_ok_and(|endpoint| endpoint.key.is_some());
        Ok(has_key.then(|| String::from_utf8_lossy(&said).trim_end().replace('\n', " ")))
    }
}
