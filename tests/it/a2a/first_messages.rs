//! Messages that name no context and are sent again to another node: each message begins only one session.

use std::path::Path;

use futures::future::join_all;
use rustix::process::Signal;
use serde_json::{Value, json};
use tandem_serve::tokens::{self, PrincipalRole};
use tempfile::TempDir;
use test_fakes::postgres::{Cluster, Database};
use test_support::api_server::{Reply, Server};
use tokio::task::yield_now;
use tokio::time::timeout;

use super::nodes::{Node, until_sql};
use super::principals::{Person, id};
use super::server::{kind, prompt};
use crate::agent::{HANG, Setup};

fn says_hello() -> Setup {
    Setup::answers(json!([[{ "text": "hello" }]]))
}

async fn two_nodes(setup: &Setup, home: &Path, database: &Database<'_>) -> [Node; 2] {
    [Node::start(setup, home, database).await, Node::start(setup, home, database).await]
}

fn context(result: &Value) -> &str {
    result.get("task").unwrap_or(result)["contextId"].as_str().unwrap()
}

/// Returns the prompts in a task.
fn prompts(result: &Value) -> Vec<&str> {
    let history = result.get("task").unwrap_or(result)["history"].as_array().unwrap();
    let said = history.iter().filter(|it| it["role"].as_str().unwrap().ends_with(['r', 'R']));
    said.map(|message| message["parts"][0]["text"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn a_message_whose_node_is_killed_before_it_answers_goes_on_at_the_node_it_is_sent_to_then() {
    let Some(cluster) = Cluster::shared() else { return };
    let (database, home) = (cluster.database(), TempDir::new().unwrap());
    let hangs = Setup::answers(json!([[{ "text": "one" }, { "hang": null }]]));
    let mut first = Node::start(&hangs, home.path(), &database).await;
    let second = Node::start(&says_hello(), home.path(), &database).await;
    let message = prompt("go");
    let mut stream = first.client.stream("message/stream", message.clone()).await;
    let seen = stream.until(|event| kind(event) == "TEXT_CONTENT").await;
    first.child.kill().await.unwrap();
    let task = timeout(HANG, second.client.result("message/send", message)).await.unwrap();
    assert_eq!(context(&task), seen[0]["contextId"]);
    assert_eq!((&task["status"]["state"], prompts(&task)), (&json!("completed"), vec!["go"]));
    assert_eq!(database.sql("select count(*), max(epoch) from tandem.session"), "1|2");
}

#[tokio::test]
async fn a_message_that_a_killed_node_has_answered_is_answered_alike_by_another() {
    let Some(cluster) = Cluster::shared() else { return };
    let (database, home) = (cluster.database(), TempDir::new().unwrap());
    let [mut first, second] = two_nodes(&says_hello(), home.path(), &database).await;
    let message = prompt("go");
    let answered = first.client.result("SendMessage", message.clone()).await;
    first.child.kill().await.unwrap();
    let again = timeout(HANG, second.client.result("SendMessage", message)).await.unwrap();
    assert_eq!((&again["task"]["id"], prompts(&again)), (&answered["task"]["id"], vec!["go"]));
}

#[tokio::test]
async fn a_message_that_is_sent_to_both_nodes_is_one_turn_of_one_session() {
    let Some(cluster) = Cluster::shared() else { return };
    let (database, home) = (cluster.database(), TempDir::new().unwrap());
    let nodes = two_nodes(&says_hello(), home.path(), &database).await;
    let message = prompt("go");
    let begun = nodes[0].client.result("message/send", message.clone()).await;
    assert!(begun["metadata"]["unknownContext"].is_null(), "{begun}");
    let again = [1, 0, 1].map(|n| nodes[n].client.result("message/send", message.clone()));
    for task in join_all(again).await {
        assert_eq!((context(&task), prompts(&task)), (context(&begun), vec!["go"]));
    }
    let mut stream = nodes[1].client.stream("SendStreamingMessage", message).await;
    assert_eq!(context(&stream.rest().await[0]), context(&begun));
    assert_eq!(database.sql("select epoch, turns from tandem.session"), "1|1");
}

#[tokio::test]
async fn a_message_that_comes_to_both_nodes_at_the_same_moment_is_one_turn_and_asks_the_model_once()
{
    const MESSAGES: usize = 20;
    let Some(cluster) = Cluster::shared() else { return };
    let (database, home) = (cluster.database(), TempDir::new().unwrap());
    let replies = (0..2 * MESSAGES).map(|_| Reply::text("hello")).collect();
    let model = Server::start(replies).await;
    let setup = Setup::default().arg("--model").arg("gemini-3.8-flash");
    let setup = setup.var("GOOGLE_GEMINI_BASE_URL", model.address()).var("GEMINI_API_KEY", "key");
    let nodes = two_nodes(&setup, home.path(), &database).await;
    let messages = join_all((0..MESSAGES).map(async |n| {
        let method = if n % 2 == 0 { "message/send" } else { "SendMessage" };
        let message = prompt("go");
        let sent = nodes.each_ref().map(|node| node.client.result(method, message.clone()));
        join_all(sent).await
    }));
    for tasks in messages.await {
        assert_eq!(context(&tasks[0]), context(&tasks[1]));
        assert_eq!((prompts(&tasks[0]), prompts(&tasks[1])), (vec!["go"], vec!["go"]));
    }
    let turns = "select count(*), min(turns), max(turns) from tandem.session";
    assert_eq!(database.sql(turns), format!("{MESSAGES}|1|1"));
    assert_eq!(model.asked().len(), MESSAGES);
}

#[tokio::test]
async fn another_text_or_another_sender_under_the_same_id_begins_another_session() {
    let Some(cluster) = Cluster::shared() else { return };
    let (database, home) = (cluster.database(), TempDir::new().unwrap());
    let file = home.path().join("tokens.json");
    let people = [("acme", "alice"), ("acme", "bob"), ("globex", "alice")].map(|(tenant, name)| {
        let id = id(tenant, name);
        let (token, _) = tokens::add(&file, &id, PrincipalRole::Member).unwrap();
        Person { port: 0, token, id }
    });
    let setup = says_hello().arg("--tokens").arg(file.to_str().unwrap());
    let nodes = two_nodes(&setup, home.path(), &database).await;
    let mut contexts = Vec::new();
    for text in ["go", "stay"] {
        for person in &people {
            let at = nodes.each_ref().map(|node| person.at(node.client.port));
            let mut message = prompt(text);
            message["message"]["messageId"] = json!("1");
            let sent = at[0].result("message/send", message.clone()).await;
            assert_eq!(prompts(&sent), [text]);
            if text == "go" {
                let again = at[1].result("message/send", message).await;
                assert_eq!((context(&again), prompts(&again)), (context(&sent), vec!["go"]));
            }
            contexts.push(context(&sent).to_owned());
        }
    }
    contexts.sort();
    contexts.dedup();
    assert_eq!(contexts.len(), 6);
}

#[tokio::test]
async fn a_message_is_forgotten_some_time_after_its_turn_so_that_ids_may_be_counted_anew() {
    let Some(cluster) = Cluster::shared() else { return };
    let (database, home) = (cluster.database(), TempDir::new().unwrap());
    let soon = says_hello().arg("--limit").arg("a2a-retry-seconds=1");
    let [mut first, second] = two_nodes(&soon, home.path(), &database).await;
    let message = prompt("go");
    let before = first.client.result("message/send", message.clone()).await;
    first.signal(Signal::TERM);
    timeout(HANG, first.child.wait()).await.unwrap().unwrap();
    until_sql(&database, "select owner from tandem.session", "").await;
    let another = async {
        loop {
            let task = second.client.result("message/send", message.clone()).await;
            if context(&task) != context(&before) {
                break task;
            }
            yield_now().await;
        }
    };
    let after = timeout(HANG, another).await.expect("it is never forgotten");
    assert_eq!(prompts(&after), ["go"]);
}

#[tokio::test]
async fn a_message_that_a_node_has_answered_before_it_ended_is_answered_alike_by_another() {
    let Some(cluster) = Cluster::shared() else { return };
    let (database, home) = (cluster.database(), TempDir::new().unwrap());
    let [mut first, second] = two_nodes(&says_hello(), home.path(), &database).await;
    let message = prompt("go");
    let before = first.client.result("message/send", message.clone()).await;
    first.signal(Signal::TERM);
    timeout(HANG, first.child.wait()).await.unwrap().unwrap();
    until_sql(&database, "select owner from tandem.session", "").await;
    let after = second.client.result("message/send", message).await;
    assert_eq!((context(&after), prompts(&after)), (context(&before), vec!["go"]));
}
