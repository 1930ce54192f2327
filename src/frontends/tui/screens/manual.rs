//! Test of the screen that README.md shows.

use serde_json::json;

use super::{Stage, asked_edit, call, done};

#[test]
fn a_turn_that_reads_explains_and_asks() {
    let table = "It greets in one place. I make it longer, and count:\n\n\
        | word | letters |\n|---|---|\n| hi | 2 |\n| hello | 5 |\n";
    Stage::new()
        .turn("make the greeting longer")
        .see(json!({ "Thought": "**Looking at the program**" }))
        .see(call("1", "Read", "Read src/main.rs", json!("Read")))
        .finished("1", done(json!(null)))
        .see(json!({ "Text": table }))
        .see(asked_edit("2"))
        .check("manual.txt");
}
