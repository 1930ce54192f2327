//! Traces of a server's work, for OpenTelemetry: the request that a piece of work belongs to, and the duration of its
//! steps. The traces contain no content of a session, unless the user wants that.
//!
//! The spans are those of `tracing` with the target [`TRACE_TARGET`]. [`Traces`] sends them to a collector, if the
//! environment names one. Without a collector, spans cost next to nothing.

mod content;
mod context;
mod counts;
mod export;
mod outage;
mod sampler;
mod target;

pub use self::content::{
    ContentOptions, record_content, record_newest, record_value, records_content,
};
pub use self::context::{TraceContext, add_to, outgoing, send_to};
pub use self::counts::{SpanCounts, span_counts};
pub use self::export::Traces;
pub use self::target::{LOG_TARGET, TRACE_TARGET};
