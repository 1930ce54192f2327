//! Contents of calls and of plans, for both versions of the protocol.
//!
//! A proposal is shown with every character made visible, because a person approves it. A result is shown as prose.

use std::borrow::Cow;

use tandem_agent::session::{
    Access, CallStarted, FileDiff, Question, ResultContent, Todo, TodoStatus, ToolOutcome,
    ToolOutput, WebSource, describe_program_input, explain_unknown_outcome, without_sandbox_marks,
};
use tandem_content::fence::fence;
use tandem_content::visible::{escaped_json, visible, visible_line, visible_prose};
use tandem_wire::acp::{PlanEntry, PlanEntryPriority, PlanEntryStatus};

/// Content of a call.
pub(crate) enum CallContent<'a> {
    /// Markdown.
    Markdown(Cow<'a, str>),
    /// A change of a file.
    Diff {
        /// Absolute path.
        path: &'a str,
        /// The text before; `None` if the file is new.
        old: Option<Cow<'a, str>>,
        /// The text after.
        new: Cow<'a, str>,
    },
}

/// Returns the todo list as a plan, which has fewer states: cancelled todos are left out.
pub(crate) fn plan(todos: &[Todo]) -> Vec<PlanEntry<'_>> {
    let entries = todos.iter().filter(|todo| todo.status != TodoStatus::Cancelled);
    let entries = entries.map(|todo| PlanEntry {
        content: visible_prose(&todo.description),
        priority: PlanEntryPriority::Medium,
        status: match todo.status {
            TodoStatus::InProgress => PlanEntryStatus::InProgress,
            TodoStatus::Completed => PlanEntryStatus::Completed,
            TodoStatus::Pending | TodoStatus::Blocked | TodoStatus::Cancelled => {
                PlanEntryStatus::Pending
            }
        },
    });
    entries.collect()
}

/// Returns the contents of a call that waits for the answer to a question: each changed file is one.
pub(crate) fn proposals<'a>(started: &'a CallStarted, question: &Question) -> Vec<CallContent<'a>> {
    match &started.summary.diff {
        Some(proposed) => changes(proposed),
        None => proposal(started, question).into_iter().collect(),
    }
}

/// Returns the content of a call that waits for the answer to a question, if there is more to show than the title.
pub(crate) fn proposal<'a>(
    started: &'a CallStarted,
    question: &Question,
) -> Option<CallContent<'a>> {
    match (&started.summary.diff, &started.access) {
        (Some(proposed), _) => Some(proposed.into()),
        // The label holds one line of the command, but the user must see all lines.
        (None, Access::Execute { command, .. }) if command.trim().contains('\n') => {
            Some(markdown(fence(&visible(&without_sandbox_marks(command)), "sh")))
        }
        (None, Access::Mcp { .. }) => {
            let args = &started.call.args;
            let shown = started.summary.label.ends_with(&args.to_string());
            let shown = if shown {
                String::new()
            } else {
                fence(&escaped_json(&format!("{args:#}")), "json")
            };
            Some(markdown(format!("{shown}\n{}", because(question)).trim_start().to_owned()))
        }
        // The label names only the first host.
        (None, Access::Connect { others, .. }) if !others.is_empty() => {
            let hosts = fence(&visible(&started.access.hosts().join("\n")), "");
            Some(markdown(format!("{hosts}\n{}", because(question))))
        }
        // The editor's question has no other place for the reason.
        (None, Access::Fetch { .. } | Access::Connect { .. }) => Some(markdown(because(question))),
        _ => None,
    }
}

/// Returns the message to another agent, that agent's question, or the text for a running program, for protocols whose
/// questions have no field for such a text.
pub(crate) fn description(started: &CallStarted) -> Option<CallContent<'_>> {
    match &started.access {
        Access::Agent { description, .. } | Access::AgentQuestion { description, .. } => {
            Some(markdown(fence(&visible(description), "")))
        }
        Access::ProgramInput(input) => {
            Some(markdown(fence(&visible(&describe_program_input(input)), "")))
        }
        _ => None,
    }
}

/// Returns the contents of a call that has ended: each changed file is one.
pub(crate) fn outcomes(end: &ToolOutcome) -> Vec<CallContent<'_>> {
    match end {
        ToolOutcome::Done(ToolOutput { shown: Some(ResultContent::Diff(change)), .. }) => {
            changes(change)
        }
        end => outcome(end).into_iter().collect(),
    }
}

/// Returns the content of a call that has ended.
pub(crate) fn outcome(outcome: &ToolOutcome) -> Option<CallContent<'_>> {
    match outcome {
        ToolOutcome::Done(output) => output.shown.as_ref().map(content),
        ToolOutcome::Failed(error) => {
            let shown = error.shown.as_ref().map(content);
            Some(shown.unwrap_or_else(|| markdown(visible_prose(&error.message))))
        }
        ToolOutcome::Rejected => Some(markdown("Rejected")),
        ToolOutcome::Cancelled => Some(markdown("Cancelled")),
        ToolOutcome::Interrupted => Some(markdown("Interrupted")),
        ToolOutcome::Unknown(outcome) => {
            let text = explain_unknown_outcome(outcome);
            Some(markdown(visible_prose(&text).into_owned()))
        }
    }
}

/// Returns the content of a running call.
pub(crate) fn live(output: &str) -> CallContent<'_> {
    markdown(fence(&visible_prose(output), ""))
}

fn content(content: &ResultContent) -> CallContent<'_> {
    match content {
        ResultContent::Markdown(text) => markdown(visible_prose(text)),
        ResultContent::Output(text) => live(text),
        ResultContent::Diff(change) => (&**change).into(),
        ResultContent::Sources(sources) => {
            markdown(visible_prose(&WebSource::list(sources)).into_owned())
        }
        ResultContent::Server(answer) if answer.is_json() => live(&answer.text),
        ResultContent::Server(answer) => markdown(visible_prose(&answer.text)),
        ResultContent::Todos(todos) => markdown(todos.iter().map(todo).collect::<String>()),
    }
}

/// Returns the change of each file. The protocol's changes have no mark for a file that is removed or moved, so a list of
/// these files comes first.
pub(crate) fn changes(change: &FileDiff) -> Vec<CallContent<'_>> {
    let gone: String = change.each().filter_map(gone).collect();
    let list = (!gone.is_empty()).then(|| markdown(fence(&gone, "")));
    list.into_iter().chain(change.each().map(file_change)).collect()
}

/// Returns a line of a list about a file that is no longer at its path after a change.
fn gone(change: &FileDiff) -> Option<String> {
    let path = visible_line(&change.path);
    match &change.moved_from {
        Some(from) => Some(format!("moves {} to {path}\n", visible_line(from))),
        None => change.removes.then(|| format!("removes {path}\n")),
    }
}

fn file_change(change: &FileDiff) -> CallContent<'_> {
    let (old, new) = (change.old.as_deref().map(file_text), file_text(&change.new));
    CallContent::Diff { path: &change.path, old, new }
}

impl<'a> From<&'a FileDiff> for CallContent<'a> {
    fn from(change: &'a FileDiff) -> Self {
        if change.others.is_empty() {
            return file_change(change);
        }
        markdown(fence(&visible(&change.unified()), "diff"))
    }
}

/// Returns the reason of a question.
pub(crate) fn because(question: &Question) -> String {
    format!("Asked because {}", visible(&question.reason()))
}

/// Returns a file's text with every character made visible. Line ends `\r\n` stay as they are, because editors take
/// them as line ends too.
fn file_text(text: &str) -> Cow<'_, str> {
    if !text.contains("\r\n") {
        return visible(text);
    }
    let lines: Vec<_> = text.split("\r\n").map(visible).collect();
    lines.join("\r\n").into()
}

fn todo(todo: &Todo) -> String {
    let text = visible_prose(&todo.description);
    match todo.status {
        TodoStatus::Completed => format!("- [x] {text}\n"),
        TodoStatus::Pending => format!("- [ ] {text}\n"),
        TodoStatus::InProgress => format!("- [ ] **{text}**\n"),
        TodoStatus::Blocked => format!("- [ ] {text} (blocked)\n"),
        TodoStatus::Cancelled => format!("- [ ] ~~{text}~~\n"),
    }
}

fn markdown<'a>(markdown: impl Into<Cow<'a, str>>) -> CallContent<'a> {
    CallContent::Markdown(markdown.into())
}
