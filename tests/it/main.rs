//! The real program, from the side of its users.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on should panic")]
#![expect(clippy::needless_pass_by_value, reason = "a case reads better as a value")]
#![expect(clippy::too_many_lines, reason = "a table of cases is as long as it is")]
#![expect(clippy::unnecessary_wraps, reason = "what goes into a list is wrapped once")]
#![expect(clippy::format_collect, reason = "speed does not matter here")]
#![expect(clippy::needless_raw_string_hashes, reason = "expect-test writes them")]

mod a2a;
mod acp_v1;
mod agent;
mod background;
mod bad_input;
mod certificates;
mod choices;
mod clients;
mod clouds;
mod command_line;
mod commands;
mod context;
mod disk;
mod docs;
mod family;
mod gemini_cli;
mod headless;
mod hidden;
mod install;
mod killed;
mod lifecycle;
mod login_shell;
mod mcp;
mod needs;
mod places;
mod providers;
mod replayed;
mod sandbox;
mod sandboxed;
mod secrecy;
mod serve_check;
mod sessions_cli;
mod settings;
mod shared;
mod shown;
mod streams;
mod terminal;
mod transcripts;
mod unasked;
mod web;
mod whole;

use test_fakes as fakes;
use test_support::limit;
