//! The A2A server of the real binary, as its clients meet it.

mod errors;
mod guard;
mod http;
mod limits;
mod races;
mod server;
mod settings;
mod socket;
mod together;
mod token;
