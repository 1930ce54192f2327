//! The arguments of a call in the form that patterns of rules are compared with: JSON with sorted keys, and a NUL on
//! each side of each top-level property, so that a pattern can tell the beginning and the end of a property.

use std::fmt::Write as _;

use serde_json::Value;

pub(super) fn stable(args: &Value) -> String {
    let mut text = String::new();
    write(args, true, &mut text);
    text
}

fn write(value: &Value, top: bool, text: &mut String) {
    match value {
        Value::Object(object) => {
            let mut entries: Vec<_> = object.iter().collect();
            entries.sort_by_key(|(key, _)| *key);
            let mark = if top { "\0" } else { "" };
            text.push('{');
            for (at, (key, value)) in entries.into_iter().enumerate() {
                text.push_str(if at == 0 { "" } else { "," });
                let _ = write!(text, "{mark}{}:", Value::from(key.as_str()));
                write(value, false, text);
                text.push_str(mark);
            }
            text.push('}');
        }
        Value::Array(items) => {
            text.push('[');
            for (at, item) in items.iter().enumerate() {
                text.push_str(if at == 0 { "" } else { "," });
                write(item, false, text);
            }
            text.push(']');
        }
        other => {
            let _ = write!(text, "{other}");
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::stable;

    #[test]
    fn keys_are_sorted_and_those_at_the_top_are_marked() {
        let args = json!({ "b": [1, { "z": null, "y": "\"" }], "a": { "d": true, "c": 1.5 } });
        let expected =
            "{\0\"a\":{\"c\":1.5,\"d\":true}\0,\0\"b\":[1,{\"y\":\"\\\"\",\"z\":null}]\0}";
        assert_eq!(stable(&args), expected);
        assert_eq!(stable(&json!("x")), "\"x\"");
    }
}
