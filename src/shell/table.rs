//! Reads the tables of programs.

use serde::de::DeserializeOwned;

/// Parses one of the tables beside this file. A test parses each of them: none is malformed. If one
/// were, no command may be judged without it, and who judges must not let a command run on a panic.
pub(super) fn table<T: DeserializeOwned>(text: &str) -> T {
    toml::from_str(text).unwrap_or_else(|error| panic!("a malformed table: {error}"))
}
