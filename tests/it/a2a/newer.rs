//! A newer version with the same database, while its tables have the same version.
//!
//! Unknown events, fields, columns and tables appear during an update of one node after another. The test writes the
//! rows as such a version would write them.

use std::collections::HashSet;

use expect_test::expect;
use serde_json::{Value, json};
use tandem_agent::session::{Batch, Event, SharedStore as _, Store as _, WriteLease};
use tandem_store::PostgresStore;
use tempfile::TempDir;
use test_fakes::postgres::{Cluster, Database};
use tokio::time::timeout;

use super::nodes::{Node, in_context, until_sql};
use super::server::{ends, first_part, kind, text, tool_call};
use crate::agent::{HANG, Setup};

fn setup() -> Setup {
    Setup::answers(json!([[{ "text": "hello" }]]))
}

/// A database with the session `c`, which has had one turn and no owner.
struct Written<'a> {
    database: Database<'a>,
    home: TempDir,
    id: String,
}

impl Written<'_> {
    async fn new() -> Option<Self> {
        let cluster = Cluster::shared()?;
        let (database, home) = (cluster.database(), TempDir::new().unwrap());
        let mut node = Node::start(&setup(), home.path(), &database).await;
        node.client.result("message/send", in_context("c", "hi")).await;
        node.signal(rustix::process::Signal::TERM);
        timeout(HANG, node.child.wait()).await.unwrap().unwrap();
        let id = database.sql("select id from tandem.session");
        Some(Self { database, home, id })
    }

    async fn start(&self) -> Node {
        Node::start(&setup(), self.home.path(), &self.database).await
    }

    /// Adds fields, a column and a table to the stored session.
    fn widen(&self) {
        for sql in [
            "alter table tandem.session add column invented text not null default 'new'",
            "create table tandem.invented(session text references tandem.session, body text)",
            "insert into tandem.invented select id, 'beside' from tandem.session",
            r#"update tandem.session set shares = '{"bob":"invented"}',
               head = regexp_replace(head, '^\{', '{"invented":{"a":[1.50]},')"#,
            r#"update tandem.batch set body = regexp_replace(body, '^\{', '{"invented":[1.50],')"#,
        ] {
            self.database.sql(sql);
        }
    }

    /// Adds a batch as a newer version might.
    fn append(&self, events: &[Value]) {
        let next: usize = self.database.sql("select next from tandem.session").parse().unwrap();
        let events = Value::from(events);
        let end = next + events.as_array().unwrap().len();
        let summary = json!({ "turns": 2, "shares": { "bob": "invented" }, "invented": 1 });
        let body = json!({ "i": next, "t": 5, "invented": 1, "e": events, "s": summary });
        let id = &self.id;
        self.database.sql(&format!(
            "insert into tandem.batch(session, first, body) values ('{id}', {next}, '{body}'); \
             update tandem.session set next = {end}, turns = 2"
        ));
    }

    /// Returns all that is there up to an index, to the byte.
    fn rows(&self, end: &str) -> String {
        let rows = "select string_agg(first || body, E'\\n' order by first) from tandem.batch where first <";
        let beside =
            "select head, invented, (select body from tandem.invented) from tandem.session";
        format!("{}\n{}", self.database.sql(&format!("{rows} {end}")), self.database.sql(beside))
    }
}

fn unknown() -> Value {
    json!({ "Dreamt": { "of": ["a", null], "deep": { "z": 1, "a": 2 } } })
}

/// Returns the beginning of a second turn, with an unknown field.
fn begun() -> [Value; 2] {
    let prompt = json!([{ "Text": "from the newer one" }]);
    [
        json!({ "TurnQueued": { "turn": 2, "prompt": prompt, "origin": "Editor", "invented": 1 } }),
        json!({ "TurnStarted": { "turn": 2, "invented": "x" } }),
    ]
}

fn history(task: &Value) -> Vec<&str> {
    let messages = task["history"].as_array().unwrap();
    messages.iter().map(|message| message["parts"][0]["text"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn a_session_that_a_newer_version_had_goes_on_and_what_that_wrote_stays_as_it_is() {
    let Some(written) = Written::new().await else { return };
    let [queued, started] = begun();
    let end =
        json!({ "TurnFinished": { "turn": 2, "reason": { "Evicted": { "by": "the host" } } } });
    let answer = json!({ "Text": "newer words" });
    written.append(&[json!("Rebooted"), queued, started, unknown(), answer, unknown(), end]);
    written.widen();
    let next = written.database.sql("select next from tandem.session");
    let before = written.rows(&next);
    let node = written.start().await;
    let list = node.client.result("tasks/list", json!({})).await;
    assert!(!list["tasks"].as_array().unwrap().is_empty(), "{list}");
    let task = node.client.result("message/send", in_context("c", "more")).await;
    assert_eq!(task["status"]["state"], "completed", "{task}");
    let said = history(&task);
    assert!(said.starts_with(&["hi", "hello", "from the newer one"]), "{said:?}");
    assert!(said.ends_with(&["more", "hello"]), "{said:?}");
    assert_eq!(written.rows(&next), before);
    // The session's turn had ended, so no node ends it again or resumes it.
    let again = "select count(*) from tandem.batch where body like '%Interrupted%' or body like '%TurnResumed%'";
    assert_eq!(written.database.sql(again), "0");
}

#[tokio::test]
async fn a_turn_that_a_newer_version_has_left_goes_on_and_what_that_wrote_stays_as_it_is() {
    let Some(written) = Written::new().await else { return };
    let [queued, started] = begun();
    let call = json!({ "id": "c1", "name": "read_file", "args": { "path": "a" } });
    let summary = json!({ "label": "a", "locations": [], "diff": null });
    let call = json!({ "CallStarted": { "call": call, "caller": "Model", "kind": "Read", "summary": summary,
        "access": "Nothing", "question": null } });
    let ended = json!({ "CallFinished": { "call": "c1", "outcome": { "Postponed": { "text": "until noon" } } } });
    let half = json!({ "Text": "half" });
    written.append(&[queued, unknown(), started, call, ended, unknown(), half, unknown()]);
    written.widen();
    let database = &written.database;
    let next = database.sql("select next from tandem.session");
    database.sql("update tandem.session set busy = true, owner = 'gone', epoch = epoch + 1");
    let before = written.rows(&next);
    let node = written.start().await;
    until_sql(database, "select busy from tandem.session", "f").await;
    let task = node.client.result("tasks/get", json!({ "id": "c" })).await;
    assert_eq!(task["status"]["state"], "completed", "{task}");
    assert!(history(&task).ends_with(&["from the newer one", "hello"]), "{task}");
    assert_eq!(written.rows(&next), before);
    // The call has an outcome that only the newer version knows, so it is not marked as interrupted.
    let again = "select count(*) from tandem.batch where body like '%\"Interrupted\"%'";
    assert_eq!(database.sql(again), "0");
    let mut stream = node.client.stream("tasks/resubscribe", json!({ "id": "c.2" })).await;
    let rest = stream.rest().await;
    let call = rest.iter().map(tool_call).rfind(|call| call["tool_call_id"] == "c1").unwrap();
    assert_eq!(call["status"], "FAILED");
    expect![[r#"
        The call ended in a way that only a newer tandem knows (`Postponed`); update tandem to read it.

        until noon"#]]
    .assert_eq(call["error"]["message"].as_str().unwrap());
}

/// Adds events to a session that this process has.
async fn append(lease: &mut Box<dyn WriteLease>, events: &[Value]) {
    let read = |event: &Value| (5, serde_json::from_value::<Event>(event.clone()).unwrap().into());
    let events = events.iter().map(read).collect();
    let batch = Batch { first: lease.next(), events, summary: None };
    lease.append(vec![batch]).await.unwrap();
}

#[tokio::test]
async fn who_follows_a_session_of_a_newer_node_is_told_what_is_known() {
    let Some(written) = Written::new().await else { return };
    let newer = written.database.connect().await;
    let mut lease = newer.acquire(&written.id).await.unwrap();
    append(&mut lease, &begun()).await;
    let node = written.start().await;
    let mut stream = node.client.stream("tasks/resubscribe", json!({ "id": "c.2" })).await;
    append(&mut lease, &[unknown(), json!({ "Text": "one" }), unknown()]).await;
    let is_text =
        |event: &Value| kind(event) == "TEXT_CONTENT" && first_part(event)["text"] == "one";
    stream.until(is_text).await;
    let end = json!({ "TurnFinished": { "turn": 2, "reason": { "Evicted": {} } } });
    append(&mut lease, &[unknown(), json!({ "Text": "two" }), end]).await;
    let rest = stream.rest().await;
    assert_eq!(
        (text(&rest).starts_with("two"), ends(rest.last().unwrap())),
        (true, true),
        "{rest:?}"
    );
}

/// Has the owner of a session carry out an order; returns its reply.
async fn order(store: &PostgresStore, id: &str, body: &Value) -> Value {
    let reply = timeout(HANG, store.ask(id, &body.to_string())).await.unwrap().unwrap();
    serde_json::from_str(&reply).unwrap()
}

#[tokio::test]
async fn an_order_of_a_newer_node_is_carried_out_if_it_is_known_and_refused_if_not() {
    let Some(written) = Written::new().await else { return };
    let node = written.start().await;
    node.client.result("message/send", in_context("c", "more")).await;
    let newer = written.database.connect().await;
    let of = |call: Value| {
        let origin = json!({ "A2a": { "name": "x", "number": 1, "invented": 1 } });
        json!({ "call": call, "principal": "Anyone", "origin": origin, "address": null, "trace": {},
            "invented": [1] })
    };
    let get = json!({ "name": "tasks/get", "params": { "id": "c" }, "invented": 1 });
    let reply = order(&newer, &written.id, &of(json!({ "Method": get }))).await;
    assert_eq!(history(&reply["Value"]).len(), 4, "{reply}");
    for unknown in [of(json!({ "Invented": { "a": 1 } })), json!(["Invented"])] {
        let reply = order(&newer, &written.id, &unknown).await;
        let why = reply["Failed"]["message"].as_str().unwrap();
        assert!(why.contains("another version of tandem: it cannot read this request"), "{why}");
    }
    until_sql(&written.database, "select count(*) from tandem.inbox", "0").await;
}

#[tokio::test]
async fn a_reply_of_a_newer_node_that_is_not_known_is_said_to_be_none() {
    let Some(written) = Written::new().await else { return };
    let newer = written.database.connect().await;
    let _lease = newer.acquire(&written.id).await.unwrap();
    let node = written.start().await;
    let client = node.client;
    let sent =
        tokio::spawn(async move { client.error("message/send", in_context("c", "more")).await });
    let orders = timeout(HANG, newer.orders(&HashSet::new())).await.unwrap().unwrap();
    newer.reply(&orders[0], r#"{"Invented":{"a":1}}"#).await.unwrap();
    let (code, why) = timeout(HANG, sent).await.unwrap().unwrap();
    assert_eq!(code, -32603);
    assert!(why.contains("another version of tandem: it has carried out the request"), "{why}");
    until_sql(&written.database, "select count(*) from tandem.inbox", "0").await;
}
