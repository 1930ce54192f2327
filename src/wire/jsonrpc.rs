//! JSON-RPC 2.0 messages, <https://www.jsonrpc.org/specification>, read leniently and written strictly.
//!
//! A message is read without being copied: what nobody has asked for yet stays raw text.

use std::borrow::Cow;
use std::fmt;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;

/// What a peer sent: a call, or the answer to one.
#[derive(Debug)]
pub enum Message<'a> {
    /// A call.
    Request(Request<'a>),
    /// The answer to a call.
    Response(Response<'a>),
    /// An id alone: the answer of a peer whose JSON drops a result that is `undefined`, if there
    /// was a call with that id; else no message.
    Bare(u64, Invalid),
}

/// A call. Without an id it is carried out and not answered.
#[derive(Debug)]
pub struct Request<'a> {
    /// Whatever JSON the peer chose; its answer carries the very same.
    pub id: Option<Box<RawValue>>,
    /// What to do.
    pub method: Cow<'a, str>,
    /// With what.
    pub params: Params<'a>,
}

/// The parameters of a call, unread; `None` when absent or null.
#[derive(Debug, Clone, Copy)]
pub struct Params<'a>(pub Option<&'a RawValue>);

/// The answer to a call.
#[derive(Debug)]
pub struct Response<'a> {
    /// Of the call; `None` if it is no id of ours (those are integers from 0).
    pub id: Option<u64>,
    /// What came of it. `"error": null` beside a result is success: real peers send both.
    pub result: Result<&'a RawValue, Error>,
}

/// A line that is no message.
#[derive(Debug)]
pub struct Invalid {
    /// The id it has, if it has one.
    pub id: Option<Box<RawValue>>,
    /// What to answer.
    pub error: Error,
}

/// Why a call failed.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Error {
    /// One of the constants below, or the peer's own.
    pub code: i64,
    /// A short sentence.
    pub message: Cow<'static, str>,
    /// Particulars.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data: Option<ErrorData>,
}

/// The one shape of `error.data` that peers of ACP 0.0.9 read (acp-0.0.9.ts, `ErrorResponse`).
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ErrorData {
    /// What exactly went wrong, for a person.
    pub details: String,
}

impl Error {
    /// The line is not JSON.
    pub fn parse(details: impl fmt::Display) -> Self {
        Self::new(-32700, "Parse error", details)
    }

    /// The JSON is not a message.
    pub fn invalid_request(details: impl fmt::Display) -> Self {
        Self::new(-32600, "Invalid request", details)
    }

    /// Nobody handles this method.
    pub fn method_not_found(method: &str) -> Self {
        Self::new(-32601, "Method not found", method)
    }

    /// The parameters do not fit the method.
    pub fn invalid_params(details: impl fmt::Display) -> Self {
        Self::new(-32602, "Invalid params", details)
    }

    /// It could not be done.
    pub fn internal(details: impl fmt::Display) -> Self {
        Self::new(-32603, "Internal error", details)
    }

    /// Any other error.
    pub fn new(code: i64, message: &'static str, details: impl fmt::Display) -> Self {
        let data = Some(ErrorData { details: details.to_string() });
        Self { code, message: Cow::Borrowed(message), data }
    }

    /// Reads an error that a peer sent, whatever its shape.
    fn from_peer(raw: &RawValue) -> Self {
        #[derive(Deserialize)]
        struct Lenient {
            #[serde(default)]
            code: serde_json::Value,
            #[serde(default)]
            message: serde_json::Value,
            #[serde(default)]
            data: serde_json::Value,
        }
        let Ok(error) = serde_json::from_str::<Lenient>(raw.get()) else {
            return Self { code: 0, message: raw.get().to_owned().into(), data: None };
        };
        let text = |value: &serde_json::Value| match value.as_str() {
            Some(text) => text.to_owned(),
            None => value.to_string(),
        };
        let details = error.data.get("details").filter(|details| details.is_string());
        let details = text(details.unwrap_or(&error.data));
        let data = (!error.data.is_null()).then_some(ErrorData { details });
        Self { code: error.code.as_i64().unwrap_or(0), message: text(&error.message).into(), data }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.message, self.code)?;
        match &self.data {
            Some(data) => write!(f, ": {}", data.details),
            None => Ok(()),
        }
    }
}

impl std::error::Error for Error {}

/// Every field a message can have, unread. Which are there says what it is.
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

/// Tells `"result": null` from no result.
fn present<'de: 'a, 'a, D>(deserializer: D) -> Result<Option<&'a RawValue>, D::Error>
where
    D: Deserializer<'de>,
{
    <&RawValue>::deserialize(deserializer).map(Some)
}

impl<'a> Message<'a> {
    /// Reads one line. `jsonrpc` need not be there; unknown fields are passed over.
    pub fn read(line: &'a [u8]) -> Result<Self, Invalid> {
        let invalid = |error| Invalid { id: None, error };
        let text = std::str::from_utf8(line).map_err(|err| {
            let at = err.valid_up_to();
            invalid(Error::parse(format_args!(
                "the line is not UTF-8: byte {at} fits no character"
            )))
        })?;
        // Some programs begin what they write with a mark that says it is UTF-8.
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let wire = match serde_json::from_str::<Wire<'a>>(text) {
            Ok(wire) if text.trim_start().starts_with('{') => wire,
            // A struct is also read from an array of its fields; no message is one.
            Ok(_) => return Err(invalid(not_an_object(text))),
            Err(err) if err.is_data() && !text.trim_start().starts_with('{') => {
                return Err(invalid(not_an_object(text)));
            }
            Err(err) if err.is_data() => return Err(invalid(Error::invalid_request(err))),
            Err(err) => return Err(invalid(Error::parse(err))),
        };
        wire.message()
    }
}

/// Arrays and scalars: JSON, but no message. What follows the value may still not be JSON.
fn not_an_object(text: &str) -> Error {
    match serde_json::from_str::<serde::de::IgnoredAny>(text) {
        Err(err) => Error::parse(err),
        Ok(_) if text.trim_start().starts_with('[') => {
            Error::invalid_request("batches are not part of this protocol: send one message a line")
        }
        Ok(_) => Error::invalid_request("a message is a JSON object"),
    }
}

impl<'a> Wire<'a> {
    fn message(self) -> Result<Message<'a>, Invalid> {
        let invalid = |id: Option<&RawValue>, details| Invalid {
            id: id.map(ToOwned::to_owned),
            error: Error::invalid_request(details),
        };
        if let Some(method) = self.method {
            let Ok(method) = serde_json::from_str::<Name<'_>>(method.get()) else {
                return Err(invalid(self.id, "`method` must be a string"));
            };
            let id = self.id.map(ToOwned::to_owned);
            return Ok(Message::Request(Request {
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
                return match ours(self.id) {
                    Some(id) => Ok(Message::Bare(id, invalid)),
                    None => Err(invalid),
                };
            }
        };
        let id = ours(self.id);
        Ok(Message::Response(Response { id, result }))
    }
}

/// An id as our calls have it.
fn ours(id: Option<&RawValue>) -> Option<u64> {
    id.and_then(|id| id.get().parse().ok())
}

/// A string, borrowed unless it has escapes.
#[derive(Deserialize)]
struct Name<'a>(#[serde(borrow)] Cow<'a, str>);

impl Params<'_> {
    /// Reads the parameters. The error names the field.
    pub fn parse<T: DeserializeOwned>(self) -> Result<T, Error> {
        let Some(raw) = self.0 else {
            return Err(Error::invalid_params("this method needs `params`"));
        };
        // A struct would also be read from an array of its fields.
        if !raw.get().starts_with('{') {
            return Err(Error::invalid_params("`params` must be an object"));
        }
        serde_json::from_str(raw.get()).map_err(|err| {
            // Read again for the name of the field: to keep track of it takes time.
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
        let read = match Message::read(line.as_bytes()) {
            Ok(Message::Request(Request { id, method, params })) => {
                let raw = |raw: Option<&RawValue>| raw.map_or("-", RawValue::get).to_owned();
                format!("request {} {method} {}", raw(id.as_deref()), raw(params.0))
            }
            Ok(Message::Response(Response { id, result })) => match result {
                Ok(result) => format!("response {id:?} {result}"),
                Err(error) => format!("response {id:?} failed: {error}"),
            },
            Ok(Message::Bare(id, Invalid { error, .. })) => format!("bare {id} {}", error.code),
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
        check(r#"{"id":3,"error":"no"}"#, r#"response Some(3) failed: "no" (0)"#);
        check(r#"{"id":"x","error":{}}"#, "response None failed: null (0)");
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
        assert!(matches!(Message::read(deep.as_bytes()), Ok(Message::Request(_))));
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
            Params(Some(raw)).parse::<Outer>().unwrap_err().data.unwrap().details
        };
        assert!(details("{}").contains("`chunks`"), "{}", details("{}"));
        assert!(details(r#"{"chunks":[{"text":5}]}"#).starts_with("`chunks[0].text`"));
    }
}
