//! Messages between an attached terminal and the agent (`src/wire/attach.rs`).

use expect_test::expect;
use serde_json::{Value, json};
use tokio::time::timeout;

use super::server::{Client, prompt, serve, shared, write};
use super::socket::Socket;
use crate::agent::{HANG, Setup, code};
use crate::limit::in_time;

const TOKEN: &str = "the-token";

fn hello() -> Setup {
    Setup::answers(json!([[{ "text": "hello" }]]))
}

/// A terminal that has opened the session.
pub(super) struct Seat {
    pub(super) socket: Socket,
    pub(super) opened: Value,
    next: usize,
}

impl Seat {
    async fn open(client: Client, name: &str) -> Self {
        Self::open_session(client, name, json!({ "only": "" })).await
    }

    pub(super) async fn open_session(client: Client, name: &str, session: Value) -> Self {
        let mut socket = attach(client).await;
        let opened = socket.call(0, "attach/open", open(name, session)).await;
        let opened = opened["result"]["opened"].clone();
        assert!(opened.is_object(), "{opened}");
        Self { socket, opened, next: 0 }
    }

    pub(super) async fn result(&mut self, method: &str, params: Value) -> Value {
        let answer = self.socket.call(method, method, params).await;
        assert!(answer.get("error").is_none(), "{method}: {answer}");
        answer["result"].clone()
    }

    /// Returns the error of a call that is refused.
    pub(super) async fn refused(&mut self, method: &str, params: Value) -> String {
        let answer = self.socket.call(method, method, params).await;
        answer["error"]["data"]["details"].as_str().unwrap_or_else(|| panic!("{answer}")).to_owned()
    }

    pub(super) async fn prompt(&mut self, number: u64, part: Value) -> Value {
        self.result("attach/prompt", json!({ "number": number, "parts": [part] })).await
    }

    /// Reads events until one fits; returns it, and all events before it.
    pub(super) async fn until(&mut self, found: impl Fn(&Value) -> bool) -> Vec<Value> {
        let mut all = Vec::new();
        let reading = async {
            while !all.iter().any(&found) {
                let since = json!({ "from": self.next, "bytes": 1_000_000 });
                let happened = self.result("attach/events", since).await;
                for entry in happened["entries"].as_array().unwrap() {
                    assert!(entry["index"].as_u64().unwrap() >= self.next as u64, "{happened}");
                    all.push(entry["event"].clone());
                }
                self.next = usize::try_from(happened["next"].as_u64().unwrap()).unwrap();
            }
        };
        let read = in_time(reading).await;
        assert!(read.is_some(), "the event does not come; so far: {all:#?}");
        all
    }

    pub(super) async fn turn(&mut self) -> Vec<Value> {
        self.until(|event| event.get("TurnFinished").is_some()).await
    }
}

/// Returns the sessions that a terminal is shown to choose from, with whether a turn runs in each.
pub(super) async fn choices(client: Client, session: Value) -> Vec<(String, bool)> {
    let opened = attach(client).await.call(0, "attach/open", open("a", session)).await;
    let sessions = opened["result"]["choose"].as_array().unwrap_or_else(|| panic!("{opened}"));
    let choice = |it: &Value| (it["id"].as_str().unwrap().to_owned(), it["busy"] == true);
    sessions.iter().map(choice).collect()
}

async fn attach(client: Client) -> Socket {
    let token = format!("Bearer {TOKEN}");
    Socket::open(client.port, "/attach", &[("authorization", &token)]).await.unwrap()
}

fn open(name: &str, session: Value) -> Value {
    json!({ "version": 3, "terminal": name, "session": session })
}

fn said(events: &[Value]) -> String {
    events.iter().filter_map(|event| event["Text"].as_str()).collect()
}

pub(super) fn text(text: &str) -> Value {
    json!({ "Text": text })
}

#[tokio::test]
async fn a_terminal_is_told_everything_once_and_says_something() {
    let mut it = shared(&hello()).await;
    it.editor.prompt("from the editor").await;
    let mut seat = Seat::open(it.client, "a").await;
    assert_eq!(seat.opened["number"], 1);
    assert_eq!(seat.opened["directory"], json!(it.editor.workspace()));
    let before = seat.turn().await;
    assert_eq!(before[1]["TurnQueued"]["origin"], "Editor");
    assert_eq!(said(&before), "hello");
    // There is no event at this index yet, so the answer to `attach/events` waits for the next event.
    let since = json!({ "from": seat.next, "bytes": 1_000_000 });
    seat.socket.send("waits", "attach/events", since).await;
    seat.socket.send("p", "attach/prompt", json!({ "number": 1, "parts": [text("hi")] })).await;
    let answered = seat.socket.until(|frame| frame["id"] == "waits").await;
    let first = &answered.last().unwrap()["result"]["entries"][0]["event"];
    assert_eq!(first["TurnQueued"]["origin"], json!({ "Attached": { "name": "a", "number": 1 } }));
    it.editor.call_of("streamAssistantMessageChunk").await;
    let shown = it.editor.call_of("streamAssistantMessageChunk").await;
    assert_eq!(shown["params"]["chunk"]["text"], "\n\n> **[terminal]** hi\n\n");
}

#[tokio::test]
async fn a_prompt_that_is_sent_again_is_taken_once() {
    let it = shared(&hello()).await;
    let mut seat = Seat::open(it.client, "a").await;
    seat.prompt(1, text("one")).await;
    seat.turn().await;
    // The terminal has the same name over another connection, so its prompt 1 is known.
    let mut again = Seat::open(it.client, "a").await;
    assert_eq!(again.opened["number"], 1);
    again.prompt(1, text("one")).await;
    again.prompt(2, text("two")).await;
    let events = again.until(|event| event["TurnFinished"]["turn"] == 2).await;
    let prompts: Vec<_> = events.iter().filter_map(|it| it.get("TurnQueued")).collect();
    assert_eq!(prompts.len(), 2, "{prompts:?}");
    assert_eq!(Seat::open(it.client, "b").await.opened["number"], 2);
}

#[tokio::test]
async fn files_and_what_servers_have_are_offered() {
    let server = format!("{}/fixtures/mcp/server.sh", env!("CARGO_MANIFEST_DIR"));
    let settings = json!({ "mcpServers": { "s": { "command": server } } }).to_string();
    let setup = hello().file("../.gemini/settings.json", &settings).file("notes.md", "");
    let it = shared(&setup).await;
    let mut seat = Seat::open(it.client, "a").await;
    // A turn waits for the MCP servers, so after the turn their resources are known.
    seat.prompt(1, text("hi")).await;
    seat.turn().await;
    let names = seat.result("attach/files", json!({ "most": 10 })).await;
    let names = names.as_array().unwrap();
    assert!(
        names.contains(&json!("notes.md")) && names.contains(&json!("s:note://1")),
        "{names:?}"
    );
    let prompts = seat.result("attach/prompts", Value::Null).await;
    let description = "Reviews a file. (MCP server `s`)";
    let arguments = json!([
        { "name": "file", "description": "which", "is_required": true },
        { "name": "how", "description": "", "is_required": false },
    ]);
    let usage = "--file=… [--how=…]";
    let review = json!({ "name": "review", "description": description, "arguments": arguments,
        "usage": usage });
    assert_eq!(prompts, json!([review]));
}

#[tokio::test]
async fn the_users_own_commands_are_offered() {
    let command = "description = \"Writes a message\"\nprompt = \"Write: {{args}}\"\n";
    let setup = hello().file("../.gemini/commands/git/commit.toml", command);
    let it = shared(&setup).await;
    let mut seat = Seat::open(it.client, "a").await;
    let arguments = json!([
        { "name": "args", "description": "what goes into the prompt", "is_required": false },
    ]);
    let expected = json!([{ "name": "git:commit", "description": "Writes a message",
        "arguments": arguments, "usage": "[ARGS]" }]);
    assert_eq!(seat.result("attach/prompts", Value::Null).await, expected);
}

#[tokio::test]
async fn another_version_is_told_so() {
    let it = shared(&hello()).await;
    let mut socket = attach(it.client).await;
    let open = json!({ "version": 7, "anything": "else" });
    let answer = socket.call(0, "attach/open", open).await;
    let why = answer["error"]["data"]["details"].as_str().unwrap();
    let own = env!("CARGO_PKG_VERSION");
    expect!["the agent (tandem X.Y.Z) lets terminals of version 3 attach, and this one is of version 7: use the same tandem for both"].assert_eq(&why.replace(own, "X.Y.Z"));
}

#[tokio::test]
async fn without_a_token_a_terminal_may_do_what_any_client_may() {
    let it = shared(&hello()).await;
    let mut seat = Seat::open(it.client, "a").await;
    let shell = json!({ "number": 1, "parts": [{ "Shell": "touch made" }] });
    let why = seat.refused("attach/prompt", shell).await;
    assert_eq!(
        why,
        "attached terminals can do this only if the agent has a token: start the agent with --a2a-token-file"
    );
    assert_eq!(seat.refused("attach/setMode", json!({ "mode": "yolo" })).await, why);
    seat.prompt(1, text("hi")).await;
    seat.turn().await;
    assert!(!it.editor.workspace().join("made").exists());
}

#[tokio::test]
async fn with_a_token_it_runs_commands_and_changes_the_mode() {
    let it = shared(&hello().var("TANDEM_A2A_TOKEN", TOKEN)).await;
    assert_eq!(Socket::open(it.client.port, "/attach", &[]).await.err(), Some(401));
    let mut seat = Seat::open(it.client, "a").await;
    seat.result("attach/setMode", json!({ "mode": "auto_edit" })).await;
    seat.prompt(1, json!({ "Shell": "touch made" })).await;
    let events = seat.turn().await;
    assert_eq!(events[1], json!({ "ModeChanged": { "mode": "auto_edit" } }));
    assert!(it.editor.workspace().join("made").exists());
    let wrong = seat.socket.call(9, "attach/setMode", json!({ "mode": "wild" })).await;
    assert_eq!(wrong["error"]["code"], -32602, "{wrong}");
}

#[tokio::test]
async fn the_first_answer_counts_and_the_second_is_told_whose_it_was() {
    let setup = Setup::answers(json!([[write("a.txt", "new\n")], [{ "text": "done" }]]));
    let it = shared(&setup).await;
    let (mut one, mut other) = (Seat::open(it.client, "a").await, Seat::open(it.client, "b").await);
    one.prompt(1, text("write")).await;
    let asked = one.until(|event| event.get("CallStarted").is_some()).await;
    let call = &asked.last().unwrap()["CallStarted"]["call"]["id"];
    let answer = |answer: Value| json!({ "call": call, "answer": answer });
    let allowed = json!({ "Once": { "edited": null } });
    assert_eq!(one.result("attach/answer", answer(allowed)).await, json!({ "Ok": null }));
    let late = other.result("attach/answer", answer(json!("Reject"))).await;
    assert_eq!(
        late["Err"]["AlreadyAnswered"]["by"],
        json!({ "Attached": { "name": "a", "number": 1 } }),
        "{late}"
    );
    one.turn().await;
    assert!(it.editor.workspace().join("a.txt").exists());
}

#[tokio::test]
async fn what_waits_is_taken_back_and_what_runs_is_cancelled() {
    let it = shared(&Setup::answers(json!([[{ "hang": null }]]))).await;
    let mut seat = Seat::open(it.client, "a").await;
    seat.prompt(1, text("one")).await;
    seat.prompt(2, text("two")).await;
    let turn = |turn: u64| json!({ "turn": turn });
    assert_eq!(seat.result("attach/takeBack", turn(1)).await, false, "it runs");
    assert_eq!(seat.result("attach/takeBack", turn(2)).await, true);
    assert_eq!(seat.result("attach/cancel", turn(1)).await, true);
    seat.until(|event| event["TurnFinished"]["turn"] == 1).await;
    assert_eq!(seat.result("attach/cancel", turn(1)).await, false, "it has ended");
}

#[tokio::test]
async fn only_so_many_prompts_wait() {
    let it = shared(&Setup::answers(json!([[{ "hang": null }]]))).await;
    let mut seat = Seat::open(it.client, "a").await;
    seat.prompt(1, text("runs")).await;
    seat.until(|event| event["TurnStarted"]["turn"] == 1).await;
    for number in 2..=1001 {
        seat.prompt(number, text("waits")).await;
    }
    let more = json!({ "number": 1002, "parts": [text("more")] });
    assert_eq!(
        seat.refused("attach/prompt", more.clone()).await,
        "1000 prompts wait already; try again in 5 s"
    );
    // Prompt 1001 waits already, so sending it again needs no room.
    seat.prompt(1001, text("waits")).await;
    assert_eq!(seat.result("attach/takeBack", json!({ "turn": 1001 })).await, true);
    seat.result("attach/prompt", more).await;
}

#[tokio::test]
async fn who_reads_nothing_holds_nobody_up_and_is_told_all_of_it_later() {
    let many = json!([[{ "repeat": { "text": "{n} ", "times": 20_000 } }]]);
    let mut it = shared(&Setup::answers(many)).await;
    let mut seat = Seat::open(it.client, "a").await;
    let since = json!({ "from": 0, "bytes": 1_000_000 });
    seat.socket.send("unread", "attach/events", since).await;
    let id = it.editor.prompt("go").await;
    timeout(HANG, it.editor.answer_to(id)).await.unwrap();
    let events = seat.turn().await;
    let all: String = (0..20_000).map(|n| format!("{n} ")).collect();
    assert!(said(&events) == all, "something is missing, or there twice");
}

#[tokio::test]
async fn events_come_in_batches_and_one_that_is_too_large_is_left_out() {
    let large = code(5000);
    let answers = json!([[{ "text": large }, { "thought": "small" }]]);
    let mut it = shared(&Setup::answers(answers)).await;
    let id = it.editor.prompt("go").await;
    it.editor.answer_to(id).await;
    let mut seat = Seat::open(it.client, "a").await;
    let happened = seat.result("attach/events", json!({ "from": 1, "bytes": 1000 })).await;
    let entries = happened["entries"].as_array().unwrap();
    let events: Vec<_> = entries.iter().map(|entry| &entry["event"]).collect();
    assert!(events.len() < 4 && events[0].get("TurnQueued").is_some(), "{happened}");
    assert_eq!(happened["next"], 1 + entries.len());
    let since = json!({ "from": happened["next"], "bytes": 1000 });
    // The system instruction is too large for the batch, too, and is left out.
    let rest = seat.result("attach/events", since).await;
    assert_eq!(rest["entries"][0]["event"], Value::Null, "{rest}");
    let since = json!({ "from": rest["next"], "bytes": 1000 });
    let rest = seat.result("attach/events", since).await;
    // The facts that the instruction tells are an event of their own.
    let entries = rest["entries"].as_array().unwrap();
    assert_eq!(entries.last().unwrap()["event"], "MessageCompleted", "{rest}");
    let since = json!({ "from": rest["next"], "bytes": 1000 });
    let rest = seat.result("attach/events", since).await;
    assert_eq!(rest["entries"][0]["event"], Value::Null, "{rest}");
    let since = json!({ "from": rest["next"], "bytes": 1000 });
    let rest = seat.result("attach/events", since).await;
    assert_eq!(rest["entries"][0]["event"], json!({ "Thought": "small" }), "{rest}");
}

#[tokio::test]
async fn nonsense_is_answered_and_the_connection_stays() {
    let it = shared(&hello()).await;
    let mut socket = attach(it.client).await;
    let why = |answer: Value| answer["error"]["data"]["details"].as_str().unwrap().to_owned();
    let early = socket.call(0, "attach/events", json!({ "from": 0, "bytes": 9 })).await;
    assert_eq!(why(early), "no session is open");
    let long = open(&"n".repeat(100), json!({ "only": "" }));
    assert_eq!(why(socket.call(1, "attach/open", long).await), "the terminal's name is too long");
    let unclear = socket.call(2, "attach/open", open("a", json!({ "any": "" }))).await;
    assert_eq!(unclear["error"]["code"], -32602, "{unclear}");
    let new = socket.call(3, "attach/open", open("a", json!({ "new": "/" }))).await;
    let begins_none =
        "this agent begins no sessions for others: attach without `--new`, or to a `tandem serve`";
    assert_eq!(why(new), begins_none);
    socket.call(4, "attach/open", open("a", json!({ "only": "" }))).await;
    let twice = socket.call(5, "attach/open", open("a", json!({ "only": "" }))).await;
    assert_eq!(why(twice), "a session is open already");
    for n in 0..8 {
        socket.send(n, "attach/events", json!({ "from": 1_000_000, "bytes": 9 })).await;
    }
    let ninth = socket.call("x", "attach/events", json!({ "from": 0, "bytes": 9 })).await;
    assert_eq!(why(ninth), "8 calls wait already");
    socket.send_text("{").await;
    assert_eq!(socket.until(|it| it["error"]["code"] == -32700).await.len(), 1);
    let unknown = socket.call("y", "attach/fly", json!({})).await;
    assert_eq!(unknown["error"]["code"], -32601, "{unknown}");
}

#[tokio::test]
async fn a_server_of_sessions_lists_them_if_it_is_not_clear_which_is_meant() {
    let it = serve(&hello()).await;
    let here = json!(it.home.path().join("workspace"));
    let mut first = attach(it.client).await;
    // The server has no session yet, so `only` creates one.
    let opened = first.call(0, "attach/open", open("a", json!({ "only": here }))).await;
    let id = opened["result"]["opened"]["session"].as_str().unwrap().to_owned();
    let mut other = attach(it.client).await;
    other.call(0, "attach/open", open("b", json!({ "new": here }))).await;
    other.call(1, "attach/prompt", json!({ "number": 1, "parts": [text("two\nlines")] })).await;
    let mut third = attach(it.client).await;
    let listed = third.call(0, "attach/open", open("c", json!({ "only": here }))).await;
    let listed = listed["result"]["choose"].as_array().unwrap().clone();
    assert_eq!(listed.len(), 2);
    assert_eq!((&listed[0]["last"], &listed[0]["prompts"]), (&json!("two"), &json!(1)));
    assert_eq!((&listed[1]["id"], &listed[1]["prompts"]), (&json!(id), &json!(0)));
    let one = third.call(1, "attach/open", open("c", json!({ "id": id[id.len() - 8..] }))).await;
    assert_eq!(one["result"]["opened"]["session"], json!(id));
    let mut fourth = attach(it.client).await;
    let none = fourth.call(0, "attach/open", open("d", json!({ "id": "none" }))).await;
    assert_eq!(none["result"]["choose"].as_array().unwrap().len(), 2);
    for (outside, reason) in [("/", ""), ("/nowhere", " (No such file or directory (os error 2))")]
    {
        let refused = fourth.call(1, "attach/open", open("d", json!({ "new": outside }))).await;
        let why = refused["error"]["data"]["details"].as_str().unwrap();
        let remedy = "begin the session in one of these or below, or start the server with `--workspace-root` for \
            another";
        let root = std::fs::canonicalize(here.as_str().unwrap()).unwrap();
        let root = root.display();
        assert_eq!(why, format!("{outside} is not a directory in {root}{reason}: {remedy}"));
    }
}

#[tokio::test]
async fn the_end_of_the_agent_is_said() {
    let mut it = serve(&hello()).await;
    let here = json!(it.home.path().join("workspace"));
    let mut socket = attach(it.client).await;
    socket.call(0, "attach/open", open("a", json!({ "only": here }))).await;
    let pid = rustix::process::Pid::from_raw(it.child.id().unwrap().cast_signed()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    assert_eq!(socket.frame().await, Err(1001));
    timeout(HANG, it.child.wait()).await.unwrap().unwrap();
}

/// Returns the message of a second process that would continue the newest session of the workspace.
async fn refusal(setup: &Setup, home: &std::path::Path) -> String {
    let mut command = setup.command(home);
    let command = command.args(["-c", "-p", "more"]).stdin(std::process::Stdio::null());
    let ran = timeout(HANG, command.output()).await.expect("it does not end").unwrap();
    assert!(!ran.status.success());
    String::from_utf8(ran.stderr).unwrap()
}

/// Attaches as a refusal suggests; returns the opened session.
async fn attach_as_told(client: Client, refusal: &str) -> Value {
    let command = refusal.split('`').nth(1).unwrap_or_else(|| panic!("{refusal}"));
    let words: Vec<_> = command.split(' ').collect();
    let ["tandem", "attach", port, "--session", id] = words[..] else { panic!("{refusal}") };
    assert_eq!(port, client.port.to_string());
    let mut socket = attach(client).await;
    let opened = socket.call(0, "attach/open", open("a", json!({ "id": id }))).await;
    opened["result"]["opened"].clone()
}

#[tokio::test]
async fn whoever_is_refused_a_session_of_another_process_is_told_how_to_join_it() {
    let setup = hello();
    let it = serve(&setup).await;
    for context in ["older", "newer"] {
        let mut sent = prompt("go");
        sent["message"]["contextId"] = json!(context);
        it.client.result("message/send", sent).await;
    }
    let opened = attach_as_told(it.client, &refusal(&setup, it.home.path()).await).await;
    assert_eq!(opened["session"], "newer", "{opened}");
    let mut it = shared(&setup).await;
    let id = it.editor.prompt("from the editor").await;
    it.editor.answer_to(id).await;
    let home = it.editor.workspace().parent().unwrap().to_owned();
    let opened = attach_as_told(it.client, &refusal(&setup, &home).await).await;
    assert_eq!(opened["directory"], json!(it.editor.workspace()), "{opened}");
}
