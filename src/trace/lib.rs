//! Traces of what a server does, for OpenTelemetry: whose request a piece of work belongs to, and how long its
//! steps take. Nothing of what is said in a session is in them, unless the user wants that.
//!
//! Spans are those of `tracing`, with the target [`TARGET`]. [`Traces`] sends them to a collector, if the
//! environment names one; without it they cost next to nothing.

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
pub use self::target::{LOG_TARGET, TARGET};
