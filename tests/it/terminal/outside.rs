//! Effects beyond the screen: the title, bells and notifications, the clipboard, and settings of the terminal.

use serde_json::json;

use super::*;

/// Records all bytes that the terminal gets from now on in a file.
fn recorded(terminal: &Terminal) {
    let file = terminal.home.path().join("bytes");
    fs::write(&file, "").unwrap();
    terminal.tmux(&["pipe-pane", &format!("cat >> {}", file.display())]);
}

fn bytes(terminal: &Terminal) -> String {
    String::from_utf8_lossy(&fs::read(terminal.home.path().join("bytes")).unwrap()).into_owned()
}

#[track_caller]
fn until_sent(terminal: &Terminal, sent: &str) -> String {
    terminal.wait(&format!("{sent:?}"), |_| bytes(terminal).contains(sent));
    bytes(terminal)
}

const CALL: &str = "\x07\x1b]9;tandem: a question waits for your answer (project)\x1b\\";

#[test]
fn a_question_calls_the_person_and_the_title_comes_back() {
    let answers = json!([[write_file()], [{ "text": "Not written." }]]);
    let Some(terminal) = Terminal::open() else { return };
    terminal.line("printf '\\033]2;before\\033\\\\'");
    terminal.wait("a title", |_| terminal.shown("#{pane_title}") == "before");
    recorded(&terminal);
    let script = json!({ "when": "", "answers": answers }).to_string();
    fs::write(terminal.home.path().join("script.jsonl"), script).unwrap();
    terminal.agent("", "--model replay:../script.jsonl");
    terminal.until(HINT);
    terminal.wait("the title", |_| terminal.shown("#{pane_title}") == "tandem - project");
    terminal.line("write it");
    terminal.until(QUESTION);
    until_sent(&terminal, CALL);
    let title = "? question - tandem - project";
    terminal.wait("the title", |_| terminal.shown("#{pane_title}") == title);
    Terminal::wait_for_grace();
    terminal.text("n");
    terminal.until("Not written.");
    terminal.wait("the title", |_| terminal.shown("#{pane_title}") == "tandem - project");
    terminal.keys(&["C-d"]);
    terminal.check_given_back();
    assert_eq!(terminal.shown("#{pane_title}"), "before");
}

#[test]
fn nobody_is_called_who_does_not_want_it() {
    let answers = json!([[write_file()], [{ "text": "Not written." }]]);
    let Some(terminal) = Terminal::open() else { return };
    fs::create_dir(terminal.home.path().join(".gemini")).unwrap();
    let settings = r#"{"general":{"enableNotifications":false}}"#;
    fs::write(terminal.home.path().join(".gemini/settings.json"), settings).unwrap();
    let script = json!({ "when": "", "answers": answers }).to_string();
    fs::write(terminal.home.path().join("script.jsonl"), script).unwrap();
    recorded(&terminal);
    terminal.agent("", "--model replay:../script.jsonl");
    terminal.until(HINT);
    terminal.line("write it");
    terminal.until(QUESTION);
    let sent = until_sent(&terminal, QUESTION);
    assert!(
        !sent.contains('\x07') && !sent.contains("\x1b]") && !sent.contains("\x1b[22"),
        "{sent:?}"
    );
}

#[test]
fn what_the_terminal_is_asked_for_is_taken_back() {
    let Some(terminal) = Terminal::open() else { return };
    recorded(&terminal);
    terminal.agent("", "--model replay");
    terminal.until(HINT);
    let asked = ["\x1b[>5u", "\x1b[>4;1m", "\x1b[?2004h", "\x1b[22;2t"];
    let back = ["\x1b[<u", "\x1b[>4m", "\x1b[?2004l", "\x1b[23;2t"];
    for asked in asked {
        until_sent(&terminal, asked);
    }
    terminal.editor("true");
    terminal.keys(&["C-g"]);
    let count = |sent: &str, text: &str| sent.matches(text).count();
    terminal.wait("it is asked again", |_| count(&bytes(&terminal), asked[3]) == 2);
    terminal.keys(&["C-d"]);
    terminal.check_given_back();
    terminal.wait("all is back", |_| back.iter().all(|text| count(&bytes(&terminal), text) == 2));
}

#[test]
fn the_last_answer_and_its_code_are_copied() {
    let text = "Run **this**:\n\n```sh\necho one\n\techo two\n```\n";
    let Some(terminal) = Terminal::start(json!([[{ "text": text }]]), "") else { return };
    terminal.tmux(&["set-option", "-s", "set-clipboard", "on"]);
    let copied = || String::from_utf8_lossy(&terminal.tmux(&["show-buffer"]).stdout).into_owned();
    terminal.line("/copy");
    terminal.until("not copied: there is no answer yet");
    terminal.line("how?");
    terminal.until("echo two");
    terminal.line("/copy");
    terminal.until("the last answer is sent to the clipboard");
    terminal.wait("the answer", |_| copied() == text.trim());
    terminal.line("/copy code");
    terminal.wait("the code", |_| copied() == "echo one\n\techo two\n");
}

#[test]
fn code_and_addresses_are_copied_from_the_screen_whole() {
    let code = "cargo test --test it --features one,two,three,four -- --nocapture --test-threads=1";
    let url = "https://example.com/a/very/long/path/to/something?with=a&query=that&goes=on&and=on";
    let text = format!("1. Run\n   ```sh\n   {code}\n   ```\n2. See {url} for more.\n");
    let Some(terminal) = Terminal::start(json!([[{ "text": text }]]), "") else { return };
    terminal.line("how?");
    terminal.until("for more.");
    // `-J` joins what the terminal itself has broken.
    let joined = terminal.wait("the whole answer", |seen| !seen.contains("Esc cancels"));
    assert!(!joined.contains(code), "it needs two rows:\n{joined}");
    let all = terminal.tmux(&["capture-pane", "-p", "-J", "-S", "-"]).stdout;
    let all = String::from_utf8_lossy(&all).into_owned();
    for line in [code, url] {
        assert!(all.lines().any(|row| row.trim_end() == line), "{all}");
    }
}
