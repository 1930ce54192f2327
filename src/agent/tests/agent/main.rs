//! Tests of sessions through the functions that front ends use: turns, calls, questions, and the model's prompts.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on should panic")]
#![expect(clippy::too_many_lines, reason = "a table of cases is as long as it is")]
#![expect(clippy::unnecessary_wraps, reason = "what goes into a list is wrapped once")]
#![expect(clippy::format_collect, reason = "speed does not matter here")]
#![expect(clippy::needless_raw_string_hashes, reason = "expect-test writes them")]

mod answer_schema;
mod background;
mod commands;
mod context;
mod events;
mod kept;
mod long;
mod other_agents;
mod patches;
mod saved_workspace;
mod session;
mod sessions;
mod short_tools;
mod surroundings;
mod told;
mod typed;
mod undo;
mod user_input;
mod user_questions;
mod wires;
