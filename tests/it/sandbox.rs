//! The sandbox of commands, as `tandem sandbox` starts it: each test runs with every mechanism that works
//! on this machine.

mod attacks;
mod home;
mod limits;
mod lines;
mod network;
mod sockets;
mod walls;
mod work;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use tempfile::TempDir;

use crate::needs::{self, Need, lacking};
use crate::places::seen_in_sandbox;

/// Names of the mechanisms.
const MECHANISMS: [&str; 3] = ["namespaces", "bubblewrap", "landlock"];

/// Returns whether a mechanism works here; if not, the test is recorded as skipped.
pub(crate) fn works(mechanism: &str) -> bool {
    let need = match mechanism {
        "namespaces" => Need::Namespaces,
        "bubblewrap" => Need::Bubblewrap,
        _ => Need::Landlock,
    };
    !lacking(need)
}

/// Returns the mechanisms that work here.
pub(crate) fn mechanisms() -> Vec<&'static str> {
    MECHANISMS.into_iter().filter(|mechanism| works(mechanism)).collect()
}

/// A home with a workspace, outside of `/tmp`, in whose place commands see another directory.
pub(super) struct Arena {
    directory: TempDir,
}

impl Arena {
    pub(super) fn new() -> Self {
        Self::of(seen_in_sandbox())
    }

    /// Makes an arena in a new directory.
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

    /// Returns the program that runs words in the sandbox.
    pub(super) fn sandboxed(&self, mechanism: &str, mode: &str, words: &[&str]) -> Command {
        let mut command = self.program(env!("CARGO_BIN_EXE_tandem"));
        command.args(["sandbox", "--mechanism", mechanism, "-s", mode, "--"]).args(words);
        command
    }

    /// Runs a line of bash in the sandbox.
    pub(super) fn bash(&self, mechanism: &str, mode: &str, line: &str) -> Output {
        self.sandboxed(mechanism, mode, &["/bin/bash", "-c", line]).output().unwrap()
    }

    /// Runs a line of bash without a sandbox; the line must succeed.
    pub(super) fn outside(&self, line: &str) -> String {
        let output = self.program("/bin/bash").args(["-c", line]).output().unwrap();
        assert!(output.status.success(), "{line}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    }
}

/// Returns the path of an interpreter that runs in any home; without one, the test is recorded as skipped.
pub(super) fn python() -> Option<&'static str> {
    if lacking(Need::Python) { None } else { needs::python() }
}
