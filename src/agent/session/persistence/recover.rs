//! Recovery of a session from its stored log. Calls and questions that a killed process has left open are ended; turns
//! are ended unless they can be resumed.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use futures::StreamExt as _;
use tokio::runtime::Handle;

use super::resumption::{self, Resumption};
use super::store::{Head, Orphan, Secrets, Store, StoreError, Stored, StoredLog, WriteLease};
use crate::session::events::event::{Event, StopReason, TaskEvent, ToolOutcome};
use crate::session::events::log::{self, Log, Millis};
use crate::session::state::session_state::{CurrentState, SessionState};
use crate::session::state::turn_progress::ResumePolicy;
use tandem_approval::Mode;
use tandem_content::blocking::blocking;
use tandem_host::scratch::Scratch;
use tandem_host::stored_files::StoredFile;
use tandem_model::Model;

/// A stored session that this process has leased, and whose log has been read.
pub struct StoredSession {
    pub(super) store: Arc<dyn Store>,
    pub(super) head: Head,
    pub(super) log: Log,
    pub(super) lease: Box<dyn WriteLease>,
    pub(super) state: CurrentState,
    pub(super) directory: Option<PathBuf>,
    pub(super) secrets: Secrets,
    /// Files that the store has beside the log, if several nodes share the store.
    pub(super) files: Vec<StoredFile>,
    /// Index after the last stored event.
    pub(super) next: usize,
    /// The turns that are resumed.
    pub(super) resumption: Resumption,
    /// Notices for people about repairs of the stored log, and about parts of it that cannot be read.
    pub(super) notices: Vec<String>,
}

impl StoredSession {
    /// Acquires the write lease of a session and reads its log, of which at most `log_bytes` bytes stay in memory.
    /// Questions and calls that the last process has left open are ended; turns are ended unless `policy` lets them be
    /// resumed. A checkpoint is refused.
    pub async fn open(
        store: &Arc<dyn Store>,
        id: &str,
        log_bytes: usize,
        policy: ResumePolicy,
    ) -> Result<Self, StoreError> {
        let head = store.head(id).await?;
        if let Some(tag) = head.tag {
            return Err(StoreError::Checkpoint(tag));
        }
        let lease = store.acquire(id).await?;
        Self::read(store, head, lease, log_bytes, policy).await
    }

    /// Acquires the write lease of a session that no living process has although a turn runs or waits in it, and reads
    /// its log as [`Self::open`] does.
    pub(crate) async fn open_orphan(
        store: &Arc<dyn Store>,
        orphan: &Orphan,
        log_bytes: usize,
        policy: ResumePolicy,
    ) -> Result<Self, StoreError> {
        let head = store.head(&orphan.id).await?;
        let lease = store.acquire_orphan(orphan).await?;
        Self::read(store, head, lease, log_bytes, policy).await
    }

    /// Reads a leased session: its log, its secrets and the list of its files. Then appends the events that end what
    /// the last process has left open.
    async fn read(
        store: &Arc<dyn Store>,
        head: Head,
        lease: Box<dyn WriteLease>,
        log_bytes: usize,
        policy: ResumePolicy,
    ) -> Result<Self, StoreError> {
        let id = &*head.id;
        let directory = store.directory(id);
        let scratch = directory.clone().map_or_else(|| Scratch::new(None), Scratch::persistent);
        let log = Log::new(Arc::new(scratch), log_bytes);
        let (state, damaged) = read(&**store, id, &log).await?;
        let next = log.len();
        log.attach_store();
        let mut notices: Vec<_> = lease.repaired().map(ToOwned::to_owned).into_iter().collect();
        if let Some(first) = damaged.first() {
            notices.push(format!(
                "{} parts of this session cannot be read and are left out; the first is {first}.",
                damaged.len()
            ));
        }
        let secrets = store.secrets(id).await.unwrap_or_else(|err| {
            notices.push(format!(
                "The secrets that are stored beside the session's log cannot be read: {err}"
            ));
            Secrets::new()
        });
        let files = match store.shared() {
            // If the stored outputs cannot be listed, the session is not opened. Otherwise new outputs would get the
            // names by which the model knows old outputs.
            Some(shared) => shared.files(id).await?,
            None => Vec::new(),
        };
        let ends = state.with_state(|state| ends(state, policy));
        let resumption = resumption(&log, &state, policy).await?;
        for event in ends {
            log.append(event);
        }
        let store = Arc::clone(store);
        Ok(Self {
            store,
            head,
            log,
            lease,
            state,
            directory,
            secrets,
            files,
            next,
            resumption,
            notices,
        })
    }

    /// Returns `true` if an A2A client began the session and its process ended before any event was stored. No client
    /// was told anything of such a session, and the client's name for it is not known either, so it is deleted and
    /// begun anew.
    pub(crate) fn is_abandoned(&self) -> bool {
        // Each notice tells of a stored part that was cut off or cannot be read. The part may hold events, so a session
        // with a notice must not be deleted.
        self.head.served && self.next == 0 && self.lease.next() == 0 && self.notices.is_empty()
    }

    /// Returns the session's head.
    pub fn head(&self) -> &Head {
        &self.head
    }

    /// Returns the name that a client has given the session, if a client has given one.
    pub fn name(&self) -> Option<String> {
        let mut log = self.log.read(0);
        // The name is recorded before the first prompt: the rest of the log need not be read.
        std::iter::from_fn(|| log.try_next_entry())
            .take_while(|entry| !matches!(*entry.event, Event::TurnQueued { .. }))
            .find_map(|entry| match &*entry.event {
                Event::Task(TaskEvent::ContextNamed { context }) => Some(context.clone()),
                _ => None,
            })
    }
}

/// Reads the log of a session without leasing the session; at most `log_bytes` bytes of it stay in memory. If no
/// process has the session open, the log in memory (not the stored one) ends with the events that opening the session
/// would add.
pub async fn read_stored(
    store: &dyn Store,
    id: &str,
    log_bytes: usize,
    policy: ResumePolicy,
) -> Result<Log, StoreError> {
    let scratch = Scratch::new(None);
    let log = Log::new(Arc::new(scratch), log_bytes);
    let (state, _) = read(store, id, &log).await?;
    let ends = state.with_state(|state| ends(state, policy));
    // If another process has the session, the open turns, calls and questions go on there.
    if !ends.is_empty() && !store.is_held(id).await? {
        let last = log.read(log.len().saturating_sub(1)).try_next_entry().map_or(0, |last| last.at);
        for event in ends {
            log.restore(log.len(), last, Arc::new(event));
        }
    }
    Ok(log)
}

/// Finds orphans in a store that has no quicker way: reads the logs of all sessions that were open in a process which
/// is gone.
pub async fn find_orphans(store: &dyn Store) -> Result<Vec<Orphan>, StoreError> {
    let mut orphans = Vec::new();
    for id in store.opened().await? {
        // A session that cannot be read is skipped, so that the others are found. A session that a person began is no
        // orphan: its turns are resumed when a person opens it.
        if store.head(&id).await.is_ok_and(|head| head.served)
            && !store.is_held(&id).await.unwrap_or(true)
            && is_busy(store, &id).await.unwrap_or(false)
        {
            orphans.push(Orphan { id, epoch: 0 });
        }
    }
    Ok(orphans)
}

/// Returns `true` if a turn runs or waits at the end of a stored log.
async fn is_busy(store: &dyn Store, id: &str) -> Result<bool, StoreError> {
    let (mut pieces, mut state) = (store.read(id).await?, SessionState::default());
    while let Some(piece) = pieces.next().await {
        for stored in piece? {
            let Stored::Batch(batch) = stored else { continue };
            batch.events.iter().for_each(|(_, event)| state.fold(event));
        }
    }
    Ok(state.running.is_some() || !state.waiting.is_empty())
}

/// Reads a stored log into memory. Returns the session's state after the last event, and a description of each piece
/// that cannot be read.
async fn read(
    store: &dyn Store,
    id: &str,
    log: &Log,
) -> Result<(CurrentState, Vec<String>), StoreError> {
    let (pieces, log) = (store.read(id).await?, log.clone());
    let runtime = Handle::current();
    // The log is read on a blocking thread, because a long log would keep a thread of the runtime from all other tasks.
    let read = blocking(move || runtime.block_on(restore_log(pieces, &log)));
    read.await.map_err(io::Error::other)?
}

/// Puts the pieces of a stored log into `log`, and brings the state up to date after each piece. Returns the state, and
/// a description of each piece that cannot be read.
async fn restore_log(
    mut pieces: StoredLog,
    log: &Log,
) -> Result<(CurrentState, Vec<String>), StoreError> {
    let (state, mut damaged) = (CurrentState::new(log.read(0)), Vec::new());
    while let Some(piece) = pieces.next().await {
        for stored in piece? {
            match stored {
                // An index has one event. The first that was read for it counts, and the second is dropped.
                Stored::Batch(batch) if batch.first < log.len() => {
                    damaged.push(format!("a second event {}", batch.first));
                }
                Stored::Batch(batch) => {
                    for (n, (at, event)) in batch.events.into_iter().enumerate() {
                        log.restore(batch.first + n, at, event);
                    }
                }
                Stored::Damaged(why) => damaged.push(why),
            }
        }
        // Reads the piece while it is in memory: later it may have been moved to the spill file.
        state.with_state(|_| ());
        log.spill_finished().await;
    }
    Ok((state, damaged))
}

/// Finds the turns of a session that are resumed. If there are any, the whole log is read on a blocking thread.
async fn resumption(
    log: &Log,
    state: &CurrentState,
    policy: ResumePolicy,
) -> Result<Resumption, StoreError> {
    let Some(state) =
        state.with_state(|state| resumption::goes_on(state, policy).then(|| state.clone()))
    else {
        return Ok(Resumption::default());
    };
    let log = log.clone();
    let find = blocking(move || resumption::find(&log, &state));
    Ok(find.await.map_err(io::Error::other)?)
}

/// Returns the events that end all open questions and calls, and all open turns unless they are resumed. Answers that
/// the user has given to questions of the model become the result of their call.
fn ends(state: &SessionState, policy: ResumePolicy) -> Vec<Event> {
    let questions = state.open_questions.iter();
    let questions =
        questions.map(|call| Event::QuestionClosed { call: call.clone(), answer: None });
    let calls = state.open_calls.iter().map(|call| {
        let answered = state.input_results.get(call).cloned();
        let outcome = answered.map_or(ToolOutcome::Interrupted, ToolOutcome::Done);
        Event::CallFinished { call: call.clone(), outcome }
    });
    let turns = state.running.iter().chain(&state.waiting);
    let turns = turns.filter(|_| !resumption::goes_on(state, policy));
    let turns =
        turns.map(|turn| Event::TurnFinished { turn: *turn, reason: StopReason::Interrupted });
    questions.chain(calls).chain(turns).collect()
}

/// Length of a pause, in milliseconds, after which the model is told that files may have changed meanwhile.
const LONG_PAUSE_MS: Millis = 60 * 60 * 1000;

/// Text for the model after a pause that is longer than [`LONG_PAUSE_MS`].
pub(crate) const AFTER_PAUSE: &str = "The conversation goes on after a pause of more than an hour: files and \
                           processes may have changed since.";

/// Returns the events with which a session goes on in this process, with this `model` and `mode`. Plan mode returns to
/// the mode of the settings when it ends.
pub(crate) fn resume(
    state: &SessionState,
    last_activity: Option<Millis>,
    model: &dyn Model,
    mode: Mode,
    settings_mode: Mode,
) -> Vec<Event> {
    let mut events = Vec::new();
    if state.model != model.id() {
        events.push(Event::ModelChanged { model: model.id().to_owned() });
    }
    if state.thinking.as_ref().is_some_and(|level| model.thinking().find(level).is_none()) {
        events.push(Event::ThinkingChanged { level: None });
    }
    if state.mode != mode || state.before_plan.is_some() {
        let before_plan = state.before_plan.filter(|_| mode == Mode::Plan).map(|_| settings_mode);
        events.push(Event::ModeChanged { mode, before_plan });
    }
    // The user of the earlier process answered "always allow". The user of this process may be another person, and is
    // asked again.
    let removed = state.always.iter().map(|scope| Event::AlwaysRemoved { scope: scope.clone() });
    events.extend(removed);
    if !state.always.is_empty() {
        let count = state.always.len();
        let answers = if count == 1 { "1 answer" } else { &format!("{count} answers") };
        events.push(Event::Notice(format!(
            "tandem has cleared {answers} (\"always allow\") of last time: you will be asked again."
        )));
    }
    if last_activity.is_some_and(|last| log::now() - last > LONG_PAUSE_MS) {
        events.push(Event::ToldNext(AFTER_PAUSE.to_owned()));
    }
    events
}
