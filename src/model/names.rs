//! Names that every provider accepts: not all of them accept those of others.

use std::borrow::Cow;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use super::ToolDeclaration;

/// The longest name that all accept.
const MAX: usize = 64;

/// The name of a tool as a provider accepts it that takes letters, digits, `_` and `-` alone. What
/// is changed about a name is made up for, so that two tools do not become one.
pub(super) fn accepted(name: &str) -> Cow<'_, str> {
    let valid = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    if !name.is_empty() && name.len() <= MAX && name.chars().all(valid) {
        return Cow::Borrowed(name);
    }
    let mut hasher = DefaultHasher::new();
    name.hash(&mut hasher);
    let mark = format!("_{:08x}", hasher.finish() & 0xFFFF_FFFF);
    let kept = name.chars().map(|c| if valid(c) { c } else { '_' }).take(MAX - mark.len());
    Cow::Owned(kept.chain(mark.chars()).collect())
}

/// The tool that a provider knows by this name; the name itself if there is none.
pub(super) fn own<'a>(accepted_name: &'a str, tools: &'a [ToolDeclaration]) -> &'a str {
    let known = tools.iter().find(|tool| accepted(&tool.name) == accepted_name);
    known.map_or(accepted_name, |tool| &tool.name)
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    fn tool(name: &str) -> ToolDeclaration {
        let (name, description) = (name.to_owned(), String::new());
        ToolDeclaration { name, description, parameters: Value::Null }
    }

    #[test]
    fn a_name_that_all_accept_stays_as_it_is() {
        let longest = "x".repeat(MAX);
        for name in ["glob", "mcp_server_tool-2", "0", &longest] {
            assert_eq!(accepted(name), name);
        }
    }

    #[test]
    fn any_other_name_becomes_one_that_all_accept_and_is_found_again() {
        let long = "x".repeat(MAX);
        let names = ["a.b", "a:b", "a b", "", "日本", &format!("{long}1"), &format!("{long}2")];
        let tools = names.map(tool);
        for name in names {
            let made = accepted(name);
            assert!(!made.is_empty() && made.len() <= MAX && accepted(&made) == made, "{made}");
            assert_eq!(own(&made, &tools), name);
        }
        assert_eq!(own("glob", &tools), "glob");
    }
}
