//! The whole way: from an editor, through the real binary, to the model's API and back.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Stdio;

use serde_json::{Value, json};
use tempfile::TempDir;
use test_support::api_server::{Reply, Server, event};
use tokio::io::AsyncReadExt as _;
use tokio::net::unix::pipe;
use tokio::process::Command;
use tokio::time::timeout;

use crate::agent::{HANG, Setup, text};
use crate::family::make_fifo;

const KEY: &str = "AIzaSyWholeWay0123456789";

/// Returns an agent with a model at this server, and without a key.
fn agent_of(server: &Server) -> Setup {
    Setup::default()
        .arg("--model")
        .arg("gemini-3.8-flash")
        .var("GOOGLE_GEMINI_BASE_URL", server.address())
}

fn candidate(parts: Value, finish: &str) -> String {
    event(
        &json!({ "content": { "role": "model", "parts": parts }, "finishReason": finish })
            .to_string(),
    )
}

#[tokio::test]
async fn a_question_in_the_middle_of_a_conversation_with_the_api() {
    let call = json!([
        { "text": "**Plan** write it", "thought": true },
        { "text": "Writing." },
        { "functionCall": { "id": "c1", "name": "write_file", "args": { "file_path": "a.txt", "content": "hi\n" } },
          "thoughtSignature": "c2lnbmVk" }
    ]);
    let server =
        Server::start(vec![Reply::stream(candidate(call, "STOP")), Reply::text("Written.")]).await;
    let mut agent = agent_of(&server).var("GEMINI_API_KEY", KEY).start();
    let id = agent.prompt("write hi").await;
    let messages = agent.until_answered(id, "allow").await;
    assert_eq!(text(&messages), "Writing.Written.");
    assert_eq!(messages.last().unwrap()["result"], Value::Null);
    assert_eq!(fs::read_to_string(agent.workspace().join("a.txt")).unwrap(), "hi\n");

    let asked = server.asked();
    assert_eq!(asked[0].what, "POST /v1beta/models/gemini-3.8-flash:streamGenerateContent?alt=sse");
    assert_eq!(asked[0].headers["x-goog-api-key"], KEY);
    let told = asked[0].body["tools"][0]["functionDeclarations"].as_array().unwrap();
    assert_eq!(told.len(), 17);
    assert!(asked[0].body["generationConfig"].get("temperature").is_none());
    let contents = asked[1].body["contents"].as_array().unwrap();
    assert_eq!(contents.len(), 3);
    let signed = contents[1]["parts"].as_array().unwrap().last().unwrap();
    assert_eq!(signed["thoughtSignature"], "c2lnbmVk");
    let response = &contents[2]["parts"][0]["functionResponse"];
    assert_eq!((&response["id"], &response["name"]), (&json!("c1"), &json!("write_file")));
    assert!(response["response"]["output"].as_str().unwrap().starts_with("Created a.txt"));
    let before = asked[0].body["systemInstruction"].clone();
    assert_eq!(before, asked[1].body["systemInstruction"], "the beginning stays the same");
}

#[tokio::test]
async fn a_rate_limit_that_stays_is_error_429_and_the_next_prompt_works() {
    let limited =
        r#"{"error":{"code":429,"status":"RESOURCE_EXHAUSTED","message":"Quota exceeded."}}"#;
    let server = Server::start(vec![Reply::error(429, limited), Reply::text("fine")]).await;
    let setup = agent_of(&server).var("GEMINI_API_KEY", KEY).arg("--limit").arg("model-attempts=1");
    let mut agent = setup.start();
    let id = agent.prompt("one").await;
    let answer = agent.answer_to(id).await;
    assert_eq!(answer["error"]["code"], 429);
    assert_eq!(answer["error"]["message"], "Rate limit exceeded. Try again later.");
    let id = agent.prompt("two").await;
    assert_eq!(text(&agent.until_answered(id, "allow").await), "fine");
}

#[tokio::test]
async fn gemini_clis_names_of_models_are_asked_for_by_their_ids() {
    let server = Server::start((0..4).map(|_| Reply::text("fine")).collect()).await;
    let of = |id: &str| format!("POST /v1beta/models/{id}:streamGenerateContent?alt=sse");
    let pro = of("gemini-3.1-pro-preview-customtools");
    let setup =
        Setup::default().var("GOOGLE_GEMINI_BASE_URL", server.address()).var("GEMINI_API_KEY", KEY);

    let mut agent = setup.clone().arg("--model").arg("auto").start();
    let id = agent.prompt("hi").await;
    assert_eq!(text(&agent.until_answered(id, "allow").await), "fine");
    let id = agent.prompt("/model set flash").await;
    let shown = text(&agent.until_answered(id, "allow").await);
    assert_eq!(shown, "The model is now `gemini-3.5-flash`.");
    let id = agent.prompt("hi").await;
    agent.until_answered(id, "allow").await;

    let home = TempDir::new().unwrap();
    fs::create_dir(home.path().join(".gemini")).unwrap();
    let settings = r#"{ "model": { "name": "pro" } }"#;
    fs::write(home.path().join(".gemini/settings.json"), settings).unwrap();
    for variable in [None, Some("flash-lite")] {
        // A command of `Setup` always has `--model`, so this one is built by hand.
        let mut command = Command::new(env!("CARGO_BIN_EXE_tandem"));
        command.env_clear().env("HOME", home.path()).envs(setup.vars.clone());
        command.envs(variable.map(|name| ("GEMINI_MODEL", name))).args(["-p", "hi"]);
        command.current_dir(home.path()).stdin(Stdio::null());
        let ran = timeout(HANG, command.output()).await.expect("it does not end").unwrap();
        assert_eq!(String::from_utf8(ran.stdout).unwrap(), "fine\n");
    }
    let asked: Vec<_> = server.asked().into_iter().map(|asked| asked.what).collect();
    assert_eq!(asked, [pro.clone(), of("gemini-3.5-flash"), pro, of("gemini-3.1-flash-lite")]);
}

#[tokio::test]
async fn a_cancel_closes_the_request() {
    let begun = event(r#"{"content":{"parts":[{"text":"begun"}]}}"#);
    let server = Server::start(vec![Reply::stream(begun).then_hang()]).await;
    let mut agent = agent_of(&server).var("GEMINI_API_KEY", KEY).start();
    let id = agent.prompt("hang").await;
    agent.call_of("streamAssistantMessageChunk").await;
    agent.request("cancelSendMessage", Value::Null).await;
    let answer = agent.answer_to(id).await;
    assert_eq!(answer["error"]["data"]["details"], "This operation was aborted");
    server.client_gone().await;
}

#[tokio::test]
async fn the_key_reaches_no_command_no_log_and_no_transcript() {
    let call = json!([{ "functionCall": { "name": "run_shell_command", "args": { "command": "env; echo $GEMINI_API_KEY; echo the end" } } }]);
    let refused = format!(
        r#"{{"error":{{"code":400,"message":"API key {KEY} not valid","status":"INVALID_ARGUMENT"}}}}"#
    );
    let server = Server::start(vec![
        Reply::stream(candidate(call, "STOP")),
        Reply::text("done"),
        Reply::error(400, refused),
    ])
    .await;
    let dir = TempDir::new().unwrap();
    let (log, record) = (dir.path().join("log"), dir.path().join("record"));
    let mut agent = agent_of(&server)
        .var("GEMINI_API_KEY", KEY)
        .var("A_COPY", KEY)
        .var("TANDEM_LOG", "trace")
        .arg("-y")
        .arg("--log-file")
        .arg(log.to_str().unwrap())
        .arg("--record")
        .arg(record.to_str().unwrap())
        .start();
    let id = agent.prompt("go").await;
    let messages = agent.until_answered(id, "allow").await;
    assert!(format!("{messages:?}").contains("the end"));
    let id = agent.prompt("again").await;
    let messages = agent.until_answered(id, "allow").await;
    assert!(messages.last().unwrap()["error"].is_object());
    agent.hang_up().await;

    let told: String = server.asked().iter().map(|asked| asked.body.to_string()).collect();
    for (place, text) in [
        ("the model", told),
        ("the log", fs::read_to_string(log).unwrap()),
        ("the record", fs::read_to_string(record).unwrap()),
        ("the editor", format!("{messages:?}")),
    ] {
        assert!(!text.is_empty(), "{place}");
        assert!(!text.contains(KEY), "{place} has the key");
    }
}

#[tokio::test]
async fn without_a_key_it_says_what_to_do() {
    let mut agent = Setup::default().arg("--model").arg("gemini-3.8-flash").start();
    let id = agent.request("initialize", json!({ "protocolVersion": "0.0.9" })).await;
    assert_eq!(agent.answer_to(id).await["result"]["isAuthenticated"], false);
    for method in ["authenticate", "sendUserMessage"] {
        let id = agent.request(method, json!({ "chunks": [{ "text": "hi" }] })).await;
        let answer = agent.answer_to(id).await;
        assert_eq!(answer["error"]["code"], -32603);
        let details = answer["error"]["data"]["details"].as_str().unwrap();
        for named in ["GEMINI_API_KEY", "tandem login", ".gemini/.env", "https://"] {
            assert!(details.contains(named), "{method}: {details}");
        }
    }
}

#[tokio::test]
async fn authenticate_opens_a_page_and_is_answered_when_there_is_a_key() {
    let home = TempDir::new().unwrap();
    let urls = home.path().join("urls");
    make_fifo(&urls);
    let mut opened = pipe::OpenOptions::new().open_receiver(&urls).unwrap();
    let browser = home.path().join("browser");
    fs::write(&browser, format!("#!/bin/sh\necho \"$1\" > {}\n", urls.display())).unwrap();
    fs::set_permissions(&browser, fs::Permissions::from_mode(0o755)).unwrap();
    let mut agent = Setup::default()
        .arg("--model")
        .arg("gemini-3.8-flash")
        .var("BROWSER", browser.to_str().unwrap())
        .start();
    let id = agent.request("authenticate", Value::Null).await;
    let url = read_url(&mut opened).await;

    // A key appears in the file meanwhile, as if `tandem login` ran in a terminal.
    let config = agent.workspace().parent().unwrap().join(".config/tandem");
    store(&config);
    assert_eq!(agent.answer_to(id).await, json!({ "jsonrpc": "2.0", "id": id, "result": null }));
    let id = agent.request("initialize", json!({ "protocolVersion": "0.0.9" })).await;
    assert_eq!(agent.answer_to(id).await["result"]["isAuthenticated"], true);
    assert!(url.starts_with("http://127.0.0.1:"), "{url}");
}

async fn read_url(opened: &mut pipe::Receiver) -> String {
    let mut url = Vec::new();
    let read = async {
        while !url.ends_with(b"\n") {
            // Until the browser opens its end of the pipe, a read finds the pipe at its end.
            if opened.read_buf(&mut url).await.unwrap() == 0 {
                tokio::task::yield_now().await;
            }
        }
    };
    timeout(HANG, read).await.expect("no browser was started");
    String::from_utf8(url).unwrap()
}

/// Stores a key, as `tandem login` does.
pub(crate) fn store(config: &Path) {
    fs::create_dir_all(config).unwrap();
    let file = config.join("credentials.json");
    fs::write(&file, json!({ "gemini": { "api_key": KEY } }).to_string()).unwrap();
    fs::set_permissions(file, fs::Permissions::from_mode(0o600)).unwrap();
}
