//! A server for many: TLS and proxies in front of it, who its clients are and how much each of them may use, and room
//! for their connections. The errors and the names of headers are those of A2A, the only protocol that is served.
//!
//! - callers: `tokens` is the file of tokens, `proxy` names the proxies that are trusted, `oidc` checks tokens of an
//!   issuer, `principals` says who a caller is and what the caller may do, `quotas` how much, `refusals` counts
//!   requests without a valid token, `audit` records what callers do;
//! - network: `network` is the address and the names of the server, with `tls` and `certificate`; `forwarded` reads the
//!   headers of proxies;
//! - connections: `connection_room` limits their number, `busy` refuses those beyond, `patience` limits how long a write
//!   waits, `http2` counts the requests of one.

pub mod audit;
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
