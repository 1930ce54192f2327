//! Ids of other owners' sessions: every method of every dialect answers them exactly as ids that do not exist.

use std::sync::LazyLock;

use regex::Regex;
use serde_json::{Value, json};
use tandem_agent::sessions::owned_id;
use tandem_serve::tokens::PrincipalRole;

use super::super::server::{answer, prompt, serve, within};
use super::super::socket::Socket;
use super::{Office, Person, asking, in_context};

const NAME: &str = "alices-own-name";

/// A call of one of the protocols.
#[derive(Clone)]
enum Call {
    /// A method of A2A, over HTTP and over a WebSocket.
    Method(&'static str, Value),
    /// An HTTP request.
    Request(String, Value),
    /// A request of the HTTP+JSON binding.
    Http(String, Value),
    /// A terminal that attaches.
    Attach(Value),
}

use Call::{Attach, Http, Method, Request};
use test_fakes::postgres::Cluster;

/// Calls that begin nothing if the session does not exist.
fn calls(id: &str) -> Vec<Call> {
    let push = json!({ "url": "https://example.org/hook", "id": "c" });
    let message = |text: &str| {
        json!({ "message": { "messageId": "m", "role": "ROLE_USER", "taskId": id,
            "parts": [{ "text": text }] } })
    };
    let both = |mut params: Value| {
        params["message"]["contextId"] = json!(id);
        params
    };
    let answered = || answer(&json!("write_file-1"), "proceed_once");
    let task = json!(id);
    vec![
        Method("tasks/get", json!({ "id": id })),
        Method("tasks/get", json!({ "id": id, "historyLength": 1 })),
        Method("tasks/cancel", json!({ "id": id })),
        Method("tasks/resubscribe", json!({ "id": id })),
        Method("tasks/resubscribe", json!({ "id": id, "metadata": { "lastEventId": "1.0" } })),
        Method("tasks/list", json!({ "contextId": id })),
        Method(
            "tasks/pushNotificationConfig/set",
            json!({ "taskId": id, "pushNotificationConfig": push }),
        ),
        Method("tasks/pushNotificationConfig/get", json!({ "id": id })),
        Method(
            "tasks/pushNotificationConfig/get",
            json!({ "id": id, "pushNotificationConfigId": "default" }),
        ),
        Method("tasks/pushNotificationConfig/list", json!({ "id": id })),
        Method(
            "tasks/pushNotificationConfig/delete",
            json!({ "id": id, "pushNotificationConfigId": "default" }),
        ),
        Method("message/send", within(&task, prompt("hi"))),
        Method("message/send", within(&task, prompt("proceed_once"))),
        Method("message/send", both(within(&task, prompt("hi")))),
        Method("message/send", within(&task, answered())),
        Method("message/send", in_context(id, answered())),
        Method("message/stream", within(&task, prompt("hi"))),
        Method("message/stream", within(&task, answered())),
        Method("message/stream", in_context(id, answered())),
        Method("commands/get", json!({ "taskId": id })),
        Method("commands/get", json!({ "contextId": id })),
        Method("command/execute", json!({ "commandPath": ["about"], "taskId": id })),
        Method("SendMessage", message("hi")),
        Method("SendMessage", both(message("hi"))),
        Method("SendStreamingMessage", message("proceed_once")),
        Method("GetTask", json!({ "id": id })),
        Method("CancelTask", json!({ "id": id })),
        Method("SubscribeToTask", json!({ "id": id })),
        Method("ListTasks", json!({ "contextId": id })),
        Method("ListTasks", json!({})),
        Method(
            "CreateTaskPushNotificationConfig",
            json!({ "taskId": id, "id": "c", "url": "https://example.org/hook" }),
        ),
        Method("GetTaskPushNotificationConfig", json!({ "taskId": id, "id": "default" })),
        Method("ListTaskPushNotificationConfigs", json!({ "taskId": id })),
        Method("DeleteTaskPushNotificationConfig", json!({ "taskId": id, "id": "default" })),
        Method("GetExtendedAgentCard", json!({ "taskId": id })),
        Request(format!("GET /tasks/{id}/metadata"), Value::Null),
        Request("GET /tasks/metadata".to_owned(), Value::Null),
        Request(format!("GET /tasks/metadata?pageToken={id}"), Value::Null),
        Request("GET /listCommands".to_owned(), Value::Null),
        Request("POST /executeCommand".to_owned(), json!({ "command": "about", "taskId": id })),
        Request("POST /message/stream".to_owned(), json!({ "taskId": id, "userMessage": "hi" })),
        Request(
            "POST /message/stream".to_owned(),
            json!({ "taskId": id, "userMessage": { "toolCallId": "write_file-1", "approved": true } }),
        ),
        Request(
            "POST /message/stream".to_owned(),
            json!({ "contextId": id, "userMessage": { "toolCallId": "write_file-1", "approved": true } }),
        ),
        Http("POST /message:send".to_owned(), message("hi")),
        Http("POST /message:send".to_owned(), both(message("hi"))),
        Http("POST /message:stream".to_owned(), message("proceed_once")),
        Http(format!("GET /tasks/{id}"), Value::Null),
        Http(format!("POST /tasks/{id}:cancel"), Value::Null),
        Http(format!("GET /tasks/{id}:subscribe"), Value::Null),
        Http(format!("POST /tasks/{id}:subscribe"), Value::Null),
        Http(format!("GET /tasks?contextId={id}"), Value::Null),
        Http("GET /tasks".to_owned(), Value::Null),
        Http(format!("POST /tasks/{id}/pushNotificationConfigs"), push),
        Http(format!("GET /tasks/{id}/pushNotificationConfigs"), Value::Null),
        Http(format!("GET /tasks/{id}/pushNotificationConfigs/default"), Value::Null),
        Http(format!("DELETE /tasks/{id}/pushNotificationConfigs/default"), Value::Null),
        Attach(json!({ "id": id })),
        Attach(json!({ "id": &id[..6] })),
        Attach(json!({ "id": &id[id.len() - 6..] })),
    ]
}

/// Calls that begin a session if there is none of this id.
fn beginning(id: &str) -> Vec<Call> {
    let v1 = json!({ "message": { "messageId": "m", "role": "ROLE_USER", "contextId": id,
        "parts": [{ "text": "go" }] } });
    let send = in_context(id, prompt("go"));
    vec![
        Method("message/send", send.clone()),
        Method("message/stream", send),
        Method("SendMessage", v1.clone()),
        Method("SendStreamingMessage", v1.clone()),
        Http("POST /message:send".to_owned(), v1.clone()),
        Http("POST /message:stream".to_owned(), v1),
        Method("command/execute", json!({ "commandPath": ["about"], "contextId": id })),
        Request("POST /tasks".to_owned(), json!({ "contextId": id })),
        Request("POST /executeCommand".to_owned(), json!({ "command": "about", "contextId": id })),
        Request("POST /message/stream".to_owned(), json!({ "contextId": id, "userMessage": "go" })),
    ]
}

impl Person {
    /// Returns the whole answer to a call, without the named id and without times.
    async fn told(&self, call: &Call, id: &str) -> String {
        let mut told = String::new();
        match call {
            Method(method, params) => {
                let call = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
                told += &self.request("POST /", &call).await;
            }
            Request(line, body) => told += &self.request(line, body).await,
            Http(line, body) => {
                let (method, path) = line.split_once(' ').unwrap();
                let mark = if path.contains('?') { '&' } else { '?' };
                let line = format!("{method} /v1{path}{mark}A2A-Version=1.0");
                told += &self.request(&line, body).await;
            }
            Attach(session) => {
                let open = json!({ "version": 3, "terminal": "t", "session": session });
                let mut socket = self.socket("/attach").await.unwrap();
                told += &socket.call(1, "attach/open", open).await.to_string();
            }
        }
        without_times(&told.replace(id, "ID"))
    }

    async fn request(&self, line: &str, body: &Value) -> String {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let response = self.send(line, body.as_bytes()).await;
        let mut headers = response.headers.clone();
        headers.remove("date");
        headers.remove("content-length");
        format!("{} {headers:?}\n{}", response.status, response.text())
    }
}

/// Returns the answer as [`Person::told`] does, over a WebSocket.
async fn told_over(socket: &mut Socket, call: &Call, id: &str) -> Option<String> {
    let Method(method, params) = call else { return None };
    let told = socket.call(1, method, params.clone()).await.to_string();
    Some(without_times(&told.replace(id, "ID")))
}

fn without_times(text: &str) -> String {
    static TIME: LazyLock<Regex> =
        LazyLock::new(|| Regex::new(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:.]+Z").unwrap());
    TIME.replace_all(text, "TIME").into_owned()
}

/// Returns an id of the same form that no session has.
fn of_nobody(id: &str) -> String {
    let (name, rest) = id.split_at(id.find('.').unwrap_or(id.len()));
    if uuid::Uuid::try_parse(name).is_ok() {
        return format!("{}{rest}", uuid::Uuid::now_v7());
    }
    format!("nobodys-own-nam{rest}")
}

/// Checks that a stranger gets the same answers for existing ids as for ids that do not exist.
async fn check(stranger: &Person, ids: &[String]) {
    let mut sockets = Vec::new();
    for path in ["/ws", "/ws?format=flat"] {
        sockets.push(stranger.socket(path).await.unwrap());
    }
    for id in ids {
        let nobodys = of_nobody(id);
        for (call, same) in calls(id).iter().zip(calls(&nobodys)) {
            let (found, expected) =
                (stranger.told(call, id).await, stranger.told(&same, &nobodys).await);
            assert_eq!(found, expected, "{}: {}", stranger.id.name, described(call));
            for socket in &mut sockets {
                let found = told_over(socket, call, id).await;
                let expected = told_over(socket, &same, &nobodys).await;
                assert_eq!(found, expected, "{}: WebSocket, {}", stranger.id.name, described(call));
            }
        }
    }
}

/// Checks the same of calls that begin a session, with a new person for each.
async fn check_beginning(office: &Office, port: u16, ids: &[String]) {
    let mut count = 0;
    for id in ids {
        let nobodys = of_nobody(id);
        for (call, same) in beginning(id).iter().zip(beginning(&nobodys)) {
            let mut told = Vec::new();
            for (call, id) in [(call, id), (&same, &nobodys)] {
                count += 1;
                let name = format!("new-{count}");
                // The stranger is no administrator of the tenant: an administrator's list has all sessions of the
                // tenant, and the owners' names for loaded ones.
                let tenant = if count % 4 < 2 { "acme" } else { "third" };
                let somebody = office.add(tenant, &name, PrincipalRole::Member);
                told.push(Person { port, ..somebody }.told(call, id).await);
            }
            assert_eq!(told[0], told[1], "{}", described(call));
        }
    }
}

fn described(call: &Call) -> String {
    match call {
        Method(method, params) => format!("{method} {params}"),
        Request(line, body) | Http(line, body) => format!("{line} {body}"),
        Attach(session) => format!("attach/open {session}"),
    }
}

#[tokio::test]
async fn nobody_finds_a_session_of_somebody_else() {
    // A closed connection counts until the server has noticed its end, so the limit is high.
    let limits = ["a2a-connections=10000", "principal-requests=100000"];
    let setup = limits.iter().fold(asking(), |setup, limit| setup.arg("--limit").arg(limit));
    let mut office = Office::open(setup.clone()).await;
    let alice = office.member("alice");
    let strangers = [office.member("bob"), office.add("other", "root", PrincipalRole::Admin)];
    let named = alice.begin(NAME).await;
    assert_eq!(named["status"]["state"], "input-required");
    let generated = alice.result("message/send", prompt("go")).await;
    let generated = generated["contextId"].as_str().unwrap().to_owned();
    let push =
        json!({ "taskId": NAME, "pushNotificationConfig": { "url": "https://example.org/" } });
    alice.result("tasks/pushNotificationConfig/set", push).await;
    let own_id = owned_id(&alice.id, NAME);
    let ids = [NAME.to_owned(), generated, own_id];
    let tasks = ids[..2].iter().map(|id| format!("{id}.1"));
    let ids: Vec<_> = tasks.chain(ids.iter().cloned()).collect();
    let before = alice.call("ListTasks", json!({ "historyLength": 10 })).await;
    assert_eq!(before["result"]["totalSize"], 2);
    for stranger in &strangers {
        check(stranger, &ids).await;
    }
    let port = office.server.client.port;
    check_beginning(&office, port, &ids).await;
    // Alice's sessions are unchanged, and she can answer her questions.
    assert_eq!(alice.call("ListTasks", json!({ "historyLength": 10 })).await, before);
    let answered = within(&json!(NAME), answer(&json!("write_file-1"), "proceed_once"));
    let done = alice.result("message/send", answered).await;
    assert_eq!(done["status"]["state"], "completed");
    // After a restart no session is loaded, and strangers are told the same.
    let setup = setup.arg("--tokens").arg(office.file().to_str().unwrap());
    office.server = office.server.killed(&setup).await;
    let port = office.server.client.port;
    for stranger in &strangers {
        check(&Person { port, ..stranger.clone() }, &ids).await;
    }
    let alice = Person { port, ..alice };
    assert_eq!(alice.result("ListTasks", json!({})).await["totalSize"], 2);
}

#[tokio::test]
async fn nobody_finds_a_session_of_somebody_else_that_another_node_has() {
    let Some(cluster) = Cluster::shared() else { return };
    let database = cluster.database();
    let root = tempfile::tempdir().unwrap();
    let root = root.path().to_str().unwrap();
    let setup = asking().arg("--store").arg(&database.url).arg("--workspace-root").arg(root);
    let setup = setup.arg("--limit").arg("principal-requests=100000");
    let office = Office::open(setup.clone()).await;
    let other = serve(&setup.arg("--tokens").arg(office.file().to_str().unwrap())).await;
    let port = other.client.port;
    let alice = office.member("alice");
    let strangers = [office.member("bob"), office.add("other", "root", PrincipalRole::Admin)];
    alice.begin(NAME).await;
    // The other node follows Alice's session for her, and answers.
    let elsewhere = Person { port, ..alice.clone() };
    let task = elsewhere.result("tasks/get", json!({ "id": NAME })).await;
    assert_eq!(task["status"]["state"], "input-required");
    let ids = [NAME.to_owned(), format!("{NAME}.1"), owned_id(&alice.id, NAME)];
    for stranger in strangers {
        check(&Person { port, ..stranger }, &ids).await;
    }
    let answered = within(&json!(NAME), answer(&json!("write_file-1"), "proceed_once"));
    let done = elsewhere.result("message/send", answered).await;
    assert_eq!(done["status"]["state"], "completed", "{done}");
}

#[tokio::test]
async fn an_administrator_begins_an_own_session_under_a_name_that_is_taken_at_another_node() {
    let Some(cluster) = Cluster::shared() else { return };
    let database = cluster.database();
    let root = tempfile::tempdir().unwrap();
    let root = root.path().to_str().unwrap();
    let setup = asking().arg("--store").arg(&database.url).arg("--workspace-root").arg(root);
    let office = Office::open(setup.clone()).await;
    let other = serve(&setup.arg("--tokens").arg(office.file().to_str().unwrap())).await;
    let elsewhere = |person: Person| Person { port: other.client.port, ..person };
    let alice = office.member("alice");
    let admin = elsewhere(office.add("acme", "root", PrincipalRole::Admin));
    alice.begin(NAME).await;
    // This request makes the other node read the session, and follow its log from then on.
    elsewhere(alice).result("tasks/get", json!({ "id": NAME })).await;
    let sent = admin.result("message/send", in_context(NAME, prompt("mine"))).await;
    assert_eq!(sent["metadata"]["unknownContext"], "new", "{sent}");
    assert_eq!(sent["history"][0]["parts"][0]["text"], "mine", "{sent}");
}
