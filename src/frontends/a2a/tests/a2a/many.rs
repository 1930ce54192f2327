//! Lists of tasks where very many sessions are stored.

use std::collections::HashSet;
use std::future;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use futures::{StreamExt as _, stream};
use serde_json::{Value, json};
use tandem_a2a::ServedSessions;
use tandem_agent::session::{
    Batch, Event, Head, Listed, Millis, Origin, Orphan, PromptPart, PromptTags, Query, Secrets,
    SharedStore, Shares, StopReason, Store, StoreError, Stored, StoredLog, TurnId, WriteLease,
};
use tandem_agent::sessions::{SessionLimits, Sessions};
use test_served::Server;

/// Number of sessions.
const MANY: usize = 100_000;

/// A store of sessions with one turn each, the newest first. Every second session was begun by a client.
#[derive(Default)]
struct ManySessions {
    /// Number of sessions that were listed.
    listed: AtomicUsize,
    /// The sessions whose logs were read.
    read: Mutex<Vec<usize>>,
    /// Number of logs that are being read.
    reading: AtomicUsize,
    most_reading: AtomicUsize,
}

impl ManySessions {
    /// Takes the numbers of sessions that were listed and read since the last time.
    fn counts(&self) -> (usize, usize) {
        (self.listed.swap(0, Ordering::Relaxed), self.take_read().len())
    }

    /// Takes the sessions whose logs were read since the last time.
    fn take_read(&self) -> Vec<usize> {
        std::mem::take(&mut self.read.lock().unwrap())
    }
}

fn id(n: usize) -> String {
    uuid::Uuid::from_u128(n as u128).to_string()
}

fn number(id: &str) -> Option<usize> {
    let n = uuid::Uuid::try_parse(id).ok()?.as_u128();
    usize::try_from(n).ok().filter(|n| *n < MANY)
}

fn changed(n: usize) -> Millis {
    Millis::try_from((MANY - n) * 1000).unwrap()
}

fn head(n: usize) -> Head {
    Head {
        id: id(n),
        created: changed(n),
        directory: PathBuf::from("/p"),
        title: String::new(),
        by: String::new(),
        served: n.is_multiple_of(2),
        owner: None,
        context: None,
        from: None,
        git: None,
        tag: None,
    }
}

fn not_found<T>(id: &str) -> Result<T, StoreError> {
    Err(StoreError::NotFound(id.to_owned()))
}

#[async_trait]
impl Store for ManySessions {
    async fn create(&self, head: &Head) -> Result<Box<dyn WriteLease>, StoreError> {
        not_found(&head.id)
    }

    async fn acquire(&self, id: &str) -> Result<Box<dyn WriteLease>, StoreError> {
        not_found(id)
    }

    async fn acquire_orphan(&self, orphan: &Orphan) -> Result<Box<dyn WriteLease>, StoreError> {
        not_found(&orphan.id)
    }

    async fn is_held(&self, _: &str) -> Result<bool, StoreError> {
        Ok(false)
    }

    async fn id(&self) -> Result<String, StoreError> {
        Ok("many".to_owned())
    }

    async fn head(&self, id: &str) -> Result<Head, StoreError> {
        number(id).map_or_else(|| not_found(id), |n| Ok(head(n)))
    }

    async fn read(&self, id: &str) -> Result<StoredLog, StoreError> {
        let Some(n) = number(id) else { return not_found(id) };
        self.read.lock().unwrap().push(n);
        let reading = self.reading.fetch_add(1, Ordering::Relaxed) + 1;
        self.most_reading.fetch_max(reading, Ordering::Relaxed);
        // Other reads that may run at the same time begin here, and are counted.
        tokio::task::yield_now().await;
        self.reading.fetch_sub(1, Ordering::Relaxed);
        let turn = TurnId(1);
        let (prompt, origin, tags) =
            (vec![PromptPart::Text("go".to_owned())], Origin::Terminal, PromptTags::default());
        let events = [
            Event::TurnQueued { turn, prompt, origin, tags },
            Event::TurnStarted { turn },
            Event::TurnFinished { turn, reason: StopReason::EndTurn },
        ];
        let events = events.into_iter().map(|event| (changed(n), Arc::new(event))).collect();
        let batch = Stored::Batch(Batch { first: 0, events, summary: None });
        Ok(stream::iter([Ok(vec![batch])]).boxed())
    }

    async fn orphans(&self) -> Result<Vec<Orphan>, StoreError> {
        Ok(Vec::new())
    }

    async fn orphaned(&self) {
        future::pending::<()>().await;
    }

    async fn opened(&self) -> Result<Vec<String>, StoreError> {
        Ok(Vec::new())
    }

    async fn secrets(&self, _id: &str) -> Result<Secrets, StoreError> {
        Ok(Secrets::new())
    }

    async fn list(&self, query: &Query) -> Result<Vec<Listed>, StoreError> {
        let end = query.most.map_or(MANY, |most| MANY.min(query.skip + most));
        let listed = (query.skip..end).map(|n| Listed {
            head: head(n),
            title: String::new(),
            turns: 1,
            changed: changed(n),
            shares: Shares::new(),
            held_by: None,
        });
        let listed: Vec<_> = listed.collect();
        self.listed.fetch_add(listed.len(), Ordering::Relaxed);
        Ok(listed)
    }

    async fn delete(&self, id: &str) -> Result<(), StoreError> {
        not_found(id)
    }

    fn shared(&self) -> Option<&dyn SharedStore> {
        None
    }

    fn directory(&self, _id: &str) -> Option<PathBuf> {
        None
    }
}

async fn server() -> (Server, Arc<ManySessions>) {
    let store = Arc::<ManySessions>::default();
    let limits = SessionLimits { loaded: 9, idle: None, log_bytes: 1 << 20 };
    let make = Arc::new(|_: &_, _| Err("nothing is loaded here".to_owned()));
    let sessions = Sessions::with_store(make, limits, Some(Arc::clone(&store) as _));
    let question = Duration::from_secs(9);
    let is_shown = Arc::new(|head: &Head| head.served);
    let served = ServedSessions::PerContext { sessions, is_shown, question };
    (Server::of(served).await, store)
}

fn tasks(page: &Value) -> Vec<String> {
    let tasks = page["tasks"].as_array().unwrap();
    tasks.iter().map(|task| task["id"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn a_page_costs_what_it_shows_and_not_what_is_stored() {
    for filter in [json!({}), json!({ "status": "TASK_STATE_COMPLETED" })] {
        let (server, store) = server().await;
        let (mut shown, mut token) = (Vec::new(), None);
        for _ in 0..5 {
            let mut params = filter.clone();
            params["pageSize"] = json!(20);
            params["pageToken"] = token.into();
            let page = server.call("ListTasks", params).await["result"].clone();
            let page_tasks = tasks(&page);
            assert_eq!(page_tasks.len(), 20, "hidden sessions leave no gaps");
            shown.extend(page_tasks);
            assert!(page["totalSize"].as_u64().unwrap() > shown.len() as u64, "there are more");
            token = page["nextPageToken"].as_str().map(ToOwned::to_owned);
            let (listed, read) = store.counts();
            assert!(listed < 1000 && read < 300, "{listed} listed, {read} read");
        }
        let newest = (0..).step_by(2).map(|n| format!("{}.1", id(n)));
        assert_eq!(shown, newest.take(shown.len()).collect::<Vec<_>>());
    }
}

#[tokio::test]
async fn the_last_page_is_found_and_says_how_many_there_are() {
    let (server, _) = server().await;
    let params = json!({ "pageSize": 20, "pageToken": (MANY / 2 - 10).to_string() });
    let page = server.call("ListTasks", params).await["result"].clone();
    assert_eq!(tasks(&page).len(), 10, "{page}");
    assert_eq!(page["totalSize"], MANY / 2, "{page}");
    assert_eq!(page["nextPageToken"], "", "{page}");
}

#[tokio::test]
async fn what_a_filter_names_is_all_that_is_looked_at() {
    let (server, store) = server().await;
    let own = server.call("ListTasks", json!({ "contextId": id(70_000) })).await;
    assert_eq!(tasks(&own["result"]), [format!("{}.1", id(70_000))]);
    assert_eq!(store.counts(), (0, 1));
    let hidden = server.call("ListTasks", json!({ "contextId": id(70_001) })).await;
    assert_eq!(hidden["result"]["totalSize"], 0, "{hidden}");
    // The filter takes tasks of the last ten seconds.
    let after = jiff::Timestamp::from_millisecond(changed(10)).unwrap().to_string();
    let newest = server.call("ListTasks", json!({ "statusTimestampAfter": after })).await;
    assert_eq!(newest["result"]["totalSize"], 6, "{newest}");
    let (listed, read) = store.counts();
    assert!(listed < 1000 && read == 6, "{listed} listed, {read} read");
}

#[tokio::test]
async fn the_logs_of_a_page_are_read_once_each_and_a_few_at_a_time() {
    let (server, store) = server().await;
    for (token, before) in [("", 0), ("50", 50)] {
        let params = json!({ "pageSize": 50, "pageToken": token });
        let page = server.call("ListTasks", params).await["result"].clone();
        assert_eq!(tasks(&page).len(), 50, "{page}");
        let read = store.take_read();
        let once: HashSet<_> = read.iter().collect();
        assert_eq!(once.len(), read.len(), "{read:?}");
        let most = store.most_reading.swap(0, Ordering::Relaxed);
        assert!((2..=8).contains(&most), "{most} were read at the same time");
        assert!(read.len() < before + 50 + most, "{} were read", read.len());
    }
}
