//! Reading of a schema: its form, its references and its regular expressions.

use std::collections::{BTreeMap, HashMap, HashSet};

use regex::{Regex, RegexBuilder};
use serde_json::{Map, Value};

use super::keywords::{Form, TYPE_NAMES, form};
use super::resolve;

/// Maximum size of a compiled regular expression in bytes.
const MAX_PATTERN_BYTES: usize = 1 << 20;
/// Maximum size of all compiled regular expressions of a schema in bytes. Each may have the same share.
const MAX_PATTERNS_BYTES: usize = 16 << 20;
/// Maximum number of regular expressions of a schema.
const MAX_PATTERNS: usize = 100;
/// Maximum number of schemas inside one another.
const MAX_SCHEMA_DEPTH: usize = 100;

/// Checks the form of a schema. Returns its compiled regular expressions. The error names the place by a JSON Pointer.
pub(super) fn patterns(root: &Value) -> Result<HashMap<String, Regex>, String> {
    let mut reader = Reader { root, patterns: BTreeMap::new(), references: HashSet::new() };
    reader.schema(root, "", 0)?;
    let share = MAX_PATTERNS_BYTES / reader.patterns.len().max(1);
    let compiled = reader.patterns.into_iter().map(|(pattern, at)| {
        let compiled = RegexBuilder::new(pattern).size_limit(share.min(MAX_PATTERN_BYTES)).build();
        let compiled = compiled.map_err(|_| {
            fault(&at, &format!("`{pattern}` is no regular expression that can be checked"))
        })?;
        Ok((pattern.to_owned(), compiled))
    });
    compiled.collect()
}

struct Reader<'a> {
    root: &'a Value,
    /// Regular expressions, each with the first place that has it.
    patterns: BTreeMap<&'a str, String>,
    /// References that have been followed.
    references: HashSet<&'a str>,
}

impl<'a> Reader<'a> {
    fn schema(&mut self, schema: &'a Value, at: &str, depth: usize) -> Result<(), String> {
        if depth > MAX_SCHEMA_DEPTH {
            return Err(fault(at, "more than 100 schemas are inside one another"));
        }
        match schema {
            Value::Bool(_) => Ok(()),
            Value::Object(members) => members
                .iter()
                .try_for_each(|(keyword, value)| self.keyword(keyword, value, at, depth)),
            _ => Err(fault(at, "a schema is an object, `true` or `false`")),
        }
    }

    fn keyword(
        &mut self,
        keyword: &str,
        value: &'a Value,
        at: &str,
        depth: usize,
    ) -> Result<(), String> {
        // An id inside a document changes what the references below it mean.
        if keyword == "$id" && !at.is_empty() {
            return Err(fault(at, "an `$id` inside the schema is not supported; leave it out"));
        }
        let at = &format!("{at}/{keyword}");
        match form(keyword) {
            Form::Schema | Form::Schemas | Form::SchemaMap | Form::PatternMap => {
                self.inner(keyword, value, at, depth)
            }
            Form::Reference => self.reference(value, at, depth),
            Form::Pattern => match value.as_str() {
                Some(pattern) => self.pattern(pattern, at),
                None => Err(fault(at, "must be a text")),
            },
            Form::Unknown => {
                Err(fault(at, "this keyword is not supported, so the answer could not be checked"))
            }
            plain if has_form(plain, value) => Ok(()),
            plain => Err(fault(at, expectation(plain))),
        }
    }

    /// Reads the schemas that a keyword contains.
    fn inner(
        &mut self,
        keyword: &str,
        value: &'a Value,
        at: &str,
        depth: usize,
    ) -> Result<(), String> {
        match (form(keyword), value) {
            (Form::Schemas, Value::Array(list)) if !list.is_empty() => {}
            (Form::Schema, _) | (Form::SchemaMap | Form::PatternMap, Value::Object(_)) => {}
            (Form::Schemas, _) => return Err(fault(at, "must be a list of at least one schema")),
            _ => return Err(fault(at, "must be an object of schemas")),
        }
        if let (Form::PatternMap, Value::Object(map)) = (form(keyword), value) {
            map.keys().try_for_each(|pattern| self.pattern(pattern, at))?;
        }
        inside(keyword, value)
            .try_for_each(|(name, schema)| self.schema(schema, &format!("{at}{name}"), depth + 1))
    }

    fn reference(&mut self, value: &'a Value, at: &str, depth: usize) -> Result<(), String> {
        let Some(reference) = value.as_str() else { return Err(fault(at, "must be a text")) };
        let Some(schema) = resolve(self.root, reference) else {
            let why = format!("`{reference}` leads nowhere in this schema, such as `#/$defs/NAME`");
            return Err(fault(at, &why));
        };
        // A reference may lead to its own beginning, so each is followed once.
        if self.references.insert(reference) { self.schema(schema, at, depth + 1) } else { Ok(()) }
    }

    fn pattern(&mut self, pattern: &'a str, at: &str) -> Result<(), String> {
        self.patterns.entry(pattern).or_insert_with(|| at.to_owned());
        if self.patterns.len() > MAX_PATTERNS {
            return Err(fault(at, "the schema has more than 100 regular expressions"));
        }
        Ok(())
    }
}

/// Lists the schemas that are directly inside a schema, each with the place of its own keyword.
pub fn subschemas(schema: &Map<String, Value>) -> impl Iterator<Item = &Value> {
    schema.iter().flat_map(|(keyword, value)| inside(keyword, value)).map(|(_, schema)| schema)
}

/// Lists the schemas that a keyword contains, each with its place below the keyword.
fn inside<'a>(
    keyword: &str,
    value: &'a Value,
) -> Box<dyn Iterator<Item = (String, &'a Value)> + 'a> {
    match (form(keyword), value) {
        (Form::Schema, schema) => Box::new(std::iter::once((String::new(), schema))),
        (Form::Schemas, Value::Array(list)) => {
            Box::new(list.iter().enumerate().map(|(n, schema)| (format!("/{n}"), schema)))
        }
        (Form::SchemaMap | Form::PatternMap, Value::Object(map)) => {
            Box::new(map.iter().map(|(name, schema)| (format!("/{name}"), schema)))
        }
        _ => Box::new(std::iter::empty()),
    }
}

fn has_form(form: Form, value: &Value) -> bool {
    let texts =
        |value: &Value| value.as_array().is_some_and(|list| list.iter().all(Value::is_string));
    let is_type = |value: &Value| value.as_str().is_some_and(|name| TYPE_NAMES.contains(&name));
    match form {
        Form::Types => match value {
            Value::Array(names) => !names.is_empty() && names.iter().all(is_type),
            name => is_type(name),
        },
        Form::Number => value.is_number(),
        Form::PositiveNumber => value.as_f64().is_some_and(|number| number > 0.0),
        Form::Count => count(value).is_some(),
        Form::Names => texts(value),
        Form::NamesMap => value.as_object().is_some_and(|map| map.values().all(texts)),
        Form::Flag => value.is_boolean(),
        Form::Values => value.as_array().is_some_and(|list| !list.is_empty()),
        _ => true,
    }
}

fn expectation(form: Form) -> &'static str {
    match form {
        Form::Types => {
            "must be one of null, boolean, object, array, number, string, integer, or a list of them"
        }
        Form::Number => "must be a number",
        Form::PositiveNumber => "must be a number above 0",
        Form::Count => "must be a whole number, and not negative",
        Form::Names => "must be a list of texts",
        Form::NamesMap => "must be an object of lists of texts",
        Form::Flag => "must be `true` or `false`",
        _ => "must be a list of at least one value",
    }
}

/// Returns a number of things; `None` if the value is not such a number.
pub(super) fn count(value: &Value) -> Option<u64> {
    // `3.0` is a whole number, too.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked before")]
    let whole = |number: f64| {
        let is_count = number.fract() == 0.0 && (0.0..9e15).contains(&number);
        is_count.then_some(number as u64)
    };
    value.as_u64().or_else(|| value.as_f64().and_then(whole))
}

fn fault(at: &str, why: &str) -> String {
    if at.is_empty() { why.to_owned() } else { format!("`{at}`: {why}") }
}
