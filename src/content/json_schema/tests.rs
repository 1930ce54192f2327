//! Tests of the schema checker: documents that fit or do not fit, and faulty schemas.

#![expect(clippy::needless_pass_by_value, reason = "a case reads better as a value")]

use serde_json::{Value, json};

use super::*;

/// Checks a value against a schema; `expected` lists the faults.
#[track_caller]
fn check(schema: Value, value: Value, expected: &[&str]) {
    let schema = JsonSchema::new(schema).unwrap();
    let faults = schema.check(&value).err().unwrap_or_default();
    assert_eq!(faults, expected, "{value}");
}

#[track_caller]
fn refused(schema: Value, expected: &str) {
    assert_eq!(JsonSchema::new(schema).unwrap_err(), expected);
}

#[test]
fn a_value_that_fits_has_no_faults() {
    let schema = json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "A review",
        "type": "object",
        "properties": {
            "verdict": { "enum": ["good", "bad"] },
            "files": { "type": "array", "items": { "$ref": "#/$defs/file" } },
            "score": { "type": ["integer", "null"], "minimum": 0, "maximum": 10 },
        },
        "required": ["verdict", "files"],
        "additionalProperties": false,
        "$defs": { "file": { "type": "string", "pattern": "^[a-z./]+$" } },
    });
    check(schema.clone(), json!({"verdict": "good", "files": ["src/a.rs"], "score": 10}), &[]);
    check(schema.clone(), json!({"verdict": "bad", "files": [], "score": null}), &[]);
    let faulty = json!({"verdict": "so so", "files": ["a", "A B", 1], "score": 1.5, "more": 1});
    let expected = [
        "`/verdict` must be one of \"good\", \"bad\"",
        "`/files/1` must match the pattern ^[a-z./]+$",
        "`/files/2` must be of the type string, and is of the type number",
        "`/score` must be of the type integer or null, and is of the type number",
        "the value must not have a member `more`",
    ];
    check(schema.clone(), faulty, &expected);
    check(schema, json!({"files": []}), &["the value lacks `verdict`"]);
}

#[test]
fn of_alternatives_the_faults_of_the_closest_one_are_told() {
    let schema = json!({"anyOf": [
        {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a", "b"]},
        {"type": "object", "properties": {"a": {"type": "number"}}, "required": ["a"]},
    ]});
    check(schema.clone(), json!({"a": 1}), &[]);
    let expected = ["`/a` must be of the type number, and is of the type boolean"];
    check(schema, json!({"a": true}), &expected);
}

#[test]
fn equal_numbers_are_equal_however_they_are_written() {
    check(json!({"const": 1}), json!(1.0), &[]);
    check(json!({"type": "integer"}), json!(1.0), &[]);
    let twice = ["the value must not have an item twice"];
    check(json!({"uniqueItems": true}), json!([{"a": 1, "b": 2}, {"b": 2.0, "a": 1}]), &twice);
    check(json!({"multipleOf": 0.1}), json!(0.3), &[]);
    check(
        json!({"maximum": 9_007_199_254_740_992_u64}),
        json!(9_007_199_254_740_993_u64),
        &["the value must be at most 9007199254740992"],
    );
}

#[test]
fn no_more_faults_are_told_than_a_model_can_use() {
    let schema = JsonSchema::new(json!({"items": {"type": "string"}})).unwrap();
    let faults = schema.check(&json!(vec![1; 50])).unwrap_err();
    assert_eq!((faults.len(), &*faults[20]), (21, "and more faults"));
}

/// Returns the faults of a value, which together are short.
#[track_caller]
fn short_faults(schema: Value, value: Value) -> Vec<String> {
    let faults = JsonSchema::new(schema).unwrap().check(&value).unwrap_err();
    let chars: usize = faults.iter().map(|fault| fault.chars().count()).sum();
    assert!(chars < 8000, "{chars} characters");
    faults
}

#[test]
fn faults_are_short_however_long_names_and_values_are() {
    let ids: Vec<_> = (0..2000).map(|n| format!("id-{n:04}")).collect();
    let faults = short_faults(json!({"items": {"enum": ids}}), json!(vec!["x"; 30]));
    assert!(faults[0].starts_with("`/0` must be one of \"id-0000\", \"id-0001\", "), "{faults:?}");
    assert!(faults[0].ends_with("\", … (2000 values)"), "{faults:?}");
    assert_eq!(faults.len(), 21);
    let long = "x".repeat(10_000);
    short_faults(json!({"items": {"const": long}}), json!(vec![1; 30]));
    short_faults(json!({"items": {"pattern": long}}), json!(vec!["a"; 30]));
    let names: Vec<_> = (0..30).map(|n| format!("{n}{long}")).collect();
    short_faults(json!({"required": names}), json!({}));
    let members: serde_json::Map<_, _> = names.into_iter().map(|name| (name, json!(1))).collect();
    short_faults(json!({"additionalProperties": false}), Value::Object(members.clone()));
    short_faults(json!({"additionalProperties": {"type": "null"}}), Value::Object(members));
    short_faults(json!({"allOf": vec![json!({"items": {"const": long}}); 30]}), json!(vec![1; 30]));
}

#[test]
fn a_schema_that_is_none_is_refused_with_its_place() {
    refused(json!([]), "a schema is an object, `true` or `false`");
    refused(
        json!({"properties": {"a": 1}}),
        "`/properties/a`: a schema is an object, `true` or `false`",
    );
    refused(
        json!({"type": "text"}),
        "`/type`: must be one of null, boolean, object, array, number, string, integer, or a list of them",
    );
    refused(json!({"required": "a"}), "`/required`: must be a list of texts");
    refused(json!({"minLength": -1}), "`/minLength`: must be a whole number, and not negative");
    refused(json!({"items": [{}]}), "`/items`: a schema is an object, `true` or `false`");
    refused(
        json!({"$ref": "#/$defs/none"}),
        "`/$ref`: `#/$defs/none` leads nowhere in this schema, such as `#/$defs/NAME`",
    );
    refused(
        json!({"$ref": "https://example.org/schema"}),
        "`/$ref`: `https://example.org/schema` leads nowhere in this schema, such as `#/$defs/NAME`",
    );
    refused(
        json!({"pattern": "(?=a)"}),
        "`/pattern`: `(?=a)` is no regular expression that can be checked",
    );
    refused(
        json!({"unevaluatedProperties": false}),
        "`/unevaluatedProperties`: this keyword is not supported, so the answer could not be checked",
    );
    // The place that a reference leads to is read as well.
    refused(
        json!({"$ref": "#/x", "x": {"type": 1}}),
        "`/$ref/type`: must be one of null, boolean, object, array, number, string, integer, or a list of them",
    );
}

#[test]
fn a_schema_that_leads_to_itself_ends() {
    let tree = json!({"type": "object", "properties": {"next": {"$ref": "#"}}});
    check(
        tree,
        json!({"next": {"next": 1}}),
        &["`/next/next` must be of the type object, and is of the type number"],
    );
    let took = ["the check took too many steps: the schema leads to itself"];
    check(json!({"$ref": "#"}), json!(1), &took);
    check(json!({"anyOf": [{"not": {"$ref": "#"}}, {"not": {"$ref": "#"}}]}), json!(1), &took);
    let mut deep = json!({});
    for _ in 0..200 {
        deep = json!({ "not": deep });
    }
    assert!(JsonSchema::new(deep).unwrap_err().ends_with("inside one another"));
}

#[test]
fn the_regular_expressions_of_a_schema_have_limits_together() {
    let schema = |patterns: Vec<String>| -> Value {
        let schemas = patterns.iter().map(|pattern| json!({ "pattern": pattern }));
        json!({ "allOf": schemas.collect::<Vec<_>>() })
    };
    let short = |count| (0..count).map(|n| format!("^a{n}$")).collect();
    assert!(JsonSchema::new(schema(short(100))).is_ok());
    refused(
        schema(short(101)),
        "`/allOf/100/pattern`: the schema has more than 100 regular expressions",
    );
    // One of these may be compiled, and so many together may not.
    let large = |count| (0..count).map(|n| format!("^a{n}(\\w{{20}})$")).collect();
    assert!(JsonSchema::new(schema(large(1))).is_ok());
    let error = JsonSchema::new(schema(large(100))).unwrap_err();
    assert!(error.ends_with("is no regular expression that can be checked"), "{error}");
}
