//! Environment variables that only change how output looks, and variables that decide which programs run.

use std::sync::LazyLock;

use serde::Deserialize;

use super::table;

static VARIABLE_EFFECTS: LazyLock<VariableEffects> =
    LazyLock::new(|| table(include_str!("variables.toml")));

/// Data of `variables.toml`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct VariableEffects {
    variable: Vec<Variables>,
    setter: Vec<Setters>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Variables {
    names: Vec<String>,
    effect: VariableEffect,
    #[serde(rename = "reason")]
    _reason: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum VariableEffect {
    Programs,
    Looks,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Setters {
    names: Vec<String>,
    #[serde(rename = "reason")]
    _reason: String,
}

/// Returns whether a variable decides which programs run, or what bash evaluates.
pub fn decides_what_runs(name: &str) -> bool {
    has_effect(name, VariableEffect::Programs)
}

/// Returns whether a variable only changes how output looks.
pub fn changes_looks(name: &str) -> bool {
    has_effect(name, VariableEffect::Looks)
}

/// Returns whether a command sets variables that its arguments name.
pub fn is_setter(program: &str) -> bool {
    VARIABLE_EFFECTS.setter.iter().any(|row| row.names.iter().any(|name| name == program))
}

fn has_effect(name: &str, effect: VariableEffect) -> bool {
    let name = name.to_ascii_uppercase();
    let fits = |pattern: &String| match (pattern.strip_prefix('*'), pattern.strip_suffix('*')) {
        (Some(end), _) => name.ends_with(end),
        (_, Some(start)) => name.starts_with(start),
        _ => name == *pattern,
    };
    VARIABLE_EFFECTS.variable.iter().any(|row| row.effect == effect && row.names.iter().any(fits))
}
