//! JSON-RPC 2.0 messages, <https://www.jsonrpc.org/specification>. Messages are read leniently and written strictly.
//!
//! A message is read without a copy: its parameters or its result stay raw JSON text until they are parsed.

use std::borrow::Cow;
use std::fmt;
use std::io::Write as _;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;
use serde_json::{Value, json};

/// A message from a peer: a request, or the response to one.
#[derive(Debug)]
pub enum IncomingMessage<'a> {
    /// A request or a notification.
    Request(Request<'a>),
    /// The response to a request.
    Response(Response<'a>),
    /// An object with an id, but without a method, a result or an error. If a request with that id was sent, the object
    /// is the response of a peer whose JSON writer drops a result that is `undefined`; otherwise it is no message.
    Bare(u64, Invalid),
}

/// A request, or without an id a notification, which is carried out and not answered.
#[derive(Debug)]
pub struct Request<'a> {
    /// Id of the request: any JSON that the peer chose. The response repeats its text.
    pub id: Option<Box<RawValue>>,
    /// Name of the method.
    pub method: Cow<'a, str>,
    /// Parameters of the method.
    pub params: Params<'a>,
}

/// Unparsed parameters of a request; `None` if they are absent or null.
#[derive(Debug, Clone, Copy)]
pub struct Params<'a>(pub Option<&'a RawValue>);

/// The response to a request.
#[derive(Debug)]
pub struct Response<'a> {
    /// Id of the request; `None` if this side never sends such an id (the ids of this side are integers from 0).
    pub id: Option<u64>,
    /// Result or error. `"error": null` beside a result counts as success, because real peers send both.
    pub result: Result<&'a RawValue, Error>,
}

/// A line that is no message.
#[derive(Debug)]
pub struct Invalid {
    /// Id of the line, if it has one.
    pub id: Option<Box<RawValue>>,
    /// Error to answer with.
    pub error: Error,
}

/// Error object of a response.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Error {
    /// Code of the specification, or a code of the peer's own.
    pub code: i64,
    /// Short sentence for people.
    pub message: Cow<'static, str>,
    /// Additional data, of any shape. Errors with details have the shape `{"details": ...}`, which is the only shape
    /// that peers of ACP 0.0.9 read (`ErrorResponse` of its schema).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<Box<Value>>,
}

impl Error {
    /// Code: the message is not JSON.
    pub const PARSE_ERROR: i64 = -32700;
    /// Code: the message is JSON, but no request.
    pub const INVALID_REQUEST: i64 = -32600;
    /// Code: unknown method.
    pub const METHOD_NOT_FOUND: i64 = -32601;
    /// Code: the parameters do not fit the method.
    pub const INVALID_PARAMS: i64 = -32602;
    /// Code: the side that answers has failed.
    pub const INTERNAL_ERROR: i64 = -32603;
    /// Code: the request was cancelled.
    pub(crate) const REQUEST_CANCELLED: i64 = -32800;

    /// Returns the error for a line that is not JSON.
    pub fn parse(details: impl fmt::Display) -> Self {
        Self::detailed(Self::PARSE_ERROR, "Parse error", details)
    }

    /// Returns the error for JSON that is no message.
    pub(crate) fn invalid_request(details: impl fmt::Display) -> Self {
        Self::detailed(Self::INVALID_REQUEST, "Invalid request", details)
    }

    /// Returns the error for an unknown method.
    pub fn method_not_found(method: &str) -> Self {
        let details = format_args!("there is no method `{method}`");
        Self::detailed(Self::METHOD_NOT_FOUND, "Method not found", details)
    }

    /// Returns the error for parameters that do not fit the method.
    pub fn invalid_params(details: impl fmt::Display) -> Self {
        Self::detailed(Self::INVALID_PARAMS, "Invalid params", details)
    }

    /// Returns the error for a request that failed.
    pub fn internal(details: impl fmt::Display) -> Self {
        Self::detailed(Self::INTERNAL_ERROR, "Internal error", details)
    }

    /// Returns the error for a request that the peer has cancelled.
    pub fn cancelled() -> Self {
        Self::new(Self::REQUEST_CANCELLED, "Request cancelled")
    }

    /// Returns an error without data.
    pub fn new(code: i64, message: impl Into<Cow<'static, str>>) -> Self {
        Self { code, message: message.into(), data: None }
    }

    /// Returns an error with `{"details": ...}` as its data.
    pub fn detailed(code: i64, message: &'static str, details: impl fmt::Display) -> Self {
        Self::new(code, message).with(json!({ "details": details.to_string() }))
    }

    /// Sets the data of the error, which is for programs.
    #[must_use]
    pub fn with(mut self, data: Value) -> Self {
        self.data = Some(Box::new(data));
        self
    }

    /// Replaces the message by the details, if the error has any, because many clients show their user nothing but the
    /// message.
    #[must_use]
    pub fn reasoned(self) -> Self {
        match self.details().map(Cow::into_owned) {
            Some(details) => Self { message: details.into(), ..self },
            None => self,
        }
    }

    /// Returns the data as text for people: the text of `details` if there is one, a string without its quotes, any
    /// other data as JSON.
    pub fn details(&self) -> Option<Cow<'_, str>> {
        let data = self.data.as_deref()?;
        Some(match data.get("details").unwrap_or(data) {
            Value::String(text) => Cow::Borrowed(text),
            _ => Cow::Owned(data.to_string()),
        })
    }

    /// Reads an error that a peer sent, in any shape.
    fn from_peer(raw: &RawValue) -> Self {
        #[derive(Deserialize)]
        struct Lenient {
            #[serde(default)]
            code: Value,
            #[serde(default)]
            message: Value,
            #[serde(default)]
            data: Value,
        }
        let Ok(error) = serde_json::from_str::<Lenient>(raw.get()) else {
            return Self::new(0, raw.get().to_owned());
        };
        let message = match error.message {
            Value::String(message) => message,
            other => other.to_string(),
        };
        let read = Self::new(error.code.as_i64().unwrap_or(0), message);
        if error.data.is_null() { read } else { read.with(error.data) }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.message, self.code)?;
        match self.details() {
            Some(details) => write!(f, ": {details}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for Error {}

/// Envelope of a message to send: the whole message without its payload, which is the parameters, the result or the
/// error.
#[derive(Debug, Clone, Copy)]
pub struct Envelope<'a> {
    id: Option<Id<'a>>,
    method: Option<&'a str>,
    /// Name of the member that holds the payload.
    member: &'static str,
}

#[derive(Debug, Clone, Copy)]
enum Id<'a> {
    /// Id of a request of this side.
    Own(u64),
    /// JSON text of the id of a peer's request.
    Peer(&'a str),
}

impl<'a> Envelope<'a> {
    /// Returns the envelope of a request; the payload is its parameters.
    pub fn request(id: u64, method: &'a str) -> Self {
        Self { id: Some(Id::Own(id)), method: Some(method), member: "params" }
    }

    /// Returns the envelope of a notification; the payload is its parameters.
    pub fn notification(method: &'a str) -> Self {
        Self { id: None, method: Some(method), member: "params" }
    }

    /// Returns the envelope of a successful response; `id` is the JSON text of the request's id.
    pub fn result(id: &'a str) -> Self {
        Self { id: Some(Id::Peer(id)), method: None, member: "result" }
    }

    /// Returns the envelope of a failed response; `id` is the JSON text of the request's id, or
    /// `null` if that is unknown.
    pub fn error(id: &'a str) -> Self {
        Self { id: Some(Id::Peer(id)), method: None, member: "error" }
    }

    /// Returns the envelope of the end of a stream. This message is not part of JSON-RPC: A2A over a WebSocket has it
    /// (section 4 of the port document, which `docs/protocols.md` names).
    pub fn stream_end(id: &'a str) -> Self {
        Self { id: Some(Id::Peer(id)), method: None, member: "streamEnd" }
    }

    /// Appends the message to `out`, with this payload.
    pub fn write(self, out: &mut Vec<u8>, payload: &impl Serialize) {
        let before = out.len();
        self.open(out);
        // `to_writer` fails if the output fails, or if a map has keys that are no strings. Neither happens here: the
        // output is memory, and our types have only string keys.
        if let Err(err) = serde_json::to_writer(&mut *out, payload) {
            tracing::error!(%err, "a message cannot be written");
            return out.truncate(before);
        }
        out.push(b'}');
    }

    /// Appends the message to `out`, with a payload that is JSON text already.
    pub fn write_json(self, out: &mut Vec<u8>, payload: &[u8]) {
        self.open(out);
        out.extend_from_slice(payload);
        out.push(b'}');
    }

    /// Returns the message with a payload that is JSON text already.
    pub fn with_payload(self, payload: &[u8]) -> Vec<u8> {
        let names = 64 + self.method.map_or(0, str::len);
        let mut message = Vec::with_capacity(payload.len() + names);
        self.write_json(&mut message, payload);
        message
    }

    /// Appends the part of the message before the payload.
    fn open(self, out: &mut Vec<u8>) {
        out.extend_from_slice(br#"{"jsonrpc":"2.0""#);
        // Errors are ignored, because neither writing to memory nor writing a string as JSON can fail.
        let _ = match self.id {
            Some(Id::Own(id)) => write!(out, r#","id":{id}"#),
            Some(Id::Peer(id)) => write!(out, r#","id":{id}"#),
            None => Ok(()),
        };
        if let Some(method) = self.method {
            out.extend_from_slice(br#","method":"#);
            let _ = serde_json::to_writer(&mut *out, method);
        }
        let _ = write!(out, r#","{}":"#, self.member);
    }
}

/// Unparsed members of a message. The kind of the message depends on the members that are present.
#[derive(Deserialize)]
struct Wire<'a> {
    #[serde(borrow, default, deserialize_with = "present")]
    id: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    method: Option<&'a RawValue>,
    #[serde(borrow, default)]
    params: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    result: Option<&'a RawValue>,
    #[serde(borrow, default)]
    error: Option<&'a RawValue>,
}

/// Reads a member that is present, also if it is null: `"result": null` differs from no result.
fn present<'de: 'a, 'a, D>(deserializer: D) -> Result<Option<&'a RawValue>, D::Error>
where
    D: Deserializer<'de>,
{
    <&RawValue>::deserialize(deserializer).map(Some)
}

impl<'a> IncomingMessage<'a> {
    /// Reads a message from one line. The member `jsonrpc` may be missing, and unknown members are ignored.
    pub fn read(line: &'a [u8]) -> Result<Self, Invalid> {
        let invalid = |error| Invalid { id: None, error };
        let text = std::str::from_utf8(line).map_err(|err| {
            let at = err.valid_up_to();
            invalid(Error::parse(format_args!(
                "the line is not UTF-8: byte {at} fits no character"
            )))
        })?;
        // Some programs write a byte order mark before the first message.
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let wire = match serde_json::from_str::<Wire<'a>>(text) {
            Ok(wire) if text.trim_start().starts_with('{') => wire,
            // `serde` also reads a struct from an array of its fields, but a message is never an array.
            Ok(_) => return Err(invalid(not_an_object(text))),
            Err(err) if err.is_data() && !text.trim_start().starts_with('{') => {
                return Err(invalid(not_an_object(text)));
            }
            Err(err) if err.is_data() => return Err(invalid(Error::invalid_request(err))),
            Err(err) => return Err(invalid(not_json(&err))),
        };
        wire.message()
    }
}

/// Returns the error for a line that is no JSON.
fn not_json(err: &serde_json::Error) -> Error {
    Error::parse(format_args!("the line is not JSON: {err}"))
}

/// Returns the error for a line that is an array or a scalar, or the error for a line that is no JSON.
fn not_an_object(text: &str) -> Error {
    match serde_json::from_str::<serde::de::IgnoredAny>(text) {
        Err(err) => not_json(&err),
        Ok(_) if text.trim_start().starts_with('[') => {
            Error::invalid_request("batches are not part of this protocol: send one message a line")
        }
        Ok(_) => Error::invalid_request("a message must be a JSON object"),
    }
}

impl<'a> Wire<'a> {
    fn message(self) -> Result<IncomingMessage<'a>, Invalid> {
        let invalid = |id: Option<&RawValue>, details| Invalid {
            id: id.map(ToOwned::to_owned),
            error: Error::invalid_request(details),
        };
        if let Some(method) = self.method {
            let Ok(method) = serde_json::from_str::<Name<'_>>(method.get()) else {
                return Err(invalid(self.id, "`method` must be a string"));
            };
            let id = self.id.map(ToOwned::to_owned);
            return Ok(IncomingMessage::Request(Request {
                id,
                method: method.0,
                params: Params(self.params),
            }));
        }
        let result = match (self.error, self.result) {
            (Some(error), _) => Err(Error::from_peer(error)),
            (None, Some(result)) => Ok(result),
            (None, None) => {
                let details = "neither a request (`method`) nor a response (`result` or `error`)";
                let invalid = invalid(self.id, details);
                return match own_id(self.id) {
                    Some(id) => Ok(IncomingMessage::Bare(id, invalid)),
                    None => Err(invalid),
                };
            }
        };
        let id = own_id(self.id);
        Ok(IncomingMessage::Response(Response { id, result }))
    }
}

/// Returns the id as a number, if a request of this side can have it.
fn own_id(id: Option<&RawValue>) -> Option<u64> {
    id.and_then(|id| id.get().parse().ok())
}

/// A string that is borrowed unless it has escapes.
#[derive(Deserialize)]
struct Name<'a>(#[serde(borrow)] Cow<'a, str>);

impl Params<'_> {
    /// Parses the parameters. The error names the wrong field.
    pub fn parse<T: DeserializeOwned>(self) -> Result<T, Error> {
        let Some(raw) = self.0 else {
            return Err(Error::invalid_params("this method needs `params`"));
        };
        // `serde` would also read a struct from an array of its fields.
        if !raw.get().starts_with('{') {
            return Err(Error::invalid_params("`params` must be an object"));
        }
        serde_json::from_str(raw.get()).map_err(|err| {
            // The parameters are read again to find the name of the wrong field. The first read does not keep track of
            // the fields, because that takes time.
            let mut json = serde_json::Deserializer::from_str(raw.get());
            match serde_path_to_error::deserialize::<_, T>(&mut json) {
                Err(err) if err.path().to_string() != "." => {
                    Error::invalid_params(format_args!("`{}`: {}", err.path(), err.inner()))
                }
                _ => Error::invalid_params(err),
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(line: &str, expected: &str) {
        let read = match IncomingMessage::read(line.as_bytes()) {
            Ok(IncomingMessage::Request(Request { id, method, params })) => {
                let raw = |raw: Option<&RawValue>| raw.map_or("-", RawValue::get).to_owned();
                format!("request {} {method} {}", raw(id.as_deref()), raw(params.0))
            }
            Ok(IncomingMessage::Response(Response { id, result })) => match result {
                Ok(result) => format!("response {id:?} {result}"),
                Err(error) => format!("response {id:?} failed: {error}"),
            },
            Ok(IncomingMessage::Bare(id, Invalid { error, .. })) => {
                format!("bare {id} {}", error.code)
            }
            Err(Invalid { id, error }) => {
                let id = id.as_deref().map_or("-", RawValue::get);
                format!("invalid {id} {}", error.code)
            }
        };
        assert_eq!(read, expected, "{line}");
    }

    #[test]
    fn ids_are_kept_whatever_json_they_are() {
        check(r#"{"id":1,"method":"m"}"#, "request 1 m -");
        check(r#"{"id":"abc","method":"m","params":{"a":1}}"#, r#"request "abc" m {"a":1}"#);
        check(r#"{"id":null,"method":"m"}"#, "request null m -");
        check(r#"{"id":1.50,"method":"m"}"#, "request 1.50 m -");
        check(r#"{"id":{"a":1},"method":"m"}"#, r#"request {"a":1} m -"#);
        check(r#"{"method":"m","params":null}"#, "request - m -");
    }

    #[test]
    fn a_method_with_escapes_is_read() {
        check(r#"{"id":1,"method":"in\u0069t"}"#, "request 1 init -");
    }

    #[test]
    fn a_byte_order_mark_is_passed_over() {
        check("\u{feff}{\"id\":1,\"method\":\"m\"}", "request 1 m -");
        check("\u{feff} {\"id\":1,\"result\":null}", "response Some(1) null");
        check("\u{feff}[1]", "invalid - -32600");
        check("\u{feff}\u{feff}{}", "invalid - -32700");
        check("\u{feff}", "invalid - -32700");
    }

    #[test]
    fn a_null_error_beside_a_result_is_success() {
        check(r#"{"id":3,"result":{"id":1},"error":null}"#, r#"response Some(3) {"id":1}"#);
        check(r#"{"id":3,"result":null}"#, "response Some(3) null");
    }

    #[test]
    fn errors_are_read_whatever_their_shape() {
        check(r#"{"id":3,"error":{"code":1,"message":"no"}}"#, "response Some(3) failed: no (1)");
        check(
            r#"{"id":3,"error":{"code":1,"message":"no","data":"why"}}"#,
            "response Some(3) failed: no (1): why",
        );
        check(
            r#"{"id":3,"error":{"code":1,"message":"no","data":{"details":"why"}}}"#,
            "response Some(3) failed: no (1): why",
        );
        check(
            r#"{"id":3,"error":{"code":1,"message":"no","data":[1,{"details":2}]}}"#,
            r#"response Some(3) failed: no (1): [1,{"details":2}]"#,
        );
        check(
            r#"{"id":3,"error":{"code":1,"message":"no","data":{"details":2}}}"#,
            r#"response Some(3) failed: no (1): {"details":2}"#,
        );
        check(r#"{"id":3,"error":"no"}"#, r#"response Some(3) failed: "no" (0)"#);
        check(r#"{"id":"x","error":{}}"#, "response None failed: null (0)");
    }

    #[track_caller]
    fn check_data(data: &Value) {
        let line = json!({ "id": 3, "error": { "code": 1, "message": "no", "data": data } });
        let line = line.to_string();
        let Ok(IncomingMessage::Response(Response { result: Err(error), .. })) =
            IncomingMessage::read(line.as_bytes())
        else {
            panic!("{line}");
        };
        assert_eq!(error.data.as_deref(), Some(data));
        let mut written = Vec::new();
        Envelope::error("3").write(&mut written, &error);
        let expected = line.replacen('{', r#"{"jsonrpc":"2.0","#, 1);
        assert_eq!(String::from_utf8(written).unwrap(), expected);
    }

    #[test]
    fn data_of_any_shape_is_read_and_written() {
        check_data(&json!("text"));
        check_data(&json!(0));
        check_data(&json!(false));
        check_data(&json!([1, null, { "details": "x" }]));
        check_data(&json!({ "details": "x", "uri": "file:///x" }));
        check_data(&json!({ "details": { "nested": [] } }));
    }

    #[track_caller]
    fn check_written(envelope: Envelope<'_>, expected: &str) {
        let mut written = b"before ".to_vec();
        envelope.write(&mut written, &json!([1]));
        assert_eq!(written, format!("before {expected}").into_bytes());
        assert_eq!(String::from_utf8(envelope.with_payload(b"[1]")).unwrap(), expected);
    }

    #[test]
    fn an_envelope_holds_the_payload_last() {
        check_written(
            Envelope::request(7, "m"),
            r#"{"jsonrpc":"2.0","id":7,"method":"m","params":[1]}"#,
        );
        check_written(
            Envelope::notification("$/\"m"),
            r#"{"jsonrpc":"2.0","method":"$/\"m","params":[1]}"#,
        );
        check_written(
            Envelope::result("{\"a\": 1.50}"),
            r#"{"jsonrpc":"2.0","id":{"a": 1.50},"result":[1]}"#,
        );
        check_written(Envelope::error("null"), r#"{"jsonrpc":"2.0","id":null,"error":[1]}"#);
        check_written(Envelope::stream_end("1"), r#"{"jsonrpc":"2.0","id":1,"streamEnd":[1]}"#);
    }

    #[test]
    fn a_payload_that_cannot_be_written_leaves_nothing_behind() {
        let keyed_by_lists = std::collections::HashMap::from([(vec![1], 1)]);
        let mut written = b"before".to_vec();
        Envelope::result("1").write(&mut written, &keyed_by_lists);
        assert_eq!(written, b"before");
    }

    #[test]
    fn what_is_no_message_says_what_to_answer() {
        check("{", "invalid - -32700");
        check("{this is not json", "invalid - -32700");
        check("nul", "invalid - -32700");
        check("123", "invalid - -32600");
        check("null", "invalid - -32600");
        check("[]", "invalid - -32600");
        check("[,]", "invalid - -32700");
        check(r#"[{"id":1,"method":"m"}]"#, "invalid - -32600");
        check(r#"[1,"m",null,null,null]"#, "invalid - -32600");
        check("{}", "invalid - -32600");
        check(r#"{"id":7}"#, "bare 7 -32600");
        check(r#"{"id":"x"}"#, "invalid \"x\" -32600");
        check(r#"{"id":7,"method":5}"#, "invalid 7 -32600");
        check(r#"{"id":1,"method":"m"} x"#, "invalid - -32700");
    }

    #[test]
    fn nesting_deeper_than_any_stack_is_read_past() {
        let deep = format!(
            r#"{{"id":1,"method":"m","params":{}{}}}"#,
            "[".repeat(1_000_000),
            "]".repeat(1_000_000)
        );
        assert!(matches!(IncomingMessage::read(deep.as_bytes()), Ok(IncomingMessage::Request(_))));
    }

    #[test]
    fn bad_parameters_are_named() {
        #[derive(Debug, Deserialize)]
        #[expect(dead_code, reason = "only read")]
        struct Outer {
            chunks: Vec<Inner>,
        }
        #[derive(Debug, Deserialize)]
        #[expect(dead_code, reason = "only read")]
        struct Inner {
            text: String,
        }
        let details = |text: &str| {
            let raw: &RawValue = serde_json::from_str(text).unwrap();
            Params(Some(raw)).parse::<Outer>().unwrap_err().details().unwrap().into_owned()
        };
        assert!(details("{}").contains("`chunks`"), "{}", details("{}"));
        assert!(details(r#"{"chunks":[{"text":5}]}"#).starts_with("`chunks[0].text`"));
    }
}
