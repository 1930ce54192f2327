//! Failures: those that pass, those that last, and their errors.

use std::time::Duration;

use expect_test::expect;
use expect_test::expect_file;
use tandem_model::Error;
use tandem_model::openai::check;
use tandem_model::retry::RetryPolicy;

use super::*;

#[tokio::test]
async fn what_may_pass_is_tried_again() {
    let replies = vec![
        Reply::error(408, ""),
        Reply::error(409, "{}"),
        refused(429, "Rate limit reached. Please try again in 2ms."),
        Reply::error(500, "{}"),
        Reply::error(503, r#"{"error":{"message":"Loading model","code":503}}"#),
        Reply::error(529, r#"{"error":"overloaded"}"#),
        Reply::error(418, "tea").header("x-should-retry", "true"),
        text("ok"),
    ];
    let (lines, server) = play(replies).await;
    assert_lines(
        &lines,
        &[
            "retry: server error (408), 2/10",
            "retry: server error (409), 3/10",
            "retry: rate limited: Rate limit reached. Please try again in 2ms., 4/10",
            "retry: server error (500), 5/10",
            "retry: server is loading the model: Loading model, 6/10",
            "retry: server overloaded, 7/10",
            "retry: the request failed: tea, 8/10",
            "text: ok",
            STOP,
        ],
    );
    let asked = server.asked();
    assert!(asked.iter().all(|request| request.body == asked[0].body));
}

#[tokio::test(start_paused = true)]
async fn what_the_server_asks_for_is_waited_for() {
    use futures::StreamExt as _;
    use tandem_model::{Chunk, Model as _};
    for (name, value, at_least) in [
        ("retry-after", "7", 7000),
        ("retry-after-ms", "2500", 2500),
        ("retry-after-ms", "2500.5", 2500),
    ] {
        let reply = Reply::error(429, "{}").header(name, value);
        let options = RequestOptions { retry: RetryPolicy::default(), ..options() };
        let server = start(vec![reply]).await;
        let mut chunks = model(&server, options).stream(prompt(vec![user("hi")]));
        let Some(Ok(Chunk::Retry(retry))) = chunks.next().await else { panic!("no retry") };
        let delay = retry.delay.as_millis();
        assert!((at_least..at_least * 3 / 2).contains(&delay), "{name}: {delay}");
    }
}

/// Returns the reply of a server without the Responses API.
fn other_api() -> Reply {
    Reply::error(404, "File Not Found")
}

#[tokio::test]
async fn what_cannot_pass_is_an_error_at_once() {
    let code = |status: u16, code: &str| {
        Reply::error(status, json!({ "error": { "message": "no", "code": code } }).to_string())
    };
    let mut errors = String::new();
    // `requests` is 2 for a 404: the Responses API is asked as well.
    for (reply, kind, requests) in [
        (code(429, "insufficient_quota"), "RateLimited", 1),
        (Reply::error(402, "{}"), "RateLimited", 1),
        (refused(429, "You exceeded your current quota"), "RateLimited", 1),
        (Reply::error(401, "{}"), "NotAuthenticated", 1),
        (code(400, "invalid_api_key"), "NotAuthenticated", 1),
        (code(400, "context_length_exceeded"), "ContextTooLong", 1),
        (refused(400, "This model's maximum context length is 4096 tokens"), "ContextTooLong", 1),
        (code(400, "exceed_context_size_error"), "ContextTooLong", 1),
        (refused(429, "Request too large for gpt-x on tokens per min"), "ContextTooLong", 1),
        (Reply::error(413, "too big"), "ContextTooLong", 1),
        (code(400, "content_filter"), "Refused", 1),
        (
            refused(
                400,
                "\"auto\" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set",
            ),
            "Rejected",
            1,
        ),
        (
            Reply::error(500, r#"{"error":{"message":"tools param requires --jinja flag"}}"#),
            "Rejected",
            1,
        ),
        (
            Reply::error(
                404,
                r#"{"error":{"message":"No endpoints found that support tool use"}}"#,
            ),
            "Rejected",
            2,
        ),
        (Reply::error(404, r#"{"detail":"Not Found"}"#), "Rejected", 2),
        (Reply::error(403, r#"{"error":{"message":"region"}}"#), "Rejected", 1),
        (Reply::error(500, "{}").header("x-should-retry", "false"), "Unavailable", 1),
        (refused(400, "nothing that is known"), "Rejected", 1),
        (Reply::stream("<html>Log in</html>").header("content-type", "text/html"), "BadAnswer", 1),
        (Reply::error(302, "").header("location", "https://evil.example/"), "Rejected", 1),
    ] {
        // The conversation is long enough for the refusal to mean that the conversation is too long.
        let asked = prompt(vec![user(&"hi ".repeat(100))]);
        let (lines, _, server) = play_to(vec![reply, other_api()], asked, options()).await;
        let whats: Vec<_> = server.asked().into_iter().map(|asked| asked.what).collect();
        let asked = &["POST /v1/chat/completions", "POST /v1/responses"][..requests];
        assert_eq!(lines.len(), 1, "{lines:?}");
        assert_eq!(whats, asked, "{lines:?}");
        assert!(lines[0].starts_with(&format!("error: {kind}(")), "{lines:?}");
        // The port of the server differs from run to run.
        errors.push_str(&lines[0].replace(server.address(), "http://HOST"));
        errors.push('\n');
    }
    expect_file!["../../../../../fixtures/models/openai/errors.txt"].assert_eq(&errors);
}

#[tokio::test]
async fn errors_within_the_stream_are_errors() {
    let said = delta(json!({ "content": "Well, " }));
    for (error, reason) in [
        (json!({ "error": { "message": "overloaded", "code": 502 } }), "server overloaded"),
        (json!({ "error": { "message": "x", "type": "server_error" } }), "server error (500): x"),
        (json!({ "error": { "message": "slow down", "code": "429" } }), "rate limited: slow down"),
        (
            json!({ "choices": [{ "delta": {}, "finish_reason": "error", "error": { "message": "x", "code": 500 } }] }),
            "server error (500): x",
        ),
        (
            json!({ "choices": [{ "delta": {}, "finish_reason": "error" }] }),
            "answer given up by the server",
        ),
    ] {
        let body = [said.clone(), event(&error)].concat();
        let (lines, _) = play(vec![Reply::stream(body), text("ok")]).await;
        let again = format!("retry: {reason}, 2/4, discard");
        assert_lines(&lines, &["text: Well, ", &again, "text: ok", STOP]);
    }
    let quota = json!({ "error": { "message": "no", "code": "insufficient_quota" } });
    let (lines, _) = play(vec![Reply::stream(event(&quota))]).await;
    assert!(lines[0].starts_with("error: RateLimited(\"There is no credit left"), "{lines:?}");
}

#[tokio::test]
async fn a_server_of_this_machine_that_is_not_there_is_not_waited_for() {
    let nobody = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let url = format!("http://{nobody}/v1");
    let (lines, _) =
        ask(&model_at(endpoint(url.clone()), options()), prompt(vec![user("hi")])).await;
    let why = format!("Nothing answers at {url}. Start the server, or correct the address.");
    assert_lines(&lines, &[&format!("error: Unavailable(\"{why}\")")]);
}

#[tokio::test]
async fn an_unknown_model_is_answered_with_those_there_are() {
    let list = json!({ "object": "list", "data": [{ "id": "a" }, { "id": "b" }] });
    let coded = json!({ "error": { "message": "x", "code": "model_not_found" } });
    let worded = |message: &str| json!({ "error": { "message": message, "code": "400" } });
    for (status, error, said) in [
        (404, coded.clone(), "x"),
        (400, coded, "x"),
        (400, worded("Invalid model name passed in"), "Invalid model name passed in"),
        (400, worded("m is not a valid model ID"), "m is not a valid model ID"),
    ] {
        let reply = Reply::error(status, error.to_string());
        let replies = vec![reply, other_api()];
        let server = Server::with_pages(replies, &[("/v1/models", list.clone())]).await;
        let (lines, _) = ask(&model(&server, options()), prompt(vec![user("hi")])).await;
        let why = format!(
            "Unknown model `{MODEL}`, or not available with this key. The server says: {said} Available models: a, b."
        );
        assert_lines(&lines, &[&format!("error: Rejected(\"{why}\")")]);
    }
}

#[tokio::test]
async fn a_server_that_wants_a_key_and_got_none_is_not_said_to_refuse_one() {
    let server = start(vec![Reply::error(401, "{}")]).await;
    let keyless = Endpoint { key: None, ..endpoint(format!("{}/v1", server.address())) };
    let (lines, _) = ask(&model_at(keyless, options()), prompt(vec![user("hi")])).await;
    let said = lines[0].replace(server.address(), "http://HOST");
    expect![[r#"error: NotAuthenticated("The server at http://HOST/v1 wants a key, and none was sent. Run `tandem login --provider openai`, or set a key in the environment.")"#]].assert_eq(&said);
}

#[tokio::test]
async fn a_header_that_all_users_send_is_no_key() {
    let server = start(vec![Reply::error(401, "{}")]).await;
    let fixed_headers = &[("X-Title", "tandem")];
    let url = format!("{}/v1", server.address());
    let keyless = Endpoint { key: None, fixed_headers, ..endpoint(url) };
    let (lines, _) = ask(&model_at(keyless, options()), prompt(vec![user("hi")])).await;
    assert!(lines[0].contains("wants a key, and none was sent"), "{lines:?}");
    assert_eq!(server.asked()[0].headers["x-title"], "tandem");
}

#[tokio::test]
async fn a_server_without_tls_is_told_at_once_when_its_address_says_https() {
    let server = start(vec![text("ok")]).await;
    let url = format!("{}/v1", server.address()).replace("http://", "https://");
    let host = server.address().trim_start_matches("http://").to_owned();
    let (lines, _) = ask(&model_at(endpoint(url), options()), prompt(vec![user("hi")])).await;
    let said: Vec<_> = lines.iter().map(|line| line.replace(&host, "HOST")).collect();
    expect![[r#"error: Unavailable("HOST does not speak https. If this server speaks http, begin its address with `http://`.")"#]].assert_eq(&said.join("\n"));
}

#[tokio::test]
async fn a_key_that_the_server_repeats_is_not_shown() {
    let echo = json!({ "error": { "message": format!("bad key {KEY}") } });
    let mut told = Vec::new();
    for reply in [Reply::error(400, echo.to_string()), Reply::stream(event(&echo))] {
        let mut options = options();
        options.retry.attempts = 1;
        let (lines, _, _) = play_to(vec![reply], prompt(vec![user("hi")]), options).await;
        told.push(lines[0].clone());
    }
    expect![[r#"
        error: Rejected("The API did not accept the request (HTTP 400). The server says: bad key [key]")
        error: Unavailable("The server failed (HTTP 500). Try again later. The server says: bad key [key]")"#]].assert_eq(&told.join("\n"));
}

#[tokio::test]
async fn a_key_is_checked_by_the_list_of_models() {
    let list = json!({ "data": [{ "id": "a" }] });
    let server = Server::with_pages(Vec::new(), &[("/v1/models", list)]).await;
    let right = endpoint(format!("{}/v1", server.address()));
    assert_eq!(check(&right).await, Ok(()));
    let wrong = endpoint(server.address().to_owned());
    assert!(matches!(check(&wrong).await, Err(Error::Rejected(_))));
    let server = Server::start(vec![Reply::error(401, "{}")]).await;
    let error = check(&endpoint(server.address().to_owned())).await.unwrap_err().to_string();
    let error = error.replace(server.address(), "http://HOST");
    expect![
        "The server at http://HOST does not accept the key. Run `tandem login --provider openai` and enter the \
         key of this server, or set another key in the environment."
    ]
    .assert_eq(&error);
}

#[tokio::test]
async fn of_an_error_only_the_beginning_is_read_and_only_for_a_while() {
    let (lines, _) = play(vec![Reply::error(400, vec![b'x'; 1 << 20]).times(100)]).await;
    assert!(lines[0].len() < 1000 && lines[0].contains("xxx…"), "{lines:?}");
    let hangs = Reply::error(400, r#"{"error":{"message":"bad"#).then_hang();
    let options = RequestOptions { idle: Duration::from_millis(300), ..options() };
    let (lines, _, _) = play_to(vec![hangs], prompt(vec![user("hi")]), options).await;
    assert!(lines[0].contains(r#"{\"error\":{\"message\":\"bad"#), "{lines:?}");
}
