//! JSON Schema: checks JSON values against a schema of draft 2020-12, or of draft 7 as far as its words are the same.
//!
//! A keyword that restricts values and is not known here makes the schema unusable, so that no restriction is ignored.
//! Annotations are ignored, and so is `format`, which is an annotation in draft 2020-12.

mod check;
mod compile;
mod keywords;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::fmt;

use regex::Regex;
use serde_json::Value;

use self::check::Check;
pub use self::compile::subschemas;

/// Maximum number of faults of a value that are told.
const MAX_TOLD_FAULTS: usize = 20;

/// A JSON Schema that values can be checked against.
#[derive(Clone)]
pub struct JsonSchema {
    value: Value,
    /// Compiled expressions of `pattern` and `patternProperties`, by their text.
    patterns: HashMap<String, Regex>,
}

impl JsonSchema {
    /// Reads a schema. The error says, for people, which part is no schema, or cannot be checked.
    pub fn new(value: Value) -> Result<Self, String> {
        let patterns = compile::patterns(&value)?;
        Ok(Self { value, patterns })
    }

    /// Returns the schema as JSON.
    pub fn value(&self) -> &Value {
        &self.value
    }

    /// Checks a value. The error lists the first faults, each with the JSON Pointer of the faulty place. Together they
    /// have less than 8,000 characters.
    pub fn check(&self, value: &Value) -> Result<(), Vec<String>> {
        let mut faults = Check::new(self).faults(value);
        if faults.is_empty() {
            return Ok(());
        }
        if faults.len() > MAX_TOLD_FAULTS {
            faults.truncate(MAX_TOLD_FAULTS);
            faults.push("and more faults".to_owned());
        }
        Err(faults)
    }
}

impl fmt::Debug for JsonSchema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("JsonSchema").field(&self.value).finish()
    }
}

impl PartialEq for JsonSchema {
    fn eq(&self, other: &Self) -> bool {
        self.value == other.value
    }
}

/// Returns the schema that a `$ref` leads to; `None` if there is none in this document.
fn resolve<'a>(root: &'a Value, reference: &str) -> Option<&'a Value> {
    let fragment = reference.strip_prefix('#')?;
    let pointer = percent_encoding::percent_decode_str(fragment).decode_utf8().ok()?;
    root.pointer(&pointer)
}
