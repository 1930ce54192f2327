//! The first message, and the agent's description of itself.

use serde_json::{Value, json};

use super::Editor;
use crate::agent::Setup;

/// Sends a first line; the answer.
async fn answer_to(line: &str) -> Value {
    let mut agent = Setup::default().arg("--acp").start();
    agent.send_line(line).await;
    agent.message().await
}

/// Returns the protocol's version in an answer, or the error's code.
fn version(answer: &Value) -> &Value {
    answer.get("error").map_or(&answer["result"]["protocolVersion"], |error| &error["code"])
}

/// First lines of clients, as these were seen to send them, and the version of the answer.
const FIRST_LINES: &[(&str, &str, &str)] = &[
    (
        "the crate agentic-coding-protocol 0.0.9",
        r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"0.0.9"}}"#,
        r#""0.0.9""#,
    ),
    (
        "the crate agentic-coding-protocol 0.0.8",
        r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"0.0.8"}}"#,
        r#""0.0.9""#,
    ),
    (
        "the crate agentic-coding-protocol 0.0.7",
        r#"{"jsonrpc":"2.0","id":0,"method":"initialize"}"#,
        r#""0.0.9""#,
    ),
    (
        "the crate agentic-coding-protocol 0.0.11",
        r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"0.0.11","contextServers":{}}}"#,
        r#""0.0.9""#,
    ),
    (
        "Zed of August 2025, which took an answer with a string for an agent of 0.0.10",
        r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":1,"clientCapabilities":{"fs":{"readTextFile":true,"writeTextFile":true}}}}"#,
        "1",
    ),
    (
        "SDK for Rust 5.0.0",
        r#"{"jsonrpc":"2.0","id":"53dfa5a7-0000-4000-8000-000000000000","method":"initialize","params":{"protocolVersion":1,"clientCapabilities":{"fs":{"readTextFile":false,"writeTextFile":false},"terminal":false,"auth":{"terminal":false}}}}"#,
        "1",
    ),
    (
        "SDK for Rust 5.0.0, as a client of version 2",
        r#"{"jsonrpc":"2.0","id":"a4140000-0000-4000-8000-000000000000","method":"initialize","params":{"protocolVersion":2,"info":{"name":"x","version":"5.0.0"},"capabilities":{}}}"#,
        "1",
    ),
    (
        "a client of both versions, which sends the shapes of both",
        r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":2,"clientInfo":{"name":"kit","version":"0.1.134"},"clientCapabilities":{"session":{"compaction":{}}},"info":{"name":"kit","version":"0.1.134"},"capabilities":{}}}"#,
        "1",
    ),
    (
        "SDK for TypeScript 2.4.0",
        r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":1,"clientCapabilities":{},"clientInfo":{"name":"x","version":"1.0.0"}}}"#,
        "1",
    ),
    (
        "npm package 0.4.5",
        r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":1,"clientCapabilities":{"fs":{"readTextFile":false,"writeTextFile":false}}}}"#,
        "1",
    ),
    (
        "SDK for Python 0.12.1",
        r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":1,"clientCapabilities":{"fs":{"readTextFile":true,"writeTextFile":true},"auth":{}}}}"#,
        "1",
    ),
    (
        "acpx 0.19.1",
        r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":1,"clientCapabilities":{"fs":{"readTextFile":true,"writeTextFile":true},"terminal":true},"clientInfo":{"name":"acpx","version":"0.19.1"}}}"#,
        "1",
    ),
    (
        "Neovim with CodeCompanion",
        r#"{"method":"initialize","params":{"protocolVersion":1,"clientCapabilities":{"fs":{"writeTextFile":true,"readTextFile":true}},"clientInfo":{"name":"CodeCompanion.nvim","version":"1.0.0"}},"jsonrpc":"2.0","id":1}"#,
        "1",
    ),
    (
        "Emacs with acp.el",
        r#"{"jsonrpc":"2.0","method":"initialize","id":1,"params":{"protocolVersion":1,"clientCapabilities":{"fs":{"readTextFile":false,"writeTextFile":false}}}}"#,
        "1",
    ),
    (
        "Zed",
        r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":1,"clientCapabilities":{"fs":{"readTextFile":true,"writeTextFile":true},"terminal":true,"auth":{"terminal":true},"_meta":{"terminal_output":true,"terminal-auth":true}},"clientInfo":{"name":"zed","version":"1.20.0"}}}"#,
        "1",
    ),
    (
        "the registry's check",
        r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":1,"clientCapabilities":{"terminal":true,"fs":{"readTextFile":true,"writeTextFile":true},"_meta":{"terminal_output":true,"terminal-auth":true}},"clientInfo":{"name":"ACP Registry Validator","version":"1.0.0"}}}"#,
        "1",
    ),
    (
        "acplint",
        r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"1","clientCapabilities":{}}}"#,
        "1",
    ),
];

#[tokio::test]
async fn the_first_lines_of_real_clients_are_answered_in_their_version() {
    for (client, line, expected) in FIRST_LINES {
        let answer = answer_to(line).await;
        let expected: Value = serde_json::from_str(expected).unwrap();
        assert_eq!(*version(&answer), expected, "{client}: {answer}");
        let sent: Value = serde_json::from_str(line).unwrap();
        assert_eq!(answer["id"], sent["id"], "{client}");
        let has_methods =
            answer["result"]["authMethods"].as_array().is_some_and(|it| !it.is_empty());
        assert_eq!(has_methods, expected == 1, "{client}: {answer}");
    }
}

#[tokio::test]
async fn the_version_that_initialize_names_decides_which_is_spoken() {
    for (params, expected) in [
        (json!({ "protocolVersion": 1 }), json!(1)),
        (json!({ "protocolVersion": 0 }), json!(1)),
        (json!({ "protocolVersion": 65535 }), json!(1)),
        (json!({ "protocolVersion": 1, "clientCapabilities": 5, "clientInfo": [] }), json!(1)),
        (
            json!({ "protocolVersion": 1, "clientCapabilities": { "auth": 5, "_meta": 7 } }),
            json!(1),
        ),
        (json!({}), json!("0.0.9")),
        (json!({ "protocolVersion": null }), json!("0.0.9")),
        (json!({ "protocolVersion": "2025-06-18" }), json!(-32602)),
        (json!({ "protocolVersion": [1] }), json!(-32602)),
        (json!({ "protocolVersion": -1 }), json!(-32602)),
        (json!({ "clientCapabilities": {} }), json!(-32602)),
        (json!({ "info": {} }), json!(-32602)),
        (json!([]), json!(-32602)),
    ] {
        let line = json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params });
        assert_eq!(*version(&answer_to(&line.to_string()).await), expected, "{params}");
    }
}

#[tokio::test]
async fn a_first_message_that_is_no_initialize_decides_too() {
    let cwd = "/";
    for (method, params, is_v1) in [
        ("sendUserMessage", json!({ "chunks": [{ "text": "/about" }] }), false),
        ("cancelSendMessage", Value::Null, false),
        ("authenticate", Value::Null, false),
        ("authenticate", json!({ "methodId": "gemini-api-key" }), true),
        ("logout", json!({}), true),
        ("session/new", json!({ "cwd": cwd }), true),
        ("session/list", json!({}), true),
        ("session/prompt", json!({ "sessionId": "x", "prompt": [] }), true),
    ] {
        let mut agent = Setup::default().arg("--acp").start();
        agent.request(method, params.clone()).await;
        // Only version 1 has `session/list`.
        let id = agent.request("session/list", json!({})).await;
        let answer = agent.answer_to(id).await;
        assert_eq!(answer.get("result").is_some(), is_v1, "{method} {params}: {answer}");
    }
}

#[tokio::test]
async fn a_client_of_version_2_is_read_as_far_as_it_means_the_same() {
    let params = json!({
        "protocolVersion": 2,
        "info": { "name": "zed", "version": "9" },
        "capabilities": { "auth": { "terminal": {} }, "_meta": { "terminal_output": true } },
    });
    let args = json!({ "file_path": "a.txt", "content": "new\n" });
    let call = json!({ "call": { "name": "write_file", "args": args } });
    let setup = Setup::answers(json!([[call], [{ "text": "done" }]]));
    let mut editor = Editor::with(&setup, params).await;
    assert_eq!(editor.initialized["protocolVersion"], 1);
    assert_eq!(editor.initialized["authMethods"][1]["type"], "terminal");
    let session = editor.session().await;
    editor.prompt(&session, "go").await;
    let question = editor.sent("session/request_permission").await;
    let options = question["params"]["options"].as_array().unwrap();
    assert!(options.len() > 3, "it is known to show names: {question}");
}

#[tokio::test]
async fn of_a_client_of_both_versions_the_shape_of_version_1_counts() {
    let params = json!({
        "protocolVersion": 2,
        "clientInfo": { "name": "zed", "version": "9" },
        "clientCapabilities": { "auth": { "terminal": true } },
        "info": { "name": "other", "version": "9" },
        "capabilities": { "auth": {} },
    });
    let editor = Editor::with(&Setup::default(), params).await;
    assert_eq!(editor.initialized["protocolVersion"], 1);
    assert_eq!(editor.initialized["authMethods"][1]["type"], "terminal");
}

#[tokio::test]
async fn a_right_initialize_may_follow_a_wrong_one_and_be_repeated() {
    let mut editor = Editor::silent(&Setup::default());
    let wrong = editor.call("initialize", json!({ "protocolVersion": "2025-06-18" })).await;
    assert!(wrong["error"]["message"].as_str().unwrap().contains("integer"), "{wrong}");
    for _ in 0..2 {
        let right = editor.call("initialize", json!({ "protocolVersion": 1 })).await;
        assert_eq!(right["result"]["protocolVersion"], 1);
    }
    let old = editor.call("initialize", json!({ "protocolVersion": "0.0.9" })).await;
    assert_eq!(old["result"]["protocolVersion"], 1, "the version stays");
}

#[tokio::test]
async fn a_first_message_that_is_no_initialize_is_served() {
    let mut editor = Editor::silent(&Setup::default());
    let session = editor.session().await;
    assert!(!session.is_empty());
}

#[tokio::test]
async fn nothing_is_written_before_the_first_session() {
    let editor = Editor::start(&Setup::default()).await;
    let home = editor.cwd().parent().unwrap().to_owned();
    let mut names: Vec<_> =
        std::fs::read_dir(home).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["script.jsonl", "workspace"]);
}

#[tokio::test]
pub(super) async fn terminal_logins_are_offered_to_whoever_can_show_them() {
    let methods = async |capabilities: Value| {
        let params = json!({ "protocolVersion": 1, "clientCapabilities": capabilities });
        let editor = Editor::with(&Setup::default(), params).await;
        editor.initialized["authMethods"].clone()
    };
    let agent = json!({
        "id": "gemini-api-key",
        "name": "Gemini API key",
        "description": "Opens a page in your browser that asks for the key",
    });
    let args = json!(["login", "--provider=gemini"]);
    assert_eq!(methods(json!({})).await, json!([agent]));
    let terminal = json!({
        "type": "terminal", "id": "login", "name": "Log in in a terminal", "args": args,
    });
    let both = json!([agent, terminal]);
    assert_eq!(methods(json!({ "auth": { "terminal": true } })).await, both);
    assert_eq!(methods(json!({ "auth": { "terminal": {} } })).await, both);
    let old = methods(json!({ "_meta": { "terminal-auth": true } })).await;
    assert_eq!(old[0]["_meta"]["terminal-auth"]["args"], args);
}

#[tokio::test]
async fn a_model_without_a_key_asks_for_one() {
    let setup = Setup::default().arg("--model").arg("gemini-2.5-flash");
    let mut editor = Editor::start(&setup).await;
    let session = editor.session().await;
    let answer = editor.ask(&session, "hello").await.pop().unwrap();
    assert_eq!(answer["error"]["code"], -32000, "{answer}");
    assert!(answer["error"]["message"].as_str().unwrap().contains("tandem login"), "{answer}");
    let help = editor.ask(&session, "/help").await.pop().unwrap();
    assert_eq!(help["result"]["stopReason"], "end_turn", "a command needs no model");
}

#[tokio::test]
async fn authenticate_does_nothing_if_there_is_nothing_to_do() {
    let mut editor = Editor::start(&Setup::default()).await;
    let answer = editor.call("authenticate", json!({ "methodId": "gemini-api-key" })).await;
    assert_eq!(answer["result"], json!({}));
    let answer = editor.call("authenticate", json!({ "methodId": "other" })).await;
    assert_eq!(answer["error"]["code"], -32602);
}

#[tokio::test]
async fn unknown_requests_are_refused_and_unknown_notifications_are_passed_over() {
    let mut editor = Editor::start(&Setup::default()).await;
    editor.notify("_vendor/news", json!({})).await;
    editor.notify("session/cancel", json!({ "sessionId": "none" })).await;
    for method in ["session/fork", "_vendor/ask", "sendUserMessage", "$/x"] {
        let answer = editor.call(method, json!({})).await;
        assert_eq!(answer["error"]["code"], -32601, "{method}");
    }
}
