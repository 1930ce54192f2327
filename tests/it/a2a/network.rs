//! A server that is reached over a network: its names, its URL, and the clients of its proxies.

use std::path::Path;

use serde_json::{Value, json};
use tokio::time::timeout;

use super::http::{Response, request};
use super::server::{Served, prompt, serve};
use super::socket::Socket;
use crate::agent::{HANG, Setup};

const TOKEN: &str = "Authorization: Bearer t0ken";

/// Starts a server that requires the token.
async fn server(args: &[&str]) -> Served {
    let setup = Setup::answers(json!([[{ "text": "hi" }]])).file("token", "t0ken");
    let setup = setup.arg("--a2a-token-file").arg("token").arg("--audit").arg("audit.jsonl");
    serve(&args.iter().fold(setup, |setup, arg| setup.arg(arg))).await
}

/// Sends a `GET` with these headers, in which `PORT` is replaced.
async fn get(it: &Served, path: &str, headers: &[&str]) -> Response {
    let port = it.client.port.to_string();
    let headers: Vec<String> = headers.iter().map(|it| it.replace("PORT", &port)).collect();
    let headers: Vec<&str> = headers.iter().map(String::as_str).collect();
    request(it.client.port, &format!("GET {path}"), &headers, b"").await.whole().await
}

async fn status(it: &Served, headers: &[&str]) -> u16 {
    get(it, "/listCommands", &[&[TOKEN], headers].concat()).await.status
}

/// Waits for this number of records of a kind in the audit log; returns them.
pub(super) async fn records(it: &Served, event: &str, count: usize) -> Vec<Value> {
    records_in(&it.home.path().join("workspace/audit.jsonl"), event, count).await
}

/// Waits for records as [`records`] does, in the audit log in this file.
pub(super) async fn records_in(file: &Path, event: &str, count: usize) -> Vec<Value> {
    let written = async {
        loop {
            let log = std::fs::read_to_string(file).unwrap_or_default();
            let records = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
            let found: Vec<_> = records.filter(|record| record["event"] == event).collect();
            if found.len() >= count {
                return found;
            }
            tokio::task::yield_now().await;
        }
    };
    timeout(HANG, written).await.expect("nothing is written")
}

/// Returns the addresses of the clients in such records.
async fn addresses(it: &Served, event: &str, count: usize) -> Vec<Value> {
    let records = records(it, event, count).await;
    records.iter().map(|record| record["address"].clone()).collect()
}

const CARD: &str = "/.well-known/agent-card.json";
const HERE: &str = "Host: 127.0.0.1:PORT";

#[tokio::test]
async fn beyond_this_machine_a_server_asks_callers_and_keeps_their_tokens_secret() {
    let run = async |args: &[&str]| {
        let setup = Setup::default().file("token", "t0ken").arg("serve");
        let ran = args.iter().fold(setup, |setup, arg| setup.arg(arg)).run().await;
        (ran.code, ran.stderr)
    };
    let all = ["--listen", "0.0.0.0:0"];
    let asking = [&all[..], &["--a2a-token-file", "token"]].concat();
    let (code, said) = run(&all).await;
    assert!(code == Some(1) && said.contains("tandem serve token add"), "{said}");
    let (code, said) = run(&asking).await;
    assert!(code == Some(1) && said.contains("--allow-plain-http"), "{said}");
    let (code, said) = run(&["--listen", "127.0.0.1:0", "--port", "1"]).await;
    assert_eq!(code, Some(2), "{said}");
}

#[tokio::test]
async fn the_public_url_is_in_cards_and_links_and_is_announced() {
    let it = server(&["--public-url", "https://tandem.example/agents/one"]).await;
    let url = "https://tandem.example/agents/one/";
    let own = format!("http://127.0.0.1:{}/", it.client.port);
    let said = it.said.lock().unwrap().clone();
    assert_eq!(said, format!("tandem: A2A at {url}, listening on {own}\n"));
    let host = "Host: tandem.example";
    let card = get(&it, CARD, &[host]).await.json();
    assert_eq!((&card["url"], &card["provider"]["url"]), (&json!(url), &json!(url)));
    for card in [card, get(&it, "/v1/.well-known/agent-card.json", &[HERE]).await.json()] {
        let interfaces = card["supportedInterfaces"].as_array().unwrap();
        let mut urls = interfaces.iter().map(|interface| interface["url"].as_str().unwrap());
        assert!(urls.all(|it| it == url || it == format!("{url}v1")), "{card}");
    }
    let kind = "Content-Type: application/json";
    for _ in 0..2 {
        let line = "POST /tasks";
        let made = request(it.client.port, line, &[host, TOKEN, kind], b"{}").await.whole().await;
        let location = made.header("location");
        assert!(location.starts_with("/agents/one/tasks/"), "{location}");
    }
    let link = get(&it, "/tasks/metadata?pageSize=1", &[host, TOKEN]).await;
    let link = link.header("link");
    assert!(link.starts_with("</agents/one/tasks/metadata?pageSize=1&pageToken="), "{link}");
}

#[tokio::test]
async fn the_card_names_its_documentation_and_icon_and_no_provider_without_a_public_url() {
    for (args, base) in [
        (&["--public-url", "https://tandem.example/one"][..], "https://tandem.example/one/"),
        (&[], "http://127.0.0.1:PORT/"),
    ] {
        let it = server(args).await;
        let base = base.replace("PORT", &it.client.port.to_string());
        for path in [CARD, "/v1/.well-known/agent-card.json"] {
            let card = get(&it, path, &[HERE]).await.json();
            let provider = if args.is_empty() { Value::Null } else { json!(base) };
            assert_eq!(card["provider"]["url"], provider, "{card}");
            for (field, name, kind, content) in [
                ("documentationUrl", "documentation.md", "text/markdown", "# A2A"),
                ("iconUrl", "icon.svg", "image/svg+xml", "<svg"),
            ] {
                assert_eq!(card[field], format!("{base}{name}"), "{card}");
                let found = get(&it, &format!("/{name}"), &[HERE]).await;
                assert!(found.header("content-type").starts_with(kind));
                assert!(found.text().starts_with(content), "{}", found.text());
            }
        }
    }
}

#[tokio::test]
async fn hosts_and_origins_follow_the_public_url_and_what_is_allowed() {
    let more = ["--public-url", "https://tandem.example/", "--allow-host", "Other.example:8443"];
    let it = server(&more).await;
    for host in ["127.0.0.1:PORT", "tandem.example", "Tandem.Example:80", "other.example:8443"] {
        assert_eq!(status(&it, &[&format!("Host: {host}")]).await, 200, "{host}");
    }
    for host in ["evil.example", "tandem.example:PORT", "other.example", "x.tandem.example", ""] {
        assert_eq!(status(&it, &[&format!("Host: {host}")]).await, 421, "{host}");
    }
    for origin in ["https://tandem.example", "http://127.0.0.1:PORT", "http://other.example:8443"] {
        assert_eq!(status(&it, &[HERE, &format!("Origin: {origin}")]).await, 200, "{origin}");
    }
    for origin in ["http://tandem.example", "https://127.0.0.1:PORT", "https://evil.example"] {
        assert_eq!(status(&it, &[HERE, &format!("Origin: {origin}")]).await, 403, "{origin}");
    }
    let headers = [("host", "tandem.example"), ("origin", "https://tandem.example")];
    let socket = Socket::open(it.client.port, "/ws?token=t0ken", &headers).await;
    assert_eq!(socket.map(drop), Ok(()));
}

#[tokio::test]
async fn pages_of_an_origin_that_is_allowed_are_served_and_their_browser_is_told() {
    let it = server(&["--allow-origin", "https://pages.example"]).await;
    let asks = [HERE, "Access-Control-Request-Method: POST"];
    let asks =
        [&asks[..], &["Access-Control-Request-Headers: authorization,content-type"]].concat();
    let preflight = async |origin: &str| {
        let origin = format!("Origin: {origin}");
        let headers = [&asks[..], &[&origin]].concat();
        let port = it.client.port.to_string();
        let headers: Vec<String> = headers.iter().map(|it| it.replace("PORT", &port)).collect();
        let headers: Vec<&str> = headers.iter().map(String::as_str).collect();
        request(it.client.port, "OPTIONS /", &headers, b"").await.whole().await
    };
    let allowed = preflight("https://pages.example").await;
    assert_eq!(allowed.status, 200);
    assert_eq!(allowed.header("access-control-allow-origin"), "https://pages.example");
    assert!(allowed.header("access-control-allow-headers").contains("authorization"));
    let other = preflight("https://evil.example").await;
    assert_eq!((other.status, other.header("access-control-allow-origin")), (403, ""));
    let page = "Origin: https://pages.example";
    for (headers, status) in [(&[HERE, TOKEN, page][..], 200), (&[HERE, page], 401)] {
        let served = get(&it, "/listCommands", headers).await;
        assert_eq!(served.status, status);
        assert_eq!(served.header("access-control-allow-origin"), "https://pages.example");
    }
    // A request without an origin comes from no browser, and gets no CORS header.
    let served = get(&it, "/listCommands", &[HERE, TOKEN]).await;
    assert_eq!((served.status, served.header("access-control-allow-origin")), (200, ""));
}

#[tokio::test]
async fn a_proxy_is_believed_where_its_clients_come_from_and_others_are_not() {
    let url = ["--public-url", "https://tandem.example/", "--allow-host", "other.example"];
    let it = server(&[&url[..], &["--trust-proxy", "127.0.0.1"]].concat()).await;
    let host = "X-Forwarded-Host: tandem.example";
    assert_eq!(status(&it, &[HERE, host]).await, 200);
    assert_eq!(status(&it, &[HERE, "X-Forwarded-Host: evil.example"]).await, 421);
    let other = ["Host: other.example", "Origin: https://other.example"];
    assert_eq!(status(&it, &other).await, 403);
    let proto = "X-Forwarded-Proto: https";
    assert_eq!(status(&it, &[&other[..], &[proto]].concat()).await, 200);
    let client = "X-Forwarded-For: 192.0.2.7";
    assert_eq!(get(&it, "/listCommands", &[HERE, client]).await.status, 401);
    let call =
        json!({ "jsonrpc": "2.0", "id": 1, "method": "message/send", "params": prompt("hi") });
    it.client.send("POST /", &[TOKEN, client], call.to_string().as_bytes()).await;
    let headers = [("x-forwarded-for", "198.51.100.1, 192.0.2.8")];
    let mut socket = Socket::open(it.client.port, "/ws?token=t0ken", &headers).await.unwrap();
    socket.call(1, "message/send", prompt("hi")).await;
    assert_eq!(addresses(&it, "denied", 1).await, ["192.0.2.7"]);
    assert_eq!(addresses(&it, "session", 2).await, ["192.0.2.7", "192.0.2.8"]);
    assert_eq!(addresses(&it, "prompt", 2).await, ["192.0.2.7", "192.0.2.8"]);

    let it = server(&[&url[..], &["--trust-proxy", "192.0.2.1"]].concat()).await;
    assert_eq!(status(&it, &[HERE, "X-Forwarded-Host: evil.example"]).await, 200);
    assert_eq!(status(&it, &["Host: evil.example", host]).await, 421);
    assert_eq!(get(&it, "/listCommands", &[HERE, client]).await.status, 401);
    assert_eq!(addresses(&it, "denied", 1).await, ["127.0.0.1"]);
}

#[tokio::test]
async fn all_addresses_can_be_listened_on() {
    let url = ["--listen", "0.0.0.0:0", "--public-url", "https://tandem.example/"];
    let it = server(&[&url[..], &["--allow-plain-http"]].concat()).await;
    assert_eq!(status(&it, &["Host: tandem.example"]).await, 200);
    assert_eq!(status(&it, &["Host: 0.0.0.0:PORT"]).await, 421);
    assert_eq!(get(&it, CARD, &[HERE]).await.json()["url"], "https://tandem.example/");
}
