//! Requests that are sent before the requests that they depend on are answered.

use serde_json::{Value, json};

use super::{Editor, stop_reason, text};
use crate::agent::Setup;

fn talks() -> Setup {
    Setup::script(vec![
        json!({ "when": "hang", "answers": [[{ "text": "begun" }, { "hang": null }]] }),
        json!({ "when": "", "answers": [[{ "text": "fine" }]] }),
    ])
}

/// Opens a session, sends a prompt and closes the session; returns its id.
async fn closed_session(editor: &mut Editor) -> String {
    let session = editor.session().await;
    editor.ask(&session, "go").await;
    editor.call("session/close", json!({ "sessionId": session })).await;
    session
}

async fn open(editor: &mut Editor, method: &str, session: &str) -> u64 {
    let params = json!({ "sessionId": session, "cwd": editor.cwd(), "mcpServers": [] });
    editor.request(method, params).await
}

/// Reads until all of these requests are answered; the answers in the order read.
async fn answers(editor: &mut Editor, ids: &[u64]) -> Vec<Value> {
    let mut answers = Vec::new();
    while answers.len() < ids.len() {
        let message = editor.message().await;
        if message.get("method").is_none() {
            answers.push(message);
        }
    }
    answers
}

#[tokio::test]
pub(super) async fn a_prompt_waits_for_its_session_to_be_opened() {
    for method in ["session/load", "session/resume"] {
        let mut editor = Editor::start(&talks()).await;
        let session = closed_session(&mut editor).await;
        let opened = open(&mut editor, method, &session).await;
        let prompt = editor.prompt(&session, "more").await;
        let before = editor.until(opened).await;
        assert!(before.last().unwrap().get("result").is_some(), "{method}: {before:?}");
        let read = editor.until(prompt).await;
        assert_eq!(stop_reason(&read), "end_turn", "{method}: {read:?}");
        assert_eq!(text(&read, "agent_message_chunk"), "fine", "{method}");
    }
}

#[tokio::test]
async fn whatever_follows_waits_and_is_answered_in_order() {
    let mut editor = Editor::start(&talks()).await;
    let session = closed_session(&mut editor).await;
    let of = |more: Value| {
        let mut params = json!({ "sessionId": session });
        params.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        params
    };
    let opened = open(&mut editor, "session/load", &session).await;
    let mode = json!({ "configId": "mode", "value": "auto_edit" });
    let required = json!({ "steering": { "idleBehavior": "promptRequired" } });
    let steering = json!({ "prompt": [{ "type": "text", "text": "x" }], "_meta": required });
    let mut ids = vec![opened];
    for (method, params) in [
        ("session/set_mode", of(json!({ "modeId": "plan" }))),
        ("session/set_config_option", of(mode)),
        ("_session/steering", of(steering)),
        ("session/load", of(json!({ "cwd": editor.cwd() }))),
        ("session/close", of(json!({}))),
        ("session/set_mode", of(json!({ "modeId": "plan" }))),
        ("session/resume", of(json!({ "cwd": editor.cwd() }))),
    ] {
        ids.push(editor.request(method, params).await);
    }
    let answers = answers(&mut editor, &ids).await;
    let order: Vec<_> = answers.iter().map(|answer| answer["id"].as_u64().unwrap()).collect();
    assert_eq!(order, ids);
    let codes: Vec<_> = answers.iter().map(|answer| answer["error"]["code"].clone()).collect();
    let mut expected = vec![Value::Null; 8];
    expected[6] = json!(-32002);
    assert_eq!(codes, expected, "{answers:#?}");
    assert_eq!(stop_reason(&editor.ask(&session, "go").await), "end_turn");
}

#[tokio::test]
async fn a_cancel_ends_the_prompt_before_it() {
    let mut editor = Editor::start(&talks()).await;
    let session = closed_session(&mut editor).await;
    let opened = open(&mut editor, "session/load", &session).await;
    let prompt = editor.prompt(&session, "hang").await;
    editor.notify("session/cancel", json!({ "sessionId": session })).await;
    editor.until(opened).await;
    assert_eq!(stop_reason(&editor.until(prompt).await), "cancelled");
    let opened = open(&mut editor, "session/load", &session).await;
    let prompt = editor.prompt(&session, "hang").await;
    editor.notify("$/cancel_request", json!({ "requestId": prompt })).await;
    editor.until(opened).await;
    assert_eq!(stop_reason(&editor.until(prompt).await), "cancelled");
}

#[tokio::test]
async fn a_session_that_cannot_be_opened_takes_no_prompt() {
    let mut editor = Editor::start(&talks()).await;
    let session = closed_session(&mut editor).await;
    for (id, cwd, code) in [("none", editor.cwd(), -32002), (&session, "/".into(), -32602)] {
        let params = json!({ "sessionId": id, "cwd": cwd, "mcpServers": [] });
        let opened = editor.request("session/load", params).await;
        let prompt = editor.prompt(id, "go").await;
        let answers = answers(&mut editor, &[opened, prompt]).await;
        assert_eq!(answers[0]["error"]["code"], code);
        assert_eq!(answers[1]["error"]["code"], -32002);
    }
}

#[tokio::test]
async fn other_sessions_do_not_wait() {
    let mut editor = Editor::start(&talks()).await;
    let session = closed_session(&mut editor).await;
    let other = editor.session().await;
    open(&mut editor, "session/load", &session).await;
    let waiting = editor.prompt(&session, "hang").await;
    assert_eq!(stop_reason(&editor.ask(&other, "go").await), "end_turn");
    editor.notify("session/cancel", json!({ "sessionId": session })).await;
    assert_eq!(stop_reason(&editor.until(waiting).await), "cancelled");
}

#[tokio::test]
async fn prompts_that_wait_are_answered_when_the_editor_hangs_up() {
    let mut editor = Editor::start(&talks()).await;
    let session = closed_session(&mut editor).await;
    let opened = open(&mut editor, "session/load", &session).await;
    let prompt = editor.prompt(&session, "go").await;
    let (rest, exit) = editor.agent.hang_up().await;
    let answered = |id: u64| {
        let is_answer = |line: &String| {
            let message: Value = serde_json::from_str(line).unwrap();
            message["id"] == id && message.get("method").is_none()
        };
        rest.iter().filter(|line| is_answer(line)).count()
    };
    assert_eq!((answered(opened), answered(prompt)), (1, 1), "{rest:?}");
    assert!(exit.success());
}
