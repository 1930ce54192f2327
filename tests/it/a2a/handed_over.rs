//! Nodes that end during a turn that waits for an answer: another node asks again.

use rustix::process::Signal;
use serde_json::{Value, json};
use tempfile::TempDir;
use test_fakes::postgres::Cluster;
use tokio::time::timeout;

use super::nodes::{Node, in_context};
use super::server::{Client, answer, prompt, tool_call, within, write};
use crate::agent::{HANG, Setup};

/// Returns a model that writes a file after a question, and does so again in each further process.
fn writes(times: usize) -> Setup {
    let mut answers = vec![json!([write("a.txt", "x\n")]); times];
    answers.push(json!([{ "text": "done" }]));
    let setup = Setup::script(vec![json!({ "when": "", "answers": answers })]);
    setup.arg("--drain-timeout").arg("600")
}

/// Waits until a task asks something else than before; returns the task.
async fn asks_again(client: Client, asked: &Value) -> Value {
    let asked = &tool_call(asked)["tool_call_id"];
    let asks = async {
        loop {
            let task = client.result("tasks/get", json!({ "id": "c" })).await;
            let call = &tool_call(&task)["tool_call_id"];
            if task["status"]["state"] == "input-required" && call != asked {
                return task;
            }
        }
    };
    timeout(HANG, asks).await.expect("nobody asks again")
}

#[tokio::test]
async fn a_node_that_ends_does_not_wait_for_a_question_and_another_asks_it_again() {
    let Some(cluster) = Cluster::shared() else { return };
    let (database, home) = (cluster.database(), TempDir::new().unwrap());
    let mut first = Node::asking(&writes(2), home.path(), &database).await;
    let second = Node::asking(&writes(2), home.path(), &database).await;
    let asked = first.client.result("message/send", in_context("c", "go")).await;
    assert_eq!(asked["status"]["state"], "input-required", "{asked}");
    first.signal(Signal::TERM);
    timeout(HANG, first.child.wait()).await.expect("it waits").unwrap();
    let asked = asks_again(second.client, &asked).await;
    let call = &tool_call(&asked)["tool_call_id"];
    let yes = within(&json!("c"), answer(call, "proceed_once"));
    let done = second.client.result("message/send", yes).await;
    assert_eq!(done["status"]["state"], "completed", "{done}");
    let written = home.path().join("workspace/a.txt");
    assert_eq!(std::fs::read_to_string(written).unwrap(), "x\n");
    // The turn ended only once, and no client was told that it was cancelled.
    let ends = "select count(*) from tandem.batch where body like '%TurnFinished%'";
    assert_eq!(database.sql(ends), "1");
}

#[tokio::test]
async fn a_node_that_is_alone_leaves_its_question_to_the_next() {
    let Some(cluster) = Cluster::shared() else { return };
    let (database, home) = (cluster.database(), TempDir::new().unwrap());
    let mut first = Node::asking(&writes(2), home.path(), &database).await;
    let asked = first.client.result("message/send", in_context("c", "go")).await;
    first.signal(Signal::TERM);
    timeout(HANG, first.child.wait()).await.expect("it waits").unwrap();
    assert_eq!(database.sql("select owner, busy from tandem.session"), "|t");
    let next = Node::asking(&writes(2), home.path(), &database).await;
    asks_again(next.client, &asked).await;
}

#[tokio::test]
async fn a_turn_that_would_not_go_on_is_waited_for() {
    let Some(cluster) = Cluster::shared() else { return };
    let (database, home) = (cluster.database(), TempDir::new().unwrap());
    let setup = writes(1).arg("--resume-turns=never");
    let mut first = Node::asking(&setup, home.path(), &database).await;
    let second = Node::asking(&setup, home.path(), &database).await;
    let asked = first.client.result("message/send", in_context("c", "go")).await;
    first.signal(Signal::TERM);
    // While the first node ends, its question can be answered at the other node.
    let call = &tool_call(&asked)["tool_call_id"];
    let yes = within(&json!("c"), answer(call, "proceed_once"));
    let done = second.client.result("message/send", yes).await;
    assert_eq!(done["status"]["state"], "completed", "{done}");
    timeout(HANG, first.child.wait()).await.unwrap().unwrap();
    second.client.result("message/send", prompt("go")).await;
}
