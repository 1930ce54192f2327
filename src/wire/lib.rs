//! JSON-RPC over any byte stream, and the message types of ACP, A2A and the attaching of terminals.

pub mod a2a;
pub mod acp;
pub mod attach;
pub mod development_tool;
pub mod jsonrpc;
pub mod rpc;
pub mod stdio;
