//! Cards of tool calls in an editor, each under the id that the editor gives it.
//!
//! The id comes in the editor's answer to `pushToolCall` or `requestToolCallConfirmation`. One small
//! task per call waits for the id; updates that come before it are shown when it is known.

use std::collections::HashMap;
use std::sync::Arc;

use serde_json::Value;

use super::content::{confirmation, icon, locations, status, title, wire};
use crate::content::{live, outcome, proposal};
use parking_lot::Mutex;
use tandem_agent::session::{
    Answer, CallStarted, Choice, ChoiceKind, Decision, Event, Origin, Question, Scope, Session,
};
use tandem_wire::acp::v0::{
    PUSH_TOOL_CALL, PushToolCallParams, PushToolCallResponse, REQUEST_TOOL_CALL_CONFIRMATION,
    RequestToolCallConfirmationParams, RequestToolCallConfirmationResponse,
    ToolCallConfirmationOutcome, ToolCallContent, ToolCallId, ToolCallStatus, UPDATE_TOOL_CALL,
    UpdateToolCallParams,
};
use tandem_wire::rpc::{CallError, Peer};

/// Cards of the calls that have not ended.
pub(super) struct Cards {
    session: Arc<Session>,
    peer: Peer,
    /// Origin of the answers.
    origin: Origin,
    open: HashMap<String, Arc<Mutex<Card>>>,
}

/// Card of one call.
#[derive(Default)]
struct Card {
    /// The editor's id for the call, once known.
    id: Option<ToolCallId>,
    /// `true` if the editor's user rejected the call: the editor shows that by itself, and is sent no
    /// update.
    declined: bool,
    /// End of the call, if that came before the id.
    end: Option<Arc<Event>>,
}

impl Cards {
    pub(super) fn new(session: &Arc<Session>, peer: &Peer, origin: Origin) -> Self {
        let (session, peer) = (Arc::clone(session), peer.clone());
        Self { session, peer, origin, open: HashMap::new() }
    }

    /// Shows a call that begins; `own`: in a turn that came from this editor.
    pub(super) fn start(&mut self, started: &CallStarted, own: bool) {
        // A late editor is shown open calls at once, and reads of them again in the log.
        if self.open.contains_key(&started.call.id) {
            return;
        }
        let card = Arc::default();
        self.open.insert(started.call.id.clone(), Arc::clone(&card));
        match &started.question {
            // A question that is answered already is shown as a call.
            Some(question) if self.session.questions().is_open(&started.call.id) => {
                self.ask(started, question, card, own);
            }
            _ => self.push(started, card),
        }
    }

    /// Shows live output, if the editor has an id to show it under.
    pub(super) fn progress(&self, call: &str, output: &str) {
        let Some(card) = self.open.get(call) else { return };
        if let Some(id) = &card.lock().id {
            update(&self.peer, id, ToolCallStatus::Running, Some(wire(live(output))));
        }
    }

    /// Shows the end of a call: now, or when the editor's id is known.
    pub(super) fn finish(&mut self, call: &str, end: &Arc<Event>) {
        let Some(card) = self.open.remove(call) else { return };
        let mut card = card.lock();
        card.end = Some(Arc::clone(end));
        card.show_end(&self.peer);
    }

    fn push(&self, started: &CallStarted, card: Arc<Mutex<Card>>) {
        let params = PushToolCallParams {
            icon: icon(started.kind),
            label: &title(started),
            locations: locations(&started.summary.locations),
        };
        let answer = self.peer.call::<PushToolCallResponse>(PUSH_TOOL_CALL, &params);
        let (session, peer) = (Arc::clone(&self.session), self.peer.clone());
        let call = started.call.id.clone();
        tokio::spawn(async move {
            let shown = match answer.await {
                Ok(PushToolCallResponse { id }) => {
                    card.lock().identified(id, &peer);
                    Ok(())
                }
                // The editor hung up; its turns go on.
                Err(CallError::Gone) => Ok(()),
                Err(error) => Err(error.to_string()),
            };
            session.gate().pass(&call, shown);
        });
    }

    fn ask(&self, started: &CallStarted, question: &Question, card: Arc<Mutex<Card>>, own: bool) {
        let params = RequestToolCallConfirmationParams {
            label: &title(started),
            icon: icon(started.kind),
            content: proposal(started, question).map(wire),
            confirmation: confirmation(started, question),
            locations: locations(&started.summary.locations),
        };
        let reply = self.peer.call(REQUEST_TOOL_CALL_CONFIRMATION, &params);
        let (session, peer) = (Arc::clone(&self.session), self.peer.clone());
        let (call, question) = (started.call.id.clone(), question.clone());
        let origin = self.origin.clone();
        tokio::spawn(async move {
            let (answer, id) = read_answer(reply.await, &question);
            // For a turn that this editor began, no answer counts as one; others go on without it.
            if id.is_none() && !own {
                return;
            }
            let declined = matches!(answer.decision(), Decision::Reject(_) | Decision::CancelTurn);
            // Another front end may have been faster, or the turn has ended: the log shows that.
            if let Err(error) = session.answer(&call, answer, origin) {
                tracing::debug!(call, ?error, "the editor's answer does not count");
            }
            let mut card = card.lock();
            card.declined = declined;
            if let Some(id) = id {
                card.identified(id, &peer);
            }
        });
    }
}

impl Card {
    fn identified(&mut self, id: ToolCallId, peer: &Peer) {
        self.id = Some(id);
        self.show_end(peer);
    }

    fn show_end(&self, peer: &Peer) {
        let (Some(id), Some(end), false) = (&self.id, &self.end, self.declined) else { return };
        if let Event::CallFinished { outcome: end, .. } = &**end {
            update(peer, id, status(end), outcome(end).map(wire));
        }
    }
}

fn update(
    peer: &Peer,
    tool_call_id: &ToolCallId,
    status: ToolCallStatus,
    content: Option<ToolCallContent<'_>>,
) {
    peer.send(UPDATE_TOOL_CALL, &UpdateToolCallParams { tool_call_id, status, content });
}

/// Returns the meaning of the editor's answer, and the editor's id for the call.
fn read_answer(
    answer: Result<RequestToolCallConfirmationResponse, CallError>,
    question: &Question,
) -> (Answer, Option<ToolCallId>) {
    match answer {
        Ok(RequestToolCallConfirmationResponse { id: Some(id), outcome }) => {
            (read_outcome(&outcome, question), Some(id))
        }
        Ok(RequestToolCallConfirmationResponse { id: None, .. }) => {
            (Answer::Unclear("it has no `id` for the call".to_owned()), None)
        }
        // The editor has hung up.
        Err(CallError::Gone) => (Answer::Cancel, None),
        Err(error) => (Answer::Unclear(error.to_string()), None),
    }
}

fn read_outcome(outcome: &Value, question: &Question) -> Answer {
    use ToolCallConfirmationOutcome as Outcome;
    // A name alone: an object would be read as one too.
    let outcome_name = outcome.is_string().then(|| serde_json::from_value(outcome.clone()).ok());
    let Some(outcome_name) = outcome_name.flatten() else {
        return Answer::Unclear(format!("`outcome` is {outcome}"));
    };
    let always = |fits: &dyn Fn(&Scope) -> bool| {
        let of_scope = |choice: &Choice| {
            choice.kind == ChoiceKind::AllowAlways && choice.scope().is_some_and(fits)
        };
        find(question, of_scope).or_else(|| find(question, |it| it.kind == ChoiceKind::AllowAlways))
    };
    let found = match outcome_name {
        Outcome::Cancel => return Answer::Cancel,
        Outcome::Reject => return Answer::Reject,
        Outcome::Allow => None,
        Outcome::AlwaysAllow => always(&|_| true),
        Outcome::AlwaysAllowTool => always(&|scope| matches!(scope, Scope::Tool(_))),
        Outcome::AlwaysAllowMcpServer => {
            let server = |choice: &Choice| matches!(choice.scope(), Some(Scope::Server(_)));
            find(question, server).or_else(|| always(&|scope| matches!(scope, Scope::Tool(_))))
        }
    };
    // Every editor shows the same buttons: an "always" that is not offered is the plain yes.
    let found = found.or_else(|| find(question, |choice| choice.kind.allows()));
    found.unwrap_or_else(|| Answer::Unclear(format!("{outcome} is not offered")))
}

/// Returns the first answer that the question offers and that fits.
fn find(question: &Question, fits: impl Fn(&Choice) -> bool) -> Option<Answer> {
    question.choices().into_iter().find(fits).map(|choice| choice.answer)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::read_outcome;
    use tandem_agent::session::{Answer, ChoiceKind, Question, QuestionSubject, Scope};

    #[track_caller]
    fn check(outcome: &Value, allows: bool) {
        let answer = read_outcome(outcome, &Question::default());
        assert_eq!(matches!(answer, Answer::Once { .. }), allows, "{answer:?}");
    }

    #[test]
    fn only_a_name_allows() {
        check(&json!("allow"), true);
        check(&json!({ "allow": null }), false);
        check(&json!(["allow"]), false);
        check(&json!("Allow"), false);
        check(&Value::Null, false);
    }

    /// Checks that the outcomes of the protocol reach these choices of a question, and nothing else that allows.
    #[track_caller]
    fn reaches(question: &Question, kinds: &[ChoiceKind]) {
        let mut unreached = question.choices();
        unreached.retain(|choice| kinds.contains(&choice.kind));
        for name in ["allow", "alwaysAllow", "alwaysAllowTool", "alwaysAllowMcpServer", "reject"] {
            let answer = read_outcome(&json!(name), question);
            let choices = question.choices();
            let choice = choices.iter().find(|choice| choice.answer == answer).unwrap();
            assert_eq!(choice.kind.allows(), name != "reject", "{name}");
            unreached.retain(|it| it != choice);
        }
        assert_eq!(unreached, []);
    }

    #[test]
    fn the_outcomes_of_the_protocol_reach_what_a_question_offers() {
        let mcp = vec![Scope::Tool("t".to_owned()), Scope::Server("s".to_owned())];
        let call = Question { scopes: mcp, can_save: true, ..Question::default() };
        reaches(&call, &[ChoiceKind::AllowOnce, ChoiceKind::AllowAlways, ChoiceKind::RejectOnce]);
        let subject = QuestionSubject::FolderPrograms;
        let programs = Question { subject, ..Question::default() };
        reaches(&programs, &[ChoiceKind::AllowAndSave, ChoiceKind::RejectAndSave]);
    }
}
