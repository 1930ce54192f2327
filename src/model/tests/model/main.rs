//! Models, against stand-ins for the APIs of their providers.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on should panic")]
#![expect(clippy::needless_pass_by_value, reason = "a case reads better as a value")]
#![expect(clippy::needless_raw_string_hashes, reason = "expect-test writes them")]

mod anthropic;
mod api;
mod gemini;
mod listing;
mod ollama;
mod openai;
mod responses;
mod server_default;
