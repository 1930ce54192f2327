//! Checks of values.

use std::cmp::Ordering;
use std::collections::HashSet;

use serde_json::{Map, Number, Value};

use super::compile::count;
use super::{JsonSchema, MAX_TOLD_FAULTS, resolve};
use crate::shorten::ellipsis;

/// Maximum number of schemas that are applied inside one another.
const MAX_APPLIED_DEPTH: usize = 200;
/// Maximum number of schemas that are applied in one check: alternatives (`anyOf`,
/// `oneOf`) that contain themselves multiply.
const MAX_APPLIED_SCHEMAS: usize = 1_000_000;
/// Maximum number of characters of a fault's place, and of its reason.
const MAX_PLACE_CHARS: usize = 100;
const MAX_REASON_CHARS: usize = 250;
/// Maximum number of bytes of the values that a reason lists, unless the first value is longer.
const MAX_LISTED_BYTES: usize = 200;

/// One check of a value.
pub(super) struct Check<'a> {
    schema: &'a JsonSchema,
    applied: usize,
    depth: usize,
    /// `true` once a limit is reached: the value counts as faulty then.
    is_exhausted: bool,
}

/// The place of a value, as a JSON Pointer.
type Place<'a> = &'a str;

impl<'a> Check<'a> {
    pub(super) fn new(schema: &'a JsonSchema) -> Self {
        Self { schema, applied: 0, depth: 0, is_exhausted: false }
    }

    /// Returns the faults of a value.
    pub(super) fn faults(mut self, value: &Value) -> Vec<String> {
        let mut faults = self.apply(&self.schema.value, value, "");
        if self.is_exhausted {
            faults = vec!["the check took too many steps: the schema leads to itself".to_owned()];
        }
        faults
    }

    fn apply(&mut self, schema: &'a Value, value: &Value, at: Place<'_>) -> Vec<String> {
        self.applied += 1;
        self.is_exhausted |= self.depth > MAX_APPLIED_DEPTH || self.applied > MAX_APPLIED_SCHEMAS;
        if self.is_exhausted {
            return Vec::new();
        }
        self.depth += 1;
        let mut faults = match schema {
            Value::Object(schema) => self.keywords(schema, value, at),
            Value::Bool(false) => vec![fault(at, "nothing is allowed here")],
            _ => Vec::new(),
        };
        self.depth -= 1;
        faults.truncate(MAX_TOLD_FAULTS + 1);
        faults
    }

    fn fits(&mut self, schema: &'a Value, value: &Value) -> bool {
        self.apply(schema, value, "").is_empty()
    }

    fn keywords(
        &mut self,
        schema: &'a Map<String, Value>,
        value: &Value,
        at: Place<'_>,
    ) -> Vec<String> {
        if let Some(found) = wrong_type(schema, value, at) {
            // Other faults follow from a wrong type, and would hide it.
            return vec![found];
        }
        let mut faults = Vec::new();
        faults.extend(wrong_value(schema, value, at));
        match value {
            Value::Number(number) => wrong_number(schema, number, at, &mut faults),
            Value::String(text) => self.text(schema, text, at, &mut faults),
            Value::Array(items) => self.items(schema, items, at, &mut faults),
            Value::Object(members) => {
                faults.extend(wrong_size(schema, &OBJECT_SIZE, members.len(), at));
                faults.extend(missing(schema, members, at));
                for (name, schema) in object(schema, "dependentSchemas") {
                    if members.contains_key(name) {
                        faults.extend(self.apply(schema, value, at));
                    }
                }
                for (name, value) in members {
                    if are_enough(&faults) {
                        break;
                    }
                    faults.extend(self.member(schema, name, value, at));
                }
            }
            Value::Null | Value::Bool(_) => {}
        }
        if let Some(reference) = schema.get("$ref").and_then(Value::as_str)
            && let Some(target) = resolve(&self.schema.value, reference)
        {
            faults.extend(self.apply(target, value, at));
        }
        self.alternatives(schema, value, at, &mut faults);
        faults
    }

    fn text(
        &mut self,
        schema: &Map<String, Value>,
        text: &str,
        at: Place<'_>,
        faults: &mut Vec<String>,
    ) {
        let chars = text.chars().count();
        faults.extend(wrong_size(schema, &TEXT_SIZE, chars, at));
        if let Some(pattern) = schema.get("pattern").and_then(Value::as_str)
            && !self.matches(pattern, text)
        {
            faults.push(fault(at, &format!("must match the pattern {pattern}")));
        }
    }

    fn items(
        &mut self,
        schema: &'a Map<String, Value>,
        items: &[Value],
        at: Place<'_>,
        faults: &mut Vec<String>,
    ) {
        faults.extend(wrong_size(schema, &LIST_SIZE, items.len(), at));
        let mut known = HashSet::new();
        if schema.get("uniqueItems") == Some(&Value::Bool(true))
            && !items.iter().all(|item| known.insert(canonical(item).to_string()))
        {
            faults.push(fault(at, "must not have an item twice"));
        }
        let first = schema.get("prefixItems").and_then(Value::as_array).map_or(&[][..], |it| it);
        let rest = schema.get("items");
        for (n, item) in items.iter().enumerate() {
            if are_enough(faults) {
                break;
            }
            if let Some(schema) = first.get(n).or(rest) {
                faults.extend(self.apply(schema, item, &format!("{at}/{n}")));
            }
        }
        if let Some(contained) = schema.get("contains") {
            let found = items.iter().filter(|item| self.fits(contained, item)).count();
            let least = schema.get("minContains").and_then(count).unwrap_or(1);
            let most = schema.get("maxContains").and_then(count).unwrap_or(u64::MAX);
            if !(least..=most).contains(&(found as u64)) {
                faults.push(fault(at, &format!("has {found} items that fit `contains`")));
            }
        }
    }

    /// Checks one member of an object against the schemas for its name.
    fn member(
        &mut self,
        schema: &'a Map<String, Value>,
        name: &str,
        value: &Value,
        at: Place<'_>,
    ) -> Vec<String> {
        let mut faults = Vec::new();
        let place = format!("{at}/{}", name.replace('~', "~0").replace('/', "~1"));
        if let Some(names) = schema.get("propertyNames")
            && !self.fits(names, &Value::String(name.to_owned()))
        {
            faults.push(fault(&place, "no member may have this name"));
        }
        let own = schema.get("properties").and_then(|known| known.get(name));
        let by_pattern = object(schema, "patternProperties")
            .filter(|(pattern, _)| self.matches(pattern, name))
            .map(|(_, schema)| schema);
        let mut schemas: Vec<_> = own.into_iter().chain(by_pattern).collect();
        if schemas.is_empty() {
            match schema.get("additionalProperties") {
                Some(Value::Bool(false)) => {
                    faults.push(fault(at, &format!("must not have a member `{name}`")));
                }
                other => schemas.extend(other),
            }
        }
        for schema in schemas {
            faults.extend(self.apply(schema, value, &place));
        }
        faults
    }

    fn alternatives(
        &mut self,
        schema: &'a Map<String, Value>,
        value: &Value,
        at: Place<'_>,
        faults: &mut Vec<String>,
    ) {
        let list = |keyword: &str| schema.get(keyword).and_then(Value::as_array);
        for all in list("allOf").into_iter().flatten() {
            faults.extend(self.apply(all, value, at));
        }
        if let Some(alternatives) = list("anyOf") {
            faults.extend(self.none_of(alternatives, value, at));
        }
        if let Some(alternatives) = list("oneOf") {
            match alternatives.iter().filter(|schema| self.fits(schema, value)).count() {
                0 => faults.extend(self.none_of(alternatives, value, at)),
                1 => {}
                fitting => {
                    let why = format!("fits {fitting} schemas of `oneOf`, and must fit one alone");
                    faults.push(fault(at, &why));
                }
            }
        }
        if let Some(forbidden) = schema.get("not")
            && self.fits(forbidden, value)
        {
            faults.push(fault(at, "must not fit the schema of `not`"));
        }
        if let Some(condition) = schema.get("if") {
            let then = if self.fits(condition, value) { "then" } else { "else" };
            if let Some(schema) = schema.get(then) {
                faults.extend(self.apply(schema, value, at));
            }
        }
    }

    /// Returns the faults that a value has in the alternative that it fits best; none if it fits one.
    fn none_of(&mut self, alternatives: &'a [Value], value: &Value, at: Place<'_>) -> Vec<String> {
        let mut best: Option<Vec<String>> = None;
        for schema in alternatives {
            let faults = self.apply(schema, value, at);
            if best.as_ref().is_none_or(|best| faults.len() < best.len()) {
                best = Some(faults);
            }
        }
        best.unwrap_or_default()
    }

    fn matches(&self, pattern: &str, text: &str) -> bool {
        self.schema.patterns.get(pattern).is_some_and(|pattern| pattern.is_match(text))
    }
}

/// Returns the members of a keyword whose value is an object.
fn object<'a>(
    schema: &'a Map<String, Value>,
    keyword: &str,
) -> impl Iterator<Item = (&'a String, &'a Value)> + use<'a> {
    schema.get(keyword).and_then(Value::as_object).into_iter().flatten()
}

fn wrong_type(schema: &Map<String, Value>, value: &Value, at: Place<'_>) -> Option<String> {
    let allowed: Vec<_> = match schema.get("type")? {
        Value::Array(names) => names.iter().filter_map(Value::as_str).collect(),
        name => name.as_str().into_iter().collect(),
    };
    let is = |name: &&str| match (*name, value) {
        ("integer", Value::Number(number)) => is_whole(number),
        (name, value) => name == type_name(value),
    };
    let found = type_name(value);
    let why =
        || format!("must be of the type {}, and is of the type {found}", allowed.join(" or "));
    (!allowed.iter().any(is)).then(|| fault(at, &why()))
}

fn wrong_value(schema: &Map<String, Value>, value: &Value, at: Place<'_>) -> Option<String> {
    if let Some(only) = schema.get("const")
        && !same(only, value)
    {
        return Some(fault(at, &format!("must be {only}")));
    }
    let allowed = schema.get("enum")?.as_array()?;
    let is_allowed = allowed.iter().any(|it| same(it, value));
    (!is_allowed).then(|| fault(at, &format!("must be one of {}", listed(allowed))))
}

/// Lists values, as many as fit, and says how many there are if these are not all.
fn listed(values: &[Value]) -> String {
    let mut list = String::new();
    for value in values {
        let value = value.to_string();
        if list.is_empty() {
            list = value;
        } else if list.len() + value.len() < MAX_LISTED_BYTES {
            list.push_str(", ");
            list.push_str(&value);
        } else {
            return format!("{list}, … ({} values)", values.len());
        }
    }
    list
}

fn wrong_number(
    schema: &Map<String, Value>,
    number: &Number,
    at: Place<'_>,
    faults: &mut Vec<String>,
) {
    type Holds = fn(Ordering) -> bool;
    let limits: [(&str, &str, Holds); 4] = [
        ("minimum", "at least", Ordering::is_ge),
        ("exclusiveMinimum", "above", Ordering::is_gt),
        ("maximum", "at most", Ordering::is_le),
        ("exclusiveMaximum", "below", Ordering::is_lt),
    ];
    for (keyword, how, holds) in limits {
        if let Some(Value::Number(limit)) = schema.get(keyword)
            && !compare(number, limit).is_some_and(holds)
        {
            faults.push(fault(at, &format!("must be {how} {limit}")));
        }
    }
    if let Some(Value::Number(unit)) = schema.get("multipleOf")
        && !is_multiple(number, unit)
    {
        faults.push(fault(at, &format!("must be a multiple of {unit}")));
    }
}

/// Keywords that limit a size.
struct SizeKeywords {
    least: &'static str,
    most: &'static str,
    /// Plural name of the things that are counted.
    unit: &'static str,
}

const TEXT_SIZE: SizeKeywords =
    SizeKeywords { least: "minLength", most: "maxLength", unit: "characters" };
const LIST_SIZE: SizeKeywords = SizeKeywords { least: "minItems", most: "maxItems", unit: "items" };
const OBJECT_SIZE: SizeKeywords =
    SizeKeywords { least: "minProperties", most: "maxProperties", unit: "members" };

fn wrong_size(
    schema: &Map<String, Value>,
    keywords: &SizeKeywords,
    size: usize,
    at: Place<'_>,
) -> Option<String> {
    let SizeKeywords { least, most, unit } = keywords;
    let limit = |keyword: &str| schema.get(keyword).and_then(count);
    let size = size as u64;
    let why = match (limit(least), limit(most)) {
        (Some(least), _) if size < least => format!("at least {least}"),
        (_, Some(most)) if size > most => format!("at most {most}"),
        _ => return None,
    };
    Some(fault(at, &format!("must have {why} {unit}, and has {size}")))
}

/// Returns a fault for each required member that an object lacks.
fn missing(
    schema: &Map<String, Value>,
    members: &Map<String, Value>,
    at: Place<'_>,
) -> Vec<String> {
    let names = |value: &Value| -> Vec<String> {
        let names = value.as_array().into_iter().flatten().filter_map(Value::as_str);
        names.map(str::to_owned).collect()
    };
    let mut required = schema.get("required").map(names).unwrap_or_default();
    for (name, needed) in object(schema, "dependentRequired") {
        required.extend(members.contains_key(name).then(|| names(needed)).into_iter().flatten());
    }
    let lacking = required.into_iter().filter(|name| !members.contains_key(name));
    let lacking = lacking.take(MAX_TOLD_FAULTS + 1);
    lacking.map(|name| fault(at, &format!("lacks `{name}`"))).collect()
}

fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

fn is_whole(number: &Number) -> bool {
    number.is_i64() || number.is_u64() || number.as_f64().is_some_and(|it| it.fract() == 0.0)
}

/// Compares two numbers, exactly if both are whole.
fn compare(one: &Number, other: &Number) -> Option<Ordering> {
    let whole = |number: &Number| {
        number.as_i64().map(i128::from).or_else(|| number.as_u64().map(i128::from))
    };
    match (whole(one), whole(other)) {
        (Some(one), Some(other)) => Some(one.cmp(&other)),
        _ => one.as_f64()?.partial_cmp(&other.as_f64()?),
    }
}

fn is_multiple(number: &Number, unit: &Number) -> bool {
    if let (Some(number), Some(unit)) = (number.as_i64(), unit.as_i64()) {
        return unit != 0 && number % unit == 0;
    }
    let (Some(number), Some(unit)) = (number.as_f64(), unit.as_f64()) else { return false };
    let ratio = number / unit;
    // A number such as 0.3 is no exact multiple of 0.1 in binary.
    (ratio - ratio.round()).abs() <= 1e-9 * ratio.abs().max(1.0)
}

/// Returns `true` if two values are equal as JSON: `1` is `1.0`, and the order of members does not count.
fn same(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Number(one), Value::Number(other)) => compare(one, other) == Some(Ordering::Equal),
        (Value::Array(one), Value::Array(other)) => {
            one.len() == other.len() && one.iter().zip(other).all(|(one, other)| same(one, other))
        }
        (Value::Object(one), Value::Object(other)) => {
            let is_there = |(name, value)| other.get(name).is_some_and(|other| same(value, other));
            one.len() == other.len() && one.iter().all(is_there)
        }
        (one, other) => one == other,
    }
}

/// Returns a value in the one form of all values that are equal as JSON.
fn canonical(value: &Value) -> Value {
    match value {
        Value::Number(number) => {
            match number.as_f64().filter(|it| is_whole(number) && it.abs() < 9e15) {
                #[expect(clippy::cast_possible_truncation, reason = "whole, and small enough")]
                Some(whole) => Value::from(whole as i64),
                None => value.clone(),
            }
        }
        Value::Array(items) => items.iter().map(canonical).collect(),
        Value::Object(members) => {
            let mut members: Vec<_> =
                members.iter().map(|(name, value)| (name.clone(), canonical(value))).collect();
            members.sort_by(|(one, _), (other, _)| one.cmp(other));
            members.into_iter().collect()
        }
        other => other.clone(),
    }
}

/// Returns `true` if there are more faults than are told, so that no more need be found.
fn are_enough(faults: &[String]) -> bool {
    faults.len() > MAX_TOLD_FAULTS
}

/// Returns a fault, shortened: names and values in it may be of any length.
fn fault(at: Place<'_>, why: &str) -> String {
    let (at, why) = (ellipsis(at, MAX_PLACE_CHARS), ellipsis(why, MAX_REASON_CHARS));
    if at.is_empty() { format!("the value {why}") } else { format!("`{at}` {why}") }
}
