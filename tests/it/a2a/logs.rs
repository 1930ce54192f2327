//! The log as JSON.

use std::fs;

use serde_json::{Value, json};
use test_support::api_server::Server;

use super::server::{prompt, serve};
use super::traces::{Collector, TRACE, completion, end, traced};
use crate::agent::Setup;

#[tokio::test]
async fn lines_of_json_say_to_which_session_turn_and_trace_they_belong() {
    let collector = Collector::start().await;
    let model =
        Server::with_pages(vec![completion(&json!({ "content": "bye" }), "stop")], &[]).await;
    let dir = tempfile::tempdir().unwrap();
    let log = dir.path().join("log");
    let setup = Setup::default()
        .arg("--log-file")
        .arg(log.to_str().unwrap())
        .arg("--model")
        .arg("openai:some/model-7b")
        .var("OPENAI_BASE_URL", &format!("{}/v1", model.address()))
        .var("TANDEM_LOG", "debug")
        .var("TANDEM_LOG_FORMAT", "json");
    let served = serve(&collector.watching(setup)).await;
    let header = traced();
    let headers = [header.as_str()];
    let stream = served.client.stream_with("message/stream", prompt("secret words"), &headers);
    stream.await.rest().await;
    assert_eq!(end(served).await, Some(143));

    let log = fs::read_to_string(log).unwrap();
    let lines: Vec<Value> = log.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    for line in &lines {
        for name in ["time", "level", "target", "message"] {
            assert!(line[name].is_string(), "{name}: {line}");
        }
    }
    let mut in_turn = lines.iter().filter(|line| line["turn"] == 1);
    // The request to the model is made within the turn, so its line has the turn's fields.
    let line = in_turn.find(|line| line["message"].to_string().contains("connecting to"));
    let line = line.unwrap();
    assert_eq!(line["session"].as_str().unwrap().len(), 36, "{line}");
    assert_eq!(line["trace_id"], TRACE);
    assert_eq!(line["span_id"].as_str().unwrap().len(), 16);
    assert!(!log.contains("secret words"));
}

#[tokio::test]
async fn another_format_of_the_log_is_refused() {
    let ran = Setup::default().arg("config").var("TANDEM_LOG_FORMAT", "xml").run().await;
    assert_eq!((ran.code, &*ran.stdout), (Some(1), ""));
    assert!(ran.stderr.contains("TANDEM_LOG_FORMAT is \"xml\""), "{}", ran.stderr);
    let ran = Setup::default().arg("config").arg("--log-format").arg("xml").run().await;
    assert_eq!(ran.code, Some(2));
}
