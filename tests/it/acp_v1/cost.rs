//! Costs of a session.

use serde_json::{Value, json};
use test_support::api_server::{Reply, Server};

use super::{Editor, updates};
use crate::agent::Setup;

/// Prices for two models, as a user writes them, and none for others.
const PRICES: &str = r#"{"models": [
    {"id": "gemini-3.8-flash", "prices": [{"from": "2026-01-01", "input": 1, "cached": 0.1, "output": 10}]},
    {"id": "gemini-3.5-flash", "prices": [{"from": "2026-01-01", "input": 2, "output": 20}]}
]}"#;

fn setup(server: &Server) -> Setup {
    Setup::default()
        .arg("--model")
        .arg("gemini-3.8-flash")
        .var("GEMINI_API_KEY", "AIzaSyCost0123456789")
        .var("GOOGLE_GEMINI_BASE_URL", server.address())
}

/// Returns an answer with these counts of tokens: input, cached input, output, reasoning.
fn answer([input, cached, output, thoughts]: [u64; 4]) -> Reply {
    let usage = json!({ "promptTokenCount": input, "cachedContentTokenCount": cached,
        "candidatesTokenCount": output, "thoughtsTokenCount": thoughts });
    let content = json!({ "role": "model", "parts": [{ "text": "ok" }] });
    let candidate = json!({ "content": content, "finishReason": "STOP" });
    let response = json!({ "candidates": [candidate], "usageMetadata": usage });
    Reply::stream(format!("data: {response}\n\n"))
}

/// Returns the cost that was shown last.
fn cost(read: &[Value]) -> Option<Value> {
    updates(read, "usage_update").pop().unwrap().get("cost").cloned()
}

fn dollars(amount: f64) -> Option<Value> {
    Some(json!({ "amount": amount, "currency": "USD" }))
}

#[tokio::test]
pub(super) async fn every_answer_is_charged_at_the_price_of_its_model_also_when_the_session_is_loaded()
 {
    let answers = vec![
        answer([400_000, 300_000, 10_000, 5_000]),
        answer([1_000, 0, 100, 0]),
        answer([1_000, 0, 0, 0]),
    ];
    let server = Server::start(answers).await;
    let setup = setup(&server).file("../.config/tandem/models.json", PRICES);
    let mut editor = Editor::start(&setup).await;
    let session = editor.session().await;
    assert_eq!(cost(&editor.ask(&session, "one").await), dollars(0.1 + 0.03 + 0.15));
    let params = json!({ "sessionId": session, "modelId": "gemini-3.5-flash" });
    editor.call("session/set_model", params).await;
    assert_eq!(cost(&editor.ask(&session, "two").await), dollars(0.284));
    let read = editor.ask(&session, "/stats").await;
    let stats = super::text(&read, "agent_message_chunk");
    assert!(stats.contains("cost at list prices: $0.2840"), "{stats}");
    editor.call("session/close", json!({ "sessionId": session })).await;
    let params = json!({ "sessionId": session, "cwd": editor.cwd(), "mcpServers": [] });
    let id = editor.request("session/load", params).await;
    assert_eq!(cost(&editor.until(id).await), dollars(0.284));
    // A loaded session uses the model of `--model`, so its price counts.
    assert_eq!(cost(&editor.ask(&session, "three").await), dollars(0.285));
}

#[tokio::test]
pub(super) async fn without_the_price_of_one_answer_there_is_no_cost() {
    let server = Server::start((0..3).map(|_| answer([1_000, 0, 100, 0])).collect()).await;
    let setup = setup(&server).file("../.config/tandem/models.json", PRICES);
    let mut editor = Editor::start(&setup).await;
    let session = editor.session().await;
    assert_eq!(cost(&editor.ask(&session, "one").await), dollars(0.002));
    for model in ["gemini-3.7-flash", "gemini-3.8-flash"] {
        editor.call("session/set_model", json!({ "sessionId": session, "modelId": model })).await;
        assert_eq!(cost(&editor.ask(&session, "go on").await), None, "{model}");
    }
}

#[tokio::test]
async fn a_gateway_has_no_list_price() {
    let server = Server::start(vec![answer([1_000, 0, 100, 0])]).await;
    let mut editor = Editor::start(&setup(&server)).await;
    let session = editor.session().await;
    assert_eq!(cost(&editor.ask(&session, "one").await), None);
}

#[tokio::test]
async fn what_the_provider_has_not_counted_has_no_price() {
    let server = Server::start(vec![Reply::text("ok"), answer([1_000, 0, 100, 0])]).await;
    let setup = setup(&server).file("../.config/tandem/models.json", PRICES);
    let mut editor = Editor::start(&setup).await;
    let session = editor.session().await;
    editor.ask(&session, "one").await;
    assert_eq!(cost(&editor.ask(&session, "two").await), None);
}
