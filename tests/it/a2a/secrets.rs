//! Secrets of clients, servers and users: a store's logs have none.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::revived::Webhook;
use super::server::{Client, Served, answer, asks, ends, prompt, serve, tool_call, within};
use crate::agent::Setup;
use crate::family::run;

const TOKEN: &str = "the-a2a-token-5ecret";

/// Texts that no log may contain.
const SECRETS: [&str; 11] = [
    TOKEN,
    "api-key-5ecret",
    "own-variable-5ecret",
    "server-variable-5ecret",
    "server-header-5ecret",
    "server-password-5ecret",
    "server-query-5ecret",
    "client-5ecret",
    "push-token-5ecret",
    "push-bearer-5ecret",
    "push-query-5ecret",
];

fn setup() -> Setup {
    let servers = json!({ "mcpServers": {
        "program": { "command": "false", "env": { "KEY": "server-variable-5ecret" } },
        "web": {
            "httpUrl": "http://me:server-password-5ecret@127.0.0.1:9/?key=server-query-5ecret",
            "headers": { "Authorization": "Bearer server-header-5ecret" },
            "oauth": { "clientSecret": "client-5ecret" },
        },
    } });
    Setup::answers(json!([[run("env")], [{ "text": "done" }]]))
        .without_sandbox()
        .arg("--a2a-webhook-loopback")
        .var("TANDEM_A2A_TOKEN", TOKEN)
        .var("GEMINI_API_KEY", "api-key-5ecret")
        .var("MY_PASSWORD", "own-variable-5ecret")
        .file(".gemini/settings.json", &servers.to_string())
}

async fn result(client: Client, method: &str, params: Value) -> Value {
    let call = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
    let token = format!("Authorization: Bearer {TOKEN}");
    let answer = client.send("POST /", &[&token], call.to_string().as_bytes()).await.json();
    assert!(answer.get("error").is_none(), "{answer}");
    answer["result"].clone()
}

/// Runs a turn in which all is allowed; returns the number of questions.
async fn turn(it: &Served, params: Value) -> usize {
    let token = format!("Authorization: Bearer {TOKEN}");
    let (mut params, mut questions) = (params, 0);
    loop {
        let mut stream = it.client.stream_with("message/stream", params, &[&token]).await;
        let events = stream.until(|event| asks(event) || ends(event)).await;
        let last = events.last().unwrap();
        if ends(last) {
            assert_eq!(last["status"]["state"], "completed", "{last}");
            return questions;
        }
        questions += 1;
        let call = &tool_call(last)["tool_call_id"];
        let options = tool_call(last)["confirmation_request"]["options"].as_array().unwrap();
        // The question about the folder's programs offers no answer for once.
        let yes = &options[0]["id"];
        params = within(&json!("c"), answer(call, yes.as_str().unwrap()));
    }
}

fn in_context(text: &str) -> Value {
    let mut sent = prompt(text);
    sent["message"]["contextId"] = json!("c");
    sent
}

fn store(it: &Served) -> PathBuf {
    it.home.path().join(".local/share/tandem/sessions")
}

/// Returns all files below a directory.
fn files(dir: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect()
}

/// Returns the secrets that are in a text.
fn secrets_in(text: &str) -> Vec<&'static str> {
    SECRETS.into_iter().filter(|secret| text.contains(secret)).collect()
}

/// Checks that only the file for secrets has any; returns that file.
fn check(store: &Path) -> Option<PathBuf> {
    let (own, others): (Vec<_>, Vec<_>) =
        files(store).into_iter().partition(|path| path.ends_with("secrets.json"));
    assert!(others.iter().any(|path| path.ends_with("log.jsonl")), "{others:?}");
    for path in others {
        let text = String::from_utf8_lossy(&fs::read(&path).unwrap()).into_owned();
        assert_eq!(secrets_in(&text), Vec::<&str>::new(), "{}", path.display());
    }
    own.into_iter().next()
}

async fn tandem(it: &Served, args: &[&str]) -> String {
    let mut command = Setup::default().command(it.home.path());
    let std = command.as_std();
    let (dir, vars): (_, Vec<_>) = (
        std.get_current_dir().unwrap().to_owned(),
        std.get_envs().map(|(name, value)| (name.to_owned(), value.unwrap().to_owned())).collect(),
    );
    command = tokio::process::Command::new(env!("CARGO_BIN_EXE_tandem"));
    let ran = command.args(args).env_clear().envs(vars).current_dir(dir).output().await.unwrap();
    assert!(ran.status.success(), "{ran:?}");
    String::from_utf8(ran.stdout).unwrap()
}

#[tokio::test]
async fn no_secret_is_in_a_log_and_those_of_receivers_are_in_a_file_of_their_own() {
    let setup = setup();
    let mut hook = Webhook::listen().await;
    let it = serve(&setup).await;
    let receiver = json!({
        "id": "p", "url": format!("{}?key=push-query-5ecret", hook.url),
        "token": "push-token-5ecret",
        "authentication": { "schemes": ["Bearer"], "credentials": "push-bearer-5ecret" },
    });
    let mut sent = in_context("go");
    sent["configuration"] = json!({ "pushNotificationConfig": receiver });
    assert_eq!(turn(&it, sent).await, 2, "whether to trust the folder, and to run the command");
    let completed = |body: &Value| body["id"] == "c" && body["status"]["state"] == "completed";
    hook.until(completed).await;
    let own = check(&store(&it)).expect("the receiver's secrets are kept");
    assert_eq!(fs::metadata(&own).unwrap().permissions().mode() & 0o777, 0o600);
    let kept = fs::read_to_string(&own).unwrap();
    assert_eq!(secrets_in(&kept).len(), 3, "{kept}");

    let id = own.parent().unwrap().file_name().unwrap().to_str().unwrap();
    assert_eq!(
        secrets_in(&tandem(&it, &["sessions", "export", id, "--format", "jsonl"]).await),
        Vec::<&str>::new()
    );
    let copy = tandem(&it, &["sessions", "fork", id]).await;
    assert!(!store(&it).join(copy.trim()).join("secrets.json").exists());

    let it = it.killed(&setup).await;
    let named = json!({ "id": "c", "pushNotificationConfigId": "p" });
    let got = result(it.client, "tasks/pushNotificationConfig/get", named.clone()).await;
    assert_eq!(got["pushNotificationConfig"], receiver, "{got}");
    turn(&it, in_context("again")).await;
    hook.until(completed).await;
    result(it.client, "tasks/pushNotificationConfig/delete", named).await;
    assert_eq!(check(&store(&it)), None, "what is deleted is forgotten");
}

#[tokio::test]
async fn a_receiver_that_an_older_version_wrote_into_the_log_is_still_notified() {
    let setup = Setup::answers(json!([[{ "text": "hi" }]]))
        .arg("--a2a-webhook-loopback")
        .var("TANDEM_A2A_TOKEN", TOKEN);
    let mut hook = Webhook::listen().await;
    let it = serve(&setup).await;
    let receiver = json!({ "id": "p", "url": hook.url, "token": "push-token-5ecret" });
    let mut sent = in_context("go");
    sent["configuration"] = json!({ "pushNotificationConfig": receiver });
    turn(&it, sent).await;
    let own = check(&store(&it)).unwrap();
    let mut it = it;
    it.child.kill().await.unwrap();
    let log = own.with_file_name("log.jsonl");
    let written = fs::read_to_string(&log).unwrap();
    let old = written.replace("\"set\":null", &format!("\"set\":{receiver}"));
    assert_ne!(old, written);
    fs::write(&log, old).unwrap();
    fs::remove_file(own).unwrap();
    let it = it.killed(&setup).await;
    turn(&it, in_context("again")).await;
    let twice = |body: &Value| body["history"].as_array().is_some_and(|said| said.len() == 4);
    hook.until(twice).await;
}
