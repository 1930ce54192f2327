//! Editors with ACP 1 that share a process with other editors.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};
use tempfile::TempDir;

use super::server::{Shared, prompt, shared_with, write};
use super::socket::Socket;
use crate::agent::{Agent, Setup};

fn says() -> Setup {
    Setup::answers(json!([[{ "text": "hello" }]])).file("below/x", "")
}

/// Starts an agent whose editor has begun a session; returns the session's id, too.
async fn begun(setup: &Setup) -> (Shared, String) {
    let mut it = shared_with(setup, json!({ "protocolVersion": 1 })).await;
    let id = it.editor.request("session/new", json!({ "cwd": it.editor.workspace() })).await;
    let answer = it.editor.answer_to(id).await;
    let session = answer["result"]["sessionId"].as_str().unwrap().to_owned();
    (it, session)
}

async fn initialized(it: &Shared) -> Socket {
    let mut socket = it.client.socket_at("/acp").await;
    let hello = socket.call(0, "initialize", json!({ "protocolVersion": 1 })).await;
    assert_eq!(hello["result"]["protocolVersion"], 1);
    socket
}

async fn ask(it: &mut Shared, session: &str, text: &str) {
    let prompt = json!([{ "type": "text", "text": text }]);
    let params = json!({ "sessionId": session, "prompt": prompt });
    let id = it.editor.request("session/prompt", params).await;
    assert_eq!(it.editor.answer_to(id).await["result"]["stopReason"], "end_turn");
}

/// Returns the text of the next update of this kind.
async fn update(it: &mut Shared, kind: &str) -> Value {
    loop {
        let update = it.editor.call_of("session/update").await["params"]["update"].clone();
        if update["sessionUpdate"] == kind {
            return update["content"]["text"].clone();
        }
    }
}

#[tokio::test]
async fn the_first_session_of_the_editor_is_the_one_that_others_join() {
    let (mut it, session) = begun(&says()).await;
    let task = it.client.result("message/send", prompt("from afar")).await;
    assert_eq!(task["contextId"], session.as_str());
    assert_eq!(update(&mut it, "user_message_chunk").await, "from afar");
    assert_eq!(update(&mut it, "agent_message_chunk").await, "hello");
}

#[tokio::test]
async fn each_session_of_the_editor_is_a_context() {
    let (mut it, first) = begun(&says()).await;
    let id = it.editor.request("session/new", json!({ "cwd": it.editor.workspace() })).await;
    let second = it.editor.answer_to(id).await["result"]["sessionId"].clone();
    assert_ne!(second, first.as_str());
    let mut message = prompt("to the second");
    message["message"]["contextId"] = second.clone();
    let task = it.client.result("message/send", message).await;
    assert_eq!(task["contextId"], second);
    let is_prompt = |it: &Value| it["params"]["update"]["sessionUpdate"] == "user_message_chunk";
    let shown = loop {
        let shown = it.editor.call_of("session/update").await;
        if is_prompt(&shown) {
            break shown;
        }
    };
    assert_eq!(shown["params"]["sessionId"], second);
}

#[tokio::test]
async fn attached_terminals_choose_among_the_sessions_of_the_editor() {
    let (mut it, first) = begun(&says()).await;
    let id = it.editor.request("session/new", json!({ "cwd": it.editor.workspace() })).await;
    let second = it.editor.answer_to(id).await["result"]["sessionId"].clone();
    ask(&mut it, second.as_str().unwrap(), "go").await;
    let mut terminal = it.client.socket_at("/attach").await;
    let open = |which: Value| json!({ "version": tandem_wire::attach::PROTOCOL_VERSION, "terminal": "a", "session": which });
    let listed = terminal.call(0, "attach/open", open(json!({ "only": "/" }))).await;
    let listed = listed["result"]["choose"].as_array().unwrap().clone();
    assert_eq!((&listed[0]["id"], &listed[1]["id"]), (&second, &json!(first)));
    let opened = terminal.call(1, "attach/open", open(json!({ "id": second }))).await;
    assert_eq!(opened["result"]["opened"]["session"], second);
}

#[tokio::test]
async fn an_editor_on_a_socket_joins_a_session_that_is_open() {
    let (mut it, session) = begun(&says()).await;
    ask(&mut it, &session, "first").await;
    let mut socket = initialized(&it).await;
    let list = socket.call(1, "session/list", json!({})).await;
    assert_eq!(list["result"]["sessions"][0]["sessionId"], session.as_str(), "{list}");
    let params = json!({ "sessionId": session, "cwd": it.editor.workspace(), "mcpServers": [] });
    socket.send(2, "session/load", params).await;
    let read = socket.until(|it| it["id"] == 2).await;
    assert_eq!(read[0]["params"]["update"]["content"]["text"], "first");
    let block = json!([{ "type": "text", "text": "second" }]);
    socket.send(3, "session/prompt", json!({ "sessionId": session, "prompt": block })).await;
    let read = socket.until(|it| it["id"] == 3).await;
    assert_eq!(read.last().unwrap()["result"]["stopReason"], "end_turn");
    assert_eq!(update(&mut it, "user_message_chunk").await, "second");
}

#[tokio::test]
async fn an_editor_on_a_socket_sees_nothing_beyond_the_process() {
    let (mut it, session) = begun(&says()).await;
    ask(&mut it, &session, "go").await;
    let id = it.editor.request("session/close", json!({ "sessionId": session })).await;
    it.editor.answer_to(id).await;
    let id = it.editor.request("session/new", json!({ "cwd": it.editor.workspace() })).await;
    let stored = it.editor.answer_to(id).await["result"]["sessionId"].clone();
    ask(&mut it, stored.as_str().unwrap(), "go").await;
    let id = it.editor.request("session/close", json!({ "sessionId": stored })).await;
    it.editor.answer_to(id).await;
    let mut socket = initialized(&it).await;
    let list = socket.call(1, "session/list", json!({})).await;
    let sessions = list["result"]["sessions"].as_array().unwrap();
    assert!(sessions.iter().all(|it| it["sessionId"] != stored), "{list}");
    let params = json!({ "sessionId": stored, "cwd": it.editor.workspace() });
    let load = socket.call(2, "session/load", params).await;
    assert_eq!(load["error"]["code"], -32002, "{load}");
    let below = it.editor.workspace().join("below");
    for params in [json!({ "cwd": "/" }), json!({ "cwd": below, "additionalDirectories": ["/"] })] {
        let new = socket.call(3, "session/new", params).await;
        assert_eq!(new["error"]["code"], -32602, "{new}");
    }
    let new = socket.call(4, "session/new", json!({ "cwd": below })).await;
    assert!(new["result"]["sessionId"].is_string(), "{new}");
    let session = new["result"]["sessionId"].clone();
    for (method, params) in [
        ("session/set_mode", json!({ "sessionId": session, "modeId": "yolo" })),
        (
            "session/set_config_option",
            json!({ "sessionId": session, "configId": "mode", "value": "yolo" }),
        ),
        ("logout", json!({})),
        ("authenticate", json!({ "methodId": "gemini-api-key", "_meta": { "api-key": "k" } })),
    ] {
        let refused = socket.call(5, method, params).await;
        assert_eq!(refused["error"]["code"], -32603, "{refused}");
    }
}

#[tokio::test]
async fn an_editor_on_a_socket_is_not_told_where_the_user_enters_a_key() {
    let setup = Setup::default().arg("--model").arg("gemini-x").var("BROWSER", "true");
    let (it, _) = begun(&setup).await;
    let mut socket = initialized(&it).await;
    let params = json!({ "methodId": "gemini-api-key" });
    let answer = socket.call(1, "authenticate", params).await;
    assert_eq!(answer["result"], json!({}));
    let new = socket.call(2, "session/new", json!({ "cwd": it.editor.workspace() })).await;
    let block = json!([{ "type": "text", "text": "go" }]);
    let params = json!({ "sessionId": new["result"]["sessionId"], "prompt": block });
    socket.send(3, "session/prompt", params).await;
    let answer = socket.until(|it| it["id"] == 3).await.pop().unwrap();
    assert_eq!(answer["error"]["code"], -32000, "{answer}");
    assert!(!answer.to_string().contains("http://127.0.0.1"), "{answer}");
}

#[tokio::test]
async fn an_editor_on_a_socket_neither_gives_nor_gets_files() {
    let script = vec![
        json!({ "when": "on the disk", "answers": [[{ "text": "sees the disk's" }]] }),
        json!({ "when": "", "answers": [[{ "text": "sees nothing" }]] }),
    ];
    let setup = Setup::script(script).file("a.txt", "on the disk\n");
    let (it, session) = begun(&setup).await;
    let mut socket = it.client.socket_at("/acp").await;
    let fs = json!({ "readTextFile": true, "writeTextFile": true });
    let client = json!({ "protocolVersion": 1, "clientCapabilities": { "fs": fs } });
    socket.call(0, "initialize", client).await;
    let params = json!({ "sessionId": session, "cwd": it.editor.workspace(), "mcpServers": [] });
    socket.call(1, "session/load", params).await;
    let block = json!([{ "type": "text", "text": "look at @a.txt" }]);
    socket.send(2, "session/prompt", json!({ "sessionId": session, "prompt": block })).await;
    let read = socket.until(|it| it["id"] == 2).await;
    assert!(!read.iter().any(|it| it["method"] == "fs/read_text_file"), "{read:?}");
    assert!(json!(read).to_string().contains("sees the disk's"), "{read:?}");
}

#[tokio::test]
async fn no_command_runs_in_a_terminal_of_an_editor_on_a_socket() {
    let args = json!({ "command": "touch x" });
    let call = json!({ "call": { "name": "run_shell_command", "args": args } });
    let setup = Setup::answers(json!([[call], [{ "text": "done" }]]))
        .file("../.gemini/settings.json", r#"{ "acp": { "clientTerminals": true } }"#)
        .arg("--approval-mode")
        .arg("yolo");
    let (it, session) = begun(&setup).await;
    let mut socket = it.client.socket_at("/acp").await;
    let client = json!({ "protocolVersion": 1, "clientCapabilities": { "terminal": true } });
    socket.call(0, "initialize", client).await;
    let params = json!({ "sessionId": session, "cwd": it.editor.workspace(), "mcpServers": [] });
    socket.call(1, "session/load", params).await;
    let block = json!([{ "type": "text", "text": "go" }]);
    socket.send(2, "session/prompt", json!({ "sessionId": session, "prompt": block })).await;
    let read = socket.until(|it| it["id"] == 2).await;
    assert!(!json!(read).to_string().contains("terminal/create"), "{read:?}");
    assert!(it.editor.workspace().join("x").exists(), "{read:?}");
}

/// Starts a second agent in the home of the first, and initializes it.
async fn second_agent(setup: &Setup, first: &Agent) -> Agent {
    let workspace = first.workspace();
    let child = setup.clone().arg("--acp").command(workspace.parent().unwrap()).spawn().unwrap();
    let mut second = Agent::of(child, TempDir::new().unwrap());
    let id = second.request("initialize", json!({ "protocolVersion": 1 })).await;
    second.answer_to(id).await;
    second
}

/// Reads until a request is answered, and allows every call that is asked about meanwhile.
async fn answered(agent: &mut Agent, id: u64) -> Vec<Value> {
    let mut read = Vec::new();
    loop {
        let message = agent.message().await;
        read.push(message.clone());
        match message["method"].as_str() {
            None if message["id"] == id => return read,
            Some("session/request_permission") => {
                let option = message["params"]["options"][0]["optionId"].clone();
                let outcome = json!({ "outcome": "selected", "optionId": option });
                agent.answer(&message, json!({ "outcome": outcome })).await;
            }
            _ => {}
        }
    }
}

/// Asks an agent to open a session; returns the messages of the agent, the answer last.
async fn open(agent: &mut Agent, method: &str, session: &str, directory: &Path) -> Vec<Value> {
    let params = json!({ "sessionId": session, "cwd": directory, "mcpServers": [] });
    let id = agent.request(method, params).await;
    answered(agent, id).await
}

async fn prompted(agent: &mut Agent, session: &str, text: &str) -> Vec<Value> {
    let block = json!([{ "type": "text", "text": text }]);
    let params = json!({ "sessionId": session, "prompt": block });
    let id = agent.request("session/prompt", params).await;
    answered(agent, id).await
}

/// Reads until an agent shows a text.
async fn shows(agent: &mut Agent, text: &str) {
    while agent.call_of("session/update").await["params"]["update"]["content"]["text"] != text {}
}

/// Returns the kind, and the text or title, of each update.
fn updates(messages: &[Value]) -> Vec<(&str, &str)> {
    let update = |message: &'_ Value| message.pointer("/params/update").is_some();
    let shown = messages.iter().filter(|message| update(message)).map(|message| {
        let update = &message["params"]["update"];
        let text = update["content"]["text"].as_str().or(update["title"].as_str());
        (update["sessionUpdate"].as_str().unwrap_or_default(), text.unwrap_or_default())
    });
    shown.collect()
}

#[tokio::test]
async fn a_session_that_another_process_has_open_is_joined_over_its_port() {
    let setup = Setup::script(vec![
        json!({ "when": "write", "answers": [[write("a.txt", "new\n")], [{ "text": "Written." }]] }),
        json!({ "when": "hang", "answers": [[{ "text": "Begun." }, { "hang": null }]] }),
        json!({ "when": "", "answers": [[{ "text": "Hello." }]] }),
    ]);
    let (mut it, session) = begun(&setup).await;
    ask(&mut it, &session, "first").await;
    let mut second = second_agent(&setup, &it.editor).await;
    let directory = it.editor.workspace();

    let loaded = open(&mut second, "session/load", &session, &directory).await;
    let shown = updates(&loaded);
    assert!(shown.contains(&("user_message_chunk", "first")), "{loaded:?}");
    assert!(shown.contains(&("agent_message_chunk", "Hello.")), "{loaded:?}");
    let result = &loaded.last().unwrap()["result"];
    assert!(result["modes"]["currentModeId"].is_string(), "{result}");

    // A question goes to the editor that joined, and the answer counts.
    let written = prompted(&mut second, &session, "write").await;
    assert!(written.iter().any(|it| it["method"] == "session/request_permission"), "{written:?}");
    assert_eq!(written.last().unwrap()["result"]["stopReason"], "end_turn", "{written:?}");
    assert_eq!(fs::read_to_string(directory.join("a.txt")).unwrap(), "new\n");
    assert_eq!(update(&mut it, "user_message_chunk").await, "write");

    // What the first editor asks for is shown to the second.
    ask(&mut it, &session, "again").await;
    shows(&mut second, "again").await;

    let block = json!([{ "type": "text", "text": "hang" }]);
    let params = json!({ "sessionId": session, "prompt": block });
    let id = second.request("session/prompt", params).await;
    shows(&mut second, "Begun.").await;
    let cancel =
        json!({ "jsonrpc": "2.0", "method": "session/cancel", "params": { "sessionId": session } });
    second.send_line(&cancel.to_string()).await;
    let cancelled = second.answer_to(id).await;
    assert_eq!(cancelled["result"]["stopReason"], "cancelled", "{cancelled}");

    let mode = json!({ "sessionId": session, "modeId": "yolo" });
    let id = second.request("session/set_mode", mode).await;
    let refused = second.answer_to(id).await;
    assert!(refused["error"]["message"].is_string(), "{refused}");

    let id = second.request("session/close", json!({ "sessionId": session })).await;
    assert_eq!(second.answer_to(id).await["result"], json!({}));
    let gone = prompted(&mut second, &session, "once more").await;
    assert_eq!(gone.last().unwrap()["error"]["code"], -32002, "{gone:?}");
    ask(&mut it, &session, "the first goes on").await;
    let (_, status) = second.hang_up().await;
    assert!(status.success(), "{status}");
}

#[tokio::test]
async fn a_joined_session_is_loaded_here_once_the_process_that_had_it_has_ended() {
    let setup = says();
    let (mut it, session) = begun(&setup).await;
    ask(&mut it, &session, "first").await;
    let mut second = second_agent(&setup, &it.editor).await;
    let directory = it.editor.workspace();
    open(&mut second, "session/resume", &session, &directory).await;
    let asked = prompted(&mut second, &session, "second").await;
    assert_eq!(asked.last().unwrap()["result"]["stopReason"], "end_turn", "{asked:?}");

    it.editor.child.kill().await.unwrap();
    let refused = prompted(&mut second, &session, "third").await;
    let message = refused.last().unwrap()["error"]["message"].as_str().unwrap();
    assert!(message.contains("load the session again"), "{message}");
    let loaded = open(&mut second, "session/load", &session, &directory).await;
    let shown = updates(&loaded);
    assert!(shown.contains(&("user_message_chunk", "second")), "{loaded:?}");
    let asked = prompted(&mut second, &session, "third").await;
    assert_eq!(asked.last().unwrap()["result"]["stopReason"], "end_turn", "{asked:?}");
}

#[tokio::test]
async fn a_prompt_of_a_joined_session_that_is_cancelled_as_a_request_is_answered_by_its_turn() {
    let setup = Setup::script(vec![
        json!({ "when": "hang", "answers": [[{ "text": "Begun." }, { "hang": null }]] }),
        json!({ "when": "", "answers": [[{ "text": "Hello." }]] }),
    ]);
    let (mut it, session) = begun(&setup).await;
    ask(&mut it, &session, "first").await;
    let mut second = second_agent(&setup, &it.editor).await;
    open(&mut second, "session/load", &session, &it.editor.workspace()).await;
    let block = json!([{ "type": "text", "text": "hang" }]);
    let params = json!({ "sessionId": session, "prompt": block });
    let id = second.request("session/prompt", params).await;
    shows(&mut second, "Begun.").await;
    let cancel =
        json!({ "jsonrpc": "2.0", "method": "$/cancel_request", "params": { "requestId": id } });
    second.send_line(&cancel.to_string()).await;
    let answer = second.answer_to(id).await;
    assert_eq!(answer["result"]["stopReason"], "cancelled", "{answer}");
}

#[tokio::test]
async fn a_question_of_a_joined_session_is_withdrawn_when_the_process_that_had_it_ends() {
    let setup = Setup::script(vec![
        json!({ "when": "write", "answers": [[write("a.txt", "new\n")], [{ "text": "Written." }]] }),
        json!({ "when": "", "answers": [[{ "text": "Hello." }]] }),
    ]);
    let (mut it, session) = begun(&setup).await;
    ask(&mut it, &session, "first").await;
    let mut second = second_agent(&setup, &it.editor).await;
    let directory = it.editor.workspace();
    open(&mut second, "session/load", &session, &directory).await;
    let block = json!([{ "type": "text", "text": "write" }]);
    let params = json!({ "sessionId": session, "prompt": block });
    second.request("session/prompt", params).await;
    let question = second.call_of("session/request_permission").await;

    it.editor.child.kill().await.unwrap();
    let withdrawn = second.call_of("$/cancel_request").await;
    assert_eq!(withdrawn["params"]["requestId"], question["id"], "{withdrawn}");
    let loaded = open(&mut second, "session/load", &session, &directory).await;
    assert!(loaded.last().unwrap().get("result").is_some(), "{loaded:?}");
}
