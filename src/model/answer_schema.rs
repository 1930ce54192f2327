//! Schema of an answer: the JSON that a prompt asks for, and the part of JSON Schema that each API takes.

use serde_json::{Map, Value, json};

use tandem_content::json_schema::{JsonSchema, subschemas};

/// Name of the schema in requests, which some APIs demand.
pub(super) const SCHEMA_NAME: &str = "answer";

/// Keywords that only inform, in every API.
const ANNOTATION_KEYWORDS: [&str; 2] = ["title", "description"];

/// JSON Schema that the last message of a turn fits.
#[derive(Debug, Clone, PartialEq)]
pub struct AnswerSchema(JsonSchema);

/// Part of JSON Schema that an API takes.
pub(super) struct SchemaDialect {
    keywords: &'static [&'static str],
    /// `true` if the whole must be an object, and each object must say `additionalProperties: false`.
    closed_objects: bool,
    /// `true` if all members of an object must be required.
    required_members: bool,
    /// `true` if a schema may lead to itself.
    recursion: bool,
}

/// `OpenAI`'s strict schemas, as its guide to structured outputs lists them.
pub(super) const OPENAI_STRICT_DIALECT: SchemaDialect = SchemaDialect {
    keywords: &[
        "type",
        "properties",
        "required",
        "additionalProperties",
        "items",
        "enum",
        "const",
        "anyOf",
        "$ref",
        "$defs",
        "definitions",
        "pattern",
        "format",
        "multipleOf",
        "maximum",
        "exclusiveMaximum",
        "minimum",
        "exclusiveMinimum",
        "minItems",
        "maxItems",
    ],
    closed_objects: true,
    required_members: true,
    recursion: true,
};

/// Schemas of Anthropic's structured outputs, as its guide lists them.
pub(super) const ANTHROPIC_DIALECT: SchemaDialect = SchemaDialect {
    keywords: &[
        "type",
        "properties",
        "required",
        "additionalProperties",
        "items",
        "enum",
        "const",
        "anyOf",
        "allOf",
        "$ref",
        "$defs",
        "definitions",
        "format",
        "default",
    ],
    closed_objects: true,
    required_members: false,
    recursion: false,
};

/// Schemas of `responseJsonSchema`, as the reference of the Gemini API lists them.
pub(super) const GEMINI_DIALECT: SchemaDialect = SchemaDialect {
    keywords: &[
        "type",
        "properties",
        "required",
        "additionalProperties",
        "items",
        "prefixItems",
        "minItems",
        "maxItems",
        "enum",
        "minimum",
        "maximum",
        "anyOf",
        "oneOf",
        "$ref",
        "$defs",
        "format",
    ],
    closed_objects: false,
    required_members: false,
    recursion: true,
};

impl AnswerSchema {
    /// Reads a schema. The error says, for people, which part is no schema or cannot be checked.
    pub fn new(schema: Value) -> Result<Self, String> {
        if !schema.is_object() {
            return Err("a schema of answers is a JSON object".to_owned());
        }
        JsonSchema::new(schema).map(Self)
    }

    /// Returns the schema as JSON.
    pub fn value(&self) -> &Value {
        self.0.value()
    }

    /// Reads the JSON of a message and checks it. The error lists the faults of the message.
    pub fn read(&self, message: &str) -> Result<Value, Vec<String>> {
        let json = serde_json::from_str(without_fence(message))
            .map_err(|error| vec![format!("the message is not JSON alone: {error}")])?;
        self.0.check(&json).map(|()| json)
    }

    /// Returns the schema for an API, if its dialect has all that the schema says.
    pub(super) fn in_dialect(&self, dialect: &SchemaDialect) -> Option<Value> {
        let sent = self.sent();
        let has_root = !dialect.closed_objects || sent["type"] == "object";
        let has_ends = dialect.recursion || !is_recursive(&sent);
        (has_root && has_ends && dialect.has(&sent)).then_some(sent)
    }

    /// Returns the schema as APIs take it, without `$schema` and `$id`.
    pub(super) fn sent(&self) -> Value {
        let mut schema = self.value().clone();
        if let Some(members) = schema.as_object_mut() {
            members.shift_remove("$schema");
            members.shift_remove("$id");
        }
        schema
    }

    /// Returns the format of `OpenAI`'s APIs. A schema is strict if all it says can be: the server then enforces it.
    pub(super) fn openai_format(&self) -> Map<String, Value> {
        let mut format = Map::new();
        format.insert("name".to_owned(), json!(SCHEMA_NAME));
        format
            .insert("strict".to_owned(), json!(self.in_dialect(&OPENAI_STRICT_DIALECT).is_some()));
        format.insert("schema".to_owned(), self.sent());
        format
    }
}

impl SchemaDialect {
    fn has(&self, schema: &Value) -> bool {
        let Value::Object(members) = schema else {
            // Every schema within a schema must be an object, except `additionalProperties: false`.
            return *schema == Value::Bool(false);
        };
        let is_known = |keyword: &String| {
            let keyword = keyword.as_str();
            self.keywords.contains(&keyword) || ANNOTATION_KEYWORDS.contains(&keyword)
        };
        members.keys().all(is_known)
            && self.has_object(members)
            && subschemas(members).all(|it| self.has(it))
    }

    /// Returns `true` if the dialect has what a schema says of the members of objects.
    fn has_object(&self, schema: &Map<String, Value>) -> bool {
        let names_object = |types: &Value| match types {
            Value::Array(types) => types.iter().any(|name| name == "object"),
            name => name == "object",
        };
        if !schema.get("type").is_some_and(names_object) && !schema.contains_key("properties") {
            return true;
        }
        let is_closed = schema.get("additionalProperties") == Some(&Value::Bool(false));
        let required = schema.get("required").and_then(Value::as_array);
        let is_required = |name: &String| {
            required.is_some_and(|required| required.iter().any(|it| it == name.as_str()))
        };
        let members = schema.get("properties").and_then(Value::as_object);
        let all_required = members.into_iter().flat_map(Map::keys).all(is_required);
        (is_closed || !self.closed_objects) && (all_required || !self.required_members)
    }
}

/// Returns `true` if a reference of a schema may lead to the schema around it. A reference to the whole schema always
/// does. Definitions that refer to definitions count, too, so that no graph has to be searched.
fn is_recursive(schema: &Value) -> bool {
    fn refers(schema: &Value) -> bool {
        let Value::Object(members) = schema else { return false };
        members.contains_key("$ref") || subschemas(members).any(refers)
    }
    fn has_whole(schema: &Value) -> bool {
        let Value::Object(members) = schema else { return false };
        let reference = members.get("$ref").and_then(Value::as_str);
        let leads_up = reference
            .is_some_and(|it| !it.starts_with("#/$defs/") && !it.starts_with("#/definitions/"));
        leads_up || subschemas(members).any(has_whole)
    }
    let definitions = ["$defs", "definitions"].into_iter().filter_map(|name| schema.get(name));
    let mut definitions = definitions.filter_map(Value::as_object).flat_map(Map::values);
    has_whole(schema) || definitions.any(refers)
}

/// Returns a message without the Markdown fence around all of it, which models add out of habit.
fn without_fence(message: &str) -> &str {
    let message = message.trim();
    let inner = message.strip_prefix("```").and_then(|rest| rest.strip_suffix("```"));
    let inner = inner.and_then(|inner| inner.split_once('\n'));
    // The word after the fence is the name of a language.
    match inner {
        Some((language, inner)) if language.trim().chars().all(char::is_alphanumeric) => inner,
        _ => message,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn schema(value: Value) -> AnswerSchema {
        AnswerSchema::new(value).unwrap()
    }

    #[test]
    fn a_message_is_json_alone_or_json_in_one_fence() {
        let schema = schema(json!({"type": "object", "required": ["a"]}));
        let expected = Ok(json!({"a": 1}));
        for message in
            ["{\"a\": 1}", " {\"a\":\n1}\n", "```json\n{\"a\": 1}\n```", "```\n{\"a\": 1}```"]
        {
            assert_eq!(schema.read(message), expected, "{message}");
        }
        for message in
            ["", "Here it is: {\"a\": 1}", "```json\n{\"a\": 1}\n``` So it is.", "{\"a\": 1} {}"]
        {
            let faults = schema.read(message).unwrap_err();
            assert!(faults[0].starts_with("the message is not JSON alone"), "{faults:?}");
        }
        assert_eq!(schema.read("{}"), Err(vec!["the value lacks `a`".to_owned()]));
    }

    #[test]
    fn a_schema_is_an_object() {
        assert!(AnswerSchema::new(json!(true)).is_err());
        assert!(AnswerSchema::new(json!({"type": 1})).is_err());
    }

    /// Checks which dialects have a schema: those of `OpenAI`, Anthropic and the Gemini API.
    #[track_caller]
    fn check(value: Value, expected: [bool; 3]) {
        let schema = schema(value);
        let found = [&OPENAI_STRICT_DIALECT, &ANTHROPIC_DIALECT, &GEMINI_DIALECT]
            .map(|it| schema.in_dialect(it).is_some());
        assert_eq!(found, expected, "{:?}", schema.value());
    }

    #[test]
    fn each_api_takes_a_part_of_json_schema() {
        let object = |member: Value, more: Value| {
            let mut object = json!({"$schema": "https://json-schema.org/draft/2020-12/schema", "type": "object",
                "properties": {"a": member}});
            object.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            object
        };
        let text = || json!({"type": "string", "description": "A text."});
        let strict = || json!({"required": ["a"], "additionalProperties": false});
        check(object(text(), strict()), [true, true, true]);
        check(object(text(), json!({"additionalProperties": false})), [false, true, true]);
        check(object(text(), json!({"required": ["a"]})), [false, false, true]);
        check(object(json!({"type": "number", "minimum": 1}), strict()), [true, false, true]);
        check(object(json!({"allOf": [text()]}), strict()), [false, true, false]);
        check(object(json!({"type": "string", "minLength": 1}), strict()), [false, false, false]);
        let inner = json!({"type": ["object", "null"], "properties": {"b": text()}});
        check(object(json!({"type": "array", "items": inner}), strict()), [false, false, true]);
        check(json!({"type": "array", "items": text()}), [false, false, true]);
    }

    #[test]
    fn anthropic_takes_no_schema_that_leads_to_itself() {
        let with = |a: Value, more: Value| {
            let closed = |a: &Value| {
                json!({"type": "object", "properties": {"a": a}, "required": ["a"],
                "additionalProperties": false})
            };
            let mut whole = closed(&a);
            whole["$defs"] = json!({"x": more});
            whole
        };
        let text = json!({"type": "string"});
        check(with(json!({"$ref": "#/$defs/x"}), text.clone()), [true, true, true]);
        check(with(json!({"$ref": "#"}), text), [true, false, true]);
        check(
            with(
                json!({"$ref": "#/$defs/x"}),
                json!({"type": "array", "items": {"$ref": "#/$defs/x"}}),
            ),
            [true, false, true],
        );
    }

    #[test]
    fn a_format_of_openai_is_strict_where_it_can_be() {
        let strict = json!({"type": "object", "properties": {}, "required": [], "additionalProperties": false});
        let format = |value: &Value| Value::Object(schema(value.clone()).openai_format());
        assert_eq!(format(&strict), json!({"name": "answer", "strict": true, "schema": strict}));
        assert_eq!(format(&json!({"not": {}}))["strict"], false);
    }
}
