//! Screens of a question that is longer than the screen: the user can read all of it before the answer.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::{Stage, asked, asked_command, call};
use crate::dialog::Scroll;
use crate::wrap::width_of;

/// Returns the event of a question about a change of 80 lines.
fn long() -> Value {
    let line = |line: usize| format!("line {line} of it\n");
    let new: String = (1..=80).map(line).collect();
    let mut edit = call("1", "Edit", "Write a.txt", json!({ "Edit": { "path": "/w/a.txt" } }));
    edit["CallStarted"]["summary"]["diff"] = json!({ "path": "/w/a.txt", "old": null, "new": new });
    asked(
        edit,
        "this mode asks before a call changes files",
        json!([]),
        json!([{ "allow": "edits" }]),
    )
}

fn scroll(stage: &mut Stage, scroll: Scroll) {
    stage.frame();
    stage.state.questions.open[0].scroll(scroll);
}

fn seen(stage: &Stage) -> String {
    stage.frame().rows.iter().flat_map(|row| [row.to_string(), "\n".to_owned()]).collect()
}

#[test]
fn a_small_screen_shows_some_of_it_and_where_that_is() {
    let mut stage = Stage::new().sized(40, 9).turn("go").see(long()).wait(1000);
    stage.check("question_small.txt");
    scroll(&mut stage, Scroll::PageDown);
    scroll(&mut stage, Scroll::RowDown);
    stage.check("question_small_paged.txt");
    stage.state.questions.open[0].reading = true;
    stage.check("question_small_read.txt");
}

#[test]
fn pages_go_through_every_line_in_a_terminal_of_any_size() {
    for (columns, rows) in [(40, 9), (40, 23), (60, 12), (80, 23), (200, 60)] {
        for reading in [false, true] {
            let mut stage = Stage::new().sized(columns, rows).turn("go").see(long()).wait(1000);
            stage.state.questions.open[0].reading = reading;
            let (mut lines, mut pages) = (BTreeSet::new(), 0);
            loop {
                let seen = seen(&stage);
                let found = (1..=80).filter(|n| seen.contains(&format!("line {n} of it\n")));
                lines.extend(found);
                pages += 1;
                let before = stage.state.questions.open[0].scroll;
                scroll(&mut stage, Scroll::PageDown);
                if stage.state.questions.open[0].scroll == before {
                    break;
                }
            }
            assert_eq!(lines.len(), 80, "{columns}x{rows}");
            let window = stage.state.questions.open[0].window.get();
            assert!(window.shown >= 3, "{columns}x{rows}: {window:?}");
            // Only the last page may show rows of the page before it.
            assert_eq!(pages, window.total.div_ceil(window.shown), "{columns}x{rows}");
            scroll(&mut stage, Scroll::ToStart);
            assert!(seen(&stage).contains("line 1 of it"), "{columns}x{rows}");
            scroll(&mut stage, Scroll::ToEnd);
            scroll(&mut stage, Scroll::PageDown);
            scroll(&mut stage, Scroll::RowUp);
            scroll(&mut stage, Scroll::RowDown);
            let total = window.total;
            assert!(seen(&stage).contains(&format!("-{total} of {total}")), "{columns}x{rows}");
        }
    }
}

#[test]
fn a_long_command_leaves_room_for_itself_and_is_read_whole() {
    let mut event = asked_command("1");
    let started = &mut event["CallStarted"];
    let command = format!("printf {}; rm -rf the-end", "x".repeat(3000));
    started["access"]["Execute"]["command"] = json!(command);
    started["summary"]["label"] = json!(format!("Run {command}"));
    started["question"]["scopes"][1]["of"]["line"] = json!(command);
    let mut stage = Stage::new().turn("go").see(event).wait(1000);
    stage.check("question_long_command.txt");
    stage.state.questions.open[0].reading = true;
    let mut all = String::new();
    for _ in 0..30 {
        all.push_str(&seen(&stage));
        scroll(&mut stage, Scroll::PageDown);
    }
    assert!(all.contains("rm -rf the-end"), "{all}");
    assert!(
        all.contains(
            "a  Yes, and while this session is open: commands that begin with `cargo test`"
        ),
        "{all}"
    );
}

#[test]
fn wide_characters_and_tabs_make_no_row_too_wide() {
    let text = "日本語の\tテキスト👩‍👩‍👧\u{200b}混ぜる\n".repeat(3);
    for columns in [10, 11, 23, 40] {
        let mut event = long();
        event["CallStarted"]["summary"]["diff"]["new"] = json!(text);
        let stage = Stage::new().sized(columns, 30).turn("go").see(event).wait(1000);
        for row in stage.frame().rows {
            assert!(width_of(&row.spans) <= columns.into(), "{columns}: {row}");
        }
    }
}
