//! Credentials: asked for in the browser, brought by the editor, forgotten.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tempfile::TempDir;
use test_support::api_server::{Reply, Server};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::unix::pipe;
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;

use super::{Editor, text};
use crate::agent::{HANG, Setup};
use crate::family::make_fifo;
use crate::whole::store;

/// A browser that reports the pages that it opens.
struct Browser {
    home: TempDir,
    urls: pipe::Receiver,
}

impl Browser {
    fn new() -> Self {
        let home = TempDir::new().unwrap();
        let urls = home.path().join("urls");
        make_fifo(&urls);
        let program = home.path().join("browser");
        fs::write(&program, format!("#!/bin/sh\necho \"$1\" > {}\n", urls.display())).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        // The pipe is also opened for writing, because it would otherwise end when the first browser exits.
        let urls = pipe::OpenOptions::new().read_write(true).open_receiver(&urls).unwrap();
        Self { home, urls }
    }

    fn program(&self) -> String {
        self.home.path().join("browser").to_str().unwrap().to_owned()
    }

    /// Waits for the next page that the browser opens.
    async fn opened(&mut self) -> String {
        let mut url = Vec::new();
        let read = async {
            while !url.ends_with(b"\n") {
                self.urls.read_buf(&mut url).await.unwrap();
            }
        };
        timeout(HANG, read).await.expect("no page was opened");
        String::from_utf8(url).unwrap().trim().to_owned()
    }

    /// Checks that the browser has opened no further page.
    fn check_idle(&self) {
        let mut byte = [0];
        let read = self.urls.try_read(&mut byte);
        assert!(read.is_err(), "another page was opened");
    }
}

/// Returns an agent without a key.
fn keyless() -> Setup {
    Setup::default().arg("--model").arg("gemini-3.8-flash")
}

/// Returns `true` if a page is served that asks for a key. Another server may have got its port.
async fn is_open(url: &str) -> bool {
    let (address, path) = url.strip_prefix("http://").unwrap().split_once('/').unwrap();
    let Ok(mut stream) = TcpStream::connect(address).await else { return false };
    let request = format!("GET /{path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    let mut response = String::new();
    let _ = stream.write_all(request.as_bytes()).await;
    let _ = stream.read_to_string(&mut response).await;
    response.contains("<form method=\"post\">")
}

fn api_key(meta: Value) -> Value {
    json!({ "methodId": "gemini-api-key", "_meta": meta })
}

#[tokio::test]
pub(super) async fn authenticate_is_answered_while_the_page_waits_for_the_key() {
    // The listener stands in for the way to the provider.
    let proxy = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", proxy.local_addr().unwrap());
    let mut browser = Browser::new();
    let setup = keyless().var("BROWSER", &browser.program()).var("HTTPS_PROXY", &address);
    let mut editor = Editor::start(&setup.arg("--limit").arg("model-attempts=1")).await;
    // Some editors call `authenticate` before each session.
    for _ in 0..2 {
        let answer = editor.call("authenticate", api_key(json!({}))).await;
        assert_eq!(answer["result"], json!({}));
    }
    let url = browser.opened().await;
    let session = editor.session().await;
    let answer = editor.ask(&session, "hello").await.pop().unwrap();
    assert_eq!(answer["error"]["code"], -32000);
    assert!(answer["error"]["message"].as_str().unwrap().contains(&url), "{answer}");
    assert!(is_open(&url).await);

    // The user enters a key in a terminal.
    store(&editor.cwd().parent().unwrap().join(".config/tandem"));
    let answer = editor.call("authenticate", api_key(json!({}))).await;
    assert_eq!(answer["result"], json!({}));
    let prompt = editor.prompt(&session, "hello").await;
    let (mut asked, _) = timeout(HANG, proxy.accept()).await.unwrap().unwrap();
    let mut head = [0; 7];
    timeout(HANG, asked.read_exact(&mut head)).await.expect("nothing is asked").unwrap();
    assert_eq!(&head, b"CONNECT", "the model is called");
    drop(asked);
    let answer = editor.until(prompt).await.pop().unwrap();
    assert_eq!(answer["error"]["code"], -32603, "{answer}");
    browser.check_idle();
}

#[tokio::test]
async fn nothing_is_left_of_a_login_when_the_agent_ends() {
    for signal in [None, Some(Signal::TERM)] {
        let mut browser = Browser::new();
        let mut editor = Editor::start(&keyless().var("BROWSER", &browser.program())).await;
        editor.call("authenticate", api_key(json!({}))).await;
        let url = browser.opened().await;
        if let Some(signal) = signal {
            let pid = Pid::from_raw(editor.agent.child.id().unwrap().cast_signed()).unwrap();
            kill_process(pid, signal).unwrap();
        }
        let (rest, _) = editor.agent.hang_up().await;
        assert!(rest.is_empty(), "{rest:?}");
        assert!(!is_open(&url).await);
    }
}

#[tokio::test]
async fn a_login_that_cannot_be_shown_says_what_to_do() {
    for setup in [keyless(), keyless().var("BROWSER", "false")] {
        let mut editor = Editor::start(&setup).await;
        let answer = editor.call("authenticate", api_key(json!({}))).await;
        assert_eq!(answer["error"]["code"], -32000, "{answer}");
        let message = answer["error"]["message"].as_str().unwrap();
        assert!(message.contains("tandem login"), "{message}");
        let session = editor.session().await;
        let answer = editor.ask(&session, "hello").await.pop().unwrap();
        assert_eq!(answer["error"]["code"], -32000, "{answer}");
    }
}

#[tokio::test]
async fn a_key_that_the_editor_brings_is_checked_and_stored() {
    let refused = r#"{"error":{"code":400,"message":"API key not valid","status":"INVALID_ARGUMENT","details":[{"reason":"API_KEY_INVALID"}]}}"#;
    let server = Server::start(vec![
        Reply::error(400, refused),
        Reply::error(200, r#"{"models":[]}"#),
        Reply::text("hello"),
    ])
    .await;
    let mut editor =
        Editor::start(&keyless().var("GOOGLE_GEMINI_BASE_URL", server.address())).await;
    let session = editor.session().await;
    let wrong = editor.call("authenticate", api_key(json!({ "api-key": "wrong-key" }))).await;
    assert_eq!(wrong["error"]["code"], -32000, "{wrong}");
    assert!(!wrong.to_string().contains("wrong-key"), "{wrong}");
    let right = editor.call("authenticate", api_key(json!({ "api-key": "right-key" }))).await;
    assert_eq!(right["result"], json!({}), "{right}");
    let read = editor.ask(&session, "hello").await;
    assert_eq!(text(&read, "agent_message_chunk"), "hello");
    assert_eq!(server.asked()[2].headers["x-goog-api-key"], "right-key");
    let file = editor.cwd().parent().unwrap().join(".config/tandem/credentials.json");
    assert!(fs::read_to_string(&file).unwrap().contains("right-key"));
    assert_eq!(editor.call("logout", json!({})).await["result"], json!({}));
    assert!(!file.exists());
}

#[tokio::test]
pub(super) async fn a_key_of_the_environment_needs_no_login_and_cannot_be_forgotten() {
    let mut editor = Editor::start(&keyless().var("GEMINI_API_KEY", "key-of-mine")).await;
    let answer = editor.call("authenticate", api_key(json!({}))).await;
    assert_eq!(answer["result"], json!({}));
    let kept = editor.call("logout", json!({})).await;
    let message = kept["result"]["_meta"]["message"].as_str();
    assert!(message.unwrap().contains("GEMINI_API_KEY"), "{kept}");
}

/// Starts an editor that shows pages, with a browser that must not be used, and authenticates; the
/// request's id, and the elicitation.
async fn elicited(browser: &Browser) -> (Editor, u64, Value) {
    let capabilities = json!({ "elicitation": { "url": {} } });
    let initialize = json!({ "protocolVersion": 1, "clientCapabilities": capabilities });
    let setup = keyless().var("BROWSER", &browser.program());
    let mut editor = Editor::with(&setup, initialize).await;
    let id = editor.request("authenticate", api_key(json!({}))).await;
    let elicitation = editor.sent("elicitation/create").await;
    assert_eq!(elicitation["params"]["requestId"], id);
    assert_eq!(elicitation["params"]["mode"], "url");
    (editor, id, elicitation)
}

#[tokio::test]
async fn an_editor_that_shows_pages_shows_the_one_that_asks_for_the_key() {
    let browser = Browser::new();
    let (mut editor, id, elicitation) = elicited(&browser).await;
    let url = elicitation["params"]["url"].as_str().unwrap();
    assert!(is_open(url).await);
    editor.agent.answer(&elicitation, json!({ "action": "accept" })).await;
    assert_eq!(editor.until(id).await.pop().unwrap()["result"], json!({}));
    let session = editor.session().await;
    let answer = editor.ask(&session, "hello").await.pop().unwrap();
    assert!(answer["error"]["message"].as_str().unwrap().contains(url), "{answer}");
    store(&editor.cwd().parent().unwrap().join(".config/tandem"));
    let complete = editor.sent("elicitation/complete").await;
    let id = &elicitation["params"]["elicitationId"];
    assert_eq!(complete["params"], json!({ "elicitationId": id }));
    browser.check_idle();
}

#[tokio::test]
async fn a_page_that_the_user_declines_is_closed() {
    let browser = Browser::new();
    for answer in [
        json!({ "result": { "action": "decline" } }),
        json!({ "result": { "action": "cancel" } }),
        json!({ "result": {} }),
        json!({ "error": { "code": -32602, "message": "no" } }),
    ] {
        let (mut editor, id, elicitation) = elicited(&browser).await;
        let mut answer = answer;
        answer["id"] = elicitation["id"].clone();
        editor.agent.send_line(&answer.to_string()).await;
        let refused = editor.until(id).await.pop().unwrap();
        assert_eq!(refused["error"]["code"], -32000, "{refused}");
        assert!(!is_open(elicitation["params"]["url"].as_str().unwrap()).await);
    }
    browser.check_idle();
}

#[tokio::test]
async fn a_page_that_nobody_needs_any_more_is_withdrawn() {
    let browser = Browser::new();
    let (mut editor, id, elicitation) = elicited(&browser).await;
    // The user enters a key in a terminal.
    store(&editor.cwd().parent().unwrap().join(".config/tandem"));
    let withdrawn = editor.sent("$/cancel_request").await;
    assert_eq!(withdrawn["params"]["requestId"], elicitation["id"]);
    assert_eq!(editor.until(id).await.pop().unwrap()["result"], json!({}));
    let (mut editor, id, elicitation) = elicited(&browser).await;
    editor.notify("$/cancel_request", json!({ "requestId": id })).await;
    let read = editor.until(id).await;
    assert_eq!(read.last().unwrap()["error"]["code"], -32800);
    let withdrawn = match read.iter().find(|it| it["method"] == "$/cancel_request") {
        Some(withdrawn) => withdrawn.clone(),
        None => editor.sent("$/cancel_request").await,
    };
    assert_eq!(withdrawn["params"]["requestId"], elicitation["id"]);
    assert!(!is_open(elicitation["params"]["url"].as_str().unwrap()).await);
    browser.check_idle();
}

#[tokio::test]
async fn pages_are_shown_only_by_editors_that_say_so() {
    for elicitation in [json!({}), json!({ "url": null, "form": {} }), json!(5), json!(null)] {
        let mut browser = Browser::new();
        let capabilities = json!({ "elicitation": elicitation });
        let initialize = json!({ "protocolVersion": 1, "clientCapabilities": capabilities });
        let setup = keyless().var("BROWSER", &browser.program());
        let mut editor = Editor::with(&setup, initialize).await;
        let id = editor.request("authenticate", api_key(json!({}))).await;
        assert_eq!(editor.until(id).await, [json!({ "jsonrpc": "2.0", "id": id, "result": {} })]);
        assert!(is_open(&browser.opened().await).await);
    }
}
