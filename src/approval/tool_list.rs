//! Allowlist of tools by name: a session may use no other tools.

use super::request::PolicyRequest;
use super::tool_name::NamePattern;

/// Tools by name, as rules name them: exactly, or with `*`.
#[derive(Debug)]
pub struct ToolList(Vec<NamePattern>);

impl ToolList {
    /// Returns a list of these names. Older names and class names mean the present tools.
    pub fn new(names: &[String]) -> Self {
        let pattern = |name: &String| NamePattern(current_name(name.trim()).to_owned());
        Self(names.iter().map(pattern).collect())
    }

    /// Returns `true` if the list has the tool of a call.
    pub fn has(&self, request: &PolicyRequest<'_>) -> bool {
        self.0.iter().any(|pattern| pattern.matches(request, false))
    }
}

/// Class names of tools in older settings, each with the present name of the tool.
const CLASS_NAMES: &[(&str, &str)] = &[
    ("EditTool", "replace"),
    ("GlobTool", "glob"),
    ("GrepTool", "grep_search"),
    ("LSTool", "list_directory"),
    ("LsTool", "list_directory"),
    ("MemoryTool", "save_memory"),
    ("ReadFileTool", "read_file"),
    ("ReadManyFilesTool", "read_many_files"),
    ("ReplaceTool", "replace"),
    ("RipGrepTool", "grep_search"),
    ("ShellTool", "run_shell_command"),
    ("WebFetchTool", "web_fetch"),
    ("WebSearchTool", "google_web_search"),
    ("WriteFileTool", "write_file"),
    ("WriteTodosTool", "write_todos"),
];

/// Returns the present name of a tool for the name of its class. Any other name is returned as it is.
pub fn current_name(name: &str) -> &str {
    CLASS_NAMES.iter().find(|(class, _)| *class == name).map_or(name, |(_, now)| now)
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use tandem_host::{Access, Hints};

    fn check(names: &[&str], tool: &str, access: &Access, expected: bool) {
        let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
        let request =
            PolicyRequest { tool, aliases: &["search_file_content"], args: &Value::Null, access };
        assert_eq!(ToolList::new(&names).has(&request), expected, "{names:?} {tool}");
    }

    #[test]
    fn a_list_has_tools_by_any_of_their_names() {
        let access = Access::Read;
        for names in [
            &["grep_search"][..],
            &[" grep_* "],
            &["*"],
            &["x", "GrepTool"],
            &["search_file_content"],
        ] {
            check(names, "grep_search", &access, true);
        }
        for names in [&[][..], &["grep"], &["grep_search(x)"], &[""]] {
            check(names, "grep_search", &access, false);
        }
    }

    #[test]
    fn a_list_has_the_tools_of_a_server_only_if_it_names_them() {
        let (server, tool) = ("git".to_owned(), "log".to_owned());
        let (display_name, hints) = (String::new(), Hints::default());
        let access = Access::Mcp { server, tool, display_name, hints };
        check(&["mcp_git_log"], "mcp_git_log", &access, true);
        check(&["mcp_git_*"], "mcp_git_log", &access, true);
        check(&["log"], "mcp_git_log", &access, false);
        check(&["read_file"], "mcp_git_log", &access, false);
    }
}
