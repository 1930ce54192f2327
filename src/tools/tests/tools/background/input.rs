//! Commands in the background that are written to.

use std::sync::Arc;
use std::time::Duration;

use expect_test::expect;
use serde_json::{Value, json};
use tandem_host::background::JobState;
use tandem_host::command_sandbox::ShownFiles;
use tandem_host::{Access, ProgramInput, ToolContext, ToolError, ToolLimits};
use tandem_sandbox::SandboxMode;
use tandem_tools::all;
use test_support::fifo::is_gone;
use test_support::limit::HANG;
use tokio::net::unix::pipe;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::Shell;

/// A text that fills an empty pipe.
const PIPE_BYTES: usize = 64 << 10;

/// Starts a command that takes input. Returns its PID.
async fn start(shell: &Shell, command: &str) -> i32 {
    let args = json!({ "command": command, "stdin": true, "delay_ms": 1 });
    let said = shell.call("run_shell_command", args).await.unwrap();
    let pid = said.strip_prefix("In the background: PID ").expect("no PID");
    pid.split(' ').next().unwrap().parse().unwrap()
}

/// Writes to a command, or looks at it. Returns the result without its first line, which has the time.
async fn write(shell: &Shell, args: Value) -> String {
    let said = shell.call("write_stdin", args).await.unwrap();
    said.split_once("\nOutput: ").unwrap().1.to_owned()
}

async fn refused(shell: &Shell, args: Value) -> ToolError {
    shell.call("write_stdin", args).await.unwrap_err()
}

/// Looks at a command until it has written this text. Returns all output of these looks.
async fn look_until(shell: &Shell, pid: i32, wanted: &str) -> String {
    let looks = async {
        let mut seen = String::new();
        while !seen.contains(wanted) {
            seen += &write(shell, json!({ "pid": pid, "wait_ms": 60_000 })).await;
        }
        seen
    };
    timeout(HANG, looks).await.expect("it is not written")
}

#[tokio::test]
async fn a_program_that_runs_on_answers_one_text_after_another() {
    let shell = Shell::new(ToolLimits::default());
    let pid = start(&shell, "sh").await;
    let said = write(&shell, json!({ "pid": pid, "chars": "x=20\n", "wait_ms": 1 })).await;
    assert_eq!(said, "(empty)");
    let chars = "echo $((x + 1))\n";
    let said = write(&shell, json!({ "pid": pid, "chars": chars, "wait_ms": 60_000 })).await;
    assert_eq!(said, "21");
    let said = shell.call("write_stdin", json!({ "chars": "exit 3\n", "wait_ms": "60000" })).await;
    assert_eq!(said.unwrap(), format!("PID {pid} has ended with exit code 3.\nOutput: (empty)"));
}

#[tokio::test]
async fn a_look_returns_what_was_written_since_the_last_and_waits_for_it() {
    let shell = Shell::new(ToolLimits::default());
    let pid = start(&shell, "cat go; echo one; cat go; echo two; exec cat").await;
    shell.go().await;
    assert_eq!(look_until(&shell, pid, "one").await, "one");
    assert_eq!(write(&shell, json!({ "pid": pid, "wait_ms": 0 })).await, "(empty)");
    shell.go().await;
    assert_eq!(write(&shell, json!({ "pid": pid, "wait_ms": 60_000 })).await, "two");
    assert_eq!(
        shell.read(json!({ "pid": pid })).await.split_once(".\nOutput: ").unwrap().1,
        "one\ntwo"
    );
}

#[tokio::test]
async fn any_command_in_the_background_can_be_looked_at() {
    let shell = Shell::new(ToolLimits::default());
    let (pid, _) = shell.start("cat go; echo one").await;
    shell.go().await;
    assert_eq!(look_until(&shell, pid, "one").await, "one");
    shell.read(json!({ "pid": pid, "delay_ms": 60_000 })).await;
    let said = shell.call("write_stdin", json!({ "pid": pid })).await.unwrap();
    assert_eq!(said, format!("PID {pid} has ended with exit code 0.\nOutput: (empty)"));
}

#[tokio::test]
async fn closing_the_input_lets_a_program_end() {
    let shell = Shell::new(ToolLimits::default());
    let pid = start(&shell, "cat; echo end").await;
    let args = json!({ "pid": pid, "chars": "one\n", "close": true, "wait_ms": 60_000 });
    let mut said = write(&shell, args).await;
    if !said.contains("end") {
        said += &format!("\n{}", look_until(&shell, pid, "end").await);
    }
    assert_eq!(said, "one\nend");
    let pid = start(&shell, "cat; exit 4").await;
    let said = shell.call("write_stdin", json!({ "pid": pid, "close": "true", "wait_ms": 60_000 }));
    let ended = format!("PID {pid} has ended with exit code 4.\nOutput: (empty)");
    assert_eq!(said.await.unwrap(), ended);
}

#[tokio::test]
async fn without_input_a_command_reads_its_end_at_once() {
    let shell = Shell::new(ToolLimits::default());
    let args = json!({ "command": "cat; echo end" });
    assert_eq!(shell.call("run_shell_command", args).await.unwrap(), "Output: end");
    let args = json!({ "command": "cat; echo end", "is_background": true, "delay_ms": 60_000 });
    let said = shell.call("run_shell_command", args).await.unwrap();
    assert!(said.ends_with(" has ended with exit code 0.\nOutput: end"), "{said}");
}

#[tokio::test]
async fn what_cannot_be_written_to_is_named_without_a_question() {
    let shell = Shell::new(ToolLimits::default());
    let other = Shell::new(ToolLimits::default());
    let others = start(&other, "cat").await;
    for pid in [1, i64::from(std::process::id()), i64::from(others)] {
        assert_eq!(
            refused(&shell, json!({ "pid": pid, "chars": "x" })).await.kind,
            "no_such_process"
        );
    }
    let none = refused(&shell, json!({ "chars": "x" })).await;
    assert_eq!(none.message, "`pid`: is missing, and no command takes input");

    let (pid, _) = shell.start("cat go").await;
    let error = refused(&shell, json!({ "pid": pid, "chars": "x" })).await;
    assert_eq!(error.kind, "no_input");
    expect![[r#"
        Nothing was written: PID PID was started without `stdin`. If it needs input, stop it and start it again with `stdin`."#]]
    .assert_eq(&error.message.replace(&pid.to_string(), "PID"));
    shell.go().await;
    shell.read(json!({ "pid": pid, "delay_ms": 60_000 })).await;
    let error = refused(&shell, json!({ "pid": pid, "chars": "x" })).await;
    let ended = format!("Nothing was written: PID {pid} has ended with exit code 0.");
    assert_eq!((error.kind, error.message), ("command_ended".into(), ended));

    let pid = start(&shell, "cat; cat go").await;
    write(&shell, json!({ "close": true, "wait_ms": 1 })).await;
    let error = refused(&shell, json!({ "pid": pid, "chars": "x" })).await;
    assert_eq!(error.message, format!("Nothing was written: the input of PID {pid} is closed."));
    shell.go().await;

    let pids = [start(&shell, "cat").await, start(&shell, "cat").await];
    let several = refused(&shell, json!({ "chars": "x" })).await.message;
    assert_eq!(several, format!("`pid`: is missing; these take input: {}, {}", pids[0], pids[1]));
    let long = json!({ "pid": pids[0], "chars": "x".repeat(PIPE_BYTES + 1) });
    let long = refused(&shell, long).await.message;
    assert_eq!(long, "`chars`: has 65537 bytes, and at most 65536 are written at once");
}

#[tokio::test(start_paused = true)]
async fn a_program_that_never_reads_holds_nobody_up_and_what_it_took_is_counted() {
    let shell = Shell::new(ToolLimits::default());
    let pid = start(&shell, "cat go; wc -c").await;
    let taken = |error: &ToolError| {
        let (_, rest) = error.message.split_once("Only ").unwrap();
        rest.split_once(" of 65536 bytes were written, as the program does not read.")
            .unwrap()
            .0
            .parse::<usize>()
            .unwrap()
    };
    let text = json!({ "pid": pid, "chars": "x".repeat(PIPE_BYTES), "wait_ms": 0 });
    // Where pipes are smaller, the first text does not fit either.
    let first = match shell.call("write_stdin", text.clone()).await {
        Ok(_) => PIPE_BYTES,
        Err(error) => taken(&error),
    };
    let error = refused(&shell, text).await;
    assert_eq!(error.kind, "input_not_read");
    assert!(error.message.contains(" What is left begins with `xxx"), "{}", error.message);
    assert!(error.message.contains(&format!("\nPID {pid} runs, for ")), "{}", error.message);
    let second = taken(&error);
    let closes = json!({ "pid": pid, "chars": "y".repeat(PIPE_BYTES), "close": true });
    let third = refused(&shell, closes).await;
    assert!(third.message.contains(" and its input is still open."), "{}", third.message);
    // From here on, the test waits for the program.
    tokio::time::resume();
    shell.go().await;
    write(&shell, json!({ "pid": pid, "close": true, "wait_ms": 1 })).await;
    let counted = shell.read_until(pid, "ended").await;
    let counted = counted.rsplit(' ').next().unwrap();
    assert_eq!(counted.parse::<usize>().unwrap(), first + second);
}

#[tokio::test]
async fn a_program_that_has_closed_its_input_takes_nothing() {
    let shell = Shell::new(ToolLimits::default());
    let pid = start(&shell, "exec <&-; echo up; exec cat go").await;
    shell.read_until(pid, "up").await;
    let error = refused(&shell, json!({ "pid": pid, "chars": "x\n", "wait_ms": 1 })).await;
    assert_eq!(error.kind, "input_closed");
    let first = error.message.lines().next().unwrap();
    assert_eq!(first, "Only 0 of 2 bytes were written: the program reads no more input.");
}

#[tokio::test]
async fn an_input_that_was_closed_meanwhile_is_closed() {
    let shell = Shell::new(ToolLimits::default());
    let pid = start(&shell, "cat go").await;
    let tool = all().into_iter().find(|it| it.spec().name == "write_stdin").unwrap();
    let args = json!({ "pid": pid, "close": true, "wait_ms": 60_000 });
    let call = tool.prepare(args, &shell.cx).await.unwrap();
    shell.cx.host.background.find(pid).unwrap().input.close().await;
    shell.go().await;
    let said = call.run(shell.cx.clone(), None).await.unwrap().text;
    assert_eq!(said, format!("PID {pid} has ended with exit code 0.\nOutput: (empty)"));
}

#[tokio::test]
async fn without_a_pid_a_look_is_at_the_last_command_that_took_input() {
    let shell = Shell::new(ToolLimits::default());
    let ended = start(&shell, "true").await;
    shell.cx.host.background.find(ended).unwrap().wait().await;
    let pid = start(&shell, "cat; echo end").await;
    shell.start("cat go").await;
    write(&shell, json!({ "close": true, "wait_ms": 1 })).await;
    shell.cx.host.background.find(pid).unwrap().wait().await;
    let said = shell.call("write_stdin", json!({ "wait_ms": 1 })).await.unwrap();
    assert!(said.starts_with(&format!("PID {pid} has ended with exit code 0.")), "{said}");
    let error = refused(&shell, json!({ "chars": "x" })).await;
    assert_eq!(error.message, "`pid`: is missing, and no command takes input");
}

#[tokio::test]
async fn a_cancel_ends_the_wait_and_the_command_runs_on() {
    let shell = Shell::new(ToolLimits::default());
    let pid = start(&shell, "read x; cat go; echo $x; cat").await;
    let cancel = CancellationToken::new();
    cancel.cancel();
    let cx = ToolContext { cancel, ..shell.cx.clone() };
    let tool = all().into_iter().find(|it| it.spec().name == "write_stdin").unwrap();
    for chars in ["", "x\n"] {
        let args = json!({ "pid": pid, "chars": chars, "wait_ms": 300_000 });
        let call = tool.prepare(args, &cx).await.unwrap();
        let ended = timeout(HANG, call.run(cx.clone(), None)).await.expect("it waits");
        assert_eq!(ended.unwrap_err().kind, ToolError::cancelled().kind);
    }
    let state = shell.cx.host.background.find(pid).unwrap().state();
    assert!(matches!(state, JobState::Running(_)), "{state}");
    shell.cx.host.background.find(pid).unwrap().stop().await;
}

#[tokio::test]
async fn what_is_written_meanwhile_is_kept_for_the_next_look() {
    let shell = Shell::new(ToolLimits::default());
    let pid = start(&shell, "cat").await;
    let cancel = CancellationToken::new();
    let cx = ToolContext { cancel: cancel.clone(), ..shell.cx.clone() };
    let tool = all().into_iter().find(|it| it.spec().name == "write_stdin").unwrap();
    let args = json!({ "pid": pid, "chars": "one\n", "wait_ms": 300_000 });
    let call = tool.prepare(args, &cx).await.unwrap();
    let job = shell.cx.host.background.find(pid).unwrap();
    let cancelled = async {
        timeout(HANG, job.wait_for_output(0, Duration::from_mins(5))).await.expect("no output");
        cancel.cancel();
    };
    // The call may have returned before it was cancelled.
    let (ended, ()) = tokio::join!(call.run(cx.clone(), None), cancelled);
    let seen = match ended {
        Ok(output) => output.text,
        Err(_) => look_until(&shell, pid, "one").await,
    };
    assert!(seen.ends_with("one"), "{seen}");
}

#[tokio::test]
async fn the_policy_is_told_exactly_what_is_written_and_where() {
    let shell = Shell::new(ToolLimits::default());
    let tool = all().into_iter().find(|it| it.spec().name == "write_stdin").unwrap();
    let pid = start(&shell, "cat > /dev/null").await;
    let directory = shell.dir.path().canonicalize().unwrap();
    let input = |unfinished: &str, text: &str, closes| {
        Access::ProgramInput(ProgramInput {
            pid,
            command: "cat > /dev/null".to_owned(),
            directory: directory.clone(),
            sandbox: SandboxMode::DangerFullAccess,
            sees_secrets: false,
            unfinished: unfinished.to_owned(),
            text: text.to_owned(),
            closes,
        })
    };
    let prepared = async |args: Value| {
        let call = tool.prepare(args, &shell.cx).await.unwrap();
        (call.summary.label.replace(&pid.to_string(), "PID"), call.access)
    };
    let (label, access) = prepared(json!({ "pid": pid, "chars": "rm\u{3}\n" })).await;
    assert_eq!(label, "Write to PID PID (cat > /dev/null): rm\u{2403}\\n");
    assert_eq!(access, input("", "rm\u{3}\n", false));
    let (label, access) = prepared(json!({ "pid": pid })).await;
    assert_eq!(label, "Read what PID PID (cat > /dev/null) has written");
    assert_eq!(access, Access::Nothing);
    let (label, access) = prepared(json!({ "pid": pid, "chars": "x", "close": true })).await;
    assert_eq!(label, "Write to PID PID (cat > /dev/null), then close its input: x");
    assert_eq!(access, input("", "x", true));
    let (label, access) = prepared(json!({ "pid": pid, "close": true })).await;
    assert_eq!(label, "Close the input of PID PID (cat > /dev/null)");
    assert_eq!(access, input("", "", true));
    write(&shell, json!({ "pid": pid, "chars": "ls\nrm -r", "wait_ms": 1 })).await;
    let (_, access) = prepared(json!({ "pid": pid, "chars": "f x\n" })).await;
    assert_eq!(access, input("rm -r", "f x\n", false));
}

#[tokio::test]
async fn the_policy_is_told_of_a_program_that_sees_secrets() {
    let mut shell = Shell::new(ToolLimits::default());
    let secrets = vec![shell.path(".env")];
    shell.cx.shown = Arc::new(ShownFiles { secrets, ..ShownFiles::default() });
    let pid = start(&shell, "cat").await;
    // The call that writes to the program is shown no files.
    shell.cx.shown = Arc::default();
    let tool = all().into_iter().find(|it| it.spec().name == "write_stdin").unwrap();
    let args = json!({ "pid": pid, "chars": "x\n" });
    let access = tool.prepare(args, &shell.cx).await.unwrap().access;
    let Access::ProgramInput(input) = access else { panic!("{access:?}") };
    assert!(input.sees_secrets);
}

#[tokio::test]
async fn the_list_says_which_commands_take_input() {
    let shell = Shell::new(ToolLimits::default());
    let pid = start(&shell, "cat; cat go").await;
    let list = async || shell.call("list_background_processes", json!({})).await.unwrap();
    assert!(list().await.ends_with(" s, takes input, in .: cat; cat go\n"), "{}", list().await);
    write(&shell, json!({ "pid": pid, "close": true, "wait_ms": 1 })).await;
    assert!(list().await.ends_with(" s, in .: cat; cat go\n"), "{}", list().await);
}

#[tokio::test]
async fn one_that_waits_for_input_ends_with_the_session() {
    let shell = Shell::new(ToolLimits::default());
    let family = pipe::OpenOptions::new().open_receiver(shell.path("family")).unwrap();
    let pid = start(&shell, "exec 3>family; echo up; cat").await;
    shell.read_until(pid, "up").await;
    shell.cx.host.background.end();
    is_gone(family).await;
}

#[tokio::test]
async fn an_interactive_rebase_runs_with_a_program_in_place_of_the_editor() {
    let is_git_here = std::process::Command::new("git").arg("--version").output().is_ok();
    if !is_git_here {
        return;
    }
    let shell = Shell::new(ToolLimits::default());
    let run = async |command: &str| {
        let args = json!({ "command": command, "timeout": 600_000 });
        shell.call("run_shell_command", args).await.unwrap()
    };
    run("git init -q . && git config user.name a && git config user.email a@b.test && \
         git config core.hooksPath /dev/null && git config commit.gpgSign false && \
         for n in 0 1 2 3; do git commit -q --allow-empty --allow-empty-message -m $n; done")
    .await;
    let specs = all().into_iter().find(|it| it.spec().name == "run_shell_command").unwrap().spec();
    let told = specs.parameters["properties"]["stdin"]["description"].as_str().unwrap().to_owned();
    let (_, example) = told.split_once(": `GIT_").unwrap();
    let example = format!("GIT_{}", example.trim_end_matches("`."));
    run(&format!("{example} --keep-empty")).await;
    assert_eq!(run("git log --format=%s").await, "Output: 3\n1\n0");
}
