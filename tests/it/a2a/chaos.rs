//! Chaos: nodes are killed, frozen, drained and started again under load, and so is the database.
//!
//! Runs for a minute, or for `TANDEM_CHAOS_SECONDS`. `TANDEM_CHAOS_SEED` chooses another sequence of events. With
//! `TANDEM_OTHER_VERSION`, every second node is that program, such as an older or newer tandem. This shows an update
//! of one node after another.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::io::{Write as _, stderr};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::{StreamExt as _, stream};
use rustix::process::Signal;
use serde_json::{Value, json};
use tandem_agent::session::{Event, Query, StopReason, Store as _};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep, timeout};

use super::nodes::Node;
use super::server::{ends, first_part, kind};
use crate::agent::Setup;
use test_fakes::postgres::{Cluster, Database};
use test_fakes::store::stored;

const NODES: usize = 3;
const SESSIONS: usize = 300;

/// Time of silence after which a client asks another node. A living node sends something more often.
const SILENCE: Duration = Duration::from_secs(8);

/// Time for all turns to end when nothing happens to the nodes any more.
const CALM: Duration = Duration::from_mins(4);

/// Ports of the nodes, except of those that are known to have ended.
type Ports = Arc<Mutex<[Option<u16>; NODES]>>;

/// A turn as its client has seen it.
#[derive(Default)]
struct SeenTurn {
    session: usize,
    message: String,
    /// Id and content of each event, in the order of their arrival.
    events: Vec<(EventId, Value)>,
    connections: usize,
}

/// Index in the log, and number among the events of that index.
type EventId = (u64, u64);

fn event_id(event: &Value) -> Option<EventId> {
    let id = event["metadata"]["eventId"].as_str()?;
    let (index, n) = id.split_once('.')?;
    Some((index.parse().ok()?, n.parse().ok()?))
}

/// Calls a method whose answer is a stream; `None` if the call is refused. Uses HTTP 1.0, so that the body has no
/// chunks.
async fn call(
    port: u16,
    method: &str,
    params: &Value,
    last: Option<EventId>,
) -> Option<BufReader<TcpStream>> {
    let calling = async {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).await.ok()?;
        let body = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
        let body = body.to_string();
        let mut head = format!("POST / HTTP/1.0\r\nHost: 127.0.0.1:{port}\r\n");
        let _ =
            write!(head, "Content-Type: application/json\r\nContent-Length: {}\r\n", body.len());
        if let Some((index, n)) = last {
            let _ = write!(head, "Last-Event-ID: {index}.{n}\r\n");
        }
        stream.write_all(format!("{head}\r\n{body}").as_bytes()).await.ok()?;
        let (mut stream, mut status, mut is_stream) =
            (BufReader::new(stream), String::new(), false);
        stream.read_line(&mut status).await.ok()?;
        loop {
            let mut line = String::new();
            if stream.read_line(&mut line).await.ok()? == 0 {
                return None;
            }
            match line.trim_end() {
                "" => break,
                line => is_stream |= line.to_ascii_lowercase().contains("text/event-stream"),
            }
        }
        is_stream.then_some(stream)
    };
    timeout(SILENCE, calling).await.ok().flatten()
}

/// Reads the next event of a stream; `None` if the stream ends or is silent.
async fn next(stream: &mut BufReader<TcpStream>) -> Option<Value> {
    loop {
        let mut line = String::new();
        let read = timeout(SILENCE, stream.read_line(&mut line)).await.ok()?;
        // A node that was killed may have cut off its last line.
        if read.ok()? == 0 || !line.ends_with('\n') {
            return None;
        }
        if let Some(data) = line.strip_prefix("data:") {
            return serde_json::from_str::<Value>(data).ok().map(|mut data| data["result"].take());
        }
    }
}

/// Returns the port of some node.
fn anyone(ports: &Ports, rng: &mut fastrand::Rng) -> Option<u16> {
    let all = ports.lock().unwrap();
    let alive: Vec<u16> = all.iter().flatten().copied().collect();
    (!alive.is_empty()).then(|| alive[rng.usize(..alive.len())])
}

/// Sends a prompt, and reads its turn to the end, at each node that continues the turn.
async fn turn(ports: &Ports, rng: &mut fastrand::Rng, session: usize, number: usize) -> SeenTurn {
    let context = format!("c{session}");
    let message = format!("m-{session}-{number}");
    let what = ["talk", "look", "touch"][rng.usize(..3)];
    let text = format!("{what} {session} {number}");
    let prompt = json!({ "message": {
        "kind": "message", "messageId": message, "role": "user", "contextId": context,
        "parts": [{ "kind": "text", "text": text }],
    } });
    let mut seen = SeenTurn { session, message, ..SeenTurn::default() };
    loop {
        let Some(port) = anyone(ports, rng) else {
            sleep(Duration::from_millis(100)).await;
            continue;
        };
        let last = seen.events.last().map(|(id, _)| *id);
        let reply = match last {
            // No event has acknowledged the message. Sending it again begins no second turn, because the message has
            // an id.
            None => call(port, "message/stream", &prompt, None).await,
            Some(_) => call(port, "tasks/resubscribe", &json!({ "id": context }), last).await,
        };
        let Some(mut stream) = reply else {
            sleep(Duration::from_millis(rng.u64(50..300))).await;
            continue;
        };
        seen.connections += 1;
        while let Some(event) = next(&mut stream).await {
            let Some(id) = event_id(&event) else { continue };
            let is_end = ends(&event);
            seen.events.push((id, event));
            if is_end {
                return seen;
            }
        }
    }
}

/// Faults that the nodes and the database have had.
#[derive(Debug, Default)]
struct Blows {
    killed: usize,
    frozen: usize,
    drained: usize,
    crashes: usize,
    freezes: usize,
    /// Kinds of faults still to come in this round.
    round: Vec<u32>,
}

impl Blows {
    /// Returns the next of ten kinds of faults: in random order, each kind once before any kind repeats.
    fn next_kind(&mut self, rng: &mut fastrand::Rng) -> u32 {
        if self.round.is_empty() {
            self.round = (0..10).collect();
            rng.shuffle(&mut self.round);
        }
        self.round.pop().unwrap()
    }
}

struct Stage<'a> {
    setup: Setup,
    /// Program of every second node, if it is another program.
    other: Option<PathBuf>,
    /// Number of nodes that were started.
    started: AtomicUsize,
    home: &'a Path,
    database: &'a Database<'a>,
    ports: Ports,
}

impl Stage<'_> {
    async fn start(&self, slot: usize) -> Node {
        let number = self.started.fetch_add(1, Ordering::Relaxed);
        let program = self.other.clone().filter(|_| number % 2 == 1);
        let setup = Setup { program, ..self.setup.clone() };
        let node = Node::start(&setup, self.home, self.database).await;
        self.ports.lock().unwrap()[slot] = Some(node.client.port);
        node
    }

    fn gone(&self, slot: usize) {
        self.ports.lock().unwrap()[slot] = None;
    }

    /// Causes a fault of one node or of the database, and repairs it.
    async fn strike(
        &self,
        nodes: &mut [Node],
        cluster: &'static Cluster,
        rng: &mut fastrand::Rng,
        blows: &mut Blows,
    ) {
        let slot = rng.usize(..NODES);
        let node = &mut nodes[slot];
        match blows.next_kind(rng) {
            0..4 => {
                node.child.kill().await.unwrap();
                self.gone(slot);
                sleep(Duration::from_millis(rng.u64(..1500))).await;
                nodes[slot] = self.start(slot).await;
                blows.killed += 1;
            }
            4..7 => {
                node.signal(Signal::STOP);
                sleep(Duration::from_millis(rng.u64(500..6000))).await;
                node.signal(Signal::CONT);
                blows.frozen += 1;
            }
            7 => {
                node.signal(Signal::TERM);
                let ended = timeout(Duration::from_secs(40), node.child.wait()).await;
                ended.expect("a node does not end").unwrap();
                self.gone(slot);
                nodes[slot] = self.start(slot).await;
                blows.drained += 1;
            }
            8 => {
                tokio::task::spawn_blocking(|| cluster.crash()).await.unwrap();
                blows.crashes += 1;
            }
            _ => {
                tokio::task::spawn_blocking(|| cluster.freeze()).await.unwrap();
                sleep(Duration::from_millis(rng.u64(500..4000))).await;
                tokio::task::spawn_blocking(|| cluster.thaw()).await.unwrap();
                blows.freezes += 1;
            }
        }
    }
}

/// Checks that the log of each session has each event once and each prompt that was acknowledged once, and
/// that each turn has ended. Returns the number of events, of turns that went on elsewhere, and of turns
/// that were interrupted.
async fn check_stored(database: &Database<'_>, seen: &[SeenTurn]) -> (usize, usize, usize) {
    let store = database.connect().await;
    let listed = store.list(&Query::default()).await.unwrap();
    let (mut keys, mut counts) = (BTreeMap::<String, usize>::new(), (0, 0, 0));
    for listed in listed {
        let events = stored(&store, &listed.head.id).await;
        let mut open = BTreeSet::new();
        let mut last = None;
        for (index, event) in events {
            assert!(last < Some(index), "{}: {index} is there twice", listed.head.id);
            last = Some(index);
            counts.0 += 1;
            match event {
                Event::TurnQueued { turn, tags, .. } => {
                    assert!(open.insert(turn), "{turn:?} was queued twice");
                    *keys.entry(tags.key.unwrap()).or_default() += 1;
                }
                Event::TurnResumed { .. } => counts.1 += 1,
                Event::TurnFinished { turn, reason } => {
                    assert!(open.remove(&turn), "{turn:?} has ended twice");
                    counts.2 += usize::from(reason == StopReason::Interrupted);
                }
                _ => {}
            }
        }
        assert!(open.is_empty(), "{}: turns that have no end: {open:?}", listed.head.id);
    }
    let twice: Vec<_> = keys.iter().filter(|(_, times)| **times > 1).collect();
    assert!(twice.is_empty(), "prompts that began two turns: {twice:?}");
    let missing: Vec<_> = seen.iter().filter(|it| !keys.contains_key(&it.message)).collect();
    assert!(missing.is_empty(), "{} acknowledged prompts are missing", missing.len());
    counts
}

/// Checks that a client has seen exactly the events that a later reader of the turn gets.
async fn check_seen(ports: &Ports, mut rng: fastrand::Rng, seen: &SeenTurn) {
    let SeenTurn { session, message, events, .. } = seen;
    let ids: Vec<_> = events.iter().map(|(id, _)| *id).collect();
    assert!(ids.is_sorted_by(|a, b| a < b), "{message}: an event came twice: {ids:?}");
    let (first, task) = (ids[0], json!({ "id": format!("c{session}") }));
    let begun = Instant::now();
    let again = loop {
        assert!(begun.elapsed() < CALM, "{message}: nobody says what happened");
        let port = anyone(ports, &mut rng).unwrap();
        let reply = call(port, "tasks/resubscribe", &task, Some(first)).await;
        let Some(mut stream) = reply else {
            sleep(Duration::from_millis(50)).await;
            continue;
        };
        let mut again = Vec::new();
        while let Some(event) = next(&mut stream).await {
            again.extend(event_id(&event).map(|id| (id, event)));
            if again.last().is_some_and(|(id, _)| id >= ids.last().unwrap()) {
                break;
            }
        }
        if again.last().is_some_and(|(id, _)| id >= ids.last().unwrap()) {
            break again;
        }
    };
    let said = |events: &[(EventId, Value)]| -> Vec<String> {
        // Progress of a call is sent live and not stored, so its loss is no fault.
        let lasts = |event: &Value| first_part(event)["data"]["status"] != "EXECUTING";
        let all = events.iter().filter(|(_, event)| lasts(event));
        all.map(|((index, n), event)| format!("{index}.{n} {} {}", kind(event), first_part(event)))
            .collect()
    };
    assert_eq!(said(&events[1..]), said(&again), "{message}: not what there is");
}

fn setup() -> Setup {
    let words = |word: &str| json!({ "repeat": { "text": format!("{word}{{n}} "), "times": 3 } });
    let slowly = |word: &str| {
        let steps = (0..6).flat_map(|n| [words(&format!("{word}{n}.")), json!({ "delay": 150 })]);
        steps.collect::<Vec<_>>()
    };
    let call = |name: &str, args: Value| json!({ "call": { "name": name, "args": args } });
    let with = |word: &str, call: Value| [slowly(word), vec![call]].concat();
    let read = call("read_file", json!({ "file_path": "a.txt" }));
    let touch = call("run_shell_command", json!({ "command": "echo ran >> ran; sleep 0.3" }));
    Setup::script(vec![
        json!({ "when": "talk", "answers": [slowly("a")] }),
        json!({ "when": "look", "answers": [with("b", read), slowly("c")] }),
        json!({ "when": "touch", "answers": [with("d", touch), slowly("e")] }),
    ])
    .file("a.txt", "a file")
    .without_sandbox()
    .arg("--drain-timeout=10")
}

#[tokio::test]
#[ignore = "takes a minute: cargo test --test it chaos -- --ignored --nocapture"]
async fn nothing_is_lost_or_doubled_when_nodes_and_the_database_are_killed_and_frozen() {
    let number = |name: &str| std::env::var(name).ok().and_then(|it| it.parse::<u64>().ok());
    let seconds = number("TANDEM_CHAOS_SECONDS").unwrap_or(60);
    let seed = number("TANDEM_CHAOS_SEED").unwrap_or(14);
    let sessions = number("TANDEM_CHAOS_SESSIONS").map_or(SESSIONS, |it| it.try_into().unwrap());
    let _ = writeln!(stderr(), "TANDEM_CHAOS_SEED={seed}, {sessions} sessions, {seconds} s");
    let Some(cluster) = Cluster::start() else { return };
    // The cluster is needed until the process of the tests ends.
    let cluster: &'static Cluster = Box::leak(Box::new(cluster));
    let (database, home) = (cluster.database(), TempDir::new().unwrap());
    let ports = Ports::default();
    let stage = Stage {
        setup: setup(),
        other: std::env::var_os("TANDEM_OTHER_VERSION").map(PathBuf::from),
        started: AtomicUsize::new(0),
        home: home.path(),
        database: &database,
        ports: Arc::clone(&ports),
    };
    let mut nodes = Vec::new();
    for slot in 0..NODES {
        nodes.push(stage.start(slot).await);
    }
    let end = Instant::now() + Duration::from_secs(seconds);
    let clients: Vec<_> = (0..sessions)
        .map(|session| {
            let (ports, mut rng) =
                (Arc::clone(&ports), fastrand::Rng::with_seed(seed + session as u64));
            tokio::spawn(async move {
                let mut turns = Vec::new();
                sleep(Duration::from_millis(rng.u64(..10_000))).await;
                while Instant::now() < end {
                    turns.push(turn(&ports, &mut rng, session, turns.len()).await);
                    sleep(Duration::from_millis(rng.u64(..15_000))).await;
                }
                turns
            })
        })
        .collect();
    let (mut rng, mut blows) = (fastrand::Rng::with_seed(seed), Blows::default());
    while Instant::now() < end {
        sleep(Duration::from_millis(rng.u64(300..2500))).await;
        stage.strike(&mut nodes, cluster, &mut rng, &mut blows).await;
    }
    let mut turns_seen = Vec::new();
    for client in clients {
        let left = || database.sql("select id, owner, epoch, next from tandem.session where busy");
        let turns = timeout(CALM, client).await;
        turns_seen
            .extend(turns.unwrap_or_else(|_| panic!("a turn has no end: {}", left())).unwrap());
    }
    let (events, resumed, interrupted) = check_stored(&database, &turns_seen).await;
    let checks = turns_seen.iter().map(|turn| check_seen(&ports, rng.fork(), turn));
    stream::iter(checks).buffer_unordered(16).collect::<()>().await;
    let said =
        turns_seen.iter().filter(|it| it.events.last().unwrap().1["status"]["state"] == "failed");
    let connections: usize = turns_seen.iter().map(|it| it.connections).sum();
    let _ = writeln!(
        stderr(),
        "{blows:?}; {} turns over {connections} streams, {events} events; lost 0, doubled 0, missing 0; \
         went on {resumed} times, interrupted {interrupted}, of which clients were told {}",
        turns_seen.len(),
        said.count(),
    );
    assert!(blows.killed + blows.frozen > 0 && !turns_seen.is_empty());
}
