//! The state of a session besides its conversation, folded from its log: what a session that is
//! opened again begins with.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use super::Session;
use super::event::{Event, PromptPart, TurnId};
use super::log::{Millis, Reader};
use super::plan;
use crate::permission::{Mode, Scope};

/// Maximum number of characters that are kept of a prompt's first line.
const LONGEST_LINE: usize = 200;

/// State of a session, as the events up to now have made it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SessionState {
    /// The session's id.
    pub id: String,
    /// The id of the model that answers.
    pub model: String,
    /// The approval mode.
    pub mode: Mode,
    /// The mode that ends plan mode, if a command has begun that.
    pub before_plan: Option<Mode>,
    /// `true` if the model was last told that plan mode is on.
    pub plan_told: bool,
    /// The system instruction that the model was told last.
    pub system: Option<Arc<str>>,
    /// The scopes that were always allowed, in this order.
    pub always: Vec<Scope>,
    /// First line of the first prompt, or its beginning.
    pub title: String,
    /// First line of the last prompt, or its beginning.
    pub last_prompt: String,
    /// Number of turns that were queued.
    pub turns: u64,
    /// The turn that runs.
    pub running: Option<TurnId>,
    /// The turns that wait, in order.
    pub waiting: VecDeque<TurnId>,
    /// The ids that calls have had.
    pub calls: BTreeSet<String>,
    /// The calls that have begun, or are asked about, and have not ended.
    pub open_calls: BTreeSet<String>,
    /// Those of them whose question is open.
    pub open_questions: BTreeSet<String>,
}

impl SessionState {
    /// Folds all events that a reader has now.
    pub fn of(log: &mut Reader) -> Self {
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
            Event::SystemPrompt(system) => self.system = Some(Arc::clone(system)),
            Event::ToldNext(text) => {
                self.plan_told = plan::told(text).unwrap_or(self.plan_told);
            }
            // The model may have lost it with what came before.
            Event::Compressed(_) | Event::Forgotten => self.plan_told = false,
            Event::ModelChanged { model } => self.model.clone_from(model),
            Event::ModeChanged { mode, before_plan } => {
                (self.mode, self.before_plan) = (*mode, *before_plan);
            }
            Event::AlwaysAllowed { scope } if !self.always.contains(scope) => {
                self.always.push(scope.clone());
            }
            Event::AlwaysRemoved { scope } => self.always.retain(|always| always != scope),
            _ => self.fold_turn(event),
        }
    }

    /// Folds in an event of turns and calls.
    fn fold_turn(&mut self, event: &Event) {
        match event {
            Event::TurnQueued { turn, prompt, .. } => {
                let line = first_line(prompt);
                if self.turns == 0 {
                    self.title.clone_from(&line);
                }
                self.last_prompt = line;
                self.turns = self.turns.max(turn.0);
                self.waiting.push_back(*turn);
            }
            Event::TurnStarted { turn } => {
                self.waiting.retain(|waiting| waiting != turn);
                self.running = Some(*turn);
            }
            Event::TurnFinished { turn, .. } => {
                self.waiting.retain(|waiting| waiting != turn);
                self.running.take_if(|running| running == turn);
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
            }
            Event::QuestionClosed { call, .. } => _ = self.open_questions.remove(call),
            Event::CallFinished { call, .. } => {
                self.calls.insert(call.clone());
                self.open_calls.remove(call);
            }
            _ => {}
        }
    }
}

/// Returns the first line of a prompt, or its beginning.
fn first_line(prompt: &[PromptPart]) -> String {
    let prompt: String = prompt.iter().map(PromptPart::to_string).collect();
    prompt.lines().next().unwrap_or_default().chars().take(LONGEST_LINE).collect()
}

/// A reader of the log that keeps the state up to date.
pub(super) struct StateReader {
    log: Reader,
    state: SessionState,
    /// When something happened last in a turn.
    last_activity: Option<Millis>,
}

impl StateReader {
    pub(super) fn new(log: Reader) -> Self {
        Self { log, state: SessionState::default(), last_activity: None }
    }

    fn catch_up(&mut self) -> &SessionState {
        while let Some(entry) = self.log.try_next_run() {
            let ran = self.state.running.is_some();
            self.state.fold(&entry.event);
            let waits = matches!(*entry.event, Event::TurnQueued { .. });
            if ran || waits || self.state.running.is_some() {
                self.last_activity = Some(entry.at);
            }
        }
        &self.state
    }
}

impl Session {
    /// Looks at the state as it is now.
    pub(super) fn state<T>(&self, look: impl FnOnce(&SessionState) -> T) -> T {
        look(self.state.lock().catch_up())
    }

    /// Looks at the state as it is now; also returns when something happened last in a turn.
    pub(crate) fn state_with_activity<T>(
        &self,
        look: impl FnOnce(&SessionState) -> T,
    ) -> (T, Option<Millis>) {
        let mut state = self.state.lock();
        (look(state.catch_up()), state.last_activity)
    }

    /// Allows from now on what the user said always to allow.
    pub(super) fn allow_always(&self, scope: Scope) {
        self.log.append(Event::AlwaysAllowed { scope: scope.clone() });
        self.approvals.permissions.allow(scope);
    }

    /// Takes back what the user said always to allow.
    pub(super) fn remove_always(&self, scope: Scope) {
        self.approvals.permissions.disallow(&scope);
        self.log.append(Event::AlwaysRemoved { scope });
    }
}
