//! Turns and questions over time: queues, interruptions, connections that close, idle sessions.

use std::fs;
use std::time::Duration;

use expect_test::expect;
use serde_json::{Value, json};

use super::server::{
    Client, answer, asks, ends, prompt, serve, shared, states, statuses, text, tool_call, within,
    write,
};
use crate::agent::Setup;

fn writes() -> Setup {
    Setup::script(vec![
        json!({ "when": "write", "answers": [[write("a.txt", "new\n")], [{ "text": "done" }]] }),
        json!({ "when": "", "answers": [[{ "text": "hi" }]] }),
    ])
}

/// Begins a turn that asks; its task and its call.
async fn asked(client: Client) -> (Value, Value) {
    let mut stream = client.stream("message/stream", prompt("write")).await;
    let task = stream.next().await.unwrap()["id"].clone();
    let events = stream.rest().await;
    assert_eq!(events.last().unwrap()["status"]["state"], "input-required");
    assert_eq!(events.last().unwrap()["final"], true);
    let call = tool_call(events.iter().find(|event| asks(event)).unwrap())["tool_call_id"].clone();
    (task, call)
}

#[tokio::test]
async fn a_turn_with_a_question_goes_as_the_extension_says() {
    let it = serve(&writes()).await;
    let (task, call) = asked(it.client).await;
    let params = within(&task, answer(&call, "proceed_once"));
    let mut stream = it.client.stream("message/stream", params).await;
    let events = stream.rest().await;
    assert_eq!(statuses(&events), ["EXECUTING", "SUCCEEDED"]);
    assert_eq!(states(&events), ["working", "completed"]);
    assert_eq!(text(&events), "done");
    assert!(ends(events.last().unwrap()));
}

#[tokio::test]
async fn a_question_stays_when_its_connection_closes() {
    let it = serve(&writes()).await;
    let mut socket = it.client.socket().await;
    socket.send(1, "message/stream", prompt("write")).await;
    let event = socket.events(asks).await.pop().unwrap();
    drop(socket);
    let task = &event["taskId"];
    let found = it.client.result("tasks/get", json!({ "id": task })).await;
    assert_eq!(found["status"]["state"], "input-required");
    let call = tool_call(&event)["tool_call_id"].clone();
    // A new stream gets the open question again, and may answer it.
    let mut again = it.client.stream("tasks/resubscribe", json!({ "id": task })).await;
    let pending = again.until(asks).await.pop().unwrap();
    assert_eq!(tool_call(&pending)["status"], "PENDING");
    again.until(|event| event["status"]["state"] == "input-required").await;
    let done = it.client.result("message/send", within(task, answer(&call, "proceed_once"))).await;
    assert_eq!(done["status"]["state"], "completed");
    assert!(ends(again.rest().await.last().unwrap()));
    let written = fs::read_to_string(it.home.path().join("workspace/a.txt")).unwrap();
    assert_eq!(written, "new\n");
}

#[tokio::test]
async fn plain_text_while_a_question_is_open_is_asked_back() {
    let it = shared(&writes()).await;
    let mut socket = it.client.socket().await;
    socket.call(0, "commands/get", json!({})).await;
    let (task, call) = asked(it.client).await;
    let found = it.client.result("message/send", within(&task, prompt("something else"))).await;
    assert_eq!(found["status"]["state"], "input-required");
    it.client.result("message/send", within(&task, answer(&call, "proceed_once"))).await;
    let events = socket.events(|event| event["status"]["state"] == "completed").await;
    assert_eq!(statuses(&events), ["PENDING", "EXECUTING", "SUCCEEDED"]);
    assert_eq!(text(&events), "done");
    assert!(it.editor.workspace().join("a.txt").exists());
}

#[tokio::test]
async fn a_message_behind_a_running_turn_waits_its_turn() {
    let script = vec![
        json!({ "when": "first", "answers": [[{ "hang": null }]] }),
        json!({ "when": "second", "answers": [[{ "text": "two" }]] }),
    ];
    let it = shared(&Setup::script(script)).await;
    let mut first = it.client.stream("SendStreamingMessage", prompt("first")).await;
    let running = first.next().await.unwrap()["task"].clone();
    let mut second = it.client.stream("SendStreamingMessage", prompt("second")).await;
    let begun = second.next().await.unwrap();
    assert_eq!(begun["task"]["status"]["state"], "TASK_STATE_SUBMITTED");
    assert_eq!(begun["task"]["contextId"], running["contextId"]);
    it.client.result("CancelTask", json!({ "id": running["id"] })).await;
    let events = second.rest().await;
    let said: Vec<Value> = events.iter().map(|event| event["statusUpdate"].clone()).collect();
    assert_eq!(text(&said), "two");
    assert_eq!(said.last().unwrap()["status"]["state"], "TASK_STATE_COMPLETED");
}

#[tokio::test]
async fn a_message_of_a_queue_can_be_cancelled_before_its_turn() {
    let it = shared(&Setup::answers(json!([[{ "hang": null }]]))).await;
    let mut first = it.client.stream("SendStreamingMessage", prompt("first")).await;
    let running = first.next().await.unwrap()["task"]["id"].clone();
    let mut second = it.client.stream("SendStreamingMessage", prompt("second")).await;
    let waiting = second.next().await.unwrap()["task"]["id"].clone();
    let found = it.client.result("CancelTask", json!({ "id": waiting })).await;
    assert_eq!(found["status"]["state"], "TASK_STATE_CANCELED");
    let last = second.rest().await.pop().unwrap();
    assert_eq!(last["statusUpdate"]["status"]["state"], "TASK_STATE_CANCELED");
    let found = it.client.result("GetTask", json!({ "id": running })).await;
    assert_eq!(found["status"]["state"], "TASK_STATE_WORKING");
    it.client.result("CancelTask", json!({ "id": running })).await;
}

#[tokio::test]
async fn a_rejection_is_told_and_the_turn_goes_on() {
    let mut told = Vec::new();
    for option in ["cancel", "reject", "deny"] {
        let it = shared(&writes()).await;
        let mut socket = it.client.socket().await;
        let (task, call) = asked(it.client).await;
        let params = within(&task, answer(&call, option));
        let events = it.client.stream("message/stream", params).await.rest().await;
        assert_eq!(statuses(&events), ["CANCELLED"]);
        assert_eq!(text(&events), "done");
        socket.events(ends).await;
        let late = socket.call(9, "message/send", answer(&call, "proceed_once")).await;
        let why = late["error"]["message"].as_str().unwrap();
        told.push(why.to_owned());
        assert!(!it.editor.workspace().join("a.txt").exists());
    }
    told.dedup();
    expect!["tool call write_file-1 is not awaiting confirmation (already answered by A2A client 3: rejected)"].assert_eq(&told.join("\n"));
}

#[tokio::test]
async fn an_edited_change_is_what_is_written_and_the_model_is_told() {
    let edits = [
        json!({ "modified_details": { "file_details": { "new_content": "mine\n" } } }),
        json!({ "modifiedDetails": { "fileDetails": { "newContent": "mine\n" } } }),
        json!({ "file_details": { "new_content": "mine\n" } }),
        json!({ "newContent": "mine\n" }),
    ];
    for edit in edits {
        let it = serve(&writes()).await;
        let (task, call) = asked(it.client).await;
        let mut params = within(&task, answer(&call, "proceed_once"));
        let data = params["message"]["parts"][0]["data"].as_object_mut().unwrap();
        data.extend(edit.as_object().unwrap().clone());
        let events = it.client.stream("message/stream", params).await.rest().await;
        let written = fs::read_to_string(it.home.path().join("workspace/a.txt")).unwrap();
        assert_eq!(written, "mine\n", "{edit}");
        let done = events.iter().find(|event| tool_call(event)["status"] == "SUCCEEDED").unwrap();
        assert_eq!(tool_call(done)["output"]["diff"]["new_content"], "mine\n");
    }
}

#[tokio::test]
async fn an_option_that_does_not_fit_leaves_the_question_open() {
    let it = serve(&writes()).await;
    let (task, call) = asked(it.client).await;
    for option in ["proceed_always_server", "proceed_never", "allow", "ProceedOnce"] {
        let params = within(&task, answer(&call, option));
        let (code, why) = it.client.error("message/send", params).await;
        assert_eq!(code, -32602, "{option}: {why}");
    }
    let mut edited = within(&task, answer(&call, "cancel"));
    edited["message"]["parts"][0]["data"]["new_content"] = json!("x");
    assert_eq!(it.client.error("message/send", edited).await.0, -32602);
    let params = within(&task, answer(&call, "proceed_once"));
    let done = it.client.result("message/send", params).await;
    assert_eq!(done["status"]["state"], "completed");
}

#[tokio::test]
async fn an_idle_session_that_is_not_stored_ends_and_a_watched_one_does_not() {
    let it =
        serve(&writes().arg("--limit").arg("session-idle-seconds=1").var("TANDEM_SESSIONS", ""))
            .await;
    let idle = it.client.result("message/send", prompt("hi")).await["id"].clone();
    let (asking, _) = asked(it.client).await;
    // A session ends when it has been idle for a second. No event shows this, so the test waits.
    tokio::time::sleep(Duration::from_millis(1300)).await;
    it.client.result("message/send", prompt("hi")).await;
    for method in ["tasks/get", "tasks/cancel"] {
        assert_eq!(it.client.error(method, json!({ "id": idle })).await.0, -32001);
    }
    let (code, _) = it.client.error("message/send", within(&idle, prompt("hi"))).await;
    assert_eq!(code, -32001);
    let found = it.client.result("tasks/get", json!({ "id": asking })).await;
    assert_eq!(found["status"]["state"], "input-required", "its turn still runs");
}

#[tokio::test]
async fn there_are_only_so_many_sessions_that_are_not_stored() {
    let it = serve(&writes().arg("--limit").arg("sessions=2").var("TANDEM_SESSIONS", "")).await;
    for _ in 0..2 {
        it.client.result("message/send", prompt("hi")).await;
    }
    assert_eq!(it.client.error("message/send", prompt("hi")).await.0, -32004);
    assert_eq!(it.client.post("/tasks", &json!({})).await.status, 400);
}

#[tokio::test]
async fn frames_without_an_id_are_carried_out_and_a_flat_client_reads_them() {
    let it = shared(&writes()).await;
    let mut socket = it.client.socket_at("/ws?format=flat").await;
    socket
        .send_text(r#"{"method":"message/send","params":{"message":{"content":{"text":"write"}}}}"#)
        .await;
    let frames = socket.until(|frame| frame["status"] == "PENDING").await;
    let asked = frames.last().unwrap();
    assert_eq!(
        asked["confirmation_request"]["details"]["file_edit_details"]["new_content"],
        "new\n"
    );
    assert_eq!(asked["metadata"]["correlationId"], asked["tool_call_id"]);
    let answer = json!({ "method": "message/send", "params": { "message": { "content": { "data": {
        "kind": "TOOL_CALL_CONFIRMATION", "tool_call_id": asked["tool_call_id"],
        "selected_option_id": "proceed_once" } } } } });
    socket.send_text(&answer.to_string()).await;
    socket.until(|frame| frame["status"] == "SUCCEEDED").await;
    let said = socket.until(|frame| frame["kind"] == "TEXT_CONTENT").await.pop().unwrap();
    assert_eq!(said["content"]["text"], "done");
}

#[tokio::test]
async fn a_signal_ends_the_server_and_what_its_commands_started() {
    let call = json!({ "name": "run_shell_command", "args": { "command": "sleep 1000; true" } });
    let setup = Setup::answers(json!([[{ "call": call }]])).arg("-y");
    let mut it = serve(&setup.arg("--drain-timeout").arg("0.1")).await;
    let mut stream = it.client.stream("message/stream", prompt("go")).await;
    stream.until(|event| tool_call(event)["status"] == "EXECUTING").await;
    let pid = rustix::process::Pid::from_raw(it.child.id().unwrap().try_into().unwrap()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    let status = tokio::time::timeout(crate::agent::HANG, it.child.wait()).await.unwrap();
    assert!(!status.unwrap().success());
    while stream.event().await.is_some() {}
}
