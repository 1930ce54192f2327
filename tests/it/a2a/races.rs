//! An editor, three clients on `WebSockets` and two on streams, who all answer a thousand questions at the same time.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};
use tokio::sync::Barrier;

use super::server::{Client, answer, asks, ends, prompt, shared, tool_call, write};
use super::socket::{Socket, event};
use crate::agent::{Agent, Setup};

const QUESTIONS: usize = 1000;

/// Number of answering parties.
const PARTIES: usize = 6;

/// The questions that a party has seen, won and lost.
#[derive(Default)]
struct Seen {
    /// The `eventId`s, in order, without events that only some versions have.
    order: Vec<String>,
    /// By whom each question was answered, as the events say.
    answered: Vec<String>,
    won: Vec<String>,
    lost: Vec<String>,
}

impl Seen {
    /// Records an event. Returns the call that the event asks about, if any.
    fn take(&mut self, event: &Value) -> Option<Value> {
        let metadata = &event["metadata"];
        // Events without an id are no part of a stream, such as the prompt. Artifacts have no status.
        let (Some(id), true) = (metadata["eventId"].as_str(), event["status"].is_object()) else {
            return None;
        };
        if event["status"]["message"]["role"].as_str().is_some_and(|it| it.ends_with(['r', 'R'])) {
            return None;
        }
        self.order.push(id.to_owned());
        if let Some(by) = metadata["answeredBy"].as_str() {
            self.answered.push(by.to_owned());
        }
        asks(event).then(|| tool_call(event)["tool_call_id"].clone())
    }

    /// Records the result of an answer.
    fn told(&mut self, call: &Value, response: &Value) {
        let call = call.as_str().unwrap().to_owned();
        let Some(error) = response.get("error") else { return self.won.push(call) };
        assert_eq!(error["code"], -32602, "{response}");
        assert!(error["message"].as_str().unwrap().contains("(already answered by "), "{response}");
        assert_eq!(error["data"]["tool_call_id"], *call);
        self.lost.push(call);
    }
}

/// Returns the event in a frame, in the form of 0.3.
fn plain(frame: &Value) -> Option<&Value> {
    let event = event(frame)?;
    Some(event.get("statusUpdate").unwrap_or(event))
}

fn is_end(event: &Value) -> bool {
    let state = event["status"]["state"].as_str().unwrap_or_default();
    ends(event) || state == "TASK_STATE_COMPLETED"
}

/// Runs a client on a WebSocket, which answers with `method`.
async fn on_socket(mut socket: Socket, method: &str, option: &str, at_once: Arc<Barrier>) -> Seen {
    let mut seen = Seen::default();
    let (mut sent, mut ended) = (BTreeMap::new(), false);
    // The response to the last answer may come after the turn's end.
    while !ended || !sent.is_empty() {
        let frame = socket.frame().await.unwrap();
        let id = frame["id"].as_u64();
        if let Some(call) = id.and_then(|id| sent.remove(&id)) {
            seen.told(&call, &frame);
        }
        let Some(event) = plain(&frame) else { continue };
        if let Some(call) = seen.take(event) {
            let mut params = answer(&call, option);
            params["configuration"] = json!({ "blocking": false, "returnImmediately": true });
            let id = seen.order.len() as u64;
            sent.insert(id, call);
            at_once.wait().await;
            socket.send(id, method, params).await;
        }
        ended |= is_end(event);
    }
    seen
}

/// Runs a client without a WebSocket: it leaves its stream at each question, and begins another stream.
async fn on_streams(client: Client, task: Value, option: &str, at_once: Arc<Barrier>) -> Seen {
    let mut seen = Seen::default();
    let mut stream = client.stream("tasks/resubscribe", json!({ "id": task })).await;
    loop {
        let mut asked = None;
        while let Some(event) = stream.next().await {
            asked = seen.take(&event).or(asked);
            if is_end(&event) {
                return seen;
            }
            if asked.is_some() && event["status"]["state"] == "input-required" {
                break;
            }
        }
        let call = asked.expect("the stream ended without a question");
        at_once.wait().await;
        let mut params = answer(&call, option);
        params["message"]["taskId"] = task.clone();
        stream = client.stream("message/stream", params).await;
        let first = stream.event().await;
        let (_, data) = first.expect("nothing comes of the answer");
        seen.told(&call, &data);
        if data.get("error").is_none() {
            seen.take(&data["result"]);
            continue;
        }
        let last = format!("Last-Event-ID: {}", seen.order.last().unwrap());
        let task = json!({ "id": task });
        stream = client.stream_with("tasks/resubscribe", task, &[&last]).await;
    }
}

/// Runs the editor, which allows every call. Returns the number of calls that the editor was shown.
async fn at_the_editor(editor: &mut Agent, at_once: Arc<Barrier>) -> usize {
    let (mut asked, mut shown) = (0, 0);
    while shown < QUESTIONS {
        let message = editor.message().await;
        match message["method"].as_str() {
            Some("requestToolCallConfirmation") => {
                asked += 1;
                at_once.wait().await;
                editor.answer(&message, json!({ "id": asked, "outcome": "allow" })).await;
            }
            Some("updateToolCall") => shown += 1,
            _ => {}
        }
    }
    asked
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_a_thousand_questions_each_has_one_winner_and_all_see_the_same() {
    let calls: Vec<Value> = (0..QUESTIONS).map(|n| write("a.txt", &format!("{n}\n"))).collect();
    let mut it = shared(&Setup::answers(json!([calls, [{ "text": "done" }]]))).await;
    let client = it.client;
    let mut sockets = Vec::new();
    for version in ["commands/get", "commands/get", "ListTasks"] {
        let mut socket = client.socket().await;
        // When this call is answered, the socket has joined the session, and its method has told the version.
        socket.call("hi", version, json!({})).await;
        sockets.push(socket);
    }
    let at_once = Arc::new(Barrier::new(PARTIES));
    let begun = prompt("go");
    let mut begun = client.stream("message/stream", begun).await;
    let task = begun.next().await.unwrap()["id"].clone();
    let ways =
        [("message/stream", "cancel"), ("message/send", "proceed_once"), ("SendMessage", "cancel")];
    let sockets = sockets.into_iter().zip(ways).map(|(socket, (method, option))| {
        tokio::spawn(on_socket(socket, method, option, Arc::clone(&at_once)))
    });
    let mut clients: Vec<_> = sockets.collect();
    for option in ["proceed_once", "cancel"] {
        let task = task.clone();
        clients.push(tokio::spawn(on_streams(client, task, option, Arc::clone(&at_once))));
    }
    let asked = at_the_editor(&mut it.editor, at_once).await;
    let mut all = Vec::new();
    for client in clients {
        all.push(client.await.unwrap());
    }
    assert_eq!(asked, QUESTIONS);
    check(&all);
}

/// Checks that each question has one winner, that each loser was told, and that all saw the same order.
fn check(all: &[Seen]) {
    let mut won: Vec<_> = all.iter().flat_map(|seen| &seen.won).collect();
    let of_others = won.len();
    won.sort();
    won.dedup();
    assert_eq!(won.len(), of_others, "a question has two winners");
    let by_editor = all[0].answered.iter().filter(|by| *by == "the editor").count();
    assert_eq!(of_others + by_editor, QUESTIONS);
    for seen in all {
        assert_eq!(seen.won.len() + seen.lost.len(), QUESTIONS, "somebody was not told");
        assert_eq!(seen.answered.len(), QUESTIONS);
        assert_eq!(seen.answered, all[0].answered);
    }
    let first = &all[0].order;
    for (n, seen) in all.iter().enumerate() {
        let other = first.iter().zip(&seen.order).position(|(a, b)| a != b);
        assert_eq!(other, None, "client {n} sees another order");
        assert_eq!(seen.order.len(), first.len(), "client {n}");
    }
}
