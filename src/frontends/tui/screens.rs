//! Tests of the screen: each compares the rows after some events with a file in `fixtures/tui`.
//!
//! `UPDATE_SCREENS=1 cargo test screens` writes these files anew: check the difference.

#![expect(clippy::needless_pass_by_value, reason = "a case reads better as a value")]

mod attached;
mod connecting;
mod events;
mod first;
mod hidden;
mod manual;
mod models;
mod picking;
mod reading;
mod rewinding;
mod short;

use std::fs;
use std::path::Path;
use std::sync::Arc;

use ratatui_core::backend::TestBackend;
use ratatui_core::layout::Rect;
use ratatui_core::terminal::Terminal;
use ratatui_core::text::Line;
use serde_json::{Value, json};

use super::complete;
use super::draw;
use super::input::TextInput;
use super::screen::Screen;
use super::state::{LONG_TURN_MILLIS, LongTurn, ScreenState, StatusInfo};
use super::whole;
use tandem_agent::session::{
    Entry, Event, Millis, ModelGroup, OfferedModel, Origin, Provider, ThinkingLevels,
};

/// Row that marks the end of the scrollback.
const LIVE_LINE: &str = "┈┈┈┈┈┈ live ┈┈┈┈┈┈";

/// State of a screen under test, the screen's size and clock, and the rows that have gone into its scrollback.
struct Stage {
    state: ScreenState,
    /// Number of entries that have been applied.
    entries: usize,
    now: Millis,
    columns: u16,
    rows: u16,
    scrollback: Vec<Line<'static>>,
}

impl Stage {
    fn new() -> Self {
        let about = StatusInfo {
            model: "gemini-3.8-flash".to_owned(),
            workspace: "~/src/project".to_owned(),
            input_limit: Some(1_000_000),
            ..StatusInfo::default()
        };
        let state = ScreenState::new(about, Origin::Terminal);
        Self { state, entries: 0, now: 1_000_000, columns: 80, rows: 24, scrollback: Vec::new() }
    }

    fn sized(mut self, columns: u16, rows: u16) -> Self {
        (self.columns, self.rows) = (columns, rows);
        self
    }

    /// Applies an event.
    fn see(mut self, event: Value) -> Self {
        let event: Event = serde_json::from_value(event).unwrap();
        let entry = Entry { index: self.entries, at: self.now, event: Arc::new(event) };
        self.entries += 1;
        self.state.apply(&entry);
        self.scrolled()
    }

    /// Moves items in their final form into the scrollback.
    fn scrolled(mut self) -> Self {
        for item in self.state.transcript.take_finished(self.columns.into()) {
            let shown = draw::item(&item, self.state.transcript.unfolded, self.columns.into());
            self.scrollback.extend(shown.rows);
            if !shown.whole {
                self.state.transcript.keep_short(item);
            }
        }
        self
    }

    fn wait(mut self, millis: Millis) -> Self {
        self.now += millis;
        self
    }

    fn typed(mut self, text: &str) -> Self {
        self.state.input.set(text);
        self
    }

    fn turn(self, prompt: &str) -> Self {
        self.turn_of(prompt, json!("Terminal"))
    }

    fn turn_of(self, prompt: &str, origin: Value) -> Self {
        let queued = json!({ "turn": 1, "prompt": [{ "Text": prompt }], "origin": origin });
        self.see(json!({ "TurnQueued": queued })).see(json!({ "TurnStarted": { "turn": 1 } }))
    }

    fn finished(self, id: &str, outcome: Value) -> Self {
        self.see(json!({ "CallFinished": { "call": id, "outcome": outcome } }))
    }

    fn frame(&self) -> draw::LiveRows {
        draw::live(&self.state, self.columns.into(), self.rows.into(), self.now)
    }

    #[track_caller]
    fn check(&self, name: &str) {
        let frame = self.frame();
        let mut shown = whole::broken(self.scrollback.clone(), self.columns.into());
        shown.push(Line::raw(LIVE_LINE));
        shown.extend(frame.rows.iter().cloned());
        let mut text = drawn(&shown, self.columns);
        if let Some((row, column)) = frame.cursor {
            text.push_str(&format!("(cursor: row {row}, column {column})\n"));
        }
        assert!(frame.rows.len() <= self.rows.into(), "{} rows", frame.rows.len());
        compare(name, &text);
    }
}

/// Returns the rows as a terminal of this width shows them.
fn drawn(rows: &[Line<'static>], columns: u16) -> String {
    let height = u16::try_from(rows.len()).unwrap();
    let mut terminal = Terminal::new(TestBackend::new(columns, height)).unwrap();
    let draw = |frame: &mut ratatui_core::terminal::Frame<'_>| {
        for (y, row) in (0..).zip(rows) {
            frame.render_widget(row, Rect::new(0, y, columns, 1));
        }
    };
    terminal.draw(draw).unwrap();
    let text = terminal.backend().to_string();
    // After a row with wide characters, the backend's text lists the cells that these cover.
    let row = |row: &str| {
        let row = row.split("\" Hidden by").next().unwrap_or_default();
        row.trim_matches('"').trim_end().to_owned() + "\n"
    };
    text.lines().map(row).collect()
}

#[track_caller]
fn compare(name: &str, text: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../fixtures/tui").join(name);
    if std::env::var_os("UPDATE_SCREENS").is_some() {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        return fs::write(path, text).unwrap();
    }
    let expected = fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(text, expected, "{name}: the screen is another");
}

fn offered(id: &str, window: Option<u64>) -> OfferedModel {
    OfferedModel { id: id.to_owned(), window, price: None, thinking: ThinkingLevels::default() }
}

/// Returns the models of a provider, whose server is on this machine if the provider is local.
fn group(provider: Provider, models: Vec<OfferedModel>) -> ModelGroup {
    let address = provider.is_local().then(|| "http://127.0.0.1:8080".to_owned());
    ModelGroup { provider, address, models }
}

/// Returns the event of a call that begins.
fn call(id: &str, kind: &str, label: &str, access: Value) -> Value {
    json!({ "CallStarted": {
        "call": { "id": id, "name": "tool", "args": {} },
        "caller": "Model",
        "kind": kind,
        "summary": { "label": label, "locations": [], "diff": null },
        "access": access,
        "question": null,
    } })
}

fn shell(id: &str, command: &str) -> Value {
    let access = json!({ "Execute": { "command": command, "directory": "/home/me/src/project" } });
    call(id, "Execute", &format!("Run {command}"), access)
}

fn change() -> Value {
    let old = "fn main() {\n    println!(\"hi\");\n}\n";
    let new = "fn main() {\n    println!(\"hello\");\n    run();\n}\n";
    json!({ "path": "/home/me/src/project/src/main.rs", "old": old, "new": new })
}

fn edit(id: &str) -> Value {
    let access = json!({ "Edit": { "path": "/home/me/src/project/src/main.rs" } });
    let mut call = call(id, "Edit", "Edit src/main.rs", access);
    call["CallStarted"]["summary"]["diff"] = change();
    call
}

fn asked(mut call: Value, why: &str, commands: Value, scopes: Value) -> Value {
    let is_edit = scopes[0]["allow"] == "edits";
    let rules = json!([{ "BuiltIn": if is_edit { "edits" } else { "read-only" } }]);
    let question = json!({ "why": why, "rules": rules, "commands": commands, "scopes": scopes, "can_save": true });
    call["CallStarted"]["question"] = question;
    call
}

fn asked_command(id: &str) -> Value {
    let command = "cargo test --workspace 2>&1 | tee \"out.txt\"";
    let scopes = json!([
        { "allow": "commands", "of": ["cargo test"] },
        { "allow": "line", "of": { "line": command, "directory": "/work" } },
        { "allow": "tool", "of": "run_shell_command" },
    ]);
    let why = "`cargo test` runs what the project says; `tee` writes a file";
    asked(shell(id, command), why, json!(["cargo test", "tee"]), scopes)
}

fn asked_edit(id: &str) -> Value {
    let why = "this mode asks before a call changes files";
    asked(
        edit(id),
        why,
        json!([]),
        json!([{ "allow": "edits" }, { "allow": "tool", "of": "replace" }]),
    )
}

/// Returns a patch of several files: one file is moved, one removed, and one made.
fn patch() -> Value {
    let file = |name: &str| format!("/home/me/src/project/{name}");
    json!({
        "path": file("src/run.rs"), "old": "fn go() {}\n", "new": "fn run() {}\n",
        "moved_from": file("src/go.rs"),
        "others": [
            { "path": file("old.txt"), "old": "one\ntwo\n", "new": "", "removes": true },
            { "path": file("new.txt"), "old": null, "new": "three\n" },
        ],
    })
}

fn asked_patch(id: &str) -> Value {
    let file = |name: &str| format!("/home/me/src/project/{name}");
    let others = ["src/go.rs", "old.txt", "new.txt"].map(file);
    let access = json!({ "Edit": { "path": file("src/run.rs"), "others": others } });
    let title = "Remove old.txt, move src/go.rs to src/run.rs, create new.txt";
    let mut call = call(id, "Edit", title, access);
    call["CallStarted"]["summary"]["diff"] = patch();
    let scopes = json!([{ "allow": "edits" }, { "allow": "tool", "of": "apply_patch" }]);
    asked(call, "this mode asks before a call changes files", json!([]), scopes)
}

fn done(shown: Value) -> Value {
    json!({ "Done": { "text": "", "media": [], "shown": shown } })
}

fn todos() -> Value {
    json!([
        { "description": "read the code", "status": "completed" },
        { "description": "fix the bug", "status": "in_progress" },
        { "description": "run the tests", "status": "pending" },
    ])
}

#[test]
fn a_turn_that_took_long_is_told_of_unless_somebody_ended_it() {
    let end = |reason: Value| json!({ "TurnFinished": { "turn": 1, "reason": reason } });
    let cancelled = json!({ "Cancelled": { "answering": false } });
    for (millis, reason, told) in [
        (LONG_TURN_MILLIS, json!("EndTurn"), true),
        (LONG_TURN_MILLIS, json!({ "Failed": { "unavailable": "down" } }), true),
        (LONG_TURN_MILLIS, cancelled, false),
        (LONG_TURN_MILLIS - 1, json!("EndTurn"), false),
    ] {
        let stage = Stage::new().turn("go").wait(millis).see(end(reason.clone()));
        let expected = if told { LongTurn::Ended(stage.now) } else { LongTurn::None };
        assert_eq!(stage.state.long_turn, expected, "{millis} {reason}");
    }
}

#[test]
fn the_start() {
    Stage::new().check("start.txt");
    Stage::new().typed("two\nlines").check("typed.txt");
    let mut stage = Stage::new();
    stage.state.help = true;
    stage.check("keys.txt");
}

#[test]
fn what_can_be_done_is_said_whole_on_a_small_screen() {
    Stage::new().sized(50, 14).check("start_50x15.txt");
    Stage::new().sized(33, 14).check("start_33.txt");
    let stage = Stage::new().sized(50, 14).turn("go").see(shell("1", &"make all ".repeat(9)));
    stage.check("running_50x15.txt");
    let mut stage = Stage::new().sized(50, 14);
    let hint =
        "the last answer is sent to the clipboard (12 bytes); tmux needs `set-clipboard on` for it";
    stage.state.hint = Some(hint.to_owned());
    stage.check("hint_50x15.txt");
    stage.state.hint = None;
    stage.state.help = true;
    stage.sized(50, 39).check("keys_50.txt");
}

#[test]
fn an_answer_as_it_streams() {
    let stage = Stage::new()
        .turn("why does the test fail?")
        .see(json!({ "Thought": "**Looking at the test** It asserts that" }));
    stage.check("thinking.txt");
    let text =
        "# Why\nThe test is **wrong**: it\n\n- asserts `1`\n- and\n\n```rust\nfn x() {\n    1";
    let stage = stage.see(json!({ "Text": text })).wait(12_345);
    stage.check("streaming.txt");
}

#[test]
fn tools() {
    let many: Vec<_> = (1..=20).map(|line| format!("test {line} ... ok")).collect();
    let stage = Stage::new()
        .turn("go")
        .see(call("1", "Read", "Read README.md", json!("Read")))
        .finished("1", done(json!(null)))
        .see(call("2", "Search", r#"Search for "main" in src"#, json!("Read")))
        .finished("2", done(json!({ "Markdown": "Found 3 matches in 2 files." })))
        .see(edit("3"))
        .finished("3", done(json!({ "Diff": change() })))
        .see(shell("4", "false"))
        .finished(
            "4",
            json!({ "Failed": {
            "kind": "exit", "message": "Exit code 1", "shown": { "Output": "it broke\n" } } }),
        )
        .see(shell("5", "cargo test"))
        .wait(12_000)
        .see(json!({ "CallProgress": { "call": "5", "output": many.join("\n") } }));
    stage.check("tools.txt");
    stage.finished("5", json!("Cancelled")).check("tools_cancelled.txt");
}

#[test]
fn a_label_that_an_older_version_has_written_is_shown_as_it_is() {
    let edit = || json!({ "Edit": { "path": "/home/me/src/project/src/cart.py" } });
    Stage::new()
        .turn("go")
        .see(call("1", "Edit", "src/cart.py: `    old = 1` => `    new = 1`", edit()))
        .finished("1", json!("Cancelled"))
        .see(call("2", "Edit", "", edit()))
        .finished("2", json!("Cancelled"))
        .check("older_labels.txt");
}

#[test]
fn todo_lists() {
    Stage::new()
        .turn("go")
        .see(call("1", "Think", "Write 3 todos", json!("Nothing")))
        .finished("1", done(json!({ "Todos": todos() })))
        .check("todos.txt");
}

#[test]
fn a_todo_list_is_never_without_its_head() {
    for rows in 5..14 {
        let stage = Stage::new()
            .sized(50, rows)
            .turn("go")
            .see(call("1", "Think", "Write 3 todos", json!("Nothing")))
            .finished("1", done(json!({ "Todos": todos() })));
        let shown: Vec<_> = stage.frame().rows.iter().map(ToString::to_string).collect();
        let item = shown.iter().position(|row| row.contains("fix the bug"));
        let head = shown.iter().position(|row| row == "todo 1/3");
        assert!(item.is_none() || head < item && head.is_some(), "{shown:#?}");
        assert!(shown.iter().any(|row| row.starts_with("› ")), "{shown:#?}");
    }
}

#[test]
fn questions() {
    let stage = Stage::new().turn("go").see(asked_edit("1")).wait(1000);
    stage.check("question_edit.txt");
    let stage = Stage::new().turn("go").see(asked_patch("1")).wait(1000);
    stage.check("question_patch.txt");
    let yes = json!([{ "Once": { "edited": null } }, "Terminal"]);
    let stage = stage.see(json!({ "QuestionClosed": { "call": "1", "answer": yes } })).see(
        json!({ "CallFinished": { "call": "1", "outcome": done(json!({ "Diff": patch() })) } }),
    );
    stage.check("patched.txt");
    let mut stage = Stage::new().turn("go").see(asked_command("1")).wait(1000);
    stage.check("question_command.txt");
    let tool = Stage::new().turn("go").see(asked_tool("1")).wait(1000);
    tool.check("question_mcp.txt");
    Stage::new().turn("go").see(asked_programs("1")).wait(1000).check("question_programs.txt");
    let mut input = Stage::new().turn("go").see(asked_input("1")).wait(1000);
    input.check("question_input.txt");
    let dialog = &mut input.state.questions.open[0];
    dialog.go_on(vec!["Red".to_owned()], 0);
    let mut answer = TextInput::default();
    answer.set("ash, if you can");
    dialog.saying = Some(answer);
    input.check("question_input_saying.txt");
    for (text, file) in
        [("use make instead", "question_saying.txt"), ("/share bob answer", "question_sharing.txt")]
    {
        let mut saying = TextInput::default();
        saying.set(text);
        stage.state.questions.open[0].saying = Some(saying);
        stage.check(file);
    }
}

/// Returns the event of a call of an MCP server's tool, with a question.
fn asked_tool(id: &str) -> Value {
    let access = json!({ "Mcp": {
        "server": "github", "tool": "create_issue", "display_name": "Create an issue" } });
    let mut event =
        call(id, "Other", r#"Call create_issue (github) {"title":"It breaks"}"#, access);
    let started = &mut event["CallStarted"];
    started["call"]["args"] = json!({ "title": "It breaks", "labels": ["bug"] });
    started["question"] = json!({
        "why": "tools of MCP servers are asked for",
        "commands": [],
        "scopes": [
            { "allow": "tool", "of": "mcp_github_create_issue" },
            { "allow": "server", "of": "github" },
        ],
    });
    event
}

/// Returns the event of a call by which the model asks two questions.
fn asked_input(id: &str) -> Value {
    let questions = json!([
        {
            "question": "Which colour should the door have?\nThe wall is blue.",
            "header": "Colour",
            "options": [{ "label": "Red", "description": "Warm, and hard to overlook" }, { "label": "Blue" }],
        },
        { "question": "And which wood?", "options": [{ "label": "Oak" }, { "label": "Pine" }] },
    ]);
    let label = "Ask 2 questions, the first: Which colour should the door have?";
    let mut event = call(id, "Other", label, json!({ "UserInput": { "questions": questions } }));
    event["CallStarted"]["question"] = json!({
        "subject": "user_input",
        "why": "the model needs a decision of yours",
        "rules": [{ "BuiltIn": "user-input" }],
        "commands": [],
        "scopes": [],
    });
    event
}

/// Returns the event of a question about the programs that a folder's own settings name.
fn asked_programs(id: &str) -> Value {
    let description =
        "The settings in /work name these programs and servers:\n- MCP server `db`: npx db-server";
    let access = json!({ "Other": { "description": description } });
    let mut event =
        call(id, "Other", "Use the programs and servers that the settings in /work name", access);
    event["CallStarted"]["caller"] = json!("Agent");
    event["CallStarted"]["question"] = json!({
        "subject": "folder_programs",
        "why": "you have not trusted this folder's settings yet; `/permissions trust` changes the answer",
        "rules": [{ "BuiltIn": "unknown-folder" }],
        "commands": [],
        "scopes": [],
    });
    event
}

#[test]
fn a_question_takes_no_more_than_there_is() {
    Stage::new().sized(60, 14).turn("go").see(asked_edit("1")).wait(1000).check("question_low.txt");
}

/// Returns the event of a question about a change that replaces five lines by five others.
fn asked_five_lines() -> Value {
    let file = |of: &str| {
        let changed: Vec<_> = (1..=5).map(|line| format!("    {of} = {line}\n")).collect();
        let changed = changed.concat();
        format!("import os\n\ndef total():\n{changed}    return 1\n\nprint(total())\n")
    };
    let path = "/home/me/src/project/src/cart.py";
    let mut call = asked_edit("1");
    let started = &mut call["CallStarted"];
    started["access"] = json!({ "Edit": { "path": path } });
    started["summary"]["label"] = json!("Edit src/cart.py");
    started["summary"]["diff"] = json!({ "path": path, "old": file("old"), "new": file("new") });
    call
}

#[test]
fn a_change_of_five_lines_is_seen_whole_with_its_answers() {
    for (columns, rows, file) in [(80, 23, "80x24"), (120, 39, "120x40"), (50, 14, "50x15")] {
        let stage = Stage::new().sized(columns, rows).turn("go").see(asked_five_lines()).wait(1000);
        stage.check(&format!("question_five_lines_{file}.txt"));
        if rows > 20 {
            let shown: Vec<_> = stage.frame().rows.iter().map(ToString::to_string).collect();
            let shown = shown.join("\n");
            for line in 1..=5 {
                assert!(shown.contains(&format!("-    old = {line}")), "{shown}");
                assert!(shown.contains(&format!("+    new = {line}")), "{shown}");
            }
            assert!(shown.contains("s  No, and say why"), "{shown}");
        }
    }
}

#[test]
fn who_types_goes_on_typing_when_a_question_comes_up() {
    Stage::new().turn("go").typed("some words").see(asked_edit("1")).check("question_typing.txt");
}

#[test]
fn a_begun_prompt_is_seen_at_a_question() {
    let asked = || Stage::new().turn("go").typed("yy").see(asked_edit("1")).wait(1000);
    asked().check("question_begun.txt");
    asked().sized(50, 15).check("question_begun_low.txt");
}

#[test]
fn a_question_that_is_answered_elsewhere() {
    let closed = |answer: Value| json!({ "QuestionClosed": { "call": "1", "answer": answer } });
    Stage::new()
        .turn("go")
        .see(asked_edit("1"))
        .see(closed(json!([{ "Once": { "edited": null } }, { "A2a": { "number": 2 } }])))
        .check("answered_elsewhere.txt");
    Stage::new()
        .turn("go")
        .see(asked_command("1"))
        .see(closed(json!([{ "RejectSaying": "use make" }, "Editor"])))
        .finished("1", json!("Rejected"))
        .check("rejected_elsewhere.txt");
}

#[test]
fn what_comes_up_in_the_place_of_a_question_does_not_take_its_key() {
    let closed = json!({ "QuestionClosed": { "call": "1", "answer": null } });
    let stage = Stage::new().turn("go").see(asked_edit("1")).see(asked_edit("2")).wait(1000);
    assert!(stage.state.questions.open[0].ready(stage.now));
    let stage = stage.see(closed);
    assert_eq!(stage.state.questions.open[0].call(), "2");
    assert!(!stage.state.questions.open[0].ready(stage.now));
    assert!(stage.state.questions.open[0].ready(stage.now + 1000));
}

#[test]
fn prompts_from_elsewhere_and_those_that_wait() {
    let queued = |turn: u64, text: &str, origin: Value| json!({ "TurnQueued": { "turn": turn, "prompt": [{ "Text": text }], "origin": origin } });
    let mut stage = Stage::new();
    stage.state.about.a2a = Some(("http://127.0.0.1:41242/".to_owned(), 2));
    stage
        .turn_of("run the tests", json!({ "A2a": { "number": 1 } }))
        .see(queued(2, "and then this", json!("Terminal")))
        .see(queued(3, "from the editor", json!("Editor")))
        .typed("!git status")
        .check("queue.txt");
}

#[test]
fn errors_and_retries() {
    let retry = json!({ "reason": "rate limited", "delay": { "secs": 9, "nanos": 0 },
        "attempt": 2, "of": 10, "discard": false });
    let stage = Stage::new().turn("go").see(json!({ "Retry": retry })).wait(2500);
    stage.check("retry.txt");
    let failed = json!({ "Failed": { "unavailable": "The API cannot be reached." } });
    stage.see(json!({ "TurnFinished": { "turn": 1, "reason": failed } })).check("error.txt");
}

#[test]
fn narrow_and_wide() {
    Stage::new()
        .sized(24, 16)
        .turn("日本語で答えてください。お願いします")
        .see(json!({ "Text": "はい、日本語で答えます。\n\n| a | b |\n|---|---|\n| 長い説明です | x |\n" }))
        .check("narrow.txt");
    Stage::new().sized(30, 10).turn("go").see(asked_command("1")).wait(1000).check("tiny.txt");
    Stage::new()
        .sized(30, 6)
        .turn("go")
        .see(asked_command("1"))
        .wait(1000)
        .check("question_least.txt");
    Stage::new().sized(20, 4).turn("go").see(asked_command("1")).wait(1000).check("least.txt");
}

#[test]
fn completion() {
    let mut stage = Stage::new().typed("/m");
    stage.state.completion = complete::commands("/m", &[]);
    stage.check("completion.txt");
}

#[test]
fn no_colour() {
    let stage = Stage::new().turn("go").see(asked_edit("1")).wait(1000);
    let written = Screen::new(80, false, true).update(&stage.scrollback, stage.frame());
    let written = written.replace('\x1b', "␛").replace("\r\n", "\n").replace('\r', "");
    compare("no_colour.txt", &(written + "\n"));
}

#[test]
fn no_screen_is_too_small() {
    for (columns, rows) in [(1, 1), (2, 3), (10, 2), (5, 40), (200, 5)] {
        let stage = Stage::new().sized(columns, rows).turn("日本").see(asked_edit("1")).wait(1000);
        assert!(stage.frame().rows.len() <= rows.into());
        let stage = Stage::new().sized(columns, rows).typed("some\ntext").turn("go");
        assert!(stage.frame().rows.len() <= rows.into());
    }
}
