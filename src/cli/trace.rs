//! Flags for traces.

use clap::Args;

/// Receivers of traces, and what is in them.
#[derive(Args)]
pub(crate) struct TraceArgs {
    /// Send the trace that a request belongs to (`traceparent`) to these hosts, too: of models, MCP servers and
    /// agents outside of the own network; `*` for all
    #[arg(long, value_name = "HOST", value_delimiter = ',')]
    pub(crate) trace_to: Vec<String>,
    /// Send prompts, answers, and calls with their results to the collector of traces: whoever can read the traces
    /// can read all that is said in sessions, and what is in the files that the model reads
    #[arg(long)]
    pub(crate) trace_content: bool,
}
