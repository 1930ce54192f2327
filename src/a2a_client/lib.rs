//! Other agents, called over A2A (0.3 and 1.0, JSON-RPC over HTTP; 1.0, HTTP+JSON): one tool, `call_agent`, for all
//! that the settings name.
//!
//! [`Agents`] holds those of one session. An agent's card (`card`) says how to reach it, and is read when it is
//! first needed. A call (`call_agent`) sends a message (`exchange`) over HTTP (`http`, `http_json`), and folds what
//! comes back (`update`, `remote_task`) until the agent has ended or waits. What it asks, the user is asked
//! (`confirmation`). Nothing that an agent says is trusted: not its size, its addresses, its texts or its
//! silence.

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
mod update;

pub use self::agents::{AgentStatus, Agents, LoadAgents};
pub use self::call_agent::call_agent;
pub use self::config::{AgentConfig, AgentLimits};
