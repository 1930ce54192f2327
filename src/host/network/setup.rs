//! Settings of the network of commands in the sandbox.

use std::time::Duration;

use tandem_net::{Lookup, Reach, system_lookup};

use super::hosts::{Destination, HostLists};
use super::upstream::UpstreamProxies;

/// Ports that commands can connect to without a setting.
const DEFAULT_PORTS: [u16; 2] = [80, 443];

/// Settings of the network of commands in the sandbox.
#[derive(Clone)]
pub struct NetworkSetup {
    /// Hosts that the settings allow and deny.
    pub lists: HostLists,
    /// Further allowed ports, besides those of HTTP and HTTPS.
    pub ports: Vec<u16>,
    /// Range of addresses to which hosts may resolve.
    pub reach: Reach,
    /// Range of addresses to which allowed hosts may resolve.
    pub reach_of_allowed: Reach,
    /// Resolver of names.
    pub lookup: Lookup,
    /// Upstream proxies by which the agent itself reaches the network.
    pub proxies: UpstreamProxies,
    /// Limits of the proxy.
    pub limits: ProxyLimits,
}

impl Default for NetworkSetup {
    /// Returns settings in which no host is allowed or denied. Names are resolved by the system.
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

/// Limits of the proxy of one session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProxyLimits {
    /// Maximum number of connections at once. Further connections wait.
    pub connections: usize,
    /// Maximum size of a request's head, in bytes.
    pub head_bytes: usize,
    /// Maximum time until a request's head is complete.
    pub head_time: Duration,
    /// Maximum time to resolve a name, and to connect to each of its addresses.
    pub connect_time: Duration,
    /// Maximum time for which a connection may be silent.
    pub idle: Duration,
    /// Maximum number of hosts that are decided on for one command.
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

    /// Returns the range of addresses to which a host may resolve.
    pub(super) fn reach_of(&self, destination: &Destination) -> Reach {
        if self.allows(destination) { self.reach_of_allowed } else { self.reach }
    }

    /// Checks a destination against the settings, without a question to a person. The error says why it is refused.
    pub(super) fn judge(&self, destination: &Destination) -> Result<(), String> {
        let port = &destination.port;
        if !DEFAULT_PORTS.contains(port) && !self.ports.contains(port) {
            let port = format!("port {port} is not among the ports that commands can connect to");
            return Err(format!("{port} (`sandbox.network.allowedPorts`)"));
        }
        self.lists.check_not_denied(destination)?;
        destination.judge(self.reach_of(destination)).map_err(|why| format!("it is {why}"))
    }
}
