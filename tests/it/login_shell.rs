//! The `PATH` of commands and servers when the agent was started without the user's.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use serde_json::json;

use crate::agent::{Agent, Setup};

/// A login shell that has more directories in `PATH`, prints other texts as well, and records that it was asked.
const SHELL: &str = r#"#!/bin/sh
echo Welcome.
echo complaint >&2
echo x >> "$HOME/asked"
if [ -n "$SLOW" ]; then sleep 1; fi
PATH="/from/login:$PATH"
export PATH
exec /bin/sh -c "$4"
"#;

/// Starts the agent as an editor would that was opened from a menu, with these variables.
fn start(command: &str, vars: &[(&str, &str)]) -> Agent {
    let run = json!({ "call": { "name": "run_shell_command", "args": { "command": command } } });
    let setup = Setup::answers(json!([[run.clone()], [run], []])).file("../shells/zsh", SHELL);
    // In a repository, git is the first program that starts.
    let setup = setup.file(".git/HEAD", "ref: refs/heads/trunk\n");
    setup.arg("-y").var("PATH", "/usr/bin:/bin").start_with(|command| {
        let workspace = command.as_std().get_current_dir().unwrap();
        let shell = workspace.join("../shells/zsh");
        fs::set_permissions(&shell, fs::Permissions::from_mode(0o700)).unwrap();
        command.env("SHELL", shell).envs(vars.iter().copied())
    })
}

/// Returns the `PATH` of the last of two commands, and how often the shell was asked.
async fn path(vars: &[(&str, &str)]) -> (String, usize) {
    let mut agent = start("echo \"P=$PATH=P\"", vars);
    let id = agent.prompt("go").await;
    let shown = agent.until_answered(id, "allow").await;
    let asked = fs::read_to_string(agent.workspace().join("../asked")).unwrap_or_default();
    let ended = shown.iter().rfind(|message| message["method"] == "updateToolCall").unwrap();
    let output = ended["params"]["content"]["markdown"].as_str().unwrap();
    let (_, path) = output.split_once("P=").unwrap();
    (path.split_once("=P").unwrap().0.to_owned(), asked.lines().count())
}

#[tokio::test]
async fn commands_have_the_path_of_the_login_shell_which_is_asked_once() {
    assert_eq!(path(&[]).await, ("/from/login:/usr/bin:/bin".to_owned(), 1));
}

#[tokio::test]
async fn a_shell_that_is_slower_than_git_may_be_is_asked_once_too() {
    assert_eq!(path(&[("SLOW", "1")]).await, ("/from/login:/usr/bin:/bin".to_owned(), 1));
}

#[tokio::test]
async fn a_path_that_somebody_has_set_up_stays() {
    let own = [("PATH", "/usr/bin:/bin:/mine")];
    assert_eq!(path(&own).await, ("/usr/bin:/bin:/mine".to_owned(), 0));
    assert_eq!(path(&[("SHLVL", "1")]).await, ("/usr/bin:/bin".to_owned(), 0));
}

#[tokio::test]
async fn a_shell_that_is_none_changes_nothing() {
    for shell in ["/bin/false", "zsh", "/no/such/zsh", ""] {
        assert_eq!(path(&[("SHELL", shell)]).await.0, "/usr/bin:/bin", "{shell}");
    }
}
