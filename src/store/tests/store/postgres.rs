//! Sessions in a Postgres database, which several nodes share.

mod shared;
mod store;
