//! `tandem models`: its subcommand and flags.

use clap::{Args, Subcommand};

use super::work::WorkArgs;

/// List the models that can be used now: of providers with a key, and of servers, also on this machine
///
/// Ollama, llama.cpp, LM Studio and vLLM are looked for at their usual ports of this machine.
#[derive(Args)]
pub(crate) struct ModelsArgs {
    /// Subcommand.
    #[command(subcommand)]
    pub(crate) command: Option<ModelsCommand>,
    /// Write one JSON object
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// Model, permissions and limits.
    #[command(flatten)]
    pub(crate) work: WorkArgs,
}

/// Subcommand of `tandem models`.
#[derive(Subcommand, Clone, Copy)]
pub(crate) enum ModelsCommand {
    /// List the models, as without a subcommand
    #[command(alias = "ls")]
    List,
}
