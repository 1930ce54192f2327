//! What happens in a session: plain data, the only lasting state.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::compress::{Compressed, Masked};
use crate::model::{self, Call, FinishReason, Native, Part, Retry, Usage};
use crate::permission::{Mode, Question, Scope};
use crate::tools::preimages::FileChange;
use crate::tools::{Access, Kind, Summary, ToolError, ToolOutput};

/// A turn's number, from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct TurnId(pub u64);

/// Which front end something came from.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Origin {
    /// An editor, over ACP.
    Editor,
    /// A person at the terminal, or the command line.
    Terminal,
    /// A person at another terminal that has attached to the session; its number, from 1.
    Attached(u64),
    /// Another agent or tool, over A2A; the number of its connection or request, from 1.
    A2a(u64),
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Editor => f.write_str("the editor"),
            Self::Terminal => f.write_str("the terminal"),
            Self::Attached(terminal) => write!(f, "attached terminal {terminal}"),
            Self::A2a(client) => write!(f, "A2A client {client}"),
        }
    }
}

/// A part of what the user said.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum PromptPart {
    /// Markdown. `@path` in it mentions a file or directory, if there is one, whose content goes
    /// with the prompt.
    Text(String),
    /// What was given beside it, such as standard input: nothing in it is a mention.
    Input(String),
    /// A file or directory that is mentioned; its content goes with the prompt.
    Path(String),
    /// A command line that the user runs: it is run without a question, the model sees what it
    /// wrote, and is not asked. Only for what a person typed at this machine.
    Shell(String),
}

impl fmt::Display for PromptPart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(text) | Self::Input(text) => f.write_str(text),
            Self::Path(path) => write!(f, "@{path}"),
            Self::Shell(command) => write!(f, "!{command}"),
        }
    }
}

/// Something that happened.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the fields are said once, for the variant")]
pub enum Event {
    /// The user said something. It waits until the turns before it have ended.
    TurnQueued { turn: TurnId, prompt: Vec<PromptPart>, origin: Origin },
    /// Its turn has come.
    TurnStarted { turn: TurnId },
    /// The turn that has started is a command's, of this name: what the user said is not told to
    /// the model.
    CommandStarted { name: String },
    /// What a command says to people: Markdown, and not told to the model.
    Output(String),
    /// A command does not work, or there is none of that name; why: Markdown for people, and not
    /// told to the model.
    CommandFailed(String),
    /// A command asks the model this, in place of what the user said.
    Asked(Vec<Part>),
    /// The model is told this too: with the result of a call, or else with the prompt.
    Told { call: Option<String>, text: String },
    /// The model is told this when it is next told something: results of calls, or a prompt.
    ToldNext(String),
    /// What came before is told the model in short from now on.
    Compressed(Arc<Compressed>),
    /// Old results are told the model in short from now on.
    Masked(Vec<Masked>),
    /// The model forgets all that came before.
    Forgotten,
    /// Another model answers from now on; its id.
    ModelChanged { model: String },
    /// More, or less, is allowed without a question from now on.
    ModeChanged { mode: Mode },
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
    /// All that a running call has said so far. Takes the place of the one before.
    CallProgress { call: String, output: String },
    /// A question is closed; by whom, unless the turn's end closed it.
    QuestionClosed { call: String, answer: Option<(Answer, Origin)> },
    /// A call has changed a file.
    FileChanged { call: String, change: FileChange },
    /// What a call had changed in a file is taken back.
    FileRestored { call: String, path: PathBuf },
    /// A call has ended.
    CallFinished { call: String, outcome: ToolOutcome },
    /// The turn has ended.
    TurnFinished { turn: TurnId, reason: StopReason },
}

/// A call that begins.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CallStarted {
    /// What is called.
    pub call: Call,
    /// Who wants it.
    pub caller: Caller,
    /// What kind of tool it is.
    pub kind: Kind,
    /// What people are shown of it.
    pub summary: Summary,
    /// What it would touch.
    pub access: Access,
    /// What is asked first; nothing if it runs at once.
    pub question: Option<Question>,
}

/// Who wants a call.
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

/// The user's answer to a question.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Answer {
    /// This once; with the content the user put in place of what was proposed, if so.
    Once {
        /// Only for a change of a file.
        edited: Option<String>,
    },
    /// From now on; one of the question's scopes.
    Always(Scope),
    /// From now on and in later sessions too, where the question says that this can be.
    AlwaysAndSave(Scope),
    /// No.
    Reject,
    /// No; and what the user says to the model about it.
    RejectSaying(String),
    /// No, and the turn ends.
    Cancel,
    /// The front end could not make out its user's answer; why. The call fails.
    Unclear(String),
    /// Nobody can be asked; what the model is told of that. The call fails.
    Nobody(String),
}

/// What came of a call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum ToolOutcome {
    /// It worked.
    Done(ToolOutput),
    /// It did not, or may not.
    Failed(ToolError),
    /// The user did not want it.
    Rejected,
    /// The turn was cancelled first.
    Cancelled,
}

/// Why a turn ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum StopReason {
    /// The model had nothing more to say.
    EndTurn,
    /// Somebody cancelled it.
    Cancelled {
        /// Whether the model was answering, rather than a call running or being asked about.
        answering: bool,
    },
    /// The session was closed before the turn had ended.
    Closed {
        /// `true` if the model was answering, rather than a call running or being asked about.
        answering: bool,
        /// Why, for people.
        why: String,
    },
    /// Nobody answered a question; how long that was waited for.
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
}
