//! Servers that peers have named: neither their names nor the logins to them lead to private addresses.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::response::{IntoResponse as _, Response};
use axum::routing::any;
use expect_test::expect;
use futures::FutureExt as _;
use reqwest::Url;
use serde_json::json;
use tandem_agent::session::ServerReach;
use tandem_mcp::{McpLimits, ServerConfig};
use tandem_net::{Lookup, Reach};
use tempfile::TempDir;
use test_fakes::logins;
use test_support::mcp::{result, says_text, with_tool};
use tokio_util::task::AbortOnDropHandle;

use super::{Chunks, Stage, calls, error, limits, notices, says};

/// An address of this machine, in an unusual form.
const DISGUISED: &str = "::ffff:127.0.0.1";

/// Makes a session with a server at this address, and this resolution of names.
fn stage(
    url: &str,
    reach: Reach,
    answers: Vec<Chunks>,
    lead: impl Fn(&str) -> &'static str + Send + Sync + 'static,
) -> Stage {
    let server = ServerReach::Http { url: url.to_owned(), headers: Vec::new() };
    let config =
        ServerConfig { confined: Some(reach), ..ServerConfig::new("web", server, "a peer") };
    let lookup: Lookup = Arc::new(move |name| {
        let address = lead(&name).parse().unwrap();
        std::future::ready(Ok(vec![address])).boxed()
    });
    let limits = McpLimits { again: Duration::from_mins(1), ..limits() };
    let servers = Arc::new(move || vec![config.clone()]);
    Stage::looking_up(TempDir::new().unwrap(), answers, limits, servers, (logins(), lookup))
}

fn port(url: &str) -> u16 {
    Url::parse(url).unwrap().port().unwrap()
}

#[tokio::test]
async fn a_name_that_leads_inside_is_not_followed_and_its_address_not_said() {
    let mut all = Vec::new();
    for (reach, address) in [
        (Reach::Public, "10.1.2.3"),
        (Reach::Public, "127.0.0.1"),
        (Reach::Loopback, "192.168.7.7"),
        (Reach::Private, "169.254.169.254"),
        (Reach::Private, "fd00:ec2::254"),
        (Reach::Private, DISGUISED),
    ] {
        let url = "http://metadata.google.internal/computeMetadata/v1/";
        let stage = stage(url, reach, vec![says("hi")], move |_| address);
        let told = notices(&stage.turn().await).join("\n");
        all.push(told);
    }
    all.dedup();
    expect![
        "The MCP server `web` is down: it cannot be reached: its name leads to an address where servers that \
         clients name may not be. Retrying in 60 s"
    ]
    .assert_eq(&all.join("\n"));
}

#[tokio::test]
async fn a_name_that_turns_inside_later_is_not_followed() {
    let service = with_tool(|message| result(message, says_text("inside"))).await;
    let url = format!("http://turns.test:{}/mcp", port(&service.url));
    let turned = Arc::<AtomicBool>::default();
    let turns = Arc::clone(&turned);
    let lead = move |_: &str| if turns.load(Ordering::SeqCst) { DISGUISED } else { "127.0.0.1" };
    let answers = vec![says("ready"), calls("mcp_web_t", json!({})), says("done")];
    let stage = stage(&url, Reach::Loopback, answers, lead);
    stage.turn().await;
    let asked = service.headers.lock().unwrap().len();
    assert!(asked > 0);
    turned.store(true, Ordering::SeqCst);
    let why = error(&stage.turn().await);
    expect![
        "mcp_tool_error: The MCP server `web`: the request failed: it cannot be reached: its name leads to an \
         address where servers that clients name may not be."
    ]
    .assert_eq(&why);
    assert_eq!(service.headers.lock().unwrap().len(), asked);
}

/// Starts a web service whose answer depends on host and path.
async fn at(
    answer: impl Fn(&str, &str) -> Response + Send + Sync + 'static,
) -> (u16, AbortOnDropHandle<()>) {
    let answer = Arc::new(answer);
    let router = Router::new().fallback(any(move |uri: Uri, headers: HeaderMap| {
        let host = headers["host"].to_str().unwrap();
        let answer = answer(host, uri.path());
        async move { answer }
    }));
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let serving = tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
    (port, AbortOnDropHandle::new(serving))
}

#[tokio::test]
async fn a_login_leads_nowhere_inside_and_reads_nothing_out() {
    const SECRET: &str = "the-key-of-the-machine";
    let asked = Arc::<AtomicUsize>::default();
    let count = Arc::clone(&asked);
    let (inside, _serving) = at(move |_, _| {
        count.fetch_add(1, Ordering::SeqCst);
        SECRET.into_response()
    })
    .await;
    let (mcp, _serving_too) = at(move |host, path| match path {
        "/mcp" => (StatusCode::UNAUTHORIZED, [("www-authenticate", "Bearer")]).into_response(),
        "/.well-known/oauth-protected-resource/mcp" => {
            let servers = [format!("http://inside.test:{inside}")];
            let json =
                json!({ "resource": format!("http://{host}/mcp"), "authorization_servers": servers });
            ([("content-type", "application/json")], json.to_string()).into_response()
        }
        _ => (StatusCode::NOT_FOUND, SECRET).into_response(),
    })
    .await;
    let names = Arc::<Mutex<Vec<String>>>::default();
    let looked_up = Arc::clone(&names);
    let lead = move |name: &str| {
        looked_up.lock().unwrap().push(name.to_owned());
        if name == "mcp.test" { "127.0.0.1" } else { DISGUISED }
    };
    let url = format!("http://mcp.test:{mcp}/mcp");
    let stage = stage(&url, Reach::Loopback, vec![says("hi")], lead);
    let told = notices(&stage.turn().await).join("\n");
    expect![
        "The MCP server `web` requires a login: run `/mcp auth web`, or put a token into its `headers` in the \
         settings"
    ]
    .assert_eq(&told);
    let said = stage.says("/mcp auth web").await;
    assert!(names.lock().unwrap().iter().any(|name| name == "inside.test"), "{said}");
    assert_eq!(asked.load(Ordering::SeqCst), 0, "{said}");
    assert!(!said.contains(SECRET), "{said}");
}
