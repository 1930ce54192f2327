//! The real program in a real terminal (tmux), and the person in front of it.
//!
//! Without tmux these tests are recorded as skipped; `.ci/run` installs it.

mod asking;
mod ending;
mod keys;
mod login;
mod outside;
mod resuming;
mod rewinding;
mod typing;

use std::fs;
use std::io::{Write as _, stderr};
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::agent::HANG;
use crate::needs::{Need, lacking};

/// Longer than the grace period of a question.
const QUESTION_GRACE: Duration = Duration::from_millis(700);

/// The end of the last row while nothing is typed.
pub(crate) const HINT: &str = "? for the keys";

/// The question before an edit.
pub(crate) const QUESTION: &str = "Allow this?";

/// Number of equal screens in a row after which the screen counts as still.
const STILL: usize = 10;

/// A terminal with a shell, in which the agent is started.
pub(crate) struct Terminal {
    pub(crate) home: TempDir,
}

impl Terminal {
    /// Starts the agent with a script of one line; `None` without tmux.
    fn start(answers: Value, args: &str) -> Option<Self> {
        let terminal = Self::open()?;
        let script = json!({ "when": "", "answers": answers }).to_string();
        fs::write(terminal.home.path().join("script.jsonl"), script).unwrap();
        let home = terminal.home.path().display();
        terminal.agent("", &format!("--model replay:{home}/script.jsonl {args}"));
        terminal.until(HINT);
        Some(terminal)
    }

    /// Starts a shell in a terminal; `None` without tmux.
    pub(crate) fn open() -> Option<Self> {
        if lacking(Need::Tmux) || lacking(Need::Procps) {
            return None;
        }
        let home = TempDir::new().unwrap();
        fs::create_dir(home.path().join("project")).unwrap();
        let terminal = Self { home };
        let shell = "sh -i";
        terminal.tmux(&["-f", "/dev/null", "new-session", "-d", "-x", "80", "-y", "24", shell]);
        let home = terminal.home.path().display();
        terminal.line(&format!("cd {home}/project; PS1='ready> '; clear"));
        terminal.until("ready>");
        terminal.line("stty -g > ../stty");
        Some(terminal)
    }

    /// Starts the agent with these variables and arguments.
    pub(crate) fn agent(&self, vars: &str, args: &str) {
        self.line(&self.command(vars, args));
    }

    fn command(&self, vars: &str, args: &str) -> String {
        let home = self.home.path().display();
        format!(
            "env -i HOME={home} TANDEM_LOCAL_SERVERS= PATH=\"$PATH\" TERM=\"$TERM\" EDITOR='{home}/editor' {vars} '{}' {args}",
            env!("CARGO_BIN_EXE_tandem")
        )
    }

    pub(crate) fn tmux(&self, args: &[&str]) -> Output {
        let home = self.home.path();
        let mut tmux = Command::new("tmux");
        // The socket is in the home of the test, because tmux would leave a socket in its own directory.
        tmux.env("HOME", home).arg("-S").arg(home.join("tmux"));
        tmux.args(args).output().unwrap()
    }

    /// Types keys as tmux names them.
    pub(crate) fn keys(&self, keys: &[&str]) {
        self.tmux(&[&["send-keys"], keys].concat());
    }

    pub(crate) fn text(&self, text: &str) {
        self.keys(&["-l", text]);
    }

    /// Sends bytes as a terminal would.
    pub(crate) fn bytes(&self, bytes: &str) {
        let bytes: Vec<_> = bytes.bytes().map(|byte| format!("{byte:02x}")).collect();
        let bytes: Vec<_> = bytes.iter().map(String::as_str).collect();
        self.tmux(&[&["send-keys", "-H"], &bytes[..]].concat());
    }

    /// Returns facts that tmux knows of the terminal, in this format.
    pub(crate) fn shown(&self, format: &str) -> String {
        let shown = self.tmux(&["display-message", "-p", format]).stdout;
        String::from_utf8_lossy(&shown).trim().to_owned()
    }

    pub(crate) fn line(&self, text: &str) {
        self.text(text);
        self.keys(&["Enter"]);
    }

    /// Types a prompt while a turn runs, and takes the prompt back into the line.
    pub(crate) fn take_back(&self, prompt: &str) {
        self.line(prompt);
        self.until(&format!("queued: {prompt}"));
        self.keys(&["Up"]);
        self.wait("the prompt in the line", |seen| {
            seen.contains(&format!("› {prompt}")) && !seen.contains("queued")
        });
    }

    /// Returns the screen and the scrollback.
    pub(crate) fn seen(&self) -> String {
        String::from_utf8_lossy(&self.tmux(&["capture-pane", "-p", "-S", "-"]).stdout).into_owned()
    }

    /// Waits until keys answer the question that is on the screen. A real wait: for as long as they still go to the
    /// prompt, the screen is the same.
    pub(crate) fn wait_for_grace() {
        std::thread::sleep(QUESTION_GRACE);
    }

    #[track_caller]
    pub(crate) fn until(&self, text: &str) -> String {
        self.wait(text, |seen| seen.contains(text))
    }

    #[track_caller]
    pub(crate) fn wait(&self, what: &str, found: impl Fn(&str) -> bool) -> String {
        let begun = Instant::now();
        loop {
            let seen = self.seen();
            if found(&seen) {
                return seen;
            }
            assert!(begun.elapsed() < HANG, "{what} is not there:\n{seen}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Returns the screen once a whole frame is there. A terminal draws in pieces, and a reader or a change of size
    /// may come between two pieces.
    pub(crate) fn still(&self) -> String {
        let now = || {
            let cursor = self.tmux(&["display-message", "-p", "#{cursor_x} #{cursor_y}"]);
            (self.seen(), cursor.stdout)
        };
        let (mut before, mut same) = (now(), 0);
        while same < STILL {
            std::thread::sleep(Duration::from_millis(20));
            let after = now();
            same = if after == before { same + 1 } else { 0 };
            before = after;
        }
        before.0
    }

    /// Waits for the shell to have the terminal as before: same settings, a visible cursor, and pastes without
    /// marks.
    #[track_caller]
    pub(crate) fn check_given_back(&self) {
        self.wait("the shell", |seen| seen.trim_end().ends_with("ready>"));
        self.line("stty -g | cmp - ../stty && echo s''ame");
        self.wait("the settings", |seen| seen.trim_end().ends_with("same\nready>"));
        let cursor = self.tmux(&["display-message", "-p", "#{cursor_flag}"]);
        assert_eq!(String::from_utf8_lossy(&cursor.stdout).trim(), "1");
        self.line("cat -v > ../pasted");
        self.tmux(&["set-buffer", "pasted\n"]);
        self.tmux(&["paste-buffer", "-p"]);
        self.keys(&["C-d"]);
        self.wait("the shell", |seen| seen.trim_end().ends_with("pasted\nready>"));
        assert_eq!(self.file("pasted").unwrap(), "pasted\n");
    }

    fn shell_id(&self) -> String {
        self.shown("#{pane_pid}")
    }

    /// Returns the id of the process that the shell has started.
    fn agent_id(&self) -> String {
        ids(&["--ppid", &self.shell_id()])
    }

    /// Returns whether the terminal's keys are for a job of the shell's.
    fn has_job(&self) -> bool {
        let shell = self.shell_id();
        let ps = Command::new("ps").args(["-o", "pgid=,tpgid=", "-p", &shell]).output().unwrap();
        let ids = String::from_utf8_lossy(&ps.stdout).into_owned();
        let mut ids = ids.split_whitespace();
        ids.next() != ids.next()
    }

    /// Sends a signal to the agent.
    fn signal(&self, name: &str) {
        Command::new("kill").args([&format!("-{name}"), &self.agent_id()]).status().unwrap();
    }

    /// Installs an editor for the user, which gets the name of a file.
    fn editor(&self, script: &str) {
        let editor = self.home.path().join("editor");
        fs::write(&editor, format!("#!/bin/sh\n{script}\n")).unwrap();
        Command::new("chmod").arg("+x").arg(&editor).status().unwrap();
    }

    fn file(&self, name: &str) -> Option<String> {
        fs::read_to_string(self.home.path().join(name)).ok()
    }
}

/// Returns the ids of the running processes that `ps` selects by these options.
fn ids(selected: &[&str]) -> String {
    let ps = Command::new("ps").args(["-o", "pid=,stat="]).args(selected).output().unwrap();
    let seen = String::from_utf8_lossy(&ps.stdout).into_owned();
    let rows = seen.lines().filter_map(|row| row.trim().split_once(' '));
    // A process that has ended stays until its parent asks for its status, which the first process of a container may
    // put off for seconds.
    let running = rows.filter(|(_, state)| !state.trim().starts_with('Z'));
    running.map(|(id, _)| id).collect::<Vec<_>>().join(",")
}

impl Drop for Terminal {
    /// Waits for the agent, which stores its session in the home when its terminal has gone.
    fn drop(&mut self) {
        let shell = self.shell_id();
        let agents = ids(&["-p", &shell, "--ppid", &shell]);
        self.tmux(&["kill-server"]);
        let begun = Instant::now();
        while !ids(&["-p", &agents]).is_empty() && begun.elapsed() < HANG {
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

/// Returns the prompts on a screen. The last item is the typed prompt, or the hint in its place.
pub(crate) fn prompts(seen: &str) -> Vec<&str> {
    seen.lines().filter_map(|line| line.strip_prefix("› ")).map(str::trim_end).collect()
}

/// Returns the calls on a screen that have ended.
pub(crate) fn ended_calls(seen: &str) -> Vec<&str> {
    let ended = seen.lines().filter(|line| line.starts_with(['✓', '✗']));
    ended.map(str::trim_end).collect()
}

fn write_file() -> Value {
    let args = json!({ "file_path": "a.txt", "content": "proposed\n" });
    json!({ "call": { "name": "write_file", "args": args } })
}

#[test]
fn a_prompt_an_edit_that_is_allowed_and_the_end() {
    let answers = json!([[{ "text": "I **write**." }, write_file()], [{ "text": "Written." }]]);
    let Some(terminal) = Terminal::start(answers, "") else { return };
    terminal.line("write it");
    let asked = terminal.until(QUESTION);
    assert_eq!(prompts(&asked)[0], "write it");
    assert!(asked.contains("I write.") && asked.contains("+proposed"), "{asked}");
    Terminal::wait_for_grace();
    terminal.text("y");
    let seen = terminal.until("Written.");
    assert_eq!(ended_calls(&seen), ["✓ Write a.txt  +1 -0 new file"]);
    assert_eq!(terminal.file("project/a.txt").unwrap(), "proposed\n");
    terminal.keys(&["C-d"]);
    terminal.wait("the shell", |seen| seen.trim_end().ends_with("ready>"));
    let seen = terminal.seen();
    assert!(!seen.contains(HINT), "only the history stays:\n{seen}");
    terminal.check_given_back();
    let history = terminal.file(".config/tandem/history.jsonl").unwrap();
    assert_eq!(history, "\"write it\"\n");
}

#[test]
fn a_first_prompt_is_asked_at_once_and_logs_go_to_a_file() {
    for args in ["-d -i 'say hi'", "-d say hi"] {
        let Some(terminal) = Terminal::start(json!([[{ "text": "Hi yourself." }]]), args) else {
            return;
        };
        let seen = terminal.until("Hi yourself.");
        assert_eq!(prompts(&seen)[0], "say hi");
        assert!(seen.contains("tandem: logs go to "), "{seen}");
        assert!(terminal.file(".local/state/tandem/debug.log").is_some());
    }
}

#[test]
fn what_is_proposed_can_be_edited_first() {
    let answers = json!([[write_file()], [{ "text": "Written." }]]);
    let Some(terminal) = Terminal::start(answers, "") else { return };
    terminal.editor(r#"sed s/proposed/edited/ "$1" > x; cat x > "$1"; rm x"#);
    terminal.line("write it");
    terminal.until(QUESTION);
    Terminal::wait_for_grace();
    terminal.text("e");
    terminal.until("Written.");
    assert_eq!(terminal.file("project/a.txt").unwrap(), "edited\n");
}

#[test]
fn an_editor_that_changes_nothing_answers_no_question() {
    let answers = json!([[write_file()], [{ "text": "Ended." }]]);
    let Some(terminal) = Terminal::start(answers, "") else { return };
    terminal.editor("true");
    terminal.line("write it");
    terminal.until(QUESTION);
    Terminal::wait_for_grace();
    terminal.text("e");
    terminal.until("not changed: the question is still open");
    terminal.text("n");
    terminal.until("Ended.");
    assert_eq!(terminal.file("project/a.txt"), None);
}

#[test]
fn a_turn_is_cancelled_a_prompt_waits_and_is_taken_back() {
    let answers = json!([[{ "text": "Begun.\n\nMore" }, { "hang": null }]]);
    let Some(terminal) = Terminal::start(answers, "") else { return };
    terminal.line("one");
    terminal.until("More");
    terminal.take_back("two words");
    terminal.keys(&["Escape"]);
    terminal.until("Cancelled.");
    terminal.keys(&["BTab"]);
    terminal.until("auto_edit");
    terminal.keys(&["C-c", "C-c"]);
    terminal.check_given_back();
}

#[test]
fn a_command_line_of_the_users_own_is_run() {
    let Some(terminal) = Terminal::start(json!([[{ "text": "never" }]]), "") else { return };
    terminal.line("!echo $((6 * 7)) > out; cat out");
    terminal.until("│ 42");
    assert_eq!(terminal.file("project/out").unwrap(), "42\n");
}

#[test]
fn what_is_typed_is_completed_and_found_again() {
    let Some(terminal) = Terminal::start(json!([[{ "text": "Seen." }]]), "") else { return };
    let project = terminal.home.path().join("project");
    fs::write(project.join("notes.txt"), "a note").unwrap();
    fs::write(project.join("secret.txt"), "a secret").unwrap();
    fs::write(project.join(".gitignore"), "secret.txt").unwrap();
    terminal.text("read @t");
    let offered = terminal.until("› @notes.txt");
    assert!(!offered.contains("secret"), "{offered}");
    terminal.keys(&["Tab", "C-j"]);
    terminal.text("twice");
    terminal.until("  twice");
    terminal.keys(&["Enter"]);
    let seen = terminal.until("Seen.");
    assert_eq!(prompts(&seen)[0], "read @notes.txt");
    terminal.text("/abo");
    terminal.until("› /about");
    terminal.keys(&["Tab", "Enter"]);
    terminal.until("approval mode");
    terminal.keys(&["C-r"]);
    terminal.text("rea");
    terminal.until("› read @notes.txt  twice");
    terminal.keys(&["Enter", "Enter"]);
    terminal.wait("the answer again", |seen| seen.matches("Seen.").count() == 2);
}

#[test]
fn pasted_lines_are_one_prompt() {
    let Some(terminal) = Terminal::start(json!([[{ "text": "Seen." }]]), "") else { return };
    terminal.tmux(&["set-buffer", "one\ntwo\n"]);
    terminal.tmux(&["paste-buffer", "-p"]);
    let seen = terminal.until("  two");
    assert!(!seen.contains("Seen."), "{seen}");
    terminal.keys(&["Enter"]);
    terminal.until("Seen.");
}

#[test]
fn another_size_leaves_nothing_behind() {
    let answers = json!([[{ "text": "A *sentence* that is long enough to need two rows when it is narrow." }]]);
    let Some(terminal) = Terminal::start(answers, "") else { return };
    terminal.line("one");
    // The turn has ended, so nothing is drawn without a key.
    terminal.wait("the end", |seen| seen.contains("narrow.") && !seen.contains("Esc cancels"));
    terminal.still();
    let whole = format!("\n› a prompt; /command, @file, !shell, {HINT}\n");
    for (columns, hint) in [
        ("40", "\n› /command, @file, ? for the keys\n"),
        ("100", &*whole),
        ("33", "\n› /command, @file, ? for the keys\n"),
        ("80", &*whole),
    ] {
        terminal.tmux(&["resize-window", "-x", columns, "-y", "24"]);
        terminal.wait("the new width", |seen| seen.contains(hint));
        terminal.still();
    }
    terminal.wait("one rule", |seen| seen.lines().filter(|line| line.contains('─')).count() == 1);
}

#[test]
fn another_size_while_something_goes_on_leaves_nothing_behind() {
    let answers = json!([[{ "text": "Begun.\n\nMore" }, { "hang": null }]]);
    let Some(terminal) = Terminal::start(answers, "") else { return };
    terminal.tmux(&["resize-window", "-x", "120", "-y", "24"]);
    terminal.line("one");
    terminal.until("answering, ");
    for columns in ["100", "90", "110", "85", "120"] {
        terminal.tmux(&["resize-window", "-x", columns, "-y", "24"]);
        // The spinner is drawn meanwhile. tmux reports the new width a quarter of a second later, so the test waits.
        std::thread::sleep(Duration::from_millis(400));
    }
    terminal.keys(&["Escape"]);
    terminal.until("Cancelled.");
    let seen = terminal.still();
    assert_eq!(seen.lines().filter(|line| line.contains('─')).count(), 1, "{seen}");
    assert_eq!(seen.matches("answering").count(), 0, "{seen}");
    assert_eq!(seen.matches("replay · default").count(), 1, "{seen}");
}

#[test]
fn another_width_while_a_paragraph_streams_tears_one_line_at_most() {
    const WORDS: usize = 180;
    let mut steps = Vec::new();
    for word in 0..WORDS {
        steps.extend([json!({ "text": format!("word{word:03} ") }), json!({ "delay": 15 })]);
    }
    let Some(terminal) = Terminal::start(json!([steps]), "") else { return };
    terminal.line("tell");
    for (word, columns) in [(40, "50"), (90, "100"), (140, "60")] {
        terminal.until(&format!("word{word:03}"));
        terminal.tmux(&["resize-window", "-x", columns, "-y", "24"]);
    }
    terminal.wait("the end", |seen| seen.contains("word179") && !seen.contains("Esc cancels"));
    terminal.still();
    // `-J` joins what the terminal itself has broken.
    let all = terminal.tmux(&["capture-pane", "-p", "-J", "-S", "-"]).stdout;
    let all = String::from_utf8_lossy(&all).into_owned();
    let counts: Vec<_> = (0..WORDS).map(|n| all.matches(&format!("word{n:03}")).count()).collect();
    assert!(!counts.contains(&0), "{counts:?}\n{all}");
    let twice = counts.iter().filter(|count| **count > 1).count();
    // One line of 100 columns, which has 12 words, may be drawn twice.
    assert!(twice <= 12, "{twice} words are there twice:\n{all}");
}

#[test]
fn the_address_for_others_is_in_the_last_row() {
    let Some(terminal) = Terminal::start(json!([[{ "text": "x" }]]), "--a2a-port 0") else {
        return;
    };
    let seen = terminal.until("A2A http://127.0.0.1:");
    let address = seen.split("A2A http://").nth(1).unwrap().split('/').next().unwrap().to_owned();
    let mut client = std::net::TcpStream::connect(&address).unwrap();
    terminal.until("(1 connection)");
    let body = r#"{"jsonrpc":"2.0","id":1,"method":"message/send","params":{"message":{"kind":"message","messageId":"m","role":"user","parts":[{"kind":"text","text":"from afar"}]}}}"#;
    let request = format!(
        "POST / HTTP/1.1\r\nHost: {address}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    client.write_all(request.as_bytes()).unwrap();
    terminal.until("› [A2A] from afar");
    drop(client);
    terminal.until("(0 connections)");
}
