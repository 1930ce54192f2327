//! Events of a conversation that is shortened for the model: summaries and masked results.

use std::fmt;

use serde::{Deserialize, Serialize};

use tandem_host::Todo;
use tandem_model::Usage;

/// The beginning of a compressed conversation, as the log has it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Compressed {
    /// The model's summary.
    pub snapshot: String,
    /// The user's messages that the model is told word for word, oldest first.
    pub said: Vec<QuotedMessage>,
    /// Number of the user's earlier messages that are only in the snapshot.
    pub unsaid: usize,
    /// The files that have all of it, the oldest first: their names in the session's own directory.
    pub whole: Vec<String>,
    /// The files that calls have changed, each once, the last change last.
    pub changed: Vec<String>,
    /// The files that calls have read and not changed.
    pub read: Vec<String>,
    /// The todo list.
    pub todos: Vec<Todo>,
    /// Index in the log: messages that begin there or later stay as they are.
    pub from: usize,
    /// Tokens before, about.
    pub before: u64,
    /// Tokens after, about.
    pub after: u64,
    /// Tokens that the summary cost.
    pub usage: Usage,
}

/// A message of the user's that the log has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct QuotedMessage {
    /// Index in the log where the message begins.
    pub at: usize,
    /// Number of characters that it is cut to, if it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chars: Option<usize>,
}

impl fmt::Display for Compressed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (before, after) = (tokens(self.before), tokens(self.after));
        write!(f, "context compressed from {before} to {after} tokens")
    }
}

/// `812`, `41k`, `1.2M`.
pub(crate) fn tokens(count: u64) -> String {
    match count {
        0..1000 => count.to_string(),
        1000..1_000_000 => format!("{}k", (count + 500) / 1000),
        _ => format!("{}.{}M", count / 1_000_000, count % 1_000_000 / 100_000),
    }
}

/// A result that is told in short from now on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Masked {
    /// The call that it is of.
    pub call: String,
    /// Text that replaces the result.
    pub text: String,
}
