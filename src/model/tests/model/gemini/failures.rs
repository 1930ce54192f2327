//! Failures, and answers that are cut off or unusable.

use expect_test::expect;
use serde_json::json;

use super::*;

const STOP: &str = "finish: Stop 0/0/0/0";

/// Returns the last text in a request.
fn nudge(server: &Server, request: usize) -> String {
    let body = &server.asked()[request].body;
    let parts = contents(body).last().unwrap()["parts"].as_array().unwrap().clone();
    parts.last().unwrap()["text"].as_str().unwrap().to_owned()
}

fn limited(details: &Value) -> Reply {
    let error = json!({"code": 429, "message": "Quota exceeded.", "details": details});
    Reply::error(429, json!({ "error": error }).to_string())
}

fn retry_info(delay: &str) -> Value {
    json!([{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": delay}])
}

#[tokio::test]
async fn what_may_pass_is_tried_again() {
    let replies = vec![
        limited(&retry_info("0.002s")),
        Reply::error(500, "{}"),
        Reply::error(503, r#"[{"error":{"message":"overloaded"}}]"#),
        Reply::error(499, ""),
        Reply::text("ok"),
    ];
    let (lines, server) = play(replies, options()).await;
    assert_lines(
        &lines,
        &[
            "retry: rate limited: Quota exceeded., 2/10",
            "retry: server error (500), 3/10",
            "retry: server overloaded, 4/10",
            "retry: server error (499), 5/10",
            "text: ok",
            STOP,
        ],
    );
    let asked = server.asked();
    assert!(asked.iter().all(|request| request.body == asked[0].body));
}

#[tokio::test]
async fn a_rate_limit_that_lasts_is_an_error() {
    let replies = (0..10).map(|_| limited(&retry_info("0.001s"))).collect();
    let (lines, server) = play(replies, options()).await;
    assert_eq!(server.asked().len(), 10);
    assert_eq!(lines.len(), 10);
    assert_eq!(lines[8], "retry: rate limited: Quota exceeded., 10/10");
    expect![[r#"error: RateLimited("The API's rate limit is reached. The API takes requests again in 1 s. The server says: Quota exceeded.")"#]].assert_eq(&lines[9]);
}

#[tokio::test]
async fn what_cannot_pass_is_an_error_at_once() {
    let daily = json!([{"@type": "type.googleapis.com/google.rpc.QuotaFailure",
        "violations": [{"quotaId": "GenerateRequestsPerDayPerProjectPerModel-FreeTier"}]}]);
    for (reply, kind) in [
        (Reply::error(400, "{}"), "Rejected"),
        (Reply::error(401, "{}"), "NotAuthenticated"),
        (Reply::error(403, "{}"), "Rejected"),
        (limited(&daily), "RateLimited"),
        (limited(&retry_info("301s")), "RateLimited"),
        (
            Reply::error(400, r#"{"error":{"message":"exceeds the maximum number of tokens"}}"#),
            "ContextTooLong",
        ),
        (Reply::stream("<html>Log in</html>").header("content-type", "text/html"), "BadAnswer"),
    ] {
        let (lines, server) = play(vec![reply], options()).await;
        assert_eq!((lines.len(), server.asked().len()), (1, 1), "{lines:?}");
        assert!(lines[0].starts_with(&format!("error: {kind}(")), "{lines:?}");
    }
}

#[tokio::test]
async fn an_unknown_model_is_answered_with_those_there_are() {
    let list = json!({"models": [
        {"name": "models/gemini-a", "supportedGenerationMethods": ["generateContent"]},
        {"name": "models/embedding", "supportedGenerationMethods": ["embedContent"]},
        {"name": "models/gemini-b"},
    ]});
    let replies = vec![Reply::error(404, "{}"), Reply::error(200, list.to_string())];
    let (lines, server) = play(replies, options()).await;
    let why = "Unknown model `gemini-3.8-flash`, or not available with this key. Available models: gemini-a, \
               gemini-b.";
    assert_lines(&lines, &[&format!("error: Rejected(\"{why}\")")]);
    assert_eq!(server.asked()[1].what, "GET /v1beta/models?pageSize=1000");
    let (lines, _) = play(vec![Reply::error(404, "{}")], options()).await;
    assert!(lines[0].ends_with("with this key.\")"), "{lines:?}");
}

#[tokio::test]
async fn errors_within_the_stream_are_tried_again() {
    for (name, reason) in [
        ("error-object", "server overloaded: The model is overloaded. Please try again later."),
        ("error-array", "server error (500): Internal error encountered."),
    ] {
        let replies = vec![recorded(name), Reply::text("ok")];
        let (lines, _) = play(replies, options()).await;
        let again = format!("retry: {reason}, 2/4, discard");
        assert_lines(&lines, &["text: Well, ", &again, "text: ok", STOP]);
    }
    let refused = "data: {\"error\":{\"code\":400,\"message\":\"no\"}}\n\n";
    let (lines, _) = play(vec![Reply::stream(refused)], options()).await;
    let why = "The API did not accept the request. The server says: no";
    assert_lines(&lines, &[&format!("error: Rejected(\"{why}\")")]);
}

#[tokio::test]
async fn a_connection_that_breaks_is_made_again() {
    let half = event(r#"{"content":{"parts":[{"text":"Hal"}]}}"#);
    let replies = vec![
        Reply::stream("").then_cut(),
        Reply::stream(half.clone()).then_cut(),
        Reply::stream(format!("{half}data: {{\"candi")),
        Reply::stream(half[..half.len() - 9].to_owned()).then_cut(),
        Reply::text("Half"),
    ];
    let (lines, _) = play(replies, options()).await;
    assert_lines(
        &lines,
        &[
            "retry: the connection was lost, 2/10",
            "text: Hal",
            "retry: the connection was lost, 3/4, discard",
            "text: Hal",
            "retry: the connection was lost, 4/4, discard",
            "retry: the connection was lost, 5/10",
            "text: Half",
            STOP,
        ],
    );
}

#[tokio::test]
async fn a_server_that_is_not_there_is_tried_again_and_named() {
    let address = Server::start(Vec::new()).await.models_url();
    let nobody = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let models_url = address.replace(address.split('/').nth(2).unwrap(), &nobody.to_string());
    let endpoint = Endpoint::new(Provider::Gemini, models_url);
    let lines = ask(&of_model(MODEL, endpoint, options()), prompt(vec![user("hi")])).await;
    assert_eq!(lines.len(), 10, "{lines:?}");
    assert_eq!(lines[0], "retry: the connection failed, 2/10");
    let said = format!("error: Unavailable(\"{nobody} could not be reached: Connection refused");
    assert!(lines[9].starts_with(&said), "{lines:?}");
}

#[tokio::test]
async fn a_silent_server_is_a_lost_connection() {
    let half = event(r#"{"content":{"parts":[{"text":"Hal"}]}}"#);
    let replies = vec![Reply::stream(half).then_hang(), Reply::text("Half")];
    let options = RequestOptions { idle: Duration::from_millis(300), ..options() };
    let (lines, _) = play(replies, options).await;
    let again = "retry: server silent, 2/4, discard";
    assert_lines(&lines, &["text: Hal", again, "text: Half", STOP]);
}

#[tokio::test]
async fn an_answer_that_has_ended_is_whole_whatever_becomes_of_the_connection() {
    let whole = event(r#"{"content":{"parts":[{"text":"All"}]},"finishReason":"STOP"}"#);
    for reply in [
        Reply::stream(whole.clone()).then_cut(),
        Reply::stream(whole.clone()).then_hang(),
        Reply::stream(format!("{whole}data: {{")),
    ] {
        let options = RequestOptions { linger: Duration::from_millis(20), ..options() };
        let (lines, _) = play(vec![reply], options).await;
        assert_lines(&lines, &["text: All", STOP]);
    }
}

#[tokio::test]
async fn garbage_is_tried_again_and_given_up() {
    let garbage = || Reply::stream("data: {\"candidates\": oops}\n\n");
    let (lines, _) = play(vec![garbage(), Reply::text("ok")], options()).await;
    assert_lines(&lines, &["retry: unreadable answer, 2/4", "text: ok", STOP]);
    let (lines, server) = play((0..9).map(|_| garbage()).collect(), options()).await;
    assert_eq!((server.asked().len(), lines.len()), (4, 4));
    assert!(
        lines[3].starts_with("error: BadAnswer(\"The response breaks the rules of the API"),
        "{lines:?}"
    );
}

#[tokio::test]
async fn worthless_answers_are_asked_for_again_with_a_nudge() {
    for (name, reason, says, text) in [
        ("empty", "empty answer", "was empty", false),
        ("thoughts-only", "reasoning without an answer", "generated thoughts but", true),
        ("malformed-call", "malformed tool call", "function call was malformed", true),
    ] {
        let (lines, server) = play(vec![recorded(name), Reply::text("ok")], options()).await;
        let discard = if text { ", discard" } else { "" };
        let again = lines.len() - 3;
        assert_eq!(lines[again], format!("retry: {reason}, 2/4{discard}"), "{lines:?}");
        assert_lines(&lines[again + 1..], &["text: ok", STOP]);
        assert_eq!(nudge(&server, 0), "hi");
        let nudge = nudge(&server, 1);
        assert!(nudge.starts_with("[System: ") && nudge.contains(says), "{nudge}");
        let (lines, server) = play((0..9).map(|_| recorded(name)).collect(), options()).await;
        assert_eq!(server.asked().len(), 4);
        assert!(lines.last().unwrap().starts_with("error: BadAnswer("), "{lines:?}");
    }
}

#[tokio::test]
async fn an_answer_without_an_end_is_asked_for_again_without_a_nudge() {
    let (lines, server) = play(vec![recorded("no-finish"), Reply::text("ok")], options()).await;
    let again = "retry: answer cut off, 2/4, discard";
    assert_lines(&lines, &["text: Half of an answer", again, "text: ok", STOP]);
    assert_eq!(nudge(&server, 1), "hi");
}

#[tokio::test]
async fn an_answer_goes_on_over_several_requests() {
    let hops = ["continuation-1", "continuation-2", "continuation-3"].map(recorded);
    let mut replies = Vec::from(hops);
    replies.insert(1, Reply::error(503, "{}"));
    let (lines, server) = play(replies, options()).await;
    assert_eq!(lines[0], "thought: **Planning**\n\nA long text.");
    assert_lines(
        &lines[1..5],
        &[
            "text: Part one, and then ",
            "retry: server overloaded, 2/10",
            "text: part two, the end.",
            "finish: Stop 196908/0/131084/7",
        ],
    );
    assert_eq!(lines[5], r#"native: {"text":"Part one, and then part two, the end."}"#);
    let tokens: Vec<_> =
        server.asked().iter().map(|asked| asked.body["continuationToken"].clone()).collect();
    assert_eq!(tokens, [json!(null), json!("Q09OVC0x"), json!("Q09OVC0x"), json!("Q09OVC0y")]);
    let mut first = server.asked()[0].body.clone();
    first["continuationToken"] = json!("Q09OVC0y");
    assert_eq!(server.asked()[3].body, first, "the same request again");
}

#[tokio::test]
async fn an_answer_that_breaks_off_goes_on_at_its_checkpoint() {
    let broken = || recorded("checkpoint").then_cut();
    let rest = || recorded("checkpoint-rest");
    let (lines, server) = play(vec![broken(), rest()], options()).await;
    assert_lines(
        &lines,
        &[
            "text: Safe. Not safe",
            "retry: the connection was lost, 2/4, discard",
            "text: Safe. The rest.",
            "finish: Stop 102/0/7/0",
        ],
    );
    assert_eq!(server.asked()[1].body["continuationToken"], "Q0hFQ0s=");
    // An answer that ends without a finish reason counts as broken off, too.
    let (lines, _) = play(vec![recorded("checkpoint"), rest()], options()).await;
    assert_eq!(lines[2], "text: Safe. The rest.");

    let unsafe_text = event(r#"{"content":{"parts":[{"text":"again"}]}}"#);
    let lost = || Reply::stream(unsafe_text.clone()).then_cut();
    let (lines, server) = play(vec![broken(), lost(), lost(), lost(), rest()], options()).await;
    assert_eq!(server.asked().len(), 4, "three times without progress are enough");
    assert_eq!(lines[5], "retry: the connection was lost, 4/4, discard");
    assert!(lines.last().unwrap().starts_with("error: Unavailable("), "{lines:?}");
}

#[tokio::test]
async fn an_answer_that_never_ends_is_given_up() {
    let replies = (0..99).map(|_| recorded("continuation-2")).collect();
    let (lines, server) = play(replies, options()).await;
    assert_eq!(server.asked().len(), 64);
    expect![[r#"error: BadAnswer("The model's answer did not end within 64 requests, and was dropped. Ask for less at once, or try another model.")"#]]
    .assert_eq(lines.last().unwrap());
}
