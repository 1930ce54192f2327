//! Tasks as clients look at them: how much of them, which of them, and without waiting.

use serde_json::{Value, json};

use super::server::{Served, ends, first_part, prompt, serve, text, within};
use crate::agent::Setup;

async fn server() -> Served {
    serve(&Setup::answers(json!([[{ "text": "hi" }]]))).await
}

fn in_context(context: &Value, text: &str) -> Value {
    let mut sent = prompt(text);
    sent["message"]["contextId"] = context.clone();
    sent
}

fn said(task: &Value) -> Vec<&str> {
    let history = task["history"].as_array().unwrap();
    history.iter().map(|message| message["parts"][0]["text"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn the_history_is_as_long_as_the_client_wants_it() {
    let it = server().await;
    let task = it.client.result("message/send", prompt("one")).await;
    it.client.result("message/send", within(&task["id"], prompt("two"))).await;
    for (length, expected) in [
        (json!(0), &[][..]),
        (json!(1), &["hi"]),
        (json!(3), &["hi", "two", "hi"]),
        (json!(100), &["one", "hi", "two", "hi"]),
        (json!(null), &["one", "hi", "two", "hi"]),
    ] {
        let asked = json!({ "id": task["id"], "historyLength": length });
        assert_eq!(said(&it.client.result("tasks/get", asked).await), expected, "{length}");
    }
    let mut sent = within(&task["id"], prompt("three"));
    sent["configuration"] = json!({ "historyLength": 2 });
    assert_eq!(said(&it.client.result("message/send", sent).await), ["three", "hi"]);
}

#[tokio::test]
async fn in_1_0_each_message_is_a_task_of_its_context() {
    let it = server().await;
    let first = it.client.result("SendMessage", prompt("one")).await["task"].clone();
    let context = first["contextId"].clone();
    let second = it.client.result("SendMessage", in_context(&context, "two")).await["task"].clone();
    assert_ne!(first["id"], second["id"]);
    assert_eq!(second["contextId"], context);
    assert_eq!(said(&second), ["two", "hi"]);
    assert_eq!(second["artifacts"][0]["parts"][0], json!({ "text": "hi" }));
    assert_eq!(second["status"]["state"], "TASK_STATE_COMPLETED");
    assert_eq!(second["history"][0]["role"], "ROLE_USER");
    assert!(second.get("kind").is_none());
    let found = it.client.result("GetTask", json!({ "id": second["id"] })).await;
    assert_eq!(found, second, "GetTask has no wrapper");
}

#[tokio::test]
async fn tasks_are_listed_newest_first_a_page_at_a_time() {
    let it = server().await;
    let first = it.client.result("SendMessage", prompt("0")).await["task"].clone();
    for n in 1..5 {
        it.client.result("SendMessage", in_context(&first["contextId"], &n.to_string())).await;
    }
    it.client.result("SendMessage", prompt("elsewhere")).await;
    let mut token = json!("");
    let mut found = Vec::new();
    for expected in [2, 2, 1] {
        let asked = json!({ "contextId": first["contextId"], "pageSize": 2, "pageToken": token });
        let page = it.client.result("ListTasks", asked).await;
        assert_eq!(page["tasks"].as_array().unwrap().len(), expected);
        assert_eq!((&page["totalSize"], &page["pageSize"]), (&json!(5), &json!(2)));
        found.extend(page["tasks"].as_array().unwrap().clone());
        token = page["nextPageToken"].clone();
    }
    assert_eq!(token, "", "there is no page after the last");
    let ids: Vec<_> = found.iter().map(|task| task["id"].as_str().unwrap()).collect();
    let context = first["contextId"].as_str().unwrap();
    let expected: Vec<_> = (1..=5).rev().map(|n| format!("{context}.{n}")).collect();
    assert_eq!(ids, expected);
    assert!(found.iter().all(|task| task.get("artifacts").is_none_or(|it| *it == json!([]))));
}

#[tokio::test]
async fn tasks_are_listed_by_state_and_time() {
    let script = vec![
        json!({ "when": "fail", "answers": [[{ "error": { "rejected": "no" } }]] }),
        json!({ "when": "", "answers": [[{ "text": "hi" }]] }),
    ];
    let it = serve(&Setup::script(script)).await;
    it.client.result("SendMessage", prompt("well")).await;
    let failed = it.client.result("SendMessage", prompt("fail")).await["task"].clone();
    assert_eq!(failed["status"]["state"], "TASK_STATE_FAILED");
    let count = |asked: Value| async {
        it.client.result("ListTasks", asked).await["totalSize"].as_u64().unwrap()
    };
    assert_eq!(count(json!({})).await, 2);
    assert_eq!(count(json!({ "status": "TASK_STATE_FAILED" })).await, 1);
    assert_eq!(count(json!({ "status": "TASK_STATE_WORKING" })).await, 0);
    let at = failed["status"]["timestamp"].clone();
    assert!(count(json!({ "statusTimestampAfter": at })).await >= 1);
    assert_eq!(count(json!({ "statusTimestampAfter": "2999-01-01T00:00:00Z" })).await, 0);
    let whole = json!({ "includeArtifacts": true, "historyLength": 5 });
    let whole = it.client.result("ListTasks", whole).await;
    let well = whole["tasks"].as_array().unwrap().iter().find(|task| task["id"] != failed["id"]);
    assert_eq!(said(well.unwrap()), ["well", "hi"]);
    assert_eq!(well.unwrap()["artifacts"][0]["parts"][0]["text"], "hi");
}

#[tokio::test]
async fn who_does_not_want_to_wait_gets_the_task_at_once() {
    let it = serve(&Setup::answers(json!([[{ "text": "hi" }, { "hang": null }]]))).await;
    for (method, configuration) in [
        ("message/send", json!({ "blocking": false })),
        ("SendMessage", json!({ "returnImmediately": true })),
        ("SendMessage", json!({ "return_immediately": true })),
    ] {
        let mut sent = prompt("go");
        sent["configuration"] = configuration;
        let found = it.client.result(method, sent).await;
        let task = found.get("task").unwrap_or(&found);
        let state = task["status"]["state"].as_str().unwrap().to_lowercase();
        assert!(state.ends_with("submitted") || state.ends_with("working"), "{state}");
        it.client.result("tasks/cancel", json!({ "id": task["id"] })).await;
    }
}

#[tokio::test]
async fn a_resubscriber_is_told_the_running_turn_from_its_beginning_or_from_where_it_was() {
    let script = json!([[{ "text": "one " }, { "text": "two" }, { "hang": null }]]);
    let it = serve(&Setup::answers(script)).await;
    let mut stream = it.client.stream("message/stream", prompt("go")).await;
    let task = stream.next().await.unwrap()["id"].clone();
    let two = |event: &Value| event["status"]["message"]["parts"][0]["text"] == "two";
    let seen = stream.until(two).await;
    drop(stream);
    let id = |event: &Value| event["metadata"]["eventId"].as_str().unwrap().to_owned();
    let mut again = it.client.stream("tasks/resubscribe", json!({ "id": task })).await;
    assert_eq!(again.next().await.unwrap()["kind"], "task");
    let all = again.until(two).await;
    assert_eq!(all, seen);
    // The last event id is sent in the header, and then in the metadata.
    let last = format!("Last-Event-ID: {}", id(&seen[seen.len() - 2]));
    let asked = json!({ "id": task });
    let mut later = it.client.stream_with("tasks/resubscribe", asked, &[&last]).await;
    later.next().await.unwrap();
    assert_eq!(later.next().await.unwrap(), *seen.last().unwrap());
    let asked = json!({ "id": task, "metadata": { "lastEventId": id(&seen[0]) } });
    let mut later = it.client.stream("tasks/resubscribe", asked).await;
    later.next().await.unwrap();
    assert_eq!(later.next().await.unwrap(), seen[1]);
    // The closed streams have not stopped the task.
    let found = it.client.result("tasks/get", json!({ "id": task })).await;
    assert_eq!(found["status"]["state"], "working");
}

#[tokio::test]
async fn what_was_missed_of_a_turn_that_has_ended_is_told_to_its_end() {
    let it = server().await;
    let mut stream = it.client.stream("message/stream", prompt("go")).await;
    let task = stream.next().await.unwrap()["id"].clone();
    let seen = stream.rest().await;
    let id = |event: &Value| event["metadata"]["eventId"].as_str().unwrap().to_owned();
    let header = format!("Last-Event-ID: {}", id(&seen[0]));
    let asked = json!({ "id": task });
    let mut later = it.client.stream_with("tasks/resubscribe", asked.clone(), &[&header]).await;
    assert_eq!(later.rest().await[1..], seen[1..]);
    // A client that has seen the last event gets only the task's current state.
    let header = format!("Last-Event-ID: {}", id(seen.last().unwrap()));
    let mut later = it.client.stream_with("tasks/resubscribe", asked, &[&header]).await;
    assert_eq!(later.rest().await.len(), 1);
    let wrong = json!({ "id": task, "metadata": { "lastEventId": "x" } });
    let mut later = it.client.stream("tasks/resubscribe", wrong).await;
    assert_eq!(later.event().await.unwrap().1["error"]["code"], -32602);
}

#[tokio::test]
async fn a_client_that_was_away_for_whole_turns_goes_on_after_the_event_that_it_has_seen_last() {
    let turn =
        |name: &str| json!({ "when": name, "answers": [[{ "text": format!("of {name}") }]] });
    let hangs =
        json!({ "when": "fourth", "answers": [[{ "text": "of fourth" }, { "hang": null }]] });
    let script = vec![hangs, turn("third"), turn("second"), turn("first")];
    let it = serve(&Setup::script(script)).await;
    let mut stream = it.client.stream("message/stream", prompt("first")).await;
    let task = stream.next().await.unwrap()["id"].clone();
    let last = stream.rest().await.pop().unwrap()["metadata"]["eventId"].clone();
    for prompted in ["second", "third"] {
        it.client.result("message/send", within(&task, prompt(prompted))).await;
    }
    let asked = json!({ "id": task, "metadata": { "lastEventId": last } });
    // The client subscribes when no turn runs, and again while another turn runs.
    let mut later = it.client.stream("tasks/resubscribe", asked.clone()).await;
    let told = later.rest().await;
    assert_eq!(text(&told), "of secondof third");
    let finals = told.iter().filter(|event| event["final"] == true).count();
    assert_eq!((finals, ends(told.last().unwrap())), (1, true), "{told:#?}");
    let mut running = it.client.stream("message/stream", within(&task, prompt("fourth"))).await;
    running.until(|event| first_part(event)["text"] == "of fourth").await;
    let mut later = it.client.stream("tasks/resubscribe", asked).await;
    let told = later.until(|event| first_part(event)["text"] == "of fourth").await;
    assert_eq!(text(&told), "of secondof thirdof fourth");
    assert!(told.iter().all(|event| event["final"] != true), "{told:#?}");
}

#[tokio::test]
async fn many_sessions_at_once_do_not_mix() {
    let script = (0..20).map(
        |n| json!({ "when": format!("<{n}>"), "answers": [[{ "text": format!("said {n}") }]] }),
    );
    let it = serve(&Setup::script(script.collect())).await;
    let client = it.client;
    let clients = (0..20).map(|n| async move {
        let task = client.result("message/send", prompt(&format!("<{n}>"))).await;
        assert_eq!(said(&task), [format!("<{n}>"), format!("said {n}")]);
        task["id"].as_str().unwrap().to_owned()
    });
    let mut ids = futures::future::join_all(clients).await;
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), 20);
}
