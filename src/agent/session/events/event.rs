//! Events of a session: plain data, the only lasting state.
//!
//! Events are a format that outlives the program (`fixtures/store/v1`): a variant or a field is
//! never renamed, removed or used for something else, a new field has `#[serde(default)]`, and an
//! event that this version does not know is an [`Event::Unknown`], kept and written again as it was.

mod compressed;

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
use tandem_content::media::Media;
use tandem_host::preimages::FileChange;
use tandem_host::{Access, Summary, ToolError, ToolKind, ToolOutput};
use tandem_model::{self as model, Call, FinishReason, Native, Part, Retry, Usage};
use tandem_policy::{Answer, Mode, Question, Scope};

pub(crate) use self::compressed::tokens;
pub use self::compressed::{Compressed, Masked, QuotedMessage};

/// A turn's number, from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct TurnId(pub u64);

/// The front end that something came from.
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
    /// Number that people are shown, from 1. Only the name says more of it after a restart.
    #[serde(default)]
    pub number: u64,
    /// The principal that the server knows the client to be, if it knows its clients by name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub principal: Option<Arc<PrincipalId>>,
}

impl ClientName {
    /// Bytes of a name at most.
    const LONGEST: usize = 128;

    /// Names a client. Of what it says of itself, control characters are left out, and the end if
    /// it is long.
    pub fn new(number: u64, name: &str) -> Self {
        let mut name: String = name.chars().filter(|c| !c.is_control()).collect();
        name.truncate(name.floor_char_boundary(Self::LONGEST));
        Self { name, number, principal: None }
    }

    /// Returns the same with the principal that the server knows the client to be.
    #[must_use]
    pub fn of(self, principal: Option<PrincipalId>) -> Self {
        Self { principal: principal.map(Arc::new), ..self }
    }
}

impl Origin {
    /// Returns the principal that something came from, if the server knows the client by name.
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

/// A part of what the user said.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum PromptPart {
    /// Markdown. `@path` in it mentions a file or directory, if there is one, whose content goes
    /// with the prompt.
    Text(String),
    /// Data passed along with the prompt, such as standard input: nothing in it is a mention.
    Input(String),
    /// A file or directory that is mentioned; its content goes with the prompt.
    Path(String),
    /// A command line that the user runs: it is run without a question, the model sees what it
    /// wrote, and is not asked. Only for what a person typed at this machine.
    Shell(String),
    /// An image, a recording or a document that goes with the prompt. A model that does not take
    /// its type is told the type in words.
    Media(Media),
    /// A file that goes with the prompt, and is beside the session: the model is told where.
    File(PromptFile),
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

/// Facts about a prompt that only the front end knows that it came through.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct PromptTags {
    /// The client's own key of the prompt, by which one that is sent again is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// `true` if the turn is a task of its own where the others are one.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub own_task: bool,
    /// Place in the trace of the request that it came by, as the fields that carry it; nothing if that is not
    /// traced.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub trace: BTreeMap<String, String>,
}

impl PromptTags {
    /// Tags with a client's own key.
    pub fn key(key: impl Into<String>) -> Self {
        Self { key: Some(key.into()), ..Self::default() }
    }

    /// Returns whether there is nothing to know.
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
        }
    }
}

/// Something that happened.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(remote = "Self")]
#[expect(missing_docs, reason = "the fields are said once, for the variant")]
pub enum Event {
    /// The session begins: always the first event of a log.
    SessionStarted(Arc<SessionStarted>),
    /// The system instruction, as the model is told it from now on. Written down when it is first
    /// made, and when it has become another: nothing of it is known before a turn asks the model.
    SystemPrompt(Arc<str>),
    /// The user said something. It waits until the turns before it have ended.
    TurnQueued {
        turn: TurnId,
        prompt: Vec<PromptPart>,
        origin: Origin,
        #[serde(default, skip_serializing_if = "PromptTags::is_empty")]
        tags: PromptTags,
    },
    /// The turn begins: those before it have ended.
    TurnStarted { turn: TurnId },
    /// The process that ran the turn has ended, and another goes on with it: the model is asked again,
    /// and what it had said of an answer that was not whole is void.
    TurnResumed { turn: TurnId },
    /// The turn that has started is a command's, of this name: what the user said is not told to
    /// the model.
    CommandStarted { name: String },
    /// Reply of a command that did not wait for its turn, because it is in the way of no other: Markdown for
    /// people, not told to the model. The turn that runs goes on.
    CommandReplied { turn: TurnId, text: String },
    /// Output of a command for people: Markdown, not told to the model.
    Output(String),
    /// A command does not work, or there is none of that name; why: Markdown for people, and not
    /// told to the model.
    CommandFailed(String),
    /// A command asks the model this, in place of what the user said. If it is nothing, the model is
    /// asked with the messages that there are, without what an answer had before it was cut off.
    Asked(Vec<Part>),
    /// The model is told this too: with the result of a call, or else with the prompt.
    Told { call: Option<String>, text: String },
    /// The model is told this when it is next told something: results of calls, or a prompt.
    ToldNext(String),
    /// The message that the model is told next is whole: the user's, or the results of calls. What comes
    /// afterwards is part of a later message.
    MessageCompleted,
    /// The messages so far are summarized for the model from now on.
    Compressed(Arc<Compressed>),
    /// Old results are told the model in short from now on.
    Masked(Vec<Masked>),
    /// The model forgets all that came before.
    Forgotten,
    /// From now on, the model has never been told of this turn, nor of anything after it up to here.
    /// Files, settings and what people have allowed are as they are.
    Rewound { turn: TurnId },
    /// The session has another title from now on. `by_model`: no person has given it.
    SessionRenamed {
        title: String,
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        by_model: bool,
    },
    /// Another model answers from now on; its id.
    ModelChanged { model: String },
    /// The model thinks this much from now on; as much as without a choice, if there is no level.
    ThinkingChanged {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        level: Option<String>,
    },
    /// The model and commands may use these tools alone from now on, named as rules name tools.
    ToolsLimited { tools: Vec<String> },
    /// More, or less, is allowed without a question from now on. `before_plan`: the mode that ends
    /// plan mode, if a command has begun that.
    ModeChanged {
        mode: Mode,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        before_plan: Option<Mode>,
    },
    /// From now on, this is always allowed.
    AlwaysAllowed { scope: Scope },
    /// From now on, this is no longer always allowed.
    AlwaysRemoved { scope: Scope },
    /// The model says more.
    Text(String),
    /// The model thinks aloud.
    Thought(String),
    /// The model is asked again.
    Retry(Retry),
    /// Something that people should know and the model need not.
    Notice(String),
    /// The model's answer is whole; its calls, as the provider sent it, and what it cost.
    AnswerFinished { calls: Vec<Call>, reason: FinishReason, usage: Usage, native: Option<Native> },
    /// A call begins, or is asked about.
    CallStarted(Arc<CallStarted>),
    /// All that a running call has said so far. Takes the place of the one before. Live only: its
    /// end is in the log, and this is not kept.
    CallProgress { call: String, output: String },
    /// A question is closed; by whom, unless the turn's end closed it.
    QuestionClosed { call: String, answer: Option<(Answer, Origin)> },
    /// A call changes a file. Announced before the file is touched: of a call that was not done,
    /// only the file itself tells whether it was changed.
    FileChanged { call: String, change: FileChange },
    /// The change that a call had made in a file is undone.
    FileRestored { call: String, path: PathBuf },
    /// A call has ended.
    CallFinished { call: String, outcome: ToolOutcome },
    /// The session's directory is saved as the turn that runs has left it.
    WorkspaceSaved(SavedPlace),
    /// The turn has ended.
    TurnFinished { turn: TurnId, reason: StopReason },
    /// Something that a front end with tasks must know as long as the session lives.
    Task(TaskEvent),
    /// Something that another version of this program wrote. Means nothing to this one.
    #[serde(skip)]
    Unknown(UnknownEvent),
}

impl Event {
    /// Returns `true` if a session with this event is worth storing: the model is asked, or something runs. Slash
    /// commands alone are not, unless a client of the A2A server knows their task by its id.
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

    /// Returns whether the event is part of what outlives the process. One that is not has an index
    /// like any other, and leaves a gap there.
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

/// The party that wants a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Caller {
    /// The model asked for it.
    Model,
    /// The prompt mentions paths, and this reads them; or it is a command line, and this runs it.
    Prompt,
    /// The agent itself has something to ask, or a command has something to run: the model is not
    /// told of the call.
    Agent,
}

/// Outcome of a call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum ToolOutcome {
    /// The call worked.
    Done(ToolOutput),
    /// The call did not work, or was not allowed by a rule.
    Failed(ToolError),
    /// The user did not want it.
    Rejected,
    /// The turn was cancelled first.
    Cancelled,
    /// The agent was stopped first.
    Interrupted,
    /// An outcome of another version of this program. The call has ended all the same.
    #[serde(untagged)]
    Unknown(UnknownOutcome),
}

/// An outcome as another version wrote it.
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

    /// Returns the text for the model, if it is where the outcomes have theirs that this version knows.
    pub fn text(&self) -> Option<&str> {
        let content = self.0.as_object()?.values().next()?;
        let text = content.get("text").or_else(|| content.get("message"));
        text.unwrap_or(content).as_str().filter(|text| !text.is_empty())
    }

    /// Returns `true` if the call worked, and only its result is of a kind that this version does not know.
    pub fn is_done(&self) -> bool {
        self.kind() == "Done"
    }
}

impl ToolOutcome {
    /// Returns the name of the kind of outcome, for figures.
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
    /// Somebody cancelled it.
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
    /// A question had no answer within this time.
    Unanswered(Duration),
    /// The model's answer was cut at its output limit.
    MaxTokens,
    /// The model asked for more rounds of calls than are allowed in a turn; how many those are.
    MaxRounds(usize),
    /// The model has been asked as often as is allowed in a session; how often that is.
    MaxSessionRounds(usize),
    /// The model repeated itself, and nobody wanted that to go on; what it repeated.
    Looping(String),
    /// The provider would not have it said; why. The turn is left out of what the model is told.
    Refused(String),
    /// The model could not be reached, or answered nonsense.
    Failed(model::Error),
    /// A fault of this program.
    Crashed,
    /// The agent was stopped before the turn had ended.
    Interrupted,
    /// A reason of another version of this program. The turn has ended all the same: it neither goes on nor is
    /// interrupted.
    #[serde(untagged)]
    Unknown(Value),
}

impl StopReason {
    /// Returns the name of the kind of reason, for figures.
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
            Self::Failed(_) => "failed",
            Self::Crashed => "crashed",
            Self::Interrupted => "interrupted",
            Self::Unknown(_) => "unknown",
        }
    }
}

/// Version of the format of events. Another one only if a program that knows this one would do harm.
pub const FORMAT: u32 = 1;

/// Conditions under which a session begins.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionStarted {
    /// Version of the format of the events that follow: [`FORMAT`].
    pub version: u32,
    /// The session's id, a UUID of version 7: those that are newer come later in their order.
    pub id: String,
    /// The directory that the session starts in.
    pub directory: PathBuf,
    /// The other directories that it works in.
    #[serde(default)]
    pub roots: Vec<PathBuf>,
    /// The id of the model that answers first.
    pub model: String,
    /// The approval mode at first.
    pub mode: Mode,
    /// The program that wrote the event, with its version: `tandem 0.1.0`.
    #[serde(default)]
    pub by: String,
}

impl SessionStarted {
    /// Describes a session of this program that begins now.
    pub(crate) fn now(id: String, roots: &[PathBuf], model: &str, mode: Mode) -> Self {
        let (directory, roots) = match roots {
            [directory, roots @ ..] => (directory.clone(), roots.to_vec()),
            [] => (PathBuf::new(), Vec::new()),
        };
        Self {
            version: FORMAT,
            id,
            directory,
            roots,
            model: model.to_owned(),
            mode,
            by: concat!("tandem ", env!("CARGO_PKG_VERSION")).to_owned(),
        }
    }
}

/// A fact about the tasks that a front end makes of turns. The model is told nothing of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum TaskEvent {
    /// Clients name the session so, and not by its own id.
    ContextNamed {
        /// The name, as the first client has chosen it.
        context: String,
    },
    /// The session's task was cancelled, although its last turn had ended.
    Cancelled {
        /// That turn; 0 if there was none.
        turn: TurnId,
    },
    /// Somebody is to be notified of a task, in place of the configuration of the same key.
    PushConfigSet {
        /// Task and configuration.
        key: String,
        /// The configuration.
        config: PushConfig,
    },
    /// Nobody is notified any more under this key.
    PushConfigDeleted {
        /// Task and configuration.
        key: String,
    },
    /// The session belongs to this principal. Recorded before anybody can open the session.
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

/// A configuration of notifications. Its receiver is a secret of the session
/// ([`Persistence::secret`](crate::session::Persistence::secret)), of the same key.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PushConfig {
    /// The task's id.
    pub task: String,
    /// The turn that the task is, if it is one.
    #[serde(default)]
    pub turn: Option<TurnId>,
    /// The version of the protocol that notifications are written in.
    pub protocol: String,
    /// The receiver, in logs of earlier versions; now nothing.
    #[serde(default)]
    pub set: Value,
}

/// An event as JSON, exactly as another version wrote it.
#[derive(Debug, Clone)]
pub struct UnknownEvent(Box<RawValue>);

impl UnknownEvent {
    /// The JSON.
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
            // The derived one, which is no trait's.
            known => Self::serialize(known, serializer),
        }
    }
}

impl<'de> Deserialize<'de> for Event {
    /// Reads an event. Any JSON is one: what is of no known shape is [`Event::Unknown`].
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
