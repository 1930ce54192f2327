//! Sessions in a Postgres database: the writer beside pgbench, very many idle sessions, and the takeover of those
//! of a node that is killed.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::thread::sleep;
use std::time::{Duration, Instant};

use futures::StreamExt as _;
use futures::future::join_all;
use serde_json::{Value, json};
use tandem_agent::session::{Batch, Event, Head, Query, SharedStore as _, Store as _, Stored};
use tandem_store::PostgresStore;
use tempfile::TempDir;
use tokio::runtime::Runtime;

use crate::process::{self, Process};
use crate::{median, round};
use test_fakes::postgres::{Cluster, Database};
use test_support::needs::postgres_programs;

/// Events of a batch: about what a fast model says in the time between two writes.
const EVENTS: usize = 25;

/// Time for which is written.
const TIME: Duration = Duration::from_secs(2);

/// Number of times that both are measured; the better one of each counts.
const ROUNDS: usize = 2;

/// Number of sessions that are read at another node while they grow.
const READ: usize = 10;

/// Numbers of sessions that nobody uses.
const IDLE: [usize; 2] = [10_000, 100_000];

/// Number of sessions of a node that is killed.
const TAKEN: usize = 300;

const NO_POSTGRES: &str = "there is no /usr/lib/postgresql/*/bin: install the package postgresql";

fn runtime() -> Runtime {
    tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap()
}

fn head() -> Head {
    Head {
        id: uuid::Uuid::now_v7().to_string(),
        created: 1,
        directory: "/p".into(),
        title: "a prompt of some words".to_owned(),
        by: "tandem".to_owned(),
        served: true,
        owner: None,
        context: None,
        from: None,
        tag: None,
        git: None,
    }
}

/// A batch of chunks from an index on, of which the first says how late it is, in microseconds.
fn batch(first: usize, at: Instant) -> Batch {
    let text = |n: usize| match n {
        0 => format!("{:012}", at.elapsed().as_micros()),
        n => format!("some words {n}, "),
    };
    let events = (0..EVENTS).map(|n| (5, Arc::new(Event::Text(text(n))))).collect();
    Batch { first, events, summary: None }
}

/// What came of writing for some time.
struct Written {
    events: f64,
    /// Milliseconds until a batch was acknowledged, and until another node had read one.
    acknowledged: Vec<f64>,
    read: Vec<f64>,
}

/// For 1 to 500 sessions at once: events a second that a node writes, against pgbench with a connection for
/// each session and the same statement; and the time until another node has read them.
pub(crate) fn writer() -> Value {
    let Some(cluster) = postgres_programs().map(Cluster::of) else { return json!(NO_POSTGRES) };
    let mut result = json!({ "events a batch": EVENTS });
    for sessions in [1, 50, 500] {
        let database = cluster.database();
        let mut ours: Option<Written> = None;
        let mut theirs = (0.0, 0.0);
        for round in 0..ROUNDS {
            let written = runtime().block_on(write(&database, sessions));
            ours = ours.filter(|ours| ours.events > written.events).or(Some(written));
            let (events, latency) = pgbench(&cluster, &database, sessions, round);
            theirs = if events > theirs.0 { (events, latency) } else { theirs };
        }
        let Written { events, acknowledged, read } = ours.unwrap();
        result[format!("{sessions} sessions")] = json!({
            "events a second": events.round(),
            "pgbench, events a second": theirs.0.round(),
            "ratio": round(events / theirs.0),
            "acknowledged, ms, p50": of(&acknowledged, 50),
            "acknowledged, ms, p99": of(&acknowledged, 99),
            "pgbench, acknowledged, ms, mean": round(theirs.1),
            "read at another node, ms, p50": of(&read, 50),
            "read at another node, ms, p99": of(&read, 99),
        });
    }
    result
}

fn of(values: &[f64], percent: usize) -> f64 {
    let mut values = values.to_vec();
    values.sort_by(f64::total_cmp);
    round(values[(values.len() - 1) * percent / 100])
}

/// Writes batches to this many sessions at one node, of each the next when the last is acknowledged, and reads
/// some at another.
async fn write(database: &Database<'_>, sessions: usize) -> Written {
    let (node, other) = (database.connect().await, Arc::new(database.connect().await));
    let (mut writers, mut readers) = (Vec::new(), Vec::new());
    let origin = Instant::now();
    for n in 0..sessions {
        let head = head();
        let mut lease = node.create(&head).await.unwrap();
        if n < READ {
            readers.push(tokio::spawn(read(Arc::clone(&other), head.id, origin)));
        }
        writers.push(async move {
            let mut acknowledged = Vec::new();
            let begun = Instant::now();
            while begun.elapsed() < TIME {
                let before = Instant::now();
                let next = lease.next();
                lease.append(vec![batch(next, origin)]).await.unwrap();
                acknowledged.push(before.elapsed().as_secs_f64() * 1e3);
            }
            let end = (5, Arc::new(Event::Forgotten));
            let end = Batch { first: lease.next(), events: vec![end], summary: None };
            lease.append(vec![end]).await.unwrap();
            lease.release().await;
            acknowledged
        });
    }
    let begun = Instant::now();
    let writers: Vec<_> = writers.into_iter().map(tokio::spawn).collect();
    let acknowledged: Vec<_> =
        join_all(writers).await.into_iter().flat_map(Result::unwrap).collect();
    let events = (acknowledged.len() * EVENTS) as f64 / begun.elapsed().as_secs_f64();
    let read = join_all(readers).await.into_iter().flat_map(Result::unwrap).collect();
    Written { events, acknowledged, read }
}

/// Reads a session to its end; returns the milliseconds after which each batch was there.
async fn read(node: Arc<PostgresStore>, id: String, origin: Instant) -> Vec<f64> {
    let mut log = node.follow(&id, 0);
    let mut times = Vec::new();
    loop {
        for stored in log.next().await.unwrap().unwrap() {
            let Stored::Batch(batch) = stored else { panic!("{stored:?}") };
            match &*batch.events[0].1 {
                Event::Text(text) => {
                    let written: f64 = text.parse().unwrap();
                    times.push(origin.elapsed().as_secs_f64() * 1e3 - written / 1e3);
                }
                _ => return times,
            }
        }
    }
}

/// The statement of a node's writer, for one batch of one session.
const APPEND: &str = "
with w as (
  select * from unnest(array[:session || :client_id]::text[], array[1]::bigint[], array[:next]::bigint[],
      array[:next::bigint + :events]::bigint[], array[null]::bigint[], array[null]::text[], array[null]::bigint[],
      array[null]::text[], array[null]::bool[])
    as w(id, epoch, start, finish, turns, title, changed, shares, busy)
), moved as (
  update tandem.session s set next = w.finish, turns = coalesce(w.turns, s.turns),
    title = coalesce(w.title, s.title), changed = coalesce(w.changed, s.changed),
    shares = coalesce(w.shares, s.shares), busy = coalesce(w.busy, s.busy)
  from w where s.id = w.id and s.epoch = w.epoch and s.next = w.start returning s.id
), put as (
  insert into tandem.batch(session, first, body)
  select b.id, b.first, b.body
  from unnest(array[:session || :client_id]::text[], array[:next]::bigint[], array[:body]::text[]) as b(id, first, body)
  join moved on moved.id = b.id
)
select id from moved;
\\set next :next + :events
";

/// Has pgbench write what a node writes, with a connection for each session; returns the events a second, and
/// the milliseconds until a batch was acknowledged.
fn pgbench(
    cluster: &Cluster,
    database: &Database<'_>,
    sessions: usize,
    round: usize,
) -> (f64, f64) {
    let session = format!("pgbench-{round}-");
    database.sql(&format!(
        "insert into tandem.session(id, epoch, owner, head, directory, is_checkpoint, title, changed) \
         select '{session}' || n, 1, '', '', '', false, '', 1 from generate_series(0, {sessions} - 1) n"
    ));
    let body = database.sql("select body from tandem.batch where length(body) > 200 limit 1");
    // Its time begins before it has its connections.
    let seconds = TIME.as_secs() + sessions as u64 / 50;
    let script = tempfile::NamedTempFile::new().unwrap();
    fs::write(&script, APPEND).unwrap();
    let mut pgbench: Command = cluster.client("pgbench");
    pgbench
        .args(["-n", "-M", "prepared", "-j", "2", "-T", &seconds.to_string()])
        .args(["-c", &sessions.to_string(), "-D", "next=0", "-D", &format!("events={EVENTS}")])
        .args(["-D", &format!("session={session}"), "-D", &format!("body={body}"), "-f"])
        .arg(script.path())
        .arg(&database.url);
    let output = pgbench.output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    let number = |before: &str| -> f64 {
        let rest = said.split_once(before).unwrap_or_else(|| panic!("{said}")).1;
        rest.split_whitespace().next().unwrap().parse().unwrap()
    };
    (number("tps = ") * EVENTS as f64, number("latency average = "))
}

/// A node of a database.
struct Node {
    process: Process,
    port: u16,
    /// Milliseconds from its start until it listened.
    start: f64,
}

impl Node {
    /// Starts one in this home: all work in one directory.
    fn start(database: &Database<'_>, script: &Value, home: &Path) -> Self {
        let path = home.join("script.jsonl");
        fs::write(&path, script.to_string()).unwrap();
        // Free now, and hardly taken in the next moment.
        let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = free.local_addr().unwrap().port();
        drop(free);
        let (model, at) = (format!("replay:{}", path.display()), port.to_string());
        let mut command = process::command_in(home);
        command.args(["serve", "-y", "--port", &at, "--model", &model, "--store", &database.url]);
        let begun = Instant::now();
        let process = process::start(command, None);
        while TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_err() {
            sleep(Duration::from_micros(100));
        }
        Self { process, port, start: begun.elapsed().as_secs_f64() * 1e3 }
    }

    /// Begins a call; in HTTP 1.0, so that the answer ends with the connection.
    fn begin(&self, method: &str, params: &Value) -> TcpStream {
        let call =
            json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params }).to_string();
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)).unwrap();
        let head = format!(
            "POST / HTTP/1.0\r\nHost: 127.0.0.1:{}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
            self.port,
            call.len()
        );
        stream.write_all(format!("{head}{call}").as_bytes()).unwrap();
        stream
    }

    /// Calls a method; returns the result, and the milliseconds that it took.
    fn call(&self, method: &str, params: &Value) -> (Value, f64) {
        let begun = Instant::now();
        let mut answer = String::new();
        self.begin(method, params).read_to_string(&mut answer).unwrap();
        let time = begun.elapsed().as_secs_f64() * 1e3;
        let (_, body) = answer.split_once("\r\n\r\n").unwrap();
        let body: Value = serde_json::from_str(body).unwrap();
        assert!(body["error"].is_null(), "{body}");
        (body["result"].clone(), time)
    }

    /// Returns the milliseconds from a prompt in a session to the first event of its stream.
    fn first_event(&self, context: &str) -> f64 {
        let begun = Instant::now();
        let mut stream = self.begin("message/stream", &prompt(context));
        let (mut read, mut all) = (vec![0; 4 << 10], Vec::new());
        while memchr::memmem::find(&all, b"\ndata:").is_none() {
            let count = stream.read(&mut read).unwrap();
            assert_ne!(count, 0, "{}", String::from_utf8_lossy(&all));
            all.extend_from_slice(&read[..count]);
        }
        begun.elapsed().as_secs_f64() * 1e3
    }
}

fn prompt(context: &str) -> Value {
    json!({
        "message": {
            "messageId": "m", "contextId": context, "role": "user",
            "parts": [{ "kind": "text", "text": "go" }],
        },
        "configuration": { "blocking": false },
    })
}

fn says_hello() -> Value {
    json!({ "when": "", "answers": [[{ "text": "Hello there." }]] })
}

fn idle_id(n: usize) -> String {
    format!("0199f2c4-0000-7000-8000-{n:012}")
}

/// Adds this many sessions of a turn and three batches each, begun by clients in a directory.
fn add_idle(database: &Database<'_>, directory: &str, count: usize) {
    let text = "some words ".repeat(20);
    let head = format!(
        r#"{{"tandem":1,"id":"%1$s","t":1,"dir":"{directory}","title":"a prompt","a2a":true}}"#
    );
    let queued = r#"{"TurnQueued":{"turn":1,"prompt":[{"Text":"a prompt"}],"origin":{"A2a":{"name":"","number":1}}}}"#;
    let batches = [
        format!(r#"{{"i":0,"t":1,"e":[{queued},{{"TurnStarted":{{"turn":1}}}}]}}"#),
        format!(r#"{{"i":2,"t":1,"e":[{{"Text":"{text}"}}]}}"#),
        r#"{"i":3,"t":1,"e":[{"TurnFinished":{"turn":1,"reason":"EndTurn"}}],"s":{"turns":1}}"#
            .to_owned(),
    ];
    let id = "'0199f2c4-0000-7000-8000-' || lpad(n::text, 12, '0')";
    let all = format!("generate_series(0, {count} - 1) n");
    database.sql(&format!(
        "insert into tandem.session(id, epoch, owner, next, head, directory, is_checkpoint, title, turns, changed) \
         select {id}, 1, '', 4, format('{head}', {id}), '{directory}', false, 'a prompt', 1, n from {all}"
    ));
    for (first, body) in [0, 2, 3].into_iter().zip(batches) {
        database.sql(&format!(
            "insert into tandem.batch(session, first, body) \
             select {id}, {first}, replace('{body}', '\"t\":1,', '\"t\":' || n || ',') from {all}"
        ));
    }
    database.sql("vacuum analyze");
}

/// Figures of a node that has just started: its start, its first list of tasks, and its memory after that.
fn started(database: &Database<'_>, home: &Path) -> (Node, Value) {
    let starts: Vec<_> =
        (0..10).map(|_| Node::start(database, &says_hello(), home).start).collect();
    let node = Node::start(database, &says_hello(), home);
    let (_, first) = node.call("ListTasks", &json!({ "pageSize": 50 }));
    let lists = (0..10).map(|_| node.call("ListTasks", &json!({ "pageSize": 50 })).1).collect();
    let firsts = (0..10).map(|n| node.first_event(&format!("new-{n}"))).collect();
    let figures = json!({
        "start, ms": round(median(starts)),
        "a page of tasks, ms, first": round(first),
        "a page of tasks, ms": round(median(lists)),
        "new session, first event, ms": round(median(firsts)),
        "memory, KiB": node.process.memory("VmRSS"),
    });
    (node, figures)
}

/// Databases with very many sessions that nobody uses, against an empty one.
pub(crate) fn idle() -> Value {
    let Some(cluster) = postgres_programs().map(Cluster::of) else { return json!(NO_POSTGRES) };
    let home = TempDir::new().unwrap();
    let (_, without) = started(&cluster.database(), home.path());
    let mut result = json!({ "none": without });
    for count in IDLE {
        result[format!("{count} sessions")] =
            idle_sessions(&cluster.database(), home.path(), count);
    }
    result
}

/// Figures of a database with this many sessions that nobody uses.
fn idle_sessions(database: &Database<'_>, home: &Path, count: usize) -> Value {
    drop(runtime().block_on(database.connect()));
    let size =
        || database.sql("select pg_database_size(current_database())").parse::<f64>().unwrap();
    let before = size();
    add_idle(database, home.to_str().unwrap(), count);
    let bytes = size() - before;
    let list = |most: Option<usize>| {
        let runtime = runtime();
        let store = runtime.block_on(database.connect());
        let query = Query { most, ..Query::default() };
        let begun = Instant::now();
        assert_eq!(runtime.block_on(store.list(&query)).unwrap().len(), most.unwrap_or(count));
        begun.elapsed().as_secs_f64() * 1e3
    };
    let (newest, all) = (list(Some(50)), list(None));
    let (node, started) = started(database, home);
    let firsts = (0..10).map(|n| node.first_event(&idle_id(n * 7))).collect();
    json!({
        "database, bytes a session": (bytes / count as f64).round(),
        "newest 50 of the store, ms": round(newest),
        "all of the store, ms": round(all),
        "an idle session, first event, ms": round(median(firsts)),
        "a node": started,
    })
}

/// Seconds until all sessions of a node that is killed in the middle of their turns go on at another one.
pub(crate) fn takeover() -> Value {
    let Some(cluster) = postgres_programs().map(Cluster::of) else { return json!(NO_POSTGRES) };
    let home = TempDir::new().unwrap();
    let script = json!({ "when": "", "answers": [[{ "text": "begun" }, { "hang": null }]] });
    let database = cluster.database();
    let mut first = Node::start(&database, &script, home.path());
    let second = Node::start(&database, &script, home.path());
    for n in 0..TAKEN {
        first.first_event(&format!("c{n}"));
    }
    let count = |of: &str| -> usize {
        database.sql(&format!("select count(*) from tandem.session where {of}")).parse().unwrap()
    };
    // Each look takes the time of a process that starts.
    let wait = |of: &str, wanted: usize| {
        while count(of) < wanted {
            sleep(Duration::from_millis(100));
        }
    };
    wait("busy", TAKEN);
    first.process.child.kill().unwrap();
    let begun = Instant::now();
    let until = |wanted: usize| {
        wait("epoch = 2", wanted);
        begun.elapsed().as_secs_f64()
    };
    let (one, all) = (until(1), until(TAKEN));
    drop(second);
    json!({ "sessions": TAKEN, "first, s": round(one), "all, s": round(all) })
}
