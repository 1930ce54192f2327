//! The choice of the sandbox mode for a command line, and of the commands that run in it without a question.

use super::check::Check;
use super::findings::{AssessedCommand, Risk, SandboxSituation};
use super::mode::Mode;
use super::rules::{RuleEffect, Ruling, Subject};
use super::sandbox_mark;
use super::scope::Scope;
use tandem_content::shorten::ellipsis;
use tandem_host::SandboxRequest;
use tandem_sandbox::SandboxMode;

/// Maximum number of characters of the model's reason that a question shows.
const LONGEST_REASON: usize = 400;

/// Addition to the reason of a question about git, which runs programs that the repository names.
const HOOKS: &str = " (the hooks and filters of the repository run outside, too)";

/// The sandbox that a command line runs in, and the facts that decide on its questions.
#[derive(Debug, Clone, Copy)]
#[expect(clippy::struct_excessive_bools, reason = "independent facts about one line")]
pub(super) struct Confined<'a> {
    pub(super) mode: SandboxMode,
    /// `true` if commands that are not known to be harmful run in the sandbox without a question.
    unasked: bool,
    /// `true` if the mode allows more than the mode that the user has named.
    exceeds: bool,
    /// `true` if every command of the line is known to do nothing but read.
    harmless: bool,
    /// `true` if the line may change a git repository: git may then run the repository's hooks and filters outside the
    /// sandbox.
    runs_hooks: bool,
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
        let unasked = mode_unasked(sandbox.mode, check.mode(), check.edits_freely());
        let needed = commands.iter().map(|command| needed(check, command, always, unasked)).max();
        let needed = needed.unwrap_or(SandboxMode::ReadOnly);
        let harmless = commands.iter().all(|command| command.risk == Risk::None);
        let runs_hooks = commands.iter().any(AssessedCommand::changes_git);
        // A line without commands has nothing to run in the requested mode.
        let request = request.filter(|_| !commands.is_empty());
        let decided = Self::of(check, sandbox, (needed, unasked), harmless, request);
        Some(Self { runs_hooks, ..decided })
    }

    /// Chooses the sandbox for a line that cannot be analysed; `None` if there is no sandbox. If a rule that allows the
    /// line names a sandbox mode, the line runs in this mode unless the model requests another.
    pub(super) fn unclear(
        check: &Check<'_>,
        line: &str,
        request: Option<&'a SandboxRequest>,
    ) -> Option<Self> {
        let sandbox = check.environment.sandbox()?;
        let unasked = mode_unasked(sandbox.mode, check.mode(), check.edits_freely());
        let of_rule = check.ruling(Subject::Unclear(line)).and_then(|ruling| match ruling.effect {
            RuleEffect::Allow => ruling.rule.sandbox,
            _ => None,
        });
        let needed = of_rule.unwrap_or(unasked);
        Some(Self::of(check, sandbox, (needed, unasked), false, request))
    }

    fn of(
        check: &Check<'_>,
        sandbox: SandboxSituation,
        (needed, unasked): (SandboxMode, SandboxMode),
        harmless: bool,
        request: Option<&'a SandboxRequest>,
    ) -> Self {
        // Plan mode is for reading, whatever the model asks for.
        let request = request.filter(|_| check.mode() != Mode::Plan);
        let mode = request.map_or(needed, |request| request.mode);
        let protects = sandbox.protects || mode == SandboxMode::ReadOnly;
        // With the machine's network, a command can send what it reads to hosts that are not on the allowlist.
        let reaches_out = sandbox.network && check.mode() == Mode::Default;
        let holds = protects && !reaches_out && check.mode() != Mode::Plan;
        let exceeds = sandbox.mode.is_some_and(|named| mode > named);
        let unasked = mode <= unasked && holds;
        Self { mode, unasked, exceeds, harmless, runs_hooks: false, request }
    }

    /// Returns whether the line runs without the sandbox.
    pub(super) fn is_outside(&self) -> bool {
        self.mode == SandboxMode::DangerFullAccess
    }

    /// Returns whether the line sees the files of the hidden home that it names, at once or after a yes. In mode `yolo`
    /// the line sees none, because no person was asked about these files.
    pub(super) fn shows_hidden(&self, check: &Check<'_>) -> bool {
        !self.is_outside() && check.mode() != Mode::Yolo
    }

    /// Returns whether a line that cannot be analysed runs without a question.
    pub(super) fn runs_unclear(&self, check: &Check<'_>) -> bool {
        self.unasked || self.runs_all(check)
    }

    /// Returns whether every command runs without a question.
    fn runs_all(&self, check: &Check<'_>) -> bool {
        check.mode() == Mode::Yolo && !self.exceeds && !self.is_outside()
    }

    /// Returns whether a command of the line runs without a question; `None` if the policy without a sandbox decides.
    pub(super) fn runs(&self, check: &Check<'_>, command: &AssessedCommand) -> Option<bool> {
        let is_forced = matches!(command.risk, Risk::Forced(_));
        if self.is_outside() {
            // A harmless command may stand in one line with a command that must leave the sandbox. A line of harmless
            // commands is asked about if the model requests that it leaves.
            let stands_beside = self.request.is_none() || !self.harmless;
            let harmless = command.risk == Risk::None && stands_beside;
            return Some(harmless || (!is_forced && check.always.covers_outside(command)));
        }
        if self.runs_all(check) {
            return Some(true);
        }
        if !self.unasked {
            return None;
        }
        // The sandbox prevents neither that the model reads the output of a command, nor that files of the workspace
        // are removed, nor that files are changed which package managers write. A file that only may be a secret needs
        // no question, because the sandbox hides it.
        let secret = command.tells_secrets;
        let lasts = command.destroys || command.plants;
        Some(!(secret || (lasts && self.mode > SandboxMode::ReadOnly)))
    }

    /// Returns whether the line leaves the sandbox, or exceeds the mode that the user has named. Even mode `yolo` asks
    /// about this.
    pub(super) fn asks_to_leave(&self) -> bool {
        self.is_outside() || self.exceeds
    }

    /// Returns the reason to ask about the sandbox mode, for people; `asked`: names of the commands that are asked
    /// about.
    pub(super) fn why(&self, asked: &[String]) -> Option<String> {
        let asks_for_more = self.request.is_some() && !self.unasked;
        let hooks = if self.runs_hooks { HOOKS } else { "" };
        let what = match self.mode {
            SandboxMode::DangerFullAccess if asks_for_more => {
                format!("it is to run outside the sandbox{hooks}")
            }
            SandboxMode::DangerFullAccess => {
                let names: Vec<_> = asked.iter().map(|name| format!("`{name}`")).collect();
                return Some(format!("{} cannot work inside the sandbox{hooks}", names.join(", ")));
            }
            mode if asks_for_more => format!("it is to run in the sandbox mode `{mode}`"),
            mode if self.exceeds => return Some(format!("it needs the sandbox mode `{mode}`")),
            _ => return None,
        };
        let justification = self.request.and_then(|request| request.justification.as_deref());
        let Some(justification) = justification else { return Some(what) };
        let words: Vec<_> = justification.split_whitespace().collect();
        // The model's reason must not look like the mark of the sandbox, and its only double quotes are to be the ones
        // around it.
        let reason = sandbox_mark::without_sandbox_marks(&words.join(" ")).replace('"', "'");
        let reason = ellipsis(&reason, LONGEST_REASON);
        Some(format!("{what}; the model says: \"{reason}\""))
    }
}

/// Returns the sandbox mode in which commands run without a question; `named`: the mode that the user has named;
/// `edits`: files of the workspace are changed without a question.
pub(super) fn mode_unasked(named: Option<SandboxMode>, mode: Mode, edits: bool) -> SandboxMode {
    named.unwrap_or(match mode {
        Mode::Default if !edits => SandboxMode::ReadOnly,
        Mode::Plan => SandboxMode::ReadOnly,
        Mode::Default | Mode::AutoEdit | Mode::Yolo => SandboxMode::WorkspaceWrite,
    })
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
    let tool = Scope::Tool(check.request.tool.to_owned());
    let edits = check.edits_freely();
    let is_known = || always || check.always.has(&tool) || check.always.covers(command, edits);
    match &command.risk {
        Risk::None => SandboxMode::ReadOnly,
        _ if command.must_leave() => SandboxMode::DangerFullAccess,
        Risk::Writes(_) | Risk::Runs(_) if check.always.covers_outside(command) => {
            SandboxMode::DangerFullAccess
        }
        Risk::Writes(_) => writes,
        _ if command.destroys || command.plants || command.writes.is_some() || is_known() => writes,
        _ => unasked,
    }
}
