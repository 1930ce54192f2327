//! Stored sessions: the times at which events are stored, and sessions that go on after a restart.

mod checkpoints;
mod going_on;
mod refused;
mod resumed;
mod taken_over;

use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::json;
use tandem_agent::session::{
    Batch, Event, Holder, Listed, Origin, Parts, PromptTags, Query, ResumePolicy, Session,
    StopReason, Store, StoreError, ToolOutcome, TurnId, read_stored,
};
use tandem_agent::sessions::{
    Leased, LoadError, LoadedSession, SessionLimits, SessionRequest, Sessions,
};
use tandem_host::{Access, Tool, ToolKind, ToolOutput};
use tandem_model::replay::Replay;
use tandem_model::{Call, Chunk, Error};
use tandem_store::FileStore;
use tokio::sync::watch;
use tokio::time::timeout;

use test_fakes::store::{Faulty, ends_everything, stored};
use test_fakes::{Fake, Spy, host, is_end, next, parts, text, until};

const LONG: Duration = Duration::from_secs(20);

/// A directory with a store.
struct Place {
    dir: tempfile::TempDir,
}

impl Place {
    fn new() -> Self {
        Self { dir: tempfile::tempdir().unwrap() }
    }

    fn store(&self) -> Arc<FileStore> {
        Arc::new(FileStore::new(self.dir.path().to_owned()))
    }

    fn log(&self, id: &str) -> PathBuf {
        self.dir.path().join(id).join("log.jsonl")
    }
}

type Answers = Vec<Vec<Result<Chunk, Error>>>;

fn says(words: &str) -> Vec<Result<Chunk, Error>> {
    vec![Ok(Chunk::Text(words.to_owned()))]
}

fn calls(ids: &[&str]) -> Vec<Result<Chunk, Error>> {
    let call = |id: &&str| {
        let (name, id) = ("look".to_owned(), (*id).to_owned());
        Ok(Chunk::Call(Call { id, name, args: json!({}) }))
    };
    let mut chunks = says("looking");
    chunks.extend(ids.iter().map(call));
    chunks
}

/// Returns a registry whose sessions are stored in `store` and work in one directory, and the list of messages that
/// the model is told.
fn registry(
    store: Arc<dyn Store>,
    answers: Answers,
    tools: Vec<Fake>,
) -> (Arc<Sessions>, Arc<Mutex<Vec<String>>>) {
    registry_in(Arc::new(tempfile::tempdir().unwrap()), store, answers, tools)
}

/// Returns a registry as [`registry`] does, whose sessions work in a directory that other sessions use, too.
fn registry_in(
    project: Arc<tempfile::TempDir>,
    store: Arc<dyn Store>,
    answers: Answers,
    tools: Vec<Fake>,
) -> (Arc<Sessions>, Arc<Mutex<Vec<String>>>) {
    let (model, told) = Spy::new(answers);
    let make = move |_: &SessionRequest, storage| {
        let tool = |fake: &Fake| -> Arc<dyn Tool> { Arc::new(fake.clone()) };
        let tools = tools.iter().map(tool).collect();
        let host = host(project.path());
        Ok(Session::new(Parts { tools, storage, host, ..parts(Arc::clone(&model) as _) }))
    };
    let limits = SessionLimits { loaded: 9, idle: None, log_bytes: 1 << 20 };
    (Sessions::with_store(Arc::new(make), limits, Some(store)), told)
}

fn look() -> Fake {
    Fake::new("look", ToolKind::Read, Access::Nothing)
}

fn create(sessions: &Sessions) -> Leased<LoadedSession> {
    sessions.create(&SessionRequest::default(), |_| ()).unwrap()
}

async fn load(sessions: &Sessions, id: &str) -> Leased<LoadedSession> {
    sessions.load(id, Vec::new(), |_| ()).await.unwrap().unwrap()
}

/// Sends a prompt, and waits for the end of its turn.
async fn ask(loaded: &LoadedSession, prompt: &str) {
    let session = loaded.session();
    let mut log = session.events(session.position());
    session.prompt(text(prompt), Origin::Terminal);
    until(&mut log, is_end).await;
}

/// Ends all sessions, as the program does at its end.
async fn end(sessions: &Sessions) {
    sessions.close("the test is over");
    timeout(LONG, sessions.wait_all_stored()).await.unwrap();
}

/// Returns the events of a session, with their indexes.
fn events(session: &Session) -> Vec<(usize, Event)> {
    let mut log = session.events(0);
    let entries = std::iter::from_fn(|| log.try_next_entry());
    entries.map(|entry| (entry.index, (*entry.event).clone())).collect()
}

#[tokio::test]
async fn all_of_a_session_is_stored_when_its_end_is_shown() {
    let place = Place::new();
    let answers = vec![calls(&["a", "b"]), says("done"), says("again")];
    let (sessions, _) = registry(place.store(), answers, vec![look()]);
    let loaded = create(&sessions);
    for prompt in ["one", "two"] {
        ask(&loaded, prompt).await;
        assert_eq!(stored(&*place.store(), loaded.id()).await, events(loaded.session()));
    }
    let listed = place.store().list(&Query::default()).await.unwrap();
    assert_eq!(listed.len(), 1);
    assert_eq!((&*listed[0].title, listed[0].turns), ("one", 2));
    assert_eq!(&listed[0].head.directory, &loaded.session().roots()[0]);
    end(&sessions).await;
}

#[tokio::test]
async fn a_session_without_a_prompt_leaves_nothing() {
    let place = Place::new();
    let (sessions, _) = registry(place.store(), Vec::new(), Vec::new());
    let loaded = create(&sessions);
    loaded.session().modes().set(tandem_approval::Mode::Plan).unwrap();
    end(&sessions).await;
    assert_eq!(fs::read_dir(place.dir.path()).unwrap().count(), 0);
}

/// Returns the messages of the last request in a conversation of two prompts, without the notice of a restart.
/// `restarts`: a restart comes between the prompts.
async fn told_at_the_end(restarts: bool) -> Vec<String> {
    let (place, project) = (Place::new(), Arc::new(tempfile::tempdir().unwrap()));
    let before = vec![calls(&["a", "b"]), says("done")];
    if restarts {
        let (sessions, _) = registry_in(Arc::clone(&project), place.store(), before, vec![look()]);
        let loaded = create(&sessions);
        let id = loaded.id().to_owned();
        ask(&loaded, "one").await;
        end(&sessions).await;
        drop(loaded);
        let again = vec![says("again")];
        let (sessions, told) = registry_in(project, place.store(), again, vec![look()]);
        let loaded = load(&sessions, &id).await;
        ask(&loaded, "two").await;
        end(&sessions).await;
        return told.lock().unwrap().clone();
    }
    let all = before.into_iter().chain([says("again")]).collect();
    let (sessions, told) = registry(place.store(), all, vec![look()]);
    let loaded = create(&sessions);
    ask(&loaded, "one").await;
    ask(&loaded, "two").await;
    end(&sessions).await;
    told.lock().unwrap().clone()
}

#[tokio::test]
async fn after_a_restart_the_model_is_told_what_it_would_have_been_told() {
    let stayed = told_at_the_end(false).await;
    assert_eq!(stayed.len(), 5);
    assert_eq!(told_at_the_end(true).await, stayed);
}

#[tokio::test]
async fn wherever_a_log_was_cut_the_session_opens_with_an_end_for_everything_and_goes_on() {
    let place = Place::new();
    let answers = vec![calls(&["a", "b"]), says("done"), calls(&["c"]), says("done")];
    let (sessions, _) = registry(place.store(), answers, vec![look()]);
    let loaded = create(&sessions);
    ask(&loaded, "one").await;
    ask(&loaded, "two").await;
    let id = loaded.id().to_owned();
    let whole = events(loaded.session());
    end(&sessions).await;
    let log = fs::read(place.log(&id)).unwrap();
    let head = log.iter().position(|byte| *byte == b'\n').unwrap() + 1;
    // The log is cut after each line, and at each 61st byte, which is in the middle of a line.
    let is_cut = |cut: &usize| log[cut - 1] == b'\n' || cut.is_multiple_of(61);
    for cut in (head..=log.len()).filter(is_cut) {
        let place = Place::new();
        fs::create_dir(place.dir.path().join(&id)).unwrap();
        fs::write(place.log(&id), &log[..cut]).unwrap();
        let (sessions, told) = registry(place.store(), vec![says("on")], vec![look()]);
        let loaded = load(&sessions, &id).await;
        let session = loaded.session();
        let opened = events(session);
        let same = opened.iter().zip(&whole).take_while(|(opened, whole)| opened == whole).count();
        assert_eq!(session.turns().running(), None);
        ends_everything(&opened);
        // Opening has added only the ends of calls and turns that were cut off, and notices about them.
        for (_, event) in &opened[same..] {
            let is_end = matches!(
                event,
                Event::CallFinished { outcome: ToolOutcome::Interrupted, .. }
                    | Event::TurnFinished { reason: StopReason::Interrupted, .. }
                    | Event::Notice(_)
                    | Event::SessionStarted(_)
            );
            assert!(is_end, "{event:?} after a cut at {cut}");
        }
        ask(&loaded, "on?").await;
        let told = told.lock().unwrap().clone();
        // A message with calls is followed at once by the message with their results.
        for (n, message) in told.iter().enumerate() {
            let has_calls = message.starts_with("assistant") && !message.ends_with("[]");
            let has_results = told.get(n + 1).is_some_and(|next| next.starts_with("results"));
            assert_eq!(has_calls, has_results, "{told:#?}");
        }
        end(&sessions).await;
        ends_everything(&events(session));
    }
}

#[tokio::test]
async fn an_unloaded_session_is_loaded_when_somebody_asks() {
    let place = Place::new();
    let (sessions, told) = registry(place.store(), vec![says("one"), says("two")], Vec::new());
    // `mine/..` is a name that a client has chosen for the session.
    let (loaded, _) =
        sessions.open_or_create("mine/..", &SessionRequest::default(), |_| ()).unwrap();
    ask(&loaded, "first").await;
    drop(loaded);
    assert!(sessions.delete("mine/.."));
    assert!(sessions.open("mine/..").is_none());
    let again = load(&sessions, "mine/..").await;
    // The log does not have the client's name for the session, so the loaded session has only its own id.
    assert_eq!(again.id(), again.session().id());
    ask(&again, "second").await;
    assert_eq!(told.lock().unwrap().len(), 3);
    assert!(sessions.load("other", Vec::new(), |_| ()).await.unwrap().is_none());
    end(&sessions).await;
}

#[tokio::test]
async fn a_stored_session_is_read_without_a_trace() {
    let place = Place::new();
    let (sessions, _) = registry(place.store(), vec![says("one")], Vec::new());
    let loaded = create(&sessions);
    ask(&loaded, "first").await;
    let id = loaded.id().to_owned();
    end(&sessions).await;
    let mut lease = place.store().acquire(&id).await.unwrap();
    let (prompt, tags) = (text("second"), PromptTags::default());
    let begun = Event::TurnQueued { turn: TurnId(2), prompt, origin: Origin::Terminal, tags };
    let (first, events) = (lease.next(), vec![(1, Arc::new(begun))]);
    lease.append(vec![Batch { first, events, summary: None }]).await.unwrap();
    drop(lease);
    // The last line of the log is cut off.
    let log = fs::read_to_string(place.log(&id)).unwrap() + "{\"i\"";
    fs::write(place.log(&id), &log).unwrap();
    let ends = async || {
        let log = read_stored(&*place.store(), &id, 1 << 20, ResumePolicy::Never).await.unwrap();
        let mut events = log.read(0);
        std::iter::from_fn(|| events.try_next()).filter(|event| is_end(event)).count()
    };
    // No process has the session open, so reading adds an end for turn 2. While a process holds the lease, no end is
    // added.
    assert_eq!(ends().await, 2);
    assert_eq!(fs::read_to_string(place.log(&id)).unwrap(), log);
    assert_eq!(fs::read_dir(place.dir.path().join(&id)).unwrap().count(), 1);
    let _lease = place.store().acquire(&id).await.unwrap();
    assert_eq!(ends().await, 1);
}

/// Stores a session with this many events, of which each has 300 bytes; returns its id.
async fn store_long(place: &Place, count: usize) -> String {
    let (sessions, _) = registry(place.store(), vec![says("one")], Vec::new());
    let loaded = create(&sessions);
    ask(&loaded, "first").await;
    let id = loaded.id().to_owned();
    end(&sessions).await;
    let mut lease = place.store().acquire(&id).await.unwrap();
    for first in (lease.next()..count).step_by(500) {
        let chunks = (0..499).map(|n| Event::Text(format!("{n} {}", "words ".repeat(48))));
        let events = chunks.chain([Event::Forgotten]);
        let events = events.map(|event| (1, Arc::new(event))).collect();
        lease.append(vec![Batch { first, events, summary: None }]).await.unwrap();
    }
    id
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_log_that_is_not_whole_takes_the_place_of_no_other() {
    let place = Place::new();
    let id = store_long(&place, 10_000).await;
    let (sessions, _) = registry(place.store(), vec![says("two")], Vec::new());
    let loaded = load(&sessions, &id).await;
    // The spill file has the oldest events, and was deleted when it was made. The test finds the file among the open
    // descriptors.
    let files = fs::read_dir("/proc/self/fd").unwrap().flatten().map(|entry| entry.path());
    let is_nameless = |file: &PathBuf| {
        fs::read_link(file).is_ok_and(|to| {
            to.starts_with(place.dir.path()) && to.to_string_lossy().ends_with("(deleted)")
        })
    };
    let nameless: Vec<_> = files.filter(is_nameless).collect();
    assert_eq!(nameless.len(), 1);
    fs::File::options().write(true).open(&nameless[0]).unwrap().set_len(0).unwrap();
    fs::remove_file(place.log(&id)).unwrap();
    ask(&loaded, "second").await;
    end(&sessions).await;
    assert!(!place.log(&id).exists());
    let mut log = loaded.session().events(loaded.session().position().saturating_sub(20));
    let said = std::iter::from_fn(|| log.try_next()).any(|event| {
        matches!(&*event, Event::Notice(why) if why.contains("cannot be read from the disk"))
    });
    assert!(said);
}

#[tokio::test]
async fn while_a_long_session_is_loaded_everything_else_goes_on() {
    let place = Place::new();
    let id = store_long(&place, 20_000).await;
    let (sessions, _) = registry(place.store(), vec![says("two")], Vec::new());
    let longest = watch::Sender::new(Duration::ZERO);
    let measured = longest.clone();
    let others = tokio::spawn(async move {
        let mut last = std::time::Instant::now();
        loop {
            tokio::task::yield_now().await;
            let gap = last.elapsed();
            measured.send_modify(|longest| *longest = gap.max(*longest));
            last = std::time::Instant::now();
        }
    });
    let begun = std::time::Instant::now();
    let loaded = load(&sessions, &id).await;
    ask(&loaded, "second").await;
    let all = begun.elapsed();
    others.abort();
    assert!(*longest.borrow() < all / 3, "{longest:?} of {all:?}");
    end(&sessions).await;
}

#[tokio::test]
async fn a_session_that_another_process_has_open_is_refused_with_its_owner() {
    let place = Place::new();
    let (first, _) = registry(place.store(), vec![says("one")], Vec::new());
    let loaded = create(&first);
    ask(&loaded, "first").await;
    let (second, _) = registry(place.store(), Vec::new(), Vec::new());
    let refused = second.load(loaded.id(), Vec::new(), |_| ()).await.err();
    let Some(LoadError::Store(StoreError::Held(_, holder))) = refused else {
        panic!("{refused:?}")
    };
    assert_eq!(holder, Holder { pid: std::process::id(), ..Holder::default() });
    end(&first).await;
    load(&second, loaded.id()).await;
}

#[tokio::test]
async fn a_chunk_is_shown_though_nothing_follows_it() {
    let place = Place::new();
    let script = json!({ "when": "", "answers": [[{ "text": "begun" }, { "hang": null }]] });
    let model = Arc::new(Replay::from_script(&script.to_string()).unwrap());
    let make = move |_: &SessionRequest, storage| {
        Ok(Session::new(Parts { storage, ..parts(Arc::clone(&model) as _) }))
    };
    let limits = SessionLimits { loaded: 99, idle: None, log_bytes: 1 << 20 };
    let sessions = Sessions::with_store(Arc::new(make), limits, Some(place.store()));
    for _ in 0..30 {
        let loaded = create(&sessions);
        let mut log = loaded.session().events(0);
        loaded.session().prompt(text("go"), Origin::Terminal);
        let is_chunk = |event: &Event| matches!(event, Event::Text(_));
        until(&mut log, is_chunk).await;
    }
    end(&sessions).await;
}

#[tokio::test]
async fn nothing_is_shown_and_no_tool_runs_before_that_is_kept() {
    let place = Place::new();
    let store = Faulty::new(place.store());
    let ran = Arc::new(AtomicUsize::new(0));
    let runs = Arc::clone(&ran);
    let tool = Fake::new("look", ToolKind::Edit, Access::Nothing).running(move |_| {
        runs.fetch_add(1, Ordering::SeqCst);
        async { Ok(ToolOutput::new("ran", "ran")) }
    });
    let answers = vec![says("one"), calls(&["a"]), says("done")];
    let (sessions, _) = registry(Arc::clone(&store) as _, answers, vec![tool]);
    let loaded = create(&sessions);
    ask(&loaded, "first").await;
    let shown = events(loaded.session()).len();
    store.goes_on.send_replace(false);
    let mut log = loaded.session().events(shown);
    loaded.session().prompt(text("second"), Origin::Terminal);
    // The turn must stop before the tool call runs, because the store takes no events. The loop gives the turn time
    // for a wrong step.
    for _ in 0..1000 {
        tokio::task::yield_now().await;
    }
    let position = loaded.session().position();
    let seen = (position, events(loaded.session()).len(), ran.load(Ordering::SeqCst));
    assert_eq!(seen, (shown, shown, 0));
    assert_eq!(loaded.session().turns().running(), Some(TurnId(2)));
    store.goes_on.send_replace(true);
    until(&mut log, is_end).await;
    assert_eq!(ran.load(Ordering::SeqCst), 1);
    end(&sessions).await;
}

/// Returns the number of notices to people.
fn notices(session: &Session) -> usize {
    let is_notice = |(_, event): &(usize, Event)| matches!(event, Event::Notice(_));
    events(session).into_iter().filter(is_notice).count()
}

#[tokio::test(start_paused = true)]
async fn a_store_that_refuses_a_new_session_is_said_once_and_tried_again() {
    let place = Place::new();
    let store = Faulty::new(place.store());
    store.fails.store(true, Ordering::SeqCst);
    let answers = vec![says("one"), says("two"), says("three")];
    let (sessions, _) = registry(Arc::clone(&store) as _, answers, Vec::new());
    let loaded = create(&sessions);
    ask(&loaded, "first").await;
    tokio::time::sleep(Duration::from_secs(25)).await;
    ask(&loaded, "second").await;
    assert_eq!(notices(loaded.session()), 1);
    store.fails.store(false, Ordering::SeqCst);
    tokio::time::sleep(Duration::from_secs(11)).await;
    ask(&loaded, "third").await;
    assert_eq!(notices(loaded.session()), 2);
    assert_eq!(stored(&*place.store(), loaded.id()).await, events(loaded.session()));
    end(&sessions).await;
}

#[tokio::test(start_paused = true)]
async fn a_store_that_refuses_is_said_once_and_tried_again() {
    let place = Place::new();
    let store = Faulty::new(place.store());
    let answers = vec![says("one"), says("two"), says("three"), says("four")];
    let (sessions, _) = registry(Arc::clone(&store) as _, answers, Vec::new());
    let loaded = create(&sessions);
    ask(&loaded, "first").await;
    store.fails.store(true, Ordering::SeqCst);
    ask(&loaded, "second").await;
    ask(&loaded, "third").await;
    assert_eq!(notices(loaded.session()), 1);
    store.fails.store(false, Ordering::SeqCst);
    tokio::time::sleep(Duration::from_secs(11)).await;
    ask(&loaded, "fourth").await;
    assert_eq!(notices(loaded.session()), 2);
    assert_eq!(stored(&*place.store(), loaded.id()).await, events(loaded.session()));
    end(&sessions).await;
}

#[tokio::test(start_paused = true)]
async fn a_log_of_which_a_part_is_lost_is_saved_anew_and_whole() {
    let place = Place::new();
    let store = Faulty::new(place.store());
    let answers = vec![calls(&["a"]), says("one"), says("two"), says("three"), says("four")];
    let (sessions, _) = registry(Arc::clone(&store) as _, answers, vec![look()]);
    let loaded = create(&sessions);
    let mut log = loaded.session().events(0);
    let is_notice = |event: &Event| matches!(event, Event::Notice(_));
    let mut next_notice = async || until(&mut log, is_notice).await;
    ask(&loaded, "first").await;
    store.loses.store(true, Ordering::SeqCst);
    ask(&loaded, "second").await;
    next_notice().await;
    assert_eq!(stored(&*place.store(), loaded.id()).await, events(loaded.session()));
    // A second loss so soon after the first does not make the session write the whole log anew.
    store.loses.store(true, Ordering::SeqCst);
    ask(&loaded, "third").await;
    next_notice().await;
    ask(&loaded, "fourth").await;
    let others = stored(&*place.store(), loaded.id()).await.len();
    assert!(others < events(loaded.session()).len());
    tokio::time::sleep(Duration::from_secs(11)).await;
    ask(&loaded, "/rename another").await;
    next_notice().await;
    assert_eq!(notices(loaded.session()), 3);
    assert_eq!(stored(&*place.store(), loaded.id()).await, events(loaded.session()));
    let listed = place.store().list(&Query::default()).await.unwrap().remove(0);
    assert_eq!((&*listed.title, listed.turns), ("another", 5));
    end(&sessions).await;
    assert_eq!(stored(&*place.store(), loaded.id()).await, events(loaded.session()));
    ends_everything(&events(loaded.session()));
}

/// Runs a turn whose model says a word every `gap` milliseconds. Returns the times in milliseconds at which the
/// words were shown.
async fn shown_at(gap: u64, words: usize) -> Vec<u128> {
    let place = Place::new();
    let step = [json!({ "delay": gap }), json!({ "text": "word " })];
    let answer: Vec<_> = std::iter::repeat_n(step, words).flatten().collect();
    let script = json!({ "when": "", "answers": [answer] }).to_string();
    let make = move |_: &SessionRequest, storage| {
        let model = Arc::new(Replay::from_script(&script).unwrap());
        Ok(Session::new(Parts { storage, ..parts(model) }))
    };
    let limits = SessionLimits { loaded: 9, idle: None, log_bytes: 1 << 20 };
    let sessions = Sessions::with_store(Arc::new(make), limits, Some(place.store()));
    let loaded = create(&sessions);
    // The first prompt makes the session's file. Only the time of the second turn is measured.
    ask(&loaded, "first").await;
    let mut log = loaded.session().events(loaded.session().position());
    loaded.session().prompt(text("second"), Origin::Terminal);
    let begins =
        |event: &Event| matches!(event, Event::SystemPrompt(_) | Event::TurnStarted { .. });
    until(&mut log, begins).await;
    let begun = tokio::time::Instant::now();
    let mut shown = Vec::new();
    while shown.len() < words {
        if matches!(&*next(&mut log).await, Event::Text(_)) {
            shown.push(begun.elapsed().as_millis());
        }
    }
    end(&sessions).await;
    shown
}

#[tokio::test(start_paused = true)]
async fn the_chunks_of_a_slow_model_are_shown_as_they_come() {
    let shown = shown_at(20, 20).await;
    // The test allows one gap of delay, because timers fire at whole milliseconds.
    let late = shown.iter().zip(1..).map(|(at, n)| at - n * 20).max().unwrap();
    assert!(late <= 20, "{shown:?}");
    let gaps: Vec<_> = shown.windows(2).map(|two| two[1] - two[0]).collect();
    assert!(gaps.iter().all(|gap| (19..=22).contains(gap)), "{gaps:?}");
}

#[tokio::test(start_paused = true)]
async fn the_chunks_of_a_fast_model_are_shown_several_at_once_and_soon() {
    let shown = shown_at(2, 100).await;
    let times: std::collections::BTreeSet<_> = shown.iter().copied().collect();
    assert!(times.len() < 50, "{shown:?}");
    let gaps = shown.windows(2).map(|two| two[1] - two[0]);
    assert!(gaps.max().unwrap() <= 14, "{shown:?}");
}
