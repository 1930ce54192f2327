//! Parts that the caller gives the screen: the conversation, facts about the terminal, and services.

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

/// Conversation, facts about the terminal, and services such as the login, which the caller gives to the screen.
pub struct TerminalSetup {
    /// Conversation that the terminal shows.
    pub session: Conversation,
    /// Working directory of the agent, in the form for people.
    pub workspace: String,
    /// Address at which other clients can join the session, and the number of their connections.
    pub a2a: Option<(String, watch::Receiver<usize>)>,
    /// File with the user's earlier prompts.
    pub history: Option<PathBuf>,
    /// Editor in which the user writes long texts.
    pub editor: ExternalEditor,
    /// `true` if colours are wanted.
    pub colour: bool,
    /// `true` if the program may call the user's attention by a bell, a notification or the window's title.
    pub notifies: bool,
    /// `true` if the terminal runs inside tmux.
    pub in_tmux: bool,
    /// Stored sessions that the user may open in place of the current session; `None` if sessions are not stored.
    pub sessions: Option<StoredSessions>,
    /// Lookup of the ways to log in; `None` if the user cannot log in from here.
    pub login: Option<LogIn>,
    /// Lookup of the providers whose keys the user may give; `None` if the provider is settled.
    pub providers: Option<KeyProviders>,
    /// Search for sessions of other agents that were not imported yet; `None` if there is no store to import into.
    pub importable: Option<BoxFuture<'static, bool>>,
    /// Function that makes a model the one that new sessions begin with; `None` if the choice is not stored.
    pub make_default: Option<MakeDefault>,
}

/// The stored sessions, and the means to open one of them.
pub struct StoredSessions {
    /// Store of the sessions.
    pub store: Arc<dyn Store>,
    /// Directory whose sessions are offered first.
    pub directory: PathBuf,
    /// Function that opens a session. The opened session is shown after this terminal has ended.
    pub open: OpenSession,
}

impl StoredSessions {
    /// Lists the stored sessions that match a query.
    pub(super) fn list(&self, query: &Query) -> Reply<Vec<Listed>> {
        let (store, query) = (Arc::clone(&self.store), query.clone());
        let list = async move { store.list(&query).await.map_err(|error| error.to_string()) };
        list.boxed()
    }

    /// Finds the sessions that have a text in their prompts or answers.
    pub(super) fn search(&self, query: &Query, text: &str) -> Reply<Vec<SearchHit>> {
        let (store, query, text) = (Arc::clone(&self.store), query.clone(), text.to_owned());
        let search = async move { search(&*store, &query, &text).await };
        search.map(|found| found.map_err(|error| error.to_string())).boxed()
    }
}

/// Function that opens the session with the given id; the error says why the session cannot be opened.
pub type OpenSession = Arc<dyn Fn(String) -> BoxFuture<'static, Result<(), String>> + Send + Sync>;

/// Reason why the terminal's screen has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TerminalEnd {
    /// The user quit.
    Quit,
    /// A signal came of the kind that a terminal sends; the number of the signal.
    Signal(i32),
    /// The user has opened another session.
    Opened,
}

/// A provider of models whose key the user may give.
#[derive(Debug, Clone)]
pub struct KeyProvider {
    /// Name of the provider, for people.
    pub title: String,
    /// Web site where the provider's keys are made.
    pub made_at: String,
    /// Id of the model that a key is used for.
    pub model: String,
}

/// Function that returns the providers whose keys the user may give.
pub type KeyProviders = Box<dyn Fn() -> Vec<KeyProvider> + Send + Sync>;

/// Function that makes the model with this id the one that new sessions begin with. Returns a note on that, or the
/// reason why the choice was not stored.
pub type MakeDefault =
    Box<dyn Fn(String) -> BoxFuture<'static, Result<String, String>> + Send + Sync>;

/// Function that returns the ways to log in for the model with this id.
pub type LogIn = Box<dyn Fn(&str) -> Login>;

/// Ways to give a provider's key. Each returns a note on the key, or the reason why there is no key.
pub struct Login {
    /// Name of the key's provider, for people.
    pub whose: String,
    /// Web site where the provider's keys are made.
    pub made_at: String,
    /// Function that checks a typed key, and starts to use it.
    pub typed: Box<dyn Fn(String) -> GotKey + Send + Sync>,
    /// Function that opens a page in the browser, which asks for the key, and reports the page's address.
    pub browser: Box<dyn Fn(Opened) -> GotKey + Send + Sync>,
}

/// Future result of a login: a note on the key, or the reason why there is no key.
pub type GotKey = BoxFuture<'static, Result<String, String>>;

/// Callback that is given the address of the login page.
pub type Opened = Box<dyn Fn(&str) + Send + Sync>;
