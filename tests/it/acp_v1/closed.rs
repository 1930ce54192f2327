//! Nothing is left running of closed sessions.

use std::fs;
use std::path::PathBuf;

use serde_json::{Value, json};
use tokio::net::unix::pipe;

use super::{Editor, stop_reason};
use crate::agent::Setup;
use crate::family::{is_gone, make_fifo};
use crate::limit::wait_until;

/// Number of sessions that are open at once.
const AT_ONCE: usize = 10;
const TIMES: usize = 10;

/// Calls of each session.
const CALLS: usize = 2;

/// Numbers of processes and of open files that the agent has. The files of an agent, whose memory no other process
/// of its user may read, are shown to root alone: none are counted for others.
fn open(editor: &Editor) -> (usize, usize) {
    let id = editor.agent.child.id().unwrap();
    let tasks = fs::read_dir(format!("/proc/{id}/task")).unwrap().flatten();
    let children = tasks.map(|task| {
        let children = fs::read_to_string(task.path().join("children"));
        children.unwrap_or_default().split_whitespace().count()
    });
    let files = fs::read_dir(format!("/proc/{id}/fd"));
    assert!(files.is_ok() || !rustix::process::geteuid().is_root());
    (children.sum(), files.map_or(0, Iterator::count))
}

/// Opens sessions and closes them. Each has a server, a command in the background, and a command that its turn waits
/// for.
async fn open_and_close(editor: &mut Editor, servers: &Value) {
    let mut sessions = Vec::new();
    for _ in 0..AT_ONCE {
        let params = json!({ "cwd": editor.cwd(), "mcpServers": servers });
        let answer = editor.call("session/new", params).await;
        sessions.push(answer["result"]["sessionId"].as_str().unwrap().to_owned());
    }
    let mut prompts = Vec::new();
    for session in sessions {
        let prompt = editor.prompt(&session, "go").await;
        prompts.push((session, prompt));
    }
    for _ in 0..AT_ONCE * CALLS {
        editor.update("tool_call").await;
    }
    for (session, prompt) in prompts {
        // While one session is closed, the others go on.
        let close = editor.request("session/close", json!({ "sessionId": session })).await;
        let read = editor.until(close).await;
        let answered = read.iter().find(|message| message["id"] == prompt);
        assert_eq!(stop_reason(&[answered.unwrap().clone()]), "cancelled");
    }
}

#[tokio::test]
async fn a_hundred_sessions_leave_no_process_and_no_open_file() {
    let run = |command: &str, background: bool| {
        let args = json!({ "command": command, "is_background": background, "delay_ms": 5 });
        json!({ "call": { "name": "run_shell_command", "args": args } })
    };
    let answers = json!([
        [run("exec 3>family; sleep 1000", true)],
        [run("exec 3>family; sleep 1000", false)],
    ]);
    let mut editor = Editor::start(&Setup::answers(answers).arg("-y")).await;
    let family: PathBuf = editor.cwd().join("family");
    make_fifo(&family);
    let server = format!("{}/fixtures/mcp/server.sh", env!("CARGO_MANIFEST_DIR"));
    let script = format!("exec 3>'{}'; exec '{server}'", family.display());
    let servers = json!([{ "name": "s", "command": "sh", "args": ["-c", script], "env": [] }]);
    // The first round also opens descriptors that stay open, so later rounds are compared with it.
    let mut first = None;
    for _ in 0..=TIMES {
        let members = pipe::OpenOptions::new().open_receiver(&family).unwrap();
        open_and_close(&mut editor, &servers).await;
        is_gone(members).await;
        let first = *first.get_or_insert(open(&editor));
        // The agent notices the end of a process a moment later.
        wait_until("as many as before", || open(&editor) <= first).await;
    }
}
