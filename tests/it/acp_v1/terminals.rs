//! Terminals of an editor, in which commands run if the user's settings say so.

use serde_json::{Value, json};

use super::{Editor, stop_reason, updates};
use crate::agent::Setup;
use crate::needs::{Need, lacking};

/// An editor with terminals, of which one is used at a time.
struct Desk {
    editor: Editor,
    session: String,
    /// The calls for terminals: method and parameters.
    calls: Vec<(String, Value)>,
    /// Answer to `terminal/output`.
    output: Value,
    /// Answer to `terminal/wait_for_exit`.
    exit: Value,
}

/// Returns a model that runs a command. If the agent itself runs it, the command makes the file `x`.
fn setup() -> Setup {
    let args = json!({ "command": "touch x; echo here" });
    let call = json!({ "call": { "name": "run_shell_command", "args": args } });
    Setup::answers(json!([[call], [{ "text": "done" }]]))
        .file("../.gemini/settings.json", r#"{ "acp": { "clientTerminals": true } }"#)
        .arg("--approval-mode")
        .arg("yolo")
}

fn client() -> Value {
    json!({ "protocolVersion": 1, "clientCapabilities": { "terminal": true } })
}

impl Desk {
    async fn new(setup: &Setup) -> Self {
        Self::with(setup, client()).await
    }

    async fn with(setup: &Setup, initialize: Value) -> Self {
        let mut editor = Editor::with(setup, initialize).await;
        let session = editor.session().await;
        let output = json!({ "output": "there\r\n", "truncated": false });
        Self { editor, session, calls: Vec::new(), output, exit: json!({ "exitCode": 0 }) }
    }

    /// Runs a prompt to its end, and allows every call. Returns all messages except calls for terminals.
    async fn ask(&mut self) -> Vec<Value> {
        let id = self.editor.prompt(&self.session, "go").await;
        self.until(id).await
    }

    async fn until(&mut self, id: u64) -> Vec<Value> {
        let mut read = Vec::new();
        loop {
            let message = self.editor.message().await;
            match message["method"].as_str() {
                Some(method) if method.starts_with("terminal/") => {
                    let answer = self.note(&message);
                    self.editor.agent.answer(&message, answer).await;
                }
                Some("session/request_permission") => {
                    self.editor.choose(&message, "once").await;
                    read.push(message);
                }
                _ => read.push(message),
            }
            if read.last().is_some_and(|last| last["id"] == id && last["method"].is_null()) {
                return read;
            }
        }
    }

    /// Notes a call for a terminal; returns the answer.
    fn note(&mut self, message: &Value) -> Value {
        let (method, params) = (message["method"].as_str().unwrap(), &message["params"]);
        assert_eq!(params["sessionId"], self.session.as_str());
        if method != "terminal/create" {
            assert_eq!(params["terminalId"], "t1");
        }
        self.calls.push((method.to_owned(), params.clone()));
        match method {
            "terminal/create" => json!({ "terminalId": "t1" }),
            "terminal/wait_for_exit" => self.exit.clone(),
            "terminal/output" => self.output.clone(),
            _ => json!({}),
        }
    }

    /// Begins a prompt and reads until the agent waits for the end of the command; the prompt's id,
    /// and the call that waits.
    async fn until_it_runs(&mut self) -> (u64, Value) {
        let id = self.editor.prompt(&self.session, "go").await;
        let create = self.editor.sent("terminal/create").await;
        self.editor.agent.answer(&create, json!({ "terminalId": "t1" })).await;
        (id, self.editor.sent("terminal/wait_for_exit").await)
    }

    async fn refuse(&mut self, call: &Value, message: &str) {
        let error = json!({ "code": -32603, "message": message });
        let answer = json!({ "jsonrpc": "2.0", "id": call["id"], "error": error });
        self.editor.agent.send_line(&answer.to_string()).await;
    }

    fn methods(&self) -> Vec<&str> {
        self.calls.iter().map(|(method, _)| method.as_str()).collect()
    }

    fn has_run_here(&self) -> bool {
        self.editor.cwd().join("x").exists()
    }
}

const TERMINAL: &str = r#"{ "type": "terminal", "terminalId": "t1" }"#;

fn terminal() -> Value {
    serde_json::from_str(TERMINAL).unwrap()
}

/// Returns the end of the only call.
fn end(read: &[Value]) -> Value {
    updates(read, "tool_call_update").last().unwrap().clone()
}

#[tokio::test]
async fn a_command_in_a_terminal_of_the_editor_cannot_be_written_to_and_one_with_input_runs_here() {
    let call = |name: &str, args: Value| json!([{ "call": { "name": name, "args": args } }]);
    let setup = Setup::answers(json!([
        call("run_shell_command", json!({ "command": "echo here" })),
        call("write_stdin", json!({ "pid": 1, "chars": "x\n" })),
        call("run_shell_command", json!({ "command": "cat", "stdin": true, "delay_ms": 1 })),
        call("write_stdin", json!({ "chars": "one\n", "wait_ms": 60_000 })),
        [{ "text": "done" }],
    ]))
    .file("../.gemini/settings.json", r#"{ "acp": { "clientTerminals": true } }"#)
    .arg("--sandbox")
    .arg("danger-full-access")
    .arg("--approval-mode")
    .arg("yolo");
    let mut desk = Desk::new(&setup).await;
    let shown = desk.ask().await;
    assert_eq!(desk.calls.iter().filter(|(method, _)| method == "terminal/create").count(), 1);
    let shown = json!(shown).to_string();
    let told = "A command that ran in a terminal of the editor cannot be written to: start it with `stdin`";
    assert!(shown.contains(told), "{shown}");
    assert!(shown.contains("```\\none\\nPID "), "{shown}");
}

#[tokio::test]
async fn a_command_runs_in_a_terminal_of_the_editor_and_the_call_shows_it() {
    let mut desk = Desk::new(&setup()).await;
    let read = desk.ask().await;
    let expected =
        ["terminal/create", "terminal/wait_for_exit", "terminal/output", "terminal/release"];
    assert_eq!(desk.methods(), expected);
    let variable = |name: &str, value: &str| json!({ "name": name, "value": value });
    let env = [
        variable("GEMINI_CLI", "1"),
        variable("PAGER", "cat"),
        variable("GIT_PAGER", "cat"),
        variable("CDPATH", ""),
    ];
    let created = json!({
        "sessionId": desk.session, "command": "bash", "args": ["-c", "touch x; echo here"],
        "env": env, "cwd": desk.editor.cwd(), "outputByteLimit": 1 << 20,
    });
    assert_eq!(desk.calls[0].1, created);
    assert!(!desk.has_run_here());
    let shown = updates(&read, "tool_call_update");
    assert_eq!(shown[0]["content"], json!([terminal()]));
    let end = end(&read);
    assert_eq!((&end["status"], &end["content"]), (&json!("completed"), &json!([terminal()])));
    assert_eq!(end["rawOutput"].as_str().unwrap().trim(), "there");
    assert_eq!(stop_reason(&read), "end_turn");
}

#[tokio::test]
async fn a_command_that_was_asked_about_runs_there_too() {
    let args = json!({ "command": "touch x" });
    let call = json!({ "call": { "name": "run_shell_command", "args": args } });
    let setup = Setup::answers(json!([[call], [{ "text": "done" }]]))
        .file("../.gemini/settings.json", r#"{ "acp": { "clientTerminals": true } }"#);
    let mut desk = Desk::new(&setup).await;
    let read = desk.ask().await;
    let is_shown = |it: &Value| it["params"]["update"]["content"] == json!([terminal()]);
    let asked = read.iter().position(|it| it["method"] == "session/request_permission").unwrap();
    assert!(read[asked..].iter().any(is_shown) && !read[..asked].iter().any(is_shown), "{read:#?}");
    assert_eq!((end(&read)["status"].as_str(), desk.has_run_here()), (Some("completed"), false));
}

#[tokio::test]
async fn a_sandbox_gives_way_unless_somebody_has_asked_for_one() {
    let mut desk = Desk::new(&setup()).await;
    let shown = |read: &[Value]| {
        let chunks = updates(read, "agent_message_chunk");
        chunks.iter().filter_map(|it| it["content"]["text"].as_str()).collect::<String>()
    };
    let text = shown(&desk.editor.ask(&desk.session, "/sandbox").await);
    assert!(text.starts_with("Commands run in the editor's terminals"), "{text}");
    if lacking(Need::Sandbox) {
        return;
    }
    let mut desk = Desk::new(&setup().arg("--sandbox")).await;
    let read = desk.ask().await;
    assert!(desk.calls.is_empty() && desk.has_run_here(), "{read:#?}");
    let text = shown(&desk.editor.ask(&desk.session, "/sandbox").await);
    assert!(text.starts_with("The sandbox mode of commands is `workspace-write`"), "{text}");
}

#[tokio::test]
async fn the_end_of_the_command_is_that_of_the_call() {
    for (exit, status, last) in [
        (json!({ "exitCode": 3, "signal": null }), "failed", "Command exited with code: 3"),
        (json!({ "signal": "SIGKILL" }), "failed", "Command ended by signal: SIGKILL"),
        (json!({ "exitCode": 0, "signal": null }), "completed", "there"),
    ] {
        let mut desk = Desk::new(&setup()).await;
        desk.exit = exit;
        let end = end(&desk.ask().await);
        assert_eq!(end["status"], status, "{end}");
        let output = end["rawOutput"].as_str().unwrap();
        assert!(output.starts_with("there\n") && output.trim().ends_with(last), "{end}");
        assert_eq!(*desk.methods().last().unwrap(), "terminal/release");
    }
}

#[tokio::test]
async fn a_session_that_is_loaded_again_shows_what_the_command_has_written() {
    let mut desk = Desk::new(&setup()).await;
    desk.ask().await;
    desk.editor.call("session/close", json!({ "sessionId": desk.session })).await;
    let params = json!({ "sessionId": desk.session, "cwd": desk.editor.cwd(), "mcpServers": [] });
    let id = desk.editor.request("session/load", params).await;
    let read = desk.editor.until(id).await;
    let calls = updates(&read, "tool_call");
    let text = calls[0]["content"][0]["content"]["text"].as_str().unwrap();
    assert!(text.contains("there\n"), "{text}");
}

#[tokio::test]
async fn a_cancel_ends_the_command_and_releases_the_terminal() {
    let mut desk = Desk::new(&setup()).await;
    let (id, wait) = desk.until_it_runs().await;
    desk.editor.notify("session/cancel", json!({ "sessionId": desk.session })).await;
    let withdrawn = desk.editor.sent("$/cancel_request").await;
    assert_eq!(withdrawn["params"]["requestId"], wait["id"]);
    let read = desk.until(id).await;
    assert_eq!(desk.methods(), ["terminal/kill", "terminal/output", "terminal/release"]);
    let end = end(&read);
    assert_eq!((&end["status"], &end["content"][0]), (&json!("failed"), &terminal()));
    assert_eq!(stop_reason(&read), "cancelled");
}

#[tokio::test]
async fn an_editor_that_answers_nothing_to_a_cancel_is_told_to_release_the_terminal() {
    let mut desk = Desk::new(&setup()).await;
    let (id, _) = desk.until_it_runs().await;
    desk.editor.notify("session/cancel", json!({ "sessionId": desk.session })).await;
    let read = desk.editor.until(id).await;
    assert!(read.iter().any(|it| it["method"] == "terminal/release"), "{read:#?}");
    assert_eq!(stop_reason(&read), "cancelled");
}

#[tokio::test]
async fn a_terminal_that_comes_after_a_cancel_is_released() {
    let mut desk = Desk::new(&setup()).await;
    let id = desk.editor.prompt(&desk.session, "go").await;
    let create = desk.editor.sent("terminal/create").await;
    desk.editor.notify("session/cancel", json!({ "sessionId": desk.session })).await;
    assert_eq!(stop_reason(&desk.editor.until(id).await), "cancelled");
    desk.editor.agent.answer(&create, json!({ "terminalId": "late" })).await;
    let release = desk.editor.sent("terminal/release").await;
    assert_eq!(release["params"]["terminalId"], "late");
}

#[tokio::test]
async fn a_command_without_a_terminal_fails_and_does_not_run_here() {
    let mut desk = Desk::new(&setup()).await;
    let id = desk.editor.prompt(&desk.session, "go").await;
    let create = desk.editor.sent("terminal/create").await;
    desk.refuse(&create, "no room").await;
    let end = end(&desk.until(id).await);
    let why = end["content"][0]["content"]["text"].as_str().unwrap();
    assert!(why.contains("was not run") && why.contains("no room"), "{why}");
    assert_eq!((&end["status"], desk.has_run_here()), (&json!("failed"), false));
    assert!(desk.calls.is_empty(), "{:?}", desk.calls);
}

#[tokio::test]
async fn an_editor_that_never_answers_holds_a_command_up_for_a_limited_time() {
    let setup = setup().arg("--limit").arg("editor-terminal-seconds=1");
    let mut desk = Desk::new(&setup).await;
    let id = desk.editor.prompt(&desk.session, "go").await;
    let create = desk.editor.sent("terminal/create").await;
    let end = end(&desk.until(id).await);
    assert_eq!((&end["status"], desk.has_run_here()), (&json!("failed"), false));
    desk.editor.agent.answer(&create, json!({ "terminalId": "late" })).await;
    assert_eq!(desk.editor.sent("terminal/release").await["params"]["terminalId"], "late");
}

#[tokio::test]
async fn a_command_whose_end_the_editor_does_not_say_has_failed() {
    let mut desk = Desk::new(&setup()).await;
    let (id, wait) = desk.until_it_runs().await;
    desk.refuse(&wait, "the terminal is gone").await;
    let end = end(&desk.until(id).await);
    assert_eq!(desk.methods(), ["terminal/release"]);
    assert_eq!((&end["status"], &end["content"][0]), (&json!("failed"), &terminal()));
    let why = end["content"][1]["content"]["text"].as_str().unwrap();
    assert!(why.contains("the terminal is gone"), "{why}");
}

#[tokio::test]
async fn a_silent_command_is_ended() {
    let setup = setup().arg("--limit").arg("shell-idle-seconds=1");
    let mut desk = Desk::new(&setup).await;
    desk.output = json!({ "output": "", "truncated": false });
    let (id, _) = desk.until_it_runs().await;
    let end = end(&desk.until(id).await);
    let expected = ["terminal/output", "terminal/kill", "terminal/output", "terminal/release"];
    assert_eq!(desk.methods(), expected);
    assert_eq!(end["status"], "failed");
    assert!(end["content"][1]["content"]["text"].as_str().unwrap().contains("1 s"), "{end}");
}

#[tokio::test]
async fn a_command_whose_time_is_over_is_ended_in_a_terminal_of_the_editor() {
    let setup = setup().arg("--limit").arg("shell-seconds=1");
    let mut desk = Desk::new(&setup).await;
    desk.output = json!({ "output": "", "truncated": false });
    let (id, _) = desk.until_it_runs().await;
    let end = end(&desk.until(id).await);
    assert_eq!(desk.methods().last(), Some(&"terminal/release"));
    assert_eq!(end["status"], "failed");
    let why = end["content"][1]["content"]["text"].as_str().unwrap();
    assert!(why.starts_with("The command was ended after 1 s: "), "{why}");
}

#[tokio::test]
async fn a_command_of_an_editor_that_hangs_up_has_failed_in_the_stored_session() {
    let setup = setup();
    let mut desk = Desk::new(&setup).await;
    desk.until_it_runs().await;
    let (_, status) = desk.editor.agent.hang_up().await;
    assert!(status.success(), "{status}");
    let mut editor = desk.editor.killed_and_started_again(&setup).await;
    let params = json!({ "sessionId": desk.session, "cwd": editor.cwd(), "mcpServers": [] });
    let id = editor.request("session/load", params).await;
    let calls = updates(&editor.until(id).await, "tool_call");
    assert_eq!(calls[0]["status"], "failed");
    assert!(!editor.cwd().join("x").exists());
}

#[tokio::test]
async fn commands_run_here_unless_the_user_and_the_editor_have_agreed() {
    let settings = |setup: Setup, text: &str| setup.file("../.gemini/settings.json", text);
    let own = r#"{ "acp": { "clientTerminals": true } }"#;
    let project = settings(setup(), "{}").file(".gemini/settings.json", own).arg("--skip-trust");
    let capabilities = |it: Value| json!({ "protocolVersion": 1, "clientCapabilities": it });
    let later = json!({ "protocolVersion": 2, "clientCapabilities": { "terminal": true } });
    let writes = json!({ "terminal": true, "_meta": { "terminal_output": true } });
    for (setup, client) in [
        (settings(setup(), "{}"), client()),
        (settings(setup(), r#"{ "acp": { "clientTerminals": false } }"#), client()),
        (project, client()),
        (setup(), capabilities(json!({}))),
        (setup(), capabilities(json!({ "terminal": false }))),
        (setup(), capabilities(json!({ "terminal": "yes" }))),
        // With `terminal_output`, the editor shows the agent's own commands, and runs none.
        (setup(), capabilities(writes)),
        // Version 2 does not have this capability, so it means nothing there.
        (setup(), later),
    ] {
        let mut desk = Desk::with(&setup, client.clone()).await;
        let read = desk.ask().await;
        assert_eq!(end(&read)["status"], "completed", "{client}");
        assert!(desk.has_run_here() && desk.calls.is_empty(), "{client}: {:?}", desk.calls);
    }
}

#[tokio::test]
async fn a_command_in_the_background_runs_here() {
    let args = json!({ "command": "touch x", "is_background": true });
    let call = json!({ "call": { "name": "run_shell_command", "args": args } });
    let script = vec![json!({ "when": "", "answers": [[call], [{ "text": "done" }]] })];
    let mut desk = Desk::new(&Setup { script, ..setup() }).await;
    desk.ask().await;
    assert!(desk.has_run_here() && desk.calls.is_empty(), "{:?}", desk.calls);
}
