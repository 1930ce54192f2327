//! An ACP client on a WebSocket, in the editor's session.

use serde_json::{Value, json};

use super::server::{answer, asks, ends, prompt, serve, shared, tool_call, write};
use super::socket::Socket;
use crate::agent::Setup;

fn writes() -> Setup {
    Setup::script(vec![
        json!({ "when": "write", "answers": [[write("a.txt", "new\n")], [{ "text": "done" }]] }),
        json!({ "when": "", "answers": [[{ "text": "hello" }]] }),
    ])
}

async fn initialized(socket: &mut Socket) {
    let hello = socket.call(0, "initialize", json!({ "protocolVersion": "0.0.9" })).await;
    assert_eq!(hello["result"]["protocolVersion"], "0.0.9");
}

fn chunks(text: &str) -> Value {
    json!({ "chunks": [{ "text": text }] })
}

async fn reply(socket: &mut Socket, request: &Value, result: Value) {
    let reply = json!({ "jsonrpc": "2.0", "id": request["id"], "result": result });
    socket.send_text(&reply.to_string()).await;
}

#[tokio::test]
async fn an_acp_client_prompts_and_the_editor_is_shown_it() {
    for path in ["/ws", "/acp"] {
        let mut it = shared(&writes()).await;
        let mut socket = it.client.socket_at(path).await;
        initialized(&mut socket).await;
        socket.send("p", "sendUserMessage", chunks("from afar")).await;
        let chunk = socket.until(|it| it["method"] == "streamAssistantMessageChunk").await;
        assert_eq!(chunk.last().unwrap()["params"]["chunk"]["text"], "hello");
        let answered = |it: &Value| it["id"] == "p" && it.get("method").is_none();
        assert_eq!(socket.until(answered).await.pop().unwrap()["result"], Value::Null);
        let shown = it.editor.message().await["params"]["chunk"]["text"].clone();
        assert_eq!(shown, "\n\n> **[A2A]** from afar\n\n");
    }
}

#[tokio::test]
async fn an_acp_client_is_shown_what_the_editor_asks_for() {
    let mut it = shared(&writes()).await;
    let mut socket = it.client.socket_at("/acp").await;
    initialized(&mut socket).await;
    it.editor.prompt("from the editor").await;
    let shown = socket.frame().await.unwrap()["params"]["chunk"]["text"].clone();
    assert_eq!(shown, "\n\n> **[editor]** from the editor\n\n");
    assert_eq!(socket.frame().await.unwrap()["params"]["chunk"]["text"], "hello");
}

#[tokio::test]
async fn of_three_kinds_of_clients_the_first_answer_counts() {
    let mut it = shared(&writes()).await;
    let mut acp = it.client.socket_at("/acp").await;
    initialized(&mut acp).await;
    let mut a2a = it.client.socket().await;
    a2a.call(0, "commands/get", json!({})).await;
    it.editor.prompt("write").await;
    let at_editor = it.editor.call_of("requestToolCallConfirmation").await;
    let asked = |it: &Value| it["method"] == "requestToolCallConfirmation";
    let at_acp = acp.until(asked).await.pop().unwrap();
    let call = tool_call(&a2a.events(asks).await.pop().unwrap())["tool_call_id"].clone();
    reply(&mut acp, &at_acp, json!({ "id": 3, "outcome": "allow" })).await;
    let events = a2a.events(ends).await;
    let by = events.iter().find_map(|event| event["metadata"]["answeredBy"].as_str()).unwrap();
    let late = a2a.call(1, "message/send", answer(&call, "cancel")).await;
    let why = late["error"]["message"].as_str().unwrap();
    assert!(why.contains(&format!("already answered by {by}")), "{why}");
    assert_eq!(by, "A2A client 1");
    it.editor.answer(&at_editor, json!({ "id": 4, "outcome": "reject" })).await;
    assert!(it.editor.workspace().join("a.txt").exists());
}

#[tokio::test]
async fn an_acp_client_that_hangs_up_leaves_the_session_alone() {
    let mut it = shared(&writes()).await;
    let mut socket = it.client.socket_at("/acp").await;
    initialized(&mut socket).await;
    it.editor.prompt("write").await;
    let at_editor = it.editor.call_of("requestToolCallConfirmation").await;
    socket.until(|it| it["method"] == "requestToolCallConfirmation").await;
    drop(socket);
    // When this request is answered, the server has noticed the end of the ACP client, and must not take the end for
    // an answer.
    it.client.get("/listCommands").await;
    it.editor.answer(&at_editor, json!({ "id": 1, "outcome": "allow" })).await;
    let update = it.editor.call_of("updateToolCall").await;
    assert_eq!(update["params"]["status"], "finished");
}

#[tokio::test]
async fn without_a_shared_session_there_is_no_acp() {
    let it = serve(&writes()).await;
    let mut socket = it.client.socket().await;
    let found = socket.call(0, "initialize", json!({})).await;
    assert_eq!(found["error"]["code"], -32601);
    let found = socket.call(1, "message/send", prompt("hi")).await;
    assert_eq!(found["result"]["status"]["state"], "completed");
}
