//! The user's setup: the environment, the `.env` file, settings, keys for models, limits.
//!
//! [`Env`] has the variables and the working directory of the process. [`Credentials`] finds keys in the variables, in
//! the one `.env` file that counts, or in the file of stored keys. [`login`], [`authenticate`], [`accept_key`] and
//! [`ask_in_browser`] get a key from the user.

mod a2a_agent;
mod browser;
mod conceal;
mod credentials;
mod dotenv;
mod dotenv_syntax;
mod endpoint;
mod env;
mod expand;
mod file;
mod folders;
mod key_file;
mod keys;
pub mod limits;
mod login;
mod login_page;
mod mcp_server;
mod mcp_tokens;
mod merge;
mod model_server;
mod models_file;
mod options;
mod origin;
mod owned_file;
mod policies;
mod provider_variables;
mod redaction;
mod sandbox_choice;
mod server_entry;
pub mod show;
mod take;
mod trust;
mod typed_key;
mod unread;
mod variables;

pub use self::a2a_agent::A2aAgent;
pub use self::credentials::Credentials;
pub use self::env::Env;
pub use self::folders::consent;
pub use self::login::{KeyInput, accept_key, login, logout};
pub use self::login_page::{ask_in_browser, authenticate};
pub use self::mcp_server::{Concealed, McpServer};
pub use self::mcp_tokens::mcp_logins;
pub use self::merge::{Override, read_settings};
pub use self::model_server::{ModelServer, ModelServers};
pub use self::models_file::store_default_model;
pub use self::options::{SandboxNetwork, Settings, ToolsSettings};
pub use self::origin::{Layer, SettingOrigin};
pub use self::policies::policy;
pub use self::provider_variables::provider_variable_names;
pub use self::sandbox_choice::SandboxChoice;
pub use self::server_entry::ServerEntry;
pub use self::trust::{Trust, TrustRules, trust};
pub use self::typed_key::Check;
