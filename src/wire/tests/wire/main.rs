//! Tests of connections, through the functions that front ends use.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on should panic")]

mod peer;
