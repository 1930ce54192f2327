//! The first start without a key, and a key that is refused.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;

use super::*;
use test_support::api_server::{Asked, Reply, Server};

/// The API's answer to an unknown key.
const REFUSAL: &str = r#"{"error":{"code":400,"message":"API key not valid. Pass a valid API key.","status":"INVALID_ARGUMENT"}}"#;

/// Proxy that refuses, so that the API cannot be reached with any key.
const NO_NETWORK: &str = "HTTPS_PROXY=http://127.0.0.1:9";

#[test]
fn without_a_key_the_demonstration_can_be_tried_and_what_was_said_is_not_lost() {
    let Some(terminal) = Terminal::open() else { return };
    terminal.agent(NO_NETWORK, "-y");
    let offered = terminal.until("tandem needs one of these");
    for choice in
        ["› g  Gemini", "a  Anthropic", "o  OpenAI", "l  Ollama, llama.cpp", "d  try the demo"]
    {
        assert!(offered.contains(choice), "{offered}");
    }
    assert!(offered.contains("https://aistudio.google.com/apikey"), "{offered}");
    terminal.keys(&["Escape"]);
    terminal.until("/auth shows the login again");
    terminal.line("what is this?");
    terminal.until("Your prompt waits for the login.");
    terminal.text("d");
    let seen = terminal.until("That is the whole loop");
    assert_eq!(prompts(&seen)[..2], ["/model set replay", "what is this?"]);
    assert!(!seen.contains('✗'), "something fails, and there is no README.md here:\n{seen}");
    terminal.until("replay · yolo");
    terminal.line("/quit");
    terminal.check_given_back();
}

#[test]
fn a_key_is_typed_unseen_and_nothing_is_kept_that_could_not_be_checked() {
    let Some(terminal) = Terminal::open() else { return };
    terminal.agent(NO_NETWORK, "");
    terminal.until("tandem needs one of these");
    terminal.text("a");
    let how = terminal.until("tandem needs an API key for Anthropic");
    assert!(how.contains("https://platform.claude.com/settings/keys"), "{how}");
    terminal.keys(&["Escape"]);
    terminal.until("› g  Gemini");
    terminal.keys(&["Enter"]);
    terminal.until("tandem needs an API key for Gemini");
    terminal.keys(&["Down", "Enter"]);
    terminal.until("Key:");
    terminal.tmux(&["set-buffer", "AIza-secret\n"]);
    terminal.tmux(&["paste-buffer", "-p"]);
    let typed = terminal.until("Key: •••••••••••");
    assert!(!typed.contains("secret"), "{typed}");
    terminal.keys(&["Enter"]);
    let failed = terminal.until("could not be checked, so it was not stored");
    assert!(!failed.contains("secret"), "{failed}");
    terminal.keys(&["Escape"]);
    terminal.until("b  log in");
    terminal.keys(&["Escape"]);
    terminal.until("a  Anthropic");
    terminal.keys(&["Escape"]);
    terminal.until("/auth shows the login again");
    assert!(terminal.file(".config/tandem/credentials.json").is_none());
    assert!(terminal.file(".config/tandem/history.jsonl").is_none());
}

#[test]
fn a_key_that_is_set_up_decides_whose_model_answers() {
    for (vars, model) in [
        ("ANTHROPIC_API_KEY=x", "anthropic:claude-sonnet-5-5 · default"),
        ("OPENAI_API_KEY=x", "openai:gpt-6.1-sol · default"),
        ("OPENAI_API_KEY=x GEMINI_API_KEY=y", "gemini-3.8-flash · default"),
    ] {
        let Some(terminal) = Terminal::open() else { return };
        terminal.agent(&format!("{NO_NETWORK} {vars}"), "");
        terminal.until(HINT);
        terminal.until(model);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_ollama_that_runs_is_offered_and_taken_for_good() {
    let tags = r#"{"models":[{"name":"nomic-embed-text"},{"name":"qwen3:8b"}]}"#;
    let server = Server::start(vec![Reply::error(200, tags)]).await;
    let Some(terminal) = Terminal::open() else { return };
    terminal.agent(&format!("OLLAMA_HOST={}", server.address()), "");
    terminal.until("› 1  ollama:qwen3:8b on this machine");
    Terminal::wait_for_grace();
    terminal.text("1");
    terminal.until("› /model set ollama:qwen3:8b");
    terminal.until("ollama:qwen3:8b · default");
    let told = terminal.until("New sessions begin with `ollama:qwen3:8b`");
    assert!(told.contains("(~/.config/tandem/models.json)"), "{told}");
    let stored = terminal.file(".config/tandem/models.json").unwrap();
    assert_eq!(
        serde_json::from_str::<Value>(&stored).unwrap(),
        json!({ "default": "ollama:qwen3:8b" })
    );
    terminal.line("/quit");
    terminal.check_given_back();
    terminal.agent(&format!("OLLAMA_HOST={}", server.address()), "");
    terminal.until(HINT);
    terminal.until("ollama:qwen3:8b · default");
}

#[tokio::test(flavor = "multi_thread")]
async fn models_of_a_server_of_this_machine_are_chosen_from_a_list() {
    let list = json!({ "object": "list", "data": [{ "id": "smol" }, { "id": "large" }] });
    let server = Server::with_pages(Vec::new(), &[("/v1/models", list)]).await;
    let Some(terminal) = Terminal::open() else { return };
    let settings =
        json!({ "modelServers": { "llamacpp": { "url": format!("{}/v1", server.address()) } } });
    std::fs::create_dir(terminal.home.path().join(".gemini")).unwrap();
    std::fs::write(terminal.home.path().join(".gemini/settings.json"), settings.to_string())
        .unwrap();
    terminal.agent(NO_NETWORK, "--model replay");
    terminal.until(HINT);
    terminal.line("/model");
    terminal.until("llamacpp:large");
    terminal.text("large");
    terminal.until("› llamacpp:large");
    terminal.keys(&["Enter"]);
    terminal.until("› /model set llamacpp:large");
    terminal.until("llamacpp:large · default");
}

/// Starts an agent whose key the API refuses.
async fn refused(replies: Vec<Reply>, vars: &str) -> Option<(Terminal, Server)> {
    let terminal = Terminal::open()?;
    let replies = std::iter::once(Reply::error(400, REFUSAL)).chain(replies).collect();
    let server = Server::start(replies).await;
    let base = format!("GOOGLE_GEMINI_BASE_URL={} {vars}", server.address());
    terminal.agent(&base, "--model gemini-3.8-flash");
    terminal.until(HINT);
    terminal.line("say something");
    let offered = terminal.until("Gemini does not accept the key.");
    assert!(offered.contains("Pass a valid API key."), "{offered}");
    Terminal::wait_for_grace();
    Some((terminal, server))
}

fn models() -> Reply {
    Reply::error(200, r#"{"models":[]}"#)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_that_is_refused_is_replaced_and_the_conversation_goes_on() {
    let replies =
        vec![Reply::error(400, REFUSAL), models(), Reply::text("Going on."), Reply::text("More.")];
    let Some((terminal, server)) = refused(replies, "GEMINI_API_KEY=old-key").await else { return };
    terminal.text("k");
    terminal.until("Key:");
    terminal.line("another-bad-key");
    terminal.until("The key was not accepted:");
    terminal.line("new-key");
    let seen = terminal.until("Going on.");
    assert!(seen.contains("The key is good, and is stored in"), "{seen}");
    assert!(seen.contains("later sessions use GEMINI_API_KEY in the environment"), "{seen}");
    assert_eq!(prompts(&seen)[..2], ["say something", "/continue"]);
    assert!(!seen.contains("new-key") && !seen.contains("another-bad"), "{seen}");
    terminal.line("and more");
    terminal.until("More.");
    let key = |asked: &Asked| asked.headers["x-goog-api-key"].clone();
    let keys: Vec<_> = server.asked().iter().map(key).collect();
    assert_eq!(keys, ["old-key", "another-bad-key", "new-key", "new-key", "new-key"]);
    assert_eq!(stored(&terminal)["gemini"]["api_keys"][server.address()], "new-key");
    let history = terminal.file(".config/tandem/history.jsonl").unwrap();
    assert_eq!(history, "\"say something\"\n\"and more\"\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_in_the_browser_takes_the_key_too() {
    let home = TempDir::new().unwrap();
    let (browser, told) = (home.path().join("browser"), home.path().join("url"));
    fs::write(
        &browser,
        format!("#!/bin/sh\necho \"$1\" > {0}.new; mv {0}.new {0}\n", told.display()),
    )
    .unwrap();
    Command::new("chmod").arg("+x").arg(&browser).status().unwrap();
    let browser = format!("BROWSER={}", browser.display());
    let replies = vec![models(), Reply::text("Going on.")];
    let Some((terminal, server)) = refused(replies, &browser).await else { return };
    terminal.text("b");
    terminal.until("\nhttp://127.0.0.1:");
    let url = until_written(&told);
    let (host, path) = url.trim().strip_prefix("http://").unwrap().split_once('/').unwrap();
    let form = "key=page-key";
    let mut stream = TcpStream::connect(host).unwrap();
    let request = format!(
        "POST /{path} HTTP/1.1\r\nHost: {host}\r\nOrigin: http://{host}\r\nConnection: close\r\n\
         Content-Type: application/x-www-form-urlencoded\r\nContent-Length: {}\r\n\r\n{form}",
        form.len()
    );
    stream.write_all(request.as_bytes()).unwrap();
    terminal.until("Going on.");
    let mut said = String::new();
    stream.read_to_string(&mut said).unwrap();
    assert!(said.starts_with("HTTP/1.1 200 "), "{said}");
    assert_eq!(stored(&terminal)["gemini"]["api_keys"][server.address()], "page-key");
}

/// Returns the keys that are stored.
fn stored(terminal: &Terminal) -> Value {
    serde_json::from_str(&terminal.file(".config/tandem/credentials.json").unwrap()).unwrap()
}

/// Waits for the content of a file that is still to be written.
fn until_written(file: &Path) -> String {
    let begun = Instant::now();
    loop {
        if let Ok(text) = fs::read_to_string(file) {
            return text;
        }
        assert!(begun.elapsed() < HANG, "nobody has written {}", file.display());
        std::thread::sleep(Duration::from_millis(20));
    }
}
