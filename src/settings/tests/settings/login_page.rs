//! `authenticate`: a page in the browser that accepts a key only from the person who opened it.

use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt as _;
use std::sync::Arc;
use std::time::Duration;

use expect_test::expect;
use rustix::fs::{CWD, FileType, Mode, mknodat};
use tandem_model::Secret;
use tandem_model::provider::Provider::Gemini;
use tandem_settings::{Credentials, authenticate};
use test_support::limit::in_time;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;
use tokio::net::unix::pipe;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::credentials::{Place, STORED};
use crate::login::api;

const SECRET: &str = "AIza-0123456789abcdef";

/// An open page, with the address that the browser got.
struct Page {
    place: Place,
    credentials: Arc<Credentials>,
    answer: JoinHandle<Result<(), String>>,
    urls: BufReader<pipe::Receiver>,
    address: SocketAddr,
    path: String,
}

impl Page {
    async fn open() -> Self {
        let place = Place::new();
        let fifo = place.path("urls");
        mknodat(CWD, &fifo, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        let urls = pipe::OpenOptions::new().read_write(true).open_receiver(&fifo).unwrap();
        let browser = place.path("browser");
        let dir = place.path("").display().to_string();
        let script = format!("#!/bin/sh\nenv >{dir}env\necho \"$2\" >{dir}urls\n");
        fs::write(&browser, script).unwrap();
        fs::set_permissions(&browser, fs::Permissions::from_mode(0o700)).unwrap();
        let command = format!("no-such-browser:{} --open", browser.display());
        let credentials = place.credentials(&[
            ("BROWSER", &*command),
            ("PATH", "/usr/bin:/bin"),
            ("COLOUR", "blue"),
            ("COPY", SECRET),
            ("GEMINI_CLI_CUSTOM_HEADERS", "X-A: b"),
        ]);
        // The program has known this key before, so it hides the key from the browser's environment.
        credentials.store(&credentials.typed_key(Gemini, Secret::new(SECRET)).unwrap()).unwrap();
        credentials.forget(Gemini).unwrap();
        let mut urls = BufReader::new(urls);
        let answer = start(&credentials);
        let mut url = String::new();
        in_time(urls.read_line(&mut url)).await.expect("no page is opened").unwrap();
        let (address, path) = url.trim().strip_prefix("http://").unwrap().split_once('/').unwrap();
        let (address, path) = (address.parse().unwrap(), format!("/{path}"));
        Self { place, credentials, answer, urls, address, path }
    }

    /// Sends a request; returns all of the response.
    async fn send(&self, head: &str, body: &str) -> String {
        send(self.address, &format!("{head}\r\nConnection: close\r\n\r\n{body}")).await
    }

    async fn get(&self) -> String {
        let Self { address, path, .. } = self;
        self.send(&format!("GET {path} HTTP/1.1\r\nHost: {address}"), "").await
    }

    /// Posts a form as the page itself does.
    async fn post(&self, form: &str) -> String {
        let Self { address, path, .. } = self;
        let length = form.len();
        let head = format!(
            "POST {path} HTTP/1.1\r\nHost: {address}\r\nOrigin: http://{address}\r\n\
             Sec-Fetch-Site: same-origin\r\nContent-Type: application/x-www-form-urlencoded\r\n\
             Content-Length: {length}"
        );
        self.send(&head, form).await
    }

    /// Posts a good key with these headers, which must not be enough.
    async fn check_post(&self, headers: &str, expected: &str) {
        let headers = headers.replace("{address}", &self.address.to_string());
        let head = format!("POST {} HTTP/1.1\r\n{headers}Content-Length: 13", self.path);
        check_refused(&self.send(&head, "key=right-key").await, expected);
        assert!(self.credentials.endpoint(Gemini).is_err());
    }

    fn port(&self) -> u16 {
        self.address.port()
    }
}

fn start(credentials: &Arc<Credentials>) -> JoinHandle<Result<(), String>> {
    let credentials = Arc::clone(credentials);
    tokio::spawn(async move { authenticate(&credentials, &api(), Gemini, &|_| true).await })
}

async fn send(address: SocketAddr, request: &str) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut response = String::new();
    // A connection with an unread body ends with a reset, after the response.
    let _ = stream.read_to_string(&mut response).await;
    response
}

/// Checks for an empty response with this status.
fn check_refused(response: &str, status: &str) {
    assert!(response.starts_with(&format!("HTTP/1.1 {status} ")), "{response}");
    assert!(response.ends_with("\r\n\r\n"), "{response}");
}

/// Returns whether a page asks for a key.
fn has_form(page: &str) -> bool {
    page.contains("<form method=\"post\">")
}

/// Checks that the page is not served any more. Another program, or even this connection, may have got its port.
async fn check_closed(address: SocketAddr, path: &str) {
    let Ok(mut stream) = TcpStream::connect(address).await else { return };
    if stream.local_addr().unwrap() == address {
        return;
    }
    let request = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    let mut response = String::new();
    let _ = stream.write_all(request.as_bytes()).await;
    let _ = stream.read_to_string(&mut response).await;
    assert!(!has_form(&response), "{response}");
}

#[tokio::test]
async fn a_good_key_is_stored_and_only_then_answered() {
    let page = Page::open().await;
    let form = page.get().await;
    assert!(form.starts_with("HTTP/1.1 200 ") && has_form(&form), "{form}");
    assert!(!page.answer.is_finished());
    let done = page.post("key=+right-key%0A").await;
    assert!(done.starts_with("HTTP/1.1 200 ") && !has_form(&done), "{done}");
    assert_eq!(page.answer.await.unwrap(), Ok(()));
    let stored = fs::read_to_string(page.place.path(STORED)).unwrap();
    let stored: serde_json::Value = serde_json::from_str(&stored).unwrap();
    assert_eq!(stored["gemini"]["api_key"], "right-key");
    assert!(page.credentials.endpoint(Gemini).is_ok());
}

#[tokio::test]
async fn the_page_closes_itself() {
    let page = Page::open().await;
    // Browsers open connections in advance that they do not use.
    let mut idle = TcpStream::connect(page.address).await.unwrap();
    page.post("key=right-key").await;
    page.answer.await.unwrap().unwrap();
    assert_eq!(idle.read(&mut [0]).await.unwrap(), 0);
    check_closed(page.address, &page.path).await;
}

#[tokio::test]
async fn a_wrong_key_may_be_followed_by_the_right_one() {
    let page = Page::open().await;
    for (form, why) in [
        ("key=bad-key", "`…` is no key &lt;of&gt; mine."),
        ("key=far-key", "could not be checked"),
        ("key=bad%00key", "has characters that no key has"),
        ("key=", "is empty"),
        ("", "is empty"),
    ] {
        let response = page.post(form).await;
        assert!(response.starts_with("HTTP/1.1 422 "), "{response}");
        assert!(response.contains(why) && has_form(&response), "{response}");
        for key in ["bad-key", "far-key", "bad\0key"] {
            assert!(!response.contains(key), "{response}");
        }
        assert!(!page.answer.is_finished() && !page.place.path(STORED).exists());
    }
    assert!(!page.post("key=right-key").await.contains("right-key"));
    assert_eq!(page.answer.await.unwrap(), Ok(()));
}

#[tokio::test]
async fn what_is_sent_is_for_this_page_only() {
    let page = Page::open().await;
    let response = page.get().await;
    for header in [
        "cache-control: no-store\r\n",
        "x-frame-options: DENY\r\n",
        "referrer-policy: same-origin\r\n",
        "x-content-type-options: nosniff\r\n",
        "frame-ancestors 'none'",
        "default-src 'none'",
    ] {
        assert!(response.contains(header), "{header} is not in {response}");
    }
    let (_, nonce) = response.split_once("'nonce-").unwrap();
    let (nonce, _) = nonce.split_once('\'').unwrap();
    assert!(response.contains(&format!("<style nonce=\"{nonce}\">")), "{response}");
    assert!(!response.contains("{{"), "{response}");
}

#[tokio::test]
async fn only_this_computers_browser_is_served() {
    let page = Page::open().await;
    let (path, port) = (page.path.clone(), page.port());
    for host in ["evil.example", "127.0.0.1", &format!("evil.example:{port}"), "localhost:1", ""] {
        let head = format!("GET {path} HTTP/1.1\r\nHost: {host}");
        check_refused(&page.send(&head, "").await, "421");
    }
    let head = format!("GET {path} HTTP/1.1\r\nHost: localhost:{port}\r\nHost: evil.example");
    check_refused(&page.send(&head, "").await, "421");
    let response = page.send(&format!("GET {path} HTTP/1.0"), "").await;
    assert!(response.starts_with("HTTP/1.0 421 "), "{response}");
    let head = format!("GET http://evil.example{path} HTTP/1.1\r\nHost: 127.0.0.1:{port}");
    check_refused(&page.send(&head, "").await, "421");
    let head = format!("GET {path} HTTP/1.1\r\nHost: localhost:{port}");
    assert!(page.send(&head, "").await.starts_with("HTTP/1.1 200 "));
}

#[tokio::test]
async fn only_the_secret_path_is_served() {
    let page = Page::open().await;
    let path = &page.path;
    assert_eq!(path.len(), 33);
    for other in ["/", "/favicon.ico", &path[..32], &format!("{path}/"), &format!("{path}?x")] {
        let head = format!("GET {other} HTTP/1.1\r\nHost: {}", page.address);
        check_refused(&page.send(&head, "").await, "404");
    }
    for method in ["PUT", "HEAD", "DELETE", "OPTIONS"] {
        let head = format!("{method} {path} HTTP/1.1\r\nHost: {}", page.address);
        check_refused(&page.send(&head, "").await, "404");
    }
    assert_ne!(Page::open().await.path, *path);
}

#[tokio::test]
async fn only_the_page_itself_may_post() {
    let page = Page::open().await;
    let port = page.port();
    for origin in [
        "",
        "Origin: null\r\n",
        "Origin: https://evil.example\r\n",
        "Origin: http://127.0.0.1\r\n",
        "Origin: https://{address}\r\n",
        "Origin: {address}\r\n",
        &format!("Origin: http://localhost:{port}\r\n"),
        "Origin: http://{address}\r\nOrigin: https://evil.example\r\n",
        "Origin: http://{address}\r\nSec-Fetch-Site: cross-site\r\n",
        "Origin: http://{address}\r\nSec-Fetch-Site: same-site\r\n",
    ] {
        page.check_post(&format!("Host: {{address}}\r\n{origin}"), "403").await;
    }
    page.check_post("Host: evil.example\r\nOrigin: http://evil.example\r\n", "421").await;
}

#[tokio::test]
async fn a_form_that_is_too_large_is_not_read() {
    let page = Page::open().await;
    check_refused(&page.post(&format!("key={}", "x".repeat(4096))).await, "413");
    assert!(page.get().await.starts_with("HTTP/1.1 200 "));
}

#[tokio::test]
async fn the_browser_is_told_no_key() {
    let page = Page::open().await;
    let seen = fs::read_to_string(page.place.path("env")).unwrap();
    assert!(seen.contains("COLOUR=blue"), "{seen}");
    assert!(!seen.contains(SECRET) && !seen.contains("GEMINI_CLI_CUSTOM_HEADERS"), "{seen}");
}

#[tokio::test]
async fn two_that_authenticate_at_once_share_one_page() {
    let mut page = Page::open().await;
    let other = start(&page.credentials);
    page.get().await;
    page.post("key=right-key").await;
    assert_eq!(other.await.unwrap(), Ok(()));
    assert_eq!(page.answer.await.unwrap(), Ok(()));
    // The line that the test writes is the first one to read, so no second page was opened.
    let mut fifo = pipe::OpenOptions::new().open_sender(page.place.path("urls")).unwrap();
    fifo.write_all(b"end\n").await.unwrap();
    let mut line = String::new();
    in_time(page.urls.read_line(&mut line)).await.expect("nothing is read").unwrap();
    assert_eq!(line, "end\n");
}

#[tokio::test]
async fn a_key_that_is_there_needs_no_page() {
    let place = Place::new();
    let credentials = place.credentials(&[]);
    authenticate(&credentials, &api(), Gemini, &|_| true).await.unwrap_err();
    let _place = place.with("home/repo/.env", "GEMINI_API_KEY=key");
    assert_eq!(authenticate(&credentials, &api(), Gemini, &|_| true).await, Ok(()));
}

#[tokio::test(start_paused = true)]
async fn a_key_that_comes_from_elsewhere_closes_the_page() {
    let place = Place::new();
    let vars = [("BROWSER", "true"), ("PATH", "/usr/bin:/bin")];
    let credentials = place.credentials(&vars);
    let elsewhere = async {
        tokio::time::sleep(Duration::from_mins(1)).await;
        place.store(&[], Gemini, "key");
    };
    let api = api();
    let (answer, ()) = tokio::join!(authenticate(&credentials, &api, Gemini, &|_| true), elsewhere);
    assert_eq!(answer, Ok(()));
}

#[tokio::test(start_paused = true)]
async fn the_page_does_not_wait_for_ever() {
    let vars = [("BROWSER", "true"), ("PATH", "/usr/bin:/bin")];
    let place = Place::new();
    let began = Instant::now();
    let error =
        authenticate(&place.credentials(&vars), &api(), Gemini, &|_| true).await.unwrap_err();
    let file = place.path("home/.gemini/.env").display().to_string();
    expect![
        "No key came from the page in the browser within 10 minutes. There is no Gemini API key. Set \
         GEMINI_API_KEY in the environment, or run `tandem login` in a terminal, or put a line GEMINI_API_KEY=… \
         into FILE. You get a key at https://aistudio.google.com/apikey. A key of Anthropic (ANTHROPIC_API_KEY) \
         or OpenAI (OPENAI_API_KEY) works as well; a model of Ollama needs no key (`--model ollama:MODEL`)."
    ]
    .assert_eq(&error.replace(&file, "FILE"));
    assert_eq!(began.elapsed().as_secs(), 600);
}

#[tokio::test]
async fn whoever_stops_waiting_closes_the_page() {
    let page = Page::open().await;
    page.answer.abort();
    assert!(page.answer.await.unwrap_err().is_cancelled());
    check_closed(page.address, &page.path).await;
}

#[tokio::test]
async fn without_a_browser_it_is_said_at_once_what_to_do() {
    let place = Place::new();
    let file = place.path("home/.gemini/.env").display().to_string();
    let check = async |vars: &[(&str, &str)], why: &str| {
        let error =
            authenticate(&place.credentials(vars), &api(), Gemini, &|_| true).await.unwrap_err();
        for expected in [why, "Set GEMINI_API_KEY", "`tandem login`", &file] {
            assert!(error.contains(expected), "{expected:?} is not in {error:?}");
        }
    };
    if !cfg!(target_os = "macos") {
        check(&[], "neither DISPLAY, WAYLAND_DISPLAY nor BROWSER is set").await;
    }
    let vars = [("BROWSER", "no-such-browser:false"), ("PATH", "/usr/bin:/bin")];
    check(&vars, "No browser could be opened (no-such-browser: ").await;
}

#[tokio::test]
async fn what_is_wrong_is_not_asked_for() {
    let place = Place::new();
    let vars = [("GOOGLE_GEMINI_BASE_URL", "http://gate.example"), ("BROWSER", "true")];
    let error =
        authenticate(&place.credentials(&vars), &api(), Gemini, &|_| true).await.unwrap_err();
    assert!(error.starts_with("GOOGLE_GEMINI_BASE_URL in the environment must"), "{error}");
}
