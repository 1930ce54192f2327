//! The parts of a conversation that is exported as a document.

use std::path::PathBuf;

use crate::session::{CallStatus, Millis};

/// A conversation, as people read it.
#[derive(Debug, Clone)]
pub struct Conversation {
    /// The session's id.
    pub id: String,
    /// The session's title; may be empty.
    pub title: String,
    /// The directory that the session starts in.
    pub directory: PathBuf,
    /// Time of the session's creation.
    pub created: Millis,
    /// Number of turns.
    pub turns: u64,
    /// Prompts, answers, calls and remarks, in order.
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
    /// Result of the call, or the change that the call would have made.
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
    /// Returns the title, or a general word if the session has no title.
    pub(super) fn heading(&self) -> &str {
        let title = self.title.trim();
        if title.is_empty() { "Session" } else { title }
    }

    /// Returns the facts below the title: id, directory, time of the creation, number of turns.
    pub(super) fn facts(&self) -> [String; 4] {
        let Self { id, directory, turns, .. } = self;
        let turns = if *turns == 1 { "1 turn".to_owned() } else { format!("{turns} turns") };
        [id.clone(), directory.display().to_string(), day(self.created), turns]
    }
}

/// Returns a time to the minute, in UTC.
fn day(at: Millis) -> String {
    jiff::Timestamp::from_millisecond(at).map_or_else(
        |_| "at an unknown time".to_owned(),
        |at| at.strftime("%Y-%m-%d %H:%M UTC").to_string(),
    )
}

/// Returns `true` if a link leads to a page or a mail address, and does not run anything.
pub(super) fn is_harmless(url: &str) -> bool {
    let lower = url.to_ascii_lowercase();
    ["https://", "http://", "mailto:"].iter().any(|scheme| lower.starts_with(scheme))
}

/// Returns the word for a status.
pub(super) fn status_word(status: CallStatus) -> &'static str {
    match status {
        CallStatus::AwaitingAnswer => "awaiting an answer",
        CallStatus::Running => "running",
        CallStatus::Succeeded => "done",
        CallStatus::Failed => "failed",
        CallStatus::Rejected => "rejected",
        CallStatus::Cancelled => "cancelled",
        CallStatus::Interrupted => "interrupted",
        CallStatus::Unknown => "ended in a way that is not known",
    }
}
