//! `/model`.

use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};

use tandem_agent::session::{Event, Origin, Parts, StopReason};
use tandem_model::{Model, Models};

use super::{Stage, contains, reason, says};
use test_fakes::{Spy, is_end, text, until};
use test_support::limit::wait_until;

/// A catalog with the model `other`, a model that opens slowly, and no more.
struct Shelf {
    other: Arc<Spy>,
    /// Kept until the test ends.
    opening: Mutex<Vec<Sender<()>>>,
}

impl Models for Shelf {
    fn known(&self) -> Result<Vec<String>, String> {
        Ok(vec!["other".to_owned(), "spy".to_owned()])
    }

    fn open(&self, id: &str) -> Result<Arc<dyn Model>, String> {
        match id {
            "other" => Ok(Arc::clone(&self.other) as _),
            "slow" => {
                let (sender, receiver) = channel();
                self.opening.lock().unwrap().push(sender);
                // The model is not opened before the test ends.
                let _ = receiver.recv();
                Ok(Arc::clone(&self.other) as _)
            }
            _ => Err(format!("Unknown model `{id}`.")),
        }
    }
}

fn stage() -> (Stage, Arc<Mutex<Vec<String>>>, Arc<Shelf>) {
    let (other, told) = Spy::new(vec![says("I am another")]);
    let shelf = Arc::new(Shelf { other, opening: Mutex::default() });
    let models = Arc::clone(&shelf);
    let stage = Stage::with(vec![says("one"), says("two")], |parts| Parts { models, ..parts });
    (stage, told, shelf)
}

#[tokio::test]
async fn show_names_the_model_and_those_that_are_known() {
    let (stage, _, _) = stage();
    for prompt in ["/model", "/model show"] {
        let shown = stage.output(prompt).await;
        assert_eq!(shown, "The model is `spy`. Known models:\n\n- `other`\n- `spy` (this one)\n");
    }
}

#[tokio::test]
async fn set_lets_another_model_answer_with_the_same_conversation() {
    let (stage, told, _) = stage();
    stage.turn("first").await;
    let events = stage.turn("/model set other").await;
    assert_eq!(*events[1], Event::ModelChanged { model: "other".to_owned() });
    assert_eq!(*events[2], Event::Output("The model is now `other`.".to_owned()));
    stage.turn("second").await;
    let expected = ["user: first", "assistant: one []", "user: second"];
    assert_eq!(*told.lock().unwrap(), expected);
    assert_eq!(stage.told(), ["user: first"], "the one before is not asked");
}

#[tokio::test]
async fn a_model_that_nobody_knows_is_an_error_and_the_one_before_stays() {
    let (stage, _, _) = stage();
    let output = stage.output("/model set nonsense").await;
    contains(&output, &["Unknown model `nonsense`", "is `spy` as before"]);
    stage.turn("hello").await;
    assert_eq!(stage.told(), ["user: hello"]);
}

#[tokio::test]
async fn a_command_that_runs_can_be_cancelled() {
    let (stage, _, shelf) = stage();
    let mut log = stage.session.events(0);
    let turn = stage.session.prompt(text("/model set slow"), Origin::Editor);
    until(&mut log, |event| matches!(event, Event::CommandStarted { .. })).await;
    wait_until("a model that is opened", || !shelf.opening.lock().unwrap().is_empty()).await;
    assert!(stage.session.cancel(turn));
    let events = until(&mut log, is_end).await;
    assert_eq!(reason(events.last().unwrap()), StopReason::Cancelled { answering: false });
    shelf.opening.lock().unwrap().clear();
    stage.turn("hello").await;
    assert_eq!(stage.told(), ["user: hello"]);
}
