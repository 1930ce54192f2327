//! Failures: their errors, and those after which the request is sent again.

use std::time::Duration;

use expect_test::expect;
use expect_test::expect_file;
use tandem_model::anthropic::check;
use tandem_model::retry::RetryPolicy;

use super::*;
use crate::api::assert_lines;

/// A spend limit, in the form of a rate limit.
const SPENT: &str = r#"{"type":"error","error":{"type":"rate_limit_error","message":"This request would exceed","details":{"error_code":"enforced_spend_limit_reached"}}}"#;

fn error(kind: &str, message: &str) -> String {
    format!(r#"{{"type":"error","error":{{"type":"{kind}","message":"{message}"}}}}"#)
}

fn http(status: u16, kind: &str, message: &str) -> Reply {
    Reply::error(status, error(kind, message))
}

/// Checks that the request is sent again after this reply, and the reason that people are told.
async fn passes(reply: Reply, reason: &str) {
    let (lines, _) = play(vec![reply, says("ok")]).await;
    let expected = [&format!("retry: {reason}, 2/10"), "text: ok", "finish: Stop 1/0/1/0"];
    assert_eq!(lines, expected, "{reason}");
}

/// Checks that this reply ends the answer with an error of this kind. Returns the error.
async fn ends(reply: Reply, kind: &str) -> String {
    let (lines, server) = play(vec![reply, says("ok")]).await;
    let [line] = &lines[..] else { panic!("{lines:?}") };
    assert!(line.starts_with(&format!("error: {kind}(")), "{line}");
    assert!(!server.asked().is_empty());
    // The port of the server differs from run to run.
    line.replace(server.address(), "http://HOST")
}

#[tokio::test]
async fn faults_that_pass_are_tried_again() {
    let failed = http(500, "api_error", "Internal server error");
    passes(failed, "server error (500): Internal server error").await;
    passes(http(529, "overloaded_error", "Overloaded"), "server overloaded").await;
    passes(http(503, "api_error", ""), "server overloaded").await;
    passes(http(504, "timeout_error", ""), "server error (504)").await;
    passes(http(409, "conflict_error", ""), "server error (409)").await;
    passes(http(408, "", ""), "server error (408)").await;
    passes(http(429, "rate_limit_error", "slow down"), "rate limited: slow down").await;
    passes(Reply::error(502, "<html>Bad gateway</html>"), "server error (502)").await;
}

#[tokio::test]
async fn an_error_within_a_stream_counts_like_one_with_a_status() {
    let (lines, _) = play(vec![recorded("overloaded"), says("ok")]).await;
    let retry = "retry: server overloaded, 2/4, discard";
    assert_lines(&lines, &["text: Well", retry, "text: ok", "finish: Stop 1/0/1/0"]);
    let stream = |kind: &str| Reply::stream(format!("data: {}\n\n", error(kind, "no")));
    passes(stream("api_error"), "server error (500): no").await;
    passes(stream("rate_limit_error"), "rate limited: no").await;
    let bare = Reply::stream(error("overloaded_error", "Overloaded"));
    passes(bare, "server overloaded").await;
    let untyped = Reply::stream("data: {\"error\":{\"message\":\"Overloaded\"}}\n\n");
    passes(untyped, "server overloaded").await;
}

#[tokio::test]
async fn an_answer_without_an_end_broke_off() {
    let (lines, _) = play(vec![recorded("no-stop"), says("ok")]).await;
    assert_eq!(lines[..2], ["text: half", "retry: the connection was lost, 2/4, discard"]);
    let whole = Reply::stream(api::recorded("anthropic/text.sse"));
    let (lines, _) = play(vec![whole.then_cut()]).await;
    assert_eq!(lines[1], "finish: Stop 12/0/22/0", "what has ended is whole");
    let (lines, _) = play(vec![Reply::stream("data: {\"type\":3}\n\n"), says("ok")]).await;
    assert_eq!(lines[0], "retry: unreadable answer, 2/4");
}

#[tokio::test]
async fn errors_that_stay_are_said_as_what_they_are() {
    let invalid = |message| http(400, "invalid_request_error", message);
    let stream = format!("data: {}\n\n", error("invalid_request_error", "no"));
    let broke = "Your credit balance is too low to access the Anthropic API.";
    let limit = "You have reached your specified API usage limits.";
    let schema = "tools.0.custom.input_schema: JSON schema is invalid";
    let order = "messages.2: `tool_use` ids were found without `tool_result` blocks";
    let full = "input length and `max_tokens` exceed context limit: 199999 + 8192 > 200000";
    let page = Reply::error(200, "<html>").header("content-type", "text/html");
    let mut errors = String::new();
    for (reply, kind) in [
        (http(401, "authentication_error", "invalid x-api-key"), "NotAuthenticated"),
        (http(402, "billing_error", ""), "RateLimited"),
        (http(403, "permission_error", "no"), "Rejected"),
        (http(413, "request_too_large", ""), "ContextTooLong"),
        (invalid("prompt is too long: 208310 tokens > 200000 maximum"), "ContextTooLong"),
        (invalid(full), "ContextTooLong"),
        (invalid(broke), "RateLimited"),
        (invalid(limit), "RateLimited"),
        (invalid(schema), "Rejected"),
        (invalid(order), "Rejected"),
        (Reply::stream(stream), "Rejected"),
        (Reply::error(307, "").header("location", "https://evil.example/"), "Rejected"),
        (Reply::error(429, SPENT), "RateLimited"),
        (http(500, "api_error", "").header("x-should-retry", "false"), "Unavailable"),
        (http(429, "rate_limit_error", "slow").header("retry-after", "4000"), "RateLimited"),
        (http(429, "rate_limit_error", "slow").header("retry-after-ms", "4e6"), "RateLimited"),
        (page, "BadAnswer"),
    ] {
        errors.push_str(&ends(reply, kind).await);
        errors.push('\n');
    }
    expect_file!["../../../../../fixtures/models/anthropic/errors.txt"].assert_eq(&errors);
}

#[tokio::test]
async fn the_server_says_how_long_to_wait() {
    // A spend limit counts as a rate limit, and is tried again, if the server says how long to wait.
    let spent = Reply::error(429, SPENT).header("retry-after", "0");
    passes(spent, "rate limited: This request would exceed").await;
    let limited = http(429, "rate_limit_error", "slow down");
    passes(limited.header("retry-after-ms", "20"), "rate limited: slow down").await;
}

#[tokio::test]
async fn an_answer_for_which_there_is_no_room_is_asked_for_shorter() {
    for (message, room) in [
        ("max_tokens: 128000 > 8192, which is the maximum allowed number of output tokens", 8192),
        (
            "input length and `max_tokens` exceed context limit: 188240 + 128000 > 200000, decrease \
             input length or `max_tokens` and try again",
            11760,
        ),
    ] {
        let (lines, server) =
            play(vec![http(400, "invalid_request_error", message), says("ok")]).await;
        assert_eq!(lines[0], "text: ok", "{lines:?}");
        let asked: Vec<_> =
            server.asked().iter().map(|asked| asked.body["max_tokens"].clone()).collect();
        assert_eq!(asked, [128_000, room]);
    }
}

#[tokio::test]
async fn a_model_that_is_not_there_is_said_with_those_that_are() {
    let missing = http(404, "not_found_error", "model: claude-opus-5-5");
    let list =
        Reply::error(200, r#"{"data":[{"type":"model","id":"claude-x"},{"id":"claude-y"}]}"#);
    let (lines, server) = play(vec![missing, list]).await;
    expect![[r#"error: Rejected("Unknown model `claude-opus-5-5`, or not available with this key. The server says: model: claude-opus-5-5 Available models: claude-x, claude-y.")"#]].assert_eq(&lines[0]);
    assert_eq!(server.asked()[1].what, "GET /v1/models?limit=1000");
}

#[tokio::test]
async fn a_key_is_checked_by_asking_for_one_model() {
    let list = || Reply::error(200, r#"{"data":[]}"#);
    let server = Server::start(vec![list(), http(401, "authentication_error", KEY)]).await;
    assert_eq!(check(&endpoint(&server)).await, Ok(()));
    let error = check(&endpoint(&server)).await.unwrap_err();
    let error = error.to_string().replace(server.address(), "http://HOST");
    expect![
        "The server at http://HOST does not accept the key. Run `tandem login --provider anthropic` and enter \
         the key of this server, or set another key in the environment. The server says: [key]"
    ]
    .assert_eq(&error);
    assert_eq!(server.asked()[0].what, "GET /v1/models?limit=1");
    let error = check(&endpoint(&server)).await.unwrap_err();
    assert!(!error.to_string().is_empty());
}

#[tokio::test]
async fn no_error_tells_the_key() {
    let (lines, _) = play(vec![http(400, "invalid_request_error", KEY)]).await;
    expect![[r#"error: Rejected("The API did not accept the request (HTTP 400). The server says: [key]")"#]].assert_eq(&lines[0]);
}

#[tokio::test]
async fn a_server_that_goes_silent_is_asked_again() {
    let patient = RequestOptions { idle: Duration::from_millis(300), ..options() };
    let begun = "data: {\"type\":\"ping\"}\n\n";
    let server = Server::start(vec![Reply::stream(begun).then_hang(), says("ok")]).await;
    let lines = ask(&anthropic(&server, patient), prompt(vec![user("hi")])).await;
    assert_eq!(lines[..2], ["retry: server silent, 2/10", "text: ok"]);
    server.client_gone().await;
}

#[tokio::test]
async fn an_answer_that_is_too_big_is_given_up() {
    let more = r#"{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"xxxxxxxxxxxxxxxxxxxxxxxxxxxx"}}"#;
    let many =
        r#"{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}"#;
    let json = r#"{"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":"0,0,0,0,0,0,0,0"}}"#;
    let begin = r#"{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"a","name":"glob","input":{}}}"#;
    let mut told = Vec::new();
    for event in [more, many, json] {
        let stream = Reply::stream(format!("data: {begin}\n\ndata: {event}\n\n"));
        let server = Server::start(vec![stream.times(2000)]).await;
        let small = RequestOptions { max_answer: 20_000, ..options() };
        let lines = ask(&anthropic(&server, small), prompt(vec![user("hi")])).await;
        let last = lines.last().unwrap();
        told.push(last.clone());
    }
    told.dedup();
    expect![[r#"error: BadAnswer("The model's answer is bigger than 1 MiB, and was dropped. Ask for less at once, or allow more with `--limit answer-bytes=BYTES`.")"#]]
        .assert_eq(&told.join("\n"));
}

#[tokio::test]
async fn a_failure_without_hope_ends_after_the_last_attempt() {
    let server = Server::start((0..9).map(|_| http(500, "api_error", "no")).collect()).await;
    let retry = RetryPolicy { attempts: 3, ..options().retry };
    let lines =
        ask(&anthropic(&server, RequestOptions { retry, ..options() }), prompt(vec![user("hi")]))
            .await;
    assert_eq!(lines.len(), 3, "{lines:?}");
    assert!(lines[2].starts_with("error: Unavailable"), "{lines:?}");
    assert_eq!(server.asked().len(), 3);
}
