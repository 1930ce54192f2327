//! Questions in a real terminal: all of each is shown, and every character.

use serde_json::{Value, json};

use super::{Terminal, prompts};
use crate::needs::{Need, lacking};
use crate::sandboxed::{REASON, outside};

fn writes(content: &str) -> Value {
    let args = json!({ "file_path": "a.py", "content": content });
    let call = json!({ "call": { "name": "write_file", "args": args } });
    json!([[call], [{ "text": "Written." }]])
}

#[test]
fn what_would_hide_in_a_terminal_is_seen_and_is_what_is_written() {
    let content = "import os; os.system('x')\r# harmless\n\u{1b}]0;gone\nseen\u{202e}too\n";
    let Some(terminal) = Terminal::start(writes(content), "") else { return };
    terminal.line("write it");
    let asked = terminal.until("has hidden characters");
    for line in ["1 +import os; os.system('x')␍# harmless", "2 +␛]0;gone", "3 +seen<U+202E>too"]
    {
        assert!(asked.contains(line), "{line}:\n{asked}");
    }
    Terminal::wait_for_grace();
    terminal.text("y");
    let seen = terminal.until("Written.");
    assert!(seen.contains("+import os; os.system('x')␍# harmless"), "{seen}");
    assert_eq!(terminal.file("project/a.py").unwrap(), content);
}

#[test]
fn a_long_change_is_read_whole_in_a_small_terminal() {
    let content: String = (1..=80).map(|line| format!("line {line}\n")).collect();
    let Some(terminal) = Terminal::start(writes(&content), "") else { return };
    terminal.tmux(&["resize-window", "-x", "40", "-y", "10"]);
    terminal.wait("the new width", |seen| seen.contains("› /command, @file, ? for the keys"));
    terminal.line("write it");
    terminal.until("v: full screen");
    Terminal::wait_for_grace();
    terminal.keys(&["PageDown"]);
    terminal.wait("the next page", |seen| !seen.contains("rows 1-"));
    terminal.keys(&["End"]);
    terminal.until("80 +line 80");
    terminal.keys(&["S-Up"]);
    terminal.wait("the row above", |seen| !seen.contains("80 +line 80"));
    terminal.text("v");
    terminal.until("Esc: back");
    terminal.keys(&["PageDown"]);
    terminal.wait("the next page", |seen| !seen.contains("rows 1-"));
    terminal.keys(&["Escape"]);
    terminal.wait("the question", |seen| seen.contains("› y  Yes, this once"));
    assert!(terminal.file("project/a.py").is_none());
    terminal.text("vy");
    terminal.until("Written.");
    assert_eq!(terminal.file("project/a.py").unwrap(), content);
}

#[test]
fn the_models_reason_to_leave_the_sandbox_is_shown() {
    if lacking(Need::Sandbox) {
        return;
    }
    let answers = json!([[outside("touch a.txt")], [{ "text": "Then not." }]]);
    let Some(terminal) = Terminal::start(answers, "") else { return };
    terminal.line("go");
    let asked = terminal.until("Yes, this once");
    // The terminal may have broken the words over several lines.
    let words = asked.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains("outside the sandbox; the model says:"), "{asked}");
    assert!(words.contains(REASON), "{asked}");
}

#[test]
fn a_file_of_the_home_is_asked_about_by_its_path() {
    let args = json!({ "file_path": "../notes/diary.md" });
    let read = json!({ "call": { "name": "read_file", "args": args } });
    let answers = json!([[read], [{ "text": "It is read." }]]);
    let without = "--sandbox danger-full-access";
    let Some(terminal) = Terminal::start(answers, without) else { return };
    std::fs::create_dir(terminal.home.path().join("notes")).unwrap();
    std::fs::write(terminal.home.path().join("notes/diary.md"), "Dear diary\n").unwrap();
    terminal.line("go");
    let asked = terminal.until("Yes, this once");
    let words = asked.split_whitespace().collect::<String>();
    assert!(
        words.contains("notes/diary.md") && words.contains("whilethissessionisopen:reading"),
        "{asked}"
    );
    Terminal::wait_for_grace();
    terminal.text("y");
    terminal.until("It is read.");
}

/// Returns answers that write three files, each of which is asked about.
fn three_questions() -> Value {
    let write = |name: &str| {
        let args = json!({ "file_path": name, "content": "x\n" });
        json!({ "call": { "name": "write_file", "args": args } })
    };
    json!([[write("a.txt"), write("b.txt"), write("c.txt")], [{ "text": "Written." }]])
}

#[test]
fn an_answer_that_is_typed_too_early_is_neither_taken_nor_typed_into_the_prompt() {
    let Some(terminal) = Terminal::start(three_questions(), "") else { return };
    terminal.line("write them");
    terminal.until("project/a.txt");
    Terminal::wait_for_grace();
    terminal.text("y");
    for name in ["project/b.txt", "project/c.txt"] {
        terminal.until(name);
        terminal.text("y");
        let seen = terminal.until("ignored: the question is new");
        assert!(!seen.contains("begun, not sent"), "{seen}");
        Terminal::wait_for_grace();
        terminal.text("y");
        terminal.wait("the answer", |seen| !seen.contains(name));
    }
    terminal.until("Written.");
    terminal.line("/mode yolo");
    let seen = terminal.until("· yolo ·");
    assert_eq!(prompts(&seen)[0], "write them", "{seen}");
}

#[test]
fn a_prompt_that_is_begun_before_a_question_is_seen_at_it() {
    let Some(terminal) = Terminal::start(three_questions(), "") else { return };
    terminal.line("write them");
    terminal.text("and th");
    terminal.until("begun, not sent: and th");
    terminal.keys(&["C-d"]);
    terminal.until("your unfinished prompt is kept; press Ctrl+C twice to quit");
}

#[test]
fn one_key_quits_at_a_question_whenever_it_is_pressed() {
    for waits in [false, true] {
        let Some(terminal) = Terminal::start(three_questions(), "") else { return };
        terminal.line("write them");
        terminal.until("project/a.txt");
        if waits {
            Terminal::wait_for_grace();
        }
        terminal.keys(&["C-d"]);
        terminal.check_given_back();
        assert!(terminal.file("project/a.txt").is_none());
    }
}
