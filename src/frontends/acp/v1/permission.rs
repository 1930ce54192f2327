//! Questions about calls: the answers that an editor's user can choose, and what a choice means.

use std::pin::Pin;
use std::task::Poll;

use futures::FutureExt as _;
use futures::future::BoxFuture;

use tandem_agent::session::{Answer, Question};
use tandem_content::visible::visible_line;
use tandem_wire::acp::v1::{
    PermissionOption, PermissionOptionKind, PermissionOutcome, REQUEST_PERMISSION,
    RequestPermissionParams, RequestPermissionResponse,
};
use tandem_wire::rpc::{CallError, Peer};

/// Returns the answers to choose from, each with its meaning. `all`: also those that only their names
/// tell apart.
pub(super) fn choices(question: &Question, all: bool) -> Vec<(PermissionOption, Answer)> {
    let choice = |option_id: String, name: &str, kind, answer| {
        let name = visible_line(name).into_owned();
        (PermissionOption { option_id, name, kind }, answer)
    };
    let once = Answer::Once { edited: None };
    let mut choices = vec![choice("once".into(), "Allow", PermissionOptionKind::AllowOnce, once)];
    let most = if all { question.scopes.len() } else { 1 };
    for (n, scope) in question.scopes.iter().take(most).enumerate() {
        let (id, name) = (format!("always:{n}"), format!("Always allow {scope}"));
        let answer = Answer::Always(scope.clone());
        choices.push(choice(id, &name, PermissionOptionKind::AllowAlways, answer));
    }
    if let Some(scope) = question.to_save().filter(|_| all) {
        let name = format!("Always allow {scope}, in later sessions too");
        let answer = Answer::AlwaysAndSave(scope.clone());
        choices.push(choice("save".into(), &name, PermissionOptionKind::AllowAlways, answer));
    }
    let reject = PermissionOptionKind::RejectOnce;
    choices.push(choice("reject".into(), "Reject", reject, Answer::Reject));
    choices
}

/// An editor's answer to a question.
type Reply = Result<RequestPermissionResponse, CallError>;

/// A question that the editor has been asked.
struct OpenQuestion {
    call: String,
    choices: Vec<(PermissionOption, Answer)>,
    reply: BoxFuture<'static, Reply>,
}

/// Questions that the editor has been asked and has not answered. One that is dropped is withdrawn.
#[derive(Default)]
pub(super) struct OpenQuestions(Vec<OpenQuestion>);

impl OpenQuestions {
    /// Asks the editor.
    pub(super) fn ask(
        &mut self,
        peer: &Peer,
        mut params: RequestPermissionParams<'_>,
        choices: Vec<(PermissionOption, Answer)>,
    ) {
        params.options = choices.iter().map(|(option, _)| option.clone()).collect();
        let call = params.tool_call.tool_call_id.to_owned();
        let reply = peer.call(REQUEST_PERMISSION, &params);
        self.0.push(OpenQuestion { call, choices, reply });
    }

    /// Withdraws the question about a call, if it is open.
    pub(super) fn withdraw(&mut self, call: &str) {
        self.0.retain(|open| open.call != call);
    }

    /// Waits for the next answer: the call, and what the answer means; an error if it means nothing.
    pub(super) async fn next(&mut self) -> (String, Result<Answer, CallError>) {
        let (n, reply) = futures::future::poll_fn(|context| {
            let mut polled = self.0.iter_mut().enumerate();
            let ready =
                polled.find_map(|(n, open)| match Pin::new(&mut open.reply).poll_unpin(context) {
                    Poll::Ready(reply) => Some((n, reply)),
                    Poll::Pending => None,
                });
            ready.map_or(Poll::Pending, Poll::Ready)
        })
        .await;
        let OpenQuestion { call, choices, .. } = self.0.remove(n);
        (call, reply.map(|reply| meaning(reply.outcome, choices)))
    }
}

fn meaning(outcome: PermissionOutcome, choices: Vec<(PermissionOption, Answer)>) -> Answer {
    match outcome {
        // A turn that is cancelled has withdrawn its question already.
        PermissionOutcome::Cancelled => Answer::Reject,
        PermissionOutcome::Selected { option_id } => {
            let chosen = choices.into_iter().find(|(option, _)| option.option_id == option_id);
            chosen.map_or_else(
                || Answer::Unclear(format!("`{option_id}` is not among the options")),
                |(_, answer)| answer,
            )
        }
    }
}
