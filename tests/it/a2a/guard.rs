//! Web pages, names that lead to this machine, and requests that can be read in two ways: none is served.

use serde_json::json;
use tokio::io::{AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;

use super::http::{head, raw, request};
use super::server::{Served, prompt, serve};
use super::socket::Socket;
use crate::agent::Setup;

async fn server() -> Served {
    serve(&Setup::answers(json!([[{ "text": "hi" }]]))).await
}

fn call() -> Vec<u8> {
    let params = prompt("hi");
    json!({ "jsonrpc": "2.0", "id": 1, "method": "message/send", "params": params })
        .to_string()
        .into_bytes()
}

/// Sends a request with these headers, in which `PORT` is replaced. Returns the status, and checks whether a session
/// has begun.
async fn status(it: &Served, line: &str, headers: &[&str]) -> u16 {
    let port = it.client.port.to_string();
    let headers: Vec<_> = headers.iter().map(|header| header.replace("PORT", &port)).collect();
    let headers: Vec<_> = headers.iter().map(String::as_str).collect();
    let line = line.replace("PORT", &port);
    let body = if line.starts_with("POST") { call() } else { Vec::new() };
    let response = request(it.client.port, &line, &headers, &body).await.whole().await;
    for name in response.headers.keys() {
        assert!(!name.starts_with("access-control"), "{line} {headers:?}: {name}");
    }
    response.status
}

const JSON: &str = "Content-Type: application/json";

#[tokio::test]
async fn only_the_servers_own_names_are_answered_to() {
    let it = server().await;
    for host in ["127.0.0.1:PORT", "localhost:PORT", "[::1]:PORT", "LocalHost:PORT"] {
        let host = format!("Host: {host}");
        assert_eq!(status(&it, "POST /", &[&host, JSON]).await, 200, "{host}");
        let card = "GET /.well-known/agent-card.json";
        assert_eq!(status(&it, card, &[&host]).await, 200, "{host}");
    }
    for host in [
        "evil.example:PORT",
        "evil.example",
        "127.0.0.1",
        "127.0.0.1:1",
        "localhost.evil.example:PORT",
        "127.0.0.1:PORT.evil.example",
        "127.0.0.1:PORT@evil.example",
        "2130706433:PORT",
        "0.0.0.0:PORT",
        "127.1:PORT",
        "localhost.:PORT",
        "[::ffff:127.0.0.1]:PORT",
        "",
    ] {
        let host = format!("Host: {host}");
        for line in ["POST /", "GET /.well-known/agent-card.json", "GET /listCommands", "GET /ws"] {
            let found = status(&it, line, &[&host, JSON]).await;
            assert!(found == 421 || found == 400, "{line} {host}: {found}");
        }
    }
}

#[tokio::test]
async fn a_request_without_a_host_or_for_an_absolute_uri_is_refused() {
    let it = server().await;
    assert_eq!(status(&it, "POST /", &[JSON]).await, 421);
    let host = "Host: 127.0.0.1:PORT";
    assert_eq!(status(&it, "POST http://evil.example/", &[host, JSON]).await, 421);
    assert_eq!(status(&it, "POST http://127.0.0.1:PORT/", &[host, JSON]).await, 421);
    assert_eq!(status(&it, "GET http://127.0.0.1:PORT/listCommands", &[host]).await, 421);
    let two = [host, "Host: evil.example", JSON];
    let found = status(&it, "POST /", &two).await;
    assert!(found == 421 || found == 400, "{found}");
    assert_eq!(it.client.get("/tasks/metadata").await.status, 204, "a session has begun");
}

#[tokio::test]
async fn pages_of_other_origins_are_refused() {
    let it = server().await;
    let host = "Host: 127.0.0.1:PORT";
    for origin in ["http://127.0.0.1:PORT", "http://localhost:PORT", "http://[::1]:PORT"] {
        let origin = format!("Origin: {origin}");
        assert_eq!(status(&it, "POST /", &[host, &origin, JSON]).await, 200, "{origin}");
    }
    for origin in [
        "null",
        "",
        "https://evil.example",
        "http://127.0.0.1",
        "http://127.0.0.1:1",
        "https://127.0.0.1:PORT",
        "http://127.0.0.1:PORT/",
        "http://localhost:PORT.evil.example",
        "file://",
        "chrome-extension://abc",
        "127.0.0.1:PORT",
    ] {
        let origin = format!("Origin: {origin}");
        for line in ["POST /", "POST /message/stream", "POST /tasks", "GET /tasks/metadata"] {
            assert_eq!(status(&it, line, &[host, &origin, JSON]).await, 403, "{line} {origin}");
        }
    }
    let two = [host, "Origin: http://127.0.0.1:PORT", "Origin: http://evil.example", JSON];
    assert_eq!(status(&it, "POST /", &two).await, 403);
}

#[tokio::test]
async fn a_socket_is_opened_for_nobody_else() {
    let it = server().await;
    let port = it.client.port;
    let open = |name: &'static str, value: String| async move {
        Socket::open(port, "/ws", &[(name, &value)]).await.map(drop)
    };
    assert_eq!(open("origin", format!("http://127.0.0.1:{port}")).await, Ok(()));
    assert_eq!(open("origin", "null".to_owned()).await, Err(403));
    assert_eq!(open("origin", "http://evil.example".to_owned()).await, Err(403));
    assert_eq!(open("origin", format!("https://127.0.0.1:{port}")).await, Err(403));
    assert_eq!(open("host", "evil.example".to_owned()).await, Err(421));
    assert_eq!(open("host", format!("evil.example:{port}")).await, Err(421));
    assert_eq!(Socket::open(port, "/acp", &[("origin", "null")]).await.map(drop), Err(403));
}

#[tokio::test]
async fn a_body_that_a_form_could_send_is_refused() {
    let it = server().await;
    let host = "Host: 127.0.0.1:PORT";
    for kind in [
        "text/plain",
        "application/x-www-form-urlencoded",
        "multipart/form-data; boundary=x",
        "text/plain; application/json",
        "application/jsonx",
        "",
    ] {
        let kind = format!("Content-Type: {kind}");
        for line in ["POST /", "POST /message/stream", "POST /tasks", "POST /executeCommand"] {
            assert_eq!(status(&it, line, &[host, &kind]).await, 415, "{line} {kind}");
        }
    }
    assert_eq!(status(&it, "POST /", &[host]).await, 415);
    for kind in ["application/json; charset=utf-8", "Application/JSON", "application/a2a+json"] {
        let kind = format!("Content-Type: {kind}");
        assert_eq!(status(&it, "POST /", &[host, &kind]).await, 200, "{kind}");
    }
}

#[tokio::test]
async fn a_preflight_allows_nothing() {
    let it = server().await;
    let asks = ["Host: 127.0.0.1:PORT", "Access-Control-Request-Method: POST"];
    assert_eq!(status(&it, "OPTIONS /", &asks).await, 405);
    let page = [&asks[..], &["Origin: https://evil.example"]].concat();
    assert_eq!(status(&it, "OPTIONS /", &page).await, 403);
    for method in ["PUT", "DELETE", "PATCH", "TRACE"] {
        assert_eq!(status(&it, &format!("{method} /"), &asks).await, 405, "{method}");
    }
}

/// Starts a server that closes silent connections.
async fn impatient() -> Served {
    serve(&Setup::default().arg("--limit").arg("a2a-head-seconds=1")).await
}

/// Returns the statuses of all responses to these bytes.
async fn replies(port: u16, bytes: &str) -> Vec<u16> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
    stream.write_all(bytes.replace("PORT", &port.to_string()).as_bytes()).await.unwrap();
    let mut text = String::new();
    let mut stream = BufReader::new(stream);
    // A reset of the connection counts as an end.
    let _ = tokio::io::AsyncReadExt::read_to_string(&mut stream, &mut text).await;
    text.split("HTTP/1.1 ").skip(1).map(|response| response[..3].parse().unwrap()).collect()
}

#[tokio::test]
async fn a_request_cannot_hide_another() {
    let it = impatient().await;
    let hidden = "GET /listCommands HTTP/1.1\r\nHost: 127.0.0.1:PORT\r\n\r\n";
    let post = "POST / HTTP/1.1\r\nHost: 127.0.0.1:PORT\r\nContent-Type: application/json\r\n";
    let length = hidden.len() + 5;
    for lengths in [
        // Requests with both lengths are refused, or the connection ends after one reading of the request.
        format!("Content-Length: {length}\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
        format!("Transfer-Encoding: chunked\r\nContent-Length: {length}\r\n\r\n0\r\n\r\n"),
        "Content-Length: 0\r\nContent-Length: 90\r\n\r\n".to_owned(),
        "Content-Length: +0\r\n\r\n".to_owned(),
        "Content-Length: 0x0\r\n\r\n".to_owned(),
        "Transfer-Encoding: xchunked\r\n\r\n".to_owned(),
        "Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n".to_owned(),
        "Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n".to_owned(),
        "Content-Length: 0\r\n Transfer-Encoding: chunked\r\n\r\n".to_owned(),
    ] {
        let found = replies(it.client.port, &format!("{post}{lengths}{hidden}")).await;
        // If the server takes the request as chunked (RFC 9112, 6.3), it answers this request, and nothing that
        // follows.
        let as_chunked = lengths.contains("Content-Length") && lengths.contains("chunked");
        let refused = found.iter().all(|status| *status >= 400);
        assert!(found.len() <= 1 && (refused || as_chunked), "{lengths:?}: {found:?}");
    }
    // Two complete requests in one write are a pipeline, and both are answered.
    let found = replies(it.client.port, &format!("{hidden}{hidden}")).await;
    assert_eq!(found, [200, 200]);
}

#[tokio::test]
async fn what_is_no_http_is_refused() {
    let it = impatient().await;
    for bytes in [
        "GET / HTTP/1.1\nHost: 127.0.0.1:PORT\n\n",
        "GET /\r\n\r\n",
        "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        "\u{16}\u{3}\u{1}\u{2}\u{0}\u{1}",
        "GET /\u{7f} HTTP/1.1\r\nHost: 127.0.0.1:PORT\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: 127.0.0.1:PORT\r\nX: a\u{0}b\r\n\r\n",
    ] {
        let found = replies(it.client.port, bytes).await;
        assert!(found.iter().all(|status| *status >= 400), "{bytes:?}: {found:?}");
    }
    let many = "X-Many: x\r\n".repeat(10_000);
    let bytes = format!("GET / HTTP/1.1\r\nHost: 127.0.0.1:{}\r\n{many}\r\n", it.client.port);
    assert!(raw(it.client.port, bytes.as_bytes()).await.is_none_or(|it| it.status == 431));
    assert_eq!(it.client.get("/listCommands").await.status, 200);
}

#[tokio::test]
async fn a_path_leads_nowhere_else() {
    let it = server().await;
    let task = it.client.post("/tasks", &json!({})).await.json();
    let task = task.as_str().unwrap();
    for path in [
        format!("/tasks/../tasks/{task}/metadata"),
        format!("/tasks/%2e%2e/{task}/metadata"),
        format!("/tasks/{task}%2fmetadata"),
        format!("/tasks/{task}/metadata/.."),
        "/tasks/../../etc/passwd".to_owned(),
        "/tasks/..%2f..%2fetc%2fpasswd/metadata".to_owned(),
        "/.well-known/../etc/passwd".to_owned(),
        "/tasks/../metadata".to_owned(),
    ] {
        let found = it.client.get(&path).await;
        assert_eq!(found.status, 404, "{path}: {}", found.text());
    }
    let slashes = it.client.get(&format!("//tasks///{task}/metadata/")).await;
    assert_eq!(slashes.status, 200);
}

#[tokio::test]
async fn a_slow_head_is_not_waited_for() {
    let it = serve(&Setup::default().arg("--limit").arg("a2a-head-seconds=1")).await;
    let mut slow = TcpStream::connect(("127.0.0.1", it.client.port)).await.unwrap();
    slow.write_all(b"POST / HTTP/1.1\r\nHost: 127").await.unwrap();
    assert!(head(BufReader::new(slow)).await.is_none_or(|it| it.status == 408));
    // A client that sends nothing at all is not waited for either.
    let silent = TcpStream::connect(("127.0.0.1", it.client.port)).await.unwrap();
    assert!(head(BufReader::new(silent)).await.is_none_or(|it| it.status == 408));
}
