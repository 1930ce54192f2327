//! News between nodes: which sessions have more events, and for whom the inbox has something.
//!
//! They are hints, which may be late, come twice or be lost: whoever waits for them also looks by itself
//! from time to time. All go over one connection of the node.

use std::collections::{BTreeSet, HashMap};
use std::mem;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{Notify, watch};
use tokio::time::{sleep, timeout};
use tokio_postgres::Client;

use super::connection::{BACKOFF, Database, Failure};

/// Time after which whoever waits for news looks all the same.
pub(super) const LOOK: Duration = Duration::from_secs(2);

/// Least time between two notifications of a node: each takes a lock of the whole database server.
const GAP: Duration = Duration::from_millis(5);

/// Maximum number of bytes of a notification; Postgres takes less than 8,000.
const LONGEST: usize = 7000;

/// Notification that may be about anything.
const ANYTHING: &str = "*";

/// News of a node. A topic is the id of a session whose log has grown, the key of an order that has its
/// reply, or [`inbox_of`] a node.
pub(super) struct News {
    waiting: Mutex<HashMap<String, watch::Sender<()>>>,
    /// The topics that the other nodes are to be told of.
    untold: Mutex<BTreeSet<String>>,
    is_untold: Notify,
}

impl News {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self {
            waiting: Mutex::default(),
            untold: Mutex::default(),
            is_untold: Notify::new(),
        })
    }

    /// Waits for news of a topic from now on.
    pub(super) fn subscribe(self: &Arc<Self>, topic: &str) -> NewsOf {
        let mut waiting = self.waiting.lock();
        let changes = waiting.entry(topic.to_owned()).or_default().subscribe();
        NewsOf { news: Arc::clone(self), topic: topic.to_owned(), changes }
    }

    /// Tells whoever waits for news of a topic, here and at other nodes, that there are some.
    pub(super) fn tell(&self, topic: &str) {
        self.hear(topic);
        self.untold.lock().insert(topic.to_owned());
        self.is_untold.notify_one();
    }

    /// Tells whoever waits here.
    pub(super) fn hear(&self, topics: &str) {
        let waiting = self.waiting.lock();
        if topics == ANYTHING {
            for changes in waiting.values() {
                changes.send_replace(());
            }
            return;
        }
        for changes in topics.split(' ').filter_map(|topic| waiting.get(topic)) {
            changes.send_replace(());
        }
    }

    /// Returns a notification of what others are to be told, if there is anything.
    fn notification(&self) -> Option<String> {
        let topics = mem::take(&mut *self.untold.lock());
        if topics.is_empty() {
            return None;
        }
        let all = topics.into_iter().collect::<Vec<_>>().join(" ");
        Some(if all.len() > LONGEST { ANYTHING.to_owned() } else { all })
    }
}

/// Returns the topic of a node's orders.
pub(super) fn inbox_of(node: &str) -> String {
    format!("@{node}")
}

/// News of one topic.
pub(super) struct NewsOf {
    news: Arc<News>,
    topic: String,
    changes: watch::Receiver<()>,
}

impl NewsOf {
    /// Forgets the news up to now, before a look at what they are about.
    pub(super) fn forget(&mut self) {
        self.changes.mark_unchanged();
    }

    /// Waits for news, or until it is time to look without. Returns `true` if there are some.
    pub(super) async fn wait(&mut self) -> bool {
        timeout(LOOK, self.changes.changed()).await.is_ok()
    }
}

impl Drop for NewsOf {
    fn drop(&mut self) {
        let mut waiting = self.news.waiting.lock();
        // This one is still counted.
        if waiting.get(&self.topic).is_some_and(|changes| changes.receiver_count() <= 1) {
            waiting.remove(&self.topic);
        }
    }
}

/// Exchanges news with the other nodes, for ever.
pub(super) async fn exchange(news: Arc<News>, database: Arc<Database>) {
    let mut failures = 0;
    loop {
        let hearing = Arc::clone(&news);
        match database.listen(move |topics| hearing.hear(topics)).await {
            Ok(client) => {
                failures = 0;
                // Some may have been missed.
                news.hear(ANYTHING);
                let Err(failure) = tell_others(&news, &database, &client).await;
                tracing::debug!("no news of other nodes: {}", database.explain(&failure));
            }
            Err(failure) => {
                tracing::debug!("no news of other nodes: {}", database.explain(&failure));
            }
        }
        failures += 1;
        sleep(BACKOFF.delay(failures)).await;
    }
}

/// Tells the other nodes what there is to tell, until the connection breaks.
async fn tell_others(
    news: &News,
    database: &Database,
    client: &Client,
) -> Result<std::convert::Infallible, Failure> {
    loop {
        // A connection on which nothing is told, and which is gone, is noticed then.
        let _ = timeout(LOOK, news.is_untold.notified()).await;
        let told = match news.notification() {
            Some(topics) => {
                let sql = "select pg_notify('tandem', $1)";
                timeout(database.patience, client.execute(sql, &[&topics])).await
            }
            None => timeout(database.patience, client.execute("select 1", &[])).await,
        };
        told.map_err(|_| Failure::Silent)?.map_err(Failure::Refused)?;
        sleep(GAP).await;
    }
}
