//! What has happened in a session, turn by turn: what a task's snapshot is made from.
//!
//! One more reader of the log: it folds each event in once, however often it is asked.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use parking_lot::Mutex;
use tandem_agent::session::{
    CallStarted, ClientName, Entry, Event, Millis, Origin, PromptPart, PromptTags, PushConfig,
    Reader, StopReason, TaskEvent, TurnId,
};
use tandem_wire::a2a::TaskState;

/// Number of events that are folded in before others have their turn.
const SLICE: usize = 256;

/// Folds in what happens as it happens, so that little is left for whoever looks: a long log that
/// is folded in at once holds up everybody. Runs until it is dropped.
pub(super) async fn keep_up(story: Arc<Mutex<Story>>, mut log: Reader) {
    loop {
        log.ready().await;
        let position = {
            let mut story = story.lock();
            story.fold_some();
            story.log.position()
        };
        log.skip_to(position);
        tokio::task::yield_now().await;
    }
}

/// The turns and calls of one session.
pub(super) struct Story {
    log: Reader,
    turns: Vec<Turn>,
    /// Where each turn that ran began, in order.
    runs: Vec<(usize, TurnId)>,
    calls: HashMap<String, Call>,
    /// The turn after whose end the session's task was cancelled (0.3: a task that has ended can be).
    canceled: Option<TurnId>,
    /// Who is to be notified, by task and configuration.
    push: BTreeMap<String, PushConfig>,
    /// The terminals that have said something, by their names.
    terminals: HashMap<String, Terminal>,
}

/// A terminal that has attached to the session.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Terminal {
    /// Number that people are shown.
    pub(super) number: u64,
    /// Number of prompts that were taken from it.
    pub(super) prompts: u64,
}

/// One turn.
pub(super) struct Turn {
    pub(super) id: TurnId,
    pub(super) prompt: String,
    pub(super) origin: Origin,
    /// Whether the turn is a task of its own in 0.3, too.
    pub(super) own_task: bool,
    /// Where in the log it was queued.
    pub(super) queued: usize,
    pub(super) queued_at: Millis,
    pub(super) started: bool,
    pub(super) ended: Option<StopReason>,
    /// Position in the log where the turn ended.
    pub(super) ended_at: Option<usize>,
    /// When the last of this happened.
    pub(super) at: Millis,
    /// What the model said, a text an answer.
    pub(super) said: Vec<String>,
    /// The calls that wait for an answer, oldest first.
    pub(super) asking: Vec<String>,
    /// Whether the model's answer goes on.
    speaking: bool,
}

/// One call.
#[derive(Clone)]
pub(super) struct Call {
    /// Where in the log it is announced.
    pub(super) index: usize,
    pub(super) turn: TurnId,
    announced: Arc<Event>,
}

impl Call {
    /// What was announced.
    pub(super) fn started(&self) -> Option<&CallStarted> {
        match &*self.announced {
            Event::CallStarted(started) => Some(started),
            _ => None,
        }
    }
}

impl Turn {
    pub(super) fn state(&self) -> TaskState {
        match &self.ended {
            Some(reason) => state(reason),
            None if !self.started => TaskState::Submitted,
            None if !self.asking.is_empty() => TaskState::InputRequired,
            None => TaskState::Working,
        }
    }
}

/// The state of a task whose turn has ended so.
pub(super) fn state(reason: &StopReason) -> TaskState {
    match reason {
        StopReason::EndTurn
        | StopReason::MaxTokens
        | StopReason::MaxRounds(_)
        | StopReason::MaxSessionRounds(_)
        | StopReason::Looping(_) => TaskState::Completed,
        StopReason::Cancelled { .. } | StopReason::Closed { .. } | StopReason::Unanswered(_) => {
            TaskState::Canceled
        }
        StopReason::Refused(_)
        | StopReason::Failed(_)
        | StopReason::Crashed
        | StopReason::Interrupted => TaskState::Failed,
    }
}

impl Story {
    pub(super) fn new(log: Reader) -> Self {
        Self {
            log,
            turns: Vec::new(),
            runs: Vec::new(),
            calls: HashMap::new(),
            canceled: None,
            push: BTreeMap::new(),
            terminals: HashMap::new(),
        }
    }

    /// Folds in what has happened since.
    pub(super) fn catch_up(&mut self) -> &Self {
        while self.fold_next() {}
        self
    }

    /// Folds in some of what has happened since.
    fn fold_some(&mut self) {
        let _ = (0..SLICE).all(|_| self.fold_next());
    }

    fn fold_next(&mut self) -> bool {
        let Some(entry) = self.log.try_next_run() else { return false };
        self.fold(&entry);
        true
    }

    /// All turns, in the order they were queued.
    pub(super) fn turns(&self) -> &[Turn] {
        &self.turns
    }

    pub(super) fn turn(&self, id: TurnId) -> Option<&Turn> {
        let at = usize::try_from(id.0).ok()?.checked_sub(1)?;
        self.turns.get(at)
    }

    pub(super) fn call(&self, id: &str) -> Option<&Call> {
        self.calls.get(id)
    }

    /// The turn after whose end the session's task was cancelled last.
    pub(super) fn canceled(&self) -> Option<TurnId> {
        self.canceled
    }

    /// Who is to be notified, by task and configuration.
    pub(super) fn push(&self) -> &BTreeMap<String, PushConfig> {
        &self.push
    }

    /// The terminal of a name, if it has said something.
    pub(super) fn terminal(&self, name: &str) -> Option<Terminal> {
        self.terminals.get(name).copied()
    }

    /// The highest number that a terminal has.
    pub(super) fn last_terminal(&self) -> u64 {
        self.terminals.values().map(|terminal| terminal.number).max().unwrap_or(0)
    }

    /// The turn that ran at a place in the log.
    pub(super) fn running_at(&self, index: usize) -> Option<TurnId> {
        let after = self.runs.partition_point(|(begun, _)| *begun <= index);
        self.runs.get(after.checked_sub(1)?).map(|(_, turn)| *turn)
    }

    /// The turn that runs now or ran last; before any ran, the first in the queue.
    pub(super) fn latest(&self) -> Option<&Turn> {
        let ran = self.runs.last().and_then(|(_, turn)| self.turn(*turn));
        ran.or_else(|| self.turns.first())
    }

    fn fold(&mut self, entry: &Entry) {
        match &*entry.event {
            Event::TurnQueued { turn, prompt, origin, tags } => {
                self.count(origin, tags);
                let prompt = prompt.iter().map(PromptPart::to_string).collect();
                self.turns.push(Turn::queued(*turn, prompt, origin, tags, entry));
            }
            Event::TurnStarted { turn } => {
                self.runs.push((entry.index, *turn));
                self.change(*turn, entry.at, |turn| turn.started = true);
            }
            Event::TurnFinished { turn, reason } => self.change(*turn, entry.at, |turn| {
                turn.ended = Some(reason.clone());
                turn.ended_at = Some(entry.index);
                turn.asking.clear();
            }),
            Event::Text(text) => self.run(entry.at, |turn| turn.say(text)),
            Event::Retry(retry) if retry.discard => self.run(entry.at, |turn| {
                if turn.speaking {
                    turn.said.pop();
                    turn.speaking = false;
                }
            }),
            Event::AnswerFinished { .. } => self.run(entry.at, |turn| turn.speaking = false),
            Event::CallStarted(started) => self.started(entry, started),
            Event::Task(event) => self.recorded(event),
            Event::QuestionClosed { call, .. } | Event::CallFinished { call, .. } => {
                self.run(entry.at, |turn| turn.asking.retain(|asking| asking != call));
            }
            Event::Output(text) | Event::CommandFailed(text) => self.run(entry.at, |turn| {
                turn.speaking = false;
                turn.say(text);
                turn.speaking = false;
            }),
            Event::SessionStarted(_)
            | Event::SystemPrompt(_)
            | Event::Thought(_)
            | Event::Retry(_)
            | Event::Notice(_)
            | Event::CallProgress { .. }
            | Event::CommandStarted { .. }
            | Event::Asked(_)
            | Event::Told { .. }
            | Event::ToldNext(_)
            | Event::Compressed(_)
            | Event::Masked(_)
            | Event::FileChanged { .. }
            | Event::FileRestored { .. }
            | Event::Forgotten
            | Event::ModelChanged { .. }
            | Event::ModeChanged { .. }
            | Event::AlwaysAllowed { .. }
            | Event::AlwaysRemoved { .. }
            | Event::Unknown(_) => {}
        }
    }

    /// Counts the prompts of a terminal.
    fn count(&mut self, origin: &Origin, tags: &PromptTags) {
        let Origin::Attached(ClientName { name, number }) = origin else { return };
        let terminal = self.terminals.entry(name.clone()).or_default();
        let prompt = tags.key.as_ref().and_then(|key| key.parse().ok()).unwrap_or(0);
        *terminal = Terminal { number: *number, prompts: terminal.prompts.max(prompt) };
    }

    fn recorded(&mut self, event: &TaskEvent) {
        match event {
            TaskEvent::ContextNamed { .. } => {}
            TaskEvent::Cancelled { turn } => self.canceled = Some(*turn),
            TaskEvent::PushConfigSet { key, config } => {
                self.push.insert(key.clone(), config.clone());
            }
            TaskEvent::PushConfigDeleted { key } => _ = self.push.remove(key),
        }
    }

    fn started(&mut self, entry: &Entry, started: &CallStarted) {
        let Some((_, turn)) = self.runs.last().copied() else { return };
        let announced = Arc::clone(&entry.event);
        self.calls.insert(started.call.id.clone(), Call { index: entry.index, turn, announced });
        if started.question.is_some() {
            self.run(entry.at, |turn| turn.asking.push(started.call.id.clone()));
        }
    }

    /// Changes the turn that runs.
    fn run(&mut self, at: Millis, change: impl FnOnce(&mut Turn)) {
        if let Some((_, turn)) = self.runs.last().copied() {
            self.change(turn, at, change);
        }
    }

    fn change(&mut self, turn: TurnId, at: Millis, change: impl FnOnce(&mut Turn)) {
        let index = usize::try_from(turn.0).ok().and_then(|turn| turn.checked_sub(1));
        if let Some(turn) = index.and_then(|index| self.turns.get_mut(index)) {
            turn.at = at;
            change(turn);
        }
    }
}

impl Turn {
    fn queued(
        id: TurnId,
        prompt: String,
        origin: &Origin,
        tags: &PromptTags,
        entry: &Entry,
    ) -> Self {
        Self {
            id,
            prompt,
            origin: origin.clone(),
            own_task: tags.own_task,
            queued: entry.index,
            queued_at: entry.at,
            started: false,
            ended: None,
            ended_at: None,
            at: entry.at,
            said: Vec::new(),
            asking: Vec::new(),
            speaking: false,
        }
    }

    fn say(&mut self, text: &str) {
        match self.said.last_mut() {
            Some(said) if self.speaking => said.push_str(text),
            _ => self.said.push(text.to_owned()),
        }
        self.speaking = true;
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

    /// A log of one turn that has said much.
    fn long(chunks: usize) -> Log {
        let log = Log::in_memory();
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
    async fn a_long_log_is_folded_in_a_slice_at_a_time() {
        let log = long(10 * SLICE);
        let story = Arc::new(Mutex::new(Story::new(log.read(0))));
        let mut keeping = pin!(keep_up(Arc::clone(&story), log.read(0)));
        let mut before = 0;
        let mut polls = 0;
        while before < log.len() {
            // Once, and it gives way.
            poll_fn(|cx| Poll::Ready(keeping.poll_unpin(cx).is_pending())).await;
            let now = story.lock().log.position();
            assert!(now > before && now - before <= SLICE, "{before} {now}");
            (before, polls) = (now, polls + 1);
        }
        assert!(polls > 10);
        let story = story.lock();
        assert_eq!(story.turns()[0].said[0].len(), 10 * SLICE);
    }
}
