//! Command lines and settings of a person at this machine, beside prompts.

use std::sync::Arc;

use expect_test::expect;
use serde_json::json;
use tandem_agent::session::{
    Answer, Event, Origin, Parts, PromptPart, Session, StopReason, ToolOutcome,
};
use tandem_approval::Mode;
use tandem_model::{Call, Chunk, Finish};
use tandem_tools as tools;

use test_fakes::{Fake, Spy, is_end, other, parts, text, until};

/// Returns a session whose model is a spy, and the texts that the spy has been given.
fn session(
    answers: Vec<Vec<Chunk>>,
    change: impl FnOnce(Parts) -> Parts,
) -> (Arc<Session>, Arc<std::sync::Mutex<Vec<String>>>) {
    let answers = answers.into_iter().map(|answer| answer.into_iter().map(Ok).collect());
    let (spy, told) = Spy::new(answers.collect());
    (Session::new(change(parts(spy))), told)
}

async fn turn(session: &Arc<Session>, prompt: Vec<PromptPart>) -> Vec<Arc<Event>> {
    let mut log = session.events(session.position());
    session.prompt(prompt, Origin::Terminal);
    until(&mut log, is_end).await
}

#[tokio::test]
async fn a_command_line_runs_unasked_and_the_model_sees_its_output_with_the_next_prompt() {
    let said = vec![Chunk::Text("I see.".to_owned()), Chunk::Finish(Finish::default())];
    let (session, told) =
        session(vec![said], |parts| Parts { tools: tools::all(), mode: Mode::Plan, ..parts });
    let events =
        turn(&session, vec![PromptPart::Shell("echo $((6 * 7)) > /dev/stdout".to_owned())]).await;
    assert!(!events.iter().any(|event| matches!(&**event, Event::AnswerFinished { .. })));
    let done = events.iter().find_map(|event| match &**event {
        Event::CallFinished { outcome: ToolOutcome::Done(output), .. } => Some(output.text.clone()),
        _ => None,
    });
    expect!["Output: 42"].assert_eq(&done.unwrap());
    assert!(told.lock().unwrap().is_empty(), "the model is not asked");
    turn(&session, text("what was that?")).await;
    let told = told.lock().unwrap().join("\n");
    expect![[r#"
        user: !echo $((6 * 7)) > /dev/stdout

        --- I ran this myself; its output ---
        Output: 42
        user: what was that?"#]]
    .assert_eq(&told);
}

#[tokio::test]
async fn a_rejection_can_say_why() {
    let call = Call { id: "c1".to_owned(), name: "touch".to_owned(), args: json!({}) };
    let answers = vec![vec![Chunk::Call(call)], vec![Chunk::Text("sorry".to_owned())]];
    let tool = Fake::new("touch", tandem_host::ToolKind::Other, other());
    let (session, told) = session(answers, |parts| Parts { tools: vec![Arc::new(tool)], ..parts });
    let mut log = session.events(0);
    session.prompt(text("go"), Origin::Terminal);
    let asks = |event: &Event| matches!(event, Event::CallStarted(_));
    until(&mut log, asks).await;
    let answer = Answer::RejectSaying("use make".to_owned());
    session.answer("c1", answer, Origin::Terminal).unwrap();
    until(&mut log, is_end).await;
    let told = told.lock().unwrap().join("\n");
    assert!(
        told.contains("did not allow this call") && told.contains("They said: use make"),
        "{told}"
    );
}

#[tokio::test]
async fn another_mode_counts_at_once_and_is_seen() {
    let call = Call { id: "c1".to_owned(), name: "touch".to_owned(), args: json!({}) };
    let answers = vec![vec![Chunk::Call(call)], vec![Chunk::Text("done".to_owned())]];
    let tool = Fake::new("touch", tandem_host::ToolKind::Other, other());
    let (session, _) = session(answers, |parts| Parts { tools: vec![Arc::new(tool)], ..parts });
    session.modes().set(Mode::Yolo).unwrap();
    assert_eq!(session.modes().current(), Mode::Yolo);
    let seen = session.events(1).try_next().unwrap();
    assert_eq!(*seen, Event::ModeChanged { mode: Mode::Yolo, before_plan: None });
    let events = turn(&session, text("go")).await;
    let end = events.last().unwrap();
    let ended = matches!(&**end, Event::TurnFinished { reason: StopReason::EndTurn, .. });
    assert!(ended, "{events:?}");
}
