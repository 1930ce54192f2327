//! A session as a document for people: plain text, Markdown, or one HTML page.

mod conversation;
mod html;
mod markdown;
mod text;

use std::collections::HashMap;
use std::path::PathBuf;

use futures::StreamExt as _;

pub use self::conversation::{CallBody, CallPassage, Conversation, Passage};
pub use self::html::to_html;
pub use self::markdown::to_markdown;
pub use self::text::to_text;
use crate::session::{
    CallStarted, CallStatus, CallStep, DEFAULT_THINKING, Entry, Event, Listed, Mode, Projection,
    Reader, ResultContent, SessionState, StopReason, Store, StoreError, Stored, Todo, TodoStatus,
    ToolOutcome, Update, UpdateKind, WebSource, explain_stop, explain_unknown_outcome,
};

/// Reads a stored conversation. Pieces of the log that cannot be read are replaced by a note.
pub async fn read_conversation(
    store: &dyn Store,
    listed: &Listed,
) -> Result<Conversation, StoreError> {
    let mut reading = ConversationFold::default();
    let mut pieces = store.read(&listed.head.id).await?;
    while let Some(piece) = pieces.next().await {
        piece?.into_iter().for_each(|stored| reading.fold(stored));
        tokio::task::consume_budget().await;
    }
    Ok(Conversation {
        id: listed.head.id.clone(),
        title: listed.title.clone(),
        directory: listed.head.directory.clone(),
        created: listed.head.created,
        turns: listed.turns,
        passages: reading.into_passages(),
    })
}

/// Returns the conversation in a log, without the turns that have not ended. May read files.
pub fn conversation_of(log: &mut Reader) -> Conversation {
    let (mut reading, mut state) = (ConversationFold::default(), SessionState::default());
    let (mut directory, mut created, mut end) = (PathBuf::new(), 0, None);
    while let Some(entry) = log.try_next_run() {
        match &*entry.event {
            Event::SessionStarted(started) => {
                (directory, created) = (started.directory.clone(), entry.at);
            }
            Event::TurnStarted { .. } => end = Some(reading.passages.len()),
            Event::TurnFinished { turn, .. } if state.running == Some(*turn) => end = None,
            _ => {}
        }
        state.fold(&entry.event);
        reading.apply(&entry);
    }
    reading.passages.truncate(end.unwrap_or(usize::MAX));
    let open = state.waiting.len() as u64 + u64::from(state.running.is_some());
    let turns = state.turns.saturating_sub(open);
    let passages = reading.into_passages();
    Conversation { id: state.id, title: state.title, directory, created, turns, passages }
}

/// State of a conversation while its log is read.
#[derive(Default)]
struct ConversationFold {
    projection: Projection,
    passages: Vec<Passage>,
    /// Index of the passage with the answer that is not complete yet.
    open: Option<usize>,
    /// Indexes of the passages of calls that have not ended, by the calls' ids.
    calls: HashMap<String, usize>,
}

impl ConversationFold {
    /// Returns all passages that are not empty.
    fn into_passages(mut self) -> Vec<Passage> {
        self.passages.retain(|passage| match passage {
            Passage::Prompt(text) | Passage::Answer(text) | Passage::Note(text) => {
                !text.trim().is_empty()
            }
            Passage::Call(_) => true,
        });
        self.passages
    }

    fn fold(&mut self, stored: Stored) {
        match stored {
            Stored::Batch(batch) => {
                let entries = (batch.first..).zip(batch.events);
                entries.for_each(|(index, (at, event))| self.apply(&Entry { index, at, event }));
            }
            Stored::Damaged(why) => {
                self.note(format!("This part of the conversation cannot be read: {why}."));
            }
        }
    }

    fn apply(&mut self, entry: &Entry) {
        let mut projection = std::mem::take(&mut self.projection);
        if let Some(update) = projection.apply(entry) {
            self.update(&update, &projection);
        }
        self.projection = projection;
    }

    fn update(&mut self, update: &Update<'_>, projection: &Projection) {
        let turn = update.turn.and_then(|turn| projection.turn(turn));
        let prompt = || Passage::Prompt(turn.map(|turn| turn.prompt.clone()).unwrap_or_default());
        match &update.kind {
            UpdateKind::TurnStarted => self.push(prompt()),
            UpdateKind::Text(text) => self.say(text),
            UpdateKind::Output(text) => self.push(Passage::Answer((*text).to_owned())),
            UpdateKind::Retry { restarts: true, .. }
            | UpdateKind::TurnResumed { restarts: true } => self.take_back(),
            UpdateKind::AnswerFinished(_) => self.open = None,
            UpdateKind::Call(started, CallStep::Started) => {
                self.calls.insert(started.call.id.clone(), self.passages.len());
                self.push(Passage::Call(CallPassage {
                    label: started.summary.label.clone(),
                    status: CallStatus::of_start(started),
                    body: None,
                }));
            }
            UpdateKind::Call(started, CallStep::Finished(outcome)) => self.finish(started, outcome),
            UpdateKind::CommandFailed(why) => self.note(*why),
            UpdateKind::CommandReplied(text) => {
                self.passages.push(prompt());
                self.passages.push(Passage::Answer((*text).to_owned()));
            }
            UpdateKind::Note { text, .. } => self.note(text.as_ref()),
            UpdateKind::Forgotten => self.note("The conversation begins anew."),
            UpdateKind::ModelChanged(model) => self.note(format!("The model is now `{model}`.")),
            UpdateKind::ThinkingChanged(level) => {
                self.note(format!("Thinking is now: {}.", level.unwrap_or(DEFAULT_THINKING)));
            }
            UpdateKind::ModeChanged(mode) => self.note(mode_note(*mode)),
            UpdateKind::SessionRenamed(title) => {
                self.note(format!("The session is now called `{title}`."));
            }
            UpdateKind::TurnFinished(reason) => {
                let waited = turn.is_some_and(|turn| turn.started.is_none());
                if waited && **reason == StopReason::EndTurn {
                    // The turn was a command that ran at once: `CommandReplied` has added its passages already, and the
                    // answer of the running turn goes on.
                    return;
                }
                if waited {
                    self.push(prompt());
                }
                self.open = None;
                if let Some(why) = explain_stop(reason) {
                    self.note(why);
                }
            }
            // These updates add no passage. A rewind is told by the output of the command that rewinds.
            UpdateKind::Rewound(_)
            | UpdateKind::TurnQueued(_)
            | UpdateKind::CommandStarted(_)
            | UpdateKind::CommandAsked
            | UpdateKind::Thought(_)
            | UpdateKind::Retry { .. }
            | UpdateKind::TurnResumed { .. }
            | UpdateKind::Call(..) => {}
        }
    }

    fn push(&mut self, passage: Passage) {
        self.open = None;
        self.passages.push(passage);
    }

    /// Adds a remark. The rest of an answer that is not complete becomes a passage of its own.
    fn note(&mut self, text: impl Into<String>) {
        self.passages.push(Passage::Note(text.into()));
    }

    fn say(&mut self, more: &str) {
        if let Some(Passage::Answer(text)) = self.open.and_then(|at| self.passages.get_mut(at)) {
            text.push_str(more);
            return;
        }
        self.push(Passage::Answer(more.to_owned()));
        self.open = Some(self.passages.len() - 1);
    }

    /// Clears the answer that is not complete, because it begins again.
    fn take_back(&mut self) {
        if let Some(Passage::Answer(text)) =
            self.open.take().and_then(|at| self.passages.get_mut(at))
        {
            text.clear();
        }
    }

    fn finish(&mut self, started: &CallStarted, outcome: &ToolOutcome) {
        let at = self.calls.remove(&started.call.id);
        if let Some(Passage::Call(call)) = at.and_then(|at| self.passages.get_mut(at)) {
            call.status = CallStatus::of_outcome(outcome);
            call.body = body(started, outcome);
        }
    }
}

fn mode_note(mode: Mode) -> String {
    format!("The approval mode is now `{mode}`.")
}

fn body(started: &CallStarted, outcome: &ToolOutcome) -> Option<CallBody> {
    match outcome {
        ToolOutcome::Done(output) => output.shown.as_ref().map(call_body),
        ToolOutcome::Failed(error) => {
            let message = || CallBody::Plain(error.message.clone());
            Some(error.shown.as_ref().map_or_else(message, call_body))
        }
        ToolOutcome::Unknown(outcome) => Some(CallBody::Plain(explain_unknown_outcome(outcome))),
        // The change has not happened, or not surely, so the proposed change is shown.
        ToolOutcome::Rejected | ToolOutcome::Cancelled | ToolOutcome::Interrupted => {
            let proposed = started.summary.diff.as_ref();
            proposed.map(|diff| CallBody::Diff(diff.unified()))
        }
    }
}

fn call_body(content: &ResultContent) -> CallBody {
    match content {
        ResultContent::Markdown(text) => CallBody::Markdown(text.clone()),
        ResultContent::Output(text) => CallBody::Plain(text.clone()),
        ResultContent::Diff(diff) => CallBody::Diff(diff.unified()),
        ResultContent::Todos(todos) => CallBody::Plain(todos.iter().map(todo).collect()),
        ResultContent::Sources(sources) => CallBody::Markdown(WebSource::list(sources)),
        ResultContent::Server(answer) if answer.is_json() => CallBody::Plain(answer.text.clone()),
        ResultContent::Server(answer) => CallBody::Markdown(answer.text.clone()),
    }
}

fn todo(todo: &Todo) -> String {
    let mark = match todo.status {
        TodoStatus::Completed => "x",
        TodoStatus::InProgress => ">",
        TodoStatus::Cancelled => "-",
        TodoStatus::Blocked => "!",
        TodoStatus::Pending => " ",
    };
    format!("[{mark}] {}\n", todo.description)
}
