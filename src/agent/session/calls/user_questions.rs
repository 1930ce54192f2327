//! The questions of other agents that come up while a call runs. The user is asked where the policy does not decide,
//! while the call waits.

use std::sync::Arc;

use futures::FutureExt as _;
use serde_json::json;
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use super::own_call::{self, OwnCall};
use crate::session::engine::Engine;
use tandem_approval::{Answer, Decision, Verdict};
use tandem_host::{Access, AskUser, ToolKind, UserAnswer, UserQuestion};

/// Name of these calls in rules. No tool has this name.
const ANSWER_TOOL: &str = "answer_agent";

/// Maximum number of questions of one call that wait to be asked.
const MAX_WAITING_QUESTIONS: usize = 16;

/// A question, and the sender of its answer.
type Waiting = (UserQuestion, oneshot::Sender<UserAnswer>);

/// The questions of one call.
pub(super) struct UserQuestions {
    waiting: mpsc::Receiver<Waiting>,
}

impl UserQuestions {
    /// Returns the questions of a call, and the function that asks one. The function works as long as [`Self::answer`]
    /// runs: afterwards a question counts as withdrawn.
    pub(super) fn of_call() -> (Self, AskUser) {
        let (sender, waiting) = mpsc::channel(MAX_WAITING_QUESTIONS);
        let ask = move |question| {
            let sender = sender.clone();
            async move {
                let (reply, answer) = oneshot::channel();
                // Sending fails when the call has ended. Then `reply` is dropped, which the line below sees.
                drop(sender.send((question, reply)).await);
                answer.await.unwrap_or(UserAnswer::Withdrawn)
            }
            .boxed()
        };
        (Self { waiting }, Arc::new(ask))
    }

    /// Answers the questions one after another, until the call is over or the turn is cancelled; then the open question
    /// is withdrawn.
    pub(super) async fn answer(
        mut self,
        engine: &Engine,
        cancel: &CancellationToken,
        over: &CancellationToken,
    ) {
        while let Some((asked, mut reply)) = own_call::next(&mut self.waiting, cancel, over).await {
            let call = question_of(asked);
            let answer = match call.judge(&engine.approvals.permissions) {
                Verdict::Allow => UserAnswer::Allowed,
                Verdict::Deny { why, .. } => UserAnswer::Rejected(Some(why)),
                Verdict::Ask(question) => {
                    let useless = async {
                        tokio::select! {
                            () = over.cancelled() => {}
                            () = reply.closed() => {}
                        }
                    };
                    let asked = call.ask(engine, question, cancel, useless);
                    answer_of(asked.await.as_ref())
                }
            };
            // Sending fails if the asking side does not wait any more.
            let _ = reply.send(answer);
        }
    }
}

/// Returns the call that stands for a question of another agent.
fn question_of(UserQuestion { agent, tool, label, description, danger }: UserQuestion) -> OwnCall {
    OwnCall {
        name: ANSWER_TOOL,
        args: json!({ "agent": agent, "tool": tool, "asks": description }),
        access: Access::AgentQuestion { agent, tool, description, danger },
        kind: ToolKind::Other,
        label,
        done: |_| "Allowed.",
    }
}

fn answer_of(answer: Option<&Answer>) -> UserAnswer {
    match answer.map(Answer::decision) {
        Some(decision) if decision.runs() => UserAnswer::Allowed,
        Some(Decision::Reject(why)) => UserAnswer::Rejected(why.map(str::to_owned)),
        Some(Decision::Nobody(why) | Decision::Unclear(why)) => {
            UserAnswer::Rejected(Some(why.to_owned()))
        }
        _ => UserAnswer::Withdrawn,
    }
}
