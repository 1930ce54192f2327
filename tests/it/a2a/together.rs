//! An editor and other clients in one session.

use std::fs;

use serde_json::{Value, json};

use super::server::{Shared, answer, asks, ends, prompt, shared, statuses, text, tool_call, write};
use crate::agent::{self, Setup};

fn says(what: &str) -> Setup {
    Setup::answers(json!([[{ "text": what }]]))
}

fn writes() -> Setup {
    Setup::answers(json!([[write("a.txt", "new\n")], [{ "text": "done" }]]))
}

#[tokio::test]
async fn the_port_is_said_and_the_card_is_there() {
    let it = shared(&says("hi")).await;
    let card = it.client.get("/.well-known/agent-card.json").await.json();
    assert_eq!(card["url"], format!("http://127.0.0.1:{}/", it.client.port));
}

#[tokio::test]
async fn a_taken_port_is_a_clear_error() {
    let it = shared(&says("hi")).await;
    let home = tempfile::TempDir::new().unwrap();
    let setup = says("hi").arg("--a2a-port").arg(&it.client.port.to_string());
    let output = setup.command(home.path()).stderr(std::process::Stdio::piped()).output();
    let output = output.await.unwrap();
    assert!(!output.status.success());
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains(&format!("cannot listen on 127.0.0.1:{}", it.client.port)), "{said}");
}

#[tokio::test]
async fn a_client_sends_a_prompt_and_receives_the_output() {
    let it = shared(&says("hello there")).await;
    let mut socket = it.client.socket().await;
    socket.send(1, "message/stream", prompt("hi")).await;
    let frames = socket.until(|frame| frame["streamEnd"] == true).await;
    let events: Vec<Value> = frames.iter().filter_map(|it| it.get("result")).cloned().collect();
    assert_eq!(text(&events), "hello there");
    assert!(events.last().is_some_and(ends), "{events:?}");
}

#[tokio::test]
async fn output_for_the_editor_is_received_by_a_client() {
    let mut it = shared(&says("hello there")).await;
    let mut socket = it.client.socket().await;
    // When this call is answered, the client has joined the session.
    socket.call(1, "commands/get", json!({})).await;
    let id = it.editor.prompt("what the editor said").await;
    it.editor.until_answered(id, "allow").await;
    let events = socket.events(ends).await;
    assert_eq!(text(&events), "hello there");
    let said = &events[0];
    assert_eq!(said["metadata"]["source"], "editor");
    assert_eq!(said["status"]["message"]["parts"][0]["text"], "what the editor said");
}

#[tokio::test]
async fn a_prompt_of_a_client_is_shown_to_the_editor_with_its_answer() {
    let mut it = shared(&says("hello there")).await;
    let mut socket = it.client.socket().await;
    socket.send(1, "message/stream", prompt("from afar")).await;
    socket.until(|frame| frame["streamEnd"] == true).await;
    let shown = it.editor.message().await["params"]["chunk"]["text"].clone();
    assert_eq!(shown, "\n\n> **[A2A]** from afar\n\n");
    assert_eq!(it.editor.message().await["params"]["chunk"]["text"], "hello there");
}

/// Begins a turn with a question that the editor and a socket have seen. `by_editor`: the editor begins the turn.
async fn asked(it: &mut Shared, by_editor: bool) -> (super::socket::Socket, Value, Value, u64) {
    let mut socket = it.client.socket().await;
    socket.call("hi", "commands/get", json!({})).await;
    let mut turn = 0;
    if by_editor {
        turn = it.editor.prompt("go").await;
    } else {
        socket.send("turn", "message/stream", prompt("go")).await;
    }
    let question = it.editor.call_of("requestToolCallConfirmation").await;
    let event = socket.events(asks).await.pop().unwrap();
    let call = tool_call(&event).clone();
    assert_eq!(call["status"], "PENDING");
    let file = &call["confirmation_request"]["file_edit_details"];
    assert_eq!(file["new_content"], "new\n");
    assert_eq!(question["params"]["content"]["newText"], "new\n");
    (socket, call["tool_call_id"].clone(), question, turn)
}

#[tokio::test]
async fn the_choice_of_a_client_resolves_the_question_for_the_editor() {
    for by_editor in [true, false] {
        let mut it = shared(&writes()).await;
        let (mut socket, call, question, turn) = asked(&mut it, by_editor).await;
        socket.send(2, "message/stream", answer(&call, "proceed_once")).await;
        let events = socket.events(ends).await;
        assert_eq!(statuses(&events), ["PENDING", "EXECUTING", "SUCCEEDED"]);
        // The editor answers after the turn's end, and is then shown what became of the call.
        let result = json!({ "id": 7, "outcome": "allow" });
        it.editor.answer(&question, result).await;
        let (mut updated, mut answered) = (false, !by_editor);
        while !updated || !answered {
            let message = it.editor.message().await;
            if message["method"] == "updateToolCall" {
                assert_eq!(message["params"]["toolCallId"], 7);
                assert_eq!(message["params"]["status"], "finished");
                updated = true;
            }
            answered |= message["id"] == turn && message.get("result").is_some();
        }
        let written = fs::read_to_string(it.editor.workspace().join("a.txt")).unwrap();
        assert_eq!(written, "new\n");
    }
}

#[tokio::test]
async fn the_choice_of_the_editor_resolves_the_question_for_a_client() {
    for (outcome, expected) in [
        ("allow", &["EXECUTING", "SUCCEEDED"][..]),
        ("alwaysAllow", &["EXECUTING", "SUCCEEDED"]),
        ("reject", &["CANCELLED"]),
    ] {
        let mut it = shared(&writes()).await;
        let (mut socket, call, question, _) = asked(&mut it, false).await;
        it.editor.answer(&question, json!({ "id": 7, "outcome": outcome })).await;
        let events = socket.events(ends).await;
        assert_eq!(statuses(&events)[1..], *expected);
        let answered = events.iter().find(|event| !event["metadata"]["answeredBy"].is_null());
        assert_eq!(answered.unwrap()["metadata"]["answeredBy"], "the editor");
        let late = socket.call(2, "message/send", answer(&call, "proceed_once")).await;
        told_who_won(&late, &call, "the editor");
    }
}

/// Checks that an answer came too late, and that the response names the winner.
fn told_who_won(response: &Value, call: &Value, winner: &str) {
    let error = &response["error"];
    assert_eq!(error["code"], -32602, "{response}");
    let message = error["message"].as_str().unwrap();
    assert!(message.contains(&format!("already answered by {winner}")), "{message}");
    assert_eq!(error["data"]["tool_call_id"], *call);
}

#[tokio::test]
async fn when_both_answer_at_once_one_wins_and_the_other_is_told() {
    let mut it = shared(&writes()).await;
    let (mut socket, call, question, _) = asked(&mut it, false).await;
    let mut other = it.client.socket().await;
    other.events(asks).await;
    let mut third = it.client.socket().await;
    third.events(asks).await;
    // The editor allows the call and the clients reject it, so the file shows whose answer counted.
    tokio::join!(
        it.editor.answer(&question, json!({ "id": 7, "outcome": "allow" })),
        other.send("x", "message/send", answer(&call, "cancel")),
        third.send("x", "message/send", answer(&call, "cancel")),
    );
    let mut won = 0;
    let mut events = Vec::new();
    for socket in [&mut other, &mut third] {
        let mut frames = socket.until(|frame| frame["id"] == "x").await;
        let response = frames.pop().unwrap();
        if response.get("error").is_none() {
            won += 1;
        } else {
            assert!(response["error"]["message"].as_str().unwrap().contains("already answered by"));
        }
    }
    events.extend(socket.events(ends).await);
    let by = events.iter().find_map(|event| event["metadata"]["answeredBy"].as_str()).unwrap();
    assert_eq!(won + usize::from(by == "the editor"), 1, "{by}");
    assert_eq!(it.editor.workspace().join("a.txt").exists(), by == "the editor");
}

#[tokio::test]
async fn whoever_comes_while_a_question_is_open_is_asked_too() {
    let mut it = shared(&writes()).await;
    let (_, call, _, _) = asked(&mut it, true).await;
    let mut late = it.client.socket().await;
    let event = late.events(asks).await.pop().unwrap();
    assert_eq!(tool_call(&event)["tool_call_id"], call);
}

#[tokio::test]
async fn the_server_ends_with_the_editors_input() {
    let mut it = shared(&says("hi")).await;
    let mut socket = it.client.socket().await;
    socket.call(1, "commands/get", json!({})).await;
    let (rest, status) = it.editor.hang_up().await;
    assert!(rest.is_empty() && status.success());
    assert_eq!(socket.frame().await, Err(1001));
    let again = tokio::net::TcpStream::connect(("127.0.0.1", it.client.port)).await;
    assert!(again.is_err(), "somebody still listens");
    // The program has printed only the line with the port.
    assert_eq!(it.said.lock().unwrap().lines().count(), 1);
}

#[tokio::test]
async fn a_thought_and_the_output_of_a_command_are_broadcast() {
    let run = json!({ "name": "run_shell_command", "args": { "command": "echo one; sleep 1; echo two" } });
    let setup = Setup::answers(json!([
        [{ "thought": "**Plan** do it" }, { "call": run }],
        [{ "text": "done" }]
    ]));
    let mut it = shared(&setup.arg("-y")).await;
    let mut socket = it.client.socket().await;
    socket.call(1, "commands/get", json!({})).await;
    let id = it.editor.prompt("go").await;
    let shown = it.editor.until_answered(id, "allow").await;
    assert_eq!(agent::text(&shown), "done");
    let events = socket.events(ends).await;
    let thought = events.iter().find(|event| super::server::kind(event) == "THOUGHT").unwrap();
    assert_eq!(tool_call(thought), &json!({ "subject": "Plan", "description": "do it" }));
    let live = |event: &Value| tool_call(event)["live_content"].as_str().map(ToOwned::to_owned);
    let live: Vec<_> = events.iter().filter_map(live).collect();
    assert!(live.iter().all(|it| it.starts_with("one")), "{live:?}");
    assert!(!live.is_empty());
}
