//! Flags for traces.

use clap::Args;

/// Receivers of traces, and what is in them.
#[derive(Args)]
pub(crate) struct TraceArgs {
    /// Tell these hosts, beside those of the own network, to which trace a request belongs
    /// (`traceparent`): models, MCP servers, agents; `*` for all
    #[arg(long, value_name = "HOST", value_delimiter = ',')]
    pub(crate) trace_to: Vec<String>,
    /// Send prompts, answers, and calls with their results to the collector of traces: whoever can read the traces
    /// can read all that is said in sessions, and what is in the files that the model reads
    #[arg(long)]
    pub(crate) trace_content: bool,
}
