//! Questions about calls: the options that an editor's user can choose from, and the meaning of a choice.

use std::pin::Pin;
use std::task::Poll;

use futures::FutureExt as _;
use futures::future::BoxFuture;

use tandem_agent::session::{Answer, Choice, ChoiceKind, Question};
use tandem_content::visible::visible_line;
use tandem_wire::acp::v1::{
    PermissionOption, PermissionOptionKind, PermissionOutcome, REQUEST_PERMISSION,
    RequestPermissionParams, RequestPermissionResponse,
};
use tandem_wire::rpc::{CallError, Peer};

/// Returns the options to choose from, each with its meaning. Unless `all` is set, there is one option of each kind: an
/// editor that does not show the options' names cannot tell several options of one kind apart.
pub(super) fn options(question: &Question, all: bool) -> Vec<(PermissionOption, Answer)> {
    let mut options: Vec<(PermissionOption, Answer)> = Vec::new();
    let mut scopes = 0;
    for Choice { kind, answer, label } in question.choices() {
        let (option_id, kind) = match kind {
            ChoiceKind::AllowOnce => ("once".to_owned(), PermissionOptionKind::AllowOnce),
            ChoiceKind::AllowAlways => {
                scopes += 1;
                (format!("always:{}", scopes - 1), PermissionOptionKind::AllowAlways)
            }
            ChoiceKind::AllowAndSave => ("save".to_owned(), PermissionOptionKind::AllowAlways),
            ChoiceKind::RejectOnce => ("reject".to_owned(), PermissionOptionKind::RejectOnce),
            ChoiceKind::RejectAndSave => ("never".to_owned(), PermissionOptionKind::RejectAlways),
            // Left out, because the editor answers with an option's id alone, without a message from the user to the
            // model.
            ChoiceKind::RejectSaying => continue,
        };
        if all || options.iter().all(|(option, _)| option.kind != kind) {
            let name = visible_line(&label).into_owned();
            options.push((PermissionOption { option_id, name, kind }, answer));
        }
    }
    options
}

/// A question that the editor has been asked.
struct OpenQuestion {
    call: String,
    answer: BoxFuture<'static, Result<Answer, CallError>>,
}

/// Questions that the editor has been asked and has not answered. Dropping a question withdraws it at the editor.
#[derive(Default)]
pub(super) struct OpenQuestions(Vec<OpenQuestion>);

impl OpenQuestions {
    /// Asks the editor a question with these options.
    pub(super) fn ask(
        &mut self,
        peer: &Peer,
        mut params: RequestPermissionParams<'_>,
        options: Vec<(PermissionOption, Answer)>,
    ) {
        params.options = options.iter().map(|(option, _)| option.clone()).collect();
        let call = params.tool_call.tool_call_id.to_owned();
        let reply = peer.call::<RequestPermissionResponse>(REQUEST_PERMISSION, &params);
        let answer = reply.map(|reply| reply.map(|reply| meaning(reply.outcome, options)));
        self.add(call, answer.boxed());
    }

    /// Adds a question about a call that the editor has been asked, with the future of its answer.
    pub(super) fn add(
        &mut self,
        call: String,
        answer: BoxFuture<'static, Result<Answer, CallError>>,
    ) {
        self.0.push(OpenQuestion { call, answer });
    }

    /// Withdraws the question about a call, if it is open.
    pub(super) fn withdraw(&mut self, call: &str) {
        self.0.retain(|open| open.call != call);
    }

    /// Waits for the next answer. Returns the id of the call and the meaning of the answer, or an error if the editor
    /// did not answer in a readable way. Without open questions, waits forever.
    pub(super) async fn next(&mut self) -> (String, Result<Answer, CallError>) {
        let (n, answer) = futures::future::poll_fn(|context| {
            let mut polled = self.0.iter_mut().enumerate();
            let ready =
                polled.find_map(|(n, open)| match Pin::new(&mut open.answer).poll_unpin(context) {
                    Poll::Ready(answer) => Some((n, answer)),
                    Poll::Pending => None,
                });
            ready.map_or(Poll::Pending, Poll::Ready)
        })
        .await;
        (self.0.remove(n).call, answer)
    }
}

fn meaning(outcome: PermissionOutcome, options: Vec<(PermissionOption, Answer)>) -> Answer {
    match outcome {
        // This does not mean that the turn was cancelled: such a turn has withdrawn its question already.
        PermissionOutcome::Cancelled => Answer::Reject,
        PermissionOutcome::Selected { option_id } => {
            let chosen = options.into_iter().find(|(option, _)| option.option_id == option_id);
            chosen.map_or_else(
                || Answer::Unclear(format!("`{option_id}` is not among the options")),
                |(_, answer)| answer,
            )
        }
    }
}
