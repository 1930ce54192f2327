//! The first message, and what the agent says of itself.

use serde_json::{Value, json};

use super::Editor;
use crate::agent::Setup;

/// Sends `initialize` with these parameters; the protocol's version in the answer, or the error's code.
async fn version(params: Value) -> Value {
    let mut agent = Setup::default().arg("--acp").start();
    let id = agent.request("initialize", params).await;
    let answer = agent.answer_to(id).await;
    match answer.get("error") {
        Some(error) => error["code"].clone(),
        None => answer["result"]["protocolVersion"].clone(),
    }
}

#[tokio::test]
async fn the_first_message_decides_which_version_is_spoken() {
    for (params, expected) in [
        (json!({ "protocolVersion": 1 }), json!(1)),
        (json!({ "protocolVersion": "1" }), json!(1)),
        (json!({ "protocolVersion": 0 }), json!(1)),
        (json!({ "protocolVersion": 65535 }), json!(1)),
        (json!({ "protocolVersion": 2, "info": { "name": "x" }, "capabilities": {} }), json!(1)),
        (json!({ "protocolVersion": 1, "clientCapabilities": 5, "clientInfo": [] }), json!(1)),
        (json!({ "protocolVersion": "0.0.9" }), json!("0.0.9")),
        (json!({}), json!("0.0.9")),
        (json!(null), json!("0.0.9")),
        (json!({ "protocolVersion": "2025-06-18" }), json!(-32602)),
        (json!({ "clientCapabilities": {} }), json!(-32602)),
    ] {
        assert_eq!(version(params.clone()).await, expected, "{params}");
    }
}

#[tokio::test]
async fn a_right_initialize_may_follow_a_wrong_one_and_be_repeated() {
    let mut editor = Editor::silent(&Setup::default());
    let wrong = editor.call("initialize", json!({ "protocolVersion": "2025-06-18" })).await;
    assert!(wrong["error"]["message"].as_str().unwrap().contains("integer"), "{wrong}");
    for _ in 0..2 {
        let right = editor.call("initialize", json!({ "protocolVersion": 1 })).await;
        assert_eq!(right["result"]["protocolVersion"], 1);
    }
    let old = editor.call("initialize", json!({ "protocolVersion": "0.0.9" })).await;
    assert_eq!(old["result"]["protocolVersion"], 1, "the version stays");
}

#[tokio::test]
async fn a_first_message_that_is_no_initialize_is_served() {
    let mut editor = Editor::silent(&Setup::default());
    let session = editor.session().await;
    assert!(!session.is_empty());
}

#[tokio::test]
async fn nothing_is_written_before_the_first_session() {
    let editor = Editor::start(&Setup::default()).await;
    let home = editor.cwd().parent().unwrap().to_owned();
    let mut names: Vec<_> =
        std::fs::read_dir(home).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["script.jsonl", "workspace"]);
}

#[tokio::test]
async fn terminal_logins_are_offered_to_whoever_can_show_them() {
    let methods = async |capabilities: Value| {
        let params = json!({ "protocolVersion": 1, "clientCapabilities": capabilities });
        let editor = Editor::with(&Setup::default(), params).await;
        editor.initialized["authMethods"].clone()
    };
    let agent = json!({
        "id": "gemini-api-key",
        "name": "Gemini API key",
        "description": "Opens a page in your browser that asks for the key",
    });
    let args = json!(["login", "--provider=gemini"]);
    assert_eq!(methods(json!({})).await, json!([agent]));
    let terminal = json!({
        "type": "terminal", "id": "login", "name": "Log in in a terminal", "args": args,
    });
    let both = json!([agent, terminal]);
    assert_eq!(methods(json!({ "auth": { "terminal": true } })).await, both);
    assert_eq!(methods(json!({ "auth": { "terminal": {} } })).await, both);
    let old = methods(json!({ "_meta": { "terminal-auth": true } })).await;
    assert_eq!(old[0]["_meta"]["terminal-auth"]["args"], args);
}

#[tokio::test]
async fn a_model_without_a_key_asks_for_one() {
    let setup = Setup::default().arg("--model").arg("gemini-2.5-flash");
    let mut editor = Editor::start(&setup).await;
    let session = editor.session().await;
    let answer = editor.ask(&session, "hello").await.pop().unwrap();
    assert_eq!(answer["error"]["code"], -32000, "{answer}");
    assert!(answer["error"]["message"].as_str().unwrap().contains("tandem login"), "{answer}");
    let help = editor.ask(&session, "/help").await.pop().unwrap();
    assert_eq!(help["result"]["stopReason"], "end_turn", "a command needs no model");
}

#[tokio::test]
async fn authenticate_does_nothing_if_there_is_nothing_to_do() {
    let mut editor = Editor::start(&Setup::default()).await;
    let answer = editor.call("authenticate", json!({ "methodId": "gemini-api-key" })).await;
    assert_eq!(answer["result"], json!({}));
    let answer = editor.call("authenticate", json!({ "methodId": "other" })).await;
    assert_eq!(answer["error"]["code"], -32602);
}

#[tokio::test]
async fn unknown_requests_are_refused_and_unknown_notifications_are_passed_over() {
    let mut editor = Editor::start(&Setup::default()).await;
    editor.notify("_vendor/news", json!({})).await;
    editor.notify("session/cancel", json!({ "sessionId": "none" })).await;
    for method in ["session/fork", "_vendor/ask", "sendUserMessage", "$/x"] {
        let answer = editor.call(method, json!({})).await;
        assert_eq!(answer["error"]["code"], -32601, "{method}");
    }
}
