//! Requests that an agent sends and the client answers, 64 under way: this program's connection
//! against those that others use.

use std::io::{BufRead as _, BufReader, Read as _, Write};
use std::process::ChildStdout;
use std::time::Instant;

use agent_client_protocol::{Stdio, UntypedMessage, UntypedRole};
use futures::stream::{self, StreamExt as _};
use lsp_server::{Connection, Message, Request};
use serde_json::{Value, json};
use tandem_wire::jsonrpc::Params;
use tandem_wire::{rpc, stdio};

use crate::process::myself;
use crate::{messages, round, stream as streaming};

const WINDOW: usize = 64;

const METHOD: &str = "streamAssistantMessageChunk";

/// A line of 180 bytes, about.
fn params() -> Value {
    json!({ "chunk": { "text": "Some words of an answer, as many as a model says at once, or a few more than that" } })
}

/// Plays a part. What sends requests sends `count` of them.
pub(crate) fn run(part: &str, count: usize) {
    match part {
        "echo" => messages::echo(),
        "writer" => streaming::write_straight(),
        "floor" => floor(count),
        "tandem" => ours(count),
        "v1 SDK" => sdk(count),
        "lsp-server" => lsp(count),
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
        let rate = count as f64 / seconds;
        result[part] = json!({
            "messages a second": rate.round(),
            "CPU a message, us": round(cpu / count as f64 * 1e6),
        });
        if part == "tandem" {
            ours = rate;
        } else if ours > 0.0 {
            result[part]["tandem is faster by"] = round(ours / rate).into();
        }
    }
    result
}

fn measure(part: &str, count: usize) -> (f64, f64) {
    let mut process = myself(part, count);
    let before = Instant::now();
    let length_prefixed = part == "lsp-server";
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

/// As fast as the system allows: fixed lines, nothing parsed.
fn floor(count: usize) {
    let mut input = BufReader::with_capacity(64 * 1024, std::io::stdin());
    let mut output = std::io::stdout().lock();
    let message = json!({ "jsonrpc": "2.0", "id": 0, "method": METHOD, "params": params() });
    let message = format!("{message}\n");
    let (mut sent, mut answered) = (0, 0);
    while answered < count {
        let mut packet = Vec::new();
        while sent < count && sent < answered + WINDOW {
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
    // What it cost is read before it ends.
    input.fill_buf().unwrap();
}

/// Asks the other side for nothing.
struct Deaf;

impl rpc::Handler for Deaf {
    fn request(&self, _: &str, _: Params<'_>, _: rpc::Responder) {}
}

fn ours(count: usize) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let served = async {
        let options = rpc::ConnectionOptions::new(1 << 20);
        let begin = |peer: rpc::Peer| {
            tokio::spawn(async move {
                let params = params();
                let calls = stream::iter(0..count).map(|_| peer.call::<()>(METHOD, &params));
                calls.buffer_unordered(WINDOW).for_each(|_| async {}).await;
            });
            Deaf
        };
        rpc::serve(stdio::input(), stdio::output(), options, begin).await
    };
    runtime.block_on(served).unwrap();
}

fn sdk(count: usize) {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let served = UntypedRole.builder().connect_with(Stdio::new(), async move |connection| {
        let calls = stream::iter(0..count).map(|_| {
            let message = UntypedMessage::new(METHOD, params()).unwrap();
            connection.send_request(message).block_task()
        });
        calls.buffer_unordered(WINDOW).for_each(|_| async {}).await;
        std::future::pending::<Result<(), _>>().await
    });
    runtime.block_on(served).unwrap();
}

fn lsp(count: usize) {
    let (connection, _threads) = Connection::stdio();
    let (mut sent, mut answered) = (0, 0);
    while answered < count {
        while sent < count && sent < answered + WINDOW {
            let id = i32::try_from(sent).unwrap().into();
            let request = Request::new(id, METHOD.to_owned(), params());
            connection.sender.send(Message::Request(request)).unwrap();
            sent += 1;
        }
        connection.receiver.recv().unwrap();
        answered += 1;
    }
    // Until it is killed.
    let _ = connection.receiver.recv();
}
