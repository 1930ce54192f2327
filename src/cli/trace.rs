//! Flags for traces.

use clap::Args;

/// Receivers of traces, and what is in them.
#[derive(Args)]
#[command(next_help_heading = "Monitoring")]
pub(crate) struct TraceArgs {
    /// Send the trace that a request belongs to (`traceparent`) also to these hosts outside of your network: hosts
    /// of models, MCP servers and agents; `*` for all
    #[arg(long, value_name = "HOST", value_delimiter = ',')]
    pub(crate) trace_to: Vec<String>,
    /// Send prompts, answers, and calls with their results to the collector of traces. Everybody who can read the
    /// traces can then read all conversations, and the files that the model reads
    #[arg(long)]
    pub(crate) trace_content: bool,
}
