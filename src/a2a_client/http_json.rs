//! Calls over HTTP+JSON (1.0, section 11): the address of each call, and the errors in answers.

use reqwest::Url;

use super::http::{RequestFailure, words};
use super::outgoing::CallParams;
use tandem_wire::a2a::{Fields, Method, MethodAddress, ProtocolVersion, RpcStatus, Verb, error};

/// Media types of answers: the type of a stream, the binding's own type (section 14.1.1), and the type that section
/// 11.1 names.
pub(super) const ANSWER_TYPES: &str = "text/event-stream, application/a2a+json, application/json";

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
    pub(super) fn new(base: &Url, method: Method, params: &CallParams) -> Option<Self> {
        let MethodAddress { verb, path } = method.address()?;
        // Such a path also has parameters other than `id`.
        if path.contains("{taskId}") {
            return None;
        }
        // The path has all parameters of a call about a task.
        let (id, body) = match params {
            CallParams::Task(params) => (&*params.id, "{}".to_owned()),
            CallParams::Message(_) => ("", params.json(ProtocolVersion::V1).ok()?.get().to_owned()),
        };
        let segments = path.split('/').skip(1).map(|segment| segment.replace("{id}", id));
        let mut url = base.clone();
        if let Ok(mut path) = url.path_segments_mut() {
            path.pop_if_empty().extend(segments);
        }
        let (verb, body) = match verb {
            Verb::Post => (reqwest::Method::POST, Some(body)),
            Verb::Get => (reqwest::Method::GET, None),
            Verb::Delete => return None,
        };
        Some(Self { verb, url, body })
    }
}

/// Returns the failure that a body tells of, if any. `http` is the status of the response, for a body that names none.
pub(super) fn failure_in(body: &Fields, http: u16) -> Option<RequestFailure> {
    let status = RpcStatus::from(body.object("error")?);
    let message = words(&status.message);
    if status.is_unsupported() {
        return Some(RequestFailure::Rpc { code: error::UNSUPPORTED_OPERATION, message });
    }
    let message = if message.is_empty() { message } else { format!(": {message}") };
    let code = if status.code == 0 { http } else { status.code };
    Some(RequestFailure::Status(code, message))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[track_caller]
    fn check(method: Method, id: &str, expected: &str) {
        for base in ["https://h.test/v1", "https://h.test/v1/"] {
            let params = CallParams::of_task(id, None);
            let request = CallRequest::new(&Url::parse(base).unwrap(), method, &params).unwrap();
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
            assert_eq!(CallRequest::new(&url, method, &CallParams::of_task("c.1", None)), None);
        }
        // An id that an agent has made up leads to no other address.
        check(Method::Get, "a/../b?c#d", "GET https://h.test/v1/tasks/a%2F..%2Fb%3Fc%23d");
        check(Method::Cancel, "..", "POST https://h.test/v1/tasks/..:cancel");
    }

    #[test]
    fn an_error_says_its_status_and_what_is_not_supported() {
        let read = |body: Value, http| failure_in(&Fields::from(body), http);
        let error = |details: Value| json!({ "error": { "code": 400, "message": "no", "details": details } });
        let plain = RequestFailure::Status(400, ": no".to_owned());
        assert_eq!(read(error(json!([])), 500), Some(plain));
        let unsupported = error(json!([{ "reason": "UNSUPPORTED_OPERATION" }]));
        let expected = RequestFailure::Rpc { code: -32004, message: "no".to_owned() };
        assert_eq!(read(unsupported, 400), Some(expected));
        let bare = RequestFailure::Status(503, String::new());
        assert_eq!(read(json!({ "error": {} }), 503), Some(bare));
        assert_eq!(read(json!({ "task": {} }), 200), None);
    }
}
