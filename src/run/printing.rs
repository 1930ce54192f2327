//! Output of subcommands' results on standard output.

use std::io::{self, ErrorKind, Write as _, stdout};

use anyhow::Context as _;

/// Writes a result to standard output.
pub(super) fn print(result: impl AsRef<[u8]>) -> anyhow::Result<()> {
    printed(stdout().write_all(result.as_ref()))
}

/// Adds the context to an error of writing to standard output. A closed pipe is no error: a reader such as `head`
/// stops reading when it has enough.
pub(super) fn printed(written: io::Result<()>) -> anyhow::Result<()> {
    match written {
        Err(err) if err.kind() == ErrorKind::BrokenPipe => Ok(()),
        written => written.context("standard output cannot be written"),
    }
}
