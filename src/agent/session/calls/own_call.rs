//! Calls that the agent itself makes while a call of a tool runs, such as a connection of a running command. The policy
//! judges them, and people are asked about them as about any call, while the tool's call waits.

use std::sync::Arc;

use serde_json::Value;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::session::engine::Engine;
use crate::session::events::event::{CallStarted, Caller, ToolOutcome};
use tandem_approval::{
    Answer, Decision, Environment, Permissions, PolicyRequest, Question, Verdict,
};
use tandem_host::{Access, Summary, ToolKind, ToolOutput};
use tandem_model::Call;

/// A call that the agent itself makes.
pub(super) struct OwnCall {
    /// Name of the call in rules. No tool has this name.
    pub(super) name: &'static str,
    pub(super) args: Value,
    pub(super) access: Access,
    pub(super) kind: ToolKind,
    /// Label of the call for people, on one line.
    pub(super) label: String,
    /// Function that returns the effect of a yes, as a sentence for people.
    pub(super) done: fn(Decision<'_>) -> &'static str,
}

impl OwnCall {
    /// Applies the policy to the call.
    pub(super) fn judge(&self, permissions: &Permissions) -> Verdict {
        let Self { name, args, access, .. } = self;
        let request = PolicyRequest { tool: name, aliases: &[], args, access };
        permissions.check(&request, &Environment::default()).verdict
    }

    /// Asks the user about the call, acts on the answer, and records the end of the call. `None` if the turn was
    /// cancelled, or the future `useless` was ready, before an answer came.
    pub(super) async fn ask(
        self,
        engine: &Engine,
        question: Question,
        cancel: &CancellationToken,
        useless: impl Future<Output = ()>,
    ) -> Option<Answer> {
        let call = Call { id: String::new(), name: self.name.to_owned(), args: self.args };
        let started = CallStarted {
            call: engine.calls.with_unique_id(call),
            caller: Caller::Agent,
            kind: self.kind,
            summary: Summary::new(self.label),
            access: self.access,
            question: Some(question),
        };
        let id = started.call.id.clone();
        let answer = engine.approvals.ask_until(Arc::new(started), cancel, useless).await;
        let outcome = match engine.approvals.apply_answer(answer.as_ref(), cancel).await {
            Ok(_) => {
                let done = answer.as_ref().map_or("", |answer| (self.done)(answer.decision()));
                ToolOutcome::Done(ToolOutput::new(done, done))
            }
            Err(outcome) => outcome,
        };
        engine.calls.finish(id, outcome);
        answer
    }
}

/// Waits for the next item that a running call sends; `None` when that call is `over`, or its turn is cancelled.
pub(super) async fn next<T>(
    waiting: &mut mpsc::Receiver<T>,
    cancel: &CancellationToken,
    over: &CancellationToken,
) -> Option<T> {
    let next = over.run_until_cancelled(waiting.recv()).await.flatten();
    next.filter(|_| !cancel.is_cancelled())
}
