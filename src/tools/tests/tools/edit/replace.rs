//! `replace`, as the model calls it.

use expect_test::expect;
use serde_json::{Value, json};
use tandem_host::{Access, FileLocation};

use super::{Place, replace_args, report, shown};

/// Replaces text in a file and checks the new content. Returns the text for the model.
fn check(before: &str, old: &str, new: &str, after: &str) -> String {
    let place = Place::new(&[("a.txt", before.as_bytes())]);
    let output = place.call("replace", replace_args(old, new)).unwrap();
    assert_eq!(String::from_utf8(place.read("a.txt")).unwrap(), after);
    assert_eq!(shown(&output), (Some(before), after));
    output.text
}

/// Checks that a replacement fails with this kind. Returns the message.
fn check_failing(before: &str, old: &str, new: &str, kind: &str) -> String {
    let place = Place::new(&[("a.txt", before.as_bytes())]);
    place.check_failing("replace", replace_args(old, new), kind)
}

#[test]
fn an_edit_is_proposed_with_the_line_of_the_first_change() {
    let place = Place::new(&[("a.txt", b"one\ntwo\nthree\n")]);
    let call = place.prepare("replace", replace_args("one\ntwo\n", "one\n2\n")).unwrap();
    let path = place.path("a.txt");
    assert_eq!(call.access, Access::edit(path.clone()));
    assert_eq!(call.summary.label, "Edit a.txt");
    let location = FileLocation { path: path.display().to_string(), line: Some(2) };
    assert_eq!(call.summary.locations, [location]);
    let diff = call.summary.diff.as_ref().unwrap();
    assert_eq!(diff.old.as_deref(), Some("one\ntwo\nthree\n"));
    assert_eq!(&*diff.new, "one\n2\nthree\n");
    place.run(call, None).unwrap();
    assert_eq!(place.read("a.txt"), b"one\n2\nthree\n");
}

#[test]
fn a_title_names_the_file_and_not_the_texts() {
    let check = |args: Value, expected: &str| {
        let place = Place::new(&[("a.txt", b"")]);
        let call = place.prepare("replace", args).unwrap();
        assert_eq!(call.summary.label, expected);
    };
    check(replace_args("    a", "    b"), "Edit a.txt");
    check(replace_args("a\n", "\n  b\nc"), "Edit a.txt");
    check(replace_args("", "b"), "Create a.txt");
    let edit = json!({ "old_string": "  a", "new_string": "b" });
    check(json!({ "file_path": "a.txt", "edits": [edit, edit] }), "Edit a.txt");
}

#[test]
fn exact_text_is_replaced_literally() {
    let said = check("a\nb $1\nc\n", "b $1", "$0 ${x} \\1", "a\n$0 ${x} \\1\nc\n");
    let expected = "Replaced 1 occurrence in a.txt. What changed:\n\
                    @@ -1,3 +1,3 @@\n a\n-b $1\n+$0 ${x} \\1\n c\n";
    assert_eq!(said, expected);
}

/// Source to which the line numbers below belong.
const PYTHON: &str =
    "class A:\n    def f(self):\n        return 1\n\n    def g(self):\n        return 2\n";

#[test]
fn line_numbers_that_a_read_showed_are_taken_off() {
    let after = PYTHON.replace("return 1", "return 3");
    for separator in ["\t", "→", ": ", ":", "| ", "|"] {
        for width in [0, 1, 3, 6] {
            let line = |number: usize, text: &str| format!("{number:>width$}{separator}{text}\n");
            let old = line(2, "    def f(self):") + &line(3, "        return 1") + &line(4, "");
            let new = "    def f(self):\n        return 3\n\n";
            check(PYTHON, &old, new, &after);
            let new = line(2, "    def f(self):") + &line(3, "        return 3") + &line(4, "");
            check(PYTHON, &old, &new, &after);
            // The text is a single line without its line break.
            let old = line(3, "        return 1");
            check(PYTHON, old.trim_end(), "        return 3", &after);
        }
    }
}

#[test]
fn line_numbers_that_leave_a_doubt_are_refused() {
    let refused = |old: &str, new: &str| check_failing(PYTHON, old, new, "edit_line_numbers");
    let message = refused("2\t    def f(self):\n3\t    return 1\n", "2\t    pass\n");
    expect![[r"
        Nothing was changed: old_string begins its lines with line numbers, and without them it is not in a.txt exactly. Most like it are lines 1 to 5:
             1	class A:
             2	    def f(self):
             3	        return 1
             4	
             5	    def g(self):
        Copy old_string from the file exactly, white space included. Give the lines of old_string and of new_string without line numbers."]]
    .assert_eq(&message);
    let message = refused(
        "2\t    def f(self):\n3\t        return 1\n",
        "2\t    def f():\n        return 1\n",
    );
    expect![[r"
        Nothing was changed: old_string begins its lines with line numbers, and new_string some of its lines. Give the lines of old_string and of new_string without line numbers."]]
    .assert_eq(&message);
    // `old_string` has a number and only a part of the line's text, so the number is not removed.
    refused("3: return 1", "3: return 3");
    refused("4\t", "pass");
    // The line numbers in `old_string` do not rise, or some lines have none.
    for old in
        ["3\t    def f(self):\n2\t        return 1\n", "    def f(self):\n3\t        return 1\n"]
    {
        let message = check_failing(PYTHON, old, "", "edit_no_occurrence_found");
        assert!(message.ends_with("If old_string has line numbers, leave them out."), "{message}");
    }
}

#[test]
fn numbers_that_are_in_the_file_are_text() {
    check("1\ta\n2\tb\n", "1\ta\n2\tb\n", "1\tc\n", "1\tc\n");
    check("1: a\n12: b\n", "12: b", "13: b", "1: a\n13: b\n");
    check("at 11:30 lunch\n", "11:30 lunch", "11:45 lunch", "at 11:45 lunch\n");
    check_failing("at 11:30 lunch\n", "12:30 lunch", "12:00 lunch", "edit_line_numbers");
}

#[test]
fn lines_that_are_indented_otherwise_are_refused() {
    let before = "fn a() {\n\tif b {\n\t\tc();\n\t}\n}\n";
    let (old, new) = ("  if b {\n    c();\n  }\n", "  if b {\n    d();\n    e();\n  }\n");
    let message = check_failing(before, old, new, "edit_indentation_mismatch");
    expect!["Nothing was changed: old_string is in a.txt, but indented otherwise. Line 2 begins there with 1 tab, in old_string with 2 spaces. Give old_string and new_string with the indentation of the file."].assert_eq(&message);
    check_failing(before, "if b {\nc();\n", "if b {\n", "edit_indentation_mismatch");
    let python = "if a:\n    b()\n    c()\n";
    check_failing(python, "if a:\n    b()\nc()\n", "if a:\n    b()\n", "edit_indentation_mismatch");
}

#[test]
fn a_loose_match_writes_the_new_text_as_it_is() {
    let before = "def f( x ):\n    return x\n";
    let after = "def f( x ):\n  y = x\n    return y\n";
    check(before, "def f(x):\n    return x\n", "def f(x):\n  y = x\n    return y\n", after);
}

#[test]
fn wrong_white_space_between_words_is_forgiven() {
    let said = check("  call( a,\n        b );\n", "call(a, b);", "call(a);", "  call(a);\n");
    expect![
        "Replaced 1 occurrence in a.txt (the white space of old_string was not that of the file)."
    ]
    .assert_eq(report(&said));
}

#[test]
fn text_that_is_only_like_it_is_not_replaced() {
    let before = "def f(x):\n    # Compute the sum.\n    return x + 1\n";
    let old = "    # Computes the sum.\n    return x + 1\n";
    let message = check_failing(before, old, "    return x\n", "edit_no_occurrence_found");
    assert!(message.contains("\n     2\t    # Compute the sum.\n"), "{message}");
}

#[test]
fn all_occurrences_are_replaced_on_demand() {
    let place = Place::new(&[("a.txt", b"a b a\n")]);
    let mut args = replace_args("a", "c");
    args["allow_multiple"] = json!(true);
    let output = place.call("replace", args).unwrap();
    assert_eq!(place.read("a.txt"), b"c b c\n");
    assert!(output.text.starts_with("Replaced 2 occurrences in a.txt."), "{}", output.text);
}

#[test]
fn older_arguments_are_understood() {
    let place = Place::new(&[("a.txt", b"a b a\n")]);
    let args = |count| {
        json!({ "file_path": "a.txt", "old_string": "a", "new_string": "c",
                "expected_replacements": count })
    };
    place.check_failing("replace", args(json!(3)), "edit_expected_occurrence_mismatch");
    place.check_failing("replace", args(json!(1)), "edit_expected_occurrence_mismatch");
    place.check_failing("replace", args(json!(null)), "edit_expected_occurrence_mismatch");
    place.call("replace", args(json!(2.0))).unwrap();
    assert_eq!(place.read("a.txt"), b"c b c\n");
}

#[test]
fn an_empty_old_text_creates_a_file() {
    let place = Place::new(&[]);
    let call = place.prepare("replace", replace_args("", "new\n")).unwrap();
    assert_eq!(call.summary.label, "Create a.txt");
    assert_eq!(call.summary.diff.as_ref().unwrap().old, None);
    let output = place.run(call, None).unwrap();
    assert_eq!(place.read("a.txt"), b"new\n");
    assert_eq!(output.text, "Created a.txt with 1 line.");
}

#[test]
fn an_empty_old_text_fills_an_empty_file_and_no_other() {
    assert!(check("", "", "new\n", "new\n").starts_with("Created a.txt"));
    check_failing("x", "", "new\n", "attempt_to_create_existing_file");
}

#[test]
fn text_that_is_not_there_is_an_error_that_shows_what_is() {
    let before = "alpha one\nbeta two\ngamma three\ndelta four\n";
    let message = check_failing(before, "gamma six seven", "x", "edit_no_occurrence_found");
    expect![[r#"
        Nothing was changed: old_string was not found in a.txt. Most like it are lines 1 to 4:
             1	alpha one
             2	beta two
             3	gamma three
             4	delta four
        Copy old_string from the file exactly, white space included."#]]
    .assert_eq(&message);
    let message = check_failing(before, "omega", "x", "edit_no_occurrence_found");
    expect!["Nothing was changed: old_string was not found in a.txt. Nothing in the file is like it. Read the file again with read_file."].assert_eq(&message);
}

#[test]
fn an_edit_that_was_made_already_is_recognised() {
    let message =
        check_failing("one\nnew text\n", "old words", "new text", "edit_no_occurrence_found");
    expect!["Nothing was changed: old_string was not found in a.txt. But new_string is there, at line 2: was it made already? Nothing in the file is like it. Read the file again with read_file."].assert_eq(&message);
}

fn edits_args(edits: &[(&str, &str)]) -> Value {
    let edit = |(old, new): &(&str, &str)| json!({ "old_string": old, "new_string": new });
    json!({ "file_path": "a.txt", "edits": edits.iter().map(edit).collect::<Vec<_>>() })
}

#[test]
fn several_edits_are_proposed_as_one_change_and_each_finds_what_the_one_before_has_left() {
    let place = Place::new(&[("a.txt", b"one\ntwo\nthree\n")]);
    let edits = [("two", "2"), ("2\nthree", "2\n3"), ("one\n", "")];
    let call = place.prepare("replace", edits_args(&edits)).unwrap();
    assert_eq!(&*call.summary.diff.as_ref().unwrap().new, "2\n3\n");
    let output = place.run(call, None).unwrap();
    assert_eq!(place.read("a.txt"), b"2\n3\n");
    expect![[r"
        Replaced 1 occurrence in a.txt.
        Replaced 1 occurrence in a.txt.
        Replaced 1 occurrence in a.txt."]]
    .assert_eq(report(&output.text));
}

#[test]
fn several_edits_are_made_all_or_none() {
    let place = Place::new(&[("a.txt", b"one\ntwo\n")]);
    let refused = |edits: &[(&str, &str)], kind: &str| {
        place.check_failing("replace", edits_args(edits), kind)
    };
    let message = refused(&[("one", "1"), ("three", "3")], "edit_no_occurrence_found");
    assert!(message.starts_with("Edit 2 of 2: Nothing was changed"), "{message}");
    refused(&[("one", "1"), ("1", "one")], "edit_no_change");
    let message = refused(&[("one", "1"), ("", "3")], "invalid_tool_params");
    expect!["Edit 2 of 2: `old_string`: is empty in an edit after the first"].assert_eq(&message);
    refused(&[("", "new"), ("new", "newer")], "attempt_to_create_existing_file");
}

#[test]
fn the_first_of_several_edits_may_create_the_file() {
    let place = Place::new(&[]);
    let edits = [("", "one\ntwo\n"), ("two", "2"), ("one", "1")];
    let call = place.prepare("replace", edits_args(&edits)).unwrap();
    assert_eq!(call.summary.label, "Create a.txt");
    assert_eq!(call.summary.diff.as_ref().unwrap().old, None);
    let output = place.run(call, None).unwrap();
    assert_eq!(place.read("a.txt"), b"1\n2\n");
    assert_eq!(output.text, "Created a.txt with 2 lines.");
}

#[test]
fn several_occurrences_are_an_error_that_says_where() {
    let kind = "edit_expected_occurrence_mismatch";
    let message = check_failing("a\nb\na\n", "a\n", "c\n", kind);
    expect![
        "Nothing was changed: found 2 occurrences of old_string in a.txt, expected 1. They begin at lines 1, 3. To change one, include more of the lines around it in old_string; to change all, copy it exactly and set allow_multiple to true."
    ]
    .assert_eq(&message);
}

#[test]
fn an_edit_that_changes_nothing_is_an_error() {
    check_failing("a\n", "a", "a", "edit_no_change");
    check_failing("a\r\n", "a\r\n", "a\n", "edit_no_change");
    check_failing("a  b\n", "a b", "a  b", "edit_no_change");
    check_failing("", "", "", "edit_no_change");
}

#[test]
fn a_placeholder_in_the_new_text_is_refused() {
    let kind = "omission_placeholder";
    check_failing("a\nb\n", "a\nb\n", "c\n// ... rest of code ...\n", kind);
}

#[test]
fn an_edit_of_a_file_that_is_not_there_says_how_to_make_it() {
    let place = Place::new(&[]);
    let message = place.check_failing("replace", replace_args("a", "b"), "file_not_found");
    expect![
        "a.txt does not exist. Look for the right path with glob. To create the file, leave old_string empty."
    ]
    .assert_eq(&message);
}

#[test]
fn a_result_over_the_limit_is_refused() {
    let place = Place::new(&[("a.txt", "ab".repeat(1000).as_bytes())]);
    let mut args = replace_args("a", &"x".repeat(100_000));
    args["allow_multiple"] = json!(true);
    place.check_failing("replace", args, "file_too_large");
}

#[test]
fn what_the_user_makes_of_the_proposal_is_written_and_said() {
    let place = Place::new(&[("a.txt", b"a\r\nb\nc\r\n")]);
    let call = place.prepare("replace", replace_args("c", "d")).unwrap();
    let output = place.run(call, Some("a\nb\nd!\n")).unwrap();
    assert_eq!(place.read("a.txt"), b"a\r\nb\nd!\r\n");
    expect![[r"
        Replaced 1 occurrence in a.txt. But before it was written, the user changed the text you proposed. Keep to what the user wrote. From your proposal to what is in the file now:
        @@ -1,3 +1,3 @@
         a
         b
        -d
        +d!
    "]]
    .assert_eq(&output.text);
}

#[test]
fn a_long_single_line_is_searched_in_no_time() {
    let line: String = (0..20_000)
        .flat_map(|n| ["word".to_owned(), (n + 10_000).to_string(), " ".to_owned()])
        .collect();
    let long = "let some_value = other_value.method(argument).another();".repeat(20);
    check_failing(&line, &long, "x", "edit_no_occurrence_found");
    let message = check_failing(&line, "word10001  word1000X", "x", "edit_no_occurrence_found");
    assert!(message.len() < 1000, "{}", message.len());
    let after = line.replace("word20000 word20001", "changed");
    check(&line, "word20000\nword20001", "changed", &after);
}
