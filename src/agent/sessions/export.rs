//! A stored session as a document for people: plain text, Markdown, or one HTML page.

mod html;
mod markdown;
mod text;

use std::collections::HashMap;

use futures::StreamExt as _;

use crate::session::{
    CallStarted, CallStatus, CallStep, Entry, Listed, Millis, Mode, Projection, ResultContent,
    Store, StoreError, Stored, Todo, TodoStatus, ToolOutcome, Update, UpdateKind, WebSource,
    explain_stop,
};

/// A stored conversation, as people read it.
#[derive(Debug, Clone)]
pub struct Conversation {
    /// The session, as a list shows it.
    pub listed: Listed,
    /// Everything that was said and done, in order.
    pub passages: Vec<Passage>,
}

/// A piece of a conversation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Passage {
    /// A prompt: Markdown.
    Prompt(String),
    /// An answer of the model, or a command's output: Markdown.
    Answer(String),
    /// A tool call.
    Call(CallPassage),
    /// A remark on what happened: Markdown.
    Note(String),
}

/// A tool call in a conversation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallPassage {
    /// Label of the call: plain text.
    pub label: String,
    /// Status of the call.
    pub status: CallStatus,
    /// Its result, or the change that it would have made.
    pub body: Option<CallBody>,
}

/// Result of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CallBody {
    /// Markdown.
    Markdown(String),
    /// Plain text.
    Plain(String),
    /// A change of a file, as `diff -u` shows it.
    Diff(String),
}

impl Conversation {
    /// Reads a stored conversation. Pieces of the log that cannot be read are left out, with a note.
    pub async fn read(store: &dyn Store, listed: Listed) -> Result<Self, StoreError> {
        let mut reading = Reading::default();
        let mut pieces = store.read(&listed.head.id).await?;
        while let Some(piece) = pieces.next().await {
            piece?.into_iter().for_each(|stored| reading.take(stored));
            tokio::task::consume_budget().await;
        }
        let is_said = |passage: &Passage| match passage {
            Passage::Prompt(text) | Passage::Answer(text) | Passage::Note(text) => {
                !text.trim().is_empty()
            }
            Passage::Call(_) => true,
        };
        reading.passages.retain(is_said);
        Ok(Self { listed, passages: reading.passages })
    }

    /// Returns the conversation as plain text.
    pub fn text(&self) -> String {
        text::write(self)
    }

    /// Returns the conversation as Markdown. HTML and images in what was said are written out.
    pub fn markdown(&self) -> String {
        markdown::write(self)
    }

    /// Returns the conversation as one HTML page that loads nothing. All that was said is escaped.
    pub fn html(&self) -> String {
        html::write(self)
    }

    /// Returns the title, or what stands in its place.
    fn title(&self) -> &str {
        let title = self.listed.title.trim();
        if title.is_empty() { "Session" } else { title }
    }

    /// Returns the facts below the title: id, directory, beginning, turns.
    fn facts(&self) -> [String; 4] {
        let Listed { head, turns, .. } = &self.listed;
        let turns = if *turns == 1 { "1 turn".to_owned() } else { format!("{turns} turns") };
        [head.id.clone(), head.directory.display().to_string(), day(head.created), turns]
    }
}

/// Returns a time to the minute, in UTC.
fn day(at: Millis) -> String {
    jiff::Timestamp::from_millisecond(at).map_or_else(
        |_| "at an unknown time".to_owned(),
        |at| at.strftime("%Y-%m-%d %H:%M UTC").to_string(),
    )
}

/// Returns whether a link leads to a page, and does not run anything.
fn is_harmless(url: &str) -> bool {
    let lower = url.to_ascii_lowercase();
    ["https://", "http://", "mailto:"].iter().any(|scheme| lower.starts_with(scheme))
}

/// Returns the word for a status.
fn status_word(status: CallStatus) -> &'static str {
    match status {
        CallStatus::AwaitingAnswer => "awaiting an answer",
        CallStatus::Running => "running",
        CallStatus::Succeeded => "done",
        CallStatus::Failed => "failed",
        CallStatus::Rejected => "rejected",
        CallStatus::Cancelled => "cancelled",
        CallStatus::Interrupted => "interrupted",
    }
}

/// A conversation while its log is read.
#[derive(Default)]
struct Reading {
    projection: Projection,
    passages: Vec<Passage>,
    /// The answer that goes on.
    open: Option<usize>,
    /// The calls that have not ended.
    calls: HashMap<String, usize>,
}

impl Reading {
    fn take(&mut self, stored: Stored) {
        match stored {
            Stored::Batch(batch) => {
                let entries = (batch.first..).zip(batch.events);
                entries.for_each(|(index, (at, event))| self.apply(&Entry { index, at, event }));
            }
            Stored::Damaged(why) => self.note(format!("This cannot be read: {why}.")),
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
            UpdateKind::Retry { restarts: true, .. } => self.take_back(),
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
            UpdateKind::Note { text, .. } => self.note(text.as_ref()),
            UpdateKind::Forgotten => self.note("The conversation begins anew."),
            UpdateKind::ModelChanged(model) => self.note(format!("The model is now `{model}`.")),
            UpdateKind::ModeChanged(mode) => self.note(mode_note(*mode)),
            UpdateKind::SessionRenamed(title) => {
                self.note(format!("The session is now called `{title}`."));
            }
            UpdateKind::TurnFinished(reason) => {
                if turn.is_some_and(|turn| turn.started.is_none()) {
                    self.push(prompt());
                }
                self.open = None;
                if let Some(why) = explain_stop(reason) {
                    self.note(why);
                }
            }
            UpdateKind::TurnQueued(_)
            | UpdateKind::CommandStarted(_)
            | UpdateKind::CommandAsked
            | UpdateKind::Thought(_)
            | UpdateKind::Retry { .. }
            | UpdateKind::Call(..) => {}
        }
    }

    fn push(&mut self, passage: Passage) {
        self.open = None;
        self.passages.push(passage);
    }

    /// Adds a remark. The answer may go on behind it.
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

    /// Takes back the answer that goes on: it begins again.
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
        ToolOutcome::Done(output) => output.shown.as_ref().map(shown),
        ToolOutcome::Failed(error) => {
            let message = || CallBody::Plain(error.message.clone());
            Some(error.shown.as_ref().map_or_else(message, shown))
        }
        // What did not happen, or not surely.
        ToolOutcome::Rejected | ToolOutcome::Cancelled | ToolOutcome::Interrupted => {
            let proposed = started.summary.diff.as_ref();
            proposed.map(|diff| CallBody::Diff(diff.unified()))
        }
    }
}

fn shown(content: &ResultContent) -> CallBody {
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
