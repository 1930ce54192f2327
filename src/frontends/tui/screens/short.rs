//! Screens with content in short, and with the same content in full.

use serde_json::json;

use super::{Stage, call, done, shell};

#[test]
fn what_was_shown_in_short_is_shown_in_full_the_last_first() {
    let many: Vec<_> = (1..=12).map(|line| format!("test {line} ... ok")).collect();
    let mut stage = Stage::new()
        .turn("go")
        .see(json!({ "Thought": "**Looking** at the test.\n\nIt asserts that one is two." }))
        .see(call("1", "Read", "Read README.md", json!("Read")))
        .finished("1", done(json!({ "Markdown": "All of this is seen." })))
        .see(shell("2", "cargo test"))
        .finished("2", done(json!({ "Output": many.join("\n") })));
    assert!(stage.state.transcript.open_short(), "the command");
    assert!(stage.state.transcript.open_short(), "the thought");
    assert!(!stage.state.transcript.open_short(), "nothing else was shown in short");
    stage.scrolled().check("opened.txt");
}

#[test]
fn thoughts_in_full() {
    let mut stage = Stage::new().turn("go");
    stage.state.transcript.unfolded = true;
    let thought = "**Looking** at the test.\n\nIt asserts that one is two.";
    stage.see(json!({ "Thought": thought })).see(json!({ "Text": "So.\n" })).check("unfolded.txt");
}

#[test]
fn of_a_long_conversation_that_is_opened_again_the_end_is_shown_from_a_prompt_on() {
    let mut stage = Stage::new().sized(60, 12);
    stage.state.transcript.catching_up = true;
    for turn in 1..=120 {
        let queued = json!({ "turn": turn, "prompt": [{ "Text": format!("prompt {turn}") }], "origin": "Terminal" });
        stage = stage
            .see(json!({ "TurnQueued": queued }))
            .see(json!({ "TurnStarted": { "turn": turn } }))
            .see(json!({ "Thought": "Hm." }))
            .see(json!({ "Text": format!("answer {turn}") }))
            .see(json!({ "TurnFinished": { "turn": turn, "reason": "EndTurn" } }));
        stage.state.transcript.leave_out();
        assert!(stage.state.transcript.items.len() <= 100 && stage.scrollback.is_empty());
    }
    stage.state.transcript.caught_up();
    let stage = stage.scrolled();
    let shown: Vec<_> = stage.scrollback.iter().map(ToString::to_string).collect();
    let note = shown[1..3].concat();
    assert!(note.starts_with("· The beginning") && note.contains("261"), "{note}");
    assert_eq!(shown.iter().find(|row| row.contains("prompt")).unwrap(), "› prompt 88");
    assert!(shown.iter().any(|row| row == "answer 120"), "{shown:?}");
}
