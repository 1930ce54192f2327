//! JSON-RPC envelopes of calls and of their failures.

use serde_json::Value;

use tandem_wire::a2a::error;
use tandem_wire::jsonrpc::{Envelope, Error, IncomingMessage};

/// Maximum length of a call's id in bytes; limited because each event of a stream repeats the id.
const LONGEST_ID: usize = 1000;

/// A call as it was received.
pub(super) struct ReceivedCall {
    /// Id of the call, as raw JSON.
    pub(super) id: String,
    pub(super) method: String,
    pub(super) params: Value,
}

/// A body that is no call.
pub(super) struct InvalidCall {
    /// Id of the response, as raw JSON; `null` if the body has no id.
    pub(super) id: String,
    pub(super) error: Error,
}

impl InvalidCall {
    fn new(id: impl Into<String>, error: Error) -> Self {
        Self { id: id.into(), error }
    }
}

/// Parses the envelope of a call.
pub(super) fn envelope(body: &[u8]) -> Result<ReceivedCall, InvalidCall> {
    let raw = |id: Option<&serde_json::value::RawValue>| {
        id.map_or_else(|| "null".to_owned(), |id| id.get().to_owned())
    };
    let request = match IncomingMessage::read(body) {
        Ok(IncomingMessage::Request(request)) => request,
        Ok(IncomingMessage::Response(_)) => {
            let error = Error::new(Error::INVALID_REQUEST, "Invalid request: `method` is missing");
            return Err(InvalidCall::new("null", error));
        }
        Ok(IncomingMessage::Bare(_, invalid)) | Err(invalid) => {
            let details = invalid.error.details().unwrap_or_default();
            let message = format!("{}: {details}", invalid.error.message);
            let error = Error::new(invalid.error.code, message);
            return Err(InvalidCall::new(raw(invalid.id.as_deref()), error));
        }
    };
    let id = raw(request.id.as_deref());
    if id.starts_with(['{', '[', 't', 'f']) {
        let error = Error::new(
            Error::INVALID_REQUEST,
            "Invalid request: `id` must be a string, a number or null",
        );
        return Err(InvalidCall::new("null", error));
    }
    if id.len() > LONGEST_ID {
        let message = format!("Invalid request: `id` has more than {LONGEST_ID} bytes");
        return Err(InvalidCall::new("null", Error::new(Error::INVALID_REQUEST, message)));
    }
    // `IncomingMessage` does not check `jsonrpc`, so the body is parsed for it once more.
    let is_2 = serde_json::from_slice::<ProtocolVersion>(body).is_ok_and(|it| it.jsonrpc == "2.0");
    if !is_2 {
        let error =
            Error::new(Error::INVALID_REQUEST, "Invalid request: `jsonrpc` must be \"2.0\"");
        return Err(InvalidCall { id, error });
    }
    let params = request.params.0.map_or(Ok(Value::Null), |raw| serde_json::from_str(raw.get()));
    match params {
        Ok(params) => Ok(ReceivedCall { id, method: request.method.into_owned(), params }),
        Err(err) => Err(InvalidCall { id, error: error::invalid_params(err.to_string()) }),
    }
}

#[derive(serde::Deserialize)]
struct ProtocolVersion {
    jsonrpc: String,
}

/// Returns the response to a request that failed.
pub(super) fn failure(id: &str, error: &Error) -> Vec<u8> {
    let mut response = Vec::new();
    Envelope::error(id).write(&mut response, error);
    response
}
