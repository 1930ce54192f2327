//! Command lines that run without a question, in the real program.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::json;

use crate::agent::Setup;

/// Script that records that it was run.
const CANARY: &str = "#!/bin/sh\necho ran >> \"$HOME/ran\"\n";

fn git(directory: &Path, args: &[&str]) {
    let mut git = Command::new("git");
    git.args(["-c", "user.name=x", "-c", "user.email=x@a.test"]).args(args);
    git.current_dir(directory).env("GIT_CONFIG_GLOBAL", "/dev/null").stdin(Stdio::null());
    assert!(git.output().unwrap().status.success(), "git {args:?}");
}

/// Checks whether a line is asked about, in a repository with a program of its own at `program` and
/// a setting. The program must not run; a question is answered with a rejection.
async fn check(line: &str, program: &str, setting: (&str, &str), path: &str, asked: bool) {
    check_answered(line, program, setting, path, asked.then_some("reject")).await;
}

/// Checks a line as [`check`] does, and answers an expected question.
async fn check_answered(
    line: &str,
    program: &str,
    setting: (&str, &str),
    path: &str,
    answer: Option<&str>,
) {
    let call = json!({ "call": { "name": "run_shell_command", "args": { "command": line } } });
    let setup = Setup::answers(json!([[call], []])).file(program, CANARY).file("a", "1\n");
    let mut agent =
        setup.without_sandbox().var("PATH", path).var("SHLVL", "1").start_with(|command| {
            let workspace = command.as_std().get_current_dir().unwrap();
            let mode = fs::Permissions::from_mode(0o755);
            fs::set_permissions(workspace.join(program), mode).unwrap();
            git(workspace, &["init", "-q"]);
            git(workspace, &["add", "."]);
            git(workspace, &["commit", "-q", "-m", "x"]);
            git(workspace, &["config", setting.0, setting.1]);
            fs::write(workspace.join("a"), "2\n").unwrap();
            command
        });
    let id = agent.prompt("go").await;
    let shown = agent.until_answered(id, answer.unwrap_or("reject")).await;
    let question = |message: &serde_json::Value| message["method"] == "requestToolCallConfirmation";
    assert_eq!(shown.iter().any(question), answer.is_some(), "{line} {setting:?} {path}");
    assert!(!agent.workspace().join("../ran").exists(), "{line} {setting:?} {path}");
}

const SYSTEM: &str = "/usr/bin:/bin";

#[tokio::test]
async fn git_is_run_without_hooks_when_it_only_reads() {
    let hooks = ("core.hooksPath", "hooks");
    check("git status", "hooks/post-index-change", hooks, SYSTEM, false).await;
    check("git diff", "hooks/post-index-change", hooks, SYSTEM, false).await;
}

#[tokio::test]
async fn git_is_run_without_hooks_after_a_yes_to_a_line_that_only_reads() {
    let hooks = ("core.hooksPath", "hooks");
    let line = "echo x > b; git status";
    check_answered(line, "hooks/post-index-change", hooks, SYSTEM, Some("allow")).await;
}

#[tokio::test]
async fn a_repository_that_names_programs_is_asked_about() {
    check("git status", "x", ("core.fsmonitor", "./x"), SYSTEM, true).await;
}

#[tokio::test]
async fn a_program_of_the_workspace_is_asked_about_whatever_its_name() {
    let nothing = ("user.name", "x");
    check("ls", "ls", nothing, ".:/usr/bin:/bin", true).await;
    check("ls", "ls", nothing, SYSTEM, false).await;
}
