//! Secrecy of keys: what programs of the agent, and models, can learn of keys without a question.

use std::fs;
use std::os::unix::fs::chown;
use std::path::Path;

use serde_json::json;
use tokio::time::timeout;

use crate::agent::{HANG, Setup};
use crate::family::run;
use crate::needs::{Need, lacking};
use crate::places::{copy_program, entered_by_others};

/// Id of a user without rights. Root may read every process.
const NOBODY: u32 = 65534;

/// Changes the owner of a directory and its files.
fn give(path: &Path, user: u32) {
    chown(path, Some(user), Some(user)).unwrap();
    for entry in fs::read_dir(path).into_iter().flatten() {
        let path = entry.unwrap().path();
        if path.is_dir() { give(&path, user) } else { chown(path, Some(user), Some(user)).unwrap() }
    }
}

/// Runs a command as the agent does, with the key in the agent's environment and without special rights. Returns the
/// content of `out`.
async fn out(command: &str, key: &str) -> String {
    let setup = Setup::answers(json!([[run(command)], [{ "text": "done" }]])).arg("-y");
    let setup = setup.var("GEMINI_API_KEY", key).var("MY_COPY", key);
    let home = entered_by_others();
    let mut command = setup.command(home.path());
    if rustix::process::geteuid().is_root() {
        let program = copy_program(home.path());
        give(home.path(), NOBODY);
        let own = command.as_std();
        let mut other = tokio::process::Command::new(program);
        other.args(own.get_args()).env_clear().current_dir(own.get_current_dir().unwrap());
        other.envs(own.get_envs().filter_map(|(name, value)| Some((name, value?))));
        other.uid(NOBODY).gid(NOBODY);
        command = other;
    }
    command.args(["-p", "go"]).stdin(std::process::Stdio::null());
    let ran = timeout(HANG, command.output()).await.expect("it does not end").unwrap();
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    let out = fs::read(home.path().join("workspace/out")).unwrap();
    String::from_utf8_lossy(&out).replace('\0', "\n")
}

#[tokio::test]
async fn a_command_finds_no_key_in_its_own_environment() {
    if lacking(Need::Setpriv) {
        return;
    }
    let key = "AIza-its-own-environment-0001";
    let found = out("env > out", key).await;
    assert!(found.contains("HOME=") && !found.contains(key), "{found}");
}

/// Checks the environment of the guard and of every other process, too.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_command_finds_no_key_in_the_environment_of_any_process() {
    if lacking(Need::Setpriv) {
        return;
    }
    let key = "AIza-any-environment-0002";
    let found = out("cat /proc/[0-9]*/environ > out 2>/dev/null; true", key).await;
    assert!(found.contains("TANDEM_COMMAND=") && !found.contains(key), "{found}");
}

/// Sends a prompt in a workspace with a secret file (`.env`), rejects every call, and returns the number of
/// questions and all messages.
async fn asked(setup: Setup, prompt: &str) -> (usize, String) {
    let mut agent = setup.file(".env", "KEY=hush\n").start();
    let id = agent.prompt(prompt).await;
    let messages = agent.until_answered(id, "reject").await;
    let asks = |message: &&serde_json::Value| message["method"] == "requestToolCallConfirmation";
    (messages.iter().filter(asks).count(), format!("{messages:?}"))
}

#[tokio::test]
async fn a_secret_that_the_model_wants_is_asked_about_and_one_that_a_person_names_is_not() {
    let says = || Setup::answers(json!([[{ "text": "done" }]]));
    let reads = |tool: &str, args: serde_json::Value| {
        Setup::answers(json!([
            [{ "call": { "name": tool, "args": args } }],
            [{ "text": "done" }],
        ]))
    };
    let (questions, messages) = asked(says(), "see @.env").await;
    assert!(questions == 0 && messages.contains("Read 1 file"), "{messages}");
    for (tool, args) in [
        ("read_file", json!({ "file_path": ".env" })),
        ("read_many_files", json!({ "include": [".env"] })),
        ("grep_search", json!({ "pattern": "KEY", "dir_path": ".env" })),
        ("run_shell_command", json!({ "command": "cat .env" })),
    ] {
        for mode in ["default", "auto_edit"] {
            let setup = reads(tool, args.clone()).arg("--approval-mode").arg(mode);
            let (questions, messages) = asked(setup, "go").await;
            assert!(questions == 1 && !messages.contains("hush"), "{tool}: {messages}");
        }
    }
}
