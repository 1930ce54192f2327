//! Protocol of a terminal that attaches to a session of a tandem process elsewhere, over a WebSocket at
//! [`ATTACH_PATH`].
//!
//! The messages are JSON-RPC, one in each frame, and only the terminal sends requests. The first request is
//! [`OPEN_METHOD`]. Then the terminal requests with [`EVENTS_METHOD`] the entries of the session's log from an index
//! on. The request is answered as soon as there are such entries. So the terminal gets each entry once, at its own
//! pace, and a later connection continues where a lost one ended. If a connection is lost before the answer to another
//! request, the terminal may send that request again. Requests are cancelled with `$/cancel_request`.
//!
//! The session's own types (events, parts of prompts, answers) are the type parameters `E`, `P`, `A`.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::jsonrpc::Error;

/// Path of the WebSocket on the server.
pub const ATTACH_PATH: &str = "/attach";

/// Version of this protocol; both ends must speak the same version.
pub const PROTOCOL_VERSION: u32 = 3;

/// Joins a session: [`OpenParams`] to [`OpenResult`].
pub const OPEN_METHOD: &str = "attach/open";
/// Reads the log: [`EventsParams`] to [`EventsResult`].
pub const EVENTS_METHOD: &str = "attach/events";
/// Queues a prompt of the user: [`PromptParams`] to null.
pub const PROMPT_METHOD: &str = "attach/prompt";
/// Ends a turn: [`TurnParams`] to a boolean, `true` if the turn had not ended.
pub const CANCEL_METHOD: &str = "attach/cancel";
/// Takes back a queued prompt: [`TurnParams`] to a boolean, `true` if the prompt was still queued.
pub const TAKE_BACK: &str = "attach/takeBack";
/// Answers a question: [`AnswerParams`] to the session's own result.
pub const ANSWER_METHOD: &str = "attach/answer";
/// Changes the approval mode: [`SetModeParams`] to null.
pub const SET_MODE: &str = "attach/setMode";
/// Lists the names that a prompt can mention (files and resources of MCP servers): [`FilesParams`] to the names.
pub const FILES_METHOD: &str = "attach/files";
/// Lists the commands that only this session has (prompts of MCP servers, and the user's own commands): null to the
/// session's descriptions of the commands.
pub const PROMPTS_METHOD: &str = "attach/prompts";

/// Error code of a refused call; `data.details` of the error tells the user why.
pub const REFUSED_CODE: i64 = -32000;

/// Returns the error for a call that is refused.
pub fn refused(why: impl fmt::Display) -> Error {
    Error::detailed(REFUSED_CODE, "Refused", why)
}

/// Part of [`OpenParams`] that every version of the protocol has.
#[derive(Debug, Serialize, Deserialize)]
pub struct VersionParams {
    /// [`PROTOCOL_VERSION`] of the terminal's program.
    pub version: u32,
}

/// Parameters of [`OPEN_METHOD`].
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct OpenParams {
    /// [`PROTOCOL_VERSION`].
    pub version: u32,
    /// Name that the terminal has chosen for itself, by which later connections of the terminal are recognised.
    pub terminal: String,
    /// Session to join.
    pub session: SessionSelector,
}

/// Choice of a session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum SessionSelector {
    /// The only session; if there is none, a new session in this directory.
    Only(String),
    /// The session whose id begins or ends with this text.
    Id(String),
    /// A new session in this directory.
    New(String),
}

/// Result of [`OPEN_METHOD`].
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum OpenResult {
    /// The session is joined.
    Opened(OpenedSession),
    /// The choice is ambiguous; holds all sessions to choose from, the last used first.
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
    /// Names of the available modes; a missing list means all modes.
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
    /// Beginning of the text of the last prompt.
    pub last: String,
    /// Time of the last use, in milliseconds since the beginning of 1970, UTC.
    pub at: i64,
    /// `true` if a turn runs.
    pub busy: bool,
}

/// Parameters of [`EVENTS_METHOD`].
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct EventsParams {
    /// Index of the first entry.
    pub from: usize,
    /// Maximum size of one event that the server sends, in bytes.
    pub bytes: usize,
}

/// Result of [`EVENTS_METHOD`]: some entries in order. There may be more entries after them.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EventsResult<E> {
    /// The entries.
    pub entries: Vec<LogEntry<E>>,
    /// Index to continue from.
    pub next: usize,
    /// Input limit of the model in tokens, if known.
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

/// Parameters of [`PROMPT_METHOD`].
#[derive(Debug, Serialize, Deserialize)]
pub struct PromptParams<P> {
    /// Number of the prompt among the terminal's prompts, from 1. A number is accepted once only, so a prompt that is
    /// sent again is not run again.
    pub number: u64,
    /// Parts of the prompt.
    pub parts: Vec<P>,
}

/// Parameters of [`CANCEL_METHOD`] and [`TAKE_BACK`].
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct TurnParams {
    /// Number of the turn.
    pub turn: u64,
}

/// Parameters of [`ANSWER_METHOD`].
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

/// Parameters of [`FILES_METHOD`].
#[derive(Debug, Serialize, Deserialize)]
pub struct FilesParams {
    /// Maximum number of names to return.
    pub most: usize,
}
