//! The MCP servers of one session: the interface of this crate for the rest of the program.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use futures::future::{BoxFuture, join_all};
use parking_lot::Mutex;
use reqwest::Url;
use rmcp::model::{ClientRequest, GetPromptRequest, GetPromptRequestParams, ServerResult};
use serde_json::Value;
use tandem_content::blocking::{blocking, try_blocking};
use tandem_host::Tool;
use tandem_host::command_sandbox::CommandSandbox;
use tandem_host::terminals::Terminals;
use tandem_net::Lookup;
use tokio::sync::watch;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::auth::Logins;
use super::config::{McpLimits, ServerConfig, ServerReach};
use super::connection::RequestOptions;
use super::context::HubContext;
use super::login::{self, Callback, PendingLogin};
use super::name::{self, ToolNames};
use super::offer::Offer;
use super::prompt::{self, NamedPrompt, PromptText};
use super::registry::{ServerEntry, ServerRegistry, unknown};
use super::resources;
use super::server::Phase;
use super::tool::{McpTool, failed};

/// The MCP servers of one session.
pub struct Hub {
    context: Arc<HubContext>,
    registry: Arc<ServerRegistry>,
    /// Last login that a user has begun for each server, by the server's name.
    logins: Mutex<BTreeMap<String, Arc<PendingLogin>>>,
}

/// Parts that a hub is built from.
pub struct HubSetup {
    /// Terminals that start the servers' programs.
    pub terminals: Arc<Terminals>,
    /// Sandbox for programs whose configuration demands a sandbox.
    pub sandbox: Option<Arc<CommandSandbox>>,
    /// The directories of the workspace.
    pub roots: Vec<PathBuf>,
    /// Limits of servers.
    pub limits: McpLimits,
    /// Function that reads the settings again and returns the servers that they name. It may block.
    pub load: Load,
    /// Interfaces that logging in needs.
    pub logins: Logins,
    /// Resolver of names for the servers that peers have named.
    pub lookup: Lookup,
}

/// Function that returns the servers that the settings name. It may block.
pub type Load = Arc<dyn Fn() -> Vec<ServerConfig> + Send + Sync>;

/// Status of a server, for people and front ends.
#[derive(Debug, Clone)]
pub struct ServerStatus {
    /// Name of the server.
    pub name: String,
    /// Origin of the server's configuration, for people.
    pub from: String,
    /// Command or address of the server, without secrets.
    pub place: String,
    /// `true` if the command runs in the sandbox.
    pub sandboxed: bool,
    /// Description, if there is one.
    pub description: Option<String>,
    /// Phase of the connection, for people.
    pub phase: String,
    /// Phase of the connection, for clients of A2A.
    pub status: &'static str,
    /// Tools, prompts and resources of the server.
    pub offer: Arc<Offer>,
    /// Names by which models call the tools, in the order of the tools.
    pub tool_names: Vec<String>,
}

impl Hub {
    /// Returns the hub of the servers that the settings name. Connects to none of them yet.
    pub fn new(servers: Vec<ServerConfig>, setup: HubSetup) -> Arc<Self> {
        let HubSetup { terminals, sandbox, roots, limits, load, logins, lookup } = setup;
        let (version, tell, agreed) =
            (watch::Sender::default(), Mutex::default(), Mutex::default());
        let context = Arc::new(HubContext {
            terminals,
            sandbox,
            complained: AtomicBool::new(false),
            roots,
            limits,
            logins,
            lookup,
            version,
            tell,
            agreed,
            load,
        });
        let entry = |config| ServerEntry::new(config, true, &context);
        let registry = Arc::new(ServerRegistry::new(servers.into_iter().map(entry)));
        Arc::new(Self { context, registry, logins: Mutex::default() })
    }

    /// Sets the function that shows news about servers to people.
    pub fn on_news(&self, tell: impl Fn(String) + Send + Sync + 'static) {
        *self.context.tell.lock() = Some(Box::new(tell));
    }

    /// Sets a check for servers that need the user's consent: such a server is connected to only if `agreed` returns
    /// `true` for its name.
    pub fn start_only_if(
        &self,
        agreed: impl Fn(String) -> BoxFuture<'static, bool> + Send + Sync + 'static,
    ) {
        *self.context.agreed.lock() = Some(Arc::new(agreed));
    }

    /// Begins to connect to all servers that are not started yet, and returns at once.
    pub fn start(&self) {
        self.registry.lock().values_mut().for_each(ServerEntry::start);
    }

    /// Returns `true` if a server waits for the user's consent.
    pub fn awaits_consent(&self) -> bool {
        let held = |entry: &ServerEntry| matches!(entry.server.state().phase, Phase::Held(_));
        self.registry.lock().values().any(held)
    }

    /// Returns `true` if a server has not been started yet.
    pub fn idles(&self) -> bool {
        let idle = |entry: &ServerEntry| matches!(entry.server.state().phase, Phase::Idle);
        self.registry.lock().values().any(idle)
    }

    /// Begins to connect to the servers that waited for the user's consent. Reads the settings again first: what the
    /// user has agreed to may not be what the settings named when they were read last.
    pub async fn release(&self) {
        if !self.awaits_consent() {
            return;
        }
        let load = Arc::clone(&self.context.load);
        // The error has been logged, and the servers go on waiting for consent.
        let Ok(named) = blocking(move || load()).await else { return };
        let mut servers = self.registry.lock();
        let is_held = |entry: &ServerEntry| matches!(entry.server.state().phase, Phase::Held(_));
        let gone = |name: &String, entry: &mut ServerEntry| {
            let is_named = named.iter().any(|config| config.name == *name);
            is_held(entry) && entry.in_settings && !is_named
        };
        servers.extract_if(.., gone).for_each(drop);
        for (name, entry) in servers.iter_mut().filter(|(_, entry)| is_held(entry)) {
            let config = named.iter().find(|config| config.name == *name);
            if let Some(config) = config.filter(|_| entry.in_settings) {
                *entry = ServerEntry::new(config.clone(), true, &self.context);
            }
            *entry = entry.agreed(true, &self.context);
            entry.start();
        }
    }

    /// Disconnects the servers that the user had agreed to, because the user has withdrawn the consent.
    pub fn withdraw(&self) {
        for entry in self.registry.lock().values_mut().filter(|entry| entry.agreed) {
            *entry = entry.agreed(false, &self.context);
        }
        self.context.changed();
    }

    /// Adds servers, and begins to connect to them. A server of the same name is replaced, unless its configuration
    /// is the same.
    pub fn add(&self, servers: Vec<ServerConfig>) {
        let mut known = self.registry.lock();
        for config in servers {
            if known.get(&config.name).is_some_and(|entry| entry.server.config == config) {
                continue;
            }
            let mut entry = ServerEntry::new(config, false, &self.context);
            entry.start();
            known.insert(entry.server.config.name.clone(), entry);
        }
        self.context.changed();
    }

    /// Returns the names of the servers that a prompt should wait for.
    pub fn pending(&self) -> Vec<String> {
        let now = tokio::time::Instant::now();
        let pending = |entry: &ServerEntry| match entry.server.state().phase {
            Phase::Connecting(until) => until > now,
            _ => false,
        };
        let servers = self.registry.lock();
        servers.values().filter(|entry| pending(entry)).map(ServerEntry::name).collect()
    }

    /// Returns the names of the servers that are still connecting. After [`Self::settled`], these are the servers
    /// that were waited for in vain.
    pub fn still_connecting(&self) -> Vec<String> {
        let connecting =
            |entry: &&ServerEntry| matches!(entry.server.state().phase, Phase::Connecting(_));
        self.registry.lock().values().filter(connecting).map(ServerEntry::name).collect()
    }

    /// Waits until each server is ready, or cannot be ready soon.
    pub async fn settled(&self) {
        let servers = self.registry.all();
        join_all(servers.iter().map(|server| server.settled())).await;
    }

    /// Waits a short time for the new lists of servers that have just announced a change.
    pub async fn wait_list_changes(&self) {
        let servers = self.registry.all();
        join_all(servers.iter().map(|server| server.wait_list_changes())).await;
    }

    /// Returns a number that changes whenever the result of [`Hub::tools`] may change.
    pub fn version(&self) -> u64 {
        *self.context.version.borrow()
    }

    /// Returns the tools of all servers, the servers in the order of their names.
    pub fn tools(self: &Arc<Self>) -> Vec<Arc<dyn Tool>> {
        let mut names = ToolNames::default();
        let mut tools = resources::tools(&self.registry);
        for entry in self.registry.lock().values() {
            let server = &entry.server;
            for tool in &server.state().offer.tools {
                let name = names.tool(&server.config.name, &tool.name);
                let (server, tool) = (Arc::clone(server), tool.clone());
                tools.push(Arc::new(McpTool { name, server, tool }));
            }
        }
        tools
    }

    /// Returns the servers' own texts on how to use them, by the servers' names.
    pub fn instructions(&self) -> BTreeMap<String, String> {
        let servers = self.registry.lock();
        let texts = servers.values().map(|entry| {
            let server = &entry.server;
            (server.config.name.clone(), server.state().offer.instructions.clone())
        });
        texts.filter(|(_, text)| !text.is_empty()).collect()
    }

    /// Returns the status of each server, in the order of their names.
    pub fn status(&self) -> Vec<ServerStatus> {
        let mut names = ToolNames::default();
        let servers = self.registry.lock();
        let status = |entry: &ServerEntry| {
            let config = &entry.server.config;
            let state = entry.server.state();
            let tools = state.offer.tools.iter();
            ServerStatus {
                name: config.name.clone(),
                from: config.from.clone(),
                place: config.address_for_people(),
                sandboxed: self.context.is_sandboxed(config),
                description: config.description.clone(),
                phase: state.phase.to_string(),
                status: state.phase.status(),
                tool_names: tools.map(|tool| names.tool(&config.name, &tool.name)).collect(),
                offer: state.offer,
            }
        };
        servers.values().map(status).collect()
    }

    /// Returns an explanation why a tool is missing, if its name has the prefix of a configured server.
    pub fn missing(&self, tool: &str) -> Option<String> {
        let servers = self.registry.lock();
        let its =
            servers.values().filter(|entry| tool.starts_with(&name::of_server(&entry.name())));
        let entry = its.max_by_key(|entry| entry.name().len())?;
        Some(format!("{}. It offers no tool of that name now.", entry.server.status_line()))
    }

    /// Reads the settings again, and reconnects to one server, or to all. May block. Must be called in a Tokio
    /// runtime.
    pub fn reload(&self, only: Option<&str>) -> Result<(), String> {
        let named = (self.context.load)();
        let mut servers = self.registry.lock();
        if let Some(name) = only
            && !servers.contains_key(name)
            && !named.iter().any(|config| config.name == name)
        {
            return Err(unknown(name, &servers));
        }
        let is_it = |name: &str| only.is_none_or(|only| only == name);
        let gone = |name: &String, entry: &mut ServerEntry| {
            entry.in_settings && is_it(name) && !named.iter().any(|config| config.name == *name)
        };
        servers.extract_if(.., gone).for_each(drop);
        for config in named.iter().filter(|config| is_it(&config.name)) {
            let brought = servers.get(&config.name).is_some_and(|entry| !entry.in_settings);
            if !brought {
                let entry = ServerEntry::new(config.clone(), true, &self.context);
                servers.insert(config.name.clone(), entry);
            }
        }
        for (name, entry) in servers.iter_mut().filter(|(name, _)| is_it(name)) {
            if entry.keeping.is_some() {
                tracing::debug!(name, "is reached anew");
                *entry = entry.restarted(&self.context);
            }
            entry.start();
        }
        drop(servers);
        self.context.changed();
        Ok(())
    }

    /// Enables or disables a server.
    pub fn enable(&self, name: &str, enabled: bool) -> Result<(), String> {
        let mut servers = self.registry.lock();
        let Some(entry) = servers.get_mut(name) else { return Err(unknown(name, &servers)) };
        let disabled = matches!(entry.server.state().phase, Phase::Disabled);
        if disabled == enabled {
            *entry = entry.restarted(&self.context);
            if enabled {
                entry.start();
            } else {
                entry.server.disable();
            }
        }
        drop(servers);
        self.context.changed();
        Ok(())
    }

    /// Disconnects a server, and begins to connect to it again.
    fn renew(&self, name: &str) {
        if let Some(entry) = self.registry.lock().get_mut(name) {
            *entry = entry.restarted(&self.context);
            entry.start();
        }
        self.context.changed();
    }

    /// Returns the prompts of all servers, the servers in the order of their names.
    pub fn prompts(&self) -> Vec<NamedPrompt> {
        let mut prompts = Vec::new();
        for server in self.registry.all() {
            prompts.extend(server.state().offer.prompts.iter().map(|prompt| NamedPrompt {
                server: server.config.name.clone(),
                prompt: prompt.clone(),
            }));
        }
        prompts
    }

    /// Asks a server for the text of a prompt with arguments.
    pub async fn prompt(
        &self,
        server: &str,
        name: &str,
        args: BTreeMap<String, String>,
    ) -> Result<PromptText, String> {
        let server = self.registry.find(server)?;
        let connection = server.connection(&CancellationToken::new()).await?;
        let mut params = GetPromptRequestParams::new(name);
        if !args.is_empty() {
            let args = args.into_iter().map(|(name, value)| (name, Value::String(value)));
            params = params.with_arguments(args.collect());
        }
        let request = ClientRequest::GetPromptRequest(GetPromptRequest::new(params));
        let answer = connection.ask(request, RequestOptions::by_nobody()).await;
        match answer.map_err(|failure| failed(&server, failure).message)? {
            ServerResult::GetPromptResult(result) => prompt::text(result),
            _ => Err(format!("The MCP server `{}` returned no prompt.", server.config.name)),
        }
    }

    /// Lets the user log in to a server, and connects to it again; returns a message with the result. `say` gets the
    /// instructions for the user. If the future is dropped, nothing waits for the browser any more, but
    /// [`Hub::finish_login`] can still finish the login.
    pub async fn login(
        &self,
        name: &str,
        say: &(dyn Fn(String) + Send + Sync),
    ) -> Result<String, String> {
        let server = self.registry.find(name)?;
        if let Phase::Held(_) | Phase::Disabled = server.state().phase {
            return Err(server.status_line() + ".");
        }
        let config = server.config.clone();
        let (begun, landing) = login::begin(&config, &self.context.network(&config)).await?;
        let begun = Arc::new(begun);
        self.logins.lock().insert(name.to_owned(), Arc::clone(&begun));
        let address = &begun.address;
        let paste = format!("`/mcp auth {name} ADDRESS`");
        let Some(landing) = landing else {
            return Ok(format!(
                "Log in to `{name}` at {address}\n\nThen run {paste} with the address of the browser's last page."
            ));
        };
        say(format!(
            "Log in to `{name}` in your browser: {address}\n\nIf that browser is on another computer, \
             its last page will not be found: cancel this, and run {paste} with that page's address.\n"
        ));
        let Logins { open, store } = &self.context.logins;
        let opening = async {
            say(open(address.to_string()).await);
            std::future::pending::<()>().await;
        };
        tokio::select! {
            came = login::wait(landing, &begun, store) => came.map_err(|why| again(name, &why))?,
            () = opening => {}
            () = sleep(self.context.limits.login) => {
                let minutes = self.context.limits.login.as_secs_f64() / 60.0;
                let why = format!("The login to `{name}` timed out after {minutes} minutes.");
                return Err(again(name, &why));
            }
        }
        self.logged_in(name).await
    }

    /// Finishes a login that has begun, with the last address in the user's browser.
    pub async fn finish_login(&self, name: &str, address: &str) -> Result<String, String> {
        self.registry.find(name)?;
        let begun = self.logins.lock().get(name).cloned();
        let begun = begun.ok_or_else(|| {
            format!("No login to `{name}` has begun: run `/mcp auth {name}` first.")
        })?;
        let not_one = "This is not the address of the last page of a login: it lacks `state`, or both `code` and \
            `error`. Copy the whole address from your browser.";
        let callback = Url::parse(address.trim()).ok().as_ref().and_then(Callback::from_address);
        let callback = callback.ok_or_else(|| not_one.to_owned())?;
        if callback.state != begun.state() {
            return Err(format!(
                "This address belongs to an earlier login to `{name}`. Run `/mcp auth {name}` to begin a new \
                 login, and use the address of its last page."
            ));
        }
        let finished = begun.finish(callback, &self.context.logins.store).await;
        finished.map_err(|why| again(name, &why))?;
        self.logged_in(name).await
    }

    /// Deletes the stored login to a server, and connects to the server without it; returns a message with the
    /// result.
    pub async fn log_out(&self, name: &str) -> Result<String, String> {
        let server = self.registry.find(name)?;
        let ServerReach::Http { url, .. } = &server.config.reach else {
            return Err(login::nobody_logs_in(name));
        };
        let (store, url) = (Arc::clone(&self.context.logins.store), url.clone());
        let was_known = try_blocking(move || {
            // A stored login that cannot be read is deleted as well.
            let was_known = store.load(&url).map_or(true, |tokens| tokens.is_some());
            store.save(&url, None).map(|()| was_known)
        });
        if !was_known.await? {
            return Ok(format!("You were not logged in to `{name}`."));
        }
        self.logins.lock().remove(name);
        self.renew(name);
        let server = self.registry.find(name)?;
        server.settled().await;
        Ok(format!("The login to `{name}` was removed. {}.", server.status_line()))
    }

    async fn logged_in(&self, name: &str) -> Result<String, String> {
        self.logins.lock().remove(name);
        self.renew(name);
        let server = self.registry.find(name)?;
        server.settled().await;
        Ok(format!("You are logged in to `{name}`. {}.", server.status_line()))
    }

    /// Returns the listed resources in the form in which a prompt mentions them: `server:uri`.
    pub fn mentionable(&self) -> Vec<String> {
        resources::mentionable(&self.registry)
    }

    /// Returns `true` if a word may name a resource: a server's name and a colon, or a URI.
    pub fn may_name_resource(&self, word: &str) -> bool {
        resources::may_name(&self.registry, word)
    }

    /// Returns the server and the URI of the resource that a word names: `server:uri`,
    /// `server://uri`, or the URI of a listed resource.
    pub fn resource(&self, word: &str) -> Option<(String, String)> {
        resources::resolve(&self.registry, word)
    }

    /// Ends all connections, and disables all servers.
    pub fn close(&self) {
        for entry in self.registry.lock().values_mut() {
            entry.keeping = None;
            entry.server.disable();
        }
    }
}

/// Returns the message for a login that failed, with the command to try again.
fn again(name: &str, why: &str) -> String {
    format!("{why} Run `/mcp auth {name}` to try again.")
}
