//! What one command may connect to: each host is decided on once.

use std::collections::HashMap;
use std::fmt;
use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use futures::future::BoxFuture;
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::hosts::Destination;
use super::setup::NetworkSetup;

/// Maximum number of hosts that are remembered as blocked.
const BLOCKED: usize = 20;

/// Decision on a connection that a command wants.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Admission {
    /// It is made, and so are others of the command to this host.
    Admitted,
    /// It is not made, nor are others of the command to this host; why, for the model.
    Refused(String),
    /// It is not made now; why, for the model.
    NotNow(String),
}

/// Decides on a connection to a host that the settings do not deny; `true`: they allow it.
pub type Connect = Arc<dyn Fn(Destination, bool) -> BoxFuture<'static, Admission> + Send + Sync>;

/// A host that a command was kept from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BlockedHost {
    /// The host, with the port.
    pub host: String,
    /// The reason.
    pub why: String,
}

impl fmt::Display for BlockedHost {
    /// Writes the words by which a program is told.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let host = self.host.rsplit_once(':').map_or(&*self.host, |(host, _)| host);
        write!(f, "blocked by the sandbox: {host} ({})", self.why)
    }
}

/// The network of one command: its address of the proxy, and what was decided on the hosts it wanted.
pub struct NetworkAccess {
    address: Ipv4Addr,
    setup: Arc<NetworkSetup>,
    /// Decides on what the settings leave open. Without it, that is refused.
    connect: OnceLock<Connect>,
    decisions: Mutex<Decisions>,
    blocked: Mutex<Vec<BlockedHost>>,
    /// Number of decisions that are being made.
    pending: Arc<AtomicUsize>,
}

#[derive(Default)]
struct Decisions {
    by_destination: HashMap<Destination, watch::Receiver<Option<Admission>>>,
    /// Those that are being made. They go on when the connection that wanted to know has been given up.
    deciding: JoinSet<()>,
}

impl NetworkAccess {
    pub(super) fn new(address: Ipv4Addr, setup: Arc<NetworkSetup>) -> Self {
        let (connect, decisions, blocked, pending) = Default::default();
        Self { address, setup, connect, decisions, blocked, pending }
    }

    /// Returns the loopback address at which the command finds the proxy.
    pub fn address(&self) -> Ipv4Addr {
        self.address
    }

    /// Lets `connect` decide on what the settings leave open; the first that is given counts.
    pub fn decide_by(&self, connect: Connect) {
        let _ = self.connect.set(connect);
    }

    /// Returns whether a decision is being made, for which somebody may have to be asked.
    pub fn is_pending(&self) -> bool {
        self.pending.load(Ordering::Relaxed) > 0
    }

    /// Returns the hosts that the command was kept from.
    pub fn blocked(&self) -> Vec<BlockedHost> {
        self.blocked.lock().clone()
    }

    /// Decides on a connection. The error is for the program that wants it.
    pub(super) async fn admit(&self, destination: &Destination) -> Result<(), String> {
        let admission = match self.setup.judge(destination) {
            Ok(()) => self.decided(destination).await,
            Err(why) => Admission::Refused(why),
        };
        match admission {
            Admission::Admitted => Ok(()),
            Admission::Refused(why) | Admission::NotNow(why) => Err(self.block(destination, &why)),
        }
    }

    /// Remembers that a connection was not made. Returns the words for the program: the host and the reason
    /// once, as the model reads each attempt.
    pub(super) fn block(&self, destination: &Destination, why: &str) -> String {
        let blocked = BlockedHost { host: destination.to_string(), why: why.to_owned() };
        let mut all = self.blocked.lock();
        if all.contains(&blocked) {
            return "blocked by the sandbox, as before".to_owned();
        }
        let told = blocked.to_string();
        if all.len() < BLOCKED {
            all.push(blocked);
        }
        told
    }

    /// Waits for the decision on a host, which is begun if it has not been.
    async fn decided(&self, destination: &Destination) -> Admission {
        let is_allowed = self.setup.allows(destination);
        let Some(connect) = self.connect.get() else {
            return if is_allowed { Admission::Admitted } else { unasked() };
        };
        let decision = {
            let mut decisions = self.decisions.lock();
            match decisions.by_destination.get(destination) {
                Some(decision) => Some(decision.clone()),
                None if decisions.by_destination.len() < self.setup.limits.hosts => {
                    let (sender, decision) = watch::channel(None);
                    decisions.by_destination.insert(destination.clone(), decision.clone());
                    let admission = connect(destination.clone(), is_allowed);
                    let pending = Pending::new(&self.pending);
                    while decisions.deciding.try_join_next().is_some() {}
                    decisions.deciding.spawn(async move {
                        sender.send_replace(Some(admission.await));
                        drop(pending);
                    });
                    Some(decision)
                }
                None => None,
            }
        };
        let Some(mut decision) = decision else {
            return Admission::Refused(format!(
                "the command has asked for {} hosts (`--limit sandbox-hosts=N`)",
                self.setup.limits.hosts
            ));
        };
        let admission = match decision.wait_for(Option::is_some).await {
            Ok(admission) => admission.clone().unwrap_or_else(unasked),
            Err(_) => unasked(),
        };
        if matches!(admission, Admission::NotNow(_)) {
            self.decisions.lock().by_destination.remove(destination);
        }
        admission
    }
}

/// Returns the decision where nobody decides.
fn unasked() -> Admission {
    Admission::NotNow("`sandbox.network.allowedDomains` does not name it".to_owned())
}

/// Counts one more decision that is being made, as long as it lives.
struct Pending(Arc<AtomicUsize>);

impl Pending {
    fn new(count: &Arc<AtomicUsize>) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(count))
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
