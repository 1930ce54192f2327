//! A message that is sent twice is one turn: a client that has lost the response sends the message again.

use expect_test::expect;
use serde_json::{Value, json};
use tokio::task::yield_now;

use super::server::{
    Client, answer, asks, prompt, serve, shared, statuses, text, tool_call, within, write,
};
use crate::agent::Setup;
use crate::limit::in_time;

/// Returns a model with another answer for each prompt.
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

/// Returns the number of prompts in a task.
fn prompts(task: &Value) -> usize {
    let said = task["history"].as_array().unwrap().iter();
    said.filter(|it| ["user", "ROLE_USER"].contains(&it["role"].as_str().unwrap())).count()
}

/// Sends a message twice. Checks that both responses have the same task, with one prompt.
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
    // In another context, the same id belongs to another message.
    let other = it.client.result("message/send", in_context("other", params)).await;
    assert_eq!(other["artifacts"][0]["parts"][0]["text"], "second", "{other}");
}

/// Returns a message that counts its ids from 1, as many clients do, and names no session.
fn numbered(text: &str) -> Value {
    let mut params = prompt(text);
    params["message"]["messageId"] = json!("1");
    params
}

fn said(task: &Value) -> &Value {
    &task["artifacts"][0]["parts"][0]["text"]
}

#[tokio::test]
async fn without_a_session_something_else_under_the_same_id_is_another_task() {
    let it = serve(&counts()).await;
    for method in ["message/send", "SendMessage"] {
        let task = |result: Value| result.get("task").cloned().unwrap_or(result);
        let first = task(it.client.result(method, numbered("go")).await);
        let second = task(it.client.result(method, numbered("again")).await);
        assert_ne!(first["contextId"], second["contextId"], "{second}");
        assert_eq!((said(&first), said(&second)), (&json!("first"), &json!("second")));
        // Both messages are remembered, although they have the same id.
        assert_eq!(task(it.client.result(method, numbered("go")).await), first);
        assert_eq!(task(it.client.result(method, numbered("again")).await), second);
    }
}

#[tokio::test]
async fn in_a_shared_session_it_is_another_turn() {
    let it = shared(&counts()).await;
    for text in ["go", "again", "go"] {
        let task = it.client.result("SendMessage", numbered(text)).await["task"].clone();
        let expected = if text == "again" { ("second", 2) } else { ("first", 1) };
        assert_eq!(said(&task), expected.0);
        let turn = task["id"].as_str().unwrap().rsplit_once('.').unwrap().1;
        assert_eq!(turn, expected.1.to_string(), "{task}");
    }
}

#[tokio::test]
async fn a_message_that_is_sent_again_after_a_restart_begins_no_second_task() {
    for at_once in [true, false] {
        let setup = Setup::answers(json!([[write("a.txt", "x")], [{ "text": "done" }]]));
        let it = serve(&setup).await;
        let mut params = numbered("go");
        params["configuration"] = json!({ "returnImmediately": at_once });
        let first = it.client.result("SendMessage", params.clone()).await["task"].clone();
        let it = it.killed(&setup).await;
        let again = it.client.result("SendMessage", params).await["task"].clone();
        assert_eq!((&first["id"], prompts(&again)), (&again["id"], 1), "{again}");
        let all = it.client.result("ListTasks", json!({})).await;
        assert_eq!(all["totalSize"], 1, "{all}");
    }
}

#[tokio::test]
async fn after_its_sender_has_cancelled_it_a_message_is_a_new_task() {
    for method in ["message/send", "SendMessage"] {
        let setup = Setup::answers(json!([[write("a.txt", "x")], [write("a.txt", "x")]]));
        let it = serve(&setup).await;
        let mut tasks = Vec::new();
        for _ in 0..3 {
            let sent = it.client.result(method, numbered("go")).await;
            let task = sent.get("task").unwrap_or(&sent);
            let state = task["status"]["state"].as_str().unwrap();
            assert!(["input-required", "TASK_STATE_INPUT_REQUIRED"].contains(&state), "{task}");
            tasks.push(task["id"].as_str().unwrap().to_owned());
            // While the task waits, the same message joins it.
            let again = it.client.result(method, numbered("go")).await;
            assert_eq!(again.get("task").unwrap_or(&again)["id"], task["id"]);
            it.client.result("CancelTask", json!({ "id": task["id"] })).await;
        }
        tasks.dedup();
        assert_eq!(tasks.len(), 3, "{tasks:?}");
    }
}

#[tokio::test]
async fn some_time_after_its_end_a_message_is_a_new_task() {
    let it = serve(&counts().arg("--limit").arg("a2a-retry-seconds=1")).await;
    let first = it.client.result("message/send", numbered("go")).await["id"].clone();
    let another = async {
        loop {
            let task = it.client.result("message/send", numbered("go")).await;
            if task["id"] != first {
                break task;
            }
            yield_now().await;
        }
    };
    let second = in_time(another).await.expect("it is never a new task");
    assert_eq!(prompts(&second), 1, "{second}");
}

#[tokio::test]
async fn a_message_of_another_address_is_another_task() {
    let it = serve(&counts().arg("--trust-proxy").arg("127.0.0.1")).await;
    let send = async |client: Client, address: &str| {
        let params = numbered("go");
        let call = json!({ "jsonrpc": "2.0", "id": 1, "method": "message/send", "params": params });
        let forwarded = format!("X-Forwarded-For: {address}");
        let body = call.to_string();
        let sent = client.send("POST /", &[forwarded.as_str()], body.as_bytes()).await.json();
        sent["result"]["id"].clone()
    };
    let one = send(it.client, "192.0.2.1").await;
    let other = send(it.client, "192.0.2.2").await;
    assert_ne!(one, other);
    assert_eq!(send(it.client, "192.0.2.1").await, one);
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
    // A message with a new id is a second answer, which comes too late.
    let late = within(&asked["taskId"], answer(call, "proceed_once"));
    assert_eq!(it.client.error("message/send", late).await.0, -32602);
}
