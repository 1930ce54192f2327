//! The store in a database: fences, lost answers, crashes of the database, and messages to people.

use std::collections::HashMap;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use expect_test::expect;
use futures::future::{join, select};
use serde_json::json;
use tandem_agent::session::{Secrets, SharedStore as _, Store as _, StoreError, WriteLease};
use tandem_store::{DatabaseAddress, PostgresLimits, PostgresStore};
use test_fakes::postgres::{Cluster, Database, LIMITS};
use test_support::limit::{HANG, block_until};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Runtime;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use crate::laws::{batch, head, indexes, is_held, new_id};

fn runtime() -> Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

/// A node that can be frozen: its tasks run only during [`FrozenNode::run`].
struct FrozenNode {
    runtime: Runtime,
    store: Option<PostgresStore>,
}

impl FrozenNode {
    fn connect(database: &Database<'_>) -> Self {
        let runtime = runtime();
        let store = Some(runtime.block_on(database.connect_in_runtime()));
        Self { runtime, store }
    }

    fn run<T>(&self, work: impl AsyncFnOnce(&PostgresStore) -> T) -> T {
        self.runtime.block_on(work(self.store.as_ref().unwrap()))
    }
}

/// Leases a session as soon as its owner counts as dead.
async fn acquire(store: &PostgresStore, id: &str) -> Box<dyn WriteLease> {
    let claiming = async {
        loop {
            match store.acquire(id).await {
                Ok(lease) => return lease,
                Err(StoreError::Held(..)) => sleep(Duration::from_millis(20)).await,
                Err(err) => panic!("{err}"),
            }
        }
    };
    timeout(HANG, claiming).await.unwrap()
}

#[test]
fn what_a_node_adds_that_was_believed_dead_is_refused() {
    let Some(cluster) = Cluster::shared() else { return };
    let database = cluster.database();
    let (frozen, other) = (FrozenNode::connect(&database), FrozenNode::connect(&database));
    let ids = [new_id(), new_id()];
    let mut zombies: Vec<_> = ids
        .iter()
        .map(|id| {
            frozen.run(async |store| {
                let mut lease = store.create(&head(id)).await.unwrap();
                lease.append(vec![batch(0, 2)]).await.unwrap();
                lease
            })
        })
        .collect();
    // The frozen node is alive, and the other node has seen so: its session is held.
    other.run(async |store| while !is_held(store.acquire(&ids[0]).await) {});
    let mut leases: Vec<_> =
        ids.iter().map(|id| other.run(async |store| acquire(store, id).await)).collect();
    assert_eq!(leases[0].next(), 2);
    other.run(async |_| leases[0].append(vec![batch(2, 1)]).await.unwrap());
    // The other node has the session now. All that the frozen node does with the session is refused, and nothing of
    // it is in the log.
    frozen.run(async |store| {
        for _ in 0..2 {
            let refused = zombies[0].append(vec![batch(2, 5)]).await;
            assert!(matches!(refused, Err(StoreError::TakenOver)));
        }
        let refused = zombies[0].store_secrets(&[("a".to_owned(), json!(1))].into()).await;
        assert!(matches!(refused, Err(StoreError::TakenOver)));
        assert!(matches!(zombies[0].announce(1).await, Err(StoreError::TakenOver)));
        let refused = store.put_file(&ids[0], "outputs/a-1.txt", vec![1]).await;
        assert!(matches!(refused, Err(StoreError::TakenOver)));
        zombies[0].renew().await.unwrap();
        assert!(matches!(zombies[0].sync().await, Err(StoreError::TakenOver)));
        zombies[0].release().await;
        // A node that adds nothing to its session learns of the takeover, too.
        timeout(HANG, zombies[1].taken_over()).await.unwrap();
    });
    other.run(async |store| {
        assert_eq!(indexes(store, &ids[0]).await, [0, 1, 2]);
        assert!(store.secrets(&ids[0]).await.unwrap().is_empty());
        assert!(is_held(store.acquire(&ids[0]).await));
    });
}

#[test]
fn a_node_whose_other_work_stands_still_is_alive() {
    let Some(cluster) = Cluster::shared() else { return };
    let database = cluster.database();
    let (busy, other) = (runtime(), runtime());
    let id = new_id();
    // Nothing else runs in the runtime of this node from here on.
    let (_store, _lease) = busy.block_on(async {
        let store = database.connect().await;
        let lease = store.create(&head(&id)).await.unwrap();
        (store, lease)
    });
    let store = other.block_on(database.connect());
    let beats = || -> i64 { database.sql("select min(beat) from tandem.node").parse().unwrap() };
    let many = beats() + 20;
    block_until("twenty signs of life", || {
        let acquired = other.block_on(store.acquire(&id));
        assert!(is_held(acquired), "its session is taken over");
        beats() >= many
    });
}

#[test]
fn of_several_nodes_that_find_an_owner_dead_one_gets_its_session() {
    let Some(cluster) = Cluster::shared() else { return };
    let database = cluster.database();
    let runtime = runtime();
    let stores: Vec<_> = (0..3).map(|_| runtime.block_on(database.connect())).collect();
    for _ in 0..3 {
        let mut dead = FrozenNode::connect(&database);
        let id = new_id();
        let lease = dead.run(async |store| store.create(&head(&id)).await.unwrap());
        // The node ends without releasing its session, as if it were killed.
        std::mem::forget(lease);
        drop(dead.store.take());
        drop(dead);
        runtime.block_on(async {
            let begun = std::time::Instant::now();
            let leases = stores.iter().map(|store| store.acquire(&id));
            let leases = futures::future::join_all(leases).await;
            let leases: Vec<_> = leases.into_iter().filter_map(Result::ok).collect();
            assert_eq!(leases.len(), 1);
            assert!(begun.elapsed() < LIMITS.node_dead, "{:?}", begun.elapsed());
        });
    }
    let sql = "select epoch, count(*) from tandem.session group by epoch";
    assert_eq!(database.sql(sql), "2|3", "nobody has taken over from who had taken over");
}

/// Proxy between a store and the server, which can lose the next answer, or the next request itself.
struct Proxy {
    port: u16,
    /// Number of requests to lose next.
    requests: AtomicUsize,
    /// Number of answers to lose next.
    answers: AtomicUsize,
}

impl Proxy {
    async fn start(to: u16) -> Arc<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let proxy =
            Arc::new(Self { port, requests: AtomicUsize::new(0), answers: AtomicUsize::new(0) });
        let shared = Arc::clone(&proxy);
        tokio::spawn(async move {
            loop {
                let (client, _) = listener.accept().await.unwrap();
                let shared = Arc::clone(&shared);
                tokio::spawn(async move {
                    let server = TcpStream::connect(("127.0.0.1", to)).await.unwrap();
                    shared.forward(client, server).await;
                });
            }
        });
        proxy
    }

    async fn forward(&self, mut client: TcpStream, mut server: TcpStream) {
        let (mut sent, mut told) = (vec![0; 1 << 16], vec![0; 1 << 16]);
        loop {
            let (from, bytes, lost) = tokio::select! {
                sent = client.read(&mut sent) => (true, sent, &self.requests),
                told = server.read(&mut told) => (false, told, &self.answers),
            };
            let Ok(bytes @ 1..) = bytes else { return };
            let data = if from { &sent[..bytes] } else { &told[..bytes] };
            // Only statements that add a batch are lost, and only their answers.
            let counts = if from {
                find(data, b"chunk")
            } else {
                find(data, b"INSERT") || find(data, b"SELECT 1")
            };
            let is_lost = |n: usize| n.checked_sub(1);
            if counts && lost.fetch_update(Ordering::SeqCst, Ordering::SeqCst, is_lost).is_ok() {
                return;
            }
            let to = if from { &mut server } else { &mut client };
            if to.write_all(data).await.is_err() {
                return;
            }
        }
    }
}

fn find(bytes: &[u8], word: &[u8]) -> bool {
    bytes.windows(word.len()).any(|piece| piece == word)
}

#[tokio::test]
async fn an_append_whose_request_or_answer_was_lost_is_in_the_log_once() {
    let Some(cluster) = Cluster::shared() else { return };
    let database = cluster.database();
    let proxy = Proxy::start(cluster.port).await;
    let through = database.url.replace(&cluster.port.to_string(), &proxy.port.to_string());
    let through: DatabaseAddress = through.parse().unwrap();
    let store = PostgresStore::connect(&through, LIMITS).await.unwrap();
    let id = new_id();
    let mut lease = store.create(&head(&id)).await.unwrap();
    for n in 0..20 {
        let lost = if n % 2 == 0 { &proxy.requests } else { &proxy.answers };
        lost.store(1, Ordering::SeqCst);
        lease.append(vec![batch(n, 1)]).await.unwrap();
        // The counter shows that a request or an answer was lost.
        assert_eq!(lost.load(Ordering::SeqCst), 0);
    }
    assert_eq!(indexes(&store, &id).await, (0..20).collect::<Vec<_>>());
}

/// Number of sessions that [`busy`] appends to.
const BUSY_SESSIONS: usize = 12;

/// Appends events to many sessions while the server is disturbed. `appended` counts them. Returns the number of
/// confirmed events of each session.
async fn busy(
    store: &PostgresStore,
    events: usize,
    appended: &watch::Sender<usize>,
    trouble: impl Future<Output = ()>,
) -> HashMap<String, usize> {
    let work = (0..BUSY_SESSIONS).map(|_| async {
        let id = new_id();
        let mut lease = store.create(&head(&id)).await.unwrap();
        for n in 0..events {
            lease.append(vec![batch(n, 1)]).await.unwrap();
            appended.send_modify(|count| *count += 1);
            // The pause lets the other sessions append in between.
            sleep(Duration::from_millis(1)).await;
        }
        (id, events)
    });
    let (kept, ()) = tokio::join!(futures::future::join_all(work), trouble);
    kept.into_iter().collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn when_the_server_crashes_or_freezes_nothing_is_lost_and_nothing_is_there_twice() {
    let Some(cluster) = Cluster::start() else { return };
    let database = cluster.database();
    let limits = PostgresLimits { patience: Duration::from_secs(2), ..LIMITS };
    let store = PostgresStore::connect(&database.address(), limits).await.unwrap();
    let appended = watch::Sender::new(0);
    // The server's trouble comes in the middle of the work, each time after another tenth of the events.
    let until = async |tenths| {
        let count = BUSY_SESSIONS * 400 * tenths / 10;
        appended.subscribe().wait_for(|appended| *appended >= count).await.unwrap();
    };
    let trouble = async {
        for tenths in 1..=3 {
            until(tenths).await;
            tokio::task::block_in_place(|| cluster.crash());
        }
        until(4).await;
        tokio::task::block_in_place(|| cluster.freeze());
        // A real wait: the server is away for longer than any client waits for an answer.
        sleep(Duration::from_secs(3)).await;
        tokio::task::block_in_place(|| cluster.thaw());
    };
    // All sessions begin before the first crash, because a session begins only when the server is there.
    let kept = busy(&store, 400, &appended, trouble).await;
    let other = database.connect().await;
    for (id, count) in kept {
        assert_eq!(indexes(&other, &id).await, (0..count).collect::<Vec<_>>());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn when_the_primary_dies_and_its_synchronous_standby_takes_over_nothing_is_lost() {
    let Some(primary) = Cluster::start() else { return };
    let database = primary.database();
    let standby = primary.synchronous_standby();
    let both = format!("127.0.0.1:{},127.0.0.1:{}", primary.port, standby.port);
    let url = database.url.replace(&format!("127.0.0.1:{}", primary.port), &both);
    let address: DatabaseAddress =
        format!("{url}?target_session_attrs=read-write").parse().unwrap();
    let store = PostgresStore::connect(&address, LIMITS).await.unwrap();
    let appended = watch::Sender::new(0);
    let trouble = async {
        // The primary dies in the middle of the work.
        let half = BUSY_SESSIONS * 200 / 2;
        appended.subscribe().wait_for(|appended| *appended >= half).await.unwrap();
        tokio::task::block_in_place(|| {
            primary.kill();
            standby.promote();
        });
    };
    // Each append succeeds, so all events must be stored.
    let kept = busy(&store, 200, &appended, trouble).await;
    let other = PostgresStore::connect(&address, LIMITS).await.unwrap();
    for (id, count) in kept {
        assert_eq!(indexes(&other, &id).await, (0..count).collect::<Vec<_>>());
    }
}

#[tokio::test]
async fn files_and_secrets_wait_for_a_database_that_does_not_answer() {
    let Some(cluster) = Cluster::start() else { return };
    let database = cluster.database();
    let limits = PostgresLimits { patience: Duration::from_secs(1), ..LIMITS };
    let store = PostgresStore::connect(&database.address(), limits).await.unwrap();
    let id = new_id();
    let mut lease = store.create(&head(&id)).await.unwrap();
    let secrets = Secrets::from([("token".to_owned(), json!("abc"))]);
    cluster.freeze();
    let mut put = store.put_file(&id, "outputs/a-1.txt", vec![7; 9]);
    let mut kept = lease.store_secrets(&secrets);
    // By then, an operation that has no time left would have been refused.
    let waited = timeout(limits.patience * 2, select(&mut put, &mut kept)).await;
    cluster.thaw();
    assert!(waited.is_err(), "one of them was refused");
    let (put, kept) = timeout(HANG, join(put, kept)).await.unwrap();
    put.and(kept).unwrap();
    assert_eq!(store.read_file(&id, "outputs/a-1.txt", 9).await.unwrap(), [7; 9]);
    assert_eq!(store.secrets(&id).await.unwrap(), secrets);
}

/// Appends an event while the database refuses, and returns when the event is stored after the refusals have ended.
async fn append_meanwhile(
    database: &Database<'_>,
    lease: &mut Box<dyn WriteLease>,
    first: usize,
    [refuse, relent]: [&str; 2],
) {
    let cut = "select count(pg_terminate_backend(pid)) from pg_stat_activity \
               where datname = current_database() and pid <> pg_backend_pid()";
    database.sql(refuse);
    database.sql(cut);
    let mut append = lease.append(vec![batch(first, 1)]);
    // The wait is longer than a connection waits for an answer.
    let early = timeout(Duration::from_secs(2), &mut append).await;
    assert!(early.is_err(), "kept, or given up: {early:?}");
    database.sql(relent);
    database.sql(cut);
    timeout(HANG, append).await.unwrap().unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_database_that_is_full_or_read_only_for_a_while_has_all_events_afterwards() {
    let Some(cluster) = Cluster::shared() else { return };
    let database = cluster.database();
    let limits = PostgresLimits { patience: Duration::from_secs(1), ..LIMITS };
    let store = PostgresStore::connect(&database.address(), limits).await.unwrap();
    let id = new_id();
    let mut lease = store.create(&head(&id)).await.unwrap();
    lease.append(vec![batch(0, 1)]).await.unwrap();
    // Postgres reports this error when a file cannot grow.
    let full = "create function no_room() returns trigger language plpgsql as $$ begin \
                raise 'could not extend file' using errcode = '53100'; end $$; \
                create trigger no_room before insert on tandem.batch execute function no_room()";
    let room = "drop trigger no_room on tandem.batch";
    append_meanwhile(&database, &mut lease, 1, [full, room]).await;
    // The database becomes read-only, as on a primary that has become a standby, or on a provider's nearly full
    // disk.
    let name = database_name(&database);
    let setting = |value: &str| {
        format!(
            "begin read write; alter database {name} set default_transaction_read_only = {value}; commit"
        )
    };
    append_meanwhile(&database, &mut lease, 2, [&setting("on"), &setting("off")]).await;
    assert_eq!(indexes(&store, &id).await, [0, 1, 2]);
}

#[tokio::test]
async fn each_connection_may_be_cut_at_any_time() {
    let Some(cluster) = Cluster::shared() else { return };
    let database = cluster.database();
    let store = database.connect().await;
    let other = database.connect().await;
    let id = new_id();
    let mut lease = store.create(&head(&id)).await.unwrap();
    for n in 0..5 {
        lease.append(vec![batch(n, 1)]).await.unwrap();
        let cut = "select count(pg_terminate_backend(pid)) from pg_stat_activity \
                   where datname = current_database() and pid <> pg_backend_pid()";
        assert_ne!(database.sql(cut), "0");
        // A lost connection does not end the lease: the session is still held.
        assert!(is_held(other.acquire(&id).await));
    }
    assert_eq!(indexes(&other, &id).await, [0, 1, 2, 3, 4]);
}

#[tokio::test]
async fn a_database_that_has_gone_back_is_given_all_that_is_known() {
    let Some(cluster) = Cluster::shared() else { return };
    let database = cluster.database();
    let store = database.connect().await;
    let id = new_id();
    let mut lease = store.create(&head(&id)).await.unwrap();
    lease.append(vec![batch(0, 2)]).await.unwrap();
    lease.append(vec![batch(2, 2)]).await.unwrap();
    // The database lacks the last batch, as after a failover to a standby that had not received all.
    database.sql("delete from tandem.batch where first = 2; update tandem.session set next = 2");
    assert!(matches!(lease.append(vec![batch(4, 1)]).await, Err(StoreError::Lost(_))));
    lease.renew().await.unwrap();
    lease.append(vec![batch(0, 5)]).await.unwrap();
    lease.sync().await.unwrap();
    lease.append(vec![batch(5, 1)]).await.unwrap();
    assert_eq!(indexes(&store, &id).await, [0, 1, 2, 3, 4, 5]);
}

#[tokio::test]
async fn what_a_newer_version_wrote_is_read_and_never_added_to() {
    let Some(cluster) = Cluster::shared() else { return };
    let database = cluster.database();
    let store = database.connect().await;
    let id = new_id();
    store.create(&head(&id)).await.unwrap().append(vec![batch(0, 2)]).await.unwrap();
    database.sql("update tandem.session set head = replace(head, '\"tandem\":1', '\"tandem\":2')");
    assert_eq!(indexes(&store, &id).await, [0, 1]);
    assert!(matches!(store.acquire(&id).await, Err(StoreError::Newer(2))));
}

#[tokio::test]
async fn nodes_that_start_together_make_the_tables_once() {
    let Some(cluster) = Cluster::shared() else { return };
    let database = cluster.database();
    let stores = futures::future::join_all((0..6).map(|_| database.connect())).await;
    let id = new_id();
    let _lease = stores[0].create(&head(&id)).await.unwrap();
    for store in &stores[1..] {
        assert!(is_held(store.acquire(&id).await));
    }
    assert_eq!(database.sql("select version from tandem.schema_version"), "1");
    // A node that starts removes the rows of nodes that have ended.
    drop(stores);
    let _last = database.connect().await;
    let nodes = "select count(*) from tandem.node";
    let _another = database.connect().await;
    assert!(database.sql(nodes).parse::<u32>().unwrap() <= 8);
}

/// Returns the message to people who connect to this database.
#[tokio::test]
async fn a_table_that_came_later_is_added_while_an_older_node_works() {
    let Some(cluster) = Cluster::shared() else { return };
    let database = cluster.database();
    let older = database.connect().await;
    let id = new_id();
    let mut lease = older.create(&head(&id)).await.unwrap();
    lease.append(vec![batch(0, 1)]).await.unwrap();
    database.sql("drop table tandem.file");
    let newer = database.connect().await;
    lease.append(vec![batch(1, 1)]).await.unwrap();
    assert_eq!(newer.files(&id).await.unwrap(), []);
    lease.release().await;
    let _lease = newer.acquire(&id).await.unwrap();
    newer.put_file(&id, "outputs/a-1.txt", vec![1]).await.unwrap();
    assert_eq!(indexes(&older, &id).await, [0, 1]);
}

/// Connects where the database answers, which may take long on a busy machine.
async fn refused(url: &str) -> String {
    refused_within(url, HANG).await
}

async fn refused_within(url: &str, patience: Duration) -> String {
    let limits = PostgresLimits { patience, ..LIMITS };
    match PostgresStore::connect(&url.parse().unwrap(), limits).await {
        Ok(_) => panic!("{url} is let in"),
        Err(err) => err.to_string(),
    }
}

#[tokio::test]
async fn people_are_told_what_is_wrong_and_what_to_do_without_the_password() {
    let Some(cluster) = Cluster::shared() else { return };
    let database = cluster.database();
    let port = cluster.port.to_string();
    let told =
        |text: String| text.replace(&port, "PORT").replace(&database_name(&database), "NAME");
    let url = |from: &str, to: &str| database.url.replace(from, to);

    let none = refused(&format!("postgres://tandem@127.0.0.1:{port}/none")).await;
    expect!["the database `none` at 127.0.0.1:PORT: there is no such database; make it with `createdb none`"].assert_eq(&told(none));

    database.sql(
        "do $$ begin if not exists (select from pg_roles where rolname = 'locked') then \
                  create role locked login password 'right'; end if; end $$",
    );
    let wrong = refused(&url("tandem@", "locked:wrong@")).await;
    expect![[r#"the database `NAME` at 127.0.0.1:PORT: it does not let the user `locked` in (password authentication failed for user "locked"); check the password in the address or in PGPASSWORD"#]].assert_eq(&told(wrong));

    let missing = refused(&url("tandem@", "locked@")).await;
    expect!["the database `NAME` at 127.0.0.1:PORT: it wants a password of the user `locked`; set PGPASSWORD"].assert_eq(&told(missing));

    let denied = refused(&url("tandem@", "locked:right@")).await;
    expect!["the database `NAME` at 127.0.0.1:PORT: the user `locked` may not do this (permission denied for database NAME); let it own the database, or the schema `tandem`, or grant it the rights that `docs/deploy/roles.sql` grants"].assert_eq(&told(denied));

    // The port is free: no server listens there.
    let free = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap().port();
    let free_url = format!("postgres://me:secret@127.0.0.1:{free}/x");
    let nobody = refused_within(&free_url, Duration::from_secs(1)).await;
    expect!["the database `x` at 127.0.0.1:FREE: it cannot be reached (Connection refused (os error 111)); is it running, and is its address right?"].assert_eq(&nobody.replace(&free.to_string(), "FREE"));

    // A server listens, and never answers.
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let at = silent.local_addr().unwrap().port();
    let silent_url = format!("postgres://me:secret@127.0.0.1:{at}/x");
    let nothing = refused_within(&silent_url, Duration::from_secs(1)).await;
    expect!["the database `x` at 127.0.0.1:SILENT: it has not answered for 1 s; is it running, and can it be reached from here?"].assert_eq(&nothing.replace(&at.to_string(), "SILENT"));

    let tls = refused(&format!("{}?sslmode=require", database.url)).await;
    expect!["the database `NAME` at 127.0.0.1:PORT: it has no TLS; add `sslmode=disable` on a network that you trust"].assert_eq(&told(tls));

    drop(database.connect().await);
    database.sql("insert into tandem.schema_version values (2)");
    let newer = refused(&database.url).await;
    expect!["the database `NAME` at 127.0.0.1:PORT: a newer tandem made its tables (version 2, and this program knows 1); update tandem"].assert_eq(&told(newer));
}

fn database_name(database: &Database<'_>) -> String {
    database.url.rsplit('/').next().unwrap().to_owned()
}

#[tokio::test]
async fn a_node_needs_to_own_nothing() {
    let Some(cluster) = Cluster::shared() else { return };
    let database = cluster.database();
    drop(database.connect().await);
    let role = format!("node_{:08x}", fastrand::u32(..));
    let grants = include_str!("../../../../../docs/deploy/roles.sql");
    database.sql(&grants.replace("tandem_node", &role));
    let address = database.url.replace("tandem@", &format!("{role}@"));
    let store = PostgresStore::connect(&address.parse().unwrap(), LIMITS).await.unwrap();
    let id = new_id();
    let mut lease = store.create(&head(&id)).await.unwrap();
    lease.append(vec![batch(0, 2)]).await.unwrap();
    lease.store_secrets(&[("a".to_owned(), json!(1))].into()).await.unwrap();
    lease.renew().await.unwrap();
    lease.append(vec![batch(0, 3)]).await.unwrap();
    lease.sync().await.unwrap();
    assert_eq!(indexes(&store, &id).await, [0, 1, 2]);
    assert!(store.opened().await.unwrap().contains(&id));
    lease.release().await;
    drop(lease);
    store.delete(&id).await.unwrap();
    // No row of the session is left, and the role `tandem` owns all tables.
    assert_eq!(database.sql("select count(*) from tandem.batch"), "0");
    let owned =
        "select count(*) from pg_tables where schemaname = 'tandem' and tableowner <> 'tandem'";
    assert_eq!(database.sql(owned), "0");
    let may = |right: &str| {
        database.sql(&format!("select has_schema_privilege('{role}', 'tandem', '{right}')"))
    };
    assert_eq!((may("usage").as_str(), may("create").as_str()), ("t", "f"));
}
