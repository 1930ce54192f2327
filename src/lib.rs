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
//! * [`config`]: what the user has set up: environment, `.env`, the key to call a model with.
//! * [`session`]: the agent: its log, its turns. Knows no front end and no wire format.
//! * [`frontends`]: translate between a wire, or a screen, and a session.

pub mod config;
pub mod frontends;
pub mod media;
pub mod model;
pub mod permission;
pub mod protocol;
pub mod rpc;
pub mod session;
pub mod sync;
pub mod tools;
