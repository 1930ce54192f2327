//! Calls over HTTP+JSON (1.0, section 11): the address of each call, and the errors in answers.

use reqwest::Url;
use serde_json::Value;

use tandem_wire::a2a::{Method, MethodAddress, Verb};

/// Media types of answers: the type of a stream, the binding's own type (section 14.1.1), and the type that section
/// 11.1 names.
pub(super) const ANSWER_TYPES: &str = "text/event-stream, application/a2a+json, application/json";

/// Code of JSON-RPC for an operation that the agent does not support.
const UNSUPPORTED_OPERATION: i64 = -32004;

/// Request that makes a call.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct CallRequest {
    pub(super) verb: reqwest::Method,
    pub(super) url: Url,
    pub(super) body: Option<String>,
}

impl CallRequest {
    /// Returns the request for a call with these parameters at an agent whose addresses are below `base`; `None` if the
    /// binding does not have the method, or if the method is one on push notifications: this client uses none.
    pub(super) fn new(base: &Url, method: Method, params: &Value) -> Option<Self> {
        let MethodAddress { verb, path } = method.address()?;
        // Such a path also has parameters other than `id`.
        if path.contains("{taskId}") {
            return None;
        }
        let id = params["id"].as_str().unwrap_or_default();
        let segments = path.split('/').skip(1).map(|segment| segment.replace("{id}", id));
        let mut url = base.clone();
        if let Ok(mut path) = url.path_segments_mut() {
            path.pop_if_empty().extend(segments);
        }
        // The path has the parameters of a call about a task.
        let body = if path.contains('{') { "{}".to_owned() } else { params.to_string() };
        let (verb, body) = match verb {
            Verb::Post => (reqwest::Method::POST, Some(body)),
            Verb::Get => (reqwest::Method::GET, None),
            Verb::Delete => return None,
        };
        Some(Self { verb, url, body })
    }
}

/// Error in a body, in the form of `google.rpc.Status`.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct CallError {
    /// Status of HTTP: the one in the body, or else that of the response.
    pub(super) status: u16,
    pub(super) message: String,
    /// Code of JSON-RPC for the same error, if this client treats the error in a way of its own.
    pub(super) code: Option<i64>,
}

impl CallError {
    /// Reads the error that a body contains. `status` is the status of the response.
    pub(super) fn read(body: &Value, status: u16) -> Option<Self> {
        let error = body.get("error").filter(|error| error.is_object())?;
        let details = error["details"].as_array().into_iter().flatten();
        let mut reasons = details.filter_map(|detail| detail["reason"].as_str());
        let is_unsupported = reasons.any(|reason| reason == "UNSUPPORTED_OPERATION");
        let own = error["code"].as_u64().and_then(|code| u16::try_from(code).ok());
        Some(Self {
            status: own.unwrap_or(status),
            message: error["message"].as_str().unwrap_or_default().to_owned(),
            code: is_unsupported.then_some(UNSUPPORTED_OPERATION),
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(method: Method, id: &str, expected: &str) {
        for base in ["https://h.test/v1", "https://h.test/v1/"] {
            let request =
                CallRequest::new(&Url::parse(base).unwrap(), method, &json!({ "id": id })).unwrap();
            assert_eq!(format!("{} {}", request.verb, request.url), expected);
        }
    }

    #[test]
    fn each_call_has_an_address() {
        check(Method::Send, "", "POST https://h.test/v1/message:send");
        check(Method::Stream, "", "POST https://h.test/v1/message:stream");
        check(Method::Get, "c.1", "GET https://h.test/v1/tasks/c.1");
        check(Method::Cancel, "c.1", "POST https://h.test/v1/tasks/c.1:cancel");
        check(Method::Subscribe, "c.1", "GET https://h.test/v1/tasks/c.1:subscribe");
        let url = Url::parse("https://h.test/v1").unwrap();
        for method in [Method::SetPush, Method::GetPush, Method::ListPush, Method::DeletePush] {
            assert_eq!(CallRequest::new(&url, method, &json!({ "taskId": "c.1" })), None);
        }
        // An id that an agent has made up leads to no other address.
        check(Method::Get, "a/../b?c#d", "GET https://h.test/v1/tasks/a%2F..%2Fb%3Fc%23d");
        check(Method::Cancel, "..", "POST https://h.test/v1/tasks/..:cancel");
    }

    #[test]
    fn an_error_says_its_status_and_what_is_not_supported() {
        let error = |details: Value| json!({ "error": { "code": 400, "message": "no", "details": details } });
        let plain = CallError { status: 400, message: "no".to_owned(), code: None };
        assert_eq!(CallError::read(&error(json!([])), 500), Some(plain));
        let unsupported = error(json!([{ "reason": "UNSUPPORTED_OPERATION" }]));
        let read = CallError::read(&unsupported, 400).unwrap();
        assert_eq!(read.code, Some(UNSUPPORTED_OPERATION));
        let bare = CallError::read(&json!({ "error": {} }), 503).unwrap();
        assert_eq!((bare.status, &*bare.message), (503, ""));
        assert_eq!(CallError::read(&json!({ "task": {} }), 200), None);
    }
}
