//! The parts of a session, which its operations share: the log and the state that is folded from it, the model, the
//! tools, the approvals. The operations are in the modules above this one, and take the engine, or only some of its
//! parts.

use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::session::calls::approvals::Approvals;
use crate::session::calls::servers::Servers;
use crate::session::calls::toolbox::Toolbox;
use crate::session::context::compress::background::Compression;
use crate::session::context::conversation::MessageHistory;
use crate::session::context::instructions::Instructions;
use crate::session::context::transcript::Transcript;
use crate::session::events::event::{Event, Origin};
use crate::session::events::log::{FenceReason, Log};
use crate::session::events::saved_workspace::SavedWorkspace;
use crate::session::persistence::store::{Store, StoreError};
use crate::session::persistence::store_health::StoreHealth;
use crate::session::state::active_model::ActiveModel;
use crate::session::state::modes::Modes;
use crate::session::state::open_calls::OpenCalls;
use crate::session::state::session_state::{CurrentState, SessionState, title_of};
use crate::session::state::spending::Spending;
use parking_lot::Mutex;
use tandem_a2a_client::Agents;
use tandem_host::Host;
use tandem_model::{self as model, ThinkingLevels, tokens};

/// Bounds on the growth of a conversation, and on the wait for its store.
#[derive(Debug, Clone)]
pub struct Upkeep {
    /// Share of the model's window, from 0 to 1, at which the conversation is compressed.
    pub compress_at: f64,
    /// `true` if a model that repeats itself is told to stop, and is stopped if it does not.
    pub detect_loops: bool,
    /// Bytes of the log that stay in memory; older events are in a file.
    pub log_bytes: usize,
    /// Time for which a session of A2A clients waits for a store that refuses, before the session ends.
    pub store_patience: Duration,
    /// Health of the store, where the session notes if the store has refused or taken events.
    pub store_health: StoreHealth,
}

impl Default for Upkeep {
    fn default() -> Self {
        Self {
            compress_at: 0.5,
            detect_loops: true,
            log_bytes: 16 << 20,
            store_patience: Duration::from_mins(2),
            store_health: StoreHealth::default(),
        }
    }
}

/// Message where a stored session is asked for, and sessions are not stored.
pub const NOT_STORED: &str = "sessions are not stored, because `TANDEM_SESSIONS` is empty or there is no home directory: \
    set `TANDEM_SESSIONS` to a directory, and start tandem again";

/// Message of a session whose store refuses at the moment.
const NOT_SAVED: &str =
    "this conversation is not being saved; free space on its disk, and try again";

/// Message of a session without a prompt.
const NOTHING_SAID: &str = "nothing has been said yet";

/// Name of the level of thinking that a model has without a choice.
pub const DEFAULT_THINKING: &str = "default";

/// The parts of a session that its operations share.
pub(crate) struct Engine {
    pub(super) id: String,
    /// Store of this session's log and of other sessions; `None` if sessions are not stored.
    pub(super) store: Option<Arc<dyn Store>>,
    /// All events: the only state of the conversation that is persistent.
    pub(super) log: Log,
    /// State of the session without the conversation, folded from the log.
    pub(super) state: CurrentState,
    /// The conversation as the model is told it, folded from the log.
    pub(crate) transcript: Arc<Mutex<Transcript>>,
    pub(crate) model: ActiveModel,
    pub(super) spending: Mutex<Spending>,
    pub(crate) instructions: Arc<Instructions>,
    pub(crate) tools: Toolbox,
    pub(crate) servers: Servers,
    pub(crate) agents: Arc<Agents>,
    pub(crate) host: Arc<Host>,
    /// The directory that the session works in, if it is made for the session and saved elsewhere.
    pub(super) workspace: Option<Arc<dyn SavedWorkspace>>,
    pub(crate) approvals: Approvals,
    pub(crate) modes: Modes,
    /// `true` if a person can be asked.
    pub(crate) is_attended: bool,
    pub(super) calls: OpenCalls,
    pub(super) compression: Compression,
    pub(super) upkeep: Upkeep,
    pub(super) max_rounds: usize,
    pub(super) max_session_rounds: Option<usize>,
}

/// The turn that an operation is part of.
#[derive(Clone, Copy)]
pub(super) struct CurrentTurn<'a> {
    /// The front end that the turn's prompt came from.
    pub(super) origin: &'a Origin,
    /// Token that fires when the turn is to end.
    pub(super) cancel: &'a CancellationToken,
}

impl Engine {
    /// Returns the store of sessions. The error is a text for people: there is no store.
    pub(crate) fn store(&self) -> Result<&Arc<dyn Store>, String> {
        self.store.as_ref().ok_or_else(|| NOT_STORED.to_owned())
    }

    /// Waits until all events up to now are stored, and returns the store. The error says, for people, why they are not
    /// stored.
    pub(crate) async fn wait_stored(&self) -> Result<&Arc<dyn Store>, String> {
        let store = self.store()?;
        let persisted = self.log.wait_persisted(self.log.len().saturating_sub(1)).await;
        match self.log.awaits_store() {
            true => Ok(store),
            false if !persisted => {
                Err(self.fence_error().unwrap_or(StoreError::TakenOver).to_string())
            }
            false if self.state.with_state(|state| state.turns) == 0 => {
                Err(NOTHING_SAID.to_owned())
            }
            false => Err(NOT_SAVED.to_owned()),
        }
    }

    /// Waits until a turn that has just started may act. If a client has sent the first message of a session to several
    /// nodes, one node stores the message, and no other node may ask the model. Returns `false` if the turn never may
    /// act here.
    pub(super) async fn may_begin(&self) -> bool {
        // A session that was begun at a terminal or in an editor is on no other node, so there is nothing to wait for.
        if !self.state.with_state(|state| state.served) {
            return true;
        }
        self.log.wait_persisted(self.log.len().saturating_sub(1)).await
    }

    /// Returns the reason why no further event of the session is stored; `None` if there is no such reason.
    pub(super) fn fence_error(&self) -> Option<StoreError> {
        self.log.fence_reason().map(|reason| match reason {
            FenceReason::TakenOver => StoreError::TakenOver,
            FenceReason::Refused(why) => StoreError::Refused(why.clone()),
        })
    }

    /// Calls `look` with the conversation as the model is told it now. Completes the last message if it is still
    /// open, and logs the completion, so that a later reader of the log finds the same messages.
    pub(super) fn conversation<T>(&self, look: impl FnOnce(&MessageHistory) -> T) -> T {
        let mut transcript = self.transcript.lock();
        if transcript.is_message_open() {
            self.log.append(Event::MessageCompleted);
        }
        look(transcript.conversation())
    }

    /// Makes another model answer from the next request on, and returns the model's id. If the model cannot be opened,
    /// the model before stays.
    pub(crate) async fn set_model(&self, id: &str) -> Result<String, String> {
        let (id, model) = self.model.open(id).await?;
        let offered = model.thinking();
        self.model.set(model);
        self.compression.reset();
        self.log.append(Event::ModelChanged { model: id.clone() });
        if self.thinking().is_some_and(|level| offered.find(&level).is_none()) {
            self.log.append(Event::ThinkingChanged { level: None });
        }
        Ok(id)
    }

    /// Has the server choose its model if only the server is named, and tells people which model answers.
    pub(super) async fn choose_server_model(&self) -> Result<(), model::Error> {
        let Some(found) = self.model.get().server_model().await? else { return Ok(()) };
        let id = self.set_model(&found.id).await.map_err(model::Error::Rejected)?;
        if found.is_first {
            self.log.append(Event::Notice(format!(
                "No model is named, so `{id}` answers, the first model of the server at {}. `/model` changes the \
                 model.",
                found.address
            )));
        }
        Ok(())
    }

    /// Returns the level of thinking that was chosen, if one was.
    pub(crate) fn thinking(&self) -> Option<String> {
        self.state.with_state(|state| state.thinking.clone())
    }

    /// Sets the level of thinking from the next request on; `None` is the level without a choice. The error lists the
    /// levels.
    pub(crate) fn set_thinking(&self, wanted: Option<&str>) -> Result<(), String> {
        let model = self.model.get();
        let offered = model.thinking();
        let level = match wanted {
            None => None,
            Some(wanted) => match offered.find(wanted) {
                Some(level) => Some(level.to_owned()),
                None => return Err(no_level(wanted, model.id(), &offered)),
            },
        };
        if self.thinking() != level {
            self.log.append(Event::ThinkingChanged { level });
        }
        Ok(())
    }

    /// Returns the cost of all requests so far in US dollars, if the price of each is known.
    pub(crate) fn cost(&self) -> Option<f64> {
        let mut spending = self.spending.lock();
        let requests = self.state.requests(spending.counted);
        spending.add(requests, self.model.available());
        spending.sum.filter(|_| spending.counted > 0)
    }

    /// Gives the session a title that the model has made up, unless a person has given it one.
    pub(super) fn retitle(&self, title: &str) {
        let title = title_of(title);
        let is_better = |state: &SessionState| !state.is_named && state.title != title;
        if !title.is_empty() && self.state.with_state(is_better) {
            self.log.append(Event::SessionRenamed { title, by_model: true });
        }
    }

    /// Returns the estimated prompt size in tokens, without the results of calls that still run.
    pub(super) fn size(&self) -> u64 {
        let tools = || {
            let tools = self.tools.declarations(&*self.model.get());
            tools.iter().map(tokens::of_tool).sum::<u64>()
        };
        self.transcript.lock().size(tools)
    }
}

/// Returns the error for a level of thinking that the model does not offer.
fn no_level(wanted: &str, model: &str, offered: &ThinkingLevels) -> String {
    if offered.levels.is_empty() {
        return format!("How much `{model}` thinks cannot be chosen. Choose another model.");
    }
    let levels = offered.levels.join(", ");
    format!(
        "Unknown thinking level `{wanted}` for `{model}`. Known levels: {DEFAULT_THINKING}, {levels}."
    )
}
