//! `glob`.

use std::fs::File;
use std::time::{Duration, SystemTime};

use expect_test::expect;
use serde_json::{Value, json};

use super::Project;

#[track_caller]
fn check_error(project: &Project, args: Value, expected: &str) {
    project.check_error("glob", args, expected);
}

/// Makes a project with old files, which `glob` sorts by name.
fn old(files: &[&str]) -> Project {
    let project = Project::new(&[]);
    for name in files {
        project.write(name, "");
        age(&project, name, Duration::from_hours(48));
    }
    project
}

fn age(project: &Project, name: &str, age: Duration) {
    let file = File::options().write(true).open(project.root().join(name)).unwrap();
    file.set_modified(SystemTime::now() - age).unwrap();
}

/// Checks the paths that `glob` finds, relative to the project.
#[track_caller]
fn check(project: &Project, args: Value, expected: &[&str]) {
    let text = project.call("glob", args).text();
    let root = format!("{}/", project.root().display());
    let found: Vec<_> = text.lines().filter_map(|line| line.strip_prefix(&root)).collect();
    assert_eq!(found, expected);
}

#[test]
fn files_are_found_by_name() {
    let project = old(&["README.md", "sub/notes.md", "sub/deep/more.MD", "sub/s.txt", ".env"]);
    let see = |args: Value| project.see("glob", args);
    expect![[r#"
        label: Find "*.md"
        shown: Found 1 matching file(s)
        ---
        Found 1 file(s) for "*.md", those that changed last first:
        $ROOT/README.md"#]]
    .assert_eq(&see(json!({ "pattern": "*.md" })));
    expect![[r#"
        label: Find "*.zzz" in sub
        shown: No files found
        ---
        No files found for "*.zzz" in sub."#]]
    .assert_eq(&see(json!({ "pattern": "*.zzz", "dir_path": "sub" })));
    let check = |args: Value, expected: &[&str]| check(&project, args, expected);
    check(json!({ "pattern": "**/*.md" }), &["README.md", "sub/deep/more.MD", "sub/notes.md"]);
    check(json!({ "pattern": "**/*.md", "case_sensitive": true }), &["README.md", "sub/notes.md"]);
    check(json!({ "pattern": "SUB/*.{md,txt}" }), &["sub/notes.md", "sub/s.txt"]);
    check(json!({ "pattern": "SUB/*", "case_sensitive": true }), &[]);
    check(json!({ "pattern": "./sub//s.t?t" }), &["sub/s.txt"]);
    check(json!({ "pattern": "sub/s.txt" }), &["sub/s.txt"]);
    check(json!({ "pattern": "*.md", "dir_path": "sub" }), &["sub/notes.md"]);
    check(json!({ "pattern": "sub" }), &[]);
    check(json!({ "pattern": "*" }), &[".env", "README.md"]);
    check(json!({ "pattern": "sub/**" }), &["sub/deep/more.MD", "sub/notes.md", "sub/s.txt"]);
    check(json!({ "pattern": "{sub/deep,x}/*" }), &["sub/deep/more.MD"]);
    check(json!({ "pattern": "README{,.md}" }), &["README.md"]);
}

#[test]
fn what_changed_last_comes_first() {
    let project = old(&["a", "b", "c", "d"]);
    age(&project, "c", Duration::from_hours(1));
    age(&project, "b", Duration::from_hours(2));
    check(&project, json!({ "pattern": "*" }), &["c", "b", "a", "d"]);
}

#[test]
fn a_name_that_looks_like_a_glob_is_a_name() {
    let project = old(&["app/[id]/page.tsx", "app/i/page.tsx", "a{b}.txt", "[x]", "x"]);
    let check = |pattern: &str, expected: &[&str]| {
        check(&project, json!({ "pattern": pattern }), expected);
    };
    check("app/[id]/page.tsx", &["app/[id]/page.tsx"]);
    check("app/[id]/*.tsx", &["app/[id]/page.tsx"]);
    check("app/[ij]/*.tsx", &["app/i/page.tsx"]);
    check("a{b}.txt", &["a{b}.txt"]);
    check("[x]", &["[x]"]);
    check("\\[x\\]", &["[x]"]);
}

#[test]
fn what_is_ignored_is_not_found() {
    let project = old(&["a.log", "b.txt", "secret/key", ".git/config", "out/c.txt"]);
    project.write(".gitignore", "*.log\nout/\n");
    project.write(".geminiignore", "secret\n");
    age(&project, ".gitignore", Duration::from_hours(48));
    age(&project, ".geminiignore", Duration::from_hours(48));
    let check = |args: Value, expected: &[&str]| check(&project, args, expected);
    let ours = [".geminiignore", ".gitignore"];
    check(json!({ "pattern": "**" }), &[ours[0], ours[1], "b.txt"]);
    check(
        json!({ "pattern": "**", "respect_git_ignore": false }),
        &[ours[0], ours[1], "a.log", "b.txt", "out/c.txt"],
    );
    check(
        json!({ "pattern": "**", "respect_gemini_ignore": false }),
        &[ours[0], ours[1], "b.txt", "secret/key"],
    );
    check(json!({ "pattern": "a.log" }), &[]);
    check(json!({ "pattern": "out/*" }), &[]);
    let ignored = "file_ignored: $ROOT/out is ignored by .gitignore, and so it is left alone. \
                   If it is needed, ask the user.";
    check_error(&project, json!({ "pattern": project.root().join("out/*") }), ignored);
    check_error(&project, json!({ "pattern": "*", "dir_path": "out" }), ignored);
}

#[test]
fn what_is_outside_is_asked_about_or_not_found() {
    let project = old(&["sub/a.txt", "../outside/o.txt"]);
    project.link("out", project.outside());
    project.link("o.txt", project.outside().join("o.txt"));
    project.link("in", "sub");
    project.link("sub/b.txt", "a.txt");
    project.link("loop", ".");
    let check_asked = |pattern: &str, directory: &str| {
        check_error(&project, json!({ "pattern": pattern }), &format!("asked: {directory}"));
    };
    check_asked("../outside/*", "$OUTSIDE");
    check_asked("sub/../../outside/*.txt", "$OUTSIDE");
    check_asked("out/*.txt", "$OUTSIDE");
    check_asked("/etc/passwd", "/etc");
    check_asked("/etc/*", "/etc");
    check_asked("/*", "/");
    let closed = "path_not_in_workspace: /proc is outside the workspace: $ROOT";
    check_error(&project, json!({ "pattern": "/proc/*" }), closed);
    let none = "directory_not_found: Directory not found: $OUTSIDE/none";
    check_error(&project, json!({ "pattern": project.outside().join("none/*") }), none);
    let check = |pattern: &str, expected: &[&str]| {
        check(&project, json!({ "pattern": pattern }), expected);
    };
    check("out/o.txt", &[]);
    check("o.txt", &[]);
    check("{..,sub}/*", &["sub/a.txt", "sub/b.txt"]);
    check("**/*.txt", &["sub/a.txt", "sub/b.txt"]);
    check("in/*.txt", &["sub/a.txt", "sub/b.txt"]);
    check("sub/../sub/a.*", &["sub/a.txt"]);
    let root = project.root().display().to_string();
    check(&format!("{root}/sub/../**/a.txt"), &["sub/a.txt"]);
    check(&format!("{root}/sub/a.txt"), &["sub/a.txt"]);
}

#[test]
fn what_cannot_be_looked_for_says_why() {
    let project = old(&["file"]);
    let check = |args: Value, expected: &str| check_error(&project, args, expected);
    let invalid = |pattern: &str, why: &str| {
        let expected = format!("invalid_pattern: This pattern cannot be used: {why}.");
        check(json!({ "pattern": pattern }), &expected);
    };
    invalid("[", "unclosed character class; missing ']'");
    invalid(&"a".repeat(5000), "it is too long");
    invalid("*/../../outside/*", "`..` cannot follow a wildcard");
    invalid("", "it is empty");
    check(
        json!({ "pattern": "*", "dir_path": "nope" }),
        "directory_not_found: Directory not found: $ROOT/nope",
    );
    check(
        json!({ "pattern": "*", "dir_path": "file" }),
        "not_a_directory: $ROOT/file is not a directory.",
    );
    check(json!({ "pattern": "*", "dir_path": ".." }), "asked: $ABOVE");
    expect![[r#"
        label: Find "* ␀"
        shown: No files found
        ---
        No files found for "* ␀"."#]]
    .assert_eq(&project.see("glob", json!({ "pattern": "*\n\0" })));
}

#[test]
fn no_more_files_are_named_than_are_allowed() {
    let mut project = old(&["a", "b", "c", "d"]);
    project.limits.files = 2;
    expect![[r#"
        label: Find "*"
        shown: Found 4 matching file(s)
        ---
        Found 4 file(s) for "*", those that changed last first:
        $ROOT/a
        $ROOT/b
        (2 more are not named: a narrower pattern finds them)"#]]
    .assert_eq(&project.see("glob", json!({ "pattern": "*" })));
    project.limits.output_chars = 60;
    expect![[r#"
        label: Find "*"
        shown: Found 4 matching file(s)
        ---
        Found 4 file(s) for "*", those that changed last first:
        $ROOT/a
        (3 more are not named: a narrower pattern finds them)"#]]
    .assert_eq(&project.see("glob", json!({ "pattern": "*" })));
    project.limits.search_time = Duration::ZERO;
    expect![[r#"
        label: Find "*"
        shown: No files found
        ---
        No files found for "*".
        (The search was ended after 0 s: there may be more.)"#]]
    .assert_eq(&project.see("glob", json!({ "pattern": "*" })));
}

#[test]
fn all_directories_of_the_workspace_are_searched() {
    let mut project = old(&["a.txt", "nested/b.txt", "../outside/c.txt"]);
    project.more = vec![project.root().join("nested"), project.outside()];
    expect![[r#"
        label: Find "**/*.txt"
        shown: Found 3 matching file(s)
        ---
        Found 3 file(s) for "**/*.txt", those that changed last first:
        $OUTSIDE/c.txt
        $ROOT/a.txt
        $ROOT/nested/b.txt"#]]
    .assert_eq(&project.see("glob", json!({ "pattern": "**/*.txt" })));
    let there = json!({ "pattern": "*", "dir_path": project.outside() });
    expect![[r#"
        label: Find "*" in $OUTSIDE
        shown: Found 1 matching file(s)
        ---
        Found 1 file(s) for "*" in $OUTSIDE, those that changed last first:
        $OUTSIDE/c.txt"#]]
    .assert_eq(&project.see("glob", there));
}
