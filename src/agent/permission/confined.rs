//! The mode of the sandbox that a command line runs in, and whether it is asked about there.

use super::check::Check;
use super::mode::Mode;
use super::policy::{RuleEffect, Ruling, Subject};
use super::risk::{AssessedCommand, Risk};
use super::scope::Scope;
use tandem_sandbox::SandboxMode;
use tandem_tools::SandboxRequest;

/// The sandbox that a command line runs in.
#[derive(Debug, Clone, Copy)]
pub(super) struct Confined<'a> {
    pub(super) mode: SandboxMode,
    /// `true` if what is not known to be harmful runs in it without a question.
    unasked: bool,
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
        let unasked = most_unasked(check)?;
        let needed = commands.iter().map(|command| needed(check, command, always, unasked)).max();
        let mode = request.map_or(needed.unwrap_or(SandboxMode::ReadOnly), |request| request.mode);
        Some(Self::of(check, mode, unasked, request))
    }

    /// Decides on a line that cannot be made out.
    pub(super) fn unclear(check: &Check<'_>, request: Option<&'a SandboxRequest>) -> Option<Self> {
        let unasked = most_unasked(check)?;
        let mode = request.map_or(unasked, |request| request.mode);
        Some(Self::of(check, mode, unasked, request))
    }

    fn of(
        check: &Check<'_>,
        mode: SandboxMode,
        unasked: SandboxMode,
        request: Option<&'a SandboxRequest>,
    ) -> Self {
        let protects = check.environment.sandbox().is_some_and(|sandbox| sandbox.protects);
        let holds = protects || mode == SandboxMode::ReadOnly;
        Self { mode, unasked: mode <= unasked && holds && check.mode() != Mode::Plan, request }
    }

    /// Returns whether the line runs without the sandbox.
    pub(super) fn is_outside(&self) -> bool {
        self.mode == SandboxMode::DangerFullAccess
    }

    /// Returns whether a line that cannot be made out runs without a question.
    pub(super) fn runs_unclear(&self) -> bool {
        self.unasked
    }

    /// Returns whether a command of the line runs without a question; `None` if that is for the policy
    /// without a sandbox to say.
    pub(super) fn runs(&self, check: &Check<'_>, command: &AssessedCommand) -> Option<bool> {
        if self.is_outside() {
            // A command that only reads may stand beside one that must leave.
            let harmless = command.risk == Risk::None && self.request.is_none();
            return Some(harmless || check.always.covers_outside(command));
        }
        if !self.unasked {
            return None;
        }
        // What a sandbox does not hold: what is told to the model, and what is in the workspace.
        let secret = command.rule == "secrets" && matches!(command.risk, Risk::Forced(_));
        let destroys = command.destroys && self.mode > SandboxMode::ReadOnly;
        Some(check.mode() == Mode::Yolo || !(secret || destroys))
    }

    /// Returns the reason to ask about leaving the sandbox, for people.
    pub(super) fn why_outside(&self, asked: &[&AssessedCommand]) -> Option<String> {
        if !self.is_outside() {
            return None;
        }
        let justification = self.request.and_then(|request| request.justification.as_deref());
        let names: Vec<_> = asked.iter().map(|command| format!("`{}`", command.name)).collect();
        Some(match (self.request, justification) {
            (_, Some(why)) => {
                let why: Vec<_> = why.split_whitespace().collect();
                format!("it is to run outside the sandbox; the model says: {}", why.join(" "))
            }
            (Some(_), None) => "the model wants it to run outside the sandbox".to_owned(),
            (None, None) => format!("{} cannot do its work inside the sandbox", names.join(", ")),
        })
    }
}

/// Returns the mode in which commands run without a question; `None` if there is no sandbox.
fn most_unasked(check: &Check<'_>) -> Option<SandboxMode> {
    let sandbox = check.environment.sandbox()?;
    Some(sandbox.mode.unwrap_or(match check.mode() {
        Mode::Default if !check.edits_freely() => SandboxMode::ReadOnly,
        Mode::Plan => SandboxMode::ReadOnly,
        Mode::Default | Mode::AutoEdit | Mode::Yolo => SandboxMode::WorkspaceWrite,
    }))
}

/// Returns the mode that a command needs, as far as is known.
fn needed(
    check: &Check<'_>,
    command: &AssessedCommand,
    always: bool,
    unasked: SandboxMode,
) -> SandboxMode {
    if let Some(Ruling { rule, effect: RuleEffect::Allow }) =
        check.ruling(Subject::Command(command))
    {
        return rule.sandbox.unwrap_or(unasked.max(SandboxMode::WorkspaceWrite));
    }
    let tool = Scope::Tool(check.request.tool.to_owned());
    let edits = check.edits_freely();
    let is_known = || always || check.always.has(&tool) || check.always.covers(command, edits);
    match &command.risk {
        Risk::None => SandboxMode::ReadOnly,
        // What it keeps is protected in the sandbox.
        _ if command.name == "git" || check.always.covers_outside(command) => {
            SandboxMode::DangerFullAccess
        }
        Risk::Writes(_) => unasked.max(SandboxMode::WorkspaceWrite),
        _ if command.destroys => unasked.max(SandboxMode::WorkspaceWrite),
        _ if command.writes.is_some() || is_known() => unasked.max(SandboxMode::WorkspaceWrite),
        _ => unasked,
    }
}
