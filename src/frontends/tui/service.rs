//! What the screen is given by whoever starts it.

use std::path::PathBuf;

use futures::future::BoxFuture;
use tokio::sync::watch;

use super::conversation::Conversation;
use super::editor::Editor;

/// What the terminal is shown, and what it works with.
pub struct Service {
    /// The conversation.
    pub session: Conversation,
    /// The working directory, as people write it.
    pub workspace: String,
    /// Where others can join, and how many have.
    pub a2a: Option<(String, watch::Receiver<usize>)>,
    /// Where earlier prompts are kept.
    pub history: Option<PathBuf>,
    /// Editor that the user edits texts with.
    pub editor: Editor,
    /// Whether colours are wanted.
    pub colour: bool,
    /// `true` if the user is called when they are wanted: by a bell, a notification, the title.
    pub notifies: bool,
    /// `true` if the terminal is one of tmux.
    pub in_tmux: bool,
    /// How the user can give a key, if that can be done here.
    pub login: Option<LogIn>,
    /// Whose key the user may give, unless it is settled whose model answers.
    pub providers: Option<KeyProviders>,
    /// Tells which models Ollama has on this machine, if it runs there.
    pub ollama: Option<Ollama>,
}

/// A provider of models whose key the user may give.
#[derive(Debug, Clone)]
pub struct KeyProvider {
    /// As people write it.
    pub title: &'static str,
    /// Site where keys are made.
    pub made_at: &'static str,
    /// The id of the model that a key is for.
    pub model: String,
}

/// Tells whose key the user may give.
pub type KeyProviders = Box<dyn Fn() -> Vec<KeyProvider> + Send + Sync>;

/// Asks Ollama for the ids of its models; there are none if it does not answer soon.
pub type Ollama = Box<dyn Fn() -> BoxFuture<'static, Vec<String>> + Send + Sync>;

/// How a key can be given for the model with this id.
pub type LogIn = Box<dyn Fn(&str) -> Login>;

/// How the user can give a key. Either way says what is worth knowing of it, or why there is none.
pub struct Login {
    /// Whose key it is: a provider, as people write it.
    pub whose: &'static str,
    /// Where such keys are made.
    pub made_at: &'static str,
    /// Checks a key that was typed, and uses it.
    pub typed: Box<dyn Fn(String) -> GotKey + Send + Sync>,
    /// Opens a page that asks for it, and tells its address.
    pub browser: Box<dyn Fn(Opened) -> GotKey + Send + Sync>,
}

/// What comes of it.
pub type GotKey = BoxFuture<'static, Result<String, String>>;

/// Is told a page's address.
pub type Opened = Box<dyn Fn(&str) + Send + Sync>;
