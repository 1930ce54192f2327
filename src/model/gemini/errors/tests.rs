//! Tests of the classes of errors, and of their messages for people.

#![expect(clippy::needless_pass_by_value, reason = "the cases are shorter so")]

use std::time::Duration;

use expect_test::expect_file;
use serde_json::json;

use super::*;
use crate::provider::Provider;

fn tools() -> Vec<ToolDeclaration> {
    let tool = |name: &str, parameters| ToolDeclaration::new(name, "", parameters);
    vec![
        tool("glob", json!({"type": "object"})),
        tool("circle", json!({"properties": {"x": {"$ref": "#"}}})),
    ]
}

fn report(code: u16, error: &Value) -> Report {
    Report::read(Some(code), json!({ "error": error }).to_string().as_bytes())
}

fn meaning(code: u16, error: &Value) -> AttemptFailure {
    let asked = RequestInfo {
        provider: Provider::Gemini,
        model: "gemini-x",
        url: "https://x.test",
        has_key: true,
    };
    classify(&report(code, error), asked, &tools())
}

/// Checks that an error is final and of this kind, and returns it.
#[track_caller]
fn check(code: u16, error: Value, kind: &str) -> String {
    let trouble = meaning(code, &error);
    if let AttemptFailure::Failed(failure) = &trouble {
        assert_eq!(failure.advice, RetryHint::Never, "{failure:?}");
    }
    let shown = format!("{:?}", trouble.into_error());
    assert!(shown.starts_with(kind), "{shown}");
    let message = error["message"].as_str().unwrap_or_default();
    assert!(shown.contains(message), "the server's words are shown: {shown}");
    shown + "\n"
}

/// Checks that an error may pass, with this advice and this reason.
#[track_caller]
fn passes(code: u16, error: Value, advice: RetryHint, reason: &str) {
    let AttemptFailure::Failed(failure) = meaning(code, &error) else { panic!("{error}") };
    assert_eq!((failure.advice, failure.reason.as_str()), (advice, reason), "{failure:?}");
}

fn info(reason: &str, metadata: Value) -> Value {
    let kind = "type.googleapis.com/google.rpc.ErrorInfo";
    json!({"@type": kind, "reason": reason, "metadata": metadata})
}

fn quota(id: &str) -> Value {
    let kind = "type.googleapis.com/google.rpc.QuotaFailure";
    json!({"@type": kind, "violations": [{"quotaId": id}]})
}

fn retry_info(delay: &str) -> Value {
    json!({"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": delay})
}

fn seconds(seconds: f64) -> RetryHint {
    RetryHint::After(Duration::from_secs_f64(seconds))
}

#[test]
fn errors_that_stay_say_what_to_do() {
    let detail = |detail| json!({"message": "no", "details": [detail]});
    let message = |message: &str| json!({ "message": message });
    let enable = json!({"activationUrl": "https://console.example/enable"});
    let blocked = info("API_KEY_IP_ADDRESS_BLOCKED", json!({}));
    let daily = quota("GenerateRequestsPerDayPerProjectPerModel-FreeTier");
    let order = "Please ensure that the number of function response parts is equal to the number \
                 of function call parts of the function call turn.";
    let tokens = "The input token count (9) exceeds the maximum number of tokens allowed (8).";
    let declaration =
        |n: u32| message(&format!("tools[0].function_declarations[{n}].name: [FIELD_INVALID] x"));
    let errors = [
        check(400, detail(info("API_KEY_INVALID", json!({}))), "NotAuthenticated"),
        check(400, message("API key not valid. Pass"), "NotAuthenticated"),
        check(401, message("who"), "NotAuthenticated"),
        check(403, detail(blocked), "NotAuthenticated"),
        check(403, detail(info("SERVICE_DISABLED", enable)), "NotAuthenticated"),
        check(403, message("no"), "Rejected"),
        check(400, message(tokens), "ContextTooLong"),
        check(413, json!({}), "ContextTooLong"),
        check(400, message("maximum schema depth exceeded"), "Rejected"),
        check(400, declaration(1), "Rejected"),
        check(400, declaration(99), "Rejected"),
        check(400, message(order), "Rejected"),
        check(400, message("User location is not supported"), "Rejected"),
        check(400, message("x"), "Rejected"),
        check(402, message("x"), "RateLimited"),
        check(418, message("x"), "Rejected"),
        check(302, json!({}), "Rejected"),
        check(429, json!({"details": [daily, retry_info("3s")]}), "RateLimited"),
        check(429, message("Quota exceeded for metric: x, limit: 0, model: y"), "RateLimited"),
    ];
    let golden = expect_file!["../../../../fixtures/models/gemini/errors.txt"];
    golden.assert_eq(&errors.concat());
}

#[test]
fn signatures_and_unknown_models_are_told_apart() {
    let message = json!({"message": "Corrupted thought signature."});
    assert!(refused_signatures(&report(400, &message)).is_some());
    let message =
        json!({"message": "Function call is missing a thought_signature in functionCall"});
    assert!(refused_signatures(&report(400, &message)).is_some());
    let message = json!({"message": "models/gemini-x is not found"});
    assert!(matches!(meaning(404, &message), AttemptFailure::NoModel(_)));
    assert_eq!(refused_signatures(&report(404, &message)), None);
}

#[test]
fn rate_limits_say_how_long_they_last() {
    let limited = |details: Value| json!({"message": "m", "details": details});
    passes(429, json!({}), RetryHint::Unknown, "rate limited");
    passes(429, limited(json!([retry_info("34.07s")])), seconds(34.07), "rate limited");
    passes(429, limited(json!([retry_info("900ms")])), seconds(0.9), "rate limited");
    let retry = "Please retry in 12.5s.";
    passes(429, json!({ "message": retry }), seconds(12.5), &format!("rate limited: {retry}"));
    let minute = quota("GenerateRequestsPerMinutePerProjectPerModel");
    let named = "rate limited (requests per minute)";
    passes(429, limited(json!([minute])), seconds(60.0), named);
    passes(
        429,
        limited(json!([quota("RequestsPerMinute"), retry_info("7s")])),
        seconds(7.0),
        named,
    );
    let metadata = info("RATE_LIMIT_EXCEEDED", json!({"quota_limit": "TokensPerMinute"}));
    passes(429, limited(json!([metadata])), seconds(60.0), "rate limited (tokens per minute)");
    let capacity = info("MODEL_CAPACITY_EXHAUSTED", json!({}));
    passes(429, limited(json!([capacity])), RetryHint::Soon, "rate limited");
    let message = "Quota exceeded, limit: 0.5";
    let reason = format!("rate limited: {message}");
    passes(429, json!({ "message": message }), RetryHint::Unknown, &reason);
    // The server asks for a wait beyond the limit, after which the policy gives up.
    passes(429, limited(json!([retry_info("7300s")])), seconds(7300.0), "rate limited");
}

#[test]
fn faults_of_the_server_pass() {
    passes(500, json!({"message": "x"}), RetryHint::Unknown, "server error (500): x");
    passes(502, json!({}), RetryHint::Unknown, "server error (502)");
    passes(499, json!({}), RetryHint::Unknown, "server error (499)");
    passes(503, json!({}), RetryHint::Soon, "server overloaded");
    let overloaded = "server overloaded: The model is overloaded.";
    passes(500, json!({"message": "The model is overloaded."}), RetryHint::Soon, overloaded);
    let details = json!([retry_info("5s")]);
    passes(503, json!({ "details": details }), seconds(5.0), "server overloaded");
}

#[track_caller]
fn read(status: Option<u16>, body: &str, code: u16, message: &str) {
    let report = Report::read(status, body.as_bytes());
    assert_eq!((report.status, report.message.as_str()), (code, message), "{body}");
}

#[test]
fn errors_are_read_whatever_they_are_wrapped_in() {
    read(Some(400), r#"{"error":{"code":7,"message":"m"}}"#, 400, "m");
    read(None, r#"{"error":{"code":429,"message":"m"}}"#, 429, "m");
    read(None, r#"[{"error":{"code":503,"message":"m"}}]"#, 503, "m");
    read(None, r#"{"code":503,"message":"m"}"#, 503, "m");
    read(None, r#"{"status":"RESOURCE_EXHAUSTED"}"#, 429, "");
    read(None, r#"{"code":-1,"status":"NOT_FOUND"}"#, 404, "");
    read(None, r#"{"code":99999999}"#, 500, "");
    read(None, "\"no\"", 500, "no");
    read(Some(502), r#"{"error":"bad gateway"}"#, 502, "bad gateway");
    read(Some(502), "<html>\n\n  bad </html>", 502, "<html> bad </html>");
    read(Some(500), "", 500, "");
    read(Some(500), "[]", 500, "");
    read(Some(500), r#"{"error":{"message":3,"details":"x"}}"#, 500, "");
}

#[test]
fn messages_are_cut() {
    for long in ["x".repeat(100_000), "é ".repeat(100_000)] {
        let report = Report::read(Some(500), long.as_bytes());
        assert!(report.message.len() < 700 && report.message.ends_with('…'));
    }
}
