//! Events of a conversation that is shortened for the model: summaries and masked results.

use std::fmt;

use serde::{Deserialize, Serialize};

use tandem_host::Todo;
use tandem_model::Usage;

/// The beginning of a compressed conversation: a summary and more, which the model is told in place of older messages.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Compressed {
    /// The model's summary.
    pub snapshot: String,
    /// The user's older messages that the model is told word for word, oldest first.
    pub said: Vec<QuotedMessage>,
    /// Number of the user's still older messages, of which the model is told only what the snapshot says.
    pub unsaid: usize,
    /// Names, in the session's own directory, of the files with the complete older messages, oldest first.
    pub whole: Vec<String>,
    /// The files that calls have changed, each once, in the order of their last changes.
    pub changed: Vec<String>,
    /// The files that calls have read and not changed.
    pub read: Vec<String>,
    /// The todo list.
    pub todos: Vec<Todo>,
    /// Index in the log. Messages that begin there or later are not summarized.
    pub from: usize,
    /// Approximate number of tokens of the conversation before.
    pub before: u64,
    /// Approximate number of tokens of the conversation after.
    pub after: u64,
    /// Tokens that making the summary cost.
    pub usage: Usage,
}

/// A message of the user, quoted by its place in the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct QuotedMessage {
    /// Index in the log where the message begins.
    pub at: usize,
    /// Number of characters that the message is cut to, if it is cut.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chars: Option<usize>,
}

impl fmt::Display for Compressed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (before, after) = (tokens(self.before), tokens(self.after));
        write!(f, "context compressed from {before} to {after} tokens")
    }
}

/// Returns a number of tokens in short: `812`, `41k`, `1.2M`.
pub(crate) fn tokens(count: u64) -> String {
    match count {
        0..1000 => count.to_string(),
        1000..1_000_000 => format!("{}k", (count + 500) / 1000),
        _ => format!("{}.{}M", count / 1_000_000, count % 1_000_000 / 100_000),
    }
}

/// A result of a call for which the model is told a short text from now on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Masked {
    /// Id of the call that the result is of.
    pub call: String,
    /// Text that replaces the call's own text in the result. What the model was told together with the result stays.
    pub text: String,
}
