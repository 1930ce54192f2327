//! Refusals of `OpenAI`'s APIs: their form and their words.

use serde_json::{Map, Value, json};

use crate::api_server::fields::{array, is_name, missing, unknown};
use crate::api_server::{Asked, Reply};

/// Maximum length of a name.
const MAX_NAME_CHARS: usize = 64;

/// An error that one of the APIs answers a request with.
pub(in crate::api_server) struct Refusal {
    status: u16,
    pub(in crate::api_server) message: String,
    param: Option<String>,
    code: Option<String>,
}

impl Refusal {
    pub(in crate::api_server) fn new(message: impl Into<String>, param: impl Into<String>) -> Self {
        Self { status: 400, message: message.into(), param: Some(param.into()), code: None }
    }

    pub(in crate::api_server) fn code(self, code: &str) -> Self {
        Self { code: Some(code.to_owned()), ..self }
    }

    pub(in crate::api_server) fn status(self, status: u16) -> Self {
        Self { status, ..self }
    }

    /// Returns the refusal of a field's value.
    pub(in crate::api_server) fn value(value: &Value, param: impl Into<String>) -> Self {
        let shown = value.as_str().map_or_else(|| value.to_string(), |text| format!("'{text}'"));
        Self::new(format!("Invalid value: {shown}."), param).code("invalid_value")
    }

    /// Returns the refusal of a field whose value has another type.
    pub(in crate::api_server) fn kind(wanted: &str, param: impl Into<String>) -> Self {
        let param = param.into();
        let message = format!("Invalid type for '{param}': expected {wanted}.");
        Self::new(message, param).code("invalid_type")
    }

    pub(in crate::api_server) fn reply(&self) -> Reply {
        let Self { status, message, param, code } = self;
        let error = json!({ "message": message, "type": "invalid_request_error", "param": param,
            "code": code });
        Reply::error(*status, json!({ "error": error }).to_string())
    }
}

/// Refuses a request without a key, in any of the headers that the API and its clouds have.
pub(in crate::api_server) fn keyed(asked: &Asked) -> Result<(), Refusal> {
    if ["authorization", "api-key"].iter().any(|header| asked.headers.contains_key(*header)) {
        return Ok(());
    }
    let message = "You didn't provide an API key. You need to provide your API key in an Authorization \
                   header using Bearer auth (i.e. Authorization: Bearer YOUR_KEY).";
    Err(Refusal { status: 401, param: None, ..Refusal::new(message, "") }.code("invalid_api_key"))
}

/// Returns an object, or the refusal of any other value.
pub(in crate::api_server) fn object<'a>(
    value: &'a Value,
    param: &str,
) -> Result<&'a Map<String, Value>, Refusal> {
    value.as_object().ok_or_else(|| Refusal::kind("an object", param))
}

/// Refuses a list without elements, and any other value.
pub(in crate::api_server) fn non_empty(list: &Value, param: &str) -> Result<(), Refusal> {
    if !array(list).is_empty() {
        return Ok(());
    }
    if !list.is_array() {
        return Err(Refusal::kind("an array", param));
    }
    let message = format!(
        "Invalid '{param}': empty array. Expected an array with minimum length 1, but got an empty \
         array instead."
    );
    Err(Refusal::new(message, param).code("empty_array"))
}

/// Refuses an object with a field that the API does not have.
pub(in crate::api_server) fn known(
    object: &Map<String, Value>,
    fields: &[&str],
    within: &str,
) -> Result<(), Refusal> {
    let Some(field) = unknown(object, fields) else { return Ok(()) };
    let param = format!("{within}{field}");
    let message = format!("Unknown parameter: '{param}'.");
    Err(Refusal::new(message, param).code("unknown_parameter"))
}

/// Refuses an object without a field, as servers do that validate by the types of the client.
pub(in crate::api_server) fn required(
    object: &Map<String, Value>,
    fields: &[&str],
    within: &str,
) -> Result<(), Refusal> {
    let Some(field) = missing(object, fields) else { return Ok(()) };
    let param = format!("{within}{field}");
    let message = format!("Missing required parameter: '{param}'.");
    Err(Refusal::new(message, param).code("missing_required_parameter"))
}

/// Refuses a text that is longer than `most`.
pub(in crate::api_server) fn longest(text: &str, most: usize, param: &str) -> Result<(), Refusal> {
    if text.len() <= most {
        return Ok(());
    }
    let message = format!(
        "Invalid '{param}': string too long. Expected a string with maximum length {most}, but got a \
         string with length {} instead.",
        text.len()
    );
    Err(Refusal::new(message, param).code("string_above_max_length"))
}

/// Refuses a text that is no name.
pub(in crate::api_server) fn pattern(text: &str, param: &str) -> Result<(), Refusal> {
    if is_name(text, MAX_NAME_CHARS) {
        return Ok(());
    }
    let message = format!(
        "Invalid '{param}': string does not match pattern. Expected a string that matches the pattern \
         '^[a-zA-Z0-9_-]+$'."
    );
    Err(Refusal::new(message, param).code("invalid_value"))
}
