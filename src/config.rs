//! What the user has settled: limits.

pub mod limits;
