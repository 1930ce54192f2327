//! The model's view of a conversation.

use std::time::Duration;

use serde_json::json;
use tandem_agent::session::{Answer, Event, Origin, PromptPart, StopReason};
use tandem_content::media::Media;
use tandem_host::{Access, ToolKind, ToolOutput};
use tandem_model::{Call, Chunk, Error, Finish, FinishReason, Retry};

use test_fakes::{Fake, Spy, is_end, other, text, until, with_model};

fn asks(id: &str) -> Result<Chunk, Error> {
    Ok(Chunk::Call(Call { id: id.to_owned(), name: "t".to_owned(), args: json!({}) }))
}

fn says(text: &str) -> Result<Chunk, Error> {
    Ok(Chunk::Text(text.to_owned()))
}

/// Returns the messages of the request for the last of these prompts.
async fn told(answers: Vec<Vec<Result<Chunk, Error>>>, prompts: &[&str]) -> Vec<String> {
    let (spy, told) = Spy::new(answers);
    let session = with_model(spy, vec![Fake::new("t", ToolKind::Read, Access::Read)]);
    for prompt in prompts {
        let turn = session.prompt(text(prompt), Origin::Editor);
        let ended =
            |event: &Event| matches!(event, Event::TurnFinished { turn: it, .. } if *it == turn);
        until(&mut session.events(0), ended).await;
    }
    told.lock().unwrap().clone()
}

#[tokio::test]
async fn the_model_is_told_its_calls_and_their_results_in_order() {
    let answers =
        vec![vec![says("let me "), says("see"), asks("c1"), asks("c2")], vec![says("done")]];
    assert_eq!(
        told(answers, &["go"]).await,
        ["user: go", "assistant: let me see [c1, c2]", "results: c1 ran | c2 ran"]
    );
}

#[tokio::test]
async fn media_of_a_prompt_stand_where_they_were_sent() {
    let (spy, told) = Spy::new(vec![vec![says("done")]]);
    let session = with_model(spy, Vec::new());
    let media = PromptPart::Media(Media::new("image/png", b"\x89PNG\r\n\x1a\nx"));
    let [before, after] = ["what is ", "?"].map(|text| PromptPart::Text(text.to_owned()));
    session.prompt(vec![before, media, after], Origin::Editor);
    until(&mut session.events(0), is_end).await;
    assert_eq!(told.lock().unwrap()[0], "user: what is [media]?");
}

#[tokio::test]
async fn two_calls_under_one_id_are_told_apart() {
    let answers = vec![vec![asks("c1"), asks("c1"), asks("")], vec![says("done")]];
    assert_eq!(told(answers, &["go"]).await[2], "results: c1 ran | t-2 ran | t-3 ran");
}

#[tokio::test]
async fn a_failed_turn_leaves_what_was_said() {
    let answers = vec![
        vec![says("half an ans"), Err(Error::Unavailable("gone".to_owned()))],
        vec![says("again")],
    ];
    assert_eq!(
        told(answers, &["one", "two"]).await,
        ["user: one", "assistant: half an ans []", "user: two"]
    );
}

#[tokio::test]
async fn a_refused_turn_is_left_out() {
    let refused =
        Finish { reason: FinishReason::Refused("SAFETY".to_owned()), ..Finish::default() };
    let answers = vec![
        vec![says("fine")],
        vec![says("bad"), Ok(Chunk::Finish(refused))],
        vec![says("again")],
    ];
    assert_eq!(
        told(answers, &["one", "two", "three"]).await,
        ["user: one", "assistant: fine []", "user: three"]
    );
}

#[tokio::test]
async fn an_answer_that_is_tried_again_is_told_once() {
    let retry = Retry {
        reason: "empty".to_owned(),
        delay: Duration::ZERO,
        attempt: 2,
        of: 4,
        discard: true,
    };
    let answers = vec![
        vec![says("void"), asks("c1"), Ok(Chunk::Retry(retry)), says("valid")],
        vec![says("end")],
    ];
    assert_eq!(
        told(answers, &["one", "two"]).await,
        ["user: one", "assistant: valid []", "user: two"]
    );
}

/// Returns the results of two calls in the model's next request. The first call is asked about, and gets this
/// answer.
async fn told_after(answer: Answer) -> String {
    let (spy, told) = Spy::new(vec![vec![asks("c1"), asks("c2")], vec![says("on")]]);
    let never = Fake::new("t", ToolKind::Other, other()).running(|cx| async move {
        cx.cancel.cancel();
        std::future::pending().await
    });
    let session = with_model(spy, vec![never]);
    let mut log = session.events(0);
    session.prompt(text("go"), Origin::Editor);
    until(&mut log, |event| matches!(event, Event::CallStarted(_))).await;
    session.answer("c1", answer, Origin::Editor).unwrap();
    until(&mut log, is_end).await;
    session.prompt(text("and now?"), Origin::Editor);
    until(&mut log, is_end).await;
    told.lock().unwrap()[2].clone()
}

#[tokio::test(start_paused = true)]
async fn only_a_call_that_began_may_have_had_an_effect() {
    let not_begun = "The user cancelled the turn before this call began. It was not run.";
    assert_eq!(
        told_after(Answer::Cancel).await,
        format!("results: c1! {not_begun} | c2! {not_begun}")
    );
    let begun = "The user cancelled the turn before this call ended. It may have had part of its \
        effect.";
    assert_eq!(
        told_after(Answer::Once { edited: None }).await,
        format!("results: c1! {begun} | c2! {not_begun}")
    );
}

#[tokio::test]
async fn too_many_rounds_end_the_turn() {
    // Equal calls would be stopped as a loop before the limit on rounds, so each call has other arguments.
    let args = |n: u32| Call { id: String::new(), name: "t".to_owned(), args: json!({ "n": n }) };
    let answers = (0..100).map(|n| vec![Ok(Chunk::Call(args(n)))]).collect();
    let (spy, _) = Spy::new(answers);
    // Each call has another result: calls with equal results would be taken for a loop of the model.
    let count = std::sync::atomic::AtomicUsize::new(0);
    let t = Fake::new("t", ToolKind::Read, Access::Read).running(move |_| {
        let n = count.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        async move { Ok(ToolOutput::new(n.to_string(), "")) }
    });
    let session = with_model(spy, vec![t]);
    let mut log = session.events(0);
    session.prompt(text("go"), Origin::Editor);
    let events = until(&mut log, is_end).await;
    let Event::TurnFinished { reason, .. } = &**events.last().unwrap() else { unreachable!() };
    assert_eq!(*reason, StopReason::MaxRounds(100));
}
