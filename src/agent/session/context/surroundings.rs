//! The surroundings of the model that can change while a conversation lasts: its own id and what its family is told,
//! the approval mode, the sandbox, the network, the directories, and the people. The system instruction has them as
//! they are at its beginning; of a change, the model is told with its next message.

use std::path::PathBuf;

use super::families;
use crate::session::events::event::ToldInstructions;
use tandem_approval::Mode;

/// Subjects of the lines, as the log has them.
const MODEL_LINE: &str = "model";
const NOTES_LINE: &str = "notes";
const CALLS_LINE: &str = "calls";
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

const DEFAULT_MODE: ModeTexts = ModeTexts {
    attended: "Approval mode `default`: what only reads runs; edits, and commands that may change something outside \
        the sandbox, wait for the user's permission.",
    unattended: "Approval mode `default`: what only reads runs; edits, and commands that may change something outside \
        the sandbox, are refused.",
};
const AUTO_EDIT_MODE: ModeTexts = ModeTexts {
    attended: "Approval mode `auto_edit`: edits of the workspace's files run, too, without the user's permission; \
        other changes wait for it.",
    unattended: "Approval mode `auto_edit`: edits of the workspace's files run, too; other changes are refused.",
};
const YOLO_MODE: ModeTexts = ModeTexts {
    attended: "Approval mode `yolo`: calls run without the user's permission, except commands that leave the sandbox. \
        Take care with what cannot be undone.",
    unattended: "Approval mode `yolo`: calls run, but commands that leave the sandbox are refused. Take care with what \
        cannot be undone.",
};
const PLAN_MODE: ModeTexts = ModeTexts {
    attended: "Plan mode is on: only calls that read are allowed, and all others are refused. Explore, then answer \
        with a plan of what you would change; it begins when the user ends plan mode.",
    unattended: "Plan mode is on: only calls that read are allowed, and all others are refused. Explore, then answer \
        with a plan of what you would change.",
};

/// Beginning of both texts on plan mode.
const PLAN_MODE_START: &str = "Plan mode is on:";

const NO_NOTES: &str = "Notes for your model: none. The earlier notes do not count any more.";
const ONLY_NOTES: &str = "The earlier notes do not count any more.";

const PEOPLE_THERE: &str = "The user sees your calls, and can be asked: ask where the request is unclear in a way that matters.";
const NOBODY_THERE: &str = "Nobody can be asked in this run: what needs a permission is refused. Do not end with a \
    question.";

const NO_SANDBOX: &str = "Commands run without a sandbox, with the machine's network.";
const REFUSED_COMMANDS: &str =
    "Commands are refused: the user wants them in a sandbox, and none works here.";
const READ_ONLY_SANDBOX: &str = "Commands run in the sandbox mode `read-only` unless the call asks for another: they \
    write only /tmp.";
const WORKSPACE_SANDBOX: &str = "Commands run in the sandbox mode `workspace-write` unless the call asks for another: \
    they write the workspace and /tmp.";
const OWN_NETWORK: &str = "Commands have the machine's network.";
const PROXY_NETWORK: &str = "Commands have no network but a proxy, which `HTTP_PROXY` and its like name: package \
    managers, curl and git over https use it by themselves, and";
const ASKED_HOSTS: &str = "hosts that are not allowed yet need the user's permission.";
const OPEN_HOSTS: &str = "it connects to all hosts that the user has not denied.";
const REFUSED_HOSTS: &str = "hosts that are not allowed yet are refused.";
const NO_NETWORK: &str = "Commands have no network.";

/// The surroundings of the model, as they are now.
pub(crate) struct Surroundings {
    pub(crate) model: ModelFacts,
    pub(crate) mode: Mode,
    pub(crate) commands: CommandSurroundings,
    /// `true` if a person can be asked.
    pub(crate) is_attended: bool,
    /// Directories of the workspace.
    pub(crate) roots: Vec<PathBuf>,
}

/// Facts on a model that decide on its notes.
pub(crate) struct ModelFacts {
    pub(crate) id: String,
    /// `true` if the model's context window is small.
    pub(crate) has_small_window: bool,
    /// `true` if the model edits files by patches.
    pub(crate) edits_by_patch: bool,
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

/// Texts on an approval mode.
struct ModeTexts {
    /// Text where a person can be asked.
    attended: &'static str,
    /// Text where nobody can be asked.
    unattended: &'static str,
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
        let mode = if self.is_attended { mode.attended } else { mode.unattended };
        let people = if self.is_attended { PEOPLE_THERE } else { NOBODY_THERE };
        let roots: Vec<_> = self.roots.iter().map(|root| root.display().to_string()).collect();
        let workspace = match &roots[..] {
            [root] => format!("Workspace: {root}"),
            roots => {
                format!("Workspace (relative paths begin in the first): {}", roots.join(", "))
            }
        };
        let notes = match families::notes(&self.model) {
            notes if notes.is_empty() => notes,
            notes => format!("Notes for your model: {notes}"),
        };
        let line = |subject, text: &str| SurroundingLine { subject, text: text.to_owned() };
        vec![
            line(MODEL_LINE, &format!("Your model id: `{}`.", self.model.id)),
            line(NOTES_LINE, &notes),
            line(CALLS_LINE, families::calls(&self.model)),
            line(MODE_LINE, mode),
            line(SANDBOX_LINE, self.commands.sandbox_text()),
            line(NETWORK_LINE, &self.commands.network_text(self.mode, self.is_attended)),
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

    fn network_text(self, mode: Mode, is_attended: bool) -> String {
        let Self::Sandboxed { network, .. } = self else { return String::new() };
        let hosts = match mode {
            Mode::Yolo => OPEN_HOSTS,
            Mode::Default | Mode::AutoEdit if is_attended => ASKED_HOSTS,
            Mode::Default | Mode::AutoEdit | Mode::Plan => REFUSED_HOSTS,
        };
        match network {
            CommandNetwork::Machine => OWN_NETWORK.to_owned(),
            CommandNetwork::Proxy => format!("{PROXY_NETWORK} {hosts}"),
            CommandNetwork::Missing => NO_NETWORK.to_owned(),
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
    let lines = changed.iter().filter_map(|line| told_line(line, told));
    lines.flat_map(|line| ["\n\n[".to_owned(), line, "]".to_owned()]).collect()
}

/// Returns the text on a changed line; `None` if there is nothing to tell.
fn told_line(line: &SurroundingLine, told: &ToldInstructions) -> Option<String> {
    let before = told.surroundings.get(line.subject).map_or("", String::as_str);
    match line.text.as_str() {
        "" if line.subject == NOTES_LINE && !before.is_empty() => Some(NO_NOTES.to_owned()),
        "" => None,
        text if line.subject == NOTES_LINE && !before.is_empty() => {
            Some(format!("{text} {ONLY_NOTES}"))
        }
        text if before.starts_with(PLAN_MODE_START) && !text.starts_with(PLAN_MODE_START) => {
            Some(format!("Plan mode has ended. {text}"))
        }
        text => Some(text.to_owned()),
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Returns the longest lines that there can be in a workspace with a short path.
    pub(in super::super) fn longest_lines() -> Vec<SurroundingLine> {
        let network = CommandNetwork::Proxy;
        let surroundings = Surroundings {
            model: ModelFacts {
                id: "bedrock:us.anthropic.claude-sonnet-5-5-20261021-v1:0".to_owned(),
                has_small_window: false,
                edits_by_patch: false,
            },
            mode: Mode::Plan,
            commands: CommandSurroundings::Sandboxed { writes_workspace: true, network },
            is_attended: true,
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
            MODE_LINE => SurroundingLine { text: YOLO_MODE.attended.to_owned(), ..line.clone() },
            NETWORK_LINE => SurroundingLine { text: String::new(), ..line.clone() },
            _ => line.clone(),
        };
        let now: Vec<_> = before.iter().map(now).collect();
        let changed = changed(&now, &told);
        assert_eq!(changed.len(), 2);
        assert_eq!(
            tell(&changed, &told),
            format!("\n\n[Plan mode has ended. {}]", YOLO_MODE.attended)
        );
    }

    #[test]
    fn a_change_of_people_alone_does_not_end_plan_mode() {
        let before = [(MODE_LINE.to_owned(), PLAN_MODE.attended.to_owned())].into();
        let told = ToldInstructions { surroundings: before, ..ToldInstructions::default() };
        let text = PLAN_MODE.unattended.to_owned();
        let changed = changed(&[SurroundingLine { subject: MODE_LINE, text }], &told);
        assert_eq!(tell(&changed, &told), format!("\n\n[{}]", PLAN_MODE.unattended));
    }

    #[test]
    fn where_nobody_can_be_asked_no_line_speaks_of_a_permission_that_could_be_given() {
        let unattended = |mode, network| Surroundings {
            model: ModelFacts {
                id: "m".to_owned(),
                has_small_window: false,
                edits_by_patch: false,
            },
            mode,
            commands: CommandSurroundings::Sandboxed { writes_workspace: true, network },
            is_attended: false,
            roots: vec!["/p".into()],
        };
        for mode in [Mode::Default, Mode::AutoEdit, Mode::Yolo, Mode::Plan] {
            for line in unattended(mode, CommandNetwork::Proxy).lines() {
                let text = line.text;
                assert!(!text.contains("permission") || line.subject == PEOPLE_LINE, "{text}");
                assert!(!text.contains("ask where") && !text.contains("wait for"), "{text}");
            }
        }
    }

    #[test]
    fn the_network_is_told_as_the_mode_has_it() {
        let network = CommandNetwork::Proxy;
        let commands = CommandSurroundings::Sandboxed { writes_workspace: true, network };
        let (open, asked, refused) = (
            "and it connects to all hosts that the user has not denied.",
            "and hosts that are not allowed yet need the user's permission.",
            "and hosts that are not allowed yet are refused.",
        );
        for (mode, attended, unattended) in [
            (Mode::Default, asked, refused),
            (Mode::AutoEdit, asked, refused),
            (Mode::Yolo, open, open),
            (Mode::Plan, refused, refused),
        ] {
            for (is_attended, told) in [(true, attended), (false, unattended)] {
                let text = commands.network_text(mode, is_attended);
                assert!(text.ends_with(told), "{text}");
            }
        }
    }

    #[test]
    fn notes_that_do_not_count_any_more_are_withdrawn() {
        let check = |before: &str, now: &str, expected: &str| {
            let surroundings = [(NOTES_LINE.to_owned(), before.to_owned())].into();
            let told = ToldInstructions { surroundings, ..ToldInstructions::default() };
            let now = [SurroundingLine { subject: NOTES_LINE, text: now.to_owned() }];
            assert_eq!(tell(&changed(&now, &told), &told), expected);
        };
        check("", "", "");
        check("A.", "A.", "");
        check("", "A.", "\n\n[A.]");
        check("A.", "B.", "\n\n[B. The earlier notes do not count any more.]");
        check(
            "A.",
            "",
            "\n\n[Notes for your model: none. The earlier notes do not count any more.]",
        );
    }
}
