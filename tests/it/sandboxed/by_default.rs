//! The sandbox of a user without settings: its protection, its cost, and its messages.

use std::fs;

use serde_json::{Value, json};

use super::run;
use crate::agent::Agent;
use crate::agent::{Ran, Setup};
#[cfg(target_os = "linux")]
use crate::needs::{Need, lacking};

/// Runs one prompt whose model runs this command.
async fn prompt(command: &str, flags: &[&str]) -> Ran {
    let setup = Setup::answers(json!([[run(command)], [{ "text": "done" }]]));
    let setup = flags.iter().fold(setup, |setup, flag| setup.arg(flag));
    setup.file("a.txt", "a\n").arg("-p").arg("go").run().await
}

#[tokio::test]
async fn a_script_changes_nothing_unless_it_may_and_then_the_workspace_alone() {
    if lacking(Need::Sandbox) {
        return;
    }
    let writes = "touch b.txt ~/outside.txt";
    for (flags, inside, outside) in [
        (&[][..], false, false),
        (&["--yolo"], true, false),
        (&["--yolo", "--sandbox", "danger-full-access"], true, true),
        (&["--yolo", "--sandbox", "read-only"], false, false),
    ] {
        let ran = prompt(writes, flags).await;
        let has = |name: &str| fs::exists(ran.home.path().join(name)).unwrap();
        let made = (has("workspace/b.txt"), has("outside.txt"));
        assert_eq!(made, (inside, outside), "{flags:?} {}", ran.stderr);
        assert_eq!((&*ran.stdout, &*ran.stderr, ran.code), ("done\n", "", Some(0)), "{flags:?}");
    }
}

/// Returns the number of page faults of a process's ended children, which is 0 only without ended children, and the
/// living children.
#[cfg(target_os = "linux")]
fn children(agent: &Agent) -> (u64, String) {
    let id = agent.child.id().unwrap();
    let stat = fs::read_to_string(format!("/proc/{id}/stat")).unwrap();
    let (_, fields) = stat.rsplit_once(") ").unwrap();
    let faults = fields.split(' ').nth(8).unwrap().parse().unwrap();
    (faults, fs::read_to_string(format!("/proc/{id}/task/{id}/children")).unwrap())
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn nothing_of_it_is_started_before_the_first_prompt_and_nothing_stays_after_it() {
    let script = vec![
        json!({ "when": "hello", "answers": [[{ "text": "Hello." }]] }),
        json!({ "when": "run", "answers": [[run("date")], [{ "text": "done" }]] }),
    ];
    let mut agent = Setup::script(script).arg("--acp").start();
    let params = json!({ "protocolVersion": 1, "clientCapabilities": {} });
    let id = agent.request("initialize", params).await;
    agent.until_answered(id, "").await;
    let params = json!({ "cwd": agent.workspace(), "mcpServers": [] });
    let id = agent.request("session/new", params).await;
    let session = agent.until_answered(id, "").await.pop().unwrap()["result"]["sessionId"].clone();
    let say = |text: &str| {
        let prompt = json!([{ "type": "text", "text": text }]);
        json!({ "sessionId": session, "prompt": prompt })
    };
    assert_eq!(children(&agent), (0, String::new()));
    let id = agent.request("session/prompt", say("hello")).await;
    agent.until_answered(id, "").await;
    // The sandbox is tried out, since the model is told of it; what tries it has ended.
    assert_eq!(children(&agent).1, "");
    let id = agent.request("session/prompt", say("run")).await;
    let read = agent.until_answered(id, "").await;
    let is_call = |it: &&Value| it["params"]["update"]["sessionUpdate"] == "tool_call";
    assert!(read.iter().any(|it| is_call(&it)), "{read:?}");
}
