//! `tandem attach` in a real terminal (tmux), on the session of an editor or of a server.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use super::server::{Shared, prompt, serve, shared, works_in, write};
use crate::agent::Setup;
use crate::terminal::{QUESTION, Terminal, ended_calls, prompts};

/// Starts a terminal that attaches to the port; `None` without tmux.
fn attach(port: u16, args: &str) -> Option<Terminal> {
    let terminal = Terminal::open()?;
    terminal.agent("", &format!("attach {port} {args}; echo \"code $?\""));
    terminal.until(&format!("attached to 127.0.0.1:{port}"));
    Some(terminal)
}

/// Starts a terminal so wide that no text is broken into rows; `None` without tmux.
fn wide() -> Option<Terminal> {
    let terminal = Terminal::open()?;
    terminal.tmux(&["resize-window", "-x", "200", "-y", "24"]);
    Some(terminal)
}

fn writes() -> Setup {
    Setup::script(vec![
        json!({ "when": "write", "answers": [
            [{ "text": "I **write**." }, write("a.txt", "new\n")], [{ "text": "Written." }],
        ] }),
        json!({ "when": "hang", "answers": [[{ "text": "Begun.\n\nMore" }, { "hang": null }]] }),
        json!({ "when": "", "answers": [[{ "text": "Hello." }]] }),
    ])
}

async fn asked(it: &mut Shared) -> (u64, Value) {
    let id = it.editor.prompt("write").await;
    (id, it.editor.call_of("requestToolCallConfirmation").await)
}

#[tokio::test]
async fn what_the_editor_asks_for_is_shown_as_it_streams_and_cancelled_from_here() {
    let mut it = shared(&writes()).await;
    let id = it.editor.prompt("the first").await;
    it.editor.answer_to(id).await;
    let Some(terminal) = attach(it.client.port, "") else { return };
    let seen = terminal.until("Hello.");
    assert_eq!(prompts(&seen)[0], "[editor] the first");
    for (turn, (key, name)) in [("Escape", "Esc"), ("C-c", "Ctrl+C")].into_iter().enumerate() {
        let id = it.editor.prompt("hang").await;
        let seen = terminal.wait("the answer", |seen| seen.matches("More").count() == turn + 1);
        assert_eq!(prompts(&seen)[turn + 1], "[editor] hang");
        terminal.keys(&[key]);
        let seen =
            terminal.until(&format!("the editor began this turn: press {name} again to cancel it"));
        assert_eq!(seen.matches("Cancelled.").count(), turn, "{seen}");
        terminal.keys(&[key]);
        terminal.wait("the end", |seen| seen.matches("Cancelled.").count() == turn + 1);
        let answer = it.editor.answer_to(id).await;
        assert!(answer.get("error").is_some() || answer["result"].is_null(), "{answer}");
    }
}

#[tokio::test]
async fn a_question_of_the_editors_turn_is_answered_here() {
    let mut it = shared(&writes()).await;
    let Some(terminal) = attach(it.client.port, "") else { return };
    let (id, question) = asked(&mut it).await;
    let seen = terminal.until(QUESTION);
    assert!(seen.contains("while this session is open: all edits"), "{seen}");
    Terminal::wait_for_grace();
    terminal.text("y");
    let seen = terminal.until("Written.");
    assert_eq!(ended_calls(&seen), ["✓ Write a.txt  +1 -0 new file"], "it was allowed here");
    it.editor.answer_to(id).await;
    // The editor's answer comes too late to count. It only tells the server under which id the editor shows the
    // call.
    it.editor.answer(&question, json!({ "id": 1, "outcome": "allow" })).await;
    let update = it.editor.call_of("updateToolCall").await;
    assert_eq!(update["params"]["status"], "finished", "{update}");
    assert!(it.editor.workspace().join("a.txt").exists());
}

#[tokio::test]
async fn who_is_asked_can_say_with_whom_the_session_is_shared_and_the_question_stays_open() {
    let mut it = shared(&writes()).await;
    let Some(terminal) = attach(it.client.port, "") else { return };
    asked(&mut it).await;
    terminal.until(QUESTION);
    Terminal::wait_for_grace();
    terminal.text("/");
    terminal.until("Enter rejects");
    terminal.text("share bob answer");
    terminal.until("Enter runs this, and the question stays open");
    terminal.keys(&["Enter"]);
    // A session of an editor has no owner, so it cannot be shared.
    let seen = terminal.until("This session cannot be shared");
    assert!(seen.contains(QUESTION), "{seen}");
    terminal.text("y");
    terminal.until("Written.");
    assert!(it.editor.workspace().join("a.txt").exists());
}

#[tokio::test]
async fn a_question_that_the_editor_answers_is_closed_here() {
    let mut it = shared(&writes()).await;
    let Some(terminal) = attach(it.client.port, "") else { return };
    let (_, question) = asked(&mut it).await;
    terminal.until(QUESTION);
    it.editor.answer(&question, json!({ "id": 1, "outcome": "allow" })).await;
    let seen = terminal.until("Written.");
    let ended = "✓ Write a.txt  +1 -0 new file · allowed by the editor";
    assert_eq!(ended_calls(&seen), [ended]);
    assert!(!seen.contains(QUESTION), "{seen}");
}

#[tokio::test]
async fn who_attaches_late_finds_the_question_and_of_two_terminals_one_answers() {
    let mut it = shared(&writes()).await;
    asked(&mut it).await;
    let Some(one) = attach(it.client.port, "") else { return };
    let Some(other) = attach(it.client.port, "") else { return };
    one.until(QUESTION);
    other.until(QUESTION);
    Terminal::wait_for_grace();
    other.text("n");
    one.until("rejected by attached terminal 2");
    other.wait("the question's end", |seen| !seen.contains(QUESTION));
    assert!(!it.editor.workspace().join("a.txt").exists());
}

#[tokio::test]
async fn who_only_watches_leaves_with_a_question_open_and_something_typed() {
    let mut it = shared(&writes()).await;
    let Some(terminal) = attach(it.client.port, "") else { return };
    asked(&mut it).await;
    terminal.until(QUESTION);
    Terminal::wait_for_grace();
    terminal.text("s");
    terminal.until("Esc goes back");
    terminal.text("not so");
    terminal.until("not so");
    terminal.keys(&["C-d"]);
    terminal.until("code 0");
    terminal.check_given_back();
}

#[tokio::test]
async fn what_is_typed_here_reaches_the_editor_and_quitting_leaves_the_agent_running() {
    let mut it = shared(&writes().file("notes.txt", "a note")).await;
    let Some(terminal) = attach(it.client.port, "") else { return };
    terminal.text("see @no");
    terminal.until("› @notes.txt");
    terminal.keys(&["Tab", "Enter"]);
    let seen = terminal.until("Hello.");
    assert_eq!(prompts(&seen)[0], "see @notes.txt");
    let shown = it.editor.call_of("streamAssistantMessageChunk").await;
    assert_eq!(shown["params"]["chunk"]["text"], "\n\n> **[terminal]** see @notes.txt\n\n");
    terminal.line("hang");
    terminal.until("More");
    terminal.take_back("two words");
    terminal.keys(&["C-u"]);
    // The prompt that was sent just before Ctrl+D must still reach the session.
    terminal.text("the last");
    terminal.keys(&["Enter", "C-d"]);
    terminal.until("code 0");
    terminal.check_given_back();
    let Some(again) = attach(it.client.port, "") else { return };
    let seen = again.until("queued: [terminal] the last");
    assert!(seen.contains("More"), "the turn goes on:\n{seen}");
}

#[tokio::test]
async fn only_with_a_token_commands_are_run_from_here_and_the_mode_is_changed() {
    let it = shared(&writes()).await;
    let Some(terminal) = attach(it.client.port, "") else { return };
    terminal.line("!touch made");
    terminal.until("only if the agent has a token");
    terminal.keys(&["C-u", "BTab"]);
    let seen = terminal.until("only if the agent has a token");
    assert!(seen.contains("· default ·"), "{seen}");
    let it = shared(&writes().var("TANDEM_A2A_TOKEN", "the-token")).await;
    let Some(terminal) = wide() else { return };
    terminal.agent("", &format!("attach {}", it.client.port));
    terminal.until("wants a token, and none was sent");
    fs::write(terminal.home.path().join("project/token"), "wrong\n").unwrap();
    terminal.agent("", &format!("attach {} --a2a-token-file token", it.client.port));
    terminal.until("does not accept this token");
    fs::write(terminal.home.path().join("project/token"), "the-token\n").unwrap();
    terminal.agent("", &format!("attach {} --a2a-token-file token", it.client.port));
    terminal.until("attached to");
    terminal.line("!echo $((6 * 7)) > out; cat out");
    terminal.until("│ 42");
    terminal.keys(&["BTab"]);
    terminal.until("· auto_edit ·");
    assert!(it.editor.workspace().join("out").exists());
}

#[tokio::test]
async fn the_conversation_goes_back_for_everybody_when_that_is_wanted_here() {
    let mut it = shared(&writes()).await;
    let id = it.editor.prompt("the first").await;
    it.editor.answer_to(id).await;
    let Some(terminal) = attach(it.client.port, "") else { return };
    terminal.until("Hello.");
    terminal.line("/rewind");
    let seen = terminal.until("Go back to before a prompt");
    assert!(seen.contains("› the first"), "{seen}");
    terminal.keys(&["Enter"]);
    terminal.until("Went back to before prompt 1: the first");
    let seen = terminal.until("› the first");
    assert!(!seen.contains("Go back to before a prompt"), "{seen}");
    let chunk = loop {
        let shown = it.editor.call_of("streamAssistantMessageChunk").await;
        let chunk = shown["params"]["chunk"]["text"].as_str().unwrap_or_default();
        if !chunk.contains("[terminal]") {
            break chunk.to_owned();
        }
    };
    assert_eq!(chunk, "Went back to before prompt 1: `the first`");
}

#[tokio::test]
async fn the_end_of_the_agent_is_the_end_of_the_terminal() {
    for signal in [rustix::process::Signal::TERM, rustix::process::Signal::KILL] {
        let mut it = shared(&writes().arg("--drain-timeout").arg("0.1")).await;
        let Some(terminal) = attach(it.client.port, "") else { return };
        it.editor.prompt("hang").await;
        terminal.until("More");
        let pid = it.editor.child.id().unwrap().cast_signed();
        let pid = rustix::process::Pid::from_raw(pid).unwrap();
        rustix::process::kill_process(pid, signal).unwrap();
        it.editor.exit().await;
        let why = format!("tandem: the agent on 127.0.0.1:{} has ended", it.client.port);
        let seen = terminal.until("code 1");
        assert!(seen.contains(&why) && seen.contains("More"), "{seen}");
        terminal.check_given_back();
    }
}

#[tokio::test]
async fn what_cannot_be_attached_to_is_said() {
    let Some(terminal) = wide() else { return };
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    terminal.agent("", &format!("attach {free}; echo \"code $?\""));
    let seen = terminal.until("code 1");
    assert!(seen.contains(&format!("tandem: nothing listens on 127.0.0.1:{free}")), "{seen}");
    terminal.agent("", "attach http://example.org:41242");
    terminal.until("only an agent on this machine can be attached to");
    terminal.agent("", "attach x");
    terminal.until("must be a port");
    let other = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = other.local_addr().unwrap().port();
    std::thread::spawn(move || {
        let (mut stream, _) = other.accept().unwrap();
        let _ = stream.read(&mut [0; 1000]);
        let _ = stream.write_all(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n");
    });
    terminal.agent("", &format!("attach {port}"));
    terminal.until("lets no terminal attach (404 Not Found)");
    terminal.agent("", &format!("attach {port} < /dev/null"));
    terminal.until("`tandem attach` needs a terminal");
}

#[tokio::test]
async fn a_server_has_several_sessions_and_the_person_chooses() {
    let it = serve(&writes().arg("--workspace-root").arg("/")).await;
    let Some(first) = attach(it.client.port, "") else { return };
    assert!(first.seen().contains("· ~/project"), "a new session, here:\n{}", first.seen());
    first.line("mine");
    first.until("Hello.");
    let workspace = it.home.path().join("workspace");
    it.client.result("message/send", works_in(&workspace, prompt("of another"))).await;
    let Some(terminal) = wide() else { return };
    terminal.agent("", &format!("attach {}; echo \"code $?\"", it.client.port));
    let seen = terminal.until("code 2");
    assert!(seen.contains("tandem: there are several sessions. Choose one with"), "{seen}");
    let row = |text: &str| seen.lines().find(|line| line.contains(text)).unwrap().to_owned();
    assert!(row("1 prompt: mine").contains("/project  "), "{seen}");
    let id = row("of another").split_whitespace().next().unwrap().to_owned();
    terminal.agent("", &format!("attach {} --session {id}", it.client.port));
    terminal.until("› [A2A] of another");
    terminal.keys(&["C-d"]);
    terminal.wait("the shell", |seen| seen.trim_end().ends_with("ready>"));
    terminal.agent("", &format!("attach {} --new; echo \"code $?\"", it.client.port));
    terminal.until("attached to");
    terminal.line("in a new one");
    terminal.wait("its own answer", |seen| seen.matches("Hello.").count() == 2);
}

#[tokio::test]
async fn a_connection_that_is_lost_is_made_again_and_nothing_is_missing_or_there_twice() {
    let mut it = shared(&writes()).await;
    let between = Between::new(it.client.port);
    let Some(terminal) = attach(between.port, "") else { return };
    let id = it.editor.prompt("before").await;
    it.editor.answer_to(id).await;
    terminal.until("› [editor] before");
    between.cut();
    terminal.until("The connection to the agent is lost; tandem is trying again.");
    let id = it.editor.prompt("meanwhile").await;
    it.editor.answer_to(id).await;
    terminal.line("not sent");
    terminal.until("not sent: the connection is lost");
    between.mend();
    let seen = terminal.until("› [editor] meanwhile");
    assert!(!seen.contains("is lost; trying"), "{seen}");
    terminal.keys(&["Enter"]);
    terminal.wait("all three answers", |seen| seen.matches("Hello.").count() == 3);
    let seen = terminal.seen();
    for prompt in ["› [editor] before", "› [editor] meanwhile", "› not sent"] {
        assert_eq!(seen.matches(prompt).count(), 1, "{prompt}:\n{seen}");
    }
}

/// A relay between a terminal and the agent, which can cut the connection.
struct Between {
    port: u16,
    is_cut: Arc<AtomicBool>,
    streams: Arc<Mutex<Vec<TcpStream>>>,
}

impl Between {
    fn new(to: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let (is_cut, streams) = (Arc::new(AtomicBool::new(false)), Arc::default());
        let between = Self { port, is_cut: Arc::clone(&is_cut), streams: Arc::clone(&streams) };
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                if is_cut.load(Ordering::SeqCst) {
                    continue;
                }
                let there = TcpStream::connect(("127.0.0.1", to)).unwrap();
                let ends = [&stream, &there].map(|end| end.try_clone().unwrap());
                streams.lock().unwrap().extend(ends);
                let (back, forth) = (there.try_clone().unwrap(), stream.try_clone().unwrap());
                std::thread::spawn(move || pass(stream, there, Some((port, to))));
                std::thread::spawn(move || pass(back, forth, None));
            }
        });
        between
    }

    fn cut(&self) {
        self.is_cut.store(true, Ordering::SeqCst);
        for stream in self.streams.lock().unwrap().drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    fn mend(&self) {
        self.is_cut.store(false, Ordering::SeqCst);
    }
}

/// Passes bytes on. In the first bytes, replaces a port by another, because the agent checks the port in its name.
fn pass(mut from: TcpStream, mut to: TcpStream, mut name: Option<(u16, u16)>) {
    let mut bytes = vec![0; 64 << 10];
    while let Ok(read @ 1..) = from.read(&mut bytes) {
        let mut passed = bytes[..read].to_vec();
        if let Some((ours, theirs)) = name.take() {
            let head = String::from_utf8(passed).unwrap();
            passed = head.replace(&format!(":{ours}"), &format!(":{theirs}")).into_bytes();
        }
        if to.write_all(&passed).is_err() {
            return;
        }
    }
    let _ = to.shutdown(Shutdown::Both);
}
