//! The choice of models, and the construction of the chosen model.

mod default;
mod facts;
mod served;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::Path;
use std::sync::Arc;

use futures::FutureExt as _;
use futures::future::BoxFuture;

pub(super) use self::default::default_of;
use self::default::{
    DefaultReason, default_model, default_provider, has_models_of_its_own, is_set_up_or_default,
};
use self::facts::ModelFacts;
use super::login_keys::LoginKeys;
use super::session_factory::today;
use tandem_model::anthropic::{self, Anthropic};
use tandem_model::catalog::{self, Catalog};
use tandem_model::endpoint::Endpoint;
use tandem_model::gemini::{self, Gemini};
use tandem_model::lazy::Lazy;
use tandem_model::listing::is_plain_id;
use tandem_model::model_api::ModelApi;
use tandem_model::offer::{ModelGroup, ServerScope};
use tandem_model::ollama::{self, Ollama};
use tandem_model::openai::{self, LearnedWires, OpenAi};
use tandem_model::options::RequestOptions;
use tandem_model::provider::Provider;
use tandem_model::replay::Replay;
use tandem_model::server_default::ServerDefault;
use tandem_model::{Error, Model, Models, Prices};
use tandem_settings::{Credentials, ModelServers, SettingOrigin, Settings};

/// The models that the user can choose: those of the providers, and those that play a script.
#[derive(Clone)]
pub(super) struct ModelChoice {
    credentials: Arc<Credentials>,
    login_keys: Arc<LoginKeys>,
    options: RequestOptions,
    /// APIs of `OpenAI`'s servers that have turned out to have a model.
    learned_wires: Arc<LearnedWires>,
    /// Provider of model ids that name no provider, from the settings.
    usual: Provider,
    /// Id of the model that sessions begin with, from the settings.
    first_id: Option<String>,
}

impl ModelChoice {
    pub(super) fn new(
        credentials: Arc<Credentials>,
        login_keys: Arc<LoginKeys>,
        options: RequestOptions,
        settings: &Settings,
    ) -> Self {
        let (usual, first_id) = (settings.model.provider, settings.model.name.clone());
        Self { credentials, login_keys, options, learned_wires: Arc::default(), usual, first_id }
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
    /// none is wanted, the default model.
    fn lazy(&self, wanted: Option<(Provider, String)>) -> Lazy {
        let (ready, made, prepared) = (self.clone(), self.clone(), self.clone());
        let provider = wanted.as_ref().map(|(provider, _)| *provider);
        let provider_of = move |choice: &Self| {
            provider.unwrap_or_else(|| default_provider(&choice.credentials, choice.usual).0)
        };
        let asked_id = wanted.as_ref().map(|(_, id)| id.clone());
        let lazy = Lazy::new(
            move || {
                let credentials = &ready.credentials;
                let id = asked_id.as_deref().unwrap_or_default();
                let own = credentials.servers().providers().parse_id(id, Provider::Gemini).1;
                credentials.endpoint_of_model(provider_of(&ready), own).map(drop)
            },
            move || made.make(wanted.clone()),
        );
        lazy.prepared(move || {
            let (provider, login_keys) = (provider_of(&prepared), Arc::clone(&prepared.login_keys));
            async move { login_keys.find(provider).await }.boxed()
        })
    }

    /// Builds the wanted model, by its provider and its full id, or if none is wanted, the default model.
    fn make(&self, wanted: Option<(Provider, String)>) -> Result<Arc<dyn Model>, Error> {
        let catalog = self.catalog().map_err(Error::Rejected)?;
        let named = wanted.is_some();
        let (provider, id) = wanted.unwrap_or_else(|| {
            let default = default_model(&catalog, &self.credentials, self.usual);
            (default.provider, default.id.unwrap_or_default())
        });
        let own = self.credentials.servers().providers().parse_id(&id, provider).1;
        if !own.is_empty() {
            return self.build(&catalog, &id);
        }
        if !id.is_empty() && has_models_of_its_own(&self.credentials, provider) {
            return Ok(Arc::new(self.server_default(catalog, provider)));
        }
        let why = format!(
            "There is no default model of {}. Choose one with `--model {provider}:MODEL`.",
            provider.title()
        );
        let error = if named { Error::Rejected } else { Error::NotAuthenticated };
        Err(error(why))
    }

    /// Builds the model of a full id. Does not connect to the provider.
    fn build(&self, catalog: &Catalog, id: &str) -> Result<Arc<dyn Model>, Error> {
        let servers = self.credentials.servers();
        let model = properties(catalog, servers, id);
        let connect = self.credentials.connect_model(model.provider, &model.id);
        let options = self.options.clone();
        match servers.providers().api(model.provider, &model.id) {
            ModelApi::Gemini => Ok(Arc::new(Gemini::new(model, connect, options)?)),
            ModelApi::OpenAi(_) => {
                let learned = Arc::clone(&self.learned_wires);
                Ok(Arc::new(OpenAi::new(model, connect, options, learned)?))
            }
            ModelApi::Anthropic => Ok(Arc::new(Anthropic::new(model, connect, options)?)),
            ModelApi::Ollama => Ok(Arc::new(Ollama::new(model, connect, options)?)),
        }
    }

    /// Returns the model that a provider's server chooses.
    fn server_default(&self, catalog: Cow<'static, Catalog>, provider: Provider) -> ServerDefault {
        let providers = self.credentials.servers().providers();
        let usual = catalog.default_of(provider);
        let usual = usual.map(|id| providers.parse_id(&id, provider).1.to_owned());
        let (api, connect) = (providers.api(provider, ""), self.credentials.connect(provider));
        let choice = self.clone();
        let open = move |id: &str| choice.build(&catalog, id);
        ServerDefault::new(provider, api, connect, usual, Box::new(open))
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

    /// Lists all models that can be used now, and finds the model that sessions begin with. Asks servers.
    pub(super) async fn report(&self, settings: &Settings) -> Result<ModelReport, String> {
        let used = self.used(settings)?;
        let mut groups = self.set_up()?;
        let current = first_provider(&self.credentials, settings);
        let servers = served::to_ask(&self.credentials, Some(current), ServerScope::All);
        let facts = self.facts_of_servers();
        let mut silent = Vec::new();
        for server in served::ask(servers).await {
            let place = (server.provider, server.address.clone());
            match facts.group(server) {
                Some(group) => groups.push(group),
                None => silent.push(place),
            }
        }
        Ok(ModelReport { used, groups, silent })
    }

    /// Returns the model that sessions begin with, and the reason.
    fn used(&self, settings: &Settings) -> Result<UsedModel, String> {
        let said_at = |key: &str| {
            let origins: Vec<_> = settings.origin(key).iter().map(ToString::to_string).collect();
            format!("`{key}` of {}", origins.join(", "))
        };
        if let Some(name) = &settings.model.name {
            let id = Some(self.resolve(name));
            return Ok(UsedModel { id, reason: said_at("model.name") });
        }
        let default = default_model(&*self.catalog()?, &self.credentials, self.usual);
        let reason = match default.reason {
            DefaultReason::ModelsFile => {
                let dir = self.credentials.env().config_dir().unwrap_or_default();
                format!("`default` of {}", dir.join("models.json").display())
            }
            DefaultReason::Setting => said_at("model.provider"),
            DefaultReason::SetUp => "the first provider with a key or an address".to_owned(),
            DefaultReason::NothingSetUp => "no provider is set up".to_owned(),
        };
        let id = default.id.filter(|_| default.reason != DefaultReason::NothingSetUp);
        Ok(UsedModel { id, reason })
    }

    /// Returns the facts on a provider's models. Gateways have their own prices, so for their models only the rows in
    /// the user's `models.json` count.
    fn facts(&self, provider: Provider) -> ModelFacts {
        let catalog = self.catalog().unwrap_or(Cow::Borrowed(Catalog::embedded()));
        let prices = if self.credentials.is_own(provider) {
            catalog.clone()
        } else {
            let dir = self.credentials.env().config_dir();
            with_own_rows(Cow::Owned(Catalog::default()), dir.as_deref()).unwrap_or_default()
        };
        let (credentials, thinking) =
            (Arc::clone(&self.credentials), self.options.thinking.clone());
        ModelFacts { credentials, catalog, prices, thinking, day: today().to_string() }
    }

    /// Returns the facts on the models of servers that are no vendor's own.
    fn facts_of_servers(&self) -> ModelFacts {
        let dir = self.credentials.env().config_dir();
        let prices = with_own_rows(Cow::Owned(Catalog::default()), dir.as_deref());
        ModelFacts { prices: prices.unwrap_or_default(), ..self.facts(self.usual) }
    }
}

/// All models that can be used now.
pub(super) struct ModelReport {
    pub(super) used: UsedModel,
    /// Models of the catalog by their providers, then those of servers.
    pub(super) groups: Vec<ModelGroup>,
    /// Servers that were asked and do not answer as model servers, with their addresses.
    pub(super) silent: Vec<(Provider, String)>,
}

/// The model that sessions begin with.
pub(super) struct UsedModel {
    /// Full id; `None` if there is no such model.
    pub(super) id: Option<String>,
    /// Reason for the model, for people.
    pub(super) reason: String,
}

impl Models for ModelChoice {
    fn known(&self) -> Result<Vec<String>, String> {
        let catalog = self.catalog()?;
        Ok(self.ids(&catalog))
    }

    fn set_up(&self) -> Result<Vec<ModelGroup>, String> {
        let catalog = self.catalog()?;
        let providers = self.credentials.servers().providers();
        let mut by_provider = BTreeMap::<Provider, Vec<String>>::new();
        for id in self.ids(&catalog) {
            by_provider.entry(providers.parse_id(&id, self.usual).0).or_default().push(id);
        }
        // Another server than the provider's own has models of its own, and lists them itself.
        let has_catalog = |provider: Provider| {
            let is_vendor = matches!(provider, Provider::Gemini | Provider::Anthropic);
            self.credentials.is_set_up(provider)
                && (is_vendor || self.credentials.has_usual_server(provider))
        };
        by_provider.retain(|provider, _| has_catalog(*provider));
        let group = |(provider, ids): (Provider, Vec<String>)| {
            let facts = self.facts(provider);
            let models = ids.into_iter().map(|id| facts.offered(id, None)).collect();
            ModelGroup { provider, address: None, models }
        };
        Ok(by_provider.into_iter().map(group).collect())
    }

    fn served(&self, current: &str, scope: ServerScope) -> BoxFuture<'static, Vec<ModelGroup>> {
        let current = self.credentials.servers().providers().parse_id(current, self.usual).0;
        let servers = served::to_ask(&self.credentials, Some(current), scope);
        let facts = self.facts_of_servers();
        async move {
            let asked = served::ask(servers).await;
            let groups = asked.into_iter().filter_map(|server| facts.group(server));
            groups.filter(|group| !group.models.is_empty()).collect()
        }
        .boxed()
    }

    fn is_set_up(&self, id: &str) -> bool {
        let provider_of = |id: &str| {
            let bare = provider_of_bare(&self.credentials, self.usual, id);
            self.credentials.servers().providers().parse_id(id, bare).0
        };
        let first = self.first_id.as_deref().map(provider_of);
        is_set_up_or_default(&self.credentials, self.usual, first, provider_of(id))
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
        // An id that names only the provider leaves the choice to the provider's server.
        let is_plain = own.is_empty() || is_plain_id(own);
        // All models of the Gemini API are known. Any other provider may have any id.
        let is_known = provider != Provider::Gemini || catalog.knows(&provider.qualify(own));
        if !is_plain || !is_known {
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
        None => default_provider(credentials, usual).0,
    }
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
