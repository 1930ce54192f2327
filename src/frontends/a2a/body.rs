//! Bodies of requests and responses.

use std::time::Duration;

use axum::body::to_bytes;
use axum::extract::Request;
use axum::http::StatusCode;
use axum::http::header::{CONTENT_TYPE, RETRY_AFTER};
use axum::response::{IntoResponse as _, Response};
use serde::Serialize;

use super::dialect::json;
use super::server::A2aServer;

/// Maximum time for a body to arrive.
const BODY_TIME: Duration = Duration::from_secs(30);

/// Reads the body of a request, if it is not too large.
pub(super) async fn body(server: &A2aServer, request: Request) -> Result<Vec<u8>, Response> {
    let most = server.options.body;
    let body = to_bytes(request.into_body(), most);
    match tokio::time::timeout(BODY_TIME, body).await {
        Ok(Ok(body)) => Ok(body.into()),
        Ok(Err(_)) => {
            let message = format!("a body has at most {most} bytes\n");
            Err((StatusCode::PAYLOAD_TOO_LARGE, message).into_response())
        }
        Err(_) => Err((StatusCode::REQUEST_TIMEOUT, "the body did not arrive\n").into_response()),
    }
}

/// Returns a response with a JSON body.
pub(super) fn json_response(status: StatusCode, body: &impl Serialize) -> Response {
    (status, [(CONTENT_TYPE, "application/json")], json(body)).into_response()
}

/// Body of the response to a request that was refused.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct RefusalBody<'a> {
    error: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    retry_after_seconds: Option<u64>,
}

/// Returns the response to a request that was refused.
pub(super) fn refused(status: StatusCode, why: &str) -> Response {
    json_response(status, &RefusalBody { error: why, retry_after_seconds: None })
}

/// Returns the response to a request that the client may repeat after `after` seconds.
pub(super) fn retry_later(status: StatusCode, why: &str, after: u64) -> Response {
    let body = RefusalBody { error: why, retry_after_seconds: Some(after) };
    let mut response = json_response(status, &body);
    response.headers_mut().insert(RETRY_AFTER, after.into());
    response
}
