//! Connections, as front ends use them.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on should panic")]

mod peer;
