//! A question that is open in an editor, a terminal, an A2A client and an editor of ACP 0.0.9, which share one
//! session. After the first answer, the others are no longer asked, and late answers have no effect.
//!
//! The allowed call waits for a file, which the test makes only when every client has been told. So no client is
//! told only because time has passed.

use std::fs;

use serde_json::{Value, json};

use super::server::{Shared, answer, asks, ends, shared_with, statuses, tool_call};
use super::socket::Socket;
use crate::agent::Setup;
use crate::terminal::{Terminal, ended_calls};

/// Question before a command line.
const QUESTION: &str = "Allow this?";

/// File that the command waits for.
const GATE: &str = "gate";

#[derive(Clone, Copy, PartialEq, Eq)]
enum First {
    Editor,
    Terminal,
    A2a,
    OldEditor,
}

/// One session with all its clients.
struct Room {
    it: Shared,
    session: String,
    terminal: Terminal,
    a2a: Socket,
    old: Socket,
    /// The id of the prompt.
    turn: u64,
}

/// The question as each client has it.
struct Asked {
    editor: Value,
    /// The call's id.
    a2a: Value,
    old: Value,
}

impl Room {
    /// Starts all clients; `None` without tmux.
    async fn new() -> Option<Self> {
        let script = format!("until [ -e {GATE} ]; do sleep 0.01; done; echo ran >> ran");
        let call = json!({ "name": "run_shell_command", "args": { "command": "sh wait.sh" } });
        let setup = Setup::answers(json!([[{ "call": call }], [{ "text": "All is over." }]]));
        let setup = setup.file("wait.sh", &script).without_sandbox();
        let terminal = Terminal::open()?;
        let mut it = shared_with(&setup, json!({ "protocolVersion": 1 })).await;
        let params = json!({ "cwd": it.editor.workspace(), "mcpServers": [] });
        let id = it.editor.request("session/new", params).await;
        let session = it.editor.answer_to(id).await["result"]["sessionId"].clone();
        let session = session.as_str().unwrap().to_owned();
        let port = it.client.port;
        terminal.agent("", &format!("attach {port}"));
        terminal.until(&format!("attached to 127.0.0.1:{port}"));
        let mut a2a = it.client.socket().await;
        a2a.call("hi", "commands/get", json!({})).await;
        let mut old = it.client.socket_at("/acp").await;
        old.call("hi", "initialize", json!({ "protocolVersion": "0.0.9" })).await;
        Some(Self { it, session, terminal, a2a, old, turn: 0 })
    }

    /// Begins a turn at the editor, and waits until every client is asked.
    async fn ask(&mut self) -> Asked {
        let prompt = json!([{ "type": "text", "text": "go" }]);
        let params = json!({ "sessionId": self.session, "prompt": prompt });
        self.turn = self.it.editor.request("session/prompt", params).await;
        let editor = self.it.editor.call_of("session/request_permission").await;
        let event = self.a2a.events(asks).await.pop().unwrap();
        let is_question = |it: &Value| it["method"] == "requestToolCallConfirmation";
        let old = self.old.until(is_question).await.pop().unwrap();
        self.terminal.until(QUESTION);
        Asked { editor, a2a: tool_call(&event)["tool_call_id"].clone(), old }
    }

    async fn choose(&mut self, who: First, asked: &Asked, allow: bool) {
        match who {
            First::Editor => {
                let option = if allow { "once" } else { "reject" };
                let outcome = json!({ "outcome": "selected", "optionId": option });
                self.it.editor.answer(&asked.editor, json!({ "outcome": outcome })).await;
            }
            First::Terminal => {
                Terminal::wait_for_grace();
                self.terminal.text(if allow { "y" } else { "n" });
            }
            First::A2a => {
                let option = if allow { "proceed_once" } else { "cancel" };
                let mut params = answer(&asked.a2a, option);
                params["configuration"] = json!({ "blocking": false });
                self.a2a.send("answer", "message/send", params).await;
            }
            First::OldEditor => {
                let outcome = if allow { "allow" } else { "reject" };
                let result = json!({ "id": 1, "outcome": outcome });
                let reply = json!({ "jsonrpc": "2.0", "id": asked.old["id"], "result": result });
                self.old.send_text(&reply.to_string()).await;
            }
        }
    }

    /// Checks that every client without an answer is told that the question is closed, while the call runs.
    async fn check_withdrawn(&mut self, first: First, asked: &Asked) {
        if first != First::Editor {
            let withdrawn = self.it.editor.call_of("$/cancel_request").await;
            assert_eq!(withdrawn["params"]["requestId"], asked.editor["id"]);
        }
        let update = self.it.editor.call_of("session/update").await["params"]["update"].clone();
        assert_eq!(update["status"], "in_progress", "{update}");
        let answered = |event: &Value| event["metadata"]["answeredBy"].is_string();
        let event = self.a2a.events(answered).await.pop().unwrap();
        assert_eq!(event["metadata"]["answeredBy"], name(first));
        self.terminal.wait("the question's end", |seen| !seen.contains(QUESTION));
        let ended = self.terminal.seen();
        assert!(ended_calls(&ended).is_empty(), "the call has ended already:\n{ended}");
    }

    /// Sends a late "no" from each other client.
    async fn answer_late(&mut self, first: First, asked: &Asked) {
        for late in [First::Editor, First::OldEditor] {
            if late != first {
                self.choose(late, asked, false).await;
            }
        }
        // The question is closed, so a key that a person presses now goes into the line.
        self.terminal.text("n");
        self.terminal.until("› n");
        let late = self.a2a.call("late", "message/send", answer(&asked.a2a, "cancel")).await;
        let why = late["error"]["message"].as_str().unwrap_or_default();
        assert!(why.contains(&format!("already answered by {}", name(first))), "{late}");
    }
}

/// Returns the name by which others know the client that has answered.
fn name(first: First) -> &'static str {
    match first {
        First::Editor => "the editor",
        First::Terminal => "attached terminal 1",
        First::A2a => "A2A client 1",
        First::OldEditor => "A2A client 2",
    }
}

async fn check(first: First) {
    let Some(mut room) = Room::new().await else { return };
    let asked = room.ask().await;
    room.choose(first, &asked, true).await;
    room.check_withdrawn(first, &asked).await;
    room.answer_late(first, &asked).await;
    let workspace = room.it.editor.workspace();
    fs::write(workspace.join(GATE), "").unwrap();
    let end = room.it.editor.answer_to(room.turn).await;
    assert_eq!(end["result"]["stopReason"], "end_turn");
    let events = room.a2a.events(ends).await;
    assert_eq!(statuses(&events).last(), Some(&"SUCCEEDED"));
    assert_eq!(fs::read_to_string(workspace.join("ran")).unwrap(), "ran\n");
    let seen = room.terminal.until("All is over.");
    let by = if first == First::Terminal { "" } else { name(first) };
    let [ended] = ended_calls(&seen)[..] else { panic!("{seen}") };
    assert_eq!(ended.contains("allowed by"), !by.is_empty(), "{ended}");
    assert!(ended.starts_with('✓') && ended.contains(by), "{ended}");
}

#[tokio::test]
async fn an_editor_answers_first() {
    Box::pin(check(First::Editor)).await;
}

#[tokio::test]
async fn a_terminal_answers_first() {
    Box::pin(check(First::Terminal)).await;
}

#[tokio::test]
async fn an_a2a_client_answers_first() {
    Box::pin(check(First::A2a)).await;
}

#[tokio::test]
async fn an_editor_of_the_old_protocol_answers_first() {
    Box::pin(check(First::OldEditor)).await;
}
