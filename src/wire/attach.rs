//! A terminal attaches to a session of a tandem that runs elsewhere, over a WebSocket at [`PATH`].
//!
//! JSON-RPC, a frame a message; only the terminal calls. Its first call is [`OPEN`]. Then it requests
//! with [`EVENTS`] the entries of the session's log from an index on, and is answered when there are
//! some: it gets each entry once, at its own pace, and a later connection goes on where this one
//! ended. Every other call may be made again when a connection was lost before its answer, and
//! cancelled with `$/cancel_request`.
//!
//! The session's own types (events, parts of prompts, answers) are the parameters `E`, `P`, `A`.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::jsonrpc::Error;

/// Path on the server.
pub const PATH: &str = "/attach";

/// Version of this protocol; both ends must speak the same one.
pub const VERSION: u32 = 3;

/// Joins a session: [`OpenParams`] to [`OpenResult`].
pub const OPEN: &str = "attach/open";
/// Reads the log: [`EventsParams`] to [`EventsResult`].
pub const EVENTS: &str = "attach/events";
/// Queues a prompt of the user: [`PromptParams`] to null.
pub const PROMPT: &str = "attach/prompt";
/// Ends a turn: [`TurnParams`] to a boolean, `true` if the turn had not ended.
pub const CANCEL: &str = "attach/cancel";
/// Takes back a queued prompt: [`TurnParams`] to a boolean, `true` if it was still queued.
pub const TAKE_BACK: &str = "attach/takeBack";
/// Answers a question: [`AnswerParams`] to the session's own result.
pub const ANSWER: &str = "attach/answer";
/// Changes the approval mode: [`SetModeParams`] to null.
pub const SET_MODE: &str = "attach/setMode";
/// Lists the names that a prompt can mention, files and resources of MCP servers: [`FilesParams`] to
/// the names.
pub const FILES: &str = "attach/files";
/// Lists the commands that only this session has, the prompts of MCP servers and the user's own:
/// null to the session's own descriptions of them.
pub const PROMPTS: &str = "attach/prompts";

/// Code of an error whose `data.details` tells the user why a call was refused.
pub const REFUSED: i64 = -32000;

/// Returns the error for a call that is refused.
pub fn refused(why: impl fmt::Display) -> Error {
    Error::detailed(REFUSED, "Refused", why)
}

/// The part of [`OpenParams`] that every version has.
#[derive(Debug, Serialize, Deserialize)]
pub struct VersionParams {
    /// [`VERSION`] of the terminal.
    pub version: u32,
}

/// Parameters of [`OPEN`].
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct OpenParams {
    /// [`VERSION`].
    pub version: u32,
    /// Name that the terminal has made up for itself: it identifies later connections.
    pub terminal: String,
    /// Session to join.
    pub session: SessionSelector,
}

/// Choice of a session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum SessionSelector {
    /// The only one; if there is none, a new one in this directory.
    Only(String),
    /// The one whose id begins or ends with this.
    Id(String),
    /// A new one in this directory.
    New(String),
}

/// Result of [`OPEN`].
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum OpenResult {
    /// The session is joined.
    Opened(OpenedSession),
    /// The choice is ambiguous: all sessions, the last used first.
    Choose(Vec<ListedSession>),
}

/// A session that is joined.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OpenedSession {
    /// The session's id.
    pub session: String,
    /// The terminal's number in this session, from 1.
    pub number: u64,
    /// Working directory of the session.
    pub directory: String,
    /// Id of the session's model.
    pub model: String,
    /// Name of the approval mode.
    pub mode: String,
    /// Names of the available modes; all, if the list is missing.
    #[serde(default)]
    pub modes: Vec<String>,
    /// Maximum size of a frame that the agent takes, in bytes.
    pub frame_bytes: usize,
}

/// A session that can be joined.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListedSession {
    /// The session's id.
    pub id: String,
    /// Working directory of the session.
    pub directory: String,
    /// Number of prompts.
    pub prompts: usize,
    /// Beginning of the last prompt.
    pub last: String,
    /// Time of the last use, in milliseconds since the beginning of 1970, UTC.
    pub at: i64,
    /// `true` if a turn runs.
    pub busy: bool,
}

/// Parameters of [`EVENTS`].
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct EventsParams {
    /// Index of the first entry.
    pub from: usize,
    /// Maximum size of an event that is sent, in bytes.
    pub bytes: usize,
}

/// Result of [`EVENTS`]: some entries in order; there may be more.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EventsResult<E> {
    /// The entries.
    pub entries: Vec<LogEntry<E>>,
    /// Index to continue from.
    pub next: usize,
    /// Maximum prompt size of the model in tokens, if known.
    pub input_limit: Option<u64>,
}

/// An entry of the session's log.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct LogEntry<E> {
    /// Index in the log.
    pub index: usize,
    /// Time of the event, in milliseconds since the beginning of 1970, UTC.
    pub at: i64,
    /// The event; `None` if it is too large.
    pub event: Option<E>,
}

/// Parameters of [`PROMPT`].
#[derive(Debug, Serialize, Deserialize)]
pub struct PromptParams<P> {
    /// Number of the terminal's prompt, from 1: none is taken twice.
    pub number: u64,
    /// Parts of the prompt.
    pub parts: Vec<P>,
}

/// Parameters of [`CANCEL`] and [`TAKE_BACK`].
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct TurnParams {
    /// Number of the turn.
    pub turn: u64,
}

/// Parameters of [`ANSWER`].
#[derive(Debug, Serialize, Deserialize)]
pub struct AnswerParams<A> {
    /// Id of the call that the question is about.
    pub call: String,
    /// The answer.
    pub answer: A,
}

/// Parameters of [`SET_MODE`].
#[derive(Debug, Serialize, Deserialize)]
pub struct SetModeParams {
    /// Name of the approval mode.
    pub mode: String,
}

/// Parameters of [`FILES`].
#[derive(Debug, Serialize, Deserialize)]
pub struct FilesParams {
    /// Maximum number of names.
    pub most: usize,
}
