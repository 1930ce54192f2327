//! `grep_search`.

use std::fs;

use expect_test::expect;
use serde_json::{Value, json};

use super::{Called, Project, tool_named};

/// Returns the text for the model.
fn answer(project: &Project, args: Value) -> String {
    project.name_places(&project.call("grep_search", args).text())
}

fn many() -> Project {
    Project::new(&[
        ("README.md", "# Title\nline one\nLine two\n"),
        ("src/a.rs", "fn line() {}\nlet x = 1;\nline!();\n"),
        ("src/b.rs", "// nothing\n"),
        ("src/deep/c.rs", "line\nline\nline\n"),
    ])
}

#[test]
fn lines_are_found() {
    let project = many();
    let see = |args: Value| project.see("grep_search", args);
    expect![[r#"
        label: Search for "line"
        at: $ROOT/README.md:2
        at: $ROOT/src/a.rs:1
        at: $ROOT/src/deep/c.rs:1
        shown: Found 7 matches
        ---
        Found 7 matches for pattern "line" in path ".":
        ---
        File: README.md
        L2: line one
        L3: Line two
        ---
        File: src/a.rs
        L1: fn line() {}
        L3: line!();
        ---
        File: src/deep/c.rs
        L1: line
        L2: line
        L3: line
        ---"#]]
    .assert_eq(&see(json!({ "pattern": "line" })));
    let nowhere = json!({ "pattern": "nowhere" });
    expect![[r#"
        label: Search for "nowhere"
        shown: No matches found
        ---
        No matches found for pattern "nowhere" in path "."."#]]
    .assert_eq(&project.see("search_file_content", nowhere));
    expect![[r#"
        label: Search for "line"
        at: $ROOT/README.md:2
        at: $ROOT/src/a.rs:1
        at: $ROOT/src/deep/c.rs:1
        shown: Found 3 files
        ---
        Found 3 files with matches for pattern "line" in path ".":
        README.md
        src/a.rs
        src/deep/c.rs"#]]
    .assert_eq(&see(json!({ "pattern": "line", "names_only": true })));
    let there = json!({ "pattern": "^line$", "dir_path": "src", "include_pattern": "c*", "context": 0,
        "max_matches_per_file": 2 });
    expect![[r#"
        label: Search for "^line$" in src (c*)
        at: $ROOT/src/deep/c.rs:1
        shown: Found 2 matches
        ---
        Found 2 matches for pattern "^line$" in path "src" (filter: "c*"):
        ---
        File: src/deep/c.rs
        L1: line
        L2: line
        ---
        (1 file(s) have more: max_matches_per_file was reached.)"#]]
    .assert_eq(&see(there));
}

#[test]
fn what_counts_as_found_can_be_said() {
    let project = many();
    let answer = |args: Value| answer(&project, args);
    let sensitive = json!({ "pattern": "Line", "case_sensitive": true, "context": 0 });
    expect![[r#"
        Found 1 match for pattern "Line" in path ".":
        ---
        File: README.md
        L3: Line two
        ---"#]]
    .assert_eq(&answer(sensitive));
    let fixed = json!({ "pattern": "e()", "fixed_strings": true, "after": 0 });
    expect![[r#"
        Found 1 match for pattern "e()" in path ".":
        ---
        File: src/a.rs
        L1: fn line() {}
        ---"#]]
    .assert_eq(&answer(fixed));
    let without = json!({ "pattern": "line", "exclude_pattern": "one|fn|^line$", "context": 1 });
    expect![[r#"
        Found 2 matches for pattern "line" in path ".":
        ---
        File: README.md
        L2- line one
        L3: Line two
        ---
        File: src/a.rs
        L2- let x = 1;
        L3: line!();
        ---"#]]
    .assert_eq(&answer(without));
    let file = json!({ "pattern": "title", "dir_path": "README.md", "context": 0 });
    expect![[r#"
        Found 1 match for pattern "title" in path "README.md":
        ---
        File: README.md
        L1: # Title
        ---"#]]
    .assert_eq(&answer(file));
}

#[test]
fn files_are_chosen_by_a_glob() {
    let project = many();
    let check = |include: &str, expected: &[&str]| {
        let args = json!({ "pattern": ".", "include_pattern": include, "names_only": true });
        let text = answer(&project, args);
        let names: Vec<_> = text.lines().skip(1).collect();
        assert_eq!(names, expected, "{include}");
    };
    check("*.md", &["README.md"]);
    check("src", &["src/a.rs", "src/b.rs", "src/deep/c.rs"]);
    check("src/", &["src/a.rs", "src/b.rs", "src/deep/c.rs"]);
    check("src/*.rs", &["src/a.rs", "src/b.rs"]);
    check("**/c.rs", &["src/deep/c.rs"]);
    check("!src", &["README.md"]);
    check("*.{md,txt}", &["README.md"]);
    check("*.zzz", &[]);
}

/// Returns the first and the last line of each part of an answer, and the lines that match.
fn ends(answer: &str) -> String {
    let lines: Vec<_> = answer.lines().filter_map(|line| line.strip_prefix('L')).collect();
    let number = |line: &str| line.split([':', '-']).next().unwrap().parse::<u32>().unwrap();
    let next_to = |at: usize, by: isize| {
        let other = at.checked_add_signed(by).and_then(|at| lines.get(at));
        other.is_some_and(|other| number(other).abs_diff(number(lines[at])) == 1)
    };
    let matters = |at: &usize| lines[*at].contains(':') || !next_to(*at, -1) || !next_to(*at, 1);
    let ends: Vec<_> = (0..lines.len()).filter(matters).map(|at| lines[at]).collect();
    ends.join(" ")
}

#[test]
fn a_few_matches_come_with_what_is_around_them() {
    let project = Project::new(&[]);
    let line = |n: u32| if n == 60 { "one\n" } else { "\n" };
    project.write("one.txt", (1..=200).map(line).collect::<String>());
    let line = |n: u32| if [50, 52, 150].contains(&n) { "two\n" } else { "\n" };
    project.write("two.txt", (1..=200).map(line).collect::<String>());
    let line = |n: u32| if n.is_multiple_of(40) { "four\n" } else { "\n" };
    project.write("four.txt", (1..=160).map(line).collect::<String>());
    let check = |args: Value, expected: &str| assert_eq!(ends(&answer(&project, args)), expected);
    check(json!({ "pattern": "one" }), "10-  60: one 110- ");
    check(json!({ "pattern": "two" }), "35-  50: two 52: two 67-  135-  150: two 165- ");
    check(json!({ "pattern": "four" }), "40: four 80: four 120: four 160: four");
    check(
        json!({ "pattern": "two", "context": 1 }),
        "49-  50: two 52: two 53-  149-  150: two 151- ",
    );
    check(json!({ "pattern": "two", "before": 2 }), "48-  50: two 52: two 148-  150: two");
    check(json!({ "pattern": "two", "after": 1, "total_max_matches": 1 }), "50: two 51- ");
    check(json!({ "pattern": "two", "total_max_matches": 1 }), "1-  50: two 100- ");
    check(
        json!({ "pattern": "two|four", "total_max_matches": 5, "context": 0 }),
        "40: four 80: four 120: four 160: four 50: two",
    );
}

#[test]
fn what_is_left_out_of_a_long_answer_is_said() {
    let project = Project::new(&[]);
    for n in 0..30 {
        project.write(&format!("{n:02}.txt"), "x\n".repeat(30));
    }
    let check = |args: Value, expected: &str| {
        let called = project.call("grep_search", args);
        let shown = called.shown().unwrap().to_owned();
        let text = called.text();
        let lines = text.lines().filter(|line| line.starts_with('L')).count();
        let note = text.lines().last().unwrap();
        assert_eq!(format!("{shown}; {lines} lines; {note}"), expected);
    };
    let total = "(There may be more matches: total_max_matches was reached.)";
    check(json!({ "pattern": "x" }), &format!("Found 100 matches (limited); 100 lines; {total}"));
    check(json!({ "pattern": "x", "total_max_matches": 900 }), "Found 900 matches; 900 lines; ---");
    check(
        json!({ "pattern": "x", "max_matches_per_file": 2 }),
        "Found 60 matches; 60 lines; (30 file(s) have more: max_matches_per_file was reached.)",
    );
    check(
        json!({ "pattern": "x", "total_max_matches": 30, "include_pattern": "00*" }),
        "Found 30 matches; 30 lines; ---",
    );
    check(
        json!({ "pattern": "x", "total_max_matches": 29, "include_pattern": "00*" }),
        &format!("Found 29 matches (limited); 29 lines; {total}"),
    );
    check(
        json!({ "pattern": "x", "names_only": true, "total_max_matches": 3 }),
        "Found 3 files (limited); 0 lines; \
         (There may be more files: total_max_matches was reached.)",
    );
}

#[test]
fn an_answer_is_no_longer_than_is_allowed() {
    let mut project = many();
    project.limits.output_chars = 110;
    expect![[r#"
        Found 7 matches for pattern "line" in path ".":
        ---
        File: README.md
        L2: line one
        L3: Line two
        ---
        (The matches in the last 2 file(s) are not or not all shown: the answer would be longer than 110 characters. Search for less, or with names_only.)"#]].assert_eq(&answer(&project, json!({ "pattern": "line", "context": 0 })));
    project.limits.output_chars = 70;
    expect![[r#"
        Found 3 files with matches for pattern "l" in path ".":
        README.md
        (The matches in the last 2 file(s) are not or not all shown: the answer would be longer than 70 characters. Search for less, or with names_only.)"#]].assert_eq(&answer(&project, json!({ "pattern": "l", "names_only": true })));
}

#[test]
fn the_same_search_finds_the_same() {
    let project = Project::new(&[]);
    for n in 0..500 {
        project.write(&format!("{:02}/{n:03}.txt", n % 30), "x\n".repeat(n % 7));
    }
    let search = || answer(&project, json!({ "pattern": "x", "context": 0 }));
    let first = search();
    for _ in 0..20 {
        assert_eq!(search(), first);
    }
}

#[test]
fn long_lines_are_cut_around_the_match() {
    let project = Project::new(&[]);
    let (a, b) = ("a".repeat(5 << 20), "b".repeat(1000));
    project.write("min.js", format!("{a}needle{b}\n"));
    let text = answer(&project, json!({ "pattern": "needle" }));
    let line = format!("L1: [...] {}needle{}... [truncated]", &a[..100], &b[..394]);
    assert!(text.lines().any(|found| found == line), "{text}");
}

#[test]
fn what_becomes_a_link_while_a_question_is_open_is_not_searched() {
    for (place, link) in [(".secrets", ".secrets"), (".secrets/a", ".secrets"), (".env", ".env")] {
        let project = Project::new(&[(".secrets/a", "inside\n"), (".env", "inside\n")]);
        fs::create_dir(project.outside()).unwrap();
        fs::write(project.outside().join("a"), "not inside\n").unwrap();
        let cx = project.context();
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let args = json!({ "pattern": "inside", "dir_path": place });
        let call = runtime.block_on(tool_named("grep_search").prepare(args, &cx)).unwrap();
        let target = if link == ".env" {
            fs::remove_file(project.root().join(link)).unwrap();
            project.outside().join("a")
        } else {
            fs::remove_dir_all(project.root().join(link)).unwrap();
            project.outside()
        };
        project.link(link, target);
        let result = runtime.block_on(call.run(cx, None));
        let told = Called { summary: None, result }.told();
        assert!(!told.contains("not inside") && told.contains("link"), "{place}: {told}");
    }
}
