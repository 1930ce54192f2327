//! The choice of models, and the construction of the chosen model.

use std::borrow::Cow;
use std::fs;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::{BoxFuture, join_all};
use tokio::time::timeout;

use super::login_keys::LoginKeys;
use tandem_model::anthropic::{self, Anthropic};
use tandem_model::catalog::{self, Catalog};
use tandem_model::endpoint::{Connect, Endpoint};
use tandem_model::gemini::{self, Gemini};
use tandem_model::lazy::Lazy;
use tandem_model::model_api::ModelApi;
use tandem_model::ollama::{self, Ollama};
use tandem_model::openai::{self, LearnedWires, OpenAi};
use tandem_model::options::RequestOptions;
use tandem_model::provider::Provider;
use tandem_model::replay::Replay;
use tandem_model::{Error, Model, Models, Prices};
use tandem_settings::{Credentials, ModelServers, SettingOrigin, Settings};

/// The models that the user can choose: those of the providers, and those that play a script.
pub(super) struct ModelChoice {
    credentials: Arc<Credentials>,
    login_keys: Arc<LoginKeys>,
    options: RequestOptions,
    /// APIs of `OpenAI`'s servers that have turned out to have a model.
    learned_wires: Arc<LearnedWires>,
    /// Provider of model ids that name no provider, from the settings.
    usual: Provider,
}

impl ModelChoice {
    pub(super) fn new(
        credentials: Arc<Credentials>,
        login_keys: Arc<LoginKeys>,
        options: RequestOptions,
        usual: Provider,
    ) -> Self {
        Self { credentials, login_keys, options, learned_wires: Arc::default(), usual }
    }

    /// Returns the model to begin with. It is built with the first prompt, so errors in its settings show then. They
    /// show at once if the model plays a script, or if the user has set a thinking level.
    pub(super) fn first(&self, settings: &Settings) -> anyhow::Result<Arc<dyn Model>> {
        let id = settings.model.name.as_deref();
        if let Some(replay) = id.and_then(replay) {
            return replay;
        }
        let usual = |id| provider_of_setting(&self.credentials, self.usual, settings, id);
        let providers = self.credentials.servers().providers();
        let wanted = match id.map(|id| providers.check(id, usual(id))).transpose() {
            Ok(wanted) => wanted,
            // A wrong id from a flag ends the program at once. A wrong id from another setting is reported with the
            // first prompt, where the user can also change the model.
            Err(why) if matches!(settings.origin("model.name"), [SettingOrigin::Flag(_)]) => {
                anyhow::bail!(why)
            }
            Err(why) => return Ok(Arc::new(wrong(&why))),
        };
        let full_id = |(provider, own)| (provider, full_id(id.unwrap_or_default(), provider, own));
        let model = self.lazy(wanted.map(full_id));
        if self.options.thinking.is_some() {
            model.get().map_err(Clone::clone)?;
        }
        Ok(Arc::new(model))
    }

    /// Returns a model that is built when it is first needed: the wanted one, by its provider and its full id, or if
    /// none is wanted, the default model of the provider that [`default_provider`] returns.
    fn lazy(&self, wanted: Option<(Provider, String)>) -> Lazy {
        let config_dir = self.credentials.env().config_dir();
        let (credentials, options) = (Arc::clone(&self.credentials), self.options.clone());
        let (asked, provider) = (Arc::clone(&credentials), wanted.as_ref().map(|(it, _)| *it));
        let asked_id = wanted.as_ref().map(|(_, id)| id.clone());
        let (usual, named) = (self.usual, wanted.is_some());
        let (login_keys, looked) = (Arc::clone(&self.login_keys), Arc::clone(&credentials));
        let learned_wires = Arc::clone(&self.learned_wires);
        let lazy = Lazy::new(
            move || {
                let provider = provider.unwrap_or_else(|| default_provider(&asked, usual));
                let id = asked_id.as_deref().unwrap_or_default();
                let own = asked.servers().providers().parse_id(id, provider).1;
                asked.endpoint_of_model(provider, own).map(drop).map_err(Error::NotAuthenticated)
            },
            move || {
                let catalog = catalog(config_dir.as_deref()).map_err(Error::Rejected)?;
                let servers = credentials.servers();
                let wanted = wanted.clone().unwrap_or_else(|| {
                    let provider = default_provider(&credentials, usual);
                    (provider, default_id(&catalog, servers, provider).unwrap_or_default())
                });
                let (provider, id) = wanted;
                if servers.providers().parse_id(&id, provider).1.is_empty() {
                    let why = format!(
                        "There is no default model of {}. Choose one with `--model {provider}:MODEL`.",
                        provider.title()
                    );
                    let error = if named { Error::Rejected } else { Error::NotAuthenticated };
                    return Err(error(why));
                }
                let model = properties(&catalog, servers, &id);
                let connect = credentials.connect_model(provider, &model.id);
                let (options, learned_wires) = (options.clone(), Arc::clone(&learned_wires));
                build(servers, model, connect, options, learned_wires)
            },
        );
        lazy.prepared(move || {
            let provider = provider.unwrap_or_else(|| default_provider(&looked, usual));
            let login_keys = Arc::clone(&login_keys);
            async move { login_keys.find(provider).await }.boxed()
        })
    }

    /// Returns the ids of the models in the catalog and in the settings, in the form in which a user can choose them.
    fn ids(&self, catalog: &Catalog) -> Vec<String> {
        let servers = self.credentials.servers().iter();
        let named = servers.flat_map(|(provider, server)| {
            server.models.iter().map(move |id| provider.qualify(id))
        });
        // In the catalog, an id without a provider is Gemini's. If the usual provider is another one, the id must name
        // Gemini.
        let asked = |id: &str| match Provider::parse_id(id, Provider::Gemini) {
            (Provider::Gemini, id) if self.usual != Provider::Gemini => format!("gemini:{id}"),
            _ => id.to_owned(),
        };
        catalog.ids().into_iter().map(asked).chain(named).collect()
    }

    fn catalog(&self) -> Result<Cow<'static, Catalog>, String> {
        catalog(self.credentials.env().config_dir().as_deref())
    }
}

/// Maximum time for a server to list its models.
const SERVED_TIMEOUT: Duration = Duration::from_secs(3);

/// Fetches the ids of the models of one provider's server, each with the provider as a prefix.
async fn served_by(api: ModelApi, endpoint: Endpoint) -> Vec<String> {
    let ids = match api {
        ModelApi::OpenAi(_) => openai::models(&endpoint).await,
        ModelApi::Ollama => ollama::models(&endpoint).await,
        ModelApi::Gemini | ModelApi::Anthropic => return Vec::new(),
    };
    ids.unwrap_or_default().iter().map(|id| endpoint.provider.qualify(id)).collect()
}

impl Models for ModelChoice {
    fn known(&self) -> Result<Vec<String>, String> {
        let catalog = self.catalog()?;
        Ok(self.ids(&catalog))
    }

    fn served(&self, current: &str) -> BoxFuture<'static, Vec<String>> {
        let servers = self.credentials.servers();
        let current = servers.providers().parse_id(current, self.usual).0;
        let is_used = |provider: &Provider| match provider {
            Provider::Named(_) => true,
            Provider::OpenAi => !self.credentials.is_own(*provider),
            Provider::Ollama => *provider == current || self.credentials.is_set_up(*provider),
            // All other providers list hundreds of models.
            provider => *provider == current,
        };
        let named = servers.iter().map(|(provider, _)| provider);
        let named = named.filter(|provider| matches!(provider, Provider::Named(_)));
        let providers = Provider::ALL.into_iter().chain(named).filter(is_used);
        let served = providers.filter_map(|provider| {
            let endpoint = self.credentials.endpoint(provider).ok()?;
            let served = served_by(servers.providers().api(provider, ""), endpoint);
            Some(timeout(SERVED_TIMEOUT, served).map(Result::unwrap_or_default))
        });
        join_all(served.collect::<Vec<_>>()).map(|lists| lists.concat()).boxed()
    }

    fn resolve(&self, id: &str) -> String {
        let bare = provider_of_bare(&self.credentials, self.usual, id);
        let (provider, own) = self.credentials.servers().providers().parse_id(id, bare);
        let resolved = self.catalog().map(|catalog| catalog.lookup(&provider.qualify(own)).id);
        let resolved = resolved.unwrap_or_else(|_| own.to_owned());
        // The resolved id must name the provider, because another provider may be set up when the session is opened
        // again.
        if own == id && bare != self.usual {
            return provider.qualify(&resolved);
        }
        format!("{}{resolved}", &id[..id.len() - own.len()])
    }

    /// Gateways and other servers have their own prices, so for their models only the rows in the user's `models.json`
    /// count.
    fn prices(&self, id: &str) -> Prices {
        let servers = self.credentials.servers();
        let Ok((provider, own)) = servers.providers().check(id, self.usual) else {
            return Prices::default();
        };
        let is_own = self.credentials.is_own(provider);
        let known = if is_own {
            Cow::Borrowed(Catalog::embedded())
        } else {
            Cow::Owned(Catalog::default())
        };
        let catalog = with_own_rows(known, self.credentials.env().config_dir().as_deref());
        let id = provider.qualify(own);
        catalog.map(|catalog| properties(&catalog, servers, &id).prices).unwrap_or_default()
    }

    fn open(&self, id: &str) -> Result<Arc<dyn Model>, String> {
        if let Some(replay) = replay(id) {
            return replay.map_err(|err| format!("{err:#}"));
        }
        let catalog = self.catalog()?;
        let providers = self.credentials.servers().providers();
        let (provider, own) =
            providers.check(id, provider_of_bare(&self.credentials, self.usual, id))?;
        let plain = own.chars().all(|c| c.is_ascii_alphanumeric() || "-._/:@+".contains(c));
        // All models of the Gemini API are known. Any other provider may have any id.
        let is_known = provider != Provider::Gemini || catalog.knows(&provider.qualify(own));
        if !plain || own.contains("..") || !is_known {
            let known: Vec<_> = self.ids(&catalog).iter().map(|id| format!("`{id}`")).collect();
            return Err(format!(
                "Unknown model `{id}`. Known models: {}, and their variants. Add others to `models.json` \
                 beside the stored key.",
                known.join(", ")
            ));
        }
        let model = self.lazy(Some((provider, full_id(id, provider, own))));
        model.get().map_err(ToString::to_string)?;
        Ok(Arc::new(model))
    }
}

/// Returns a model id from which the provider is clear. An `id` with a prefix, of a provider or an API, is returned
/// unchanged. `own`: the id without the prefix.
fn full_id(id: &str, provider: Provider, own: &str) -> String {
    if own.len() < id.len() { id.to_owned() } else { provider.qualify(own) }
}

/// Returns a model with a wrong id: every request to it fails with `why`.
fn wrong(why: &str) -> Lazy {
    let (ready, make) = (Error::Rejected(why.to_owned()), Error::Rejected(why.to_owned()));
    Lazy::new(move || Err(ready.clone()), move || Err(make.clone()))
}

/// Looks up a model by its id with the provider. The id may name a server of the settings.
fn properties(catalog: &Catalog, servers: &ModelServers, id: &str) -> catalog::ModelProperties {
    let providers = servers.providers();
    match providers.parse_id(id, Provider::Gemini) {
        (provider @ Provider::Named(_), own) => {
            catalog.lookup_at(provider, providers.api(provider, own), own)
        }
        _ => catalog.lookup(id),
    }
}

/// Returns the id of a provider's default model: that of the catalog, else the first model that the settings list.
fn default_id(catalog: &Catalog, servers: &ModelServers, provider: Provider) -> Option<String> {
    let default = catalog.default_model();
    if servers.providers().parse_id(default, Provider::Gemini).0 == provider {
        return Some(default.to_owned());
    }
    let listed = || Some(provider.qualify(servers.get(provider)?.models.first()?));
    catalog.default_of(provider).or_else(listed)
}

/// Builds a provider's model. Does not connect to the provider.
fn build(
    servers: &ModelServers,
    model: catalog::ModelProperties,
    connect: Connect,
    options: RequestOptions,
    learned_wires: Arc<LearnedWires>,
) -> Result<Arc<dyn Model>, Error> {
    match servers.providers().api(model.provider, &model.id) {
        ModelApi::Gemini => Ok(Arc::new(Gemini::new(model, connect, options)?)),
        ModelApi::OpenAi(_) => Ok(Arc::new(OpenAi::new(model, connect, options, learned_wires)?)),
        ModelApi::Anthropic => Ok(Arc::new(Anthropic::new(model, connect, options)?)),
        ModelApi::Ollama => Ok(Arc::new(Ollama::new(model, connect, options)?)),
    }
}

/// Checks with a server that it accepts requests with this address and key.
pub(super) async fn check(api: ModelApi, endpoint: Endpoint) -> Result<(), Error> {
    match api {
        ModelApi::Gemini => gemini::check(&endpoint).await,
        ModelApi::OpenAi(_) => openai::check(&endpoint).await,
        ModelApi::Anthropic => anthropic::check(&endpoint).await,
        ModelApi::Ollama => ollama::check(&endpoint).await,
    }
}

/// Returns the model that plays a script, if the id is `replay` or begins with `replay:`.
fn replay(id: &str) -> Option<anyhow::Result<Arc<dyn Model>>> {
    if id == "replay" {
        return Some(Ok(Arc::new(Replay::demo())));
    }
    let script = Path::new(id.strip_prefix("replay:")?);
    Some(Replay::open(script).map(|replay| -> Arc<dyn Model> { Arc::new(replay) }))
}

/// Returns the provider whose model is used if the user names no model. No other code decides this. The first of
/// these that exists is taken:
///
/// 1. The provider of the default model in the user's `models.json`.
/// 2. The provider that the settings name.
/// 3. The first provider that is set up, by a key or an address.
/// 4. Gemini.
fn default_provider(credentials: &Credentials, usual: Provider) -> Provider {
    let dir = credentials.env().config_dir();
    // The catalog is parsed only if the user has such a file, and most users have none.
    let written = dir.as_ref().is_some_and(|dir| dir.join("models.json").exists());
    let catalog = written.then(|| catalog(dir.as_deref()).ok()).flatten();
    let named = catalog.filter(|it| it.default_model() != Catalog::embedded().default_model());
    match named {
        Some(catalog) => {
            credentials.servers().providers().parse_id(catalog.default_model(), Provider::Gemini).0
        }
        None if usual != Provider::Gemini => usual,
        None => credentials.first_set_up().unwrap_or(Provider::Gemini),
    }
}

/// Returns the provider to use for `id` if it names no provider. This is the usual provider, unless that is Gemini
/// and the catalog does not know the id: then it is the first provider that is set up, such as a server on this
/// machine.
fn provider_of_bare(credentials: &Credentials, usual: Provider, id: &str) -> Provider {
    let is_bare = credentials.servers().providers().parse_id(id, usual).1 == id;
    // Most ids are Gemini's own. For them the answer is known without reading the catalog and the keys, which keeps
    // the start of the program fast.
    if usual != Provider::Gemini
        || !is_bare
        || ["gem", "replay"].iter().any(|it| id.starts_with(it))
    {
        return usual;
    }
    if catalog(credentials.env().config_dir().as_deref()).is_ok_and(|catalog| catalog.knows(id)) {
        return usual;
    }
    credentials.first_set_up().unwrap_or(usual)
}

/// Returns the provider to use for the model id in the settings, if the id names no provider.
fn provider_of_setting(
    credentials: &Credentials,
    usual: Provider,
    settings: &Settings,
    id: &str,
) -> Provider {
    match settings.origin("model.name") {
        // This variable belongs to Gemini CLI, so the id in it is an id of Gemini.
        [SettingOrigin::Variable("GEMINI_MODEL")] => Provider::Gemini,
        _ => provider_of_bare(credentials, usual, id),
    }
}

/// Returns the provider of the model that sessions begin with.
pub(super) fn first_provider(credentials: &Credentials, settings: &Settings) -> Provider {
    let usual = settings.model.provider;
    match settings.model.name.as_deref() {
        Some(id) => {
            let usual = provider_of_setting(credentials, usual, settings, id);
            credentials.servers().providers().parse_id(id, usual).0
        }
        None => default_provider(credentials, usual),
    }
}

/// Returns the id of a provider's default model.
pub(super) fn default_of(credentials: &Credentials, provider: Provider) -> Option<String> {
    let catalog = catalog(credentials.env().config_dir().as_deref()).ok()?;
    default_id(&catalog, credentials.servers(), provider)
}

/// Returns the built-in catalog of models with the user's rows from `models.json`.
fn catalog(config_dir: Option<&Path>) -> Result<Cow<'static, Catalog>, String> {
    with_own_rows(Cow::Borrowed(Catalog::embedded()), config_dir)
}

/// Adds the user's rows from `models.json` to a catalog.
fn with_own_rows<'a>(
    catalog: Cow<'a, Catalog>,
    config_dir: Option<&Path>,
) -> Result<Cow<'a, Catalog>, String> {
    let Some(path) = config_dir.map(|dir| dir.join("models.json")) else { return Ok(catalog) };
    let wrong = |why| format!("{} is not valid: {why}. Correct it.", path.display());
    match fs::read_to_string(&path) {
        Ok(json) => catalog.into_owned().with_overrides(&json).map(Cow::Owned).map_err(wrong),
        Err(err) if err.kind() == io::ErrorKind::NotFound => Ok(catalog),
        Err(err) => Err(format!("{} cannot be read: {err}", path.display())),
    }
}
