//! Decisions on the hosts that one command may connect to. Each host is decided on once.

use std::collections::HashMap;
use std::fmt;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures::future::BoxFuture;
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::hosts::Destination;
use super::setup::NetworkSetup;

/// Maximum number of blocked hosts that are remembered.
const MAX_BLOCKED_HOSTS: usize = 20;

/// Decision on a connection that a command wants.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Admission {
    /// The connection is made, and so are other connections of the command to this host.
    Admitted,
    /// The connection is refused, and so are other connections of the command to this host; the reason, for the model.
    Refused(String),
    /// The connection is refused, but a later connection to this host is decided on anew; the reason, for the model.
    NotNow(String),
}

/// Callback that decides on a connection to a host that the settings do not deny. The flag is `true` if the settings
/// allow the host.
pub type Connect = Arc<dyn Fn(Destination, bool) -> BoxFuture<'static, Admission> + Send + Sync>;

/// A host to which a connection was refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BlockedHost {
    /// The host, with the port.
    pub host: String,
    /// The reason.
    pub why: String,
}

impl fmt::Display for BlockedHost {
    /// Writes the message for the program that wanted to connect.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let host = self.host.rsplit_once(':').map_or(&*self.host, |(host, _)| host);
        write!(f, "blocked by the sandbox: {host} ({})", self.why)
    }
}

/// The network of one command: the address at which it finds the proxy, and the decisions on hosts so far.
pub struct NetworkAccess {
    address: Ipv4Addr,
    setup: Arc<NetworkSetup>,
    /// Callback for hosts that the settings do not deny. Without it, only hosts that the settings allow are connected
    /// to.
    connect: Mutex<Option<Connect>>,
    /// Decisions on hosts. A decision is begun under the lock, so that each host is decided on once.
    decisions: Mutex<Decisions>,
    /// Refused connections, without repetitions.
    blocked: Mutex<Vec<BlockedHost>>,
    /// Number of pending decisions.
    pending: Arc<AtomicUsize>,
}

#[derive(Default)]
struct Decisions {
    by_destination: HashMap<Destination, watch::Receiver<Option<Admission>>>,
    /// Tasks of the pending decisions. A task goes on even if the connection that waits for its decision has been
    /// closed.
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

    /// Sets the callback that decides on hosts from now on. Pending decisions are those of the callback before.
    pub fn decide_by(&self, connect: Connect) {
        *self.connect.lock() = Some(connect);
    }

    /// Returns whether a decision is pending, for which a person may have to answer a question.
    pub fn is_pending(&self) -> bool {
        self.pending.load(Ordering::Relaxed) > 0
    }

    /// Returns the hosts to which connections were refused.
    pub fn blocked(&self) -> Vec<BlockedHost> {
        self.blocked.lock().clone()
    }

    /// Decides on a connection. The error is a message for the program that wants to connect.
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

    /// Records a refused connection. Returns the message for the program. Host and reason are in the first message
    /// only, as the model reads the output of each attempt.
    pub(super) fn block(&self, destination: &Destination, why: &str) -> String {
        let blocked = BlockedHost { host: destination.to_string(), why: why.to_owned() };
        let mut all = self.blocked.lock();
        if all.contains(&blocked) {
            return "blocked by the sandbox, as before".to_owned();
        }
        let told = blocked.to_string();
        if all.len() < MAX_BLOCKED_HOSTS {
            all.push(blocked);
        }
        told
    }

    /// Waits for the decision on a host, which is begun if it is not pending.
    async fn decided(&self, destination: &Destination) -> Admission {
        let is_allowed = self.setup.allows(destination);
        let Some(connect) = self.connect.lock().clone() else {
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
                "the command has asked for {} hosts",
                self.setup.limits.hosts
            ));
        };
        let admission = match decision.wait_for(Option::is_some).await {
            Ok(admission) => admission.clone().unwrap_or_else(unasked),
            Err(_) => unasked(),
        };
        // The decision is forgotten, so that a later connection is decided on anew. Another connection that waited for
        // it may have forgotten it already. Then a newer decision on the host may be pending, and has to stay.
        if matches!(admission, Admission::NotNow(_)) {
            let mut decisions = self.decisions.lock();
            let known = decisions.by_destination.get(destination);
            if known.is_some_and(|known| known.same_channel(&decision)) {
                decisions.by_destination.remove(destination);
            }
        }
        admission
    }
}

/// Returns the decision for a host that the settings do not allow, if there is no callback or it has ended.
fn unasked() -> Admission {
    Admission::NotNow("`sandbox.network.allowedDomains` does not name it".to_owned())
}

/// Guard that counts one pending decision until it is dropped.
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

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};
    use std::pin::pin;

    use futures::{FutureExt as _, poll};
    use test_support::limit::HANG;
    use tokio::time::timeout;

    use super::*;

    #[tokio::test]
    async fn a_late_waiter_leaves_the_newer_decision_on_its_host() {
        let access = NetworkAccess::new(Ipv4Addr::LOCALHOST, Arc::default());
        let begun = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&begun);
        // The first question is withdrawn at once, and the others are never answered.
        access.decide_by(Arc::new(move |_, _| match count.fetch_add(1, Ordering::Relaxed) {
            0 => ready(Admission::NotNow("withdrawn".to_owned())).boxed(),
            _ => pending().boxed(),
        }));
        let host = Destination::new("a.test", 443).unwrap();
        let mut first = pin!(access.admit(&host));
        let mut late = pin!(access.admit(&host));
        assert!(poll!(&mut first).is_pending() && poll!(&mut late).is_pending());
        assert!(timeout(HANG, first).await.expect("it hangs").is_err());
        let mut second = pin!(access.admit(&host));
        assert!(poll!(&mut second).is_pending());
        assert!(timeout(HANG, late).await.expect("it hangs").is_err());
        let mut third = pin!(access.admit(&host));
        assert!(poll!(&mut third).is_pending());
        assert_eq!(begun.load(Ordering::Relaxed), 2, "the third waits for the second's decision");
    }
}
