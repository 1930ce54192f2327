//! Keys of an agent that was started without the user's variables: the user's login shell has them.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use serde_json::{Value, json};
use tempfile::TempDir;
use test_support::api_server::{Reply, Server, event};

use super::{Editor, stop_reason, updates};
use crate::agent::Setup;

const KEY: &str = "AIzaSyLogin0123456789";

/// A login shell that records that it was asked.
struct Shell(TempDir);

impl Shell {
    /// Makes a login shell. `files`: commands in the user's start-up files.
    fn new(files: &str) -> Self {
        let shell = Self(TempDir::new().unwrap());
        let (path, asked) = (shell.path(), shell.0.path().join("asked"));
        let text = format!(
            "#!/bin/sh\necho Welcome.\necho x >> {}\n{files}\nexec /bin/sh -c \"$4\"\n",
            asked.display()
        );
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o700)).unwrap();
        shell
    }

    /// Makes a login shell whose user calls models at this server.
    fn with_key(server: &Server) -> Self {
        let address = server.address();
        Self::new(&format!("export GEMINI_API_KEY={KEY} GOOGLE_GEMINI_BASE_URL={address}"))
    }

    fn path(&self) -> String {
        self.0.path().join("zsh").display().to_string()
    }

    fn asked(&self) -> usize {
        fs::read_to_string(self.0.path().join("asked")).unwrap_or_default().lines().count()
    }

    /// Returns an agent without a key, as an editor starts it that was opened from a menu.
    fn setup(&self) -> Setup {
        self.setup_with_model("gemini-3.8-flash")
    }

    fn setup_with_model(&self, model: &str) -> Setup {
        let setup = Setup::default().arg("--model").arg(model).arg("-y");
        setup.var("PATH", "/usr/bin:/bin").var("SHELL", &self.path())
    }
}

/// Returns a reply with a call of a command.
fn run(command: &str) -> Reply {
    let call = json!({ "name": "run_shell_command", "args": { "command": command } });
    let content = json!({ "parts": [{ "functionCall": call }] });
    Reply::stream(event(&json!({ "content": content, "finishReason": "STOP" }).to_string()))
}

/// Checks that a prompt was refused for lack of a key.
fn auth_required(read: &[Value]) {
    assert_eq!(read.last().unwrap()["error"]["code"], -32000, "{read:?}");
}

#[tokio::test]
pub(super) async fn the_login_shell_has_the_key_and_is_asked_once_when_a_model_is_called() {
    let server = Server::start(vec![run("env"), Reply::text("one"), Reply::text("two")]).await;
    let shell = Shell::with_key(&server);
    let mut editor = Editor::start(&shell.setup()).await;
    let session = editor.session().await;
    assert_eq!(shell.asked(), 0);
    for _ in 0..2 {
        assert_eq!(stop_reason(&editor.ask(&session, "go").await), "end_turn");
    }
    assert_eq!(shell.asked(), 1);
    let asked = server.asked();
    assert_eq!(asked.len(), 3);
    assert!(asked.iter().all(|asked| asked.headers["x-goog-api-key"] == KEY));
    let output = asked[1].body.to_string();
    assert!(output.contains("GEMINI_CLI=1"), "{output}");
    assert!(!output.contains(KEY) && !output.contains("GEMINI_API_KEY"), "{output}");
    assert!(!output.contains("GOOGLE_GEMINI_BASE_URL"), "{output}");
}

#[tokio::test]
async fn a_login_shell_without_a_key_is_not_asked_again() {
    let shell = Shell::new("");
    let mut editor = Editor::start(&shell.setup()).await;
    let session = editor.session().await;
    for _ in 0..2 {
        auth_required(&editor.ask(&session, "go").await);
    }
    assert_eq!(shell.asked(), 1);
}

#[tokio::test]
async fn an_agent_that_a_shell_has_started_has_its_variables() {
    let server = Server::start(Vec::new()).await;
    let shell = Shell::with_key(&server);
    let mut editor = Editor::start(&shell.setup().var("SHLVL", "1")).await;
    let session = editor.session().await;
    auth_required(&editor.ask(&session, "go").await);
    assert_eq!((shell.asked(), server.asked().len()), (0, 0));
}

#[tokio::test]
async fn a_key_that_there_is_goes_to_its_own_address() {
    let (own, other) = (Server::start(vec![run("true"), Reply::text("done")]), Vec::new());
    let (own, other) = (own.await, Server::start(other).await);
    let shell = Shell::with_key(&other);
    let setup = shell.setup().var("GEMINI_API_KEY", "AIzaSyOwn");
    let mut editor = Editor::start(&setup.var("GOOGLE_GEMINI_BASE_URL", own.address())).await;
    let session = editor.session().await;
    let read = editor.ask(&session, "go").await;
    assert_eq!(stop_reason(&read), "end_turn");
    // The login shell was asked once, for the `PATH` of the command, and not for a key.
    assert_eq!(shell.asked(), 1);
    assert!(own.asked().iter().all(|asked| asked.headers["x-goog-api-key"] == "AIzaSyOwn"));
    assert_eq!((own.asked().len(), other.asked().len()), (2, 0));
}

#[tokio::test]
async fn authenticate_finds_the_key_of_the_login_shell() {
    let server = Server::start(vec![Reply::text("hello")]).await;
    let shell = Shell::with_key(&server);
    // `BROWSER` fails: a browser must not be needed.
    let mut editor = Editor::start(&shell.setup().var("BROWSER", "/bin/false")).await;
    let params = json!({ "methodId": "gemini-api-key" });
    assert_eq!(editor.call("authenticate", params).await["result"], json!({}));
    let session = editor.session().await;
    assert_eq!(stop_reason(&editor.ask(&session, "go").await), "end_turn");
    assert_eq!(shell.asked(), 1);
}

#[tokio::test]
async fn a_cancel_does_not_wait_for_the_login_shell() {
    let shell = Shell::new("exec sleep 1000");
    let mut editor = Editor::start(&shell.setup()).await;
    let session = editor.session().await;
    let id = editor.prompt(&session, "go").await;
    editor.notify("session/cancel", json!({ "sessionId": session })).await;
    let read = editor.until(id).await;
    assert_eq!(stop_reason(&read), "cancelled");
    assert!(updates(&read, "agent_message_chunk").is_empty());
}

#[tokio::test]
async fn an_editor_of_0_0_9_is_told_of_no_key_and_its_prompt_finds_one() {
    let server = Server::start(vec![Reply::text("hello")]).await;
    let shell = Shell::with_key(&server);
    let mut agent = shell.setup().start();
    let id = agent.request("initialize", json!({ "protocolVersion": "0.0.9" })).await;
    assert_eq!(
        agent.until_answered(id, "allow").await.last().unwrap()["result"]["isAuthenticated"],
        false
    );
    let id = agent.prompt("go").await;
    agent.until_answered(id, "allow").await;
    assert_eq!((shell.asked(), server.asked().len()), (1, 1));
}

#[tokio::test]
async fn a_prompt_of_the_command_line_finds_the_key_too() {
    let server = Server::start(vec![Reply::text("hello")]).await;
    let shell = Shell::with_key(&server);
    let ran = shell.setup().arg("-p").arg("go").run().await;
    assert_eq!((ran.stdout.trim(), ran.code), ("hello", Some(0)), "{}", ran.stderr);
    assert_eq!(shell.asked(), 1);
}

#[tokio::test]
async fn the_login_shell_has_the_key_of_a_server_that_the_settings_name() {
    let server = Server::start(vec![Reply::text("hello")]).await;
    let shell = Shell::new(&format!("export WORK_KEY={KEY}"));
    let work = json!({ "url": server.address(), "api": "gemini", "keyVariable": "WORK_KEY" });
    let settings = json!({ "modelServers": { "work": work } }).to_string();
    let setup = shell.setup_with_model("work:any").file("../.gemini/settings.json", &settings);
    let ran = setup.arg("-p").arg("go").run().await;
    assert_eq!((ran.stdout.trim(), ran.code), ("hello", Some(0)), "{}", ran.stderr);
    assert_eq!(server.asked()[0].headers["x-goog-api-key"], KEY);
}
