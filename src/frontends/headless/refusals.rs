//! Tool calls of a run that were refused: by a rule, by another client of the session, or because no person can be
//! asked.

use serde_json::{Value, json};
use tandem_agent::session::{CallStarted, CallStep, QuestionSubject, ToolOutcome, UpdateKind};

use super::failure::RunFailure;

/// Kind of the error of a call that was refused because no person can be asked.
pub(super) const NOBODY_TO_ASK: &str = "nobody_to_ask";

/// Kind of the error of a call that a rule or the mode denies.
const POLICY_DENIED: &str = "policy_denied";

/// Refused calls, in order.
#[derive(Default)]
pub(super) struct Refusals(Vec<Refusal>);

/// One refused call.
struct Refusal {
    tool: String,
    call: String,
    parameters: Value,
    reason: String,
    /// Names of the rules that asked or denied.
    rules: Vec<String>,
}

impl Refusals {
    /// Adds the call of an update, if the call was refused.
    pub(super) fn update(&mut self, update: &UpdateKind<'_>) {
        if let UpdateKind::Call(started, CallStep::Finished(outcome)) = update {
            self.0.extend(Refusal::from_outcome(started, outcome));
        }
    }

    /// Returns the failure for a run that refused calls make fail; `None` if no call was refused.
    pub(super) fn failure(&self) -> Option<RunFailure> {
        let mut tools: Vec<_> = self.0.iter().map(|refusal| refusal.tool.as_str()).collect();
        tools.sort_unstable();
        tools.dedup();
        let (calls, were) = match self.0.len() {
            0 => return None,
            1 => ("1 tool call".to_owned(), "was"),
            count => (format!("{count} tool calls"), "were"),
        };
        let tools = tools.join("`, `");
        Some(RunFailure::CallsRefused(format!(
            "{calls} {were} refused (`{tools}`), so the run fails, as `--fail-on-refusal` asks."
        )))
    }

    /// Returns the refused calls in the form of the JSON formats.
    pub(super) fn to_value(&self) -> Value {
        self.0.iter().map(Refusal::to_value).collect()
    }
}

impl Refusal {
    fn from_outcome(started: &CallStarted, outcome: &ToolOutcome) -> Option<Self> {
        let question = started.question.as_ref();
        // A question of the model's own that nobody answers is no call that was refused.
        if question.is_some_and(|question| question.subject == QuestionSubject::UserInput) {
            return None;
        }
        let (reason, denied_by) = match outcome {
            ToolOutcome::Rejected => (question.map_or("", |question| &question.why), None),
            ToolOutcome::Failed(error) if error.kind == NOBODY_TO_ASK => {
                (question.map_or(&*error.message, |question| &question.why), None)
            }
            ToolOutcome::Failed(error) if error.kind == POLICY_DENIED => {
                (&*error.message, error.rule.as_deref().map(str::to_owned))
            }
            _ => return None,
        };
        let asked_by = question.map_or(&[][..], |question| &question.rules);
        Some(Self {
            tool: started.call.name.clone(),
            call: started.call.id.clone(),
            parameters: started.call.args.clone(),
            reason: reason.to_owned(),
            rules: asked_by.iter().map(ToString::to_string).chain(denied_by).collect(),
        })
    }

    fn to_value(&self) -> Value {
        json!({
            "tool_name": self.tool,
            "tool_id": self.call,
            "parameters": self.parameters,
            "reason": self.reason,
            "rules": self.rules,
        })
    }
}
