//! The sandbox of commands, as `tandem sandbox` starts it: each test runs with every mechanism that works
//! on this machine.

mod attacks;
mod limits;
mod lines;
mod network;
mod work;

use std::fmt;
use std::fs;
use std::io::{Write as _, stderr};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use tempfile::TempDir;

use crate::places::seen_in_sandbox;

/// Name of the program that the attacks are written for.
const PYTHON: [&str; 2] = ["/usr/bin/python3", "/usr/local/bin/python3"];

/// A mechanism, by its name.
pub(super) const MECHANISMS: [&str; 3] = ["namespaces", "bubblewrap", "landlock"];

/// Says why something is not tried.
pub(super) fn skipped(why: fmt::Arguments<'_>) {
    let _ = writeln!(stderr(), "skipped: {why}");
}

/// A home with a workspace in it, outside of `/tmp`, which commands see another one of.
pub(super) struct Arena {
    directory: TempDir,
}

impl Arena {
    pub(super) fn new() -> Self {
        Self::of(seen_in_sandbox())
    }

    /// An arena in a directory that is made for it.
    pub(super) fn of(directory: TempDir) -> Self {
        let arena = Self { directory };
        fs::create_dir_all(arena.workspace()).unwrap();
        arena
    }

    pub(super) fn path(&self) -> &Path {
        self.directory.path()
    }

    pub(super) fn home(&self) -> PathBuf {
        self.path().join("home")
    }

    pub(super) fn workspace(&self) -> PathBuf {
        self.home().join("workspace")
    }

    /// Writes a file of the home.
    pub(super) fn file(&self, name: &str, content: &str) {
        let path = self.home().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    /// Returns a program, run in the workspace.
    pub(super) fn program(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", self.home())
            .env("TANDEM_LOG", "off")
            .current_dir(self.workspace())
            .stdin(Stdio::null());
        command
    }

    /// Returns what runs words in the sandbox.
    pub(super) fn sandboxed(&self, mechanism: &str, mode: &str, words: &[&str]) -> Command {
        let mut command = self.program(env!("CARGO_BIN_EXE_tandem"));
        command.args(["sandbox", "--mechanism", mechanism, "-s", mode, "--"]).args(words);
        command
    }

    /// Runs a line of bash in the sandbox.
    pub(super) fn bash(&self, mechanism: &str, mode: &str, line: &str) -> Output {
        self.sandboxed(mechanism, mode, &["/bin/bash", "-c", line]).output().unwrap()
    }

    /// Runs a line of bash, without a sandbox; it must succeed.
    pub(super) fn outside(&self, line: &str) -> String {
        let output = self.program("/bin/bash").args(["-c", line]).output().unwrap();
        assert!(output.status.success(), "{line}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// Returns the mechanisms that work here, and says why another does not.
    pub(super) fn mechanisms(&self) -> Vec<&'static str> {
        let works = |mechanism: &&str| {
            let output = self.bash(mechanism, "read-only", "true");
            if !output.status.success() {
                skipped(format_args!("{mechanism}: {}", String::from_utf8_lossy(&output.stderr)));
            }
            output.status.success()
        };
        let working: Vec<_> = MECHANISMS.into_iter().filter(works).collect();
        assert!(!working.is_empty(), "no mechanism works here");
        working
    }
}

/// Returns the path of an interpreter that runs in any home.
pub(super) fn python() -> Option<&'static str> {
    let found = PYTHON.into_iter().find(|path| Path::new(path).exists());
    if found.is_none() {
        skipped(format_args!("there is no python3"));
    }
    found
}
