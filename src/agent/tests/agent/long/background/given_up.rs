//! Summaries that are of no use any more when they are ready, or before.

use tandem_model::Models;

use super::*;

#[tokio::test]
async fn what_was_cleared_in_between_does_not_come_back() {
    let model = Slow::new(3, |_| snapshot("What was cleared."));
    let session = model.session();
    begun(&model, &session).await;
    turn(&session, "/clear").await;
    model.writes(0).await;
    model.let_go();
    let events = turn(&session, "The second.").await;
    assert!(compressions(&events).is_empty() && notices(&events).is_empty(), "{events:?}");
    let told = model.last();
    assert!(!told.contains("What was cleared.") && !told.contains("The first."), "{told}");
}

#[tokio::test]
async fn what_was_never_said_is_not_summed_up() {
    let model = Slow::new(3, |_| snapshot("What was never said."));
    let session = model.session();
    begun(&model, &session).await;
    turn(&session, "/rewind 1").await;
    model.writes(0).await;
    model.let_go();
    let events = turn(&session, "The second.").await;
    assert!(compressions(&events).is_empty() && notices(&events).is_empty(), "{events:?}");
    let told = model.last();
    assert!(!told.contains("What was never said.") && !told.contains("The first."), "{told}");
}

struct Other(Arc<Says>);

impl Models for Other {
    fn known(&self) -> Result<Vec<String>, String> {
        Ok(Vec::new())
    }

    fn open(&self, _: &str) -> Result<Arc<dyn Model>, String> {
        Ok(Arc::clone(&self.0) as _)
    }
}

#[tokio::test]
async fn what_a_model_has_begun_is_not_for_the_next_one() {
    let model = Slow::new(3, |_| snapshot("By the one before."));
    let other = Says::new(None, |_| says("I am another."));
    let models = Arc::new(Other(Arc::clone(&other)));
    let session = session_in(Arc::clone(&model) as _, 2000, |parts| Parts { models, ..parts });
    begun(&model, &session).await;
    turn(&session, "/model set other").await;
    model.writes(0).await;
    let events = turn(&session, "The second.").await;
    assert!(compressions(&events).is_empty(), "{events:?}");
    assert_eq!(results_in(&other.told.lock().unwrap()[0]).first(), Some(&1));
}

#[tokio::test]
async fn a_turn_that_waits_for_it_is_answered_by_the_next_model() {
    let model = Slow::saying(|prompt, asked| match prompt {
        _ if is_summary(prompt) => snapshot("By the one before."),
        _ if asked == 0 => calls("t", json!({ "n": prompt.messages.len() })),
        _ => vec![Err(Error::ContextTooLong("too long".to_owned()))],
    });
    let other = Says::new(None, |_| says("I am another."));
    let models = Arc::new(Other(Arc::clone(&other)));
    let session = session_in(Arc::clone(&model) as _, 2000, |parts| Parts { models, ..parts });
    let mut log = session.events(0);
    session.prompt(text("The first."), Origin::Editor);
    until(&mut log, |event| matches!(event, Event::Notice(it) if it.starts_with("Waiting"))).await;
    session.set_model("other").await.unwrap();
    let events = until(&mut log, is_end).await;
    assert_eq!((reason(&events), other.told().len()), (StopReason::EndTurn, 1));
    model.writes(0).await;
}

#[tokio::test]
async fn a_refused_turn_takes_the_summary_with_it_that_is_of_a_part_of_it() {
    let refuse = |prompt: &Prompt| prompt.messages.len() > 10;
    let model = refusing(refuse, |_| snapshot("Of what is refused."));
    let session = model.session();
    let events = turn(&session, "The first.").await;
    assert_eq!(reason(&events), StopReason::Refused("no".to_owned()));
    assert_eq!(model.asked(), 1);
    model.let_go();
    model.writes(0).await;
    let events = turn(&session, "The second.").await;
    assert!(compressions(&events).is_empty() && notices(&events).is_empty(), "{events:?}");
    assert!(!model.last().contains("The first."), "{}", model.last());
    assert!(!model.last().contains("Of what is refused."), "{}", model.last());
}

#[tokio::test]
async fn a_refused_turn_leaves_a_summary_alone_of_what_came_before() {
    let refuse = |prompt: &Prompt| all_text(prompt).contains("Refuse this.");
    let model = refusing(refuse, |_| snapshot("Of the first."));
    let session = model.session();
    let events = turn(&session, "The first.").await;
    assert_eq!(reason(&events), StopReason::EndTurn);
    let events = turn(&session, "Refuse this.").await;
    assert_eq!(reason(&events), StopReason::Refused("no".to_owned()));
    model.let_go();
    model.writes(0).await;
    let events = turn(&session, "The third.").await;
    assert_eq!(compressions(&events).len(), 1);
    assert_eq!(Beginning::of(model.told().last().unwrap()).snapshot, "Of the first.");
    assert_eq!(model.last().matches("The first.").count(), 1);
    assert_eq!(model.last().matches("Refuse this.").count(), 0);
}

#[tokio::test]
async fn the_command_gives_up_what_is_under_way() {
    let model = Slow::new(3, |prompt| {
        let wanted = all_text(prompt).contains("to be above all about: the parser");
        snapshot(if wanted { "Of the parser." } else { "Of anything." })
    });
    let session = model.session();
    begun(&model, &session).await;
    let mut log = session.events(session.position());
    session.prompt(text("/compress the parser"), Origin::Editor);
    until(&mut log, is_begun).await;
    model.let_go();
    let events = until(&mut log, is_end).await;
    assert_eq!(compressions(&events)[0].snapshot, "Of the parser.");
    model.writes(0).await;
    let events = turn(&session, "The second.").await;
    assert!(compressions(&events).is_empty());
    assert_eq!(model.asked(), 2);
    assert_eq!(Beginning::of(model.told().last().unwrap()).snapshot, "Of the parser.");
}

#[tokio::test]
async fn it_ends_with_the_session() {
    let model = Slow::new(3, |_| snapshot("Never used."));
    let session = model.session();
    begun(&model, &session).await;
    session.close();
    model.writes(0).await;

    let model = Slow::new(3, |_| snapshot("Never used."));
    let session = model.session();
    begun(&model, &session).await;
    drop(session);
    model.writes(0).await;
}

#[tokio::test]
async fn a_session_that_ends_while_a_turn_waits_for_it_ends_both() {
    let model = Slow::new(1000, |_| snapshot("Never used."));
    let session = model.session();
    let mut log = session.events(0);
    session.prompt(text("The first."), Origin::Editor);
    until(&mut log, |event| matches!(event, Event::Notice(it) if it.starts_with("Waiting"))).await;
    session.close();
    let events = until(&mut log, is_end).await;
    assert!(matches!(reason(&events), StopReason::Cancelled { .. }));
    model.writes(0).await;
}
