//! Sessions of clients whose store refuses events: such a session waits, and then ends.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tandem_agent::session::{Answer, ClientName, Event, Origin, StoreError};
use tandem_agent::sessions::Sessions;
use tandem_host::{Access, Hints, ToolKind, ToolOutput};
use tokio::time::{sleep, timeout};

use super::{Faulty, LONG, Place, calls, create, end, events, load, registry, says, stored};
use test_fakes::{Fake, is_end, text, until};

/// Default time for which a session waits for its store.
const STORE_TIMEOUT: Duration = Duration::from_mins(2);

fn client() -> Origin {
    Origin::A2a(ClientName::default())
}

#[tokio::test(start_paused = true)]
async fn the_model_is_asked_for_a_client_when_the_prompt_is_stored() {
    let place = Place::new();
    let store = Faulty::new(place.store());
    let (sessions, told) = registry(Arc::clone(&store) as _, vec![says("one")], Vec::new());
    let loaded = create(&sessions);
    let session = loaded.session();
    let mut log = session.events(0);
    store.fails.store(true, Ordering::SeqCst);
    session.prompt(text("first"), client());
    sleep(STORE_TIMEOUT / 2).await;
    assert_eq!(told.lock().unwrap().len(), 0);
    store.fails.store(false, Ordering::SeqCst);
    until(&mut log, is_end).await;
    assert_eq!(told.lock().unwrap().len(), 1);
    end(&sessions).await;
}

/// Returns sessions whose model calls a tool, and the number of runs of the tool.
fn calling(store: &Arc<Faulty>) -> (Arc<Sessions>, Arc<AtomicUsize>) {
    let ran = Arc::new(AtomicUsize::new(0));
    let runs = Arc::clone(&ran);
    let tool = Fake::new("look", ToolKind::Edit, Access::Nothing).running(move |_| {
        runs.fetch_add(1, Ordering::SeqCst);
        async { Ok(ToolOutput::new("ran", "ran")) }
    });
    let answers = vec![says("one"), calls(&["a"]), says("two"), calls(&["b"]), says("three")];
    let (sessions, _) = registry(Arc::clone(store) as _, answers, vec![tool]);
    (sessions, ran)
}

#[tokio::test(start_paused = true)]
async fn a_clients_session_waits_for_a_store_that_refuses_and_goes_on_as_if_nothing_had_been() {
    let place = Place::new();
    let store = Faulty::new(place.store());
    let (sessions, ran) = calling(&store);
    let loaded = create(&sessions);
    let session = loaded.session();
    let mut log = session.events(0);
    session.prompt(text("first"), client());
    until(&mut log, is_end).await;
    let shown = session.position();
    store.fails.store(true, Ordering::SeqCst);
    session.prompt(text("second"), client());
    sleep(STORE_TIMEOUT / 2).await;
    assert_eq!((session.position(), ran.load(Ordering::SeqCst)), (shown, 0));
    store.fails.store(false, Ordering::SeqCst);
    until(&mut log, is_end).await;
    assert_eq!(ran.load(Ordering::SeqCst), 1);
    assert_eq!(super::notices(session), 0);
    session.wait_durable().await;
    assert_eq!(stored(&*place.store(), loaded.id()).await, events(session));
    end(&sessions).await;
}

#[tokio::test(start_paused = true)]
async fn a_clients_session_that_could_not_be_saved_for_long_ends_with_the_reason() {
    let place = Place::new();
    let store = Faulty::new(place.store());
    let (sessions, ran) = calling(&store);
    let loaded = create(&sessions);
    let (id, session) = (loaded.id().to_owned(), Arc::clone(loaded.session()));
    drop(loaded);
    let mut log = session.events(0);
    session.prompt(text("first"), client());
    until(&mut log, is_end).await;
    session.wait_durable().await;
    let before = events(&session);
    store.fails.store(true, Ordering::SeqCst);
    session.prompt(text("second"), client());
    timeout(STORE_TIMEOUT * 2, session.wait_fenced()).await.unwrap();
    timeout(LONG, session.turns().closed()).await.unwrap();
    let reason = session.fence_error().unwrap();
    assert!(
        matches!(&reason, StoreError::Refused(why) if why.contains("no storage space")),
        "{reason}"
    );
    assert_eq!((events(&session), ran.load(Ordering::SeqCst)), (before.clone(), 0));
    assert_eq!(stored(&*place.store(), &id).await, before);
    // The store has the session without the refused turn, and the loaded session takes the second prompt.
    store.fails.store(false, Ordering::SeqCst);
    let again = load(&sessions, &id).await;
    let mut log = again.session().events(again.session().position());
    again.session().prompt(text("second"), client());
    until(&mut log, is_end).await;
    end(&sessions).await;
}

#[tokio::test(start_paused = true)]
async fn a_clients_new_session_that_cannot_be_stored_acknowledges_nothing() {
    let place = Place::new();
    let store = Faulty::new(place.store());
    store.fails.store(true, Ordering::SeqCst);
    let (sessions, ran) = calling(&store);
    let loaded = create(&sessions);
    let session = Arc::clone(loaded.session());
    let shown = session.position();
    session.prompt(text("first"), client());
    session.prompt(text("second"), client());
    timeout(STORE_TIMEOUT * 2, session.wait_fenced()).await.unwrap();
    timeout(LONG, session.turns().closed()).await.unwrap();
    assert_eq!((session.position(), ran.load(Ordering::SeqCst)), (shown, 0));
    assert!(matches!(session.fence_error(), Some(StoreError::Refused(_))));
}

#[tokio::test(start_paused = true)]
async fn a_clients_session_that_is_closed_while_its_store_refuses_shows_nothing_that_was_not_stored()
 {
    let place = Place::new();
    let store = Faulty::new(place.store());
    let (sessions, ran) = calling(&store);
    let loaded = create(&sessions);
    let session = Arc::clone(loaded.session());
    let mut log = session.events(0);
    session.prompt(text("first"), client());
    until(&mut log, is_end).await;
    session.wait_durable().await;
    let before = events(&session);
    store.fails.store(true, Ordering::SeqCst);
    session.prompt(text("second"), client());
    sleep(Duration::from_secs(2)).await;
    end(&sessions).await;
    assert_eq!((events(&session), ran.load(Ordering::SeqCst)), (before, 0));
}

#[tokio::test(start_paused = true)]
async fn a_person_whose_session_cannot_be_saved_is_asked_before_something_is_done_outside() {
    let place = Place::new();
    let store = Faulty::new(place.store());
    store.fails.store(true, Ordering::SeqCst);
    let hints = Hints { trusted: true, ..Hints::default() };
    let (server, tool) = ("s".to_owned(), "look".to_owned());
    let access = Access::Mcp { server, tool, display_name: "Look".to_owned(), hints };
    let tool = Fake::new("look", ToolKind::Execute, access)
        .running(|_| async { Ok(ToolOutput::new("ran", "ran")) });
    let answers = vec![calls(&["a"]), says("one")];
    let (sessions, _) = registry(Arc::clone(&store) as _, answers, vec![tool]);
    let loaded = create(&sessions);
    let session = loaded.session();
    let mut log = session.events(0);
    session.prompt(text("first"), Origin::Terminal);
    let asks = |event: &Event| matches!(event, Event::CallStarted(call) if call.question.is_some());
    let seen = until(&mut log, |event| asks(event) || is_end(event)).await;
    let Some(Event::CallStarted(call)) = seen.last().map(|last| &**last) else {
        panic!("{seen:?}")
    };
    assert_eq!(
        call.question.as_ref().unwrap().reason(),
        "this conversation is not being saved, so there would be no record of this call [built-in rule unsaved]"
    );
    assert!(session.is_store_bypassed());
    session.answer(&call.call.id, Answer::Once { edited: None }, Origin::Terminal).unwrap();
    until(&mut log, is_end).await;
    end(&sessions).await;
}
