//! Targets of spans.

/// Target of the spans that are traced, and of no other.
pub const TARGET: &str = "tandem::trace";

/// Target of spans that only tell the log to what its lines belong.
pub const LOG_TARGET: &str = "tandem::session";
