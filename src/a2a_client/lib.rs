//! Client for other agents over A2A (0.3 and 1.0 as JSON-RPC over HTTP; 1.0 as HTTP+JSON): one tool, `call_agent`, for
//! all agents that the settings name.
//!
//! [`Agents`] holds the agents of one session. An agent's card (`card`) says how the agent is reached, and is read when
//! it is first needed. A call (`call_agent`) sends a message (`exchange`) over HTTP (`http`, `http_json`), and folds
//! the updates (`remote_task`) until the agent has ended or waits. The agent's questions are put to the user
//! (`confirmation`). Nothing that an agent sends is trusted: its sizes, addresses and texts are checked, and its
//! silence is limited.

mod agent;
mod agents;
mod call_agent;
mod card;
mod config;
mod confirmation;
mod content;
mod exchange;
mod http;
mod http_json;
mod outgoing;
mod progress;
mod remote_task;

pub use self::agents::{AgentStatus, Agents, LoadAgents};
pub use self::call_agent::call_agent;
pub use self::config::{AgentConfig, AgentLimits};
