//! A summary that is written beside the turns, and takes effect once it is ready.

mod given_up;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tandem_agent::session::Upkeep;
use tandem_model::Retry;
use tokio::sync::{Semaphore, watch};
use tokio::time::timeout;

use super::*;
use test_support::limit::HANG;

const WINDOW: u64 = 30_000;

/// A model whose summaries become ready only when the test releases them.
struct Slow {
    says: Arc<Says>,
    go: Arc<Semaphore>,
    /// Number of summaries that are being written.
    written: watch::Sender<usize>,
    /// Number of summaries that were requested.
    asked: Arc<AtomicUsize>,
}

impl Slow {
    /// Returns a model whose answers come from a function of the prompt and of the number of requested summaries.
    fn saying(answer: impl Fn(&Prompt, usize) -> Chunks + Send + Sync + 'static) -> Arc<Self> {
        let asked = Arc::new(AtomicUsize::new(0));
        let so_far = Arc::clone(&asked);
        let says = move |prompt: &Prompt| answer(prompt, so_far.load(Ordering::Relaxed));
        Arc::new(Self {
            says: Says::new(Some(WINDOW), says),
            go: Arc::new(Semaphore::new(0)),
            written: watch::Sender::default(),
            asked,
        })
    }

    /// Returns a model that calls `t` until a summary is requested, then `more` times, and then ends the turn. In
    /// every later turn it only answers.
    fn new(more: usize, summary: impl Fn(&Prompt) -> Chunks + Send + Sync + 'static) -> Arc<Self> {
        let left = AtomicUsize::new(more);
        let is_left = move || {
            left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1))
                .is_ok()
        };
        Self::saying(move |prompt, asked| match prompt {
            _ if is_summary(prompt) => summary(prompt),
            _ if asked == 0 || is_left() => calls("t", json!({ "n": prompt.messages.len() })),
            _ => says("Done."),
        })
    }

    fn session(self: &Arc<Self>) -> Arc<Session> {
        session(Arc::clone(self) as _, 2000)
    }

    fn let_go(&self) {
        self.go.add_permits(1);
    }

    /// Waits until the model writes this number of summaries.
    async fn writes(&self, count: usize) {
        let mut written = self.written.subscribe();
        let writes = written.wait_for(|written| *written == count);
        timeout(HANG, writes).await.expect("as many as before are written").unwrap();
    }

    fn asked(&self) -> usize {
        self.asked.load(Ordering::Relaxed)
    }

    /// Returns the prompts of the turns.
    fn told(&self) -> Vec<Prompt> {
        let told = self.says.told.lock().unwrap();
        let turns = told.iter().filter(|prompt| !is_summary(prompt));
        turns.cloned().collect()
    }

    /// Returns the last prompt of a turn, as text.
    fn last(&self) -> String {
        all_text(self.told().last().unwrap())
    }
}

/// A summary counts as being written until this value is dropped.
struct Written(watch::Sender<usize>);

impl Drop for Written {
    fn drop(&mut self) {
        self.0.send_modify(|written| *written -= 1);
    }
}

impl Model for Slow {
    fn id(&self) -> &'static str {
        "slow"
    }

    fn ready(&self) -> Result<(), Error> {
        Ok(())
    }

    fn input_limit(&self) -> Option<u64> {
        Some(WINDOW)
    }

    fn stream(&self, prompt: Prompt) -> BoxStream<'static, Result<Chunk, Error>> {
        if !is_summary(&prompt) {
            return self.says.stream(prompt);
        }
        self.asked.fetch_add(1, Ordering::Relaxed);
        self.written.send_modify(|written| *written += 1);
        let (go, written) = (Arc::clone(&self.go), Written(self.written.clone()));
        let answer = self.says.stream(prompt);
        let gone = async move { go.acquire_owned().await.unwrap().forget() };
        let answer = stream::once(gone).flat_map(|()| stream::empty()).chain(answer);
        answer
            .inspect(move |_| {
                let _until_it_ends = &written;
            })
            .boxed()
    }
}

/// Returns a model that calls `t` until a summary is requested. After that it refuses the prompts for which
/// `refuses` returns `true`.
fn refusing(
    refuses: impl Fn(&Prompt) -> bool + Send + Sync + 'static,
    summary: impl Fn(&Prompt) -> Chunks + Send + Sync + 'static,
) -> Arc<Slow> {
    Slow::saying(move |prompt, asked| match prompt {
        _ if is_summary(prompt) => summary(prompt),
        _ if asked == 0 => calls("t", json!({ "n": prompt.messages.len() })),
        _ if refuses(prompt) => vec![Err(Error::Refused("no".to_owned()))],
        _ => says("Done."),
    })
}

/// Returns the index of an event.
#[track_caller]
fn at(events: &[Arc<Event>], found: impl Fn(&Event) -> bool) -> usize {
    events.iter().position(|event| found(event)).unwrap_or_else(|| panic!("{events:#?}"))
}

fn is_compressed(event: &Event) -> bool {
    matches!(event, Event::Compressed(_))
}

fn is_answer(event: &Event) -> bool {
    matches!(event, Event::AnswerFinished { .. })
}

/// Runs a turn in which a summary begins, and which ends before the summary is ready.
async fn begun(model: &Slow, session: &Arc<Session>) {
    let events = turn(session, "The first.").await;
    assert_eq!(reason(&events), StopReason::EndTurn);
    assert_eq!((events.iter().filter(|it| is_begun(it)).count(), model.asked()), (1, 1));
    assert!(compressions(&events).is_empty());
    model.writes(1).await;
}

#[tokio::test]
async fn the_turn_goes_on_and_what_comes_meanwhile_stays_as_it_is() {
    let model = Slow::new(3, |_| snapshot("It goes well."));
    let session = model.session();
    begun(&model, &session).await;
    let before = model.told().last().unwrap().messages.clone();
    assert_eq!(results_in(model.told().last().unwrap()).first(), Some(&1));
    model.let_go();
    model.writes(0).await;
    let events = turn(&session, "The second.").await;
    assert!(at(&events, is_compressed) < at(&events, is_answer));
    assert!(!events.iter().any(|event| is_begun(event)));
    let after = model.told().last().unwrap().messages.clone();
    let told = model.last();
    assert_eq!(Beginning::of(model.told().last().unwrap()).snapshot, "It goes well.");
    assert!(!results_in(model.told().last().unwrap()).contains(&1));
    for said in ["The first.", "The second."] {
        assert_eq!(told.matches(said).count(), 1, "{told}");
    }
    // The last two messages are the answer to the first turn and the second prompt. Before them, the compression has
    // kept the newest messages of the first turn, which are the same objects as before.
    let pairs = before.iter().rev().zip(after.iter().rev().skip(2));
    let kept = pairs.take_while(|(before, after)| Arc::ptr_eq(before, after)).count();
    assert!(kept > 2 * 3, "{kept}");
    // Before the kept messages come the snapshot's messages, and the prompt again if the kept messages begin in the
    // middle of a turn.
    assert!(matches!(after.len() - kept - 2, 2 | 3), "{kept} of {}", after.len());
    assert!((1..session.position()).contains(&compressions(&events)[0].from));
    assert_eq!(model.asked(), 1);
}

#[tokio::test]
async fn it_takes_effect_before_the_next_request_of_the_same_turn_when_it_is_there() {
    let model = Slow::new(5, |_| snapshot("It goes well."));
    let session = model.session();
    let mut log = session.events(0);
    session.prompt(text("The first."), Origin::Editor);
    let mut events = until(&mut log, is_begun).await;
    for _ in 0..3 {
        events.extend(until(&mut log, is_answer).await);
    }
    assert!(compressions(&events).is_empty());
    model.let_go();
    model.writes(0).await;
    let rest = until(&mut log, is_end).await;
    assert_eq!((compressions(&rest).len(), reason(&rest)), (1, StopReason::EndTurn));
    assert!(rest[..at(&rest, is_compressed)].iter().filter(|it| is_answer(it)).count() <= 1);
    let told = model.told();
    let short = told.iter().position(|told| all_text(told).contains("It goes well.")).unwrap();
    assert!(told[short].messages.len() < told[short - 1].messages.len());
    assert_eq!(user(&told[short].messages[2]), "The first.", "in the middle of its turn");
}

#[tokio::test]
async fn a_conversation_that_nearly_fills_the_window_waits_and_a_cancelled_turn_does_not_end_it() {
    let model = Slow::new(1000, |_| snapshot("It goes well."));
    let session = model.session();
    let mut log = session.events(0);
    let id = session.prompt(text("The first."), Origin::Editor);
    until(&mut log, |event| {
        *event == Event::Notice("Waiting for the summary of the conversation".to_owned())
    })
    .await;
    let told = model.told();
    let size = tokens::of_prompt(told.last().unwrap());
    assert!((WINDOW * 2 / 3..WINDOW * 4 / 5).contains(&size), "{size}");
    assert!(session.cancel(id));
    let events = until(&mut log, is_end).await;
    assert!(matches!(reason(&events), StopReason::Cancelled { .. }));
    assert_eq!(model.told().len(), told.len());
    model.writes(1).await;
    let id = session.prompt(text("The second."), Origin::Editor);
    until(&mut log, |event| matches!(event, Event::Notice(it) if it.starts_with("Waiting"))).await;
    model.let_go();
    let events = until(&mut log, is_answer).await;
    assert_eq!((compressions(&events).len(), model.asked()), (1, 1));
    assert_eq!(Beginning::of(model.told().last().unwrap()).snapshot, "It goes well.");
    session.cancel(id);
}

#[tokio::test]
async fn what_the_model_will_not_take_waits_for_the_summary_that_is_under_way() {
    let full = Arc::new(AtomicUsize::new(0));
    let is_full = Arc::clone(&full);
    let model = Slow::saying(move |prompt, asked| match prompt {
        _ if is_summary(prompt) => snapshot("Short."),
        _ if asked == 0 => calls("t", json!({ "n": prompt.messages.len() })),
        _ if all_text(prompt).contains("Short.") => says("Done."),
        _ => {
            is_full.fetch_add(1, Ordering::Relaxed);
            vec![Err(Error::ContextTooLong("too long".to_owned()))]
        }
    });
    let session = model.session();
    let mut log = session.events(0);
    session.prompt(text("The first."), Origin::Editor);
    until(&mut log, |event| matches!(event, Event::Notice(it) if it.starts_with("Waiting"))).await;
    model.let_go();
    let events = until(&mut log, is_end).await;
    assert_eq!((compressions(&events).len(), reason(&events)), (1, StopReason::EndTurn));
    assert_eq!((model.asked(), full.load(Ordering::Relaxed)), (1, 1));
}

#[tokio::test]
async fn that_it_failed_is_said_when_it_would_have_been_used() {
    let model = Slow::new(3, |_| vec![Err(Error::Unavailable("gone".to_owned()))]);
    let session = model.session();
    begun(&model, &session).await;
    model.let_go();
    model.writes(0).await;
    let why = "The conversation could not be compressed: gone";
    let events = turn(&session, "The second.").await;
    assert!(at(&events, |it| *it == Event::Notice(why.to_owned())) < at(&events, is_answer));
    assert_eq!(reason(&events), StopReason::EndTurn);
    let events = turn(&session, "The third.").await;
    assert!(notices(&events).is_empty(), "{events:?}");
    assert_eq!(model.asked(), 1, "not again until the conversation has grown");
    assert_eq!(results_in(model.told().last().unwrap()).first(), Some(&1));
}

#[tokio::test]
async fn a_fault_in_the_background_is_a_failure_like_another() {
    let model = Slow::new(3, |_| panic!("asked to panic"));
    let session = model.session();
    let events = turn(&session, "The first.").await;
    assert_eq!(reason(&events), StopReason::EndTurn);
    let why = "The conversation could not be compressed: a bug in tandem; the log (`--log-file`) says more";
    assert_eq!(notices(&events), [why]);
}

#[tokio::test]
async fn of_what_nobody_waits_for_nobody_is_told_that_it_takes_long() {
    let model = Slow::new(3, |_| {
        let (delay, reason) = (Duration::ZERO, "rate limited".to_owned());
        let retry = Chunk::Retry(Retry { reason, delay, attempt: 2, of: 10, discard: true });
        let mut answer = says("half of");
        answer.push(Ok(retry));
        answer.extend(says("Whole."));
        answer
    });
    let session = model.session();
    begun(&model, &session).await;
    let position = session.position();
    model.let_go();
    model.writes(0).await;
    assert_eq!(session.position(), position);
    let events = turn(&session, "The second.").await;
    assert_eq!(compressions(&events)[0].snapshot, "Whole.");
}

#[tokio::test]
async fn results_stay_as_they_are_while_a_summary_of_them_is_written() {
    let model = Slow::new(4, |_| snapshot("It goes well."));
    let upkeep = Upkeep { compress_at: 0.2, ..Upkeep::default() };
    let session = session_in(Arc::clone(&model) as _, 8000, |parts| Parts { upkeep, ..parts });
    let events = turn(&session, "The first.").await;
    assert!(!events.iter().any(|event| matches!(&**event, Event::Masked(_))), "{events:?}");
    assert!(compressions(&events).is_empty() && notices(&events).is_empty(), "{events:?}");
    model.let_go();
    model.writes(0).await;
    assert_eq!(compressions(&turn(&session, "The second.").await).len(), 1);
}
