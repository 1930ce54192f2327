//! The API keys of models: finds and stores keys, and recognizes them in texts and variables.

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::sync::Arc;

use tokio::sync::Semaphore;

use super::dotenv::DotEnv;
use super::endpoint::{self, EndpointSource, ResolvedEndpoint, TypedKey, UnusableEndpoint};
use super::env::Env;
use super::key_file::{self, KeyScope, OtherKeys, StoredKey};
use super::keys::MODEL_SERVERS;
use super::model_server::ModelServers;
use super::provider_variables::{AZURE_ENDPOINT, ProviderVariables, provider_variables};
use super::variables::Vars;
use parking_lot::Mutex;
use tandem_clouds::Authorizers;
use tandem_host::terminals::{EnvironmentFilter, Supervisor, Terminals};
use tandem_model::endpoint::{Connect, Endpoint};
use tandem_model::provider::Provider;
use tandem_model::redact::{has_secret, redact};
use tandem_model::{Error, Secret};

/// Lookup of keys for the work in one directory. No file is read before a key is asked for.
pub struct Credentials {
    env: Env,
    /// Servers of models that the settings describe.
    servers: Arc<ModelServers>,
    /// The `.env` file as it was read for each provider, stored here once a usable endpoint was found with it. A `.env`
    /// that the agent itself writes later must not change where the agent's next request goes.
    dotenv: Mutex<BTreeMap<Provider, Arc<DotEnv>>>,
    /// Keys of the process, shared by the credentials of all directories.
    state: Arc<Mutex<CredentialState>>,
    /// Authorizers of clouds, which keep credentials until they expire; shared as the keys are.
    authorizers: Arc<Authorizers>,
    /// Permit to ask the user for a key on a page in the browser: one page at a time.
    pub(super) asking: Arc<Semaphore>,
}

#[derive(Default)]
struct CredentialState {
    /// Keys that the user has typed into this process. For its server, each wins over every key that is set up.
    given: BTreeMap<KeyScope, Secret>,
    /// Every key that was found or typed: each of them is redacted, and hidden from started programs.
    keys: Vec<Secret>,
    /// Variables of the user's login shell; `None` until the shell has been asked.
    login: Option<LoginVariables>,
    /// Remarks that were logged already, so that each is logged once.
    remarks: Vec<String>,
}

/// Values of the login shell's variables, by name.
type LoginVariables = Arc<HashMap<String, String>>;

impl Credentials {
    /// Returns the credentials that are looked up in the environment `env`, for the built-in providers.
    pub fn new(env: Env) -> Arc<Self> {
        Self::with_servers(env, ModelServers::default(), &Supervisor::new())
    }

    /// Returns the credentials that are looked up in the environment `env`, for the built-in providers and the servers
    /// of the settings. Programs that print credentials belong to the programs of `supervisor`.
    pub fn with_servers(
        env: Env,
        servers: ModelServers,
        supervisor: &Arc<Supervisor>,
    ) -> Arc<Self> {
        let keys = keys_in(&servers, |name| env.var(name));
        let state = CredentialState { keys, ..CredentialState::default() };
        let (servers, state) = (Arc::new(servers), Arc::new(Mutex::new(state)));
        let (known, keys) = (Arc::clone(&servers), Arc::clone(&state));
        let is_hidden = move |name: &str, value: &str| is_secret(&known, &keys, name, value);
        let terminals = Terminals::new(supervisor, EnvironmentFilter::new(is_hidden));
        Arc::new(Self {
            env,
            servers,
            dotenv: Mutex::default(),
            state,
            authorizers: Arc::new(Authorizers::new(terminals)),
            asking: Arc::new(Semaphore::new(1)),
        })
    }

    /// Returns the credentials for work in the directory of `env`, with the servers of the settings there. The `.env`
    /// files of that directory count for them, and not those of this directory. Typed keys and the variables of the
    /// login shell are shared.
    pub fn in_environment(self: &Arc<Self>, env: Env, servers: ModelServers) -> Arc<Self> {
        if env.directory() == self.env.directory() {
            return Arc::clone(self);
        }
        for key in keys_in(&servers, |name| env.var(name)) {
            self.redact_key(&key);
        }
        Arc::new(Self {
            env,
            servers: Arc::new(servers),
            dotenv: Mutex::default(),
            state: Arc::clone(&self.state),
            authorizers: Arc::clone(&self.authorizers),
            asking: Arc::clone(&self.asking),
        })
    }

    /// Returns the function that a model calls before each request to get the endpoint and key.
    pub fn connect(self: &Arc<Self>, provider: Provider) -> Connect {
        let credentials = Arc::clone(self);
        Arc::new(move || credentials.endpoint_of_model(provider, ""))
    }

    /// Returns the function that a model calls before each request, for the model of this id. In a cloud, the id decides
    /// where the model is asked.
    pub fn connect_model(self: &Arc<Self>, provider: Provider, id: &str) -> Connect {
        let (credentials, id) = (Arc::clone(self), id.to_owned());
        Arc::new(move || credentials.endpoint_of_model(provider, &id))
    }

    /// Returns the servers of models that the settings describe.
    pub fn servers(&self) -> &ModelServers {
        &self.servers
    }

    /// Returns the address of the page where people get a provider's keys. For a server without a known page, returns the
    /// server's own address.
    pub fn keys_made_at(&self, provider: Provider) -> String {
        let server = self.servers.get(provider).and_then(|server| server.url.as_ref());
        let ProviderVariables { get_a_key, url: usual, .. } = provider_variables(provider);
        match (*get_a_key, server) {
            ("", Some(url)) => url.shown_address(),
            ("", None) => (*usual).to_owned(),
            (page, _) => page.to_owned(),
        }
    }

    /// Returns the endpoint and key of a provider. The error tells the user what to do.
    pub fn endpoint(&self, provider: Provider) -> Result<Endpoint, String> {
        self.endpoint_of_model(provider, "").map_err(|error| error.to_string())
    }

    /// Returns the endpoint and key for one model of a provider. The error tells the user what to do. Only a missing key
    /// is [`Error::NotAuthenticated`], for which front ends offer a login.
    pub fn endpoint_of_model(&self, provider: Provider, id: &str) -> Result<Endpoint, Error> {
        self.resolve_for(provider, id).map(|found| found.endpoint).map_err(|unusable| {
            let kind = match unusable {
                UnusableEndpoint::NoKey => Error::NotAuthenticated,
                UnusableEndpoint::Wrong(_) => Error::Rejected,
            };
            kind(self.explain(provider, unusable))
        })
    }

    /// Returns `true` if requests go to the provider itself, and neither to a gateway nor to another server.
    pub fn is_own(&self, provider: Provider) -> bool {
        let dotenv = self.dotenv(provider);
        let (_, login) = self.resolve(provider, "", &dotenv);
        endpoint::is_own(self.source(provider, "", self.vars(&dotenv, login.as_deref())))
    }

    /// Returns `true` if requests go to the provider's usual server, also where a variable names that server.
    pub fn has_usual_server(&self, provider: Provider) -> bool {
        let dotenv = self.dotenv(provider);
        let (_, login) = self.resolve(provider, "", &dotenv);
        let source = self.source(provider, "", self.vars(&dotenv, login.as_deref()));
        endpoint::key_scope(source).is_ok_and(|scope| scope.origin.is_none())
    }

    /// Returns the provider that is used if the user asks for none: the first provider that is set up.
    pub fn first_set_up(&self) -> Option<Provider> {
        let order = [Provider::Gemini, Provider::Anthropic, Provider::OpenAi];
        let mut order = order.into_iter().chain(Provider::LOCAL_PROGRAMS);
        order.find(|provider| self.is_set_up(*provider))
    }

    /// Returns `true` if a provider does not lack a key, because a key or the address of another server is set up.
    /// A program on this machine needs no key, so its address must be set.
    pub fn is_set_up(&self, provider: Provider) -> bool {
        if provider.is_local() { !self.is_own(provider) } else { !self.lacks_key(provider) }
    }

    /// Returns `true` if a provider needs a key and there is none.
    fn lacks_key(&self, provider: Provider) -> bool {
        matches!(self.resolve_endpoint(provider), Err(UnusableEndpoint::NoKey))
    }

    /// Returns `true` if a provider lacks a key, and the variables of the login shell were not taken yet.
    pub fn needs_login_variables(&self, provider: Provider) -> bool {
        self.state.lock().login.is_none() && self.lacks_key(provider)
    }

    /// Takes the variables of the user's login shell. They count only for a provider that has no key otherwise.
    pub fn take_login_variables(&self, variables: HashMap<String, String>) {
        for key in keys_in(&self.servers, |name| variables.get(name).map(String::as_str)) {
            self.redact_key(&key);
        }
        self.state.lock().login = Some(Arc::new(variables));
    }

    /// Forgets the `.env` file that was read for a provider, so that the next lookup reads the files again.
    pub fn refresh(&self, provider: Provider) {
        self.dotenv.lock().remove(&provider);
    }

    /// Returns `true` if an environment variable must not reach a program that the agent starts: its value is a known
    /// key or contains one, or its name is that of a variable for keys or headers. Reads no file.
    pub fn is_secret(&self, name: &str, value: &str) -> bool {
        is_secret(&self.servers, &self.state, name, value)
    }

    /// Replaces each known key in a text with `[key]`. Reads no file.
    pub fn redact(&self, text: &mut String) {
        let state = self.state.lock();
        redact(text, &state.keys.iter().map(Secret::expose).collect::<Vec<_>>());
    }

    /// Returns the names of the environment variables that must not reach a program that the agent starts.
    pub fn secret_variables(&self) -> Vec<String> {
        let vars = self.env.vars().iter().filter(|(name, value)| self.is_secret(name, value));
        vars.map(|(name, _)| name.clone()).collect()
    }

    /// Returns a key that the user has typed, with the server that it is for: the one that requests to the provider go
    /// to now.
    pub fn typed_key(&self, provider: Provider, key: Secret) -> Result<TypedKey, String> {
        let dotenv = self.dotenv(provider);
        endpoint::typed_key(self.source(provider, "", self.vars(&dotenv, None)), key)
    }

    /// Stores a key, in place of the key that was stored before for the same server. Returns the path of the file.
    pub fn store(&self, typed: &TypedKey) -> Result<PathBuf, String> {
        let path = self.key_file()?;
        self.redact_key(&typed.key);
        key_file::write(&path, &typed.scope, &typed.key)?;
        Ok(path)
    }

    /// Makes this process use a key for its server from now on, even if another key is set up, because the user has
    /// just typed this key.
    pub(super) fn give(&self, typed: TypedKey) {
        self.state.lock().given.insert(typed.scope, typed.key);
    }

    /// Removes a provider's typed and stored keys. Returns the path of the file if the file had a key.
    pub fn forget(&self, provider: Provider) -> Result<Option<PathBuf>, String> {
        self.state.lock().given.retain(|scope, _| scope.provider != provider);
        let path = self.key_file()?;
        Ok(key_file::remove(&path, provider)?.then_some(path))
    }

    /// Returns the environment in which keys are looked up.
    pub fn env(&self) -> &Env {
        &self.env
    }

    /// Returns the path of the file with the stored keys.
    pub(super) fn key_file(&self) -> Result<PathBuf, String> {
        let dir = self.env.config_dir().ok_or("There is no home directory: set HOME.")?;
        Ok(dir.join("credentials.json"))
    }

    /// Finds the endpoint and key that this process uses for a provider now: with the typed key if there is one.
    pub(super) fn resolve_endpoint(
        &self,
        provider: Provider,
    ) -> Result<ResolvedEndpoint, UnusableEndpoint> {
        self.resolve_for(provider, "")
    }

    fn resolve_for(
        &self,
        provider: Provider,
        id: &str,
    ) -> Result<ResolvedEndpoint, UnusableEndpoint> {
        let dotenv = self.dotenv(provider);
        let source = self.source(provider, id, self.vars(&dotenv, None));
        let scope = endpoint::key_scope(source).ok().filter(|_| !endpoint::needs_no_key(source));
        let given = scope.and_then(|scope| self.state.lock().given.get(&scope).cloned());
        match given {
            Some(key) => Ok(ResolvedEndpoint {
                endpoint: endpoint::typed_key(source, key)?.endpoint,
                variable: None,
            }),
            None => self.set_up_for(provider, id),
        }
    }

    /// Finds the endpoint and key without typed keys, as another process would.
    pub(super) fn set_up(&self, provider: Provider) -> Result<ResolvedEndpoint, UnusableEndpoint> {
        self.set_up_for(provider, "")
    }

    fn set_up_for(
        &self,
        provider: Provider,
        id: &str,
    ) -> Result<ResolvedEndpoint, UnusableEndpoint> {
        let dotenv = self.dotenv(provider);
        let (found, _) = self.resolve(provider, id, &dotenv);
        if let Ok(ResolvedEndpoint { endpoint: Endpoint { key: Some(key), .. }, variable }) = &found
        {
            // Other programs use a shared variable and keep it. A stored key is tandem's alone.
            if variable.is_none() || !provider_variables(provider).shared {
                self.redact_key(key);
            }
        }
        // A usable endpoint fixes the `.env` until `refresh`. Otherwise the next lookup reads it again, since the user
        // may add a key meanwhile.
        let mut kept = self.dotenv.lock();
        match &found {
            Ok(_) => kept.insert(provider, dotenv),
            Err(_) => kept.remove(&provider),
        };
        found
    }

    /// Finds the endpoint and key of a provider: first in the environment, the `.env` and the file of stored keys,
    /// then, if no key is there, in the variables of the login shell. Returns these variables too if they were used.
    fn resolve(
        &self,
        provider: Provider,
        id: &str,
        dotenv: &DotEnv,
    ) -> (Result<ResolvedEndpoint, UnusableEndpoint>, Option<LoginVariables>) {
        let source = self.source(provider, id, self.vars(dotenv, None));
        let found = endpoint::find(source, |scope| self.stored_key(scope));
        if !matches!(found, Err(UnusableEndpoint::NoKey)) {
            return (found, None);
        }
        let login = self.state.lock().login.clone();
        match &login {
            Some(variables) => {
                let vars = self.vars(dotenv, Some(variables));
                let source = self.source(provider, id, vars);
                (endpoint::find(source, |scope| self.stored_key(scope)), login)
            }
            None => (found, None),
        }
    }

    /// Returns the facts from which a provider's endpoint is made. If a variable sets the address, the entry of the
    /// settings is left out: its key and its headers are for the address in it.
    fn source<'a>(&'a self, provider: Provider, id: &'a str, vars: Vars<'a>) -> EndpointSource<'a> {
        let mut server = self.servers.get(provider);
        if server.is_some()
            && let Some(var) = endpoint::address_variable(provider, vars)
        {
            self.remark(&[format!(
                "`{MODEL_SERVERS}.{provider}` is not followed, because {var} says where requests go."
            )]);
            server = None;
        }
        EndpointSource { provider, model: id, vars, server, authorizers: &self.authorizers }
    }

    fn vars<'a>(
        &'a self,
        dotenv: &'a DotEnv,
        login: Option<&'a HashMap<String, String>>,
    ) -> Vars<'a> {
        Vars { env: &self.env, dotenv, login }
    }

    /// Returns sentences that say why a provider cannot be called, and what the user can do.
    pub(super) fn explain(&self, provider: Provider, unusable: UnusableEndpoint) -> String {
        if let UnusableEndpoint::Wrong(why) = unusable {
            return why;
        }
        let dotenv = self.dotenv(provider);
        let source = self.source(provider, "", self.vars(&dotenv, None));
        let file = self.env.gemini_dir().map(|dir| dir.join(".env").display().to_string());
        let named = source.server.and_then(|server| server.key_variable.as_deref());
        match provider {
            Provider::Bedrock if named.is_none() => return endpoint::NO_REGION.to_owned(),
            Provider::Vertex if named.is_none() => return endpoint::NO_PROJECT.to_owned(),
            _ => {}
        }
        let ProviderVariables { keys, tokens, .. } = provider_variables(provider);
        let usual = keys.iter().find(|name| !tokens.contains(name));
        let (title, login) = (provider.title(), login(provider));
        let made_at = self.keys_made_at(provider);
        let mut text = match named.or(usual.copied()) {
            Some(name) => format!(
                "There is no {title} API key. Set {name} in the environment, or run `{login}` in a terminal, or \
                 put a line {name}=… into {}. You get a key at {made_at}.",
                file.as_deref().unwrap_or("~/.gemini/.env"),
            ),
            // The entry of a server may name no variable.
            None => format!(
                "There is no {title} API key. Run `{login}` in a terminal, or name a variable in `keyVariable`. You get \
                 a key at {made_at}."
            ),
        };
        if provider == Provider::Gemini {
            text.push_str(
                " A key of Anthropic (ANTHROPIC_API_KEY) or OpenAI (OPENAI_API_KEY) works as well; a model of \
                 Ollama needs no key (`--model ollama:MODEL`).",
            );
        }
        if provider == Provider::Azure {
            text.push_str(" A token of Microsoft Entra (AZURE_OPENAI_AD_TOKEN) does as well.");
            if endpoint::is_own(source) {
                text.push_str(&format!(
                    " There is no address either: set {AZURE_ENDPOINT} to the endpoint of your resource, such as \
                     https://RESOURCE.openai.azure.com."
                ));
            }
        }
        if let Some(why) = self.why_not_sent(source) {
            text.extend([" ", &why]);
        }
        if let Some(file) = &dotenv.file {
            text.extend([
                " (",
                &file.display().to_string(),
                " was read, and has no key for this that counts.)",
            ]);
        }
        for remark in &dotenv.remarks {
            text.extend([" ", remark]);
        }
        text
    }

    fn dotenv(&self, provider: Provider) -> Arc<DotEnv> {
        let kept = self.dotenv.lock().get(&provider).cloned();
        let dotenv = kept.unwrap_or_else(|| Arc::new(DotEnv::read(&self.env)));
        self.remark(&dotenv.remarks);
        dotenv
    }

    /// Returns the stored key for a server. If the server of the stored key is not known, the user is asked for the key of
    /// a server that the settings name.
    fn stored_key(&self, scope: &KeyScope) -> Result<Option<Secret>, UnusableEndpoint> {
        let Ok(path) = self.key_file() else {
            return Ok(None);
        };
        let StoredKey { key, others, remark } = key_file::read(&path, scope)?;
        self.remark(remark.as_slice());
        if let Some(others) = others {
            self.remark(&[others.why_not_sent(scope)]);
        }
        match others {
            Some(OtherKeys::UnknownServer) => Err(UnusableEndpoint::NoKey),
            _ => Ok(key),
        }
    }

    /// Returns a sentence that says why stored keys of the provider are not sent to its server, if there are any.
    fn why_not_sent(&self, source: EndpointSource<'_>) -> Option<String> {
        let scope = endpoint::key_scope(source).ok()?;
        let stored = key_file::read(&self.key_file().ok()?, &scope).ok()?;
        Some(stored.others?.why_not_sent(&scope))
    }

    /// Adds a key to the known keys: from now on the key is redacted in texts, and hidden from programs that the
    /// agent starts.
    pub fn redact_key(&self, key: &Secret) {
        let keys = &mut self.state.lock().keys;
        if !keys.contains(key) {
            keys.push(key.clone());
        }
    }

    /// Logs the remarks that were not logged before.
    fn remark(&self, remarks: &[String]) {
        let told = &mut self.state.lock().remarks;
        for remark in remarks {
            if !told.contains(remark) {
                tracing::warn!("{remark}");
                told.push(remark.clone());
            }
        }
    }
}

/// Returns `true` if an environment variable must not reach a started program.
fn is_secret(
    servers: &ModelServers,
    state: &Mutex<CredentialState>,
    name: &str,
    value: &str,
) -> bool {
    let has = |key: &Secret| value.trim() == key.expose() || has_secret(value, key.expose());
    let named = |vars: &ProviderVariables| {
        !vars.shared && vars.keys.contains(&name) || vars.headers_variable == Some(name)
    };
    servers.key_variables().any(|it| it == name)
        || Provider::ALL.map(provider_variables).into_iter().any(named)
        || state.lock().keys.iter().any(has)
}

/// Returns the keys of all providers in the variables that `variable` looks up, without keys that other programs use,
/// too.
fn keys_in<'a>(servers: &ModelServers, variable: impl Fn(&str) -> Option<&'a str>) -> Vec<Secret> {
    let built_in = Provider::ALL.map(provider_variables).into_iter().filter(|api| !api.shared);
    let built_in = built_in.flat_map(|api| api.keys.iter().copied());
    let keys = built_in.chain(servers.key_variables());
    keys.filter_map(|name| endpoint::clean_key(variable(name)?).ok()).collect()
}

/// Returns the command that stores a provider's key.
pub(super) fn login(provider: Provider) -> String {
    match provider {
        Provider::Gemini => "tandem login".to_owned(),
        _ => format!("tandem login --provider {provider}"),
    }
}
