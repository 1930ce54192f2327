//! A coding agent whose one live session an editor, other agents and a person in a terminal share.
//!
//! Layers, from the ground up; each uses only those above it in this list (`tests/it/tidy.rs`
//! keeps that):
//!
//! * [`sync`], [`media`]: a mutex that cannot fail; bytes as a model takes them.
//! * [`protocol`]: what the wires look like. Types only.
//! * [`rpc`]: a JSON-RPC connection over any byte stream.
//! * [`model`]: language models. [`tools`]: what they may call.
//! * [`permission`]: what may run without a question.
//! * [`session`]: the agent: its log, its turns. Knows no front end and no wire format.
//! * [`frontends`]: translate between a wire, or a screen, and a session.
//! * [`config`]: what the user has set up: environment, `.env`, the key, limits.
//! * [`cli`]: the command line. [`logging`]: logs.
//! * [`stdio`]: standard input and output. [`record`]: a transcript of a connection.
//! * [`run`]: builds all of it, joins it, ends it.

pub mod cli;
pub mod config;
pub mod frontends;
pub mod logging;
pub mod media;
pub mod model;
pub mod permission;
pub mod protocol;
pub mod record;
pub mod rpc;
pub mod run;
pub mod session;
pub mod stdio;
pub mod sync;
pub mod tools;
