//! The A2A server, in the process of the tests, and its push notifications.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on should panic")]
#![expect(clippy::needless_pass_by_value, reason = "a case reads better as a value")]
#![expect(clippy::too_many_lines, reason = "a table of cases is as long as it is")]

mod away;
mod beside;
mod in_process;
mod many;
mod webhook;
