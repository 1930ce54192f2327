//! Questions without an answer: they expire, unless they wait for a person.

use expect_test::expect;
use serde_json::json;

use super::server::{prompt, serve, shared, within, write};
use crate::agent::Setup;

fn writes() -> Setup {
    Setup::answers(json!([[write("a.txt", "new\n")], [{ "text": "done" }]]))
}

fn hasty() -> Setup {
    writes().arg("--limit").arg("question-seconds=1")
}

#[tokio::test]
async fn a_question_that_nobody_answers_ends_its_task() {
    let it = serve(&hasty()).await;
    let task = it.client.result("message/send", prompt("go")).await;
    assert_eq!(task["status"]["state"], "input-required");
    let mut watch = it.client.stream("tasks/resubscribe", json!({ "id": task["id"] })).await;
    let events = watch.rest().await;
    let end = &events.last().unwrap()["status"];
    assert_eq!(end["state"], "canceled", "{end}");
    let why = end["message"]["parts"][0]["text"].as_str().unwrap();
    expect!["Cancelled: nobody answered the question within 1 s (`--limit question-seconds=N` allows more). Send a new message to go on."].assert_eq(why);
    let got = it.client.result("tasks/get", json!({ "id": task["id"] })).await;
    assert_eq!(got["status"]["state"], "canceled");
    assert_eq!(got["status"]["message"]["parts"][0]["text"], why);
    assert!(!it.home.path().join("workspace/a.txt").exists());
}

#[tokio::test]
async fn in_a_shared_session_a_question_waits_for_the_person() {
    let it = shared(&hasty()).await;
    let task = it.client.result("message/send", prompt("go")).await["id"].clone();
    // The other server cancels its question after a second. When that has happened, the shared session's question
    // has waited at least as long.
    let other = serve(&hasty()).await;
    let gone = other.client.result("message/send", prompt("go")).await["id"].clone();
    other.client.stream("tasks/resubscribe", json!({ "id": gone })).await.rest().await;
    let got = it.client.result("tasks/get", json!({ "id": task })).await;
    assert_eq!(got["status"]["state"], "input-required", "{got}");
    let done = it.client.result("message/send", within(&task, prompt("never mind"))).await;
    assert_ne!(done["status"]["state"], "canceled");
}
