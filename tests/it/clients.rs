//! The protocol's published client drives the real binary.

mod published;

use serde_json::{Value, json};

use self::published::{Heard, Outcome, v0_0_9, v0_0_11};
use crate::agent::Setup;

/// Checks the events that both versions of the client get for these prompts.
async fn check(setup: Setup, outcome: Outcome, expected: &[&str]) {
    for heard in [v0_0_9::prompt(&setup, outcome).await, v0_0_11::prompt(&setup, outcome).await] {
        assert_eq!(heard.lines, expected);
        assert!(heard.answer.is_ok(), "{:?}", heard.answer);
    }
}

fn call(name: &str, args: Value) -> Value {
    json!({ "call": { "name": name, "args": args } })
}

fn one_call(name: &str, args: Value) -> Setup {
    Setup::answers(json!([[call(name, args)], [{ "text": "after" }]]))
        .file("a.txt", "one\ntwo\n")
        .file("sub/b.txt", "three\n")
        .without_sandbox()
}

#[tokio::test]
async fn text_and_thoughts_arrive_in_order() {
    let setup = Setup::answers(json!([[
        { "thought": "**Greeting** hm" }, { "text": "Hello, " }, { "text": "wörld 🦀" }
    ]]));
    check(setup, Outcome::Allow, &["thought **Greeting** hm", "text Hello, ", "text wörld 🦀"])
        .await;
}

#[tokio::test]
async fn every_kind_of_tool_is_shown() {
    let todos = json!({ "todos": [{ "description": "x", "status": "completed" }] });
    let cases: &[(&str, Value, &[&str])] = &[
        (
            "read_file",
            json!({ "file_path": "a.txt" }),
            &["push FileSearch Read a.txt @a.txt", "Finished"],
        ),
        (
            "read_many_files",
            json!({ "include": ["*.txt"] }),
            &["push FileSearch Will attempt to read and concatenate files", "Finished"],
        ),
        (
            "list_directory",
            json!({ "dir_path": "." }),
            &["push Folder List . @.", "Finished Listed 2 item(s)."],
        ),
        (
            "glob",
            json!({ "pattern": "*.txt" }),
            &[r#"push FileSearch Find "*.txt""#, "Finished Found 1 matching file(s)"],
        ),
        (
            "grep_search",
            json!({ "pattern": "t" }),
            &[r#"push Regex Search for "t" @"#, "Finished Found 2 matches"],
        ),
        (
            "write_file",
            json!({ "file_path": "new.txt", "content": "new\n" }),
            &["ask Pencil Edit Write new.txt @new.txt + None -> new\n", "Finished None -> new\n"],
        ),
        (
            "replace",
            json!({ "file_path": "a.txt", "instruction": "i", "old_string": "two", "new_string": "2" }),
            &[
                "ask Pencil Edit Edit a.txt @a.txt:1 + Some(\"one\\ntwo\\n\") -> one\n2\n",
                "Finished Some(\"one\\ntwo\\n\") -> one\n2\n",
            ],
        ),
        (
            "run_shell_command",
            json!({ "command": "touch x; echo done" }),
            &[
                "ask Terminal Execute touch, echo: touch x; echo done Run touch x; echo done",
                "Finished ```\ndone\n```",
            ],
        ),
        ("write_todos", todos, &["push LightBulb Write 1 todo", "Finished - [x] x\n"]),
        (
            "no_such_tool",
            json!({}),
            &["push Hammer Call no_such_tool", "Error Unknown tool `no_such_tool`."],
        ),
    ];
    for (name, args, expected) in cases {
        let heard = v0_0_9::prompt(&one_call(name, args.clone()), Outcome::Allow).await;
        assert_eq!(heard.lines.last().unwrap(), "text after", "{name}");
        let lines = &heard.lines[..heard.lines.len() - 1];
        assert_eq!(lines.len(), expected.len(), "{name}: {lines:?}");
        for (line, expected) in lines.iter().zip(*expected) {
            assert!(line.starts_with(expected), "{name}: {line:?} is not {expected:?}");
        }
    }
}

#[tokio::test]
async fn every_outcome_is_understood() {
    let cases: &[(Outcome, &[&str], bool)] = &[
        (Outcome::Allow, &["Finished ```\nran\n```", "text after"], true),
        (Outcome::AlwaysAllow, &["Finished ```\nran\n```", "text after"], true),
        (Outcome::AlwaysAllowTool, &["Finished ```\nran\n```", "text after"], true),
        (Outcome::AlwaysAllowMcpServer, &["Finished ```\nran\n```", "text after"], true),
        (Outcome::Reject, &["text after"], false),
        (Outcome::Cancel, &[], false),
    ];
    for (outcome, expected, runs) in cases {
        let setup = one_call("run_shell_command", json!({ "command": "touch ran; echo ran" }));
        for heard in
            [v0_0_9::prompt(&setup, *outcome).await, v0_0_11::prompt(&setup, *outcome).await]
        {
            assert!(heard.lines[0].starts_with("ask Terminal Execute touch"), "{:?}", heard.lines);
            assert_eq!(&heard.lines[1..], *expected, "{outcome:?}");
            assert!(heard.answer.is_ok());
            assert_eq!(heard.files.contains(&"ran".to_owned()), *runs, "{outcome:?}");
        }
    }
}

#[tokio::test]
async fn a_plan_is_sent_to_a_client_that_knows_plans() {
    let todos = json!({ "todos": [
        { "description": "a", "status": "completed" },
        { "description": "b", "status": "in_progress" },
        { "description": "c", "status": "cancelled" },
        { "description": "d", "status": "blocked" },
    ] });
    let setup = one_call("write_todos", todos);
    let heard = v0_0_11::prompt(&setup, Outcome::Allow).await;
    assert_eq!(heard.lines, ["plan a Completed, b InProgress, d Pending", "text after"]);
}

#[tokio::test]
async fn a_turn_of_20_000_chunks_loses_nothing() {
    let setup = Setup::answers(json!([[{ "repeat": { "text": "{n},", "times": 20_000 } }]]));
    let expected: String = (0..20_000).map(|n| format!("{n},")).collect();
    for heard in [
        v0_0_9::prompt(&setup, Outcome::Allow).await,
        v0_0_11::prompt(&setup, Outcome::Allow).await,
    ] {
        assert!(heard.text() == expected, "{} of {} bytes", heard.text().len(), expected.len());
    }
}

#[tokio::test]
async fn a_cancel_while_the_model_answers_is_an_abort() {
    let setup = Setup::answers(json!([[{ "text": "begun" }, { "hang": null }]]));
    let heard = v0_0_9::prompt_and_cancel(&setup, "text begun").await;
    aborted(&heard);
}

#[tokio::test]
async fn a_cancel_while_a_retry_waits_is_an_abort() {
    let retry =
        json!({ "retry": { "reason": "rate limited", "delay": 600_000, "attempt": 2, "of": 10 } });
    let setup = Setup::answers(json!([[retry, { "text": "never" }]]));
    let shown = "thought **Retrying in 600 s (2 of 10): rate limited**\n";
    aborted(&v0_0_9::prompt_and_cancel(&setup, shown).await);
}

fn aborted(heard: &Heard) {
    let (code, data) = heard.answer.clone().unwrap_err();
    assert_eq!(code, -32603);
    assert_eq!(data, json!({ "details": "This operation was aborted" }));
}

#[tokio::test]
async fn a_cancel_while_a_command_runs_is_no_error() {
    let setup =
        one_call("run_shell_command", json!({ "command": "echo begun; sleep 1000" })).arg("-y");
    let heard = v0_0_9::prompt_and_cancel(&setup, "Running ```\nbegun\n```").await;
    assert!(heard.answer.is_ok());
    assert_eq!(heard.lines.last().unwrap(), "Error Cancelled");
}

#[tokio::test]
async fn a_cancel_while_a_question_is_open_is_no_error_and_nothing_runs() {
    let setup = one_call("run_shell_command", json!({ "command": "touch ran" }));
    let heard =
        v0_0_9::prompt_and_cancel(&setup, "ask Terminal Execute touch: touch ran Run touch ran")
            .await;
    assert!(heard.answer.is_ok());
    assert!(!heard.files.contains(&"ran".to_owned()));
}

#[tokio::test]
async fn a_second_prompt_ends_the_first_and_is_answered_after_it() {
    let script = vec![
        json!({ "when": "first", "answers": [[{ "text": "begun" }, { "hang": null }]] }),
        json!({ "when": "second", "answers": [[{ "text": "done" }]] }),
    ];
    let heard = v0_0_9::two_prompts(&Setup::script(script)).await;
    assert_eq!(heard, ["text begun", "first: aborted", "text done", "second: ok"]);
}
