//! A server for many, whatever protocol it speaks: TLS and proxies in front of it, who its clients are and how much
//! each of them may use, and room for their connections.

pub mod busy;
pub mod certificate;
pub mod connection_room;
pub mod forwarded;
pub mod http2;
pub mod network;
pub mod oidc;
pub mod patience;
pub mod principals;
pub mod proxy;
pub mod quotas;
pub mod refusals;
pub mod tls;
pub mod tokens;
