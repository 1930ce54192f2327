//! Permissions that a client may give for good, and rules about them.

use serde_json::{Value, json};

use super::server::{Served, answer, asks, prompt, serve, statuses, text, tool_call, within};
use crate::agent::Setup;
use crate::needs::{Need, lacking};
use crate::sandboxed::{REASON, outside};

const SETTINGS: &str = "../.gemini/settings.json";

/// Returns an agent that runs a command line for each prompt.
fn runs(command: &str) -> Setup {
    let call = json!({ "call": { "name": "run_shell_command", "args": { "command": command } } });
    Setup::answers(json!([[call], [{ "text": "done" }]])).without_sandbox()
}

/// Starts a session, and returns its task and the question about the command.
async fn question(it: &Served) -> (Value, Value) {
    let events = it.client.stream("message/stream", prompt("go")).await.rest().await;
    let asked = events.iter().find(|event| asks(event)).expect("nothing is asked");
    (asked["taskId"].clone(), tool_call(asked).clone())
}

fn ids(question: &Value) -> Vec<&str> {
    let options = question["confirmation_request"]["options"].as_array().unwrap();
    options.iter().map(|option| option["id"].as_str().unwrap()).collect()
}

/// Returns the names of the answers that the first question of an agent offers.
pub(crate) async fn first_options(setup: &Setup) -> Vec<String> {
    let it = serve(setup).await;
    let (_, asked) = question(&it).await;
    let options = asked["confirmation_request"]["options"].as_array().unwrap();
    options.iter().map(|option| option["name"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn always_is_offered_in_several_scopes_with_the_rule_that_asks() {
    let it = serve(&runs("touch a && touch b")).await;
    let (task, asked) = question(&it).await;
    assert_eq!(
        asked["confirmation_request"]["prompt"],
        "Allow it? `touch` is not on the list of commands that only read [built-in rule read-only]"
    );
    assert_eq!(asked["confirmation_request"]["title"], "Run touch a && touch b");
    let once_and_always = ["proceed_once", "proceed_always", "proceed_always_exact"];
    assert_eq!(ids(&asked), [&once_and_always[..], &["proceed_always_tool", "cancel"]].concat());
    let say = |option| within(&task, answer(&asked["tool_call_id"], option));
    let (code, why) = it.client.error("message/send", say("proceed_always_and_save")).await;
    assert_eq!(code, -32602, "{why}");
    let params = say("proceed_always_exact");
    let events = it.client.stream("message/stream", params).await.rest().await;
    assert_eq!(text(&events), "done");
    let again = within(&task, prompt("go"));
    let events = it.client.stream("message/stream", again).await.rest().await;
    assert!(!events.iter().any(asks));
}

#[tokio::test]
async fn a_file_of_the_home_is_asked_about_with_an_always_for_its_folder() {
    let read = json!({ "call": { "name": "read_file", "args": { "file_path": "../notes/a.md" } } });
    let setup = Setup::answers(json!([[read], [{ "text": "done" }]])).without_sandbox();
    let it = serve(&setup.file("../notes/a.md", "Dear diary\n")).await;
    let (task, asked) = question(&it).await;
    assert_eq!(ids(&asked), ["proceed_once", "proceed_always", "cancel"]);
    let path = it.home.path().canonicalize().unwrap().join("notes/a.md");
    let request = asked["confirmation_request"].to_string();
    assert!(request.contains(path.to_str().unwrap()), "{request}");
    let say = within(&task, answer(&asked["tool_call_id"], "proceed_always"));
    let events = it.client.stream("message/stream", say).await.rest().await;
    assert_eq!(text(&events), "done");
    let again = it.client.stream("message/stream", within(&task, prompt("go"))).await.rest().await;
    assert!(!again.iter().any(asks));
}

#[tokio::test]
async fn after_every_answer_that_allows_the_call_is_said_to_run() {
    for option in ["proceed_once", "proceed_always", "proceed_always_tool", "proceed_always_exact"]
    {
        let it = serve(&runs("touch a && touch b")).await;
        let (task, asked) = question(&it).await;
        let params = within(&task, answer(&asked["tool_call_id"], option));
        let events = it.client.stream("message/stream", params).await.rest().await;
        assert_eq!(statuses(&events), ["EXECUTING", "SUCCEEDED"], "{option}");
    }
}

#[tokio::test]
async fn a_saved_answer_is_known_to_the_next_agent_in_the_folder() {
    let offers = r#"{ "security": { "enablePermanentToolApproval": true } }"#;
    let setup = runs("touch a").file(SETTINGS, offers);
    let it = serve(&setup).await;
    let (task, asked) = question(&it).await;
    assert!(ids(&asked).contains(&"proceed_always_and_save"), "{asked}");
    let params = within(&task, answer(&asked["tool_call_id"], "proceed_always_and_save"));
    let events = it.client.stream("message/stream", params).await.rest().await;
    assert_eq!(statuses(&events), ["EXECUTING", "SUCCEEDED"]);
    let saved = it.home.path().join(".config/tandem/policies/saved.toml");
    let written = std::fs::read_to_string(&saved).unwrap();
    assert!(written.contains("[[always]]\nallow = \"commands\"\nof = [\"touch\"]"), "{written}");

    let next = serve(&setup.file("../.config/tandem/policies/saved.toml", &written)).await;
    let here = next.home.path().join("workspace").canonicalize().unwrap();
    let there = it.home.path().join("workspace").canonicalize().unwrap();
    let moved = written.replace(&there.display().to_string(), &here.display().to_string());
    std::fs::write(next.home.path().join(".config/tandem/policies/saved.toml"), moved).unwrap();
    let events = next.client.stream("message/stream", prompt("go")).await.rest().await;
    assert!(!events.iter().any(asks), "{events:?}");
    assert_eq!(text(&events), "done");
}

#[tokio::test]
async fn rules_from_flags_and_files_decide_and_are_named() {
    let deny = "[[rule]]\ncommandPrefix = \"touch\"\ndecision = \"deny\"\npriority = 5\n\
        denyMessage = \"No touching.\"\n";
    let setup = runs("touch a").file("../rules.toml", deny);
    let it = serve(&setup.clone().arg("--policy").arg("../rules.toml").arg("-y")).await;
    let events = it.client.stream("message/stream", prompt("go")).await.rest().await;
    let failed = events.iter().find(|event| tool_call(event)["status"] == "FAILED").unwrap();
    let why = tool_call(failed)["error"]["message"].as_str().unwrap();
    assert!(why.starts_with("No touching. (`touch a` is denied by ~/rules.toml:1.)"), "{why}");

    let allowed = setup.arg("--allowed-tools").arg("run_shell_command(touch)");
    let it = serve(&allowed).await;
    let events = it.client.stream("message/stream", prompt("go")).await.rest().await;
    assert_eq!(text(&events), "done");
    assert!(!events.iter().any(asks));
}

#[tokio::test]
async fn the_models_reason_to_leave_the_sandbox_is_shown() {
    if lacking(Need::Sandbox) {
        return;
    }
    let answers = json!([[outside("touch a.txt")], [{ "text": "done" }]]);
    let it = serve(&Setup::answers(answers)).await;
    let (_, asked) = question(&it).await;
    let shown = asked["confirmation_request"]["prompt"].as_str().unwrap();
    assert!(shown.contains("outside the sandbox; the model says:"), "{shown}");
    assert!(shown.contains(REASON), "{shown}");
}
