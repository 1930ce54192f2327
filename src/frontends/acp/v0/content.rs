//! Translation of calls into ACP 0.0.9: their icons, questions and contents.

use std::borrow::Cow;
use std::path::Path;

use crate::content::{CallContent, because};
use tandem_agent::session::{
    Access, CallStarted, CallStatus, FileLocation, Question, QuestionSubject, ToolKind,
    ToolOutcome, describe_program_input, without_sandbox_marks,
};
use tandem_content::visible::{visible, visible_line};
use tandem_wire::acp::v0::{
    Icon, ToolCallConfirmation, ToolCallContent, ToolCallLocation, ToolCallStatus,
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

/// Returns the title of a call. Clients recognise a call of `read_many_files` by the first words of its title.
pub(super) fn title(started: &CallStarted) -> Cow<'_, str> {
    let title = visible_line(&started.summary.label);
    match title.strip_prefix("Read ").filter(|_| started.call.name == "read_many_files") {
        Some(files) => {
            format!("Will attempt to read and concatenate files using patterns: {files}").into()
        }
        None => title,
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
            command: visible(&without_sandbox_marks(command)).into_owned().into(),
            description,
        },
        Access::Mcp { server, tool, display_name, .. } => ToolCallConfirmation::Mcp {
            server_name: visible_line(server),
            tool_name: visible_line(tool),
            tool_display_name: visible_line(display_name),
        },
        Access::Fetch { urls, .. } => {
            let urls = urls.iter().map(|url| visible_line(url)).collect();
            ToolCallConfirmation::Fetch { urls }
        }
        Access::Connect { command, .. } => {
            let what = format!("{}\n\nfor {command}", started.access.hosts().join("\n"));
            let description =
                format!("{}\n\n{}{}", visible(&what), because(question), buttons(question));
            ToolCallConfirmation::Other { description }
        }
        Access::Other { description }
        | Access::Agent { description, .. }
        | Access::AgentQuestion { description, .. } => ToolCallConfirmation::Other {
            description: format!(
                "{}\n\n{}{}",
                visible(description),
                because(question),
                buttons(question)
            ),
        },
        Access::ProgramInput(input) => ToolCallConfirmation::Other {
            description: format!(
                "{}\n\n{}",
                visible(&describe_program_input(input)),
                because(question)
            ),
        },
        // The question's reason names only one of the files, so the description lists all of them.
        Access::ReadFiles { paths, .. } => {
            let paths: String = paths.iter().map(|path| shown_path(path) + "\n").collect();
            let description = format!("{paths}\n{}", because(question));
            ToolCallConfirmation::Other { description }
        }
        Access::Nothing | Access::Read | Access::UserInput { .. } => {
            ToolCallConfirmation::Other { description: reason }
        }
    }
}

/// Returns a text that explains the editor's buttons for a question that is not about a call. The protocol fixes the
/// labels of the buttons, which do not tell their meaning there.
fn buttons(question: &Question) -> String {
    let choices = question.choices();
    let label = |allows| choices.iter().find(|choice| choice.kind.allows() == allows);
    match (question.subject, label(true), label(false)) {
        (QuestionSubject::Call, ..) | (_, None, _) | (_, _, None) => String::new(),
        (_, Some(yes), Some(no)) => {
            format!("\n\n- Allow: {}\n- Reject: {}", yes.label, no.label)
        }
    }
}

fn shown_path(path: &Path) -> String {
    visible_line(&path.display().to_string()).into_owned()
}

/// Returns the status of a call that has ended.
pub(super) fn status(outcome: &ToolOutcome) -> ToolCallStatus {
    match CallStatus::of_outcome(outcome) {
        CallStatus::Succeeded => ToolCallStatus::Finished,
        _ => ToolCallStatus::Error,
    }
}

/// Returns a content in the form of the protocol.
pub(super) fn wire(content: CallContent<'_>) -> ToolCallContent<'_> {
    match content {
        CallContent::Markdown(markdown) => ToolCallContent::Markdown { markdown },
        CallContent::Diff { path, old, new } => {
            ToolCallContent::Diff { path, old_text: old, new_text: new }
        }
    }
}
