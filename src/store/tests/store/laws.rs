//! The laws of a store, for every store: files, and a database.
//!
//! Each law gets two views of one store, as two processes have them.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use futures::StreamExt as _;
use serde_json::json;
use tandem_agent::session::{
    Batch, BatchSummary, Event, Head, PrincipalId, Query, ShareRole, Shares, Store, StoreError,
    Stored, WriteLease,
};
use tandem_agent::sessions::fork;
use tandem_store::{FileStore, PostgresStore};
use tandem_telemetry::Metrics;
use test_fakes::postgres::Cluster;

/// A store, as two processes see it.
struct Views {
    first: Arc<dyn Store>,
    second: Arc<dyn Store>,
}

/// Runs a law for every store.
async fn everywhere(law: impl AsyncFn(Views)) {
    let dir = tempfile::tempdir().unwrap();
    let view = || -> Arc<dyn Store> { Arc::new(FileStore::new(dir.path().join("sessions"))) };
    law(Views { first: view(), second: view() }).await;
    // The store that measures another store must follow the same laws.
    let dir = tempfile::tempdir().unwrap();
    let metrics = Metrics::default();
    let view = || metrics.measured(Arc::new(FileStore::new(dir.path().join("sessions"))));
    law(Views { first: view(), second: view() }).await;
    let Some(cluster) = Cluster::shared() else { return };
    let database = cluster.database();
    let view = async || -> Arc<PostgresStore> { Arc::new(database.connect().await) };
    law(Views { first: view().await, second: view().await }).await;
}

pub(crate) fn new_id() -> String {
    uuid::Uuid::now_v7().to_string()
}

pub(crate) fn head(id: &str) -> Head {
    Head {
        id: id.to_owned(),
        created: 1,
        directory: PathBuf::from("/p"),
        title: "first".to_owned(),
        by: "tandem test".to_owned(),
        served: true,
        from: None,
        git: None,
        tag: None,
        owner: None,
        context: None,
    }
}

pub(crate) fn text(n: usize) -> Event {
    Event::Text(format!("chunk {n}"))
}

/// Returns a batch of `count` events from an index on. Each event names its index.
pub(crate) fn batch(first: usize, count: usize) -> Batch {
    let events = (first..first + count).map(|n| (5, Arc::new(text(n)))).collect();
    Batch { first, events, summary: None }
}

async fn batches(store: &dyn Store, id: &str) -> Vec<Batch> {
    let mut log = store.read(id).await.unwrap();
    let mut batches = Vec::new();
    while let Some(pieces) = log.next().await {
        for piece in pieces.unwrap() {
            let Stored::Batch(batch) = piece else { panic!("{piece:?}") };
            batches.push(batch);
        }
    }
    batches
}

/// Returns the indexes of the events in a store, and checks that each event names its own index.
pub(crate) async fn indexes(store: &dyn Store, id: &str) -> Vec<usize> {
    let mut indexes = Vec::new();
    for batch in batches(store, id).await {
        for (index, (_, event)) in (batch.first..).zip(&batch.events) {
            assert_eq!(**event, text(index));
            indexes.push(index);
        }
    }
    indexes
}

fn is_not_found<T>(result: Result<T, StoreError>) -> bool {
    matches!(result, Err(StoreError::NotFound(_)))
}

pub(crate) fn is_held<T>(result: Result<T, StoreError>) -> bool {
    matches!(result, Err(StoreError::Held(..)))
}

async fn let_go(mut lease: Box<dyn WriteLease>) {
    lease.release().await;
}

#[tokio::test]
async fn what_is_added_is_read_by_everybody_as_it_was() {
    everywhere(async |Views { first, second }| {
        let id = new_id();
        let mut lease = first.create(&head(&id)).await.unwrap();
        assert_eq!((lease.next(), lease.repaired()), (0, None));
        let unknown = serde_json::from_str(r#"{"Invented":{"a":[1,"\u0000 ä"]}}"#).unwrap();
        let odd = Batch {
            first: 5,
            events: vec![
                (7, Arc::new(unknown)),
                (9000, Arc::new(Event::Notice("'; drop table \\ \0 \u{1f600}".to_owned()))),
            ],
            summary: Some(BatchSummary { turns: 3, ..BatchSummary::default() }),
        };
        // The log has more batches than a database returns at once.
        let many: Vec<_> = (0..200).map(|n| batch(10 + n * 2, 1)).collect();
        let all = [vec![batch(0, 3), batch(3, 1), odd], many].concat();
        lease.append(all.clone()).await.unwrap();
        lease.sync().await.unwrap();
        assert_eq!(lease.next(), 409);
        for store in [&first, &second] {
            assert_eq!(batches(&**store, &id).await, all);
            assert_eq!(store.head(&id).await.unwrap(), head(&id));
        }
        lease.append(Vec::new()).await.unwrap();
        assert_eq!(lease.next(), 409);
    })
    .await;
}

/// Returns random batches for a log, sometimes with a gap before them.
fn random_appends(rng: &mut fastrand::Rng) -> Vec<Vec<Batch>> {
    let mut next = 0;
    let mut random_batch = |rng: &mut fastrand::Rng| {
        let gap = rng.usize(0..9).saturating_sub(5);
        let added = batch(next + gap, rng.usize(1..6));
        next = added.end();
        added
    };
    (0..12).map(|_| (0..rng.usize(1..4)).map(|_| random_batch(rng)).collect()).collect()
}

/// Appends to a session from one process or the other, and reads it from both.
async fn grow(views: &Views, appends: &[Vec<Batch>]) {
    let mut views = [&views.first, &views.second];
    let id = new_id();
    let mut lease = views[0].create(&head(&id)).await.unwrap();
    let mut expected: Vec<usize> = Vec::new();
    for (n, added) in appends.iter().enumerate() {
        lease.append(added.clone()).await.unwrap();
        expected.extend(added.iter().flat_map(|batch| batch.first..batch.end()));
        assert!(expected.is_sorted_by(|a, b| a < b));
        assert_eq!(indexes(&**views[n % 2], &id).await, expected);
        if n % 3 == 2 {
            let_go(lease).await;
            views.reverse();
            lease = views[0].acquire(&id).await.unwrap();
        }
        assert_eq!(lease.next(), expected.last().unwrap() + 1);
    }
}

#[tokio::test]
async fn indexes_grow_and_what_was_read_is_the_beginning_of_what_is_read_later() {
    let mut rng = fastrand::Rng::with_seed(7);
    let cases: Vec<_> = (0..4).map(|_| random_appends(&mut rng)).collect();
    everywhere(async |views| {
        for appends in &cases {
            grow(&views, appends).await;
        }
    })
    .await;
}

#[tokio::test]
async fn a_session_has_one_owner_and_the_next_one_goes_on_where_that_ended() {
    everywhere(async |Views { first, second }| {
        let id = new_id();
        let mut lease = first.create(&head(&id)).await.unwrap();
        lease.append(vec![batch(0, 2)]).await.unwrap();
        for store in [&first, &second] {
            assert!(is_held(store.acquire(&id).await));
            assert!(is_held(store.delete(&id).await));
            assert!(store.is_held(&id).await.unwrap());
            assert!(store.create(&head(&id)).await.is_err());
            assert_eq!(store.opened().await.unwrap(), std::slice::from_ref(&id));
        }
        lease.append(vec![batch(2, 1)]).await.unwrap();
        let_go(lease).await;
        for (store, other) in [(&second, &first), (&first, &second), (&second, &first)] {
            assert!(!other.is_held(&id).await.unwrap());
            assert_eq!(other.opened().await.unwrap(), [] as [String; 0]);
            let mut lease = store.acquire(&id).await.unwrap();
            assert!(is_held(other.acquire(&id).await));
            let next = lease.next();
            lease.append(vec![batch(next, 2)]).await.unwrap();
            let_go(lease).await;
        }
        assert_eq!(indexes(&*first, &id).await, (0..9).collect::<Vec<_>>());
    })
    .await;
}

#[tokio::test]
async fn a_lease_that_is_only_dropped_is_let_go() {
    everywhere(async |Views { first, .. }| {
        let id = new_id();
        drop(first.create(&head(&id)).await.unwrap());
        for next in 0..3 {
            let mut lease = first.acquire(&id).await.unwrap();
            lease.append(vec![batch(next, 1)]).await.unwrap();
        }
        assert_eq!(indexes(&*first, &id).await, [0, 1, 2]);
        first.delete(&id).await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn of_many_who_lease_a_session_at_once_one_gets_it() {
    everywhere(async |Views { first, second }| {
        let id = new_id();
        let_go(first.create(&head(&id)).await.unwrap()).await;
        for _ in 0..5 {
            let leases = (0..8).map(|n| if n % 2 == 0 { &first } else { &second }.acquire(&id));
            let leases = futures::future::join_all(leases).await;
            let mut leases: Vec<_> = leases.into_iter().filter_map(Result::ok).collect();
            assert_eq!(leases.len(), 1);
            let_go(leases.remove(0)).await;
        }
    })
    .await;
}

#[tokio::test]
async fn a_deleted_session_is_gone_for_everybody_with_all_that_belongs_to_it() {
    everywhere(async |Views { first, second }| {
        let id = new_id();
        let mut lease = first.create(&head(&id)).await.unwrap();
        lease.append(vec![batch(0, 2)]).await.unwrap();
        lease.store_secrets(&BTreeMap::from([("a".to_owned(), json!(1))])).await.unwrap();
        let_go(lease).await;
        second.delete(&id).await.unwrap();
        for store in [&first, &second] {
            assert!(is_not_found(store.head(&id).await));
            assert!(is_not_found(store.acquire(&id).await));
            assert!(is_not_found(store.is_held(&id).await));
            assert!(is_not_found(store.delete(&id).await));
            assert!(is_not_found(store.read(&id).await));
            assert!(store.secrets(&id).await.unwrap().is_empty());
            assert!(store.list(&Query::default()).await.unwrap().is_empty());
        }
        // The id of the deleted session is free again.
        let lease = first.create(&head(&id)).await.unwrap();
        assert_eq!(lease.next(), 0);
        assert_eq!(indexes(&*second, &id).await, [] as [usize; 0]);
        assert!(second.secrets(&id).await.unwrap().is_empty());
    })
    .await;
}

#[tokio::test]
async fn a_store_has_an_id_that_stays_and_that_no_other_has() {
    let seen = std::sync::Mutex::new(Vec::new());
    everywhere(async |Views { first, second }| {
        let id = first.id().await.unwrap();
        assert_eq!(second.id().await.unwrap(), id);
        assert_eq!(first.id().await.unwrap(), id);
        seen.lock().unwrap().push(id);
    })
    .await;
    let mut seen = seen.into_inner().unwrap();
    let count = seen.len();
    seen.sort();
    seen.dedup();
    assert_eq!(seen.len(), count);
}

#[tokio::test]
async fn a_list_has_titles_and_turns_and_what_the_query_says() {
    everywhere(async |Views { first, second }| {
        let ids = [new_id(), new_id(), new_id()];
        let heads = [
            head(&ids[0]),
            Head {
                directory: PathBuf::from("/q"),
                title: "second".to_owned(),
                owner: Some(PrincipalId { tenant: "acme".to_owned(), name: "alice".to_owned() }),
                ..head(&ids[1])
            },
            Head { tag: Some("mine".to_owned()), ..head(&ids[2]) },
        ];
        for (n, head) in heads.iter().enumerate() {
            let mut lease = first.create(head).await.unwrap();
            let summary = |turns, title: Option<&str>, shares: &Shares| BatchSummary {
                turns,
                title: title.map(Into::into),
                shares: shares.clone(),
                busy: false,
            };
            let shares = Shares::from([("bob".to_owned(), ShareRole::Answer)]);
            let at = tandem_agent::session::now() + i64::try_from(n).unwrap() * 1000;
            let events = vec![(at, Arc::new(text(0)))];
            lease
                .append(vec![
                    Batch { first: 0, events, summary: Some(summary(1, None, &Shares::new())) },
                    batch(1, 1),
                ])
                .await
                .unwrap();
            if n == 0 {
                let events = vec![(at, Arc::new(text(2)))];
                let summary = Some(summary(2, Some("better"), &shares));
                lease.append(vec![Batch { first: 2, events, summary }, batch(3, 1)]).await.unwrap();
            }
            let_go(lease).await;
        }
        let list = async |query: Query| {
            let listed = second.list(&query).await.unwrap();
            assert!(listed.iter().all(|one| one.changed > 1000));
            let mut listed: Vec<_> = listed
                .into_iter()
                .map(|one| (one.head, one.title, one.turns, one.shares))
                .collect();
            // Each store has its own times, so the test sorts by id and compares which sessions are listed.
            listed.sort_by(|a, b| a.0.id.cmp(&b.0.id));
            listed
        };
        let listed = |n: usize, title: &str, turns, shares: &[&str]| {
            let shares = shares.iter().map(|name| ((*name).to_owned(), ShareRole::Answer));
            (heads[n].clone(), title.to_owned(), turns, shares.collect::<Shares>())
        };
        let all = [
            listed(0, "better", 2, &["bob"]),
            listed(1, "second", 1, &[]),
            listed(2, "first", 1, &[]),
        ];
        assert_eq!(list(Query::default()).await, all);
        let checkpoints = |wanted| Query { checkpoints: Some(wanted), ..Query::default() };
        assert_eq!(list(checkpoints(true)).await, all[2..]);
        assert_eq!(list(checkpoints(false)).await, all[..2]);
        let here = Query { directory: Some(PathBuf::from("/q")), ..Query::default() };
        assert_eq!(list(here).await, all[1..2]);
        // The pages of a list together are the whole list.
        let order = async |query: Query| {
            let listed = first.list(&query).await.unwrap();
            listed.into_iter().map(|one| one.head.id).collect::<Vec<_>>()
        };
        let whole = order(Query::default()).await;
        assert_eq!(whole.len(), 3);
        for skip in 0..4 {
            let page = order(Query { skip, most: Some(2), ..Query::default() }).await;
            assert_eq!(page, whole[skip.min(3)..(skip + 2).min(3)]);
        }
    })
    .await;
}

#[tokio::test]
async fn secrets_are_beside_the_log_and_the_last_ones_count() {
    everywhere(async |Views { first, second }| {
        let id = new_id();
        let mut lease = first.create(&head(&id)).await.unwrap();
        assert!(second.secrets(&id).await.unwrap().is_empty());
        for secrets in [
            BTreeMap::from([
                ("a".to_owned(), json!({ "token": "x\0" })),
                ("b".to_owned(), json!(1)),
            ]),
            BTreeMap::from([("a".to_owned(), json!("other"))]),
            BTreeMap::new(),
        ] {
            lease.store_secrets(&secrets).await.unwrap();
            assert_eq!(second.secrets(&id).await.unwrap(), secrets);
        }
        assert_eq!(batches(&*second, &id).await, []);
    })
    .await;
}

#[tokio::test]
async fn a_log_that_is_begun_anew_takes_the_place_of_the_old_one_as_a_whole() {
    everywhere(async |Views { first, second }| {
        let id = new_id();
        let mut lease = first.create(&head(&id)).await.unwrap();
        lease.append(vec![batch(0, 9)]).await.unwrap();
        lease.sync().await.unwrap();
        lease.renew().await.unwrap();
        assert_eq!(lease.next(), 0);
        lease.append(vec![batch(0, 4)]).await.unwrap();
        lease.append(vec![batch(6, 2)]).await.unwrap();
        assert_eq!(indexes(&*second, &id).await, (0..9).collect::<Vec<_>>());
        lease.sync().await.unwrap();
        assert_eq!(indexes(&*second, &id).await, [0, 1, 2, 3, 6, 7]);
        lease.append(vec![batch(8, 1)]).await.unwrap();
        let_go(lease).await;
        assert_eq!(second.acquire(&id).await.unwrap().next(), 9);
        assert_eq!(indexes(&*first, &id).await, [0, 1, 2, 3, 6, 7, 8]);
    })
    .await;
}

#[tokio::test]
async fn what_was_said_is_found_and_what_was_thought_is_not() {
    everywhere(async |Views { first, second }| {
        let id = new_id();
        let mut lease = first.create(&head(&id)).await.unwrap();
        let said = ["The \"Wo", "rd\"", " is here"].map(|it| Event::Text(it.to_owned()));
        for (first, event) in said.into_iter().chain([Event::Thought("hidden".into())]).enumerate()
        {
            let events = vec![(1, Arc::new(event))];
            lease.append(vec![Batch { first, events, summary: None }]).await.unwrap();
        }
        assert!(second.may_say(&id, "\"word\" is").await.unwrap());
        assert!(!second.may_say(&id, "hidden").await.unwrap());
    })
    .await;
}

#[tokio::test]
async fn a_copy_is_whole_and_a_session_of_its_own() {
    everywhere(async |Views { first, second }| {
        let id = new_id();
        let mut lease = first.create(&head(&id)).await.unwrap();
        lease.append(vec![batch(0, 3), batch(5, 2)]).await.unwrap();
        let copy = fork(&*second, &id).await.unwrap();
        lease.append(vec![batch(7, 1)]).await.unwrap();
        assert_eq!(indexes(&*first, &copy.id).await, [0, 1, 2, 5, 6]);
        let_go(lease).await;
        first.delete(&id).await.unwrap();
        assert_eq!(second.acquire(&copy.id).await.unwrap().next(), 7);
    })
    .await;
}

#[tokio::test]
async fn files_beside_a_log_are_read_as_they_were_by_everybody_who_shares_the_store() {
    everywhere(async |Views { first, second }| {
        let (Some(owner), Some(other)) = (first.shared(), second.shared()) else { return };
        let (id, sizes) = (new_id(), [0, 1, (1 << 20) - 1, 1 << 20, (1 << 20) + 1, 3 << 20]);
        let refused = owner.put_file(&id, "outputs/a-1.txt", vec![1]).await;
        assert!(matches!(refused, Err(StoreError::TakenOver)), "nobody has the session");
        let lease = first.create(&head(&id)).await.unwrap();
        assert_eq!(other.files(&id).await.unwrap(), []);
        let mut rng = fastrand::Rng::with_seed(3);
        let mut files = BTreeMap::new();
        for bytes in sizes {
            let content: Vec<u8> = (0..bytes).map(|_| rng.u8(..)).collect();
            let name = format!("outputs/a-{bytes}.txt");
            // A client whose answer was lost puts the file a second time.
            owner.put_file(&id, &name, content.clone()).await.unwrap();
            owner.put_file(&id, &name, content.clone()).await.unwrap();
            files.insert(name, content);
        }
        let listed = other.files(&id).await.unwrap();
        let listed: Vec<_> = listed.iter().map(|file| (&*file.name, file.bytes)).collect();
        let expected = files.iter().map(|(name, content)| (&**name, content.len() as u64));
        assert_eq!(listed, expected.collect::<Vec<_>>());
        for (name, content) in &files {
            let bytes = content.len() as u64;
            assert!(other.read_file(&id, name, bytes).await.unwrap() == *content, "{name}");
            assert!(bytes == 0 || other.read_file(&id, name, bytes - 1).await.is_err());
        }
        let refused = other.put_file(&id, "outputs/b-1.txt", vec![1]).await;
        assert!(matches!(refused, Err(StoreError::TakenOver)), "another has the session");
        owner.remove_file(&id, "outputs/a-1.txt").await.unwrap();
        assert!(other.read_file(&id, "outputs/a-1.txt", 9).await.is_err());
        assert_eq!(other.files(&id).await.unwrap().len(), sizes.len() - 1);
        let_go(lease).await;
    })
    .await;
}

#[tokio::test]
async fn a_copy_has_files_of_its_own_and_a_deleted_session_none() {
    everywhere(async |Views { first, second }| {
        let (Some(owner), Some(other)) = (first.shared(), second.shared()) else { return };
        let id = new_id();
        let mut lease = first.create(&head(&id)).await.unwrap();
        lease.append(vec![batch(0, 3)]).await.unwrap();
        let content = vec![7; (1 << 20) + 5];
        owner.put_file(&id, "blobs/a", content.clone()).await.unwrap();
        let copy = fork(&*second, &id).await.unwrap();
        let_go(lease).await;
        first.delete(&id).await.unwrap();
        assert_eq!(other.files(&id).await.unwrap(), []);
        assert!(other.read_file(&copy.id, "blobs/a", 2 << 20).await.unwrap() == content);
    })
    .await;
}
