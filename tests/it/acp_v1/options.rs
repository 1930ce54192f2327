//! How much the model thinks.

use serde_json::{Value, json};
use test_support::api_server::{Reply, Server};

use super::{Editor, updates};
use crate::agent::Setup;

/// Returns a setup with a Gemini model at this server.
fn setup(server: &Server) -> Setup {
    Setup::default()
        .arg("--model")
        .arg("gemini-2.5-flash")
        .var("GEMINI_API_KEY", "AIzaSyOptions0123456789")
        .var("OPENAI_API_KEY", "sk-options0123456789")
        .var("GOOGLE_GEMINI_BASE_URL", server.address())
}

/// Returns the thinking option of a result or an update; `None` if there is none.
fn thinking(result: &Value) -> Option<&Value> {
    result["configOptions"].as_array().unwrap().iter().find(|it| it["id"] == "thinking")
}

/// Returns the chosen level; `None` without such an option.
fn level(result: &Value) -> Option<&str> {
    thinking(result)?["currentValue"].as_str()
}

async fn set(editor: &mut Editor, session: &str, option: &str, value: &str) -> Value {
    let params = json!({ "sessionId": session, "configId": option, "value": value });
    editor.call("session/set_config_option", params).await
}

#[tokio::test]
async fn how_much_the_model_thinks_is_an_option_where_it_can_be_chosen() {
    let server = Server::start(vec![]).await;
    let mut editor = Editor::start(&setup(&server)).await;
    let new = editor.call("session/new", json!({ "cwd": editor.cwd() })).await["result"].clone();
    let session = new["sessionId"].as_str().unwrap().to_owned();
    let option = thinking(&new).unwrap();
    assert_eq!(option["category"], "thought_level");
    assert_eq!(option["currentValue"], "default");
    let values = option["options"].as_array().unwrap().iter().map(|it| it["value"].as_str());
    let values: Vec<_> = values.map(Option::unwrap).collect();
    assert_eq!(values, ["default", "auto", "off", "low", "medium", "high"]);

    assert_eq!(level(&set(&mut editor, &session, "thinking", "low").await["result"]), Some("low"));
    let refused = set(&mut editor, &session, "thinking", "xhigh").await;
    assert_eq!(refused["error"]["code"], -32602);
    // A model that has the level keeps it, also one of another provider. A model without the level does not.
    for (model, expected) in [
        ("openai:gpt-5", Some("low")),
        ("gemini-2.0-flash", None),
        ("gemini-3.8-flash", Some("default")),
    ] {
        let changed = set(&mut editor, &session, "model", model).await;
        assert_eq!(level(&changed["result"]), expected, "{model}");
    }
}

#[tokio::test]
async fn a_level_that_a_command_sets_is_shown() {
    let server = Server::start(vec![]).await;
    let mut editor = Editor::start(&setup(&server)).await;
    let session = editor.session().await;
    let read = editor.ask(&session, "/thinking high").await;
    let shown = updates(&read, "config_option_update");
    assert_eq!(shown.iter().map(level).collect::<Vec<_>>(), [Some("high")]);
}

#[tokio::test]
async fn a_session_that_is_loaded_thinks_as_much_as_before() {
    let server = Server::start(vec![Reply::text("one"), Reply::text("two")]).await;
    let mut editor = Editor::start(&setup(&server)).await;
    let session = editor.session().await;
    set(&mut editor, &session, "thinking", "off").await;
    editor.ask(&session, "one").await;
    editor.call("session/close", json!({ "sessionId": session })).await;
    let params = json!({ "sessionId": session, "cwd": editor.cwd(), "mcpServers": [] });
    let loaded = editor.call("session/load", params).await;
    assert_eq!(level(&loaded["result"]), Some("off"));
    editor.ask(&session, "two").await;
    let off = json!({ "includeThoughts": false, "thinkingBudget": 0 });
    let asked = server.asked();
    assert_eq!(asked.len(), 2);
    for asked in asked {
        assert_eq!(asked.body["generationConfig"]["thinkingConfig"], off);
    }
}
