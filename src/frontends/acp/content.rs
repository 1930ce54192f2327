//! Translation of calls into ACP 0.0.9: icons, questions, contents.
//!
//! A proposal is shown with every character visible, because a person approves it; a result is shown
//! as prose.

use std::borrow::Cow;
use std::path::Path;

use tandem_agent::session::{
    Access, CallStarted, FileDiff, FileLocation, Question, ResultContent, Todo, TodoStatus,
    ToolKind, ToolOutcome, WebSource,
};
use tandem_content::visible::{escaped_json, visible, visible_line, visible_prose};
use tandem_wire::acp::{
    Icon, PlanEntry, PlanEntryPriority, PlanEntryStatus, ToolCallConfirmation, ToolCallContent,
    ToolCallLocation, ToolCallStatus, UpdatePlanParams,
};

/// Returns the icon of a kind of tool.
pub(super) fn icon(kind: ToolKind) -> Icon {
    match kind {
        ToolKind::Read | ToolKind::Find => Icon::FileSearch,
        ToolKind::List => Icon::Folder,
        ToolKind::Search => Icon::Regex,
        ToolKind::Edit => Icon::Pencil,
        ToolKind::Execute => Icon::Terminal,
        ToolKind::Fetch => Icon::Globe,
        ToolKind::Think => Icon::LightBulb,
        ToolKind::Other => Icon::Hammer,
    }
}

/// Returns the files and lines that a call is about.
pub(super) fn locations(locations: &[FileLocation]) -> Vec<ToolCallLocation<'_>> {
    let wire = |location: &'_ FileLocation| location.line.map(|line| line.saturating_sub(1));
    locations.iter().map(|it| ToolCallLocation { path: &it.path, line: wire(it) }).collect()
}

/// Returns the question about a call.
pub(super) fn confirmation<'a>(
    started: &'a CallStarted,
    question: &'a Question,
) -> ToolCallConfirmation<'a> {
    let reason = visible(&question.reason()).into_owned();
    let description = Some(reason.clone());
    match &started.access {
        Access::Edit { .. } => ToolCallConfirmation::Edit { description },
        Access::Execute { command, .. } => ToolCallConfirmation::Execute {
            root_command: visible_line(&question.commands.join(", ")).into_owned(),
            command: visible(command),
            description,
        },
        Access::Mcp { server, tool, display_name, .. } => ToolCallConfirmation::Mcp {
            server_name: visible_line(server),
            tool_name: visible_line(tool),
            tool_display_name: visible_line(display_name),
        },
        Access::Fetch { urls } => {
            let urls = urls.iter().map(|url| visible_line(url)).collect();
            ToolCallConfirmation::Fetch { urls }
        }
        Access::Other { description } => ToolCallConfirmation::Other {
            description: format!("{}\n\n{}", visible(description), because(question)),
        },
        // The reason names one file only.
        Access::ReadFiles { paths } => {
            let paths: String = paths.iter().map(|path| shown_path(path) + "\n").collect();
            let description = format!("{paths}\n{}", because(question));
            ToolCallConfirmation::Other { description }
        }
        Access::Nothing | Access::Read => ToolCallConfirmation::Other { description: reason },
    }
}

fn shown_path(path: &Path) -> String {
    visible_line(&path.display().to_string()).into_owned()
}

fn because(question: &Question) -> String {
    format!("Asked because {}", visible(&question.reason()))
}

/// Returns the content of a call that is asked about.
pub(super) fn proposal<'a>(
    started: &'a CallStarted,
    question: &Question,
) -> Option<ToolCallContent<'a>> {
    match (&started.summary.diff, &started.access) {
        (Some(proposed), _) => Some(diff(proposed)),
        // The label holds one line; the user must see all of them.
        (None, Access::Execute { command, .. }) if command.trim().contains('\n') => {
            Some(markdown(fence(&visible(command), "sh")))
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
        // This question has no other place for it.
        (None, Access::Fetch { .. }) => Some(markdown(because(question))),
        _ => None,
    }
}

/// Returns the status and the content of a call that has ended.
pub(super) fn ended(outcome: &ToolOutcome) -> (ToolCallStatus, Option<ToolCallContent<'_>>) {
    match outcome {
        ToolOutcome::Done(output) => (ToolCallStatus::Finished, output.shown.as_ref().map(content)),
        ToolOutcome::Failed(error) => {
            let shown = error.shown.as_ref().map(content);
            (
                ToolCallStatus::Error,
                Some(shown.unwrap_or_else(|| markdown(visible_prose(&error.message)))),
            )
        }
        ToolOutcome::Rejected => (ToolCallStatus::Error, Some(markdown("Rejected"))),
        ToolOutcome::Cancelled => (ToolCallStatus::Error, Some(markdown("Cancelled"))),
        ToolOutcome::Interrupted => (ToolCallStatus::Error, Some(markdown("Interrupted"))),
    }
}

/// Returns the content of a running call.
pub(super) fn live(output: &str) -> ToolCallContent<'_> {
    markdown(fence(&visible_prose(output), ""))
}

/// Returns the todo list as a plan, which has fewer states: cancelled todos are left out.
pub(super) fn plan(todos: &[Todo]) -> UpdatePlanParams<'_> {
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
    UpdatePlanParams { entries: entries.collect() }
}

fn content(content: &ResultContent) -> ToolCallContent<'_> {
    match content {
        ResultContent::Markdown(text) => markdown(visible_prose(text)),
        ResultContent::Output(text) => live(text),
        ResultContent::Diff(change) => diff(change),
        ResultContent::Sources(sources) => {
            markdown(visible_prose(&WebSource::list(sources)).into_owned())
        }
        ResultContent::Server(answer) if answer.is_json() => live(&answer.text),
        ResultContent::Server(answer) => markdown(visible_prose(&answer.text)),
        ResultContent::Todos(todos) => markdown(todos.iter().map(todo).collect::<String>()),
    }
}

fn diff(change: &FileDiff) -> ToolCallContent<'_> {
    ToolCallContent::Diff {
        path: &change.path,
        old_text: change.old.as_deref().map(file_text),
        new_text: file_text(&change.new),
    }
}

/// Returns a file's text as people are shown it. Line ends of two characters are line ends to
/// editors too, and stay.
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

fn markdown<'a>(markdown: impl Into<Cow<'a, str>>) -> ToolCallContent<'a> {
    ToolCallContent::Markdown { markdown: markdown.into() }
}

/// Returns plain text as Markdown: in a fence longer than any in the text.
fn fence(text: &str, language: &str) -> String {
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest.max(2) + 1);
    let end = if text.is_empty() || text.ends_with('\n') { "" } else { "\n" };
    format!("{fence}{language}\n{text}{end}{fence}")
}

#[cfg(test)]
mod tests {
    use super::fence;

    #[test]
    fn a_fence_is_longer_than_any_in_the_text() {
        assert_eq!(fence("a\n", ""), "```\na\n```");
        assert_eq!(fence("no end", "sh"), "```sh\nno end\n```");
        assert_eq!(fence("````\nx", ""), "`````\n````\nx\n`````");
        assert_eq!(fence("", ""), "```\n```");
    }
}
