//! The program that is measured.

use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, bail};
use serde::Deserialize;

use super::task::home;

/// Beginnings of the variables with which cargo describes the package that it runs.
const DESCRIBING_VARIABLES: [&str; 4] =
    ["CARGO_PKG_", "CARGO_MANIFEST_", "CARGO_BIN_", "CARGO_CRATE_"];

/// The program that is measured.
#[derive(Clone)]
pub(crate) struct Program(PathBuf);

/// A message of cargo about something that it has built, with the fields that are needed here.
#[derive(Deserialize)]
struct BuildMessage {
    target: Option<BuildTarget>,
    executable: Option<PathBuf>,
}

/// Target of a package that cargo has built.
#[derive(Deserialize)]
struct BuildTarget {
    name: String,
    kind: Vec<String>,
}

impl Program {
    /// Returns the program at a path.
    pub(crate) fn at(path: &Path) -> anyhow::Result<Self> {
        let path =
            path.canonicalize().with_context(|| format!("cannot find {}", path.display()))?;
        Ok(Self(path))
    }

    /// Builds tandem from this source, with the profile of the evaluation itself. Nothing is built if nothing has
    /// changed, so the program is never older than its source.
    pub(crate) fn built() -> anyhow::Result<Self> {
        let cargo = env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo"));
        let mut command = Command::new(cargo);
        command
            .args(["build", "--quiet", "--package", "tandem", "--bin", "tandem"])
            .arg("--message-format=json-render-diagnostics")
            .current_dir(home())
            .stderr(Stdio::inherit());
        // Cargo has described the package of this evaluation in variables. A build script that reads them (ring's does)
        // would run again, and everything that needs ring would be built a second time.
        for (name, _) in env::vars_os() {
            if DESCRIBING_VARIABLES.iter().any(|it| name.to_string_lossy().starts_with(it)) {
                command.env_remove(name);
            }
        }
        if !cfg!(debug_assertions) {
            command.arg("--release");
        }
        let output = command.output().context("cannot run cargo")?;
        if !output.status.success() {
            bail!("tandem could not be built");
        }
        let messages = String::from_utf8_lossy(&output.stdout);
        let program = messages.lines().find_map(executable);
        program.map(Self).context("cargo does not say which program it has built")
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    /// Fails if commands cannot have a sandbox on this machine.
    pub(crate) fn check_sandbox(&self) -> anyhow::Result<()> {
        let output = Command::new(&self.0).args(["sandbox", "--", "true"]).output();
        let output = output.with_context(|| format!("cannot run {}", self.0.display()))?;
        if output.status.success() {
            return Ok(());
        }
        bail!(
            "commands cannot have a sandbox here: {} --no-sandbox runs them, and checkers, without one.",
            String::from_utf8_lossy(&output.stderr).trim()
        )
    }
}

/// Returns the program that a message of cargo names, if it is the right one.
fn executable(message: &str) -> Option<PathBuf> {
    let message: BuildMessage = serde_json::from_str(message).ok()?;
    let target = message.target?;
    let is_program = target.name == "tandem" && target.kind.iter().any(|kind| kind == "bin");
    message.executable.filter(|_| is_program)
}
