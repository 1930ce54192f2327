//! Options that editors set in a session.

use serde_json::{Value, json};

use super::{Editor, text, updates};
use crate::agent::Setup;
use test_support::api_server::{Server, openai};

fn editor_setup() -> Setup {
    Setup::answers(json!([[{ "text": "fine" }]]))
}

/// Returns the value of an option.
fn value<'a>(result: &'a Value, option: &str) -> &'a Value {
    let options = result["configOptions"].as_array().unwrap();
    &options.iter().find(|it| it["id"] == option).unwrap()["currentValue"]
}

#[tokio::test]
pub(super) async fn the_mode_is_one_wherever_it_is_changed() {
    let mut editor = Editor::start(&editor_setup()).await;
    let new = editor.call("session/new", json!({ "cwd": editor.cwd() })).await["result"].clone();
    let session = new["sessionId"].clone();
    assert_eq!(new["modes"]["currentModeId"], "default");
    assert_eq!(value(&new, "mode"), "default");
    let params = json!({ "sessionId": session, "modeId": "plan" });
    assert_eq!(editor.call("session/set_mode", params).await["result"], json!({}));
    assert_eq!(editor.update("current_mode_update").await["currentModeId"], "plan");
    assert_eq!(value(&editor.update("config_option_update").await, "mode"), "plan");
    let params = json!({ "sessionId": session, "configId": "mode", "value": "auto_edit" });
    let set = editor.call("session/set_config_option", params).await;
    assert_eq!(value(&set["result"], "mode"), "auto_edit");
    let params = json!({ "sessionId": session, "cwd": editor.cwd() });
    let resumed = editor.call("session/resume", params).await;
    assert_eq!(resumed["result"]["modes"]["currentModeId"], "auto_edit");
}

#[tokio::test]
async fn a_mode_that_a_command_changes_is_shown() {
    let mut editor = Editor::start(&editor_setup()).await;
    let session = editor.session().await;
    let read = editor.ask(&session, "/plan").await;
    assert_eq!(updates(&read, "current_mode_update")[0]["currentModeId"], "plan");
}

#[tokio::test]
pub(super) async fn the_model_can_be_changed() {
    let mut editor = Editor::start(&editor_setup()).await;
    let new = editor.call("session/new", json!({ "cwd": editor.cwd() })).await["result"].clone();
    assert_eq!(value(&new, "model"), "replay");
    let options = new["configOptions"][1]["options"].as_array().unwrap();
    assert!(options.iter().any(|it| it["value"] == "gemini-2.5-flash"));
    let session = new["sessionId"].clone();
    for (method, key, extra) in [
        ("session/set_config_option", "value", json!({ "configId": "model" })),
        ("session/set_model", "modelId", json!({})),
    ] {
        for model in ["gemini-2.5-pro", "gemini-2.5-flash"] {
            let mut params = json!({ "sessionId": session });
            params[key] = model.into();
            params.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
            let set = editor.call(method, params).await;
            assert!(set.get("error").is_none(), "{set}");
            assert_eq!(value(&editor.update("config_option_update").await, "model"), model);
        }
    }
}

#[tokio::test]
async fn models_of_this_machine_are_offered_after_the_session_is_open() {
    let list = json!({ "object": "list", "data": [{ "id": "smol.gguf" }] });
    let replies = vec![openai::text("I am here.")];
    let server = Server::with_pages(replies, &[("/v1/models", list)]).await;
    let url = format!("{}/v1", server.address());
    let settings = json!({ "modelServers": { "llamacpp": { "url": url } } });
    let setup = editor_setup().file("../.gemini/settings.json", &settings.to_string());
    let mut editor = Editor::start(&setup).await;
    let session = editor.session().await;
    let models = |shown: &Value| {
        let options = shown["configOptions"].as_array().unwrap();
        let model = options.iter().find(|option| option["id"] == "model").unwrap();
        let values = model["options"].as_array().unwrap().iter();
        values.map(|value| value["value"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let update = editor.update("config_option_update").await;
    assert_eq!(models(&update).last().unwrap(), "llamacpp:smol.gguf");
    let params =
        json!({ "sessionId": session, "configId": "model", "value": "llamacpp:smol.gguf" });
    let set = editor.call("session/set_config_option", params).await;
    assert_eq!(value(&set["result"], "model"), "llamacpp:smol.gguf");
    assert_eq!(models(&set["result"])[0], "llamacpp:smol.gguf", "it is offered still");
    editor.ask(&session, "hi").await;
    assert_eq!(server.asked()[0].body["model"], "smol.gguf");
}

#[tokio::test]
async fn unknown_options_and_values_are_refused() {
    let mut editor = Editor::start(&editor_setup()).await;
    let session = editor.session().await;
    for (option, value) in [
        ("mode", json!("root")),
        ("model", json!("no-such-model")),
        ("color", json!("red")),
        ("mode", json!(true)),
    ] {
        let params = json!({ "sessionId": session, "configId": option, "value": value });
        let answer = editor.call("session/set_config_option", params).await;
        assert_eq!(answer["error"]["code"], -32602, "{option} {value}");
    }
    let params = json!({ "sessionId": "none", "modeId": "plan" });
    assert_eq!(editor.call("session/set_mode", params).await["error"]["code"], -32002);
}

#[tokio::test]
async fn a_change_of_the_model_counts_for_the_prompt_behind_it() {
    let line = json!({ "when": "", "answers": [[{ "text": "other" }]] }).to_string();
    let setup = editor_setup().file("other.jsonl", &line);
    let mut editor = Editor::start(&setup).await;
    let session = editor.session().await;
    let other = format!("replay:{}", editor.cwd().join("other.jsonl").display());
    for (method, mut params) in [
        ("session/set_model", json!({ "modelId": other })),
        ("session/set_config_option", json!({ "configId": "model", "value": other })),
    ] {
        let back = json!({ "sessionId": session, "modelId": "replay" });
        editor.call("session/set_model", back).await;
        params["sessionId"] = session.clone().into();
        let set = editor.request(method, params).await;
        let prompt = editor.prompt(&session, "go").await;
        assert!(editor.until(set).await.pop().unwrap().get("error").is_none());
        let read = editor.until(prompt).await;
        assert_eq!(text(&read, "agent_message_chunk"), "other", "{method}");
    }
}
