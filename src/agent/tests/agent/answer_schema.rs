//! Prompts that ask for an answer of a schema.

use std::sync::Arc;

use serde_json::{Value, json};
use tandem_agent::session::{Access, Event, Origin, PromptPart, Session, StopReason, ToolKind};
use tandem_model::{Chunk, Finish, FinishReason};
use test_fakes::{Chunks, Fake, Spy, calls, is_end, other, says, text, until, with_model};

const FITTING_ANSWER: &str = "{\"files\": 3}";

fn schema() -> Value {
    json!({ "type": "object", "properties": { "files": { "type": "integer" } }, "required": ["files"] })
}

/// End of a turn, and what it has said to people and to the model.
struct Ran {
    reason: StopReason,
    notices: Vec<String>,
    /// Messages of the last request.
    told: Vec<String>,
}

/// Runs a prompt for an answer of the schema.
async fn run(prompt: &str, answers: Vec<Chunks>) -> Ran {
    let (spy, told) = Spy::new(answers);
    let tool = Fake::new("look", ToolKind::Read, Access::Read);
    let session = with_model(spy, vec![tool, Fake::new("ask", ToolKind::Other, other())]);
    let ran = run_in(&session, prompt).await;
    let told = told.lock().unwrap().clone();
    Ran { told, ..ran }
}

async fn run_in(session: &Arc<Session>, prompt: &str) -> Ran {
    let mut log = session.events(session.position());
    let prompt = [text(prompt), vec![PromptPart::AnswerSchema(schema())]].concat();
    session.prompt(prompt, Origin::Terminal);
    let events = until(&mut log, is_end).await;
    let notices = events.iter().filter_map(|event| match &**event {
        Event::Notice(text) => Some(text.clone()),
        _ => None,
    });
    let Some(Event::TurnFinished { reason, .. }) = events.last().map(|event| &**event) else {
        panic!("{events:?}")
    };
    Ran { reason: reason.clone(), notices: notices.collect(), told: Vec::new() }
}

/// Text that the model is told with the prompt.
fn asked() -> String {
    format!(
        "\n\n[From the agent, not the user: a program reads your answer. Work as usual, with tools. Your last message, \
         when you are done, is JSON that fits this JSON Schema, and nothing else: no words around it, no Markdown.\n{}]",
        schema()
    )
}

#[tokio::test]
async fn the_model_is_told_the_schema_and_works_with_tools_and_words_until_its_last_message() {
    let mut look = calls("look", json!({}));
    look.insert(0, says("Let me see.").remove(0));
    let ran = run("count", vec![look, says(FITTING_ANSWER)]).await;
    assert_eq!((ran.reason, ran.notices), (StopReason::EndTurn, vec![]));
    assert_eq!(ran.told[0], format!("user: count{}", asked()));
}

#[tokio::test]
async fn a_message_that_does_not_fit_is_asked_for_again_with_its_faults() {
    let answers = vec![says("Three files."), says("{\"files\": \"3\"}"), says(FITTING_ANSWER)];
    let ran = run("count", answers).await;
    assert_eq!(ran.reason, StopReason::EndTurn);
    let type_fault = "`/files` must be of the type integer, and is of the type string";
    assert_eq!(
        ran.told[4],
        format!(
            "user: [From the agent, not the user: your last message does not fit the JSON Schema of the answer: \
             {type_fault}. Answer again: the whole JSON, corrected, and nothing else. The schema:\n{}]",
            schema()
        )
    );
    let again = |faults: &str, n: usize| {
        format!(
            "The answer does not fit the schema ({faults}); tandem asks the model again ({n} of 2)."
        )
    };
    let no_json = "the message is not JSON alone: expected value at line 1 column 1";
    assert_eq!(ran.notices, [again(no_json, 1), again(type_fault, 2)]);
}

#[tokio::test]
async fn after_two_more_tries_the_turn_ends_with_the_faults() {
    let ran = run("count", vec![says("{}"), says("{}"), says("{}")]).await;
    assert_eq!(ran.reason, StopReason::SchemaMismatch("the value lacks `files`".to_owned()));
    assert_eq!(ran.notices.len(), 2);
}

#[tokio::test]
async fn an_answer_that_was_cut_is_no_answer_of_the_wrong_form() {
    let finish = Finish { reason: FinishReason::MaxTokens, ..Finish::default() };
    let cut = vec![Ok(Chunk::Text("{\"fil".to_owned())), Ok(Chunk::Finish(finish))];
    assert_eq!(run("count", vec![cut]).await.reason, StopReason::MaxTokens);
}

#[tokio::test]
async fn the_prompt_of_a_command_asks_for_the_schema_as_well() {
    let ran = run("/init", vec![says(FITTING_ANSWER)]).await;
    assert_eq!(ran.reason, StopReason::EndTurn);
    assert!(ran.told[0].starts_with("user: Write `") && ran.told[0].ends_with(&asked()));
}

#[tokio::test]
async fn the_next_prompt_is_free_again_and_people_are_shown_the_words_alone() {
    let (spy, told) = Spy::new(vec![says(FITTING_ANSWER), says("Good.")]);
    let session = with_model(spy, vec![]);
    run_in(&session, "count").await;
    let mut log = session.events(session.position());
    session.prompt(text("thanks"), Origin::Terminal);
    until(&mut log, is_end).await;
    assert_eq!(told.lock().unwrap()[2], "user: thanks");
    assert_eq!(session.title(), "count");
}
