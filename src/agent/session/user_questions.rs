//! Questions that come up while a call runs: what the policy leaves open, the user is asked while the call
//! waits.

use std::sync::Arc;

use futures::FutureExt as _;
use serde_json::{Value, json};
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use super::decision::Decision;
use super::engine::Engine;
use super::event::{Answer, CallStarted, Caller, ToolOutcome};
use crate::permission::{Environment, PolicyRequest, Question, Verdict};
use tandem_model::Call;
use tandem_tools::{Access, AskUser, Summary, ToolKind, ToolOutput, UserAnswer, UserQuestion};

/// Name by which rules know these calls, which no tool makes.
const TOOL: &str = "answer_agent";

/// Maximum number of questions of one call that wait.
const WAITING: usize = 16;

/// A question, and the way back of its answer.
type Waiting = (UserQuestion, oneshot::Sender<UserAnswer>);

/// The questions of one call.
pub(super) struct UserQuestions {
    waiting: mpsc::Receiver<Waiting>,
}

impl UserQuestions {
    /// Returns them, and the function that asks as long as somebody [answers](Self::answer).
    pub(super) fn of_call() -> (Self, AskUser) {
        let (sender, waiting) = mpsc::channel(WAITING);
        let ask = move |question| {
            let sender = sender.clone();
            async move {
                let (reply, answer) = oneshot::channel();
                // Nobody is there when the call has ended.
                drop(sender.send((question, reply)).await);
                answer.await.unwrap_or(UserAnswer::Withdrawn)
            }
            .boxed()
        };
        (Self { waiting }, Arc::new(ask))
    }

    /// Answers one after another, until the call is over; then the question that is open is withdrawn.
    pub(super) async fn answer(
        mut self,
        engine: &Engine,
        cancel: &CancellationToken,
        over: &CancellationToken,
    ) {
        while let Some(Some((asked, mut reply))) =
            over.run_until_cancelled(self.waiting.recv()).await
        {
            let answer = match judge(engine, &asked) {
                Verdict::Allow => UserAnswer::Allowed,
                Verdict::Deny(why) => UserAnswer::Rejected(Some(why)),
                Verdict::Ask(question) => {
                    let started = started(engine, &asked, question);
                    let useless = async {
                        tokio::select! {
                            () = over.cancelled() => {}
                            () = reply.closed() => {}
                        }
                    };
                    ask(engine, started, cancel, useless).await
                }
            };
            // Whoever asked may not wait any more.
            let _ = reply.send(answer);
        }
    }
}

fn judge(engine: &Engine, asked: &UserQuestion) -> Verdict {
    let (args, access) = (args(asked), access(asked));
    let request = PolicyRequest { tool: TOOL, aliases: &[], args: &args, access: &access };
    engine.approvals.permissions.check(&request, &Environment::default()).verdict
}

fn args(UserQuestion { agent, tool, description, .. }: &UserQuestion) -> Value {
    json!({ "agent": agent, "tool": tool, "asks": description })
}

fn access(UserQuestion { agent, tool, description, danger, .. }: &UserQuestion) -> Access {
    let (agent, tool, description) = (agent.clone(), tool.clone(), description.clone());
    Access::AgentQuestion { agent, tool, description, danger: *danger }
}

fn started(engine: &Engine, asked: &UserQuestion, question: Question) -> Arc<CallStarted> {
    let call = Call { id: String::new(), name: TOOL.to_owned(), args: args(asked) };
    Arc::new(CallStarted {
        call: engine.calls.with_unique_id(call),
        caller: Caller::Agent,
        kind: ToolKind::Other,
        summary: Summary::new(asked.label.clone()),
        access: access(asked),
        question: Some(question),
    })
}

async fn ask(
    engine: &Engine,
    started: Arc<CallStarted>,
    cancel: &CancellationToken,
    useless: impl Future<Output = ()>,
) -> UserAnswer {
    let id = started.call.id.clone();
    let answer = engine.approvals.ask_until(started, cancel, useless).await;
    let permitted = engine.approvals.obey(answer.as_ref(), cancel).await;
    let given = match answer.as_ref().map(Answer::decision) {
        Some(decision) if decision.runs() => UserAnswer::Allowed,
        Some(Decision::Reject(why)) => UserAnswer::Rejected(why.map(str::to_owned)),
        Some(Decision::Nobody(why) | Decision::Unclear(why)) => {
            UserAnswer::Rejected(Some(why.to_owned()))
        }
        _ => UserAnswer::Withdrawn,
    };
    let done = |_| ToolOutcome::Done(ToolOutput::new("Allowed.", "Allowed."));
    engine.calls.finish(id, permitted.map_or_else(|outcome| outcome, done));
    given
}
