//! Results of subcommands on standard output.

use std::io::{self, ErrorKind, Write as _, stdout};

use anyhow::Context as _;

/// Writes a result to standard output.
pub(super) fn print(result: impl AsRef<[u8]>) -> anyhow::Result<()> {
    printed(stdout().write_all(result.as_ref()))
}

/// Returns the error of writing to standard output. A reader that reads no further, as `head` does, has what it wanted.
pub(super) fn printed(written: io::Result<()>) -> anyhow::Result<()> {
    match written {
        Err(err) if err.kind() == ErrorKind::BrokenPipe => Ok(()),
        written => written.context("standard output cannot be written"),
    }
}
