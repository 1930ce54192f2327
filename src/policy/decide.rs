//! The table of the policy: what is done about each fact, by approval mode and sandbox.
//!
//! A call, and each command of a line, gets the strictest action of its findings; without findings it runs. Rules that
//! people have written come before the table (`check`, `command_line`), and an earlier "always" answers what the table
//! only asks about. `docs/permissions.md` shows the table as a test prints it.

use super::findings::{Fact, Finding};
use tandem_approval::Mode;
use tandem_sandbox::SandboxMode;

/// Action on a fact, without written rules and earlier answers. The stricter action is the greater one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Action {
    /// The call runs.
    Run,
    /// The user is asked, unless an "always" covers the call.
    Ask,
    /// The user is asked every time.
    AskEveryTime,
    /// The call does not run.
    Refuse,
}

/// Confinement of a call: the sandbox that the call takes effect in, if any.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Confinement {
    /// No sandbox, or a sandbox that holds too little back.
    Unsandboxed,
    /// Sandbox in this mode, in which commands run without a question.
    Inside(SandboxMode),
    /// Sandbox in a mode that allows more than the mode that the user has named.
    Exceeding,
    /// Outside of the sandbox that commands have.
    Outside,
}

/// Question about a fact in default mode, without a sandbox. The graver question is the greater one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Gravity {
    /// No question: the fact matters only to the sandbox.
    Nothing,
    /// Question that an "always" can answer, and that is not asked where edits are allowed.
    Edit,
    /// Question that an "always" can answer.
    Ask,
    /// Question that is asked every time.
    EveryTime,
}

/// Effect of the sandbox on a fact.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Hold {
    /// Effect that every mode of the sandbox holds back.
    Held,
    /// Change that needs the mode `workspace-write`, which is meant for such changes.
    Writes,
    /// Change that needs the mode `workspace-write`, which does not hold the change back.
    Lasts,
    /// Disclosure to the model or to others, or a call of a tool: no mode holds these back.
    Shows,
    /// Change that cannot be made inside.
    Leaves,
}

/// Row of the table.
struct Row {
    gravity: Gravity,
    hold: Hold,
    /// `true` if mode `plan` asks, as other modes do, because the call only reads.
    is_planned: bool,
}

/// Returns the row of a fact.
fn row(fact: Fact) -> Row {
    use Gravity::{Ask, Edit, EveryTime, Nothing};
    use Hold::{Held, Lasts, Leaves, Shows, Writes};
    let (gravity, hold) = match fact {
        Fact::RunsUnknown => (Ask, Held),
        Fact::RunsDangerous
        | Fact::Unresolved
        | Fact::ChangesPrograms
        | Fact::ChangesOutside
        | Fact::ChangesSensitive
        // `FeedsProgram` is held where the program runs: it was started in the sandbox, and cannot leave the sandbox. A
        // program that sees secrets counts as unsandboxed.
        | Fact::FeedsProgram
        // `MayNameSecret` is held: the sandbox hides every secret whose path does not stand in the line, so a path that
        // is known only when the line runs leads to nothing.
        | Fact::MayNameSecret => (EveryTime, Held),
        Fact::WritesFile => (Edit, Writes),
        Fact::Deletes | Fact::ChangesUnprotected => (EveryTime, Lasts),
        Fact::NamesSecret | Fact::ReadsSecret | Fact::AgentDoesHarm => (EveryTime, Shows),
        Fact::ReadsHiddenHome
        | Fact::CallsServer
        | Fact::CallsReadingServer
        | Fact::CallsAgent
        | Fact::AgentActs
        | Fact::Connects
        | Fact::DoesMore => (Ask, Shows),
        Fact::ChangesRepository | Fact::ChangesHiddenHome | Fact::LeavesSandbox => {
            (Nothing, Leaves)
        }
    };
    let is_planned =
        matches!(fact, Fact::ReadsSecret | Fact::ReadsHiddenHome | Fact::CallsReadingServer);
    Row { gravity, hold, is_planned }
}

/// Decides on a fact. `mode`: the approval mode, `auto_edit` also in mode `default` if the user always
/// allows edits.
pub fn decide(fact: Fact, mode: Mode, confinement: Confinement) -> Action {
    let Row { gravity, hold, is_planned } = row(fact);
    let is_held = |inside| match hold {
        Hold::Held | Hold::Writes | Hold::Leaves => true,
        Hold::Lasts => inside == SandboxMode::ReadOnly,
        Hold::Shows => false,
    };
    match (mode, confinement) {
        (Mode::Plan, _) if !is_planned => Action::Refuse,
        (_, Confinement::Outside) => Action::Ask.max(action_for(gravity, mode)),
        (Mode::Yolo, Confinement::Unsandboxed | Confinement::Inside(_)) => Action::Run,
        (_, Confinement::Inside(inside)) if is_held(inside) => Action::Run,
        _ => action_for(gravity, mode),
    }
}

/// Returns the action on a fact of a command that no sandbox holds back.
fn action_for(gravity: Gravity, mode: Mode) -> Action {
    match gravity {
        Gravity::EveryTime => Action::AskEveryTime,
        Gravity::Ask => Action::Ask,
        Gravity::Edit if !matches!(mode, Mode::AutoEdit | Mode::Yolo) => Action::Ask,
        Gravity::Edit | Gravity::Nothing => Action::Run,
    }
}

/// Decides on a command with these findings.
pub(crate) fn decide_all(findings: &[Finding], mode: Mode, confinement: Confinement) -> Action {
    let actions = findings.iter().map(|finding| decide(finding.fact, mode, confinement));
    actions.max().unwrap_or(Action::Run)
}

/// Returns the gravity of a command with these findings; `None` if it is harmless.
pub fn gravity(findings: &[Finding]) -> Option<Gravity> {
    findings.iter().map(|finding| row(finding.fact).gravity).max()
}

/// Returns the findings that a question names: all findings that are asked about every time, or else the first of
/// the gravest findings.
pub fn reasons(findings: &[Finding]) -> Vec<&Finding> {
    let gravest = gravity(findings);
    let mut reasons: Vec<&Finding> = Vec::new();
    for finding in findings.iter().filter(|it| Some(row(it.fact).gravity) == gravest) {
        let is_more = gravest == Some(Gravity::EveryTime)
            && !reasons.iter().any(|reason| reason.why == finding.why);
        if reasons.is_empty() || is_more {
            reasons.push(finding);
        }
    }
    reasons
}

/// Returns the sandbox mode that a command with these findings needs. `unasked`: the mode in which commands run without
/// a question.
pub(super) fn sandbox_needed(findings: &[Finding], unasked: SandboxMode) -> SandboxMode {
    let needed = findings.iter().map(|finding| match row(finding.fact).hold {
        Hold::Held | Hold::Shows => unasked,
        Hold::Writes | Hold::Lasts => unasked.max(SandboxMode::WorkspaceWrite),
        Hold::Leaves => SandboxMode::DangerFullAccess,
    });
    needed.max().unwrap_or(SandboxMode::ReadOnly)
}
