//! From spawn to the first answer, and what an idle agent costs.

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::Instant;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::process::{Process, start as spawn, tandem};
use crate::{median, round};

/// The least that a Rust program does: one line.
const BARE: &str = r#"fn main() { println!("hello"); }"#;

const TIMES: usize = 300;

/// The least program, in a directory of its own.
pub(crate) fn bare() -> (TempDir, PathBuf) {
    let dir = TempDir::new().unwrap();
    let source = dir.path().join("bare.rs");
    fs::write(&source, BARE).unwrap();
    let program = dir.path().join("bare");
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let mut rustc = Command::new(rustc);
    rustc.args(["-O", "-C", "strip=symbols", "-o"]).arg(&program).arg(&source);
    assert!(rustc.status().unwrap().success());
    (dir, program)
}

/// Microseconds from spawn to the first line, against a bare program's.
pub(crate) fn start() -> Value {
    let (_dir, program) = bare();
    let mut bare = Vec::new();
    let mut ours = Vec::new();
    for _ in 0..TIMES {
        let before = Instant::now();
        let mut process = spawn(Command::new(&program), None);
        process.line();
        bare.push(before.elapsed().as_secs_f64() * 1e6);
        drop(process);

        let before = Instant::now();
        let process = initialized();
        ours.push(before.elapsed().as_secs_f64() * 1e6);
        drop(process);
    }
    let (bare, ours) = (median(bare), median(ours));
    json!({
        "bare program, us": bare.round(),
        "tandem, us": ours.round(),
        "ratio": round(ours / bare),
    })
}

fn initialized() -> Process {
    let mut process = tandem(&[], &[("GEMINI_API_KEY", "none")]);
    process.initialize();
    process
}

/// Resident memory when nothing happens.
pub(crate) fn idle_memory() -> Value {
    let process = initialized();
    json!({ "KiB": process.memory("VmRSS"), "threads": process.memory("Threads") })
}
