//! What A2A clients are told of what happens in a session.

use serde_json::{Map, Value, json};

use super::frames::Dialect;
use super::story::{Story, ended_state};
use super::tool_call::{ended, pending, question, running, tool_call};
use tandem_agent::session::{
    CallStarted, CallStep, Content, Entry, Millis, Origin, StopReason, ToolOutcome, ToolOutput,
    TurnId, UpdateKind, explain_stop,
};
use tandem_wire::a2a::{
    Artifact, Message, Part, Role, TaskArtifactUpdateEvent, TaskState, TaskStatus,
    TaskStatusUpdateEvent,
};
use tandem_wire::development_tool::{
    AgentThought, CODER_AGENT, Kind, ToolCall, ToolCallStatus, URI,
};

/// Bytes of an artifact that are sent at once: of a longer one the rest is appended to it.
const CHUNK: usize = 1 << 20;

/// A piece of news.
pub(super) struct Update {
    /// The turn that it is part of.
    pub(super) turn: TurnId,
    /// What is told.
    pub(super) news: News,
    /// Whether it is what the user said: whoever said it knows.
    pub(super) echo: bool,
}

/// What is told.
pub(super) enum News {
    /// Where the task stands, with what was said or done.
    Status(Box<TaskStatusUpdateEvent>),
    /// Artifact that came of the task.
    Artifact(TaskArtifactUpdateEvent),
}

impl Update {
    /// Whether a stream of the turn ends with this.
    pub(super) fn is_final(&self) -> bool {
        matches!(&self.news, News::Status(status) if status.r#final)
    }
}

impl Update {
    /// Returns whether receivers of notifications are told of this update: it says where the task
    /// stands or what came of it, rather than how it goes.
    pub(super) fn is_notable(&self, dialect: Dialect) -> bool {
        match &self.news {
            News::Status(status) => {
                let kind = status.metadata.get(URI).and_then(|event| event.get("kind"));
                kind.and_then(Value::as_str) == Some(Kind::StateChange.upper())
            }
            // In 0.3 they are sent the task, with what came of it, when it ends.
            News::Artifact(_) => dialect == Dialect::V1,
        }
    }
}

/// Whose news it is.
pub(super) struct Names<'a> {
    /// The session's.
    pub(super) context: &'a str,
    /// The task's that a turn is part of.
    pub(super) task: &'a dyn Fn(TurnId) -> String,
    /// The model's.
    pub(super) model: &'a str,
}

/// Returns what clients are told of one entry of the log.
pub(super) fn of(entry: &Entry, story: &Story, names: &Names<'_>) -> Vec<Update> {
    let Some(update) = story.projection().update(entry) else { return Vec::new() };
    let Some(turn) = update.turn else { return Vec::new() };
    let mut telling = Telling { names, task: (names.task)(turn), turn, entry, updates: Vec::new() };
    telling.tell(story, &update.kind);
    telling.updates
}

/// What tells of one entry.
struct Telling<'a> {
    names: &'a Names<'a>,
    task: String,
    turn: TurnId,
    entry: &'a Entry,
    updates: Vec<Update>,
}

impl Telling<'_> {
    fn tell(&mut self, story: &Story, update: &UpdateKind<'_>) {
        match update {
            UpdateKind::TurnQueued(origin) => self.queued(story, origin),
            UpdateKind::TurnStarted => self.state(TaskState::Working, None),
            UpdateKind::Text(text) | UpdateKind::Output(text) | UpdateKind::CommandFailed(text) => {
                self.text((*text).to_owned());
            }
            UpdateKind::Thought(text) => self.thought(&AgentThought::read(text)),
            UpdateKind::Retry { retry, .. } => {
                self.remark("Retrying", retry.to_string());
                if retry.discard {
                    self.text(format!("\n\n{}\n\n", retry.interruption()));
                }
            }
            UpdateKind::Note { text, .. } => self.remark("Note", text.clone().into_owned()),
            UpdateKind::Call(started, step) => self.step(started, *step),
            UpdateKind::TurnFinished(reason) => self.finished(story, reason),
            UpdateKind::CommandStarted(_)
            | UpdateKind::CommandAsked
            | UpdateKind::AnswerFinished(_)
            | UpdateKind::Forgotten
            | UpdateKind::ModelChanged(_)
            | UpdateKind::ModeChanged(_) => {}
        }
    }

    fn step(&mut self, started: &CallStarted, step: CallStep<'_>) {
        match step {
            CallStep::Started => {
                let call = pending(started);
                self.call(&call);
                if started.question.is_some() {
                    self.tell_call(Kind::ToolCallConfirmation, &call);
                    self.state(TaskState::InputRequired, Some(question(started)));
                } else {
                    self.call(&tool_call(started, ToolCallStatus::Executing));
                }
            }
            CallStep::Progress(output) => self.call(&running(started, output)),
            CallStep::QuestionClosed(None) => {}
            CallStep::QuestionClosed(Some((answer, by))) => {
                self.answered(by);
                if answer.decision().runs() {
                    self.call(&tool_call(started, ToolCallStatus::Executing));
                }
            }
            CallStep::Finished(outcome) => {
                self.call(&ended(started, outcome));
                self.cite(outcome);
            }
        }
    }

    fn queued(&mut self, story: &Story, origin: &Origin) {
        let Some(turn) = story.turn(self.turn) else { return };
        let source = source(origin);
        let parts = vec![Part::Text { text: turn.prompt.clone() }];
        let mut metadata = self.metadata(Kind::TextContent, None);
        metadata.insert("source".to_owned(), json!(source));
        let mut message = self.message(parts);
        message.role = Role::User;
        message.metadata.insert("source".to_owned(), json!(source));
        let status = self.status(TaskState::Submitted, Some(message));
        self.push(status, false, metadata);
        for update in &mut self.updates {
            update.echo = true;
        }
    }

    /// The question is closed: work goes on.
    fn answered(&mut self, by: &Origin) {
        let status = self.status(TaskState::Working, None);
        let mut metadata = self.metadata(Kind::StateChange, None);
        metadata.insert("answeredBy".to_owned(), json!(by.to_string()));
        self.push(status, false, metadata);
    }

    fn text(&mut self, text: String) {
        self.say(text, Kind::TextContent);
    }

    fn say(&mut self, text: String, kind: Kind) {
        let message = self.message(vec![Part::Text { text }]);
        let status = self.status(TaskState::Working, Some(message));
        let metadata = self.metadata(kind, None);
        self.push(status, false, metadata);
    }

    fn thought(&mut self, thought: &AgentThought) {
        let data = json!({ "subject": thought.subject, "description": thought.description });
        let message = self.message(vec![Part::Data { data }]);
        let status = self.status(TaskState::Working, Some(message));
        let metadata = self.metadata(Kind::Thought, None);
        self.push(status, false, metadata);
    }

    fn remark(&mut self, subject: &str, description: String) {
        self.thought(&AgentThought { subject: subject.to_owned(), description });
    }

    /// The sources of what came of a call, as Gemini CLI's server writes them.
    fn cite(&mut self, outcome: &ToolOutcome) {
        let ToolOutcome::Done(ToolOutput { shown: Some(Content::Sources(sources)), .. }) = outcome
        else {
            return;
        };
        let named = sources.iter().filter(|source| !source.url.is_empty());
        let lines: Vec<_> = named.map(|it| format!("({}) {}", it.title, it.url)).collect();
        if !lines.is_empty() {
            let text = format!("Citations:\n{}", lines.join("\n"));
            self.say(text, Kind::Citation);
        }
    }

    fn call(&mut self, call: &ToolCall) {
        self.tell_call(Kind::ToolCallUpdate, call);
    }

    fn tell_call(&mut self, kind: Kind, call: &ToolCall) {
        let message = self.message(data(call.to_value()));
        let status = self.status(TaskState::Working, Some(message));
        let metadata = self.metadata(kind, None);
        self.push(status, false, metadata);
    }

    /// The task stands elsewhere now; a stream ends where somebody else has to go on.
    fn state(&mut self, state: TaskState, parts: Option<Vec<Part>>) {
        let message = parts.map(|parts| self.message(parts));
        let status = self.status(state, message);
        let metadata = self.metadata(Kind::StateChange, None);
        let last = state.is_terminal() || state == TaskState::InputRequired;
        self.push(status, last, metadata);
    }

    fn finished(&mut self, story: &Story, reason: &StopReason) {
        let answer = story.turn(self.turn).and_then(|turn| turn.answers.last());
        let mut rest = answer.map(String::as_str);
        let mut append = false;
        while let Some(text) = rest {
            let (chunk, more) = text.split_at(text.floor_char_boundary(CHUNK.min(text.len())));
            rest = (!more.is_empty()).then_some(more);
            let news = News::Artifact(TaskArtifactUpdateEvent {
                task_id: self.task.clone(),
                context_id: self.names.context.to_owned(),
                artifact: artifact(chunk.to_owned()),
                append,
                last_chunk: rest.is_none(),
                metadata: Map::from_iter([("eventId".to_owned(), json!(self.event_id()))]),
            });
            self.updates.push(Update { turn: self.turn, news, echo: false });
            append = true;
        }
        let state = ended_state(reason);
        let why = explanation(reason);
        let parts = why.clone().map(|text| vec![Part::Text { text }]);
        let message = parts.map(|parts| self.message(parts));
        let status = self.status(state, message);
        let error = why.filter(|_| state == TaskState::Failed);
        let metadata = self.metadata(Kind::StateChange, error.as_deref());
        self.push(status, true, metadata);
    }

    fn message(&self, parts: Vec<Part>) -> Message {
        Message {
            role: Role::Agent,
            message_id: format!("{}/{}", self.names.context, self.event_id()),
            task_id: self.task.clone(),
            context_id: self.names.context.to_owned(),
            extensions: vec![URI],
            parts,
            metadata: Map::new(),
        }
    }

    fn status(&self, state: TaskState, message: Option<Message>) -> TaskStatus {
        TaskStatus { state, message, timestamp: timestamp(self.entry.at) }
    }

    fn metadata(&self, kind: Kind, error: Option<&str>) -> Map<String, Value> {
        let model = self.names.model;
        let mut event = json!({ "kind": kind.upper(), "model": model });
        if let Some(error) = error {
            event["error"] = json!(error);
        }
        Map::from_iter([
            (CODER_AGENT.to_owned(), json!({ "kind": kind.kebab() })),
            ("model".to_owned(), json!(model)),
            (URI.to_owned(), event),
            ("eventId".to_owned(), json!(self.event_id())),
        ])
    }

    /// Its place in the log, and which of the updates there.
    fn event_id(&self) -> String {
        format!("{}.{}", self.entry.index, self.updates.len())
    }

    fn push(&mut self, status: TaskStatus, last: bool, metadata: Map<String, Value>) {
        let news = News::Status(Box::new(TaskStatusUpdateEvent {
            task_id: self.task.clone(),
            context_id: self.names.context.to_owned(),
            status,
            r#final: last,
            metadata,
        }));
        self.updates.push(Update { turn: self.turn, news, echo: false });
    }
}

/// The last text of a turn as what came of it.
pub(super) fn artifact(text: String) -> Artifact {
    Artifact {
        artifact_id: "response".to_owned(),
        name: "response",
        parts: vec![Part::Text { text }],
    }
}

/// Where a prompt came from, in a word.
pub(super) fn source(origin: &Origin) -> &'static str {
    match origin {
        Origin::Editor => "editor",
        Origin::Terminal | Origin::Attached(_) => "terminal",
        Origin::A2a(_) => "a2a",
    }
}

/// ISO 8601 with milliseconds, UTC.
pub(super) fn timestamp(at: Millis) -> String {
    let at = jiff::Timestamp::from_millisecond(at).unwrap_or_default();
    format!("{at:.3}")
}

/// Explains why a turn ended, unless that is plain: it has its answer, or somebody cancelled it.
pub(super) fn explanation(reason: &StopReason) -> Option<String> {
    if matches!(reason, StopReason::Cancelled { .. }) {
        return None;
    }
    explain_stop(reason)
}

fn data(data: Value) -> Vec<Part> {
    vec![Part::Data { data }]
}
