//! The token: only a client that knows it is served, and no client learns it.

use std::fs;

use expect_test::expect;
use serde_json::{Value, json};

use super::http::request;
use super::server::{Client, Served, prompt, serve, shared};
use super::socket::Socket;
use crate::agent::Setup;
use crate::limit::wait_until;

const TOKEN: &str = "t0ken-That-Nobody-Knows";

/// Starts a server that runs this command when prompted, and logs as much as possible.
async fn server(run: &str) -> Served {
    let call = json!({ "name": "run_shell_command", "args": { "command": run } });
    let setup = Setup::answers(json!([[{ "call": call }], [{ "text": "done" }]]));
    let token = setup.file("token.txt", &format!("{TOKEN}\n")).var("TANDEM_LOG", "trace");
    serve(&token.arg("-y").arg("--a2a-token-file").arg("token.txt")).await
}

async fn status(client: Client, line: &str, header: &str) -> u16 {
    client
        .send(line, if header.is_empty() { &[] } else { std::slice::from_ref(&header) }, b"{}")
        .await
        .status
}

#[tokio::test]
async fn who_does_not_know_the_token_is_not_served() {
    let it = server("true").await;
    let lines = [
        "GET /listCommands",
        "GET /tasks/metadata",
        "POST /",
        "POST /tasks",
        "POST /message/stream",
        "POST /executeCommand",
        "GET /ws",
        "GET /none",
    ];
    for line in lines {
        for header in [
            String::new(),
            "Authorization: Bearer".to_owned(),
            "Authorization: Bearer ".to_owned(),
            "Authorization: Bearer wrong".to_owned(),
            format!("Authorization: Bearer {TOKEN}x"),
            format!("Authorization: Bearer {}", &TOKEN[1..]),
            format!("Authorization: Bearer {}", TOKEN.to_lowercase()),
            format!("Authorization: Basic {TOKEN}"),
            format!("Authorization: {TOKEN}"),
            format!("Authorization: Bearer wrong\r\nAuthorization: Bearer {TOKEN}"),
            format!("Cookie: token={TOKEN}"),
        ] {
            assert_eq!(status(it.client, line, &header).await, 401, "{line} {header:?}");
        }
    }
    for path in ["/ws", "/acp", "/ws?token=", "/ws?token=wrong", "/ws?tokens=x"] {
        let opened = Socket::open(it.client.port, path, &[]).await;
        assert_eq!(opened.map(drop), Err(401), "{path}");
    }
}

#[tokio::test]
async fn who_knows_the_token_is_served() {
    let it = server("true").await;
    let header = format!("Authorization: Bearer {TOKEN}");
    for header in [&header, &header.replace("Bearer", "bearer")] {
        assert_eq!(status(it.client, "GET /listCommands", header).await, 200);
    }
    let query = format!("GET /listCommands?token={TOKEN}");
    assert_eq!(status(it.client, &query, "").await, 200);
    let bearer = format!("Bearer {TOKEN}");
    let by_header = Socket::open(it.client.port, "/ws", &[("authorization", &bearer)]).await;
    let by_query = Socket::open(it.client.port, &format!("/ws?token={TOKEN}"), &[]).await;
    for opened in [by_header, by_query] {
        let commands = opened.unwrap().call(1, "commands/get", json!({})).await;
        assert!(commands["result"]["commands"].is_array());
    }
    let card = "GET /.well-known/agent-card.json";
    let card = it.client.send(card, &[&header], b"").await.json();
    assert_eq!(card["securitySchemes"]["bearer"]["scheme"], "bearer");
    assert!(!card.to_string().contains(TOKEN));
}

#[tokio::test]
async fn a_token_in_the_environment_counts_too_and_an_empty_one_is_an_error() {
    let it = shared(&Setup::default().var("TANDEM_A2A_TOKEN", TOKEN)).await;
    assert_eq!(status(it.client, "GET /listCommands", "").await, 401);
    let header = format!("Authorization: Bearer {TOKEN}");
    assert_eq!(status(it.client, "GET /listCommands", &header).await, 200);

    let mut told = Vec::new();
    for setup in [
        Setup::default().file("token.txt", " \n"),
        Setup::default(), // no file
    ] {
        let setup = setup.arg("serve").arg("--port").arg("0");
        let ran = setup.arg("--a2a-token-file").arg("token.txt").run().await;
        assert_ne!(ran.code, Some(0));
        told.push(ran.stderr);
    }
    expect![[r#"
        tandem: the A2A token is empty
        tandem: cannot read the token in token.txt: No such file or directory (os error 2)
    "#]]
    .assert_eq(&told.concat());
}

#[tokio::test]
async fn the_token_is_in_no_log_and_in_no_childs_environment() {
    let run = "env > env.txt";
    for by_file in [true, false] {
        let it = if by_file { server(run).await } else { by_variable(run).await };
        let call = json!({ "jsonrpc": "2.0", "id": 1, "method": "message/send",
            "params": prompt("go") });
        let header = format!("Authorization: Bearer {TOKEN}");
        let body = call.to_string();
        let done = it.client.send("POST /", &[&header], body.as_bytes()).await.json();
        assert_eq!(done["result"]["status"]["state"], "completed", "{done}");
        // The token is given in the query, and then a wrong token.
        let (port, path) = (it.client.port, format!("/ws?token={TOKEN}"));
        Socket::open(port, &path, &[]).await.unwrap().call(1, "commands/get", json!({})).await;
        let host = format!("Host: 127.0.0.1:{port}");
        request(port, "GET /listCommands?token=Wr0ngToken", &[&host], b"").await.whole().await;
        let env = fs::read_to_string(it.home.path().join("workspace/env.txt")).unwrap();
        assert!(env.contains("PATH=") && !env.contains(TOKEN), "{env}");
        let said = it.said.lock().unwrap().clone();
        assert!(said.contains("TRACE") && !said.contains(TOKEN), "{said}");
        assert!(!said.contains("Wr0ngToken"), "what is nearly a token is logged");
        assert!(!done.to_string().contains(TOKEN));
    }
}

/// Starts a server as [`server`] does, with the token in the environment.
async fn by_variable(run: &str) -> Served {
    let call: Value = json!({ "name": "run_shell_command", "args": { "command": run } });
    let setup = Setup::answers(json!([[{ "call": call }], [{ "text": "done" }]]));
    let setup = setup.var("TANDEM_A2A_TOKEN", TOKEN).var("TANDEM_LOG", "trace");
    serve(&setup.arg("-y")).await
}

#[tokio::test]
async fn callers_without_a_valid_token_are_limited_by_their_address_and_do_not_fill_the_audit_log()
{
    let home = tempfile::tempdir().unwrap();
    let audit = home.path().join("audit.jsonl");
    let setup = Setup::answers(json!([[{ "text": "hi" }]])).file("token.txt", TOKEN);
    let setup =
        setup.arg("--a2a-token-file").arg("token.txt").arg("--trust-proxy").arg("127.0.0.1");
    let setup = setup.arg("--audit").arg(audit.to_str().unwrap());
    let it = serve(&setup.arg("--limit").arg("a2a-refused-requests=3")).await;
    let get = async |address: &str, token: &str| {
        let (forwarded, token) =
            (format!("X-Forwarded-For: {address}"), format!("Authorization: Bearer {token}"));
        it.client.send("GET /listCommands", &[&forwarded, &token], b"").await
    };
    for n in 0..20 {
        let refused = get("192.0.2.1", &format!("wrong{n}")).await;
        assert_eq!(refused.status, if n < 3 { 401 } else { 429 }, "{n}");
        assert_eq!(refused.header("retry-after").is_empty(), n < 3, "{n}");
    }
    // A wrong token counts for the client's /64 network, which has many IPv6 addresses.
    for n in 0..4 {
        let refused = get(&format!("2001:db8::{n}"), "wrong").await;
        assert_eq!(refused.status, if n < 3 { 401 } else { 429 }, "{n}");
    }
    assert_eq!(get("192.0.2.2", "wrong").await.status, 401);
    assert_eq!(get("192.0.2.1", TOKEN).await.status, 200, "who has the token is not limited");
    let is_written = || {
        let text = fs::read_to_string(&audit).unwrap_or_default();
        text.contains("192.0.2.2")
    };
    wait_until("the audit log", is_written).await;
    let text = fs::read_to_string(&audit).unwrap();
    assert_eq!(text.lines().filter(|line| line.contains("192.0.2.1")).count(), 4, "{text}");
    assert!(text.contains("further requests"), "{text}");
}
