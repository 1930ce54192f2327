//! Commands in the background, and the agent that has started them.

use std::fs;

use rustix::process::Signal;
use serde_json::json;
use test_support::fifo::{is_gone, make_fifo};
use tokio::net::unix::pipe;

use crate::agent::{Agent, Setup};
use crate::lifecycle::signal;
use crate::limit::wait_until;

/// Starts an agent with a command in the background that holds a pipe open, and has children that hide.
async fn with_family() -> (Agent, pipe::Receiver) {
    let command = "exec 3>family; (trap '' TERM; sleep 1000) & setsid sleep 1000 & echo > up; wait";
    let args = json!({ "command": command, "is_background": true });
    let call = json!([{ "call": { "name": "run_shell_command", "args": args } }]);
    let mut agent = Setup::answers(json!([call, [{ "text": "done" }]])).arg("-y").start();
    let workspace = agent.workspace();
    make_fifo(&workspace.join("family"));
    let family = pipe::OpenOptions::new().open_receiver(workspace.join("family")).unwrap();
    let id = agent.prompt("go").await;
    agent.until_answered(id, "allow").await;
    wait_until("its beginning", || workspace.join("up").exists()).await;
    (agent, family)
}

#[tokio::test]
async fn they_end_with_the_agent_however_that_ends() {
    let (mut agent, family) = with_family().await;
    assert!(agent.hang_up().await.1.success());
    is_gone(family).await;
    for how in [Signal::TERM, Signal::KILL] {
        let (agent, family) = with_family().await;
        signal(&agent, how);
        is_gone(family).await;
    }
}

#[tokio::test]
async fn an_editor_is_asked_as_for_any_command() {
    let args = json!({ "command": "touch x", "is_background": true, "delay_ms": 60_000 });
    let call = json!([{ "call": { "name": "run_shell_command", "args": args } }]);
    let answers = json!([call, [{ "text": "done" }]]);
    let mut agent = Setup::answers(answers).without_sandbox().start();
    let id = agent.prompt("go").await;
    let read = agent.until_answered(id, "reject").await;
    let asked = read.iter().find(|it| it["method"] == "requestToolCallConfirmation").unwrap();
    assert_eq!(asked["params"]["confirmation"]["type"], "execute");
    assert_eq!(asked["params"]["confirmation"]["command"], "touch x");
    assert_eq!(asked["params"]["label"], "Run touch x [in the background]");
    assert!(!fs::exists(agent.workspace().join("x")).unwrap());
}
