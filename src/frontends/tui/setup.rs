//! Everything that the screen is given by its caller.

use std::path::PathBuf;
use std::sync::Arc;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use tokio::sync::watch;

use super::conversation::Conversation;
use super::editor::ExternalEditor;
use super::news::Reply;
use tandem_agent::session::{Listed, Query, Store};
use tandem_agent::sessions::{SearchHit, search};

/// Everything that the caller gives the screen: the conversation, facts about the terminal, and services such as the
/// login.
pub struct TerminalSetup {
    /// The conversation.
    pub session: Conversation,
    /// The working directory, as people write it.
    pub workspace: String,
    /// Address at which others can join, and their number.
    pub a2a: Option<(String, watch::Receiver<usize>)>,
    /// File of earlier prompts.
    pub history: Option<PathBuf>,
    /// Editor that the user edits texts with.
    pub editor: ExternalEditor,
    /// `true` if colours are wanted.
    pub colour: bool,
    /// `true` if the user is called when they are wanted: by a bell, a notification, the title.
    pub notifies: bool,
    /// `true` if the terminal is one of tmux.
    pub in_tmux: bool,
    /// Sessions that the user may go on with instead, if they are stored.
    pub sessions: Option<StoredSessions>,
    /// Ways to log in, if that can be done here.
    pub login: Option<LogIn>,
    /// Providers whose keys the user may give, unless the provider is settled.
    pub providers: Option<KeyProviders>,
    /// Tells which models Ollama has on this machine, if it runs there.
    pub ollama: Option<Ollama>,
}

/// The stored sessions.
pub struct StoredSessions {
    /// Store of the sessions.
    pub store: Arc<dyn Store>,
    /// The directory whose sessions are offered first.
    pub directory: PathBuf,
    /// Opens the session of an id, which is shown when this terminal has ended; an error says why
    /// that cannot be.
    pub open: OpenSession,
}

impl StoredSessions {
    /// Lists sessions.
    pub(super) fn list(&self, query: &Query) -> Reply<Vec<Listed>> {
        let (store, query) = (Arc::clone(&self.store), query.clone());
        let list = async move { store.list(&query).await.map_err(|error| error.to_string()) };
        list.boxed()
    }

    /// Finds those of the sessions in whose prompts or answers a text is.
    pub(super) fn search(&self, query: &Query, text: &str) -> Reply<Vec<SearchHit>> {
        let (store, query, text) = (Arc::clone(&self.store), query.clone(), text.to_owned());
        let search = async move { search(&*store, &query, &text).await };
        search.map(|found| found.map_err(|error| error.to_string())).boxed()
    }
}

/// Opens the session of an id.
pub type OpenSession = Arc<dyn Fn(String) -> BoxFuture<'static, Result<(), String>> + Send + Sync>;

/// Reason for which a terminal has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TerminalEnd {
    /// The user quit.
    Quit,
    /// A signal came that a terminal sends; its number.
    Signal(i32),
    /// The user has opened another session.
    Opened,
}

/// A provider of models whose key the user may give.
#[derive(Debug, Clone)]
pub struct KeyProvider {
    /// Name for people.
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

/// Returns the way to log in for the model with this id.
pub type LogIn = Box<dyn Fn(&str) -> Login>;

/// Ways to give a key. Each returns a note on the key, or the reason for which there is none.
pub struct Login {
    /// Provider of the key, as people write it.
    pub whose: &'static str,
    /// Address where such keys are made.
    pub made_at: &'static str,
    /// Checks a key that was typed, and uses it.
    pub typed: Box<dyn Fn(String) -> GotKey + Send + Sync>,
    /// Opens a page that asks for it, and tells its address.
    pub browser: Box<dyn Fn(Opened) -> GotKey + Send + Sync>,
}

/// Result of a login.
pub type GotKey = BoxFuture<'static, Result<String, String>>;

/// Is told a page's address.
pub type Opened = Box<dyn Fn(&str) + Send + Sync>;
