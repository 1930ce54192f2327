//! Messages there and back.

use std::io::{BufRead as _, BufReader, Write as _};
use std::time::Instant;

use serde_json::{Value, json};

use crate::process::{INITIALIZE, Process, myself, scripted};
use crate::round;

const TIMES: u32 = 20_000;

/// Microseconds from a request to its answer, against a program that reads a line and writes one.
pub(crate) fn round_trips() -> Value {
    let ours = round_trip(&mut scripted("", &[]), INITIALIZE, TIMES);
    let floor = round_trip(&mut myself("echo", 0), INITIALIZE, TIMES);
    json!({
        "tandem, us": round(ours),
        "a second": (1e6 / ours).round(),
        "plain read and write, us": round(floor),
        "beyond that, us": round(ours - floor),
    })
}

/// Microseconds for large requests.
pub(crate) fn large() -> Value {
    let mut result = json!({});
    for (name, bytes, times) in [("64 KiB", 64 << 10, 500), ("5 MiB", 5 << 20, 20)] {
        let text = "x".repeat(bytes);
        let request =
            format!(r#"{{"jsonrpc":"2.0","id":0,"method":"none","params":{{"text":"{text}"}}}}"#);
        let ours = round_trip(&mut scripted("", &[]), &request, times);
        let floor = round_trip(&mut myself("echo", 0), &request, times);
        result[name] = json!({
            "tandem, us": ours.round(),
            "plain read and write, us": floor.round(),
            "ratio": round(ours / floor),
        });
    }
    result
}

fn round_trip(process: &mut Process, request: &str, times: u32) -> f64 {
    let request = format!("{request}\n");
    for _ in 0..times / 10 {
        process.input.write_all(request.as_bytes()).unwrap();
        process.line();
    }
    let before = Instant::now();
    for _ in 0..times {
        process.input.write_all(request.as_bytes()).unwrap();
        process.line();
    }
    before.elapsed().as_secs_f64() * 1e6 / f64::from(times)
}

/// Reads a line, writes a line.
pub(crate) fn echo() {
    let mut input = BufReader::with_capacity(64 * 1024, std::io::stdin());
    let mut output = std::io::stdout().lock();
    let mut line = Vec::new();
    while input.read_until(b'\n', &mut line).unwrap() > 0 {
        line.clear();
        output.write_all(b"{\"jsonrpc\":\"2.0\",\"id\":0,\"result\":null}\n").unwrap();
        output.flush().unwrap();
    }
}
