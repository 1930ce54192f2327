//! The HTTP+JSON binding of A2A 1.0.

use serde_json::{Value, json};
use tandem_agent::session::PrincipalId;
use tandem_serve::tokens::{self, PrincipalRole};

use super::http::{Response, Sse, request};
use super::server::{Client, serve, write};
use crate::agent::Setup;
use crate::limit::in_time;

const VERSION: &str = "A2A-Version: 1.0";

/// Sends a request of the binding.
async fn ask(client: Client, line: &str, body: &Value) -> Response {
    let (method, path) = line.split_once(' ').unwrap();
    let body = if body.is_null() { String::new() } else { body.to_string() };
    client.send(&format!("{method} /v1{path}"), &[VERSION], body.as_bytes()).await
}

/// Sends a request, checks that it succeeds, and returns the body of the response.
async fn done(client: Client, line: &str, body: &Value) -> Value {
    let response = ask(client, line, body).await;
    assert_eq!(response.status, 200, "{line}: {}", response.text());
    assert_eq!(response.header("content-type"), "application/json");
    response.json()
}

/// Sends a request that is refused. Returns the statuses of HTTP and of `google.rpc`, and the reason.
async fn refused(client: Client, line: &str, body: &Value) -> (u16, String, String) {
    refusal(&ask(client, line, body).await)
}

/// Sends a request whose response is a stream. A body of `null` means no body and no media type.
async fn watch(client: Client, line: &str, body: &Value) -> Sse {
    let (method, path) = line.split_once(' ').unwrap();
    let host = format!("Host: 127.0.0.1:{}", client.port);
    let mut headers = vec![host.as_str(), VERSION];
    let body = if body.is_null() { String::new() } else { body.to_string() };
    if !body.is_empty() {
        headers.push("Content-Type: application/a2a+json");
    }
    let line = format!("{method} /v1{path}");
    request(client.port, &line, &headers, body.as_bytes()).await.events()
}

fn refusal(response: &Response) -> (u16, String, String) {
    assert_eq!(response.header("content-type"), "application/json", "{}", response.text());
    let error = response.json()["error"].clone();
    assert_eq!(error["code"], response.status);
    assert!(error["message"].as_str().is_some_and(|message| !message.is_empty()), "{error}");
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    (response.status, text(&error["status"]), text(&error["details"][0]["reason"]))
}

/// Reads a stream to its end; its items are without envelopes.
async fn items(stream: &mut Sse) -> Vec<Value> {
    assert_eq!(stream.begun.headers["content-type"], "text/event-stream");
    let mut items = Vec::new();
    while let Some((name, item)) = stream.event().await {
        assert_eq!((name.as_str(), item.get("jsonrpc")), ("", None), "{item}");
        items.push(item);
    }
    items
}

fn message(parts: &Value) -> Value {
    let id = uuid::Uuid::new_v4().to_string();
    json!({ "message": { "messageId": id, "role": "ROLE_USER", "parts": parts } })
}

fn prompt(text: &str) -> Value {
    message(&json!([{ "text": text }]))
}

fn state(item: &Value) -> &Value {
    &item["statusUpdate"]["status"]["state"]
}

fn asking() -> Setup {
    Setup::answers(json!([[write("a.txt", "a")], [{ "text": "all done" }]]))
}

fn hello() -> Setup {
    Setup::answers(json!([[{ "text": "hello" }]]))
}

#[tokio::test]
async fn a_message_is_answered_by_its_task() {
    let it = serve(&hello()).await;
    let card = it.client.get("/.well-known/agent-card.json").await.json();
    let interfaces = card["supportedInterfaces"].as_array().unwrap();
    let ours = interfaces.iter().find(|it| it["protocolBinding"] == "HTTP+JSON").unwrap();
    assert_eq!(ours["url"], format!("http://127.0.0.1:{}/v1", it.client.port));
    assert_eq!(ours["protocolVersion"], "1.0");
    let sent = done(it.client, "POST /message:send", &prompt("go")).await;
    let task = &sent["task"];
    assert_eq!(task["status"]["state"], "TASK_STATE_COMPLETED");
    assert_eq!(task["artifacts"][0]["parts"][0]["text"], "hello");
    let id = task["id"].as_str().unwrap();
    let whole = done(it.client, &format!("GET /tasks/{id}"), &Value::Null).await;
    assert_eq!(whole, *task);
    let short = done(it.client, &format!("GET /tasks/{id}?historyLength=1"), &Value::Null).await;
    assert_eq!(short["history"].as_array().unwrap().len(), 1);
    let escaped = id.replace('.', "%2E");
    let same = done(it.client, &format!("GET /tasks/{escaped}"), &Value::Null).await;
    assert_eq!(same["id"], *id);
}

#[tokio::test]
async fn an_answer_has_the_binding_s_own_media_type_only_for_a_client_that_names_it() {
    let it = serve(&hello()).await;
    let host = format!("Host: 127.0.0.1:{}", it.client.port);
    for (line, header, expected) in [
        ("POST /message:send", "Content-Type: application/json", "application/json"),
        ("POST /message:send", "Content-Type: application/a2a+json", "application/a2a+json"),
        ("POST /message:send", "Content-Type: text/plain", "application/json"),
        ("GET /tasks", "Accept: */*", "application/json"),
        ("GET /tasks", "Accept: text/html, Application/A2A+JSON;q=0.5", "application/a2a+json"),
        ("GET /tasks/none", "Accept: application/json", "application/json"),
        ("GET /tasks/none", "Accept: application/a2a+json", "application/a2a+json"),
        ("PUT /tasks", "Accept: application/a2a+json", "application/a2a+json"),
    ] {
        let (method, path) = line.split_once(' ').unwrap();
        let body = if method == "POST" { prompt("go").to_string() } else { String::new() };
        let headers = [host.as_str(), header, VERSION, "Connection: close"];
        let line = format!("{method} /v1{path}");
        let sent = request(it.client.port, &line, &headers, body.as_bytes()).await;
        let response = sent.whole().await;
        assert_eq!(response.header("content-type"), expected, "{line}, {header}");
    }
}

#[tokio::test]
async fn a_stream_ends_at_a_question_and_who_subscribes_hears_of_it_to_its_end() {
    let it = serve(&asking()).await;
    let asked = items(&mut watch(it.client, "POST /message:stream", &prompt("go")).await).await;
    let id = asked[0]["task"]["id"].as_str().unwrap().to_owned();
    assert_eq!(state(asked.last().unwrap()), "TASK_STATE_INPUT_REQUIRED");
    let path = format!("/tasks/{id}:subscribe");
    let mut watching = watch(it.client, &format!("POST {path}"), &Value::Null).await;
    let mut reading = watch(it.client, &format!("GET {path}"), &Value::Null).await;
    // The first event shows that each stream began before the answer.
    for stream in [&mut watching, &mut reading] {
        let (_, first) = stream.event().await.unwrap();
        assert_eq!(first["task"]["status"]["state"], "TASK_STATE_INPUT_REQUIRED");
    }
    let answer = json!({ "tool_call_id": "write_file-1", "selected_option_id": "proceed_once" });
    let mut answer = message(&json!([{ "data": answer }]));
    answer["message"]["taskId"] = json!(id);
    let rest = items(&mut watch(it.client, "POST /message:stream", &answer).await).await;
    assert_eq!(state(rest.last().unwrap()), "TASK_STATE_COMPLETED");
    for stream in [&mut watching, &mut reading] {
        let seen = items(stream).await;
        assert_eq!(state(seen.last().unwrap()), "TASK_STATE_COMPLETED");
    }
    let over = refused(it.client, &format!("GET {path}"), &Value::Null).await;
    let expected = (400, "FAILED_PRECONDITION".to_owned(), "UNSUPPORTED_OPERATION".to_owned());
    assert_eq!(over, expected);
}

#[tokio::test]
async fn a_task_is_cancelled_and_listed() {
    let it = serve(&asking()).await;
    let sent = done(it.client, "POST /message:send", &prompt("go")).await;
    let id = sent["task"]["id"].as_str().unwrap();
    let context = sent["task"]["contextId"].as_str().unwrap();
    done(it.client, "POST /message:send", &prompt("another")).await;
    let cancel = format!("POST /tasks/{id}:cancel");
    let cancelled = done(it.client, &cancel, &json!({ "metadata": {} })).await;
    assert_eq!(cancelled["status"]["state"], "TASK_STATE_CANCELED");
    let again = refused(it.client, &cancel, &Value::Null).await;
    let expected = (400, "FAILED_PRECONDITION".to_owned(), "TASK_NOT_CANCELABLE".to_owned());
    assert_eq!(again, expected);
    let list =
        async |query: &str| done(it.client, &format!("GET /tasks{query}"), &Value::Null).await;
    assert_eq!(list("").await["totalSize"], 2);
    let first = list("?pageSize=1").await;
    assert_eq!((&first["pageSize"], first["tasks"].as_array().unwrap().len()), (&json!(1), 1));
    let next = first["nextPageToken"].as_str().unwrap();
    assert_eq!(list(&format!("?pageSize=1&pageToken={next}")).await["nextPageToken"], "");
    let of_one = list(&format!("?contextId={context}&historyLength=5")).await;
    assert_eq!((&of_one["totalSize"], &of_one["tasks"][0]["id"]), (&json!(1), &json!(id)));
    assert!(!of_one["tasks"][0]["history"].as_array().unwrap().is_empty());
    assert_eq!(list("?status=TASK_STATE_CANCELED").await["totalSize"], 1);
    let since = list("?statusTimestampAfter=2999-01-01T00%3A00%3A00Z&includeArtifacts=true").await;
    assert_eq!(since["totalSize"], 0);
}

#[tokio::test]
async fn receivers_of_notifications_are_set_shown_and_deleted() {
    let it = serve(&asking().arg("--a2a-webhook-loopback")).await;
    let sent = done(it.client, "POST /message:send", &prompt("go")).await;
    let configs =
        format!("/tasks/{}/pushNotificationConfigs", sent["task"]["id"].as_str().unwrap());
    let config = json!({ "id": "a", "url": "http://127.0.0.1:9/", "token": "t" });
    let config_set = done(it.client, &format!("POST {configs}"), &config).await;
    assert_eq!((&config_set["taskId"], &config_set["id"]), (&sent["task"]["id"], &json!("a")));
    let one = format!("{configs}/a");
    assert_eq!(done(it.client, &format!("GET {one}"), &Value::Null).await, config_set);
    let all = done(it.client, &format!("GET {configs}"), &Value::Null).await;
    assert_eq!(all["configs"], json!([config_set]));
    assert_eq!(done(it.client, &format!("DELETE {one}"), &Value::Null).await, json!({}));
    assert_eq!(refused(it.client, &format!("GET {one}"), &Value::Null).await.0, 404);
    let wrong = json!({ "id": "b", "url": "nonsense" });
    assert_eq!(refused(it.client, &format!("POST {configs}"), &wrong).await.0, 400);
}

#[tokio::test]
async fn what_is_wrong_is_said_in_the_form_of_the_binding() {
    let it = serve(&hello()).await;
    let none = Value::Null;
    let hook = json!({ "url": "https://example.org/" });
    let mut elsewhere = prompt("go");
    elsewhere["message"]["taskId"] = json!("none.1");
    for (line, body, expected) in [
        ("GET /tasks/none", &none, (404, "NOT_FOUND", "TASK_NOT_FOUND")),
        ("GET /tasks/none:subscribe", &none, (404, "NOT_FOUND", "TASK_NOT_FOUND")),
        ("POST /tasks/none:subscribe", &none, (404, "NOT_FOUND", "TASK_NOT_FOUND")),
        ("POST /tasks/none:cancel", &none, (404, "NOT_FOUND", "TASK_NOT_FOUND")),
        ("POST /message:send", &elsewhere, (404, "NOT_FOUND", "TASK_NOT_FOUND")),
        ("POST /message:stream", &elsewhere, (404, "NOT_FOUND", "TASK_NOT_FOUND")),
        ("GET /tasks/none/pushNotificationConfigs", &none, (404, "NOT_FOUND", "TASK_NOT_FOUND")),
        ("POST /tasks/none/pushNotificationConfigs", &hook, (404, "NOT_FOUND", "TASK_NOT_FOUND")),
        ("GET /tasks/none/pushNotificationConfigs/a", &none, (404, "NOT_FOUND", "TASK_NOT_FOUND")),
        (
            "DELETE /tasks/none/pushNotificationConfigs/a",
            &none,
            (404, "NOT_FOUND", "TASK_NOT_FOUND"),
        ),
        ("GET /tasks/none?historyLength=x", &none, (400, "INVALID_ARGUMENT", "INVALID_PARAMS")),
        ("GET /tasks?pageSize=0", &none, (400, "INVALID_ARGUMENT", "INVALID_PARAMS")),
        ("GET /tasks?includeArtifacts=1", &none, (400, "INVALID_ARGUMENT", "INVALID_PARAMS")),
        ("GET /tasks?status=SLEEPING", &none, (400, "INVALID_ARGUMENT", "INVALID_PARAMS")),
        ("POST /message:send", &json!({}), (400, "INVALID_ARGUMENT", "INVALID_PARAMS")),
        ("POST /message:send", &none, (400, "INVALID_ARGUMENT", "INVALID_PARAMS")),
        ("POST /message:send", &json!([]), (400, "INVALID_ARGUMENT", "INVALID_PARAMS")),
        ("GET /extendedAgentCard", &none, (400, "FAILED_PRECONDITION", "UNSUPPORTED_OPERATION")),
        ("POST /tasks/none", &none, (404, "NOT_FOUND", "METHOD_NOT_FOUND")),
        ("POST /tasks/none:sleep", &none, (404, "NOT_FOUND", "METHOD_NOT_FOUND")),
        ("GET /none", &none, (404, "NOT_FOUND", "METHOD_NOT_FOUND")),
        ("GET /message:send", &none, (405, "UNIMPLEMENTED", "")),
        ("PUT /tasks/none", &none, (405, "UNIMPLEMENTED", "")),
    ] {
        let (status, name, reason) = refused(it.client, line, body).await;
        assert_eq!((status, name.as_str(), reason.as_str()), expected, "{line} {body}");
    }
    assert_eq!(done(it.client, "GET /tasks", &none).await["totalSize"], 0);
    let line = "POST /v1/message:send";
    let broken = it.client.send(line, &[VERSION], b"{").await;
    assert_eq!(refusal(&broken), (400, "INVALID_ARGUMENT".into(), "INVALID_REQUEST".into()));
    let text = it.client.send(line, &[VERSION, "Content-Type: text/plain"], b"{}").await;
    assert_eq!(refusal(&text).0, 415);
    let page = it.client.send(line, &[VERSION, "Origin: https://evil.example"], b"{}").await;
    assert_eq!(refusal(&page).1, "PERMISSION_DENIED");
}

#[tokio::test]
async fn the_version_is_said_in_a_header_or_in_the_query() {
    let it = serve(&hello()).await;
    for (headers, query, expected) in [
        (&["A2A-Version: 1.0"][..], "", 200),
        (&[], "?A2A-Version=1.0", 200),
        (&["A2A-Version: 1.3"], "", 200),
        (&[], "", 400),
        (&["A2A-Version:"], "", 400),
        (&["A2A-Version: 0.3"], "?A2A-Version=1.0", 400),
        (&["A2A-Version: 2.0"], "", 400),
    ] {
        let response = it.client.send(&format!("GET /v1/tasks{query}"), headers, b"").await;
        assert_eq!(response.status, expected, "{headers:?} {query}");
        if expected != 200 {
            assert_eq!(refusal(&response).2, "VERSION_NOT_SUPPORTED");
        }
    }
}

#[tokio::test]
async fn a_token_is_asked_for_and_brings_the_extended_card() {
    let it = serve(&hello().file("t.txt", "t0ken").arg("--a2a-token-file").arg("t.txt")).await;
    let stranger = ask(it.client, "GET /extendedAgentCard", &Value::Null).await;
    assert_eq!(refusal(&stranger).1, "UNAUTHENTICATED");
    assert_eq!(stranger.header("www-authenticate"), "Bearer realm=\"tandem\"");
    let headers = [VERSION, "Authorization: Bearer t0ken"];
    let card = it.client.send("GET /v1/extendedAgentCard", &headers, b"").await;
    assert_eq!((card.status, &card.json()["name"]), (200, &json!("tandem")));
}

#[tokio::test]
async fn who_has_used_up_a_quota_is_told_when_to_try_again() {
    let limit = ["--limit", "principal-requests=1"];
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("tokens.json");
    let id = PrincipalId { tenant: "acme".into(), name: "alice".into() };
    let (token, _) = tokens::add(&file, &id, PrincipalRole::Member).unwrap();
    let setup = limit.iter().fold(hello(), |setup, arg| setup.arg(arg));
    let it = serve(&setup.arg("--tokens").arg(file.to_str().unwrap())).await;
    let token = format!("Authorization: Bearer {token}");
    let refused = async {
        loop {
            let response = it.client.send("GET /v1/tasks", &[VERSION, &token], b"").await;
            if response.status != 200 {
                return response;
            }
        }
    };
    let refused = in_time(refused).await.expect("the quota is never used up");
    assert_eq!(refusal(&refused).1, "RESOURCE_EXHAUSTED");
    assert!(!refused.header("retry-after").is_empty());
}
