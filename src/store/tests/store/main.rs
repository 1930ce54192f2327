//! Stores of sessions: files, and a Postgres database.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on should panic")]
#![expect(clippy::needless_pass_by_value, reason = "a case reads better as a value")]
#![expect(clippy::too_many_lines, reason = "a table of cases is as long as it is")]

mod files;
mod laws;
mod postgres;
