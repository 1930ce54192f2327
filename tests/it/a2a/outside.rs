//! `tandem sessions` looks at the sessions of nodes from outside.

use serde_json::{Value, json};
use tandem_serve::tokens::{self, PrincipalRole};
use test_fakes::postgres::Cluster;

use super::nodes::{Node, in_context};
use super::principals::{Person, id};
use super::server::kind;
use crate::agent::Setup;
use crate::sessions_cli::Place;

#[tokio::test]
async fn the_sessions_of_a_database_are_listed_shown_searched_exported_and_deleted() {
    let Some(cluster) = Cluster::shared() else { return };
    let (database, place) = (cluster.database(), Place::new());
    let setup = Setup::answers(json!([[{ "text": "It is a **project**." }]]));
    let mut node = Node::start(&setup, place.home.path(), &database).await;
    node.client.result("message/send", in_context("c", "What is this?")).await;
    let id = database.sql("select id from tandem.session");
    let url = database.url.as_str();
    let out = |args: &[&str]| place.out(&[&["sessions"], args, &["--store", url]].concat());
    let run = |args: &[&str]| place.run(&[&["sessions"], args, &["--store", url]].concat());

    let list: Value = serde_json::from_str(&out(&["list", "--json"])).unwrap();
    assert_eq!(list.as_array().map(Vec::len), Some(1), "{list}");
    let listed = &list[0];
    assert_eq!((&listed["id"], &listed["title"]), (&json!(id), &json!("What is this?")));
    assert_eq!((&listed["turns"], &listed["bytes"]), (&json!(1), &Value::Null));
    assert!(out(&["show", &id]).contains("It is a **project**."));
    assert!(out(&["search", "PROJECT"]).contains(&id));
    assert!(out(&["export", &id]).contains("# What is this?"));
    let log = out(&["export", &id, "--format", "jsonl"]);
    let lines: Vec<Value> = log.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!((&lines[0]["tandem"], &lines[0]["id"]), (&json!(1), &json!(id)));
    assert!(log.contains("What is this?") && lines.len() > 1, "{log}");
    assert!(place.out(&["sessions", "--store", url, "show", &id]).contains("It is a **project**."));
    let misplaced = place.run(&["sessions", "--all", "show", &id]);
    assert_eq!(misplaced.err, "tandem: --all, --json and -n go behind the subcommand\n");
    let mut by_variable = place.command("workspace", &["sessions"]);
    let by_variable = by_variable.env("TANDEM_STORE", url).output().unwrap();
    assert!(String::from_utf8(by_variable.stdout).unwrap().contains(&id));
    // The sessions are in the database, and none is in the files of this machine.
    assert_eq!(place.run(&["sessions", "--all"]).err, "There is no stored session.\n");

    // Reading the sessions has registered no further node.
    assert_eq!(database.sql("select count(*) from tandem.node"), "1");
    let copied = run(&["fork", &id]);
    assert!(copied.code == Some(1) && copied.err.contains("`/fork`"), "{}", copied.err);
    let refused = run(&["delete", "--yes", &id]);
    assert!(refused.code == Some(1) && refused.err.contains("open at node"), "{}", refused.err);
    node.child.kill().await.unwrap();
    assert!(out(&["delete", "--yes", &id]).contains("is deleted"));
    assert_eq!(database.sql("select count(*) from tandem.session"), "0");
    assert_eq!(database.sql("select count(*) from tandem.node"), "1");
}

#[tokio::test]
async fn whoever_looks_at_a_database_needs_rights_for_no_more_than_that() {
    let Some(cluster) = Cluster::shared() else { return };
    let (database, place) = (cluster.database(), Place::new());
    let setup = Setup::answers(json!([[{ "text": "hello" }]]));
    let mut node = Node::start(&setup, place.home.path(), &database).await;
    node.client.result("message/send", in_context("c", "hi")).await;
    node.child.kill().await.unwrap();
    let id = database.sql("select id from tandem.session");
    // A database of an older version lacks this table, and can be read without it.
    database.sql("drop table tandem.node_use");
    database.sql("create user onlooker; grant usage on schema tandem to onlooker");
    database.sql("grant select on all tables in schema tandem to onlooker");
    let url = database.url.replace("tandem@", "onlooker@");
    let run = |args: &[&str]| place.run(&[&["sessions"], args, &["--store", &url]].concat());
    for args in [&["show", &id] as &[&str], &["search", "hello", "--all"]] {
        let said = run(args);
        assert!(said.code == Some(0) && said.out.contains("hello"), "{args:?}: {}", said.err);
    }
    let refused = run(&["delete", "--yes", &id]);
    assert!(refused.err.contains("the user `onlooker` may not do this"), "{}", refused.err);
    database.sql("grant delete on tandem.session to onlooker");
    assert!(run(&["delete", "--yes", &id]).out.contains("is deleted"));
    assert_eq!(database.sql("select to_regclass('tandem.node_use') is null"), "t");
}

#[tokio::test]
async fn whoever_looks_at_a_database_makes_no_tables_and_takes_no_session_over() {
    let Some(cluster) = Cluster::shared() else { return };
    let (database, place) = (cluster.database(), Place::new());
    let list = ["sessions", "list", "--all", "--store", &database.url];
    let said = place.run(&list);
    assert!(said.code == Some(1) && said.err.contains("it has no sessions"), "{}", said.err);
    assert_eq!(database.sql("select to_regnamespace('tandem') is null"), "t");

    let hangs = Setup::answers(json!([[{ "text": "one" }, { "hang": null }]]));
    let mut node = Node::start(&hangs, place.home.path(), &database).await;
    let mut stream = node.client.stream("message/stream", in_context("c", "go")).await;
    stream.until(|event| kind(event) == "TEXT_CONTENT").await;
    node.child.kill().await.unwrap();
    assert!(place.out(&list).contains("1 turn "));
    assert_eq!(database.sql("select epoch, busy from tandem.session"), "1|t");
}

#[tokio::test]
async fn a_session_of_somebody_is_listed_with_owner_and_context_and_its_copy_is_for_clients_of_the_server()
 {
    let Some(cluster) = Cluster::shared() else { return };
    let (database, place) = (cluster.database(), Place::new());
    let file = place.home.path().join("tokens.json");
    let alice = id("acme", "alice");
    let (token, _) = tokens::add(&file, &alice, PrincipalRole::Member).unwrap();
    let setup = Setup::answers(json!([[{ "text": "hello" }]]));
    let setup = setup.arg("--tokens").arg(file.to_str().unwrap());
    let node = Node::start(&setup, place.home.path(), &database).await;
    let alice = Person { port: node.client.port, token, id: alice };
    alice.result("message/send", in_context("fix", "What is this?")).await;
    let list = ["sessions", "list", "--all", "--store", &database.url];
    assert!(
        place.out(&list).contains("  alice (acme)  fix  What is this?  "),
        "{}",
        place.out(&list)
    );

    let json = place.out(&[&list[..], &["--json"]].concat());
    let listed: Value = serde_json::from_str(&json).unwrap();
    let owner = json!({ "tenant": "acme", "name": "alice" });
    assert_eq!((&listed[0]["owner"], &listed[0]["contextId"]), (&owner, &json!("fix")));

    let task = alice.result("message/send", in_context("fix", "/fork")).await;
    let copy = database.sql("select id from tandem.session where head like '%\"from\"%'");
    let hint = format!("`tandem attach URL --session {copy}`, with the server's URL, goes on");
    assert!(task.to_string().contains(&hint), "{task}");
    // Only the original has the client's name `fix`; the copy has none.
    assert_eq!(place.out(&list).matches("  fix  ").count(), 1, "{}", place.out(&list));
}
