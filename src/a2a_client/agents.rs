//! The agents of one session: the interface of this crate for the rest of the program.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures::future::join_all;
use parking_lot::Mutex;

use super::agent::{Agent, CardStatus};
use super::config::{AgentConfig, AgentLimits};
use tandem_content::blocking::blocking;
use tandem_wire::a2a::ProtocolVersion;

/// Function that returns the agents which the settings name. May block.
pub type LoadAgents = Arc<dyn Fn() -> Vec<AgentConfig> + Send + Sync>;

/// The agents of one session.
pub struct Agents {
    agents: Mutex<Vec<Arc<Agent>>>,
    limits: AgentLimits,
    /// Function that reads from the settings again which agents they name.
    load: LoadAgents,
    /// Function that returns whether agents which the project's own settings name may be used.
    consent: Box<dyn Fn() -> bool + Send + Sync>,
    /// `true` once the reading of cards has begun.
    started: AtomicBool,
}

/// Status of an agent, for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentStatus {
    /// Name of the agent in the settings.
    pub name: String,
    /// Origin of the agent's configuration.
    pub from: String,
    /// Address of the agent's server.
    pub address: String,
    /// Description in the settings, or else in the card.
    pub description: String,
    /// State of the agent: ready, or the reason for which it cannot be called.
    pub phase: String,
    /// Skills of the agent's card: name and description.
    pub skills: Vec<(String, String)>,
}

/// State of an agent that needs the user's consent.
const NOT_TRUSTED: &str = "not used yet: this folder's settings name it, and you have not trusted them \
    (`/permissions trust`)";

impl Agents {
    /// Returns the agents that the settings name. Sends no request yet. Agents of the project's own settings may be
    /// reached only as long as `consent` returns `true`.
    pub fn new(
        agents: Vec<AgentConfig>,
        load: LoadAgents,
        limits: AgentLimits,
        consent: impl Fn() -> bool + Send + Sync + 'static,
    ) -> Arc<Self> {
        let agents = agents.into_iter().map(|config| Agent::new(config, limits.clone())).collect();
        let (agents, started) = (Mutex::new(agents), AtomicBool::new(false));
        Arc::new(Self { agents, limits, load, consent: Box::new(consent), started })
    }

    /// Returns the agents of a session whose settings name none.
    pub fn none() -> Arc<Self> {
        Self::new(Vec::new(), Arc::new(Vec::new), AgentLimits::default(), || false)
    }

    /// Begins to read the cards of the agents that may be reached, and does not wait for them.
    pub fn start(&self) {
        let agents = self.usable();
        if agents.is_empty() || self.started.swap(true, Ordering::Relaxed) {
            return;
        }
        for agent in agents {
            tokio::spawn(async move {
                if let Err(why) = agent.card().await {
                    tracing::info!(agent = agent.config.name, "its card was not read: {why}");
                }
            });
        }
    }

    /// Reads the settings again and replaces the agents. Their cards are read when they are needed.
    pub async fn reload(self: &Arc<Self>) -> Result<(), String> {
        let load = Arc::clone(&self.load);
        let configs = blocking(move || load()).await;
        let configs = configs.map_err(|_| {
            "the settings were not read: the log (`--log-file`) says more".to_owned()
        })?;
        let agents = configs.into_iter().map(|config| Agent::new(config, self.limits.clone()));
        *self.agents.lock() = agents.collect();
        self.started.store(false, Ordering::Relaxed);
        Ok(())
    }

    /// Returns the status of each agent, after reading the cards that have not been read.
    pub async fn status(&self) -> Vec<AgentStatus> {
        let agents: Vec<_> = self.agents.lock().clone();
        join_all(agents.into_iter().map(|agent| async move {
            if self.may_reach(&agent) {
                // The status of the agent says why its card was not read.
                drop(agent.card().await);
            }
            self.status_of(&agent)
        }))
        .await
    }

    fn status_of(&self, agent: &Agent) -> AgentStatus {
        let AgentConfig { name, from, description, .. } = agent.config.clone();
        let (card, phase) = match agent.card_status() {
            _ if !self.may_reach(agent) => (None, NOT_TRUSTED.to_owned()),
            CardStatus::Unread => (None, "not reached yet".to_owned()),
            CardStatus::Failed(why) => (None, format!("not available: {why}")),
            CardStatus::Read(card) => {
                let version = match card.version {
                    ProtocolVersion::V03 => "0.3",
                    ProtocolVersion::V1 => "1.0",
                };
                // Servers may give the card to anyone, so reading it does not show that the token is accepted.
                let phase = if agent.config.headers.is_empty() {
                    format!("ready (A2A {version})")
                } else {
                    format!(
                        "card read (A2A {version}); the first call will show if the agent accepts the token"
                    )
                };
                (Some(card), phase)
            }
        };
        let own = card.as_ref().map(|card| card.description.clone()).unwrap_or_default();
        let description = description.unwrap_or(own);
        let skills = card.map(|card| card.skills.clone()).unwrap_or_default();
        AgentStatus { name, from, address: agent.address(), description, phase, skills }
    }

    fn may_reach(&self, agent: &Agent) -> bool {
        !agent.config.needs_consent || (self.consent)()
    }

    /// Returns the agents that may be reached.
    pub(super) fn usable(&self) -> Vec<Arc<Agent>> {
        self.agents.lock().iter().filter(|agent| self.may_reach(agent)).cloned().collect()
    }

    /// Returns the agent of this name. The error tells the model why no agent of this name can be called.
    pub(super) fn find(&self, name: &str) -> Result<Arc<Agent>, String> {
        let found = self.agents.lock().iter().find(|agent| agent.config.name == name).cloned();
        match found {
            Some(agent) if self.may_reach(&agent) => Ok(agent),
            Some(_) => Err(format!("The agent `{name}` is {NOT_TRUSTED}.")),
            None => {
                let known: Vec<_> = self.usable().iter().map(|it| it.config.name.clone()).collect();
                Err(format!("Unknown agent `{name}`. Known agents: {}.", known.join(", ")))
            }
        }
    }
}
