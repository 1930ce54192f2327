//! `/share`: who else may do what in a session.

use serde_json::json;
use tandem_a2a::tokens::PrincipalRole;

use super::super::server::{answer, prompt, serve, within};
use super::{Office, Person, hello, in_context};
use crate::agent::Setup;

/// Code of what the role does not allow.
const NOT_ALLOWED: i64 = -32004;
const NOT_FOUND: i64 = -32001;

/// Says something in alice's session `a`, which may be new.
async fn say(alice: &Person, text: &str) -> String {
    let sent = alice.result("message/send", in_context("a", prompt(text))).await;
    sent["artifacts"][0]["parts"][0]["text"].as_str().unwrap_or_default().to_owned()
}

/// Checks which of reading, answering, prompting and owning somebody may do.
async fn check(person: &Person, expected: [i64; 4]) {
    let push =
        json!({ "taskId": "a", "pushNotificationConfig": { "url": "https://example.org/" } });
    let calls = [
        ("tasks/get", json!({ "id": "a" })),
        ("message/send", within(&json!("a"), answer(&json!("none"), "proceed_once"))),
        ("tasks/cancel", json!({ "id": "a" })),
        ("tasks/pushNotificationConfig/set", push),
    ];
    for ((method, params), expected) in calls.into_iter().zip(expected) {
        let (code, message) = person.error(method, params).await;
        assert_eq!(code, expected, "{method}: {message}");
    }
}

#[tokio::test]
async fn a_role_says_what_may_be_done() {
    let call = json!({ "name": "run_shell_command", "args": { "command": "touch a" } });
    let answers = json!([[{ "call": call }], [{ "text": "done" }]]);
    let it = Office::open(Setup::answers(answers).without_sandbox()).await;
    let (alice, bob) = (it.member("alice"), it.member("bob"));
    let others = [it.member("carol"), it.add("other", "bob", PrincipalRole::Member)];
    let said = say(&alice, "/share bob watch").await;
    assert!(said.contains("`bob` of the tenant `acme` may watch."), "{said}");
    say(&alice, "go").await;
    check(&bob, [0, NOT_ALLOWED, NOT_ALLOWED, NOT_ALLOWED]).await;
    assert_eq!(bob.result("ListTasks", json!({})).await["totalSize"], 2);
    let (code, why) = bob.error("message/send", within(&json!("a"), prompt("hi"))).await;
    assert_eq!((code, why.contains("needs the role drive")), (NOT_ALLOWED, true), "{why}");
    say(&alice, "/share bob answer").await;
    say(&alice, "go").await;
    let asked = bob.result("tasks/get", json!({ "id": "a" })).await;
    let call = &asked["status"]["message"]["parts"][0]["data"]["tool_call_id"];
    let done = within(&json!("a"), answer(call, "proceed_once"));
    let done = bob.result("message/send", done).await;
    assert_eq!(done["status"]["state"], "completed", "{done}");
    // Nothing was asked about that call.
    check(&bob, [0, -32602, NOT_ALLOWED, NOT_ALLOWED]).await;
    say(&alice, "/share bob drive").await;
    let driven = bob.result("message/send", in_context("a", prompt("go"))).await;
    assert_eq!(driven["status"]["state"], "input-required", "{driven}");
    check(&bob, [0, -32602, 0, NOT_ALLOWED]).await;
    let said = bob.say("a", "/share carol drive").await;
    assert_eq!(said, "Only `alice`, who owns the session, shares it.");
    say(&alice, "/unshare bob").await;
    check(&bob, [NOT_FOUND; 4]).await;
    for other in &others {
        check(other, [NOT_FOUND; 4]).await;
    }
}

#[tokio::test]
async fn nothing_more_is_told_to_whom_it_is_shared_no_longer() {
    let it = Office::open(hello()).await;
    let (alice, bob) = (it.member("alice"), it.member("bob"));
    say(&alice, "/share bob drive").await;
    let mut socket = bob.socket("/ws").await.unwrap();
    socket.call(1, "message/send", in_context("a", prompt("first-word"))).await;
    let mut terminal = bob.socket("/attach").await.unwrap();
    let open = json!({ "version": 3, "terminal": "t", "session": { "id": "a" } });
    terminal.call(1, "attach/open", open).await;
    say(&alice, "/unshare bob").await;
    say(&alice, "second-word").await;
    socket.send(2, "tasks/get", json!({ "id": "a" })).await;
    let frames = socket.until(|frame| frame["id"] == 2).await;
    let told = json!(frames).to_string();
    assert!(!told.contains("second-word") && told.contains("Task not found"), "{told}");
    for method in ["attach/events", "attach/files", "attach/prompt", "attach/cancel"] {
        let params = json!({ "from": 0, "bytes": 1_000_000, "most": 1, "number": 1, "parts": [],
            "turn": 1 });
        let refused = terminal.call(method, method, params).await;
        assert!(refused["error"].is_object(), "{method}: {refused}");
        assert!(!refused.to_string().contains("second-word"));
    }
}

#[tokio::test]
async fn only_the_operator_types_commands_that_run_as_the_user_of_the_server() {
    let it = Office::open(hello()).await;
    let (alice, bob) = (it.member("alice"), it.member("bob"));
    say(&alice, "/share bob drive").await;
    let types = async |person: Person| {
        let mut terminal = person.socket("/attach").await.unwrap();
        let open = json!({ "version": 3, "terminal": "t", "session": { "id": "a" } });
        terminal.call(1, "attach/open", open).await;
        let shell = json!({ "number": 1, "parts": [{ "Shell": "touch made" }] });
        terminal.call(2, "attach/prompt", shell).await
    };
    for member in [alice, bob] {
        let refused = types(member).await;
        let why = refused["error"]["data"]["details"].as_str().unwrap_or_default();
        assert!(why.contains("only for the operator"), "{refused}");
    }
    assert!(!it.server.home.path().join("workspace/made").exists());
}

#[tokio::test]
async fn a_shared_session_that_is_not_loaded_is_found_in_the_list() {
    let it = Office::open(hello()).await;
    let (alice, bob) = (it.member("alice"), it.member("bob"));
    say(&alice, "/share bob watch").await;
    say(&alice, "hi").await;
    let setup = hello().arg("--tokens").arg(it.file().to_str().unwrap());
    let server = it.server.killed(&setup).await;
    let bob = Person { port: server.client.port, ..bob };
    let listed = bob.result("tasks/list", json!({})).await;
    let id = &listed["tasks"][0]["contextId"];
    let found = bob.result("tasks/get", json!({ "id": id })).await;
    assert_eq!(found["history"].as_array().unwrap().len(), 4, "{found}");
    // From then on it is loaded, and has the name that its events have.
    check(&bob, [0, NOT_ALLOWED, NOT_ALLOWED, NOT_ALLOWED]).await;
}

#[tokio::test]
async fn what_cannot_be_shared_says_why() {
    let it = Office::open(hello()).await;
    let alice = it.member("alice");
    let said = |text: &'static str| say(&alice, text);
    assert_eq!(said("/share").await, "The session of `alice` is shared with nobody.");
    assert_eq!(said("/share alice").await, "Not shared: `alice` owns the session.");
    assert_eq!(
        said("/share bob own").await,
        "Not shared: `own` is no role; the roles are watch, answer and drive."
    );
    assert_eq!(said("/unshare bob").await, "The session is not shared with `bob`.");
    said("/share bob").await;
    said("/share carol drive").await;
    let shared = "The session of `alice` is shared with `bob` (watch), `carol` (drive).";
    assert_eq!(said("/share").await, shared);
    let open = serve(&hello()).await;
    let sent = open.client.result("message/send", prompt("/share bob")).await;
    let why = sent["artifacts"][0]["parts"][0]["text"].as_str().unwrap();
    assert!(why.starts_with("This session cannot be shared"), "{why}");
}
