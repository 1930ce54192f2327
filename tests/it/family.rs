//! Processes of commands: none outlives the agent.

use std::fs;
use std::path::Path;

use rustix::process::Signal;
use serde_json::{Value, json};
pub(crate) use test_support::fifo::{is_gone, make_fifo};
use tokio::net::unix::pipe;
use tokio::time::timeout;

use crate::agent::{Agent, HANG, Setup, text};
use crate::lifecycle::signal;
use crate::limit::wait_until;

pub(crate) fn run(command: &str) -> Value {
    json!({ "call": { "name": "run_shell_command", "args": { "command": command } } })
}

/// A command whose whole family holds a pipe open: children, a process in a session of its own, an orphan, and a
/// process that ignores SIGTERM.
const FAMILY: &str = "exec 3>family; sleep 1000 & setsid sleep 1000 & (sleep 1000 &) ; \
    (trap '' TERM; sleep 1000; sleep 1000) & setsid bash -c '(trap \"\" TERM; sleep 1000) & wait' & \
    echo started; wait";

/// Starts an agent that runs the family. Returns a pipe that ends when the whole family has ended.
async fn with_family() -> (Agent, u64, pipe::Receiver) {
    with_running(FAMILY).await
}

async fn with_running(command: &str) -> (Agent, u64, pipe::Receiver) {
    let mut agent = Setup::answers(json!([[run(command)], [{ "text": "done" }]])).arg("-y").start();
    let fifo = agent.workspace().join("family");
    make_fifo(&fifo);
    let family = pipe::OpenOptions::new().open_receiver(&fifo).unwrap();
    let id = agent.prompt("go").await;
    let pushed = agent.call_of("pushToolCall").await;
    agent.answer(&pushed, json!({ "id": 1 })).await;
    let update = agent.call_of("updateToolCall").await;
    assert_eq!(update["params"]["status"], "running");
    assert_eq!(update["params"]["content"]["markdown"], "```\nstarted\n```");
    (agent, id, family)
}

#[tokio::test]
async fn a_cancel_ends_all_that_the_command_started() {
    let (mut agent, id, family) = with_family().await;
    let cancel = agent.request("cancelSendMessage", Value::Null).await;
    assert_eq!(agent.message().await, json!({ "jsonrpc": "2.0", "id": cancel, "result": null }));
    assert_eq!(agent.answer_to(id).await["result"], Value::Null);
    is_gone(family).await;
}

#[tokio::test]
async fn the_end_of_the_editor_ends_all_that_the_command_started() {
    let (agent, _, family) = with_family().await;
    let Agent { mut child, stdin, lines, .. } = agent;
    drop((stdin, lines));
    is_gone(family).await;
    timeout(HANG, child.wait()).await.unwrap().unwrap();
}

#[tokio::test]
async fn a_signal_ends_all_that_the_command_started() {
    let (agent, _, family) = with_family().await;
    signal(&agent, Signal::TERM);
    is_gone(family).await;
}

#[tokio::test]
async fn a_kill_of_the_agent_ends_all_that_the_command_started() {
    let (agent, _, family) = with_family().await;
    signal(&agent, Signal::KILL);
    is_gone(family).await;
}

/// Starts an agent whose command has ended and left a process that holds the pipe open.
async fn with_left(command: &str) -> (Agent, pipe::Receiver) {
    let command = format!("exec 3>family; {command}");
    let answers = json!([[run(&command)], [{ "text": "done" }], [{ "hang": null }]]);
    let mut agent = Setup::answers(answers).arg("-y").start();
    let fifo = agent.workspace().join("family");
    make_fifo(&fifo);
    let family = pipe::OpenOptions::new().open_receiver(&fifo).unwrap();
    let id = agent.prompt("go").await;
    let messages = agent.until_answered(id, "allow").await;
    assert_eq!(text(&messages), "done");
    (agent, family)
}

/// Processes that are left: in the command's group, in a session of its own, and there without an environment.
const LEFT: [&str; 4] = [
    "sleep 1000 & setsid sleep 1000 & echo left",
    "setsid sleep 1000 & sleep 0.1",
    "setsid env -i sleep 1000 & sleep 0.1",
    "setsid env -i bash -c '(trap \"\" TERM; sleep 1000) & sleep 1000' & sleep 0.1",
];

#[tokio::test]
async fn what_a_command_leaves_in_the_background_ends_with_the_agent() {
    for command in LEFT {
        let (mut agent, family) = with_left(command).await;
        let (_, status) = agent.hang_up().await;
        assert!(status.success());
        is_gone(family).await;
    }
}

#[tokio::test]
async fn what_a_command_leaves_in_the_background_ends_with_the_agent_at_a_signal() {
    for command in LEFT {
        let (mut agent, family) = with_left(command).await;
        signal(&agent, Signal::TERM);
        assert_eq!(agent.exit().await.code(), Some(143));
        is_gone(family).await;
    }
}

#[tokio::test]
async fn what_a_command_leaves_in_the_background_ends_when_the_agent_is_killed() {
    for command in &LEFT[..2] {
        let (agent, family) = with_left(command).await;
        signal(&agent, Signal::KILL);
        is_gone(family).await;
    }
}

#[tokio::test]
async fn a_cancel_ends_what_hides_without_an_environment() {
    let command = "exec 3>family; setsid env -i sleep 1000 & echo started; wait";
    let (mut agent, _, family) = with_running(command).await;
    agent.request("cancelSendMessage", Value::Null).await;
    is_gone(family).await;
}

#[tokio::test]
async fn what_runs_on_in_the_background_may_write_on() {
    let command = "(while [ ! -e stop ]; do echo tick; echo tick >> log; sleep 0.02; done) &";
    let (agent, _family) = with_left(command).await;
    let log = agent.workspace().join("log");
    let ticks = || fs::read_to_string(&log).unwrap_or_default().lines().count();
    let before = ticks();
    wait_until("work of it", || ticks() > before + 10).await;
}

#[tokio::test]
async fn orphans_that_end_are_waited_for() {
    let command = "for n in 1 2 3 4 5; do (setsid sleep 0.05 &); done";
    let (agent, family) = with_left(command).await;
    is_gone(family).await;
    let pid = agent.child.id().unwrap();
    wait_until("the end of the dead", || children_of(pid).len() == 1).await;
}

#[tokio::test]
async fn the_guard_goes_with_the_agent() {
    let mut agent = Setup::answers(json!([[run("true")], [{ "text": "done" }]])).arg("-y").start();
    let id = agent.prompt("go").await;
    agent.until_answered(id, "allow").await;
    let children = children_of(agent.child.id().unwrap());
    assert_eq!(children.len(), 1, "the guard");
    let (_, status) = agent.hang_up().await;
    assert!(status.success());
    assert!(!Path::new(&format!("/proc/{}", children[0])).exists());
}

pub(crate) fn children_of(pid: u32) -> Vec<String> {
    let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap();
    children.split_whitespace().map(ToOwned::to_owned).collect()
}
