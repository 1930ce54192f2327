//! Names of tools in rules: exact, or with `*` for any text.

use super::request::PolicyRequest;
use tandem_host::Access;

/// Pattern of tool names in a rule.
#[derive(Debug, Clone)]
pub struct NamePattern(pub String);

impl NamePattern {
    /// Returns whether the tool of a call has such a name. With `of_server`, the name may also be the MCP server's own
    /// name for its tool.
    pub fn matches(&self, request: &PolicyRequest<'_>, of_server: bool) -> bool {
        let pattern = self.0.as_str();
        if let Access::Mcp { server, tool, .. } = request.access {
            // The parts are compared one by one, because a server named `a_b` is not the server `a`.
            let parts = pattern.strip_prefix("mcp_").map(|rest| match rest {
                "*" => true,
                rest => {
                    let by_server = rest.strip_suffix("_*").is_some_and(|wanted| wanted == server);
                    let by_tool = rest.strip_prefix("*_").is_some_and(|wanted| wanted == tool);
                    by_server || by_tool
                }
            });
            let whole = [format!("mcp_{server}_{tool}"), format!("{server}__{tool}")];
            return pattern == "*"
                || parts == Some(true)
                || pattern == request.tool
                || whole.iter().any(|name| name == pattern)
                || (of_server && like(pattern, tool));
        }
        like(pattern, request.tool) || request.aliases.iter().any(|alias| like(pattern, alias))
    }
}

/// Returns `true` if a text fits a pattern in which `*` matches any text.
fn like(pattern: &str, text: &str) -> bool {
    let Some((start, rest)) = pattern.split_once('*') else { return pattern == text };
    let Some(mut text) = text.strip_prefix(start) else { return false };
    let mut pieces = rest.split('*').peekable();
    while let Some(piece) = pieces.next() {
        if pieces.peek().is_none() {
            return text.ends_with(piece);
        }
        let Some(at) = text.find(piece) else { return false };
        text = &text[at + piece.len()..];
    }
    true
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use tandem_host::Hints;

    #[test]
    fn a_star_stands_for_any_text() {
        let check =
            |pattern, text, expected| assert_eq!(like(pattern, text), expected, "{pattern}");
        check("read_file", "read_file", true);
        check("read_file", "read_files", false);
        check("*", "", true);
        check("read_*", "read_file", true);
        check("*_file", "read_file", true);
        check("r*_*e", "read_file", true);
        check("r*x*e", "read_file", false);
        check("ab*ba", "aba", false);
    }

    #[test]
    fn a_tool_of_a_server_is_known_by_its_parts() {
        let check = |pattern: &str, of_server, expected| {
            let (server, tool) = ("a_b".to_owned(), "c_d".to_owned());
            let (display_name, hints) = (String::new(), Hints::default());
            let access = Access::Mcp { server, tool, display_name, hints };
            let args = Value::Null;
            let request =
                PolicyRequest { tool: "mcp_a_b_c_d", aliases: &[], args: &args, access: &access };
            let found = NamePattern(pattern.to_owned()).matches(&request, of_server);
            assert_eq!(found, expected, "{pattern}");
        };
        check("*", false, true);
        check("mcp_*", false, true);
        check("mcp_a_b_*", false, true);
        check("mcp_*_c_d", false, true);
        check("mcp_a_b_c_d", false, true);
        check("a_b__c_d", false, true);
        check("c_d", true, true);
        check("c_*", true, true);
        check("mcp_a_*", false, false);
        check("mcp_*_d", false, false);
        check("mcp_a*", false, false);
        check("c_d", false, false);
    }
}
