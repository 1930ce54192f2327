//! Speed of the agent, as ratios in one run: `cargo bench`. One JSON object a line on standard
//! output.
//!
//! Peers to compare with are started by the same program, with `--as NAME`: see [`peers`].

#![expect(clippy::unwrap_used, reason = "a benchmark that cannot go on should panic")]
#![expect(clippy::print_stdout, reason = "the results go there")]
#![expect(clippy::cast_precision_loss, reason = "nobody reads the last digits")]

mod cancel;
#[cfg(feature = "postgres")]
mod database;
mod editors;
mod messages;
mod peers;
mod process;
mod pty;
mod sandbox;
mod start;
mod store;
mod stream;
mod subscribers;
mod terminal;

use serde_json::{Value, json};

type Measure = fn() -> Value;

fn main() {
    let args: Vec<String> = std::env::args().collect();
    if let Some(at) = args.iter().position(|arg| arg == "--as") {
        return peers::run(&args[at + 1], args[at + 2].parse().unwrap());
    }
    // `cargo bench NAME` runs what has the name in it.
    let wanted = args.iter().skip(1).find(|arg| !arg.starts_with('-'));
    let measures: &[(&str, Measure)] = &[
        ("start", start::start),
        ("idle memory", start::idle_memory),
        ("stream", stream::stream),
        ("round trips", messages::round_trips),
        ("large messages", messages::large),
        ("cancel", cancel::cancel),
        ("ACP 1: start", editors::start),
        ("ACP 1: chunks", editors::chunks),
        ("ACP 1: sessions", editors::sessions),
        ("ACP 1: load", editors::load),
        ("ACP 1: questions", editors::questions),
        ("requests to the client", peers::compare),
        ("subscribers", subscribers::subscribers),
        ("sessions at once", subscribers::sessions),
        ("idle sessions", subscribers::idle_sessions),
        ("terminal: first frame", terminal::first_frame),
        ("terminal: key to screen", terminal::keystroke),
        ("terminal: idle", terminal::idle),
        ("terminal: a long session", terminal::long_session),
        ("sandbox: a command", sandbox::command),
        ("store: append", store::append),
        ("store: load", store::load),
        ("store: list", store::list),
        ("store: chunks", store::chunks),
        ("store: start", store::start),
        ("store: a slow model", store::slow),
        #[cfg(feature = "postgres")]
        ("database: writer", database::writer),
        #[cfg(feature = "postgres")]
        ("database: idle sessions", database::idle),
        #[cfg(feature = "postgres")]
        ("database: takeover", database::takeover),
    ];
    for (name, measure) in measures {
        if wanted.is_none_or(|wanted| name.contains(wanted.as_str())) {
            println!("{}", json!({ "measure": name, "result": measure() }));
        }
    }
}

/// The middle of the values.
fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Two decimals are enough.
fn round(value: f64) -> f64 {
    (value * 100.0).round() / 100.0
}
