//! `grep_search` in files that are no text, and in places where it fails.

use std::time::Duration;

use expect_test::expect;
use serde_json::{Value, json};

use super::Project;

#[track_caller]
fn check_error(project: &Project, args: Value, expected: &str) {
    project.check_error("grep_search", args, expected);
}

/// Makes a project with many files that must not be searched.
fn odd() -> Project {
    let project = Project::new(&[
        (".gitignore", "*.log\n"),
        (".geminiignore", "secret\n"),
        ("a.log", "needle\n"),
        ("secret/key", "needle\n"),
        (".git/config", "needle\n"),
        ("../outside/o.txt", "needle\n"),
    ]);
    project.write("program", b"needle\nneedle\0needle\n");
    let late = [&b"needle\n"[..], &b"x\n".repeat(200_000), b"\0"].concat();
    project.write("program-later", late);
    let utf16 = "\u{feff}a n\u{e4}h needle\n".encode_utf16().flat_map(u16::to_be_bytes);
    project.write("utf16.txt", utf16.collect::<Vec<u8>>());
    project.write("latin1.txt", b"n\xe4h needle\n");
    project.write("crlf.txt", b"a needle\r\n");
    project.fifo("fifo");
    project.link("out", project.outside());
    project.link("o.txt", project.outside().join("o.txt"));
    project.link("twice.txt", "crlf.txt");
    project.link("loop", ".");
    project
}

#[test]
fn what_is_no_text_is_not_searched() {
    let project = odd();
    let see = |args: Value| project.see("grep_search", args);
    expect![[r#"
        label: Search for "needle$"
        at: $ROOT/crlf.txt:1
        at: $ROOT/latin1.txt:1
        at: $ROOT/utf16.txt:1
        shown: Found 3 matches
        ---
        Found 3 matches for pattern "needle$" in path ".":
        ---
        File: crlf.txt
        L1: a needle
        ---
        File: latin1.txt
        L1: n�h needle
        ---
        File: utf16.txt
        L1: a näh needle
        ---"#]]
    .assert_eq(&see(json!({ "pattern": "needle$", "context": 0 })));
    let all = json!({ "pattern": "needle", "no_ignore": true, "names_only": true });
    expect![[r#"
        label: Search for "needle"
        at: $ROOT/a.log:1
        at: $ROOT/crlf.txt:1
        at: $ROOT/latin1.txt:1
        at: $ROOT/utf16.txt:1
        shown: Found 4 files
        ---
        Found 4 files with matches for pattern "needle" in path ".":
        a.log
        crlf.txt
        latin1.txt
        utf16.txt"#]]
    .assert_eq(&see(all));
    expect![[r#"
        label: Search for "needle" in program
        shown: No matches found
        ---
        No matches found for pattern "needle" in path "program"."#]]
    .assert_eq(&see(json!({ "pattern": "needle", "dir_path": "program" })));
}

#[test]
fn where_a_search_cannot_be_is_said() {
    let project = odd();
    let check = |path: &str, expected: &str| {
        let args = json!({ "pattern": "needle", "dir_path": path, "no_ignore": path == "secret" });
        check_error(&project, args, expected);
    };
    let alone = "and so it is left alone. If it is needed, ask the user.";
    check("a.log", &format!("file_ignored: $ROOT/a.log is ignored by .gitignore, {alone}"));
    check("secret", &format!("file_ignored: $ROOT/secret is ignored by .geminiignore, {alone}"));
    check("fifo", "not_a_regular_file: $ROOT/fifo is neither a file nor a directory.");
    check("nope", "file_not_found: File not found: $ROOT/nope");
    check("out", "asked: $OUTSIDE");
    check("/proc", "path_not_in_workspace: /proc is outside the workspace: $ROOT");
}

#[test]
fn a_file_that_cannot_be_read_is_counted() {
    let mut project = Project::new(&[("a.txt", "needle\n")]);
    project.limits.file_bytes = 100_000;
    project.write("b.txt", "needle".repeat(100_000));
    let text = || project.call("grep_search", json!({ "pattern": "needle" })).text();
    assert!(text().ends_with("(1 file(s) or directories could not be read.)"), "{}", text());
    if project.unreadable("c.txt") {
        assert!(text().ends_with("(2 file(s) or directories could not be read.)"), "{}", text());
    }
}

#[test]
fn a_pattern_that_cannot_be_used_says_where() {
    let project = Project::new(&[]);
    let see = |args: Value| project.see("grep_search", args);
    expect![[r#"
        label: Search for "a(b"
        invalid_pattern: regex parse error:
            a(b
             ^
        error: unclosed group"#]]
    .assert_eq(&see(json!({ "pattern": "a(b" })));
    expect![[r#"
        label: Search for "(?=a)"
        invalid_pattern: regex parse error:
            (?=a)
            ^^^
        error: look-around, including look-ahead and look-behind, is not supported"#]]
    .assert_eq(&see(json!({ "pattern": "(?=a)" })));
    expect![[r#"
        label: Search for "a"
        invalid_pattern: regex parse error:
            [
            ^
        error: unclosed character class"#]]
    .assert_eq(&see(json!({ "pattern": "a", "exclude_pattern": "[" })));
    expect![[r#"
        label: Search for "((a{1000}){1000}){1000}"
        invalid_pattern: Compiled regex exceeds size limit of 10485760 bytes."#]]
    .assert_eq(&see(json!({ "pattern": "((a{1000}){1000}){1000}" })));
    let check = |args: Value, expected: &str| check_error(&project, args, expected);
    check(
        json!({ "pattern": "a\nb" }),
        "invalid_pattern: Lines are searched one by one: a pattern cannot match a line break.",
    );
    check(json!({ "pattern": "" }), "invalid_pattern: `pattern` is empty.");
    check(
        json!({ "pattern": "a", "include_pattern": "[" }),
        "invalid_pattern: `include_pattern`: error parsing glob '[': \
         unclosed character class; missing ']'",
    );
    check(
        json!({ "pattern": "a", "context": "some" }),
        "invalid_tool_params: `context`: \"some\" is not a whole number from 0",
    );
}

#[test]
fn a_search_that_takes_too_long_is_ended() {
    let mut project = Project::new(&[("a.txt", "a\n")]);
    project.limits.search_time = Duration::ZERO;
    expect![[r#"
        label: Search for "a"
        shown: No matches found (limited)
        ---
        No matches found for pattern "a" in path ".".
        (The search was ended after 0 s: there may be more.)"#]]
    .assert_eq(&project.see("grep_search", json!({ "pattern": "a" })));
}

#[test]
fn all_directories_of_the_workspace_are_searched() {
    let mut project = Project::new(&[("a.txt", "line\n"), ("src/b.txt", "line\n")]);
    project.write("../outside/o.txt", "line\n");
    project.more = vec![project.root().join("src"), project.outside()];
    let see = |args: Value| project.see("grep_search", args);
    expect![[r#"
        label: Search for "line"
        at: $ROOT/a.txt:1
        at: $ROOT/src/b.txt:1
        at: $OUTSIDE/o.txt:1
        shown: Found 3 files
        ---
        Found 3 files with matches for pattern "line" in path ".":
        a.txt
        src/b.txt
        $OUTSIDE/o.txt"#]]
    .assert_eq(&see(json!({ "pattern": "line", "names_only": true })));
    let there = json!({ "pattern": "line", "dir_path": project.outside(), "context": 0 });
    expect![[r#"
        label: Search for "line" in $OUTSIDE
        at: $OUTSIDE/o.txt:1
        shown: Found 1 match
        ---
        Found 1 match for pattern "line" in path "$OUTSIDE":
        ---
        File: $OUTSIDE/o.txt
        L1: line
        ---"#]]
    .assert_eq(&see(there));
}
