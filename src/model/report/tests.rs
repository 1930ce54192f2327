//! Bodies of errors, in the forms of different servers.

use serde_json::json;

use super::*;

#[track_caller]
fn check(status: Option<u16>, body: &Value, expected: (u16, &str)) {
    let report = Report::read(status, body.to_string().as_bytes());
    assert_eq!((report.status, report.message.as_str()), expected, "{body}");
}

#[test]
fn the_message_is_found_wherever_it_is() {
    check(Some(400), &json!({"error": {"message": "a\n b", "code": "x"}}), (400, "a b"));
    check(Some(400), &json!({"error": "a"}), (400, "a"));
    check(Some(400), &json!({"message": "a", "object": "error"}), (400, "a"));
    check(Some(404), &json!({"detail": "a"}), (404, "a"));
    check(Some(422), &json!({"detail": [{"loc": ["body"], "msg": "a"}]}), (422, "a"));
    check(Some(400), &json!([{"error": {"message": "a"}}]), (400, "a"));
    check(Some(400), &json!({"message": {"detail": "a"}}), (400, "{\"detail\":\"a\"}"));
    check(Some(500), &json!({"error": null}), (500, ""));
    check(Some(400), &json!("a"), (400, "a"));
    check(Some(400), &json!(7), (400, ""));
    let gateway =
        json!({"error": {"message": "Provider error", "code": 400, "metadata": {"raw": "a"}}});
    check(Some(400), &gateway, (400, "Provider error: a"));
    assert_eq!(Report::read(Some(502), b"Bad\tGateway\xff").message, "Bad Gateway\u{fffd}");
}

#[test]
fn within_a_stream_the_status_is_found_in_the_error() {
    check(None, &json!({"error": {"message": "a", "code": 429}}), (429, "a"));
    check(None, &json!({"code": "402", "message": "a"}), (402, "a"));
    check(None, &json!({"message": "a", "type": "invalid_request_error"}), (400, "a"));
    check(None, &json!({"message": "a", "code": "data_residency_mismatch"}), (400, "a"));
    check(None, &json!({"message": "a", "code": "rate_limit_exceeded"}), (429, "a"));
    check(None, &json!({"message": "a", "code": 99_999}), (500, "a"));
    check(None, &json!("a"), (500, "a"));
}
