//! Going back to before an earlier prompt.

use super::*;

/// Starts the agent with an answer for each prompt that contains these words.
fn start(answers: &[(&str, Value)], args: &str) -> Option<Terminal> {
    let terminal = Terminal::open()?;
    let line = |(when, answers): &(&str, Value)| {
        format!("{}\n", json!({ "when": when, "answers": answers }))
    };
    let script: String = answers.iter().map(line).collect();
    fs::write(terminal.home.path().join("script.jsonl"), script).unwrap();
    let home = terminal.home.path().display();
    terminal.agent("", &format!("--model replay:{home}/script.jsonl {args}"));
    terminal.until(HINT);
    Some(terminal)
}

#[test]
fn esc_twice_goes_back_to_before_a_prompt_with_its_files_and_the_prompt_is_there_to_be_edited() {
    let write = json!({ "name": "write_file", "args": { "file_path": "a", "content": "a\n" } });
    let answers = [
        ("hi", json!([[{ "text": "Hello." }]])),
        ("write a and b", json!([[{ "text": "Written again." }]])),
        ("write a", json!([[{ "call": write }], [{ "text": "Written." }]])),
    ];
    let Some(terminal) = start(&answers, "--yolo") else { return };
    let file = terminal.home.path().join("project/a");
    terminal.line("hi");
    terminal.until("Hello.");
    terminal.line("write a");
    terminal.until("Written.");
    terminal.until(HINT);
    assert!(file.exists());
    terminal.keys(&["Escape"]);
    terminal.until("press Esc again");
    terminal.keys(&["Escape"]);
    let seen = terminal.until("Go back to before a prompt");
    assert!(seen.contains("› write a") && seen.contains("  hi"), "{seen}");
    terminal.keys(&["Enter"]);
    terminal.until("the conversation, and 1 file as it was then");
    terminal.keys(&["Escape"]);
    terminal.until("Go back to before a prompt");
    terminal.keys(&["Enter"]);
    terminal.until("the conversation, and 1 file");
    terminal.keys(&["Enter"]);
    terminal.until("Went back to before prompt 2: write a");
    terminal.wait("the prompt in the line", |seen| !seen.contains(HINT));
    assert!(!file.exists());
    terminal.line(" and b");
    let seen = terminal.until("Written again.");
    assert!(seen.contains("› write a and b"), "{seen}");
}

#[test]
fn the_command_offers_the_prompts_and_takes_a_number_too() {
    let answers = [("first", json!([[{ "text": "One." }]])), ("", json!([[{ "text": "Two." }]]))];
    let Some(terminal) = start(&answers, "") else { return };
    for (prompt, answer) in [("first", "One."), ("second", "Two.")] {
        terminal.line(prompt);
        terminal.until(answer);
        terminal.until(HINT);
    }
    terminal.line("/rewind");
    terminal.until("Go back to before a prompt");
    terminal.keys(&["Down", "Enter"]);
    terminal.until("Went back to before prompt 1: first");
    terminal.wait("the prompt in the line", |seen| !seen.contains(HINT));
    terminal.keys(&["C-u"]);
    terminal.line("/rewind 2");
    terminal.until("is not the number of a prompt");
}
