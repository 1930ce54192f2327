//! Commands in the background: their output, and their end.

mod input;
mod stop;

use std::fs::OpenOptions;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use expect_test::expect;
use serde_json::{Value, json};
use tandem_host::workspace::Workspace;
use tandem_host::{Access, ToolContext, ToolError, ToolLimits};
use tandem_tools::all;
use tempfile::TempDir;
use test_support::fifo::{is_gone, make_fifo};
use test_support::host::context;
use test_support::limit::HANG;
use tokio::net::unix::pipe;
use tokio::time::timeout;

/// A workspace with two pipes. A command that reads `go` waits for the test, and a command that holds `family` open
/// is known to run.
struct Shell {
    dir: TempDir,
    cx: ToolContext,
}

impl Shell {
    fn new(limits: ToolLimits) -> Self {
        let dir = TempDir::new().unwrap();
        for name in ["go", "family"] {
            make_fifo(&dir.path().join(name));
        }
        let cx = context(Workspace::new(dir.path(), &[]).unwrap(), limits);
        Self { dir, cx }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    async fn call(&self, tool: &str, args: Value) -> Result<String, ToolError> {
        let tool = all().into_iter().find(|it| it.spec().name == tool).unwrap();
        let call = tool.prepare(args, &self.cx).await?;
        let run = call.run(self.cx.clone(), None);
        timeout(HANG, run).await.expect("it hangs").map(|output| output.text)
    }

    /// Starts a command in the background; returns its PID, and the result of the call.
    async fn start(&self, command: &str) -> (i32, String) {
        let args = json!({ "command": command, "is_background": true, "delay_ms": 1 });
        let said = self.call("run_shell_command", args).await.unwrap();
        let pid = said.strip_prefix("In the background: PID ").expect("no PID");
        (pid.split(' ').next().unwrap().parse().unwrap(), said)
    }

    async fn read(&self, args: Value) -> String {
        self.call("read_background_output", args).await.unwrap()
    }

    /// Waits until the output contains this text, and returns the output.
    async fn read_until(&self, pid: i32, wanted: &str) -> String {
        let reads = async {
            loop {
                let read = self.read(json!({ "pid": pid, "delay_ms": 5 })).await;
                if read.contains(wanted) {
                    return read;
                }
            }
        };
        timeout(HANG, reads).await.expect("it is not written")
    }

    /// Lets a command go on.
    async fn go(&self) {
        let path = self.path("go");
        let open = move || drop(OpenOptions::new().write(true).open(path).unwrap());
        timeout(HANG, tokio::task::spawn_blocking(open)).await.expect("nobody waits").unwrap();
    }
}

#[tokio::test]
async fn a_command_runs_on_and_what_it_writes_is_read() {
    let shell = Shell::new(ToolLimits::default());
    let (pid, said) = shell.start("echo one; cat go; echo two; exit 3").await;
    assert!(said.contains(&format!("PID {pid} runs, for 0 s.\nOutput: ")), "{said}");
    let read = shell.read_until(pid, "one").await;
    assert!(read.starts_with(&format!("PID {pid} runs, for ")) && !read.contains("two"), "{read}");
    shell.go().await;
    // `read` waits until the command ends, and not longer.
    let read = shell.read(json!({ "pid": pid.to_string(), "delay_ms": 300_000 })).await;
    assert_eq!(read, format!("PID {pid} has ended with exit code 3.\nOutput: one\ntwo"));
    assert!(shell.read(json!({ "pid": pid, "lines": 1 })).await.ends_with(".\nOutput: two"));
}

#[tokio::test]
async fn one_that_fails_at_once_says_so_in_its_call() {
    let shell = Shell::new(ToolLimits::default());
    let args = json!({ "command": "echo no; exit 1", "is_background": true, "delay_ms": 60_000 });
    let error = shell.call("run_shell_command", args).await.unwrap_err();
    assert_eq!(error.kind, "shell_exit");
    let (_, ended) = error.message.split_once(" has ended ").unwrap();
    expect![[r#"
        with exit code 1.
        Output: no"#]]
    .assert_eq(ended);
}

#[tokio::test]
async fn all_of_them_are_listed() {
    let shell = Shell::new(ToolLimits::default());
    let list = async || shell.call("list_background_processes", json!({})).await.unwrap();
    assert_eq!(list().await, "No command has been started in the background.");
    let (first, _) = shell.start("true").await;
    shell.read(json!({ "pid": first, "delay_ms": 60_000 })).await;
    let (second, _) = shell.start("cat go").await;
    let listed = list().await;
    let lines: Vec<_> = listed.lines().collect();
    assert_eq!(lines[0], format!("PID {first} has ended with exit code 0, in .: true"));
    assert!(lines[1].starts_with(&format!("PID {second} runs, for ")), "{listed}");
    assert!(lines[1].ends_with(" s, in .: cat go"), "{listed}");
}

#[tokio::test]
async fn of_much_output_the_beginning_and_the_end_are_kept() {
    let limits = ToolLimits { background_bytes: 1000, ..ToolLimits::default() };
    let shell = Shell::new(limits);
    let (pid, _) = shell.start("echo begin; seq 100000; echo end; cat go").await;
    shell.read_until(pid, "\nend").await;
    let read = shell.read(json!({ "pid": pid, "lines": 10_000 })).await;
    assert!(read.contains("begin") && read.contains("bytes left out") && read.len() < 1200);
}

#[tokio::test]
async fn no_more_run_than_may() {
    let shell = Shell::new(ToolLimits { background_commands: 1, ..ToolLimits::default() });
    let (pid, _) = shell.start("cat go").await;
    let args = json!({ "command": "true", "is_background": true });
    let error = shell.call("run_shell_command", args).await.unwrap_err();
    expect![
        "The command could not be started: 1 commands run in the background, which is the limit; \
         list_background_processes names them"
    ]
    .assert_eq(&error.message);
    shell.go().await;
    shell.read(json!({ "pid": pid, "delay_ms": 60_000 })).await;
    shell.start("true").await;
}

#[tokio::test]
async fn a_pid_that_is_no_such_commands_is_not_read() {
    let shell = Shell::new(ToolLimits::default());
    for args in [json!({ "pid": 1 }), json!({ "pid": u64::MAX / 2 })] {
        let error = shell.call("read_background_output", args).await.unwrap_err();
        assert_eq!(error.kind, "no_such_process");
    }
    let error = shell.call("read_background_output", json!({ "pid": null })).await.unwrap_err();
    assert_eq!(error.message, "`pid`: is missing");
}

#[tokio::test]
async fn a_command_whose_time_is_over_runs_on_in_the_background() {
    let shell = Shell::new(ToolLimits::default());
    let args = json!({ "command": "echo one; cat go; echo two; exit 3", "timeout": 1 });
    let said = shell.call("run_shell_command", args).await.unwrap();
    let pid = said.strip_prefix(
        "The command has not ended within 1 ms and runs on in the background as PID ",
    );
    let (pid, _) = pid.expect("no PID").split_once('.').unwrap();
    shell.go().await;
    let read = shell.read(json!({ "pid": pid, "delay_ms": 300_000 })).await;
    assert_eq!(read, format!("PID {pid} has ended with exit code 3.\nOutput: one\ntwo"));
}

#[tokio::test]
async fn the_limit_is_the_time_of_a_command_for_which_the_model_names_none() {
    let limits = ToolLimits { shell_time: Duration::from_millis(1), ..ToolLimits::default() };
    let shell = Shell::new(limits);
    let said = shell.call("run_shell_command", json!({ "command": "cat go" })).await.unwrap();
    assert!(said.contains("runs on in the background as PID "), "{said}");
    shell.go().await;
}

#[tokio::test]
async fn a_command_that_a_person_has_typed_has_no_clock() {
    let shell = Shell::new(ToolLimits::default());
    let shell = Shell { cx: ToolContext { has_clock: false, ..shell.cx.clone() }, dir: shell.dir };
    let args = json!({ "command": "cat go; echo end", "timeout": 1 });
    let (said, ()) = tokio::join!(shell.call("run_shell_command", args), shell.go());
    assert_eq!(said.unwrap(), "Output: end");
}

#[tokio::test]
async fn a_command_of_a_model_without_tools_for_the_background_ends_when_its_time_is_over() {
    let mut shell = Shell::new(ToolLimits::default());
    shell.cx.audience.has_short_set = true;
    let args = json!({ "command": "cat go", "timeout": 1 });
    let error = shell.call("run_shell_command", args).await.unwrap_err();
    assert_eq!(error.kind, "shell_timeout");
    expect![[r"
        The command was ended after 1 ms: you have no tools for commands in the background. Give it a longer `timeout`.
        Output: "]]
    .assert_eq(&error.message);
    assert_eq!(
        shell.call("list_background_processes", json!({})).await.unwrap(),
        "No command has been started in the background."
    );
}

#[tokio::test]
async fn a_command_whose_time_is_over_ends_where_no_more_may_run_in_the_background() {
    let shell = Shell::new(ToolLimits { background_commands: 0, ..ToolLimits::default() });
    let family = pipe::OpenOptions::new().open_receiver(shell.path("family")).unwrap();
    // The command may be ended before it opens the pipe. The test opens the pipe itself, so that the pipe has an
    // end.
    let opened = OpenOptions::new().write(true).open(shell.path("family")).unwrap();
    let args = json!({ "command": "exec 3>family; sleep 1000", "timeout": 1 });
    let error = shell.call("run_shell_command", args).await.unwrap_err();
    assert_eq!(error.kind, "shell_timeout");
    expect![
        "The command was ended after 1 ms: 0 commands run in the background, which is the limit; \
         list_background_processes names them. Give it a longer `timeout`.\nOutput: "
    ]
    .assert_eq(&error.message);
    drop(opened);
    is_gone(family).await;
}

#[tokio::test]
async fn they_end_with_the_session_and_none_starts_after_it() {
    let shell = Shell::new(ToolLimits::default());
    let family = pipe::OpenOptions::new().open_receiver(shell.path("family")).unwrap();
    let command = "exec 3>family; (trap '' TERM; sleep 1000) & setsid sleep 1000 & echo up; wait";
    let (pid, _) = shell.start(command).await;
    shell.read_until(pid, "up").await;
    shell.cx.host.background.end();
    is_gone(family).await;
    let args = json!({ "command": "true", "is_background": true });
    let error = shell.call("run_shell_command", args).await.unwrap_err();
    expect!["The command could not be started: the session is ending"].assert_eq(&error.message);
}

#[tokio::test]
async fn they_end_when_nobody_holds_the_session_any_more() {
    let shell = Shell::new(ToolLimits::default());
    let family = pipe::OpenOptions::new().open_receiver(shell.path("family")).unwrap();
    let (pid, _) = shell.start("exec 3>family; echo up; sleep 1000").await;
    shell.read_until(pid, "up").await;
    let Shell { dir: _dir, cx } = shell;
    drop(cx);
    is_gone(family).await;
}

#[tokio::test]
async fn it_is_the_same_to_the_policy_as_any_command() {
    let shell = Shell::new(ToolLimits::default());
    let tool = all().into_iter().find(|it| it.spec().name == "run_shell_command").unwrap();
    let args = json!({ "command": "npm start", "is_background": "true", "description": "Serves" });
    let call = tool.prepare(args, &shell.cx).await.unwrap();
    assert_eq!(call.summary.label, "Run npm start [in the background] (Serves)");
    let directory = shell.dir.path().canonicalize().unwrap();
    assert_eq!(
        call.access,
        Access::Execute { command: "npm start".to_owned(), directory, sandbox: None }
    );
    assert_eq!(Arc::strong_count(&shell.cx.host), 1);
}
