//! Editors that speak ACP 1, beside those that speak 0.0.9.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::num::NonZero;
use std::path::Path;
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::TempDir;
use tokio_tungstenite::tungstenite::{Message, client};

use crate::process::{INITIALIZE, PROMPT, Process, tandem};
use crate::pty::Pty;
use crate::start::bare;
use crate::stream::{self, CHUNKS};
use crate::{median, process, round, store};

/// Processes that are started.
const STARTS: usize = 200;

/// Sessions of one editor.
const SESSIONS: usize = 10;

/// Sessions that are begun and closed.
const CLOSED: usize = 1000;

/// Sessions that are begun and closed before that: they pay for what stays.
const FIRST_CLOSED: usize = 100;

/// Questions that each front end answers first.
const QUESTIONS: usize = 20;

/// Longer than a question waits in a terminal until keys answer it.
const GRACE: Duration = Duration::from_millis(700);

/// The first line of an editor that speaks ACP 1.
const INITIALIZE_1: &str = r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":1,"clientCapabilities":{}}}"#;

/// The beginning of the answer to a prompt.
const ANSWERED: &str = r#"{"jsonrpc":"2.0","id":"prompt","result""#;

/// An editor that speaks ACP 1, and its agent.
struct Editor(Process);

impl Editor {
    fn of(mut process: Process) -> Self {
        process.send(INITIALIZE_1);
        process.line();
        Self(process)
    }

    /// Sends a request and reads until it is answered; the answer.
    fn call(&mut self, method: &str, params: &Value) -> Value {
        let request = json!({ "jsonrpc": "2.0", "id": "call", "method": method, "params": params });
        self.0.send(&request.to_string());
        loop {
            let line = self.0.line();
            if line.starts_with(r#"{"jsonrpc":"2.0","id":"call","#) {
                return serde_json::from_str(&line).unwrap();
            }
        }
    }

    /// Begins a session; its id.
    fn session(&mut self, cwd: &Path) -> String {
        let answer = self.call("session/new", &json!({ "cwd": cwd, "mcpServers": [] }));
        let id = answer["result"]["sessionId"].as_str();
        id.unwrap_or_else(|| panic!("{answer}")).to_owned()
    }

    /// Runs a prompt to its end.
    fn ask(&mut self, session: &str) {
        self.0.send(&prompt(session));
        self.0.until(ANSWERED);
    }
}

/// A request that says something.
fn prompt(session: &str) -> String {
    let prompt = json!([{ "type": "text", "text": "go" }]);
    let params = json!({ "sessionId": session, "prompt": prompt });
    let request =
        json!({ "jsonrpc": "2.0", "id": "prompt", "method": "session/prompt", "params": params });
    request.to_string()
}

/// Milliseconds from spawn to the answer to `initialize` for both versions, against a bare
/// program's line; from then to the answer to the first `session/new`, and to the second.
pub(crate) fn start() -> Value {
    let (_dir, program) = bare();
    let cwd = TempDir::new().unwrap();
    let mut times: [Vec<f64>; 5] = Default::default();
    for _ in 0..STARTS {
        let mut process = None;
        times[0].push(timed(|| {
            let bare = process.insert(process::start(std::process::Command::new(&program), None));
            bare.line();
        }));
        for (n, first) in [(1, INITIALIZE), (2, INITIALIZE_1)] {
            let mut started = None;
            times[n].push(timed(|| {
                let agent = started.insert(tandem(&["--acp"], &[("GEMINI_API_KEY", "none")]));
                agent.send(first);
                agent.line();
            }));
            if n == 2 {
                let mut editor = Editor(started.take().unwrap());
                times[3].push(timed(|| _ = editor.session(cwd.path())));
                times[4].push(timed(|| _ = editor.session(cwd.path())));
            }
        }
    }
    let slow = |times: &[f64]| {
        let mut times = times.to_vec();
        times.sort_by(f64::total_cmp);
        round(times[times.len() * 99 / 100])
    };
    let shown = |times: &Vec<f64>| json!({ "median": round(median(times.clone())), "99 of 100 below": slow(times) });
    json!({
        "bare program, ms": shown(&times[0]),
        "initialize of 0.0.9, ms": shown(&times[1]),
        "initialize of 1, ms": shown(&times[2]),
        "ratio": round(median(times[2].clone()) / median(times[1].clone())),
        "first session/new, ms": shown(&times[3]),
        "second session/new, ms": shown(&times[4]),
    })
}

/// Milliseconds.
fn timed(what: impl FnOnce()) -> f64 {
    let before = Instant::now();
    what();
    before.elapsed().as_secs_f64() * 1e3
}

/// Seconds and CPU for an answer of many chunks, for both versions.
pub(crate) fn chunks() -> Value {
    // Each has a model of its own, which serves one connection at a time.
    let agent = || {
        let base = stream::serve(None);
        let vars = [("GEMINI_API_KEY", "none"), ("GOOGLE_GEMINI_BASE_URL", base.as_str())];
        tandem(&["--acp", "--model", "gemini-3.8-flash"], &vars)
    };
    let mut old = agent();
    old.initialize();
    let cwd = TempDir::new().unwrap();
    let mut editor = Editor::of(agent());
    let session = editor.session(cwd.path());
    let (mut first, mut second) = ((f64::MAX, f64::MAX), (f64::MAX, f64::MAX));
    for _ in 0..6 {
        first = least(first, answered(&mut old, PROMPT));
        second = least(second, answered(&mut editor.0, &prompt(&session)));
    }
    let each = |cpu: f64| round(cpu / CHUNKS as f64 * 1e6);
    json!({
        "chunks": CHUNKS,
        "0.0.9, CPU a chunk, us": each(first.1),
        "1, CPU a chunk, us": each(second.1),
        "CPU ratio": round(second.1 / first.1),
        "0.0.9, seconds": round(first.0 * 1e3) / 1e3,
        "1, seconds": round(second.0 * 1e3) / 1e3,
    })
}

/// Seconds and CPU until a prompt is answered.
fn answered(agent: &mut Process, prompt: &str) -> (f64, f64) {
    let before = (Instant::now(), agent.cpu());
    agent.send(prompt);
    agent.until(ANSWERED);
    (before.0.elapsed().as_secs_f64(), agent.cpu() - before.1)
}

fn least(a: (f64, f64), b: (f64, f64)) -> (f64, f64) {
    (a.0.min(b.0), a.1.min(b.1))
}

/// Resident memory of an agent with several sessions of one editor, against one for 0.0.9; and what
/// stays of sessions that are begun, used and closed.
pub(crate) fn sessions() -> Value {
    let home = TempDir::new().unwrap();
    let path = home.path().join("script.jsonl");
    fs::write(&path, json!({ "when": "", "answers": [[{ "text": "hi" }]] }).to_string()).unwrap();
    let model = format!("replay:{}", path.display());
    let agent = || tandem(&["--acp", "--model", &model], &[]);
    let mut old = agent();
    old.initialize();
    old.send(PROMPT);
    old.until(ANSWERED);
    let mut editor = Editor::of(agent());
    let mut ids = Vec::new();
    for _ in 0..SESSIONS {
        ids.push(editor.session(home.path()));
    }
    let begun = editor.0.memory("VmRSS");
    for id in ids {
        editor.ask(&id);
    }
    let used = editor.0.memory("VmRSS");
    let mut editor = Editor::of(agent());
    let mut after = [(0, 0); 2];
    for (n, count) in [FIRST_CLOSED, CLOSED].into_iter().enumerate() {
        for _ in 0..count {
            let id = editor.session(home.path());
            editor.ask(&id);
            editor.call("session/close", &json!({ "sessionId": id }));
        }
        let open = fs::read_dir(format!("/proc/{}/fd", editor.0.child.id())).unwrap().count();
        after[n] = (editor.0.memory("VmRSS"), open);
    }
    json!({
        "0.0.9, one session with a turn, KiB": old.memory("VmRSS"),
        "sessions": SESSIONS,
        "begun, KiB": begun,
        "each with a turn, KiB": used,
        "closed, and measured after": [FIRST_CLOSED, FIRST_CLOSED + CLOSED],
        "KiB": [after[0].0, after[1].0],
        "open files": [after[0].1, after[1].1],
    })
}

/// Milliseconds until a stored session of many events is loaded and shown, against parsing its
/// lines alone: one long answer, and many short turns with a call each.
pub(crate) fn load() -> Value {
    let mut result = json!({ "events": store::LOADED });
    for (name, turns) in [("one long answer", false), ("short turns with a call each", true)] {
        let dir = TempDir::new().unwrap();
        let cwd = dir.path().canonicalize().unwrap();
        let log = store::write_session(&dir.path().join("sessions"), &cwd, turns);
        let (mut ours, mut floor, mut lines) = (f64::MAX, f64::MAX, 0);
        for _ in 0..10 {
            let sessions = dir.path().join("sessions");
            let vars =
                [("TANDEM_SESSIONS", sessions.to_str().unwrap()), ("GEMINI_API_KEY", "none")];
            let mut editor = Editor::of(tandem(&["--acp"], &vars));
            let params = json!({ "sessionId": store::id(0), "cwd": cwd, "mcpServers": [] });
            let request = json!({ "jsonrpc": "2.0", "id": "load", "method": "session/load", "params": params });
            let request = request.to_string();
            ours = ours.min(timed(|| {
                editor.0.send(&request);
                lines = editor.0.until(r#"{"jsonrpc":"2.0","id":"load","result""#);
            }));
            floor = floor.min(timed(|| {
                let text = fs::read_to_string(&log).unwrap();
                for line in text.lines() {
                    serde_json::from_str::<Value>(line).unwrap();
                }
            }));
        }
        result[name] = json!({
            "ms": round(ours),
            "lines written": lines,
            "parsing the log alone, ms": round(floor),
            "ratio": round(ours / floor),
        });
    }
    result
}

/// Front end that answers a question first.
#[derive(Clone, Copy, PartialEq, Eq)]
enum First {
    Editor,
    Terminal,
    A2a,
}

/// Milliseconds from the answer to a question in one of three front ends until the others have
/// withdrawn it: an editor that speaks ACP 1, an attached terminal and an A2A client of one session.
pub(crate) fn questions() -> Value {
    let home = TempDir::new().unwrap();
    let mut shared = SharedSession::start(home.path());
    let mut result = json!({ "questions each": QUESTIONS });
    for (name, first) in
        [("the editor", First::Editor), ("the terminal", First::Terminal), ("A2A", First::A2a)]
    {
        let mut times: [Vec<f64>; 3] = Default::default();
        for _ in 0..QUESTIONS {
            for (times, time) in times.iter_mut().zip(shared.ask(first)) {
                times.extend(time);
            }
        }
        let shown = times.map(|times| {
            let slowest = times.iter().copied().fold(f64::NAN, f64::max);
            if times.is_empty() {
                Value::Null
            } else {
                json!({ "median": round(median(times)), "slowest": round(slowest) })
            }
        });
        let [editor, terminal, a2a] = shown;
        result[format!("{name} answers first, ms")] =
            json!({ "the editor": editor, "the terminal": terminal, "A2A": a2a });
    }
    result
}

/// One session and its three front ends.
struct SharedSession {
    editor: Editor,
    session: String,
    port: u16,
    /// When the terminal shows a question, and when the call's end.
    terminal: Receiver<Instant>,
    keyboard: fs::File,
    /// The id of a call that is asked about, and when its question is closed.
    a2a: Receiver<(Instant, Value)>,
}

impl SharedSession {
    fn start(home: &Path) -> Self {
        let args = json!({ "file_path": "a.txt", "content": "new\n" });
        let call = json!({ "call": { "name": "write_file", "args": args } });
        let script = json!({ "when": "", "answers": [[call], [{ "text": "done" }]] });
        let path = home.join("script.jsonl");
        fs::write(&path, script.to_string()).unwrap();
        // Free now, and hardly taken in the next moment.
        let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = free.local_addr().unwrap().port();
        drop(free);
        let (model, at) = (format!("replay:{}", path.display()), port.to_string());
        let mut editor = Editor::of(tandem(&["--acp", "--a2a-port", &at, "--model", &model], &[]));
        while TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_err() {
            thread::yield_now();
        }
        let pid = editor.0.child.id();
        let cwd = fs::read_link(format!("/proc/{pid}/cwd")).unwrap();
        let session = editor.session(&cwd);
        let pty = Pty::tandem(&["attach", &at], &[]);
        let keyboard = pty.keyboard();
        let terminal = watch_terminal(pty);
        let a2a = watch_a2a(port);
        Self { editor, session, port, terminal, keyboard, a2a }
    }

    /// Asks everybody, lets one say no, and returns how long it took the others to withdraw the
    /// question: the editor, the terminal, A2A.
    fn ask(&mut self, first: First) -> [Option<f64>; 3] {
        self.editor.0.send(&prompt(&self.session));
        let question = loop {
            let line = self.editor.0.line();
            if line.contains("session/request_permission") {
                break serde_json::from_str::<Value>(&line).unwrap();
            }
        };
        self.terminal.recv().unwrap();
        let (_, call) = self.a2a.recv().unwrap();
        if first == First::Terminal {
            thread::sleep(GRACE);
        }
        let outcome = json!({ "outcome": { "outcome": "selected", "optionId": "reject" } });
        let no = json!({ "jsonrpc": "2.0", "id": question["id"], "result": outcome }).to_string();
        let before = Instant::now();
        match first {
            First::Editor => self.editor.0.send(&no),
            First::Terminal => self.keyboard.write_all(b"n").unwrap(),
            First::A2a => reject(self.port, &call),
        }
        let editor = (first != First::Editor).then(|| {
            while !self.editor.0.line().contains("$/cancel_request") {}
            before.elapsed()
        });
        let terminal = self.terminal.recv().unwrap().duration_since(before);
        let a2a = self.a2a.recv().unwrap().0.duration_since(before);
        self.editor.0.until(ANSWERED);
        [
            editor,
            Some(terminal).filter(|_| first != First::Terminal),
            Some(a2a).filter(|_| first != First::A2a),
        ]
        .map(|time| time.map(|time| time.as_secs_f64() * 1e3))
    }
}

/// Tells when the terminal shows a question, and then when the question is gone from the screen.
fn watch_terminal(mut pty: Pty) -> Receiver<Instant> {
    let mut screen = vt100::Parser::new(NonZero::new(24).unwrap(), NonZero::new(80).unwrap(), 0);
    pty.until_screen(&mut screen, "attached to", true);
    let (tell, told) = channel();
    thread::spawn(move || {
        loop {
            for shown in [true, false] {
                // A whole screen is read: the terminal draws only the cells that change.
                pty.until_screen(&mut screen, "Allow this?", shown);
                if tell.send(Instant::now()).is_err() {
                    return;
                }
            }
        }
    });
    told
}

/// Tells the id of a call that an A2A client is asked about, and then when that is answered.
fn watch_a2a(port: u16) -> Receiver<(Instant, Value)> {
    let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).unwrap();
    let (mut socket, _) = client(format!("ws://127.0.0.1:{port}/ws"), stream).unwrap();
    // It has joined when it is answered.
    let hello = r#"{"jsonrpc":"2.0","id":"hello","method":"commands/get","params":{}}"#;
    socket.send(Message::text(hello)).unwrap();
    while !socket.read().unwrap().to_text().unwrap().contains("\"hello\"") {}
    let (tell, told) = channel();
    thread::spawn(move || {
        while let Ok(message) = socket.read() {
            let Message::Text(text) = message else { continue };
            let at = Instant::now();
            let event: Value = serde_json::from_str(&text).unwrap();
            let event = &event["params"];
            let parts = event["status"]["message"]["parts"].as_array().into_iter().flatten();
            let mut ids = parts.map(|part| &part["data"]["tool_call_id"]);
            let call = ids.find(|id| id.is_string()).cloned().unwrap_or_default();
            let is_question = event["status"]["state"] == "input-required";
            let is_answered = event["metadata"]["answeredBy"].is_string();
            if (is_question || is_answered) && tell.send((at, call)).is_err() {
                return;
            }
        }
    });
    told
}

/// Says no over A2A, and does not wait for what comes of it.
fn reject(port: u16, call: &Value) {
    let data = json!({ "tool_call_id": call, "selected_option_id": "cancel" });
    let message = json!({ "kind": "message", "messageId": call, "role": "user",
        "parts": [{ "kind": "data", "data": data }] });
    let params = json!({ "message": message, "configuration": { "blocking": false } });
    let body = json!({ "jsonrpc": "2.0", "id": 1, "method": "message/send", "params": params });
    let body = body.to_string();
    let request = format!(
        "POST / HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Type: application/json\r\n\
         Connection: close\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    thread::spawn(move || {
        let mut response = String::new();
        let _ = stream.read_to_string(&mut response);
        assert!(
            response.starts_with("HTTP/1.1 200") && !response.contains(r#""error":"#),
            "{response}"
        );
    });
}
