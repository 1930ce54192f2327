//! Wire types: serde only, no I/O, nothing of this crate imported.

pub mod a2a;
pub mod acp;
pub mod attach;
pub mod development_tool;
pub mod jsonrpc;
