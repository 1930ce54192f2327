//! The same message twice is one turn: a client that has lost the response asks again.

use expect_test::expect;
use serde_json::{Value, json};

use super::server::{
    answer, asks, prompt, serve, shared, statuses, text, tool_call, within, write,
};
use crate::agent::Setup;

/// A model that says something else to another prompt.
fn counts() -> Setup {
    Setup::script(vec![
        json!({ "when": "again", "answers": [[{ "text": "second" }]] }),
        json!({ "when": "", "answers": [[{ "text": "first" }]] }),
    ])
}

fn in_context(context: &str, mut params: Value) -> Value {
    params["message"]["contextId"] = json!(context);
    params
}

/// Returns the number of times that the user has said something in a task.
fn prompts(task: &Value) -> usize {
    let said = task["history"].as_array().unwrap().iter();
    said.filter(|it| ["user", "ROLE_USER"].contains(&it["role"].as_str().unwrap())).count()
}

/// Sends a message twice; both responses have the same task, in which something was said once.
async fn check(method: &str, params: Value) {
    let it = serve(&counts()).await;
    let task = |result: Value| result.get("task").cloned().unwrap_or(result);
    let first = task(it.client.result(method, params.clone()).await);
    let again = task(it.client.result(method, params.clone()).await);
    assert_eq!(first["id"], again["id"], "{method} {params}");
    assert_eq!(first, again, "{method} {params}");
    assert_eq!(prompts(&again), 1, "{again}");
    let all = it.client.result("ListTasks", json!({})).await;
    assert_eq!(all["totalSize"], 1, "{method} {params}: {all}");
}

#[tokio::test]
async fn a_message_that_is_sent_again_is_no_second_turn() {
    for method in ["message/send", "SendMessage"] {
        check(method, prompt("go")).await;
        check(method, in_context("mine", prompt("go"))).await;
    }
}

#[tokio::test]
async fn of_two_at_once_one_begins_the_turn() {
    let it = serve(&counts()).await;
    let params = prompt("go");
    let send = || it.client.result("SendMessage", params.clone());
    let (one, other) = tokio::join!(send(), send());
    assert_eq!(one["task"]["id"], other["task"]["id"]);
    let all = it.client.result("ListTasks", json!({})).await;
    assert_eq!(all["totalSize"], 1, "{all}");
}

#[tokio::test]
async fn within_a_task_it_is_the_same() {
    let it = serve(&counts()).await;
    let task = it.client.result("message/send", prompt("go")).await["id"].clone();
    let again = within(&task, prompt("again"));
    for _ in 0..2 {
        let task = it.client.result("message/send", again.clone()).await;
        assert_eq!(prompts(&task), 2, "{task}");
        assert_eq!(task["artifacts"][0]["parts"][0]["text"], "second", "{task}");
    }
}

#[tokio::test]
async fn a_stream_that_is_asked_for_again_tells_of_the_same_turn() {
    let it = serve(&Setup::answers(json!([[write("a.txt", "x")], [{ "text": "done" }]]))).await;
    let params = prompt("go");
    let mut one = it.client.stream("message/stream", params.clone()).await;
    let first = one.until(asks).await;
    let again = it.client.stream("message/stream", params).await.rest().await;
    assert_eq!(again[0]["kind"], "task", "{again:?}");
    assert_eq!(first[0]["id"], again[0]["id"]);
    assert!(again.iter().any(asks), "{again:?}");
    assert_eq!(again.last().unwrap()["status"]["state"], "input-required");
    let found = it.client.result("tasks/get", json!({ "id": first[0]["id"] })).await;
    assert_eq!(prompts(&found), 1, "{found}");
}

#[tokio::test]
async fn a_stream_of_a_turn_that_has_ended_tells_all_of_it() {
    let it = serve(&counts()).await;
    let params = prompt("go");
    let first = it.client.stream("SendStreamingMessage", params.clone()).await.rest().await;
    let again = it.client.stream("SendStreamingMessage", params).await.rest().await;
    assert_eq!(first, again);
}

#[tokio::test]
async fn over_a_websocket_it_is_the_same() {
    let it = shared(&counts()).await;
    let mut socket = it.client.socket().await;
    let params = prompt("go");
    for id in [1, 2] {
        socket.send(id, "message/stream", params.clone()).await;
        let frames = socket.until(|frame| frame["streamEnd"] == true && frame["id"] == id).await;
        let events = frames.iter().filter(|frame| frame["id"] == id);
        let events: Vec<Value> = events.map(|frame| frame["result"].clone()).collect();
        assert_eq!(text(&events), "first", "{events:?}");
    }
    let task = socket.call(3, "message/send", params).await;
    assert_eq!(prompts(&task["result"]), 1, "{task}");
}

#[tokio::test]
async fn something_else_under_the_same_id_is_refused() {
    let it = serve(&counts()).await;
    let mut params = in_context("mine", prompt("go"));
    it.client.result("message/send", params.clone()).await;
    params["message"]["parts"][0]["text"] = json!("again");
    let mut told = Vec::new();
    for method in ["message/send", "SendMessage"] {
        let (code, why) = it.client.error(method, params.clone()).await;
        assert_eq!(code, -32602, "{why}");
        told.push(why.replace(params["message"]["messageId"].as_str().unwrap(), "ID"));
    }
    told.dedup();
    expect![[r#""`messageId` ID was sent before, with other content: every message needs an id of its own""#]].assert_eq(&told.join("\n"));
    let mut sse = it.client.stream("message/stream", params.clone()).await;
    assert_eq!(sse.event().await.unwrap().1["error"]["code"], -32602);
    // In another conversation it is another message.
    let other = it.client.result("message/send", in_context("other", params)).await;
    assert_eq!(other["artifacts"][0]["parts"][0]["text"], "second", "{other}");
}

#[tokio::test]
async fn a_message_that_was_refused_may_be_sent_again() {
    let it = serve(&counts()).await;
    let mut params = prompt("go");
    params["message"]["metadata"] = json!({ "workspacePath": "/" });
    assert_eq!(it.client.error("message/send", params.clone()).await.0, -32602);
    params["message"]["metadata"] = json!({});
    let task = it.client.result("message/send", params).await;
    assert_eq!(prompts(&task), 1, "{task}");
}

#[tokio::test]
async fn an_answer_that_is_sent_again_changes_nothing() {
    let it = serve(&Setup::answers(json!([[write("a.txt", "x")], [{ "text": "done" }]]))).await;
    let mut events = it.client.stream("message/stream", prompt("go")).await;
    let asked = events.until(asks).await.pop().unwrap();
    let call = &tool_call(&asked)["tool_call_id"];
    let params = within(&asked["taskId"], answer(call, "proceed_once"));
    let first = it.client.result("message/send", params.clone()).await;
    assert_eq!(first["status"]["state"], "completed", "{first}");
    let again = it.client.result("message/send", params.clone()).await;
    assert_eq!(first, again);
    let told = it.client.stream("message/stream", params).await.rest().await;
    assert_eq!(statuses(&told), ["EXECUTING", "SUCCEEDED"]);
    // Another message is another answer, and too late.
    let late = within(&asked["taskId"], answer(call, "proceed_once"));
    assert_eq!(it.client.error("message/send", late).await.0, -32602);
}
