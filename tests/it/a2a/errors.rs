//! Errors of calls that are wrong, in both versions.

use serde_json::{Value, json};

use super::server::{Client, Served, answer, prompt, serve, within};
use crate::agent::Setup;

async fn server() -> Served {
    serve(&Setup::answers(json!([[{ "text": "hi" }]]))).await
}

/// Sends a body over HTTP and over a WebSocket. Returns the error code, and the id of the response.
async fn code(client: Client, body: &str) -> (i64, Value) {
    let response = client.send("POST /", &[], body.as_bytes()).await;
    assert_eq!(response.status, 200, "{body}: {}", response.text());
    let text = response.text();
    let response: Value = match text.strip_prefix("event: error\ndata: ") {
        Some(data) => serde_json::from_str(data).unwrap(),
        None => response.json(),
    };
    (response["error"]["code"].as_i64().unwrap_or_default(), response["id"].clone())
}

#[tokio::test]
async fn what_is_no_json_is_a_parse_error() {
    let it = server().await;
    for body in ["", " ", "{", "{\"jsonrpc\":", "hello", "{'a':1}", "{} {}", "\u{feff}{}x"] {
        let body = if body.is_empty() { " " } else { body };
        assert_eq!(code(it.client, body).await, (-32700, Value::Null), "{body:?}");
        if !body.trim().is_empty() {
            let mut socket = it.client.socket().await;
            socket.send_text(body).await;
            let frame = socket.frame().await.unwrap();
            assert_eq!((&frame["error"]["code"], &frame["id"]), (&json!(-32700), &Value::Null));
        }
    }
}

#[tokio::test]
async fn what_is_no_request_is_invalid() {
    let it = server().await;
    let get = r#"{"jsonrpc":"2.0","id":1,"method":"commands/get"}"#;
    for body in [
        format!("[{get}]"),
        "[]".to_owned(),
        "1".to_owned(),
        "null".to_owned(),
        "\"x\"".to_owned(),
        "{}".to_owned(),
        r#"{"id":1,"method":"commands/get"}"#.to_owned(),
        r#"{"jsonrpc":"1.0","id":1,"method":"commands/get"}"#.to_owned(),
        r#"{"jsonrpc":2.0,"id":1,"method":"commands/get"}"#.to_owned(),
        r#"{"jsonrpc":"2.0","id":1}"#.to_owned(),
        r#"{"jsonrpc":"2.0","id":1,"method":1}"#.to_owned(),
        r#"{"jsonrpc":"2.0","id":1,"method":null}"#.to_owned(),
        r#"{"jsonrpc":"2.0","id":1,"result":{}}"#.to_owned(),
    ] {
        assert_eq!(code(it.client, &body).await.0, -32600, "{body}");
        let mut socket = it.client.socket().await;
        socket.send_text(&body).await;
        let frame = socket.frame().await.unwrap();
        assert_eq!(frame["error"]["code"], -32600, "{body}: {frame}");
    }
}

#[tokio::test]
async fn a_method_that_is_not_there_is_not_found() {
    let it = server().await;
    for method in ["none", "", "Message/Send", "sendMessage", "tasks/", "constructor", "initialize"]
    {
        assert_eq!(it.client.error(method, json!({})).await.0, -32601, "{method}");
    }
    let mut socket = it.client.socket().await;
    assert_eq!(socket.call(1, "none", json!({})).await["error"]["code"], -32601);
}

/// Messages with something wrong in them.
fn malformed() -> Vec<Value> {
    let with = |name: &str, value: Value| {
        let mut sent = prompt("hi");
        sent["message"][name] = value;
        sent
    };
    let without = |name: &str| {
        let mut sent = prompt("hi");
        sent["message"].as_object_mut().unwrap().remove(name);
        sent
    };
    let configured = |value: Value| {
        let mut sent = prompt("hi");
        sent["configuration"] = value;
        sent
    };
    let yes = |call: Value, option: &str| answer(&call, option);
    vec![
        json!({}),
        json!({ "message": null }),
        json!({ "message": "hi" }),
        json!({ "message": [] }),
        without("messageId"),
        with("messageId", json!("")),
        with("messageId", json!(1)),
        without("role"),
        with("role", json!("agent")),
        with("role", json!("nobody")),
        with("role", json!(1)),
        without("parts"),
        with("parts", json!([])),
        with("parts", json!({})),
        with("parts", json!("hi")),
        with("parts", json!([1])),
        with("parts", json!([null])),
        with("parts", json!([{}])),
        with("parts", json!([{ "kind": "hologram", "text": "hi" }])),
        with("parts", json!([{ "kind": "text" }])),
        with("parts", json!([{ "kind": "text", "text": 1 }])),
        with("parts", json!([{ "kind": "text", "text": "hi" }, { "kind": "?" }])),
        configured(json!({ "historyLength": -1 })),
        configured(json!({ "historyLength": "1" })),
        configured(json!({ "historyLength": 1.5 })),
        yes(json!("none"), "proceed_once"),
        yes(json!("none"), "proceed_never"),
    ]
}

#[tokio::test]
async fn a_malformed_message_is_invalid_and_begins_nothing() {
    let it = server().await;
    let methods = ["message/send", "SendMessage", "message/stream", "SendStreamingMessage"];
    for params in malformed() {
        for method in methods {
            let call = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
            assert_eq!(code(it.client, &call.to_string()).await, (-32602, json!(1)), "{call}");
        }
    }
    for params in [json!([]), json!("x"), json!(1), json!(true)] {
        for method in [&methods[..], &["tasks/get", "ListTasks", "commands/get"]].concat() {
            let call = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
            let found = code(it.client, &call.to_string()).await.0;
            assert!([-32602, -32600].contains(&found), "{call}: {found}");
        }
    }
    assert_eq!(it.client.get("/tasks/metadata").await.status, 204, "a session has begun");
}

#[tokio::test]
async fn params_of_other_methods_are_checked_too() {
    let it = server().await;
    for (method, params) in [
        ("tasks/get", json!({})),
        ("tasks/get", json!({ "id": "" })),
        ("tasks/get", json!({ "id": 1 })),
        ("tasks/get", json!({ "id": "x", "historyLength": -1 })),
        ("tasks/cancel", json!({})),
        ("CancelTask", json!({})),
        ("ListTasks", json!({ "pageSize": 0 })),
        ("ListTasks", json!({ "pageSize": 101 })),
        ("ListTasks", json!({ "pageToken": "x" })),
        ("ListTasks", json!({ "historyLength": -1 })),
        ("ListTasks", json!({ "statusTimestampAfter": "yesterday" })),
        ("ListTasks", json!({ "status": "TASK_STATE_NONE" })),
        ("tasks/pushNotificationConfig/set", json!({})),
        ("tasks/pushNotificationConfig/get", json!({})),
        ("command/execute", json!({})),
        ("command/execute", json!({ "command_path": "help" })),
        ("command/execute", json!({ "command_path": [] })),
        ("command/execute", json!({ "command_path": [1] })),
    ] {
        let (code, why) = it.client.error(method, params.clone()).await;
        assert_eq!(code, -32602, "{method} {params}: {why}");
    }
}

#[tokio::test]
async fn a_task_that_is_not_there_is_not_found() {
    let it = server().await;
    let task = it.client.result("message/send", prompt("hi")).await["id"].clone();
    let next = format!("{}.99", task.as_str().unwrap());
    for id in ["none", &next, "../x", "\u{1f600}", "a.b", ".", "%00"] {
        let id = json!(id);
        for method in ["tasks/get", "tasks/cancel", "GetTask", "CancelTask", "SubscribeToTask"] {
            let (code, why) = it.client.error(method, json!({ "id": id })).await;
            assert_eq!(code, -32001, "{method} {id}: {why}");
        }
        for method in ["message/send", "SendMessage"] {
            let (code, why) = it.client.error(method, within(&id, prompt("hi"))).await;
            assert_eq!(code, -32001, "{method} {id}: {why}");
        }
    }
    // The message names the task, and another context than the task's.
    let mut sent = within(&task, prompt("hi"));
    sent["message"]["contextId"] = json!("another");
    assert_eq!(it.client.error("message/send", sent).await.0, -32602);
}

#[tokio::test]
async fn the_error_of_a_stream_is_an_event_in_0_3_and_plain_json_in_1_0() {
    let it = server().await;
    for (method, params) in [
        ("tasks/resubscribe", json!({ "id": "none" })),
        ("message/stream", within(&json!("none"), prompt("hi"))),
    ] {
        let mut stream = it.client.stream(method, params).await;
        assert_eq!(stream.begun.status, 200);
        assert_eq!(stream.begun.headers["content-type"], "text/event-stream");
        let (name, data) = stream.event().await.unwrap();
        assert_eq!((name.as_str(), &data["id"]), ("error", &json!(1)));
        assert_eq!(data["error"]["code"], -32001);
        assert_eq!(stream.event().await, None);
    }
    let call = json!({ "jsonrpc": "2.0", "id": "q", "method": "SubscribeToTask",
        "params": { "id": "none" } });
    let response = it.client.post("/", &call).await;
    assert_eq!(response.header("content-type"), "application/json");
    assert_eq!(response.json()["id"], "q");
}

#[tokio::test]
async fn errors_of_1_0_say_their_reason_for_programs() {
    let it = server().await;
    let unknown = json!({ "id": "none" });
    let info = |reason: &str| {
        json!([{ "@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": reason,
            "domain": "a2a-protocol.org" }])
    };
    let found = it.client.call("GetTask", unknown.clone()).await;
    assert_eq!(found["error"]["data"], info("TASK_NOT_FOUND"));
    let found = it.client.call("tasks/get", unknown).await;
    assert_eq!(found["error"].get("data"), None);

    let done = it.client.result("SendMessage", prompt("hi")).await["task"].clone();
    assert_eq!(done["status"]["state"], "TASK_STATE_COMPLETED");
    let found = it.client.call("CancelTask", json!({ "id": done["id"] })).await;
    assert_eq!(found["error"]["code"], -32002);
    assert_eq!(found["error"]["data"], info("TASK_NOT_CANCELABLE"));
    let found = it.client.call("SendMessage", within(&done["id"], prompt("more"))).await;
    assert_eq!(found["error"]["code"], -32004);
    assert_eq!(found["error"]["data"], info("UNSUPPORTED_OPERATION"));
    let found = it.client.call("SubscribeToTask", json!({ "id": done["id"] })).await;
    assert_eq!(found["error"]["code"], -32004);
}

#[tokio::test]
async fn a_second_cancel_is_refused_and_a_finished_task_of_0_3_goes_on() {
    let setup = Setup::answers(json!([[{ "text": "hi" }, { "hang": null }]]));
    let it = serve(&setup).await;
    let mut stream = it.client.stream("message/stream", prompt("go")).await;
    let task = stream.next().await.unwrap()["id"].clone();
    let canceled = it.client.result("tasks/cancel", json!({ "id": task })).await;
    assert_eq!(canceled["status"]["state"], "canceled");
    assert_eq!(stream.rest().await.last().unwrap()["status"]["state"], "canceled");

    let it = server().await;
    let task = it.client.result("message/send", prompt("hi")).await["id"].clone();
    let again = it.client.result("message/send", within(&task, prompt("hi"))).await;
    assert_eq!((&again["id"], &again["status"]["state"]), (&task, &json!("completed")));
    let canceled = it.client.result("tasks/cancel", json!({ "id": task })).await;
    assert_eq!(canceled["status"]["state"], "canceled");
    assert_eq!(it.client.error("tasks/cancel", json!({ "id": task })).await.0, -32002);
    let again = it.client.result("message/send", within(&task, prompt("hi"))).await;
    assert_eq!(again["status"]["state"], "completed");
}

#[tokio::test]
async fn a_cancelled_turn_is_not_cancelled_again() {
    let it = serve(&Setup::answers(json!([[{ "hang": null }]]))).await;
    let mut stream = it.client.stream("message/stream", prompt("go")).await;
    let task = stream.next().await.unwrap()["id"].clone();
    it.client.result("tasks/cancel", json!({ "id": task })).await;
    assert_eq!(it.client.error("tasks/cancel", json!({ "id": task })).await.0, -32002);
}

#[tokio::test]
async fn a_version_that_is_not_spoken_is_said_so() {
    let it = server().await;
    let call = json!({ "jsonrpc": "2.0", "id": 7, "method": "tasks/get", "params": { "id": "x" } });
    let call = call.to_string();
    for (version, expected) in [
        ("99.0", -32009),
        ("0.2.6", -32009),
        ("x", -32009),
        ("0.3", -32001),
        ("0.3.0", -32001),
        ("1.0", -32001),
    ] {
        let header = format!("A2A-Version: {version}");
        let response = it.client.send("POST /", &[&header], call.as_bytes()).await.json();
        assert_eq!(response["error"]["code"], expected, "{version}: {response}");
        assert_eq!(response["id"], 7, "{version}: {response}");
    }
}

#[tokio::test]
async fn files_that_cannot_be_read_are_another_error() {
    let it = server().await;
    for part in [
        json!({ "kind": "file", "file": { "bytes": "aGk=", "mimeType": "image/png" } }),
        json!({ "kind": "file", "file": { "uri": "https://example.com/x" } }),
        json!({ "raw": "aGk=", "mediaType": "image/png" }),
        json!({ "url": "http://169.254.169.254/" }),
    ] {
        let sent = super::server::parts(json!([part]));
        assert_eq!(it.client.error("message/send", sent).await.0, -32005, "{part}");
    }
}

#[tokio::test]
async fn a_file_of_a_type_that_nobody_knows_is_no_message() {
    let it = server().await;
    // `dGNr` is "tck" in base64.
    let part = json!({ "raw": "dGNr", "mediaType": "application/x-unsupported-tck-type" });
    let sent = super::server::parts(json!([part]));
    assert_eq!(it.client.error("SendMessage", sent).await.0, -32005);
}
