//! Cards of tool calls in an editor. The editor gives each card an id.
//!
//! The id comes in the editor's answer to `pushToolCall` or `requestToolCallConfirmation`. One task for each call waits
//! for the id. If the call ends before the id comes, the end is shown when the id is known.

use std::collections::HashMap;
use std::sync::Arc;

use serde_json::Value;

use super::content::{confirmation, icon, locations, status, title, wire};
use crate::content::{live, outcome, proposal};
use parking_lot::Mutex;
use tandem_agent::session::{
    Answer, CallStarted, Choice, ChoiceKind, Decision, Event, Origin, Question, QuestionSubject,
    Scope, Session,
};
use tandem_wire::acp::v0::{
    PUSH_TOOL_CALL, PushToolCallParams, PushToolCallResponse, REQUEST_TOOL_CALL_CONFIRMATION,
    RequestToolCallConfirmationParams, RequestToolCallConfirmationResponse,
    ToolCallConfirmationOutcome, ToolCallContent, ToolCallId, ToolCallStatus, UPDATE_TOOL_CALL,
    UpdateToolCallParams,
};
use tandem_wire::rpc::{CallError, Peer};

/// Text for the model in place of an answer to its questions.
const NO_QUESTIONS: &str = "Not asked: the user's editor cannot show questions with options. Decide yourself, and say \
    what you assumed; if you cannot, end your answer with the question.";

/// Cards of the calls that have not ended.
pub(super) struct Cards {
    session: Arc<Session>,
    peer: Peer,
    /// Origin of the editor's answers to questions.
    origin: Origin,
    /// Cards of the open calls, by the calls' ids. The task that waits for the editor's id shares its card.
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

    /// Shows a call that begins. `own` is `true` if this editor began the call's turn.
    pub(super) fn start(&mut self, started: &CallStarted, own: bool) {
        // The view shows calls with open questions at once when it begins, and may read their start in the log again.
        if self.open.contains_key(&started.call.id) {
            return;
        }
        let card = Arc::default();
        self.open.insert(started.call.id.clone(), Arc::clone(&card));
        match &started.question {
            // If the question is answered already, the call is shown without it.
            // The outcomes of the protocol have no room for options, or for a text.
            Some(question) if question.subject == QuestionSubject::UserInput => {
                self.push(started, card, own.then(|| Answer::Nobody(NO_QUESTIONS.to_owned())));
            }
            Some(question) if self.session.questions().is_open(&started.call.id) => {
                self.ask(started, question, card, own);
            }
            _ => self.push(started, card, None),
        }
    }

    /// Shows live output of a call, if the editor's id for the call is known.
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

    /// Shows a call without its question. Then gives `answer`, in place of the user: the end of the call, and what the
    /// model says next, come after the call.
    fn push(&self, started: &CallStarted, card: Arc<Mutex<Card>>, answer: Option<Answer>) {
        let params = PushToolCallParams {
            icon: icon(started.kind),
            label: &title(started),
            locations: locations(&started.summary.locations),
        };
        let reply = self.peer.call::<PushToolCallResponse>(PUSH_TOOL_CALL, &params);
        let (session, peer) = (Arc::clone(&self.session), self.peer.clone());
        let (call, origin) = (started.call.id.clone(), self.origin.clone());
        tokio::spawn(async move {
            let shown = match reply.await {
                Ok(PushToolCallResponse { id }) => {
                    card.lock().identified(id, &peer);
                    Ok(())
                }
                // The editor has hung up, but its turns go on, so the call may run.
                Err(CallError::Gone) => Ok(()),
                Err(error) => Err(error.to_string()),
            };
            session.gate().pass(&call, shown);
            if let Some(answer) = answer {
                // Another front end may have been faster.
                let _ = session.answer(&call, answer, origin);
            }
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
            // Without an id there is no usable answer. If this editor began the turn, the failure counts as an answer;
            // else the question stays open for other front ends.
            if id.is_none() && !own {
                return;
            }
            let declined = matches!(answer.decision(), Decision::Reject(_) | Decision::CancelTurn);
            // The session refuses the answer if another front end has been faster or the turn has ended. Nothing is to
            // be done here then, because the log shows it.
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
            (Answer::Unclear("the call has no `id`".to_owned()), None)
        }
        // The editor has hung up.
        Err(CallError::Gone) => (Answer::Cancel, None),
        Err(error) => (Answer::Unclear(error.to_string()), None),
    }
}

fn read_outcome(outcome: &Value, question: &Question) -> Answer {
    use ToolCallConfirmationOutcome as Outcome;
    // Only a JSON string is an outcome's name: `serde` would read an object like `{"allow": null}` as a name too.
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
    // Every editor shows the same buttons. If the user chooses an "always" that the question does not offer, the answer
    // counts as the first choice that allows the call.
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
