//! Other agents that the model calls, well-behaved ones and others.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on should panic")]
#![expect(clippy::needless_pass_by_value, reason = "a case reads better as a value")]
#![expect(clippy::needless_raw_string_hashes, reason = "expect-test writes them")]

mod asked;
mod fake;
mod http_json;
mod lost;
mod odd;
mod versions;
