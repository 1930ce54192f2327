//! Reader of the tables of programs.

use serde::de::DeserializeOwned;

/// Returns whether a list of a table has a text.
pub(super) fn has(list: &[String], text: &str) -> bool {
    list.iter().any(|known| known == text)
}

/// Parses one of the tables beside this file. A malformed table causes a panic: no command can be judged without it.
/// The caller must treat the panic as a refusal. A test parses each table, so no table of a release is malformed.
pub(super) fn table<T: DeserializeOwned>(text: &str) -> T {
    toml::from_str(text).unwrap_or_else(|error| panic!("a malformed table: {error}"))
}
