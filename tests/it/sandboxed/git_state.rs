//! The state of git that the model is told when a conversation begins: git reads it in the sandbox of commands.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use serde_json::json;
use tandem_agent::session::{Event, Origin, Parts, Session};
use tandem_host::command_sandbox::SandboxSetup;
use tandem_model::replay::Replay;

use super::sandbox_setup;
use crate::agent::HANG;
use crate::fakes::{host, is_end, parts, text, until};
use crate::needs::{Need, lacking};
use crate::places::seen_in_sandbox;

const NOT_READ: &str = "\nGit: the workspace is in a git repository. Its state was not read.\n";

/// Makes a repository in the directory `project` of a home, with its data in the directory `data` of the home.
fn repository(home: &Path, data: &str) {
    fs::create_dir(home.join("project")).unwrap();
    let name = ["-c", "user.name=Ann", "-c", "user.email=ann@example.org"];
    let git = |args: &[&str]| {
        let ran = Command::new("git").args(name).args(args).current_dir(home).output().unwrap();
        assert!(ran.status.success(), "{args:?}: {ran:?}");
    };
    git(&["init", "--quiet", "--initial-branch=trunk", "--separate-git-dir", data, "project"]);
    git(&["-C", "project", "commit", "--quiet", "--allow-empty", "--message=The first"]);
}

/// Returns the system instruction of a conversation in the project of a home.
async fn system(home: &Path, sandbox: Option<SandboxSetup>) -> String {
    let script = json!({ "when": "", "answers": [[{ "text": "done" }]] }).to_string();
    let mut host = host(&home.join("project")).sandboxed(sandbox);
    host.limits.git_state_time = HANG;
    let session =
        Session::new(Parts { host, ..parts(Arc::new(Replay::from_script(&script).unwrap())) });
    let mut log = session.events(0);
    session.prompt(text("go"), Origin::Editor);
    let events = until(&mut log, is_end).await;
    let system = events.iter().find_map(|event| match &**event {
        Event::SystemPrompt(text) => Some(text.to_string()),
        _ => None,
    });
    system.unwrap()
}

#[tokio::test]
async fn git_reads_no_more_than_commands_do() {
    if lacking(Need::Sandbox) {
        return;
    }
    for (data, may_read) in [("project/data", true), ("elsewhere", false)] {
        // Outside of `/tmp`, in whose place commands see another directory.
        let home = seen_in_sandbox();
        repository(home.path(), data);
        let told = system(home.path(), None).await;
        assert!(told.contains("\n  Branch: trunk\n"), "{data}: {told}");
        let told = system(home.path(), Some(sandbox_setup(home.path()))).await;
        let expected = if may_read { "\n  Branch: trunk\n" } else { NOT_READ };
        assert!(told.contains(expected), "{data}: {told}");
    }
}
