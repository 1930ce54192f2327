//! The network of commands in the sandbox: a proxy in the agent is their only way out. It connects to hosts that the
//! settings or the user allow.

mod access;
mod dial;
mod hosts;
mod proxy;
mod relay;
mod request;
mod setup;
mod upstream;

pub use self::access::{Admission, BlockedHost, Connect, NetworkAccess};
pub use self::hosts::{Destination, HostLists, HostPattern};
pub use self::proxy::NetworkProxy;
pub use self::setup::{NetworkSetup, ProxyLimits};
pub use self::upstream::UpstreamProxies;
