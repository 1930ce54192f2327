//! JSON Schemas for servers that compile them to a grammar, and understand only the simplest.

use serde_json::{Map, Value, json};

/// Maximum number of schema nodes: references can expand without end.
const MAX_SCHEMA_NODES: usize = 1000;
/// Maximum depth of a schema.
const MAX_SCHEMA_DEPTH: usize = 24;

/// Fields of a schema that stay unchanged.
const KEPT_KEYS: &[&str] = &["type", "description", "enum", "required", "minimum", "maximum"];

/// Returns the schema without references, alternatives and patterns. The result allows more arguments than the schema
/// does; the tool checks its arguments itself.
pub(crate) fn simple(schema: &Value) -> Value {
    let mut simplifier = Simplifier { root: schema, left: MAX_SCHEMA_NODES, followed: Vec::new() };
    let simple = simplifier.simplify(schema, 0);
    match simple {
        Value::Object(mut simple) => {
            simple.entry("type").or_insert_with(|| json!("object"));
            if simple["type"] == "object" {
                simple.entry("properties").or_insert_with(|| json!({}));
            }
            simple.into()
        }
        _ => json!({ "type": "object", "properties": {} }),
    }
}

struct Simplifier<'a> {
    root: &'a Value,
    left: usize,
    /// References that are being followed. A reference to one of these is circular, and is not followed again.
    followed: Vec<String>,
}

impl Simplifier<'_> {
    fn simplify(&mut self, schema: &Value, depth: usize) -> Value {
        let Some(object) = schema.as_object().filter(|_| depth < MAX_SCHEMA_DEPTH && self.left > 0)
        else {
            return json!({});
        };
        self.left -= 1;
        if let Some(target) = object.get("$ref").and_then(Value::as_str) {
            return self.follow(target, depth);
        }
        let mut simple = Map::new();
        for field in KEPT_KEYS {
            if let Some(value) = object.get(*field) {
                simple.insert((*field).to_owned(), value.clone());
            }
        }
        if let Some(only) = object.get("const") {
            simple.insert("enum".to_owned(), json!([only]));
        }
        if let Some(Value::Array(types)) = object.get("type") {
            simple.shift_remove("type");
            simple.extend(
                types.iter().find(|it| *it != "null").map(|it| ("type".to_owned(), it.clone())),
            );
        }
        if let Some(Value::Object(properties)) = object.get("properties") {
            let properties = properties.iter();
            let properties =
                properties.map(|(name, it)| (name.clone(), self.simplify(it, depth + 1)));
            simple.insert("properties".to_owned(), properties.collect::<Map<_, _>>().into());
        }
        if let Some(items) = object.get("items") {
            simple.insert("items".to_owned(), self.simplify(items, depth + 1));
        }
        self.merge_alternatives(object, &mut simple, depth);
        simple.into()
    }

    fn follow(&mut self, target: &str, depth: usize) -> Value {
        let root = self.root;
        let found = target.strip_prefix('#').and_then(|pointer| root.pointer(pointer));
        let Some(found) = found.filter(|_| !self.followed.iter().any(|it| it == target)) else {
            return json!({});
        };
        self.followed.push(target.to_owned());
        let simple = self.simplify(found, depth + 1);
        self.followed.pop();
        simple
    }

    /// Merges the first alternative that is not null, and all parts of `allOf`.
    fn merge_alternatives(
        &mut self,
        object: &Map<String, Value>,
        simple: &mut Map<String, Value>,
        depth: usize,
    ) {
        for field in ["anyOf", "oneOf", "allOf"] {
            let Some(Value::Array(alternatives)) = object.get(field) else { continue };
            let some = alternatives.iter().filter(|it| it.get("type") != Some(&json!("null")));
            let taken = if field == "allOf" { usize::MAX } else { 1 };
            for alternative in some.take(taken) {
                let Value::Object(fields) = self.simplify(alternative, depth + 1) else { continue };
                for (name, value) in fields {
                    merge(simple, name, value);
                }
            }
        }
    }
}

/// Adds a field; objects and lists of both are joined.
fn merge(simple: &mut Map<String, Value>, name: String, value: Value) {
    match (simple.get_mut(&name), value) {
        (Some(Value::Object(known)), Value::Object(more)) => known.extend(more),
        (Some(Value::Array(known)), Value::Array(more)) => known.extend(more),
        (Some(_), _) => {}
        (None, value) => _ = simple.insert(name, value),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(schema: &Value, expected: &Value) {
        assert_eq!(simple(schema), *expected);
    }

    #[test]
    fn what_is_plain_stays_as_it_is() {
        let plain = json!({"type": "object", "properties": {
            "path": {"type": "string", "description": "Where."},
            "lines": {"type": "array", "items": {"type": "integer", "minimum": 1}},
            "mode": {"type": "string", "enum": ["a", "b"]},
        }, "required": ["path"]});
        check(&plain, &plain);
    }

    #[test]
    fn what_crashes_grammars_is_left_out() {
        check(
            &json!({"$schema": "x", "type": "object", "additionalProperties": false, "properties": {
                "a": {"type": "string", "pattern": "^a+$", "format": "uri", "minLength": 3},
                "b": {"type": ["null", "integer"]},
                "c": {"const": 1},
            }}),
            &json!({"type": "object", "properties": {
                "a": {"type": "string"}, "b": {"type": "integer"}, "c": {"enum": [1]},
            }}),
        );
    }

    #[test]
    fn references_are_followed_and_alternatives_decided() {
        check(
            &json!({"type": "object", "$defs": {"p": {"type": "string"}}, "properties": {
                "a": {"$ref": "#/$defs/p"},
                "b": {"anyOf": [{"type": "null"}, {"$ref": "#/$defs/p"}], "description": "B"},
                "c": {"$ref": "https://example.com/schema"},
                "d": {"allOf": [{"properties": {"x": {"type": "string"}}}, {"properties": {"y": {}}}]},
            }}),
            &json!({"type": "object", "properties": {
                "a": {"type": "string"},
                "b": {"description": "B", "type": "string"},
                "c": {},
                "d": {"properties": {"x": {"type": "string"}, "y": {}}},
            }}),
        );
    }

    #[test]
    fn a_schema_that_refers_to_itself_ends() {
        let circle =
            json!({"type": "object", "properties": {"a": {"$ref": "#"}, "b": {"$ref": "#"}}});
        let once = json!({"type": "object", "properties": {"a": {}, "b": {}}});
        let twice = json!({"type": "object", "properties": {"a": once, "b": once}});
        check(&circle, &twice);
        check(&json!({"$ref": "#"}), &json!({"type": "object", "properties": {}}));
        let doubling = |n: usize| {
            json!({"properties": {
                "x": {"$ref": format!("#/$defs/{}", n + 1)}, "y": {"$ref": format!("#/$defs/{}", n + 1)},
            }})
        };
        let defs: Vec<_> = (0..64).map(doubling).collect();
        let huge = json!({"$ref": "#/$defs/0", "$defs": defs});
        assert!(simple(&huge).to_string().len() < 50_000);
        check(&json!([1]), &json!({"type": "object", "properties": {}}));
        check(&json!({}), &json!({"type": "object", "properties": {}}));
    }
}
