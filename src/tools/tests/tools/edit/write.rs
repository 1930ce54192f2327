//! `write_file`, as the model calls it.

use std::fs;

use expect_test::expect;
use serde_json::json;
use tandem_host::{Access, FileLocation};

use super::{Place, replace_args, shown, write_args};

#[test]
fn a_new_file_is_proposed_and_then_written() {
    let place = Place::new(&[]);
    let call = place.prepare("write_file", write_args("one\ntwo\n")).unwrap();
    let path = place.path("a.txt");
    assert!(!path.exists());
    assert_eq!(call.access, Access::edit(path.clone()));
    assert_eq!(call.summary.label, "Write a.txt");
    let location = FileLocation { path: path.display().to_string(), line: None };
    assert_eq!(call.summary.locations, [location]);
    let diff = call.summary.diff.as_ref().unwrap();
    assert_eq!((&diff.old, &*diff.new), (&None, "one\ntwo\n"));
    let output = place.run(call, None).unwrap();
    assert_eq!(place.read("a.txt"), b"one\ntwo\n");
    assert_eq!(output.text, "Created a.txt with 2 lines.");
    assert_eq!(shown(&output), (None, "one\ntwo\n"));
}

#[test]
fn the_model_is_told_what_changed_in_a_file_that_was_there() {
    let place = Place::new(&[("a.txt", b"1\n2\n3\n4\n5\n6\n7\n8\n")]);
    let output = place.call("write_file", write_args("1\n2\n3\n4\n5\n6\n7\n9\n")).unwrap();
    let expected = "Wrote a.txt. What changed:\n@@ -3,6 +3,6 @@\n 3\n 4\n 5\n 6\n 7\n-8\n+9\n";
    assert_eq!(output.text, expected);
    assert_eq!(shown(&output), (Some("1\n2\n3\n4\n5\n6\n7\n8\n"), "1\n2\n3\n4\n5\n6\n7\n9\n"));
}

#[test]
fn directories_on_the_way_are_made_when_it_runs() {
    let place = Place::new(&[]);
    let args = json!({ "file_path": "deep/er/x.txt", "content": "x" });
    let call = place.prepare("write_file", args).unwrap();
    assert!(!place.path("deep").exists());
    place.run(call, None).unwrap();
    assert_eq!(place.read("deep/er/x.txt"), b"x");
}

#[test]
fn content_that_is_there_already_is_not_asked_about_nor_written() {
    let place = Place::new(&[("a.txt", b"same\r\n")]);
    let call = place.prepare("write_file", write_args("same\n")).unwrap();
    assert_eq!((&call.access, &call.summary.diff), (&Access::Read, &None));
    let output = place.run(call, None).unwrap();
    expect!["a.txt has exactly this content already; nothing to do."].assert_eq(&output.text);
    assert_eq!(place.read("a.txt"), b"same\r\n");
}

#[test]
fn an_empty_file_can_be_made_and_filled() {
    let place = Place::new(&[]);
    place.call("write_file", write_args("")).unwrap();
    assert_eq!(place.read("a.txt"), b"");
    let output = place.call("write_file", write_args("x\r\n")).unwrap();
    assert_eq!(place.read("a.txt"), b"x\r\n");
    assert_eq!(shown(&output).0, Some(""));
}

#[test]
fn what_the_user_makes_of_the_proposal_is_written_and_said() {
    let place = Place::new(&[("a.txt", b"old\r\n")]);
    let call = place.prepare("write_file", write_args("new\n")).unwrap();
    let output = place.run(call, Some("new\nmine\n")).unwrap();
    assert_eq!(place.read("a.txt"), b"new\r\nmine\r\n");
    expect![[r"
        Wrote a.txt. But before it was written, the user changed the text you proposed. Keep to what the user wrote. From your proposal to what is in the file now:
        @@ -1 +1,2 @@
         new
        +mine
    "]]
    .assert_eq(&output.text);
    assert_eq!(shown(&output), (Some("old\r\n"), "new\r\nmine\r\n"));
}

#[test]
fn a_proposal_that_comes_back_as_it_was_is_not_said_to_be_changed() {
    let place = Place::new(&[("a.txt", b"old\r\n")]);
    let call = place.prepare("write_file", write_args("new\n")).unwrap();
    let output = place.run(call, Some("new\n")).unwrap();
    expect![[r"
        Wrote a.txt. What changed:
        @@ -1 +1 @@
        -old
        +new
    "]]
    .assert_eq(&output.text);
    assert_eq!(place.read("a.txt"), b"new\r\n");
}

#[test]
fn a_user_who_puts_the_old_content_back_leaves_the_file_alone() {
    let place = Place::new(&[("a.txt", b"old\n")]);
    let call = place.prepare("write_file", write_args("new\n")).unwrap();
    let output = place.run(call, Some("old\n")).unwrap();
    expect![[r"
        Wrote a.txt. But before it was written, the user changed the text you proposed. Keep to what the user wrote. From your proposal to what is in the file now:
        @@ -1 +1 @@
        -new
        +old
    "]]
    .assert_eq(&output.text);
    assert_eq!(shown(&output), (Some("old\n"), "old\n"));
    assert_eq!(place.read("a.txt"), b"old\n");
}

#[test]
fn a_placeholder_for_what_is_left_out_is_refused() {
    let place = Place::new(&[("a.txt", b"a\nb\n")]);
    let args = write_args("a\n// ... rest of the code ...\n");
    let message = place.check_failing("write_file", args, "omission_placeholder");
    expect!["Nothing was written: line 2 stands for text that was left out (`// ... rest of the code ...`), and that text would be lost. Give the text in full. If the line is really meant to be there, word it differently."].assert_eq(&message);
}

#[test]
fn a_placeholder_that_was_there_may_stay() {
    let place = Place::new(&[("a.txt", b"// ... existing code ...\n")]);
    place.call("write_file", write_args("x\n// ... existing code ...\n")).unwrap();
}

#[test]
fn a_file_that_the_model_has_not_read_is_not_replaced() {
    let place = Place::new(&[]);
    fs::write(place.path("a.txt"), "mine\n").unwrap();
    let message = place.check_failing("write_file", write_args("new\n"), "file_not_read");
    expect!["a.txt exists, and you have not read it: it was left as it is. Read it first with read_file, then write it. To change a part of it, use `replace`."].assert_eq(&message);
    place.call("read_many_files", json!({ "include": ["*.txt"] })).unwrap();
    place.call("write_file", write_args("new\n")).unwrap();
    assert_eq!(place.read("a.txt"), b"new\n");
}

#[test]
fn only_a_tool_that_the_model_has_is_named() {
    for (edit_tool, told) in [
        (Some("apply_patch"), "then write it. To change a part of it, use `apply_patch`."),
        (None, "then write it."),
    ] {
        let mut place = Place::new(&[]);
        fs::write(place.path("a.txt"), "mine\n").unwrap();
        place.cx.audience.edit_tool = edit_tool;
        let message = place.check_failing("write_file", write_args("new\n"), "file_not_read");
        assert!(message.ends_with(told), "{message}");
    }
}

#[test]
fn a_file_that_has_changed_since_the_model_read_it_is_not_replaced() {
    let place = Place::new(&[("a.txt", b"old\n")]);
    fs::write(place.path("a.txt"), "mine\n").unwrap();
    let message = place.check_failing("write_file", write_args("new\n"), "file_changed");
    expect!["a.txt has changed since you read it: it was left as it is. Read it again first, then write it so that the changes stay."].assert_eq(&message);
    place.call("read_file", json!({ "file_path": "a.txt", "start_line": 1 })).unwrap();
    place.call("write_file", write_args("new\n")).unwrap();
    assert_eq!(place.read("a.txt"), b"new\n");
}

#[test]
fn a_file_of_which_the_model_has_read_a_part_is_not_replaced() {
    let place = Place::new(&[]);
    fs::write(place.path("a.txt"), "1\n2\n3\n4\n").unwrap();
    let reads = |start: usize, end: usize| {
        let args = json!({ "file_path": "a.txt", "start_line": start, "end_line": end });
        place.call("read_file", args).unwrap();
    };
    reads(1, 2);
    let message = place.check_failing("write_file", write_args("new\n"), "file_not_read");
    expect!["You have read only a part of a.txt: it was left as it is. Read the rest of it first, then write it. To change a part of it, use `replace`."].assert_eq(&message);
    reads(3, 4);
    place.call("write_file", write_args("new\n")).unwrap();
    assert_eq!(place.read("a.txt"), b"new\n");
}

#[test]
fn a_file_that_the_model_has_written_is_known_to_it() {
    let place = Place::new(&[]);
    for content in ["one\n", "two\n"] {
        place.call("write_file", write_args(content)).unwrap();
    }
    place.call("replace", replace_args("two", "three")).unwrap();
    place.call("write_file", write_args("four\n")).unwrap();
    assert_eq!(place.read("a.txt"), b"four\n");
}

#[test]
fn a_file_of_which_the_model_has_replaced_a_passage_is_not_known_to_it() {
    let place = Place::new(&[]);
    fs::write(place.path("a.txt"), "one\ntwo\n").unwrap();
    place.call("replace", replace_args("two", "three")).unwrap();
    place.check_failing("write_file", write_args("new\n"), "file_not_read");
}

#[test]
fn content_over_the_limit_is_refused() {
    let place = Place::new(&[]);
    let content = "x".repeat((1 << 20) + 1);
    place.check_failing("write_file", write_args(&content), "file_too_large");
}

#[test]
fn arguments_that_are_missing_are_named() {
    let place = Place::new(&[]);
    let error = place.prepare("write_file", json!({ "content": "" })).err().unwrap();
    assert_eq!(error.kind, "invalid_tool_params");
    expect!["missing field `file_path`"].assert_eq(&error.message);
}
