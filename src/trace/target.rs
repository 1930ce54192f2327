//! Targets of spans.

/// Target of the spans that are exported.
pub const TRACE_TARGET: &str = "tandem::trace";

/// Target of spans that are not exported: they only say in the log what its lines belong to.
pub const LOG_TARGET: &str = "tandem::session";
