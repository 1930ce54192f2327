//! Requests of a conformance test: wrong ids and types, large prompts, slow readers, requests at odd moments.

use serde_json::{Value, json};

use super::{Editor, stop_reason, text, updates};
use crate::agent::{Setup, code};

/// Line that the model repeats, with a number, because equal lines would be stopped as a loop.
const MUCH: &str = "Line {n} of very many, each of which says nothing but that it is one of them, and that it is long.\n";

fn talks() -> Setup {
    Setup::script(vec![
        json!({ "when": "hang", "answers": [[{ "text": "begun" }, { "hang": null }]] }),
        json!({ "when": "much", "answers": [[{ "repeat": { "text": MUCH, "times": 20_000 } }]] }),
        json!({ "when": "", "answers": [[{ "text": "fine" }]] }),
    ])
}

#[tokio::test]
async fn each_method_refuses_sessions_that_are_not_open_and_values_of_wrong_types() {
    let mut editor = Editor::start(&talks()).await;
    let session = editor.session().await;
    let prompt = json!([{ "type": "text", "text": "x" }]);
    for (method, more) in [
        ("session/prompt", json!({ "prompt": prompt })),
        ("_session/steering", json!({ "prompt": prompt })),
        ("session/set_mode", json!({ "modeId": "plan" })),
        ("session/set_model", json!({ "modelId": "gemini-2.5-pro" })),
        ("session/set_config_option", json!({ "configId": "mode", "value": "plan" })),
        ("session/load", json!({ "cwd": editor.cwd() })),
        ("session/resume", json!({ "cwd": editor.cwd() })),
        ("session/close", json!({})),
    ] {
        for (id, code) in [(json!("none"), -32002), (json!(5), -32602), (Value::Null, -32602)] {
            let mut params = more.clone();
            params["sessionId"] = id;
            let answer = editor.call(method, params.clone()).await;
            assert_eq!(answer["error"]["code"], code, "{method} {params}");
        }
        for (key, _) in more.as_object().unwrap() {
            let mut params = more.clone();
            params["sessionId"] = session.clone().into();
            params[key] = json!({ "odd": 5 });
            let answer = editor.call(method, params.clone()).await;
            assert_eq!(answer["error"]["code"], -32602, "{method} {params}");
        }
    }
    assert_eq!(stop_reason(&editor.ask(&session, "go").await), "end_turn");
}

#[tokio::test]
async fn ids_are_answered_as_they_were_written_and_unknown_keys_passed_over() {
    let mut editor = Editor::start(&talks()).await;
    for id in ["null", "-1", "9223372036854775807", "\"a-1\"", "\"\""] {
        let line = format!(
            r#"{{"method":"session/list","_meta":{{"traceparent":"x"}},"params":{{"_meta":{{"a":1}},"other":[]}},"id":{id},"jsonrpc":"2.0"}}"#
        );
        editor.agent.send_line(&line).await;
        let answer = editor.agent.line().await.unwrap();
        assert!(answer.contains(&format!("\"id\":{id},\"result\"")), "{answer}");
    }
}

#[tokio::test]
async fn a_prompt_of_5_megabytes_is_taken_and_loaded_again() {
    let mut editor = Editor::start(&talks()).await;
    let session = editor.session().await;
    let long = code(5_000_000);
    assert_eq!(stop_reason(&editor.ask(&session, &long).await), "end_turn");
    editor.call("session/close", json!({ "sessionId": session })).await;
    let params = json!({ "sessionId": session, "cwd": editor.cwd() });
    let id = editor.request("session/load", params).await;
    assert_eq!(text(&editor.until(id).await, "user_message_chunk"), long);
}

#[tokio::test]
async fn an_editor_that_reads_late_gets_all_in_order() {
    let mut editor = Editor::start(&talks()).await;
    let session = editor.session().await;
    let (first, second) =
        (editor.prompt(&session, "much").await, editor.prompt(&session, "go").await);
    // The editor reads nothing until the agent waits for it: by then the pipe is full.
    let listed = editor.request("session/list", json!({})).await;
    let read = editor.until(first).await;
    let all = text(&read, "agent_message_chunk");
    let expected: String = (0..20_000).map(|n| MUCH.replace("{n}", &n.to_string())).collect();
    assert!(all.len() > 2_000_000 && all == expected, "{} bytes", all.len());
    let mut after = editor.until(second).await;
    if !read.iter().chain(&after).any(|message| message["id"] == listed) {
        after.extend(editor.until(listed).await);
    }
    assert_eq!(text(&after, "agent_message_chunk"), "fine");
}

#[tokio::test]
async fn options_can_be_set_while_a_turn_runs() {
    let mut editor = Editor::start(&talks()).await;
    let session = editor.session().await;
    let prompt = editor.prompt(&session, "hang").await;
    editor.update("agent_message_chunk").await;
    let params = json!({ "sessionId": session, "configId": "mode", "value": "plan" });
    let set = editor.call("session/set_config_option", params).await;
    assert_eq!(set["result"]["configOptions"][0]["currentValue"], "plan");
    let params = json!({ "sessionId": session, "configId": "model", "value": "gemini-2.5-pro" });
    let set = editor.call("session/set_config_option", params).await;
    assert_eq!(set["result"]["configOptions"][1]["currentValue"], "gemini-2.5-pro");
    editor.notify("session/cancel", json!({ "sessionId": session })).await;
    assert_eq!(stop_reason(&editor.until(prompt).await), "cancelled");
}

#[tokio::test]
async fn a_session_is_resumed_and_closed_and_loaded_again_and_again() {
    let mut editor = Editor::start(&talks()).await;
    let session = editor.session().await;
    editor.ask(&session, "go").await;
    for n in 1..4 {
        editor.call("session/close", json!({ "sessionId": session })).await;
        let params = json!({ "sessionId": session, "cwd": editor.cwd() });
        editor.call("session/resume", params.clone()).await;
        assert_eq!(stop_reason(&editor.ask(&session, "go").await), "end_turn");
        editor.call("session/close", json!({ "sessionId": session })).await;
        let id = editor.request("session/load", params).await;
        let read = editor.until(id).await;
        assert_eq!(updates(&read, "user_message_chunk").len(), n + 1, "{read:?}");
        assert_eq!(text(&read, "agent_message_chunk"), "fine".repeat(n + 1));
        let commands = editor.update("available_commands_update").await;
        assert!(!commands["availableCommands"].as_array().unwrap().is_empty());
    }
}

#[tokio::test]
async fn a_request_that_is_cancelled_is_answered_once() {
    let mut editor = Editor::start(&talks()).await;
    let session = editor.session().await;
    editor.ask(&session, "go").await;
    editor.call("session/close", json!({ "sessionId": session })).await;
    let params = json!({ "sessionId": session, "cwd": editor.cwd() });
    for (method, params) in [
        ("session/load", params),
        ("session/list", json!({})),
        ("session/new", json!({ "cwd": "/" })),
    ] {
        let id = editor.request(method, params).await;
        editor.notify("$/cancel_request", json!({ "requestId": id })).await;
        let answer = editor.until(id).await.pop().unwrap();
        let code = &answer["error"]["code"];
        assert!(code.is_null() || *code == -32800, "{method}: {answer}");
    }
    let other = editor.session().await;
    assert_eq!(stop_reason(&editor.ask(&other, "go").await), "end_turn");
}
