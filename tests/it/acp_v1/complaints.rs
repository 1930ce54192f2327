//! Complaints of users of other agents, each with the tests that keep it from happening here. [`COMPLAINTS`] is the
//! list. This file has the tests that stand in no other file.

use std::collections::HashMap;
use std::fs;
use std::path::Path;
use std::process::Stdio;

use rustix::process::Signal;
use serde_json::{Value, json};
use tokio::io::AsyncReadExt as _;
use tokio::net::TcpListener;
use tokio::net::unix::pipe;
use tokio::time::timeout;

use super::{
    Editor, cost, files, login, login_shell, permissions, pipelined, sessions, settings,
    stop_reason, text, turns, updates,
};
use crate::agent::{HANG, Setup};
use crate::family::{is_gone, make_fifo, run};
use crate::lifecycle::signal;

/// Evidence that a complaint does not apply here.
enum Evidence {
    /// Tests, named as functions, so that a removed test breaks the build.
    Tests(&'static [fn()]),
    /// A part of `benches/speed`, for a complaint about time: its file.
    Bench(&'static str),
    /// A script of the continuous integration.
    Script(&'static str),
}
use Evidence::{Bench, Script, Tests};

/// The complaints: number, what users saw, evidence.
const COMPLAINTS: &[(u32, &str, &[Evidence])] = &[
    (
        1,
        "agents start slowly",
        &[
            Bench("start.rs"),
            Tests(&[
                sessions::nothing_comes_before_the_answer_to_session_new_and_then_the_commands,
            ]),
        ],
    ),
    (2, "initialize is never answered", &[Tests(&[initialize_is_answered_whatever_else_hangs])]),
    (3, "text on standard output", &[Tests(&[nothing_but_messages_is_on_standard_output])]),
    (4, "the C library is too old", &[Script(".ci/package")]),
    (5, "processes are left behind", &[Tests(&[no_end_of_the_agent_leaves_a_process_behind])]),
    (6, "a dead agent must be started again by hand", &[Tests(&[no_line_ends_the_agent])]),
    (7, "loading destroys the session", &[Tests(&[loading_a_session_writes_nothing])]),
    (8, "the history is gone", &[Tests(&[sessions_are_listed_and_loaded_after_a_kill])]),
    (9, "the end of the answer is lost", &[Tests(&[turns::a_long_answer_is_whole])]),
    (10, "a prompt is never answered", &[Tests(&[every_prompt_is_answered_once])]),
    (
        11,
        "a cancel is ignored",
        &[Bench("cancel.rs"), Tests(&[a_cancel_ends_a_turn_in_every_phase])],
    ),
    (12, "a cancel of nothing ends the next turn", &[Tests(&[a_cancel_of_nothing_does_nothing])]),
    (13, "calls stay in progress", &[Tests(&[every_call_has_ended_when_its_prompt_is_answered])]),
    (
        14,
        "the question is hidden",
        &[Tests(&[
            permissions::a_change_is_announced_and_asked_about_and_made,
            a_call_is_pending_until_its_question_is_answered,
        ])],
    ),
    (15, "an always is forgotten", &[Tests(&[permissions::always_is_not_asked_again])]),
    (
        16,
        "text that is not saved is not seen",
        &[Tests(&[
            turns::content_that_the_editor_has_read_goes_with_the_prompt,
            files::an_unsaved_text_is_read,
            files::an_edit_is_shown_from_the_editors_text_on_and_written_by_the_editor,
            files::a_file_that_nobody_has_is_made_by_the_editor,
        ])],
    ),
    (
        17,
        "no model and no mode to choose",
        &[Tests(&[
            settings::the_model_can_be_changed,
            settings::the_mode_is_one_wherever_it_is_changed,
        ])],
    ),
    (
        18,
        "no tokens and no cost are shown",
        &[Tests(&[
            turns::the_window_is_shown_as_full_as_it_is,
            cost::every_answer_is_charged_at_the_price_of_its_model_also_when_the_session_is_loaded,
            cost::without_the_price_of_one_answer_there_is_no_cost,
        ])],
    ),
    (
        19,
        "credentials are not found",
        &[Tests(&[
            login::a_key_of_the_environment_needs_no_login_and_cannot_be_forgotten,
            login_shell::the_login_shell_has_the_key_and_is_asked_once_when_a_model_is_called,
            super::first::terminal_logins_are_offered_to_whoever_can_show_them,
        ])],
    ),
    (
        20,
        "several questions at once hang",
        &[Tests(&[
            questions_are_answered_in_any_order,
            reading_calls_of_one_answer_ask_at_once_and_are_answered_in_any_order,
            changing_calls_of_one_answer_ask_one_after_the_other,
        ])],
    ),
    (21, "servers outlive their session", &[Tests(&[closing_a_session_ends_its_servers])]),
    (22, "no steering", &[Tests(&[turns::steering_goes_to_the_model_in_the_running_turn])]),
    (23, "groups of options break clients", &[Tests(&[options_are_in_no_groups])]),
    (
        24,
        "empty sessions are listed",
        &[Tests(&[sessions::a_closed_session_is_listed_and_loaded_as_it_was])],
    ),
    (
        25,
        "a session without `mcpServers` is refused",
        &[Tests(&[sessions::nothing_comes_before_the_answer_to_session_new_and_then_the_commands])],
    ),
    (
        26,
        "a prompt right behind session/load is refused",
        &[Tests(&[pipelined::a_prompt_waits_for_its_session_to_be_opened])],
    ),
    (
        27,
        "a login blocks the editor until it gives up",
        &[Tests(&[login::authenticate_is_answered_while_the_page_waits_for_the_key])],
    ),
];

#[test]
fn every_complaint_has_its_evidence() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    for (n, (number, complaint, evidence)) in COMPLAINTS.iter().enumerate() {
        assert_eq!(*number as usize, n + 1, "{complaint}");
        assert!(!evidence.is_empty(), "{complaint}");
        for evidence in *evidence {
            match evidence {
                Tests(tests) => assert!(!tests.is_empty(), "{complaint}"),
                Bench(file) => assert!(root.join("benches/speed").join(file).exists(), "{file}"),
                Script(file) => assert!(root.join(file).exists(), "{file}"),
            }
        }
    }
}

/// Returns a script whose answers depend on the words of the prompt.
fn script() -> Setup {
    let write = json!({ "call": { "name": "write_file", "args": {
        "file_path": "a.txt", "content": "new\n" } } });
    let unknown = json!({ "call": { "name": "no_such_tool", "args": {} } });
    Setup::script(vec![
        json!({ "when": "write", "answers": [[write], [{ "text": "done" }]] }),
        json!({ "when": "hold", "answers": [[run(HOLD)], [{ "text": "done" }]] }),
        json!({ "when": "fail", "answers": [[run("exit 3")], [{ "text": "done" }]] }),
        json!({ "when": "unknown", "answers": [[unknown], [{ "text": "done" }]] }),
        json!({ "when": "break", "answers": [[run("true")], [{ "error": { "rejected": "no" } }]] }),
        json!({ "when": "silence", "answers": [[{ "hang": null }]] }),
        json!({ "when": "begin", "answers": [[{ "text": "begun" }, { "hang": null }]] }),
        json!({ "when": "think", "answers": [[{ "thought": "hm" }, { "hang": null }]] }),
        json!({ "when": "retry", "answers": [[{ "retry": {
            "reason": "busy", "delay": 1_000_000, "attempt": 2, "of": 10 } }, { "hang": null }]] }),
        json!({ "when": "limit", "answers": [[{ "text": "x" }, { "finish": "max_tokens" }]] }),
        json!({ "when": "refuse", "answers": [[{ "finish": { "refused": "no" } }]] }),
        json!({ "when": "", "answers": [[{ "text": "fine" }]] }),
    ])
}

/// A command that runs until it is ended, and holds a pipe open.
const HOLD: &str = "exec 3>family; sleep 1000 & echo started; wait";

/// Makes a pipe that ends when the last process that holds it has ended.
fn held(directory: &Path) -> pipe::Receiver {
    let fifo = directory.join("family");
    make_fifo(&fifo);
    pipe::OpenOptions::new().open_receiver(fifo).unwrap()
}

/// Runs a prompt until its command has started.
async fn holding(editor: &mut Editor, session: &str) -> u64 {
    let id = editor.prompt(session, "hold").await;
    let question = editor.sent("session/request_permission").await;
    editor.choose(&question, "once").await;
    loop {
        let update = editor.update("tool_call_update").await;
        if update["content"].to_string().contains("started") {
            return id;
        }
    }
}

#[tokio::test]
async fn initialize_is_answered_whatever_else_hangs() {
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", silent.local_addr().unwrap());
    let servers = json!({ "mcpServers": {
        "program": { "command": "sleep", "args": ["1000"] },
        "service": { "httpUrl": address },
    } });
    let setup = Setup::default()
        .arg("--model")
        .arg("gemini-3.8-flash")
        .arg("--skip-trust")
        .var("SHELL", "/bin/cat")
        .var("HTTPS_PROXY", &address)
        .var("HTTP_PROXY", &address)
        .var("OLLAMA_HOST", &address)
        .file(".gemini/settings.json", &servers.to_string());
    let mut editor = Editor::start(&setup).await;
    assert_eq!(editor.initialized["protocolVersion"], 1);
    let early = timeout(std::time::Duration::ZERO, silent.accept()).await;
    assert!(early.is_err(), "somebody was called before the answer");
    assert!(!editor.session().await.is_empty());
}

#[tokio::test]
async fn nothing_but_messages_is_on_standard_output() {
    let noisy = "echo out; echo err >&2; echo tty >/dev/tty; exit 1";
    let servers = json!([{ "name": "noisy", "command": "/bin/sh",
        "args": ["-c", "echo text; echo more >&2"], "env": [] }]);
    let setup = Setup::answers(json!([
        [{ "thought": "hm" }, run(noisy), run("no-such-program")],
        [{ "call": { "name": "no_such_tool", "args": {} } }],
        [{ "retry": { "reason": "busy", "delay": 1, "attempt": 2, "of": 10 } }, { "text": "done" }],
    ]));
    let setup = setup
        .arg("--approval-mode")
        .arg("yolo")
        .var("TANDEM_LOG", "trace")
        .file(".gemini/settings.json", "{ this is not JSON")
        .file(".env", "neither\u{0} is this");
    let agent = setup.arg("--acp").start_with(|command| command.stderr(Stdio::null()));
    let mut editor = Editor { agent, asked: HashMap::new(), initialized: Value::Null };
    let params = json!({ "cwd": editor.cwd(), "mcpServers": servers });
    let new = editor.call("session/new", params).await;
    let session = new["result"]["sessionId"].as_str().unwrap().to_owned();
    // `ask` reads each line of the agent's output as a message of the protocol.
    let read = editor.ask(&session, "go").await;
    assert_eq!(text(&read, "agent_message_chunk"), "done");
    editor.ask(&session, "/mcp").await;
    editor.agent.send_line("not JSON").await;
    assert_eq!(editor.agent.message().await["error"]["code"], -32700);
    let (rest, _) = editor.agent.hang_up().await;
    for line in rest {
        let message: Value = serde_json::from_str(&line).unwrap();
        assert_eq!(message["method"], "session/update", "{line}");
    }
}

#[tokio::test]
async fn no_end_of_the_agent_leaves_a_process_behind() {
    for end in [None, Some(Signal::TERM), Some(Signal::KILL)] {
        let mut editor = Editor::start(&script()).await;
        let family = held(&editor.cwd());
        let session = editor.session().await;
        holding(&mut editor, &session).await;
        match end {
            Some(end) => signal(&editor.agent, end),
            None => drop((editor.agent.stdin.take(), editor.agent.lines)),
        }
        is_gone(family).await;
    }
}

#[tokio::test]
async fn no_line_ends_the_agent() {
    let mut editor = Editor::start(&script()).await;
    let session = editor.session().await;
    for (line, code) in [
        ("", 0),
        ("{", -32700),
        ("nonsense", -32700),
        ("\u{0}", -32700),
        ("[]", -32600),
        ("[{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"session/list\"}]", -32600),
        ("5", -32600),
        ("{\"id\":7}", -32600),
        ("{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":5}", -32600),
        ("{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"session/prompt\"}", -32602),
        ("{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"session/prompt\",\"params\":[1]}", -32602),
        ("{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"session/new\",\"params\":7}", -32602),
        ("{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"initialize\",\"params\":{}}", 1),
        ("{\"jsonrpc\":\"2.0\",\"method\":\"session/cancel\",\"params\":{\"sessionId\":5}}", 0),
        ("{\"jsonrpc\":\"2.0\",\"method\":\"$/cancel_request\",\"params\":{}}", 0),
        ("{\"jsonrpc\":\"2.0\",\"id\":99,\"result\":{\"outcome\":5}}", 0),
        ("{\"jsonrpc\":\"2.0\",\"id\":\"x\",\"error\":null}", -32600),
    ] {
        editor.agent.send_line(line).await;
        let answer = match code {
            0 => continue,
            _ => loop {
                let message = editor.agent.message().await;
                if message.get("method").is_none() {
                    break message;
                }
            },
        };
        match code {
            1 => assert!(answer.get("result").is_some(), "{line}: {answer}"),
            _ => assert_eq!(answer["error"]["code"], code, "{line}: {answer}"),
        }
    }
    assert_eq!(stop_reason(&editor.ask(&session, "go").await), "end_turn");
}

/// Returns the log of a stored session.
fn log(editor: &Editor, session: &str) -> String {
    let sessions = editor.cwd().parent().unwrap().join(".local/share/tandem/sessions");
    fs::read_to_string(sessions.join(session).join("log.jsonl")).unwrap()
}

fn load(editor: &Editor, session: &str) -> Value {
    json!({ "sessionId": session, "cwd": editor.cwd(), "mcpServers": [] })
}

#[tokio::test]
async fn loading_a_session_writes_nothing() {
    let mut editor = Editor::start(&script()).await;
    let session = editor.session().await;
    editor.ask(&session, "go").await;
    editor.call("session/close", json!({ "sessionId": session })).await;
    let before = log(&editor, &session);
    for method in ["session/load", "session/resume"] {
        let opened = editor.call(method, load(&editor, &session)).await;
        assert!(opened.get("result").is_some(), "{opened}");
        assert_eq!(log(&editor, &session), before, "{method}");
        editor.call("session/close", json!({ "sessionId": session })).await;
        assert_eq!(log(&editor, &session), before, "{method}, and closed");
    }
}

#[tokio::test]
async fn sessions_are_listed_and_loaded_after_a_kill() {
    let setup = script();
    let mut editor = Editor::start(&setup).await;
    let session = editor.session().await;
    editor.ask(&session, "write it\nplease").await;
    editor.prompt(&session, "begin").await;
    editor.update("agent_message_chunk").await;
    let mut editor = editor.killed_and_started_again(&setup).await;
    let list = editor.call("session/list", json!({ "cwd": editor.cwd() })).await;
    let [listed] = &list["result"]["sessions"].as_array().unwrap()[..] else { panic!("{list}") };
    assert_eq!(listed["sessionId"], session.as_str());
    assert_eq!(listed["title"], "write it");
    assert_eq!(listed["cwd"], json!(editor.cwd()));
    let date = listed["updatedAt"].as_str().unwrap();
    assert!(date.parse::<jiff::Timestamp>().is_ok(), "{date}");
    let id = editor.request("session/load", load(&editor, &session)).await;
    let read = editor.until(id).await;
    assert_eq!(text(&read, "user_message_chunk"), "write it\npleasebegin");
    assert!(text(&read, "agent_message_chunk").starts_with("donebegun"), "{read:?}");
    assert_eq!(updates(&read, "tool_call")[0]["status"], "completed");
    assert_eq!(stop_reason(&editor.ask(&session, "go").await), "end_turn");
}

#[tokio::test]
async fn every_prompt_is_answered_once() {
    let mut editor = Editor::start(&script()).await;
    // `Editor` fails if a request gets a second answer.
    for (words, expected) in [
        ("go", json!("end_turn")),
        ("limit", json!("max_tokens")),
        ("refuse", json!("refusal")),
        ("break", json!(-32603)),
        ("/about", json!("end_turn")),
        ("/no-such-command", json!("end_turn")),
    ] {
        let session = editor.session().await;
        let answer = editor.ask(&session, words).await.pop().unwrap();
        let end = answer["result"].get("stopReason").unwrap_or(&answer["error"]["code"]);
        assert_eq!(*end, expected, "{words}: {answer}");
    }
    for (method, is_request) in
        [("session/cancel", false), ("session/close", true), ("session/delete", true)]
    {
        let session = editor.session().await;
        let first = editor.prompt(&session, "begin").await;
        let second = editor.prompt(&session, "go").await;
        editor.update("agent_message_chunk").await;
        let params = json!({ "sessionId": session });
        let mut open = vec![first, second];
        if is_request {
            open.push(editor.request(method, params).await);
        } else {
            editor.notify(method, params).await;
        }
        while !open.is_empty() {
            let message = editor.message().await;
            if message.get("method").is_none() {
                open.retain(|id| message["id"] != *id);
                let end = &message["result"];
                assert!(end == &json!({}) || end["stopReason"] == "cancelled", "{message}");
            }
        }
    }
    let session = editor.session().await;
    let prompt = editor.prompt(&session, "begin").await;
    editor.update("agent_message_chunk").await;
    signal(&editor.agent, Signal::TERM);
    assert_eq!(stop_reason(&editor.until(prompt).await), "cancelled");
    assert_eq!(editor.agent.line().await, None);
}

/// Returns the announced calls that have not ended.
fn open_calls(read: &[Value]) -> Vec<String> {
    let mut open = Vec::new();
    for update in read.iter().map(|message| &message["params"]["update"]) {
        let id = update["toolCallId"].as_str().unwrap_or_default();
        let has_ended = ["completed", "failed"].map(Value::from).contains(&update["status"]);
        match update["sessionUpdate"].as_str() {
            Some("tool_call") if !has_ended => open.push(id.to_owned()),
            Some("tool_call_update") if has_ended => open.retain(|open| open != id),
            _ => {}
        }
    }
    open
}

#[tokio::test]
async fn a_cancel_ends_a_turn_in_every_phase() {
    let mut editor = Editor::start(&script()).await;
    let family = held(&editor.cwd());
    for (words, sign) in [
        ("silence", None),
        ("begin", Some("agent_message_chunk")),
        ("think", Some("agent_thought_chunk")),
        ("retry", Some("agent_thought_chunk")),
        ("write", Some("tool_call")),
    ] {
        let session = editor.session().await;
        let id = editor.prompt(&session, words).await;
        let mut read = Vec::new();
        while let Some(sign) = sign
            && updates(&read, sign).is_empty()
        {
            read.push(editor.message().await);
        }
        editor.notify("session/cancel", json!({ "sessionId": session })).await;
        read.extend(editor.until_with(id, "none").await);
        assert_eq!(stop_reason(&read), "cancelled", "{words}");
        assert!(open_calls(&read).is_empty(), "{words}: {read:?}");
    }
    let session = editor.session().await;
    let id = holding(&mut editor, &session).await;
    editor.notify("session/cancel", json!({ "sessionId": session })).await;
    let read = editor.until(id).await;
    assert_eq!(stop_reason(&read), "cancelled");
    assert_eq!(updates(&read, "tool_call_update").last().unwrap()["status"], "failed");
    is_gone(family).await;
}

#[tokio::test]
async fn a_cancel_of_nothing_does_nothing() {
    let mut editor = Editor::start(&script()).await;
    let session = editor.session().await;
    for id in ["none", &session, &session] {
        editor.notify("session/cancel", json!({ "sessionId": id })).await;
    }
    editor.notify("$/cancel_request", json!({ "requestId": 1000 })).await;
    assert_eq!(stop_reason(&editor.ask(&session, "go").await), "end_turn");
}

#[tokio::test]
async fn every_call_has_ended_when_its_prompt_is_answered() {
    let mut editor = Editor::start(&script()).await;
    let session = editor.session().await;
    for (words, option) in [
        ("write", "once"),
        ("write", "reject"),
        ("write", "no such option"),
        ("fail", "once"),
        ("unknown", "once"),
        ("break", "once"),
    ] {
        let id = editor.prompt(&session, words).await;
        let read = editor.until_with(id, option).await;
        assert!(!updates(&read, "tool_call").is_empty(), "{words}: {read:?}");
        assert!(open_calls(&read).is_empty(), "{words} {option}: {read:?}");
    }
}

#[tokio::test]
async fn a_call_is_pending_until_its_question_is_answered() {
    let mut editor = Editor::start(&script()).await;
    let session = editor.session().await;
    let id = editor.prompt(&session, "write").await;
    let mut read = Vec::new();
    let question = loop {
        let message = editor.message().await;
        if message["method"] == "session/request_permission" {
            break message;
        }
        read.push(message);
    };
    // Another request is answered meanwhile.
    let other = editor.request("session/list", json!({})).await;
    read.extend(editor.until(other).await);
    assert_eq!(updates(&read, "tool_call")[0]["status"], "pending");
    assert!(updates(&read, "tool_call_update").is_empty(), "{read:?}");
    editor.choose(&question, "once").await;
    let read = editor.until(id).await;
    assert_eq!(updates(&read, "tool_call_update")[0]["status"], "in_progress");
}

#[tokio::test]
async fn questions_are_answered_in_any_order() {
    let mut editor = Editor::start(&script()).await;
    let (one, two) = (editor.session().await, editor.session().await);
    let first = editor.prompt(&one, "write").await;
    let first_question = editor.sent("session/request_permission").await;
    let second = editor.prompt(&two, "write").await;
    let second_question = editor.sent("session/request_permission").await;
    assert_ne!(first_question["id"], second_question["id"]);
    assert_eq!(second_question["params"]["sessionId"], two.as_str());
    editor.choose(&second_question, "once").await;
    assert_eq!(stop_reason(&editor.until(second).await), "end_turn");
    editor.choose(&first_question, "once").await;
    assert_eq!(stop_reason(&editor.until(first).await), "end_turn");
}

/// Returns a model that makes two calls in one answer.
fn two_calls(name: &str, args: [Value; 2]) -> Setup {
    let calls = args.map(|args| json!({ "call": { "name": name, "args": args } }));
    Setup::answers(json!([calls, [{ "text": "done" }]]))
}

#[tokio::test]
async fn reading_calls_of_one_answer_ask_at_once_and_are_answered_in_any_order() {
    let args = [".env", "sub/.env"].map(|path| json!({ "file_path": path }));
    let setup = two_calls("read_file", args).file(".env", "A=1").file("sub/.env", "B=2");
    for order in [[0, 1], [1, 0]] {
        let mut editor = Editor::start(&setup).await;
        let session = editor.session().await;
        let id = editor.prompt(&session, "go").await;
        let mut questions = Vec::new();
        for _ in 0..2 {
            questions.push(editor.sent("session/request_permission").await);
        }
        for n in order {
            editor.choose(&questions[n], "once").await;
        }
        let read = editor.until_with(id, "no more questions").await;
        assert_eq!(stop_reason(&read), "end_turn");
        let updates = updates(&read, "tool_call_update");
        let ended = updates.iter().filter(|update| update["status"] == "completed");
        assert_eq!(ended.count(), 2, "{order:?}: {updates:?}");
    }
}

/// The effect of the first call may decide whether the second is wanted, so the first is shown before the second
/// question.
#[tokio::test]
async fn changing_calls_of_one_answer_ask_one_after_the_other() {
    let args = ["a", "b"].map(|path| json!({ "file_path": path, "content": "new\n" }));
    let mut editor = Editor::start(&two_calls("write_file", args)).await;
    let session = editor.session().await;
    let id = editor.prompt(&session, "go").await;
    let first = editor.sent("session/request_permission").await;
    // Another request is answered meanwhile.
    let other = editor.request("session/list", json!({})).await;
    let read = editor.until_with(other, "once").await;
    assert!(read.iter().all(|message| message["method"] != "session/request_permission"));
    editor.choose(&first, "once").await;
    let second = editor.sent("session/request_permission").await;
    assert!(editor.cwd().join("a").exists() && !editor.cwd().join("b").exists());
    editor.choose(&second, "once").await;
    assert_eq!(stop_reason(&editor.until(id).await), "end_turn");
    assert!(editor.cwd().join("b").exists());
}

#[tokio::test]
async fn closing_a_session_ends_its_servers() {
    let mut editor = Editor::start(&script()).await;
    let mut family = held(&editor.cwd());
    let server = format!("exec 3>{}; echo >&3; sleep 1000", editor.cwd().join("family").display());
    let servers = json!([{ "name": "s", "command": "/bin/sh", "args": ["-c", server], "env": [] }]);
    let params = json!({ "cwd": editor.cwd(), "mcpServers": servers });
    let new = editor.call("session/new", params).await;
    let mut line = [0];
    let started = async {
        // Until the server opens its end of the pipe, a read finds the pipe at its end.
        while family.read(&mut line).await.unwrap() == 0 {
            tokio::task::yield_now().await;
        }
    };
    timeout(HANG, started).await.expect("the server is not started");
    let params = json!({ "sessionId": new["result"]["sessionId"] });
    assert_eq!(editor.call("session/close", params).await["result"], json!({}));
    is_gone(family).await;
}

#[tokio::test]
async fn options_are_in_no_groups() {
    let mut editor = Editor::start(&script()).await;
    let new = editor.call("session/new", json!({ "cwd": editor.cwd() })).await;
    for option in new["result"]["configOptions"].as_array().unwrap() {
        for choice in option["options"].as_array().unwrap() {
            assert!(choice["value"].is_string() && choice.get("group").is_none(), "{choice}");
        }
    }
}
