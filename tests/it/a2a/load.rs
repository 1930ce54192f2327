//! Many subscribers to one session, and some that never read.

use std::fs::File;
use std::io::Write as _;

use serde_json::{Value, json};
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpSocket;
use tokio::time::timeout;

use super::server::{Client, Shared, ends, prompt, serve, shared, text};
use crate::agent::{HANG, Setup, code};
use crate::family::make_fifo;

/// Begins a turn that says `chunks` times `text` once the gate opens; the id of its task.
async fn gated(text: &str, chunks: usize) -> (Shared, Value) {
    let wait = json!({ "name": "run_shell_command", "args": { "command": "cat gate" } });
    let script = json!([
        [{ "call": wait }],
        [{ "repeat": { "text": text, "times": chunks } }]
    ]);
    let it = shared(&Setup::answers(script).arg("-y")).await;
    make_fifo(&it.editor.workspace().join("gate"));
    let mut sent = prompt("go");
    sent["configuration"] = json!({ "blocking": false });
    let task = it.client.result("message/send", sent).await["id"].clone();
    (it, task)
}

/// Lets the model speak.
async fn open(it: &Shared) {
    let gate = it.editor.workspace().join("gate");
    // Opening the pipe for writing waits until the command opens it for reading.
    let opened = tokio::task::spawn_blocking(|| File::create(gate).unwrap().write_all(b"now\n"));
    opened.await.unwrap().unwrap();
}

/// Subscribes with a small window, and reads nothing.
async fn never_reads(client: Client, task: &Value) -> tokio::net::TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(4096).unwrap();
    let address = ([127, 0, 0, 1], client.port).into();
    let mut stream = socket.connect(address).await.unwrap();
    let call = json!({ "jsonrpc": "2.0", "id": 1, "method": "tasks/resubscribe",
        "params": { "id": task } });
    let call = call.to_string();
    let head = format!(
        "POST / HTTP/1.1\r\nHost: 127.0.0.1:{}\r\nContent-Type: application/json\r\n\
         Content-Length: {}\r\n\r\n{call}",
        client.port,
        call.len()
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    stream
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_event_is_lost_or_doubled_for_fifty_subscribers() {
    const CHUNKS: usize = 2000;
    let (it, task) = gated("{n} ", CHUNKS).await;
    let client = it.client;
    let _deaf = never_reads(client, &task).await;
    let mut readers = Vec::new();
    for n in 0..50 {
        let task = task.clone();
        if n % 2 == 0 {
            let mut socket = client.socket().await;
            socket.call("joined", "commands/get", json!({})).await;
            readers.push(tokio::spawn(async move { socket.events(ends).await }));
        } else {
            let mut stream = client.stream("tasks/resubscribe", json!({ "id": task })).await;
            stream.next().await.unwrap();
            readers.push(tokio::spawn(async move { stream.until(ends).await }));
        }
    }
    open(&it).await;
    let expected: String = (0..CHUNKS).map(|n| format!("{n} ")).collect();
    for reader in readers {
        let events = reader.await.unwrap();
        assert_eq!(text(&events), expected);
        let ids = events.iter().filter_map(|event| event["metadata"]["eventId"].as_str());
        let mut ids: Vec<_> = ids.collect();
        let all = ids.len();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), all, "an event came twice");
    }
}

#[tokio::test]
async fn who_never_reads_delays_nobody() {
    // 32 MB do not fit into the buffers of a connection. The editor does not read either.
    let (it, task) = gated(&code(16 << 10), 2000).await;
    let mut deaf = Vec::new();
    for _ in 0..3 {
        deaf.push(never_reads(it.client, &task).await);
    }
    let mut socket = it.client.socket().await;
    socket.call("joined", "commands/get", json!({})).await;
    let also_deaf = it.client.socket().await;
    open(&it).await;
    let events = socket.events(ends).await;
    assert_eq!(text(&events).len(), (16 << 10) * 2000);
    drop((deaf, also_deaf));
    assert_eq!(it.client.get("/listCommands").await.status, 200);
}

#[tokio::test]
async fn who_never_reads_has_a_place_for_a_while_only() {
    let chunk = json!({ "repeat": { "text": code(16 << 10), "times": 2000 } });
    let setup = Setup::answers(json!([[chunk]]));
    let setup = setup.arg("--limit").arg("a2a-connections=1");
    let it = serve(&setup.arg("--limit").arg("a2a-stuck-seconds=1")).await;
    let mut sent = prompt("go");
    sent["configuration"] = json!({ "blocking": false });
    let task = it.client.result("message/send", sent).await["id"].clone();
    // The limit allows one connection. The connection of the request before may still be open.
    let status = async || it.client.get("/listCommands").await.status;
    let taken = async {
        loop {
            let deaf = never_reads(it.client, &task).await;
            if status().await == 503 {
                return deaf;
            }
        }
    };
    let _deaf = timeout(HANG, taken).await.expect("there is more than one place");
    let free = async { while status().await != 200 {} };
    timeout(HANG, free).await.expect("it is not given up");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_sessions_at_once_lose_and_mix_nothing_on_several_threads() {
    const SESSIONS: usize = 40;
    const CHUNKS: usize = 100;
    let chunks = json!([[{ "repeat": { "text": "{n} ", "times": CHUNKS } }]]);
    let setup = Setup::answers(chunks).arg("--threads").arg("4");
    let it = serve(&setup).await;
    let client = it.client;
    let expected: String = (0..CHUNKS).map(|n| format!("{n} ")).collect();
    let turns = (0..SESSIONS).map(|n| {
        let expected = expected.clone();
        let run = async move |turn| {
            let mut sent = prompt("go");
            sent["message"]["contextId"] = json!(format!("c{n}"));
            sent["message"]["messageId"] = json!(format!("m{turn}"));
            let mut stream = client.stream("message/stream", sent).await;
            let events = stream.until(ends).await;
            assert_eq!(text(&events), expected, "session {n}");
            let of_others = events.iter().filter(|it| it["contextId"] != format!("c{n}"));
            assert_eq!(of_others.count(), 0, "session {n}");
            // Listing the tasks holds a lease on each session for a moment.
            if n % 8 == 0 {
                client.result("tasks/list", json!({})).await;
            }
        };
        tokio::spawn(async move {
            run(1).await;
            run(2).await;
        })
    });
    futures::future::try_join_all(turns).await.unwrap();
}
