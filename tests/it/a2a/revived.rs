//! Tasks, streams and webhooks after the server was killed and another server has taken its place.

use expect_test::expect;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::time::timeout;

use tandem_agent::session::{Query, Store as _};
use tandem_store::FileStore;

use super::http::take_post;
use super::server::{
    Client, answer, asks, ends, first_part, kind, prompt, serve, tool_call, within, write,
};
use crate::agent::{HANG, Setup};

fn says_hi() -> Setup {
    Setup::answers(json!([[{ "text": "hi" }]]))
}

/// Says something, and then nothing more.
fn hangs() -> Setup {
    Setup::script(vec![
        json!({ "when": "more", "answers": [[{ "text": "more" }]] }),
        json!({ "when": "", "answers": [[{ "text": "one" }, { "text": "two" }, { "hang": null }]] }),
    ])
    .arg("--resume-turns=never")
}

fn asking() -> Setup {
    Setup::script(vec![
        json!({ "when": "more", "answers": [[{ "text": "more" }]] }),
        json!({ "when": "", "answers": [[write("a.txt", "a")], [{ "text": "done" }]] }),
    ])
    .arg("--resume-turns=never")
}

fn in_context(id: &str, text: &str) -> Value {
    let mut sent = prompt(text);
    sent["message"]["contextId"] = json!(id);
    sent
}

fn at_once(mut params: Value) -> Value {
    params["configuration"] = json!({ "returnImmediately": true, "blocking": false });
    params
}

fn event_id(event: &Value) -> Option<&str> {
    event["metadata"]["eventId"].as_str()
}

fn first_text(event: &Value) -> &str {
    first_part(event)["text"].as_str().unwrap_or_default()
}

/// A receiver of notifications.
pub(super) struct Webhook {
    pub(super) url: String,
    told: UnboundedReceiver<Value>,
}

impl Webhook {
    pub(super) async fn listen() -> Self {
        let receiver = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://127.0.0.1:{}/", receiver.local_addr().unwrap().port());
        let (tell, told) = unbounded_channel();
        tokio::spawn(async move {
            loop {
                let (stream, _) = receiver.accept().await.unwrap();
                let tell = tell.clone();
                tokio::spawn(async move { take_post(stream, &tell).await });
            }
        });
        Self { url, told }
    }

    /// Skips notifications until one fits; returns it.
    pub(super) async fn until(&mut self, fits: impl Fn(&Value) -> bool) -> Value {
        loop {
            let told = timeout(HANG, self.told.recv()).await.expect("nobody is notified").unwrap();
            if fits(&told) {
                return told;
            }
        }
    }
}

/// Takes the times out, which are stored to a second.
fn timeless(mut value: Value) -> Value {
    match &mut value {
        Value::Object(fields) => {
            fields.remove("timestamp");
            fields.values_mut().for_each(|it| *it = timeless(it.take()));
        }
        Value::Array(items) => items.iter_mut().for_each(|it| *it = timeless(it.take())),
        _ => {}
    }
    value
}

async fn state(client: Client, task: &str) -> Value {
    client.result("tasks/get", json!({ "id": task })).await["status"]["state"].clone()
}

#[tokio::test]
async fn a_task_that_has_ended_is_there_as_it_was() {
    let setup = says_hi();
    let it = serve(&setup).await;
    it.client.result("message/send", in_context("named", "go")).await;
    let unnamed = it.client.result("SendMessage", prompt("go")).await["task"].clone();
    let all = async |client: Client| {
        let list = client.result("ListTasks", json!({ "historyLength": 9 })).await;
        let named = client.result("tasks/list", json!({ "contextId": "named" })).await;
        let one = client.result("tasks/get", json!({ "id": "named" })).await;
        let other = client.result("GetTask", json!({ "id": unnamed["id"] })).await;
        let loaded = client.result("ListTasks", json!({ "historyLength": 9 })).await;
        [list, named, one, other, loaded].map(timeless)
    };
    let before = all(it.client).await;
    assert_eq!(before[0]["totalSize"], 2, "{}", before[0]);
    assert_eq!(before[1]["totalSize"], 1, "{}", before[1]);
    let it = it.killed(&setup).await;
    assert_eq!(all(it.client).await, before);
    let next = it.client.result("message/send", in_context("named", "go")).await;
    assert!(next["metadata"]["unknownContext"].is_null(), "{next}");
    let said = next["history"].as_array().unwrap().len();
    assert_eq!(said, 4, "two prompts and two answers: {next}");
    let new = it.client.result("message/send", in_context("other", "go")).await;
    assert_eq!(new["metadata"]["unknownContext"], "new", "{new}");
}

#[tokio::test]
async fn pages_of_tasks_have_each_task_once_whether_its_session_is_loaded_or_not() {
    let setup = says_hi();
    let it = serve(&setup).await;
    let mut sent = Vec::new();
    for context in ["a", "b", "a", "c", "b"] {
        let task = it.client.result("SendMessage", in_context(context, "go")).await;
        sent.push(task["task"]["id"].clone());
    }
    sent.reverse();
    let it = it.killed(&setup).await;
    it.client.result("GetTask", json!({ "id": "b.1" })).await;
    for filter in [json!({}), json!({ "status": "TASK_STATE_COMPLETED" })] {
        let (mut listed, mut token) = (Vec::new(), String::new());
        loop {
            let mut params = json!({ "pageSize": 2, "pageToken": token });
            params.as_object_mut().unwrap().extend(filter.as_object().unwrap().clone());
            if token.is_empty() {
                params.as_object_mut().unwrap().remove("pageToken");
            }
            let page = it.client.result("ListTasks", params).await;
            assert_eq!(page["totalSize"], 5, "{page}");
            let tasks = page["tasks"].as_array().unwrap();
            listed.extend(tasks.iter().map(|task| task["id"].clone()));
            token = page["nextPageToken"].as_str().unwrap().to_owned();
            if token.is_empty() {
                break;
            }
        }
        assert_eq!(listed, sent, "{filter}");
    }
    let failed = it.client.result("ListTasks", json!({ "status": "TASK_STATE_FAILED" })).await;
    assert_eq!(failed["totalSize"], 0, "{failed}");
}

#[tokio::test]
async fn a_stream_goes_on_where_it_was_and_says_that_it_was_interrupted() {
    let setup = hangs();
    let it = serve(&setup).await;
    let mut stream = it.client.stream("message/stream", in_context("c", "go")).await;
    let seen =
        stream.until(|event| kind(event) == "TEXT_CONTENT" && first_text(event) == "two").await;
    let told: Vec<_> = seen.iter().filter(|event| event_id(event).is_some()).cloned().collect();
    assert!(told.len() >= 3, "{told:?}");
    let it = it.killed(&setup).await;
    // The client has lost the last events that it had got, and names the last one left. It gets the lost events
    // again, and then the end.
    for lost in [0, 1, told.len() - 1] {
        let seen_last = event_id(&told[told.len() - 1 - lost]).unwrap();
        let header = format!("Last-Event-ID: {seen_last}");
        let params = json!({ "id": "c" });
        let mut stream = it.client.stream_with("tasks/resubscribe", params, &[&header]).await;
        let events = stream.rest().await;
        let (task, after) = events.split_first().unwrap();
        assert_eq!(task["status"]["state"], "failed", "{task}");
        let (again, end) = after.split_at(lost);
        let missed = told[told.len() - lost..].iter().cloned().map(timeless);
        let again: Vec<_> = again.iter().cloned().map(timeless).collect();
        assert_eq!(again, missed.collect::<Vec<_>>());
        let [said, end] = end else { panic!("{end:?}") };
        assert_eq!(said["artifact"]["parts"][0]["text"], "onetwo", "{said}");
        assert!(ends(end), "{end}");
        assert_eq!(end["status"]["state"], "failed");
        let why = first_text(end);
        expect!["Interrupted: the agent ended before this turn did. `/continue` goes on."]
            .assert_eq(why);
        assert_eq!(first_text(task), why, "the task says so, too");
    }
    let in_1 = it.client.result("GetTask", json!({ "id": "c.1" })).await;
    assert_eq!(in_1["status"]["state"], "TASK_STATE_FAILED", "{in_1}");
    let next = it.client.result("message/send", in_context("c", "more")).await;
    assert_eq!(next["status"]["state"], "completed", "{next}");
}

#[tokio::test]
async fn an_open_question_is_closed_and_the_client_can_go_on() {
    let setup = asking();
    let it = serve(&setup).await;
    let mut stream = it.client.stream("message/stream", in_context("c", "go")).await;
    let asked = stream.until(asks).await.pop().unwrap();
    let call = tool_call(&asked)["tool_call_id"].clone();
    let it = it.killed(&setup).await;
    let task = it.client.result("tasks/get", json!({ "id": "c" })).await;
    assert_eq!(task["status"]["state"], "failed", "{task}");
    expect!["Interrupted: the agent ended before this turn did. `/continue` goes on."]
        .assert_eq(first_text(&task));
    let late = within(&json!("c"), answer(&call, "proceed_once"));
    let (code, why) = it.client.error("message/send", late).await;
    assert!(code != 0, "{why}");
    assert!(!it.home.path().join("workspace/a.txt").exists());
    let next = within(&json!("c"), prompt("more"));
    let next = it.client.result("message/send", next).await;
    assert_eq!(next["status"]["state"], "completed", "{next}");
}

#[tokio::test]
async fn a_prompt_that_was_accepted_is_not_lost_and_not_begun_twice() {
    let setup = hangs();
    let mut it = serve(&setup).await;
    for (n, method) in ["message/send", "SendMessage"].into_iter().enumerate() {
        let context = format!("c{n}");
        let sent = at_once(in_context(&context, "go"));
        it.client.result(method, sent.clone()).await;
        it = it.killed(&setup).await;
        // The client did not get the response, so it sends the message again.
        it.client.result(method, sent.clone()).await;
        let list = json!({ "contextId": context });
        let tasks = it.client.result("ListTasks", list).await;
        assert_eq!(tasks["totalSize"], 1, "{tasks}");
        assert_eq!(state(it.client, &context).await, "failed");
        let mut other = sent;
        other["message"]["parts"][0]["text"] = json!("something else");
        assert_eq!(it.client.error(method, other).await.0, -32602);
    }
}

#[tokio::test]
async fn a_command_finds_the_session_too() {
    let setup = says_hi();
    let it = serve(&setup).await;
    it.client.result("message/send", in_context("c", "go")).await;
    let it = it.killed(&setup).await;
    let run = json!({ "command_path": ["about"], "contextId": "c" });
    let begun = it.client.result("command/execute", run).await;
    assert_eq!(begun["execution_id"], "c.2", "it is the second turn: {begun}");
    assert!(begun["metadata"].is_null(), "{begun}");
    let it = it.killed(&setup).await;
    let metadata = it.client.get("/tasks/c/metadata").await.json();
    assert_eq!(metadata["metadata"]["contextId"], "c", "{metadata}");
    let mut socket = it.client.socket().await;
    let got = socket.call(1, "tasks/get", json!({ "id": "c" })).await;
    assert_eq!(got["result"]["contextId"], "c", "{got}");
}

#[tokio::test]
async fn another_server_says_who_has_the_session() {
    let setup = says_hi();
    let it = serve(&setup).await;
    it.client.result("message/send", in_context("c", "go")).await;
    let sessions = it.home.path().join(".local/share/tandem/sessions");
    let root = it.home.path().join("workspace");
    let setup = setup
        .var("TANDEM_SESSIONS", sessions.to_str().unwrap())
        .arg("--workspace-root")
        .arg(root.to_str().unwrap());
    let other = serve(&setup).await;
    let (code, why) = other.client.error("message/send", in_context("c", "go")).await;
    assert_eq!(code, -32004, "{why}");
    let pid = it.child.id().unwrap().to_string();
    assert!(why.contains(&pid), "{why}");
}

#[tokio::test]
async fn webhooks_are_told_of_the_interruption_and_of_turns_to_come() {
    let setup = hangs().arg("--a2a-webhook-loopback");
    let mut hook = Webhook::listen().await;
    let it = serve(&setup).await;
    for (method, context) in [("message/send", "old"), ("SendMessage", "new")] {
        let mut sent = at_once(in_context(context, "go"));
        let push = json!({ "url": hook.url });
        let in_1 = method == "SendMessage";
        let key = if in_1 { "taskPushNotificationConfig" } else { "pushNotificationConfig" };
        sent["configuration"][key] = push;
        it.client.result(method, sent).await;
    }
    let it = it.killed(&setup).await;
    // No client asks for the two tasks: the server itself sends the notifications.
    let is_failed = |body: &Value| {
        let update = &body["statusUpdate"];
        update["taskId"] == "new.1" && update["status"]["state"] == "TASK_STATE_FAILED"
            || body["id"] == "old" && body["status"]["state"] == "failed"
    };
    let first = hook.until(is_failed).await;
    let second = hook.until(is_failed).await;
    assert_ne!(first["id"], second["id"], "{first} {second}");
    let listed =
        it.client.result("tasks/pushNotificationConfig/list", json!({ "id": "old" })).await;
    assert_eq!(listed.as_array().map(Vec::len), Some(1), "{listed}");
    it.client.result("message/send", in_context("old", "more")).await;
    let completed = |body: &Value| body["id"] == "old" && body["status"]["state"] == "completed";
    hook.until(completed).await;
}

#[tokio::test]
async fn a_task_that_ran_goes_on_when_the_server_starts_again_though_nobody_asks() {
    let begins = Setup::answers(json!([[{ "text": "one" }, { "hang": null }]]));
    let mut hook = Webhook::listen().await;
    let it = serve(&begins.arg("--a2a-webhook-loopback")).await;
    let mut sent = at_once(in_context("c", "go"));
    sent["configuration"]["pushNotificationConfig"] = json!({ "url": hook.url });
    it.client.result("message/send", sent).await;
    let whole = Setup::answers(json!([[{ "text": "whole" }]]));
    let it = it.killed(&whole.arg("--a2a-webhook-loopback")).await;
    let task = hook.until(|body| body["status"]["state"] == "completed").await;
    assert_eq!(task["id"], "c");
    assert_eq!(task["artifacts"][0]["parts"][0]["text"], "whole", "{task}");
    let task = it.client.result("tasks/get", json!({ "id": "c" })).await;
    assert_eq!(task["history"].as_array().map(Vec::len), Some(2), "{task}");
}

#[tokio::test]
async fn without_a_token_clients_know_only_of_sessions_that_clients_began() {
    let it = serve(&says_hi()).await;
    it.client.result("message/send", in_context("c", "hi")).await;
    let mut terminal = says_hi().command(it.home.path());
    let ran = terminal.args(["-p", "private"]).stdin(std::process::Stdio::null()).output().await;
    assert!(ran.unwrap().status.success());
    let store = FileStore::new(it.home.path().join(".local/share/tandem/sessions"));
    let stored = store.list(&Query::default()).await.unwrap();
    assert_eq!(stored.len(), 2);
    let private = stored.into_iter().find(|listed| listed.title == "private").unwrap().head.id;
    assert_eq!(it.client.result("ListTasks", json!({})).await["totalSize"], 1);
    for id in [private.clone(), format!("{private}.1")] {
        assert_eq!(it.client.error("tasks/get", json!({ "id": id })).await.0, -32001);
    }
}
