//! What the settings say of the network of commands in the sandbox.

use std::time::Duration;

use tandem_net::{Lookup, Reach, system_lookup};

use super::hosts::{Destination, HostLists};
use super::upstream::UpstreamProxies;

/// Ports that can be connected to without a setting.
const PORTS: [u16; 2] = [80, 443];

/// Choices about the network of commands in the sandbox.
#[derive(Clone)]
pub struct NetworkSetup {
    /// Hosts that the settings allow and deny.
    pub lists: HostLists,
    /// Ports besides those of HTTP and HTTPS.
    pub ports: Vec<u16>,
    /// Addresses that hosts may lead to.
    pub reach: Reach,
    /// Addresses that allowed hosts may lead to.
    pub reach_of_allowed: Reach,
    /// Resolver of names.
    pub lookup: Lookup,
    /// Proxies by which the agent itself reaches the network.
    pub proxies: UpstreamProxies,
    /// Bounds of what the proxy does.
    pub limits: ProxyLimits,
}

impl Default for NetworkSetup {
    /// No host is allowed or denied, and names are resolved by the system.
    fn default() -> Self {
        Self {
            lists: HostLists::default(),
            ports: Vec::new(),
            reach: Reach::Public,
            reach_of_allowed: Reach::Public,
            lookup: system_lookup(),
            proxies: UpstreamProxies::none(),
            limits: ProxyLimits::default(),
        }
    }
}

/// Bounds of what the proxy does for one session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProxyLimits {
    /// Connections at once; more wait.
    pub connections: usize,
    /// Bytes of a request's head.
    pub head_bytes: usize,
    /// Time for a request's head.
    pub head_time: Duration,
    /// Time to resolve a name, and to connect to one of its addresses.
    pub connect_time: Duration,
    /// Time for which a connection may be silent.
    pub idle: Duration,
    /// Hosts that one command can ask for which are not allowed.
    pub hosts: usize,
}

impl Default for ProxyLimits {
    fn default() -> Self {
        Self {
            connections: 128,
            head_bytes: 16 << 10,
            head_time: Duration::from_secs(10),
            connect_time: Duration::from_secs(10),
            idle: Duration::from_mins(5),
            hosts: 100,
        }
    }
}

impl NetworkSetup {
    /// Returns whether the settings allow a host.
    pub(super) fn allows(&self, destination: &Destination) -> bool {
        self.lists.allow(destination)
    }

    /// Returns the addresses that a host may lead to.
    pub(super) fn reach_of(&self, destination: &Destination) -> Reach {
        if self.allows(destination) { self.reach_of_allowed } else { self.reach }
    }

    /// Checks a destination as far as possible without asking anybody. The error says why it is refused.
    pub(super) fn judge(&self, destination: &Destination) -> Result<(), String> {
        let port = &destination.port;
        if !PORTS.contains(port) && !self.ports.contains(port) {
            let port = format!("port {port} is not among those that can be connected to");
            return Err(format!("{port} (`sandbox.network.allowedPorts`)"));
        }
        self.lists.judge(destination)?;
        destination.judge(self.reach_of(destination)).map_err(|why| format!("it is {why}"))
    }
}
