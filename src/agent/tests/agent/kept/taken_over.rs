//! Sessions that another process has taken over.

use super::{
    Faulty, LONG, Place, ask, calls, create, end, events, load, look, registry, says, stored,
};
use std::sync::Arc;

use tandem_agent::session::Origin;
use tandem_agent::sessions::Sessions;
use tokio::task::yield_now;
use tokio::time::timeout;

use test_fakes::text;
use test_support::limit::wait_until;

/// Waits until a session is not loaded any more.
async fn unloaded(sessions: &Sessions, id: &str) {
    wait_until("the end of the session", || !sessions.contains(id)).await;
}

#[tokio::test]
async fn what_a_session_does_after_it_was_taken_over_is_neither_stored_nor_shown() {
    let place = Place::new();
    let store = Faulty::new(place.store());
    let answers = vec![says("one"), calls(&["a"]), says("late"), says("more")];
    let (sessions, _) = registry(Arc::clone(&store) as _, answers, vec![look()]);
    let loaded = create(&sessions);
    ask(&loaded, "first").await;
    let (id, session) = (loaded.id().to_owned(), Arc::clone(loaded.session()));
    drop(loaded);
    let before = events(&session);
    store.goes_on.send_replace(false);
    session.prompt(text("second"), Origin::Terminal);
    // The session has events to store at the moment when it learns of the other process.
    yield_now().await;
    store.taken.send_replace(true);
    store.goes_on.send_replace(true);
    timeout(LONG, session.wait_fenced()).await.unwrap();
    timeout(LONG, session.turns().closed()).await.unwrap();
    // The last events are never stored, so waiting for them must end.
    timeout(LONG, session.turns().idle()).await.unwrap();
    timeout(LONG, session.wait_durable()).await.unwrap();
    assert!(session.wait_stored().await.is_err());
    unloaded(&sessions, &id).await;
    assert_eq!(events(&session), before);
    assert_eq!(stored(&*place.store(), &id).await, before);
    // Once the other process has let the session go, `load` reads the session as it is stored.
    store.taken.send_replace(false);
    let again = load(&sessions, &id).await;
    assert_eq!(events(again.session())[..before.len()], before);
    ask(&again, "third").await;
    end(&sessions).await;
}

#[tokio::test]
async fn a_session_that_does_nothing_learns_that_it_was_taken_over() {
    let place = Place::new();
    let store = Faulty::new(place.store());
    let (sessions, _) = registry(Arc::clone(&store) as _, vec![says("one")], Vec::new());
    let loaded = create(&sessions);
    ask(&loaded, "first").await;
    let id = loaded.id().to_owned();
    drop(loaded);
    store.taken.send_replace(true);
    unloaded(&sessions, &id).await;
}
