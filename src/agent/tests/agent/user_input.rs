//! Questions of the model to the user: asked in every mode, answered once, and told to the model.

use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use tandem_agent::session::{
    Answer, AnswerError, CallStarted, Event, MAX_INPUT_ANSWER_CHARS, Origin, Parts, Session,
    ToolOutcome,
};
use tandem_approval::Mode;
use tandem_host::Tool;
use tokio::time::timeout;

use test_fakes::{Spy, calls, is_end, parts, says, text, until};
use test_support::limit::HANG;

/// Arguments of a call with one question for each list of labels.
fn asks(questions: &[&[&str]]) -> Value {
    let question = |options: &&[&str]| json!({ "question": "Which?", "options": options });
    json!({ "questions": questions.iter().map(question).collect::<Vec<_>>() })
}

/// A session whose model asks once, and what the model is told.
fn session(mode: Mode, args: Value) -> (Arc<Session>, Arc<Mutex<Vec<String>>>) {
    let (spy, told) = Spy::new(vec![calls("ask_user", args), says("done")]);
    let tools = tandem_tools::all().into_iter().filter(|tool| tool.spec().name == "ask_user");
    let tools: Vec<Arc<dyn Tool>> = tools.collect();
    (Session::new(Parts { tools, mode, ..parts(spy) }), told)
}

/// Runs a turn, in which `act` answers the question. Returns the outcome of the call.
async fn turn(session: &Session, act: impl Fn(&CallStarted)) -> ToolOutcome {
    session.prompt(text("go"), Origin::Editor);
    let (mut log, mut last) = (session.events(0), None);
    let reading = until(&mut log, |event| {
        match event {
            Event::CallStarted(started) if started.question.is_some() => act(started),
            Event::CallFinished { outcome, .. } => last = Some(outcome.clone()),
            _ => {}
        }
        is_end(event)
    });
    timeout(HANG, reading).await.expect("the turn does not end");
    last.expect("no call has ended")
}

fn input(answers: &[&str]) -> Answer {
    Answer::Input(answers.iter().map(|answer| (*answer).to_owned()).collect())
}

#[tokio::test]
async fn the_user_is_asked_in_every_mode_and_the_model_is_told_the_answers() {
    for (_, mode) in Mode::ALL {
        let (session, told) = session(mode, asks(&[&["Red", "Blue"], &["Oak", "Pine"]]));
        let outcome = turn(&session, |started| {
            assert_eq!(started.input_questions().len(), 2);
            let answer = input(&["Blue", "ash, if you can"]);
            session.answer(&started.call.id, answer, Origin::Editor).unwrap();
        });
        let ToolOutcome::Done(output) = outcome.await else { panic!("{mode:?}") };
        assert_eq!(output.text, "Which?\nAnswer: Blue\n\nWhich?\nAnswer: ash, if you can");
        assert!(told.lock().unwrap().last().unwrap().contains("Answer: Blue"), "{mode:?}");
    }
}

#[tokio::test]
async fn only_answers_that_fit_the_questions_count_and_the_first_of_them() {
    let (session, _) = session(Mode::Default, asks(&[&["Red", "Blue"], &["Oak", "Pine"]]));
    turn(&session, |started| {
        let id = &started.call.id;
        let long = "x".repeat(MAX_INPUT_ANSWER_CHARS + 1);
        for faulty in [
            input(&["Red"]),
            input(&["", ""]),
            input(&["Red", &long]),
            Answer::Once { edited: None },
            Answer::Once { edited: Some("Red".to_owned()) },
        ] {
            let answered = session.answer(id, faulty.clone(), Origin::Editor);
            assert_eq!(answered, Err(AnswerError::NotOffered), "{faulty:?}");
        }
        session.answer(id, input(&["", "Oak"]), Origin::Editor).unwrap();
        let late = session.answer(id, input(&["Red", "Oak"]), Origin::Terminal);
        let counted =
            AnswerError::AlreadyAnswered { by: Origin::Editor, answer: input(&["", "Oak"]) };
        assert_eq!(late, Err(counted));
    })
    .await;
}

#[tokio::test]
async fn a_user_who_does_not_answer_leaves_the_decision_to_the_model() {
    let (session, told) = session(Mode::Default, asks(&[&["Red", "Blue"]]));
    let outcome = turn(&session, |started| {
        session.answer(&started.call.id, Answer::Reject, Origin::Editor).unwrap();
    });
    assert_eq!(outcome.await, ToolOutcome::Rejected);
    let told = told.lock().unwrap().join("\n");
    assert!(told.contains("Decide yourself, and say what you assumed."), "{told}");
}

#[tokio::test]
async fn cancelling_the_turn_withdraws_the_question() {
    let (session, _) = session(Mode::Default, asks(&[&["Red", "Blue"]]));
    let outcome = turn(&session, |started| {
        assert!(session.cancel(session.turns().running().unwrap()));
        let late = session.answer(&started.call.id, input(&["Red"]), Origin::Editor);
        assert!(matches!(late, Ok(()) | Err(AnswerError::Withdrawn)), "{late:?}");
    });
    assert_eq!(outcome.await, ToolOutcome::Cancelled);
    assert!(session.questions().open_now().is_empty());
}

#[tokio::test]
async fn faulty_questions_are_not_asked() {
    let (session, _) = session(Mode::Default, asks(&[&["Red"]]));
    let outcome = turn(&session, |started| panic!("asked: {started:?}")).await;
    let ToolOutcome::Failed(error) = outcome else { panic!("{outcome:?}") };
    assert!(error.message.contains("must have 2 to 4"), "{error:?}");
}
