//! Variables that a command is given, or that a line sets.

use super::command::Risk;
use tandem_shell::{Assignment, SimpleCommand, brief, variables};

/// Returns the variables that a command is given, each with its risk.
pub(super) fn risks(command: &SimpleCommand) -> Vec<(&str, Risk)> {
    let risk = |assignment: &'_ Assignment| {
        let name = assignment.name.as_str();
        let source = brief(&assignment.source);
        // By custom, a variable in lower case is for the line itself. It matters only if a command is given it.
        let own = command.words.is_empty() && !name.contains(|c: char| c.is_ascii_uppercase());
        // `IFS= read line` only changes how `read` splits its one line.
        let splits = name == "IFS" && command.name() == Some("read");
        if variables::decides_what_runs(name) && !splits {
            Risk::Forced(format!("`{source}` may change what is run"))
        } else if own || variables::changes_looks(name) {
            Risk::None
        } else {
            Risk::Runs(format!("`{source}` may change what a command does"))
        }
    };
    command.assignments.iter().map(|it| (it.name.as_str(), risk(it))).collect()
}
