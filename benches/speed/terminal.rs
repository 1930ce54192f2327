//! Measures of what the person in front of a terminal notices: how soon it is there, how soon a key
//! is seen, what it costs when nothing happens, how much memory a long session takes.

use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::process::{self, PROMPT};
use crate::pty::Pty;
use crate::{median, round, start, stream};

/// The last words of the first frame.
const THERE: &str = "? for the keys";

const STARTS: usize = 100;

/// Keys that are typed while an answer streams in.
const KEYS: usize = 150;

/// Duration of the answer.
const ANSWER: Duration = Duration::from_secs(8);

/// After how many turns of a long session it is measured; and the chunks of each turn.
const POINTS: [usize; 3] = [200, 1000, 2000];
const CHUNKS: usize = 100;

/// Milliseconds from spawn to the first frame, against a bare program's line.
pub(crate) fn first_frame() -> Value {
    let (_dir, program) = start::bare();
    let mut bare = Vec::new();
    let mut ours = Vec::new();
    for _ in 0..STARTS {
        bare.push(timed(|| {
            let mut pty = Pty::start(Command::new(&program), Vec::new());
            pty.until("hello");
            pty
        }));
        ours.push(timed(|| {
            let mut pty = Pty::tandem(&[], &[("GEMINI_API_KEY", "none")]);
            pty.until(THERE);
            pty
        }));
    }
    let (bare, ours) = (median(bare), median(ours));
    json!({
        "bare program, ms": round(bare),
        "tandem, ms": round(ours),
        "beyond that, ms": round(ours - bare),
    })
}

/// Milliseconds; what comes of it is dropped afterwards.
fn timed<T>(what: impl FnOnce() -> T) -> f64 {
    let before = Instant::now();
    let _kept = what();
    before.elapsed().as_secs_f64() * 1e3
}

/// Milliseconds from a key to the screen: when nothing happens, and while 20,000 chunks stream in.
pub(crate) fn keystroke() -> Value {
    let base = stream::serve(Some(ANSWER));
    let vars = [("GEMINI_API_KEY", "none"), ("GOOGLE_GEMINI_BASE_URL", base.as_str())];
    let mut pty = Pty::tandem(&["--model", "gemini-3.8-flash"], &vars);
    pty.until(THERE);
    let idle = typed(&mut pty);
    pty.keys("go\r");
    pty.until("some words");
    let before = (Instant::now(), process::cpu(pty.child.id()), pty.bytes);
    let streaming = typed(&mut pty);
    let seconds = before.0.elapsed().as_secs_f64();
    assert!(seconds < ANSWER.as_secs_f64(), "the answer has ended before: {seconds} s");
    let cpu = process::cpu(pty.child.id()) - before.1;
    json!({
        "idle, ms": summary(idle),
        "while 20,000 chunks stream in, ms": summary(streaming),
        "of a CPU meanwhile": round(cpu / seconds),
        "KiB a second to the terminal": ((pty.bytes - before.2) as f64 / 1024.0 / seconds).round(),
    })
}

fn summary(mut times: Vec<f64>) -> Value {
    times.sort_by(f64::total_cmp);
    let worst = times[times.len() - 1];
    let slow = times[times.len() * 99 / 100];
    json!({ "median": round(median(times)), "99 of 100 below": round(slow), "worst": round(worst) })
}

/// Types letters, one after the other; how long it takes until each is shown.
fn typed(pty: &mut Pty) -> Vec<f64> {
    let mut times = Vec::new();
    let mut text = String::new();
    for n in 0..KEYS {
        if text.len() == 40 {
            pty.keys("\x15");
            pty.pass(Duration::from_millis(40));
            text.clear();
        }
        let key = char::from(b'A' + u8::try_from(n * 7 % 26).unwrap());
        text.push(key);
        pty.pass(Duration::from_millis(15));
        times.push(timed(|| {
            pty.keys(&key.to_string());
            pty.until(&text);
        }));
    }
    pty.keys("\x15");
    pty.pass(Duration::from_millis(40));
    times
}

/// Measures the cost of a terminal when nothing happens.
pub(crate) fn idle() -> Value {
    let mut pty = Pty::tandem(&[], &[("GEMINI_API_KEY", "none")]);
    pty.until(THERE);
    // One turn has been, one thing is typed.
    pty.keys("!true\r");
    pty.until("true");
    pty.keys("draft");
    pty.pass(Duration::from_secs(12));
    let id = pty.child.id();
    let before = (process::cpu(id), process::switches(id));
    thread::sleep(Duration::from_secs(5));
    json!({
        "CPU in five seconds, us": ((process::cpu(id) - before.0) * 1e6).round(),
        "times it woke up": process::switches(id) - before.1,
        "threads": process::memory(id, "Threads"),
        "memory, KiB": process::memory(id, "VmRSS"),
    })
}

/// Memory at a tenth, at half and at the end of a long session whose turns have large outputs: in a
/// terminal, and of the same session for an editor, which has the log too, and no screen.
pub(crate) fn long_session() -> Value {
    let call = json!({ "name": "run_shell_command", "args": { "command": "seq 2000" } });
    let text = json!({ "text": "some words {n}, and a line.\n\n", "times": CHUNKS });
    let answers = json!([[{ "call": call }], [{ "repeat": text }]]);
    let script = json!({ "when": "", "answers": answers }).to_string();

    let mut pty = Pty::scripted(&script, &["-y"]);
    pty.until(THERE);
    let id = pty.child.id();
    let terminal = at_each_point(|turn| {
        pty.keys(&format!("go {turn};\r"));
        // Its row in the history.
        pty.until(&format!("go {turn};\x1b[0m\x1b[K\r\n"));
        if POINTS.contains(&turn) {
            pty.pass(Duration::from_secs(1));
        }
        process::memory(id, "VmRSS")
    });
    drop(pty);

    let mut agent = process::scripted(&script, &["-y"]);
    let editor = at_each_point(|turn| {
        agent.send(PROMPT);
        let message: Value = serde_json::from_str(&agent.line()).unwrap();
        assert_eq!(message["method"], "pushToolCall");
        agent.send(&json!({ "id": message["id"], "result": { "id": turn } }).to_string());
        agent.until(r#"{"jsonrpc":"2.0","id":"prompt","result""#);
        agent.memory("VmRSS")
    });
    json!({
        "turns": POINTS,
        "in a terminal, KiB": terminal,
        "for an editor, KiB": editor,
    })
}

fn at_each_point(mut turn: impl FnMut(usize) -> u64) -> Vec<u64> {
    let last = POINTS[POINTS.len() - 1];
    let memory = (1..=last).map(|number| (number, turn(number)));
    memory.filter(|(number, _)| POINTS.contains(number)).map(|(_, memory)| memory).collect()
}
