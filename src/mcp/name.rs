//! Names by which models call servers' tools: `mcp_<server>_<tool>`. They have only characters that every model's API
//! accepts, and are unique.

use std::collections::HashSet;

/// Maximum length of a name that every API accepts.
const MAX_NAME_LENGTH: usize = 63;

/// Replacement for the middle of a name that is too long.
const MIDDLE_REPLACEMENT: &str = "...";

/// Prefix of the names of all servers' tools.
pub(super) const NAME_PREFIX: &str = "mcp_";

/// The names that were given to tools, each to one tool.
#[derive(Default)]
pub(super) struct ToolNames(HashSet<String>);

impl ToolNames {
    /// Returns a new unique name for a tool.
    pub(super) fn tool(&mut self, server: &str, tool: &str) -> String {
        let whole = format!("{}{}", of_server(server), plain(tool));
        let mut name = shortened(&whole, MAX_NAME_LENGTH);
        let mut number = 2;
        while !self.0.insert(name.clone()) {
            let end = format!("_{number}");
            name = shortened(&whole, MAX_NAME_LENGTH - end.len()) + &end;
            number += 1;
        }
        name
    }
}

/// Returns the prefix of the names of a server's tools, unless a name is shortened.
pub(super) fn of_server(server: &str) -> String {
    format!("{NAME_PREFIX}{}_", plain(server))
}

/// Replaces every character except ASCII letters, digits, `_` and `-`.
fn plain(name: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' };
    name.chars().map(plain).collect()
}

fn shortened(name: &str, longest: usize) -> String {
    if name.len() <= longest {
        return name.to_owned();
    }
    let head = (longest - MIDDLE_REPLACEMENT.len()) / 2;
    let tail = longest - MIDDLE_REPLACEMENT.len() - head;
    format!("{}{MIDDLE_REPLACEMENT}{}", &name[..head], &name[name.len() - tail..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(server: &str, tool: &str, expected: &str) {
        assert_eq!(ToolNames::default().tool(server, tool), expected);
    }

    #[test]
    fn a_name_is_made_of_the_servers_and_the_tools() {
        check("git", "git_log", "mcp_git_git_log");
        check("my server", "a.b/c:d", "mcp_my_server_a_b_c_d");
        check("s", "\u{1b}[31mred\u{202e}", "mcp_s___31mred_");
        check("é", "", "mcp___");
    }

    #[test]
    fn a_long_name_loses_its_middle() {
        let (server, tool) = ("s".repeat(40), "t".repeat(100));
        let expected = format!("mcp_{}...{}", "s".repeat(26), "t".repeat(30));
        check(&server, &tool, &expected);
        assert_eq!(expected.len(), MAX_NAME_LENGTH);
        check("s", &"t".repeat(57), &format!("mcp_s_{}", "t".repeat(57)));
    }

    #[test]
    fn no_name_is_given_twice() {
        let mut names = ToolNames::default();
        assert_eq!(names.tool("s", "a.b"), "mcp_s_a_b");
        assert_eq!(names.tool("s", "a b"), "mcp_s_a_b_2");
        assert_eq!(names.tool("s", "a-b"), "mcp_s_a-b");
        assert_eq!(names.tool("s_a", "b"), "mcp_s_a_b_3");
        let long = "x".repeat(90);
        let (one, two) = (names.tool("s", &long), names.tool("s", &long));
        assert_eq!((one.len(), two.len()), (MAX_NAME_LENGTH, MAX_NAME_LENGTH));
        assert!(one != two && two.ends_with("_2"));
    }
}
