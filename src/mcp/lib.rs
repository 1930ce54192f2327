//! Servers of the Model Context Protocol: programs and web services whose tools the model can call.
//!
//! A [`Hub`] holds the servers of one session. For each server, a task (`server`) connects to it (`connect`), reads
//! the lists of what it offers (`offer`), and starts it again when it has ended. All other code waits for a server
//! only for a bounded time. The server's tools become tools of the model (`tool`), with unique names (`name`), and
//! with schemas that models' APIs accept (`schema`). Nothing that a server sends is trusted: neither its size, its
//! names and its texts, nor that it answers at all.

mod auth;
mod config;
mod connect;
mod connection;
mod context;
mod error_text;
mod http;
mod hub;
mod lines;
mod listener;
mod login;
mod name;
mod offer;
mod prompt;
mod registry;
mod resources;
mod result;
mod schema;
mod server;
mod tool;

pub use self::auth::{Logins, OAuth, TokenStore};
pub use self::config::{McpLimits, ServerConfig, ServerReach, ServerSandbox};
pub use self::hub::{Hub, HubSetup, Load, ServerStatus};
pub use self::offer::{Offer, PromptArgument, ServerPrompt, ServerResource, ServerTool};
pub use self::prompt::{NamedPrompt, PromptText};
pub use self::resources::READ_RESOURCE;
