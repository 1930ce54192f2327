//! The approvals of a session: the policy, the open questions, and the effects of an answer.

use std::future::pending;
use std::sync::Arc;

use tokio_util::sync::CancellationToken;
use tracing::Instrument as _;

use super::gate::Gate;
use super::question::Questions;
use crate::session::events::event::{CallStarted, Event, StopReason, ToolOutcome};
use crate::session::events::log::Log;
use crate::session::turns::spans;
use tandem_approval::consent::Consent;
use tandem_approval::{Answer, Decision, Permissions, Scope};
use tandem_content::blocking::blocking;
use tandem_host::{AnswerContent, ToolError};

/// Message about rules that a bug has kept from being read.
const RULES_UNREAD: &str = "The rules for calls could not be read because of a bug in tandem, and nothing runs without \
    them. If a file of rules has changed, take the change back; the next prompt reads the rules again.";

/// Parts of a session that decide if a call runs.
pub(crate) struct Approvals {
    /// The policy, with the approval mode and the scopes that the user has always allowed.
    pub(crate) permissions: Arc<Permissions>,
    /// The user's consent to the programs that the project's own settings would run.
    pub(crate) consent: Arc<Consent>,
    /// The questions that wait for an answer.
    pub(crate) questions: Questions,
    /// Gate for the calls that need no question, but that a front end may have to show before they run.
    pub(crate) gate: Arc<Gate>,
    log: Log,
}

impl Approvals {
    pub(crate) fn new(permissions: Arc<Permissions>, consent: Arc<Consent>, log: Log) -> Self {
        let (questions, gate) = (Questions::default(), Arc::default());
        Self { permissions, consent, questions, gate, log }
    }

    /// Reads the rules that people have written, if they have not been read yet, and tells people which of them are
    /// wrong. The error is the end of a turn that needs the rules: a bug has kept them from being read.
    pub(crate) async fn load_rules(&self) -> Result<(), StopReason> {
        if !self.permissions.is_loaded() {
            let permissions = Arc::clone(&self.permissions);
            let load = blocking(move || permissions.loaded());
            // The rules stay unread, so the next turn reads them again.
            load.await.map_err(|_| {
                self.log.append(Event::Notice(RULES_UNREAD.to_owned()));
                StopReason::Crashed
            })?;
        }
        for notice in self.permissions.unseen_remarks() {
            self.log.append(Event::Notice(notice));
        }
        Ok(())
    }

    /// Announces a question and waits for its answer; `None` if the turn is cancelled first.
    pub(crate) async fn ask(
        &self,
        asked: Arc<CallStarted>,
        cancel: &CancellationToken,
    ) -> Option<Answer> {
        self.ask_until(asked, cancel, pending()).await
    }

    /// Announces a question and waits for its answer, like [`Self::ask`]; `None` also if the future `useless` is ready
    /// first, which says that the answer is not needed any more.
    pub(super) async fn ask_until(
        &self,
        asked: Arc<CallStarted>,
        cancel: &CancellationToken,
        useless: impl Future<Output = ()>,
    ) -> Option<Answer> {
        self.wait_for_answer(asked, cancel, useless).instrument(spans::question()).await
    }

    async fn wait_for_answer(
        &self,
        asked: Arc<CallStarted>,
        cancel: &CancellationToken,
        useless: impl Future<Output = ()>,
    ) -> Option<Answer> {
        let call = asked.call.id.clone();
        // The question is opened before it is announced: a front end may answer at once.
        let mut answer = self.questions.open(Arc::clone(&asked));
        self.log.append(Event::CallStarted(asked));
        let answer = tokio::select! {
            biased;
            answer = &mut answer => answer.ok(),
            // In both cases below, a user may have answered after `answer` was polled and before the question is
            // withdrawn. The front end was told that this answer counts, so the log must have it.
            () = cancel.cancelled() => {
                self.questions.withdraw(|| ());
                answer.try_recv().ok()
            }
            () = useless => {
                if self.questions.expire(&call, || ()) { None } else { answer.try_recv().ok() }
            }
        };
        if cancel.is_cancelled() {
            self.questions.withdraw(|| ());
        }
        spans::question_ended(answer.as_ref().map(|(answer, _)| answer));
        self.log.append(Event::QuestionClosed { call, answer: answer.clone() });
        // After a cancel, the call does not run, whatever the answer was.
        answer.filter(|_| !cancel.is_cancelled()).map(|(answer, _)| answer)
    }

    /// Acts on an answer. If the call may run, returns the content that the answer brings along, if any. The error is the
    /// outcome of a call that may not run.
    pub(crate) async fn apply_answer(
        &self,
        answer: Option<&Answer>,
        cancel: &CancellationToken,
    ) -> Result<Option<AnswerContent>, ToolOutcome> {
        let Some(answer) = answer else { return Err(ToolOutcome::Cancelled) };
        let decision = answer.decision();
        match decision {
            Decision::Always(scope) => self.allow_always(scope.clone()),
            Decision::AlwaysAndSave(scope) => self.save(scope.clone()).await,
            Decision::CancelTurn => cancel.cancel(),
            Decision::RunEdited(content) => {
                return Ok(Some(AnswerContent::Edited(content.to_owned())));
            }
            Decision::RunWithInput(answers) => {
                return Ok(Some(AnswerContent::Input(answers.to_vec())));
            }
            _ => {}
        }
        refusal(decision).map_or(Ok(None), Err)
    }

    /// Allows a scope until the session ends, because the user has answered "always", and records that in the log.
    fn allow_always(&self, scope: Scope) {
        self.log.append(Event::AlwaysAllowed { scope: scope.clone() });
        self.permissions.allow(scope);
    }

    /// Removes a scope that the user has always allowed, and records that in the log.
    pub(crate) fn remove_always(&self, scope: Scope) {
        self.permissions.disallow(&scope);
        self.log.append(Event::AlwaysRemoved { scope });
    }

    /// Allows a scope in this session, and saves it for later ones. People are told which file has it, or why it was
    /// not saved.
    async fn save(&self, scope: Scope) {
        self.allow_always(scope.clone());
        let permissions = Arc::clone(&self.permissions);
        let saved = blocking(move || permissions.save(scope)).await;
        let notice = match saved {
            Ok(Ok(file)) => {
                format!(
                    "The answer is saved in {}; `/permissions remove` removes it.",
                    file.display()
                )
            }
            Ok(Err(why)) => format!("The answer counts until the session ends: {why}."),
            Err(_) => "The answer counts until the session ends: it could not be saved because of a bug in \
                tandem; the log (`--log-file`) says more."
                .to_owned(),
        };
        self.log.append(Event::Notice(notice));
    }
}

/// Returns the outcome of a call that the decision stops; `None` if the call may run.
fn refusal(decision: Decision<'_>) -> Option<ToolOutcome> {
    match decision {
        Decision::Run
        | Decision::RunEdited(_)
        | Decision::RunWithInput(_)
        | Decision::Always(_)
        | Decision::AlwaysAndSave(_) => None,
        Decision::Reject(_) => Some(ToolOutcome::Rejected),
        Decision::CancelTurn => Some(ToolOutcome::Cancelled),
        Decision::Unclear(why) => {
            let message = format!("Not run: the answer to the question was not understood: {why}");
            Some(ToolOutcome::Failed(ToolError::new("answer_unclear", message)))
        }
        Decision::Nobody(message) => {
            Some(ToolOutcome::Failed(ToolError::new("nobody_to_ask", message)))
        }
    }
}
