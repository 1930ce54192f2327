//! The facts of a conversation that need no model to find: files, todos and open calls.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::session::events::event::{CallStarted, Compressed, Event, ToolOutcome};
use tandem_host::workspace::Workspace;
use tandem_host::{Access, ResultContent, Todo, ToolKind, ToolOutput};

/// Maximum number of changed files of which the model is told, and of read files.
const MAX_LISTED_FILES: usize = 100;

/// Files, todos and open calls of a conversation, folded from its events.
///
/// The projection of the log for front ends is no substitute: it holds no files, and it drops a todo list on which
/// nothing is left to do. People need not see such a list any more, but the model has to know it.
#[derive(Default)]
pub(in crate::session) struct WorkRecord {
    /// Calls that have not ended, by their ids.
    calls: HashMap<String, Arc<CallStarted>>,
    /// The files that calls have changed, and the files that calls have read. Each list has a file once, in the order
    /// of the last changes or reads.
    changed: Vec<PathBuf>,
    read: Vec<PathBuf>,
    todos: Vec<Todo>,
}

impl WorkRecord {
    /// Folds in an event.
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

    /// Notes the files and todos of a call that worked.
    fn note(&mut self, started: &CallStarted, output: &ToolOutput) {
        if let Some(ResultContent::Todos(todos)) = &output.shown {
            self.todos.clone_from(todos);
        }
        if matches!(started.access, Access::Edit { .. }) {
            started.access.changed_files().for_each(|path| touch(&mut self.changed, path));
        } else if started.kind == ToolKind::Read {
            for place in &started.summary.locations {
                touch(&mut self.read, Path::new(&place.path));
            }
        }
    }

    /// Returns the files, under the names that the model uses, and the todo list.
    pub(super) fn to_event(&self, workspace: &Workspace) -> Compressed {
        let named = |path: &PathBuf| workspace.relative(path);
        let only_read = self.read.iter().filter(|path| !self.changed.contains(path));
        let mut short = Compressed {
            changed: self.changed.iter().map(named).collect(),
            read: only_read.map(named).collect(),
            todos: self.todos.clone(),
            ..Compressed::default()
        };
        for files in [&mut short.changed, &mut short.read] {
            files.drain(..files.len().saturating_sub(MAX_LISTED_FILES));
        }
        short
    }
}

/// Moves a file to the end of a list, or adds it there. A list that has grown to twice its maximum loses its oldest
/// files.
fn touch(files: &mut Vec<PathBuf>, file: &Path) {
    files.retain(|known| known != file);
    files.push(file.to_owned());
    if files.len() > 2 * MAX_LISTED_FILES {
        files.drain(..MAX_LISTED_FILES);
    }
}

#[cfg(test)]
mod tests {
    use crate::session::events::event::{Compressed, tokens};

    #[test]
    fn sizes_are_easy_to_read() {
        assert_eq!([812, 41_400, 41_500, 1_250_000].map(tokens), ["812", "41k", "42k", "1.2M"]);
        let short = Compressed { before: 410_000, after: 60_000, ..Compressed::default() };
        assert_eq!(short.to_string(), "context compressed from 410k to 60k tokens");
    }
}
