//! Push notifications: delivers what happens in a task to the addresses that clients have named.
//!
//! A client says where this machine sends a request, so this is made to be of no use for reaching
//! what the client itself cannot: [`check`] refuses addresses inside networks when they are set,
//! and each attempt judges again what their names lead to.
//!
//! Each key has a **lane**: a queue and a task that empties it and then ends. What is in a lane is
//! delivered in order, and no lane waits for another.

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
use self::attempt::{AttemptError, Courier, wait};
pub use self::delivery::{Delivery, WebhookLimits};
pub use self::place::{WebhookUrl, check};

/// Delivers notifications. Clones deliver for the same; when the last one is dropped, so is what
/// is not delivered.
#[derive(Clone)]
pub struct Webhooks(Arc<Owner>);

/// Ends the lanes' tasks, which hold what it shares with them.
struct Owner(Arc<WebhookState>);

impl Drop for Owner {
    fn drop(&mut self) {
        let lanes = std::mem::take(&mut self.0.lanes.lock().by_key);
        drop(lanes);
    }
}

struct WebhookState {
    courier: Courier,
    limits: WebhookLimits,
    lanes: Mutex<Lanes>,
    /// Number of lanes.
    open: watch::Sender<usize>,
}

/// The lanes that are not empty, or whose last notification is on its way.
#[derive(Default)]
struct Lanes {
    by_key: HashMap<String, Lane>,
    /// Number of lanes opened so far: it tells a lane from one of the same key that was forgotten.
    opened: u64,
    /// Number of notifications that found no lane, or for which another lane had to make room.
    turned_away: u64,
}

struct Lane {
    session: String,
    number: u64,
    waiting: VecDeque<Delivery>,
    /// Of the bodies that wait.
    bytes: usize,
    /// Number of notifications for which older ones had to make room.
    full: u64,
    /// Empties the lane; ends with it.
    task: AbortOnDropHandle<()>,
}

impl Webhooks {
    /// Looks names up as the system does.
    pub fn new(allow_loopback: bool, limits: WebhookLimits) -> Self {
        Self::with_lookup(allow_loopback, limits, system_lookup())
    }

    /// Looks names up in a way of one's own.
    pub fn with_lookup(allow_loopback: bool, limits: WebhookLimits, lookup: Lookup) -> Self {
        let courier = Courier::new(place::reach(allow_loopback), limits.timeout, lookup);
        let shared =
            WebhookState { courier, limits, lanes: Mutex::default(), open: watch::Sender::new(0) };
        Self(Arc::new(Owner(Arc::new(shared))))
    }

    /// Queues a notification, and waits for nothing. To be called where tasks can be spawned.
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
        // Said again when there are twice as many: a warning each would fill the log.
        if count.is_power_of_two() {
            tracing::warn!(%webhook, count, "push notifications are dropped: {why}");
        }
    }

    /// Drops all that waits or is under way for a key: its configuration is gone.
    pub fn forget(&self, key: &str) {
        let Owner(shared) = &*self.0;
        let mut lanes = shared.lanes.lock();
        let forgotten = lanes.by_key.remove(key);
        shared.open.send_replace(lanes.by_key.len());
        drop(lanes);
        drop(forgotten);
    }

    /// Waits until nothing is under way.
    pub async fn delivered(&self) {
        let mut open = self.0.0.open.subscribe();
        // It cannot fail: `self` holds the sender.
        let _ = open.wait_for(|lanes| *lanes == 0).await;
    }
}

/// Something was dropped.
struct Full {
    why: &'static str,
    /// Number of such cases so far.
    count: u64,
}

impl Lanes {
    fn push(&mut self, shared: &Arc<WebhookState>, delivery: Delivery) -> Result<(), Full> {
        let WebhookLimits { queue, queue_bytes, targets, .. } = shared.limits;
        // A task that has ended without closing its lane has panicked.
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
            crowded = Some(Full { why: "those of a session with many make room", count });
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

    /// Closes a lane of the session that has most of them, for one of this session; not if each has
    /// its share: then a new one would only drive out another.
    fn make_room(&mut self, session: &str) -> bool {
        let mut lanes = HashMap::<&str, usize>::new();
        for lane in self.by_key.values() {
            *lanes.entry(&lane.session).or_default() += 1;
        }
        let own = lanes.get(session).copied().unwrap_or_default();
        let Some(most) = lanes.values().copied().max().filter(|most| *most > own + 1) else {
            return false;
        };
        // The oldest is the likeliest to have a receiver that never answers.
        let of_most = self.by_key.iter().filter(|(_, lane)| lanes[&*lane.session] == most);
        let oldest = of_most.min_by_key(|(_, lane)| lane.number).map(|(key, _)| key.clone());
        oldest.and_then(|key| self.by_key.remove(&key)).is_some()
    }

    /// Takes the next of a lane. A lane that is empty is closed in the same step.
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
        Err(Full { why: "old ones make room, the webhook is slow", count: self.full })
    }

    fn pop(&mut self) -> Option<Delivery> {
        let delivery = self.waiting.pop_front()?;
        self.bytes -= delivery.body.len();
        Some(delivery)
    }
}

/// Empties a lane.
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

/// Delivers a notification, or gives it up.
async fn deliver(shared: &WebhookState, delivery: &Delivery) {
    let webhook = &delivery.target;
    let mut failed = 0;
    while let Err(failure) = shared.courier.attempt(delivery).await {
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
