//! Schemas of servers' tools in a form that models' APIs accept: without references, not deep, not large.
//!
//! An API refuses the whole request because of one schema that it does not accept, and a schema with a circular
//! reference has no end.

use serde_json::{Map, Value, json};

/// Maximum depth of a schema. Each object and each list counts.
const MAX_SCHEMA_DEPTH: usize = 24;

/// Maximum number of values of a schema. A schema that refers to itself in several places grows fast.
const MAX_SCHEMA_VALUES: usize = 5000;

/// Keys whose values are objects of schemas by name.
const NAMED_SCHEMA_KEYS: [&str; 3] = ["properties", "patternProperties", "dependentSchemas"];

/// Keys whose values are data, not schemas.
const DATA_KEYS: [&str; 5] = ["enum", "const", "default", "examples", "required"];

/// Keys that have a meaning only for the schema as a document, or as targets of references. They are left out.
const LEFT_OUT: [&str; 6] = ["$schema", "$id", "$anchor", "$comment", "$defs", "definitions"];

/// Returns the schema of a tool's parameters for the model; `None` if it would be longer than `most` bytes.
pub(super) fn parameters(schema: &Map<String, Value>, most: usize) -> Option<Value> {
    let mut reader = SchemaFlattener { whole: schema, open: Vec::new(), left: MAX_SCHEMA_VALUES };
    let mut flat = reader.object(schema, 0);
    if flat.get("type").and_then(Value::as_str) != Some("object") {
        flat.insert("type".to_owned(), json!("object"));
    }
    let flat = Value::Object(flat);
    // Writing the schema to measure it is cheap: the number of its values is limited.
    (flat.to_string().len() <= most).then_some(flat)
}

struct SchemaFlattener<'a> {
    whole: &'a Map<String, Value>,
    /// References that are being followed.
    open: Vec<&'a str>,
    /// Number of values that the result may still get.
    left: usize,
}

impl<'a> SchemaFlattener<'a> {
    fn schema(&mut self, schema: &'a Value, depth: usize) -> Value {
        if self.left == 0 || depth > MAX_SCHEMA_DEPTH {
            return json!({});
        }
        self.left -= 1;
        match schema {
            Value::Object(schema) => Value::Object(self.object(schema, depth)),
            Value::Array(schemas) => {
                schemas.iter().map(|schema| self.schema(schema, depth + 1)).collect()
            }
            other => other.clone(),
        }
    }

    fn object(&mut self, schema: &'a Map<String, Value>, depth: usize) -> Map<String, Value> {
        let mut flat = match schema.get("$ref").and_then(Value::as_str) {
            Some(reference) => self.referred(reference, depth),
            None => Map::new(),
        };
        for (key, value) in schema {
            let key = key.as_str();
            let value = match value {
                _ if key == "$ref" || LEFT_OUT.contains(&key) => None,
                value if DATA_KEYS.contains(&key) => self.data(value, depth),
                Value::Object(named) if NAMED_SCHEMA_KEYS.contains(&key) => {
                    let named = named.iter();
                    let schemas =
                        named.map(|(name, it)| (name.clone(), self.schema(it, depth + 2)));
                    Some(Value::Object(schemas.collect()))
                }
                value => Some(self.schema(value, depth + 1)),
            };
            flat.extend(value.map(|value| (key.to_owned(), value)));
        }
        flat
    }

    /// Returns a value that is not a schema; `None` if it has too many values or is too deep.
    fn data(&mut self, value: &Value, depth: usize) -> Option<Value> {
        self.left = self.left.checked_sub(count(value))?;
        (depth + nesting(value) <= MAX_SCHEMA_DEPTH).then(|| value.clone())
    }

    /// Returns the schema to which a reference leads. If the reference is being followed already, or leads nowhere,
    /// returns an empty schema, which allows anything.
    fn referred(&mut self, reference: &'a str, depth: usize) -> Map<String, Value> {
        let found = self.find(reference).filter(|_| !self.open.contains(&reference));
        let Some(found) = found.filter(|_| depth <= MAX_SCHEMA_DEPTH && self.left > 0) else {
            return Map::new();
        };
        self.left -= 1;
        self.open.push(reference);
        let flat = self.object(found, depth);
        self.open.pop();
        flat
    }

    /// Returns the schema at a JSON pointer within the whole schema.
    fn find(&self, reference: &str) -> Option<&'a Map<String, Value>> {
        let pointer = reference.strip_prefix('#')?;
        if pointer.is_empty() {
            return Some(self.whole);
        }
        let mut steps = pointer.strip_prefix('/')?.split('/');
        let unescaped = |step: &str| step.replace("~1", "/").replace("~0", "~");
        let mut at = self.whole.get(&unescaped(steps.next()?))?;
        for step in steps {
            at = match at {
                Value::Object(fields) => fields.get(&unescaped(step))?,
                Value::Array(items) => items.get(step.parse::<usize>().ok()?)?,
                _ => return None,
            };
        }
        at.as_object()
    }
}

fn count(value: &Value) -> usize {
    match value {
        Value::Array(items) => 1 + items.iter().map(count).sum::<usize>(),
        Value::Object(fields) => 1 + fields.values().map(count).sum::<usize>(),
        _ => 1,
    }
}

fn nesting(value: &Value) -> usize {
    match value {
        Value::Array(items) => 1 + items.iter().map(nesting).max().unwrap_or_default(),
        Value::Object(fields) => 1 + fields.values().map(nesting).max().unwrap_or_default(),
        _ => 0,
    }
}

#[cfg(test)]
#[expect(clippy::needless_pass_by_value, reason = "a case reads better as a value")]
mod tests {
    use super::*;

    fn flat(schema: &Value) -> Option<Value> {
        parameters(schema.as_object().unwrap(), 32 << 10)
    }

    #[track_caller]
    fn check(schema: Value, expected: Value) {
        assert_eq!(flat(&schema), Some(expected));
    }

    #[test]
    fn what_is_plain_stays_as_it_is() {
        let schema = json!({
            "type": "object",
            "properties": {
                "z": { "type": "string", "enum": ["a", "b"] },
                "a": { "anyOf": [{ "type": "integer" }, { "type": "null" }], "default": null },
                "definitions": { "type": "array", "items": { "type": "number" } },
                "$ref": { "type": "string" }
            },
            "required": ["z"],
            "additionalProperties": false
        });
        assert_eq!(flat(&schema).unwrap().to_string(), schema.to_string());
    }

    #[test]
    fn a_tool_always_takes_an_object() {
        check(json!({}), json!({ "type": "object" }));
        check(json!({ "type": "string" }), json!({ "type": "object" }));
        check(json!({ "$schema": "x", "type": ["object", "null"] }), json!({ "type": "object" }));
    }

    #[test]
    fn references_are_followed() {
        check(
            json!({
                "type": "object",
                "properties": {
                    "at": { "$ref": "#/$defs/a~1b", "description": "here" },
                    "to": { "$ref": "#/properties/at" },
                    "no": { "$ref": "#/$defs/none" },
                    "far": { "$ref": "https://example.com/x" }
                },
                "$defs": { "a/b": { "type": "integer", "description": "there" } }
            }),
            json!({
                "type": "object",
                "properties": {
                    "at": { "type": "integer", "description": "here" },
                    "to": { "type": "integer", "description": "here" },
                    "no": {},
                    "far": {}
                }
            }),
        );
    }

    #[test]
    fn a_cycle_is_cut_where_it_begins_again() {
        let node = json!({
            "type": "object",
            "properties": { "next": { "$ref": "#/$defs/node" }, "value": { "type": "string" } }
        });
        check(
            json!({ "properties": { "root": { "$ref": "#/$defs/node" } }, "$defs": { "node": node } }),
            json!({
                "properties": { "root": {
                    "type": "object",
                    "properties": { "next": {}, "value": { "type": "string" } }
                } },
                "type": "object"
            }),
        );
        check(
            json!({ "type": "object", "properties": { "me": { "$ref": "#" } } }),
            json!({ "type": "object", "properties": {
                "me": { "type": "object", "properties": { "me": {} } }
            } }),
        );
        check(json!({ "$ref": "#" }), json!({ "type": "object" }));
    }

    #[test]
    fn what_grows_without_end_or_is_deep_is_cut() {
        // Each of the twenty definitions refers to all others.
        let names: Vec<_> = (0..20).map(|n| format!("d{n}")).collect();
        let properties: Map<_, _> = names
            .iter()
            .map(|name| (name.clone(), json!({ "$ref": format!("#/$defs/{name}") })))
            .collect();
        let all = json!({ "type": "object", "properties": properties });
        let defs: Map<_, _> = names.iter().map(|name| (name.clone(), all.clone())).collect();
        let grown = json!({ "type": "object", "properties": properties, "$defs": defs });
        let size = parameters(grown.as_object().unwrap(), usize::MAX).unwrap().to_string().len();
        assert!(size < 1 << 20, "{size}");

        let mut deep = json!({ "type": "string" });
        for _ in 0..100 {
            deep = json!({ "type": "object", "properties": { "x": deep } });
        }
        assert!(nesting(&flat(&deep).unwrap()) <= MAX_SCHEMA_DEPTH + 3);
    }

    #[test]
    fn what_is_too_large_is_not_told_at_all() {
        let words: Vec<_> = (0..4000).map(|n| format!("word number {n}")).collect();
        assert_eq!(flat(&json!({ "properties": { "x": { "enum": words } } })), None);
    }
}
