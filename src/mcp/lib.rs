//! Servers of the Model Context Protocol: programs and web services whose tools the model can call.
//!
//! A [`Hub`] holds those of one session. A task a server (`server`) reaches it (`connect`), asks what
//! it offers (`offer`) and starts it again when it has ended; nobody else waits for that but for a
//! bounded time. What is offered becomes tools (`tool`) under names that no other tool has (`name`),
//! with schemas that models' APIs take (`schema`). Nothing that a server says is trusted: not its
//! size, its names, its texts or its silence.

mod auth;
mod config;
mod connect;
mod connection;
mod http;
mod lines;
mod listener;
mod login;
mod name;
mod offer;
mod prompt;
mod resources;
mod result;
mod schema;
mod server;
mod tool;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use futures::future::join_all;
use tokio::sync::watch;
use tokio_util::task::AbortOnDropHandle;

pub use self::auth::{Logins, OAuth, TokenStore};
pub use self::config::{Limits, Reach, ServerConfig};
use self::http::Network;
use self::login::Begun;
use self::name::Names;
pub use self::offer::{Offer, PromptArgument, ServerPrompt, ServerResource, ServerTool};
pub use self::prompt::{NamedPrompt, Said};
pub use self::resources::READ_RESOURCE;
use self::server::{Phase, Server};
use self::tool::McpTool;
use parking_lot::Mutex;
use tandem_net::Lookup;
use tandem_tools::Tool;
use tandem_tools::terminals::Terminals;

/// The servers of one session.
pub struct Hub {
    world: Arc<World>,
    /// Reads again what the settings name.
    load: Load,
    /// By name.
    servers: Mutex<BTreeMap<String, Kept>>,
    /// The logins that users have begun last, by the servers' names.
    logins: Mutex<BTreeMap<String, Arc<Begun>>>,
}

/// What servers are reached with.
pub struct Setup {
    /// Starts programs.
    pub terminals: Arc<Terminals>,
    /// The directories of the workspace.
    pub roots: Vec<PathBuf>,
    /// How much is too much.
    pub limits: Limits,
    /// Reads again which servers the settings name. May block.
    pub load: Load,
    /// What logging in to servers needs.
    pub logins: Logins,
    /// Finds the addresses of the servers that peers have named.
    pub lookup: Lookup,
}

/// The servers that the settings name.
pub type Load = Arc<dyn Fn() -> Vec<ServerConfig> + Send + Sync>;

/// What all servers of a session share.
struct World {
    terminals: Arc<Terminals>,
    /// The directories of the workspace.
    roots: Vec<PathBuf>,
    limits: Limits,
    logins: Logins,
    lookup: Lookup,
    /// Another number whenever what is offered is another.
    version: watch::Sender<u64>,
    tell: Mutex<Tell>,
}

/// How it stands with a server.
#[derive(Debug, Clone)]
pub struct Status {
    /// Its name.
    pub name: String,
    /// Who named it, for people.
    pub from: String,
    /// Its command line or address.
    pub place: String,
    /// What it is for, if somebody has said so.
    pub description: Option<String>,
    /// How far it is, for people.
    pub phase: String,
    /// The same as clients of A2A know it.
    pub status: &'static str,
    /// What it offers; the names that models call its tools by, in the order of the tools.
    pub offer: Arc<Offer>,
    /// See above.
    pub tool_names: Vec<String>,
}

/// Tells people something.
type Tell = Option<Box<dyn Fn(String) + Send + Sync>>;

/// A server, and the task that keeps it ready.
struct Kept {
    server: Arc<Server>,
    keeping: Option<AbortOnDropHandle<()>>,
    /// The settings name it.
    in_settings: bool,
    /// The user has agreed to it, should that be needed.
    agreed: bool,
}

impl World {
    fn tell(&self, what: String) {
        tracing::info!("{what}");
        if let Some(tell) = &*self.tell.lock() {
            tell(what);
        }
    }

    /// Returns how requests to a server travel.
    fn network(&self, config: &ServerConfig) -> Network {
        Network { confined: config.confined, lookup: Arc::clone(&self.lookup) }
    }

    fn changed(&self) {
        self.version.send_modify(|version| *version += 1);
    }
}

impl Kept {
    fn new(config: ServerConfig, in_settings: bool, world: &Arc<World>) -> Self {
        let server = Server::new(config, false, world);
        Self { server, keeping: None, in_settings, agreed: false }
    }

    /// The same as if it had just been named.
    fn anew(&self, world: &Arc<World>) -> Self {
        self.agreed(self.agreed, world)
    }

    /// The same, now that the user has agreed to it, or no longer does.
    fn agreed(&self, agreed: bool, world: &Arc<World>) -> Self {
        let server = Server::new(self.server.config.clone(), agreed, world);
        Self { server, keeping: None, in_settings: self.in_settings, agreed }
    }

    fn name(&self) -> String {
        self.server.config.name.clone()
    }

    /// Begins to reach it, if nothing is against that.
    fn start(&mut self) {
        let idle = matches!(self.server.state().phase, Phase::Idle);
        if idle && self.keeping.is_none() {
            self.server.begins();
            let keeping = Arc::clone(&self.server).keep();
            self.keeping = Some(AbortOnDropHandle::new(tokio::spawn(keeping)));
        }
    }
}

impl Hub {
    /// The servers that the settings name. Reaches none of them yet.
    pub fn new(servers: Vec<ServerConfig>, setup: Setup) -> Arc<Self> {
        let Setup { terminals, roots, limits, load, logins, lookup } = setup;
        let (version, tell) = (watch::Sender::default(), Mutex::default());
        let world = Arc::new(World { terminals, roots, limits, logins, lookup, version, tell });
        let kept = |config: ServerConfig| (config.name.clone(), Kept::new(config, true, &world));
        let servers = servers.into_iter().map(kept).collect();
        let logins = Mutex::default();
        Arc::new(Self { world, load, servers: Mutex::new(servers), logins })
    }

    /// From now on, people are told by `tell` what they should know of servers.
    pub fn on_news(&self, tell: impl Fn(String) + Send + Sync + 'static) {
        *self.world.tell.lock() = Some(Box::new(tell));
    }

    /// Begins to reach all servers that have not been wanted yet, and waits for none.
    pub fn start(&self) {
        self.servers.lock().values_mut().for_each(Kept::start);
    }

    /// Whether there is a server that may not be reached yet.
    pub fn holds(&self) -> bool {
        let held = |kept: &Kept| matches!(kept.server.state().phase, Phase::Held(_));
        self.servers.lock().values().any(held)
    }

    /// Whether there is a server that nobody has wanted yet.
    pub fn idles(&self) -> bool {
        let idle = |kept: &Kept| matches!(kept.server.state().phase, Phase::Idle);
        self.servers.lock().values().any(idle)
    }

    /// Reaches the servers, too, that could not be reached until the user agreed.
    pub fn release(&self) {
        for kept in self.servers.lock().values_mut() {
            if matches!(kept.server.state().phase, Phase::Held(_)) {
                *kept = kept.agreed(true, &self.world);
                kept.start();
            }
        }
    }

    /// Ends those again: the user does not agree any more.
    pub fn withdraw(&self) {
        for kept in self.servers.lock().values_mut().filter(|kept| kept.agreed) {
            *kept = kept.agreed(false, &self.world);
        }
        self.world.changed();
    }

    /// Takes over these servers, and begins to reach them. One that is known by that name already is
    /// replaced, unless it is the same.
    pub fn add(&self, servers: Vec<ServerConfig>) {
        let mut known = self.servers.lock();
        for config in servers {
            if known.get(&config.name).is_some_and(|kept| kept.server.config == config) {
                continue;
            }
            let mut kept = Kept::new(config, false, &self.world);
            kept.start();
            known.insert(kept.server.config.name.clone(), kept);
        }
        self.world.changed();
    }

    /// The servers that a prompt should wait for, by name.
    pub fn pending(&self) -> Vec<String> {
        let now = tokio::time::Instant::now();
        let pending = |kept: &Kept| match kept.server.state().phase {
            Phase::Connecting(until) => until > now,
            _ => false,
        };
        let servers = self.servers.lock();
        servers.values().filter(|kept| pending(kept)).map(Kept::name).collect()
    }

    /// The servers that are still getting ready and are not waited for any more, by name.
    pub fn late(&self) -> Vec<String> {
        let connecting = |kept: &&Kept| matches!(kept.server.state().phase, Phase::Connecting(_));
        self.servers.lock().values().filter(connecting).map(Kept::name).collect()
    }

    /// Waits until each server is ready, or will not be soon.
    pub async fn settled(&self) {
        let servers = self.all();
        join_all(servers.iter().map(|server| server.settled())).await;
    }

    /// Waits a moment for servers that have just said that they offer something else.
    pub async fn fresh(&self) {
        let servers = self.all();
        join_all(servers.iter().map(|server| server.fresh())).await;
    }

    fn all(&self) -> Vec<Arc<Server>> {
        self.servers.lock().values().map(|kept| Arc::clone(&kept.server)).collect()
    }

    /// Another number whenever [`Hub::tools`] may be others.
    pub fn version(&self) -> u64 {
        *self.world.version.borrow()
    }

    /// What the model may call, the servers in the order of their names.
    pub fn tools(self: &Arc<Self>) -> Vec<Arc<dyn Tool>> {
        let mut names = Names::default();
        let mut tools = self.resource_tools();
        for kept in self.servers.lock().values() {
            let server = &kept.server;
            for tool in &server.state().offer.tools {
                let name = names.tool(&server.config.name, &tool.name);
                let (server, tool) = (Arc::clone(server), tool.clone());
                tools.push(Arc::new(McpTool { name, server, tool }));
            }
        }
        tools
    }

    /// The servers' own texts on how to use them, by the servers' names.
    pub fn instructions(&self) -> BTreeMap<String, String> {
        let servers = self.servers.lock();
        let texts = servers.values().map(|kept| {
            let server = &kept.server;
            (server.config.name.clone(), server.state().offer.instructions.clone())
        });
        texts.filter(|(_, text)| !text.is_empty()).collect()
    }

    /// How it stands with each server, in the order of their names.
    pub fn status(&self) -> Vec<Status> {
        let mut names = Names::default();
        let servers = self.servers.lock();
        let status = |kept: &Kept| {
            let config = &kept.server.config;
            let state = kept.server.state();
            let tools = state.offer.tools.iter();
            Status {
                name: config.name.clone(),
                from: config.from.clone(),
                place: config.place(),
                description: config.description.clone(),
                phase: state.phase.to_string(),
                status: state.phase.status(),
                tool_names: tools.map(|tool| names.tool(&config.name, &tool.name)).collect(),
                offer: state.offer,
            }
        };
        servers.values().map(status).collect()
    }

    /// Why there is no tool of this name, if it looks like one of a server that is known.
    pub fn missing(&self, tool: &str) -> Option<String> {
        let servers = self.servers.lock();
        let its = servers.values().filter(|kept| tool.starts_with(&name::of_server(&kept.name())));
        let kept = its.max_by_key(|kept| kept.name().len())?;
        Some(format!("{}; what it offers now is all there is.", kept.server.stands_so()))
    }

    /// Reaches one server anew, or all, as the settings name them now. May block; within a runtime.
    pub fn reload(&self, only: Option<&str>) -> Result<(), String> {
        let named = (self.load)();
        let mut servers = self.servers.lock();
        if let Some(name) = only
            && !servers.contains_key(name)
            && !named.iter().any(|config| config.name == name)
        {
            return Err(unknown(name, &servers));
        }
        let is_it = |name: &str| only.is_none_or(|only| only == name);
        let gone = |name: &String, kept: &mut Kept| {
            kept.in_settings && is_it(name) && !named.iter().any(|config| config.name == *name)
        };
        servers.extract_if(.., gone).for_each(drop);
        for config in named.iter().filter(|config| is_it(&config.name)) {
            let brought = servers.get(&config.name).is_some_and(|kept| !kept.in_settings);
            if !brought {
                let kept = Kept::new(config.clone(), true, &self.world);
                servers.insert(config.name.clone(), kept);
            }
        }
        for (name, kept) in servers.iter_mut().filter(|(name, _)| is_it(name)) {
            if kept.keeping.is_some() {
                tracing::debug!(name, "is reached anew");
                *kept = kept.anew(&self.world);
            }
            kept.start();
        }
        drop(servers);
        self.world.changed();
        Ok(())
    }

    /// Lets a server be used again, or no longer.
    pub fn enable(&self, name: &str, enabled: bool) -> Result<(), String> {
        let mut servers = self.servers.lock();
        let Some(kept) = servers.get_mut(name) else { return Err(unknown(name, &servers)) };
        let disabled = matches!(kept.server.state().phase, Phase::Disabled);
        if disabled == enabled {
            *kept = kept.anew(&self.world);
            if enabled {
                kept.start();
            } else {
                kept.server.disable();
            }
        }
        drop(servers);
        self.world.changed();
        Ok(())
    }

    /// Reaches a server anew.
    fn renew(&self, name: &str) {
        if let Some(kept) = self.servers.lock().get_mut(name) {
            *kept = kept.anew(&self.world);
            kept.start();
        }
        self.world.changed();
    }

    fn find(&self, name: &str) -> Result<Arc<Server>, String> {
        let servers = self.servers.lock();
        let found = servers.get(name).map(|kept| Arc::clone(&kept.server));
        found.ok_or_else(|| unknown(name, &servers))
    }

    /// Ends all connections. Nothing is reached any more.
    pub fn close(&self) {
        for kept in self.servers.lock().values_mut() {
            kept.keeping = None;
            kept.server.disable();
        }
    }
}

fn unknown(name: &str, servers: &BTreeMap<String, Kept>) -> String {
    let names: Vec<_> = servers.keys().map(|name| format!("`{name}`")).collect();
    if names.is_empty() {
        return format!("There is no MCP server `{name}`: there are none.");
    }
    format!("There is no MCP server `{name}`. There are: {}.", names.join(", "))
}
