//! From the model's socket to the editor's pipe.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::process::{PROMPT, myself, tandem};
use crate::round;

pub(crate) const CHUNKS: usize = 20_000;

/// Seconds and CPU for an answer of many chunks, against writing the same bytes straight to a
/// pipe.
pub(crate) fn stream() -> Value {
    let base = serve(None);
    let vars = [("GEMINI_API_KEY", "none"), ("GOOGLE_GEMINI_BASE_URL", base.as_str())];
    let mut agent = tandem(&["--model", "gemini-3.8-flash"], &vars);
    agent.initialize();
    // The first request builds the client.
    let mut seconds = f64::MAX;
    let mut cpu = f64::MAX;
    let mut lines = 0;
    for _ in 0..6 {
        let before = (Instant::now(), agent.cpu());
        agent.send(PROMPT);
        lines = agent.until(r#"{"jsonrpc":"2.0","id":"prompt","result""#);
        seconds = seconds.min(before.0.elapsed().as_secs_f64());
        cpu = cpu.min(agent.cpu() - before.1);
    }

    let mut floor = myself("writer", 0);
    floor.send("go");
    floor.until("end");
    let before = (Instant::now(), floor.cpu());
    floor.send("go");
    floor.until("end");
    let (floor_seconds, floor_cpu) = (before.0.elapsed().as_secs_f64(), floor.cpu() - before.1);

    json!({
        "chunks": CHUNKS,
        "lines written": lines,
        "seconds": round(seconds * 1e3) / 1e3,
        "chunks a second": (CHUNKS as f64 / seconds).round(),
        "CPU a chunk, us": round(cpu / CHUNKS as f64 * 1e6),
        "straight to a pipe, seconds": round(floor_seconds * 1e3) / 1e3,
        "straight to a pipe, CPU a chunk, us": round(floor_cpu / CHUNKS as f64 * 1e6),
    })
}

/// The same bytes as the agent writes, without an agent.
pub(crate) fn write_straight() {
    let mut input = BufReader::new(std::io::stdin());
    let mut output = std::io::stdout().lock();
    let mut line = String::new();
    while input.read_line(&mut line).unwrap() > 0 {
        let mut packet = Vec::new();
        for n in 0..CHUNKS {
            packet.extend_from_slice(
                format!(
                    "{{\"jsonrpc\":\"2.0\",\"id\":{n},\"method\":\"streamAssistantMessageChunk\",\
                     \"params\":{{\"chunk\":{{\"text\":\"some words {n}, \"}}}}}}\n"
                )
                .as_bytes(),
            );
            if packet.len() > 3900 {
                output.write_all(&packet).unwrap();
                packet.clear();
            }
        }
        packet.extend_from_slice(b"end\n");
        output.write_all(&packet).unwrap();
        output.flush().unwrap();
    }
}

/// Plays the Gemini API at this address; an answer is sent at once, or takes a time.
pub(crate) fn serve(time: Option<Duration>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let base = format!("http://{}", listener.local_addr().unwrap());
    thread::spawn(move || listener.incoming().for_each(|stream| answer(&stream.unwrap(), time)));
    base
}

/// One long answer to every request of a connection.
fn answer(stream: &TcpStream, time: Option<Duration>) {
    let mut body = Vec::new();
    for n in 0..CHUNKS {
        let chunk = json!({
            "candidates": [{ "content": { "parts": [{ "text": format!("some words {n}, ") }], "role": "model" }, "index": 0 }],
            "usageMetadata": { "promptTokenCount": 10, "candidatesTokenCount": n, "totalTokenCount": n + 10 },
            "modelVersion": "gemini-3.8-flash",
            "responseId": "Zm9vYmFyYmF6"
        });
        write!(body, "data: {chunk}\r\n\r\n").unwrap();
    }
    let end = json!({ "candidates": [{ "content": { "parts": [{ "text": "end" }], "role": "model" }, "finishReason": "STOP", "index": 0 }] });
    write!(body, "data: {end}\r\n\r\n").unwrap();
    let head = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    let mut input = BufReader::new(stream);
    let mut output = stream;
    while let Some(length) = request(&mut input) {
        input.by_ref().take(length).read_to_end(&mut Vec::new()).unwrap();
        // All at once, or a piece every five milliseconds.
        let pause = Duration::from_millis(5);
        let pieces = time.map_or(1, |time| time.as_micros() / pause.as_micros());
        let sent = output.write_all(head.as_bytes()).and_then(|()| {
            let mut pieces = body.chunks(body.len().div_ceil(usize::try_from(pieces).unwrap()));
            pieces.try_for_each(|piece| {
                thread::sleep(if time.is_some() { pause } else { Duration::ZERO });
                output.write_all(piece)
            })
        });
        if sent.is_err() {
            return;
        }
    }
}

/// Reads a request's head; how long its body is.
fn request(input: &mut BufReader<&TcpStream>) -> Option<u64> {
    let mut length = 0;
    loop {
        let mut line = String::new();
        if input.read_line(&mut line).ok()? == 0 {
            return None;
        }
        let line = line.trim_end().to_ascii_lowercase();
        if let Some(value) = line.strip_prefix("content-length:") {
            length = value.trim().parse().ok()?;
        }
        if line.is_empty() {
            return Some(length);
        }
    }
}
