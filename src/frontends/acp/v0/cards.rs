//! Cards of tool calls in an editor, each under the id that the editor gives it.
//!
//! The id comes in the editor's answer to `pushToolCall` or `requestToolCallConfirmation`. One small
//! task per call waits for the id; updates that come before it are shown when it is known.

use std::collections::HashMap;
use std::sync::Arc;

use serde_json::Value;

use super::content::{confirmation, icon, locations, status, wire};
use crate::content::{live, outcome, proposal};
use parking_lot::Mutex;
use tandem_agent::session::{
    Answer, CallStarted, Decision, Event, Origin, Question, Scope, Session,
};
use tandem_content::visible::visible_line;
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
            Some(question) if self.session.asks(&started.call.id) => {
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
            label: &visible_line(&started.summary.label),
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
            session.shown(&call, shown);
        });
    }

    fn ask(&self, started: &CallStarted, question: &Question, card: Arc<Mutex<Card>>, own: bool) {
        let params = RequestToolCallConfirmationParams {
            label: &visible_line(&started.summary.label),
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
    match outcome_name.flatten() {
        Some(Outcome::Allow) => Answer::Once { edited: None },
        Some(Outcome::AlwaysAllow) => always(question, |_| true),
        Some(Outcome::AlwaysAllowTool) => always(question, |scope| matches!(scope, Scope::Tool(_))),
        Some(Outcome::AlwaysAllowMcpServer) => {
            let server = question.scopes.iter().any(|scope| matches!(scope, Scope::Server(_)));
            always(question, |scope| match scope {
                Scope::Server(_) => true,
                Scope::Tool(_) => !server,
                _ => false,
            })
        }
        Some(Outcome::Reject) => Answer::Reject,
        Some(Outcome::Cancel) => Answer::Cancel,
        None => Answer::Unclear(format!("`outcome` is {outcome}")),
    }
}

/// Returns "always" for the first scope that fits, else for the narrowest; "once" if there is no
/// scope.
fn always(question: &Question, fits: impl Fn(&Scope) -> bool) -> Answer {
    let fitting = question.scopes.iter().find(|scope| fits(scope));
    match fitting.or(question.scopes.first()) {
        Some(scope) => Answer::Always(scope.clone()),
        None => Answer::Once { edited: None },
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::read_outcome;
    use tandem_agent::session::{Answer, Question};

    #[track_caller]
    fn check(outcome: &Value, allows: bool) {
        let question = Question {
            why: String::new(),
            rules: Vec::new(),
            commands: Vec::new(),
            scopes: Vec::new(),
            can_save: false,
        };
        let answer = read_outcome(outcome, &question);
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
}
