//! Calls that name tools as other agents do: which tool runs, and what the model is told.

use std::fs;
use std::sync::Arc;

use expect_test::{Expect, expect};
use serde_json::{Value, json};
use tandem_agent::session::{Event, Origin, Parts, Session};
use tandem_approval::Mode;
use tandem_model::Call;
use tandem_tools as tools;
use tempfile::TempDir;

use test_fakes::{Spy, calls, host, is_end, parts, says, text, until};

/// Runs a session in a directory. Returns each call with the tool, the arguments and the result.
async fn made(dir: &TempDir, asked: &[(&str, Value)]) -> Vec<(Call, String)> {
    let answers = asked.iter().map(|(name, args)| calls(name, args.clone()));
    let (spy, told) = Spy::new(answers.chain([says("done")]).collect());
    let session = Session::new(Parts {
        tools: tools::all(),
        host: host(dir.path()),
        mode: Mode::Yolo,
        ..parts(spy)
    });
    let mut log = session.events(0);
    session.prompt(text("go"), Origin::Editor);
    let events = until(&mut log, is_end).await;
    let started = events.iter().filter_map(|event: &Arc<Event>| match &**event {
        Event::CallStarted(started) => Some(started.call.clone()),
        _ => None,
    });
    let told = told.lock().unwrap().clone();
    let results = told.iter().filter_map(|line| line.strip_prefix("results: "));
    started.zip(results.map(ToOwned::to_owned)).collect()
}

fn workspace() -> TempDir {
    let dir = TempDir::new().unwrap();
    fs::write(dir.path().join("cart.py"), "total = 0\nprint(total)\n").unwrap();
    dir
}

async fn check(name: &str, args: Value, tool: &str, result: Expect) {
    let dir = workspace();
    let made = made(&dir, &[(name, args)]).await;
    let [(call, told)] = &made[..] else { panic!("{made:?}") };
    assert_eq!(call.name, tool);
    let (_, told) = told.split_once(' ').unwrap();
    let told: Vec<_> = told.lines().map(str::trim_start).collect();
    let root = dir.path().canonicalize().unwrap();
    result.assert_eq(&told.join("\n").replace(&*root.to_string_lossy(), "DIR"));
}

#[tokio::test]
async fn tools_of_other_agents_are_those_of_this_one() {
    check(
        "Bash",
        json!({ "command": "echo hi", "description": "x" }),
        "run_shell_command",
        expect!["Output: hi"],
    )
    .await;
    check(
        "functions.shell",
        json!({ "command": ["bash", "-lc", "echo hi"] }),
        "run_shell_command",
        expect!["Output: hi"],
    )
    .await;
    check(
        "exec_command",
        json!({ "cmd": "echo hi", "yield_time_ms": 1 }),
        "run_shell_command",
        expect!["Output: hi"],
    )
    .await;
    check(
        "Read",
        json!({ "filePath": "cart.py", "offset": 2, "limit": 1 }),
        "read_file",
        expect![[r#"
            [Lines 2-2 of 2.]

            2	print(total)"#]],
    )
    .await;
    check(
        "functions.read_file",
        json!({ "path": "cart.py" }),
        "read_file",
        expect![[r#"
            1	total = 0
            2	print(total)"#]],
    )
    .await;
    check(
        "Grep",
        json!({ "pattern": "total", "output_mode": "files_with_matches" }),
        "grep_search",
        expect![[r#"
            Found 1 file with matches for pattern "total" in path ".":
            cart.py"#]],
    )
    .await;
}

#[tokio::test]
async fn several_edits_of_one_call_are_made_together_or_not_at_all() {
    let edit = |old: &str, new: &str| json!({ "old_string": old, "new_string": new });
    let dir = workspace();
    let edits = json!([edit("total = 0", "total = 1"), edit("print(total)", "print(1 + total)")]);
    let args = json!({ "file_path": "cart.py", "edits": edits });
    let (call, _) = made(&dir, &[("MultiEdit", args)]).await.remove(0);
    assert_eq!(call.name, "replace");
    let read = || fs::read_to_string(dir.path().join("cart.py")).unwrap();
    assert_eq!(read(), "total = 1\nprint(1 + total)\n");

    let edits = json!([edit("total = 1", "total = 2"), edit("nowhere", "x")]);
    let args = json!({ "file_path": "cart.py", "edits": edits });
    let (_, told) = made(&dir, &[("MultiEdit", args)]).await.remove(0);
    assert!(told.contains("Edit 2 of 2: Nothing was changed: old_string was not found"), "{told}");
    assert_eq!(read(), "total = 1\nprint(1 + total)\n");
}

#[tokio::test]
async fn an_argument_that_the_tool_does_not_have_is_named_with_those_that_it_has() {
    check(
        "write_file",
        json!({ "file_path": "new", "content": "x", "append": true }),
        "write_file",
        expect!["`append`: unknown field `append`, expected `file_path` or `content`"],
    )
    .await;
    check(
        "str_replace_editor",
        json!({ "command": "insert", "path": "cart.py", "insert_line": 1, "new_str": "x" }),
        "replace",
        expect!["`insert_line`: unknown field `insert_line`, expected one of `file_path`, `instruction`, `old_string`, `new_string`, `allow_multiple`, `expected_replacements`, `edits`"],
    )
    .await;
    check(
        "read_file",
        json!({ "file_path": "cart.py", "path": "other.py" }),
        "read_file",
        expect!["`path`: unknown field `path`, expected one of `file_path`, `offset`, `limit`, `start_line`, `end_line`"],
    )
    .await;
}

#[tokio::test]
async fn the_history_keeps_the_words_of_the_model() {
    let dir = workspace();
    let answers = vec![calls("Bash", json!({ "command": "echo hi" })), says("done")];
    let (spy, _) = Spy::new(answers);
    let host = host(dir.path());
    let session = Session::new(Parts { tools: tools::all(), host, mode: Mode::Yolo, ..parts(spy) });
    let mut log = session.events(0);
    session.prompt(text("go"), Origin::Editor);
    let events = until(&mut log, is_end).await;
    let said = events.iter().find_map(|event| match &**event {
        Event::AnswerFinished { calls, .. } => Some(calls[0].name.clone()),
        _ => None,
    });
    assert_eq!(said.as_deref(), Some("Bash"));
}

#[tokio::test]
async fn a_wrong_path_is_answered_with_the_one_that_was_meant() {
    check(
        "read_file",
        json!({ "file_path": "src/cart.py" }),
        "read_file",
        expect!["File not found: DIR/src/cart.py. Did you mean cart.py?"],
    )
    .await;
    check(
        "replace",
        json!({ "file_path": "car.py", "instruction": "", "old_string": "a", "new_string": "b" }),
        "replace",
        expect!["car.py does not exist. Did you mean cart.py? To create the file, leave old_string empty."],
    )
    .await;
}
