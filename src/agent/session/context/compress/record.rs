//! Facts of a conversation that the log tells without a model: files, todos, open calls.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::session::events::event::{CallStarted, Compressed, Event, ToolOutcome};
use tandem_host::workspace::Workspace;
use tandem_host::{Access, ResultContent, Todo, ToolKind, ToolOutput};

/// Files that are named, of each kind.
const FILES: usize = 100;

/// Files, todos and open calls of a conversation, folded from its events.
///
/// The projection is no substitute: it holds no files, and it drops the todo list when nothing of it
/// is left to do, which people need not see any more and the model does.
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

    /// Notes what a call has done.
    fn note(&mut self, started: &CallStarted, output: &ToolOutput) {
        if let Some(ResultContent::Todos(todos)) = &output.shown {
            self.todos.clone_from(todos);
        }
        if let Access::Edit { path } = &started.access {
            touch(&mut self.changed, path);
        } else if started.kind == ToolKind::Read {
            for place in &started.summary.locations {
                touch(&mut self.read, Path::new(&place.path));
            }
        }
    }

    /// Returns the files, as the model names them, and the todo list.
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
    use crate::session::events::event::{Compressed, tokens};

    #[test]
    fn sizes_are_easy_to_read() {
        assert_eq!([812, 41_400, 41_500, 1_250_000].map(tokens), ["812", "41k", "42k", "1.2M"]);
        let short = Compressed { before: 410_000, after: 60_000, ..Compressed::default() };
        assert_eq!(short.to_string(), "context compressed from 410k to 60k tokens");
    }
}
