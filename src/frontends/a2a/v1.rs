//! Version 1.0 as a projection of 0.3: the one place that knows how the two differ.
//!
//! <https://a2a-protocol.org/v1.0.0/specification>, in its JSON form (section 5.5).

use serde_json::{Map, Value, json};

use tandem_wire::a2a::Error;

/// An event of a stream, in its wrapper.
pub(super) fn item(event: Value) -> Value {
    let wrapper = match event.get("kind").and_then(Value::as_str) {
        Some("task") => "task",
        Some("message") => "message",
        Some("artifact-update") => "artifactUpdate",
        _ => "statusUpdate",
    };
    Value::Object(Map::from_iter([(wrapper.to_owned(), object(event))]))
}

/// A task, message, update or artifact.
pub(super) fn object(value: Value) -> Value {
    let Value::Object(object) = value else { return value };
    let fields = object.into_iter().filter_map(|(name, value)| {
        let value = match name.as_str() {
            // What it is is said by the wrapper, and the end of a stream by its end.
            "kind" | "final" => return None,
            "status" => status(value),
            "history" | "artifacts" => each(value, self::object),
            "artifact" => self::object(value),
            "parts" => each(value, part),
            "role" => named("ROLE_", &value),
            _ => value,
        };
        Some((name, value))
    });
    Value::Object(fields.collect())
}

fn status(value: Value) -> Value {
    let Value::Object(status) = value else { return value };
    let fields = status.into_iter().map(|(name, value)| {
        let value = match name.as_str() {
            "state" => named("TASK_STATE_", &value),
            "message" => object(value),
            _ => value,
        };
        (name, value)
    });
    Value::Object(fields.collect())
}

fn part(value: Value) -> Value {
    let Value::Object(mut part) = value else { return value };
    part.remove("kind");
    Value::Object(part)
}

fn each(value: Value, project: impl Fn(Value) -> Value) -> Value {
    match value {
        Value::Array(values) => values.into_iter().map(project).collect(),
        other => other,
    }
}

fn named(prefix: &str, value: &Value) -> Value {
    let name = value.as_str().unwrap_or("unspecified");
    Value::String(format!("{prefix}{}", name.replace('-', "_").to_uppercase()))
}

/// The state that a client names in a filter, in 0.3's words.
pub(super) fn state(name: &str) -> String {
    name.trim_start_matches("TASK_STATE_").to_lowercase().replace('_', "-")
}

/// An error, with what version 1.0 adds to A2A's own (section 9.5).
pub(super) fn error(error: Error) -> Error {
    let Some(reason) = error.reason() else { return error };
    let info = json!({
        "@type": "type.googleapis.com/google.rpc.ErrorInfo",
        "reason": reason,
        "domain": "a2a-protocol.org",
    });
    error.with(json!([info]))
}

/// A configuration for push notifications: flat.
pub(super) fn push_config(task: &str, config: &Value) -> Value {
    let mut flat = config.as_object().cloned().unwrap_or_default();
    flat.insert("taskId".to_owned(), json!(task));
    if let Some(authentication) = flat.get_mut("authentication").and_then(Value::as_object_mut)
        && let Some(schemes) = authentication.remove("schemes")
    {
        let scheme = schemes.get(0).cloned().unwrap_or_else(|| json!("Bearer"));
        authentication.insert("scheme".to_owned(), scheme);
    }
    Value::Object(flat)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_update_loses_its_discriminators_and_gets_a_wrapper() {
        let update = json!({
            "kind": "status-update", "taskId": "t", "contextId": "c", "final": true,
            "status": { "state": "input-required", "timestamp": "now", "message": {
                "kind": "message", "role": "agent", "messageId": "m",
                "parts": [{ "kind": "text", "text": "a" }, { "kind": "data", "data": { "kind": "x" } }],
            } },
            "metadata": { "kind": "stays" },
        });
        let expected = json!({ "statusUpdate": {
            "taskId": "t", "contextId": "c",
            "status": { "state": "TASK_STATE_INPUT_REQUIRED", "timestamp": "now", "message": {
                "role": "ROLE_AGENT", "messageId": "m",
                "parts": [{ "text": "a" }, { "data": { "kind": "x" } }],
            } },
            "metadata": { "kind": "stays" },
        } });
        assert_eq!(item(update), expected);
    }
}
