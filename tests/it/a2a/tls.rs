//! TLS of `tandem serve`.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore};
use serde_json::json;
use tempfile::TempDir;
use tokio::io::AsyncReadExt as _;
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::curl::{AUTHORITY, Curl};
use super::server::{Served, answer, asks, ends, kind, prompt, serve, states, text, within, write};
use crate::agent::{HANG, Setup};
use crate::limit::wait_until;
use crate::needs::{Need, lacking};
use crate::terminal::Terminal;

/// A server with a certificate that can be replaced, whose callers need the token.
struct Secure {
    server: Served,
    files: TempDir,
}

/// Returns the path of a file of the fixtures.
pub(super) fn fixture(name: &str) -> PathBuf {
    Path::new(AUTHORITY).with_file_name(name)
}

impl Secure {
    async fn start(setup: Setup) -> Self {
        let files = tempfile::tempdir().unwrap();
        let setup = ["cert", "key"].iter().fold(setup, |setup, name| {
            let path = files.path().join(name);
            setup.arg(&format!("--tls-{name}")).arg(path.to_str().unwrap())
        });
        replace(&files.path().join("cert"), "first.pem");
        replace(&files.path().join("key"), "first.key");
        let setup = setup.file("token", "t0ken").arg("--a2a-token-file").arg("token");
        Self { server: serve(&setup).await, files }
    }

    fn port(&self) -> u16 {
        self.server.client.port
    }

    fn curl(&self) -> Curl {
        let curl = Curl::new(&format!("https://127.0.0.1:{}", self.port()));
        curl.header("Authorization: Bearer t0ken")
    }

    fn replace(&self, file: &str, with: &str) {
        replace(&self.files.path().join(file), with);
    }

    /// Waits until new connections get this certificate.
    async fn presents(&self, name: &str) {
        let expected = CertificateDer::from_pem_file(fixture(name)).unwrap();
        wait_until(name, || certificate(self.port()) == expected).await;
    }
}

/// Replaces a file as a whole.
fn replace(file: &Path, with: &str) {
    let new = file.with_extension("new");
    fs::copy(fixture(with), &new).unwrap();
    fs::rename(new, file).unwrap();
}

/// Returns a client's configuration that trusts the authority of the fixtures.
pub(super) fn client() -> Arc<ClientConfig> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(AUTHORITY).unwrap()).unwrap();
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    Arc::new(config)
}

/// Returns the certificate that the server shows on a new connection.
fn certificate(port: u16) -> CertificateDer<'static> {
    let name = ServerName::try_from("localhost").unwrap();
    let mut tls = ClientConnection::new(client(), name).unwrap();
    let mut stream = std::net::TcpStream::connect(("127.0.0.1", port)).unwrap();
    while tls.is_handshaking() {
        tls.complete_io(&mut stream).unwrap();
    }
    tls.peer_certificates().unwrap()[0].clone().into_owned()
}

/// Returns a model that answers to `go` with a question, and to `hang` with the beginning of an answer.
pub(super) fn models() -> Setup {
    Setup::script(vec![
        json!({ "when": "go", "answers": [[write("a.txt", "a")], [{ "text": "done" }]] }),
        json!({ "when": "hang", "answers": [[{ "text": "begun" }, { "hang": null }]] }),
    ])
}

#[tokio::test]
async fn a_flow_with_a_question_goes_over_both_versions_of_http() {
    if lacking(Need::Curl) {
        return;
    }
    for (flag, version) in [("--http1.1", "1.1"), ("--http2", "2")] {
        let it = Secure::start(models()).await;
        let url = format!("https://127.0.0.1:{}/", it.port());
        assert_eq!(*it.server.said.lock().unwrap(), format!("tandem: A2A at {url}\n"));
        let curl = it.curl().with(&[flag]);
        let card = curl.get("/.well-known/agent-card.json").await.unwrap();
        assert_eq!((card.status.as_str(), card.version.as_str()), ("200", version));
        assert!(card.body.contains(&format!("\"url\":\"{url}\"")), "{}", card.body);
        let asked = curl.call("message/stream", prompt("go")).await.until(asks).await;
        let task = &asked[0]["id"];
        let sent = within(task, answer(&json!("write_file-1"), "proceed_once"));
        let all = curl.call("message/stream", sent).await.until(ends).await;
        assert_eq!((text(&all).as_str(), *states(&all).last().unwrap()), ("done", "completed"));
        let no_token = Curl::new(url.trim_end_matches('/')).with(&[flag]);
        assert_eq!(no_token.get("/listCommands").await.unwrap().status, "401");
    }
}

#[tokio::test]
async fn two_versions_of_tls_are_spoken_and_no_plain_http() {
    if lacking(Need::Curl) {
        return;
    }
    let it = Secure::start(Setup::default()).await;
    for args in [["--tlsv1.2", "--tls-max", "1.2"], ["--tlsv1.3", "--tls-max", "1.3"]] {
        assert_eq!(it.curl().with(&args).get("/listCommands").await.unwrap().status, "200");
    }
    let old = it.curl().with(&["--tlsv1.0", "--tls-max", "1.1", "--ciphers", "ALL:@SECLEVEL=0"]);
    assert!(old.get("/listCommands").await.is_err());
    let plain = Curl::new(&format!("http://127.0.0.1:{}", it.port()));
    assert!(plain.get("/listCommands").await.is_err());
}

#[tokio::test]
async fn hosts_are_compared_over_http_2_too() {
    if lacking(Need::Curl) {
        return;
    }
    let it = Secure::start(Setup::default()).await;
    for version in ["--http1.1", "--http2"] {
        let curl = it.curl().with(&[version]);
        let status = async |host: &str| {
            let host = format!("Host: {}", host.replace("PORT", &it.port().to_string()));
            curl.header(&host).get("/listCommands").await.unwrap().status
        };
        assert_eq!(status("localhost:PORT").await, "200", "{version}");
        assert_eq!(status("tandem.example:PORT").await, "421", "{version}");
        assert_eq!(status("localhost").await, "421", "{version}");
    }
}

#[tokio::test]
async fn a_certificate_that_is_replaced_counts_for_new_connections_and_streams_go_on() {
    if lacking(Need::Curl) {
        return;
    }
    let it = Secure::start(models().var("TANDEM_LOG", "warn")).await;
    for version in ["--http1.1", "--http2"] {
        it.presents("first.pem").await;
        let curl = it.curl().with(&[version]);
        let mut stream = curl.call("message/stream", prompt("hang")).await;
        let begun = stream.until(|event| kind(event) == "TEXT_CONTENT").await;
        // The new key does not fit the old certificate, so the server keeps the old pair.
        it.replace("key", "second.key");
        let is_said = || it.server.said.lock().unwrap().contains("the certificate as it was");
        wait_until("the line about the certificate", is_said).await;
        it.presents("first.pem").await;
        it.replace("cert", "second.pem");
        it.presents("second.pem").await;
        curl.result("tasks/cancel", json!({ "id": begun[0]["id"] })).await;
        stream.until(ends).await;
        it.replace("cert", "first.pem");
        it.replace("key", "first.key");
        it.server.said.lock().unwrap().clear();
    }
}

#[tokio::test]
async fn handshakes_that_do_not_come_to_an_end_hold_up_nobody_and_are_given_up() {
    if lacking(Need::Curl) {
        return;
    }
    let it = Secure::start(Setup::default().arg("--limit").arg("a2a-head-seconds=1")).await;
    let mut silent = Vec::new();
    for _ in 0..32 {
        silent.push(TcpStream::connect(("127.0.0.1", it.port())).await.unwrap());
    }
    assert_eq!(it.curl().get("/listCommands").await.unwrap().status, "200");
    for mut stream in silent {
        // A reset of the connection counts as an end.
        let ended = timeout(HANG, stream.read(&mut [0; 64])).await.expect("it is waited for");
        assert_eq!(ended.unwrap_or(0), 0);
    }
}

#[tokio::test]
async fn a_connection_for_which_there_is_no_room_is_told_so() {
    if lacking(Need::Curl) {
        return;
    }
    let it = Secure::start(models().arg("--limit").arg("a2a-connections=1")).await;
    let mut stream = it.curl().call("message/stream", prompt("hang")).await;
    stream.until(|event| kind(event) == "TEXT_CONTENT").await;
    for version in ["--http1.1", "--http2"] {
        let refused = it.curl().with(&[version]).get("/listCommands").await.unwrap();
        assert_eq!((refused.status.as_str(), refused.version.as_str()), ("503", "1.1"));
    }
}

#[tokio::test]
async fn files_that_cannot_be_used_are_named_at_the_start() {
    let path = |name: &str| fixture(name).display().to_string();
    let run = async |certificate: &str, key: &str| {
        let setup = Setup::default().arg("serve").arg("--port").arg("0");
        let setup = setup.arg("--tls-cert").arg(certificate).arg("--tls-key").arg(key);
        let ran = setup.run().await;
        assert_eq!(ran.code, Some(1), "{}", ran.stderr);
        ran.stderr
    };
    let (first, key) = (path("first.pem"), path("first.key"));
    let said = run("none.pem", &key).await;
    assert!(said.contains("none.pem"), "{said}");
    let said = run(&key, &key).await;
    assert!(said.contains("no certificate in PEM form"), "{said}");
    let said = run(&first, &first).await;
    assert!(said.contains("no private key in PEM form"), "{said}");
    let said = run(&first, &path("second.key")).await;
    assert!(said.contains("first.pem") && said.contains("second.key"), "{said}");
}

#[tokio::test]
async fn another_tandem_calls_it_as_an_agent() {
    let it = Secure::start(Setup::answers(json!([[{ "text": "One fault." }]]))).await;
    let url = format!("https://127.0.0.1:{}/", it.port());
    let agents =
        json!({ "a2aServers": { "there": { "url": url, "token": "t0ken", "trust": true } } });
    let call =
        json!({ "call": { "name": "call_agent", "args": { "agent": "there", "message": "go" } } });
    let setup = Setup::answers(json!([[call], [{ "text": "It has answered." }]]))
        .file("../.gemini/settings.json", &agents.to_string())
        .arg("-p")
        .arg("go")
        .arg("--output-format")
        .arg("stream-json");
    let ran = setup.clone().var("SSL_CERT_FILE", AUTHORITY).run().await;
    assert!(ran.stdout.contains("One fault."), "{} {}", ran.stdout, ran.stderr);
    let ran = setup.var("SSL_CERT_FILE", &fixture("second.pem").display().to_string()).run().await;
    assert!(!ran.stdout.contains("One fault."), "{}", ran.stdout);
    let why = "its certificate is not trusted (UnknownIssuer)";
    assert!(ran.stdout.contains(why) && ran.stdout.contains("SSL_CERT_FILE"), "{}", ran.stdout);
}

#[tokio::test]
async fn a_terminal_attaches_to_its_url() {
    if lacking(Need::Curl) {
        return;
    }
    let it = Secure::start(models()).await;
    let Some(terminal) = Terminal::open() else { return };
    let url = format!("https://localhost:{}/", it.port());
    let vars = format!("TANDEM_A2A_TOKEN=t0ken SSL_CERT_FILE='{AUTHORITY}'");
    let mut stream = it.curl().call("message/stream", prompt("hang")).await;
    stream.until(|event| kind(event) == "TEXT_CONTENT").await;
    terminal.agent(&vars, &format!("attach {url}"));
    terminal.until(&format!("attached to {url}"));
    terminal.until("begun");
    let Some(stranger) = Terminal::open() else { return };
    let vars =
        format!("TANDEM_A2A_TOKEN=t0ken SSL_CERT_FILE='{}'", fixture("second.pem").display());
    stranger.agent(&vars, &format!("attach {url}; echo \"code $?\""));
    let seen = stranger.until("code 1");
    assert!(seen.contains("is not trusted"), "{seen}");
}
