//! The refusal that the model is told when it wants something that a person would have to allow.

use tandem_agent::session::{Question, QuestionSubject, RuleName, Scope};

/// Tells the model why a call is not run, and what to do instead.
pub(super) fn refusal(question: &Question) -> String {
    let allowed = match allowing(question) {
        Some(with) => format!("Whoever starts the agent can allow it with `{with}`."),
        None => "Whoever starts the agent has a rule that wants to be asked.".to_owned(),
    };
    format!(
        "Not run: this needs a person's permission ({}), and this run has nobody who can be asked, \
         now or later. Do not try it again in another way. Go on without it; if the task cannot be \
         done without it, say in your answer what you would need. {allowed}",
        question.reason(),
    )
}

/// Returns the flag, variable or setting with which it would not have been asked; none if somebody
/// has written a rule that asks.
pub(super) fn allowing(question: &Question) -> Option<&'static str> {
    match question.subject {
        QuestionSubject::FolderPrograms => return Some("GEMINI_CLI_TRUST_WORKSPACE=true"),
        QuestionSubject::Repetition => return Some("model.disableLoopDetection"),
        QuestionSubject::Call | QuestionSubject::Connection => {}
    }
    let mut flag = "--approval-mode auto_edit";
    for rule in &question.rules {
        match rule {
            RuleName::Written(_) => return None,
            // The mode that asks about nothing else asks about this.
            RuleName::BuiltIn(name) if name == "sandbox" => {
                return Some("--yolo --sandbox danger-full-access");
            }
            RuleName::BuiltIn(name) if name == "network" => {
                return Some("sandbox.network.allowedDomains");
            }
            RuleName::BuiltIn(name) if name == "edits" => {}
            RuleName::BuiltIn(_) if question.scopes.contains(&Scope::Edits) => {}
            RuleName::BuiltIn(_) => flag = "--yolo",
        }
    }
    Some(flag)
}
