//! A coding agent whose one live session an editor, other agents and a person in a terminal share.
//!
//! A **session** is one live conversation. Its **log** is an append-only list of events: what a
//! front end shows and what the model is told are made from it, and whoever watches reads it from
//! an index, at a pace of their own. A question is announced in the log; the first answer decides,
//! and is an event too.
//!
//! # Layers
//!
//! From the ground up; each uses only those above it in this list (`tests/it/tidy.rs` keeps that):
//!
//! * [`sync`], [`media`], [`visible`]: a mutex that cannot fail; bytes as a model takes them; text that
//!   hides nothing from a person.
//! * [`net`]: requests that reach what everybody reaches, and not what only this machine does.
//! * [`protocol`]: what the wires look like. Types only.
//! * [`rpc`]: a JSON-RPC connection over any byte stream.
//! * [`model`]: language models. [`tools`]: what they may call.
//! * [`shell`]: what a bash command line would run, and what is known of each program.
//! * [`permission`]: what may run without a question.
//! * [`session`]: the agent: its log, its turns. Knows no front end and no wire format.
//! * [`commands`]: slash commands, once for every front end.
//! * [`frontends`]: translate between a wire, a screen or a shell's pipes, and a session.
//! * [`config`]: what the user has set up: environment, `.env`, the key, limits.
//! * [`cli`]: the command line. [`logging`]: logs.
//! * [`stdio`]: standard input and output. [`record`]: a transcript of a connection.
//! * [`run`]: builds all of it, joins it, ends it.
//!
//! # What always holds
//!
//! 1. The log is the only lasting state of a session, and its events are a format that outlives the
//!    program (`session/event.rs`).
//! 2. Nothing but protocol lines on standard output: whole lines a write, packed up to 4096 bytes.
//!    With `-p`: nothing but the answer.
//! 3. The reader of a connection waits for nothing but input.
//! 4. Exactly one answer a request: [`rpc::Responder`] is consumed by giving it.
//! 5. Register before you announce. Every call that starts has an end in the log.
//! 6. A path from the model or a peer goes through [`tools::workspace`] before it touches the disk.
//! 7. No network and no directory scan before `initialize` is answered.
//! 8. When the process ends, so does every process it started.
//!
//! # Where the first plan was changed, and why
//!
//! * Open questions live in the session (`session/question.rs`), not in [`permission`]: the first
//!   answer, the log's event and the call's fate change under one lock.
//! * `session/gate.rs`: a call that needs no question still waits for the editor's answer to
//!   `pushToolCall`, so that no tool runs that the editor has refused to show.
//! * [`model::lazy`]: the model, with its HTTP client and its certificates, is put together when it
//!   is first asked, and `session/toolbox.rs` writes the tools' declarations then: neither is on the
//!   way to the first answer.
//! * A command line is read twice ([`shell`]): by our own reader, which follows bash and
//!   decides, and with tree-sitter's grammar, which must have found no command that ours did not.
//! * `replace` has no pattern strategy that runs regular expressions on what the model wrote: the
//!   same edits are found by a linear search for the words.
//! * `.env` files are read by our own code (`config/`): the crates for it expand variables or write
//!   to the process's environment, which must not happen for a file that is not trusted.
//! * Standard output, if a pipe, is made small (8192 bytes, [`stdio`]): the published client for
//!   0.0.9 loses half lines when much waits in the pipe.
//! * The A2A server keeps its own list of sessions (`frontends/a2a/contexts.rs`): nobody else has
//!   several yet. A session's log says when each event happened, for the tasks' timestamps.
//! * A run without a person (`frontends/headless.rs`) answers questions itself, with
//!   `Answer::Nobody`: the model is told that nobody can be asked, which is no user's refusal.
//! * A call is held up for an editor's `pushToolCall` only in turns that this editor began.
//! * The terminal's screen is written by `frontends/tui/screen.rs`, not by ratatui's inline viewport:
//!   that has a fixed height and asks the terminal where the cursor is. Ours is as high as what is
//!   shown, and moves only relative to itself.
//! * `tandem attach` is the terminal as a client of the A2A server ([`protocol::attach`]): it asks for the
//!   log's entries from an index on, as every reader here does, and so needs nothing of A2A's events.
//! * The log is kept in memory only up to a size; the oldest events of a longer one are in a file without
//!   a name (`session/log/shelf.rs`). Readers do not notice.
//! * `.cargo/build.rs` links the unwinder statically on Linux: one library fewer to load at each start.

pub mod cli;
pub mod commands;
pub mod config;
pub mod frontends;
pub mod logging;
pub mod media;
pub mod model;
pub mod net;
pub mod permission;
pub mod protocol;
pub mod record;
pub mod rpc;
pub mod run;
pub mod session;
pub mod shell;
pub mod stdio;
pub mod sync;
pub mod tools;
pub mod visible;
