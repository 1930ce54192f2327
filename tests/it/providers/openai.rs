//! The whole way: from an editor, through the real binary, to a server of chat completions.

use std::fs;

use serde_json::{Value, json};
use test_support::api_server::openai::{messages, refused, stream, text};
use test_support::api_server::{Reply, Server};

use crate::agent::{Setup, text as said};

const MODEL: &str = "some/model-7b";
const KEY: &str = "sk-Test0123456789abcdef";

async fn start(replies: Vec<Reply>) -> Server {
    Server::with_pages(replies, &[]).await
}

/// Returns an agent with a model at this server.
fn agent_of(server: &Server) -> Setup {
    Setup::default()
        .arg("--model")
        .arg(&format!("openai:{MODEL}"))
        .var("OPENAI_BASE_URL", &format!("{}/v1", server.address()))
}

fn writes() -> Reply {
    let arguments = r#"{"file_path":"a.txt","content":"hi\n"}"#;
    let call = json!({ "index": 0, "id": "c1", "function": { "name": "write_file", "arguments": arguments } });
    let deltas = vec![json!({ "content": "Writing." }), json!({ "tool_calls": [call] })];
    stream(deltas, "tool_calls")
}

#[tokio::test]
async fn a_question_in_the_middle_of_a_conversation() {
    let server = start(vec![writes(), text("Written.")]).await;
    let mut agent = agent_of(&server).var("OPENAI_API_KEY", KEY).start();
    let id = agent.prompt("write hi").await;
    let shown = agent.until_answered(id, "allow").await;
    assert_eq!(said(&shown), "Writing.Written.");
    assert_eq!(shown.last().unwrap()["result"], Value::Null);
    assert_eq!(fs::read_to_string(agent.workspace().join("a.txt")).unwrap(), "hi\n");
    let asked = server.asked();
    assert_eq!(asked[0].headers["authorization"], format!("Bearer {KEY}"));
    let told = messages(&server, 1);
    assert_eq!(told[2]["tool_calls"][0]["id"], told[3]["tool_call_id"]);
    assert!(told[3]["content"].as_str().unwrap().starts_with("Created a.txt"));
    assert_eq!(told[0], messages(&server, 0)[0], "the beginning stays the same");
}

#[tokio::test]
async fn the_key_reaches_no_command_and_no_log() {
    let arguments = json!({ "command": "env; echo $OPENAI_API_KEY; echo the end" }).to_string();
    let call = json!({ "index": 0, "id": "c1",
        "function": { "name": "run_shell_command", "arguments": arguments } });
    let echo = refused(400, &format!("bad key {KEY}"));
    let calls = stream(vec![json!({ "tool_calls": [call] })], "tool_calls");
    let server = start(vec![calls, text("done"), echo]).await;
    let dir = tempfile::tempdir().unwrap();
    let log = dir.path().join("log");
    let mut agent = agent_of(&server)
        .var("OPENAI_API_KEY", KEY)
        .var("A_COPY", KEY)
        .var("TANDEM_LOG", "trace")
        .arg("-y")
        .arg("--log-file")
        .arg(log.to_str().unwrap())
        .start();
    let mut all = Vec::new();
    for prompt in ["go", "again"] {
        let id = agent.prompt(prompt).await;
        all.extend(agent.until_answered(id, "allow").await);
    }
    agent.hang_up().await;
    let told: String = server.asked().iter().map(|asked| asked.body.to_string()).collect();
    assert!(format!("{all:?}").contains("the end") && format!("{all:?}").contains("bad key [key]"));
    for (place, text) in [
        ("the model", told),
        ("the log", fs::read_to_string(log).unwrap()),
        ("the editor", format!("{all:?}")),
    ] {
        assert!(!text.is_empty(), "{place}");
        assert!(!text.contains(KEY), "{place} has the key");
    }
}

#[tokio::test]
async fn without_a_key_it_says_what_to_do_and_a_project_cannot_send_it_elsewhere() {
    let server = start(Vec::new()).await;
    let mut agent = Setup::default()
        .arg("--model")
        .arg("openai:gpt-5")
        .file(".env", &format!("OPENAI_BASE_URL={}/v1", server.address()))
        .start();
    let id = agent.request("initialize", json!({ "protocolVersion": "0.0.9" })).await;
    assert_eq!(agent.answer_to(id).await["result"]["isAuthenticated"], false);
    let id = agent.prompt("hi").await;
    let answer = agent.answer_to(id).await;
    let details = answer["error"]["data"]["details"].as_str().unwrap();
    for named in
        ["OPENAI_API_KEY", "`tandem login --provider openai`", "https://", "OPENAI_BASE_URL"]
    {
        assert!(details.contains(named), "{details}");
    }
    assert!(server.asked().is_empty());
}

#[tokio::test]
async fn another_providers_model_is_set_in_the_middle() {
    let server = start(vec![text("I am another.")]).await;
    let gemini = Server::start(vec![Reply::text("I am Gemini.")]).await;
    let mut agent = Setup::default()
        .arg("--model")
        .arg("gemini-3.8-flash")
        .var("GOOGLE_GEMINI_BASE_URL", gemini.address())
        .var("OPENAI_BASE_URL", &format!("{}/v1", server.address()))
        .start();
    let id = agent.prompt("who are you?").await;
    assert_eq!(said(&agent.until_answered(id, "allow").await), "I am Gemini.");
    let id = agent.prompt("/model set openai:qwen3:8b").await;
    let shown = said(&agent.until_answered(id, "allow").await);
    assert_eq!(shown, "The model is now `openai:qwen3:8b`.");
    let id = agent.prompt("and now?").await;
    assert_eq!(said(&agent.until_answered(id, "allow").await), "I am another.");
    let asked = server.asked();
    assert_eq!(asked[0].body["model"], "qwen3:8b");
    let messages = asked[0].body["messages"].as_array().unwrap();
    let told: Vec<_> =
        messages.iter().filter(|it| it["role"] == "assistant").map(|it| &it["content"]).collect();
    assert_eq!(told, ["I am Gemini."]);
    let id = agent.prompt("/model show").await;
    let shown = said(&agent.until_answered(id, "allow").await);
    assert!(shown.starts_with("The model is `openai:qwen3:8b`."), "{shown}");
}

/// Asks an agent that names the model `smol` alone, and another model afterwards.
#[tokio::test]
async fn an_id_without_a_provider_is_of_the_only_server_that_is_set_up() {
    let models = json!({ "data": [{ "id": "smol" }, { "id": "tall" }] });
    let replies = vec![text("I am smol."), text("I am tall.")];
    let server = Server::with_pages(replies, &[("/v1/models", models)]).await;
    let mut agent = Setup::default()
        .arg("--model")
        .arg("smol")
        .var("OPENAI_BASE_URL", &format!("{}/v1", server.address()))
        .start();
    let mut shown = Vec::new();
    for prompt in ["hi", "/model", "/model set tall", "hi"] {
        let id = agent.prompt(prompt).await;
        shown.push(said(&agent.until_answered(id, "allow").await));
    }
    assert_eq!(shown[0], "I am smol.");
    assert!(shown[1].starts_with("The model is `openai:smol`. Known models:\n"), "{}", shown[1]);
    let listed = format!(
        "\nOpenAI at {}:\n\n- `openai:smol` (this one)\n- `openai:tall`\n",
        server.address()
    );
    assert!(shown[1].ends_with(&listed), "{}", shown[1]);
    assert!(shown[2].starts_with("The model is now `openai:tall`."), "{}", shown[2]);
    assert_eq!(shown[3], "I am tall.");
    let asked: Vec<_> = server.asked().iter().map(|asked| asked.body["model"].clone()).collect();
    assert_eq!(asked, ["smol", "tall"]);
}
