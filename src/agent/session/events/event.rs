//! Events of a session: plain data, and the only state of a session that is stored in its log.
//!
//! Stored events must stay readable by later versions of the program (`fixtures/store/v1` has examples). So a variant
//! or a field is never renamed, removed or given another meaning, and a new field has `#[serde(default)]`. An event
//! that this version does not know is read as [`Event::Unknown`], and written again exactly as it was.

mod compressed;
mod told_instructions;

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;
use serde_json::value::RawValue;

use super::principal::{PrincipalId, ShareRole};
use super::saved_workspace::SavedPlace;
use tandem_approval::{Answer, Mode, Question, Scope};
use tandem_content::media::Media;
use tandem_host::preimages::FileChange;
use tandem_host::{Access, FileDiff, InputQuestion, Summary, ToolError, ToolKind, ToolOutput};
use tandem_model::{self as model, Call, FinishReason, Native, Part, Retry, Usage};

pub(crate) use self::compressed::tokens;
pub use self::compressed::{Compressed, Masked, QuotedMessage};
pub(crate) use self::told_instructions::digest;
pub use self::told_instructions::{ToldFile, ToldInstructions};

/// A turn's number, from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct TurnId(pub u64);

/// The front end that a prompt, a command or an answer came from.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Origin {
    /// An editor, over ACP.
    Editor,
    /// A person at the terminal, or the command line.
    Terminal,
    /// A person at another terminal that has attached to the session.
    Attached(ClientName),
    /// Another agent or tool, over A2A.
    A2a(ClientName),
}

/// Name of a client among others of its kind.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ClientName {
    /// Name that the client has given itself, such as its user agent; empty if it has given none.
    #[serde(default)]
    pub name: String,
    /// Number of the client that people are shown, from 1. The server numbers A2A clients anew after a restart: only
    /// the name tells then which client an earlier event came from.
    #[serde(default)]
    pub number: u64,
    /// The principal that the client has authenticated as, if the server knows its clients by name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub principal: Option<Arc<PrincipalId>>,
}

impl ClientName {
    /// Maximum number of bytes of a name.
    const MAX_NAME_BYTES: usize = 128;

    /// Names a client. Control characters of the name that the client has given itself are left out, and a long name is
    /// cut.
    pub fn new(number: u64, name: &str) -> Self {
        let mut name: String = name.chars().filter(|c| !c.is_control()).collect();
        name.truncate(name.floor_char_boundary(Self::MAX_NAME_BYTES));
        Self { name, number, principal: None }
    }

    /// Returns the same client name with the principal that the client has authenticated as.
    #[must_use]
    pub fn with_principal(self, principal: Option<PrincipalId>) -> Self {
        Self { principal: principal.map(Arc::new), ..self }
    }
}

impl Origin {
    /// Returns the client's principal, if the server knows the client by name.
    pub fn principal(&self) -> Option<&PrincipalId> {
        match self {
            Self::Attached(client) | Self::A2a(client) => client.principal.as_deref(),
            Self::Editor | Self::Terminal => None,
        }
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Editor => f.write_str("the editor"),
            Self::Terminal => f.write_str("the terminal"),
            Self::Attached(terminal) => write!(f, "attached terminal {}", terminal.number),
            Self::A2a(client) => write!(f, "A2A client {}", client.number),
        }?;
        self.principal().map_or(Ok(()), |principal| write!(f, " of {principal}"))
    }
}

/// A part of a prompt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum PromptPart {
    /// Markdown. `@path` in the text mentions a file or directory, if that exists; its content goes with the prompt.
    Text(String),
    /// Data passed along with the prompt, such as standard input. `@path` in the data is no mention.
    Input(String),
    /// A file or directory that is mentioned; its content goes with the prompt.
    Path(String),
    /// A command line that the user runs. It runs without a question to the user; its output goes into the
    /// conversation, but the model is not asked for an answer. Only for a line that a person typed at this machine.
    Shell(String),
    /// An image, a recording or a document that goes with the prompt. A model that does not take data of its type is
    /// told the type in words.
    Media(Media),
    /// A file that goes with the prompt, and is stored beside the session. The model is told the file's path.
    File(PromptFile),
    /// JSON Schema of the answer: the last message of the turn must be JSON that fits the schema. People are not shown
    /// this part.
    AnswerSchema(Value),
}

/// A file beside the session that goes with a prompt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PromptFile {
    /// Name from the sender, for people and the model: one line.
    pub title: String,
    /// Name in the session's own directory.
    pub name: String,
    /// Number of bytes.
    pub bytes: u64,
}

/// Returns `true` if a prompt reads as a slash command: it begins with a slash and a word that is no path.
pub(crate) fn reads_as_command(prompt: &[PromptPart]) -> bool {
    let Some(PromptPart::Text(text)) = prompt.first() else { return false };
    let name = text.trim_start().strip_prefix('/').unwrap_or_default();
    let word = name.split(char::is_whitespace).next().unwrap_or_default();
    !word.is_empty() && !word.contains('/')
}

/// Facts about a prompt that mean something only to the front end that the prompt came through.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct PromptTags {
    /// The client's own key of the prompt, by which a prompt that is sent twice is recognized.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// `true` if the turn is a task of its own, even where all other turns of the session are one task (A2A 0.3).
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub own_task: bool,
    /// Place of the prompt's request in a distributed trace, as the header fields that carry it; empty if the request
    /// is not traced.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub trace: BTreeMap<String, String>,
}

impl PromptTags {
    /// Makes tags with a client's own key of the prompt.
    pub fn key(key: impl Into<String>) -> Self {
        Self { key: Some(key.into()), ..Self::default() }
    }

    /// Returns `true` if there are no tags.
    pub fn is_empty(&self) -> bool {
        self.key.is_none() && !self.own_task && self.trace.is_empty()
    }
}

impl fmt::Display for PromptPart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(text) | Self::Input(text) => f.write_str(text),
            Self::Path(path) => write!(f, "@{path}"),
            Self::Shell(command) => write!(f, "!{command}"),
            Self::Media(media) => write!(f, "[{}]", media.kind()),
            Self::File(file) => write!(f, "[file {}, {} bytes]", file.title, file.bytes),
            // The text of a prompt is also its title, and the arguments of a command.
            Self::AnswerSchema(_) => Ok(()),
        }
    }
}

/// An event of a session: a fact that was appended to the session's log.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(remote = "Self")]
#[expect(missing_docs, reason = "the fields are said once, for the variant")]
pub enum Event {
    /// The session begins: always the first event of a log.
    SessionStarted(Arc<SessionStarted>),
    /// The system instruction, as the model is told it from now on. Appended when the instruction is first made, which
    /// is when a turn first asks the model, and when the instruction has changed.
    SystemPrompt(Arc<str>),
    /// The instructions and surroundings that the model knows from now on, by the system instruction and the texts that
    /// were added since. Appended after these, so that a later process tells the model only changes.
    InstructionsTold(Arc<ToldInstructions>),
    /// A prompt has come, and its turn waits until the turns before it have ended.
    TurnQueued {
        turn: TurnId,
        prompt: Vec<PromptPart>,
        origin: Origin,
        #[serde(default, skip_serializing_if = "PromptTags::is_empty")]
        tags: PromptTags,
    },
    /// The turn begins, as all turns before it have ended.
    TurnStarted { turn: TurnId },
    /// The process that ran the turn has ended, and another process resumes the turn. The model is asked again, and the
    /// text of an answer that was not complete is void.
    TurnResumed { turn: TurnId },
    /// The turn that has started runs the command of this name. The model is not told the prompt.
    CommandStarted { name: String },
    /// Reply of a command that ran without waiting for its turn, because it does not disturb a running turn, which goes
    /// on. Markdown for people; the model is not told it.
    CommandReplied { turn: TurnId, text: String },
    /// Output of a command. Markdown for people; the model is not told it.
    Output(String),
    /// A command has failed, or no command has the name; the reason. Markdown for people; the model is not told it.
    CommandFailed(String),
    /// A command asks the model this, in place of the prompt. If there are no parts, the model is asked again with the
    /// messages so far, without the text of an answer that was cut off.
    Asked(Vec<Part>),
    /// The model is also told this text: with the result of the call, or with the prompt if there is no call.
    Told { call: Option<String>, text: String },
    /// The model is told this text with the next message for it: results of calls, or a prompt.
    ToldNext(String),
    /// The next message for the model is complete: the user's message, or the results of calls. Later events add to a
    /// later message.
    MessageCompleted,
    /// The model is told a summary in place of the messages so far, from now on.
    Compressed(Arc<Compressed>),
    /// The model is told short texts in place of these old results of calls, from now on.
    Masked(Vec<Masked>),
    /// The conversation begins anew: the model is told no message from before.
    Forgotten,
    /// The conversation goes back to before this turn: from now on the model is told no message of this turn, nor of
    /// what followed up to here. Files, settings and allowed scopes stay as they are.
    Rewound { turn: TurnId },
    /// The session has another title from now on. `by_model` is `true` if the model, and no person, has given the
    /// title.
    SessionRenamed {
        title: String,
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        by_model: bool,
    },
    /// Another model answers from now on; its id.
    ModelChanged { model: String },
    /// The model reasons at this level from now on; `None`: at the model's default level.
    ThinkingChanged {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        level: Option<String>,
    },
    /// The model and commands may use only these tools from now on. The tools are named as in policy rules.
    ToolsLimited { tools: Vec<String> },
    /// Another approval mode holds from now on: more, or less, is allowed without a question. `before_plan` is the mode
    /// to which the session returns when plan mode ends, if a command has begun plan mode.
    ModeChanged {
        mode: Mode,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        before_plan: Option<Mode>,
    },
    /// Calls of this scope are always allowed from now on.
    AlwaysAllowed { scope: Scope },
    /// Calls of this scope are no longer always allowed, from now on.
    AlwaysRemoved { scope: Scope },
    /// A chunk of the text of the model's answer.
    Text(String),
    /// A chunk of the model's reasoning.
    Thought(String),
    /// A request to the model has failed, and is sent again.
    Retry(Retry),
    /// A text that people should know and the model is not told.
    Notice(String),
    /// The model's answer is complete: the calls that it asks for, the reason of its end, the tokens that it cost, and
    /// the answer in the provider's own form.
    AnswerFinished { calls: Vec<Call>, reason: FinishReason, usage: Usage, native: Option<Native> },
    /// A call begins, or waits for the answer to its question.
    CallStarted(Arc<CallStarted>),
    /// Whole output of a running call so far. Replaces the earlier `CallProgress` of the call. Not stored: the call's
    /// end, which is stored, has the output.
    CallProgress { call: String, output: String },
    /// The question about a call is closed: by an answer of this origin, or by the turn's end (`None`).
    QuestionClosed { call: String, answer: Option<(Answer, Origin)> },
    /// A call is about to change a file. Appended before the file is touched. If the call did not succeed, only the
    /// file itself tells whether it was changed.
    FileChanged { call: String, change: FileChange },
    /// The change that a call had made in a file is undone.
    FileRestored { call: String, path: PathBuf },
    /// A call has ended.
    CallFinished { call: String, outcome: ToolOutcome },
    /// The session's directory is saved as the running turn has left it.
    WorkspaceSaved(SavedPlace),
    /// The turn has ended.
    TurnFinished { turn: TurnId, reason: StopReason },
    /// A fact that a front end with tasks must know as long as the session exists.
    Task(TaskEvent),
    /// An event that another version of this program wrote, and this version ignores.
    #[serde(skip)]
    Unknown(UnknownEvent),
}

impl Event {
    /// Returns `true` if a session with this event is worth storing, because the model is asked or a tool runs. A
    /// session of slash commands alone is not worth storing, unless they came over the A2A server: its clients know
    /// them by a task id.
    pub(super) fn is_worth_storing(&self) -> bool {
        match self {
            Self::TurnQueued { prompt, origin, .. } => {
                matches!(origin, Origin::A2a(_) | Origin::Attached(_)) || !reads_as_command(prompt)
            }
            // The prompt reads as a command, but the model is asked or a tool runs.
            Self::SystemPrompt(_) | Self::Asked(_) | Self::CallStarted(_) => true,
            _ => false,
        }
    }

    /// Returns `true` if the event is stored. An event that is not stored has an index in the log like any other; the
    /// stored log has a gap there.
    pub fn is_lasting(&self) -> bool {
        match self {
            Self::CallProgress { .. } => false,
            Self::Retry(retry) => retry.discard,
            _ => true,
        }
    }
}

/// A call that begins.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CallStarted {
    /// Name, id and arguments of the call.
    pub call: Call,
    /// The party that wants the call.
    pub caller: Caller,
    /// Kind of the tool.
    pub kind: ToolKind,
    /// Label of the call for people.
    pub summary: Summary,
    /// Files, commands or servers that the call would touch.
    pub access: Access,
    /// Question that the user must answer first; `None` if the call runs at once.
    pub question: Option<Question>,
}

impl CallStarted {
    /// Returns the change that the call would make, if the user can put another text in place of the proposed one.
    pub fn editable(&self) -> Option<&FileDiff> {
        let is_edit = matches!(self.access, Access::Edit { .. });
        self.summary.diff.as_ref().filter(|diff| is_edit && diff.is_editable())
    }

    /// Returns the questions that the call asks the user; empty for any other call.
    pub fn input_questions(&self) -> &[InputQuestion] {
        match &self.access {
            Access::UserInput { questions } => questions,
            _ => &[],
        }
    }
}

/// The party that wants a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Caller {
    /// The model has asked for the call.
    Model,
    /// The prompt: the call reads the paths that the prompt mentions, or runs the command line that the prompt is.
    Prompt,
    /// The agent, which has a question of its own, or a command that runs something. The model is not told of the call.
    Agent,
}

/// Outcome of a call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum ToolOutcome {
    /// The call worked.
    Done(ToolOutput),
    /// The call failed, or a rule did not allow it.
    Failed(ToolError),
    /// The user rejected the call.
    Rejected,
    /// The turn was cancelled before the call ended.
    Cancelled,
    /// The agent's process ended before the call did.
    Interrupted,
    /// An outcome that only another version of this program knows. The call has ended nevertheless.
    #[serde(untagged)]
    Unknown(UnknownOutcome),
}

/// An outcome as JSON, as another version of this program wrote it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct UnknownOutcome(pub Value);

impl UnknownOutcome {
    /// Returns the name of the kind of outcome; empty if there is none.
    pub fn kind(&self) -> &str {
        match &self.0 {
            Value::String(kind) => kind,
            Value::Object(fields) => fields.keys().next().map_or("", String::as_str),
            _ => "",
        }
    }

    /// Returns the text for the model, if it is at a place where outcomes that this version knows have their text.
    pub fn text(&self) -> Option<&str> {
        let content = self.0.as_object()?.values().next()?;
        let text = content.get("text").or_else(|| content.get("message"));
        text.unwrap_or(content).as_str().filter(|text| !text.is_empty())
    }

    /// Returns `true` if the call worked, and this version only does not know the form of its result.
    pub fn is_done(&self) -> bool {
        self.kind() == "Done"
    }
}

impl ToolOutcome {
    /// Returns the name of the kind of outcome, for metrics.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Done(_) => "done",
            Self::Failed(_) => "failed",
            Self::Rejected => "rejected",
            Self::Cancelled => "cancelled",
            Self::Interrupted => "interrupted",
            Self::Unknown(_) => "unknown",
        }
    }
}

/// Reason why a turn ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum StopReason {
    /// The model had nothing more to say.
    EndTurn,
    /// A person or a client cancelled the turn.
    Cancelled {
        /// `true` if the model was answering, `false` if a call was running or awaited an answer.
        answering: bool,
    },
    /// The session was closed before the turn had ended.
    Closed {
        /// `true` if the model was answering, rather than a call running or being asked about.
        answering: bool,
        /// Reason, for people.
        why: String,
    },
    /// A question was not answered within this time.
    Unanswered(Duration),
    /// The model's answer was cut at its output limit.
    MaxTokens,
    /// The model asked for more rounds of calls than are allowed in a turn; the allowed number.
    MaxRounds(usize),
    /// The model has been asked as often as is allowed in a session; the allowed number.
    MaxSessionRounds(usize),
    /// The model repeated itself, and no person wanted the turn to go on; the text says what was repeated.
    Looping(String),
    /// The provider refused to answer; the reason. The model is not told of the turn later.
    Refused(String),
    /// The model's last message did not fit the schema that the prompt asks for, although the model was told its faults.
    /// Holds the faults of the message.
    SchemaMismatch(String),
    /// The model gave no answer that can be used, or the session's directory could not be restored before the turn.
    /// Holds the error.
    Failed(model::Error),
    /// The turn ended by a fault of this program.
    Crashed,
    /// The agent's process ended before the turn did.
    Interrupted,
    /// A reason that only another version of this program knows. The turn has ended nevertheless: it is neither resumed
    /// nor counted as interrupted.
    #[serde(untagged)]
    Unknown(Value),
}

impl StopReason {
    /// Returns the name of the kind of reason, for metrics.
    pub fn name(&self) -> &'static str {
        match self {
            Self::EndTurn => "end_turn",
            Self::Cancelled { .. } => "cancelled",
            Self::Closed { .. } => "closed",
            Self::Unanswered(_) => "unanswered",
            Self::MaxTokens => "max_tokens",
            Self::MaxRounds(_) | Self::MaxSessionRounds(_) => "max_rounds",
            Self::Looping(_) => "looping",
            Self::Refused(_) => "refused",
            Self::SchemaMismatch(_) => "schema_mismatch",
            Self::Failed(_) => "failed",
            Self::Crashed => "crashed",
            Self::Interrupted => "interrupted",
            Self::Unknown(_) => "unknown",
        }
    }
}

/// Version of the format of events. It is raised only if a program that knows this version alone would do harm with
/// newer events.
pub const FORMAT_VERSION: u32 = 1;

/// Conditions under which a session begins.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionStarted {
    /// Version of the format of the events that follow: [`FORMAT_VERSION`].
    pub version: u32,
    /// The session's id, a UUID of version 7: ids sort by the time of their creation.
    pub id: String,
    /// The directory that the session starts in.
    pub directory: PathBuf,
    /// The other directories that the session works in.
    #[serde(default)]
    pub roots: Vec<PathBuf>,
    /// The id of the model that answers first.
    pub model: String,
    /// The approval mode that the session begins with.
    pub mode: Mode,
    /// The program that wrote the event, with its version: `tandem 0.1.0`.
    #[serde(default)]
    pub by: String,
}

impl SessionStarted {
    /// Makes the first event of a session that begins now.
    pub(crate) fn now(id: String, roots: &[PathBuf], model: &str, mode: Mode) -> Self {
        let (directory, roots) = match roots {
            [directory, roots @ ..] => (directory.clone(), roots.to_vec()),
            [] => (PathBuf::new(), Vec::new()),
        };
        Self {
            version: FORMAT_VERSION,
            id,
            directory,
            roots,
            model: model.to_owned(),
            mode,
            by: concat!("tandem ", env!("CARGO_PKG_VERSION")).to_owned(),
        }
    }
}

/// A fact about the tasks that a front end makes of turns. The model is not told it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum TaskEvent {
    /// Clients call the session by this name in place of its own id.
    ContextNamed {
        /// Name of the session, chosen by the first client that named the session.
        context: String,
    },
    /// The session's task was cancelled, although its last turn had ended.
    Cancelled {
        /// The session's last turn; 0 if there was none.
        turn: TurnId,
    },
    /// A receiver is to be notified of a task. Replaces the configuration of the same key.
    PushConfigSet {
        /// Key: the task's id, a slash, and the configuration's id.
        key: String,
        /// The configuration.
        config: PushConfig,
    },
    /// The configuration of this key is deleted: its receiver is no longer notified.
    PushConfigDeleted {
        /// Key: the task's id, a slash, and the configuration's id.
        key: String,
    },
    /// The session belongs to this principal. Appended before any client can open the session.
    Owned {
        /// The principal.
        owner: PrincipalId,
    },
    /// The session is shared from now on.
    Shared {
        /// The name of the member of the owner's tenant.
        name: String,
        /// The member's role.
        role: ShareRole,
    },
    /// The session is no longer shared with a member.
    Unshared {
        /// The member's name.
        name: String,
    },
}

/// A configuration of notifications. The address of its receiver is not in the log: it is a secret of the session
/// ([`Persistence::secret`](crate::session::Persistence::secret)) under the same key.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PushConfig {
    /// The task's id.
    pub task: String,
    /// The turn that is the task, if the task is a turn.
    #[serde(default)]
    pub turn: Option<TurnId>,
    /// The version of the A2A protocol in which notifications are written.
    pub protocol: String,
    /// The receiver, in logs of earlier versions; now null.
    #[serde(default)]
    pub set: Value,
}

/// An event as JSON, exactly as another version wrote it.
#[derive(Debug, Clone)]
pub struct UnknownEvent(Box<RawValue>);

impl UnknownEvent {
    /// Returns the event's JSON.
    pub fn json(&self) -> &str {
        self.0.get()
    }
}

impl PartialEq for UnknownEvent {
    fn eq(&self, other: &Self) -> bool {
        self.json() == other.json()
    }
}

impl Serialize for Event {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Unknown(unknown) => unknown.0.serialize(serializer),
            // Calls the inherent method that the derive makes because of `remote = "Self"`, not this trait method.
            known => Self::serialize(known, serializer),
        }
    }
}

impl<'de> Deserialize<'de> for Event {
    /// Reads an event. Any JSON is accepted: JSON of no known shape becomes an [`Event::Unknown`].
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let json = Box::<RawValue>::deserialize(deserializer)?;
        let known = Self::deserialize(&mut serde_json::Deserializer::from_str(json.get()));
        Ok(known.unwrap_or_else(|_| Self::Unknown(UnknownEvent(json))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slash_and_a_word_that_is_no_path_read_as_a_command() {
        let check = |text: &str, expected| {
            assert_eq!(reads_as_command(&[PromptPart::Text(text.to_owned())]), expected, "{text}");
        };
        for command in ["/help", " /help me\nwith this", "/git:commit", "/server.prompt", "/?"] {
            check(command, true);
        }
        for message in ["", "help", "/", "/ help", "// why?", "/usr/bin/x is broken", "/etc/"] {
            check(message, false);
        }
        assert!(!reads_as_command(&[PromptPart::Input("/help".to_owned())]));
    }
}
