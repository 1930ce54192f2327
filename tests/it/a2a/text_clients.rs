//! Clients that accept only text: a question reaches them as text, and so does a result.

use serde_json::{Value, json};

use super::server::{kind, prompt, serve, within, write};
use crate::agent::Setup;

fn says_and_writes() -> Setup {
    let says = json!({ "text": "I will write the" });
    Setup::answers(json!([[says, write("a.txt", "new\n")], [{ "text": "It is written." }]]))
}

/// Returns an item of a stream, or a result, of either version, without the wrapper of 1.0.
fn bare(event: Value) -> Value {
    let wrappers = ["task", "statusUpdate", "artifactUpdate"];
    wrappers.into_iter().find_map(|name| event.get(name).cloned()).unwrap_or(event)
}

/// Returns the parameters with the output modes that a client accepts.
fn takes(modes: &[&str], mut params: Value) -> Value {
    params["configuration"] = json!({ "acceptedOutputModes": modes });
    params
}

/// Returns the texts of the parts of a message or an artifact.
fn texts(parts: &Value) -> String {
    let parts = parts.as_array().into_iter().flatten();
    parts.filter_map(|part| part["text"].as_str()).collect()
}

#[tokio::test]
async fn a_question_is_the_last_message_of_the_history_and_nothing_is_a_result_yet() {
    for (method, get) in [("message/send", "tasks/get"), ("SendMessage", "GetTask")] {
        let it = serve(&says_and_writes()).await;
        let task = bare(it.client.result(method, prompt("go")).await);
        assert_eq!(task["artifacts"], json!([]), "{task}");
        let history = task["history"].as_array().unwrap();
        assert_eq!(history.last(), Some(&task["status"]["message"]), "{task}");
        assert!(texts(&history[history.len() - 2]["parts"]).contains("I will write"), "{task}");
        let last = json!({ "id": task["id"], "historyLength": 1 });
        let got = it.client.result(get, last).await;
        assert_eq!(got["history"], json!([task["status"]["message"]]), "{got}");
        let done = bare(it.client.result(method, within(&task["id"], prompt("yes"))).await);
        let said = done["history"].to_string();
        assert!(!said.contains("Allow it?"), "{done}");
    }
}

#[tokio::test]
async fn who_takes_text_alone_gets_no_data() {
    for method in ["message/stream", "SendStreamingMessage"] {
        let it = serve(&says_and_writes()).await;
        let params = takes(&["text/plain"], prompt("go"));
        let asked = it.client.stream(method, params).await.rest().await;
        let id = bare(asked[0].clone())["id"].clone();
        let last = bare(asked.last().unwrap().clone());
        let question = texts(&last["status"]["message"]["parts"]);
        assert!(question.contains("Allow it?"), "{question}");
        let yes = takes(&["text/plain"], within(&id, prompt("yes")));
        let answered = it.client.stream(method, yes).await.rest().await;
        for event in asked.iter().chain(&answered) {
            assert!(!event.to_string().contains("\"data\":"), "{event}");
        }
        // An answer that is not understood, and a result, also come without data parts.
        let it = serve(&says_and_writes()).await;
        let send = if method == "message/stream" { "message/send" } else { "SendMessage" };
        let task = it.client.result(send, takes(&["text"], prompt("go on"))).await;
        assert!(!task.to_string().contains("\"data\":"), "{task}");
        let asked = takes(&["text/plain", "image/png"], within(&bare(task)["id"], prompt("why?")));
        let task = it.client.result(send, asked).await;
        assert!(task.to_string().contains("The message was not taken"), "{task}");
        assert!(!task.to_string().contains("\"data\":"), "{task}");
    }
}

#[tokio::test]
async fn who_takes_text_alone_reads_the_answer_once() {
    for method in ["message/stream", "SendStreamingMessage"] {
        let it = serve(&Setup::answers(json!([[{ "text": "It is " }, { "text": "42." }]]))).await;
        let params = takes(&["text/plain"], prompt("go"));
        let events = it.client.stream(method, params).await.rest().await;
        let said = events.into_iter().map(bare).map(|event| {
            texts(&event["status"]["message"]["parts"]) + &texts(&event["artifact"]["parts"])
        });
        assert_eq!(said.collect::<String>(), "It is 42.");
    }
}

#[tokio::test]
async fn who_takes_json_too_gets_all() {
    for modes in [&[][..], &["text/plain", "application/json"], &["*/*"]] {
        let it = serve(&says_and_writes()).await;
        let params = takes(modes, prompt("go"));
        let events = it.client.stream("message/stream", params).await.rest().await;
        assert!(events.iter().any(|event| kind(event) == "TOOL_CALL_UPDATE"), "{events:?}");
        assert!(events.iter().any(|event| kind(event) == "TEXT_CONTENT"), "{events:?}");
    }
}
