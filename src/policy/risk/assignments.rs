//! Variables that a command is given, or that a line sets.

use super::assessed::Risk;
use tandem_shell::{SimpleCommand, brief, variables};

/// Returns the first variable with the gravest risk among a command's assignments, and that risk with its rule.
pub(super) fn risk(command: &SimpleCommand) -> (&str, (Risk, &'static str)) {
    let mut risk = Risk::None;
    let mut variable = "";
    for assignment in &command.assignments {
        let name = assignment.name.as_str();
        let source = brief(&assignment.source);
        // By custom, a variable in lower case is for the line itself. It matters only if a command is given it.
        let own = command.words.is_empty() && !name.contains(|c: char| c.is_ascii_uppercase());
        // `IFS= read line` only changes how `read` splits its one line.
        let splits = name == "IFS" && command.name() == Some("read");
        let found = if variables::decides_what_runs(name) && !splits {
            Risk::Forced(format!("`{source}` may change what is run"))
        } else if own || variables::changes_looks(name) {
            Risk::None
        } else {
            Risk::Runs(format!("`{source}` may change what a command does"))
        };
        if found.level() > risk.level() {
            (variable, risk) = (name, found);
        }
    }
    (variable, (risk, "variables"))
}
