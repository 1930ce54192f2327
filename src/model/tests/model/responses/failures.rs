//! Failures: those that may pass are tried again, and those that cannot are errors at once.

use super::*;

/// Returns the events that report a failure, in each form that servers use.
fn failed(code: &str, message: &str) -> [String; 3] {
    let error = json!({ "code": code, "message": message });
    let response =
        json!({ "object": "response", "status": "failed", "output": [], "error": error });
    [
        event(&json!({ "type": "response.failed", "response": response })),
        event(&json!({ "type": "error", "code": code, "message": message, "param": null })),
        event(&json!({ "type": "error", "error": error })),
    ]
}

#[tokio::test]
async fn a_failure_in_the_stream_that_may_pass_is_tried_again() {
    let said = items(&[message("msg_1", "Well, ", "final_answer")]);
    let include = "An error occurred while processing your request. You can retry your request, or \
        contact us through our help center at help.openai.com if the error persists. Please include \
        the request ID req_1 in your message.";
    // Of a long message, only the beginning is shown.
    let (shown, _) = include.split_once(" error persists").unwrap();
    let include_reason = format!("server error (500): {shown}…");
    for (code, message, reason) in [
        ("server_error", "Oops.", "server error (500): Oops."),
        ("server_error", include, include_reason.as_str()),
        ("rate_limit_exceeded", "Slow down.", "rate limited: Slow down."),
        ("server_is_overloaded", "Busy.", "server overloaded: Busy."),
        ("vector_store_timeout", "Late.", "server error (500): Late."),
    ] {
        for failure in failed(code, message) {
            let body = said.clone() + &failure;
            let (lines, _, server) = play(vec![Reply::stream(body), text("ok")]).await;
            let again = format!("retry: {reason}, 2/4, discard");
            assert_lines(&lines, &["text: Well, ", &again, "text: ok", STOP]);
            let bodies: Vec<_> = server.asked().into_iter().map(|asked| asked.body).collect();
            assert_eq!(bodies[0], bodies[1], "the request is the same");
        }
    }
}

#[tokio::test]
async fn a_failure_that_cannot_pass_is_an_error_at_once() {
    for (code, message, kind) in [
        ("invalid_prompt", "Invalid prompt.", "Rejected"),
        ("insufficient_quota", "You exceeded your current quota.", "RateLimited"),
        ("context_length_exceeded", "Your input exceeds the context window.", "ContextTooLong"),
        ("bio_policy", "No.", "Refused"),
        ("misalignment_policy_violation", "No.", "Refused"),
        ("image_content_policy_violation", "No.", "Refused"),
        ("image_too_large", "Too large.", "Rejected"),
        ("invalid_base64_image", "No image.", "Rejected"),
        ("data_residency_mismatch", "Wrong region.", "Rejected"),
        ("invalid_api_key", "Wrong key.", "NotAuthenticated"),
    ] {
        for failure in failed(code, message) {
            // The conversation is long enough for the refusal to mean that the conversation is too long.
            let asked = prompt(vec![user(&"hi ".repeat(100))]);
            let server = start(vec![Reply::stream(failure)]).await;
            let (lines, _) = ask(&model(&server, options()), asked).await;
            assert!(lines[0].starts_with(&format!("error: {kind}(")), "{code}: {lines:?}");
            assert_eq!((lines.len(), server.asked().len()), (1, 1), "{lines:?}");
            assert!(lines[0].contains(message), "{lines:?}");
        }
    }
}

#[tokio::test]
async fn an_error_response_is_tried_again_or_told() {
    for (reply, first) in [
        (
            refused(429, "Slow down.", "", "rate_limit_exceeded"),
            "retry: rate limited: Slow down., 2/10",
        ),
        (refused(500, "Oops.", "", "server_error"), "retry: server error (500): Oops., 2/10"),
        (refused(503, "Busy.", "", ""), "retry: server overloaded: Busy., 2/10"),
        (
            refused(503, "Server error '503' for url 'http://h/v1/chat/completions'", "", ""),
            "retry: server overloaded: Server error '503' for url 'http://h/v1/chat/completions', 2/10",
        ),
    ] {
        let (lines, ..) = play(vec![reply, text("ok")]).await;
        assert_lines(&lines, &[first, "text: ok", STOP]);
    }
    let long = "Your input exceeds the context window of this model. Please adjust your input.";
    for (reply, kind) in [
        (refused(400, long, "input", "context_length_exceeded"), "ContextTooLong"),
        (refused(401, "Wrong key.", "", "invalid_api_key"), "NotAuthenticated"),
        (refused(429, "No.", "", "insufficient_quota"), "RateLimited"),
        (refused(400, "Strange.", "", ""), "Rejected"),
    ] {
        let asked = prompt(vec![user(&"hi ".repeat(100))]);
        let server = start(vec![reply]).await;
        let (lines, _) = ask(&model(&server, options()), asked).await;
        assert!(lines[0].starts_with(&format!("error: {kind}(")), "{lines:?}");
        assert_eq!((lines.len(), server.asked().len()), (1, 1), "{lines:?}");
    }
}

#[tokio::test]
async fn a_rate_limit_is_waited_for_as_long_as_the_server_says_and_no_longer_than_is_bearable() {
    let limit = |header: &'static str, wait: &str| {
        refused(429, "Slow down.", "", "rate_limit_exceeded").header(header, wait)
    };
    let words =
        "Rate limit reached for gpt-6-sol: Limit 30000, Used 29000. Please try again in 7h1m.";
    for (reply, wait) in [
        (limit("retry-after", "3600"), "60 min"),
        (limit("retry-after-ms", "600000"), "10 min"),
        (refused(429, words, "", "rate_limit_exceeded"), "8 h"),
        (Reply::stream(failed("rate_limit_exceeded", words)[0].clone()), "8 h"),
    ] {
        let (lines, ..) = play(vec![reply]).await;
        let said = format!("The API takes requests again in {wait}.");
        assert!(lines[0].contains("error: RateLimited(") && lines[0].contains(&said), "{lines:?}");
    }
    let (lines, ..) = play(vec![limit("retry-after-ms", "20"), text("ok")]).await;
    assert_lines(&lines, &["retry: rate limited: Slow down., 2/10", "text: ok", STOP]);
}
