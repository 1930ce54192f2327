//! A terminal attaches to a session of a tandem that runs elsewhere, over a WebSocket at [`PATH`].
//!
//! JSON-RPC, a frame a message; only the terminal calls. Its first call is [`OPEN`]. Then it asks
//! with [`EVENTS`] for the entries of the session's log from an index on, and is answered when there
//! are some: it is told everything once, at its own pace, and a later connection goes on where this
//! one ended. Every other call may be made again when a connection was lost before its answer, and
//! cancelled with `$/cancel_request`.
//!
//! What is the session's own (events, parts of prompts, answers) stands here as types `E`, `P`, `A`.

use serde::{Deserialize, Serialize};

/// Where on the server.
pub const PATH: &str = "/attach";

/// Both ends must speak the same one.
pub const VERSION: u32 = 3;

/// Joins a session: [`Open`] to [`Opening`].
pub const OPEN: &str = "attach/open";
/// What has happened: [`Since`] to [`Happened`].
pub const EVENTS: &str = "attach/events";
/// The person says something: [`Prompt`] to null.
pub const PROMPT: &str = "attach/prompt";
/// Ends a turn: [`Turn`] to whether it had not ended.
pub const CANCEL: &str = "attach/cancel";
/// Takes back a prompt that waits: [`Turn`] to whether it still did.
pub const TAKE_BACK: &str = "attach/takeBack";
/// Answers a question: [`Answering`] to the session's own result.
pub const ANSWER: &str = "attach/answer";
/// Another approval mode: [`SetMode`] to null.
pub const SET_MODE: &str = "attach/setMode";
/// What a prompt can mention, files and what MCP servers have: [`Files`] to the names.
pub const FILES: &str = "attach/files";
/// Lists the commands that only this session has, the prompts of MCP servers and the user's own:
/// null to the session's own descriptions of them.
pub const PROMPTS: &str = "attach/prompts";

/// The code of an error that says in `data.details`, for the person, why something is not done.
pub const REFUSED: i64 = -32000;

/// The part of [`Open`] that every version has.
#[derive(Debug, Serialize, Deserialize)]
pub struct Version {
    /// [`VERSION`] of whoever sends it.
    pub version: u32,
}

/// Which session, for whom.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Open {
    /// [`VERSION`].
    pub version: u32,
    /// A name that the terminal has made up for itself: its later connections are told by it.
    pub terminal: String,
    /// Which session.
    pub session: Wanted,
}

/// Which session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Wanted {
    /// The only one; if there is none, a new one in this directory.
    Only(String),
    /// The one whose id begins or ends so.
    Id(String),
    /// A new one in this directory.
    New(String),
}

/// What comes of [`OPEN`].
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Opening {
    /// It is joined.
    Opened(Opened),
    /// It is not clear which one is meant; all there are, the last one used first.
    Choose(Vec<Listed>),
}

/// A session that is joined.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Opened {
    /// The session's id.
    pub session: String,
    /// The terminal's number in this session, from 1.
    pub number: u64,
    /// The directory that it works in.
    pub directory: String,
    /// The id of the model that answers.
    pub model: String,
    /// The approval mode, by its name.
    pub mode: String,
    /// The modes that there can be, by their names; all, if it is not said.
    #[serde(default)]
    pub modes: Vec<String>,
    /// How long a frame may be that the agent takes, in bytes.
    pub frame_bytes: usize,
}

/// A session that could be joined.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Listed {
    /// Its id.
    pub id: String,
    /// The directory that it works in.
    pub directory: String,
    /// How many prompts there were.
    pub prompts: usize,
    /// The beginning of the last one.
    pub last: String,
    /// When something last happened, in milliseconds since the beginning of 1970, UTC.
    pub at: i64,
    /// Whether the agent is at work.
    pub busy: bool,
}

/// From where on.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct Since {
    /// The index of the first entry.
    pub from: usize,
    /// How large an event may be that is sent, in bytes.
    pub bytes: usize,
}

/// Some of what has happened, in order; more may have.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Happened<E> {
    /// What.
    pub entries: Vec<Entry<E>>,
    /// From where to ask on.
    pub next: usize,
    /// How many tokens the model can be told, if that is known.
    pub input_limit: Option<u64>,
}

/// An entry of the session's log.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Entry<E> {
    /// Its place.
    pub index: usize,
    /// When it happened, in milliseconds since the beginning of 1970, UTC.
    pub at: i64,
    /// What happened; nothing if that is too large.
    pub event: Option<E>,
}

/// Something said.
#[derive(Debug, Serialize, Deserialize)]
pub struct Prompt<P> {
    /// The terminal counts its prompts, from 1: none is taken twice.
    pub number: u64,
    /// What was said.
    pub parts: Vec<P>,
}

/// A turn.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct Turn {
    /// Its number.
    pub turn: u64,
}

/// An answer to a question.
#[derive(Debug, Serialize, Deserialize)]
pub struct Answering<A> {
    /// The id of the call that was asked about.
    pub call: String,
    /// The answer.
    pub answer: A,
}

/// An approval mode.
#[derive(Debug, Serialize, Deserialize)]
pub struct SetMode {
    /// Its name.
    pub mode: String,
}

/// Files that are wanted.
#[derive(Debug, Serialize, Deserialize)]
pub struct Files {
    /// How many at most.
    pub most: usize,
}
