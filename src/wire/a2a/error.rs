//! Errors of A2A: the protocol's own codes (spec 8.2), and errors whose message holds all details.

use std::borrow::Cow;

use serde_json::json;

use crate::jsonrpc::Error;

/// Code: unknown task.
pub const TASK_NOT_FOUND: i64 = -32001;
/// Code: the task has ended.
pub const TASK_NOT_CANCELABLE: i64 = -32002;
/// Code: the agent sends no push notifications.
pub(crate) const PUSH_NOTIFICATION_NOT_SUPPORTED: i64 = -32003;
/// Code: the operation is not supported.
pub const UNSUPPORTED_OPERATION: i64 = -32004;
/// Code: the content type is not supported.
pub const CONTENT_TYPE_NOT_SUPPORTED: i64 = -32005;
/// Code: there is no card for authenticated clients.
pub const EXTENDED_CARD_NOT_CONFIGURED: i64 = -32007;
/// Code: the agent does not speak that version.
pub const VERSION_NOT_SUPPORTED: i64 = -32009;

/// Code: the caller has used up a quota. The code is tandem's own; the error's data says when to try again.
pub const QUOTA_EXCEEDED: i64 = -32029;

/// Code: the server cannot carry out the request now. The code is tandem's own; the error's data says when to try
/// again.
pub const UNAVAILABLE_CODE: i64 = -32030;

/// Time in seconds after which clients should send a request again that the server could not carry out.
const RETRY_SECONDS: u64 = 5;

/// Returns the error for a request that the server cannot carry out now, but perhaps later.
pub fn unavailable(why: &str) -> Error {
    let error = Error::new(UNAVAILABLE_CODE, format!("{why}; try again in {RETRY_SECONDS} s"));
    error.with(json!({ "retryAfterSeconds": RETRY_SECONDS }))
}

/// Returns the time in seconds after which the client may send the request again, if known.
pub fn retry_after(error: &Error) -> Option<u64> {
    error.data.as_ref()?.get("retryAfterSeconds")?.as_u64()
}

/// Returns the error for wrong parameters. The message holds the details, because clients of A2A do not show the data.
pub fn invalid_params(message: impl Into<Cow<'static, str>>) -> Error {
    Error::new(Error::INVALID_PARAMS, message)
}

/// Returns the error for an unknown task.
pub fn task_not_found(id: &str) -> Error {
    Error::new(TASK_NOT_FOUND, format!("Task not found: {id}"))
}
