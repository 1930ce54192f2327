//! The store in files: the part of a log that is kept whatever happens to its file.

use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures::StreamExt as _;
use tandem_agent::session::{
    Batch, BatchSummary, Event, Head, Holder, Query, Store as _, StoreError, Stored, TurnId,
    WriteLease,
};
use tandem_store::FileStore;

const ID: &str = "0199f2c4-0000-7000-8000-000000000001";
const OTHER: &str = "0199f2c4-0000-7000-8000-000000000002";

fn head(id: &str) -> Head {
    Head {
        id: id.to_owned(),
        created: 1,
        directory: PathBuf::from("/p"),
        title: "first".to_owned(),
        by: "tandem test".to_owned(),
        served: false,
        owner: None,
        context: None,
        from: None,
        git: None,
        tag: None,
    }
}

fn text(n: usize) -> Event {
    Event::Text(format!("chunk {n}"))
}

fn batch(first: usize, count: usize) -> Batch {
    let events = (first..first + count).map(|n| (5, Arc::new(text(n)))).collect();
    Batch { first, events, summary: None }
}

/// A store in a directory of its own.
struct Place {
    dir: tempfile::TempDir,
    store: FileStore,
}

impl Place {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let store = FileStore::new(dir.path().join("sessions"));
        Self { dir, store }
    }

    fn session(&self, id: &str) -> PathBuf {
        self.dir.path().join("sessions").join(id)
    }

    fn log(&self) -> PathBuf {
        self.session(ID).join("log.jsonl")
    }

    async fn create(&self, id: &str) -> Box<dyn WriteLease> {
        self.store.create(&head(id)).await.unwrap()
    }

    /// Makes a session with three batches and a gap, which is closed.
    async fn written() -> Self {
        let place = Self::new();
        let mut lease = place.create(ID).await;
        lease.append(vec![batch(0, 3), batch(3, 1)]).await.unwrap();
        lease.append(vec![batch(6, 2)]).await.unwrap();
        lease.sync().await.unwrap();
        place
    }

    /// Returns the indexes of the events that can be read, and the number of damaged pieces.
    async fn read(&self) -> (Vec<usize>, usize) {
        let mut log = self.store.read(ID).await.unwrap();
        let (mut indexes, mut damaged) = (Vec::new(), 0);
        while let Some(pieces) = log.next().await {
            for piece in pieces.unwrap() {
                let Stored::Batch(batch) = piece else {
                    damaged += 1;
                    continue;
                };
                let events: Vec<_> =
                    batch.events.iter().map(|(_, event)| (**event).clone()).collect();
                let expected: Vec<_> = (batch.first..batch.end()).map(text).collect();
                assert_eq!(events, expected);
                indexes.extend(batch.first..batch.end());
            }
        }
        (indexes, damaged)
    }
}

fn add(path: &Path, bytes: &[u8]) {
    OpenOptions::new().append(true).open(path).unwrap().write_all(bytes).unwrap();
}

#[tokio::test]
async fn what_was_appended_is_read_as_it_was_and_goes_on_after_the_last_index() {
    let place = Place::written().await;
    let mut lease = place.store.acquire(ID).await.unwrap();
    assert_eq!((lease.next(), lease.repaired()), (8, None));
    lease.append(vec![batch(8, 1)]).await.unwrap();
    assert_eq!(place.read().await, (vec![0, 1, 2, 3, 6, 7, 8], 0));
    assert_eq!(place.store.head(ID).await.unwrap(), head(ID));
}

#[tokio::test]
async fn only_the_user_can_read_a_session() {
    let place = Place::written().await;
    let mode = |path: PathBuf| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(place.log()), 0o600);
    assert_eq!(mode(place.session(ID)), 0o700);
    assert_eq!(mode(place.dir.path().join("sessions")), 0o700);
}

#[tokio::test]
async fn a_session_has_one_writer_and_others_are_told_who_it_is() {
    let place = Place::new();
    let mut lease = place.create(ID).await;
    let held = |result: Result<Box<dyn WriteLease>, StoreError>| match result {
        Err(StoreError::Held(id, holder)) => {
            assert_eq!(id, ID);
            holder
        }
        Err(err) => panic!("{err}"),
        Ok(_) => panic!("leased twice"),
    };
    let pid = std::process::id();
    assert_eq!(held(place.store.acquire(ID).await), Holder { pid, ..Holder::default() });
    lease.announce(41242).await.unwrap();
    assert_eq!(held(place.store.acquire(ID).await), Holder { pid, port: Some(41242), node: None });
    // `owner.json` only informs. Without the file, the session is still locked.
    fs::remove_file(place.session(ID).join("owner.json")).unwrap();
    assert_eq!(held(place.store.acquire(ID).await), Holder::default());
    assert!(matches!(place.store.delete(ID).await, Err(StoreError::Held(..))));
    drop(place.create(OTHER).await);
    drop(lease);
    place.store.acquire(ID).await.unwrap();
}

#[tokio::test]
async fn a_session_that_this_process_has_open_is_not_listed_as_open_elsewhere() {
    let place = Place::new();
    let _lease = place.create(ID).await;
    let listed = place.store.list(&Query::default()).await.unwrap();
    assert_eq!(listed.iter().map(|it| &it.held_by).collect::<Vec<_>>(), [&None]);
}

#[tokio::test]
async fn whatever_byte_a_log_is_cut_at_all_whole_lines_are_there_and_it_goes_on() {
    let whole = fs::read(Place::written().await.log()).unwrap();
    let ends: Vec<_> = (1..=whole.len()).filter(|end| whole[end - 1] == b'\n').collect();
    for cut in ends[0]..whole.len() {
        for tail in [&b""[..], &[0; 100]] {
            let place = Place::new();
            fs::create_dir_all(place.session(ID)).unwrap();
            fs::write(place.log(), [&whole[..cut], tail].concat()).unwrap();
            let lines = ends.iter().filter(|end| **end <= cut).count();
            let (indexes, next) = match lines {
                1 => (vec![], 0),
                2 => (vec![0, 1, 2], 3),
                _ => (vec![0, 1, 2, 3], 4),
            };
            assert_eq!(place.read().await, (indexes.clone(), 0), "cut at {cut}");
            let mut lease = place.store.acquire(ID).await.unwrap();
            assert_eq!(lease.next(), next);
            let is_torn = !ends.contains(&cut) || !tail.is_empty();
            assert_eq!(lease.repaired().is_some(), is_torn, "cut at {cut}");
            assert_eq!(place.session(ID).join("log.torn").exists(), is_torn);
            lease.append(vec![batch(10, 1)]).await.unwrap();
            assert_eq!(place.read().await, ([indexes, vec![10]].concat(), 0));
        }
    }
}

#[tokio::test]
async fn a_damaged_line_in_the_middle_hides_nothing_behind_it() {
    let place = Place::written().await;
    let log = fs::read_to_string(place.log()).unwrap();
    let lines: Vec<_> = log.lines().collect();
    let damaged = [lines[0], lines[1], "{\"i\":3,\"t\"", "", "\0\0", lines[3]].join("\r\n") + "\n";
    fs::write(place.log(), &damaged).unwrap();
    assert_eq!(place.read().await, (vec![0, 1, 2, 6, 7], 2));
    let lease = place.store.acquire(ID).await.unwrap();
    assert_eq!((lease.next(), lease.repaired()), (8, None));
    assert_eq!(fs::read_to_string(place.log()).unwrap(), damaged);
}

#[tokio::test]
async fn what_a_newer_version_wrote_is_read_and_never_added_to() {
    let place = Place::written().await;
    let log = fs::read_to_string(place.log()).unwrap();
    fs::write(place.log(), log.replacen("\"tandem\":1", "\"tandem\":2", 1)).unwrap();
    assert_eq!(place.read().await.0.len(), 6);
    let acquired = place.store.acquire(ID).await;
    assert!(matches!(acquired, Err(StoreError::Newer(2))));
    assert_eq!(place.store.list(&Query::default()).await.unwrap().len(), 1);
}

#[tokio::test]
async fn only_a_uuid_leads_to_a_file() {
    let place = Place::written().await;
    for id in ["", ".", "../sessions", "a/b", &ID.to_uppercase().replace('-', ""), OTHER] {
        assert!(matches!(place.store.head(id).await, Err(StoreError::NotFound(_))), "{id}");
        assert!(matches!(place.store.acquire(id).await, Err(StoreError::NotFound(_))), "{id}");
        assert!(matches!(place.store.delete(id).await, Err(StoreError::NotFound(_))), "{id}");
    }
}

#[tokio::test]
async fn a_session_is_created_once() {
    let place = Place::written().await;
    assert!(place.store.create(&head(ID)).await.is_err());
    assert_eq!(place.read().await.0.len(), 6);
}

#[tokio::test]
async fn a_list_has_the_last_changed_first_with_titles_and_turns() {
    let place = Place::new();
    let mut lease = place.create(ID).await;
    let queued =
        Event::TurnFinished { turn: TurnId(1), reason: tandem_agent::session::StopReason::EndTurn };
    let summary = |turns, title: Option<&str>| {
        let title = title.map(ToOwned::to_owned);
        Some(BatchSummary { turns, title, ..BatchSummary::default() })
    };
    let ended =
        |first, summary| Batch { first, events: vec![(1, Arc::new(queued.clone()))], summary };
    lease
        .append(vec![ended(0, summary(1, None)), ended(1, summary(2, Some("better")))])
        .await
        .unwrap();
    // The event is longer than the part that is read at once from the end of the log.
    let long = Event::Text("x".repeat(100_000));
    lease
        .append(vec![Batch { first: 2, events: vec![(1, Arc::new(long))], summary: None }])
        .await
        .unwrap();
    let mut elsewhere = head(OTHER);
    elsewhere.directory = PathBuf::from("/q");
    let other = place.store.create(&elsewhere).await.unwrap();
    let earlier = std::time::SystemTime::now() - std::time::Duration::from_mins(1);
    let file = OpenOptions::new().append(true).open(place.log()).unwrap();
    file.set_modified(earlier).unwrap();
    drop((lease, other));
    // Neither of the two directories is a session.
    fs::create_dir(place.dir.path().join("sessions/else")).unwrap();
    fs::create_dir(place.session("0199f2c4-0000-7000-8000-000000000003")).unwrap();
    let list = async |query: Query| {
        let listed = place.store.list(&query).await.unwrap();
        listed.into_iter().map(|one| (one.head.id, one.title, one.turns)).collect::<Vec<_>>()
    };
    let (one, two) =
        ((ID.to_owned(), "better".to_owned(), 2), (OTHER.to_owned(), "first".to_owned(), 0));
    assert_eq!(list(Query::default()).await, [two.clone(), one.clone()]);
    assert_eq!(list(Query { skip: 1, ..Query::default() }).await, std::slice::from_ref(&one));
    assert_eq!(list(Query { most: Some(1), ..Query::default() }).await, [two]);
    let here = Query { directory: Some(PathBuf::from("/p")), ..Query::default() };
    assert_eq!(list(here).await, [one]);
}

#[tokio::test]
async fn a_deleted_session_is_gone_with_its_files() {
    let place = Place::written().await;
    fs::create_dir(place.session(ID).join("blobs")).unwrap();
    place.store.delete(ID).await.unwrap();
    assert_eq!(fs::read_dir(place.dir.path().join("sessions")).unwrap().count(), 0);
}

#[tokio::test]
async fn a_foreign_log_is_refused_with_its_reason() {
    for content in ["\n", "not a log\n", "{\"tandem\":\"x\"}\n"] {
        let place = Place::new();
        fs::create_dir_all(place.session(ID)).unwrap();
        fs::write(place.log(), content).unwrap();
        let acquired = place.store.acquire(ID).await;
        assert!(matches!(acquired, Err(StoreError::Invalid(_))), "{content:?}");
        assert_eq!(fs::read_to_string(place.log()).unwrap(), content);
    }
}

#[tokio::test]
async fn a_log_that_a_killed_process_has_left_without_a_head_is_no_session_and_gives_way_to_one() {
    for left in ["", "{\"v\":1,\"he"] {
        let place = Place::new();
        fs::create_dir_all(place.session(ID)).unwrap();
        fs::write(place.log(), left).unwrap();
        assert!(matches!(place.store.head(ID).await, Err(StoreError::NotFound(_))));
        assert!(matches!(place.store.acquire(ID).await, Err(StoreError::NotFound(_))));
        let mut lease = place.store.create(&head(ID)).await.unwrap();
        lease.append(vec![batch(0, 2)]).await.unwrap();
        drop(lease);
        assert_eq!(place.store.head(ID).await.unwrap().title, "first");
    }
}

#[tokio::test]
async fn a_session_whose_first_line_is_damaged_is_listed_and_can_be_read() {
    for damage in ["", "{\"tandem\":1,\"id\":", "\u{fffd}\0\0"] {
        let place = Place::new();
        fs::create_dir_all(place.session(ID)).unwrap();
        let (_, batches) = GOLDEN.split_once('\n').unwrap();
        let content = format!("{damage}\n{batches}");
        fs::write(place.log(), &content).unwrap();
        let listed = place.store.list(&Query::default()).await.unwrap();
        let [listed] = &listed[..] else { panic!("{damage:?}: {listed:?}") };
        assert_eq!((&*listed.head.id, &listed.head.owner), (ID, &None));
        assert_eq!(place.store.head(ID).await.unwrap(), listed.head);
        let mut log = place.store.read(ID).await.unwrap();
        let (mut read, mut damaged) = (0, Vec::new());
        while let Some(pieces) = log.next().await {
            for piece in pieces.unwrap() {
                match piece {
                    Stored::Batch(batch) => read += batch.events.len(),
                    Stored::Damaged(why) => damaged.push(why),
                }
            }
        }
        assert_eq!((read, damaged.len()), (14, usize::from(!damage.is_empty())), "{damaged:?}");
        // A log that this version cannot understand is not changed.
        let acquired = place.store.acquire(ID).await;
        assert!(matches!(acquired, Err(StoreError::Invalid(_))), "{damage:?}");
        assert_eq!(fs::read_to_string(place.log()).unwrap(), content);
    }
}

#[tokio::test]
async fn a_line_of_many_megabytes_is_read() {
    let place = Place::written().await;
    let line =
        format!("{{\"i\":8,\"t\":1,\"e\":[{{\"Invented\":\"{}\"}}]}}\n", "y".repeat(50 << 20));
    add(&place.log(), line.as_bytes());
    assert_eq!(place.store.acquire(ID).await.unwrap().next(), 9);
    let mut log = place.store.read(ID).await.unwrap();
    let mut events = 0;
    while let Some(pieces) = log.next().await {
        events += pieces.unwrap().len();
    }
    assert_eq!(events, 4);
}

/// A log as this version and earlier versions have written it, which every later version reads.
const GOLDEN: &str = include_str!("../../../../fixtures/store/v1/log.jsonl");

#[tokio::test]
async fn a_stored_log_is_read_by_every_later_version() {
    let place = Place::new();
    fs::create_dir_all(place.session(ID)).unwrap();
    fs::write(place.log(), GOLDEN).unwrap();
    let mut log = place.store.read(ID).await.unwrap();
    let mut read = Vec::new();
    while let Some(pieces) = log.next().await {
        for piece in pieces.unwrap() {
            let Stored::Batch(batch) = piece else { panic!("{piece:?}") };
            let events = batch.events.iter().map(|(at, event)| (*at, (**event).clone()));
            read.extend((batch.first..).zip(events).map(|(index, (at, event))| (index, at, event)));
        }
    }
    let expected = (0..9).chain(12..17).map(|n| {
        let at = [(13, 2), (14, 2005)].iter().find(|it| it.0 == n).map_or(5, |it| it.1);
        let event = match n {
            5 => Event::Forgotten,
            6 | 7 => Event::Thought(format!("chunk {n}")),
            14 => Event::Notice(format!("chunk {n}")),
            _ => text(n),
        };
        (n, at, event)
    });
    assert_eq!(read, expected.collect::<Vec<_>>());
    assert_eq!(place.store.acquire(ID).await.unwrap().next(), 17);
    assert_eq!(place.store.list(&Query::default()).await.unwrap()[0].turns, 1);
    assert!(place.store.may_say(ID, "chunk 2chunk 3chunk 4").await.unwrap());
    assert!(!place.store.may_say(ID, "chunk 6").await.unwrap());
}

#[tokio::test]
async fn a_log_that_was_begun_anew_is_released_although_children_are_being_started() {
    let place = Place::written().await;
    let over = Arc::new(AtomicBool::new(false));
    let is_over = Arc::clone(&over);
    // A new child process has the locked descriptors until it runs its program.
    let starting = std::thread::spawn(move || {
        while !is_over.load(Ordering::Relaxed) {
            std::process::Command::new("true").status().unwrap();
        }
    });
    for _ in 0..300 {
        let mut lease = place.store.acquire(ID).await.unwrap();
        lease.renew().await.unwrap();
        drop(lease);
    }
    over.store(true, Ordering::Relaxed);
    starting.join().unwrap();
}

#[tokio::test]
async fn a_log_that_is_begun_anew_counts_when_all_of_it_is_on_the_disk() {
    let place = Place::written().await;
    let before = fs::read(place.log()).unwrap();
    let is_held = async || matches!(place.store.acquire(ID).await, Err(StoreError::Held(..)));
    let mut lease = place.store.acquire(ID).await.unwrap();
    lease.renew().await.unwrap();
    assert_eq!(lease.next(), 0);
    lease.append(vec![batch(0, 2)]).await.unwrap();
    assert!(is_held().await);
    assert_eq!(fs::read(place.log()).unwrap(), before);
    // The process ends before it has written the whole log anew.
    drop(lease);
    let mut lease = place.store.acquire(ID).await.unwrap();
    assert_eq!(fs::read_dir(place.session(ID)).unwrap().count(), 2, "log and owner");
    lease.renew().await.unwrap();
    lease.append(vec![batch(0, 4)]).await.unwrap();
    lease.append(vec![batch(6, 2)]).await.unwrap();
    lease.sync().await.unwrap();
    assert_ne!(fs::read(place.log()).unwrap(), before);
    assert_eq!(fs::read(place.session(ID).join("log.old.jsonl")).unwrap(), before);
    assert!(is_held().await);
    assert!(matches!(place.store.delete(ID).await, Err(StoreError::Held(..))));
    lease.append(vec![batch(8, 1)]).await.unwrap();
    assert_eq!(place.read().await, (vec![0, 1, 2, 3, 6, 7, 8], 0));
    assert_eq!(place.store.list(&Query::default()).await.unwrap().len(), 1);
    drop(lease);
    assert_eq!(place.store.acquire(ID).await.unwrap().next(), 9);
}

#[tokio::test]
async fn a_log_that_somebody_removes_is_lost_and_another_that_is_open_stays_in_its_place() {
    let place = Place::written().await;
    let mut first = place.store.acquire(ID).await.unwrap();
    fs::remove_dir_all(place.dir.path().join("sessions")).unwrap();
    assert!(matches!(first.sync().await, Err(StoreError::Lost(_))));
    assert!(matches!(first.append(vec![batch(8, 1)]).await, Err(StoreError::Lost(_))));
    let mut second = place.create(ID).await;
    first.renew().await.unwrap();
    first.append(vec![batch(0, 9)]).await.unwrap();
    assert!(matches!(first.sync().await, Err(StoreError::Held(..))));
    second.append(vec![batch(0, 1)]).await.unwrap();
    assert_eq!(place.read().await, (vec![0], 0));
    drop(second);
    first.renew().await.unwrap();
    first.append(vec![batch(0, 9)]).await.unwrap();
    first.sync().await.unwrap();
    assert_eq!(place.read().await, ((0..9).collect(), 0));
    let old = fs::read_to_string(place.session(ID).join("log.old.jsonl")).unwrap();
    assert_eq!(old.lines().count(), 2);
}

#[tokio::test]
async fn whoever_looks_whether_a_session_is_open_keeps_nobody_from_opening_it() {
    let place = Place::written().await;
    let done = tokio_util::sync::CancellationToken::new();
    let looks = (0..3).map(|_| {
        let (store, done) = (place.store.clone(), done.clone());
        tokio::spawn(async move {
            while !done.is_cancelled() {
                store.is_held(ID).await.unwrap();
            }
        })
    });
    let looks: Vec<_> = looks.collect();
    for _ in 0..200 {
        let lease = place.store.acquire(ID).await.unwrap();
        assert!(place.store.is_held(ID).await.unwrap());
        drop(lease);
    }
    done.cancel();
    for look in looks {
        look.await.unwrap();
    }
    assert!(!place.store.is_held(ID).await.unwrap());
    assert!(matches!(place.store.is_held(OTHER).await, Err(StoreError::NotFound(_))));
}

#[tokio::test]
async fn a_fork_is_whole_when_its_original_is_deleted() {
    let place = Place::new();
    let mut lease = place.create(ID).await;
    let outputs = place.session(ID).join("outputs");
    fs::create_dir(&outputs).unwrap();
    fs::write(outputs.join("look-1.txt"), "all of it").unwrap();
    let path = outputs.join("look-1.txt").display().to_string();
    let said = Event::ToldNext(format!("all of it is in {path}, \"{path}\""));
    let other = Event::Notice(format!("{OTHER} and {ID} are no files"));
    let events = vec![(1, Arc::new(said)), (1, Arc::new(text(1))), (1, Arc::new(other.clone()))];
    lease.append(vec![Batch { first: 0, events, summary: None }]).await.unwrap();
    let fork = tandem_agent::sessions::fork(&place.store, ID).await.unwrap();
    drop(lease);
    place.store.delete(ID).await.unwrap();
    let copied = place.session(&fork.id).join("outputs/look-1.txt");
    assert_eq!(fs::read_to_string(&copied).unwrap(), "all of it");
    let path = copied.display();
    let said = Event::ToldNext(format!("all of it is in {path}, \"{path}\""));
    let events = test_fakes::store::stored(&place.store, &fork.id).await;
    assert_eq!(events, [(0, said), (1, text(1)), (2, other)]);
}

/// Covers the time between `fork` and `exec`, in which a new process has every open file.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_session_is_let_go_although_a_process_that_begins_still_has_its_file() {
    use rustix::process::{PidfdFlags, PidfdGetfdFlags, getpid, pidfd_getfd, pidfd_open};

    let place = Place::new();
    let lease = place.create(ID).await;
    let is_log = |fd: &fs::DirEntry| fs::read_link(fd.path()).is_ok_and(|file| file == place.log());
    let fd = fs::read_dir("/proc/self/fd").unwrap().flatten().find(is_log).unwrap();
    let fd = fd.file_name().into_string().unwrap().parse().unwrap();
    let this = pidfd_open(getpid(), PidfdFlags::empty()).unwrap();
    let _copy = pidfd_getfd(this, fd, PidfdGetfdFlags::empty()).unwrap();
    assert!(matches!(place.store.delete(ID).await, Err(StoreError::Held(..))));
    drop(lease);
    place.store.delete(ID).await.unwrap();
}
