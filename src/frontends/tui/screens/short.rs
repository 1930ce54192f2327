//! Screens with shortened content, and with all of it.

use serde_json::json;

use super::{Stage, call, done, shell};

#[test]
fn what_was_shown_in_short_is_shown_in_full_the_last_first() {
    let many: Vec<_> = (1..=12).map(|line| format!("test {line} ... ok")).collect();
    let mut stage = Stage::new()
        .turn("go")
        .see(json!({ "Thought": "**Looking** at the test.\n\nIt asserts that one is two." }))
        .see(call("1", "Read", "README.md", json!("Read")))
        .finished("1", done(json!({ "Markdown": "All of this is seen." })))
        .see(shell("2", "cargo test"))
        .finished("2", done(json!({ "Output": many.join("\n") })));
    assert!(stage.state.open_short(), "the command");
    assert!(stage.state.open_short(), "the thought");
    assert!(!stage.state.open_short(), "nothing else was shown in short");
    stage.scrolled().check("opened.txt");
}

#[test]
fn thoughts_in_full() {
    let mut stage = Stage::new().turn("go");
    stage.state.unfolded = true;
    let thought = "**Looking** at the test.\n\nIt asserts that one is two.";
    stage.see(json!({ "Thought": thought })).see(json!({ "Text": "So.\n" })).check("unfolded.txt");
}
