//! Servers of the Model Context Protocol, as the program finds and runs them.

mod editor;
pub(crate) mod login;
mod sandbox;
mod settings;

use std::path::{Path, PathBuf};

/// Returns the server of the fixtures, whose behaviour depends on `mode`.
fn fixture() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/mcp/server.sh")
}

/// Source of the same server, which a test puts into its workspace: commands in a sandbox do not see the fixture if
/// the repository is below `/tmp`.
const SERVER: &str = include_str!("../../fixtures/mcp/server.sh");
