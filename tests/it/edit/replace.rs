//! `replace`, as the model calls it.

use expect_test::expect;
use serde_json::json;
use tandem_tools::{Access, FileLocation};

use super::{Place, replace_args, report, shown};

/// Replaces in a file; what is there then, and what the model is told.
fn check(before: &str, old: &str, new: &str, after: &str) -> String {
    let place = Place::new(&[("a.txt", before.as_bytes())]);
    let output = place.call("replace", replace_args(old, new)).unwrap();
    assert_eq!(String::from_utf8(place.read("a.txt")).unwrap(), after);
    assert_eq!(shown(&output), (Some(before), after));
    output.text
}

/// Cannot be replaced; the message.
fn check_failing(before: &str, old: &str, new: &str, kind: &str) -> String {
    let place = Place::new(&[("a.txt", before.as_bytes())]);
    place.check_failing("replace", replace_args(old, new), kind)
}

#[test]
fn an_edit_is_proposed_with_the_line_of_the_first_change() {
    let place = Place::new(&[("a.txt", b"one\ntwo\nthree\n")]);
    let call = place.prepare("replace", replace_args("one\ntwo\n", "one\n2\n")).unwrap();
    let path = place.path("a.txt");
    assert_eq!(call.access, Access::Edit { path: path.clone() });
    assert_eq!(call.summary.label, "a.txt: one... => one...");
    let location = FileLocation { path: path.display().to_string(), line: Some(2) };
    assert_eq!(call.summary.locations, [location]);
    let diff = call.summary.diff.as_ref().unwrap();
    assert_eq!(diff.old.as_deref(), Some("one\ntwo\nthree\n"));
    assert_eq!(&*diff.new, "one\n2\nthree\n");
    place.run(call, None).unwrap();
    assert_eq!(place.read("a.txt"), b"one\n2\nthree\n");
}

#[test]
fn a_label_shows_thirty_characters_of_the_first_lines() {
    let check = |old: &str, new: &str, expected: &str| {
        let place = Place::new(&[("a.txt", b"")]);
        let call = place.prepare("replace", replace_args(old, new)).unwrap();
        assert_eq!(call.summary.label, expected);
    };
    check("a", "b", "a.txt: a => b");
    check("a\n", "", "a.txt: a => ");
    let long = "123456789 123456789 123456789 x";
    check(long, "\n  b\nc", "a.txt: 123456789 123456789 123456789 ... =>   b...");
    check("", "b", "Create a.txt");
}

#[test]
fn exact_text_is_replaced_literally() {
    let said = check("a\nb $1\nc\n", "b $1", "$0 ${x} \\1", "a\n$0 ${x} \\1\nc\n");
    let expected = "Replaced 1 occurrence in a.txt. What changed:\n\
                    @@ -1,3 +1,3 @@\n a\n-b $1\n+$0 ${x} \\1\n c\n";
    assert_eq!(said, expected);
}

#[test]
fn wrong_indentation_is_forgiven_and_the_new_text_indented() {
    let before = "fn a() {\n\tif b {\n\t\tc();\n\t}\n}\n";
    let after = "fn a() {\n\tif b {\n\t\td();\n\t\te();\n\t}\n}\n";
    let said =
        check(before, "  if b {\n    c();\n  }\n", "  if b {\n    d();\n    e();\n  }\n", after);
    expect![
        "Replaced 1 occurrence in a.txt (the indentation of old_string was not that of the file)."
    ]
    .assert_eq(report(&said));
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
fn a_slight_error_is_forgiven_and_said() {
    let before = "def f(x):\n    # Compute the sum.\n    return x + 1\n";
    let after = "def f(x):\n    # Compute the sum.\n    return x + 2\n";
    let old = "    # Computes the sum.\n    return x + 1\n";
    let new = "    # Computes the sum.\n    return x + 2\n";
    let said = check(before, old, new, after);
    expect![
        "Replaced 1 occurrence in a.txt (old_string is not in the file; what was replaced is very much like it. Check that it is what you meant)."
    ]
    .assert_eq(report(&said));
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
             1  alpha one
             2  beta two
             3  gamma three
             4  delta four
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
    check_failing("abcdefghij\n", "abcdefghiX", "abcdefghij", "edit_no_change");
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
        "a.txt does not exist. Look for the right path with glob; to create the file, leave old_string empty."
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
