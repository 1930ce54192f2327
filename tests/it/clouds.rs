//! Clouds, gateways and servers that the settings name: the real program with strict stand-ins.

mod azure;
mod bedrock;
mod servers;
mod vertex;

use serde_json::{Value, json};

use crate::agent::{Ran, Setup};
use test_support::api_server::{Asked, Check, Reply, Server};

/// Runs one prompt with a model, these variables and these settings.
async fn ask(model: &str, vars: &[(&str, &str)], settings: &Value) -> Ran {
    let setup = Setup::default()
        .file("../.gemini/settings.json", &settings.to_string())
        .arg("--model")
        .arg(model)
        .arg("--limit")
        .arg("model-attempts=1")
        .arg("-p")
        .arg("hi");
    vars.iter().fold(setup, |setup, (name, value)| setup.var(name, value)).run().await
}

/// Runs one prompt, which must be answered with `ok`.
async fn ask_well(model: &str, vars: &[(&str, &str)], settings: &Value) {
    let ran = ask(model, vars, settings).await;
    assert_eq!((ran.stdout.as_str(), ran.code), ("ok\n", Some(0)), "{}", ran.stderr);
}

/// Runs one prompt, which must fail; returns the message. Checks that it contains no secret.
async fn ask_in_vain(model: &str, vars: &[(&str, &str)], settings: &Value) -> String {
    let ran = ask(model, vars, settings).await;
    assert_ne!(ran.code, Some(0), "{}", ran.stdout);
    for (name, value) in
        vars.iter().filter(|(name, _)| name.contains("KEY") || name.contains("TOKEN"))
    {
        assert!(!ran.stderr.contains(value), "{name} is shown: {}", ran.stderr);
    }
    ran.stderr
}

/// Starts a server that refuses what `check` refuses, and otherwise gives this reply.
async fn strict(reply: Reply, check: Check) -> Server {
    Server::of_pages(vec![reply], &[], Some(check)).await
}

/// Returns the answer `ok` of chat completions.
fn chat() -> Reply {
    let delta =
        json!({ "choices": [{ "index": 0, "delta": { "content": "ok" }, "finish_reason": null }] });
    let end = json!({ "choices": [{ "index": 0, "delta": {}, "finish_reason": "stop" }] });
    Reply::stream(format!("data: {delta}\n\ndata: {end}\n\ndata: [DONE]\n\n"))
}

/// Returns the answer `ok` of Anthropic's API.
fn message() -> Reply {
    let events = [
        json!({ "type": "message_start", "message": { "id": "m", "type": "message", "role": "assistant",
            "content": [], "model": "x", "usage": { "input_tokens": 1, "output_tokens": 1 } } }),
        json!({ "type": "content_block_start", "index": 0, "content_block": { "type": "text", "text": "" } }),
        json!({ "type": "content_block_delta", "index": 0, "delta": { "type": "text_delta", "text": "ok" } }),
        json!({ "type": "content_block_stop", "index": 0 }),
        json!({ "type": "message_delta", "delta": { "stop_reason": "end_turn" }, "usage": { "output_tokens": 1 } }),
        json!({ "type": "message_stop" }),
    ];
    let event =
        |event: &Value| format!("event: {}\ndata: {event}\n\n", event["type"].as_str().unwrap());
    Reply::stream(events.iter().map(event).collect::<String>())
}

/// Returns an error of the API.
fn refused(status: u16, message: &str) -> Reply {
    Reply::error(status, json!({ "error": { "message": message } }).to_string())
}

/// Returns a header of a request; empty if the request lacks it.
fn header<'a>(asked: &'a Asked, name: &str) -> &'a str {
    asked.headers.get(name).map(|value| value.to_str().unwrap()).unwrap_or_default()
}
