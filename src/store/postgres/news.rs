//! Notifications between nodes: the log of a session has grown, an order has its reply, or a node's inbox has orders.
//!
//! Notifications are hints, which may be late, come twice or be lost. So each reader also looks at the database every
//! [`POLL_INTERVAL`] without news. All news of a node go over one connection.

use std::collections::{BTreeSet, HashMap};
use std::mem;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{Notify, watch};
use tokio::time::{sleep, timeout};
use tokio_postgres::Client;

use super::connection::{CONNECT_BACKOFF, Database, Failure};

/// Time after which a reader that waits for news looks at the database without news.
pub(super) const POLL_INTERVAL: Duration = Duration::from_secs(2);

/// Minimum time between two notifications of a node: each takes a lock of the whole database server.
const MIN_NOTIFY_INTERVAL: Duration = Duration::from_millis(5);

/// Maximum number of bytes of a notification; Postgres accepts less than 8,000.
const MAX_NOTIFICATION_BYTES: usize = 7000;

/// Notification about all topics: each reader must look.
const ANY_TOPIC: &str = "*";

/// Notifications of a node. A topic is the id of a session whose log has grown, the key of an order that has its reply,
/// or [`inbox_of`] a node that has orders.
pub(super) struct Notifications {
    /// Channels to the readers of this node, by topic.
    waiting: Mutex<HashMap<String, watch::Sender<()>>>,
    /// Topics of the next notification to the other nodes.
    untold: Mutex<BTreeSet<String>>,
    /// Signal that `untold` has a topic.
    is_untold: Notify,
}

impl Notifications {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self {
            waiting: Mutex::default(),
            untold: Mutex::default(),
            is_untold: Notify::new(),
        })
    }

    /// Subscribes to the news of a topic from now on.
    pub(super) fn subscribe(self: &Arc<Self>, topic: &str) -> TopicSubscription {
        let mut waiting = self.waiting.lock();
        let changes = waiting.entry(topic.to_owned()).or_default().subscribe();
        TopicSubscription { news: Arc::clone(self), topic: topic.to_owned(), changes }
    }

    /// Notifies the readers of a topic, at this node and at other nodes.
    pub(super) fn tell(&self, topic: &str) {
        self.notify_readers(topic);
        self.untold.lock().insert(topic.to_owned());
        self.is_untold.notify_one();
    }

    /// Notifies the readers at this node. `topics` is the text of a notification: topics separated by spaces, or
    /// [`ANY_TOPIC`].
    pub(super) fn notify_readers(&self, topics: &str) {
        let waiting = self.waiting.lock();
        if topics == ANY_TOPIC {
            for changes in waiting.values() {
                changes.send_replace(());
            }
            return;
        }
        for changes in topics.split(' ').filter_map(|topic| waiting.get(topic)) {
            changes.send_replace(());
        }
    }

    /// Takes the topics of `untold`; returns the notification about them, or `None` if there are none. A notification
    /// that would be too long becomes [`ANY_TOPIC`].
    fn notification(&self) -> Option<String> {
        let topics = mem::take(&mut *self.untold.lock());
        if topics.is_empty() {
            return None;
        }
        let all = topics.into_iter().collect::<Vec<_>>().join(" ");
        Some(if all.len() > MAX_NOTIFICATION_BYTES { ANY_TOPIC.to_owned() } else { all })
    }
}

/// Returns the topic of a node's inbox.
pub(super) fn inbox_of(node: &str) -> String {
    format!("@{node}")
}

/// Subscription to one topic.
pub(super) struct TopicSubscription {
    news: Arc<Notifications>,
    topic: String,
    changes: watch::Receiver<()>,
}

impl TopicSubscription {
    /// Forgets the news up to now. A reader calls this before it looks at the database, so that later news wake it
    /// again.
    pub(super) fn forget(&mut self) {
        self.changes.mark_unchanged();
    }

    /// Waits for news, for at most [`POLL_INTERVAL`]. Returns `true` if there are news.
    pub(super) async fn wait(&mut self) -> bool {
        timeout(POLL_INTERVAL, self.changes.changed()).await.is_ok()
    }
}

impl Drop for TopicSubscription {
    fn drop(&mut self) {
        let mut waiting = self.news.waiting.lock();
        // The count still includes the receiver of this value.
        if waiting.get(&self.topic).is_some_and(|changes| changes.receiver_count() <= 1) {
            waiting.remove(&self.topic);
        }
    }
}

/// Exchanges news with the other nodes until the task is cancelled.
pub(super) async fn exchange(news: Arc<Notifications>, database: Arc<Database>) {
    let mut failures = 0;
    loop {
        let hearing = Arc::clone(&news);
        match database.listen(move |topics| hearing.notify_readers(topics)).await {
            Ok(client) => {
                failures = 0;
                // Notifications may have been missed while there was no connection.
                news.notify_readers(ANY_TOPIC);
                let Err(failure) = tell_others(&news, &database, &client).await;
                tracing::debug!("no news of other nodes: {}", database.explain(&failure));
            }
            Err(failure) => {
                tracing::debug!("no news of other nodes: {}", database.explain(&failure));
            }
        }
        failures += 1;
        sleep(CONNECT_BACKOFF.delay(failures)).await;
    }
}

/// Sends notifications to the other nodes until the connection breaks.
async fn tell_others(
    news: &Notifications,
    database: &Database,
    client: &Client,
) -> Result<std::convert::Infallible, Failure> {
    loop {
        // Without topics, a query after this wait finds out whether the connection is broken, on which no news would
        // be heard.
        let _ = timeout(POLL_INTERVAL, news.is_untold.notified()).await;
        let told = match news.notification() {
            Some(topics) => {
                let sql = "select pg_notify('tandem', $1)";
                timeout(database.patience, client.execute(sql, &[&topics])).await
            }
            None => timeout(database.patience, client.execute("select 1", &[])).await,
        };
        told.map_err(|_| Failure::Silent)?.map_err(Failure::Refused)?;
        sleep(MIN_NOTIFY_INTERVAL).await;
    }
}
