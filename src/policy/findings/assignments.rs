//! Variables that a command is given, or that a line sets.

use super::fact::{Fact, Finding};
use tandem_approval::BuiltInRule;
use tandem_shell::{Assignment, SimpleCommand, brief, variables};

/// Returns the variables of a command that may matter, each with the finding.
pub(super) fn findings(command: &SimpleCommand) -> Vec<(&str, Finding)> {
    let finding = |assignment: &Assignment| {
        let name = assignment.name.as_str();
        let source = brief(&assignment.source);
        // By convention, a variable in lower case is local to the command line: no program reads it from its
        // environment. It matters only where a command of the line uses it.
        let own = command.words.is_empty() && !name.contains(|c: char| c.is_ascii_uppercase());
        // `IFS= read line` only changes how `read` splits its one line.
        let splits = name == "IFS" && command.name() == Some("read");
        let (fact, why) = if variables::decides_what_runs(name) && !splits {
            (Fact::ChangesPrograms, format!("`{source}` may change what is run"))
        } else if own || variables::changes_looks(name) {
            return None;
        } else {
            (Fact::RunsUnknown, format!("`{source}` may change what a command does"))
        };
        Some(Finding::new(fact, BuiltInRule::Variables, why))
    };
    let found = command.assignments.iter().map(|it| Some((it.name.as_str(), finding(it)?)));
    found.flatten().collect()
}
