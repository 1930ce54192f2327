//! An agent that is killed at any moment: nothing that was shown is lost, no call stays open, no process remains,
//! and the conversation continues.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use futures::stream::{self, BoxStream, StreamExt as _};
use serde_json::{Value, json};
use tandem_agent::session::{Event, Origin, Parts, Query, Session, Store as _};
use tandem_agent::sessions::{SessionLimits, SessionRequest, Sessions};
use tandem_model::replay::Replay;
use tandem_model::{Chunk, Error, Message, Model, Prompt};
use tandem_store::FileStore;
use tempfile::TempDir;
use tokio::net::unix::pipe;
use tokio::time::{sleep, timeout};

use crate::agent::{Agent, Setup, text as shown_text};
use crate::fakes::{is_end, parts, text, until};
use crate::family::{is_gone, make_fifo};
use test_fakes::store::{ends_everything, stored};

/// Time longer than any silence of the script's agent, unless it waits for an answer.
const SILENCE: Duration = Duration::from_millis(250);

/// Approximate number of lines of the whole script.
const LINES: usize = 110;

const PROMPTS: [&str; 5] = ["look", "change", "begin", "/compress", "talk"];

fn call(name: &str, args: Value) -> Value {
    json!({ "call": { "name": name, "args": args } })
}

/// Returns a conversation with all built-in tools that need no network. Each word of the model begins with `#`, and
/// is said once.
fn script() -> Setup {
    let words = |word: &str, times: usize| json!({ "repeat": { "text": format!("#{word}-{{n}} "), "times": times } });
    let todos = json!([{ "description": "one", "status": "in_progress" }]);
    let look = json!([
        [{ "thought": "hm" }, words("look", 20), { "delay": 5 },
         call("read_file", json!({ "file_path": "a.txt" })),
         call("read_file", json!({ "file_path": "b.txt" })),
         call("list_directory", json!({ "dir_path": "." })),
         call("glob", json!({ "pattern": "*.txt" })),
         call("grep_search", json!({ "pattern": "line" })),
         call("read_many_files", json!({ "include": ["*.txt"] }))],
        [words("seen", 3), call("write_todos", json!({ "todos": todos })),
         call("save_memory", json!({ "fact": "It is a test." }))],
        [words("looked", 3)],
    ]);
    let change = json!([
        [words("change", 3),
         call("write_file", json!({ "file_path": "new.txt", "content": "new\n" })),
         call("replace", json!({ "file_path": "a.txt", "instruction": "shout",
                                 "old_string": "line two", "new_string": "LINE TWO" }))],
        [call("run_shell_command",
              json!({ "command": "exec 3>family; echo ran >> ran; (sleep 1000 &); sleep 0.02" }))],
        [words("changed", 3), { "delay": 10 }, words("later", 3)],
    ]);
    let begin = json!([
        [call(
            "run_shell_command",
            json!({ "command": "exec 3>family; echo begun; sleep 1000",
                                           "is_background": true, "delay_ms": 5 })
        )],
        [
            call("list_background_processes", json!({})),
            call("read_background_output", json!({ "pid": 1 }))
        ],
        [words("begun", 3)],
    ]);
    let summary = "<state_snapshot>\nA test is going on.\n</state_snapshot>";
    Setup::script(vec![
        json!({ "when": "<conversation>", "answers": [[{ "delay": 10 }, { "text": summary }]] }),
        json!({ "when": "go on", "answers": [[words("on", 1)]] }),
        json!({ "when": "look", "answers": look }),
        json!({ "when": "change", "answers": change }),
        json!({ "when": "begin", "answers": begin }),
        json!({ "when": "talk", "answers": [[words("talk", 10), { "delay": 20 }, words("more", 10)]] }),
    ])
    .file("a.txt", "line one\nline two\n")
    .file("b.txt", "another line\n")
}

/// Messages that came over the pipe.
#[derive(Debug, Default)]
struct Shown {
    messages: Vec<Value>,
}

impl Shown {
    fn count(&self, is: impl Fn(&Value) -> bool) -> usize {
        self.messages.iter().filter(|message| is(message)).count()
    }

    /// Returns the number of calls that the editor was shown or asked about.
    fn calls(&self) -> usize {
        self.count(|it| {
            it["method"] == "pushToolCall" || it["method"] == "requestToolCallConfirmation"
        })
    }

    /// Returns the number of calls whose end the editor was shown.
    fn ends(&self) -> usize {
        let has_ended = |it: &Value| matches!(it.as_str(), Some("finished" | "error"));
        self.count(|it| it["method"] == "updateToolCall" && has_ended(&it["params"]["status"]))
    }

    /// Returns the number of answered prompts.
    fn turns(&self) -> usize {
        self.count(|it| it["method"].is_null())
    }

    /// Returns the words of the model that the editor was shown.
    fn words(&self) -> Vec<String> {
        words(&shown_text(&self.messages))
    }
}

fn words(text: &str) -> Vec<String> {
    let word = |rest: &str| rest.split_whitespace().next().map(ToOwned::to_owned);
    text.split('#').skip(1).filter_map(word).collect()
}

/// Plays the editor until a random number of lines has come, or the agent is silent; then waits a moment more.
async fn play(agent: &mut Agent, rng: &mut fastrand::Rng) -> Shown {
    let mut shown = Shown::default();
    let lines = rng.usize(1..LINES);
    // In one run of six the editor answers no question, so that the agent is killed with an open question.
    let answers = rng.u8(..6) > 0;
    let mut prompts = PROMPTS.into_iter();
    let mut prompt = agent.prompt(prompts.next().unwrap()).await;
    let mut calls = 0;
    while shown.messages.len() < lines {
        let Ok(line) = timeout(SILENCE, agent.lines.next_line()).await else { break };
        let message: Value = serde_json::from_str(&line.unwrap().unwrap()).unwrap();
        shown.messages.push(message.clone());
        match message["method"].as_str() {
            None if message["id"] == prompt => match prompts.next() {
                Some(next) => prompt = agent.prompt(next).await,
                None => break,
            },
            None => {}
            Some("requestToolCallConfirmation") if !answers => {}
            Some(method @ ("pushToolCall" | "requestToolCallConfirmation")) => {
                calls += 1;
                let asks = method != "pushToolCall";
                let outcome = asks.then_some("allow");
                agent.answer(&message, json!({ "id": calls, "outcome": outcome })).await;
            }
            Some(_) => agent.answer(&message, Value::Null).await,
        }
    }
    sleep(Duration::from_micros(rng.u64(..15_000))).await;
    agent.child.start_kill().unwrap();
    agent.exit().await;
    // Lines that were in the pipe have been shown, too. The last line may be cut off.
    while let Some(line) = agent.line().await {
        shown.messages.extend(serde_json::from_str::<Value>(&line).ok());
    }
    shown
}

/// Kills an agent, and checks what it has left.
async fn killed(seed: u64) {
    let mut rng = fastrand::Rng::with_seed(seed);
    let home = TempDir::new().unwrap();
    let setup = script();
    let mut command = setup.command(home.path());
    let workspace = home.path().join("workspace");
    make_fifo(&workspace.join("family"));
    let family = pipe::OpenOptions::new().open_receiver(workspace.join("family")).unwrap();
    let mut agent = Agent::of(command.spawn().unwrap(), home);
    let shown = play(&mut agent, &mut rng).await;
    // The test opens the pipe for a moment. If the kill came before the first command, the pipe would otherwise
    // never have an end.
    drop(fs::OpenOptions::new().write(true).open(workspace.join("family")).unwrap());
    is_gone(family).await;

    let home = agent.workspace().parent().unwrap().to_owned();
    let store = Arc::new(FileStore::new(home.join(".local/share/tandem/sessions")));
    let listed = store.list(&Query::default()).await.unwrap();
    let Some(session) = listed.first() else {
        let nothing = shown.calls() + shown.turns() + shown.words().len();
        assert_eq!(nothing, 0, "seed {seed}: nothing is stored of {shown:?}");
        return;
    };
    let id = session.head.id.clone();
    let events = stored(&*store, &id).await;
    compare(seed, &shown, &events, &workspace);
    if rng.bool() {
        go_on_in_process(Arc::clone(&store), &id).await;
    }
    go_on(&setup, &home, seed).await;
    ends_everything(&stored(&*store, &id).await);
    assert_eq!(store.list(&Query::default()).await.unwrap().len(), 1, "seed {seed}");
}

/// Checks that all that was shown, and all that was done, is in the log.
fn compare(seed: u64, shown: &Shown, events: &[(usize, Event)], workspace: &Path) {
    let count = |is: fn(&Event) -> bool| events.iter().filter(|(_, event)| is(event)).count();
    let said: String = events
        .iter()
        .filter_map(|(_, event)| match event {
            Event::Text(text) => Some(text.as_str()),
            _ => None,
        })
        .collect();
    let on_wire = shown.words();
    assert_eq!(words(&said)[..on_wire.len()], on_wire, "seed {seed}");
    let calls = count(|it| matches!(it, Event::CallStarted(_)));
    assert!(calls >= shown.calls(), "seed {seed}: {calls} calls of {}", shown.calls());
    let ends = count(|it| matches!(it, Event::CallFinished { .. }));
    assert!(ends >= shown.ends(), "seed {seed}: {ends} ends of {}", shown.ends());
    let turns = count(is_end);
    assert!(turns >= shown.turns(), "seed {seed}: {turns} turns of {}", shown.turns());
    let changes = |name: &str| {
        let is_it = |event: &Event| matches!(event, Event::FileChanged { change, .. } if change.path.ends_with(name));
        events.iter().any(|(_, event)| is_it(event))
    };
    assert!(!workspace.join("new.txt").exists() || changes("new.txt"), "seed {seed}");
    let is_changed = fs::read_to_string(workspace.join("a.txt")).unwrap().contains("LINE TWO");
    assert!(!is_changed || changes("a.txt"), "seed {seed}");
    let is_run =
        |it: &Event| matches!(it, Event::CallStarted(it) if it.call.name == "run_shell_command");
    let has_run = workspace.join("ran").exists();
    assert!(!has_run || events.iter().any(|(_, it)| is_run(it)), "seed {seed}");
}

/// A model that accepts only conversations that every provider accepts.
struct Strict(Replay);

impl Model for Strict {
    fn id(&self) -> &'static str {
        "strict"
    }

    fn ready(&self) -> Result<(), Error> {
        Ok(())
    }

    fn stream(&self, prompt: Prompt) -> BoxStream<'static, Result<Chunk, Error>> {
        results_follow_calls(&prompt.messages);
        self.0.stream(prompt)
    }
}

/// Checks that behind each answer with calls there are their results, and none anywhere else.
fn results_follow_calls(messages: &[Arc<Message>]) {
    let calls = |at: usize| match messages.get(at).map(|message| &**message) {
        Some(Message::Assistant(said)) => said.calls.iter().map(|it| it.id.clone()).collect(),
        _ => Vec::new(),
    };
    for (at, message) in messages.iter().enumerate().skip(1) {
        let results: Vec<_> = match &**message {
            Message::Results(results) => results.iter().map(|it| it.call.clone()).collect(),
            _ => Vec::new(),
        };
        assert_eq!(results, calls(at - 1), "{messages:#?}");
    }
    assert!(calls(messages.len() - 1).is_empty(), "{messages:#?}");
}

/// Loads the session in this process, and continues it.
async fn go_on_in_process(store: Arc<FileStore>, id: &str) {
    let make = |_: &SessionRequest, storage| {
        let script = json!({ "when": "", "answers": [[{ "text": "fine" }]] }).to_string();
        let model = Arc::new(Strict(Replay::from_script(&script).unwrap()));
        Ok(Session::new(Parts { storage, ..parts(model) }))
    };
    let limits = SessionLimits { loaded: 1, idle: None, log_bytes: 1 << 20 };
    let sessions = Sessions::with_store(Arc::new(make), limits, Some(store));
    let loaded = sessions.load(id, Vec::new(), |_| ()).await.unwrap().unwrap();
    let session = loaded.session();
    assert_eq!(session.turns().running(), None);
    let mut log = session.events(session.position());
    session.prompt(text("and now?"), Origin::Editor);
    let events = until(&mut log, is_end).await;
    assert!(events.iter().any(|it| **it == Event::Text("fine".to_owned())), "{events:?}");
    sessions.close("the test is over");
    sessions.wait_all_stored().await;
}

/// Starts the agent again in this home, and has the conversation go on.
async fn go_on(setup: &Setup, home: &Path, seed: u64) {
    let mut command = setup.command(home);
    let child = command.arg("--continue").spawn().unwrap();
    let mut agent = Agent::of(child, TempDir::new().unwrap());
    let prompt = agent.prompt("go on").await;
    let messages = agent.until_answered(prompt, "allow").await;
    assert_eq!(messages.last().unwrap()["result"], Value::Null, "seed {seed}: {messages:?}");
    assert_eq!(words(&shown_text(&messages)), ["on-0"], "seed {seed}");
    let (_, status) = agent.hang_up().await;
    assert!(status.success(), "seed {seed}");
}

#[tokio::test]
async fn whenever_the_agent_is_killed_all_that_was_shown_is_there_and_it_goes_on() {
    let cases = std::env::var("KILL_CASES").map_or(40, |cases| cases.parse().unwrap());
    let first = std::env::var("KILL_SEED").map_or(0, |seed| seed.parse().unwrap());
    stream::iter(first..first + cases).for_each_concurrent(4, killed).await;
}
