//! Ends of a run before the end of its prompt: a signal, or an output that is closed.

use std::fs;
use std::time::Duration;

use expect_test::expect;
use rustix::process::Signal;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::AsyncReadExt as _;
use tokio::time::timeout;

use super::{Running, says, start};
use crate::agent::{HANG, Setup};
use crate::family::run;
use crate::limit::wait_until;

/// Returns a model with a command that runs as long as the program.
fn sleeper() -> Setup {
    let command = "touch runs; exec sleep 1000";
    Setup::answers(json!([[{ "text": "begun\n" }, run(command)]])).arg("-y")
}

async fn sleeps(running: &Running) {
    let runs = running.home.path().join("workspace/runs");
    wait_until("the command", || runs.exists()).await;
}

/// Returns whether a process of this run is left.
fn is_left(home: &TempDir) -> bool {
    let workspace = fs::canonicalize(home.path().join("workspace")).unwrap();
    let processes = fs::read_dir("/proc").unwrap().flatten();
    processes
        .map(|process| process.path().join("cwd"))
        .any(|cwd| fs::read_link(cwd).is_ok_and(|cwd| cwd == workspace))
}

#[tokio::test]
async fn a_signal_cancels_the_prompt() {
    for (signal, code) in [(Signal::INT, 130), (Signal::TERM, 143)] {
        let mut running = start(sleeper().without_sandbox().arg("-o").arg("json"), "go");
        drop(running.child.stdin.take());
        sleeps(&running).await;
        running.signal(signal);
        let ran = running.end().await;
        assert_eq!((&*ran.stderr, ran.status.code()), ("tandem: cancelled\n", Some(code)));
        let result: Value = serde_json::from_str(&ran.stdout).unwrap();
        assert_eq!(result["response"], "begun\n");
        let error = json!({
            "type": "FatalCancellationError", "message": "cancelled", "code": code
        });
        assert_eq!(result["error"], error);
        assert!(!is_left(&ran.home));
    }
}

/// Waits until a process catches `SIGINT`, which would end it earlier.
async fn catches_interrupts(pid: u32) {
    let caught = || {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
        let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).unwrap();
        let mask = u64::from_str_radix(caught.trim(), 16).unwrap();
        mask & 1 << (Signal::INT.as_raw() - 1) != 0
    };
    wait_until("a handler of `SIGINT`", caught).await;
}

#[tokio::test]
async fn a_signal_ends_the_wait_for_standard_input() {
    let running = start(says("no"), "go");
    catches_interrupts(running.child.id().unwrap()).await;
    running.signal(Signal::INT);
    let mut child = running.child;
    let status = timeout(HANG, child.wait()).await.expect("it does not end").unwrap();
    assert_eq!(status.code(), Some(130));
}

#[tokio::test]
async fn a_second_signal_ends_it_at_once() {
    // The test stops reading, so the program cannot write the end of the answer.
    let setup = Setup::answers(json!([[{ "repeat": { "text": "word {n} ", "times": 100_000 } }]]));
    let mut running = start(setup, "go");
    drop(running.child.stdin.take());
    let (_line, stdout) = {
        let mut stdout = running.child.stdout.take().unwrap();
        let mut first = [0; 4];
        timeout(HANG, stdout.read_exact(&mut first)).await.unwrap().unwrap();
        (first, stdout)
    };
    running.signal(Signal::INT);
    // The wait keeps the signals apart: the system joins two equal signals that come together.
    tokio::time::sleep(Duration::from_millis(100)).await;
    running.signal(Signal::INT);
    let ended = timeout(Duration::from_millis(1500), running.child.wait()).await;
    assert_eq!(ended.expect("it takes its time").unwrap().code(), Some(130));
    drop(stdout);
}

#[tokio::test]
async fn a_run_that_nobody_reads_ends_quickly_and_quietly() {
    let mut running = start(sleeper().without_sandbox(), "go");
    drop(running.child.stdin.take());
    let (line, stdout) = running.line().await;
    assert_eq!(line, "begun\n");
    sleeps(&running).await;
    drop(stdout);
    let ran = running.end().await;
    assert_eq!((&*ran.stderr, ran.status.code()), ("", Some(1)));
    assert!(!is_left(&ran.home));
}

#[tokio::test]
async fn a_model_that_does_not_stop_repeating_itself_is_stopped() {
    let call = json!([{ "call": { "name": "list_directory", "args": { "dir_path": "." } } }]);
    let script = || Setup::answers(Value::from(vec![call.clone(); 30]));
    let ran = super::ran(script(), "go").await;
    assert_eq!(ran.status.code(), Some(1), "{}", ran.stderr);
    let lines: Vec<_> = ran.stderr.lines().collect();
    expect![[r#"
        tandem: The model repeats itself (the same call with the same result: list_directory {"dir_path":"."}); tandem has told the model.
        tandem: not allowed without `model.disableLoopDetection`: Let the model go on, although it repeats itself (the model has been told that it repeats itself, and goes on [built-in rule repetition])
        tandem: Stopped, because the model repeated itself: the same call with the same result: list_directory {"dir_path":"."}. Say how to go on, or turn this check off with `model.disableLoopDetection` in the settings."#]].assert_eq(&lines.join("\n"));
    let off = json!({ "model": { "disableLoopDetection": true } }).to_string();
    let left =
        super::ran(script().file(".gemini/settings.json", &off).arg("--skip-trust"), "go").await;
    expect![""].assert_eq(&left.stderr);
}
