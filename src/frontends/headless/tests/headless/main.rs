//! Runs without a person, in the process of the tests.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on should panic")]

mod inside;
