//! What each error means, and what people are told.

#![expect(clippy::needless_pass_by_value, reason = "the cases are shorter so")]

use std::time::Duration;

use serde_json::json;

use super::*;
use crate::model::provider::Provider;

fn tools() -> Vec<ToolDeclaration> {
    let tool = |name: &str, parameters| ToolDeclaration {
        name: name.to_owned(),
        description: String::new(),
        parameters,
    };
    vec![
        tool("glob", json!({"type": "object"})),
        tool("circle", json!({"properties": {"x": {"$ref": "#"}}})),
    ]
}

fn report(code: u16, error: &Value) -> Report {
    Report::read(Some(code), json!({ "error": error }).to_string().as_bytes())
}

fn meaning(code: u16, error: &Value) -> Trouble {
    let asked =
        RequestInfo { provider: Provider::Gemini, model: "gemini-x", url: "https://x.test" };
    classify(&report(code, error), asked, &tools())
}

/// An error that is final: its kind and a part of what it says.
#[track_caller]
fn check(code: u16, error: Value, kind: &str, says: &str) {
    let trouble = meaning(code, &error);
    if let Trouble::Failed(failure) = &trouble {
        assert_eq!(failure.advice, Advice::Never, "{failure:?}");
    }
    let shown = format!("{:?}", trouble.into_error());
    assert!(shown.starts_with(kind) && shown.contains(says), "{shown}");
    let message = error["message"].as_str().unwrap_or_default();
    assert!(shown.contains(message), "the server's words are shown: {shown}");
}

/// An error that may pass: what is advised, and the reason that is shown.
#[track_caller]
fn passes(code: u16, error: Value, advice: Advice, reason: &str) {
    let Trouble::Failed(failure) = meaning(code, &error) else { panic!("{error}") };
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

fn seconds(seconds: f64) -> Advice {
    Advice::After(Duration::from_secs_f64(seconds))
}

#[test]
fn keys_that_are_not_accepted_say_what_to_do() {
    let details = json!([info("API_KEY_INVALID", json!({}))]);
    check(400, json!({"message": "no", "details": details}), "NotAuthenticated", "tandem login");
    check(400, json!({"message": "API key not valid. Pass"}), "NotAuthenticated", "tandem login");
    check(401, json!({"message": "who"}), "NotAuthenticated", "tandem login");
    let details = json!([info("API_KEY_IP_ADDRESS_BLOCKED", json!({}))]);
    check(403, json!({"message": "no", "details": details}), "NotAuthenticated", "restrictions");
    let url = "https://console.example/enable";
    let details = json!([info("SERVICE_DISABLED", json!({"activationUrl": url}))]);
    check(403, json!({"message": "off", "details": details}), "NotAuthenticated", url);
    check(403, json!({"message": "no"}), "Rejected", "does not allow");
}

#[test]
fn refused_requests_say_why() {
    let message = "The input token count (9) exceeds the maximum number of tokens allowed (8).";
    check(400, json!({ "message": message }), "ContextTooLong", "/compress");
    check(413, json!({}), "ContextTooLong", "/compress");
    check(400, json!({"message": "maximum schema depth exceeded"}), "Rejected", "`circle`");
    let message = "tools[0].function_declarations[1].name: [FIELD_INVALID] x";
    check(400, json!({ "message": message }), "Rejected", "the tool `circle`");
    let message = "tools[0].function_declarations[99].name: [FIELD_INVALID] x";
    check(400, json!({ "message": message }), "Rejected", "did not accept");
    let message = "Please ensure that the number of function response parts is equal to the number \
                   of function call parts of the function call turn.";
    check(400, json!({ "message": message }), "Rejected", "fault of tandem");
    check(400, json!({"message": "User location is not supported"}), "Rejected", "where you are");
    check(400, json!({"message": "x"}), "Rejected", "did not accept");
    check(402, json!({"message": "x"}), "RateLimited", "no credit");
    check(418, json!({"message": "x"}), "Rejected", "HTTP 418");
    check(302, json!({}), "Rejected", "redirects");
}

#[test]
fn signatures_and_unknown_models_are_told_apart() {
    let message = json!({"message": "Corrupted thought signature."});
    assert!(refused_signatures(&report(400, &message)).is_some());
    let message =
        json!({"message": "Function call is missing a thought_signature in functionCall"});
    assert!(refused_signatures(&report(400, &message)).is_some());
    let message = json!({"message": "models/gemini-x is not found"});
    assert!(matches!(meaning(404, &message), Trouble::NoModel(_)));
    assert_eq!(refused_signatures(&report(404, &message)), None);
}

#[test]
fn rate_limits_say_how_long_they_last() {
    let limited = |details: Value| json!({"message": "m", "details": details});
    passes(429, json!({}), Advice::Unknown, "rate limited");
    passes(429, limited(json!([retry_info("34.07s")])), seconds(34.07), "rate limited");
    passes(429, limited(json!([retry_info("900ms")])), seconds(0.9), "rate limited");
    passes(429, json!({"message": "Please retry in 12.5s."}), seconds(12.5), "rate limited");
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
    passes(429, limited(json!([capacity])), Advice::Soon, "rate limited");
    // Longer than anybody waits: the policy gives up, and the message says when.
    let Trouble::Failed(failure) = meaning(429, &limited(json!([retry_info("7300s")]))) else {
        panic!("a rate limit is a failure")
    };
    assert!(failure.error.to_string().contains("in 3 h"), "{failure:?}");
}

#[test]
fn quotas_that_are_gone_are_final() {
    let daily = quota("GenerateRequestsPerDayPerProjectPerModel-FreeTier");
    let details = json!([daily, retry_info("3s")]);
    check(429, json!({"details": details}), "RateLimited", "daily quota (requests per day)");
    let message = "Quota exceeded for metric: x, limit: 0, model: y";
    check(429, json!({ "message": message }), "RateLimited", "not part of this key's plan");
    let message = "Quota exceeded, limit: 0.5";
    passes(429, json!({ "message": message }), Advice::Unknown, "rate limited");
}

#[test]
fn faults_of_the_server_pass() {
    passes(500, json!({"message": "x"}), Advice::Unknown, "the server had a fault (500)");
    passes(502, json!({}), Advice::Unknown, "the server had a fault (502)");
    passes(499, json!({}), Advice::Unknown, "the server had a fault (499)");
    passes(503, json!({}), Advice::Soon, "the server is overloaded");
    passes(
        500,
        json!({"message": "The model is overloaded."}),
        Advice::Soon,
        "the server is overloaded",
    );
    let details = json!([retry_info("5s")]);
    passes(503, json!({ "details": details }), seconds(5.0), "the server is overloaded");
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
