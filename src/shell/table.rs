//! Reader of the tables of programs.

use serde::de::DeserializeOwned;

/// Returns whether a list of a table has a text.
pub(super) fn has(list: &[String], text: &str) -> bool {
    list.iter().any(|known| known == text)
}

/// Parses one of the tables beside this file. A test parses each table, so that none is malformed. If one were, no
/// command could be judged without it, and the caller must treat the panic as a refusal.
pub(super) fn table<T: DeserializeOwned>(text: &str) -> T {
    toml::from_str(text).unwrap_or_else(|error| panic!("a malformed table: {error}"))
}
