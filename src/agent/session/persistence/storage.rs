//! Storage of a session: a choice between no store and a store, the opening of the log there, and the handle
//! ([`Persistence`]) by which the session uses its store.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;

use serde_json::Value;
use tokio::sync::watch;
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;
use tracing::Instrument as _;

use super::file_uploads::{FileUploads, FilesOfSession};
use super::recover::StoredSession;
use super::resumption::Resumption;
use super::session_writer::{
    BesideLog, PersistedSession, Refusals, StoredProgress, write_new_session, write_stored_session,
};
use super::store::{BatchSummary, Head, Secrets, Store, WriteLease};
use crate::session::events::event::{Event, SessionStarted};
use crate::session::events::log::Log;
use crate::session::events::saved_workspace::GitOrigin;
use crate::session::state::session_state::{CurrentState, SessionState};
use crate::session::turns::spans;
use tandem_approval::Mode;
use tandem_host::stored_files::StoredFiles;

/// The place where a session's log is stored.
#[derive(Default)]
pub enum Storage {
    /// Nowhere: the conversation ends with the process.
    #[default]
    Nowhere,
    /// Nowhere, and the session uses this log, to which a test can add events: for tests of front ends.
    InMemory(Log),
    /// A store, in which a new session is created at its first event that is worth storing.
    New {
        /// The session's id in the store, a UUID.
        id: String,
        /// The store.
        store: Arc<dyn Store>,
    },
    /// The store that the session was read from.
    Stored(Box<StoredSession>),
}

/// A log that is opened, and the place where it will be stored.
pub(crate) struct OpenedLog {
    pub(crate) id: String,
    pub(crate) log: Log,
    pub(crate) state: CurrentState,
    /// The turns that are resumed.
    pub(crate) resumption: Resumption,
    /// The repository of which the session's directory is a clone.
    pub(crate) git: Option<GitOrigin>,
    secrets: Secrets,
    storing: StorageTarget,
}

/// The place where an opened log will be stored.
enum StorageTarget {
    Nowhere,
    New(Arc<dyn Store>, SessionStarted),
    /// A session that was read from a store. `is_served` is `true` if clients of the A2A server began the session.
    Stored {
        lease: Box<dyn WriteLease>,
        progress: StoredProgress,
        is_served: bool,
    },
}

impl Storage {
    /// Returns the store, if there is one.
    pub(crate) fn store(&self) -> Option<Arc<dyn Store>> {
        match self {
            Self::Nowhere | Self::InMemory(_) => None,
            Self::New { store, .. } => Some(Arc::clone(store)),
            Self::Stored(stored) => Some(Arc::clone(&stored.store)),
        }
    }

    /// Returns the session's id in the store, if it is stored.
    pub fn id(&self) -> Option<&str> {
        match self {
            Self::Nowhere | Self::InMemory(_) => None,
            Self::New { id, .. } => Some(id),
            Self::Stored(stored) => Some(&stored.head.id),
        }
    }

    /// Returns the repository of which the session's directory is a clone, if the session is not new.
    pub fn git(&self) -> Option<&GitOrigin> {
        match self {
            Self::Stored(stored) => stored.head.git.as_ref(),
            Self::Nowhere | Self::InMemory(_) | Self::New { .. } => None,
        }
    }

    /// Returns the directory for the session's files, if the session has a directory that outlives the process.
    pub fn directory(&self) -> Option<PathBuf> {
        match self {
            Self::Nowhere | Self::InMemory(_) => None,
            Self::New { id, store } => store.directory(id),
            Self::Stored(stored) => stored.directory.clone(),
        }
    }

    /// Returns the files that the store has beside the session's log, if several nodes share the store. The store may
    /// have at most `max_bytes` bytes of files of the session.
    pub fn files(&self, max_bytes: u64) -> Option<StoredFiles> {
        let (id, store, files) = match self {
            Self::Nowhere | Self::InMemory(_) => return None,
            Self::New { id, store } => (id, store, Vec::new()),
            Self::Stored(stored) => (&stored.head.id, &stored.store, stored.files.clone()),
        };
        store.shared()?;
        let source = FilesOfSession { store: Arc::clone(store), id: id.clone() };
        Some(StoredFiles::new(id, Box::new(source), files, max_bytes))
    }

    /// Returns the index after the last stored event, if the session is not new.
    pub fn next(&self) -> Option<usize> {
        match self {
            Self::Stored(stored) => Some(stored.next),
            Self::Nowhere | Self::InMemory(_) | Self::New { .. } => None,
        }
    }

    /// Returns the id of the model that answered last, if the session is not new.
    pub fn model(&self) -> Option<String> {
        match self {
            Self::Stored(stored) => Some(stored.state.with_state(|state| state.model.clone())),
            Self::Nowhere | Self::InMemory(_) | Self::New { .. } => None,
        }
    }

    /// Returns the approval mode to begin with. Plan mode goes on after a restart. Any other mode of the stored session
    /// gives way to `set`, the mode of the settings, because it may allow more.
    pub(crate) fn mode(&self, set: Mode) -> Mode {
        match self {
            Self::Stored(stored) if stored.state.with_state(|state| state.mode) == Mode::Plan => {
                Mode::Plan
            }
            _ => set,
        }
    }

    /// Opens the log. `new_log` makes the log of a new session, and `started` its first event for a session id.
    pub(crate) fn open(
        self,
        new_log: impl FnOnce() -> Log,
        started: impl FnOnce(String) -> SessionStarted,
    ) -> OpenedLog {
        let new_id = || uuid::Uuid::now_v7().to_string();
        let (id, log, store) = match self {
            Self::Stored(stored) => {
                let StoredSession { head, log, lease, state, secrets, resumption, notices, .. } =
                    *stored;
                let progress = state.with_state(|state| progress(state, &head));
                let storing = StorageTarget::Stored { lease, progress, is_served: head.served };
                if log.len() == 0 {
                    // The process ended after it had stored the head, and before it had stored the first event.
                    log.append(Event::SessionStarted(Arc::new(started(head.id.clone()))));
                }
                for notice in notices {
                    log.append(Event::Notice(notice));
                }
                let (id, git) = (head.id, head.git);
                return OpenedLog { id, log, state, resumption, git, secrets, storing };
            }
            Self::New { id, store } => (id, new_log(), Some(store)),
            Self::Nowhere => (new_id(), new_log(), None),
            Self::InMemory(log) => (new_id(), log, None),
        };
        let started = started(id.clone());
        log.append(Event::SessionStarted(Arc::new(started.clone())));
        let storing = match store {
            Some(store) => {
                log.attach_store_when_needed();
                StorageTarget::New(store, started)
            }
            None => StorageTarget::Nowhere,
        };
        let state = CurrentState::new(log.read(0));
        let (resumption, secrets) = Default::default();
        OpenedLog { id, log, state, resumption, git: None, secrets, storing }
    }
}

/// Returns the progress of a stored session, with this state and head.
fn progress(state: &SessionState, head: &Head) -> StoredProgress {
    let open: BTreeSet<_> = state.running.iter().chain(&state.waiting).copied().collect();
    let summary = BatchSummary {
        turns: state.turns,
        title: Some(state.title.clone()).filter(|title| *title != head.title),
        shares: state.access.shares.clone(),
        busy: !open.is_empty(),
    };
    StoredProgress { summary, open, is_untitled: state.title.is_empty() }
}

impl OpenedLog {
    /// Begins to store the log, and the files beside the log, until the session is closed or dropped. `refusals` makes
    /// the session's [`Refusals`]; it is called with `true` if clients of the A2A server began the session.
    pub(crate) fn persist(
        self,
        files: Option<FileUploads>,
        refusals: impl FnOnce(bool) -> Refusals + Send + 'static,
    ) -> Persistence {
        let (closed, tasks) = (CancellationToken::new(), TaskTracker::new());
        let handed_over = CancellationToken::new();
        let span = spans::session(&self.id);
        let beside = watch::Sender::new(BesideLog { port: None, secrets: self.secrets });
        let (changes, ends) = (beside.subscribe(), closed.clone());
        let (log, leaves) = (self.log, handed_over.clone());
        let session = PersistedSession { log, changes, files, closed: ends, handed_over: leaves };
        match self.storing {
            StorageTarget::Nowhere => {}
            StorageTarget::New(store, started) => {
                let head = move |state: &SessionState| Head {
                    id: started.id,
                    created: crate::session::events::log::now(),
                    directory: started.directory,
                    title: state.title.clone(),
                    by: started.by,
                    served: state.served,
                    owner: state.access.owner.clone(),
                    context: state.context_name.clone(),
                    from: None,
                    git: self.git,
                    tag: None,
                };
                tasks.spawn(write_new_session(store, session, head, refusals).instrument(span));
            }
            StorageTarget::Stored { lease, progress, is_served } => {
                let keeping = write_stored_session(lease, progress, session, refusals(is_served));
                tasks.spawn(keeping.instrument(span));
            }
        }
        tasks.close();
        Persistence { closed: closed.drop_guard(), handed_over, tasks, beside }
    }
}

/// Persistence of a session: the task that writes the session's log, and the data beside the log. When this is dropped,
/// the session counts as closed.
pub struct Persistence {
    closed: DropGuard,
    /// Token that fires when the session is to be released for another process in the middle of a turn.
    handed_over: CancellationToken,
    tasks: TaskTracker,
    beside: watch::Sender<BesideLog>,
}

impl Persistence {
    /// Announces a port of this machine: other processes that want to open the session can join it there.
    pub fn announce(&self, port: u16) {
        self.beside.send_modify(|beside| beside.port = Some(port));
    }

    /// Stores a secret under a name, beside the log. Events that are appended later are stored after the secret.
    /// Without a value, the secret is removed.
    pub fn set_secret(&self, name: &str, value: Option<Value>) {
        self.beside.send_modify(|beside| match value {
            Some(value) => _ = beside.secrets.insert(name.to_owned(), value),
            None => _ = beside.secrets.remove(name),
        });
    }

    /// Returns the secret of this name.
    pub fn secret(&self, name: &str) -> Option<Value> {
        self.beside.borrow().secrets.get(name).cloned()
    }

    /// Closes the session: the writer stores the rest of the log, then releases the lease. Does not wait for that.
    pub(crate) fn close(&self) {
        self.closed.token().cancel();
    }

    /// Hands the session over to another process: the writer stores all events so far, then releases the lease although
    /// a turn runs. Does not wait for that.
    pub(crate) fn hand_over(&self) {
        self.handed_over.cancel();
    }

    /// Returns `true` if the session is, or was, handed over to another process although a turn ran.
    pub fn is_handed_over(&self) -> bool {
        self.handed_over.is_cancelled()
    }

    /// Waits until a closed session is stored completely, and other processes can open the session.
    pub async fn wait_released(&self) {
        self.tasks.wait().await;
    }

    /// Returns `true` if all of a session that was closed is stored, and other processes can open it.
    pub(crate) fn has_ended(&self) -> bool {
        self.tasks.is_empty()
    }
}
