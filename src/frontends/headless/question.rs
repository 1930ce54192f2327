//! What the model is told when it wants something that a person would have to allow.

use crate::session::{Question, Scope};

/// Why the call is not run, and what to do instead.
pub(super) fn refusal(question: &Question) -> String {
    format!(
        "Not run: this needs a person's permission ({}), and this run has nobody who can be asked, \
         now or later. Do not try it again in another way. Go on without it; if the task cannot be \
         done without it, say in your answer what you would need. Whoever starts the agent can \
         allow it with `{}`.",
        question.why,
        allowing(question)
    )
}

/// The flag with which it would not have been asked.
pub(super) fn allowing(question: &Question) -> &'static str {
    let edits = |scope: &Scope| matches!(scope, Scope::Edits | Scope::Hosts(_));
    if question.scopes.iter().any(edits) { "--approval-mode auto_edit" } else { "--yolo" }
}
