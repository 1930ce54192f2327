//! Quotas of a principal, and the audit log.

use std::fs;

use serde_json::{Value, json};
use test_fakes::postgres::Cluster;
use tokio::time::timeout;

#[cfg(feature = "postgres")]
use super::super::nodes::until_sql;
#[cfg(feature = "postgres")]
use super::super::server::write;
use super::super::server::{answer, prompt, within};
#[cfg(feature = "postgres")]
use super::Person;
use super::{Office, asking, hello, in_context};
use crate::agent::{HANG, Setup};

/// Error code of a used-up quota.
const USED_UP: i64 = -32029;

fn limited(setup: Setup, limit: &str) -> Setup {
    setup.arg("--limit").arg(limit)
}

/// Returns a setup with a large quota of requests. A test that asks again and again would otherwise reach this quota
/// first, on a fast machine.
#[cfg(feature = "postgres")]
fn asked_often(setup: Setup) -> Setup {
    limited(setup, "principal-requests=1000000")
}

/// Returns the data of a call's error: the code, the limit, its value, and `true` if the error tells when to try
/// again.
fn quota(response: &Value) -> (i64, &str, u64, bool) {
    let error = &response["error"];
    let data = &error["data"];
    // In version 1, `data` is a list of details.
    let data = if data.is_array() { &data[0] } else { data };
    let again = data["retryAfterSeconds"].as_u64().is_some_and(|seconds| seconds > 0);
    let limit = data["limit"].as_str().unwrap_or_default();
    (error["code"].as_i64().unwrap(), limit, data["maximum"].as_u64().unwrap_or(0), again)
}

#[tokio::test]
async fn turns_at_once_are_limited_for_each_principal() {
    let it = Office::open(limited(asking(), "principal-turns=1")).await;
    let (alice, bob) = (it.member("alice"), it.member("bob"));
    alice.begin("a").await;
    let refused = alice.call("message/send", in_context("b", prompt("go"))).await;
    assert_eq!(quota(&refused), (USED_UP, "principal-turns", 1, true), "{refused}");
    let rest =
        alice.post("/executeCommand", &json!({ "command": "about", "contextId": "a" })).await;
    assert_eq!((rest.status, rest.header("retry-after")), (429, "5"), "{}", rest.text());
    bob.begin("a").await;
    // An answer to a question begins no turn, so the quota of turns does not refuse it.
    let answered = within(&json!("a"), answer(&json!("write_file-1"), "proceed_once"));
    assert_eq!(alice.result("message/send", answered).await["status"]["state"], "completed");
    alice.begin("b").await;
}

#[tokio::test]
async fn of_many_prompts_at_once_as_many_begin_as_the_quota_allows() {
    let setup = limited(asking(), "principal-turns=3").arg("--threads").arg("4");
    let it = Office::open(setup).await;
    let alice = it.member("alice");
    let calls = (0..24).map(|n| {
        let alice = alice.clone();
        let sent = in_context(&format!("c{n}"), prompt("go"));
        tokio::spawn(async move { alice.call("message/send", sent).await })
    });
    let responses = futures::future::try_join_all(calls).await.unwrap();
    let (refused, begun): (Vec<_>, Vec<_>) =
        responses.iter().partition(|response| response.get("error").is_some());
    assert!(refused.iter().all(|it| quota(it).1 == "principal-turns"), "{refused:?}");
    assert_eq!(begun.len(), 3);
}

#[tokio::test]
async fn a_session_gives_way_to_another_of_its_owner_unless_it_is_in_use() {
    let it = Office::open(limited(asking(), "principal-sessions=2")).await;
    let alice = it.member("alice");
    alice.begin("a").await;
    alice.begin("b").await;
    let refused = alice.call("message/send", in_context("c", prompt("go"))).await;
    assert_eq!(quota(&refused), (USED_UP, "principal-sessions", 2, true), "{refused}");
    let rest = alice.post("/tasks", &json!({ "contextId": "c" })).await;
    assert_eq!(rest.status, 429, "{}", rest.text());
    alice.result("tasks/cancel", json!({ "id": "a" })).await;
    alice.begin("c").await;
    assert_eq!(alice.result("tasks/get", json!({ "id": "a" })).await["id"], "a");
}

#[tokio::test]
async fn of_many_prompts_for_one_new_context_only_the_first_needs_room_for_a_session() {
    let setup = limited(asking(), "principal-sessions=1").arg("--threads").arg("4");
    let it = Office::open(setup).await;
    let alice = it.member("alice");
    let calls = (0..8).map(|_| {
        let alice = alice.clone();
        let mut sent = in_context("a", prompt("go"));
        // The first turn asks a question that no client answers, so the other turns wait. The calls therefore do not
        // block.
        sent["configuration"] = json!({ "blocking": false });
        tokio::spawn(async move { alice.call("message/send", sent).await })
    });
    let responses = futures::future::try_join_all(calls).await.unwrap();
    let refused: Vec<_> = responses.iter().filter(|it| it.get("error").is_some()).collect();
    assert!(refused.is_empty(), "{refused:?}");
}

/// Returns a model whose prompts' tokens are counted, because it has a window.
fn counted() -> Setup {
    Setup::script(vec![
        json!({ "input_limit": 100_000 }),
        json!({ "when": "", "answers": [[{ "text": "hello" }]] }),
    ])
}

#[tokio::test]
async fn tokens_of_a_day_are_limited() {
    let it = Office::open(limited(counted(), "principal-daily-tokens=1")).await;
    let (alice, bob) = (it.member("alice"), it.member("bob"));
    alice.begin("a").await;
    let refused = alice.call("message/send", in_context("a", prompt("more"))).await;
    assert_eq!(quota(&refused), (USED_UP, "principal-daily-tokens", 1, true), "{refused}");
    let refused = alice.call("message/send", in_context("b", prompt("more"))).await;
    assert_eq!(quota(&refused).1, "principal-daily-tokens", "{refused}");
    bob.begin("a").await;
}

#[cfg(feature = "postgres")]
#[tokio::test]
async fn tokens_of_a_day_are_counted_for_all_nodes_together() {
    let Some(cluster) = Cluster::shared() else { return };
    let database = cluster.database();
    let setup = asked_often(limited(counted(), "principal-daily-tokens=1000000000000"));
    let it = Office::open(setup.arg("--store").arg(&database.url)).await;
    let (alice, bob) = (it.member("alice"), it.member("bob"));
    alice.begin("a").await;
    let used = "select count(*) from tandem.usage where tokens > 0 and tenant = 'acme' and name =";
    until_sql(&database, &format!("{used} 'alice'"), "1").await;
    // Far more tokens than the test uses: the quota is reached by this row alone.
    database.sql(
        "insert into tandem.usage select day, 'elsewhere', tenant, name, 1000000000000 from tandem.usage",
    );
    let refused = async {
        loop {
            let response = alice.call("message/send", in_context("a", prompt("more"))).await;
            if response.get("error").is_some() {
                return response;
            }
        }
    };
    let refused = timeout(HANG, refused).await.expect("nobody tells it what is used elsewhere");
    assert_eq!(quota(&refused).1, "principal-daily-tokens", "{refused}");
    bob.begin("a").await;
    until_sql(&database, &format!("{used} 'bob'"), "1").await;
}

/// Returns a model that writes a file after a question if the prompt says so, and otherwise answers at once.
#[cfg(feature = "postgres")]
fn writes_or_answers() -> Setup {
    Setup::script(vec![
        json!({ "when": "go", "answers": [[write("a.txt", "a")], [{ "text": "done" }]] }),
        json!({ "when": "", "answers": [[{ "text": "hello" }]] }),
    ])
}

/// Sends prompts that are answered at once, each in a context of its own, until `is_refused` matches the response;
/// returns the last response.
#[cfg(feature = "postgres")]
async fn say_until(person: &Person, is_refused: bool) -> Value {
    let saying = async {
        for n in 0.. {
            let sent = in_context(&format!("until-{is_refused}-{n}"), prompt("hi"));
            let response = person.call("message/send", sent).await;
            if response.get("error").is_some() == is_refused {
                return response;
            }
        }
        Value::Null
    };
    timeout(HANG, saying).await.expect("it is not told what is used elsewhere")
}

#[cfg(feature = "postgres")]
#[tokio::test]
async fn turns_at_once_are_counted_for_all_nodes_that_live() {
    let Some(cluster) = Cluster::shared() else { return };
    let database = cluster.database();
    let setup = asked_often(limited(writes_or_answers(), "principal-turns=1"));
    let setup = setup.arg("--store").arg(&database.url);
    let mut it = Office::open(setup.clone()).await;
    let second = it.another(&setup).await;
    let (alice, bob) = (it.member("alice"), it.member("bob"));
    let elsewhere = alice.at(second.client.port);
    say_until(&elsewhere, false).await;
    alice.begin("a").await;
    let refused = say_until(&elsewhere, true).await;
    assert_eq!(quota(&refused), (USED_UP, "principal-turns", 1, true), "{refused}");
    bob.at(second.client.port).begin("a").await;
    // A dead node uses nothing of the quota.
    it.server.child.kill().await.unwrap();
    say_until(&elsewhere, false).await;
}

#[cfg(feature = "postgres")]
#[tokio::test]
async fn sessions_in_use_are_counted_for_all_nodes() {
    let Some(cluster) = Cluster::shared() else { return };
    let database = cluster.database();
    let setup = asked_often(limited(writes_or_answers(), "principal-sessions=2"));
    let setup = setup.arg("--store").arg(&database.url);
    let it = Office::open(setup.clone()).await;
    let second = it.another(&setup).await;
    let (alice, bob) = (it.member("alice"), it.member("bob"));
    let elsewhere = alice.at(second.client.port);
    for context in ["a", "b"] {
        alice.begin(context).await;
    }
    let refused = say_until(&elsewhere, true).await;
    assert_eq!(quota(&refused), (USED_UP, "principal-sessions", 2, true), "{refused}");
    bob.at(second.client.port).begin("a").await;
    // Sessions that are no longer in use make room for others.
    for context in ["a", "b"] {
        alice.result("tasks/cancel", json!({ "id": context })).await;
    }
    say_until(&elsewhere, false).await;
}

#[tokio::test]
async fn requests_are_limited_over_http_and_over_a_socket() {
    let it = Office::open(limited(hello(), "principal-requests=3")).await;
    let (alice, bob) = (it.member("alice"), it.member("bob"));
    let mut statuses = Vec::new();
    for _ in 0..6 {
        let response = alice.get("/listCommands").await;
        statuses.push(response.status);
        if response.status == 429 {
            assert_eq!(response.header("retry-after"), "1");
        }
    }
    assert!(statuses.starts_with(&[200, 200, 200]) && statuses.contains(&429), "{statuses:?}");
    let mut socket = bob.socket("/ws").await.unwrap();
    let mut refused = None;
    for n in 0..8 {
        let answer = socket.call(n, "tasks/get", json!({ "id": "none" })).await;
        if answer["error"]["code"] == USED_UP {
            refused = Some(answer);
        }
    }
    assert_eq!(quota(&refused.unwrap()), (USED_UP, "principal-requests", 3, true));
}

#[tokio::test]
async fn the_audit_log_says_who_did_what_and_who_approved_what() {
    let home = tempfile::tempdir().unwrap();
    let file = home.path().join("audit.jsonl");
    let it = Office::open(asking().arg("--audit").arg(file.to_str().unwrap())).await;
    let (alice, bob) = (it.member("alice"), it.member("bob"));
    alice.result("message/send", in_context("a", prompt("/share bob answer"))).await;
    alice.begin("a").await;
    bob.error("message/send", within(&json!("a"), prompt("a-secret-word"))).await;
    let answered = within(&json!("a"), answer(&json!("write_file-1"), "proceed_once"));
    bob.result("message/send", answered).await;
    it.revoke(&bob);
    assert_eq!(bob.get("/listCommands").await.status, 401);
    alice.error("tasks/cancel", json!({ "id": "a" })).await;
    let written = async {
        loop {
            let text = fs::read_to_string(&file).unwrap_or_default();
            if text.contains("\"cancel\"") {
                return text;
            }
            tokio::task::yield_now().await;
        }
    };
    let text = timeout(HANG, written).await.expect("nothing is written");
    assert!(!text.contains("a-secret-word"), "{text}");
    let records: Vec<Value> =
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let short = records.iter().map(|it| {
        let word = |key: &str| it[key].as_str().unwrap_or("-").to_owned();
        let more = ["call", "label", "decision", "context", "what", "why", "text"].map(word);
        let more = more.into_iter().filter(|word| word != "-").collect::<Vec<_>>().join("; ");
        format!("{} {} {} {more}", word("event"), word("tenant"), word("principal"))
    });
    let short: Vec<_> = short.map(|line| line.trim_end().to_owned()).collect();
    assert_eq!(
        short,
        [
            "session acme alice a",
            "prompt acme alice a; /share bob answer",
            "prompt acme alice a",
            "denied acme bob a; drive; the role in which the session is shared does not allow this",
            "answer acme bob write_file-1; Write a.txt; allowed; a",
            "denied acme bob /listCommands; the token is revoked",
            "cancel acme alice a",
        ]
    );
    let sessions: Vec<_> = records.iter().filter(|it| it["context"].is_string()).collect();
    assert!(sessions.iter().all(|it| it["session"] == records[0]["session"]), "{text}");
    let ran = hello().arg("serve").arg("--audit").arg("none/audit.jsonl").run().await;
    assert!(ran.stderr.contains("cannot write the audit log none/audit.jsonl"), "{}", ran.stderr);
}

#[tokio::test]
async fn the_audit_log_has_what_people_say_if_that_is_wanted() {
    let home = tempfile::tempdir().unwrap();
    let file = home.path().join("audit.jsonl");
    let setup = hello().arg("--audit").arg(file.to_str().unwrap()).arg("--audit-prompts");
    let it = Office::open(setup).await;
    it.member("alice").begin("a").await;
    let written = async {
        while !fs::read_to_string(&file).unwrap_or_default().contains(r#""text":"go""#) {
            tokio::task::yield_now().await;
        }
    };
    timeout(HANG, written).await.expect("nothing is written");
}
