//! A signal: running turns are given time, and every stream has an end.

use expect_test::expect;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::process::Child;
use tokio::time::timeout;

use super::http::request;
use super::server::{Client, ends, prompt, serve, shared, text, write};
use super::socket::event;
use crate::agent::{HANG, Setup};
use crate::family::make_fifo;

fn terminate(child: &Child) {
    let pid = Pid::from_raw(child.id().unwrap().try_into().unwrap()).unwrap();
    kill_process(pid, Signal::TERM).unwrap();
}

fn hangs(seconds: &str) -> Setup {
    let setup = Setup::answers(json!([[{ "text": "begun" }, { "hang": null }]]));
    setup.arg("--drain-timeout").arg(seconds)
}

/// Waits until no client can connect any more.
async fn refuses(client: Client) {
    let refused = async { while TcpStream::connect(("127.0.0.1", client.port)).await.is_ok() {} };
    timeout(HANG, refused).await.expect("new connections are accepted");
}

/// Checks that the last event of a stream tells of the turn's end and its reason.
fn check_ended(last: &Value) {
    let status = &last["statusUpdate"]["status"];
    let status = if status.is_null() { &last["status"] } else { status };
    assert!(["canceled", "TASK_STATE_CANCELED"].contains(&status["state"].as_str().unwrap()));
    let why = status["message"]["parts"][0]["text"].as_str().unwrap_or_default();
    assert_eq!(why, "Ended early, because the agent ends.", "{last}");
}

#[tokio::test]
async fn a_turn_that_takes_too_long_is_ended_and_every_stream_says_so() {
    let mut it = serve(&hangs("0.2")).await;
    let mut old = it.client.stream("message/stream", prompt("go")).await;
    let task = old.next().await.unwrap()["id"].clone();
    let mut new = it.client.stream("SendStreamingMessage", prompt("go")).await;
    new.next().await.unwrap();
    let mut socket = it.client.socket().await;
    socket.send(1, "tasks/resubscribe", json!({ "id": task })).await;
    socket.until(|frame| frame["result"].to_string().contains("begun")).await;
    let send = tokio::spawn(async move {
        let mut sent = prompt("go");
        sent["message"]["contextId"] = json!("waits");
        it.client.result("message/send", sent).await
    });
    let known = async { while it.client.result("ListTasks", json!({})).await["totalSize"] != 3 {} };
    timeout(HANG, known).await.unwrap();
    terminate(&it.child);
    let events = old.rest().await;
    assert_eq!(events.last().unwrap()["final"], true, "{events:?}");
    check_ended(events.last().unwrap());
    check_ended(new.rest().await.last().unwrap());
    let frames = socket.until(|frame| frame["streamEnd"] == true).await;
    check_ended(frames.iter().filter_map(event).next_back().unwrap());
    assert_eq!(socket.frame().await, Err(1001));
    let task = send.await.unwrap();
    assert_eq!(task["status"]["state"], "canceled", "{task}");
    let status = timeout(HANG, it.child.wait()).await.unwrap().unwrap();
    assert_eq!(status.code(), Some(143));
}

#[tokio::test]
async fn a_turn_that_ends_in_time_ends_as_ever_and_nothing_new_begins() {
    let wait = json!({ "name": "run_shell_command", "args": { "command": "cat gate" } });
    let script = json!([[{ "call": wait }], [{ "text": "done" }]]);
    let mut it = serve(&Setup::answers(script).arg("-y")).await;
    make_fifo(&it.home.path().join("workspace/gate"));
    let mut stream = it.client.stream("message/stream", prompt("go")).await;
    stream.until(|event| event.to_string().contains("EXECUTING")).await;
    let mut socket = it.client.socket().await;
    socket.call(1, "commands/get", json!({})).await;
    terminate(&it.child);
    refuses(it.client).await;
    let refused = socket.call(2, "message/send", prompt("more")).await;
    expect!["the agent is ending, and takes no new requests; try again in 5 s"]
        .assert_eq(refused["error"]["message"].as_str().unwrap());
    let gate = it.home.path().join("workspace/gate");
    tokio::task::spawn_blocking(move || std::fs::write(gate, "now\n")).await.unwrap().unwrap();
    let events = stream.rest().await;
    assert_eq!(text(&events), "done");
    assert_eq!(events.last().unwrap()["status"]["state"], "completed");
    let status = timeout(HANG, it.child.wait()).await.unwrap().unwrap();
    assert_eq!(status.code(), Some(143));
}

#[tokio::test]
async fn a_server_that_ends_loads_no_session_and_says_that_the_call_can_be_repeated() {
    let setup = hangs("1000");
    let it = serve(&setup).await;
    let mut sent = prompt("/about");
    sent["message"]["contextId"] = json!("stored");
    it.client.result("message/send", sent).await;
    let it = it.killed(&setup).await;
    let mut stream = it.client.stream("message/stream", prompt("go")).await;
    stream.next().await.unwrap();
    let mut socket = it.client.socket().await;
    socket.call(1, "commands/get", json!({})).await;
    terminate(&it.child);
    refuses(it.client).await;
    let refused = socket.call(2, "tasks/get", json!({ "id": "stored" })).await;
    expect!["the agent is ending, and takes no new requests; try again in 5 s"]
        .assert_eq(refused["error"]["message"].as_str().unwrap());
    let unknown = socket.call(3, "tasks/get", json!({ "id": "nobodys" })).await;
    assert_eq!(unknown["error"]["code"], -32001, "{unknown}");
}

#[tokio::test]
async fn nobody_connects_to_a_server_that_ends_and_who_is_connected_is_told_to_come_later() {
    let it = serve(&hangs("1000")).await;
    let mut stream = it.client.stream("message/stream", prompt("go")).await;
    stream.next().await.unwrap();
    let mut kept = TcpStream::connect(("127.0.0.1", it.client.port)).await.unwrap();
    let request =
        format!("GET /listCommands HTTP/1.1\r\nHost: 127.0.0.1:{}\r\n\r\n", it.client.port);
    kept.write_all(request.as_bytes()).await.unwrap();
    let mut first = [0; 15];
    timeout(HANG, kept.read_exact(&mut first)).await.unwrap().unwrap();
    assert_eq!(&first, b"HTTP/1.1 200 OK");
    terminate(&it.child);
    refuses(it.client).await;
    kept.write_all(request.as_bytes()).await.unwrap();
    let mut rest = String::new();
    timeout(HANG, kept.read_to_string(&mut rest)).await.unwrap().unwrap();
    let (_, later) = rest.split_once("HTTP/1.1 503 Service Unavailable").expect(&rest);
    assert!(later.contains("retry-after: 1") && later.contains("connection: close"), "{later}");
    assert!(later.ends_with("the agent is ending, and takes no new requests\n"), "{later}");
}

#[tokio::test]
async fn a_second_signal_ends_it_at_once() {
    let mut it = serve(&hangs("1000")).await;
    let mut stream = it.client.stream("message/stream", prompt("go")).await;
    stream.next().await.unwrap();
    terminate(&it.child);
    refuses(it.client).await;
    terminate(&it.child);
    check_ended(stream.rest().await.last().unwrap());
    let status = timeout(HANG, it.child.wait()).await.unwrap().unwrap();
    assert_eq!(status.code(), Some(143));
}

#[tokio::test]
async fn those_who_have_joined_an_editors_session_are_told_too() {
    let mut it = shared(&hangs("0.2")).await;
    let mut socket = it.client.socket().await;
    let prompted = it.editor.prompt("go").await;
    socket.events(|event| event.to_string().contains("begun")).await;
    terminate(&it.editor.child);
    let last = socket.events(ends).await.pop().unwrap();
    check_ended(&last);
    assert_eq!(socket.frame().await, Err(1001));
    let answer = it.editor.answer_to(prompted).await;
    assert_eq!(answer["error"]["data"]["details"], "This operation was aborted");
    assert_eq!(it.editor.exit().await.code(), Some(143));
}

#[tokio::test]
async fn a_notification_tells_of_the_end() {
    let receiver = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = receiver.local_addr().unwrap().port();
    let (tell, mut told) = tokio::sync::mpsc::unbounded_channel();
    tokio::spawn(async move {
        loop {
            let (stream, _) = receiver.accept().await.unwrap();
            let tell = tell.clone();
            tokio::spawn(async move { super::http::take_post(stream, &tell).await });
        }
    });
    let mut it = serve(&hangs("0.2").arg("--a2a-webhook-loopback")).await;
    let mut sent = prompt("go");
    let push = json!({ "url": format!("http://127.0.0.1:{port}/") });
    sent["configuration"] = json!({ "pushNotificationConfig": push, "blocking": false });
    it.client.result("message/send", sent).await;
    terminate(&it.child);
    let canceled = async {
        loop {
            let task = told.recv().await.unwrap();
            if task["status"]["state"] == "canceled" {
                return task;
            }
        }
    };
    let task = timeout(HANG, canceled).await.expect("nobody is notified");
    check_ended(&task);
    timeout(HANG, it.child.wait()).await.unwrap().unwrap();
}

#[tokio::test]
async fn a_server_without_turns_ends_at_once() {
    let mut it = serve(&hangs("1000")).await;
    let host = format!("Host: 127.0.0.1:{}", it.client.port);
    let idle = request(it.client.port, "GET /listCommands", &[&host], b"").await;
    assert_eq!(idle.status, 200);
    terminate(&it.child);
    let status = timeout(HANG, it.child.wait()).await.unwrap().unwrap();
    assert_eq!(status.code(), Some(143));
}

#[tokio::test]
async fn a_server_that_ends_does_not_wait_for_a_question_that_nobody_can_answer() {
    let asks = Setup::answers(json!([[write("a.txt", "x")], [{ "text": "done" }]]));
    let mut it = serve(&asks.arg("--drain-timeout").arg("600")).await;
    let task = it.client.result("message/send", prompt("go")).await;
    assert_eq!(task["status"]["state"], "input-required", "{task}");
    // The client of a WebSocket can answer the question while it is connected, so the server waits.
    let mut socket = it.client.socket().await;
    socket.call(1, "tasks/get", json!({ "id": task["id"] })).await;
    terminate(&it.child);
    refuses(it.client).await;
    let got = socket.call(2, "tasks/get", json!({ "id": task["id"] })).await;
    assert_eq!(got["result"]["status"]["state"], "input-required", "{got}");
    drop(socket);
    let status = timeout(HANG, it.child.wait()).await.expect("it waits").unwrap();
    assert_eq!(status.code(), Some(143));
}
