//! Ends and stops of the program: in every case the terminal is given back.

use std::fs::File;
use std::os::fd::AsFd as _;
use std::process::Stdio;

use tandem_tui as tui;

use super::*;
use crate::fakes;
use crate::limit::block_until;

fn hanging() -> Value {
    json!([[{ "text": "Begun.\n\nMore" }, { "hang": null }]])
}

#[test]
fn a_signal_gives_the_terminal_back() {
    for signal in ["TERM", "HUP", "INT", "QUIT"] {
        let Some(terminal) = Terminal::start(hanging(), "") else { return };
        terminal.line("one");
        terminal.until("Begun.");
        terminal.text("draft");
        terminal.until("› draft");
        terminal.signal(signal);
        terminal.check_given_back();
    }
}

#[test]
fn a_stopped_agent_goes_on() {
    for stop in [None, Some("TSTP")] {
        let answers = json!([[{ "text": "Here." }]]);
        let Some(terminal) = Terminal::start(answers, "") else { return };
        terminal.text("draft");
        terminal.until("› draft");
        match stop {
            Some(signal) => terminal.signal(signal),
            None => terminal.keys(&["C-z"]),
        }
        terminal.check_given_back();
        terminal.line("fg");
        terminal
            .wait("the draft", |seen| seen.trim_end().ends_with("replay · default · ~/project"));
        terminal.keys(&["Enter"]);
        terminal.until("Here.");
    }
}

#[test]
fn nothing_of_it_is_kept_in_the_scrollback_while_it_is_stopped() {
    let Some(terminal) = Terminal::open() else { return };
    // After `clear`, the rows of the program begin at the top of the screen.
    terminal.line(&format!("clear; {}", terminal.command("", "--model replay")));
    terminal.until(HINT);
    terminal.keys(&["C-z"]);
    let seen = terminal.wait("the shell", |seen| seen.trim_end().ends_with("ready>"));
    assert!(!seen.contains(HINT), "{seen}");
}

#[test]
fn a_terminal_without_rows_that_change_is_told_of() {
    let Some(terminal) = Terminal::open() else { return };
    terminal.agent("TERM=dumb", "--model replay");
    terminal.until("tandem: this terminal cannot redraw its rows (TERM=dumb)");
}

#[test]
fn an_agent_that_no_shell_could_let_go_on_does_not_stop() {
    let Some(terminal) = Terminal::open() else { return };
    terminal.line(&format!("exec {}", terminal.command("", "--model replay")));
    terminal.until(HINT);
    terminal.keys(&["C-z"]);
    terminal.until("there is no shell to go back to");
    terminal.text("and on");
    terminal.until("› and on");
}

/// Tests a screen in which `/auth` makes the program panic.
#[test]
#[ignore = "is started by another test, in a terminal"]
fn a_screen_with_a_fault() {
    std::panic::set_hook(Box::new(|_| ()));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let ended = runtime.block_on(async {
        let session = fakes::session(hanging(), Vec::new());
        tui::run(tui::TerminalSetup {
            session: tui::Conversation::here(session),
            workspace: "project".to_owned(),
            a2a: None,
            history: None,
            editor: tui::ExternalEditor::default(),
            colour: true,
            notifies: true,
            in_tmux: true,
            providers: None,
            importable: None,
            make_default: None,
            sessions: None,
            login: Some(Box::new(|_| panic!("this is wanted"))),
        })
        .await
    });
    writeln!(stderr(), "ended: {}", ended.unwrap_err()).unwrap();
}

#[test]
fn a_panic_gives_the_terminal_back_and_is_told() {
    let Some(terminal) = Terminal::open() else { return };
    let tests = std::env::current_exe().unwrap();
    let name = "terminal::ending::a_screen_with_a_fault";
    terminal.line(&format!("'{}' --exact {name} --ignored --nocapture", tests.display()));
    terminal.until(HINT);
    terminal.line("one");
    terminal.until("Begun.");
    terminal.line("/auth");
    let seen = terminal.until("ended: a bug in tandem ended the screen: this is wanted");
    assert!(seen.contains("Begun."), "{seen}");
    terminal.check_given_back();
}

#[test]
fn an_editor_has_the_terminals_signals() {
    let Some(terminal) = Terminal::start(hanging(), "") else { return };
    terminal.editor(
        "trap 'echo interrupted' INT QUIT; echo opened\n\
         until [ -e ../done ]; do sleep 0.1; done; echo edited > \"$1\"",
    );
    terminal.line("one");
    terminal.until("More");
    terminal.keys(&["C-g"]);
    terminal.until("opened");
    terminal.keys(&["C-c"]);
    terminal.until("interrupted");
    terminal.keys(&["C-\\"]);
    terminal.wait("the other signal", |seen| seen.matches("interrupted").count() == 2);
    terminal.keys(&["C-z"]);
    terminal.check_given_back();
    terminal.line("fg");
    // An earlier key would reach the shell, and the shell would drop its line.
    block_until("the job", || terminal.has_job());
    terminal.keys(&["C-c"]);
    terminal.wait("another signal", |seen| seen.matches("interrupted").count() == 3);
    fs::write(terminal.home.path().join("done"), "").unwrap();
    let seen = terminal.until("› edited");
    // The turn is still running.
    assert!(seen.contains("answering, "), "{seen}");
    terminal.keys(&["C-c", "C-c"]);
    terminal.check_given_back();
}

#[test]
fn a_terminal_that_takes_nothing_does_not_keep_it_from_ending() {
    let home = TempDir::new().unwrap();
    let answers =
        json!([[{ "repeat": { "text": "line {n}\n\n", "times": 20000 } }, { "hang": null }]]);
    let script = home.path().join("script.jsonl");
    fs::write(&script, json!({ "when": "", "answers": answers }).to_string()).unwrap();
    let flags = rustix::pty::OpenptFlags::RDWR | rustix::pty::OpenptFlags::NOCTTY;
    let controller = rustix::pty::openpt(flags).unwrap();
    rustix::pty::grantpt(&controller).unwrap();
    rustix::pty::unlockpt(&controller).unwrap();
    let name = rustix::pty::ptsname(&controller, Vec::new()).unwrap().into_string().unwrap();
    let user = || Stdio::from(File::options().read(true).write(true).open(&name).unwrap());
    let settings = || {
        let stty = Command::new("stty").arg("-g").stdin(user()).output().unwrap();
        String::from_utf8(stty.stdout).unwrap()
    };
    let before = settings();
    let mut agent = Command::new(env!("CARGO_BIN_EXE_tandem"))
        .env_clear()
        .env("HOME", home.path())
        .current_dir(home.path())
        .arg("--model")
        .arg(format!("replay:{}", script.display()))
        .stdin(user())
        .stdout(user())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    block_until("the first frame", || rustix::io::ioctl_fionread(controller.as_fd()).unwrap() > 0);
    rustix::io::write(&controller, b"go\r").unwrap();
    // The test reads no output, so the terminal becomes full and the program cannot write any more.
    let mut waiting = 0;
    let mut since = Instant::now();
    block_until("a full terminal", || {
        let now = rustix::io::ioctl_fionread(controller.as_fd()).unwrap();
        if std::mem::replace(&mut waiting, now) != now {
            since = Instant::now();
        }
        now > 1000 && since.elapsed() > Duration::from_millis(300)
    });
    Command::new("kill").arg(agent.id().to_string()).status().unwrap();
    let mut status = None;
    block_until("the end", || {
        status = agent.try_wait().unwrap();
        status.is_some()
    });
    assert_eq!(status.unwrap().code(), Some(143));
    assert_eq!(settings(), before);
}
