//! Servers that are web services (streamable HTTP).

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use expect_test::expect;
use serde_json::json;
use tandem_agent::session::{ServerReach, ToolOutcome};
use tandem_mcp::{McpLimits, ServerConfig};
use test_support::mcp::{Service, answer_of_one_with_tool, events, result, says_text, with_tool};

use super::{Chunks, Stage, calls, error, limits, notices, outcome, said, says};

fn config(service: &Service, headers: &[(&str, &str)]) -> ServerConfig {
    let headers = headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    let reach = ServerReach::Http { url: service.url.clone(), headers: headers.collect() };
    ServerConfig::new("web", reach, "a test")
}

/// Makes a session with the service.
fn stage(service: &Service, answers: Vec<Chunks>, limits: McpLimits) -> Stage {
    let config = config(service, &[("X-Key", "0123456789")]);
    Stage::with(answers, limits, |_| vec![config])
}

#[tokio::test]
async fn its_tools_are_called_with_its_headers() {
    let service = with_tool(|message| result(message, says_text("from the web"))).await;
    let answers = vec![calls("mcp_web_t", json!({})), says("done")];
    let stage = stage(&service, answers, limits());
    let ToolOutcome::Done(output) = outcome(&stage.turn().await) else { panic!() };
    assert_eq!(output.shown, said("from the web"));
    let headers = service.headers.lock().unwrap();
    assert!(headers.iter().all(|sent| sent["x-key"] == "0123456789"), "{headers:?}");
    assert!(headers[0]["user-agent"].to_str().unwrap().starts_with("tandem/"));
    assert_eq!(headers.last().unwrap()["mcp-session-id"], "one");
}

#[tokio::test]
async fn an_answer_may_be_a_stream_with_progress_in_it() {
    let service = with_tool(|message| {
        let token = &message["params"]["_meta"]["progressToken"];
        let progress = json!({ "progressToken": token, "progress": 1, "message": "nearly" });
        let answer = json!({ "jsonrpc": "2.0", "id": message["id"], "result": says_text("there") });
        let method = "notifications/progress";
        events(&[json!({ "jsonrpc": "2.0", "method": method, "params": progress }), answer])
    })
    .await;
    let stage = stage(&service, vec![calls("mcp_web_t", json!({})), says("done")], limits());
    let ToolOutcome::Done(output) = outcome(&stage.turn().await) else { panic!() };
    assert_eq!(output.shown, said("there"));
}

#[tokio::test]
async fn an_answer_that_is_too_long_is_not_read() {
    let long = || says_text(&"x".repeat(20 << 20));
    let service = with_tool(move |message| {
        let answer = json!({ "jsonrpc": "2.0", "id": message["id"], "result": long() });
        if message["params"]["arguments"]["stream"] == true {
            events(&[answer])
        } else {
            result(message, long())
        }
    })
    .await;
    let mut told = Vec::new();
    for stream in [true, false] {
        let answers = vec![calls("mcp_web_t", json!({ "stream": stream })), says("done")];
        let short = McpLimits { call: Duration::from_mins(2), ..limits() };
        let stage = stage(&service, answers, short);
        told.push(error(&stage.turn().await));
    }
    expect![[r#"
        mcp_tool_error: The MCP server `web`: it broke off its answer, or the answer was too long (`--limit mcp-message-bytes=N` allows more).
        mcp_tool_error: The MCP server `web`: the request failed: HTTP response body exceeded the maximum size of 16777216 bytes."#]].assert_eq(&told.join("\n"));
}

#[tokio::test]
async fn one_that_wants_a_login_says_how() {
    let service = Service::new(|_| {
        let challenge = [("www-authenticate", "Bearer realm=\"x\"")];
        Some((StatusCode::UNAUTHORIZED, challenge).into_response())
    })
    .await;
    let stage = stage(&service, vec![says("hi")], limits());
    let told = notices(&stage.turn().await);
    let said = "The MCP server `web` requires a login: run `/mcp auth web`, or put a token into its `headers` in \
        the settings";
    assert_eq!(told, [said]);
}

/// Returns a service that knows only the handshake of the protocol's versions since 2026, and refuses it with this
/// response.
async fn refusing_discovery(refusal: impl Fn() -> Response + Send + Sync + 'static) -> Service {
    Service::new(move |message| {
        if message["method"] != "initialize" {
            return Some(refusal());
        }
        let error = json!({ "code": -32601, "message": "Method not found" });
        let answer = json!({ "jsonrpc": "2.0", "id": message["id"], "error": error });
        Some(([("content-type", "application/json")], answer.to_string()).into_response())
    })
    .await
}

#[tokio::test]
async fn one_of_a_newer_version_that_wants_a_login_says_how() {
    let said = "The MCP server `web` requires a login: run `/mcp auth web`, or put a token into its `headers` in \
        the settings";
    let challenged = refusing_discovery(|| {
        let challenge = [("www-authenticate", "Bearer realm=\"x\"")];
        (StatusCode::UNAUTHORIZED, challenge).into_response()
    });
    let in_words =
        refusing_discovery(|| (StatusCode::UNAUTHORIZED, "who are you?").into_response());
    for service in [challenged.await, in_words.await] {
        let stage = stage(&service, vec![says("hi")], limits());
        assert_eq!(notices(&stage.turn().await), [said]);
    }
}

#[tokio::test]
async fn one_of_a_newer_version_that_refuses_is_quoted() {
    let refusal = || (StatusCode::NOT_FOUND, "nothing here").into_response();
    let service = refusing_discovery(refusal).await;
    let slow = McpLimits { again: Duration::from_mins(1), ..limits() };
    let stage = stage(&service, vec![says("hi")], slow);
    let told = notices(&stage.turn().await);
    let [told] = &told[..] else { panic!("{told:?}") };
    expect!["The MCP server `web` is down: unexpected server response: HTTP 404 Not Found: nothing here. Retrying in 60 s"].assert_eq(told);
}

#[tokio::test]
async fn what_goes_wrong_is_said_without_secrets() {
    let service = Service::new(|_| {
        Some((StatusCode::NOT_FOUND, "nothing for 0123456789 at key=a-secret").into_response())
    })
    .await;
    let slow = McpLimits { again: Duration::from_mins(1), ..limits() };
    let stage = stage(&service, vec![says("hi")], slow.clone());
    let told = notices(&stage.turn().await);
    let [told] = &told[..] else { panic!("{told:?}") };
    expect!["The MCP server `web` is down: unexpected server response: HTTP 404 Not Found: nothing for (hidden) at key=(hidden). Retrying in 60 s"].assert_eq(told);

    let gone = config(&service, &[]);
    drop(service);
    let stage = Stage::with(vec![says("hi")], slow, |_| vec![gone]);
    let told = notices(&stage.turn().await).join("\n");
    expect!["The MCP server `web` is down: it cannot be reached: Connection refused (os error 111). Retrying in 60 s"].assert_eq(&told);
}

/// Returns the answer of servers that do not know a session.
fn no_session() -> Response {
    let error = json!({ "code": -32000, "message": "Bad Request: No valid session ID provided" });
    let said = json!({ "jsonrpc": "2.0", "error": error, "id": null }).to_string();
    (StatusCode::BAD_REQUEST, [("content-type", "application/json")], said).into_response()
}

#[tokio::test]
async fn one_that_has_forgotten_the_session_is_begun_with_anew() {
    let calls_before = AtomicUsize::new(0);
    let service = with_tool(move |message| match calls_before.fetch_add(1, Ordering::Relaxed) {
        0 => no_session(),
        _ => result(message, says_text("known again")),
    })
    .await;
    let short = McpLimits { call: Duration::from_secs(20), ..limits() };
    let stage = stage(&service, vec![calls("mcp_web_t", json!({})), says("done")], short);
    let ToolOutcome::Done(output) = outcome(&stage.turn().await) else { panic!() };
    assert_eq!(output.shown, said("known again"));
}

#[tokio::test]
async fn an_answer_that_breaks_off_and_is_forgotten_is_not_waited_for() {
    let service = Service::new(|message| {
        if message.is_null() {
            return Some(no_session());
        }
        let begun = ([("content-type", "text/event-stream")], "id: 1\ndata:\n\n");
        match message["method"].as_str() {
            Some("tools/call") => Some(begun.into_response()),
            _ => answer_of_one_with_tool(message),
        }
    })
    .await;
    let answers = vec![calls("mcp_web_t", json!({})), says("done")];
    let stage = stage(&service, answers, limits());
    let before = Instant::now();
    let error = error(&stage.turn().await);
    expect![
        "mcp_tool_error: The MCP server `web`: it broke off its answer, or the answer was too long (`--limit \
         mcp-message-bytes=N` allows more)."
    ]
    .assert_eq(&error);
    assert!(before.elapsed() < Duration::from_secs(8), "{:?}", before.elapsed());
}

#[tokio::test]
async fn one_of_the_old_kind_is_recognised() {
    let service = Service::new(|message| {
        let begun = ([("content-type", "text/event-stream")], "event: endpoint\ndata: /m\n\n");
        Some(if message.is_null() {
            begun.into_response()
        } else {
            (StatusCode::NOT_FOUND, "Cannot POST /sse").into_response()
        })
    })
    .await;
    let stage = stage(&service, vec![says("hi")], limits());
    let told = notices(&stage.turn().await).join("\n");
    expect!["The MCP server `web` is down: it speaks only the old transport HTTP with SSE, which tandem does not \
        support: use its address for streamable HTTP (often `/mcp`), or a bridge, such as the program \
        `mcp-remote`"].assert_eq(&told);
}

#[tokio::test]
async fn an_address_that_is_none_is_said_once() {
    let config = |url: &str| {
        let reach = ServerReach::Http { url: url.to_owned(), headers: Vec::new() };
        ServerConfig::new("web", reach, "a test")
    };
    for (url, why) in [("nonsense", "its address is not a URL"), ("file:///x", "begins with file:")]
    {
        let stage = Stage::with(vec![says("hi")], limits(), |_| vec![config(url)]);
        let told = notices(&stage.turn().await).join("\n");
        assert!(told.contains(why), "{told}");
    }
}
