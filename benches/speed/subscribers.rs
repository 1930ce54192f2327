//! Many clients over A2A: some follow one session, and one of them never reads; others have sessions of their own.

use std::fs;
use std::net::{Ipv4Addr, TcpListener};
use std::path::Path;
use std::time::Instant;

use memchr::memmem::Finder;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::process::{Process, tandem};
use crate::round;

const CHUNKS: usize = 20_000;

/// Cost of one run.
struct Cost {
    seconds: f64,
    cpu: f64,
    memory: f64,
}

/// For 1 to 1000 subscribers: events a second, and what each costs.
pub(crate) fn subscribers() -> Value {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let mut result = json!({ "chunks": CHUNKS });
    let mut one = None;
    for count in [1, 10, 100, 1000] {
        let cost = runtime.block_on(measure(count));
        let events = (count * CHUNKS) as f64;
        let each = cost.cpu / count as f64;
        let one = *one.get_or_insert(each);
        result[count.to_string()] = json!({
            "seconds": round(cost.seconds),
            "events a second": (events / cost.seconds).round(),
            "CPU an event, us": round(cost.cpu / events * 1e6),
            "CPU a subscriber, s": round(each),
            "memory a subscriber, KiB": (cost.memory / count as f64).round(),
            "CPU a subscriber, of what one costs": round(each / one),
        });
    }
    result
}

/// One answer of many chunks to this many subscribers, and to one more that never reads.
async fn measure(count: usize) -> Cost {
    let home = TempDir::new().unwrap();
    let gate = home.path().join("gate");
    let (agent, port) = serve(home.path(), &gated(&gate), &[]).await;
    let sent = json!({
        "message": { "messageId": "m", "role": "user", "parts": [{ "kind": "text", "text": "go" }] },
        "configuration": { "blocking": false },
    });
    let mut begun = call(port, "message/send", &sent).await;
    let mut response = vec![0; 64 << 10];
    let read = begun.read(&mut response).await.unwrap();
    let response = String::from_utf8_lossy(&response[..read]).into_owned();
    let task: Value = serde_json::from_str(response.split("\r\n\r\n").nth(1).unwrap()).unwrap();
    let follow = json!({ "id": task["result"]["id"] });
    let empty = agent.memory("VmRSS");
    let _deaf = call(port, "tasks/resubscribe", &follow).await;
    let mut readers = Vec::new();
    for _ in 0..count {
        let mut stream = call(port, "tasks/resubscribe", &follow).await;
        // It follows when it has been told how things stand.
        stream.readable().await.unwrap();
        readers.push(tokio::spawn(async move { read_all(&mut stream).await }));
    }
    let before = (Instant::now(), agent.cpu());
    fs::write(&gate, "").unwrap();
    for reader in readers {
        assert!(reader.await.unwrap() >= CHUNKS, "events are missing");
    }
    Cost {
        seconds: before.0.elapsed().as_secs_f64(),
        cpu: agent.cpu() - before.1,
        memory: (agent.memory("VmHWM") - empty) as f64,
    }
}

/// 1 to 1000 sessions that run at once, each with a client of its own: events a second, and the time until a
/// client has the first one, on one thread and on as many as there are processors.
pub(crate) fn sessions() -> Value {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let threads = std::thread::available_parallelism().unwrap().to_string();
    let mut result = json!({ "threads": threads });
    for count in [1, 100, 1000] {
        for (name, threads) in [("one thread", "1"), ("all threads", &*threads)] {
            result[format!("{count}, {name}")] = runtime.block_on(together(count, threads));
        }
    }
    result
}

/// Prompts in this many sessions at once, with as many chunks in all as one answer has elsewhere here.
async fn together(count: usize, threads: &str) -> Value {
    let home = TempDir::new().unwrap();
    let chunks = CHUNKS / count;
    let answer = json!([{ "repeat": { "text": "some words {n}, ", "times": chunks } }]);
    let script = json!({ "when": "", "answers": [answer] });
    let (agent, port) = serve(home.path(), &script, &["--threads", threads]).await;
    // The first also pays for what all share.
    let mut first = call(port, "message/stream", &go_in(0)).await;
    read_all(&mut first).await;
    let before = (Instant::now(), agent.cpu());
    let clients: Vec<_> = (1..=count)
        .map(|n| {
            tokio::spawn(async move {
                let begun = Instant::now();
                let mut stream = call(port, "message/stream", &go_in(n)).await;
                stream.readable().await.unwrap();
                let waited = begun.elapsed().as_secs_f64() * 1e3;
                (waited, read_all(&mut stream).await)
            })
        })
        .collect();
    let (mut waits, mut events) = (Vec::new(), 0);
    for client in clients {
        let (waited, read) = client.await.unwrap();
        waits.push(waited);
        events += read;
    }
    let (seconds, cpu) = (before.0.elapsed().as_secs_f64(), agent.cpu() - before.1);
    assert!(events >= count * chunks, "events are missing");
    waits.sort_by(f64::total_cmp);
    let of_waits = |percent: usize| round(waits[(waits.len() - 1) * percent / 100]);
    json!({
        "seconds": round(seconds),
        "events a second": (events as f64 / seconds).round(),
        "CPU, s": round(cpu),
        "first event, ms, p50": of_waits(50),
        "first event, ms, p99": of_waits(99),
    })
}

/// A prompt in a session of its own.
fn go_in(n: usize) -> Value {
    json!({ "message": {
        "messageId": "m", "contextId": format!("c{n}"), "role": "user",
        "parts": [{ "kind": "text", "text": "go" }],
    } })
}

/// Memory of a server for each session that has had one turn and is idle.
pub(crate) fn idle_sessions() -> Value {
    const SESSIONS: u64 = 300;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let kib = runtime.block_on(async {
        let home = TempDir::new().unwrap();
        let script = json!({ "when": "", "answers": [[{ "text": "Hello there." }]] });
        let (agent, port) = serve(home.path(), &script, &[]).await;
        // The first also pays for what all share.
        say_in(port, 0).await;
        let before = agent.memory("VmRSS");
        for n in 1..=SESSIONS {
            say_in(port, n).await;
        }
        agent.memory("VmRSS").saturating_sub(before)
    });
    json!({ "sessions": SESSIONS, "KiB a session": round(kib as f64 / SESSIONS as f64) })
}

/// Begins a session, and waits for its answer.
async fn say_in(port: u16, n: u64) {
    let params = json!({
        "message": {
            "messageId": "m", "contextId": format!("c{n}"), "role": "user",
            "parts": [{ "kind": "text", "text": "hello" }],
        },
        "configuration": { "blocking": true },
    });
    let mut answer = call(port, "message/send", &params).await;
    let mut response = vec![0; 64 << 10];
    let read = answer.read(&mut response).await.unwrap();
    assert!(response[..read].starts_with(b"HTTP/1.1 200"), "the turn was refused");
}

/// A script whose model speaks when the gate is there.
fn gated(gate: &Path) -> Value {
    let wait = format!("until [ -e {} ]; do sleep 0.02; done", gate.display());
    let wait = json!({ "name": "run_shell_command", "args": { "command": wait } });
    json!({ "when": "", "answers": [
        [{ "call": wait }],
        [{ "repeat": { "text": "some words {n}, ", "times": CHUNKS } }],
    ] })
}

/// A server whose model plays the script, with more flags.
async fn serve(home: &Path, script: &Value, more: &[&str]) -> (Process, u16) {
    let path = home.join("script.jsonl");
    fs::write(&path, script.to_string()).unwrap();
    // Free now, and hardly taken in the next moment.
    let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let port = free.local_addr().unwrap().port();
    drop(free);
    let (model, at) = (format!("replay:{}", path.display()), port.to_string());
    let args = [
        &["serve", "-y", "--port", &at, "--model", &model][..],
        &["--limit", "a2a-connections=2000", "--limit", "a2a-requests=2000", "--limit", "rounds=9"],
        // The gate that the model's command waits for is in /tmp, of which the sandbox has another one.
        &["--sandbox", "danger-full-access"],
        more,
    ];
    let agent = tandem(&args.concat(), &[]);
    while TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await.is_err() {
        tokio::task::yield_now().await;
    }
    (agent, port)
}

async fn call(port: u16, method: &str, params: &Value) -> TcpStream {
    let call = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
    let call = call.to_string();
    let request = format!(
        "POST / HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Type: application/json\r\n\
         Content-Length: {}\r\n\r\n{call}",
        call.len()
    );
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await.unwrap();
    stream.write_all(request.as_bytes()).await.unwrap();
    stream
}

/// Reads a stream to its end; how many events there were. Looks at no more than it must: it has
/// the same processors as the server.
async fn read_all(stream: &mut TcpStream) -> usize {
    let (event, end) = (Finder::new(b"\ndata: "), b"\r\n0\r\n\r\n");
    let mut buffer = vec![0; 64 << 10];
    let (mut kept, mut events) = (0, 0);
    loop {
        let read = stream.read(&mut buffer[kept..]).await.unwrap();
        assert_ne!(read, 0, "the stream was cut");
        let all = &buffer[..kept + read];
        events += event.find_iter(all).count();
        if all.ends_with(end) {
            return events;
        }
        // What may be the beginning of either; too short to be counted twice.
        kept = all.len().min(6);
        let from = all.len() - kept;
        buffer.copy_within(from..from + kept, 0);
    }
}
