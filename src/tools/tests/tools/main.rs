//! The built-in tools, called as a session calls them.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on should panic")]
#![expect(clippy::too_many_lines, reason = "a table of cases is as long as it is")]
#![expect(clippy::format_collect, reason = "speed does not matter here")]
#![expect(clippy::needless_raw_string_hashes, reason = "expect-test writes them")]

mod background;
mod client_terminals;
mod edit;
#[cfg(target_os = "linux")]
mod exchanged;
mod read;
mod titles;
mod web;
