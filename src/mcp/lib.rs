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
