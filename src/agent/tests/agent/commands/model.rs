//! `/model`.

use std::future::ready;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};

use futures::FutureExt as _;
use futures::future::BoxFuture;
use futures::stream::{self, BoxStream, StreamExt as _};
use tandem_agent::session::{ClientName, Event, Origin, Parts, StopReason};
use tandem_model::offer::{ModelGroup, OfferedModel, ServerScope};
use tandem_model::provider::Provider;
use tandem_model::{Chunk, Error, Model, Models, Prompt, ServerModel, ThinkingLevels};

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

    fn set_up(&self) -> Result<Vec<ModelGroup>, String> {
        Ok(vec![group(Provider::Gemini, None, "other")])
    }

    fn served(&self, _: &str, scope: ServerScope) -> BoxFuture<'static, Vec<ModelGroup>> {
        let here = group(Provider::Vllm, Some("http://127.0.0.1:8000"), "vllm:smol");
        let away = group(Provider::OpenRouter, Some("https://openrouter.ai"), "openrouter:a/b");
        let groups = match scope {
            ServerScope::ThisMachine => vec![here],
            ServerScope::All => vec![here, away],
            ServerScope::SetUp => vec![away],
        };
        ready(groups).boxed()
    }

    fn is_set_up(&self, id: &str) -> bool {
        id != "vllm:smol"
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

fn group(provider: Provider, address: Option<&str>, id: &str) -> ModelGroup {
    let (window, price, thinking) = (None, None, ThinkingLevels::default());
    let models = vec![OfferedModel { id: id.to_owned(), window, price, thinking }];
    ModelGroup { provider, address: address.map(str::to_owned), models }
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
        assert_eq!(
            shown,
            "The model is `spy`. Known models:\n\n- `other`\n- `spy` (this one)\n\n\
             vLLM at http://127.0.0.1:8000:\n\n- `vllm:smol`\n\n\
             OpenRouter at https://openrouter.ai:\n\n- `openrouter:a/b`\n"
        );
    }
}

#[tokio::test]
async fn clients_of_a_server_neither_see_nor_choose_a_program_of_its_machine_that_is_not_set_up() {
    let (stage, _, _) = stage();
    stage.session.prompt(text("/about"), Origin::A2a(ClientName::new(1, "agent")));
    until(&mut stage.session.events(0), is_end).await;
    let shown = stage.output("/model").await;
    assert!(shown.contains("`openrouter:a/b`") && !shown.contains("vllm"), "{shown}");
    let refused = stage.output("/model set vllm:smol").await;
    contains(&refused, &["`vllm:smol` is not set up on this server", "is `spy` as before"]);
    let events = stage.turn("/model set other").await;
    assert_eq!(*events[1], Event::ModelChanged { model: "other".to_owned() });
}

#[tokio::test]
async fn models_are_offered_whose_providers_are_set_up_and_those_of_servers() {
    let (stage, _, _) = stage();
    let ids = |groups: Vec<ModelGroup>| {
        groups.into_iter().flat_map(|group| group.models).map(|model| model.id).collect::<Vec<_>>()
    };
    let offered = ids(stage.session.offered_models().await);
    assert_eq!(offered, ["other", "vllm:smol", "openrouter:a/b"]);
    assert_eq!(ids(stage.session.served_models(ServerScope::ThisMachine).await), ["vllm:smol"]);
    let to_choose = stage.session.models_to_choose().await;
    assert_eq!(to_choose, ["other", "spy", "vllm:smol", "openrouter:a/b"]);
}

/// A model that its server chooses.
struct Unnamed(Result<ServerModel, Error>);

impl Model for Unnamed {
    fn id(&self) -> &'static str {
        "openai:"
    }

    fn ready(&self) -> Result<(), Error> {
        Ok(())
    }

    fn server_model(&self) -> BoxFuture<'static, Result<Option<ServerModel>, Error>> {
        ready(self.0.clone().map(Some)).boxed()
    }

    fn stream(&self, _: Prompt) -> BoxStream<'static, Result<Chunk, Error>> {
        stream::iter([Err(Error::Rejected("not this one".to_owned()))]).boxed()
    }
}

/// Returns a session whose model the server chooses.
fn unnamed(found: Result<ServerModel, Error>) -> (Stage, Arc<Mutex<Vec<String>>>) {
    let (other, told) = Spy::new(vec![says("I am another"), says("Again")]);
    let models = Arc::new(Shelf { other, opening: Mutex::default() });
    let model = Arc::new(Unnamed(found));
    (Stage::with(Vec::new(), |parts| Parts { model, models, ..parts }), told)
}

#[tokio::test]
async fn the_model_that_a_server_chooses_is_in_the_log_with_a_notice_before_it_is_asked() {
    let found = ServerModel {
        id: "other".to_owned(),
        address: "http://127.0.0.1:8080".to_owned(),
        is_first: true,
    };
    let (stage, told) = unnamed(Ok(found));
    let events = stage.turn("first").await;
    let changed = Event::ModelChanged { model: "other".to_owned() };
    let at = events.iter().position(|event| **event == changed).unwrap();
    let notice = "No model is named, so `other` answers, the first model of the server at http://127.0.0.1:8080. \
        `/model` changes the model.";
    assert_eq!(*events[at + 1], Event::Notice(notice.to_owned()));
    assert!(matches!(*events[at + 2], Event::SystemPrompt(_)), "{:?}", events[at + 2]);
    assert_eq!(*told.lock().unwrap(), ["user: first"]);
    assert!(!stage.turn("second").await.iter().any(|event| **event == changed));
}

#[tokio::test]
async fn without_a_model_to_choose_the_turn_fails_with_the_reason() {
    let error = Error::Unavailable("Nothing answers.".to_owned());
    let (stage, _) = unnamed(Err(error.clone()));
    let events = stage.turn("first").await;
    assert_eq!(reason(events.last().unwrap()), StopReason::Failed(error));
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
