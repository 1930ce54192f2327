//! A `contextId` that the server does not know: a new conversation begins, and the client is told so.

use serde_json::{Value, json};

use super::server::{prompt, serve, shared};
use crate::agent::Setup;

fn says_hi() -> Setup {
    Setup::answers(json!([[{ "text": "hi" }]]))
}

fn in_context(context: &Value) -> Value {
    let mut sent = prompt("go");
    sent["message"]["contextId"] = context.clone();
    sent
}

#[tokio::test]
async fn a_client_may_name_a_new_context_and_is_told_that_it_is_new() {
    let it = serve(&says_hi()).await;
    for (method, id) in [("message/send", "one"), ("SendMessage", "two")] {
        let sent = || in_context(&json!(id));
        let task = |result: Value| result.get("task").cloned().unwrap_or(result);
        let first = task(it.client.result(method, sent()).await);
        assert_eq!(first["contextId"], id);
        assert_eq!(first["metadata"]["unknownContext"], "new", "{method}: {first}");
        let next = task(it.client.result(method, sent()).await);
        assert_eq!(next["contextId"], id);
        assert!(next["metadata"]["unknownContext"].is_null(), "{method}: {next}");
    }
}

#[tokio::test]
async fn a_stream_says_it_first() {
    let it = serve(&says_hi()).await;
    let events = it.client.stream("message/stream", in_context(&json!("a"))).await.rest().await;
    assert_eq!(events[0]["metadata"]["unknownContext"], "new", "{}", events[0]);
    let sent = in_context(&json!("b"));
    let events = it.client.stream("SendStreamingMessage", sent).await.rest().await;
    assert_eq!(events[0]["task"]["metadata"]["unknownContext"], "new", "{}", events[0]);
}

#[tokio::test]
async fn a_context_that_the_server_names_is_not_said_to_be_new() {
    let it = serve(&says_hi()).await;
    let first = it.client.result("message/send", prompt("go")).await;
    assert!(first["metadata"]["unknownContext"].is_null(), "{first}");
    let next = it.client.result("message/send", in_context(&first["contextId"])).await;
    assert!(next["metadata"]["unknownContext"].is_null(), "{next}");
    let made = json!({ "contextId": "made" });
    it.client.post("/tasks", &made).await;
    let next = it.client.result("message/send", in_context(&json!("made"))).await;
    assert!(next["metadata"]["unknownContext"].is_null(), "{next}");
}

#[tokio::test]
async fn the_one_session_of_an_agent_has_no_other_context() {
    let it = shared(&says_hi()).await;
    let (code, why) = it.client.error("SendMessage", in_context(&json!("mine"))).await;
    assert_eq!(code, -32602, "1.0: the server keeps the id that a client names, or refuses it");
    let own = it.client.result("message/send", prompt("go")).await["contextId"].clone();
    assert!(why.contains(own.as_str().unwrap()), "{why}");
    let task = it.client.result("message/send", in_context(&json!("mine"))).await;
    assert_eq!(task["contextId"], own, "0.3: ids are the server's");
    assert_eq!(task["metadata"]["unknownContext"], "shared", "{task}");
    let task = it.client.result("SendMessage", in_context(&own)).await["task"].clone();
    assert!(task["metadata"]["unknownContext"].is_null(), "{task}");
}

#[tokio::test]
async fn an_unknown_task_is_not_found() {
    let it = serve(&says_hi()).await;
    for method in ["message/send", "SendMessage"] {
        let mut sent = in_context(&json!("mine"));
        sent["message"]["taskId"] = json!("none");
        assert_eq!(it.client.error(method, sent).await.0, -32001, "{method}");
    }
}
