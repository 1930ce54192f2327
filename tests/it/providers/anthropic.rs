//! The real program with Anthropic's API, and a conversation that two providers continue in turn.

use std::fs;

use serde_json::json;
use test_support::api_server::anthropic::{blocks, says};
use test_support::api_server::{Reply, Server, event};

use crate::agent::{Setup, text};

const KEY: &str = "sk-ant-api03-TestKey0123456789";

#[tokio::test]
async fn models_of_two_providers_hold_one_conversation_with_tools() {
    let thinking = json!({ "type": "thinking", "thinking": "Write it.", "signature": "c2ln" });
    let claude = Server::start(vec![
        blocks(
            &json!([
            thinking,
            { "type": "text", "text": "Writing. " },
            { "type": "tool_use", "id": "toolu_1", "name": "write_file",
              "input": { "file_path": "a.txt", "content": "hi\n" } }
            ]),
            1,
            1,
        ),
        says("Written."),
        says("It says hi."),
    ])
    .await;
    let read = json!([{
        "functionCall": { "id": "g1", "name": "read_file", "args": { "file_path": "a.txt" } },
        "thoughtSignature": "R2VtaW5p"
    }]);
    let called = json!({ "content": { "parts": read }, "finishReason": "STOP" }).to_string();
    let gemini =
        Server::start(vec![Reply::stream(event(&called)), Reply::text("I have read it.")]).await;
    let setup = Setup::default()
        .arg("--model")
        .arg("anthropic:claude-opus-5-5")
        .var("ANTHROPIC_BASE_URL", claude.address())
        .var("ANTHROPIC_API_KEY", KEY)
        .var("GOOGLE_GEMINI_BASE_URL", gemini.address())
        .var("GEMINI_API_KEY", "AIzaSyWholeWay0123456789");
    let mut agent = setup.start();

    let id = agent.prompt("write hi").await;
    assert_eq!(text(&agent.until_answered(id, "allow").await), "Writing. Written.");
    assert_eq!(fs::read_to_string(agent.workspace().join("a.txt")).unwrap(), "hi\n");
    let asked = claude.asked();
    let told = asked[1].body["messages"].as_array().unwrap();
    assert_eq!(told[1]["content"][0], thinking);
    assert_eq!(told[2]["content"][0]["tool_use_id"], "toolu_1");

    let id = agent.prompt("/model set gemini-3.8-flash").await;
    agent.until_answered(id, "allow").await;
    let id = agent.prompt("read it").await;
    assert_eq!(text(&agent.until_answered(id, "allow").await), "I have read it.");
    let told = gemini.asked()[0].body.to_string();
    assert!(told.contains("write_file") && !told.contains("c2ln"), "{told}");

    let id = agent.prompt("/model set anthropic:claude-opus-5-5").await;
    agent.until_answered(id, "allow").await;
    let id = agent.prompt("what does it say?").await;
    assert_eq!(text(&agent.until_answered(id, "allow").await), "It says hi.");
    let asked = claude.asked();
    let told = asked[2].body["messages"].as_array().unwrap();
    assert_eq!(told[1]["content"][0], thinking, "it is the model's own again");
    assert_eq!(told[5]["content"][0]["id"], "g1");
    assert!(!asked[2].body.to_string().contains("R2VtaW5p"));
}
