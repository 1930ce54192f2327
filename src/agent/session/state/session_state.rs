//! The state of a session besides its conversation, folded from its log. A session that is opened again begins with
//! this state.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use super::spending::ChargedRequest;
use super::turn_progress::TurnProgress;
use crate::session::events::event::{
    CallStarted, Event, Origin, PromptPart, StopReason, TaskEvent, TurnId, reads_as_command,
};
use crate::session::events::log::{Millis, Reader};
use crate::session::events::principal::SessionAccess;
use crate::session::events::saved_workspace::{PastTurns, SavedPlace};
use parking_lot::Mutex;
use tandem_approval::{Answer, Decision, Mode, Scope};
use tandem_host::{Access, ToolOutput, answered};

/// Maximum number of characters of a title, and of the first line of a prompt.
const LONGEST_LINE: usize = 200;

/// State of a session after the events that were folded up to now.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SessionState {
    /// The session's id.
    pub id: String,
    /// The id of the model that answers.
    pub model: String,
    /// Chosen level of thinking, if one was chosen.
    pub thinking: Option<String>,
    /// The only tools that the model and commands may use; `None` if the tools are not limited.
    pub tools: Option<Arc<[String]>>,
    /// The approval mode.
    pub mode: Mode,
    /// The mode to return to at the end of plan mode, if a command has begun plan mode.
    pub before_plan: Option<Mode>,
    /// The scopes that the user has always allowed, in the order of the answers.
    pub always: Vec<Scope>,
    /// Title that the session was given, else the first line of the first prompt that is no command, cut off if it is
    /// long.
    pub title: String,
    /// `true` if a person has given the title.
    pub is_named: bool,
    /// `true` if a client of the A2A server sent the first prompt.
    pub served: bool,
    /// The name that a client has given the session, if one has.
    pub context_name: Option<String>,
    /// The owner, and the principals with whom the session is shared.
    pub access: SessionAccess,
    /// First line of the last prompt, cut off if it is long.
    pub last_prompt: String,
    /// Number of turns that were queued.
    pub turns: u64,
    /// The turn that runs.
    pub running: Option<TurnId>,
    /// Progress of the turn that runs.
    pub(crate) progress: TurnProgress,
    /// The turns that ran before the running turn.
    pub(crate) ran_before: PastTurns,
    /// The turns that have run, including the running turn.
    ran: PastTurns,
    /// The waiting turns, in order.
    pub waiting: VecDeque<TurnId>,
    /// The ids of all calls.
    pub calls: BTreeSet<String>,
    /// The ids of the calls that the model has requested, or that have begun, and that have not ended.
    pub open_calls: BTreeSet<String>,
    /// The ids of the calls whose question is open.
    pub open_questions: BTreeSet<String>,
    /// The calls that ask the user questions of the model's, until they are answered, by their ids.
    asking: BTreeMap<String, Arc<CallStarted>>,
    /// The results of such calls that are answered and have not ended, by their ids.
    pub(crate) input_results: BTreeMap<String, ToolOutput>,
}

impl SessionState {
    /// Folds all events that a reader has now into a state.
    pub fn from_log(log: &mut Reader) -> Self {
        let mut state = Self::default();
        while let Some(entry) = log.try_next_run() {
            state.fold(&entry.event);
        }
        state
    }

    /// Folds in an event.
    pub fn fold(&mut self, event: &Event) {
        match event {
            Event::SessionStarted(started) => {
                self.id.clone_from(&started.id);
                self.model.clone_from(&started.model);
                self.mode = started.mode;
            }
            Event::SessionRenamed { title, by_model } => {
                self.title.clone_from(title);
                self.is_named |= !by_model;
            }
            Event::ModelChanged { model } => self.model.clone_from(model),
            Event::ThinkingChanged { level } => self.thinking.clone_from(level),
            Event::ToolsLimited { tools } => self.tools = Some(tools.as_slice().into()),
            Event::ModeChanged { mode, before_plan } => {
                (self.mode, self.before_plan) = (*mode, *before_plan);
            }
            Event::AlwaysAllowed { scope } if !self.always.contains(scope) => {
                self.always.push(scope.clone());
            }
            Event::AlwaysRemoved { scope } => self.always.retain(|always| always != scope),
            Event::Task(task) => self.fold_task(task),
            _ => self.fold_turn(event),
        }
    }

    /// Folds in an event of A2A tasks.
    fn fold_task(&mut self, event: &TaskEvent) {
        match event {
            TaskEvent::ContextNamed { context } => self.context_name = Some(context.clone()),
            // The first owner stays: no other principal can take over a session that has an owner.
            TaskEvent::Owned { owner } => {
                self.access.owner.get_or_insert_with(|| owner.clone());
            }
            TaskEvent::Shared { name, role } => {
                self.access.shares.insert(name.clone(), *role);
            }
            TaskEvent::Unshared { name } => _ = self.access.shares.remove(name),
            TaskEvent::Cancelled { .. }
            | TaskEvent::PushConfigSet { .. }
            | TaskEvent::PushConfigDeleted { .. } => {}
        }
    }

    /// Folds in an event of turns and calls.
    fn fold_turn(&mut self, event: &Event) {
        self.progress.fold(event);
        match event {
            Event::TurnQueued { turn, prompt, origin, .. } => {
                let line = first_line(prompt);
                if self.turns == 0 {
                    self.served = matches!(origin, Origin::A2a(_) | Origin::Attached(_));
                }
                if self.title.is_empty() {
                    self.title = prompt_title(prompt).unwrap_or_default();
                }
                self.last_prompt = line;
                self.turns = self.turns.max(turn.0);
                self.waiting.push_back(*turn);
            }
            Event::TurnStarted { turn } => {
                self.waiting.retain(|waiting| waiting != turn);
                self.running = Some(*turn);
                let ran = PastTurns { count: self.ran.count + 1, ..PastTurns::default() };
                self.ran_before = std::mem::replace(&mut self.ran, ran);
            }
            Event::TurnResumed { .. } => {
                self.ran_before = PastTurns { was_interrupted: true, ..self.ran.clone() };
                self.ran.count += 1;
            }
            Event::TurnFinished { turn, reason } => {
                self.waiting.retain(|waiting| waiting != turn);
                if self.running.take_if(|running| running == turn).is_some() {
                    self.ran.was_interrupted = *reason == StopReason::Interrupted;
                }
            }
            Event::WorkspaceSaved(SavedPlace { reference, commit }) => {
                self.ran.unchanged_at = reference.is_none().then(|| commit.clone());
            }
            Event::AnswerFinished { calls, .. } => {
                self.calls.extend(calls.iter().map(|call| call.id.clone()));
                self.open_calls.extend(calls.iter().map(|call| call.id.clone()));
            }
            Event::CallStarted(started) => {
                let id = &started.call.id;
                self.calls.insert(id.clone());
                self.open_calls.insert(id.clone());
                if started.question.is_some() {
                    self.open_questions.insert(id.clone());
                }
                if matches!(started.access, Access::UserInput { .. }) {
                    self.asking.insert(id.clone(), Arc::clone(started));
                }
            }
            Event::QuestionClosed { call, answer } => {
                self.open_questions.remove(call);
                self.fold_answer(call, answer.as_ref().map(|(answer, _)| answer));
            }
            Event::CallFinished { call, .. } => {
                self.calls.insert(call.clone());
                self.open_calls.remove(call);
                self.asking.remove(call);
                self.input_results.remove(call);
            }
            _ => {}
        }
    }

    /// Folds in the end of a question. The result of a call that asks the user is the answers, so the result is known
    /// before the call ends.
    fn fold_answer(&mut self, call: &str, answer: Option<&Answer>) {
        let Some(started) = self.asking.remove(call) else { return };
        if let Some(Decision::RunWithInput(answers)) = answer.map(Answer::decision) {
            let result = answered(started.input_questions(), answers);
            self.input_results.insert(call.to_owned(), result);
        }
    }
}

/// Returns the title that a prompt gives a session without one: its first line, unless it is a command.
pub(crate) fn prompt_title(prompt: &[PromptPart]) -> Option<String> {
    let title = (!reads_as_command(prompt)).then(|| first_line(prompt));
    title.filter(|title| !title.is_empty())
}

/// Returns the first line of a prompt, cut off if it is long.
fn first_line(prompt: &[PromptPart]) -> String {
    let prompt: String = prompt.iter().map(PromptPart::to_string).collect();
    line_of(&prompt)
}

/// Returns the first line of a text, cut off if it is long, without control characters: a terminal would obey them, and
/// a database cannot store a NUL.
fn line_of(text: &str) -> String {
    let line = text.lines().next().unwrap_or_default().chars();
    line.filter(|c| !c.is_control()).take(LONGEST_LINE).collect()
}

/// Returns the title in a text: its first line, trimmed, without control characters.
pub(crate) fn title_of(wanted: &str) -> String {
    line_of(wanted.trim()).trim_end().to_owned()
}

/// The state of a session as its log has it now. Cheap to clone: all clones share the state.
#[derive(Clone)]
pub(crate) struct CurrentState(Arc<Mutex<StateReader>>);

/// A reader of the log that keeps the state up to date.
struct StateReader {
    log: Reader,
    state: SessionState,
    /// Time of the last event of a turn.
    last_activity: Option<Millis>,
    /// The requests that are charged, in order.
    requests: Vec<ChargedRequest>,
}

impl CurrentState {
    pub(crate) fn new(log: Reader) -> Self {
        let state = SessionState::default();
        Self(Arc::new(Mutex::new(StateReader {
            log,
            state,
            last_activity: None,
            requests: Vec::new(),
        })))
    }

    /// Calls `look` with the current state.
    pub(crate) fn with_state<T>(&self, look: impl FnOnce(&SessionState) -> T) -> T {
        look(self.0.lock().catch_up())
    }

    /// Calls `look` with the current state; also returns the time of the last event of a turn.
    pub(crate) fn look_with_activity<T>(
        &self,
        look: impl FnOnce(&SessionState) -> T,
    ) -> (T, Option<Millis>) {
        let mut state = self.0.lock();
        (look(state.catch_up()), state.last_activity)
    }

    /// Returns the requests up to now that are charged, but for the first `without`.
    pub(crate) fn requests(&self, without: usize) -> Vec<ChargedRequest> {
        let mut state = self.0.lock();
        state.catch_up();
        state.requests.get(without..).unwrap_or_default().to_vec()
    }
}

impl StateReader {
    fn catch_up(&mut self) -> &SessionState {
        while let Some(entry) = self.log.try_next_run() {
            let ran = self.state.running.is_some();
            self.state.fold(&entry.event);
            self.requests.extend(ChargedRequest::from_entry(&entry, &self.state.model));
            let waits = matches!(*entry.event, Event::TurnQueued { .. });
            if ran || waits || self.state.running.is_some() {
                self.last_activity = Some(entry.at);
            }
        }
        &self.state
    }
}
