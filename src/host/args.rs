//! Parsing of arguments as models write them: a number may come as `3.0` or `"3"`, a list as one string.

use serde::de::{Deserialize as _, DeserializeOwned, Deserializer, Error as _};
use serde_json::Value;

use super::output::ToolError;
use super::workspace::Respect;

/// Parses a call's arguments. The error names the field.
pub fn parse<T: DeserializeOwned>(args: Value) -> Result<T, ToolError> {
    serde_path_to_error::deserialize(args).map_err(|err| match err.path().to_string().as_str() {
        "." => ToolError::invalid_args(err.inner()),
        path => ToolError::invalid_args(format_args!("`{path}`: {}", err.inner())),
    })
}

/// Parses a whole number that is not negative; `None` for `null` or an empty string.
pub fn number<'de, D: Deserializer<'de>>(from: D) -> Result<Option<usize>, D::Error> {
    let value = Value::deserialize(from)?;
    let number = match &value {
        Value::Null => return Ok(None),
        Value::Number(number) => number.as_u64().or_else(|| number.as_f64().and_then(whole)),
        Value::String(text) if text.trim().is_empty() => return Ok(None),
        Value::String(text) => text.trim().parse().ok(),
        _ => None,
    };
    let number = number.and_then(|number| usize::try_from(number).ok());
    number
        .map(Some)
        .ok_or_else(|| D::Error::custom(format!("{value} is not a whole number from 0")))
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked before")]
fn whole(number: f64) -> Option<u64> {
    let fits = number.fract() == 0.0 && (0.0..=9e15).contains(&number);
    fits.then_some(number as u64)
}

/// Parses a boolean; `None` for `null`.
pub fn flag<'de, D: Deserializer<'de>>(from: D) -> Result<Option<bool>, D::Error> {
    let value = Value::deserialize(from)?;
    match &value {
        Value::Null => Ok(None),
        Value::Bool(flag) => Ok(Some(*flag)),
        Value::String(text) if text.eq_ignore_ascii_case("true") => Ok(Some(true)),
        Value::String(text) if text.eq_ignore_ascii_case("false") => Ok(Some(false)),
        _ => Err(D::Error::custom(format!("{value} is neither true nor false"))),
    }
}

/// Parses a list of strings. A single string is a list of one.
pub fn list<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<String>, D::Error> {
    match Value::deserialize(from)? {
        Value::Null => Ok(Vec::new()),
        Value::String(one) => Ok(vec![one]),
        value => serde_json::from_value(value).map_err(D::Error::custom),
    }
}

/// Kinds of ignore files that apply in a call, as a model names them.
#[derive(Debug, Default, serde::Deserialize)]
#[serde(default)]
pub struct FilterArgs {
    /// `true` if files that `.gitignore` names are left out.
    #[serde(deserialize_with = "flag")]
    pub respect_git_ignore: Option<bool>,
    /// `true` if files that `.geminiignore` names are left out.
    #[serde(deserialize_with = "flag")]
    pub respect_gemini_ignore: Option<bool>,
}

impl FilterArgs {
    /// Returns the kinds that apply: all kinds, unless the model names fewer.
    pub fn respect(&self) -> Respect {
        Respect {
            git: self.respect_git_ignore.unwrap_or(true),
            own: self.respect_gemini_ignore.unwrap_or(true),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;
    use serde_json::{Value, json};

    #[derive(Debug, PartialEq, Deserialize)]
    struct SampleArgs {
        #[serde(default, deserialize_with = "super::number")]
        n: Option<usize>,
        #[serde(default, deserialize_with = "super::flag")]
        f: Option<bool>,
        #[serde(default, deserialize_with = "super::list")]
        l: Vec<String>,
    }

    type Meant<'a> = (Option<usize>, Option<bool>, &'a [&'a str]);

    fn check(args: Value, expected: Result<Meant<'_>, &str>) {
        let found = serde_json::from_value::<SampleArgs>(args).map_err(|err| err.to_string());
        let expected = expected
            .map(|(n, f, l)| SampleArgs { n, f, l: l.iter().map(ToString::to_string).collect() })
            .map_err(str::to_owned);
        assert_eq!(found, expected);
    }

    #[test]
    fn what_is_meant_is_understood() {
        check(json!({}), Ok((None, None, &[])));
        check(json!({ "n": null, "f": null, "l": null }), Ok((None, None, &[])));
        check(
            json!({ "n": 3, "f": true, "l": ["a", "b"] }),
            Ok((Some(3), Some(true), &["a", "b"])),
        );
        check(json!({ "n": 3.0, "f": "False", "l": "a" }), Ok((Some(3), Some(false), &["a"])));
        check(json!({ "n": " 3 " }), Ok((Some(3), None, &[])));
        check(json!({ "n": "" }), Ok((None, None, &[])));
    }

    #[test]
    fn what_cannot_be_meant_is_an_error() {
        check(json!({ "n": -1 }), Err("-1 is not a whole number from 0"));
        check(json!({ "n": 1.5 }), Err("1.5 is not a whole number from 0"));
        check(json!({ "n": 1e300 }), Err("1e+300 is not a whole number from 0"));
        check(json!({ "n": [1] }), Err("[1] is not a whole number from 0"));
        check(json!({ "f": 1 }), Err("1 is neither true nor false"));
        check(json!({ "l": [1] }), Err("invalid type: integer `1`, expected a string"));
    }
}
