//! Requests that an agent sends and the client answers, 64 under way: this program's connection
//! against those that others use.

use std::io::{BufRead, BufReader, Read as _, Write};
use std::process::ChildStdout;
use std::time::Instant;

use agent_client_protocol::{Agent, Stdio, UntypedMessage};
use futures::stream::{self, StreamExt as _};
use lsp_server::{Connection, Message, Request};
use serde_json::{Value, json};
use tandem::protocol::jsonrpc::Params;
use tandem::{rpc, stdio};

use crate::process::myself;
use crate::{messages, round, stream as streaming};

const WINDOW: usize = 64;

/// A line of 180 bytes, about.
fn params() -> Value {
    json!({ "chunk": { "text": "Some words of an answer, as many as a model says at once, or a few more than that" } })
}

/// Plays a part.
pub(crate) fn run(part: &str) {
    match part {
        "echo" => messages::echo(),
        "writer" => streaming::write_straight(),
        "floor" => floor(),
        "tandem" => ours(),
        "v1 SDK" => sdk(),
        "lsp-server" => lsp(),
        other => panic!("no part {other:?}"),
    }
}

/// Messages a second and CPU a message of each.
pub(crate) fn compare() -> Value {
    let parts =
        [("floor", 400_000), ("tandem", 400_000), ("v1 SDK", 40_000), ("lsp-server", 40_000)];
    let mut result = json!({});
    let mut ours = 0.0;
    for (part, count) in parts {
        let (seconds, cpu) = measure(part, count);
        let rate = f64::from(count) / seconds;
        if part == "tandem" {
            ours = rate;
        }
        result[part] = json!({
            "messages a second": rate.round(),
            "CPU a message, us": round(cpu / f64::from(count) * 1e6),
            "tandem is faster by": round(ours / rate),
        });
    }
    result
}

fn measure(part: &str, count: u32) -> (f64, f64) {
    let mut process = myself(part);
    let before = Instant::now();
    let length_prefixed = part == "lsp-server";
    say(
        &mut process.input,
        length_prefixed,
        &json!({ "jsonrpc": "2.0", "method": "count", "params": count }).to_string(),
    );
    let mut answered = 0;
    let mut answers = Vec::new();
    let mut body = Vec::new();
    while answered < count {
        body.clear();
        if length_prefixed {
            read_prefixed(&mut process.output, &mut body);
        } else {
            process.output.read_until(b'\n', &mut body).unwrap();
        }
        let text = std::str::from_utf8(&body).unwrap();
        let id = text.split_once("\"id\":").unwrap().1.split([',', '}']).next().unwrap();
        let answer = format!(r#"{{"jsonrpc":"2.0","id":{id},"result":null}}"#);
        say(&mut answers, length_prefixed, &answer);
        answered += 1;
        // What can be read at once is answered at once.
        if process.output.buffer().is_empty() {
            process.input.write_all(&answers).unwrap();
            answers.clear();
        }
    }
    process.input.write_all(&answers).unwrap();
    (before.elapsed().as_secs_f64(), process.cpu())
}

fn say(output: &mut impl Write, length_prefixed: bool, text: &str) {
    if length_prefixed {
        write!(output, "Content-Length: {}\r\n\r\n{text}", text.len()).unwrap();
    } else {
        writeln!(output, "{text}").unwrap();
    }
}

fn read_prefixed(input: &mut BufReader<ChildStdout>, body: &mut Vec<u8>) {
    let mut line = String::new();
    input.read_line(&mut line).unwrap();
    let length: u64 = line.trim_end().strip_prefix("Content-Length: ").unwrap().parse().unwrap();
    input.read_line(&mut line).unwrap();
    input.by_ref().take(length).read_to_end(body).unwrap();
}

/// How many to send: the first line says so.
fn count(params: &str) -> usize {
    params.trim().parse().unwrap()
}

/// As fast as the system allows: fixed lines, nothing parsed.
fn floor() {
    let mut input = BufReader::with_capacity(64 * 1024, std::io::stdin());
    let mut output = std::io::stdout().lock();
    let mut line = String::new();
    input.read_line(&mut line).unwrap();
    let first: Value = serde_json::from_str(&line).unwrap();
    let total = count(&first["params"].to_string());
    let message = json!({ "jsonrpc": "2.0", "id": 0, "method": "streamAssistantMessageChunk", "params": params() });
    let message = format!("{message}\n");
    let (mut sent, mut answered) = (0, 0);
    while answered < total {
        let mut packet = Vec::new();
        while sent < total && sent < answered + WINDOW {
            packet.extend_from_slice(message.as_bytes());
            sent += 1;
        }
        output.write_all(&packet).unwrap();
        output.flush().unwrap();
        let buffer = input.fill_buf().unwrap();
        answered += memchr::memchr_iter(b'\n', buffer).count();
        let read = buffer.len();
        input.consume(read);
    }
    wait(&mut input);
}

/// Waits to be killed: what it cost is read meanwhile.
fn wait(input: &mut impl BufRead) {
    while input.fill_buf().is_ok_and(|buffer| !buffer.is_empty()) {
        let read = input.fill_buf().map_or(0, <[u8]>::len);
        input.consume(read);
    }
}

struct Counting(rpc::Peer);

impl rpc::Handler for Counting {
    fn request(&self, _: &str, counted: Params<'_>, _: rpc::Responder) {
        let total = count(counted.0.unwrap().get());
        let peer = self.0.clone();
        tokio::spawn(async move {
            let params = params();
            let calls = stream::iter(0..total)
                .map(|_| peer.call::<()>("streamAssistantMessageChunk", &params));
            calls.buffer_unordered(WINDOW).for_each(|_| async {}).await;
        });
    }
}

fn ours() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime
        .block_on(async {
            let options = rpc::Options {
                max_line: 1 << 20,
                tap: None,
                input_ended: tokio_util::sync::CancellationToken::new(),
            };
            rpc::serve(stdio::input(), stdio::output(), options, Counting).await
        })
        .unwrap();
}

fn sdk() {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let served = Agent
        .v1()
        .on_receive_notification(
            async move |counted: UntypedMessage, connection| {
                let total = count(&counted.params.to_string());
                let calls = stream::iter(0..total).map(move |_| {
                    let message = UntypedMessage::new("streamAssistantMessageChunk", params());
                    connection.send_request(message.unwrap()).block_task()
                });
                tokio::spawn(calls.buffer_unordered(WINDOW).for_each(|_| async {}));
                Ok(())
            },
            agent_client_protocol::on_receive_notification!(),
        )
        .connect_to(Stdio::new());
    runtime.block_on(served).unwrap();
}

fn lsp() {
    let (connection, _threads) = Connection::stdio();
    let Ok(Message::Notification(first)) = connection.receiver.recv() else { panic!("no count") };
    let total = count(&first.params.to_string());
    let (mut sent, mut answered) = (0, 0);
    while answered < total {
        while sent < total && sent < answered + WINDOW {
            let id = i32::try_from(sent).unwrap().into();
            let request = Request::new(id, "streamAssistantMessageChunk".to_owned(), params());
            connection.sender.send(Message::Request(request)).unwrap();
            sent += 1;
        }
        connection.receiver.recv().unwrap();
        answered += 1;
    }
    // Until it is killed.
    let _ = connection.receiver.recv();
}
