//! Keys, in each encoding that terminals have for them.

use serde_json::json;

use super::*;

fn hanging() -> Value {
    json!([[{ "text": "Begun.\n\nMore" }, { "hang": null }], [{ "text": "Again." }]])
}

#[test]
fn a_new_line_is_made_in_every_way() {
    let Some(terminal) = Terminal::open() else { return };
    terminal.tmux(&["set-option", "-s", "extended-keys", "on"]);
    terminal.agent("", "--model replay");
    terminal.until(HINT);
    terminal.text("one");
    terminal.keys(&["S-Enter"]);
    terminal.text("two");
    // Shift+Enter in the form of Kitty's protocol, and in that of xterm.
    terminal.bytes("\x1b[13;2u");
    terminal.text("three");
    terminal.bytes("\x1b[27;2;13~");
    terminal.text("four\\");
    terminal.keys(&["Enter"]);
    terminal.text("five");
    terminal.keys(&["C-j"]);
    terminal.text("six");
    terminal.until("› one\n  two\n  three\n  four\n  five\n  six\n");
}

#[test]
fn keys_that_are_told_apart_mean_what_they_meant() {
    let Some(terminal) = Terminal::start(hanging(), "") else { return };
    terminal.text("one two");
    terminal.bytes("\x1b[119;5u");
    terminal.wait("the word is cut", |seen| seen.contains("› one\n"));
    terminal.bytes("\x1b[27;5;121~\x1b[13u");
    terminal.until("More");
    assert_eq!(prompts(&terminal.seen())[0], "one two");
    terminal.bytes("\x1b[9;2u");
    terminal.until("auto_edit");
    terminal.bytes("\x1b[27;2;9~");
    terminal.until("replay · plan");
    terminal.bytes("\x1b[99;5u");
    terminal.until("Cancelled.");
    terminal.bytes("\x1b[27;5;99~");
    terminal.check_given_back();
}

#[test]
fn a_key_goes_round_the_modes_and_the_one_without_questions_is_named() {
    let Some(terminal) = Terminal::start(hanging(), "") else { return };
    for mode in ["auto_edit", "plan", "default"] {
        terminal.keys(&["BTab"]);
        terminal.until(&format!("· {mode} ·"));
    }
    terminal.line("/mode yolo");
    terminal.until("· yolo ·");
    terminal.line("/mode yol");
    terminal.until("Unknown mode `yol`. Modes: default, auto_edit, yolo, plan");
    terminal.keys(&["BTab"]);
    terminal.until("· default ·");
}

#[test]
fn a_paste_without_an_end_does_not_make_it_deaf() {
    let Some(terminal) = Terminal::start(hanging(), "") else { return };
    terminal.bytes("\x1b[200~half a");
    terminal.until("the paste was cut off");
    terminal.text(" line");
    terminal.until("› half a line");
    terminal.keys(&["Enter"]);
    terminal.until("More");
    terminal.bytes("\x1b[200~another");
    terminal.keys(&["C-c"]);
    terminal.until("Cancelled.");
    terminal.until("› another");
}

#[test]
fn an_interrupt_gives_back_what_waits() {
    let Some(terminal) = Terminal::start(hanging(), "") else { return };
    terminal.line("go");
    terminal.until("More");
    terminal.line("first");
    terminal.line("second");
    terminal.until("queued: second");
    terminal.text("typed");
    terminal.keys(&["C-c"]);
    let seen = terminal.wait("the prompts in the line", |seen| {
        seen.contains("› first\n  second\n  typed\n") && seen.contains("Cancelled.")
    });
    assert!(!seen.contains("queued") && !seen.contains("Again."), "{seen}");
}
