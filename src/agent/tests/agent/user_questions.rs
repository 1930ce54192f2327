//! Questions that a running call asks.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use tandem_agent::session::{
    Access, Answer, CallStarted, Event, Origin, Parts, Session, StopReason, ToolKind, ToolOutcome,
};
use tandem_approval::Mode;
use tandem_host::{ToolContext, ToolOutput, UserQuestion};
use tokio::time::timeout;

use test_fakes::{Fake, Spy, calls, is_end, parts, says, text, until};
use test_support::limit::HANG;

fn question(danger: bool) -> UserQuestion {
    UserQuestion {
        agent: "reviewer".to_owned(),
        tool: "write_file".to_owned(),
        label: "reviewer asks: write it".to_owned(),
        description: "Writes it.".to_owned(),
        danger,
    }
}

/// Returns a session whose model calls a tool once. The tool asks `times` questions, and its result has the answers.
fn session(times: usize, danger: bool, mode: Mode) -> Arc<Session> {
    let run = move |cx: ToolContext| async move {
        let mut answers = Vec::new();
        for _ in 0..times {
            answers.push((cx.ask)(question(danger)).await);
        }
        let answers = format!("{answers:?}");
        Ok(ToolOutput::new(answers.clone(), answers))
    };
    let tool = Fake::new("asks", ToolKind::Other, Access::Nothing).running(run);
    with_tool(tool, mode)
}

fn with_tool(tool: Fake, mode: Mode) -> Arc<Session> {
    let (spy, _) = Spy::new(vec![calls("asks", json!({})), says("done")]);
    Session::new(Parts { tools: vec![Arc::new(tool)], mode, ..parts(spy) })
}

/// Runs a turn in which `answer` answers the questions. Returns the number of questions, and the outcome of each
/// call by name.
async fn turn(
    session: &Session,
    answer: impl Fn(&CallStarted) -> Option<Answer>,
) -> (usize, Vec<(String, ToolOutcome)>) {
    let turn = session.prompt(text("go"), Origin::Editor);
    let (mut asked, mut names, mut outcomes) = (0, Vec::new(), Vec::new());
    let mut log = session.events(0);
    let reading = until(&mut log, |event| {
        match event {
            Event::CallStarted(started) => {
                names.push((started.call.id.clone(), started.call.name.clone()));
                if started.question.is_some() {
                    asked += 1;
                    match answer(started) {
                        Some(answer) => {
                            session.answer(&started.call.id, answer, Origin::Editor).unwrap();
                        }
                        None => assert!(session.cancel(turn)),
                    }
                }
            }
            Event::CallFinished { call, outcome } => {
                let name = names.iter().find(|(id, _)| id == call).unwrap().1.clone();
                outcomes.push((name, outcome.clone()));
            }
            _ => {}
        }
        is_end(event)
    });
    timeout(HANG, reading).await.unwrap();
    (asked, outcomes)
}

/// Returns the text of the last outcome.
fn said(outcomes: &[(String, ToolOutcome)]) -> &str {
    match outcomes.last().unwrap() {
        (_, ToolOutcome::Done(output)) => &output.text,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn the_user_is_asked_while_the_call_runs() {
    let session = session(1, false, Mode::Default);
    let (asked, outcomes) = turn(&session, |_| Some(Answer::Once { edited: None })).await;
    assert_eq!((asked, said(&outcomes)), (1, "[Allowed]"));
    // The question's outcome comes before the outcome of the call that asked.
    let names: Vec<_> = outcomes.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["answer_agent", "asks"]);
}

#[tokio::test]
async fn a_no_is_told_with_what_the_user_says() {
    let session = session(1, false, Mode::Default);
    let no = |_: &_| Some(Answer::RejectSaying("not there".to_owned()));
    let (_, outcomes) = turn(&session, no).await;
    assert_eq!(outcomes[0].1, ToolOutcome::Rejected);
    assert_eq!(said(&outcomes), r#"[Rejected(Some("not there"))]"#);
}

#[tokio::test]
async fn always_is_not_asked_again_but_for_what_may_do_harm() {
    let always = |started: &CallStarted| {
        let scope = started.question.as_ref().unwrap().scopes.first().cloned();
        Some(scope.map_or(Answer::Once { edited: None }, Answer::Always))
    };
    let harmless = session(3, false, Mode::Default);
    let (asked, outcomes) = turn(&harmless, always).await;
    assert_eq!((asked, said(&outcomes)), (1, "[Allowed, Allowed, Allowed]"));
    let dangerous = session(3, true, Mode::Default);
    assert_eq!(turn(&dangerous, always).await.0, 3);
}

#[tokio::test]
async fn where_everything_is_allowed_nothing_is_asked() {
    let session = session(2, true, Mode::Yolo);
    let (asked, outcomes) = turn(&session, |_| None).await;
    assert_eq!((asked, said(&outcomes)), (0, "[Allowed, Allowed]"));
}

#[tokio::test]
async fn the_end_of_the_turn_withdraws_the_question() {
    let session = session(1, false, Mode::Default);
    let (asked, outcomes) = turn(&session, |_| None).await;
    let cancelled = |name: &str| (name.to_owned(), ToolOutcome::Cancelled);
    assert_eq!(asked, 1);
    assert_eq!(outcomes[0], cancelled("answer_agent"));
    let mut log = session.events(0);
    let events = until(&mut log, is_end).await;
    let Event::TurnFinished { reason, .. } = &**events.last().unwrap() else { panic!() };
    assert!(matches!(reason, StopReason::Cancelled { .. }), "{reason:?}");
}

#[tokio::test]
async fn a_question_that_nobody_waits_for_is_withdrawn() {
    let run = |cx: ToolContext| async move {
        let gave_up = timeout(Duration::from_millis(1), (cx.ask)(question(false))).await;
        let said = format!("{}", gave_up.is_err());
        Ok(ToolOutput::new(said.clone(), said))
    };
    let tool = Fake::new("asks", ToolKind::Other, Access::Nothing).running(run);
    let session = with_tool(tool, Mode::Default);
    session.prompt(text("go"), Origin::Editor);
    let mut log = session.events(0);
    let events = until(&mut log, is_end).await;
    let asked = events.iter().find_map(|event| match &**event {
        Event::CallStarted(started) if started.question.is_some() => Some(started.call.id.clone()),
        _ => None,
    });
    let asked = asked.unwrap();
    let closed = |event: &Arc<Event>| matches!(&**event, Event::QuestionClosed { call, answer: None } if *call == asked);
    assert!(events.iter().any(closed));
    let ended = |event: &Arc<Event>| matches!(&**event, Event::CallFinished { call, outcome: ToolOutcome::Cancelled } if *call == asked);
    assert!(events.iter().any(ended));
    let late = session.answer(&asked, Answer::Once { edited: None }, Origin::Editor);
    assert!(late.is_err());
}
