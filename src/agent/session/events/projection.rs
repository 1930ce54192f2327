//! Projection of a log: its events folded into the state that people are shown, which is turns, calls with their
//! status, open questions, todos, tokens, and the session's activity.
//!
//! Every front end is built on this module. [`Projection::apply`] takes the entries of a log in order, and returns for
//! each the [`Update`] that a front end translates into its protocol or onto its screen. The meaning of events is
//! decided in this module alone: the status of a call, the text that a retry voids, the calls that never began, the
//! explanation of a turn's end, and the label of an origin.

mod activity;
mod explain;
#[cfg(test)]
mod tests;
mod turn;
mod update;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

pub use self::activity::Activity;
use self::activity::Voice;
pub use self::explain::{
    ANSWER_RESTARTS, TurnResult, explain_age, explain_error, explain_resumed, explain_retry,
    explain_stop, explain_unknown_outcome, origin_label, prompt_text,
};
pub use self::turn::{CallRecord, CallStatus, TurnRecord};
pub use self::update::{CallStep, LastAnswer, Update, UpdateKind};
use super::event::{CallStarted, Event, ToolOutcome, TurnId};
use super::log::{Entry, Millis};
use tandem_host::{ResultContent, Todo, TodoStatus};
use tandem_model::{Retry, Usage};

/// Note in place of an event that this version does not know.
const NEWER: &str = "An event is not shown: another version of tandem wrote it.";

/// A pure fold over the entries of a log.
///
/// By default, a projection holds the turns and calls that have not ended, so that its memory does not grow with the
/// session. A [complete](Self::complete) projection holds every turn, every call and the texts of the answers, and can
/// return the update of any earlier entry again.
#[derive(Debug, Default)]
pub struct Projection {
    /// `true` if turns and calls that have ended are held, too.
    complete: bool,
    turns: BTreeMap<TurnId, TurnRecord>,
    /// Log index and turn of each start of a turn, in order; only the newest unless complete.
    starts: Vec<(usize, TurnId)>,
    /// The turn that runs, and the time of its start.
    running: Option<(TurnId, Millis)>,
    calls: HashMap<String, CallRecord>,
    /// Ids of the calls that have not ended, in the order in which they started.
    open: Vec<String>,
    /// Kind of the text that the model is writing.
    voice: Option<Voice>,
    /// `true` if the running turn's answer has text and is not complete.
    answering: bool,
    /// A request that is tried again, and the time of the next attempt.
    retry: Option<(Retry, Millis)>,
    /// Log indexes of the retries and resumptions that voided text of an answer; only the newest unless complete.
    restarts: Vec<usize>,
    todos: Vec<Todo>,
    context_tokens: Option<u64>,
    spent_tokens: u64,
    /// The turn or call that the previous entry ended, held until the next entry is applied.
    ended: Option<Ended>,
}

/// A turn or a call that has ended.
#[derive(Debug)]
enum Ended {
    Turn(TurnId),
    Call(String),
}

impl Projection {
    /// Returns a projection that holds every turn and call, for readers that look back.
    pub fn complete() -> Self {
        Self { complete: true, ..Self::default() }
    }

    /// Returns a projection for a reader that joins when these questions are already open.
    pub fn joining(questions: &[Arc<CallStarted>]) -> Self {
        let mut projection = Self::default();
        for started in questions {
            projection.start_call(None, 0, started);
        }
        projection
    }

    /// Folds in the next entry. Returns the entry's update, if people are shown anything of the entry.
    pub fn apply<'a>(&mut self, entry: &'a Entry) -> Option<Update<'a>> {
        self.forget_ended();
        self.fold(entry);
        let update = self.update(entry);
        if !self.complete {
            self.ended = ended_by(&entry.event);
        }
        update
    }

    /// Returns the update of an entry that was folded in before. Unless the projection is complete, the entry must be
    /// the last one that was folded in.
    pub fn update<'a>(&self, entry: &'a Entry) -> Option<Update<'a>> {
        let turn = match &*entry.event {
            Event::TurnQueued { turn, .. }
            | Event::TurnResumed { turn }
            | Event::CommandReplied { turn, .. }
            | Event::TurnFinished { turn, .. } => Some(*turn),
            _ => self.running_at(entry.index),
        };
        let kind = self.kind(entry)?;
        Some(Update { index: entry.index, at: entry.at, turn, kind })
    }

    fn kind<'a>(&self, entry: &'a Entry) -> Option<UpdateKind<'a>> {
        let call =
            |id: &str, step| Some(UpdateKind::Call(Arc::clone(&self.call(id)?.started), step));
        Some(match &*entry.event {
            Event::TurnQueued { origin, .. } => UpdateKind::TurnQueued(origin),
            Event::TurnStarted { .. } => UpdateKind::TurnStarted,
            Event::TurnResumed { .. } => {
                UpdateKind::TurnResumed { restarts: self.restarts_at(entry.index) }
            }
            Event::CommandStarted { name } => UpdateKind::CommandStarted(name),
            Event::Asked(_) => UpdateKind::CommandAsked,
            Event::Text(text) => UpdateKind::Text(text),
            Event::Thought(text) => UpdateKind::Thought(text),
            Event::Output(text) => UpdateKind::Output(text),
            Event::CommandReplied { text, .. } => UpdateKind::CommandReplied(text),
            Event::CommandFailed(why) => UpdateKind::CommandFailed(why),
            Event::Retry(retry) => {
                UpdateKind::Retry { retry, restarts: self.restarts_at(entry.index) }
            }
            Event::Notice(notice) => UpdateKind::Note { text: notice.into(), compressed: None },
            Event::Compressed(short) => {
                UpdateKind::Note { text: short.to_string().into(), compressed: Some(short) }
            }
            Event::AnswerFinished { usage, .. } => UpdateKind::AnswerFinished(usage),
            Event::CallStarted(started) => {
                // A reader that joined when the question was open was given the call by `joining`, so the call's start
                // is no update for this reader.
                self.call(&started.call.id).filter(|call| call.index == Some(entry.index))?;
                UpdateKind::Call(Arc::clone(started), CallStep::Started)
            }
            Event::CallProgress { call: id, output } => {
                return call(id, CallStep::Progress(output));
            }
            Event::QuestionClosed { call: id, answer } => {
                let answer = answer.as_ref().map(|(answer, by)| (answer, by));
                return call(id, CallStep::QuestionClosed(answer));
            }
            Event::CallFinished { call: id, outcome } => {
                return call(id, CallStep::Finished(outcome));
            }
            Event::TurnFinished { reason, .. } => UpdateKind::TurnFinished(reason),
            Event::Forgotten => UpdateKind::Forgotten,
            Event::Rewound { turn } => UpdateKind::Rewound(*turn),
            Event::SessionRenamed { title, .. } => UpdateKind::SessionRenamed(title),
            Event::ModelChanged { model } => UpdateKind::ModelChanged(model),
            Event::ThinkingChanged { level } => UpdateKind::ThinkingChanged(level.as_deref()),
            Event::ModeChanged { mode, .. } => UpdateKind::ModeChanged(*mode),
            Event::Unknown(_) => UpdateKind::Note { text: NEWER.into(), compressed: None },
            // These events are for the model, for `/undo` or for a restart of the session. People are told by the
            // call or the command that the event belongs to.
            Event::Told { .. }
            | Event::ToolsLimited { .. }
            | Event::WorkspaceSaved(_)
            | Event::ToldNext(_)
            | Event::Masked(_)
            | Event::SessionStarted(_)
            | Event::SystemPrompt(_)
            | Event::InstructionsTold(_)
            | Event::MessageCompleted
            | Event::AlwaysAllowed { .. }
            | Event::AlwaysRemoved { .. }
            | Event::Task(_)
            | Event::FileChanged { .. }
            | Event::FileRestored { .. } => return None,
        })
    }

    /// Returns the turns that are held, oldest first: all turns if the projection is complete, else the turns that have
    /// not ended.
    pub fn turns(&self) -> impl DoubleEndedIterator<Item = &TurnRecord> {
        self.turns.values()
    }

    /// Returns the turn of this number.
    pub fn turn(&self, turn: TurnId) -> Option<&TurnRecord> {
        self.turns.get(&turn)
    }

    /// Returns the turns that wait, oldest first.
    pub fn queued(&self) -> impl DoubleEndedIterator<Item = &TurnRecord> {
        self.turns.values().filter(|turn| turn.started.is_none() && turn.ended.is_none())
    }

    /// Returns the turn that runs, and the time of its start.
    pub fn running(&self) -> Option<(TurnId, Millis)> {
        self.running
    }

    /// Returns the turn that ran at a log index, or the turn that ran last before that index.
    pub fn running_at(&self, index: usize) -> Option<TurnId> {
        let after = self.starts.partition_point(|(start, _)| *start <= index);
        self.starts.get(after.checked_sub(1)?).map(|(_, turn)| *turn)
    }

    /// Returns the turn that runs now or ran last; before any turn has run, the first in the queue.
    pub fn latest(&self) -> Option<&TurnRecord> {
        let ran = self.starts.last().and_then(|(_, turn)| self.turn(*turn));
        ran.or_else(|| self.turns.values().next())
    }

    /// Returns the call of this id, if it has begun.
    pub fn call(&self, id: &str) -> Option<&CallRecord> {
        self.calls.get(id)
    }

    /// Returns the calls that have not ended, in the order in which they started.
    pub fn open_calls(&self) -> impl DoubleEndedIterator<Item = &CallRecord> {
        self.open.iter().filter_map(|id| self.calls.get(id))
    }

    /// Returns the todo list that the model wrote last. The list is empty after a turn that has completed all todos.
    pub fn todos(&self) -> &[Todo] {
        &self.todos
    }

    /// Returns the number of tokens of the conversation: the tokens of the last request to the model, or the estimate
    /// after a compression. `None` if neither has happened since the conversation began or went back.
    pub fn context_tokens(&self) -> Option<u64> {
        self.context_tokens
    }

    /// Returns the number of tokens of all requests and answers, without cached tokens.
    pub fn spent_tokens(&self) -> u64 {
        self.spent_tokens
    }

    /// Returns `true` if the retry or resumption at a log index voided text of an answer that had been shown.
    fn restarts_at(&self, index: usize) -> bool {
        self.restarts.binary_search(&index).is_ok()
    }

    /// Returns the session's activity now.
    pub fn activity(&self) -> Activity<'_> {
        let Some((turn, since)) = self.running else { return Activity::Idle };
        if let Some((retry, until)) = &self.retry {
            return Activity::Retrying(retry, *until);
        }
        let asks = |call: &&CallRecord| call.status == CallStatus::AwaitingAnswer;
        if let Some(asked) = self.open_calls().find(asks) {
            return Activity::AwaitingAnswer(asked);
        }
        if let Some(call) = self.open_calls().next_back() {
            return Activity::Calling(call);
        }
        let command = self.turn(turn).and_then(|turn| turn.command.as_deref());
        match (self.voice, command) {
            (Some(Voice::Answer), _) => Activity::Answering(since),
            (Some(Voice::Thought), _) => Activity::Thinking(since),
            (None, Some(command)) => Activity::Command(command, since),
            (None, None) => Activity::AwaitingModel(since),
        }
    }

    fn fold(&mut self, entry: &Entry) {
        let (event, at) = (&*entry.event, entry.at);
        if !matches!(event, Event::Retry(_) | Event::TurnQueued { .. }) {
            self.retry = None;
        }
        self.voice = activity::voice_after(self.voice, event);
        match event {
            Event::TurnQueued { turn, prompt, origin, .. } => {
                let queued = TurnRecord {
                    prompt: prompt_text(prompt),
                    origin: Some(origin.clone()),
                    ..TurnRecord::new(*turn, entry)
                };
                self.turns.insert(*turn, queued);
            }
            Event::TurnStarted { turn } => self.start_turn(*turn, entry),
            Event::TurnResumed { .. } => self.void_answer(entry),
            Event::CommandStarted { name } => {
                self.change(|turn| turn.command = Some(name.clone()));
            }
            Event::Output(text) | Event::CommandFailed(text) => {
                // A command's text is an answer of its own: it neither continues the text before, nor is continued.
                self.answering = false;
                self.say(text, at);
                self.answering = false;
            }
            Event::CommandReplied { turn, text } if self.complete => {
                if let Some(turn) = self.turns.get_mut(turn) {
                    turn.answers.push(text.clone());
                }
            }
            Event::Text(text) => self.say(text, at),
            Event::Retry(retry) => self.retry(retry, entry),
            Event::AnswerFinished { usage, .. } => {
                self.answering = false;
                self.change(|turn| turn.changed_at = at);
                self.spend(usage);
                // The count is 0 if the provider has reported none, such as for an answer that was cut off. The last
                // known count stays then.
                if usage.input > 0 {
                    self.context_tokens = Some(usage.input);
                }
            }
            Event::Compressed(short) => {
                self.spend(&short.usage);
                self.context_tokens = Some(short.after);
            }
            Event::CallStarted(started) => self.start_call(Some(entry.index), at, started),
            Event::QuestionClosed { call, answer } => {
                let answer = answer.as_ref().map(|(answer, _)| answer);
                self.close_question(call, CallStatus::of_answer(answer), at);
            }
            Event::CallFinished { call, outcome } => self.finish_call(call, outcome, at),
            Event::TurnFinished { turn, .. } => self.finish_turn(*turn, entry),
            Event::Forgotten | Event::Rewound { .. } => {
                self.context_tokens = None;
                self.todos.clear();
            }
            // The other events change nothing more.
            _ => {}
        }
    }

    fn start_turn(&mut self, turn: TurnId, entry: &Entry) {
        if !self.complete {
            self.starts.clear();
        }
        self.starts.push((entry.index, turn));
        self.running = Some((turn, entry.at));
        // A reader that joined after the turn was queued has no record of it yet.
        self.turns.entry(turn).or_insert_with(|| TurnRecord::new(turn, entry));
        self.answering = false;
        self.change(|turn| {
            turn.started = Some(entry.at);
            turn.changed_at = entry.at;
        });
    }

    fn finish_turn(&mut self, turn: TurnId, entry: &Entry) {
        if self.running.take_if(|(running, _)| *running == turn).is_some() {
            self.answering = false;
            let is_open =
                |todo: &Todo| !matches!(todo.status, TodoStatus::Completed | TodoStatus::Cancelled);
            if !self.todos.iter().any(is_open) {
                self.todos.clear();
            }
        }
        if let Some(turn) = self.turns.get_mut(&turn)
            && let Event::TurnFinished { reason, .. } = &*entry.event
        {
            turn.ended = Some((entry.index, reason.clone()));
            turn.changed_at = entry.at;
            turn.questions.clear();
        }
    }

    /// Adds text to the running turn's answer, or begins its next answer.
    fn say(&mut self, text: &str, at: Millis) {
        let goes_on = std::mem::replace(&mut self.answering, true);
        let complete = self.complete;
        self.change(|turn| {
            turn.changed_at = at;
            match turn.answers.last_mut() {
                Some(answer) if goes_on => answer.push_str(text),
                _ if complete => turn.answers.push(text.to_owned()),
                _ => {}
            }
        });
    }

    /// Notes that a request is tried again, and takes back the answer's text if the retry discards it.
    fn retry(&mut self, retry: &Retry, entry: &Entry) {
        let delay = Millis::try_from(retry.delay.as_millis()).unwrap_or(0);
        self.retry = Some((retry.clone(), entry.at.saturating_add(delay)));
        if retry.discard {
            self.void_answer(entry);
        }
    }

    /// Takes back the text of an answer that is not complete.
    fn void_answer(&mut self, entry: &Entry) {
        let restarts = std::mem::take(&mut self.answering);
        if restarts {
            if !self.complete {
                self.restarts.clear();
            }
            self.restarts.push(entry.index);
        }
        self.change(|turn| {
            turn.changed_at = entry.at;
            if restarts {
                turn.answers.pop();
            }
        });
    }

    /// Adds a call that begins. Does nothing if the call is known already, because a reader that joins late may read
    /// the call's start after [`Self::joining`] was given the call.
    fn start_call(&mut self, index: Option<usize>, at: Millis, started: &Arc<CallStarted>) {
        let id = &started.call.id;
        if self.calls.contains_key(id) {
            return;
        }
        let turn = index.and_then(|index| self.running_at(index));
        let record = CallRecord::new(index, turn, at, started);
        self.calls.insert(id.clone(), record);
        self.open.push(id.clone());
        if started.question.is_some() {
            self.change(|turn| {
                turn.questions.push(id.clone());
                turn.changed_at = at;
            });
        }
    }

    fn close_question(&mut self, id: &str, status: CallStatus, at: Millis) {
        self.end_question(id, at);
        if let Some(call) = self.calls.get_mut(id) {
            call.status = status;
            call.since = at;
        }
    }

    fn finish_call(&mut self, id: &str, outcome: &ToolOutcome, at: Millis) {
        self.end_question(id, at);
        if let Some(call) = self.calls.get_mut(id) {
            call.status = CallStatus::of_outcome(outcome);
        }
        self.open.retain(|open| open != id);
        if let ToolOutcome::Done(output) = outcome
            && let Some(ResultContent::Todos(todos)) = &output.shown
        {
            self.todos.clone_from(todos);
        }
    }

    fn end_question(&mut self, id: &str, at: Millis) {
        self.change(|turn| {
            turn.questions.retain(|question| question != id);
            turn.changed_at = at;
        });
    }

    fn spend(&mut self, usage: &Usage) {
        self.spent_tokens +=
            usage.input.saturating_sub(usage.cached) + usage.output + usage.thoughts;
    }

    /// Applies a change to the turn that runs, or ran last.
    fn change(&mut self, change: impl FnOnce(&mut TurnRecord)) {
        if let Some(turn) = self.starts.last().and_then(|(_, turn)| self.turns.get_mut(turn)) {
            change(turn);
        }
    }

    /// Drops the turn or call that the previous entry ended. The update of that entry needed it until now.
    fn forget_ended(&mut self) {
        match self.ended.take() {
            Some(Ended::Turn(turn)) => _ = self.turns.remove(&turn),
            Some(Ended::Call(call)) => _ = self.calls.remove(&call),
            None => {}
        }
    }
}

/// Returns the turn or call that an event ends.
fn ended_by(event: &Event) -> Option<Ended> {
    match event {
        Event::TurnFinished { turn, .. } => Some(Ended::Turn(*turn)),
        Event::CallFinished { call, .. } => Some(Ended::Call(call.clone())),
        _ => None,
    }
}
