//! A2A's view of a session's log: the projection that every front end uses, and the task records that only
//! A2A needs.
//!
//! The records are one more reader of the log. Each event is applied once, however often the records are queried.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tandem_agent::session::{
    CallRecord, ClientName, Entry, Event, Millis, Mode, Origin, Projection, PromptTags, PushConfig,
    Reader, ResultContent, SavedPlace, StopReason, TaskEvent, ToolOutcome, TurnId, TurnRecord,
    TurnResult, now,
};
use tandem_wire::a2a::TaskState;
use tandem_wire::development_tool::AgentSettings;

/// Number of events that are applied before the task yields to others.
const SLICE_EVENTS: usize = 256;

/// Applies events to the records as they come, so that queries find few events that are left to apply. If a query had
/// to apply a long log at once, the query would block the runtime's thread. Never returns.
pub(super) async fn apply_new_events(records: Arc<Mutex<SessionRecords>>, mut log: Reader) {
    loop {
        log.ready().await;
        let position = {
            let mut records = records.lock();
            records.apply_some();
            records.log.position()
        };
        log.skip_to(position);
        tokio::task::yield_now().await;
    }
}

/// The turns, calls and task records of one session.
pub(super) struct SessionRecords {
    log: Reader,
    projection: Projection,
    /// Turns that are tasks of their own in 0.3 as well as in 1.0.
    own_tasks: HashSet<TurnId>,
    /// The turn after whose end the session's task was cancelled, which 0.3 allows for a task that has ended.
    canceled: Option<TurnId>,
    /// The id that a client chose for the session.
    name: Option<String>,
    /// The directory that the session works in.
    directory: PathBuf,
    /// The current approval mode.
    mode: Mode,
    /// The only tools that the session may use; `None` if all are allowed.
    tools: Option<Vec<String>>,
    /// Push configurations, by the ids of their task and of the configuration.
    push: BTreeMap<String, PushConfig>,
    /// The terminals that have sent a prompt, by name.
    terminals: HashMap<String, Terminal>,
    /// The turns that messages began, by the messages' ids.
    sent: HashMap<String, TurnId>,
    /// Places in a repository that hold the files as each turn left them.
    saved: HashMap<TurnId, SavedPlace>,
    /// Log indexes of the calls that have changed a file or the plan, by turn.
    results: HashMap<TurnId, Vec<usize>>,
}

/// The calls of one turn that have changed a file or the plan, to be read from the log.
pub(super) struct ResultCalls {
    log: Reader,
    indexes: Vec<usize>,
}

impl ResultCalls {
    pub(super) fn is_empty(&self) -> bool {
        self.indexes.is_empty()
    }

    /// Reads the changes of the calls, in the order of the calls. Blocks where old events are read from a
    /// spill file.
    pub(super) fn read(self) -> impl Iterator<Item = ResultContent> {
        let Self { mut log, indexes } = self;
        indexes.into_iter().filter_map(move |index| {
            log.skip_to(index);
            let event = log.try_next()?;
            result(&event).cloned()
        })
    }
}

/// A terminal that has attached to the session.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Terminal {
    /// Number by which people are shown the terminal.
    pub(super) number: u64,
    /// Number of prompts that were accepted from the terminal.
    pub(super) prompts: u64,
}

/// Returns `true` if the time `at` is at most `window` ago.
pub(super) fn is_within(window: Duration, at: Millis) -> bool {
    Millis::try_from(window.as_millis()).is_ok_and(|window| now().saturating_sub(at) <= window)
}

/// Returns the change of a call that counts as a result of its turn: a change of a file, or of the plan.
fn result(event: &Event) -> Option<&ResultContent> {
    let Event::CallFinished { outcome: ToolOutcome::Done(output), .. } = event else { return None };
    let is_result =
        |it: &&ResultContent| matches!(it, ResultContent::Diff(_) | ResultContent::Todos(_));
    output.shown.as_ref().filter(is_result)
}

/// Returns the state of the task of a turn.
fn state(turn: &TurnRecord) -> TaskState {
    match &turn.ended {
        Some((_, reason)) => ended_state(reason),
        None if turn.started.is_none() => TaskState::Submitted,
        None if !turn.questions.is_empty() => TaskState::InputRequired,
        None => TaskState::Working,
    }
}

/// Returns the state of a task whose turn has ended for this reason.
pub(super) fn ended_state(reason: &StopReason) -> TaskState {
    match TurnResult::from_reason(reason) {
        TurnResult::Completed => TaskState::Completed,
        TurnResult::Cancelled => TaskState::Canceled,
        TurnResult::Failed => TaskState::Failed,
    }
}

impl SessionRecords {
    pub(super) fn new(log: Reader) -> Self {
        Self {
            log,
            projection: Projection::complete(),
            own_tasks: HashSet::new(),
            canceled: None,
            name: None,
            directory: PathBuf::new(),
            mode: Mode::default(),
            tools: None,
            push: BTreeMap::new(),
            terminals: HashMap::new(),
            sent: HashMap::new(),
            saved: HashMap::new(),
            results: HashMap::new(),
        }
    }

    /// Reads a whole log that no events are added to any more.
    pub(super) async fn read(log: Reader) -> Self {
        let mut records = Self::new(log);
        loop {
            let before = records.log.position();
            records.apply_some();
            if records.log.position() == before {
                return records;
            }
            tokio::task::yield_now().await;
        }
    }

    /// Applies all events up to now.
    pub(super) fn catch_up(&mut self) -> &Self {
        while self.apply_next() {}
        self
    }

    /// Applies at most [`SLICE_EVENTS`] events.
    fn apply_some(&mut self) {
        let _ = (0..SLICE_EVENTS).all(|_| self.apply_next());
    }

    fn apply_next(&mut self) -> bool {
        let Some(entry) = self.log.try_next_run() else { return false };
        self.apply(&entry);
        true
    }

    /// Returns the projection of the log.
    pub(super) fn projection(&self) -> &Projection {
        &self.projection
    }

    /// Returns all turns, in the order they were queued.
    pub(super) fn turns(&self) -> impl DoubleEndedIterator<Item = &TurnRecord> {
        self.projection.turns()
    }

    /// Returns the turn of this number.
    pub(super) fn turn(&self, id: TurnId) -> Option<&TurnRecord> {
        self.projection.turn(id)
    }

    /// Returns the call of this id, if it has begun.
    pub(super) fn call(&self, id: &str) -> Option<&CallRecord> {
        self.projection.call(id)
    }

    /// Returns the id that a client has chosen for the session, if one has.
    pub(super) fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// Returns the current settings of the session.
    pub(super) fn settings(&self) -> AgentSettings {
        AgentSettings {
            workspace_path: self.directory.display().to_string(),
            auto_execute: self.mode == Mode::Yolo,
            allowed_tools: self.tools.clone(),
        }
    }

    /// Returns the directory that the session works in.
    pub(super) fn directory(&self) -> &Path {
        &self.directory
    }

    /// Returns the place in a repository where the files are saved as a turn left them, if they were saved.
    pub(super) fn saved_at(&self, turn: TurnId) -> Option<&SavedPlace> {
        self.saved.get(&turn)
    }

    /// Returns the calls of a turn that have changed a file or the plan.
    pub(super) fn result_calls(&self, turn: TurnId) -> ResultCalls {
        let indexes = self.results.get(&turn).cloned().unwrap_or_default();
        ResultCalls { log: self.log.restarted(), indexes }
    }

    /// Returns the state of a turn's task; without a turn, of the session's task (0.3).
    pub(super) fn state(&self, turn: Option<TurnId>) -> TaskState {
        if let Some(turn) = turn {
            return self.turn(turn).map_or(TaskState::Submitted, state);
        }
        let latest = self.projection.latest();
        // A cancellation before the first turn is recorded for turn 0.
        if self.canceled == Some(latest.map_or(TurnId(0), |turn| turn.id)) {
            return TaskState::Canceled;
        }
        latest.map_or(TaskState::Submitted, state)
    }

    /// Returns `true` if the last turn was interrupted by the end of its process.
    pub(super) fn was_interrupted(&self) -> bool {
        let ended = self.projection.latest().and_then(|turn| turn.ended.as_ref());
        ended.is_some_and(|(_, reason)| *reason == StopReason::Interrupted)
    }

    /// Returns `true` if a turn is a task of its own in 0.3, too.
    pub(super) fn is_own_task(&self, turn: TurnId) -> bool {
        self.own_tasks.contains(&turn)
    }

    /// Returns the turn after whose end the session's task was last cancelled.
    pub(super) fn canceled(&self) -> Option<TurnId> {
        self.canceled
    }

    /// Returns the push configurations, by the ids of their task and of the configuration.
    pub(super) fn push(&self) -> &BTreeMap<String, PushConfig> {
        &self.push
    }

    /// Returns the terminal of a name, if it has sent a prompt.
    pub(super) fn terminal(&self, name: &str) -> Option<Terminal> {
        self.terminals.get(name).copied()
    }

    /// Returns the turn that a message of this id began.
    pub(super) fn sent(&self, id: &str) -> Option<&TurnRecord> {
        self.turn(*self.sent.get(id)?)
    }

    /// Returns the time at which a turn ended, if it has.
    pub(super) fn ended_at(&self, turn: TurnId) -> Option<Millis> {
        let turn = self.turn(turn)?;
        turn.ended.is_some().then_some(turn.changed_at)
    }

    /// Returns `true` if the latest turn runs or waits, or ended at most `window` ago, or if there is no
    /// turn.
    pub(super) fn is_recent(&self, window: Duration) -> bool {
        let is_recent =
            |turn: &TurnRecord| self.ended_at(turn.id).is_none_or(|at| is_within(window, at));
        self.projection.latest().is_none_or(is_recent)
    }

    /// Returns the highest number of a terminal; 0 if there is none.
    pub(super) fn last_terminal(&self) -> u64 {
        self.terminals.values().map(|terminal| terminal.number).max().unwrap_or(0)
    }

    fn apply(&mut self, entry: &Entry) {
        self.projection.apply(entry);
        if result(&entry.event).is_some()
            && let Some(turn) = self.projection.running_at(entry.index)
        {
            self.results.entry(turn).or_default().push(entry.index);
        }
        match &*entry.event {
            Event::TurnQueued { turn, origin, tags, .. } => {
                self.count(origin, tags);
                if let (Origin::A2a(_), Some(id)) = (origin, &tags.key) {
                    self.sent.insert(id.clone(), *turn);
                }
                if tags.own_task {
                    self.own_tasks.insert(*turn);
                }
            }
            Event::Task(event) => self.record(event),
            Event::SessionStarted(started) => {
                (self.directory, self.mode) = (started.directory.clone(), started.mode);
            }
            Event::ModeChanged { mode, .. } => self.mode = *mode,
            Event::WorkspaceSaved(place) => {
                if let Some(turn) = self.projection.running_at(entry.index) {
                    self.saved.insert(turn, place.clone());
                }
            }
            Event::ToolsLimited { tools } => self.tools = Some(tools.clone()),
            _ => {}
        }
    }

    /// Notes the number of the prompt if it came from a terminal.
    fn count(&mut self, origin: &Origin, tags: &PromptTags) {
        let Origin::Attached(ClientName { name, number, .. }) = origin else { return };
        let terminal = self.terminals.entry(name.clone()).or_default();
        let prompt = tags.key.as_ref().and_then(|key| key.parse().ok()).unwrap_or(0);
        *terminal = Terminal { number: *number, prompts: terminal.prompts.max(prompt) };
    }

    fn record(&mut self, event: &TaskEvent) {
        match event {
            TaskEvent::ContextNamed { context } => self.name = Some(context.clone()),
            TaskEvent::Cancelled { turn } => self.canceled = Some(*turn),
            TaskEvent::PushConfigSet { key, config } => {
                self.push.insert(key.clone(), config.clone());
            }
            TaskEvent::PushConfigDeleted { key } => _ = self.push.remove(key),
            // The records do not need these events: the session's own state has the owner and the members.
            TaskEvent::Owned { .. } | TaskEvent::Shared { .. } | TaskEvent::Unshared { .. } => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;
    use futures::future::poll_fn;
    use std::pin::pin;
    use std::task::Poll;

    use super::*;
    use tandem_agent::session::Log;
    use tandem_host::scratch::Scratch;

    /// Returns a log of one turn with many chunks of text.
    fn long(chunks: usize) -> Log {
        let log = Log::new(Arc::new(Scratch::new(None)), usize::MAX);
        log.append(Event::TurnQueued {
            turn: TurnId(1),
            prompt: Vec::new(),
            origin: Origin::Editor,
            tags: PromptTags::default(),
        });
        log.append(Event::TurnStarted { turn: TurnId(1) });
        for _ in 0..chunks {
            log.append(Event::Text("x".to_owned()));
        }
        log
    }

    #[tokio::test]
    async fn a_long_log_is_applied_a_slice_at_a_time() {
        let log = long(10 * SLICE_EVENTS);
        let records = Arc::new(Mutex::new(SessionRecords::new(log.read(0))));
        let mut keeping = pin!(apply_new_events(Arc::clone(&records), log.read(0)));
        let mut before = 0;
        let mut polls = 0;
        while before < log.len() {
            // One poll applies one slice, then the task yields.
            poll_fn(|cx| Poll::Ready(keeping.poll_unpin(cx).is_pending())).await;
            let now = records.lock().log.position();
            assert!(now > before && now - before <= SLICE_EVENTS, "{before} {now}");
            (before, polls) = (now, polls + 1);
        }
        assert!(polls > 10);
        let records = records.lock();
        assert_eq!(records.turn(TurnId(1)).unwrap().answers[0].len(), 10 * SLICE_EVENTS);
    }
}
