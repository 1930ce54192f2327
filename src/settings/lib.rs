//! What the user has set up: the environment, `.env`, settings, the keys to call models with,
//! limits.
//!
//! [`Env`] is what the process was given, [`Credentials`] finds the keys in it, in the one `.env`
//! that counts, or in a file of its own. [`login`], [`authenticate`], [`accept_key`] and
//! [`ask_in_browser`] get one from a person.

mod browser;
mod credentials;
mod dotenv;
mod endpoint;
mod env;
mod folders;
mod key_file;
pub mod limits;
mod login;
mod login_page;
mod mcp_tokens;
mod owned_file;
mod policies;
pub mod settings;
mod trust;
mod typed_key;

use std::sync::Arc;

use futures::future::BoxFuture;

pub use self::credentials::Credentials;
pub use self::env::Env;
pub use self::folders::consent;
pub use self::login::{Input, accept_key, keys_made_at, login, logout};
pub use self::login_page::{ask_in_browser, authenticate};
pub use self::mcp_tokens::mcp_logins;
pub use self::policies::policy;
pub use self::settings::Settings;
pub use self::trust::{Trust, trust};
use tandem_model as model;
use tandem_model::endpoint::Endpoint;
use tandem_model::provider::Provider;

/// Asks a provider whether it can be called as an endpoint says.
pub type Check =
    Arc<dyn Fn(Provider, Endpoint) -> BoxFuture<'static, Result<(), model::Error>> + Send + Sync>;
