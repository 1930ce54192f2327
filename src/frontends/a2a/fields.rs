//! Access to the fields of client JSON, in any of their spellings.

use serde_json::{Map, Value};

use tandem_wire::a2a::error;
use tandem_wire::jsonrpc::Error;

/// Returns a field, in any of its spellings. A null counts as missing.
pub(super) fn field<'a>(object: &'a Value, names: &[&str]) -> Option<&'a Value> {
    names.iter().filter_map(|name| object.get(name)).find(|value| !value.is_null())
}

/// Returns a string field that is not empty.
pub(super) fn text<'a>(object: &'a Value, names: &[&str]) -> Option<&'a str> {
    field(object, names)?.as_str().filter(|text| !text.is_empty())
}

/// Returns a field that is a count. Some clients write `1.0`.
pub(super) fn count(object: &Value, names: &[&str]) -> Result<Option<usize>, Error> {
    let Some(value) = field(object, names) else { return Ok(None) };
    let whole = value.as_f64().filter(|number| *number >= 0.0 && number.fract() == 0.0);
    let wrong = || error::invalid_params(format!("`{}` must be 0, 1, 2, ...", names[0]));
    // A number too large for the type counts as the maximum.
    whole
        .map(|number| format!("{number:.0}").parse().unwrap_or(usize::MAX))
        .ok_or_else(wrong)
        .map(Some)
}

/// Returns the fields of an object; null counts as an empty object.
pub(super) fn object(params: Value) -> Result<Map<String, Value>, Error> {
    match params {
        Value::Object(object) => Ok(object),
        Value::Null => Ok(Map::new()),
        _ => Err(error::invalid_params("`params` must be an object")),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_count_may_be_written_as_a_float() {
        let count = |value: Value| count(&json!({ "n": value }), &["n"]).map_err(|_| "wrong");
        assert_eq!(count(json!(2.0)), Ok(Some(2)));
        assert_eq!(count(json!(null)), Ok(None));
        assert_eq!(count(json!(1e300)), Ok(Some(usize::MAX)));
        assert_eq!(count(json!(-1)), Err("wrong"));
        assert_eq!(count(json!("1")), Err("wrong"));
    }
}
