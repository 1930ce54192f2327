//! `read_many_files`.

use std::time::Duration;

use expect_test::expect;
use serde_json::{Value, json};

use super::Project;

/// Checks the names of the files that are read, in order.
#[track_caller]
fn check_names(project: &Project, args: Value, expected: &[&str]) {
    let text = project.call("read_many_files", args).told();
    let heading = |line: &'_ str| {
        let name = line.strip_prefix("--- ")?.strip_suffix(" ---")?;
        (!["Not read", "End of content"].contains(&name)).then(|| name.to_owned())
    };
    assert_eq!(text.lines().filter_map(heading).collect::<Vec<_>>(), expected);
}

fn several() -> Project {
    Project::new(&[
        ("README.md", "# Title\n"),
        ("sub/s.txt", "s\n"),
        ("sub/deep/d.txt", "d"),
        ("sub/deep/build/out.txt", "o"),
        ("app/[id]/page.tsx", "page\n"),
        ("Cargo.lock", "lock\n"),
        ("node_modules/x/index.js", "x\n"),
    ])
}

#[test]
fn files_are_read_one_after_the_other() {
    let project = several();
    let see = |args: Value| project.see("read_many_files", args);
    expect![[r#"
        label: Read `sub/*.txt`, `README.md`
        at: $ROOT/README.md
        at: $ROOT/sub/s.txt
        shown: Read 2 file(s):

        - `README.md`
        - `sub/s.txt`
        ---
        --- README.md ---

             1	# Title


        --- sub/s.txt ---

             1	s


        --- End of content ---"#]]
    .assert_eq(&see(json!({ "include": ["sub/*.txt", "README.md"] })));
    expect![[r#"
        label: Read `nope.txt`
        no_files_read: No files were read.

        --- Not read ---

        nope.txt: File not found: $ROOT/nope.txt

        --- End of content ---"#]]
    .assert_eq(&see(json!({ "include": "nope.txt" })));
}

#[test]
fn an_entry_is_a_file_a_directory_or_a_glob() {
    let project = several();
    let check = |args: Value, expected: &[&str]| check_names(&project, args, expected);
    check(json!({ "include": ["sub"] }), &["sub/deep/d.txt", "sub/s.txt"]);
    check(json!({ "include": ["sub/"] }), &["sub/deep/d.txt", "sub/s.txt"]);
    check(json!({ "include": ["sub"], "recursive": false }), &["sub/s.txt"]);
    check(json!({ "include": ["sub/**"] }), &["sub/deep/d.txt", "sub/s.txt"]);
    check(json!({ "include": ["app/[id]/page.tsx"] }), &["app/[id]/page.tsx"]);
    check(json!({ "include": ["app/[id]"] }), &["app/[id]/page.tsx"]);
    check(json!({ "include": ["app/[id]/*"] }), &["app/[id]/page.tsx"]);
    check(json!({ "include": [project.root().join("README.md")] }), &["README.md"]);
    check(json!({ "include": [project.root().join("sub/*")] }), &["sub/s.txt"]);
    // Each file is read once, and files that are named come before those of a pattern.
    check(
        json!({ "include": ["**/*.txt", "sub/s.txt", "sub/../sub/s.txt", "sub"] }),
        &["sub/s.txt", "sub/deep/d.txt"],
    );
}

#[test]
fn what_nobody_wants_is_left_out_unless_it_is_named() {
    let project = several();
    let check = |args: Value, expected: &[&str]| check_names(&project, args, expected);
    let own = ["README.md", "app/[id]/page.tsx", "sub/deep/d.txt", "sub/s.txt"];
    check(json!({ "include": ["."] }), &own);
    check(json!({ "include": ["**"] }), &own);
    check(json!({ "include": ["Cargo.lock"] }), &["Cargo.lock"]);
    check(json!({ "include": ["node_modules/x"] }), &["node_modules/x/index.js"]);
    check(json!({ "include": ["sub/deep/build"] }), &["sub/deep/build/out.txt"]);
    check(
        json!({ "include": ["sub"], "useDefaultExcludes": false }),
        &["sub/deep/build/out.txt", "sub/deep/d.txt", "sub/s.txt"],
    );
    check(json!({ "include": ["sub"], "exclude": ["deep/"] }), &["sub/s.txt"]);
    check(json!({ "include": ["sub", "**/*.md"], "exclude": ["*.txt"] }), &["README.md"]);
    check(json!({ "include": ["sub/s.txt", "README.md"], "exclude": "/sub" }), &["README.md"]);
}

#[test]
fn what_is_not_read_says_why() {
    let project = Project::new(&[
        (".gitignore", "*.log\n"),
        (".geminiignore", "secret\n"),
        ("a.log", "a\n"),
        ("secret/key", "k\n"),
        ("../outside/o.txt", "o\n"),
        ("paper.pdf", "%PDF-1"),
    ]);
    project.write("data", b"\0\x01");
    project.fifo("fifo");
    project.link("out", project.outside());
    project.link("loop", "loop");
    let answer = |args: Value| project.name_places(&project.call("read_many_files", args).told());
    let outside = json!({ "include": ["out/o.txt", "../outside/o.txt", "README.md"] });
    assert_eq!(answer(outside), "asked:\n$OUTSIDE/o.txt, $OUTSIDE/o.txt");
    let named = ["a.log", "secret/key", "secret", "data", "/proc/version"];
    expect![[r#"
        no_files_read:
        No files were read.

        --- Not read ---

        a.log: $ROOT/a.log is ignored by .gitignore, and so it is left alone. If it is needed, ask the user.
        secret/key: $ROOT/secret/key is ignored by .geminiignore, and so it is left alone. If it is needed, ask the user.
        secret: $ROOT/secret is ignored by .geminiignore, and so it is left alone. If it is needed, ask the user.
        /proc/version: /proc/version is outside the workspace: $ROOT
        data: $ROOT/data is a binary file of a kind that cannot be read. A command may tell more about it.

        --- End of content ---"#]].assert_eq(&answer(json!({ "include": named })));
    let patterns = ["/etc/*.conf", "../*", "*.zzz", "[", "loop", "a\0b", "{a"];
    expect![[r#"
        asked:
        /etc, $ABOVE"#]]
    .assert_eq(&answer(json!({ "include": patterns })));
    expect![[r#"
        no_files_read:
        No files were read.

        --- Not read ---

        data: $ROOT/data is a binary file of a kind that cannot be read. A command may tell more about it.
        paper.pdf: application/pdf: name it to have it attached

        --- End of content ---"#]].assert_eq(&answer(json!({ "include": ["**"], "exclude": [".*"] })));
    let fifo = answer(json!({ "include": ["fifo"] }));
    expect![[r#"
        no_files_read:
        No files were read.

        --- Not read ---

        fifo: $ROOT/fifo is not a regular file, but a device, a pipe or a socket.

        --- End of content ---"#]]
    .assert_eq(&fifo);
    let all = json!({ "respect_git_ignore": false, "respect_gemini_ignore": false });
    let args = json!({ "include": ["secret", "*.log"], "file_filtering_options": all });
    check_names(&project, args, &["a.log", "secret/key"]);
    let check_error = |args: Value, expected: &str| {
        project.check_error("read_many_files", args, expected);
    };
    check_error(json!({ "include": [] }), "invalid_tool_params: `include`: names nothing");
    check_error(
        json!({ "include": ["a"], "exclude": ["{a"] }),
        "invalid_tool_params: `exclude`: error parsing glob '{a': unclosed alternate group; \
         missing '}' (maybe escape '{' with '[{]'?)",
    );
}

#[test]
fn images_are_attached_if_somebody_asks_for_them() {
    let project = Project::new(&[("a.txt", "a\n")]);
    project.write("img/a.png", b"\x89PNG\0");
    project.write("img/b.jpg", b"\xff\xd8\0");
    let see = |args: Value| project.see("read_many_files", args);
    expect![[r#"
        label: Read `img/a.png`, `a.txt`
        at: $ROOT/a.txt
        at: $ROOT/img/a.png
        shown: Read 2 file(s):

        - `a.txt`
        - `img/a.png`
        media: image/png iVBORwA=
        ---
        --- a.txt ---

             1	a


        --- img/a.png ---

        (attached: image/png)

        --- End of content ---"#]]
    .assert_eq(&see(json!({ "include": ["img/a.png", "a.txt"] })));
    expect![[r#"
        label: Read `img`
        at: $ROOT/img/a.png
        at: $ROOT/img/b.jpg
        no_files_read: No files were read.

        --- Not read ---

        img/a.png: image/png: name it to have it attached
        img/b.jpg: image/jpeg: name it to have it attached

        --- End of content ---"#]]
    .assert_eq(&see(json!({ "include": ["img"] })));
    expect![[r#"
        label: Read `**/*.{PNG,txt}`, `img`
        at: $ROOT/a.txt
        at: $ROOT/img/a.png
        at: $ROOT/img/b.jpg
        shown: Read 2 file(s):

        - `a.txt`
        - `img/a.png`

        Not read:

        - img/b.jpg: image/jpeg: name it to have it attached
        media: image/png iVBORwA=
        ---
        --- a.txt ---

             1	a


        --- img/a.png ---

        (attached: image/png)

        --- Not read ---

        img/b.jpg: image/jpeg: name it to have it attached

        --- End of content ---"#]]
    .assert_eq(&see(json!({ "include": ["**/*.{PNG,txt}", "img"] })));
}

#[test]
fn no_more_is_read_than_a_model_can_take() {
    let mut project = Project::new(&[
        ("a.txt", "1\n2\n3\n"),
        ("b.txt", "1\n2\n3\n4\n5\n6\n"),
        ("c.txt", "1\n"),
        ("d.txt", "1\n"),
    ]);
    project.limits.read_chars = 52;
    let answer = |project: &Project, args: Value| project.call("read_many_files", args).told();
    expect![[r#"
        --- a.txt ---

             1	1
             2	2
             3	3


        --- b.txt ---

             1	1
             2	2
             3	3
             4	4
             5	5
             6	6


        --- Not read ---

        up to 2 more file(s): this answer holds no more

        --- End of content ---"#]]
    .assert_eq(&answer(&project, json!({ "include": ["**"] })));
    expect![[r#"
        --- d.txt ---

             1	1


        --- a.txt ---

             1	1
             2	2
             3	3


        --- b.txt ---

        [Lines 1-3 of 6. To read on, call read_file with offset 4.]

             1	1
             2	2
             3	3


        --- Not read ---

        up to 1 more file(s): this answer holds no more

        --- End of content ---"#]]
    .assert_eq(&answer(&project, json!({ "include": ["**", "d.txt"] })));
}

#[test]
fn no_more_files_are_read_than_are_allowed() {
    let mut project = Project::new(&[("a.txt", "1\n"), ("c.txt", "1\n"), ("d.txt", "1\n")]);
    let answer = |project: &Project, args: Value| project.call("read_many_files", args).told();
    project.limits.files = 2;
    expect![[r#"
        --- d.txt ---

             1	1


        --- a.txt ---

             1	1


        --- Not read ---

        up to 2 more file(s): this answer holds no more

        --- End of content ---"#]]
    .assert_eq(&answer(&project, json!({ "include": ["**", "d.txt"] })));
    project.limits.file_bytes = 8;
    project.write("a.png", b"\x89PNG\0");
    project.write("b.png", b"\x89PNG\0");
    expect![[r#"
        --- a.png ---

        (attached: image/png)

        --- Not read ---

        b.png: no room left in this answer

        --- End of content ---"#]]
    .assert_eq(&answer(&project, json!({ "include": ["*.png"] })));
    project.limits.search_time = Duration::ZERO;
    expect![[r#"
        no_files_read:
        No files were read.

        --- Not read ---

        other files: not found within 0 s, after which the search ended

        --- End of content ---"#]]
    .assert_eq(&answer(&project, json!({ "include": ["**"] })));
}
