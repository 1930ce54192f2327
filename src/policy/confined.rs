//! The choice of the sandbox mode for a command line.

use super::check::Check;
use super::decide::{Confinement, Gravity, gravity, sandbox_needed};
use super::findings::{AssessedCommand, Fact};
use super::rules::{RuleEffect, Ruling, Subject};
use tandem_approval::{Mode, SandboxSituation, sandbox_mark, sandbox_mode_unasked};
use tandem_content::shorten::ellipsis;
use tandem_host::{ProgramInput, SandboxRequest};
use tandem_sandbox::SandboxMode;

/// Maximum number of characters of the model's reason that a question shows.
const LONGEST_REASON: usize = 400;

/// Addition to the reason of a question about git, which runs programs that the repository names.
const HOOKS_NOTE: &str = " (the hooks and filters of the repository run outside, too)";

/// The sandbox that a command line runs in, and the reasons for its mode.
#[derive(Debug, Clone, Copy)]
pub(super) struct Confined<'a> {
    pub(super) mode: SandboxMode,
    /// Confinement of the line, for the table.
    pub(super) confinement: Confinement,
    /// `true` if every command of the line is known to only read.
    harmless: bool,
    /// `true` if the line may change a git repository: git may then run the repository's hooks and filters outside the
    /// sandbox.
    runs_hooks: bool,
    /// `true` if the program runs already, so that the sandbox was decided on before.
    is_running: bool,
    request: Option<&'a SandboxRequest>,
}

impl<'a> Confined<'a> {
    /// Decides on a line with these commands; `None` if there is no sandbox. `always`: the whole line is
    /// always allowed.
    pub(super) fn new(
        check: &Check<'_>,
        commands: &[AssessedCommand],
        always: bool,
        request: Option<&'a SandboxRequest>,
    ) -> Option<Self> {
        let sandbox = check.environment.sandbox()?;
        let unasked = unasked(check, sandbox);
        let needed = commands.iter().map(|command| needed(check, command, always, unasked)).max();
        let needed = needed.unwrap_or(SandboxMode::ReadOnly);
        let harmless = commands.iter().all(|command| command.findings.is_empty());
        let runs_hooks =
            commands.iter().any(|it| it.first_finding(Fact::ChangesRepository).is_some());
        // A line without commands has nothing to run in the requested mode.
        let request = request.filter(|_| !commands.is_empty());
        let decided = Self::from_check(check, sandbox, needed, request);
        Some(Self { harmless, runs_hooks, ..decided })
    }

    /// Returns the sandbox of a program that runs already; `None` if there is no sandbox.
    pub(super) fn running(check: &Check<'_>, input: &ProgramInput) -> Option<Self> {
        let sandbox = check.environment.sandbox()?;
        let running = Self::from_check(check, sandbox, input.sandbox, None);
        let confinement = match running.confinement {
            // A program that sees secrets may print one after any input, and the model reads the output. So each input is
            // judged as without a sandbox.
            Confinement::Inside(_) if input.sees_secrets => Confinement::Unsandboxed,
            confinement => confinement,
        };
        Some(Self { confinement, is_running: true, ..running })
    }

    /// Chooses the sandbox for a line that cannot be analysed; `None` if there is no sandbox. If a rule that allows the
    /// line names a sandbox mode, the line runs in this mode unless the model requests another.
    pub(super) fn unclear(
        check: &Check<'_>,
        line: &str,
        request: Option<&'a SandboxRequest>,
    ) -> Option<Self> {
        let sandbox = check.environment.sandbox()?;
        let of_rule = check.ruling(Subject::Unclear(line)).and_then(|ruling| match ruling.effect {
            RuleEffect::Allow => ruling.rule.sandbox,
            _ => None,
        });
        let needed = of_rule.unwrap_or_else(|| unasked(check, sandbox));
        Some(Self::from_check(check, sandbox, needed, request))
    }

    fn from_check(
        check: &Check<'_>,
        sandbox: SandboxSituation,
        needed: SandboxMode,
        request: Option<&'a SandboxRequest>,
    ) -> Self {
        // Plan mode is for reading, whatever the model asks for.
        let request = request.filter(|_| check.mode() != Mode::Plan);
        let mode = request.map_or(needed, |request| request.mode);
        let protects = sandbox.protects || mode == SandboxMode::ReadOnly;
        // With the machine's network, a command can send what it reads to hosts that are not on the allowlist.
        let reaches_out = sandbox.network && check.mode() == Mode::Default;
        let holds = protects && !reaches_out && check.mode() != Mode::Plan;
        let confinement = if mode == SandboxMode::DangerFullAccess {
            Confinement::Outside
        } else if mode <= unasked(check, sandbox) && holds {
            Confinement::Inside(mode)
        } else if sandbox.mode.is_some_and(|named| mode > named) {
            Confinement::Exceeding
        } else {
            Confinement::Unsandboxed
        };
        Self { mode, confinement, harmless: false, runs_hooks: false, is_running: false, request }
    }

    /// Returns whether the line runs without the sandbox.
    pub(super) fn is_outside(&self) -> bool {
        self.confinement == Confinement::Outside
    }

    /// Returns `true` if the line is harmless, and leaves the sandbox only because the model requests it. A harmless
    /// command beside a command that must leave needs no question.
    pub(super) fn leaves_harmless(&self) -> bool {
        self.is_outside() && self.harmless && self.request.is_some()
    }

    /// Returns whether the line leaves the sandbox, or exceeds the mode that the user has named. Even mode `yolo` asks
    /// about this.
    pub(super) fn asks_to_leave(&self) -> bool {
        !self.is_running
            && matches!(self.confinement, Confinement::Outside | Confinement::Exceeding)
    }

    /// Returns the reason to ask about the sandbox mode, for people; `asked`: names of the commands that are asked
    /// about.
    pub(super) fn why(&self, asked: &[String]) -> Option<String> {
        if self.is_running {
            return None;
        }
        let asks_for_more =
            self.request.is_some() && !matches!(self.confinement, Confinement::Inside(_));
        let hooks = if self.runs_hooks { HOOKS_NOTE } else { "" };
        let what = match self.mode {
            SandboxMode::DangerFullAccess if asks_for_more => {
                format!("the model wants this command to run outside the sandbox{hooks}")
            }
            SandboxMode::DangerFullAccess => {
                let names: Vec<_> = asked.iter().map(|name| format!("`{name}`")).collect();
                return Some(format!("{} cannot work inside the sandbox{hooks}", names.join(", ")));
            }
            mode if asks_for_more => {
                format!("the model wants this command to run in the sandbox mode `{mode}`")
            }
            mode if self.confinement == Confinement::Exceeding => {
                return Some(format!("this command needs the sandbox mode `{mode}`"));
            }
            _ => return None,
        };
        let justification = self.request.and_then(|request| request.justification.as_deref());
        let Some(justification) = justification else { return Some(what) };
        let words: Vec<_> = justification.split_whitespace().collect();
        // The reason is a text of the model, so sandbox marks such as `[sandboxed]` are rewritten. Double quotes are
        // replaced, because a double quote would end the quotation early.
        let reason = sandbox_mark::without_sandbox_marks(&words.join(" ")).replace('"', "'");
        let reason = ellipsis(&reason, LONGEST_REASON);
        Some(format!("{what}; the model says: \"{reason}\""))
    }
}

/// Returns the sandbox mode in which commands run without a question.
fn unasked(check: &Check<'_>, sandbox: SandboxSituation) -> SandboxMode {
    sandbox_mode_unasked(sandbox.mode, check.mode(), check.edits_freely())
}

/// Returns the sandbox mode that a command needs, as far as is known.
fn needed(
    check: &Check<'_>,
    command: &AssessedCommand,
    always: bool,
    unasked: SandboxMode,
) -> SandboxMode {
    let writes = unasked.max(SandboxMode::WorkspaceWrite);
    if let Some(Ruling { rule, effect: RuleEffect::Allow }) =
        check.ruling(Subject::Command(command))
    {
        return rule.sandbox.unwrap_or(writes);
    }
    let needed = sandbox_needed(&command.findings, unasked);
    let edits = check.edits_freely();
    let is_known =
        || always || check.always.has(&check.whole_tool()) || check.always.covers(command, edits);
    match gravity(&command.findings) {
        Some(gravity) if gravity < Gravity::EveryTime && check.always.covers_outside(command) => {
            SandboxMode::DangerFullAccess
        }
        Some(_) if needed < writes && is_known() => writes,
        _ => needed,
    }
}
