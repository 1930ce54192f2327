//! Programs and rights that a test needs and a machine may lack. A test checks its needs first, and is skipped
//! without them. At the end of `cargo test`, `tests/needs` lists the skipped tests.

use std::collections::BTreeMap;
use std::env;
use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::os::unix::process::parent_id;
use std::path::PathBuf;
use std::sync::Mutex;
use std::thread;

/// Program or right that a machine has or lacks.
pub struct Requirement {
    /// Name that people read.
    pub name: &'static str,
    /// Rest of the variable `TANDEM_REQUIRE_...`, with which tests fail instead of being skipped.
    pub variable: &'static str,
    /// Advice to a person whose machine lacks the program or right.
    pub remedy: &'static str,
    /// Looks for the program or right on this machine.
    pub is_here: fn() -> bool,
}

/// The programs of a Postgres server.
pub const POSTGRES: Requirement = Requirement {
    name: "Postgres",
    variable: "POSTGRES",
    remedy: "install the package postgresql",
    is_here: || postgres_programs().is_some(),
};

impl Requirement {
    /// Returns `true` if this machine lacks what a test needs. The test is then skipped, which is recorded. Panics if
    /// the need is required. With `--test-threads=1` the harness names no thread after its test, and all tests count
    /// as one.
    pub fn is_lacking(&self) -> bool {
        static HERE: Mutex<BTreeMap<&str, bool>> = Mutex::new(BTreeMap::new());
        let Self { name, variable, remedy, is_here } = *self;
        let is_here = *HERE.lock().unwrap().entry(name).or_insert_with(is_here);
        if !is_here {
            let is_required = |variable| env::var_os(format!("TANDEM_REQUIRE_{variable}"));
            let required = is_required(variable).or_else(|| is_required("ALL"));
            assert!(required.is_none(), "{name} is missing: {remedy}");
            record(name, remedy);
        }
        !is_here
    }
}

/// Prints the need in this test's output, and records it for the list at the end of `cargo test`.
#[expect(clippy::print_stdout, reason = "captured; `--show-output` prints it")]
fn record(name: &str, remedy: &str) {
    println!("skipped without {name}: {remedy}");
    let test = thread::current().name().unwrap_or("a test").to_owned();
    // The parent, cargo, is the same for all that one `cargo test` runs.
    let line = [&parent_id().to_string(), name, remedy, &test].join("\t") + "\n";
    let file = target_tmp().join("skipped");
    let mut file = OpenOptions::new().create(true).append(true).open(file).unwrap();
    // The line is written in one call, so that lines of parallel tests do not mix.
    file.write_all(line.as_bytes()).unwrap();
}

/// Returns the directory that cargo names `CARGO_TARGET_TMPDIR` to tests, though not to the crates that they use.
fn target_tmp() -> PathBuf {
    let program = env::current_exe().unwrap();
    let mut above = program.ancestors().map(|directory| directory.join("tmp"));
    above.find(|directory| directory.is_dir()).unwrap()
}

/// Returns the directory of the programs of the newest Postgres.
pub fn postgres_programs() -> Option<PathBuf> {
    let versions = fs::read_dir("/usr/lib/postgresql").ok()?.flatten();
    let directories = versions.map(|version| version.path().join("bin"));
    directories.filter(|directory| directory.join("initdb").exists()).max()
}
