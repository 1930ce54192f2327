//! `list_directory`.

use std::fs;

use expect_test::expect;
use serde_json::{Value, json};

use super::Project;

#[track_caller]
fn check_error(project: &Project, args: Value, expected: &str) {
    project.check_error("list_directory", args, expected);
}

#[test]
fn directories_come_before_files() {
    let project = Project::new(&[("b.txt", "12345"), ("a/x", ""), ("c/y", ""), ("A.txt", "")]);
    let same = [
        json!({ "dir_path": "." }),
        json!({ "dir_path": "a/.." }),
        json!({}),
        json!({ "dir_path": project.root() }),
    ];
    expect![[r#"
        label: List .
        at: $ROOT
        shown: Listed 4 item(s).
        ---
        In $ROOT:
        [DIR] a
        [DIR] c
        A.txt (0 bytes)
        b.txt (5 bytes)"#]]
    .assert_eq(&project.see_same("list_directory", &same));
    let see = |path: &str| project.see("list_directory", json!({ "dir_path": path }));
    expect![[r#"
        label: List a
        at: $ROOT/a
        shown: Listed 1 item(s).
        ---
        In $ROOT/a:
        x (0 bytes)"#]]
    .assert_eq(&see("a"));
    fs::create_dir(project.root().join("empty")).unwrap();
    expect![[r#"
        label: List empty
        at: $ROOT/empty
        shown: Listed 0 item(s).
        ---
        Nothing to list in $ROOT/empty."#]]
    .assert_eq(&see("empty"));
}

fn ignoring() -> Project {
    Project::new(&[
        (".gitignore", "*.log\n"),
        (".geminiignore", "secret\n"),
        (".git/HEAD", ""),
        ("a.log", ""),
        ("b.txt", ""),
        ("secret/key", ""),
        ("sub/.gitignore", "*.txt\n!keep.txt\n"),
        ("sub/a.txt", ""),
        ("sub/keep.txt", ""),
        ("sub/b.log", ""),
    ])
}

#[test]
fn what_is_ignored_is_counted() {
    let project = ignoring();
    let see = |args: Value| project.see("list_directory", args);
    expect![[r#"
        label: List .
        at: $ROOT
        shown: Listed 4 item(s). (without .git, 1 git-ignored, 1 ignored)
        ---
        In $ROOT:
        [DIR] sub
        .geminiignore (7 bytes)
        .gitignore (6 bytes)
        b.txt (0 bytes)
        (without .git, 1 git-ignored, 1 ignored)"#]]
    .assert_eq(&see(json!({ "dir_path": "." })));
    expect![[r#"
        label: List sub
        at: $ROOT/sub
        shown: Listed 2 item(s). (2 git-ignored)
        ---
        In $ROOT/sub:
        .gitignore (16 bytes)
        keep.txt (0 bytes)
        (2 git-ignored)"#]]
    .assert_eq(&see(json!({ "dir_path": "sub" })));
    expect![[r#"
        label: List .
        at: $ROOT
        shown: Listed 2 item(s). (without .git, 1 git-ignored, 3 ignored)
        ---
        In $ROOT:
        .geminiignore (7 bytes)
        .gitignore (6 bytes)
        (without .git, 1 git-ignored, 3 ignored)"#]]
    .assert_eq(&see(json!({ "dir_path": ".", "ignore": ["*.txt", "sub/"] })));
}

#[test]
fn what_is_ignored_is_listed_on_demand() {
    let project = ignoring();
    let see = |args: Value| project.see("list_directory", args);
    let all = json!({ "respect_git_ignore": false, "respect_gemini_ignore": "false" });
    let everything = json!({ "dir_path": ".", "file_filtering_options": all });
    expect![[r#"
        label: List .
        at: $ROOT
        shown: Listed 7 item(s).
        ---
        In $ROOT:
        [DIR] .git
        [DIR] secret
        [DIR] sub
        .geminiignore (7 bytes)
        .gitignore (6 bytes)
        a.log (0 bytes)
        b.txt (0 bytes)"#]]
    .assert_eq(&see(everything));
    check_error(
        &project,
        json!({ "dir_path": "secret" }),
        "file_ignored: $ROOT/secret is ignored by .geminiignore, and so it is left alone. \
         If it is needed, ask the user.",
    );
    let secret = json!({ "dir_path": "secret", "file_filtering_options": all });
    expect![[r#"
        label: List secret
        at: $ROOT/secret
        shown: Listed 1 item(s).
        ---
        In $ROOT/secret:
        key (0 bytes)"#]]
    .assert_eq(&see(secret));
}

#[test]
fn what_is_no_file_is_listed_too() {
    let project = Project::new(&[("dir/a", ""), ("file", "123"), ("../outside/o", "")]);
    project.fifo("fifo");
    project.link("to-file", "file");
    project.link("to-dir", "dir");
    project.link("nowhere", "nothing");
    project.link("loop", "loop");
    project.link("out", project.outside());
    project.link("out-nowhere", project.outside().join("nothing"));
    let see = |args: Value| project.see("list_directory", args);
    expect![[r#"
        label: List .
        at: $ROOT
        shown: Listed 5 item(s). (2 leading outside the workspace, 2 leading nowhere)
        ---
        In $ROOT:
        [DIR] dir
        [DIR] to-dir
        fifo (not a regular file)
        file (3 bytes)
        to-file (3 bytes)
        (2 leading outside the workspace, 2 leading nowhere)"#]]
    .assert_eq(&see(json!({ "dir_path": "." })));
    project.write("two\nlines", "");
    expect![[r#"
        label: List .
        at: $ROOT
        shown: Listed 3 item(s). (7 ignored)
        ---
        In $ROOT:
        [DIR] to-dir
        to-file (3 bytes)
        two lines (0 bytes)
        (7 ignored)"#]]
    .assert_eq(&see(json!({ "dir_path": ".", "ignore": "[!t]*" })));
}

#[test]
fn what_cannot_be_listed_says_why() {
    let project = Project::new(&[("file", "")]);
    let check = |args: Value, expected: &str| check_error(&project, args, expected);
    check(json!({ "dir_path": "nope" }), "directory_not_found: Directory not found: $ROOT/nope");
    check(json!({ "dir_path": "file" }), "not_a_directory: $ROOT/file is not a directory.");
    check(json!({ "dir_path": "/" }), "asked: /");
    check(
        json!({ "dir_path": "/proc" }),
        "path_not_in_workspace: /proc is outside the workspace: $ROOT",
    );
    let globs = json!({ "dir_path": ".", "ignore": ["{a"] });
    check(
        globs,
        "invalid_tool_params: `ignore`: error parsing glob '{a': unclosed alternate group; \
         missing '}' (maybe escape '{' with '[{]'?)",
    );
}

#[test]
fn of_a_huge_directory_the_first_entries_are_listed() {
    let mut project = Project::new(&[]);
    for n in 0..20_000 {
        project.write(&format!("huge/{n:05}"), "");
    }
    let called = project.call("list_directory", json!({ "dir_path": "huge" }));
    assert_eq!(called.shown(), Some("Listed 20000 item(s)."));
    let text = called.text();
    let lines: Vec<_> = text.lines().collect();
    assert_eq!(lines.len(), 1 + 2000 + 1);
    assert_eq!(lines[1], "00000 (0 bytes)");
    assert_eq!(lines[2000], "01999 (0 bytes)");
    assert_eq!(lines[2001], "(18000 more, which come after these in the alphabet)");
    project.limits.output_chars = 1000;
    let called = project.call("list_directory", json!({ "dir_path": "huge" }));
    assert_eq!(called.shown(), Some("Listed 20000 item(s)."));
    assert!(called.text().len() < 1100);
}
