//! Clients of a node that name sessions of other nodes.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::time::Duration;

use futures::future::join_all;
use rustix::process::Signal;
use serde_json::{Value, json};
use tempfile::TempDir;
use test_fakes::postgres::{Cluster, Database};
use tokio::time::timeout;

use super::attach::{self, Seat};
use super::http::Sse;
use super::network::records_in;
use super::nodes::{Node, in_context};
use super::revived::Webhook;
use super::server::{
    Client, answer, asks, ends, first_part, kind, prompt, statuses, text, tool_call, within, write,
};
use crate::agent::{HANG, Setup};
use crate::limit::wait_until;

/// Nodes of one database. The first node gets the first request for the session `c`, and so owns it.
struct Nodes<'a> {
    database: Database<'a>,
    home: TempDir,
    nodes: Vec<Node>,
}

impl Nodes<'_> {
    async fn start(count: usize) -> Option<Self> {
        let cluster = Cluster::shared()?;
        let (database, home) = (cluster.database(), TempDir::new().unwrap());
        // With figures, the store is wrapped in another one, so the tests cover this case, too.
        let setup = script().arg("--a2a-webhook-loopback").arg("--resume-turns=never");
        let setup = setup.arg("--metrics").arg("127.0.0.1:0");
        let starting = (0..count).map(|_| Node::asking(&setup, home.path(), &database));
        let nodes = join_all(starting).await;
        Some(Self { database, home, nodes })
    }

    fn client(&self, n: usize) -> Client {
        self.nodes[n].client
    }

    /// Begins a turn at the first node, and reads up to its question.
    async fn ask(&self) -> (Sse, Vec<Value>) {
        let mut stream = self.client(0).stream("message/stream", in_context("c", "write")).await;
        let seen = stream.until(asks).await;
        (stream, seen)
    }

    /// Checks that the session is still the first node's.
    fn check_owner(&self) {
        assert_eq!(self.database.sql("select epoch from tandem.session where owner <> ''"), "1");
    }
}

fn script() -> Setup {
    let write = json!([[{ "text": "one " }, { "text": "two " }, write("a.txt", "new\n")],
                       [{ "text": "three" }]]);
    Setup::script(vec![
        json!({ "when": "write", "answers": write }),
        json!({ "when": "hang", "answers": [[{ "text": "begun" }, { "hang": null }]] }),
        json!({ "when": "", "answers": [[{ "text": "hello" }]] }),
    ])
}

/// Returns an answer to the question in these events.
fn allows(seen: &[Value]) -> Value {
    let call = &tool_call(seen.last().unwrap())["tool_call_id"];
    within(&json!("c"), answer(call, "proceed_once"))
}

fn event_ids(events: &[Value]) -> Vec<&str> {
    events.iter().filter_map(|event| event["metadata"]["eventId"].as_str()).collect()
}

async fn resubscribe(client: Client, after: &[Value]) -> Sse {
    let last = event_ids(after).last().map(|last| format!("Last-Event-ID: {last}"));
    let headers: Vec<&str> = last.as_deref().into_iter().collect();
    client.stream_with("tasks/resubscribe", json!({ "id": "c.1" }), &headers).await
}

#[tokio::test]
async fn a_turn_is_read_and_its_question_answered_at_another_node() {
    let Some(nodes) = Nodes::start(2).await else { return };
    let (mut stream, seen) = nodes.ask().await;
    let second = nodes.client(1);
    let task = second.result("tasks/get", json!({ "id": "c" })).await;
    assert_eq!(task["status"]["state"], "input-required", "{task}");
    let mut elsewhere = resubscribe(second, &[]).await;
    let seen_elsewhere = elsewhere.until(asks).await;
    assert_eq!(text(&seen_elsewhere), "one two ");
    let done = second.result("message/send", allows(&seen)).await;
    assert_eq!(done["status"]["state"], "completed", "{done}");
    let there = nodes.client(0).result("tasks/get", json!({ "id": "c" })).await;
    assert_eq!((&done["history"], &done["artifacts"]), (&there["history"], &there["artifacts"]));
    assert_eq!(fs::read_to_string(nodes.home.path().join("workspace/a.txt")).unwrap(), "new\n");
    // Streams at both nodes have the same events under the same ids.
    let rest = resubscribe(nodes.client(0), &seen).await.rest().await;
    let rest_elsewhere = elsewhere.rest().await;
    assert_eq!((text(&rest), text(&rest_elsewhere)), ("three".to_owned(), "three".to_owned()));
    assert!(ends(rest_elsewhere.last().unwrap()));
    let new: Vec<_> = event_ids(&rest);
    assert!(event_ids(&rest_elsewhere).ends_with(&new[1..]), "{new:?}");
    assert!(!stream.rest().await.iter().any(ends));
    nodes.check_owner();
}

#[tokio::test]
async fn a_client_that_goes_from_node_to_node_is_told_each_event_once() {
    let Some(nodes) = Nodes::start(3).await else { return };
    let (stream, mut seen) = nodes.ask().await;
    drop(stream);
    let asked = seen.clone();
    let mut elsewhere = resubscribe(nodes.client(1), &seen).await;
    nodes.client(2).result("message/send", allows(&asked)).await;
    let is_done = |event: &Value| tool_call(event)["status"] == "SUCCEEDED";
    seen.extend(elsewhere.until(is_done).await);
    drop(elsewhere);
    seen.extend(resubscribe(nodes.client(2), &seen).await.rest().await);
    let ids = event_ids(&seen);
    let once: HashSet<_> = ids.iter().collect();
    assert_eq!(once.len(), ids.len(), "{ids:?}");
    assert_eq!(text(&seen), "one two three");
    assert_eq!(statuses(&seen).last(), Some(&"SUCCEEDED"));
    nodes.check_owner();
}

#[tokio::test]
async fn of_nine_answers_at_three_nodes_one_counts() {
    let Some(nodes) = Nodes::start(3).await else { return };
    let (_stream, seen) = nodes.ask().await;
    let call = &tool_call(seen.last().unwrap())["tool_call_id"];
    let answers = (0..9).map(|n| {
        let option = if n % 2 == 0 { "proceed_once" } else { "cancel" };
        let answered = within(&json!("c"), answer(call, option));
        nodes.client(n % 3).call("message/send", answered)
    });
    let answers = join_all(answers).await;
    let refused: Vec<_> =
        answers.iter().filter_map(|answer| answer["error"]["message"].as_str()).collect();
    assert_eq!(refused.len(), 8, "{answers:?}");
    for message in refused {
        assert!(message.contains("is not awaiting confirmation"), "{message}");
    }
    let closed = "select count(*) from tandem.batch where body like '%QuestionClosed%'";
    assert_eq!(nodes.database.sql(closed), "1");
}

#[tokio::test]
async fn a_message_that_is_sent_three_times_at_two_nodes_begins_one_turn() {
    let Some(nodes) = Nodes::start(2).await else { return };
    nodes.client(0).result("message/send", in_context("c", "hi")).await;
    let message = in_context("c", "again");
    let sent = [1, 0, 1].map(|n| nodes.client(n).result("message/send", message.clone()));
    for task in join_all(sent).await {
        assert_eq!(task["status"]["state"], "completed", "{task}");
    }
    let later = nodes.client(1).result("message/send", message.clone()).await;
    let said: Vec<_> = later["history"].as_array().unwrap().iter().map(first_text).collect();
    assert_eq!(said, ["hi", "hello", "again", "hello"]);
    // A message id may be used again only with the same content.
    let mut other = message;
    other["message"]["parts"] = json!([{ "kind": "text", "text": "other" }]);
    let (_, why) = nodes.client(1).error("message/send", other).await;
    assert!(why.contains("was sent before, with other content"), "{why}");
    nodes.check_owner();
}

#[tokio::test]
async fn what_the_store_has_is_shown_at_once_though_no_news_of_it_has_come() {
    let Some(nodes) = Nodes::start(2).await else { return };
    let (_stream, _) = nodes.ask().await;
    let (second, id) = (nodes.client(1), json!({ "id": "c" }));
    let task = second.result("tasks/get", id.clone()).await;
    assert_eq!(task["status"]["state"], "input-required", "{task}");
    // The row is written as by an owner that is cut off from the other nodes: no notification is sent.
    let end =
        json!({ "TurnFinished": { "turn": 1, "reason": { "Cancelled": { "answering": false } } } });
    nodes.database.sql(&format!(
        "with grown as (update tandem.session set next = next + 1 returning id, next - 1 as first) \
         insert into tandem.batch(session, first, body) \
         select id, first, '{{\"i\":' || first || ',\"e\":[{end}]}}' from grown"
    ));
    let task = second.result("tasks/get", id).await;
    assert_eq!(task["status"]["state"], "canceled", "{task}");
}

fn first_text(message: &Value) -> &str {
    message["parts"][0]["text"].as_str().unwrap()
}

#[tokio::test]
async fn what_runs_at_another_node_is_cancelled() {
    let Some(nodes) = Nodes::start(2).await else { return };
    let mut stream = nodes.client(0).stream("message/stream", in_context("c", "hang")).await;
    stream
        .until(|event| kind(event) == "TEXT_CONTENT" && first_part(event)["text"] == "begun")
        .await;
    let second = nodes.client(1);
    let task = second.result("tasks/cancel", json!({ "id": "c" })).await;
    assert_eq!(task["status"]["state"], "canceled", "{task}");
    assert!(ends(stream.rest().await.last().unwrap()));
    let (code, _) = second.error("tasks/cancel", json!({ "id": "c" })).await;
    assert_eq!(code, -32002);
    let v1 = second.call("CancelTask", json!({ "id": "c.1" })).await;
    assert_eq!(v1["error"]["code"], -32002, "{v1}");
    assert!(v1["error"]["data"].is_array(), "{v1}");
}

#[tokio::test]
async fn receivers_of_notifications_are_set_at_another_node_and_notified_by_the_owner() {
    let Some(nodes) = Nodes::start(2).await else { return };
    let (_stream, seen) = nodes.ask().await;
    let second = nodes.client(1);
    let mut webhook = Webhook::listen().await;
    let url = &webhook.url;
    let config = json!({ "taskId": "c", "pushNotificationConfig": { "id": "p", "url": url } });
    let set = second.result("tasks/pushNotificationConfig/set", config).await;
    assert_eq!(set["pushNotificationConfig"]["url"], json!(url));
    let name = json!({ "id": "c", "pushNotificationConfigId": "p" });
    let got = second.result("tasks/pushNotificationConfig/get", name.clone()).await;
    assert_eq!(got, set);
    let list = second.result("tasks/pushNotificationConfig/list", json!({ "id": "c" })).await;
    assert_eq!(list, json!([set]));
    second.result("message/send", allows(&seen)).await;
    webhook.until(|task| task["status"]["state"] == "completed").await;
    second.result("tasks/pushNotificationConfig/delete", name.clone()).await;
    let (code, _) = second.error("tasks/pushNotificationConfig/get", name).await;
    assert_eq!(code, -32001);
}

#[tokio::test]
async fn commands_run_where_the_session_is() {
    let Some(nodes) = Nodes::start(2).await else { return };
    nodes.client(0).result("message/send", in_context("c", "hi")).await;
    let second = nodes.client(1);
    let params = json!({ "command_path": ["about"], "contextId": "c" });
    let begun = second.result("command/execute", params).await;
    assert_eq!(begun["status"], "STARTED", "{begun}");
    let task = &begun["execution_id"];
    let mut stream = second.stream("tasks/resubscribe", json!({ "id": task })).await;
    assert!(ends(stream.rest().await.last().unwrap()));
    let body = json!({ "command": "about", "taskId": "c" });
    let (here, there) = (
        nodes.client(0).post("/executeCommand", &body).await,
        second.post("/executeCommand", &body).await,
    );
    assert_eq!((there.status, there.json()), (200, here.json()));
    let unknown = json!({ "command": "no-such-command", "taskId": "c" });
    let (here, there) = (
        nodes.client(0).post("/executeCommand", &unknown).await,
        second.post("/executeCommand", &unknown).await,
    );
    assert_eq!((there.status, there.json()), (404, here.json()));
    let commands = second.result("commands/get", json!({ "contextId": "c" })).await;
    assert_eq!(commands, nodes.client(0).result("commands/get", json!({ "contextId": "c" })).await);
    nodes.check_owner();
}

#[tokio::test]
async fn a_socket_is_told_of_a_session_that_another_node_has() {
    let Some(nodes) = Nodes::start(2).await else { return };
    let (_stream, seen) = nodes.ask().await;
    let mut socket = nodes.client(1).socket().await;
    socket.send(1, "tasks/resubscribe", json!({ "id": "c" })).await;
    socket.until(|frame| asks(&frame["result"])).await;
    socket.send(2, "message/send", allows(&seen)).await;
    let frames = socket.until(|frame| frame["id"] == 2).await;
    assert_eq!(frames.last().unwrap()["result"]["status"]["state"], "completed", "{frames:?}");
}

#[tokio::test]
async fn a_terminal_that_attaches_elsewhere_says_answers_and_cancels() {
    let Some(nodes) = Nodes::start(2).await else { return };
    nodes.client(0).result("message/send", in_context("c", "hi")).await;
    let session = json!({ "id": "c" });
    let mut here = Seat::open_session(nodes.client(0), "here", session.clone()).await;
    let mut there = Seat::open_session(nodes.client(1), "there", session).await;
    assert_eq!((&here.opened["number"], &there.opened["number"]), (&json!(1), &json!(2)));
    assert_eq!(here.opened["modes"], there.opened["modes"]);
    assert_eq!(here.opened["directory"], there.opened["directory"]);
    // Each prompt waits for its reply, so that the prompts come in this order.
    let parts = json!([attach::text("hang")]);
    for number in 1..=3 {
        there
            .socket
            .send(number, "attach/prompt", json!({ "number": number, "parts": parts }))
            .await;
    }
    there.socket.until(|frame| frame["id"] == 3).await;
    assert_eq!(there.prompt(3, attach::text("hang")).await, Value::Null);
    for turn in [4, 3] {
        assert_eq!(there.result("attach/takeBack", json!({ "turn": turn })).await, true);
    }
    there.until(|event| event["TurnStarted"]["turn"] == 2).await;
    assert_eq!(there.result("attach/cancel", json!({ "turn": 2 })).await, true);
    there.until(|event| event["TurnFinished"]["turn"] == 2).await;

    there.prompt(4, attach::text("write")).await;
    let asked = there.until(|event| event["CallStarted"]["question"].is_object()).await;
    let call = &asked.last().unwrap()["CallStarted"]["call"]["id"];
    let answer = json!({ "call": call, "answer": { "Once": { "edited": null } } });
    assert_eq!(there.result("attach/answer", answer.clone()).await, json!({ "Ok": null }));
    let late = here.result("attach/answer", answer).await;
    let by = &late["Err"]["AlreadyAnswered"]["by"]["Attached"];
    assert_eq!(*by, json!({ "name": "there", "number": 2 }), "{late}");
    let end = there.turn().await;
    assert!(end.iter().any(|event| event["Text"] == "three"), "{end:?}");
    let why = there.refused("attach/setMode", json!({ "mode": "yolo" })).await;
    assert_eq!(why, here.refused("attach/setMode", json!({ "mode": "yolo" })).await);
    let files = there.result("attach/files", json!({ "most": 10 })).await;
    assert_eq!(files, here.result("attach/files", json!({ "most": 10 })).await);
    nodes.check_owner();
}

#[tokio::test]
async fn a_terminal_that_names_no_session_finds_the_one_that_another_node_has() {
    let Some(nodes) = Nodes::start(2).await else { return };
    nodes.client(0).result("message/send", in_context("c", "hi")).await;
    let only = json!({ "only": nodes.home.path().join("workspace") });
    let mut there = Seat::open_session(nodes.client(1), "there", only.clone()).await;
    assert!(there.turn().await.iter().any(|event| event["Text"] == "hello"));
    nodes.check_owner();

    // There are several sessions, at two nodes: the terminal is told to choose one.
    nodes.client(1).result("message/send", in_context("d", "hi")).await;
    let mut hanging = nodes.client(0).stream("message/stream", in_context("c", "hang")).await;
    hanging.until(|event| first_part(event)["text"] == "begun").await;
    let stored = |name: &str| tandem_agent::sessions::stored_id(name);
    let c_and_d = [("c".to_owned(), stored("d")), (stored("c"), "d".to_owned())];
    for (n, (c, d)) in c_and_d.into_iter().enumerate() {
        let choices = attach::choices(nodes.client(n), only.clone()).await;
        assert_eq!(HashMap::from_iter(choices), HashMap::from([(c, true), (d, false)]));
    }
}

#[tokio::test]
async fn the_owners_audit_log_has_the_address_of_a_terminal_that_attaches_elsewhere() {
    let Some(cluster) = Cluster::shared() else { return };
    let (database, home) = (cluster.database(), TempDir::new().unwrap());
    let audit = home.path().join("audit.jsonl");
    let owner = script().arg("--audit").arg(audit.to_str().unwrap());
    let owner = Node::asking(&owner, home.path(), &database).await;
    let other = Node::asking(&script(), home.path(), &database).await;
    owner.client.result("message/send", in_context("c", "hi")).await;
    let mut there = Seat::open_session(other.client, "there", json!({ "id": "c" })).await;
    there.prompt(1, attach::text("hi")).await;
    let addresses: Vec<_> =
        records_in(&audit, "prompt", 2).await.iter().map(|it| it["address"].clone()).collect();
    assert_eq!(addresses, ["127.0.0.1", "127.0.0.1"]);
}

/// Waits until this many orders are in the inbox.
async fn ordered(database: &Database<'_>, count: usize) {
    let sql = "select count(*) from tandem.inbox";
    wait_until("the orders", || database.sql(sql) == count.to_string()).await;
}

#[tokio::test]
async fn when_the_owner_is_killed_those_who_read_elsewhere_go_on_and_what_was_ordered_is_done_once()
{
    let Some(mut nodes) = Nodes::start(2).await else { return };
    let mut stream = nodes.client(0).stream("message/stream", in_context("c", "hang")).await;
    let is_begun =
        |event: &Value| kind(event) == "TEXT_CONTENT" && first_part(event)["text"] == "begun";
    stream.until(is_begun).await;
    let second = nodes.client(1);
    let mut elsewhere = resubscribe(second, &[]).await;
    elsewhere.until(is_begun).await;

    nodes.nodes[0].signal(Signal::STOP);
    let message = in_context("c", "more");
    let sent = tokio::spawn({
        let message = message.clone();
        async move { second.result("message/send", message).await }
    });
    ordered(&nodes.database, 1).await;
    nodes.nodes[0].child.kill().await.unwrap();
    let rest = timeout(Duration::from_secs(20), elsewhere.rest()).await.unwrap();
    assert_eq!((text(&rest), ends(rest.last().unwrap())), (String::new(), true), "{rest:?}");
    let task = sent.await.unwrap();
    assert_eq!(task["status"]["state"], "completed", "{task}");
    let task = second.result("message/send", message).await;
    let said: Vec<_> = task["history"].as_array().unwrap().iter().map(first_text).collect();
    assert_eq!(said.iter().filter(|said| **said == "more").count(), 1, "{said:?}");
    assert_eq!(nodes.database.sql("select epoch from tandem.session"), "2");
    ordered(&nodes.database, 0).await;
}

#[tokio::test]
async fn a_session_that_its_owner_lets_go_is_had_by_whoever_is_asked() {
    let Some(mut nodes) = Nodes::start(2).await else { return };
    nodes.client(0).result("message/send", in_context("c", "hi")).await;
    let second = nodes.client(1);
    second.result("tasks/get", json!({ "id": "c" })).await;
    nodes.check_owner();
    nodes.nodes[0].signal(Signal::TERM);
    timeout(HANG, nodes.nodes[0].child.wait()).await.unwrap().unwrap();
    let task = second.result("message/send", in_context("c", "more")).await;
    assert_eq!(task["history"].as_array().unwrap().len(), 4, "{task}");
    assert_eq!(nodes.database.sql("select epoch from tandem.session"), "2");
    // The second node also begins a session of its own.
    second.result("message/send", prompt("hi")).await;
}
