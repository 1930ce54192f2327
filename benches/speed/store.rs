//! The store of sessions: what an event, a list and a stored conversation cost.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tandem_agent::session::{
    Batch, Event, Head, PromptPart, Query, ResumePolicy, SessionStarted, Store, StoredSession,
    TurnId,
};
use tandem_store::FileStore;
use tempfile::TempDir;
use tokio::runtime::Runtime;

use crate::process::{PROMPT, Process, tandem};
use crate::stream::serve;
use crate::{median, round};

const EVENTS: usize = 20_000;

/// Events of a session that is loaded.
pub(crate) const LOADED: usize = 10_000;

/// Sessions in a list.
const SESSIONS: usize = 10_000;

/// Events of a line: about what a fast model says in the time between two writes.
const LINE: usize = 25;

fn runtime() -> Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

fn head(id: &str) -> Head {
    Head {
        id: id.to_owned(),
        created: 1,
        directory: "/p".into(),
        title: "a prompt of some words".to_owned(),
        by: "tandem".to_owned(),
        served: false,
        owner: None,
        context: None,
        from: None,
        git: None,
        tag: None,
    }
}

pub(crate) fn id(n: usize) -> String {
    format!("0199f2c4-0000-7000-8000-{n:012}")
}

fn text(n: usize) -> Arc<Event> {
    Arc::new(Event::Text(format!("some words {n}, ")))
}

/// Lines of chunks from an index on.
fn lines(first: usize, events: usize) -> Vec<Batch> {
    let line = |first: usize, end: usize| Batch {
        first,
        events: (first..end).map(|n| (5, text(n))).collect(),
        summary: None,
    };
    let end = first + events;
    (first..end).step_by(LINE).map(|at| line(at, end.min(at + LINE))).collect()
}

/// A store with a session of so many chunks.
fn stored(events: usize) -> (TempDir, FileStore) {
    let dir = TempDir::new().unwrap();
    let store = FileStore::new(dir.path().to_owned());
    write(&store, Path::new("/p"), |first| lines(first, events));
    (dir, store)
}

/// Writes a session that works in a directory and has [`LOADED`] events after its first: one long
/// answer, or short turns with a call each. Returns its log.
pub(crate) fn write_session(root: &Path, directory: &Path, short_turns: bool) -> PathBuf {
    let store = FileStore::new(root.to_owned());
    write(&store, directory, |first| if short_turns { turns(first) } else { lines(first, LOADED) });
    root.join(id(0)).join("log.jsonl")
}

/// Stores a session that has begun its first turn, and what follows from an index on.
fn write(store: &FileStore, directory: &Path, rest: impl FnOnce(usize) -> Vec<Batch>) {
    runtime().block_on(async {
        let head = Head { directory: directory.to_owned(), ..head(&id(0)) };
        let mut lease = store.create(&head).await.unwrap();
        let started = SessionStarted {
            version: 1,
            id: id(0),
            directory: directory.to_owned(),
            roots: Vec::new(),
            model: "m".to_owned(),
            mode: tandem_approval::Mode::Default,
            by: String::new(),
        };
        let mut events = vec![(1, Arc::new(Event::SessionStarted(Arc::new(started))))];
        events.extend(begun(1).map(|event| (1, Arc::new(event))));
        let next = events.len();
        let first = Batch { first: 0, events, summary: None };
        lease.append(vec![first]).await.unwrap();
        lease.append(rest(next)).await.unwrap();
    });
}

/// The beginning of a turn.
fn begun(turn: u64) -> [Event; 2] {
    let turn = TurnId(turn);
    let queued = Event::TurnQueued {
        turn,
        prompt: vec![PromptPart::Text("a prompt of some words".to_owned())],
        origin: tandem_agent::session::Origin::Editor,
        tags: tandem_agent::session::PromptTags::default(),
    };
    [queued, Event::TurnStarted { turn }]
}

/// Turns with an answer, a call and another answer, from an index on.
fn turns(first: usize) -> Vec<Batch> {
    let event = |event: Value| serde_json::from_value::<Event>(event).unwrap();
    let finished = || json!({ "AnswerFinished": { "calls": [], "reason": "Stop", "usage": { "input": 1000, "cached": 0, "output": 20, "thoughts": 0 }, "native": null } });
    let mut events = Vec::new();
    for turn in 1.. {
        let call = format!("c{turn}");
        let started = json!({ "CallStarted": {
            "call": { "id": call, "name": "read_file", "args": { "file_path": "src/main.rs" } },
            "caller": "Model", "kind": "Read", "access": "Read", "question": null,
            "summary": { "label": "src/main.rs", "locations": [], "diff": null },
        } });
        let output = "some line of a file\n".repeat(20);
        let ended =
            json!({ "Done": { "text": output, "media": [], "shown": { "Output": output } } });
        events.extend([
            event(finished()),
            event(started),
            event(json!({ "CallFinished": { "call": call, "outcome": ended } })),
            Event::Text("An answer of some words.".to_owned()),
            event(finished()),
            event(json!({ "TurnFinished": { "turn": turn, "reason": "EndTurn" } })),
        ]);
        if events.len() >= LOADED {
            break;
        }
        events.extend(begun(turn + 1));
    }
    let events: Vec<_> = events.into_iter().map(|event| (5, Arc::new(event))).collect();
    let batch = |(n, events): (usize, &[(i64, Arc<Event>)])| Batch {
        first: first + n * LINE,
        events: events.to_vec(),
        summary: None,
    };
    events.chunks(LINE).enumerate().map(batch).collect()
}

/// Microseconds to add an event, against writing the same bytes straight to a file.
pub(crate) fn append() -> Value {
    let (mut ours, mut floor) = (f64::MAX, f64::MAX);
    for _ in 0..5 {
        let dir = TempDir::new().unwrap();
        let store = FileStore::new(dir.path().to_owned());
        ours = ours.min(runtime().block_on(async {
            let mut lease = store.create(&head(&id(0))).await.unwrap();
            let batches = lines(0, EVENTS);
            let before = Instant::now();
            for batch in batches {
                lease.append(vec![batch]).await.unwrap();
            }
            before.elapsed().as_secs_f64()
        }));
        let log = fs::read(dir.path().join(id(0)).join("log.jsonl")).unwrap();
        let mut copy = fs::File::create(dir.path().join("copy")).unwrap();
        let before = Instant::now();
        for line in log.split_inclusive(|byte| *byte == b'\n') {
            std::io::Write::write_all(&mut copy, line).unwrap();
        }
        floor = floor.min(before.elapsed().as_secs_f64());
    }
    json!({
        "events": EVENTS,
        "events a write": LINE,
        "an event, us": round(ours / EVENTS as f64 * 1e6),
        "straight to a file, us": round(floor / EVENTS as f64 * 1e6),
        "ratio": round(ours / floor),
    })
}

/// Seconds to load a stored session, against reading and parsing its lines.
pub(crate) fn load() -> Value {
    let (dir, store) = stored(LOADED);
    let log = dir.path().join(id(0)).join("log.jsonl");
    let store: Arc<dyn Store> = Arc::new(store);
    let (mut ours, mut floor) = (f64::MAX, f64::MAX);
    for _ in 0..10 {
        let before = Instant::now();
        runtime().block_on(async {
            StoredSession::open(&store, &id(0), 64 << 20, ResumePolicy::Never).await.unwrap();
        });
        ours = ours.min(before.elapsed().as_secs_f64());
        let before = Instant::now();
        let text = fs::read_to_string(&log).unwrap();
        for line in text.lines() {
            serde_json::from_str::<Value>(line).unwrap();
        }
        floor = floor.min(before.elapsed().as_secs_f64());
    }
    json!({
        "events": LOADED,
        "ms": round(ours * 1e3),
        "parsing alone, ms": round(floor * 1e3),
        "ratio": round(ours / floor),
    })
}

/// Writes sessions of a turn each.
fn write_sessions(root: &Path, count: usize) {
    for n in 0..count {
        let dir = root.join(id(n));
        fs::create_dir_all(&dir).unwrap();
        let id = id(n);
        let text = "some words ".repeat(20);
        let log = format!(
            "{{\"tandem\":1,\"id\":\"{id}\",\"t\":1,\"dir\":\"/p\",\"title\":\"prompt {n}\"}}\n\
             {{\"i\":0,\"t\":1,\"e\":[{{\"Text\":\"{text}\"}}]}}\n\
             {{\"i\":1,\"t\":1,\"e\":[{{\"TurnFinished\":{{\"turn\":1,\"reason\":\"EndTurn\"}}}}],\"s\":{{\"turns\":1}}}}\n"
        );
        fs::write(dir.join("log.jsonl"), log).unwrap();
    }
}

/// Milliseconds to list many sessions, against asking for their names and sizes.
pub(crate) fn list() -> Value {
    let dir = TempDir::new().unwrap();
    write_sessions(dir.path(), SESSIONS);
    let store = FileStore::new(dir.path().to_owned());
    let (mut all, mut newest, mut floor) = (f64::MAX, f64::MAX, f64::MAX);
    for _ in 0..5 {
        let list = |most| {
            let before = Instant::now();
            let query = Query { most, ..Query::default() };
            let listed = runtime().block_on(store.list(&query)).unwrap();
            assert_eq!(listed.len(), most.unwrap_or(SESSIONS));
            before.elapsed().as_secs_f64()
        };
        all = all.min(list(None));
        newest = newest.min(list(Some(50)));
        let before = Instant::now();
        let sizes = fs::read_dir(dir.path())
            .unwrap()
            .map(|entry| fs::metadata(entry.unwrap().path().join("log.jsonl")).unwrap().len());
        assert!(sizes.sum::<u64>() > 0);
        floor = floor.min(before.elapsed().as_secs_f64());
    }
    json!({
        "sessions": SESSIONS,
        "all, ms": round(all * 1e3),
        "newest 50, ms": round(newest * 1e3),
        "names and sizes alone, ms": round(floor * 1e3),
        "ratio": round(all / floor),
    })
}

/// CPU of a chunk on its way from the model to the editor, with a store and without.
pub(crate) fn chunks() -> Value {
    let base = serve(None);
    let cost = |sessions: Option<&str>| {
        let mut vars = vec![("GEMINI_API_KEY", "none"), ("GOOGLE_GEMINI_BASE_URL", &*base)];
        vars.extend(sessions.map(|dir| ("TANDEM_SESSIONS", dir)));
        let mut agent = tandem(&["--model", "gemini-3.8-flash"], &vars);
        agent.initialize();
        let (mut seconds, mut cpu) = (f64::MAX, f64::MAX);
        for _ in 0..6 {
            let before = (Instant::now(), agent.cpu());
            agent.send(PROMPT);
            agent.until(r#"{"jsonrpc":"2.0","id":"prompt","result""#);
            seconds = seconds.min(before.0.elapsed().as_secs_f64());
            cpu = cpu.min(agent.cpu() - before.1);
        }
        (seconds, cpu / EVENTS as f64 * 1e6)
    };
    let (with, without) = (cost(None), cost(Some("")));
    json!({
        "with a store, CPU a chunk, us": round(with.1),
        "without, CPU a chunk, us": round(without.1),
        "CPU ratio": round(with.1 / without.1),
        "with a store, seconds": round(with.0 * 1e3) / 1e3,
        "without, seconds": round(without.0 * 1e3) / 1e3,
    })
}

/// Start and memory with many stored sessions, and with none.
pub(crate) fn start() -> Value {
    let dir = TempDir::new().unwrap();
    write_sessions(dir.path(), SESSIONS);
    let many = dir.path().to_str().unwrap();
    let begin = |sessions: &str| {
        let before = Instant::now();
        let mut process = tandem(&[], &[("GEMINI_API_KEY", "none"), ("TANDEM_SESSIONS", sessions)]);
        process.initialize();
        (before.elapsed().as_secs_f64() * 1e6, process.memory("VmRSS"))
    };
    let (mut with, mut without) = (Vec::new(), Vec::new());
    for _ in 0..100 {
        with.push(begin(many));
        without.push(begin("none"));
    }
    let times = |all: &[(f64, u64)]| median(all.iter().map(|(time, _)| *time).collect());
    let memory = |all: &[(f64, u64)]| all.iter().map(|(_, memory)| *memory).min().unwrap();
    json!({
        "sessions": SESSIONS,
        "with them, us": times(&with).round(),
        "without, us": times(&without).round(),
        "ratio": round(times(&with) / times(&without)),
        "with them, KiB": memory(&with),
        "without, KiB": memory(&without),
    })
}

/// Time between two chunks of a slow model.
const SLOW: u64 = 20;

const SLOW_CHUNKS: usize = 100;

/// Milliseconds between the chunks of a slow model as the editor sees them, with a store and
/// without, and from the prompt to the first chunk.
pub(crate) fn slow() -> Value {
    let mut steps = Vec::new();
    for n in 0..SLOW_CHUNKS {
        steps.push(json!({ "delay": SLOW }));
        steps.push(json!({ "text": format!("words {n}, ") }));
    }
    let script = json!({ "when": "", "answers": [steps] }).to_string();
    let home = TempDir::new().unwrap();
    let path = home.path().join("script.jsonl");
    fs::write(&path, script).unwrap();
    let model = format!("replay:{}", path.display());
    let measure = |vars: &[(&str, &str)]| {
        let mut agent = tandem(&["--model", &model], vars);
        agent.initialize();
        // The first turn makes the session's file.
        run(&mut agent);
        let (first, gaps) = run(&mut agent);
        let longest = gaps.iter().copied().fold(0.0, f64::max);
        (first, median(gaps), longest)
    };
    let (with, without) = (measure(&[]), measure(&[("TANDEM_SESSIONS", "")]));
    let shown = |(first, gap, longest): (f64, f64, f64)| json!({ "first chunk, ms": round(first), "gap, ms": round(gap), "longest gap, ms": round(longest) });
    json!({
        "the model's gap, ms": SLOW,
        "with a store": shown(with),
        "without": shown(without),
        "first chunk later by, ms": round(with.0 - without.0),
    })
}

/// Runs a turn; milliseconds to its first chunk, and between the others.
fn run(agent: &mut Process) -> (f64, Vec<f64>) {
    let begun = Instant::now();
    agent.send(PROMPT);
    let mut times: Vec<Duration> = Vec::new();
    for _ in 0..SLOW_CHUNKS {
        agent.line();
        times.push(begun.elapsed());
    }
    agent.until(r#"{"jsonrpc":"2.0","id":"prompt","result""#);
    let gaps = times
        .windows(2)
        .map(|two| two[1].checked_sub(two[0]).unwrap().as_secs_f64() * 1e3)
        .collect();
    (times[0].as_secs_f64() * 1e3, gaps)
}
