//! The tool that stops a command in the background.

use serde_json::json;
use tandem_host::ToolLimits;
use test_support::fifo::is_gone;
use tokio::net::unix::pipe;

use super::Shell;

#[tokio::test]
async fn the_model_stops_a_command_with_all_that_it_has_started() {
    let shell = Shell::new(ToolLimits::default());
    let family = pipe::OpenOptions::new().open_receiver(shell.path("family")).unwrap();
    let command = "exec 3>family; (trap '' TERM; sleep 1000) & setsid sleep 1000 & echo up; wait";
    let (pid, _) = shell.start(command).await;
    shell.read_until(pid, "up").await;
    let stopped = shell.call("stop_background_command", json!({ "pid": pid.to_string() })).await;
    assert_eq!(stopped.unwrap(), format!("PID {pid} was stopped."));
    is_gone(family).await;
    let read = shell.read(json!({ "pid": pid })).await;
    assert_eq!(read, format!("PID {pid} was stopped.\nOutput: up"));
}

#[tokio::test]
async fn one_that_has_ended_is_left_as_it_is() {
    let shell = Shell::new(ToolLimits::default());
    let (pid, _) = shell.start("cat go; exit 3").await;
    shell.go().await;
    shell.read(json!({ "pid": pid, "delay_ms": 60_000 })).await;
    let stopped = shell.call("stop_background_command", json!({ "pid": pid })).await;
    assert_eq!(stopped.unwrap(), format!("PID {pid} has ended with exit code 3 already."));
}

#[tokio::test]
async fn only_commands_of_the_session_are_stopped() {
    let shell = Shell::new(ToolLimits::default());
    for pid in [u64::from(std::process::id()), 1, u64::MAX / 2] {
        let error = shell.call("stop_background_command", json!({ "pid": pid })).await.unwrap_err();
        assert_eq!(error.kind, "no_such_process");
    }
}
