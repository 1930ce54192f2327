//! The policy on tool calls: the calls that run without a question, by approval modes, rules and earlier answers of
//! "always"; the questions about other calls, and the answers that these questions offer.
//!
//! A verdict has two halves. First the facts: [`findings`] has them of each command of a line, and `check` of other
//! calls; there is no policy in them. Then the table: [`decide`] has one row for each fact, and from it the action in
//! each mode and sandbox. Rules that people have written (`rules`) come before the table, and an "always" (`always`)
//! answers what the table asks about. `command_line` puts the verdicts on the commands of a line together, in the
//! sandbox mode that `confined` has chosen, and words the question.

mod always;
mod check;
mod command_line;
mod confined;
pub mod decide;
pub mod findings;
mod lookalike;
mod network;
mod patch;
mod program_input;
mod reads;
pub mod rules;

use self::always::Always;
use self::check::Check;
use self::rules::{Broken, Rule, RuleSet};
use tandem_approval::{
    Checked, ListedRule, Policy, PolicyCall, PolicyRequest, Question, Situation, Verdict,
};
use tandem_host::Access;

/// The built-in rules, and the written rules of the set.
impl Policy for RuleSet {
    fn check(&self, call: &PolicyCall<'_>) -> Checked {
        let PolicyCall { request, situation, roots, secrets, environment, .. } = *call;
        let always = Always(call.always.to_owned());
        let check = Check { request, situation, policy: self, always, roots, secrets, environment };
        let mut checked = match request.access {
            Access::Execute { command, directory, sandbox } => {
                command_line::verdict(&check, command, directory, sandbox.as_ref())
            }
            Access::ProgramInput(input) => check.program_input(input),
            _ => check.call().into(),
        };
        let line = match request.access {
            Access::Execute { command, .. } => Some(command),
            Access::ProgramInput(input) => Some(&input.text),
            _ => None,
        };
        checked.verdict = match (check.doubted(checked.verdict), line) {
            (Verdict::Ask(question), Some(line)) => {
                let why = [vec![question.why], lookalike::remarks(line)].concat().join("; ");
                Verdict::Ask(Question { why, ..question })
            }
            (verdict, _) => verdict,
        };
        // The variables are also given after a question, because a yes to reading is no yes to the hooks of a
        // repository.
        if checked.only_reads {
            checked.variables = findings::variables_of_reading(environment);
        }
        checked
    }

    fn removes(&self, request: &PolicyRequest<'_>, situation: &Situation<'_>) -> bool {
        let mut requests = [*request].into_iter().chain(patch::alike(request));
        requests.any(|request| self.removing_rule(&request, situation).is_some())
    }

    fn rules(&self) -> Vec<ListedRule> {
        let listed = |rule: &Rule| ListedRule { name: rule.name.clone(), text: rule.to_string() };
        self.rules.iter().map(listed).collect()
    }

    fn broken(&self) -> Vec<ListedRule> {
        let listed =
            |broken: &Broken| ListedRule { name: broken.name.clone(), text: broken.message() };
        self.broken.iter().map(listed).collect()
    }
}
