//! Fields of JSON, as the strict stand-ins read them.

use serde_json::{Map, Value};

/// Returns the first field of an object that is not in the list.
pub(super) fn unknown<'a>(object: &'a Map<String, Value>, fields: &[&str]) -> Option<&'a str> {
    object.keys().map(String::as_str).find(|field| !fields.contains(field))
}

/// Returns the first field of the list that an object lacks.
pub(super) fn missing<'a>(object: &Map<String, Value>, fields: &[&'a str]) -> Option<&'a str> {
    fields.iter().copied().find(|field| !object.contains_key(*field))
}

/// Returns the `type` of an object; empty if the object has none.
pub(super) fn kind(object: &Map<String, Value>) -> &str {
    text(object, "type")
}

/// Returns the text of a field; empty if the object has none.
pub(super) fn text<'a>(object: &'a Map<String, Value>, field: &str) -> &'a str {
    object.get(field).and_then(Value::as_str).unwrap_or_default()
}

/// Returns the value of a field; null if the object has none.
pub(super) fn field<'a>(object: &'a Map<String, Value>, name: &str) -> &'a Value {
    object.get(name).unwrap_or(&Value::Null)
}

/// Returns the elements of a list; none of any other value.
pub(super) fn array(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

/// Returns `true` for 1 to `longest` letters of `[A-Za-z0-9_-]`.
pub(super) fn is_name(text: &str, longest: usize) -> bool {
    let valid = |c: char| c.is_ascii_alphanumeric() || "_-".contains(c);
    !text.is_empty() && text.len() <= longest && text.chars().all(valid)
}

/// Returns the data of each event of a stream that is JSON.
pub(super) fn events(body: &[u8]) -> Vec<Value> {
    let text = String::from_utf8_lossy(body);
    let data = text.lines().filter_map(|line| line.strip_prefix("data: "));
    data.filter_map(|data| serde_json::from_str(data).ok()).collect()
}
