//! Titles of calls: a verb and its object, on one line.

use std::fs;

use serde_json::{Value, json};
use tandem_host::ToolLimits;
use tandem_host::workspace::Workspace;
use tandem_tools::{all, save_memory};

use test_support::host::context;

/// Calls of built-in tools, with the titles that people are shown.
fn calls() -> Vec<(&'static str, Value, &'static str)> {
    let edit = json!({ "file_path": "src/cart.py", "instruction": "i",
        "old_string": "    total = 0", "new_string": "    total = 1" });
    vec![
        ("read_file", json!({ "file_path": "src/cart.py" }), "Read src/cart.py"),
        ("read_file", json!({ "file_path": "missing" }), "Read missing"),
        ("read_many_files", json!({ "include": ["src/*.py", "a"] }), "Read `src/*.py`, `a`"),
        ("list_directory", json!({ "dir_path": "." }), "List ."),
        ("list_directory", json!({ "dir_path": "src" }), "List src"),
        ("glob", json!({ "pattern": "*.py" }), r#"Find "*.py""#),
        ("glob", json!({ "pattern": "*.py", "dir_path": "src" }), r#"Find "*.py" in src"#),
        ("grep_search", json!({ "pattern": "total" }), r#"Search for "total""#),
        (
            "grep_search",
            json!({ "pattern": "total", "dir_path": "src", "include_pattern": "*.py" }),
            r#"Search for "total" in src (*.py)"#,
        ),
        ("write_file", json!({ "file_path": "a", "content": "  a\n" }), "Write a"),
        ("replace", edit, "Edit src/cart.py"),
        ("apply_patch", patch("*** Update File: src/cart.py\n-    total = 0"), "Edit src/cart.py"),
        (
            "apply_patch",
            patch("*** Add File: a\n+x\n*** Delete File: src/cart.py"),
            "Remove src/cart.py, create a",
        ),
        ("run_shell_command", json!({ "command": "  cargo test\n" }), "Run cargo test"),
        ("run_shell_command", json!({ "command": "cd a\nmake" }), "Run cd a …"),
        (
            "run_shell_command",
            json!({ "command": "make", "dir_path": "src", "description": "Builds\nit." }),
            "Run make [in src] (Builds it.)",
        ),
        ("run_shell_command", json!({ "command": " " }), "Run an empty command"),
        ("list_background_processes", json!({}), "List the commands in the background"),
        (
            "read_background_output",
            json!({ "pid": 7 }),
            "Read the output of the command in the background, PID 7",
        ),
        (
            "run_shell_command",
            json!({ "command": "sh", "stdin": true }),
            "Run sh [in the background, takes input]",
        ),
        (
            "write_stdin",
            json!({ "pid": 7, "chars": "x" }),
            "Write to a command in the background, PID 7",
        ),
        ("stop_background_command", json!({ "pid": 7 }), "Stop PID 7"),
        ("write_todos", json!({ "todos": [] }), "Clear the todo list"),
        (
            "write_todos",
            json!({ "todos": [{ "description": "x", "status": "pending" }] }),
            "Write 1 todo",
        ),
        (
            "ask_user",
            json!({ "questions": [{ "question": "Which?\nOr both?", "options": ["a", "b"] }] }),
            "Ask: Which?",
        ),
        ("save_memory", json!({ "fact": "Likes tabs" }), "Remember: Likes tabs"),
    ]
}

fn patch(lines: &str) -> Value {
    json!({ "input": format!("*** Begin Patch\n{lines}\n*** End Patch") })
}

#[tokio::test]
async fn every_built_in_tool_names_its_calls_by_a_verb() {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join("src")).unwrap();
    fs::write(dir.path().join("src/cart.py"), "    total = 0\n").unwrap();
    let workspace = Workspace::new(dir.path(), &[]).unwrap();
    let cx = context(workspace, ToolLimits::default());
    let mut tools = all();
    tools.push(save_memory(dir.path().join("GEMINI.md")));
    let calls = calls();
    for tool in tools {
        let name = tool.spec().name;
        let mut made = 0;
        for (_, args, expected) in calls.iter().filter(|(tool, ..)| *tool == name) {
            let call = tool.prepare(args.clone(), &cx).await.unwrap();
            assert_eq!(call.summary.label, *expected, "{name} {args}");
            made += 1;
        }
        assert!(made > 0, "no title of `{name}` is checked");
    }
}
