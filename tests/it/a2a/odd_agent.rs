//! `tandem attach` at agents that misbehave, or disappear in the middle.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};

use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::{Message, WebSocket, accept};

use crate::terminal::{HINT, Terminal, prompts};

/// An agent's part in a connection.
type Act = fn(&mut Agent);

/// One connection of an agent that the test plays.
struct Agent {
    socket: WebSocket<TcpStream>,
    /// The call that waits for events, if there is one.
    events: Option<Value>,
    /// Name of the terminal; empty until the terminal has sent it.
    terminal: String,
}

impl Agent {
    /// Starts an agent that behaves so, one connection for each behaviour; returns its port.
    fn start(acts: Vec<Act>) -> u16 {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        std::thread::spawn(move || {
            for act in acts {
                let (stream, _) = listener.accept().unwrap();
                act(&mut Self {
                    socket: accept(stream).unwrap(),
                    events: None,
                    terminal: String::new(),
                });
            }
        });
        port
    }

    /// Reads the next call of a method; `None` when the terminal has disconnected.
    fn call(&mut self, method: &str) -> Option<Value> {
        loop {
            let Ok(message) = self.socket.read() else { return None };
            let Message::Text(text) = message else { continue };
            let call: Value = serde_json::from_str(&text).unwrap();
            if call["method"] == "attach/events" {
                self.events = Some(call.clone());
            }
            if call["method"] == method {
                return Some(call);
            }
        }
    }

    fn send(&mut self, message: &Value) {
        self.socket.send(Message::text(message.to_string())).unwrap();
    }

    fn answer(&mut self, call: &Value, result: Value) {
        self.send(&json!({ "jsonrpc": "2.0", "id": call["id"], "result": result }));
    }

    fn refuse(&mut self, call: &Value, why: &str) {
        let error = json!({ "code": -32000, "message": "Refused", "data": { "details": why } });
        self.send(&json!({ "jsonrpc": "2.0", "id": call["id"], "error": error }));
    }

    /// Opens the session for the terminal; returns the parameters of its request.
    fn open(&mut self) -> Value {
        let call = self.call("attach/open").unwrap();
        let opened = json!({
            "session": "the-session", "number": 1, "directory": "/somewhere", "model": "a-model",
            "mode": "default", "frameBytes": 1000,
        });
        self.answer(&call, json!({ "opened": opened }));
        call["params"]["terminal"].as_str().unwrap().clone_into(&mut self.terminal);
        call["params"].clone()
    }

    /// Tells of these events, from an index on.
    fn tell(&mut self, from: usize, events: &[Value]) {
        let call = match self.events.take() {
            Some(call) => call,
            None => self.call("attach/events").unwrap(),
        };
        self.events = None;
        assert_eq!(call["params"]["from"], from);
        let entries = events.iter().enumerate();
        let entries: Vec<_> = entries
            .map(|(n, event)| json!({ "index": from + n, "at": 0, "event": event }))
            .map(|entry| entry.to_string().replace(ME, &self.terminal))
            .map(|entry| serde_json::from_str::<Value>(&entry).unwrap())
            .collect();
        let next = from + events.len();
        self.answer(&call, json!({ "entries": entries, "next": next, "inputLimit": null }));
    }

    /// Waits until the terminal has gone.
    fn stay(&mut self) {
        while self.call("nothing").is_some() {}
    }
}

/// Stands for the terminal's name in events.
const ME: &str = "<me>";

fn me() -> Value {
    json!({ "Attached": { "name": ME, "number": 1 } })
}

fn said(text: &str) -> [Value; 4] {
    let prompt = json!({ "turn": 1, "prompt": [{ "Text": text }], "origin": me() });
    [
        json!({ "TurnQueued": prompt }),
        json!({ "TurnStarted": { "turn": 1 } }),
        json!({ "Text": "Heard.\n\n" }),
        json!({ "TurnFinished": { "turn": 1, "reason": "EndTurn" } }),
    ]
}

/// Starts a terminal attached to such an agent, with a shell below it; `None` without tmux.
fn attach(acts: Vec<Act>) -> Option<Terminal> {
    let terminal = Terminal::open()?;
    terminal.tmux(&["resize-window", "-x", "120", "-y", "24"]);
    terminal.agent("", &format!("attach {}; echo \"code $?\"", Agent::start(acts)));
    Some(terminal)
}

#[test]
fn a_prompt_whose_answer_is_lost_is_sent_again_under_its_number() {
    let first: Act = |agent| {
        let asked = agent.open();
        assert_eq!(asked["session"].as_object().unwrap().keys().next().unwrap(), "only");
        let prompt = agent.call("attach/prompt").unwrap();
        assert_eq!(prompt["params"], json!({ "number": 1, "parts": [{ "Text": "hello" }] }));
    };
    let second: Act = |agent| {
        let asked = agent.open();
        assert_eq!(asked["session"], json!({ "id": "the-session" }));
        let prompt = agent.call("attach/prompt").unwrap();
        assert_eq!(prompt["params"], json!({ "number": 1, "parts": [{ "Text": "hello" }] }));
        agent.answer(&prompt, Value::Null);
        agent.tell(0, &said("hello"));
        agent.stay();
    };
    let Some(terminal) = attach(vec![first, second]) else { return };
    terminal.until(HINT);
    terminal.line("hello");
    let seen = terminal.until("Heard.");
    assert_eq!(seen.matches("› hello").count(), 1, "{seen}");
}

#[test]
fn what_another_version_tells_is_noted_and_the_rest_is_shown() {
    let act: Act = |agent| {
        agent.open();
        agent.tell(0, &[json!({ "Holiday": { "days": 3 } }), Value::Null]);
        agent.tell(2, &said("hello"));
        agent.stay();
    };
    let Some(terminal) = attach(vec![act]) else { return };
    let seen = terminal.until("Heard.");
    assert!(seen.contains("not shown: the agent is another version of tandem."), "{seen}");
    assert!(seen.contains("not shown: it is too large (--limit line-bytes=N)."), "{seen}");
}

#[test]
fn a_refusal_is_said_and_ends_it() {
    let act: Act = |agent| {
        let call = agent.call("attach/open").unwrap();
        agent.refuse(&call, "use the same tandem for both");
        agent.stay();
    };
    let Some(terminal) = attach(vec![act]) else { return };
    let seen = terminal.until("code 1");
    assert!(seen.contains("tandem: use the same tandem for both"), "{seen}");
}

#[test]
fn an_agent_that_answers_nonsense_is_left() {
    let nonsense: [(Act, &str); 3] = [
        (
            |agent| {
                let call = agent.call("attach/open").unwrap();
                agent.answer(&call, json!({ "welcome": true }));
                agent.stay();
            },
            "is another version of tandem",
        ),
        (
            |agent| {
                agent.open();
                agent.tell(0, &[]);
                agent.stay();
            },
            "tandem: the agent sends the same events again and again",
        ),
        (
            |agent| {
                agent.open();
                let call = agent.call("attach/events").unwrap();
                agent.answer(&call, json!([]));
                agent.stay();
            },
            "tandem: the agent's message cannot be read",
        ),
    ];
    for (act, why) in nonsense {
        let Some(terminal) = attach(vec![act]) else { return };
        let seen = terminal.until("code 1");
        assert!(seen.contains(why), "{why}:\n{seen}");
        terminal.check_given_back();
    }
}

#[test]
fn a_session_that_is_gone_when_the_connection_is_back_is_the_end() {
    let first: Act = |agent| {
        agent.open();
        agent.tell(0, &said("hello"));
    };
    let second: Act = |agent| {
        let call = agent.call("attach/open").unwrap();
        agent.answer(&call, json!({ "choose": [] }));
        agent.stay();
    };
    let Some(terminal) = attach(vec![first, second]) else { return };
    let seen = terminal.until("code 1");
    assert_eq!(prompts(&seen)[0], "hello");
    assert!(seen.contains("has ended"), "{seen}");
}

#[test]
fn what_is_not_taken_comes_back() {
    let act: Act = |agent| {
        agent.open();
        let args = json!({ "id": "c", "name": "t", "args": {} });
        let asked = json!({ "call": args, "caller": "Model", "kind": "Other", "access": "Nothing",
            "summary": { "label": "a thing", "locations": [], "diff": null },
            "question": { "why": "it may be bad", "commands": [], "scopes": [] } });
        let [queued, started, ..] = said("hello");
        agent.tell(0, &[queued, started, json!({ "CallStarted": asked })]);
        let call = agent.call("attach/answer").unwrap();
        agent.refuse(&call, "not now");
        let call = agent.call("attach/answer").unwrap();
        agent.answer(&call, json!({ "Ok": null }));
        let closed = json!([{ "Once": { "edited": null } }, me()]);
        let finished = json!({ "call": "c", "outcome": "Rejected" });
        let closed = json!({ "QuestionClosed": { "call": "c", "answer": closed } });
        agent.tell(3, &[closed, json!({ "CallFinished": finished })]);
        let call = agent.call("attach/prompt").unwrap();
        agent.refuse(&call, "not that");
        agent.stay();
    };
    let Some(terminal) = attach(vec![act]) else { return };
    terminal.until("Allow this?");
    Terminal::wait_for_grace();
    terminal.text("y");
    let seen = terminal.until("not now");
    assert!(seen.contains("Allow this?"), "{seen}");
    Terminal::wait_for_grace();
    terminal.text("y");
    terminal.until("✗ a thing");
    terminal.line("some words");
    let seen = terminal.until("not that");
    assert_eq!(prompts(&seen).last(), Some(&"some words"));
    terminal.keys(&["C-u"]);
    terminal.line(&"long ".repeat(200));
    terminal.until("not sent: it is longer than the 1000 bytes that the agent takes");
}

#[test]
fn nothing_that_an_agent_tells_is_hidden_or_obeyed() {
    let act: Act = |agent| {
        agent.open();
        let [queued, started, ..] = said("a\rb\u{1b}[2Jc");
        let text = "x\u{1b}]0;never ended\r\nos.system()\r# harmless\u{202e}";
        let asked = json!({
            "call": { "id": "c", "name": "t", "args": {} },
            "caller": "Model",
            "kind": "Edit",
            "access": { "Edit": { "path": "/w/a\nb" } },
            "summary": { "label": "Write a\nb", "locations": [],
                "diff": { "path": "/w/a\nb", "old": "x\n", "new": text } },
            "question": { "why": "it\u{200b} asks", "commands": [], "scopes": [] },
        });
        agent.tell(0, &[queued, started, json!({ "CallStarted": asked })]);
        agent.stay();
    };
    let Some(terminal) = attach(vec![act]) else { return };
    let seen = terminal.until("has hidden characters");
    for line in [
        "› a␍b␛[2Jc",
        "Allow this? Write a\\nb",
        "  /w/a\\nb\n",
        "1 +x␛]0;never ended␍\n",
        "2 +os.system()␍# harmless<U+202E>",
        "Asked because it<U+200B> asks",
    ] {
        assert!(seen.contains(line), "{line}:\n{seen}");
    }
}

#[test]
fn what_is_no_agent_is_said() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            let _ = stream.read(&mut [0; 1000]);
            let _ = stream.write_all(b"SSH-2.0-somebody\r\n\r\n");
        }
    });
    let Some(terminal) = Terminal::open() else { return };
    terminal.tmux(&["resize-window", "-x", "120", "-y", "24"]);
    terminal.agent("", &format!("attach {port}; echo \"code $?\""));
    let seen = terminal.until("code 1");
    assert!(seen.contains(&format!("127.0.0.1:{port} does not answer as an agent does")), "{seen}");
}
