//! `read_file`.

use std::fs;

use expect_test::expect;
use serde_json::{Value, json};

use super::{Called, Project, tool_named};

/// Content of a file in most of these projects.
const FOUR: &str = "one\ntwo\nthree\nfour\n";

#[track_caller]
fn check_error(project: &Project, args: Value, expected: &str) {
    project.check_error("read_file", args, expected);
}

#[test]
fn a_whole_file_is_read_as_it_is() {
    let project = Project::new(&[("sub/four.txt", FOUR), ("crlf.txt", "a\r\nb"), ("void", "")]);
    let absolute = project.root().join("sub/four.txt");
    let same = [
        json!({ "file_path": "sub/four.txt" }),
        json!({ "file_path": absolute }),
        json!({ "file_path": absolute }),
        json!({ "file_path": "./sub/../sub/four.txt" }),
    ];
    expect![[r#"
        label: Read sub/four.txt
        at: $ROOT/sub/four.txt
        ---
             1	one
             2	two
             3	three
             4	four
    "#]]
    .assert_eq(&project.see_same("read_file", &same));
    let text = |path: &str| project.call("read_file", json!({ "file_path": path })).text();
    assert_eq!(text("void"), "void is empty.");
    assert_eq!(text("crlf.txt"), "     1\ta\r\n     2\tb");
}

#[test]
fn a_file_that_becomes_a_link_before_it_is_read_is_not_followed() {
    for (tool, args) in [
        ("read_file", json!({ "file_path": "sub/a" })),
        ("read_many_files", json!({ "include": ["sub/a"] })),
        ("read_many_files", json!({ "include": ["sub"] })),
        (
            "read_many_files",
            json!({ "include": [], "excerpts": [{ "path": "sub/a", "start_line": 1, "end_line": 1 }] }),
        ),
    ] {
        for link in ["sub", "sub/a"] {
            let project = Project::new(&[("sub/a", "inside\n")]);
            fs::create_dir(project.outside()).unwrap();
            fs::write(project.outside().join("a"), "secret\n").unwrap();
            let cx = project.context();
            let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
            let call = runtime.block_on(tool_named(tool).prepare(args.clone(), &cx)).unwrap();
            fs::remove_dir_all(project.root().join("sub")).unwrap();
            let target =
                if link == "sub" { project.outside() } else { project.outside().join("a") };
            if link != "sub" {
                fs::create_dir(project.root().join("sub")).unwrap();
            }
            project.link(link, target);
            let result = runtime.block_on(call.run(cx, None));
            let told = Called { summary: None, result }.told();
            assert!(!told.contains("secret") && told.contains("link"), "{tool}: {told}");
        }
    }
}

#[test]
fn some_lines_of_a_file_are_read() {
    let project = Project::new(&[("four.txt", FOUR)]);
    let see = |mut args: Value| {
        args["file_path"] = json!("four.txt");
        project.see("read_file", args)
    };
    expect![[r#"
        label: Read four.txt
        at: $ROOT/four.txt:2
        shown: Read lines 2-2 of 4 from four.txt
        ---
        [Lines 2-2 of 4.]

             2	two
    "#]]
    .assert_eq(&see(json!({ "start_line": 2, "end_line": 2 })));
    expect![[r#"
        label: Read four.txt
        at: $ROOT/four.txt:3
        shown: Read lines 3-4 of 4 from four.txt
        ---
        [Lines 3-4 of 4.]

             3	three
             4	four
    "#]]
    .assert_eq(&see(json!({ "start_line": 3 })));
    expect![[r#"
        label: Read four.txt
        at: $ROOT/four.txt:1
        ---
             1	one
             2	two
             3	three
             4	four
    "#]]
    .assert_eq(&see(json!({ "start_line": 1, "end_line": 9 })));
    expect![[r#"
        label: Read four.txt
        at: $ROOT/four.txt:1
        shown: Read lines 1-1 of 4 from four.txt
        ---
        [Lines 1-1 of 4.]

             1	one
    "#]]
    .assert_eq(&see(json!({ "end_line": 1 })));
    expect![[r#"
        label: Read four.txt
        at: $ROOT/four.txt:2
        shown: Read lines 2-3 of 4 from four.txt
        ---
        [Lines 2-3 of 4.]

             2	two
             3	three
    "#]]
    .assert_eq(&see(json!({ "offset": 2, "limit": 2 })));
    assert_eq!(
        see(json!({ "offset": 0, "limit": 2 })),
        see(json!({ "start_line": 1, "end_line": 2 }))
    );
    assert_eq!(
        see(json!({ "start_line": "2", "end_line": 3.0 })),
        see(json!({ "start_line": 2, "end_line": 3 })),
    );
    expect![[r#"
        label: Read four.txt
        at: $ROOT/four.txt:5
        line_out_of_range: four.txt has 4 lines; there is no line 5."#]]
    .assert_eq(&see(json!({ "start_line": 5 })));
}

#[test]
fn arguments_that_make_no_sense_are_named() {
    let project = Project::new(&[("four.txt", FOUR)]);
    check_error(&project, json!({}), "invalid_tool_params: missing field `file_path`");
    check_error(
        &project,
        json!({ "file_path": 5 }),
        "invalid_tool_params: `file_path`: invalid type: integer `5`, expected a string",
    );
    let check = |args: Value, expected: &str| {
        let mut args = args;
        args["file_path"] = json!("four.txt");
        check_error(&project, args, &format!("invalid_tool_params: {expected}"));
    };
    check(json!({ "start_line": 0 }), "`start_line`: lines are counted from 1");
    check(json!({ "start_line": -1 }), "`start_line`: -1 is not a whole number from 0");
    check(json!({ "limit": 0 }), "`limit`: must be at least 1");
    let turned = "`end_line`: must not be less than `start_line`";
    check(json!({ "start_line": 3, "end_line": 2 }), turned);
    check(json!({ "offset": u64::MAX, "limit": u64::MAX }), turned);
}

#[test]
fn what_cannot_be_read_says_why() {
    let project = Project::new(&[
        (".gitignore", "*.log\n"),
        (".geminiignore", "secret/\n"),
        ("a.log", "a\n"),
        ("secret/key", "k\n"),
        ("../outside/file", "o\n"),
    ]);
    project.fifo("fifo");
    project.write("program", b"\x7fELF\0\x01\x02");
    project.link("link", project.outside().join("file"));
    let see = |path: &str| project.see("read_file", json!({ "file_path": path }));
    expect![[r#"
        label: Read nope.txt
        at: $ROOT/nope.txt
        file_not_found: File not found: $ROOT/nope.txt"#]]
    .assert_eq(&see("nope.txt"));
    expect![[r#"
        label: Read secret/key
        at: $ROOT/secret/key
        file_ignored: $ROOT/secret/key is ignored by .geminiignore, and so it is left alone. If it is needed, ask the user."#]].assert_eq(&see("secret/key"));
    expect![[r#"
        label: Read a.log
        at: $ROOT/a.log
        file_ignored: $ROOT/a.log is ignored by .gitignore, and so it is left alone. If it is needed, ask the user."#]].assert_eq(&see("a.log"));
    expect![[r#"
        label: Read .
        at: $ROOT
        is_directory: $ROOT is a directory. List it with list_directory."#]]
    .assert_eq(&see("."));
    expect![[r#"
        label: Read program
        at: $ROOT/program
        binary_file: $ROOT/program is a binary file of a kind that cannot be read. A command may tell more about it."#]].assert_eq(&see("program"));
    expect![[r#"
        label: Read $OUTSIDE/file
        at: $OUTSIDE/file
        asked: $OUTSIDE/file"#]]
    .assert_eq(&see("link"));
    expect![[r#"
        label: Read $OUTSIDE/file
        at: $OUTSIDE/file
        asked: $OUTSIDE/file"#]]
    .assert_eq(&see("../outside/file"));
    expect![[r#"
        label: Read a␀b
        invalid_path: "a\0b" has a NUL byte in it"#]]
    .assert_eq(&see("a\0b"));
    let kind = |path: &str| {
        let called = project.call("read_file", json!({ "file_path": path }));
        called.result.unwrap_err().kind
    };
    assert_eq!(kind(""), "is_directory");
    assert_eq!(kind("secret"), "file_ignored");
    assert_eq!(kind("fifo"), "not_a_regular_file");
    if project.unreadable("locked") {
        assert_eq!(kind("locked"), "read_content_failure");
    }
}

#[test]
fn images_and_the_like_are_attached() {
    let project = Project::new(&[
        ("pointer.png", "version https://git-lfs.github.com/spec/v1\n"),
        ("drawing.svg", "<svg/>\n"),
        ("paper.pdf", "%PDF-1.4\n"),
        ("void.png", ""),
    ]);
    project.write("img.PNG", b"\x89PNG\r\n\x1a\n\0");
    project.write("big.svg", " ".repeat((1 << 20) + 1));
    let see = |path: &str| project.see("read_file", json!({ "file_path": path }));
    expect![[r#"
        label: Read img.PNG
        at: $ROOT/img.PNG
        shown: Read image file: img.PNG
        media: image/png iVBORw0KGgoA
        ---
        The image file img.PNG (image/png) is attached."#]]
    .assert_eq(&see("img.PNG"));
    expect![[r#"
        label: Read paper.pdf
        at: $ROOT/paper.pdf
        shown: Read PDF file: paper.pdf
        media: application/pdf JVBERi0xLjQK
        ---
        The PDF file paper.pdf (application/pdf) is attached."#]]
    .assert_eq(&see("paper.pdf"));
    expect![[r#"
        label: Read drawing.svg
        at: $ROOT/drawing.svg
        ---
             1	<svg/>
    "#]]
    .assert_eq(&see("drawing.svg"));
    expect![[r#"
        label: Read pointer.png
        at: $ROOT/pointer.png
        ---
             1	version https://git-lfs.github.com/spec/v1
    "#]]
    .assert_eq(&see("pointer.png"));
    expect![[r#"
        label: Read void.png
        at: $ROOT/void.png
        ---
        void.png is empty."#]]
    .assert_eq(&see("void.png"));
    let big = project.call("read_file", json!({ "file_path": "big.svg" }));
    assert_eq!(big.result.unwrap_err().kind, "file_too_large");
}

#[test]
fn text_may_be_in_utf_16() {
    let project = Project::new(&[]);
    let bytes: Vec<u8> = "\u{feff}häß\nzwei\n".encode_utf16().flat_map(u16::to_le_bytes).collect();
    project.write("utf16.txt", bytes);
    let text = project.call("read_file", json!({ "file_path": "utf16.txt" })).text();
    assert_eq!(text, "     1\thäß\n     2\tzwei\n");
}

#[test]
fn a_long_file_is_read_in_parts() {
    let project = Project::new(&[]);
    // The file has exactly 20 MiB, the largest size that is read.
    project.write("long.txt", "0123456789abcde\n".repeat((20 << 20) / 16));
    let called = project.call("read_file", json!({ "file_path": "long.txt" }));
    assert_eq!(called.shown(), Some("Read lines 1-2000 of 1310720 from long.txt"));
    let text = called.text();
    let (heading, rest) = text.split_once("\n\n").unwrap();
    expect!["[Lines 1-2000 of 1310720. To read on, call read_file with offset 2001.]"]
        .assert_eq(heading);
    let numbered = |n| format!("{n:>6}\t0123456789abcde\n");
    assert_eq!(rest, (1..=2000).map(numbered).collect::<String>());
    let last = json!({ "file_path": "long.txt", "start_line": 1_310_720 });
    expect![[r#"
        label: Read long.txt
        at: $ROOT/long.txt:1310720
        shown: Read lines 1310720-1310720 of 1310720 from long.txt
        ---
        [Lines 1310720-1310720 of 1310720.]

        1310720	0123456789abcde
    "#]]
    .assert_eq(&project.see("read_file", last));
    project.write("long.txt", "0".repeat((20 << 20) + 1));
    let longer = project.call("read_file", json!({ "file_path": "long.txt" }));
    assert_eq!(longer.result.unwrap_err().kind, "file_too_large");
}

#[test]
fn no_more_is_read_than_a_model_can_take() {
    let mut project = Project::new(&[("four.txt", FOUR)]);
    project.limits.read_chars = 10;
    expect![[r#"
        label: Read four.txt
        at: $ROOT/four.txt
        shown: Read lines 1-2 of 4 from four.txt
        ---
        [Lines 1-2 of 4. To read on, call read_file with offset 3.]

             1	one
             2	two
    "#]]
    .assert_eq(&project.see("read_file", json!({ "file_path": "four.txt" })));
}

#[test]
fn a_line_of_5_mb_is_cut() {
    let project = Project::new(&[]);
    project.write("line.txt", "ä".repeat(5 << 19));
    let called = project.call("read_file", json!({ "file_path": "line.txt" }));
    assert_eq!(called.shown(), Some("Read lines 1-1 of 1 from line.txt (1 long line(s) cut)"));
    let text = called.text();
    let (heading, rest) = text.split_once("\n\n").unwrap();
    expect!["[Lines 1-1 of 1. Lines of more than 2000 characters (1 here) end in `... [truncated]`; to see what is in the rest of them, search the file with grep_search.]"].assert_eq(heading);
    assert_eq!(rest, format!("     1\t{}... [truncated]", "ä".repeat(2000)));
}
