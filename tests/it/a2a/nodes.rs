//! Servers that share their sessions in a database: killed, frozen, and ended in order.

use std::fs;
use std::path::Path;
use std::process::Stdio;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use expect_test::expect;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tempfile::TempDir;
use test_fakes::postgres::{Cluster, Database, LIMITS};
use tokio::process::Child;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::http::Sse;
use super::server::{Client, Said, ends, first_part, kind, listen, prompt, text};
use crate::agent::{HANG, Setup};
use crate::limit::wait_until;

/// A server of a database's sessions.
pub(super) struct Node {
    pub(super) client: Client,
    pub(super) child: Child,
    pub(super) said: Said,
}

impl Node {
    /// Starts a node in this home. All nodes work in the same directories, and no call is asked about.
    pub(super) async fn start(setup: &Setup, home: &Path, database: &Database<'_>) -> Self {
        Self::asking(&setup.clone().arg("-y"), home, database).await
    }

    /// Starts a node as [`Self::start`] does, whose calls are asked about.
    pub(super) async fn asking(setup: &Setup, home: &Path, database: &Database<'_>) -> Self {
        let mut setup = setup.clone();
        let args = ["serve", "--port", "0", "--store", &database.url];
        setup.args.splice(0..0, args.map(ToOwned::to_owned));
        let mut child = setup.command(home).stderr(Stdio::piped()).spawn().unwrap();
        let (port, said) = listen(child.stderr.take().unwrap()).await;
        Self { client: Client { port }, child, said }
    }

    pub(super) fn signal(&self, signal: Signal) {
        let pid = self.child.id().and_then(|pid| Pid::from_raw(pid.try_into().unwrap())).unwrap();
        kill_process(pid, signal).unwrap();
    }
}

pub(super) fn in_context(id: &str, text: &str) -> Value {
    let mut sent = prompt(text);
    sent["message"]["contextId"] = json!(id);
    sent
}

/// Begins a turn, and reads its events up to these words.
async fn stream_until(client: Client, words: &str) -> (Sse, Vec<Value>) {
    let mut stream = client.stream("message/stream", in_context("c", "go")).await;
    let is_it = |event: &Value| kind(event) == "TEXT_CONTENT" && first_part(event)["text"] == words;
    let seen = stream.until(is_it).await;
    (stream, seen)
}

/// Waits until another node has taken the session over and the turn has ended. Returns the task, and the time that
/// it took.
async fn go_on(client: Client) -> (Value, Duration) {
    let begun = Instant::now();
    let task = client.result("message/send", in_context("c", "more"));
    let task = timeout(HANG, task).await.unwrap();
    (task, begun.elapsed())
}

/// Returns the events that a client gets which has seen these, and asks another server for the rest.
async fn rest_at(client: Client, seen: &[Value]) -> Vec<Value> {
    let last = seen.iter().rev().find_map(|event| event["metadata"]["eventId"].as_str()).unwrap();
    let header = format!("Last-Event-ID: {last}");
    let mut stream =
        client.stream_with("tasks/resubscribe", json!({ "id": "c.1" }), &[&header]).await;
    stream.rest().await
}

fn says_more() -> Value {
    json!({ "when": "more", "answers": [[{ "text": "more" }]] })
}

#[tokio::test]
async fn when_a_node_is_killed_its_sessions_go_on_at_another() {
    let Some(cluster) = Cluster::shared() else { return };
    let (database, home) = (cluster.database(), TempDir::new().unwrap());
    let answers = json!([[{ "text": "one" }, { "text": "two" }, { "hang": null }]]);
    let setup = Setup::script(vec![says_more(), json!({ "when": "", "answers": answers })]);
    let setup = setup.arg("--resume-turns=never");
    let mut first = Node::start(&setup, home.path(), &database).await;
    let second = Node::start(&setup, home.path(), &database).await;
    let (_stream, seen) = stream_until(first.client, "two").await;

    first.child.kill().await.unwrap();
    let (task, took) = go_on(second.client).await;
    // The second node notices the closed connection at once, long before it would miss the counter of the first
    // node.
    assert!(took < Duration::from_secs(3), "{took:?}");
    assert_eq!(task["status"]["state"], "completed", "{task}");
    let rest = rest_at(second.client, &seen).await;
    assert_eq!(text(&rest), "", "it was told all before: {rest:?}");
    let end = rest.last().unwrap();
    assert!(ends(end), "{end}");
    expect!["Interrupted: the agent ended before this turn did. `/continue` goes on."]
        .assert_eq(first_part(end)["text"].as_str().unwrap());
}

#[tokio::test]
async fn a_node_that_was_frozen_finds_its_session_at_another_and_does_nothing_more_in_it() {
    let Some(cluster) = Cluster::shared() else { return };
    let (database, home) = (cluster.database(), TempDir::new().unwrap());
    let touch =
        json!({ "call": { "name": "run_shell_command", "args": { "command": "touch ran" } } });
    let go = json!([[{ "text": "one" }, { "text": "two" }, { "delay": 1500 }, { "text": "late" }, touch],
                    [{ "text": "done" }]]);
    let setup = Setup::script(vec![says_more(), json!({ "when": "", "answers": go })]);
    let setup = setup.arg("--resume-turns=never");
    let first = Node::start(&setup, home.path(), &database).await;
    let second = Node::start(&setup, home.path(), &database).await;
    let (mut stream, seen) = stream_until(first.client, "two").await;

    first.signal(Signal::STOP);
    let (task, took) = go_on(second.client).await;
    assert!(took > Duration::from_secs(1) && took < Duration::from_secs(6), "{took:?}");
    assert_eq!(task["status"]["state"], "completed", "{task}");
    first.signal(Signal::CONT);
    // The first node ends the stream without a last event, so that the client asks another node.
    let last = stream.rest().await;
    assert_eq!((text(&last), last.iter().any(ends)), (String::new(), false), "{last:?}");
    // The first node now asks the second, which owns the session.
    let task = first.client.result("message/send", in_context("c", "more")).await;
    assert_eq!(task["status"]["state"], "completed", "{task}");
    assert_eq!(database.sql("select epoch from tandem.session"), "2");
    assert!(!home.path().join("workspace/ran").exists());
    let rest = rest_at(second.client, &seen).await;
    assert_eq!((text(&rest), ends(rest.last().unwrap())), (String::new(), true), "{rest:?}");
    let body = "select count(*) from tandem.batch where body like '%late%'";
    assert_eq!(database.sql(body), "0");
}

/// Waits until a statement returns this.
pub(super) async fn until_sql(database: &Database<'_>, sql: &str, expected: &str) {
    wait_until(&format!("{expected} of {sql}"), || database.sql(sql) == expected).await;
}

#[tokio::test]
async fn a_turn_of_a_node_that_is_killed_goes_on_at_another_though_nobody_asks() {
    let Some(cluster) = Cluster::shared() else { return };
    let (database, home) = (cluster.database(), TempDir::new().unwrap());
    let begins = json!({ "when": "", "answers": [[{ "text": "one" }, { "text": "two" }, { "hang": null }]] });
    let mut first = Node::start(&Setup::script(vec![begins]), home.path(), &database).await;
    let (_stream, seen) = stream_until(first.client, "two").await;
    assert_eq!(database.sql("select busy from tandem.session"), "t");
    let whole = Setup::answers(json!([[{ "text": "whole" }]]));
    let second = Node::start(&whole, home.path(), &database).await;
    first.child.kill().await.unwrap();
    until_sql(&database, "select busy from tandem.session", "f").await;
    assert_eq!(database.sql("select epoch from tandem.session"), "2");
    let rest = rest_at(second.client, &seen).await;
    assert_eq!(
        text(&rest),
        "\n\n*The answer was interrupted (the agent ended) and starts again from here.*\n\nwhole"
    );
    assert_eq!(rest.last().unwrap()["status"]["state"], "completed");
    let task = second.client.result("tasks/get", json!({ "id": "c" })).await;
    let said: Vec<_> = task["history"].as_array().unwrap().iter().map(first_text).collect();
    assert_eq!(said, ["go", "whole"]);
}

#[tokio::test]
async fn a_command_of_a_frozen_node_has_ended_when_another_takes_its_session_over() {
    let Some(cluster) = Cluster::shared() else { return };
    let (database, home) = (cluster.database(), TempDir::new().unwrap());
    let command = json!({ "command": "while :; do echo line >> lines; sleep 0.02; done" });
    let answers = json!([[{ "call": { "name": "run_shell_command", "args": command } }]]);
    let setup = Setup::answers(answers).without_sandbox();
    let first = Node::start(&setup, home.path(), &database).await;
    let _second = Node::start(&setup, home.path(), &database).await;
    let mut stream = first.client.stream("message/stream", in_context("c", "go")).await;
    stream.until(|event| first_part(event)["data"]["status"] == "EXECUTING").await;
    let lines = home.path().join("workspace/lines");
    let length = || fs::metadata(&lines).map_or(0, |it| it.len());
    wait_until("the first line", || length() > 0).await;

    first.signal(Signal::STOP);
    until_sql(&database, "select epoch from tandem.session", "2").await;
    let at_takeover = length();
    until_sql(&database, "select busy from tandem.session", "f").await;
    // The first node must not write any more. No event would show this, so the test waits a moment.
    sleep(Duration::from_millis(300)).await;
    assert_eq!(length(), at_takeover);
    first.signal(Signal::CONT);
    sleep(Duration::from_millis(300)).await;
    assert_eq!(length(), at_takeover);
}

/// Sends a prompt to one of two nodes, and to the other node if the first is ending. Returns the task, and the
/// longest time in which both refused.
async fn send_to_either(clients: &Mutex<[Client; 2]>, id: &str) -> (Value, Duration) {
    let sent = in_context(id, "go");
    let (begun, mut n) = (Instant::now(), 0);
    loop {
        let client = clients.lock().unwrap()[n % 2];
        let body = json!({ "jsonrpc": "2.0", "id": 1, "method": "message/send", "params": sent });
        let asked = Instant::now();
        // If the node has ended, the request panics, and the other node is tried.
        let answer = tokio::spawn(async move { client.post("/", &body).await }).await;
        if let Ok(answer) = answer
            && answer.status == 200
            && let Some(task) = answer.json().get("result")
        {
            return (task.clone(), asked - begun);
        }
        n += 1;
        sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn nodes_are_replaced_one_after_the_other_and_no_turn_is_interrupted() {
    let Some(cluster) = Cluster::shared() else { return };
    let (database, home) = (cluster.database(), TempDir::new().unwrap());
    let answer = json!([{ "text": "begun " }, { "delay": 300 }, { "text": "done" }]);
    let setup = Setup::script(vec![json!({ "when": "", "answers": [answer] })]);
    let start = async || Node::start(&setup, home.path(), &database).await;
    let mut nodes = [start().await, start().await];
    let clients = Arc::new(Mutex::new([nodes[0].client, nodes[1].client]));
    let over = CancellationToken::new();
    let callers: Vec<_> = (0..6)
        .map(|n| {
            let (clients, over) = (Arc::clone(&clients), over.clone());
            tokio::spawn(async move {
                let (mut turns, mut longest) = (0, Duration::ZERO);
                while !over.is_cancelled() {
                    let (task, refused) = send_to_either(&clients, &format!("c{n}")).await;
                    assert_eq!(task["status"]["state"], "completed", "{task}");
                    (turns, longest) = (turns + 1, longest.max(refused));
                }
                (turns, longest)
            })
        })
        .collect();
    for (n, node) in nodes.iter_mut().enumerate() {
        let next = start().await;
        node.signal(Signal::TERM);
        timeout(HANG, node.child.wait()).await.unwrap().unwrap();
        clients.lock().unwrap()[n] = next.client;
        *node = next;
    }
    over.cancel();
    for caller in callers {
        let (turns, longest) = timeout(HANG, caller).await.unwrap().unwrap();
        assert!(turns > 0, "nothing was done");
        // A node that ends hands its sessions over, so no node has to wait until it takes the other for dead.
        assert!(longest < LIMITS.node_dead, "{turns} turns, {longest:?}");
    }
    let ends = "select count(*) from tandem.batch where body like '%TurnFinished%' and body not like '%EndTurn%'";
    assert_eq!(database.sql(ends), "0");
}

#[tokio::test]
async fn what_a_client_is_told_has_no_gap_when_the_database_crashes() {
    let Some(cluster) = Cluster::start() else { return };
    let (database, home) = (cluster.database(), TempDir::new().unwrap());
    let mut words: Vec<_> = (0..40)
        .flat_map(|n| [json!({ "text": format!("{n} ") }), json!({ "delay": 20 })])
        .collect();
    words.insert(0, json!({ "text": "begun " }));
    let setup = Setup::answers(json!([words]));
    let node = Node::start(&setup, home.path(), &database).await;
    let (mut stream, seen) = stream_until(node.client, "begun ").await;
    let cluster = tokio::task::spawn_blocking(move || {
        cluster.crash();
        cluster
    });
    let rest = stream.rest().await;
    let cluster = cluster.await.unwrap();
    let all: Vec<_> = seen.into_iter().chain(rest).collect();
    let expected: String = (0..40).map(|n| format!("{n} ")).collect();
    assert_eq!(text(&all), format!("begun {expected}"));
    assert_eq!(all.last().unwrap()["status"]["state"], "completed");
    drop((node, cluster));
}

#[tokio::test]
async fn a_node_that_is_ended_lets_its_sessions_go_at_once() {
    let Some(cluster) = Cluster::shared() else { return };
    let (database, home) = (cluster.database(), TempDir::new().unwrap());
    let setup =
        Setup::script(vec![says_more(), json!({ "when": "", "answers": [[{ "text": "hi" }]] })]);
    let mut first = Node::start(&setup, home.path(), &database).await;
    let second = Node::start(&setup, home.path(), &database).await;
    first.client.result("message/send", in_context("c", "go")).await;
    first.signal(Signal::TERM);
    timeout(HANG, first.child.wait()).await.unwrap().unwrap();
    assert_eq!(database.sql("select owner from tandem.session"), "");
    let task = second.client.result("message/send", in_context("c", "more")).await;
    let said: Vec<_> = task["history"].as_array().unwrap().iter().map(first_text).collect();
    assert_eq!(said, ["go", "hi", "more", "more"]);
    let list = second.client.result("tasks/list", json!({})).await;
    assert_eq!(list["totalSize"], 1, "{list}");
}

fn first_text(message: &Value) -> &str {
    message["parts"][0]["text"].as_str().unwrap()
}

#[tokio::test]
async fn a_node_that_does_not_serve_the_directory_of_a_session_says_so_and_begins_no_other() {
    let Some(cluster) = Cluster::shared() else { return };
    let database = cluster.database();
    let (home, elsewhere) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let setup = Setup::answers(json!([[{ "text": "hello" }]]));
    let mut first = Node::start(&setup, home.path(), &database).await;
    let second = Node::start(&setup, elsewhere.path(), &database).await;
    first.client.result("message/send", in_context("c", "go")).await;
    let directory = fs::canonicalize(home.path().join("workspace")).unwrap();
    for is_alive in [true, false] {
        if !is_alive {
            first.child.kill().await.unwrap();
        }
        let expected = format!(
            "the session works in `{}`, which this server does not serve: ask a server that does, or start this one \
             with `--workspace-root`",
            directory.display()
        );
        for (method, params) in [
            ("message/send", in_context("c", "more")),
            ("tasks/get", json!({ "id": "c" })),
            ("GetTask", json!({ "id": "c.1" })),
        ] {
            let said = second.client.call(method, params).await;
            assert_eq!(said["error"]["message"], expected, "{method}");
        }
        for (method, params) in [
            ("message/stream", in_context("c", "more")),
            ("tasks/resubscribe", json!({ "id": "c" })),
        ] {
            let mut stream = second.client.stream(method, params).await;
            let (_, said) = stream.event().await.unwrap();
            assert_eq!(said["error"]["message"], expected, "{method}");
        }
    }
    assert_eq!(database.sql("select turns from tandem.session"), "1");
}

#[tokio::test]
async fn commands_see_neither_the_database_nor_its_password() {
    let Some(cluster) = Cluster::shared() else { return };
    let (database, home) = (cluster.database(), TempDir::new().unwrap());
    let command = json!({ "command": "env > seen" });
    let answers = json!([[{ "call": { "name": "run_shell_command", "args": command } }],
                         [{ "text": "done" }]]);
    let setup = Setup::answers(answers)
        .var("TANDEM_STORE", &database.url)
        .var("PGPASSWORD", "a-password-of-a-test")
        .var("SEEN", "yes");
    let node = Node::start(&setup, home.path(), &database).await;
    node.client.result("message/send", prompt("go")).await;
    let seen = fs::read_to_string(home.path().join("workspace/seen")).unwrap();
    assert!(seen.contains("SEEN=yes"), "{seen}");
    assert!(!seen.contains("postgres://") && !seen.contains("a-password-of-a-test"), "{seen}");
}

#[tokio::test]
async fn the_log_says_why_the_database_cannot_be_reached_and_clients_are_told_to_try_again() {
    let Some(cluster) = Cluster::start() else { return };
    let (database, home) = (cluster.database(), TempDir::new().unwrap());
    let setup = Setup::answers(json!([[{ "text": "hi" }]])).arg("--limit").arg("store-seconds=1");
    let setup = setup.var("TANDEM_LOG", "warn");
    let node = Node::start(&setup, home.path(), &database).await;
    cluster.freeze();
    for _ in 0..2 {
        let (code, why) = node.client.error("tasks/get", json!({ "id": "c" })).await;
        assert_eq!(code, -32030);
        expect![[r#""the server cannot reach its database now; try again in 5 s""#]]
            .assert_eq(&why);
    }
    cluster.kill();
    let (code, why) = node.client.error("message/send", prompt("go")).await;
    assert!(code == -32030 && !why.contains("127.0.0.1"), "{why}");
    let name = database.url.rsplit('/').next().unwrap();
    let reason =
        format!("the database `{name}` at 127.0.0.1:{}: it has not answered", cluster.port);
    let lines = || {
        let said = node.said.lock().unwrap();
        let lines = said.lines().filter(|line| line.contains("clients are told to try again"));
        lines.map(ToOwned::to_owned).collect::<Vec<_>>()
    };
    wait_until("the line in the log", || !lines().is_empty()).await;
    assert!(lines().len() == 1 && lines()[0].contains(&reason), "{:?}", lines());
}

#[tokio::test]
async fn a_server_that_has_no_database_says_so_and_ends() {
    for (url, expected) in [
        (
            "mysql://me:secret@here/x",
            "a store is an address such as postgres://USER:PASSWORD@HOST/DATABASE",
        ),
        (
            "postgres://me:secret@127.0.0.1:1/x",
            "the database `x` at 127.0.0.1:1: it cannot be reached",
        ),
    ] {
        let limit = "store-seconds=1";
        let ran = Setup::answers(json!([]))
            .arg("serve")
            .arg("--port=0")
            .arg("--limit")
            .arg(limit)
            .arg("--store")
            .arg(url)
            .run()
            .await;
        assert_eq!(ran.code, Some(1), "{}", ran.stderr);
        assert!(ran.stderr.contains(expected) && !ran.stderr.contains("secret"), "{}", ran.stderr);
    }
}
