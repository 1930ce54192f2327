//! Errors of A2A 1.0, which programs understand by the reasons that `google.rpc` gives them (section 9.5), and the form
//! that errors have in the HTTP+JSON binding (section 11.6).

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::error;
use super::fields::Fields;
use crate::jsonrpc::Error;

/// Adds the error info of version 1.0 to the data of an error whose code is A2A's own (section 9.5).
#[must_use]
pub fn with_reason(error: Error) -> Error {
    let Some(reason) = reason(error.code) else { return error };
    error.with(json!([ErrorInfo::new(reason, None)]))
}

/// Returns the name of the reason for an error code, if the code is A2A's own.
fn reason(code: i64) -> Option<&'static str> {
    Some(match code {
        error::TASK_NOT_FOUND => "TASK_NOT_FOUND",
        error::TASK_NOT_CANCELABLE => "TASK_NOT_CANCELABLE",
        error::PUSH_NOTIFICATION_NOT_SUPPORTED => "PUSH_NOTIFICATION_NOT_SUPPORTED",
        error::UNSUPPORTED_OPERATION => "UNSUPPORTED_OPERATION",
        error::CONTENT_TYPE_NOT_SUPPORTED => "CONTENT_TYPE_NOT_SUPPORTED",
        error::EXTENDED_CARD_NOT_CONFIGURED => "EXTENDED_AGENT_CARD_NOT_CONFIGURED",
        error::VERSION_NOT_SUPPORTED => "VERSION_NOT_SUPPORTED",
        _ => return None,
    })
}

/// Object that tells programs the reason of an error: `google.rpc.ErrorInfo`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(from = "Fields")]
pub struct ErrorInfo {
    #[serde(rename = "@type")]
    kind: Cow<'static, str>,
    /// Name of the reason.
    pub reason: Cow<'static, str>,
    domain: Cow<'static, str>,
    /// Data of the error, as texts.
    #[serde(skip_serializing_if = "Option::is_none")]
    metadata: Option<Map<String, Value>>,
}

impl From<Fields> for ErrorInfo {
    fn from(mut info: Fields) -> Self {
        Self { reason: info.take_or_default("reason"), ..Self::default() }
    }
}

impl ErrorInfo {
    fn new(reason: &'static str, metadata: Option<Map<String, Value>>) -> Self {
        Self {
            kind: "type.googleapis.com/google.rpc.ErrorInfo".into(),
            reason: Cow::Borrowed(reason),
            domain: "a2a-protocol.org".into(),
            metadata,
        }
    }
}

/// Status of a failed request in the HTTP+JSON binding, in the body of the response: `google.rpc.Status` (sections 5.4
/// and 11.6).
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(from = "Fields")]
pub struct RpcStatus {
    /// Status of HTTP; 0 if the body of a peer names none.
    pub code: u16,
    status: Cow<'static, str>,
    /// Message for people.
    pub message: Cow<'static, str>,
    /// Reasons of the error.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub details: Vec<ErrorInfo>,
}

/// Body of the response to a failed request in the HTTP+JSON binding.
#[derive(Serialize)]
struct ErrorBody {
    error: RpcStatus,
}

impl From<Fields> for RpcStatus {
    fn from(mut status: Fields) -> Self {
        Self {
            code: status.take_or_default("code"),
            status: Cow::default(),
            message: status.take_or_default("message"),
            details: status.take_list("details"),
        }
    }
}

impl RpcStatus {
    /// Returns the status of a failed call.
    pub fn of(error: &Error) -> Self {
        let (code, status, other_reason) = match error.code {
            error::TASK_NOT_FOUND => (404, "NOT_FOUND", None),
            error::CONTENT_TYPE_NOT_SUPPORTED => (400, "INVALID_ARGUMENT", None),
            error::QUOTA_EXCEEDED => (429, "RESOURCE_EXHAUSTED", Some("QUOTA_EXCEEDED")),
            error::UNAVAILABLE_CODE => (503, "UNAVAILABLE", Some("UNAVAILABLE")),
            Error::METHOD_NOT_FOUND => (404, "NOT_FOUND", Some("METHOD_NOT_FOUND")),
            Error::INVALID_PARAMS => (400, "INVALID_ARGUMENT", Some("INVALID_PARAMS")),
            Error::PARSE_ERROR | Error::INVALID_REQUEST => {
                (400, "INVALID_ARGUMENT", Some("INVALID_REQUEST"))
            }
            code if reason(code).is_some() => (400, "FAILED_PRECONDITION", None),
            _ => (500, "INTERNAL", Some("INTERNAL_ERROR")),
        };
        // The metadata of an error info has only texts as values.
        let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        let texts = error.data.as_ref().and_then(|data| data.as_object()).map(|data| {
            data.iter().map(|(name, value)| (name.clone(), text(value).into())).collect()
        });
        let reason = reason(error.code).or(other_reason);
        let details = reason.map(|reason| ErrorInfo::new(reason, texts)).into_iter().collect();
        Self { code, status: status.into(), message: error.message.clone(), details }
    }

    /// Returns the status of a request that was refused before it became a call.
    pub fn refused(code: u16, message: String) -> Self {
        let status = match code {
            401 => "UNAUTHENTICATED",
            403 => "PERMISSION_DENIED",
            404 => "NOT_FOUND",
            405 => "UNIMPLEMENTED",
            408 => "DEADLINE_EXCEEDED",
            421 => "FAILED_PRECONDITION",
            429 => "RESOURCE_EXHAUSTED",
            503 => "UNAVAILABLE",
            500..=599 => "INTERNAL",
            _ => "INVALID_ARGUMENT",
        };
        Self { code, status: status.into(), message: message.into(), details: Vec::new() }
    }

    /// Returns `true` if the agent does not support the operation.
    pub fn is_unsupported(&self) -> bool {
        let unsupported = reason(error::UNSUPPORTED_OPERATION);
        self.details.iter().any(|info| unsupported == Some(&*info.reason))
    }

    /// Returns the body of the response.
    pub fn body(self) -> String {
        serde_json::to_string(&ErrorBody { error: self }).unwrap_or_default()
    }
}
