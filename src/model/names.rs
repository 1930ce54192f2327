//! Names, ids and arguments of calls in a form that every provider accepts. Providers refuse some that others allow.

use std::borrow::Cow;
use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use serde_json::{Value, json};

use super::ToolDeclaration;

/// Maximum length of a name that every provider accepts.
const MAX_NAME_LENGTH: usize = 64;

/// Returns a tool's name for providers that accept only letters, digits, `_` and `-`. A changed name gets a hash, so
/// that two tools never get the same name.
pub(super) fn accepted(name: &str) -> Cow<'_, str> {
    let valid = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    if !name.is_empty() && name.len() <= MAX_NAME_LENGTH && name.chars().all(valid) {
        return Cow::Borrowed(name);
    }
    // The hash may differ between versions of Rust. This does no harm, because the names are made for each request.
    let mut hasher = DefaultHasher::new();
    name.hash(&mut hasher);
    let mark = format!("_{:08x}", hasher.finish() & 0xFFFF_FFFF);
    let kept =
        name.chars().map(|c| if valid(c) { c } else { '_' }).take(MAX_NAME_LENGTH - mark.len());
    Cow::Owned(kept.chain(mark.chars()).collect())
}

/// Returns the tool's own name for the name that a provider uses; returns the name unchanged if there is no such
/// tool.
pub(super) fn original<'a>(accepted_name: &'a str, tools: &'a [ToolDeclaration]) -> &'a str {
    let known = tools.iter().find(|tool| accepted(&tool.name) == accepted_name);
    known.map_or(accepted_name, |tool| &tool.name)
}

/// Returns arguments as an object, because providers accept nothing else. Other arguments become the only field of an
/// object.
pub(super) fn arguments(args: &Value) -> Cow<'_, Value> {
    match args {
        Value::Object(_) => Cow::Borrowed(args),
        Value::Null => Cow::Owned(json!({})),
        other => Cow::Owned(json!({ "input": other })),
    }
}

/// Ids of a conversation's calls, each used once. Some servers give several calls the same id.
#[derive(Default)]
pub(super) struct CallIds(HashMap<String, usize>);

impl CallIds {
    /// Returns the id, or a new id if it is not acceptable or was used before.
    pub(super) fn unique(&mut self, id: &str) -> String {
        let id = accepted(if id.is_empty() { "call" } else { id }).into_owned();
        let mut unique = id.clone();
        while self.0.contains_key(&unique) {
            let used = self.0.entry(id.clone()).or_default();
            *used += 1;
            unique = accepted(&format!("{id}-{used}")).into_owned();
        }
        self.0.insert(unique.clone(), 1);
        unique
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tool(name: &str) -> ToolDeclaration {
        ToolDeclaration::new(name, "", Value::Null)
    }

    #[test]
    fn a_name_that_all_accept_stays_as_it_is() {
        let longest = "x".repeat(MAX_NAME_LENGTH);
        for name in ["glob", "mcp_server_tool-2", "0", &longest] {
            assert_eq!(accepted(name), name);
        }
    }

    #[test]
    fn any_other_name_becomes_one_that_all_accept_and_is_found_again() {
        let long = "x".repeat(MAX_NAME_LENGTH);
        let names = ["a.b", "a:b", "a b", "", "日本", &format!("{long}1"), &format!("{long}2")];
        let tools = names.map(tool);
        for name in names {
            let made = accepted(name);
            assert!(
                !made.is_empty() && made.len() <= MAX_NAME_LENGTH && accepted(&made) == made,
                "{made}"
            );
            assert_eq!(original(&made, &tools), name);
        }
        assert_eq!(original("glob", &tools), "glob");
    }

    #[test]
    fn arguments_are_always_an_object() {
        assert_eq!(*arguments(&json!({"a": 1})), json!({"a": 1}));
        assert_eq!(*arguments(&Value::Null), json!({}));
        assert_eq!(*arguments(&json!([1])), json!({"input": [1]}));
    }

    #[test]
    fn each_id_is_used_once() {
        let mut ids = CallIds::default();
        assert_eq!(ids.unique("a"), "a");
        assert_eq!(ids.unique("a-2"), "a-2");
        assert_eq!(ids.unique("a"), "a-3");
        assert_eq!(ids.unique(""), "call");
        assert_eq!(ids.unique(""), "call-2");
        let long = "x".repeat(100);
        let (first, second) = (ids.unique(&long), ids.unique(&long));
        assert!(
            first != second && first.len() <= MAX_NAME_LENGTH && second.len() <= MAX_NAME_LENGTH
        );
    }

    #[test]
    fn an_id_that_is_always_the_same_takes_linear_time() {
        let mut ids = CallIds::default();
        for _ in 0..100_000 {
            ids.unique("call_0");
        }
    }
}
