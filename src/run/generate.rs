//! Generation of shell completions and manual pages from the definition of the command line.

use std::fs;
use std::path::Path;

use anyhow::Context as _;
use clap::CommandFactory as _;
use clap_complete::Shell;

use super::printing::print;
use crate::cli::Cli;

/// Writes the completion script for a shell to standard output.
pub(crate) fn completions(shell: Shell) -> anyhow::Result<()> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "tandem", &mut script);
    print(&script)
}

/// Writes a manual page for the program, and one for each of its subcommands, into a directory.
pub(crate) fn manual(directory: &Path) -> anyhow::Result<()> {
    let written = || -> std::io::Result<()> {
        fs::create_dir_all(directory)?;
        clap_mangen::generate_to(Cli::command(), directory)
    };
    written().with_context(|| format!("cannot write to {}", directory.display()))
}
