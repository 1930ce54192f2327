//! A session with several front ends.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use serde_json::{Value, json};
use tandem_agent::session::{
    Answer, AnswerError, Event, Origin, Parts, Scope, Session, StopReason, ToolOutcome, TurnId,
};
use tandem_approval::{LoadedRules, PolicySetup, RuleStore, Saved};
use tandem_host::{Access, ToolKind, ToolOutput};
use tandem_model::{Chunk, Error};
use tokio::sync::Barrier;

use test_fakes::{Fake, NoRules, Spy, is_end, other, parts, session, text, until, with_model};

fn call(name: &str, id: &str) -> Value {
    json!({ "call": { "name": name, "id": id } })
}

/// Returns two answers: the first has these calls, and the second ends the turn.
fn calls(calls: &[Value]) -> Value {
    json!([calls, [{ "text": "done" }]])
}

/// Runs a turn and returns its events as short lines. Checks that each call that has started is finished once.
async fn turn(session: &Arc<Session>) -> Vec<String> {
    let mut log = session.events(0);
    session.prompt(text("go"), Origin::Editor);
    let events = until(&mut log, is_end).await;
    whole(&events);
    events.iter().filter_map(|event| short(event)).collect()
}

fn whole(events: &[Arc<Event>]) {
    let finished: Vec<&str> = events
        .iter()
        .filter_map(|event| match &**event {
            Event::CallFinished { call, .. } => Some(call.as_str()),
            _ => None,
        })
        .collect();
    for event in events {
        if let Event::CallStarted(started) = &**event {
            let count = finished.iter().filter(|id| **id == started.call.id).count();
            assert_eq!(count, 1, "{} ends {count} times", started.call.id);
        }
    }
}

fn short(event: &Event) -> Option<String> {
    Some(match event {
        Event::CallStarted(started) if started.question.is_some() => {
            format!("asked {}", started.call.id)
        }
        Event::CallStarted(started) => format!("started {}", started.call.id),
        Event::CallProgress { call, output } => format!("progress {call} {output}"),
        Event::CallFinished { call, outcome } => {
            let outcome = match outcome {
                ToolOutcome::Done(_) => "done",
                ToolOutcome::Failed(error) => error.kind.as_str(),
                ToolOutcome::Rejected => "rejected",
                ToolOutcome::Cancelled => "cancelled",
                ToolOutcome::Interrupted => "interrupted",
                ToolOutcome::Unknown(outcome) => outcome.kind(),
            };
            format!("finished {call} {outcome}")
        }
        Event::TurnStarted { turn: TurnId(turn) } => format!("turn {turn}"),
        Event::TurnFinished { turn: TurnId(turn), reason } => format!("end {turn} {reason:?}"),
        Event::Text(text) => format!("text {text}"),
        _ => return None,
    })
}

#[tokio::test]
async fn the_first_answer_counts_and_the_others_are_told() {
    let session =
        session(calls(&[call("t", "c1")]), vec![Fake::new("t", ToolKind::Other, other())]);
    let mut log = session.events(0);
    session.prompt(text("go"), Origin::Editor);
    until(&mut log, |event| matches!(event, Event::CallStarted(_))).await;
    let once = Answer::Once { edited: None };
    assert_eq!(session.answer("c1", once.clone(), Origin::Editor), Ok(()));
    let late = session.answer("c1", Answer::Reject, Origin::Editor);
    assert_eq!(late, Err(AnswerError::AlreadyAnswered { by: Origin::Editor, answer: once }));
    assert_eq!(session.answer("c9", Answer::Reject, Origin::Editor), Err(AnswerError::NotAsked));
    let events = until(&mut log, is_end).await;
    assert!(events.iter().any(|event| short(event).is_some_and(|it| it == "finished c1 done")));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_many_answers_at_once_exactly_one_wins() {
    let questions: Vec<Value> = (0..200).map(|n| call("t", &format!("c{n}"))).collect();
    let session = session(calls(&questions), vec![Fake::new("t", ToolKind::Other, other())]);
    let mut log = session.events(0);
    session.prompt(text("go"), Origin::Editor);
    for n in 0..200 {
        let asked = format!("asked c{n}");
        until(&mut log, |event| short(event).as_ref() == Some(&asked)).await;
        let answers = (0..8).map(|_| {
            let session = Arc::clone(&session);
            tokio::spawn(async move {
                session.answer(&format!("c{n}"), Answer::Reject, Origin::Editor).is_ok()
            })
        });
        let won = futures::future::join_all(answers).await;
        assert_eq!(won.into_iter().filter(|won| *won.as_ref().unwrap()).count(), 1);
    }
    until(&mut log, is_end).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_turn_that_is_taken_back_does_not_begin() {
    let session = session(json!([[{ "text": "hi" }]]), vec![]);
    let mut log = session.events(0);
    for _ in 0..300 {
        session.prompt(text("go"), Origin::Editor);
        let waiting = session.prompt(text("more"), Origin::Editor);
        let taking = Arc::clone(&session);
        // The first turn ends at about this moment, so `take_back` and the start of the waiting turn race.
        let taken = tokio::spawn(async move { taking.turns().take_back(waiting) }).await.unwrap();
        let is_over =
            |event: &Event| matches!(event, Event::TurnFinished { turn, .. } if *turn == waiting);
        let events = until(&mut log, is_over).await;
        let is_begun = |event: &Arc<Event>| matches!(&**event, Event::TurnStarted { turn } if *turn == waiting);
        assert_eq!(events.iter().any(is_begun), !taken);
        session.turns().idle().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn an_answer_that_counts_is_in_the_log_although_the_turn_is_cancelled_at_that_moment() {
    let session =
        session(calls(&[call("t", "c1")]), vec![Fake::new("t", ToolKind::Other, other())]);
    let mut log = session.events(0);
    let at_once = Arc::new(Barrier::new(2));
    for _ in 0..300 {
        let turn = session.prompt(text("go"), Origin::Editor);
        let is_asked = |event: &Event| matches!(event, Event::CallStarted(_));
        let events = until(&mut log, is_asked).await;
        let Event::CallStarted(started) = &**events.last().unwrap() else { unreachable!() };
        let (id, answering, both) =
            (started.call.id.clone(), Arc::clone(&session), Arc::clone(&at_once));
        let answered = tokio::spawn(async move {
            both.wait().await;
            answering.answer(&id, Answer::Reject, Origin::Editor).is_ok()
        });
        at_once.wait().await;
        session.cancel(turn);
        let counts = answered.await.unwrap();
        let events = until(&mut log, is_end).await;
        let is_answered =
            |event: &Arc<Event>| matches!(&**event, Event::QuestionClosed { answer: Some(_), .. });
        assert_eq!(events.iter().any(is_answered), counts);
        session.turns().idle().await;
    }
}

#[tokio::test]
async fn a_late_reader_sees_the_same_as_an_early_one() {
    let session =
        session(calls(&[call("t", "c1")]), vec![Fake::new("t", ToolKind::Read, Access::Read)]);
    let early = turn(&session).await;
    let late = until(&mut session.events(0), is_end).await;
    assert_eq!(early, late.iter().filter_map(|event| short(event)).collect::<Vec<_>>());
}

#[tokio::test]
async fn prompts_are_answered_one_by_one_in_order() {
    let session = session(json!([[{ "text": "hi" }]]), vec![]);
    let mut log = session.events(0);
    for _ in 0..3 {
        session.prompt(text("go"), Origin::Editor);
    }
    let events =
        until(&mut log, |event| matches!(event, Event::TurnFinished { turn: TurnId(3), .. })).await;
    let short: Vec<_> = events.iter().filter_map(|event| short(event)).collect();
    assert_eq!(
        short,
        [
            "turn 1",
            "text hi",
            "end 1 EndTurn",
            "turn 2",
            "text hi",
            "end 2 EndTurn",
            "turn 3",
            "text hi",
            "end 3 EndTurn"
        ]
    );
}

#[tokio::test]
async fn a_prompt_that_waits_can_be_cancelled_and_never_starts() {
    let session = session(json!([[{ "hang": null }]]), vec![]);
    let mut log = session.events(0);
    let first = session.prompt(text("go"), Origin::Editor);
    let second = session.prompt(text("go"), Origin::Editor);
    assert!(session.cancel(second) && !session.cancel(second));
    assert!(session.cancel(first));
    let events =
        until(&mut log, |event| matches!(event, Event::TurnFinished { turn: TurnId(1), .. })).await;
    let short: Vec<_> = events.iter().filter_map(|event| short(event)).collect();
    assert_eq!(
        short,
        ["turn 1", "end 2 Cancelled { answering: false }", "end 1 Cancelled { answering: true }"]
    );
    assert!(!session.cancel(first), "it has ended");
}

#[tokio::test]
async fn calls_that_only_read_run_together() {
    let both = Arc::new(Barrier::new(2));
    let meet = Fake::new("t", ToolKind::Read, Access::Read).running(move |_| {
        let both = Arc::clone(&both);
        async move {
            both.wait().await;
            Ok(ToolOutput::default())
        }
    });
    let events = turn(&session(calls(&[call("t", "c1"), call("t", "c2")]), vec![meet])).await;
    assert_eq!(events[1..3], ["started c1", "started c2"]);
}

#[tokio::test]
async fn calls_that_change_something_run_one_by_one_in_order() {
    let at_once = Arc::new(AtomicUsize::new(0));
    let alone = Fake::new("t", ToolKind::Edit, Access::Nothing).running(move |_| {
        let at_once = Arc::clone(&at_once);
        async move {
            assert_eq!(at_once.fetch_add(1, Ordering::SeqCst), 0);
            tokio::task::yield_now().await;
            at_once.fetch_sub(1, Ordering::SeqCst);
            Ok(ToolOutput::default())
        }
    });
    let events = turn(&session(calls(&[call("t", "a"), call("t", "b")]), vec![alone])).await;
    let expected = ["started a", "finished a done", "started b", "finished b done"];
    assert_eq!(events[1..5], expected);
}

#[tokio::test]
async fn a_panic_in_a_tool_ends_that_call_only() {
    let panics =
        Fake::new("t", ToolKind::Edit, Access::Nothing).running(|_| async { panic!("oh no") });
    let early = json!({ "call": { "name": "t", "id": "c2", "args": { "panic": true } } });
    let session = session(calls(&[call("t", "c1"), early, call("none", "c3")]), vec![panics]);
    let events = turn(&session).await;
    assert_eq!(
        events,
        [
            "turn 1",
            "started c1",
            "finished c1 internal",
            "started c2",
            "finished c2 internal",
            "started c3",
            "finished c3 tool_not_registered",
            "text done",
            "end 1 EndTurn"
        ]
    );
}

#[tokio::test]
async fn a_panic_in_a_turn_ends_that_turn_only() {
    let (spy, _) = Spy::new(vec![
        vec![Ok(Chunk::Text("panic".to_owned()))],
        vec![Ok(Chunk::Text("fine".to_owned()))],
    ]);
    let session = with_model(spy, vec![]);
    let mut log = session.events(0);
    session.prompt(text("go"), Origin::Editor);
    session.prompt(text("go"), Origin::Editor);
    let events =
        until(&mut log, |event| matches!(event, Event::TurnFinished { turn: TurnId(2), .. })).await;
    let short: Vec<_> = events.iter().filter_map(|event| short(event)).collect();
    assert_eq!(short, ["turn 1", "end 1 Crashed", "turn 2", "text fine", "end 2 EndTurn"]);
}

/// A store that panics when its rules are read, as long as it is broken.
struct BrokenRules(AtomicBool);

impl RuleStore for BrokenRules {
    fn load(&self) -> LoadedRules {
        assert!(!self.0.load(Ordering::Relaxed), "a bug");
        NoRules.load()
    }

    fn save(&self, saved: &Saved) -> Result<PathBuf, String> {
        NoRules.save(saved)
    }

    fn remove(&self, saved: &Saved) -> Result<(), String> {
        NoRules.remove(saved)
    }
}

#[tokio::test]
async fn without_its_rules_a_session_does_nothing_and_says_so() {
    let (spy, told) = Spy::new(vec![vec![Ok(Chunk::Text("fine".to_owned()))]]);
    let store = Arc::new(BrokenRules(AtomicBool::new(true)));
    let policy = PolicySetup::new(Arc::clone(&store) as _);
    let session = Session::new(Parts { policy, ..parts(spy) });
    let mut log = session.events(0);
    session.prompt(text("go"), Origin::Editor);
    let events = until(&mut log, is_end).await;
    let notices: Vec<_> = events
        .iter()
        .filter_map(|event| match &**event {
            Event::Notice(notice) => Some(notice.as_str()),
            _ => None,
        })
        .collect();
    let unread = "The rules for calls could not be read because of a bug in tandem, and nothing runs without them. If \
        a file of rules has changed, take the change back; the next prompt reads the rules again.";
    assert_eq!(notices, [unread]);
    let short_of =
        |events: &[Arc<Event>]| events.iter().filter_map(|event| short(event)).collect::<Vec<_>>();
    assert_eq!(short_of(&events), ["turn 1", "end 1 Crashed"]);
    assert!(told.lock().unwrap().is_empty());
    store.0.store(false, Ordering::Relaxed);
    session.prompt(text("go"), Origin::Editor);
    let events = until(&mut log, is_end).await;
    assert_eq!(short_of(&events), ["turn 2", "text fine", "end 2 EndTurn"]);
}

#[tokio::test]
async fn what_is_allowed_after_the_cancel_does_not_run() {
    let never = Fake::new("t", ToolKind::Other, other()).running(|_| async { panic!("it ran") });
    let session = session(calls(&[call("t", "c1"), call("t", "c2")]), vec![never]);
    let mut log = session.events(0);
    let turn = session.prompt(text("go"), Origin::Editor);
    let asked = until(&mut log, |event| matches!(event, Event::CallStarted(_))).await;
    session.cancel(turn);
    let _ = session.answer("c1", Answer::Once { edited: None }, Origin::Editor);
    let events = until(&mut log, is_end).await;
    whole(&[asked, events.clone()].concat());
    let short: Vec<_> = events.iter().filter_map(|event| short(event)).collect();
    assert_eq!(
        short,
        ["finished c1 cancelled", "finished c2 cancelled", "end 1 Cancelled { answering: false }"]
    );
}

#[tokio::test]
async fn always_is_remembered_in_the_scope_that_was_offered() {
    let session = session(
        calls(&[call("t", ""), call("t", "")]),
        vec![Fake::new("t", ToolKind::Other, other())],
    );
    let mut log = session.events(0);
    session.prompt(text("go"), Origin::Editor);
    until(&mut log, |event| matches!(event, Event::CallStarted(_))).await;
    let broad = Answer::Always(Scope::Tool("another".to_owned()));
    assert_eq!(session.answer("t-1", broad, Origin::Editor), Err(AnswerError::NotOffered));
    let always = Answer::Always(Scope::Tool("t".to_owned()));
    assert_eq!(session.answer("t-1", always, Origin::Editor), Ok(()));
    let events = until(&mut log, is_end).await;
    let short: Vec<_> = events.iter().filter_map(|event| short(event)).collect();
    assert_eq!(short[..3], ["finished t-1 done", "started t-2", "finished t-2 done"]);
}

#[tokio::test]
async fn of_the_live_output_only_the_last_is_kept() {
    let talks = Fake::new("t", ToolKind::Edit, Access::Nothing).running(|cx| async move {
        for n in 0..100 {
            (cx.progress)(format!("{n}"));
        }
        let late = cx.progress;
        tokio::spawn(async move {
            tokio::task::yield_now().await;
            late("too late".to_owned());
        });
        Ok(ToolOutput::default())
    });
    let session = session(calls(&[call("t", "c1")]), vec![talks]);
    let events = turn(&session).await;
    assert!(!events.iter().any(|event| event.starts_with("progress")), "{events:?}");
}

#[tokio::test]
async fn a_call_that_cannot_be_shown_does_not_run() {
    let never =
        Fake::new("t", ToolKind::Edit, Access::Nothing).running(|_| async { panic!("it ran") });
    let session = session(calls(&[call("t", "c1")]), vec![never]);
    let _watching = session.gate().watch(Origin::Editor);
    let mut log = session.events(0);
    session.prompt(text("go"), Origin::Editor);
    until(&mut log, |event| matches!(event, Event::CallStarted(_))).await;
    session.gate().pass("c1", Err("no room".to_owned()));
    let events = until(&mut log, is_end).await;
    assert_eq!(short(&events[0]).unwrap(), "finished c1 not_shown");
}

#[tokio::test(start_paused = true)]
async fn a_front_end_that_says_nothing_holds_up_a_call_for_two_seconds() {
    let session =
        session(calls(&[call("t", "c1")]), vec![Fake::new("t", ToolKind::Edit, Access::Nothing)]);
    let _watching = session.gate().watch(Origin::Editor);
    let before = tokio::time::Instant::now();
    let events = turn(&session).await;
    assert_eq!(events[2], "finished c1 done");
    assert_eq!(before.elapsed().as_secs(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_tool_that_ignores_the_cancel_is_dropped() {
    let deaf = Fake::new("t", ToolKind::Edit, Access::Nothing).running(|_| std::future::pending());
    let session = session(calls(&[call("t", "c1")]), vec![deaf]);
    let mut log = session.events(0);
    let turn = session.prompt(text("go"), Origin::Editor);
    until(&mut log, |event| matches!(event, Event::CallStarted(_))).await;
    session.cancel(turn);
    let events = until(&mut log, is_end).await;
    assert_eq!(short(&events[0]).unwrap(), "finished c1 cancelled");
}

#[tokio::test]
async fn a_closed_session_starts_nothing() {
    let session = session(json!([[{ "hang": null }]]), vec![]);
    let mut log = session.events(0);
    session.prompt(text("go"), Origin::Editor);
    session.prompt(text("go"), Origin::Editor);
    session.close();
    until(&mut log, |event| matches!(event, Event::TurnFinished { turn: TurnId(2), .. })).await;
    session.turns().idle().await;
    assert_eq!(session.turns().running(), None);
}

#[test]
fn events_survive_being_stored() {
    let event = Event::TurnFinished {
        turn: TurnId(1),
        reason: StopReason::Failed(Error::RateLimited("x".into())),
    };
    let stored = serde_json::to_string(&event).unwrap();
    assert_eq!(serde_json::from_str::<Event>(&stored).unwrap(), event);
}
