//! Prints at the end of `cargo test` what tests needed and did not find, and how to get it. `tests/support/needs.rs`
//! records it.

#![expect(clippy::print_stdout, reason = "a person reads it")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::process::parent_id;
use std::path::Path;

fn main() {
    // Editors list the names of tests in this way.
    if std::env::args().any(|arg| arg == "--list") {
        return;
    }
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join("skipped");
    let recorded = fs::read_to_string(&file).unwrap_or_default();
    // The file is removed, or it would grow with each run that does not read it.
    let _ = fs::remove_file(file);
    print!("{}", summary(&recorded, &parent_id().to_string()));
}

/// Returns the tests that one run of cargo skipped, a line for each need.
fn summary(recorded: &str, cargo: &str) -> String {
    let mut skipped: BTreeMap<(&str, &str), BTreeSet<&str>> = BTreeMap::new();
    for line in recorded.lines() {
        if let [run, name, remedy, test] = line.split('\t').collect::<Vec<_>>()[..]
            && run == cargo
        {
            skipped.entry((name, remedy)).or_default().insert(test);
        }
    }
    if skipped.is_empty() {
        return "nothing that a test of this run needs is missing\n".to_owned();
    }
    let line = |((name, remedy), tests): (&(&str, &str), &BTreeSet<&str>)| {
        let (count, plural) = (tests.len(), if tests.len() == 1 { "" } else { "s" });
        format!("skipped: {count} test{plural}, all or in part, without {name}: {remedy}\n")
    };
    skipped.iter().map(line).collect()
}
