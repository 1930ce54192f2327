//! Updates for A2A clients about the events of a session.

use super::dialect::Dialect;
use super::session_records::{SessionRecords, ended_state};
use super::tool_call::{ended, pending, question, running, tool_call};
use tandem_agent::session::{
    ANSWER_RESTARTS, CallStarted, CallStep, Entry, Millis, Origin, ResultContent, SavedPlace,
    StopReason, ToolOutcome, ToolOutput, TurnId, UpdateKind, explain_resumed, explain_stop,
};
use tandem_wire::a2a::{
    Artifact, ArtifactMetadata, ArtifactUpdate, Fields, Message, Part, PartData, Role,
    StatusUpdate, StreamEvent, TaskState, TaskStatus,
};
use tandem_wire::development_tool::{
    AgentThought, EXTENSION_URI, EventKind, EventMetadata, GitPlace, ToolCall, ToolCallStatus,
};

/// Maximum size in bytes of an artifact in one event; the rest of a larger one follows in further events.
const MAX_ARTIFACT_CHUNK_BYTES: usize = 1 << 20;

/// An event of a task for the readers of a turn.
pub(super) struct TaskUpdate {
    /// Turn that the event is part of.
    pub(super) turn: TurnId,
    /// The event, independent of the protocol's version.
    pub(super) event: StreamEvent,
    /// `true` for a user's prompt, which its author knows.
    pub(super) echo: bool,
}

impl TaskUpdate {
    /// Returns `true` if a stream of the turn ends with this update.
    pub(super) fn is_final(&self) -> bool {
        matches!(&self.event, StreamEvent::Status(status) if status.is_final)
    }

    /// Changes the update for a stream that continues after it.
    pub(super) fn go_on(&mut self) {
        if let StreamEvent::Status(status) = &mut self.event {
            status.is_final = false;
        }
    }

    /// Removes the parts that are not text. Returns `false` if clients that accept only text are not sent the
    /// update, because they get the answer once, as the result.
    pub(super) fn keep_text(&mut self) -> bool {
        if let StreamEvent::Artifact(update) = &self.event {
            return update.artifact.is_text();
        }
        let StreamEvent::Status(update) = &mut self.event else { return true };
        update.status.message.iter_mut().for_each(Message::keep_text);
        matches!(update.metadata.kind, Some(EventKind::StateChange | EventKind::Citation))
    }

    /// Returns `true` if receivers of push notifications get this update: a change of state or a result, not
    /// progress.
    pub(super) fn is_notable(&self, dialect: Dialect) -> bool {
        match &self.event {
            StreamEvent::Status(status) => status.metadata.kind == Some(EventKind::StateChange),
            // In 0.3, the receivers get the whole task with its results when it ends.
            StreamEvent::Artifact(_) => dialect == Dialect::V1,
            StreamEvent::Task(_) | StreamEvent::Message(_) => false,
        }
    }
}

/// Names of the context, the task and the model for an update.
pub(super) struct TaskNames<'a> {
    /// Id of the context.
    pub(super) context: &'a str,
    /// Function that returns the id of the task that a turn is part of.
    pub(super) task: &'a dyn Fn(TurnId) -> String,
    /// Name of the model.
    pub(super) model: &'a str,
}

/// Returns the updates for one entry of the log. `results`: the plan and the changed files of the turn that
/// the entry ends.
pub(super) fn of_entry(
    entry: &Entry,
    records: &SessionRecords,
    names: &TaskNames<'_>,
    results: Vec<Artifact>,
) -> Vec<TaskUpdate> {
    let Some(update) = records.projection().update(entry) else { return Vec::new() };
    let Some(turn) = update.turn else { return Vec::new() };
    let task = (names.task)(turn);
    let mut builder = UpdateBuilder { names, task, turn, entry, results, updates: Vec::new() };
    builder.add(records, &update.kind);
    builder.updates
}

/// Maker of the updates for one entry of the log.
struct UpdateBuilder<'a> {
    names: &'a TaskNames<'a>,
    task: String,
    turn: TurnId,
    entry: &'a Entry,
    results: Vec<Artifact>,
    updates: Vec<TaskUpdate>,
}

impl UpdateBuilder<'_> {
    fn add(&mut self, records: &SessionRecords, update: &UpdateKind<'_>) {
        match update {
            UpdateKind::TurnQueued(origin) => self.queued(records, origin),
            UpdateKind::TurnStarted => {
                self.state(TaskState::Working, None);
                self.settings(records);
            }
            UpdateKind::Text(text)
            | UpdateKind::Output(text)
            | UpdateKind::CommandFailed(text)
            | UpdateKind::CommandReplied(text) => self.text((*text).to_owned()),
            UpdateKind::Thought(text) => self.thought(AgentThought::read(text)),
            UpdateKind::Retry { retry, .. } => {
                self.remark("Retrying", retry.to_string());
                if retry.discard {
                    self.text(format!("\n\n{}\n\n", retry.interruption()));
                }
            }
            UpdateKind::TurnResumed { restarts } => {
                // The state before the resumption may have been that of an open question, so the state is sent anew.
                self.state(TaskState::Working, None);
                self.remark("Resumed", explain_resumed(*restarts));
                if *restarts {
                    self.text(format!("\n\n{ANSWER_RESTARTS}\n\n"));
                }
            }
            UpdateKind::Note { text, .. } => self.remark("Note", text.clone().into_owned()),
            UpdateKind::Call(started, step) => self.step(started, *step),
            UpdateKind::TurnFinished(reason) => self.finished(records, reason),
            UpdateKind::CommandStarted(_)
            | UpdateKind::CommandAsked
            | UpdateKind::AnswerFinished(_)
            | UpdateKind::Forgotten
            | UpdateKind::Rewound(_)
            | UpdateKind::SessionRenamed(_)
            | UpdateKind::ModelChanged(_)
            | UpdateKind::ThinkingChanged(_)
            | UpdateKind::ModeChanged(_) => {}
        }
    }

    fn step(&mut self, started: &CallStarted, step: CallStep<'_>) {
        match step {
            CallStep::Started => {
                let call = pending(started);
                self.call(call.clone());
                if started.question.is_some() {
                    self.tell_call(EventKind::ToolCallConfirmation, call);
                    self.state(TaskState::InputRequired, Some(question(started)));
                } else {
                    self.call(tool_call(started, ToolCallStatus::Executing));
                }
            }
            CallStep::Progress(output) => self.call(running(started, output)),
            CallStep::QuestionClosed(None) => {}
            CallStep::QuestionClosed(Some((answer, by))) => {
                self.answered(by);
                if answer.decision().runs() {
                    self.call(tool_call(started, ToolCallStatus::Executing));
                }
            }
            CallStep::Finished(outcome) => {
                self.call(ended(started, outcome));
                self.cite(outcome);
            }
        }
    }

    fn queued(&mut self, records: &SessionRecords, origin: &Origin) {
        let Some(turn) = records.turn(self.turn) else { return };
        let mut metadata = self.metadata(EventKind::TextContent);
        metadata.source = Some(source(origin).into());
        let mut message = self.message(vec![turn.prompt.clone().into()]);
        message.role = Role::User;
        message.metadata = source_metadata(origin);
        let status = self.status(TaskState::Submitted, Some(message));
        self.push(status, false, metadata);
        for update in &mut self.updates {
            update.echo = true;
        }
    }

    /// Adds an update: the question is answered, and the turn continues.
    fn answered(&mut self, by: &Origin) {
        let status = self.status(TaskState::Working, None);
        let mut metadata = self.metadata(EventKind::StateChange);
        metadata.answered_by = Some(by.to_string());
        self.push(status, false, metadata);
    }

    fn text(&mut self, text: String) {
        self.say(text, EventKind::TextContent);
    }

    fn say(&mut self, text: String, kind: EventKind) {
        let message = self.message(vec![text.into()]);
        let status = self.status(TaskState::Working, Some(message));
        let metadata = self.metadata(kind);
        self.push(status, false, metadata);
    }

    /// Adds the current settings, once per task.
    fn settings(&mut self, records: &SessionRecords) {
        let is_session = self.task == self.names.context;
        if is_session && records.turns().next().is_some_and(|first| first.id != self.turn) {
            return;
        }
        let message = self.message(vec![PartData::Settings(records.settings()).into()]);
        let status = self.status(TaskState::Working, Some(message));
        let metadata = self.metadata(EventKind::AgentSettings);
        self.push(status, false, metadata);
    }

    fn thought(&mut self, thought: AgentThought) {
        let message = self.message(vec![PartData::Thought(thought).into()]);
        let status = self.status(TaskState::Working, Some(message));
        let metadata = self.metadata(EventKind::Thought);
        self.push(status, false, metadata);
    }

    fn remark(&mut self, subject: &str, description: String) {
        self.thought(AgentThought { subject: subject.to_owned(), description });
    }

    /// Adds the web sources of a call's output, in the format of Gemini CLI's server.
    fn cite(&mut self, outcome: &ToolOutcome) {
        let ToolOutcome::Done(ToolOutput { shown: Some(ResultContent::Sources(sources)), .. }) =
            outcome
        else {
            return;
        };
        let named = sources.iter().filter(|source| !source.url.is_empty());
        let lines: Vec<_> = named.map(|it| format!("({}) {}", it.title, it.url)).collect();
        if !lines.is_empty() {
            let text = format!("Citations:\n{}", lines.join("\n"));
            self.say(text, EventKind::Citation);
        }
    }

    fn call(&mut self, call: ToolCall) {
        self.tell_call(EventKind::ToolCallUpdate, call);
    }

    fn tell_call(&mut self, kind: EventKind, call: ToolCall) {
        let message = self.message(vec![PartData::Call(Box::new(call)).into()]);
        let status = self.status(TaskState::Working, Some(message));
        let metadata = self.metadata(kind);
        self.push(status, false, metadata);
    }

    /// Adds a change of the task's state. A stream ends where a client has to answer, and at the turn's end.
    fn state(&mut self, state: TaskState, parts: Option<Vec<Part>>) {
        let message = parts.map(|parts| self.message(parts));
        let status = self.status(state, message);
        let metadata = self.metadata(EventKind::StateChange);
        let last = state.is_terminal() || state == TaskState::InputRequired;
        self.push(status, last, metadata);
    }

    fn finished(&mut self, records: &SessionRecords, reason: &StopReason) {
        // Files come before the answer, because some clients take the last artifact for the answer.
        for result in std::mem::take(&mut self.results) {
            self.artifact(result, false, true);
        }
        let answer = records.turn(self.turn).and_then(|turn| turn.answers.last());
        let mut rest = answer.map(String::as_str);
        let mut append = false;
        while let Some(text) = rest {
            let (chunk, more) =
                text.split_at(text.floor_char_boundary(MAX_ARTIFACT_CHUNK_BYTES.min(text.len())));
            rest = (!more.is_empty()).then_some(more);
            self.artifact(artifact(chunk.to_owned()), append, rest.is_none());
            append = true;
        }
        let state = ended_state(reason);
        let why = explanation(reason);
        let message = why.clone().map(|text| self.message(vec![text.into()]));
        let status = self.status(state, message);
        let mut metadata = self.metadata(EventKind::StateChange);
        metadata.error = why.filter(|_| state == TaskState::Failed);
        metadata.git = records.saved_at(self.turn).map(git_place);
        self.push(status, true, metadata);
    }

    fn artifact(&mut self, artifact: Artifact, append: bool, last_chunk: bool) {
        let event = StreamEvent::Artifact(ArtifactUpdate {
            task_id: self.task.clone(),
            context_id: self.names.context.to_owned(),
            artifact,
            append,
            last_chunk,
            metadata: ArtifactMetadata { event_id: self.event_id() },
        });
        self.updates.push(TaskUpdate { turn: self.turn, event, echo: false });
    }

    fn message(&self, parts: Vec<Part>) -> Message {
        Message {
            role: Role::Agent,
            message_id: format!("{}/{}", self.names.context, self.event_id()),
            task_id: self.task.clone(),
            context_id: self.names.context.to_owned(),
            extensions: vec![EXTENSION_URI.into()],
            parts,
            metadata: Fields::default(),
        }
    }

    fn status(&self, state: TaskState, message: Option<Message>) -> TaskStatus {
        TaskStatus { state, message, timestamp: timestamp(self.entry.at) }
    }

    fn metadata(&self, kind: EventKind) -> EventMetadata {
        EventMetadata {
            kind: Some(kind),
            model: self.names.model.to_owned(),
            event_id: self.event_id(),
            ..EventMetadata::default()
        }
    }

    /// Returns the id of the next update: the index of the entry, and the number of the update.
    fn event_id(&self) -> String {
        format!("{}.{}", self.entry.index, self.updates.len())
    }

    fn push(&mut self, status: TaskStatus, is_final: bool, metadata: EventMetadata) {
        let event = StreamEvent::Status(Box::new(StatusUpdate {
            task_id: self.task.clone(),
            context_id: self.names.context.to_owned(),
            status,
            is_final,
            metadata,
        }));
        self.updates.push(TaskUpdate { turn: self.turn, event, echo: false });
    }
}

/// Returns the last text of a turn as the artifact of its answer.
pub(super) fn artifact(text: String) -> Artifact {
    let name = "response".to_owned();
    Artifact { artifact_id: name.clone(), name, parts: vec![text.into()] }
}

/// Returns the place in a repository that holds the files of a session, in the form for clients.
pub(super) fn git_place(SavedPlace { reference, commit }: &SavedPlace) -> GitPlace {
    GitPlace { reference: reference.clone(), commit: commit.clone() }
}

/// Returns the kind of a prompt's origin in a word.
fn source(origin: &Origin) -> &'static str {
    match origin {
        Origin::Editor => "editor",
        Origin::Terminal | Origin::Attached(_) => "terminal",
        Origin::A2a(_) => "a2a",
    }
}

/// Returns the metadata of a prompt's message.
pub(super) fn source_metadata(origin: &Origin) -> Fields {
    Fields([("source".to_owned(), source(origin).into())].into_iter().collect())
}

/// Formats a time as ISO 8601 with milliseconds, in UTC.
pub(super) fn timestamp(at: Millis) -> String {
    let at = jiff::Timestamp::from_millisecond(at).unwrap_or_default();
    format!("{at:.3}")
}

/// Explains the end of a turn; `None` if the turn has its answer or was cancelled, which needs no
/// explanation.
pub(super) fn explanation(reason: &StopReason) -> Option<String> {
    if matches!(reason, StopReason::Cancelled { .. }) {
        return None;
    }
    explain_stop(reason)
}
