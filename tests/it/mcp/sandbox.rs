//! Servers that run in the sandbox: from the settings that name them to the files that they can reach.

use std::fs;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::net::unix::pipe;
use tokio::time::timeout;

use super::SERVER;
use crate::agent::{Agent, HANG, Ran, Setup};
use crate::family::{is_gone, make_fifo};
use crate::needs::{Need, best_mechanism, lacking};
use crate::places::seen_in_sandbox;

/// Settings of the user and of the project, seen from the workspace.
const USER: &str = "../.gemini/settings.json";
const PROJECT: &str = ".gemini/settings.json";

/// Returns settings with the server `s`, which runs a line of bash before it serves.
fn server(line: &str, more: &Value) -> String {
    let script = format!("{line}\nexec bash server.sh plain");
    let mut server = json!({ "command": "bash", "args": ["-c", script], "trust": true });
    server.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    json!({ "mcpServers": { "s": server } }).to_string()
}

/// Starts an agent that lists its servers, in a folder that the user trusts.
fn lists() -> Setup {
    let setup = Setup::answers(json!([[{ "text": "hi" }]])).file(".git/HEAD", "");
    setup.file("server.sh", SERVER).var("GEMINI_CLI_TRUST_WORKSPACE", "true").arg("-p").arg("/mcp")
}

/// Returns a file of the workspace in which an agent ran.
fn read(ran: &Ran, name: &str) -> String {
    let path = ran.home.path().join("workspace").join(name);
    fs::read_to_string(path)
        .unwrap_or_else(|err| panic!("{name}: {err}: {} {}", ran.stdout, ran.stderr))
}

/// Shell line that records whether it runs in a sandbox. It has no `$`, because the settings would replace
/// variables.
const MARKS: &str = "printenv TANDEM_SANDBOX > mark || echo outside > mark";

/// Checks whether the server runs in the sandbox, where the user and the project say this.
async fn check(flags: &[&str], user: &str, project: &str, expected: bool) {
    let mut setup = lists().file(USER, user).file(PROJECT, project);
    for flag in flags {
        setup = setup.arg(flag);
    }
    let ran = setup.run().await;
    assert!(ran.stdout.starts_with("**s**: ready"), "{} {}", ran.stdout, ran.stderr);
    assert_eq!(ran.stdout.contains("bash [sandboxed]"), expected, "{}", ran.stdout);
    let mark = read(&ran, "mark");
    assert_eq!(mark.trim() != "outside", expected, "{flags:?} {user} {project}: {mark}");
}

#[tokio::test]
async fn a_projects_servers_run_in_it_where_commands_do_and_the_users_where_the_user_says() {
    if lacking(Need::Sandbox) {
        return;
    }
    let (on, off, none) = (&["--sandbox=true"][..], &["--sandbox=false"][..], "{}");
    let plain = server(MARKS, &json!({}));
    check(on, none, &plain, true).await;
    check(off, none, &plain, false).await;
    check(on, &plain, none, false).await;
    // A server of the user's own settings can have a sandbox although commands have none.
    check(off, &server(MARKS, &json!({ "sandbox": true })), none, true).await;
}

#[tokio::test]
async fn only_the_user_takes_a_projects_server_out() {
    if lacking(Need::Sandbox) {
        return;
    }
    let on = &["--sandbox=true"][..];
    let excluded = json!({ "tools": { "sandboxExcludedServers": ["s"] } }).to_string();
    check(on, &excluded, &server(MARKS, &json!({})), false).await;
    let mut project: Value =
        serde_json::from_str(&server(MARKS, &json!({ "sandbox": false }))).unwrap();
    project["tools"] = json!({ "sandboxExcludedServers": ["s"] });
    check(on, "{}", &project.to_string(), true).await;
}

#[tokio::test]
async fn it_writes_the_workspace_and_nothing_that_is_protected_or_elsewhere() {
    let Some(mechanism) = best_mechanism().filter(|_| !lacking(Need::Sandbox)) else { return };
    let elsewhere = seen_in_sandbox();
    let line = format!(
        "{MARKS}; touch .git/new {}/new; echo temporary > /tmp/x; (echo > /dev/tcp/192.0.2.1/80) 2> network",
        elsewhere.path().display()
    );
    let ran = lists().arg("--sandbox=true").file(PROJECT, &server(&line, &json!({}))).run().await;
    assert_eq!(read(&ran, "mark").trim(), mechanism);
    assert!(!ran.home.path().join("workspace/.git/new").exists() || mechanism == "landlock");
    assert!(!elsewhere.path().join("new").exists());
    let network = read(&ran, "network");
    assert!(network.contains("unreachable") || network.contains("not permitted"), "{network}");
}

#[tokio::test]
async fn one_that_cannot_work_there_says_so() {
    if lacking(Need::Sandbox) {
        return;
    }
    let elsewhere = seen_in_sandbox();
    let line = format!("touch {}/cache || exit 3", elsewhere.path().display());
    let ran = lists().arg("--sandbox=true").file(PROJECT, &server(&line, &json!({}))).run().await;
    for words in [
        "last output: touch: cannot touch",
        "the server runs in the sandbox",
        "sandboxExcludedServers",
    ] {
        assert!(ran.stdout.contains(words), "{}", ran.stdout);
    }
}

#[tokio::test]
async fn a_program_that_is_missing_is_named() {
    if lacking(Need::Sandbox) {
        return;
    }
    let settings = json!({ "mcpServers": { "s": { "command": "no-such-program" } } }).to_string();
    let ran = lists().arg("--sandbox=true").file(PROJECT, &settings).run().await;
    assert!(ran.stdout.contains("no-such-program: No such file"), "{}", ran.stdout);
}

#[tokio::test]
async fn variables_for_the_loader_are_the_servers_alone() {
    if lacking(Need::Sandbox) {
        return;
    }
    let elsewhere = seen_in_sandbox();
    let log = elsewhere.path().join("log").display().to_string();
    let variables = json!({ "env": { "LD_DEBUG": "libs", "LD_DEBUG_OUTPUT": log, "OWN": "own" } });
    let line = format!("{MARKS}; printenv LD_DEBUG OWN > variables");
    let project = server(&line, &variables);
    let ran = lists().arg("--sandbox=true").file(PROJECT, &project).run().await;
    // The loader is inside the sandbox, so it cannot write its log there, and reports this first.
    let variables = read(&ran, "variables");
    assert!(variables.trim().ends_with("libs\nown"), "{variables}");
    // If the loader of the program that starts the server had read the variables, it would have written its log
    // there.
    assert_eq!(fs::read_dir(elsewhere.path()).unwrap().count(), 0);
}

#[tokio::test]
async fn commands_see_neither_the_server_nor_its_environment() {
    if lacking(Need::Sandbox) {
        return;
    }
    let looks = "cat /proc/[0-9]*/environ 2> /dev/null | grep -ac SERVERS_OWN=";
    let calls = json!([
        [{ "call": { "name": "run_shell_command", "args": { "command": format!("{looks} > seen") } } }],
        [{ "text": "done" }],
    ]);
    let project = server(MARKS, &json!({ "env": { "SERVERS_OWN": "value" } }));
    let setup = Setup::answers(calls).file(PROJECT, &project).file(".git/HEAD", "");
    let setup = setup
        .file("server.sh", SERVER)
        .var("GEMINI_CLI_TRUST_WORKSPACE", "true")
        .arg("-y")
        .arg("--sandbox=true");
    let ran = setup.arg("-p").arg("go").run().await;
    assert_ne!(read(&ran, "mark").trim(), "outside");
    assert_eq!(read(&ran, "seen").trim(), "0", "{}", ran.stderr);
}

/// Shell line that starts processes outside of any common process group, and waits for them.
const FAMILY: &str =
    "exec 3>family; (setsid sleep 1000 &); (trap '' TERM; setsid setsid sleep 1000 &)";

/// Ends an agent whose server has such processes, and waits until all of them have ended.
async fn ends(end: impl AsyncFn(&mut Agent, Pid)) {
    if lacking(Need::Sandbox) {
        return;
    }
    let setup =
        Setup::answers(json!([[{ "text": "hi" }]])).file(PROJECT, &server(FAMILY, &json!({})));
    let setup = setup
        .file("server.sh", SERVER)
        .var("GEMINI_CLI_TRUST_WORKSPACE", "true")
        .arg("--sandbox=true");
    let home = TempDir::new().unwrap();
    let mut command = setup.command(home.path());
    make_fifo(&home.path().join("workspace/family"));
    let family = pipe::OpenOptions::new();
    let family = family.open_receiver(home.path().join("workspace/family")).unwrap();
    let mut agent = Agent::of(command.spawn().unwrap(), home);
    let prompt = agent.prompt("/mcp").await;
    let shown = crate::agent::text(&agent.until_answered(prompt, "allow").await);
    assert!(shown.contains("ready") && shown.contains("[sandboxed]"), "{shown}");
    let pid = Pid::from_raw(agent.child.id().unwrap().try_into().unwrap()).unwrap();
    end(&mut agent, pid).await;
    timeout(HANG, agent.child.wait()).await.unwrap().unwrap();
    is_gone(family).await;
}

#[tokio::test]
async fn a_killed_agent_leaves_nothing_of_its_servers_behind() {
    ends(async |_: &mut Agent, pid| kill_process(pid, Signal::KILL).unwrap()).await;
}

#[tokio::test]
async fn an_interrupted_agent_leaves_nothing_of_its_servers_behind() {
    ends(async |_: &mut Agent, pid| kill_process(pid, Signal::INT).unwrap()).await;
}

#[tokio::test]
async fn when_the_editor_goes_nothing_of_the_servers_is_left_behind() {
    ends(async |agent: &mut Agent, _| drop(agent.stdin.take())).await;
}

#[tokio::test]
async fn none_starts_that_would_be_in_it_where_the_sandbox_is_not_understood() {
    let project = server(MARKS, &json!({}));
    let ran = lists().var("GEMINI_SANDBOX", "bogus").file(PROJECT, &project).run().await;
    assert!(
        ran.stdout.contains("the value of `tools.sandbox` is not understood"),
        "{}",
        ran.stdout
    );
    assert!(!ran.home.path().join("workspace/mark").exists(), "{}", ran.stdout);
    // Servers of the user's own settings run outside: the user trusts them like the agent.
    let ran = lists().var("GEMINI_SANDBOX", "bogus").file(USER, &project).run().await;
    assert_eq!(read(&ran, "mark").trim(), "outside");
}
