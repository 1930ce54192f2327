//! Wire types: serde only, no I/O, nothing of this crate imported.

pub mod acp;
pub mod jsonrpc;
