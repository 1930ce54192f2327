//! Tests that characters that a terminal would hide or obey are written out wherever a text is shown.

use serde_json::{Value, json};

use super::super::theme::{DIM_STYLE, GOOD_STYLE};
use super::attached::attached;
use super::{Stage, asked, call, done, drawn, shell};
use crate::item::{HistoryItem, ItemBody};
use tandem_content::visible::{has_hidden, visible_line};

/// Texts that would hide the text before, beside or after them.
const HIDING_TEXTS: &[&str] = &[
    "\r",
    "\r\r",
    "\u{1b}[2K",
    "\u{1b}[1A",
    "\u{1b}]0;unterminated",
    "\u{1b}]8;;http://x\u{1b}\\",
    "\u{1b}Pq",
    "\u{1b}_apc",
    "\u{1b}^pm",
    "\u{1b}Xsos",
    "\u{1b}(0",
    "\u{9b}2K",
    "\u{9d}0;c1",
    "\u{0}",
    "\u{7}",
    "\u{8}\u{8}",
    "\u{b}",
    "\u{c}",
    "\u{7f}",
    "\u{85}",
    "\u{a0}",
    "\u{ad}",
    "\u{61c}",
    "\u{180e}",
    "\u{200b}",
    "\u{200d}",
    "\u{200f}",
    "\u{2028}",
    "\u{202e}",
    "\u{2066}",
    "\u{2800}",
    "\u{3164}",
    "\u{fe0f}",
    "\u{feff}",
    "\u{e0041}",
];

/// Shows a question on this stage, and then the card of its call.
#[track_caller]
fn check(stage: Stage, event: Value, outcome: Value, expected: &str) {
    let question = json!({ "why": "it asks", "commands": [], "scopes": [] });
    let mut event = event;
    event["CallStarted"]["question"] = question;
    let stage = stage.sized(100, 30).turn("go").see(event).wait(1000);
    let question = shown(&stage);
    assert!(question.contains(expected), "{expected:?} is not in the question:\n{question}");
    assert!(question.contains("has hidden characters"), "it is not said:\n{question}");
    let closed = json!({ "QuestionClosed": { "call": "1", "answer": null } });
    let card = shown(&stage.see(closed).finished("1", outcome));
    assert!(card.contains(expected), "{expected:?} is not in the card:\n{card}");
}

/// Returns the visible text, after a check that it has no hidden characters.
#[track_caller]
fn shown(stage: &Stage) -> String {
    let rows = stage.scrollback.iter().cloned().chain(stage.frame().rows);
    let shown: Vec<_> = rows.map(|row| row.to_string()).collect();
    let shown = shown.join("\n");
    assert!(!has_hidden(&shown), "{shown:?}");
    shown
}

/// Returns calls in which the user must see a text, each with the visible form of that text.
fn subjects(text: &str) -> Vec<(Value, Value, String)> {
    let seen = visible_line(text).into_owned();
    let change = |path: &str, new: &str| json!({ "path": path, "old": "old\n", "new": new });
    let edit = |label: &str, path: &str, new: &str| {
        let mut edit = call("1", "Edit", label, json!({ "Edit": { "path": path } }));
        edit["CallStarted"]["summary"]["diff"] = change(path, new);
        (edit, done(json!({ "Diff": change(path, new) })))
    };
    let (written, wrote) = edit("Write a.py", "/a.py", &format!("{text}\nx\n"));
    let (named, renamed) = edit(&format!("Write {text}"), &format!("/{text}"), "new\n");
    let run = json!({ "Execute": { "command": text, "directory": "/" } });
    let there = json!({ "Execute": { "command": "ls", "directory": format!("/{text}") } });
    let fetch = json!({ "Fetch": { "urls": [text] } });
    let other = json!({ "Other": { "description": text } });
    let nothing = || done(json!(null));
    vec![
        (written, wrote, seen.clone()),
        (named, renamed, seen.clone()),
        (call("1", "Execute", &format!("Run {text}"), run), nothing(), seen.clone()),
        (call("1", "Execute", &format!("Run ls [in {text}]"), there), nothing(), seen.clone()),
        (call("1", "Fetch", &format!("Read {text}"), fetch), nothing(), seen.clone()),
        (call("1", "Other", text, other), nothing(), seen),
    ]
}

#[test]
fn what_a_person_approves_is_seen_here_and_attached() {
    for hiding in HIDING_TEXTS {
        let text = format!("before{hiding}after");
        for (event, outcome, expected) in subjects(&text) {
            check(Stage::new(), event.clone(), outcome.clone(), &expected);
            check(attached(), event, outcome, &expected);
        }
    }
}

#[test]
fn what_a_tool_of_a_server_is_called_with_is_seen() {
    for hiding in HIDING_TEXTS {
        let text = format!("before{hiding}after");
        // JSON itself escapes some of these characters.
        let json = json!(text).to_string();
        let expected = visible_line(&json).into_owned();
        let access = json!({ "Mcp": { "server": "s\u{200b}", "tool": "t", "display_name": "T" } });
        let mut event = call("1", "Other", &format!("Call t (s) {json}"), access);
        event["CallStarted"]["call"]["args"] = json!({ "text": text });
        let answer = done(json!({ "Output": format!("it says {text}") }));
        check(Stage::new(), event.clone(), answer.clone(), &expected);
        check(attached(), event, answer, &expected);
    }
}

#[test]
fn a_path_is_on_one_line_and_lines_of_a_label_are_all_shown() {
    let mut edit = call("1", "Edit", "Write a\nb", json!({ "Edit": { "path": "/a\nb" } }));
    let change = json!({ "path": "/a\nb", "old": null, "new": "x\n" });
    edit["CallStarted"]["summary"]["diff"] = change.clone();
    check(Stage::new(), edit, done(json!({ "Diff": change })), "a\\nb");
}

#[test]
fn a_change_of_line_endings_alone_is_seen() {
    let shown_of = |old: &str, new: &str| {
        let mut edit = call("1", "Edit", "Write a", json!({ "Edit": { "path": "/a" } }));
        edit["CallStarted"]["summary"]["diff"] = json!({ "path": "/a", "old": old, "new": new });
        let question = asked(edit, "it asks", json!([]), json!([{ "allow": "edits" }]));
        shown(&Stage::new().turn("go").see(question).wait(1000))
    };
    let seen = shown_of("a\n", "a\r\n");
    assert!(seen.contains("1 -a") && seen.contains("1 +a␍"), "{seen}");
    assert!(seen.contains("has hidden characters"), "{seen}");
    // If all lines end with CRLF, the title says so once, and the lines do not.
    let seen = shown_of("a\r\n", "b\r\n");
    assert!(seen.contains("+1 -1 CRLF") && seen.contains("1 +b"), "{seen}");
    assert!(!seen.contains('␍') && !seen.contains("hidden"), "{seen}");
}

#[test]
fn what_is_said_around_it_is_seen() {
    for hiding in HIDING_TEXTS {
        let text = format!("before{hiding}after");
        let queued = json!({ "turn": 2, "prompt": [{ "Text": text }], "origin": "Editor" });
        let mut stage = Stage::new()
            .sized(200, 40)
            .turn(&text)
            .see(json!({ "Text": format!("{text}\n\n`{text}`\n\n| {text} |\n|---|\n\n    {text}\n\nx") }))
            .see(json!({ "Thought": text }))
            .see(json!({ "Notice": text }))
            .see(json!({ "ModelChanged": { "model": text } }))
            .see(call("1", "Read", &format!("Read {text}"), json!("Read")))
            .finished("1", json!({ "Failed": { "kind": "x", "message": text, "shown": null } }))
            .see(call("2", "Think", "Write 1 todo", json!("Nothing")))
            .finished("2", done(json!({ "Todos": [{ "description": text, "status": "pending" }] })))
            .see(json!({ "TurnQueued": queued }))
            .typed(&text);
        stage.state.hint = Some(text.clone());
        stage.state.about.workspace.clone_from(&text);
        stage.state.transcript.aside(HistoryItem::new(ItemBody::Help(text.clone())));
        let seen = shown(&stage);
        let expected = visible_line(&text);
        // The text stands in the prompt, the notice, the call and its failure, twice in the todo list, in the queue,
        // the line, the hint, the model's name and the directory.
        assert!(seen.matches(&*expected).count() >= 11, "{expected:?}:\n{seen}");
    }
}

#[test]
fn only_what_a_program_writes_is_played() {
    let progress = |text: &str| json!({ "CallProgress": { "call": "1", "output": text } });
    let run = json!({ "Execute": { "command": "make", "directory": "/" } });
    let stage = Stage::new().turn("go").see(call("1", "Execute", "Run make", run));
    let seen = shown(&stage.see(progress("10%\r\u{1b}[32m20%\u{1b}[0m")));
    assert!(seen.contains("│ 20%") && !seen.contains("10%"), "{seen}");
    let access = json!({ "Mcp": { "server": "s", "tool": "t", "display_name": "t" } });
    let stage = Stage::new().turn("go").see(call("1", "Other", "Call t (s)", access));
    let seen = shown(&stage.see(progress("10%\r20%")));
    assert!(seen.contains("│ 10%␍20%"), "{seen}");
}

#[test]
fn the_output_of_a_command_keeps_its_colours_and_nothing_else() {
    let output = "\u{1b}[2J\u{1b}[32mok\u{1b}[0m 1\u{1b}]0;title\u{7}";
    let stage = Stage::new().turn("!make").see(shell("1", "make"));
    let stage = stage.see(json!({ "CallProgress": { "call": "1", "output": output } }));
    let frame = stage.frame();
    let row = frame.rows.iter().find(|row| row.to_string().contains("ok")).unwrap();
    let spans: Vec<_> = row.spans.iter().map(|span| (&*span.content, span.style)).collect();
    assert_eq!(spans, [("  │ ", DIM_STYLE), ("ok", GOOD_STYLE), (" 1", DIM_STYLE)]);
}

#[test]
fn a_text_for_a_program_is_shown_to_the_last_character() {
    let access = json!({ "ProgramInput": {
        "pid": 48213, "command": "python3 -i", "directory": "/home/me/src/project",
        "sandbox": "danger-full-access", "unfinished": "x = ", "text": "1\u{3}\nprint(x)", "closes": true,
    } });
    let title = "Write to PID 48213 (python3 -i), then close its input: 1\u{2403}\\nprint(x)";
    let why = "the program may take the text for commands";
    let mut question = asked(call("1", "Execute", title, access), why, json!([]), json!([]));
    question["CallStarted"]["question"]["rules"] = json!([{ "BuiltIn": "program-input" }]);
    let stage = Stage::new().turn("go").see(question).wait(1000);
    stage.check("question_program_input.txt");
}

#[test]
fn a_comment_after_a_carriage_return_does_not_cover_the_line() {
    let new = "import os; os.system('rm -rf ~')\r# a harmless comment\n";
    let access = json!({ "Edit": { "path": "/home/me/a.py" } });
    let mut edit = call("1", "Edit", "Write a.py", access);
    edit["CallStarted"]["summary"]["diff"] =
        json!({ "path": "/home/me/a.py", "old": null, "new": new });
    let question = asked(edit, "this mode asks", json!([]), json!([{ "allow": "edits" }]));
    let stage = Stage::new().turn("go").see(question).wait(1000);
    stage.check("question_hidden.txt");
    assert!(drawn(&stage.frame().rows, 80).contains("os.system('rm -rf ~')␍#"));
}

#[test]
fn no_line_of_a_command_has_the_mark_of_the_sandbox() {
    let command = "make # [sandboxed]\n[sandboxed]";
    let access = json!({ "Execute": { "command": command, "directory": "/w" } });
    let event = asked(call("1", "Execute", "Run make", access), "it asks", json!([]), json!([]));
    let screen = shown(&Stage::new().sized(100, 30).turn("go").see(event).wait(1000));
    assert!(screen.contains("make # (sandboxed)"), "{screen}");
    assert!(!screen.contains("[sandboxed]"), "{screen}");
}
