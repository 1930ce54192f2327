//! The registry of sessions: create, open, list, unload, delete.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures::FutureExt as _;
use serde_json::{Value, json};
use tandem_agent::session::{Origin, Parts, PromptPart, Session, TurnId};
use tandem_agent::sessions::{
    CreateError, Leased, LoadedSession, MakeSession, SessionLimits, SessionRequest, SessionView,
    Sessions,
};
use tandem_host::ToolKind;
use tandem_model::replay::Replay;
use tandem_store::FileStore;
use tokio::sync::Barrier;
use tokio::time::{advance, timeout};

use test_fakes::{Fake, other, parts, session};
use test_support::limit::in_time;

const IDLE: Duration = Duration::from_hours(1);
const LONG: Duration = Duration::from_secs(20);

/// Returns a registry whose sessions give this answer to every prompt.
fn answering(answers: Value, loaded: usize) -> Arc<Sessions> {
    let tool = Fake::new("t", ToolKind::Other, other());
    let make: MakeSession = Arc::new(move |_, _| Ok(session(answers.clone(), vec![tool.clone()])));
    Sessions::new(make, SessionLimits { loaded, idle: Some(IDLE), log_bytes: 1 << 20 })
}

fn registry(loaded: usize) -> Arc<Sessions> {
    answering(json!([[{ "text": "hello" }]]), loaded)
}

/// Returns answers that ask a question, which no test answers.
fn questions() -> Value {
    json!([[{ "call": { "name": "t" } }], [{ "text": "done" }]])
}

fn create(sessions: &Sessions) -> Leased<LoadedSession> {
    sessions.create(&SessionRequest::default(), |_| ()).unwrap()
}

/// Creates a session without a lease; returns its id.
fn unwatched(sessions: &Sessions) -> String {
    create(sessions).id().to_owned()
}

fn prompt(loaded: &LoadedSession, text: &str) -> TurnId {
    loaded.session().prompt(vec![PromptPart::Text(text.to_owned())], Origin::Terminal)
}

/// Waits until a session asks a question.
async fn asked(loaded: &LoadedSession) {
    let mut log = loaded.session().events(0);
    while loaded.session().questions().open_now().is_empty() {
        timeout(LONG, log.next()).await.unwrap();
    }
}

/// A front end's view.
#[derive(Default)]
struct Clients {
    unloaded: AtomicUsize,
}

impl SessionView for Clients {
    fn unloaded(&self) {
        self.unloaded.fetch_add(1, Ordering::SeqCst);
    }
}

#[tokio::test]
async fn a_session_is_opened_by_its_own_id_or_by_the_one_that_was_chosen() {
    let sessions = registry(9);
    let own = create(&sessions);
    assert_eq!(own.id(), own.session().id());
    let request = SessionRequest::default();
    let (chosen, is_new) = sessions.open_or_create("mine", &request, |_| ()).unwrap();
    assert!(is_new);
    assert_eq!(chosen.id(), "mine");
    for loaded in [&own, &chosen] {
        assert!(Arc::ptr_eq(&sessions.open(loaded.id()).unwrap(), loaded));
    }
    let (again, is_new) = sessions.open_or_create("mine", &request, |_| ()).unwrap();
    assert!(!is_new && Arc::ptr_eq(&again, &chosen));
    assert!(Arc::ptr_eq(&sessions.open(chosen.session().id()).unwrap(), &chosen));
}

#[tokio::test]
async fn the_maker_is_given_the_request_and_its_refusal_is_returned() {
    let make: MakeSession = Arc::new(|request, _| Err(format!("not {:?}", request.directory)));
    let sessions = Sessions::new(make, SessionLimits { loaded: 1, idle: None, log_bytes: 1 << 20 });
    let request = SessionRequest { directory: Some("/x".into()), ..SessionRequest::default() };
    let refused = sessions.create(&request, |_| unreachable!()).err();
    assert_eq!(refused, Some(CreateError::Refused("not Some(\"/x\")".to_owned())));
    assert!(sessions.list().is_empty());
}

#[tokio::test]
async fn a_new_session_is_prepared_before_anybody_else_can_open_it() {
    let sessions = registry(9);
    let (prepared, _) = sessions
        .open_or_create("x", &SessionRequest::default(), |_| assert!(!sessions.contains("x")))
        .unwrap();
    assert!(sessions.contains(prepared.id()));
}

#[tokio::test]
async fn the_list_begins_with_the_session_that_was_active_last() {
    let sessions = registry(9);
    let (silent, early, late) = (create(&sessions), create(&sessions), create(&sessions));
    let say = async |loaded: &Arc<LoadedSession>, text: &str| {
        prompt(loaded, text);
        timeout(LONG, loaded.session().turns().idle()).await.unwrap();
        loaded.summary().last_activity
    };
    let before = say(&early, "one\nmore").await;
    say(&late, "two").await;
    // Times in the log are in milliseconds, so two messages may have the same one.
    let later = async { while say(&late, "three\nmore").await == before {} };
    in_time(later).await.expect("no message is later than the first");
    let list = sessions.list();
    let ids: Vec<_> = list.iter().map(|summary| summary.id.as_str()).collect();
    assert_eq!(ids, [late.id(), early.id(), silent.id()]);
    let lines = |at: usize| (list[at].title.as_str(), list[at].last_prompt.as_str());
    assert_eq!([lines(0), lines(1), lines(2)], [("two", "three"), ("one", "one"), ("", "")]);
    assert!(list[0].prompts >= 2);
    assert_eq!([list[1].prompts, list[2].prompts], [1, 0]);
    assert_eq!(list[2].last_activity, None);
    assert_eq!(list[0].directory, late.session().roots()[0]);
    assert!(list.iter().all(|summary| !summary.busy));
}

#[tokio::test]
async fn the_list_counts_the_leases_of_front_ends_and_their_clients() {
    let sessions = answering(questions(), 9);
    let id = unwatched(&sessions);
    assert_eq!(sessions.list()[0].watchers, 0);
    let held = sessions.open(&id).unwrap();
    assert_eq!(sessions.list()[0].watchers, 1);
    let clients = [(); 3].map(|()| held.clone());
    assert_eq!(sessions.list()[0].watchers, 4);
    let looked_at = (sessions.loaded(), sessions.find_loaded(&id));
    assert_eq!(sessions.list()[0].watchers, 4, "a look is no use");
    drop((clients, looked_at));
    assert_eq!(sessions.list()[0].watchers, 1);
    prompt(&held, "go");
    asked(&held).await;
    assert!(sessions.list()[0].busy);
}

#[tokio::test]
async fn a_front_end_has_one_view_of_a_session() {
    let sessions = registry(9);
    let (one, other) = (create(&sessions), create(&sessions));
    let view = one.view(Arc::<Clients>::default);
    assert!(Arc::ptr_eq(&view, &one.view(|| unreachable!())));
    assert!(!Arc::ptr_eq(&view, &other.view(Arc::<Clients>::default)));
}

#[tokio::test(start_paused = true)]
async fn a_session_is_unloaded_when_nobody_has_used_it_for_the_idle_time() {
    let sessions = registry(9);
    let (unused, used) = (unwatched(&sessions), unwatched(&sessions));
    let view = sessions.open(&unused).unwrap().view(Arc::<Clients>::default);
    advance(IDLE / 2).await;
    sessions.open(&used);
    advance(IDLE / 2).await;
    sessions.unload_idle();
    assert!(!sessions.contains(&unused) && sessions.contains(&used));
    assert_eq!(view.unloaded.load(Ordering::SeqCst), 1);
    advance(IDLE / 2).await;
    sessions.unload_idle();
    assert!(!sessions.contains(&used));
}

#[tokio::test(start_paused = true)]
async fn the_idle_time_begins_when_nobody_watches_any_more() {
    let sessions = registry(9);
    let held = create(&sessions);
    let id = held.id().to_owned();
    let client = held.clone();
    advance(2 * IDLE).await;
    sessions.unload_idle();
    drop(held);
    advance(2 * IDLE).await;
    sessions.unload_idle();
    assert!(sessions.contains(&id), "a client of a front end watches");
    drop(client);
    advance(IDLE / 2).await;
    sessions.unload_idle();
    assert!(sessions.contains(&id), "it was watched half the idle time ago");
    advance(IDLE / 2).await;
    sessions.unload_idle();
    assert!(!sessions.contains(&id));
}

#[tokio::test(start_paused = true)]
async fn a_busy_session_is_not_unloaded() {
    let sessions = answering(questions(), 9);
    let id = unwatched(&sessions);
    let held = sessions.open(&id).unwrap();
    let turn = prompt(&held, "go");
    asked(&held).await;
    let session = Arc::clone(held.session());
    drop(held);
    advance(2 * IDLE).await;
    sessions.unload_idle();
    assert!(sessions.contains(&id));
    session.cancel(turn);
    session.turns().idle().await;
    advance(IDLE).await;
    sessions.unload_idle();
    assert!(!sessions.contains(&id));
}

#[tokio::test(start_paused = true)]
async fn a_registry_without_an_idle_time_unloads_nothing() {
    let make: MakeSession = Arc::new(|_, _| Ok(session(json!([]), Vec::new())));
    let sessions = Sessions::new(make, SessionLimits { loaded: 1, idle: None, log_bytes: 1 << 20 });
    let id = unwatched(&sessions);
    advance(100 * IDLE).await;
    sessions.unload_idle();
    assert!(sessions.contains(&id));
}

#[tokio::test(start_paused = true)]
async fn a_full_registry_gives_up_only_abandoned_sessions_the_first_one_first() {
    let sessions = registry(3);
    let ids = [(); 3].map(|()| unwatched(&sessions));
    let refused = || sessions.create(&SessionRequest::default(), |_| ()).err();
    assert_eq!(refused(), Some(CreateError::Full(3)));
    for id in [&ids[1], &ids[0], &ids[2]] {
        sessions.open(id).unwrap().last_use().abandon();
        advance(Duration::from_secs(1)).await;
    }
    // `open` makes session 1 wanted again, and a session with a lease, such as session 2, stays loaded. So only
    // session 0 may be given up.
    sessions.open(&ids[1]);
    let watched = sessions.open(&ids[2]).unwrap();
    watched.last_use().abandon();
    let fourth = unwatched(&sessions);
    let loaded = [&ids[0], &ids[1], &ids[2], &fourth].map(|id| sessions.contains(id));
    assert_eq!(loaded, [false, true, true, true]);
    assert_eq!(refused(), Some(CreateError::Full(3)));
}

#[tokio::test]
async fn a_deleted_session_is_closed_and_forgotten() {
    let sessions = answering(questions(), 1);
    let held = create(&sessions);
    let view = held.view(Arc::<Clients>::default);
    prompt(&held, "go");
    asked(&held).await;
    assert!(sessions.delete(held.id()));
    timeout(LONG, held.session().turns().closed()).await.unwrap();
    timeout(LONG, held.session().turns().idle()).await.unwrap();
    assert_eq!(view.unloaded.load(Ordering::SeqCst), 1);
    assert!(sessions.open(held.id()).is_none() && !sessions.delete(held.id()));
    // The deleted session left its place in the registry, so another session can be created.
    create(&sessions);
}

#[tokio::test]
async fn a_session_is_deleted_by_its_own_id_too() {
    let sessions = registry(9);
    let request = SessionRequest::default();
    let (chosen, _) = sessions.open_or_create("mine", &request, |_| ()).unwrap();
    assert!(sessions.delete(chosen.session().id()));
    assert!(!sessions.contains("mine"));
}

#[tokio::test]
async fn all_sessions_are_closed_together_and_stay_readable() {
    let sessions = registry(9);
    let held = [create(&sessions), create(&sessions)];
    sessions.close("The end.");
    for loaded in held {
        timeout(LONG, loaded.session().turns().closed()).await.unwrap();
        assert!(sessions.contains(loaded.id()));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 8)]
async fn of_requests_for_one_id_at_once_exactly_one_makes_the_session() {
    let made = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&made);
    let maker: MakeSession = Arc::new(move |_, _| {
        counted.fetch_add(1, Ordering::SeqCst);
        Ok(session(json!([]), Vec::new()))
    });
    let sessions =
        Sessions::new(maker, SessionLimits { loaded: 9, idle: None, log_bytes: 1 << 20 });
    for round in 1..=20 {
        let together = Arc::new(Barrier::new(8));
        let requests = (0..8).map(|_| {
            let (sessions, together) = (Arc::clone(&sessions), Arc::clone(&together));
            tokio::spawn(async move {
                together.wait().await;
                sessions.open_or_create("x", &SessionRequest::default(), |_| ()).unwrap()
            })
        });
        let opened = futures::future::try_join_all(requests).await.unwrap();
        assert_eq!(made.load(Ordering::SeqCst), round);
        assert_eq!(opened.iter().filter(|(_, is_new)| *is_new).count(), 1);
        assert!(opened.iter().all(|(loaded, _)| Arc::ptr_eq(loaded, &opened[0].0)));
        sessions.delete("x");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_session_that_somebody_only_looks_at_gives_way_to_a_new_one() {
    let sessions = registry(2);
    let looking = [(); 2].map(|()| {
        let sessions = Arc::clone(&sessions);
        tokio::spawn(async move {
            while !sessions.contains("last") {
                sessions.list();
                tokio::task::yield_now().await;
            }
        })
    });
    for _ in 0..300 {
        create(&sessions).last_use().abandon();
    }
    sessions.open_or_create("last", &SessionRequest::default(), |_| ()).unwrap();
    futures::future::try_join_all(looking).await.unwrap();
}

/// Returns a registry that stores its sessions in a directory, and the id of a session in which a turn has ended.
async fn storing(directory: &Path) -> (Arc<Sessions>, String) {
    let script = json!({ "when": "", "answers": [[{ "text": "hello" }]] }).to_string();
    let make: MakeSession = Arc::new(move |_, storage| {
        let model = Arc::new(Replay::from_script(&script).unwrap());
        Ok(Session::new(Parts { storage, ..parts(model) }))
    });
    let store = Arc::new(FileStore::new(directory.to_owned()));
    let limits = SessionLimits { loaded: 9, idle: None, log_bytes: 1 << 20 };
    let sessions = Sessions::with_store(make, limits, Some(store));
    let loaded = create(&sessions);
    prompt(&loaded, "go");
    timeout(LONG, loaded.session().turns().idle()).await.unwrap();
    let id = loaded.id().to_owned();
    (sessions, id)
}

#[tokio::test]
async fn a_load_that_is_given_up_leaves_the_next_one_waiting_for_the_end_of_the_session() {
    let directory = tempfile::tempdir().unwrap();
    let (sessions, id) = storing(directory.path()).await;
    assert!(sessions.unload_unused(|_| true));
    let given_up = sessions.load(&id, Vec::new(), |_| ()).now_or_never();
    assert!(given_up.is_none(), "the session has not ended yet");
    let loaded = timeout(LONG, sessions.load(&id, Vec::new(), |_| ())).await.unwrap();
    assert_eq!(loaded.unwrap().unwrap().id(), id);
    sessions.close("The end.");
    timeout(LONG, sessions.wait_all_stored()).await.unwrap();
}

#[tokio::test]
async fn a_session_that_is_not_loaded_any_more_is_known_to_be_unloading_until_it_is_stored() {
    let directory = tempfile::tempdir().unwrap();
    let (sessions, id) = storing(directory.path()).await;
    let found = sessions.find_loaded(&id).unwrap();
    assert!(!sessions.is_unloading(&id));
    assert!(sessions.unload_unused(|_| true));
    assert!(found.lease().is_none());
    assert!(sessions.is_unloading(&id));
    timeout(LONG, sessions.wait_unloaded(&id)).await.unwrap();
    assert!(!sessions.is_unloading(&id));
    assert!(sessions.head(&id).await.unwrap().is_some());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_session_is_loaded_again_while_it_is_unloaded() {
    let directory = tempfile::tempdir().unwrap();
    let (sessions, id) = storing(directory.path()).await;
    let at_once = Arc::new(Barrier::new(2));
    for _ in 0..100 {
        let (unloading, both) = (Arc::clone(&sessions), Arc::clone(&at_once));
        let unloaded = tokio::spawn(async move {
            both.wait().await;
            unloading.unload_unused(|_| true)
        });
        at_once.wait().await;
        let loaded = timeout(LONG, sessions.load(&id, Vec::new(), |_| ())).await.unwrap();
        assert_eq!(loaded.unwrap().unwrap().id(), id);
        unloaded.await.unwrap();
    }
    sessions.close("The end.");
    timeout(LONG, sessions.wait_all_stored()).await.unwrap();
}
