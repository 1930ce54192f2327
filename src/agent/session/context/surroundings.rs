//! The surroundings of the model that can change while a conversation lasts: its own id, the approval mode, the sandbox,
//! the network, the directories, and the people. The system instruction has them as they are at its beginning; of a
//! change, the model is told with its next message.

use std::path::PathBuf;

use super::families;
use crate::session::events::event::ToldInstructions;
use tandem_approval::Mode;

/// Subjects of the lines, as the log has them.
const MODEL_LINE: &str = "model";
const NOTES_LINE: &str = "notes";
const MODE_LINE: &str = "mode";
const SANDBOX_LINE: &str = "sandbox";
const NETWORK_LINE: &str = "network";
const PEOPLE_LINE: &str = "people";
const WORKSPACE_LINE: &str = "workspace";

/// A line on one part of the surroundings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SurroundingLine {
    /// Subject, as the log has it.
    pub(crate) subject: &'static str,
    /// Text for the model; empty if there is nothing to tell.
    pub(crate) text: String,
}

const PLAN_MODE: &str = "Plan mode is on: only calls that read are allowed, and all others are refused. Explore, then \
    answer with a plan of what you would change; it begins when the user ends plan mode.";
const DEFAULT_MODE: &str = "Approval mode `default`: what only reads runs; edits, and commands that may change \
    something outside the sandbox, wait for the user's permission.";
const AUTO_EDIT_MODE: &str = "Approval mode `auto_edit`: edits of the workspace's files run, too, without the user's \
    permission; other changes wait for it.";
const YOLO_MODE: &str = "Approval mode `yolo`: calls run without the user's permission. Take care with what cannot be \
    undone.";

const PEOPLE_THERE: &str = "The user sees your calls, and can be asked.";
const NOBODY_THERE: &str = "Nobody can be asked in this run: what needs a permission is refused. Decide yourself, do \
    not end with a question, and say what you assumed.";

const NO_SANDBOX: &str = "Commands run without a sandbox, with the machine's network.";
const REFUSED_COMMANDS: &str =
    "Commands are refused: the user wants them in a sandbox, and none works here.";
const READ_ONLY_SANDBOX: &str = "Commands run in the sandbox mode `read-only` unless the call asks for another: they \
    write only /tmp.";
const WORKSPACE_SANDBOX: &str = "Commands run in the sandbox mode `workspace-write` unless the call asks for another: \
    they write the workspace and /tmp.";
const OWN_NETWORK: &str = "Commands have the machine's network.";
const PROXY_NETWORK: &str = "Commands have no network but a proxy, which `HTTP_PROXY` and its like name: package \
    managers, curl and git over https use it by themselves, and hosts that are not allowed yet need the user's \
    permission.";
const NO_NETWORK: &str = "Commands have no network.";

/// The surroundings of the model, as they are now.
pub(crate) struct Surroundings {
    /// The model's id.
    pub(crate) model: String,
    /// `true` if the model's context window is small.
    pub(crate) has_small_window: bool,
    pub(crate) mode: Mode,
    pub(crate) commands: CommandSurroundings,
    /// `true` if a person can be asked.
    pub(crate) is_attended: bool,
    /// Directories of the workspace.
    pub(crate) roots: Vec<PathBuf>,
}

/// The sandbox and the network of commands.
#[derive(Clone, Copy)]
pub(crate) enum CommandSurroundings {
    /// Commands run without a sandbox.
    Unsandboxed,
    /// Commands are refused, because the user wants a sandbox and none works.
    Refused,
    /// Commands run in a sandbox of this mode, unless a call asks for another.
    Sandboxed { writes_workspace: bool, network: CommandNetwork },
}

/// The network of commands in the sandbox.
#[derive(Clone, Copy)]
pub(crate) enum CommandNetwork {
    /// The network of the machine.
    Machine,
    /// A proxy, which asks about hosts.
    Proxy,
    /// None.
    Missing,
}

impl Surroundings {
    /// Returns the lines on the surroundings, in the order in which the model is told them.
    pub(crate) fn lines(&self) -> Vec<SurroundingLine> {
        let mode = match self.mode {
            Mode::Default => DEFAULT_MODE,
            Mode::AutoEdit => AUTO_EDIT_MODE,
            Mode::Yolo => YOLO_MODE,
            Mode::Plan => PLAN_MODE,
        };
        let people = if self.is_attended { PEOPLE_THERE } else { NOBODY_THERE };
        let roots: Vec<_> = self.roots.iter().map(|root| root.display().to_string()).collect();
        let workspace = match &roots[..] {
            [root] => format!("Workspace: {root}"),
            roots => {
                format!("Workspace (relative paths begin in the first): {}", roots.join(", "))
            }
        };
        let line = |subject, text: &str| SurroundingLine { subject, text: text.to_owned() };
        vec![
            line(MODEL_LINE, &format!("Your model id: `{}`.", self.model)),
            line(NOTES_LINE, &families::notes(&self.model, self.has_small_window)),
            line(MODE_LINE, mode),
            line(SANDBOX_LINE, self.commands.sandbox_text()),
            line(NETWORK_LINE, self.commands.network_text()),
            line(PEOPLE_LINE, people),
            line(WORKSPACE_LINE, &workspace),
        ]
    }
}

impl CommandSurroundings {
    fn sandbox_text(self) -> &'static str {
        match self {
            Self::Unsandboxed => NO_SANDBOX,
            Self::Refused => REFUSED_COMMANDS,
            Self::Sandboxed { writes_workspace: false, .. } => READ_ONLY_SANDBOX,
            Self::Sandboxed { writes_workspace: true, .. } => WORKSPACE_SANDBOX,
        }
    }

    fn network_text(self) -> &'static str {
        let Self::Sandboxed { network, .. } = self else { return "" };
        match network {
            CommandNetwork::Machine => OWN_NETWORK,
            CommandNetwork::Proxy => PROXY_NETWORK,
            CommandNetwork::Missing => NO_NETWORK,
        }
    }
}

/// Returns the lines that differ from those that the model knows.
pub(super) fn changed(lines: &[SurroundingLine], told: &ToldInstructions) -> Vec<SurroundingLine> {
    let known = |line: &SurroundingLine| told.surroundings.get(line.subject).map(String::as_str);
    lines.iter().filter(|line| known(line) != Some(&line.text)).cloned().collect()
}

/// Returns the text that tells the model the changed lines.
pub(super) fn tell(changed: &[SurroundingLine], told: &ToldInstructions) -> String {
    let text = |line: &SurroundingLine| {
        let was_plan = told.surroundings.get(line.subject).is_some_and(|text| text == PLAN_MODE);
        let ended = if was_plan { "Plan mode has ended. " } else { "" };
        format!("\n\n[{ended}{}]", line.text)
    };
    changed.iter().filter(|line| !line.text.is_empty()).map(text).collect()
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Returns the longest lines that there can be in a workspace with a short path.
    pub(in super::super) fn longest_lines() -> Vec<SurroundingLine> {
        let network = CommandNetwork::Proxy;
        let surroundings = Surroundings {
            model: "bedrock:us.anthropic.claude-sonnet-5-5-20261021-v1:0".to_owned(),
            has_small_window: false,
            mode: Mode::Plan,
            commands: CommandSurroundings::Sandboxed { writes_workspace: true, network },
            is_attended: false,
            roots: vec!["/home/somebody/projects/one".into(), "/home/somebody/other".into()],
        };
        surroundings.lines()
    }

    #[test]
    fn only_changed_lines_are_told_and_the_end_of_plan_mode_is_named() {
        let before = longest_lines();
        let by_subject = |line: &SurroundingLine| (line.subject.to_owned(), line.text.clone());
        let surroundings = before.iter().map(by_subject).collect();
        let told = ToldInstructions { surroundings, ..ToldInstructions::default() };
        assert_eq!(changed(&before, &told), []);
        let now = |line: &SurroundingLine| match line.subject {
            MODE_LINE => SurroundingLine { text: YOLO_MODE.to_owned(), ..line.clone() },
            NETWORK_LINE => SurroundingLine { text: String::new(), ..line.clone() },
            _ => line.clone(),
        };
        let now: Vec<_> = before.iter().map(now).collect();
        let changed = changed(&now, &told);
        assert_eq!(changed.len(), 2);
        assert_eq!(tell(&changed, &told), format!("\n\n[Plan mode has ended. {YOLO_MODE}]"));
    }
}
