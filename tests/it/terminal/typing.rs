//! Typing while a question appears, and typing very much.

use serde_json::json;

use super::{QUESTION, Terminal, prompts, write_file};

#[test]
fn who_goes_on_typing_does_not_answer_a_question() {
    let answers = json!([[write_file()], [{ "text": "Not written." }]]);
    let Some(terminal) = Terminal::start(answers, "") else { return };
    terminal.line("write it");
    // The user types for longer than the grace period of a question, without a pause of that length.
    for _ in 0..12 {
        terminal.text("y");
        std::thread::sleep(std::time::Duration::from_millis(150));
    }
    terminal.until(QUESTION);
    assert!(terminal.file("project/a.txt").is_none());
    terminal.text("n");
    let seen = terminal.until("Not written.");
    assert_eq!(prompts(&seen).last(), Some(&"yyyyyyyyyyyy"));
}

#[test]
fn a_megabyte_is_pasted_and_typing_goes_on() {
    let answers = json!([[{ "text": "It is long." }]]);
    let Some(terminal) = Terminal::start(answers, "") else { return };
    let text = terminal.home.path().join("long");
    let lines: Vec<_> =
        (0..20_000).map(|line| format!("a line of some length, {line:>26}\n")).collect();
    std::fs::write(&text, lines.concat()).unwrap();
    terminal.tmux(&["load-buffer", text.to_str().unwrap()]);
    terminal.tmux(&["paste-buffer", "-p"]);
    terminal.until("19999");
    terminal.text("and the end");
    terminal.until("  and the end");
    terminal.keys(&["Enter"]);
    let seen = terminal.until("It is long.");
    assert!(seen.contains("more below (Ctrl+O shows all)"), "{seen}");
}

#[test]
fn what_was_shown_in_short_is_shown_in_full() {
    let run = json!({ "call": { "name": "run_shell_command", "args": { "command": "seq 30" } } });
    let answers = json!([[run], [{ "text": "Counted." }]]);
    let Some(terminal) = Terminal::start(answers, "-y") else { return };
    terminal.line("count");
    let seen = terminal.until("Counted.");
    assert!(seen.contains("22 more above (Ctrl+O shows all)") && !seen.contains("│ 7\n"), "{seen}");
    terminal.keys(&["C-o"]);
    terminal.until("│ 7\n");
    terminal.keys(&["C-o"]);
    terminal.until("nothing else is shown in short");
}
