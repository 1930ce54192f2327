//! Clients that know text only: they are asked in words, and answer in words.

use serde_json::{Value, json};

use super::server::{Client, asks, prompt, serve, shared, states, statuses, text, within, write};
use crate::agent::Setup;

fn writes() -> Setup {
    Setup::answers(json!([[write("a.txt", "new\n")], [{ "text": "done" }]]))
}

/// The text of a status that somebody is asked by.
fn question(status: &Value) -> &str {
    let parts = status["message"]["parts"].as_array().unwrap();
    let said: Vec<_> = parts.iter().filter_map(|part| part["text"].as_str()).collect();
    let [said] = said[..] else { panic!("{parts:?}") };
    said
}

/// The task of a new session that asks.
async fn asked(client: Client) -> Value {
    let task = client.result("message/send", prompt("go")).await;
    assert_eq!(task["status"]["state"], "input-required", "{task}");
    task["id"].clone()
}

/// Answers a question with this, and returns what becomes of the call: its last status, and whether
/// the file was written.
async fn answered(said: &str) -> (String, bool) {
    let it = serve(&writes()).await;
    let task = asked(it.client).await;
    let mut stream = it.client.stream("message/stream", within(&task, prompt(said))).await;
    let events = stream.rest().await;
    let last = statuses(&events).last().copied().unwrap_or_default().to_owned();
    (last, it.home.path().join("workspace/a.txt").exists())
}

#[tokio::test]
async fn a_question_says_in_words_what_is_asked_and_what_to_answer() {
    let it = serve(&writes()).await;
    let mut stream = it.client.stream("message/stream", prompt("go")).await;
    let events = stream.rest().await;
    let last = &events.last().unwrap()["status"];
    assert_eq!(last["state"], "input-required");
    let said = question(last);
    for part in [
        "a.txt",
        "+new",
        "Allow it?",
        "`yes`",
        "`no`",
        "`proceed_always`",
        "while this session is open",
    ] {
        assert!(said.contains(part), "{part}: {said}");
    }
    assert_eq!(last["message"]["parts"][0]["kind"], "data");
    let task = &events[0]["id"];
    let got = it.client.result("tasks/get", json!({ "id": task })).await;
    assert_eq!(question(&got["status"]), said);
    let new = it.client.result("SendMessage", prompt("go")).await["task"]["status"].clone();
    assert_eq!(new["state"], "TASK_STATE_INPUT_REQUIRED");
    assert_eq!(question(&new), said);
}

#[tokio::test]
async fn what_is_hidden_in_a_question_is_shown() {
    let script = json!([[write("a\u{202e}txt.sh", "\u{1b}[2J\n")], [{ "text": "done" }]]);
    let it = serve(&Setup::answers(script)).await;
    let task = it.client.result("message/send", prompt("go")).await;
    let said = question(&task["status"]);
    assert!(said.contains("<U+202E>") && said.contains("␛[2J"), "{said}");
    assert!(!said.contains(['\u{202e}', '\u{1b}']), "{said}");
}

#[tokio::test]
async fn a_word_allows_it() {
    for said in
        ["yes", " YES\n", "allow", "Allow", "proceed_once", "Yes, this once", "proceed_always"]
    {
        assert_eq!(answered(said).await, ("SUCCEEDED".to_owned(), true), "{said}");
    }
}

#[tokio::test]
async fn a_word_denies_it() {
    for said in ["no", "No", "deny", " DENY ", "cancel", "reject", "Reject"] {
        assert_eq!(answered(said).await, ("CANCELLED".to_owned(), false), "{said}");
    }
}

#[tokio::test]
async fn anything_else_is_a_new_prompt() {
    for said in ["yes please", "no!", "yes no", "ok", "y", "proceed_always_server"] {
        let it = serve(&writes()).await;
        let task = asked(it.client).await;
        let told = it.client.result("message/send", within(&task, prompt(said))).await;
        let history = told["history"].to_string();
        assert!(history.contains(&format!("\"{said}\"")), "{said}: {history}");
        assert!(!it.home.path().join("workspace/a.txt").exists(), "{said}");
    }
    // Nothing is asked: it is a prompt.
    let it = serve(&Setup::answers(json!([[{ "text": "hi" }]]))).await;
    let task = it.client.result("message/send", prompt("go")).await["id"].clone();
    let told = it.client.result("message/send", within(&task, prompt("yes"))).await;
    let history = told["history"].as_array().unwrap();
    let said = history.iter().filter(|it| it["role"] == "user");
    let said: Vec<_> = said.map(|it| it["parts"][0]["text"].as_str().unwrap()).collect();
    assert_eq!(said, ["go", "yes"]);
}

#[tokio::test]
async fn an_answer_belongs_to_the_task_that_asks() {
    let it = serve(&writes()).await;
    let task = it.client.result("SendMessage", prompt("go")).await["task"].clone();
    let mut other = prompt("yes");
    other["message"]["contextId"] = task["contextId"].clone();
    other["configuration"] = json!({ "returnImmediately": true });
    it.client.result("SendMessage", other).await;
    let got = it.client.result("GetTask", json!({ "id": task["id"] })).await;
    assert_eq!(got["status"]["state"], "TASK_STATE_INPUT_REQUIRED", "{got}");
    let done = it.client.result("SendMessage", within(&task["id"], prompt("yes"))).await;
    assert_eq!(done["task"]["status"]["state"], "TASK_STATE_COMPLETED", "{done}");
    assert!(it.home.path().join("workspace/a.txt").exists());
}

#[tokio::test]
async fn a_word_on_a_socket_answers_too() {
    let it = shared(&writes()).await;
    let mut socket = it.client.socket().await;
    socket.send(1, "message/stream", prompt("go")).await;
    let asked = socket.until(|frame| asks(&frame["result"])).await.pop().unwrap();
    let task = asked["result"]["taskId"].clone();
    socket.until(|frame| frame["streamEnd"] == true).await;
    socket.send(2, "message/stream", within(&task, prompt("yes"))).await;
    let frames = socket.until(|frame| frame["streamEnd"] == true).await;
    let events: Vec<_> = frames.iter().map(|frame| frame["result"].clone()).collect();
    assert_eq!(states(&events).last(), Some(&"completed"));
    assert_eq!(text(&events), "done");
}
