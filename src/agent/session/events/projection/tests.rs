//! Tests of the projection: they fold events, given as JSON, and check the state and the update after each.

#![expect(clippy::needless_pass_by_value, reason = "a case reads better as a value")]

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use super::*;

/// A projection and the number of entries that it was given.
struct Fold {
    projection: Projection,
    entries: Vec<Entry>,
}

impl Fold {
    fn new(projection: Projection) -> Self {
        Self { projection, entries: Vec::new() }
    }

    /// Applies an event, as JSON; returns its update in short.
    fn see(&mut self, event: Value) -> String {
        let event: Event = serde_json::from_value(event).unwrap();
        let index = self.entries.len();
        let at = Millis::try_from(index).unwrap() * 1000;
        self.entries.push(Entry { index, at, event: Arc::new(event) });
        short(self.projection.apply(&self.entries[index]).as_ref())
    }

    fn turn(&mut self, turn: u64) {
        let prompt = json!([{ "Text": "go" }]);
        self.see(json!({ "TurnQueued": { "turn": turn, "prompt": prompt, "origin": "Editor" } }));
        self.see(json!({ "TurnStarted": { "turn": turn } }));
    }

    fn status(&self, call: &str) -> Option<CallStatus> {
        self.projection.call(call).map(|call| call.status)
    }
}

/// Returns an update in a few words: its turn, its kind, and the part of it that the projection decides.
fn short(update: Option<&Update<'_>>) -> String {
    let Some(Update { turn, kind, .. }) = update else { return "nothing".to_owned() };
    let turn = turn.map_or("-".to_owned(), |turn| turn.0.to_string());
    let kind = match kind {
        UpdateKind::Text(text) => format!("text {text}"),
        UpdateKind::Note { text, .. } => format!("note {text}"),
        UpdateKind::Retry { restarts, .. } => format!("retry, restarts: {restarts}"),
        UpdateKind::Call(started, CallStep::Started) => format!("{} starts", started.call.id),
        UpdateKind::Call(started, CallStep::Finished(_)) => format!("{} ends", started.call.id),
        UpdateKind::TurnFinished(_) => "end".to_owned(),
        other => format!("{other:?}"),
    };
    format!("{turn}: {kind}")
}

fn call(id: &str, asks: bool) -> Value {
    let question = json!({ "why": "", "commands": [], "scopes": [] });
    json!({ "CallStarted": {
        "call": { "id": id, "name": "tool", "args": {} },
        "caller": "Model",
        "kind": "Execute",
        "summary": { "label": id, "locations": [], "diff": null },
        "access": "Read",
        "question": if asks { question } else { Value::Null },
    } })
}

fn answered(call: &str, answer: Value) -> Value {
    json!({ "QuestionClosed": { "call": call, "answer": [answer, "Terminal"] } })
}

fn finished(call: &str, outcome: Value) -> Value {
    json!({ "CallFinished": { "call": call, "outcome": outcome } })
}

fn done(shown: Value) -> Value {
    json!({ "Done": { "text": "", "media": [], "shown": shown } })
}

fn end(turn: u64) -> Value {
    json!({ "TurnFinished": { "turn": turn, "reason": "EndTurn" } })
}

fn retry(discard: bool) -> Value {
    let delay = json!({ "secs": 3, "nanos": 0 });
    json!({ "Retry": {
        "reason": "busy", "delay": delay, "attempt": 2, "of": 10, "discard": discard } })
}

#[test]
fn a_call_has_one_status_at_each_step() {
    let once = json!({ "Once": { "edited": null } });
    for (answer, after, outcome, at_last) in [
        (once, CallStatus::Running, done(Value::Null), CallStatus::Succeeded),
        (json!("Reject"), CallStatus::Rejected, json!("Rejected"), CallStatus::Rejected),
        (json!("Cancel"), CallStatus::Cancelled, json!("Cancelled"), CallStatus::Cancelled),
        (
            json!({ "Nobody": "no" }),
            CallStatus::Failed,
            json!({ "Failed": { "kind": "nobody_to_ask", "message": "no", "shown": null } }),
            CallStatus::Failed,
        ),
    ] {
        let mut fold = Fold::new(Projection::default());
        fold.turn(1);
        fold.see(call("a", true));
        assert_eq!(fold.status("a"), Some(CallStatus::AwaitingAnswer));
        assert_eq!(fold.projection.turn(TurnId(1)).unwrap().questions, ["a"]);
        fold.see(answered("a", answer));
        assert_eq!(fold.status("a"), Some(after));
        assert!(fold.projection.turn(TurnId(1)).unwrap().questions.is_empty());
        fold.see(finished("a", outcome));
        assert_eq!(fold.status("a"), Some(at_last));
        assert_eq!(fold.projection.open_calls().count(), 0);
    }
}

#[test]
fn a_call_that_never_began_has_no_update() {
    let mut fold = Fold::new(Projection::default());
    fold.turn(1);
    assert_eq!(fold.see(finished("overtaken", json!("Cancelled"))), "nothing");
    assert_eq!(fold.see(call("a", false)), "1: a starts");
    assert_eq!(fold.see(finished("a", done(Value::Null))), "1: a ends");
}

#[test]
fn a_retry_restarts_only_an_answer_that_has_text() {
    for projection in [Projection::default(), Projection::complete()] {
        let mut fold = Fold::new(projection);
        fold.turn(1);
        fold.see(json!({ "Thought": "hm" }));
        assert_eq!(fold.see(retry(true)), "1: retry, restarts: false");
        fold.see(json!({ "Text": "half" }));
        assert_eq!(fold.see(retry(false)), "1: retry, restarts: false");
        assert_eq!(fold.see(retry(true)), "1: retry, restarts: true");
        assert_eq!(fold.see(retry(true)), "1: retry, restarts: false");
        fold.see(json!({ "Text": "whole" }));
        fold.see(end(1));
        fold.turn(2);
        assert_eq!(fold.see(retry(true)), "2: retry, restarts: false");
    }
}

#[test]
fn what_has_ended_is_held_until_the_next_entry() {
    let mut fold = Fold::new(Projection::default());
    for turn in 1..=50 {
        fold.turn(turn);
        fold.see(call("a", false));
        fold.see(json!({ "Text": "said" }));
        fold.see(finished("a", done(Value::Null)));
        assert!(fold.status("a").is_some());
        fold.see(end(turn));
        assert!(fold.projection.turn(TurnId(turn)).unwrap().ended.is_some());
        assert_eq!(fold.status("a"), None);
    }
    fold.see(json!({ "Notice": "idle" }));
    let Projection { turns, calls, open, starts, .. } = &fold.projection;
    assert_eq!((turns.len(), calls.len(), open.len(), starts.len()), (0, 0, 0, 1));
}

#[test]
fn a_complete_projection_tells_of_any_earlier_entry_again() {
    let mut fold = Fold::new(Projection::complete());
    let mut told = Vec::new();
    let mut see = |fold: &mut Fold, event| told.push(fold.see(event));
    fold.turn(1);
    see(&mut fold, json!({ "Text": "one " }));
    see(&mut fold, json!({ "Text": "two" }));
    see(&mut fold, call("a", true));
    see(&mut fold, retry(true));
    see(&mut fold, finished("a", json!("Cancelled")));
    see(&mut fold, json!({ "Text": "three" }));
    see(&mut fold, json!({ "Output": "four" }));
    see(&mut fold, end(1));
    fold.turn(2);
    let again: Vec<_> =
        fold.entries[2..10].iter().map(|it| short(fold.projection.update(it).as_ref())).collect();
    assert_eq!(again, told);
    assert_eq!(fold.projection.turn(TurnId(1)).unwrap().answers, ["three", "four"]);
    assert_eq!(fold.projection.running_at(3), Some(TurnId(1)));
    assert_eq!(fold.projection.latest().unwrap().id, TurnId(2));
}

#[test]
fn who_joins_late_is_told_of_an_open_question_once() {
    let Event::CallStarted(open) = serde_json::from_value(call("a", true)).unwrap() else {
        panic!("no call")
    };
    let mut fold = Fold::new(Projection::joining(&[open]));
    assert_eq!(fold.see(call("a", true)), "nothing");
    assert_eq!(fold.see(call("b", false)), "-: b starts");
    assert_eq!(fold.see(finished("a", json!("Rejected"))), "-: a ends");
}

#[test]
fn todos_are_shown_until_nothing_is_left_to_do() {
    let mut fold = Fold::new(Projection::default());
    let todos = |status: &str| done(json!({ "Todos": [{ "description": "x", "status": status }] }));
    for (turn, status, left) in [(1, "in_progress", 1), (2, "completed", 0)] {
        fold.turn(turn);
        fold.see(call("a", false));
        fold.see(finished("a", todos(status)));
        assert_eq!(fold.projection.todos().len(), 1);
        fold.see(end(turn));
        assert_eq!(fold.projection.todos().len(), left);
    }
}

#[test]
fn the_activity_is_what_a_person_would_ask_about() {
    let mut fold = Fold::new(Projection::default());
    assert!(matches!(fold.projection.activity(), Activity::Idle));
    fold.turn(1);
    assert!(matches!(fold.projection.activity(), Activity::AwaitingModel(1000)));
    fold.see(json!({ "Thought": "hm" }));
    assert!(matches!(fold.projection.activity(), Activity::Thinking(_)));
    fold.see(json!({ "Text": "\n" }));
    assert!(matches!(fold.projection.activity(), Activity::AwaitingModel(_)));
    fold.see(json!({ "Text": "So" }));
    assert!(matches!(fold.projection.activity(), Activity::Answering(_)));
    fold.see(retry(false));
    let Activity::Retrying(Retry { delay, .. }, until) = fold.projection.activity() else {
        panic!("{:?}", fold.projection.activity())
    };
    assert_eq!((*delay, until), (Duration::from_secs(3), 8000));
    fold.see(call("a", false));
    fold.see(call("b", true));
    assert!(
        matches!(fold.projection.activity(), Activity::AwaitingAnswer(it) if it.started.call.id == "b")
    );
    fold.see(answered("b", json!({ "Once": { "edited": null } })));
    assert!(
        matches!(fold.projection.activity(), Activity::Calling(it) if it.started.call.id == "b")
    );
    fold.see(end(1));
    assert!(matches!(fold.projection.activity(), Activity::Idle));
}
