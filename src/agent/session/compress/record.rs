//! Facts of a conversation that the log tells without a model: files, todos, open calls.

use std::collections::HashMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::session::event::{CallStarted, Event, ToolOutcome};
use tandem_model::Usage;
use tandem_tools::workspace::Workspace;
use tandem_tools::{Access, Content, Kind, Todo, ToolOutput};

/// Files that are named, of each kind.
const FILES: usize = 100;

/// The beginning of a compressed conversation, as the log has it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Compressed {
    /// The model's summary.
    pub snapshot: String,
    /// The user's messages that the model is told word for word, oldest first.
    pub said: Vec<Quote>,
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
pub struct Quote {
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
pub(super) fn tokens(count: u64) -> String {
    match count {
        0..1000 => count.to_string(),
        1000..1_000_000 => format!("{}k", (count + 500) / 1000),
        _ => format!("{}.{}M", count / 1_000_000, count % 1_000_000 / 100_000),
    }
}

/// Files, todos and open calls of a conversation, folded from its events.
#[derive(Default)]
pub(in crate::session) struct WorkRecord {
    /// Calls that have not ended.
    calls: HashMap<String, Arc<CallStarted>>,
    /// The files that calls have changed and read, each once, the last one last.
    changed: Vec<PathBuf>,
    read: Vec<PathBuf>,
    todos: Vec<Todo>,
}

impl WorkRecord {
    pub(in crate::session) fn fold(&mut self, event: &Event) {
        match event {
            Event::Forgotten => *self = Self::default(),
            Event::CallStarted(started) => {
                self.calls.insert(started.call.id.clone(), Arc::clone(started));
            }
            Event::CallFinished { call, outcome } => {
                if let Some(started) = self.calls.remove(call)
                    && let ToolOutcome::Done(output) = outcome
                {
                    self.note(&started, output);
                }
            }
            _ => {}
        }
    }

    /// Notes what a call has done.
    fn note(&mut self, started: &CallStarted, output: &ToolOutput) {
        if let Some(Content::Todos(todos)) = &output.shown {
            self.todos.clone_from(todos);
        }
        if let Access::Edit { path } = &started.access {
            touch(&mut self.changed, path);
        } else if started.kind == Kind::Read {
            for place in &started.summary.locations {
                touch(&mut self.read, Path::new(&place.path));
            }
        }
    }

    /// The files, as the model names them, and the todo list.
    pub(super) fn told(&self, workspace: &Workspace) -> Compressed {
        let named = |path: &PathBuf| workspace.relative(path);
        let only_read = self.read.iter().filter(|path| !self.changed.contains(path));
        let mut short = Compressed {
            changed: self.changed.iter().map(named).collect(),
            read: only_read.map(named).collect(),
            todos: self.todos.clone(),
            ..Compressed::default()
        };
        for files in [&mut short.changed, &mut short.read] {
            files.drain(..files.len().saturating_sub(FILES));
        }
        short
    }
}

/// Puts a file at the end of a list, once.
fn touch(files: &mut Vec<PathBuf>, file: &Path) {
    files.retain(|known| known != file);
    files.push(file.to_owned());
    if files.len() > 2 * FILES {
        files.drain(..FILES);
    }
}

#[cfg(test)]
mod tests {
    use super::{Compressed, tokens};

    #[test]
    fn sizes_are_easy_to_read() {
        assert_eq!([812, 41_400, 41_500, 1_250_000].map(tokens), ["812", "41k", "42k", "1.2M"]);
        let short = Compressed { before: 410_000, after: 60_000, ..Compressed::default() };
        assert_eq!(short.to_string(), "context compressed from 410k to 60k tokens");
    }
}
