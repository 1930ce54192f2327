//! Streams to their end: the result of the task, and the clients that are still asked.

use serde_json::{Value, json};

use super::server::{answer, asks, ends, prompt, serve, shared, tool_call, within, write};
use crate::agent::{Setup, code};

fn writes() -> Setup {
    Setup::answers(json!([[write("a.txt", "new\n")], [{ "text": "all " }, { "text": "done" }]]))
}

#[tokio::test]
async fn a_stream_brings_what_came_of_the_task_before_its_end() {
    let it = serve(&writes().arg("-y")).await;
    let events = it.client.stream("message/stream", prompt("go")).await.rest().await;
    let [.., came, end] = &events[..] else { panic!("{events:?}") };
    assert!(ends(end), "{end}");
    let task = it.client.result("tasks/get", json!({ "id": end["taskId"] })).await;
    assert_eq!(came["kind"], "artifact-update");
    assert_eq!(came["artifact"], task["artifacts"][0]);
    assert_eq!(came["artifact"]["parts"], json!([{ "kind": "text", "text": "all done" }]));
    assert_eq!((&came["lastChunk"], &came["append"]), (&json!(true), &json!(false)));
    assert_eq!((&came["taskId"], &came["contextId"]), (&end["taskId"], &end["contextId"]));
    let is_answer = |event: &&Value| {
        event["kind"] == "artifact-update" && event["artifact"]["artifactId"] == "response"
    };
    assert_eq!(events.iter().filter(is_answer).count(), 1);

    let events = it.client.stream("SendStreamingMessage", prompt("go")).await.rest().await;
    let [.., came, end] = &events[..] else { panic!("{events:?}") };
    assert_eq!(end["statusUpdate"]["status"]["state"], "TASK_STATE_COMPLETED");
    let parts = &came["artifactUpdate"]["artifact"]["parts"];
    assert_eq!(*parts, json!([{ "text": "all done" }]));
}

#[tokio::test]
async fn a_long_artifact_comes_in_chunks() {
    let chunk = json!({ "repeat": { "text": code(16 << 10), "times": 140 } });
    let it = serve(&Setup::answers(json!([[chunk]]))).await;
    let events = it.client.stream("message/stream", prompt("go")).await.rest().await;
    let chunks: Vec<_> = events.iter().filter(|it| it["kind"] == "artifact-update").collect();
    let flags: Vec<_> = chunks.iter().map(|it| (&it["append"], &it["lastChunk"])).collect();
    let (yes, no) = (json!(true), json!(false));
    assert_eq!(flags, [(&no, &no), (&yes, &no), (&yes, &yes)]);
    let whole: String =
        chunks.iter().map(|it| it["artifact"]["parts"][0]["text"].as_str().unwrap()).collect();
    assert_eq!(whole.len(), 140 * (16 << 10));
}

#[tokio::test]
async fn who_subscribes_to_a_task_that_asks_hears_of_it_to_its_end() {
    let it = shared(&writes()).await;
    let events = it.client.stream("message/stream", prompt("go")).await.rest().await;
    let end = events.last().unwrap();
    assert_eq!((&end["status"]["state"], &end["final"]), (&json!("input-required"), &json!(true)));
    let mut socket = it.client.socket().await;
    let task = end["taskId"].clone();
    socket.send(7, "tasks/resubscribe", json!({ "id": task })).await;
    let mut watch = it.client.stream("tasks/resubscribe", json!({ "id": task })).await;
    let asking = |event: &Value| {
        event["kind"] == "status-update" && event["status"]["state"] == "input-required"
    };
    let asked = watch.until(asking).await;
    // The question is no final event, although the older stream ends there.
    assert_eq!(asked.last().unwrap()["final"], false);
    let list = json!({ "contextId": task });
    let new = it.client.result("ListTasks", list).await["tasks"][0]["id"].clone();
    let mut newer = it.client.stream("SubscribeToTask", json!({ "id": new })).await;
    let state = |event: &Value| event["statusUpdate"]["status"]["state"].clone();
    newer.until(|event| state(event) == "TASK_STATE_INPUT_REQUIRED").await;
    let call = tool_call(asked.iter().find(|event| asks(event)).unwrap())["tool_call_id"].clone();
    let once = within(&task, answer(&call, "proceed_once"));
    it.client.stream("message/stream", once).await.rest().await;
    let rest = watch.rest().await;
    assert!(ends(rest.last().unwrap()), "{rest:?}");
    assert_eq!(rest[rest.len() - 2]["kind"], "artifact-update");
    let rest = newer.rest().await;
    assert_eq!(state(rest.last().unwrap()), "TASK_STATE_COMPLETED");
    let frames = socket.until(|frame| frame["streamEnd"] == true).await;
    assert!(ends(&frames[frames.len() - 2]["result"]), "{frames:?}");
    let question = frames.iter().find(|frame| asking(&frame["result"])).unwrap();
    assert_eq!(question["result"]["final"], false);
}

#[tokio::test]
async fn a_configuration_can_be_deleted_twice() {
    let it = serve(&writes().arg("-y").arg("--a2a-webhook-loopback")).await;
    let task = it.client.result("message/send", prompt("go")).await["id"].clone();
    let config = json!({ "id": "a", "url": "http://127.0.0.1:9/" });
    let set = json!({ "taskId": task, "pushNotificationConfig": config });
    it.client.result("tasks/pushNotificationConfig/set", set).await;
    for _ in 0..2 {
        let delete = json!({ "id": task, "pushNotificationConfigId": "a" });
        assert_eq!(
            it.client.result("tasks/pushNotificationConfig/delete", delete).await,
            Value::Null
        );
    }
    let delete = json!({ "taskId": task, "id": "a" });
    it.client.result("DeleteTaskPushNotificationConfig", delete).await;
    let get = json!({ "id": task, "pushNotificationConfigId": "a" });
    assert_eq!(it.client.error("tasks/pushNotificationConfig/get", get).await.0, -32001);
    let other = json!({ "id": "none", "pushNotificationConfigId": "a" });
    assert_eq!(it.client.error("tasks/pushNotificationConfig/delete", other).await.0, -32001);
}

#[tokio::test]
async fn a_configuration_is_shown_in_the_form_of_either_version() {
    let it = serve(&writes().arg("-y").arg("--a2a-webhook-loopback")).await;
    let task = it.client.result("message/send", prompt("go")).await["id"].clone();
    let old = json!({ "taskId": task, "pushNotificationConfig": {
        "id": "a", "url": "http://127.0.0.1:9/", "token": "t",
        "authentication": { "schemes": ["Basic", "Bearer"], "credentials": "c" },
    } });
    let new = json!({
        "taskId": task, "id": "a", "url": "http://127.0.0.1:9/", "token": "t",
        "authentication": { "scheme": "Basic", "credentials": "c" },
    });
    let set = it.client.result("tasks/pushNotificationConfig/set", old.clone()).await;
    assert_eq!(set, old);
    let name = json!({ "taskId": task, "id": "a" });
    assert_eq!(it.client.result("GetTaskPushNotificationConfig", name.clone()).await, new);
    let of_task = json!({ "taskId": task });
    let list = it.client.result("ListTaskPushNotificationConfigs", of_task).await;
    assert_eq!(list, json!({ "configs": [new] }));

    let plain = json!({ "taskId": task, "url": "http://127.0.0.1:9/" });
    let set = it.client.result("CreateTaskPushNotificationConfig", plain).await;
    let named = json!({ "taskId": task, "id": "default", "url": "http://127.0.0.1:9/" });
    assert_eq!(set, named);
    let list = it.client.result("tasks/pushNotificationConfig/list", json!({ "id": task })).await;
    let nested = json!({ "id": "default", "url": "http://127.0.0.1:9/" });
    assert_eq!(list, json!([old, { "taskId": task, "pushNotificationConfig": nested }]));
}

const EXTENDED: [(&str, i64); 2] =
    [("agent/getAuthenticatedExtendedCard", -32007), ("GetExtendedAgentCard", -32004)];

#[tokio::test]
async fn without_a_token_there_is_no_card_for_those_who_have_it() {
    let it = serve(&writes()).await;
    let card = it.client.get("/.well-known/agent-card.json").await.json();
    assert_eq!(card["supportsAuthenticatedExtendedCard"], false);
    assert_eq!(card["capabilities"]["extendedAgentCard"], false);
    for (method, code) in EXTENDED {
        assert_eq!(it.client.error(method, json!({})).await.0, code, "{method}");
    }
}

#[tokio::test]
async fn with_a_token_there_is_and_who_lacks_it_is_told_how_to_show_it() {
    let it = serve(&writes().var("TANDEM_A2A_TOKEN", "secret")).await;
    let card = it.client.get("/.well-known/agent-card.json").await.json();
    assert_eq!(card["supportsAuthenticatedExtendedCard"], true);
    assert_eq!(card["capabilities"]["extendedAgentCard"], true);
    let refused = it.client.get("/listCommands").await;
    assert_eq!(refused.status, 401);
    assert_eq!(refused.header("www-authenticate"), "Bearer realm=\"tandem\"");
    for (method, _) in EXTENDED {
        let call = json!({ "jsonrpc": "2.0", "id": 1, "method": method }).to_string();
        let bearer = "Authorization: Bearer secret";
        let found = it.client.send("POST /", &[bearer], call.as_bytes()).await.json();
        assert_eq!(found["result"]["name"], "tandem", "{found}");
    }
}
