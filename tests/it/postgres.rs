//! Sessions in a Postgres database, which several nodes share.

pub(crate) mod server;
mod shared;
mod store;
