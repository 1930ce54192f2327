//! The session's own `/tmp`, as the reading tools see it.

use std::ffi::OsString;
use std::fs;
use std::sync::Arc;

use serde_json::{Value, json};
use tandem_agent::session::Answer;
use tandem_approval::Mode;
use tandem_host::command_sandbox::{CommandSandbox, SandboxSetup, ShownFiles};
use tandem_host::workspace::Workspace;
use tandem_sandbox::{Limits, SandboxMode};

use super::{Made, Stage, run, sandbox_setup};
use crate::needs::{Need, lacking};
use crate::places::seen_in_sandbox;
use crate::sandbox::mechanisms;

fn call(name: &str, args: &Value) -> Value {
    json!({ "call": { "name": name, "args": args } })
}

fn reads(path: &str) -> Value {
    call("read_file", &json!({ "file_path": path }))
}

/// Runs a command and then calls. Returns the outcomes; `None` if commands have no `/tmp` of their own here.
async fn after(command: &str, calls: &[Value]) -> Option<(Stage, Vec<Made>)> {
    if lacking(Need::ProtectingSandbox) {
        return None;
    }
    let calls: Vec<_> = [run(command)].into_iter().chain(calls.iter().cloned()).collect();
    let mut stage = Stage::new(Mode::Default, &calls);
    let mut made = stage.go(Answer::Reject).await;
    assert!(made[0].is_done() && made[0].is_sandboxed(), "{}", made[0].told());
    made.remove(0);
    Some((stage, made))
}

/// Checks that a call is done unasked, and tells the model these words and no other path.
fn check(made: &Made, words: &[&str]) {
    assert!(!made.is_asked() && made.is_done(), "{}", made.told());
    for word in words {
        assert!(made.told().contains(word), "{word}: {}", made.told());
    }
    assert!(!made.told().contains("session-"), "{}", made.told());
    assert!(!made.started.summary.label.contains("session-"), "{}", made.started.summary.label);
}

#[tokio::test]
async fn what_a_command_writes_there_is_read_unasked() {
    let writes =
        "echo hello > /tmp/x; mkdir /tmp/d; echo needle > /tmp/d/y; ln -s /tmp/d /tmp/link";
    let calls = [
        reads("/tmp/x"),
        reads("/var/tmp/x"),
        reads("/tmp/link/y"),
        call("list_directory", &json!({ "dir_path": "/tmp/d" })),
        call("glob", &json!({ "pattern": "**/y", "dir_path": "/tmp" })),
        call("grep_search", &json!({ "pattern": "needle", "dir_path": "/tmp" })),
        call("read_many_files", &json!({ "include": ["/tmp/d"] })),
    ];
    let Some((_stage, made)) = after(writes, &calls).await else { return };
    check(&made[0], &["hello"]);
    assert_eq!(made[0].started.summary.label, "Read /tmp/x");
    check(&made[1], &["hello"]);
    check(&made[2], &["needle"]);
    check(&made[3], &["In /tmp/d:", "y (7 bytes)"]);
    check(&made[4], &["\n/tmp/d/y"]);
    check(&made[5], &["needle", "/tmp/d/y"]);
    check(&made[6], &["needle", "/tmp/d/y"]);
}

#[tokio::test]
async fn a_link_there_is_judged_as_what_it_leads_to() {
    let links = "ln -s /proc/version /tmp/out; ln -s ../../../../../../../../proc/version /tmp/up; \
        ln -s /proc/self/root/proc/version /tmp/root; ln -s / /tmp/all; ln -s /etc/passwd /tmp/users; \
        ln -s $PWD/a.txt /tmp/in; ln -s $PWD/.env /tmp/secret";
    let calls = [
        reads("/tmp/out"),
        reads("/tmp/up"),
        reads("/tmp/root"),
        reads("/tmp/all/proc/version"),
        reads("/tmp/../proc/version"),
        call("grep_search", &json!({ "pattern": "root:", "dir_path": "/tmp" })),
        reads("/tmp/in"),
        reads("/tmp/secret"),
        reads("/tmp/users"),
    ];
    let Some((stage, made)) = after(links, &calls).await else { return };
    for made in &made[..5] {
        assert!(!made.is_asked() && !made.is_done(), "{}", made.told());
        assert!(made.told().contains("outside the workspace"), "{}", made.told());
    }
    assert!(!made[5].told().contains("root:x"), "{}", made[5].told());
    check(&made[6], &["a"]);
    assert!(!stage.path(".env").exists());
    // The file does not exist, so the call fails. The user would be asked if the file existed.
    assert!(!made[7].is_done());
    // Commands see the file in `/tmp` as well.
    check(&made[8], &["root"]);
}

#[tokio::test]
async fn secrets_there_are_asked_about_and_the_machines_own_is_not_read() {
    let elsewhere = tempfile::Builder::new().tempfile_in("/tmp").unwrap();
    fs::write(elsewhere.path(), "of another\n").unwrap();
    let calls = [
        reads("/tmp/.env"),
        reads(elsewhere.path().to_str().unwrap()),
        call("write_file", &json!({ "file_path": "/tmp/x", "content": "x" })),
    ];
    let Some((_stage, made)) = after("echo KEY=1 | tee /tmp/.env", &calls).await else { return };
    assert!(made[0].is_asked(), "{:?}", made[0].outcome);
    assert!(
        !made[1].is_done() && made[1].told().contains("File not found: /tmp/"),
        "{}",
        made[1].told()
    );
    assert!(made[2].told().contains("outside the workspace"), "{}", made[2].told());
}

#[tokio::test]
async fn a_full_one_refuses_more_the_model_is_told_why_and_the_session_lives_on() {
    if lacking(Need::Namespaces) {
        return;
    }
    let calls = [
        run("head -c 2000000 /dev/zero > /tmp/x"),
        run("rm /tmp/x; echo small > /tmp/x"),
        reads("/tmp/x"),
    ];
    let mut stage = Stage::changed(Mode::Default, &calls, |setup| {
        let limits = Limits { temporary_bytes: Some(1_000_000), ..setup.limits };
        SandboxSetup { limits, ..setup }
    });
    let made = stage.go(Answer::Reject).await;
    let told = made[0].told();
    assert!(!made[0].is_done() && told.contains("No space left"), "{told}");
    assert!(told.contains("at most 1000000 bytes"), "{told}");
    assert!(made[1].is_done() && !made[1].told().contains("at most"), "{}", made[1].told());
    check(&made[2], &["small"]);
}

#[tokio::test]
async fn nothing_of_it_is_left_when_the_session_has_ended() {
    for mechanism in mechanisms() {
        let home = seen_in_sandbox();
        let setup =
            SandboxSetup { mechanism: mechanism.parse().ok(), ..sandbox_setup(home.path()) };
        let workspace = Arc::new(Workspace::new(home.path(), &[]).unwrap());
        let sandbox = Arc::new(CommandSandbox::new(setup, workspace));
        let on_disk = || fs::read_dir(home.path().join("state")).into_iter().flatten().count();
        for line in [r#"echo hello > "$TMPDIR/x""#, r#"cat "$TMPDIR/x""#] {
            let confinement =
                sandbox.confine(SandboxMode::ReadOnly, &ShownFiles::default()).await.unwrap();
            let words = ["/bin/bash", "-c", line].map(OsString::from);
            let mut command = confinement.command(&words).unwrap();
            // The test may itself run in a directory below `/tmp`, and commands see another `/tmp`. So the command
            // runs in the home.
            let ran = command.current_dir(home.path()).output().unwrap();
            assert!(ran.status.success(), "{mechanism}: {ran:?}");
        }
        // With `namespaces`, the temporary files are in memory, so there is no directory on the disk.
        assert_eq!(on_disk(), usize::from(mechanism != "namespaces"), "{mechanism}");
        drop(sandbox);
        assert_eq!(on_disk(), 0, "{mechanism}");
    }
}
