//! Push notifications: delivery of a task's updates to the URLs that clients have named.
//!
//! A client chooses the URL to which this machine sends requests, so a webhook must not let a client reach
//! hosts that it cannot reach itself. [`check`] refuses addresses inside networks when a webhook is set, and
//! each attempt checks the addresses again that the host name resolves to.
//!
//! Each key has a **lane**: a queue and a task that empties the queue and then ends. The notifications of a
//! lane are delivered in order, and no lane waits for another.

mod attempt;
mod delivery;
mod place;

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use tokio::sync::watch;
use tokio::time::sleep;
use tokio_util::task::AbortOnDropHandle;

use parking_lot::Mutex;
use tandem_net::{Lookup, system_lookup};

pub use self::attempt::check_header;
use self::attempt::{AttemptError, WebhookClient, wait};
pub use self::delivery::{Delivery, WebhookLimits};
pub use self::place::{WebhookUrl, check};

/// Sender of push notifications. Clones share the same lanes; when the last clone is dropped, undelivered
/// notifications are dropped too.
#[derive(Clone)]
pub struct Webhooks(Arc<Owner>);

/// Owner of the lanes. Dropping the owner ends the lanes' tasks, which hold the shared state and would keep it
/// alive.
struct Owner(Arc<WebhookState>);

impl Drop for Owner {
    fn drop(&mut self) {
        let lanes = std::mem::take(&mut self.0.lanes.lock().by_key);
        drop(lanes);
    }
}

struct WebhookState {
    client: WebhookClient,
    limits: WebhookLimits,
    lanes: Mutex<Lanes>,
    /// Number of lanes, published for [`Webhooks::delivered`].
    open: watch::Sender<usize>,
}

/// The lanes that have waiting notifications, or whose last notification is being delivered.
#[derive(Default)]
struct Lanes {
    by_key: HashMap<String, Lane>,
    /// Number of lanes opened so far. It distinguishes a lane from an earlier lane of the same key.
    opened: u64,
    /// Number of notifications that were dropped for lack of a lane, or for which another lane was closed.
    turned_away: u64,
}

struct Lane {
    session: String,
    number: u64,
    waiting: VecDeque<Delivery>,
    /// Total size of the waiting bodies in bytes.
    bytes: usize,
    /// Number of notifications for which older ones of the lane were dropped.
    full: u64,
    /// Task that empties the lane. It is aborted when the lane is dropped.
    task: AbortOnDropHandle<()>,
}

impl Webhooks {
    /// Makes a sender that resolves host names as the system does.
    pub fn new(allow_loopback: bool, limits: WebhookLimits) -> Self {
        Self::with_lookup(allow_loopback, limits, system_lookup())
    }

    /// Makes a sender that resolves host names by `lookup`.
    pub fn with_lookup(allow_loopback: bool, limits: WebhookLimits, lookup: Lookup) -> Self {
        let client = WebhookClient::new(place::reach(allow_loopback), limits.timeout, lookup);
        let shared =
            WebhookState { client, limits, lanes: Mutex::default(), open: watch::Sender::new(0) };
        Self(Arc::new(Owner(Arc::new(shared))))
    }

    /// Queues a notification, without waiting. Must be called in a Tokio runtime.
    pub fn send(&self, delivery: Delivery) {
        let Owner(shared) = &*self.0;
        let webhook = delivery.target.clone();
        let pushed = {
            let mut lanes = shared.lanes.lock();
            let pushed = lanes.push(shared, delivery);
            shared.open.send_replace(lanes.by_key.len());
            pushed
        };
        let Err(Full { why, count }) = pushed else { return };
        // A warning is logged at each doubling of the count, since a warning for each drop would flood the log.
        if count.is_power_of_two() {
            tracing::warn!(%webhook, count, "push notifications are dropped: {why}");
        }
    }

    /// Drops the waiting and pending notifications of a key, whose configuration was deleted.
    pub fn forget(&self, key: &str) {
        let Owner(shared) = &*self.0;
        let mut lanes = shared.lanes.lock();
        let forgotten = lanes.by_key.remove(key);
        shared.open.send_replace(lanes.by_key.len());
        drop(lanes);
        drop(forgotten);
    }

    /// Waits until no notification is waiting or being delivered.
    pub(crate) async fn delivered(&self) {
        let mut open = self.0.0.open.subscribe();
        // An error is impossible, since `self` holds the sender.
        let _ = open.wait_for(|lanes| *lanes == 0).await;
    }
}

/// Report of dropped notifications.
struct Full {
    why: &'static str,
    /// Number of drops for this reason so far.
    count: u64,
}

impl Lanes {
    fn push(&mut self, shared: &Arc<WebhookState>, delivery: Delivery) -> Result<(), Full> {
        let WebhookLimits { queue, queue_bytes, targets, .. } = shared.limits;
        // A lane whose task has ended is left over from a panic, and is replaced.
        let open = self.by_key.get_mut(&delivery.key).filter(|lane| !lane.task.is_finished());
        if let Some(lane) = open {
            return lane.push(delivery, queue, queue_bytes);
        }
        let mut crowded = None;
        if self.by_key.len() >= targets && !self.by_key.contains_key(&delivery.key) {
            self.turned_away += 1;
            let count = self.turned_away;
            if !self.make_room(&delivery.session) {
                return Err(Full { why: "there are too many webhooks", count });
            }
            crowded =
                Some(Full { why: "notifications of a session with many were dropped", count });
        }
        self.opened += 1;
        let (key, session) = (delivery.key.clone(), delivery.session.clone());
        let task = tokio::spawn(work(Arc::clone(shared), key.clone(), self.opened));
        let lane = Lane {
            session,
            number: self.opened,
            bytes: delivery.body.len(),
            waiting: [delivery].into(),
            full: 0,
            task: AbortOnDropHandle::new(task),
        };
        self.by_key.insert(key, lane);
        crowded.map_or(Ok(()), Err)
    }

    /// Closes a lane of the session that has the most lanes, to make room for a lane of `session`. Returns
    /// `false` if no session has more than its share: then a new lane would only displace an equally
    /// deserving one.
    fn make_room(&mut self, session: &str) -> bool {
        let mut lanes = HashMap::<&str, usize>::new();
        for lane in self.by_key.values() {
            *lanes.entry(&lane.session).or_default() += 1;
        }
        let own = lanes.get(session).copied().unwrap_or_default();
        let Some(most) = lanes.values().copied().max().filter(|most| *most > own + 1) else {
            return false;
        };
        // The oldest lane is the likeliest to have a receiver that never answers.
        let of_most = self.by_key.iter().filter(|(_, lane)| lanes[&*lane.session] == most);
        let oldest = of_most.min_by_key(|(_, lane)| lane.number).map(|(key, _)| key.clone());
        oldest.and_then(|key| self.by_key.remove(&key)).is_some()
    }

    /// Takes the next notification of a lane. An empty lane is closed under the same lock, so that no
    /// notification gets into a lane whose task is ending.
    fn next(&mut self, key: &str, number: u64) -> Option<Delivery> {
        let lane = self.by_key.get_mut(key).filter(|lane| lane.number == number)?;
        let next = lane.pop();
        if next.is_none() {
            self.by_key.remove(key);
        }
        next
    }
}

impl Lane {
    fn push(&mut self, delivery: Delivery, queue: usize, queue_bytes: usize) -> Result<(), Full> {
        self.bytes += delivery.body.len();
        self.waiting.push_back(delivery);
        let before = self.waiting.len();
        while self.waiting.len() > 1 && (self.waiting.len() > queue || self.bytes > queue_bytes) {
            self.pop();
        }
        if self.waiting.len() == before {
            return Ok(());
        }
        self.full += 1;
        Err(Full {
            why: "old notifications were dropped, because the webhook is slow",
            count: self.full,
        })
    }

    fn pop(&mut self) -> Option<Delivery> {
        let delivery = self.waiting.pop_front()?;
        self.bytes -= delivery.body.len();
        Some(delivery)
    }
}

/// Delivers the notifications of a lane until it is empty.
async fn work(shared: Arc<WebhookState>, key: String, number: u64) {
    loop {
        let next = {
            let mut lanes = shared.lanes.lock();
            let next = lanes.next(&key, number);
            shared.open.send_replace(lanes.by_key.len());
            next
        };
        let Some(delivery) = next else { return };
        deliver(&shared, &delivery).await;
    }
}

/// Delivers a notification, with retries. Gives up after too many failures.
async fn deliver(shared: &WebhookState, delivery: &Delivery) {
    let webhook = &delivery.target;
    let mut failed = 0;
    while let Err(failure) = shared.client.attempt(delivery).await {
        failed += 1;
        let (why, asked) = match failure {
            AttemptError::Passing { why, asked } if failed < shared.limits.attempts => (why, asked),
            AttemptError::Final(why) | AttemptError::Passing { why, .. } => {
                tracing::warn!(%webhook, failed, why, "a push notification is given up");
                return;
            }
        };
        let wait = wait(&shared.limits, failed, asked, fastrand::f64());
        tracing::debug!(%webhook, failed, why, ?wait, "a push notification is tried again");
        sleep(wait).await;
    }
}
