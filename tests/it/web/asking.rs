//! Questions before an address is read, on every front end, and the display of the call.

use std::process::Stdio;

use serde_json::{Value, json};
use tempfile::TempDir;
use test_support::api_server::Server;
use tokio::time::timeout;

use super::page;
use crate::agent::{HANG, Setup, text};

/// The user's settings, as seen from the workspace.
const SETTINGS: &str = "../.gemini/settings.json";

/// Starts an agent that reads these addresses, one in each round, and may read from this machine.
pub(crate) fn reads(urls: &[String]) -> Setup {
    let call = |url| json!([{ "call": { "name": "web_fetch", "args": { "prompt": url } } }]);
    let rounds = urls.iter().map(call).chain([json!([{ "text": "done" }])]);
    Setup::answers(rounds.collect()).file(SETTINGS, &settings(json!({})))
}

/// Settings by which this machine may be read from, and with this network.
fn settings(network: Value) -> String {
    let web = json!({ "webFetch": { "allowPrivate": true } });
    json!({ "tools": web, "sandbox": { "network": network } }).to_string()
}

/// Starts a server with a page for each of `count` requests.
pub(crate) async fn pages(count: usize) -> Server {
    Server::start((0..count).map(|_| page("text/html", "<h1>Hello</h1>")).collect()).await
}

fn of<'a>(read: &'a [Value], method: &str) -> Vec<&'a Value> {
    read.iter().filter(|message| message["method"] == method).map(|it| &it["params"]).collect()
}

#[tokio::test]
async fn an_editor_is_asked_about_the_addresses_once_a_host() {
    let server = pages(2).await;
    let host = server.address().strip_prefix("http://").unwrap();
    let urls = [format!("{}/a", server.address()), format!("{}/b", server.address())];
    let mut agent = reads(&urls).start();
    let id = agent.prompt("go").await;
    let read = agent.until_answered(id, "alwaysAllow").await;
    let asked = of(&read, "requestToolCallConfirmation");
    let [asked] = &asked[..] else { panic!("{asked:?}") };
    let expected = json!({
        "label": format!("Read {}", urls[0]),
        "icon": "globe",
        "content": { "type": "markdown", "markdown":
            "Asked because the addresses could carry what was read to hosts that \
             `sandbox.network.allowedDomains` does not name: `HOST` [built-in rule network]"
                .replace("HOST", host) },
        "confirmation": { "type": "fetch", "urls": [urls[0]] },
        "locations": [],
    });
    assert_eq!(**asked, expected);
    assert_eq!(of(&read, "pushToolCall").len(), 1);
    let ended = of(&read, "updateToolCall").last().unwrap()["content"]["markdown"].clone();
    assert_eq!(ended, format!("- {}: 7 characters\n", urls[1]));
    assert_eq!(text(&read), "done");
    assert_eq!(server.asked().len(), 2);
}

#[tokio::test]
async fn nothing_is_read_that_was_rejected() {
    let server = pages(1).await;
    let mut agent = reads(&[server.address().to_owned()]).start();
    let id = agent.prompt("go").await;
    agent.until_answered(id, "reject").await;
    assert!(server.asked().is_empty());
}

/// Runs a prompt without a person, in a mode.
async fn run(mode: &str, setup: Setup) -> (String, String) {
    let home = TempDir::new().unwrap();
    let mut command = setup.arg("--approval-mode").arg(mode).command(home.path());
    command.args(["-p", "go"]).stdin(Stdio::null()).stderr(Stdio::piped());
    let output = timeout(HANG, command.output()).await.expect("it does not end").unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (text(output.stdout), text(output.stderr))
}

#[tokio::test]
async fn without_a_person_the_mode_decides() {
    for (mode, requests) in [("default", 0), ("auto_edit", 0), ("plan", 0), ("yolo", 1)] {
        let server = pages(1).await;
        let (said, notes) = run(mode, reads(&[server.address().to_owned()])).await;
        assert_eq!(said, "done\n", "{notes}");
        assert_eq!(server.asked().len(), requests, "{mode}");
        let is_asked = notes.contains("not allowed without `sandbox.network.allowedDomains`");
        assert_eq!(is_asked, requests == 0 && mode != "plan", "{notes}");
    }
}

#[tokio::test]
async fn a_host_of_the_list_is_read_in_every_mode_and_a_denied_one_in_none() {
    for (list, requests) in [("allowedDomains", 1), ("deniedDomains", 0)] {
        for mode in ["default", "auto_edit", "plan", "yolo"] {
            let server = pages(1).await;
            let setup = reads(&[server.address().to_owned()]);
            let setup = setup.file(SETTINGS, &settings(json!({ list: ["127.0.0.1"] })));
            let (_, notes) = run(mode, setup).await;
            assert_eq!(server.asked().len(), requests, "{list} in {mode}: {notes}");
            assert!(!notes.contains("not allowed"), "{notes}");
        }
    }
}

#[tokio::test]
async fn where_the_denied_hosts_are_not_understood_none_is_read_in_yolo_either() {
    let server = pages(1).await;
    let lists = json!({ "allowedDomains": ["127.0.0.1"], "deniedDomains": ["https://a.test"] });
    let setup = reads(&[server.address().to_owned()]).file(SETTINGS, &settings(lists));
    let (_, notes) = run("yolo", setup).await;
    assert!(server.asked().is_empty(), "{notes}");
    assert!(notes.contains("`sandbox.network.deniedDomains[0]` must be a host"), "{notes}");
}

#[tokio::test]
async fn a_project_can_deny_a_host_and_allow_none() {
    for (list, mode) in [("allowedDomains", "auto_edit"), ("deniedDomains", "yolo")] {
        let server = pages(1).await;
        let project = json!({ "sandbox": { "network": { list: ["127.0.0.1"] } } }).to_string();
        let setup = reads(&[server.address().to_owned()]).file(".gemini/settings.json", &project);
        run(mode, setup.var("GEMINI_CLI_TRUST_WORKSPACE", "true")).await;
        assert!(server.asked().is_empty(), "{list}");
    }
}

#[tokio::test]
async fn a_rule_says_which_addresses_may_be_read() {
    let rules = "[[rule]]\ntoolName = \"web_fetch\"\nargsPattern = '\"prompt\":\"http://127'\n\
        decision = \"allow\"\npriority = 100\n\
        [[rule]]\ntoolName = \"web_fetch\"\nargsPattern = 'secret'\n\
        decision = \"deny\"\npriority = 500\n";
    let server = pages(2).await;
    let urls = [format!("{}/a", server.address()), format!("{}/secret", server.address())];
    let setup = reads(&urls).file("../.gemini/policies/web.toml", rules);
    assert_eq!(run("default", setup).await.0, "done\n");
    let asked: Vec<_> = server.asked().into_iter().map(|asked| asked.what).collect();
    assert_eq!(asked, ["GET /a"]);
}

#[tokio::test]
async fn this_machine_is_read_only_if_the_users_own_settings_say_so() {
    let server = pages(1).await;
    let project = json!({ "tools": { "webFetch": { "allowPrivate": true } } }).to_string();
    let setup = reads(&[server.address().to_owned()]).file(SETTINGS, "{}");
    run("yolo", setup.file(".gemini/settings.json", &project)).await;
    assert!(server.asked().is_empty());
}

#[tokio::test]
async fn a_proxy_of_the_environment_is_asked_and_what_is_inside_is_not_asked_of_it() {
    let proxy = pages(1).await;
    let urls = ["http://page.invalid/a".to_owned(), "http://169.254.169.254/b".to_owned()];
    let setup = reads(&urls).var("HTTP_PROXY", proxy.address());
    assert_eq!(run("yolo", setup).await.0, "done\n");
    let asked: Vec<_> = proxy.asked().into_iter().map(|asked| asked.what).collect();
    assert_eq!(asked, ["GET http://page.invalid/a"]);
}
