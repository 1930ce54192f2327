//! A machine without root certificates, or without the one that is needed.

use std::io::Read as _;
use std::net::{SocketAddr, TcpListener};
use std::process::Stdio;
use std::sync::Arc;
use std::thread;

use rustls::crypto::ring;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::{ServerConfig, ServerConnection, Stream};
use tempfile::TempDir;
use test_support::api_server::{Reply, Server};
use tokio::time::timeout;

use crate::agent::{HANG, Setup};

/// A file of certificates that does not exist.
const NONE: &str = "/nonexistent/certificates.pem";

/// Certificates of authorities, none of which has signed the server's.
const OTHERS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/tls/second.pem");

/// Starts a server whose certificate no authority has signed, so no client gets beyond the handshake.
fn tls_server() -> SocketAddr {
    let certificate = CertificateDer::from(&include_bytes!("../../fixtures/tls/localhost.der")[..]);
    let key = PrivatePkcs8KeyDer::from(&include_bytes!("../../fixtures/tls/localhost.key.der")[..]);
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate], PrivateKeyDer::from(key))
        .unwrap();
    let (config, listener) = (Arc::new(config), TcpListener::bind("127.0.0.1:0").unwrap());
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for socket in listener.incoming() {
            let mut socket = socket.unwrap();
            let mut tls = ServerConnection::new(Arc::clone(&config)).unwrap();
            // An error is ignored: the client breaks off the connection.
            let _ = Stream::new(&mut tls, &mut socket).read(&mut [0; 64]);
        }
    });
    address
}

/// Asks Gemini at this address on a machine whose authorities are in this file, and returns standard output,
/// standard error and the exit code.
async fn ask(address: &str, authorities: &str) -> (String, String, Option<i32>) {
    let setup = Setup::default()
        .arg("--model")
        .arg("gemini-3.8-flash")
        .arg("-p")
        .arg("go")
        .var("GEMINI_API_KEY", "AIzaSyNoCertificates0123")
        .var("GOOGLE_GEMINI_BASE_URL", address)
        .var("SSL_CERT_FILE", authorities)
        .var("SSL_CERT_DIR", "/nonexistent");
    let home = TempDir::new().unwrap();
    let mut command = setup.command(home.path());
    let child = command.stdin(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let ran = timeout(HANG, child.wait_with_output()).await.expect("it does not end").unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (text(ran.stdout), text(ran.stderr), ran.status.code())
}

#[tokio::test]
async fn a_server_over_plain_http_answers() {
    let server = Server::start(vec![Reply::text("fine")]).await;
    assert_eq!(ask(server.address(), NONE).await, ("fine\n".to_owned(), String::new(), Some(0)));
}

#[tokio::test]
async fn https_fails_at_once_and_says_what_to_install() {
    let (_, stderr, code) = ask(&format!("https://{}", tls_server()), NONE).await;
    let expected = "cannot be reached: this machine has no root certificates, without which no server \
        can be trusted over https: install the package ca-certificates, or set SSL_CERT_FILE to a \
        file of certificates.\n";
    assert!(stderr.starts_with("tandem: ") && stderr.ends_with(expected), "{stderr}");
    assert_eq!((stderr.lines().count(), code), (1, Some(1)));
}

#[tokio::test]
async fn whoever_meets_a_server_that_is_not_trusted_is_told_where_to_put_a_certificate() {
    let (_, stderr, code) = ask(&format!("https://{}", tls_server()), OTHERS).await;
    assert!(stderr.contains("is not trusted") && stderr.contains("SSL_CERT_FILE"), "{stderr}");
    assert_eq!(code, Some(1));
}
