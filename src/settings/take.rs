//! Deserializers of values for which the type alone is not a sufficient check.

use std::collections::BTreeMap;
use std::path::{Component, Path};
use std::time::Duration;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer};

use super::limits::Change;
use tandem_approval::Mode;
use tandem_model::provider::Provider;

/// Reads a maximum number, not 0; a negative number means no limit.
pub(super) fn unlimited<'de, D: Deserializer<'de>>(from: D) -> Result<Option<usize>, D::Error> {
    match Option::<i64>::deserialize(from)? {
        Some(0) => Err(D::Error::custom("must be a whole number that is not 0 (-1: any number)")),
        number => Ok(number.and_then(|number| usize::try_from(number).ok())),
    }
}

/// Reads a mode by its name in files and protocols.
pub(super) fn mode<'de, D: Deserializer<'de>>(from: D) -> Result<Mode, D::Error> {
    let name = String::deserialize(from)?;
    let name = if name == "autoEdit" { "auto_edit" } else { &name };
    name.parse().map_err(|_| D::Error::custom("must be one of default, auto_edit, plan"))
}

/// Reads the name of a built-in provider, or of a server, which is looked for in the merged settings.
pub(super) fn provider<'de, D: Deserializer<'de>>(from: D) -> Result<Provider, D::Error> {
    let name = String::deserialize(from)?;
    let server = || Ok(Provider::Named(name.parse()?));
    name.parse().or_else(|_| server()).map_err(|_: String| {
        let names = Provider::ALL.map(|provider| provider.to_string()).join(", ");
        D::Error::custom(format!("must be one of {names}, or a server of `modelServers`"))
    })
}

pub(super) fn share<'de, D: Deserializer<'de>>(from: D) -> Result<f64, D::Error> {
    let share = f64::deserialize(from)?;
    if (0.0..=1.0).contains(&share) {
        return Ok(share);
    }
    Err(D::Error::custom("must be a number from 0 to 1"))
}

pub(super) fn attempts<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u32>, D::Error> {
    let attempts = Option::<u32>::deserialize(from)?;
    if attempts == Some(0) {
        return Err(D::Error::custom("must be at least 1"));
    }
    Ok(attempts)
}

/// Reads a time that people write, such as `30d`.
pub(super) fn age<'de, D: Deserializer<'de>>(from: D) -> Result<Option<String>, D::Error> {
    let age = Option::<String>::deserialize(from)?;
    if age.as_deref().is_some_and(|age| time(age).is_none()) {
        return Err(D::Error::custom(
            "must be a number of hours, days, weeks or months, such as 12h, 30d, 4w or 6m",
        ));
    }
    Ok(age)
}

/// Parses a time of at least an hour, as Gemini CLI's settings write it. A month has 30 days.
pub(super) fn time(text: &str) -> Option<Duration> {
    let (number, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    let hours = match unit {
        "h" => 1,
        "d" => 24,
        "w" => 7 * 24,
        "m" => 30 * 24,
        _ => return None,
    };
    let number: u64 = number.parse().ok().filter(|number| *number > 0)?;
    Some(Duration::from_secs(number.checked_mul(hours * 3600)?))
}

pub(super) fn count<'de, D: Deserializer<'de>>(from: D) -> Result<Option<usize>, D::Error> {
    let count = Option::<usize>::deserialize(from)?;
    if count == Some(0) {
        return Err(D::Error::custom("must be at least 1"));
    }
    Ok(count)
}

pub(super) fn threshold<'de, D: Deserializer<'de>>(from: D) -> Result<Option<usize>, D::Error> {
    let chars = Option::<i64>::deserialize(from)?;
    let chars = chars.map(|chars| usize::try_from(chars).unwrap_or(0));
    Ok(chars.map(|chars| if chars == 0 { usize::MAX } else { chars }))
}

pub(super) fn seconds<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u64>, D::Error> {
    let seconds = Option::<i64>::deserialize(from)?;
    Ok(seconds.map(|seconds| u64::try_from(seconds).unwrap_or(0)))
}

/// Reads one name of a file, or a list of names. Each must be a relative path without `..`.
pub(super) fn file_names<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<String>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum OneOrMany {
        One(String),
        Many(Vec<String>),
    }
    let wrong = || D::Error::custom("must be a file's name or a list of them, without `..`");
    let names = match OneOrMany::deserialize(from).map_err(|_| wrong())? {
        OneOrMany::One(name) => vec![name],
        OneOrMany::Many(names) => names,
    };
    let inside = |name: &String| {
        let mut parts = Path::new(name).components();
        !name.trim().is_empty()
            && !name.contains('\0')
            && parts.all(|part| matches!(part, Component::Normal(_) | Component::CurDir))
    };
    if names.iter().all(inside) { Ok(names) } else { Err(wrong()) }
}

/// Reads limits, and checks that each is known and at least 1.
pub(super) fn limits<'de, D: Deserializer<'de>>(
    from: D,
) -> Result<BTreeMap<String, u64>, D::Error> {
    let limits = BTreeMap::<String, u64>::deserialize(from)?;
    for (name, value) in &limits {
        format!("{name}={value}").parse::<Change>().map_err(D::Error::custom)?;
    }
    Ok(limits)
}
