//! Screens of a terminal that shows a session of another process.

use serde_json::{Value, json};

use super::super::dialog::Dialog;
use super::super::state::{RemoteSessionInfo, ScreenState, StatusInfo};
use super::{Stage, asked_edit, done};
use tandem_agent::session::{ClientName, Origin};

/// Returns a terminal that is attached to another user's session.
pub(super) fn attached() -> Stage {
    let place = "127.0.0.1:41242".to_owned();
    let about = StatusInfo {
        elsewhere: Some(RemoteSessionInfo { place, lost: false }),
        ..Stage::new().state.about
    };
    Stage {
        state: ScreenState::new(about, Origin::Attached(ClientName::new(2, "t"))),
        ..Stage::new()
    }
}

fn queued(turn: u64, text: &str, origin: Value) -> Value {
    json!({ "TurnQueued": { "turn": turn, "prompt": [{ "Text": text }], "origin": origin } })
}

#[test]
fn who_says_something_is_said_unless_it_was_said_here() {
    attached()
        .turn_of("from the agent's own terminal", json!("Terminal"))
        .see(queued(2, "from here", json!({ "Attached": { "name": "t", "number": 2 } })))
        .see(queued(
            3,
            "from another terminal",
            json!({ "Attached": { "name": "t", "number": 1 } }),
        ))
        .see(queued(4, "from the editor", json!("Editor")))
        .check("attached.txt");
}

#[test]
fn who_allows_something_is_said_unless_it_was_allowed_here() {
    let closed = |call: &str, by: u64| {
        json!({ "QuestionClosed": { "call": call, "answer":
        [{ "Once": { "edited": null } }, { "Attached": { "name": "t", "number": by } }] } })
    };
    attached()
        .turn_of("go", json!("Editor"))
        .see(asked_edit("1"))
        .see(closed("1", 2))
        .finished("1", done(json!(null)))
        .see(asked_edit("2"))
        .see(closed("2", 1))
        .finished("2", done(json!(null)))
        .see(asked_edit("3"))
        .wait(1000)
        .check("attached_question.txt");
}

#[test]
fn a_lost_connection_is_said_and_nothing_turns() {
    let mut stage = attached().turn_of("go", json!("Editor"));
    stage.state.set_lost(true);
    stage.check("attached_lost.txt");
    stage.state.set_lost(false);
    assert!(stage.state.activity(stage.now).is_some());
}

#[test]
fn only_what_was_said_here_is_taken_back() {
    let stage = attached()
        .see(queued(1, "mine", json!({ "Attached": { "name": "t", "number": 2 } })))
        .see(queued(2, "another's", json!({ "Attached": { "name": "t", "number": 1 } })));
    assert_eq!(stage.state.last_queued().unwrap().prompt, "mine");
}

#[test]
fn a_question_comes_back_if_its_answer_was_not_taken_and_it_is_still_open() {
    let mut stage = attached().turn_of("go", json!("Editor")).see(asked_edit("1"));
    let dialog = stage.state.questions.close("1", stage.now).unwrap();
    assert!(stage.state.questions.open.is_empty());
    stage.state.ask_again(dialog.clone(), stage.now);
    assert_eq!(stage.state.questions.shown().map(Dialog::call), Some("1"));
    let closed = json!({ "QuestionClosed": { "call": "1", "answer": null } });
    let mut stage = stage.see(closed);
    stage.state.ask_again(dialog, stage.now);
    assert!(stage.state.questions.open.is_empty());
}
