//! Logging in to a server that is a web service, with an editor and a log of everything.

use std::fs;

use reqwest::Url;
use serde_json::{Value, json};
use test_support::mcp::authority::{Authority, Ways, go};

use crate::agent::{Setup, text as said_in};

pub(crate) const LOGGED_IN: &str = "You are logged in to `web`. The MCP server `web` is ready.";

#[tokio::test]
async fn no_log_has_a_token_in_it() {
    let authority = Authority::new(Ways { lasts: Some(1), ..Ways::default() }).await;
    let settings: Value = json!({ "mcpServers": { "web": { "httpUrl": authority.mcp() } } });
    let answers = json!([[{ "call": { "name": "mcp_web_t", "args": {} } }], [{ "text": "done" }]]);
    let setup = Setup::answers(answers)
        .file("../.gemini/settings.json", &settings.to_string())
        .arg("--log-file")
        .arg("../log")
        .var("TANDEM_LOG", "trace");
    let mut agent = setup.start();
    let id = agent.prompt("/mcp auth web").await;
    let mut said = String::new();
    while !said.contains("that page's address") {
        let message = agent.call_of("streamAssistantMessageChunk").await;
        said += message["params"]["chunk"]["text"].as_str().unwrap();
        agent.answer(&message, Value::Null).await;
    }
    let (_, rest) = said.split_once("in your browser: ").unwrap();
    let address = Url::parse(rest.split_whitespace().next().unwrap()).unwrap();
    assert!(go(address).await.contains("You are logged in."));
    let read = agent.until_answered(id, "allow").await;
    assert!(said_in(&read).ends_with(LOGGED_IN), "{read:?}");
    let id = agent.prompt("go").await;
    let read = agent.until_answered(id, "allow").await;
    assert_eq!(said_in(&read), "done");
    let log = agent.workspace().join("../log");
    agent.hang_up().await;
    let log = fs::read_to_string(log).unwrap();
    assert!(log.contains("rmcp") && log.len() > 1000, "everything is logged");
    for secret in ["of-a-user", "code_verifier="] {
        let line = log.lines().find(|line| line.contains(secret));
        assert_eq!(line, None);
    }
}
