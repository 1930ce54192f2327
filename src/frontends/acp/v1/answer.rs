//! Answers to an editor's requests, and their errors.

use serde::Serialize;

use tandem_agent::session::{Millis, ModelError, explain_error};
use tandem_content::visible::visible_prose;
use tandem_wire::jsonrpc::Error;
use tandem_wire::rpc::Responder;

/// Error code for missing credentials.
pub(super) const AUTH_REQUIRED: i64 = -32000;

/// Error code for a session that does not exist.
const NOT_FOUND: i64 = -32002;

/// Answers a request. The message of an error includes the details, because many clients show nothing else.
pub(super) fn answer(responder: Responder, result: Result<impl Serialize, Error>) {
    responder.send(result.map_err(Error::reasoned));
}

/// Returns the error for a session that does not exist, or that the client may not know of.
pub(super) fn not_found(id: &str) -> Error {
    Error::detailed(NOT_FOUND, "Session not found", format_args!("there is no session `{id}`"))
}

/// Returns the error for a model that does not answer.
pub(super) fn model_error(error: &ModelError) -> Error {
    let why = explain_error(error);
    let why = visible_prose(&why);
    match error {
        ModelError::NotAuthenticated(_) => {
            Error::detailed(AUTH_REQUIRED, "Authentication required", why)
        }
        _ => Error::internal(why),
    }
}

/// Returns a time in the format of ISO 8601, with milliseconds.
pub(super) fn timestamp(at: Millis) -> String {
    let at = jiff::Timestamp::from_millisecond(at).unwrap_or_default();
    format!("{at:.3}")
}
