//! MCP servers that clients name: the server sends no requests to forbidden addresses, and reveals nothing of their
//! answers.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use axum::Router;
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use axum::routing::any;
use expect_test::expect;
use serde_json::{Value, json};
use tokio_util::task::AbortOnDropHandle;

use super::mcp::servers;
use super::server::{Client, serve, shared};
use crate::agent::Setup;

/// A service of this machine that is no MCP server.
struct Inside {
    url: String,
    asked: Arc<AtomicUsize>,
    _serving: AbortOnDropHandle<()>,
}

const SECRET: &str = "the-key-of-the-machine";

impl Inside {
    async fn new(answer: impl Fn() -> Response + Clone + Send + Sync + 'static) -> Self {
        let asked = Arc::<AtomicUsize>::default();
        let count = Arc::clone(&asked);
        let router = Router::new().fallback(any(move || {
            count.fetch_add(1, Ordering::SeqCst);
            let answer = answer();
            async move { answer }
        }));
        let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let url = format!("http://{}/", listener.local_addr().unwrap());
        let serving = tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        Self { url, asked, _serving: AbortOnDropHandle::new(serving) }
    }

    fn asked(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }
}

fn setup() -> Setup {
    Setup::answers(json!([[{ "text": "hi" }]]))
}

/// Names a server as a client, and returns the state of that server.
async fn named(client: Client, url: &str) -> Value {
    let servers = json!({ "s": { "httpUrl": url } });
    let body = json!({ "agentSettings": { "mcpServers": servers } });
    let task = client.post("/tasks", &body).await.json();
    self::servers(client, task.as_str().unwrap()).await["mcpServers"][0].clone()
}

/// Addresses that no client may reach, whatever the server's options.
const NEVER: &[&str] = &[
    "http://169.254.169.254/latest/meta-data/",
    "http://[::ffff:169.254.169.254]/",
    "http://0xa9fea9fe/",
    "http://[fd00:ec2::254]/",
    "http://[fd00:ec2::23]/v1/credentials",
    "http://[fd20:ce::254]/",
    "http://100.100.100.200/latest/meta-data/",
    "http://168.63.129.16/",
    "http://192.0.0.192/",
    "http://[fe80::1]/",
    "http://0.0.0.0/",
];

/// Returns why a server is not connected to.
fn detail(server: &Value) -> String {
    server["detail"].as_str().unwrap().to_owned()
}

/// Returns `true` if clients may name this server's address.
fn is_allowed(server: &Value) -> bool {
    !detail(server).contains("may not be at")
}

/// Checks that no flag is offered for an address that is never allowed.
async fn check_never(client: Client) {
    for url in NEVER {
        let server = named(client, url).await;
        assert!(!is_allowed(&server) && !detail(&server).contains("--a2a"), "{url}: {server}");
    }
}

#[tokio::test]
async fn a_server_may_be_only_where_everybody_gets() {
    let inside = Inside::new(|| SECRET.into_response()).await;
    let it = serve(&setup()).await;
    let localhost = inside.url.replace("127.0.0.1", "localhost");
    let mut told = Vec::new();
    let own = ["http://10.0.0.1/", "http://192.168.0.1/", "http://[fd12::1]/", "http://[::1]/"];
    for url in own.into_iter().chain([&*inside.url, &localhost]) {
        let detail = detail(&named(it.client, url).await);
        told.push(
            detail
                .replace(inside.url.trim_end_matches('/'), "http://INSIDE")
                .replace(localhost.trim_end_matches('/'), "http://localhost:PORT"),
        );
    }
    expect![[r#"
        down: a server that a client names may not be at 10.0.0.1, a private address; `--a2a-private-servers` lets clients name such servers
        down: a server that a client names may not be at 192.168.0.1, a private address; `--a2a-private-servers` lets clients name such servers
        down: a server that a client names may not be at [fd12::1], a private address; `--a2a-private-servers` lets clients name such servers
        down: a server that a client names may not be at [::1], this machine itself; `--a2a-private-servers` lets clients name such servers
        down: a server that a client names may not be at 127.0.0.1, this machine itself; `--a2a-private-servers` lets clients name such servers
        down: a server that a client names may not be at localhost, this machine itself; `--a2a-private-servers` lets clients name such servers"#]].assert_eq(&told.join("\n"));
    check_never(it.client).await;
    assert_eq!(inside.asked(), 0);
}

#[tokio::test]
async fn a_flag_lets_them_be_on_this_machine_and_nowhere_near_a_clouds_secrets() {
    let inside = Inside::new(|| (StatusCode::NOT_FOUND, SECRET).into_response()).await;
    let it = serve(&setup().arg("--a2a-private-servers")).await;
    named(it.client, &inside.url).await;
    assert!(inside.asked() > 0);
    check_never(it.client).await;
}

#[tokio::test]
async fn in_a_shared_session_they_may_be_on_this_machine() {
    let inside = Inside::new(|| (StatusCode::NOT_FOUND, SECRET).into_response()).await;
    let it = shared(&setup()).await;
    let server = named(it.client, &inside.url).await;
    assert!(inside.asked() > 0, "{server}");
    check_never(it.client).await;
}

#[tokio::test]
async fn an_acp_client_on_a_socket_is_no_editor() {
    let it = shared(&setup()).await;
    let mut socket = it.client.socket().await;
    let server = json!({ "http": { "url": NEVER[0], "headers": {} } });
    let params = json!({ "protocolVersion": "0.0.11", "contextServers": { "s": server } });
    socket.call(0, "initialize", params).await;
    let found = it.client.get("/tasks/metadata").await.json()[0]["id"].clone();
    let found = servers(it.client, found.as_str().unwrap()).await;
    assert!(!is_allowed(&found["mcpServers"][0]), "{found}");
}

/// Checks that a client learns nothing of this answer.
async fn unread(answer: impl Fn() -> Response + Clone + Send + Sync + 'static, says: &str) {
    let inside = Inside::new(answer).await;
    let it = serve(&setup().arg("--a2a-private-servers")).await;
    let server = named(it.client, &inside.url).await;
    let all = it.client.get("/tasks/metadata").await.text();
    assert!(inside.asked() > 0);
    assert!(!all.contains(SECRET), "{all}");
    assert!(server["detail"].as_str().unwrap().contains(says), "{says}: {server}");
}

#[tokio::test]
async fn what_another_service_answers_is_not_read_out() {
    const JSON: [(&str, &str); 1] = [("content-type", "application/json")];
    unread(|| (StatusCode::NOT_FOUND, SECRET).into_response(), "HTTP 404").await;
    unread(|| (StatusCode::INTERNAL_SERVER_ERROR, SECRET).into_response(), "HTTP 500").await;
    unread(|| SECRET.into_response(), "not a message of MCP").await;
    let json = || (JSON, json!({ "key": SECRET }).to_string()).into_response();
    unread(json, "not a message of MCP").await;
    let kind = || ([("content-type", SECRET)], "x").into_response();
    unread(kind, "not a message of MCP").await;
    let bad =
        || (StatusCode::BAD_REQUEST, JSON, json!({ "key": SECRET }).to_string()).into_response();
    unread(bad, "HTTP 400").await;
    let error = json!({ "code": -32600, "message": SECRET, "data": SECRET });
    let error = json!({ "jsonrpc": "2.0", "id": 0, "error": error }).to_string();
    unread(move || (JSON, error.clone()).into_response(), "-32600").await;
    let moved =
        || (StatusCode::FOUND, [("location", format!("http://{SECRET}/"))], SECRET).into_response();
    unread(moved, "HTTP 302").await;
}
