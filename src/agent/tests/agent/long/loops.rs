//! Models that repeat themselves.

use expect_test::expect;
use tandem_agent::session::{Answer, Scope, ToolOutcome, Upkeep};

use super::*;

/// Returns a model that makes the same call again and again, until it was told to stop `stops_when_told` times, and
/// its session. `result`: text of the call's n-th result.
fn stubborn(
    stops_when_told: usize,
    result: impl Fn(usize) -> String + Send + Sync + 'static,
) -> (Arc<Says>, Arc<Session>) {
    let model = Says::new(None, move |prompt| {
        let told = all_text(prompt).matches(TOLD).count();
        if told >= stops_when_told { says("I see.") } else { calls("look", json!({ "at": "it" })) }
    });
    let count = Mutex::new(0);
    let look = Fake::new("look", ToolKind::Read, Access::Read).running(move |_| {
        let mut count = count.lock().unwrap();
        *count += 1;
        let text = result(*count);
        async move { Ok(ToolOutput::new(text, "")) }
    });
    let session =
        Session::new(Parts { tools: vec![Arc::new(look)], ..parts(Arc::clone(&model) as _) });
    (model, session)
}

const TOLD: &str = "[From the agent, not the user: You have made the same calls again and again";

/// Runs a turn, and gives this answer to each question.
async fn turn_with(session: &Arc<Session>, answer: &Answer) -> Vec<Arc<Event>> {
    let mut log = session.events(session.position());
    session.prompt(text("go"), Origin::Editor);
    let mut events = Vec::new();
    loop {
        let event = next(&mut log).await;
        events.push(Arc::clone(&event));
        match &*event {
            Event::CallStarted(started) if started.question.is_some() => {
                session.answer(&started.call.id, answer.clone(), Origin::Editor).unwrap();
            }
            Event::TurnFinished { .. } => return events,
            _ => {}
        }
    }
}

/// Returns the numbers of calls of the tool and of questions.
fn counts(events: &[Arc<Event>]) -> (usize, usize) {
    let started = events.iter().filter_map(|event| match &**event {
        Event::CallStarted(started) => Some(started.question.is_some()),
        _ => None,
    });
    let (asked, called): (Vec<bool>, Vec<bool>) = started.partition(|asked| *asked);
    (called.len(), asked.len())
}

#[tokio::test]
async fn the_model_is_told_first_and_nobody_is_asked_if_it_stops() {
    let (model, session) = stubborn(1, |_| "nothing new".to_owned());
    let events = turn(&session, "go").await;
    assert_eq!((counts(&events), reason(&events)), ((5, 0), StopReason::EndTurn));
    let what = r#"the same call with the same result: look {"at":"it"}"#;
    assert_eq!(
        notices(&events),
        [format!("The model repeats itself ({what}); tandem has told the model.")]
    );
    let told = model.told();
    assert!(!told[4].contains(TOLD) && told[5].contains(&format!("nothing new\n\n{TOLD}")));
}

#[tokio::test]
async fn results_that_change_are_no_loop() {
    let (_, session) = stubborn(1, |n| format!("{n} of 40 done"));
    let mut log = session.events(0);
    session.prompt(text("go"), Origin::Editor);
    let mut calls = 0;
    let events = until(&mut log, |event| {
        calls += usize::from(matches!(event, Event::CallFinished { .. }));
        calls == 60
    })
    .await;
    assert_eq!(notices(&events), Vec::<String>::new());
    session.cancel(TurnId(1));
}

#[tokio::test]
async fn if_it_goes_on_the_user_is_asked_and_a_no_ends_the_turn() {
    let (_, session) = stubborn(9, |_| "nothing new".to_owned());
    let events = turn_with(&session, &Answer::Reject).await;
    let what = r#"the same call with the same result: look {"at":"it"}"#.to_owned();
    assert_eq!((counts(&events), reason(&events)), ((10, 1), StopReason::Looping(what.clone())));
    let asked = events.iter().find_map(|event| match &**event {
        Event::CallStarted(started) if started.question.is_some() => Some(started),
        _ => None,
    });
    let Access::Other { description } = &asked.unwrap().access else { panic!("{asked:?}") };
    assert!(
        description.contains(&what) && description.ends_with("Let the model go on?"),
        "{description}"
    );
    // The refusal ended only that turn: the next prompt begins a new count of repetitions.
    turn(&session, "/clear").await;
    let events = turn_with(&session, &Answer::Cancel).await;
    assert_eq!(reason(&events), StopReason::Cancelled { answering: false });
}

#[tokio::test]
async fn a_yes_lets_it_go_on_until_it_has_been_told_once_more() {
    let (model, session) = stubborn(2, |_| "nothing new".to_owned());
    let events = turn_with(&session, &Answer::Once { edited: None }).await;
    assert_eq!((counts(&events), reason(&events)), ((15, 1), StopReason::EndTurn));
    assert!(model.told().last().unwrap().contains("lets you go on."));
}

#[tokio::test]
async fn always_is_for_the_session_and_can_be_taken_back() {
    let (_, session) = stubborn(2, |_| "nothing new".to_owned());
    let always = Answer::Always(Scope::Repetition);
    let mut log = session.events(0);
    session.prompt(text("go"), Origin::Editor);
    let events = until(
        &mut log,
        |event| matches!(event, Event::CallStarted(started) if started.question.is_some()),
    )
    .await;
    let Some(Event::CallStarted(asked)) = events.last().map(|event| &**event) else { panic!() };
    session.answer(&asked.call.id, always, Origin::Editor).unwrap();
    let mut calls = 0;
    let events = until(&mut log, |event| {
        calls += usize::from(matches!(event, Event::CallStarted(_)));
        calls == 30
    })
    .await;
    assert_eq!((counts(&events), notices(&events)), ((30, 0), vec![]));
    session.cancel(TurnId(1));
    until(&mut log, is_end).await;
    let listed = output(&session, "/permissions").await;
    expect![[r#"
        The approval mode is `default`.

        **Always** (`/permissions remove N` removes one):

        1. going on when the model repeats itself, until the session ends
    "#]]
    .assert_eq(&listed);
    output(&session, "/permissions remove 1").await;
    turn(&session, "/clear").await;
    let events = turn_with(&session, &Answer::Reject).await;
    assert!(matches!(reason(&events), StopReason::Looping(_)), "{:?}", reason(&events));
}

#[tokio::test]
async fn what_the_user_says_instead_the_model_is_told() {
    let model = Says::new(None, |prompt| {
        if all_text(prompt).contains("The user says: read the manual]") {
            says("I read it.")
        } else {
            calls("look", json!({}))
        }
    });
    let look = Fake::new("look", ToolKind::Read, Access::Read);
    let session = Session::new(Parts { tools: vec![Arc::new(look)], ..parts(model) });
    let events = turn_with(&session, &Answer::RejectSaying("read the manual".to_owned())).await;
    assert_eq!((counts(&events), reason(&events)), ((10, 1), StopReason::EndTurn));
}

#[tokio::test]
async fn who_does_not_want_it_is_left_alone() {
    let (model, _) = stubborn(1, |_| String::new());
    let look = Fake::new("look", ToolKind::Read, Access::Read);
    let upkeep = Upkeep { detect_loops: false, ..Upkeep::default() };
    let tools: Vec<Arc<dyn Tool>> = vec![Arc::new(look)];
    let session = Session::new(Parts { tools, upkeep, max_rounds: 50, ..parts(model) });
    let events = turn(&session, "go").await;
    assert_eq!((counts(&events), reason(&events)), ((50, 0), StopReason::MaxRounds(50)));
}

/// Returns a model that repeats the same text until it was told to stop `stops_when_told` times.
fn babbling(stops_when_told: usize) -> Arc<Says> {
    Says::new(Some(60_000), move |prompt| {
        if is_summary(prompt) {
            return snapshot("It was told.");
        }
        let told = all_text(prompt).matches("[From the agent, not the user: What you said").count();
        if told >= stops_when_told {
            return says("I see.");
        }
        let say = |_| Ok(Chunk::Text("Let me look at the file again. ".to_owned()));
        (0..2000).map(say).collect()
    })
}

/// Returns the text that the model wrote.
fn said(events: &[Arc<Event>]) -> String {
    let said = events.iter().filter_map(|event| match &**event {
        Event::Text(text) => Some(text.as_str()),
        _ => None,
    });
    said.collect()
}

#[tokio::test]
async fn a_text_that_repeats_itself_is_cut_off_and_the_model_told() {
    let model = babbling(1);
    let session = Session::new(parts(Arc::clone(&model) as _));
    let events = turn(&session, "go").await;
    assert_eq!(reason(&events), StopReason::EndTurn);
    assert!(said(&events).len() < 4096 && said(&events).ends_with("I see."), "{}", said(&events));
    let what = "the same text again and again";
    assert_eq!(
        notices(&events),
        [format!("The model repeats itself ({what}); tandem has told the model.")]
    );
    // The agent's message about the repetition is not quoted as words of the user.
    for _ in 0..9 {
        turn(&session, &"And more. ".repeat(150)).await;
    }
    turn(&session, "/compress").await;
    turn(&session, "and now").await;
    let said = Beginning::of(&last_prompt(&model)).said;
    assert_eq!(said[0], "go");
    assert!(said[1..].iter().all(|said| said.starts_with("And more.")), "{said:?}");
}

#[tokio::test]
async fn a_text_that_the_user_wants_is_not_cut_off_again() {
    let session = Session::new(parts(babbling(2)));
    let events = turn_with(&session, &Answer::Once { edited: None }).await;
    assert_eq!((counts(&events), reason(&events)), ((0, 1), StopReason::EndTurn));
    assert!(said(&events).len() > 60_000, "{}", said(&events).len());
}

#[tokio::test]
async fn thoughts_count_as_what_is_said_does() {
    let model = Says::new(None, |prompt| {
        if all_text(prompt).contains("[From the agent") {
            return says("I see.");
        }
        (0..100).map(|_| Ok(Chunk::Thought("Let me look at it again. ".to_owned()))).collect()
    });
    let events = turn(&Session::new(parts(model)), "go").await;
    assert_eq!(notices(&events).len(), 1, "{events:?}");
    assert!(events.iter().filter(|event| matches!(&***event, Event::Thought(_))).count() < 60);
}

#[tokio::test]
async fn the_question_has_its_end_in_the_log() {
    for (answer, expected) in [
        (Answer::Once { edited: None }, "Done"),
        (Answer::Reject, "Rejected"),
        (Answer::Cancel, "Cancelled"),
        (Answer::Nobody("nobody".to_owned()), "Failed"),
        (Answer::Unclear("?".to_owned()), "Failed"),
    ] {
        let (_, session) = stubborn(2, |_| String::new());
        let events = turn_with(&session, &answer).await;
        let ended = events.iter().find_map(|event| match &**event {
            Event::CallFinished { call, outcome } if call.starts_with("go_on") => Some(outcome),
            _ => None,
        });
        let ended: &ToolOutcome = ended.unwrap();
        assert!(format!("{ended:?}").starts_with(expected), "{answer:?}: {ended:?}");
    }
}
