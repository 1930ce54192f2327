//! The size of a long session on the disk.

use std::fs;

use serde_json::{Value, json};
use tandem_agent::session::{Event, ToolOutcome};

use super::{Home, ask, end};
use crate::agent::{Agent, Setup};
use test_fakes::store::stored;

/// Maximum size of a log, in percent of the conversation's texts.
const MOST: usize = 120;

/// Maximum size of a log's compressions, in percent of the log.
const COMPRESSIONS: usize = 5;

/// Returns the number of bytes of all texts in an event: prompts, answers, arguments and results of calls.
fn said(event: &Event) -> usize {
    match event {
        Event::SystemPrompt(text) => text.len(),
        Event::TurnQueued { prompt, .. } => prompt.iter().map(|part| part.to_string().len()).sum(),
        Event::Text(text) | Event::Thought(text) | Event::Output(text) | Event::Notice(text) => {
            text.len()
        }
        Event::AnswerFinished { calls, .. } => {
            calls.iter().map(|call| call.args.to_string().len()).sum()
        }
        Event::CallFinished { outcome: ToolOutcome::Done(output), .. } => output.text.len(),
        _ => 0,
    }
}

/// Ends an agent, and checks the size of the only session's log; returns that with the session's events.
async fn measure(home: &Home, agent: Agent) -> (usize, Vec<(usize, Event)>) {
    end(agent).await;
    let id = home.id().await;
    let events = stored(&*home.store(), &id).await;
    let log = fs::metadata(home.sessions().join(&id).join("log.jsonl")).unwrap().len();
    let log = usize::try_from(log).unwrap();
    let said: usize = events.iter().map(|(_, event)| said(event)).sum();
    let chunks = events.iter().filter(|(_, event)| matches!(event, Event::Text(_))).count();
    assert_eq!(chunks, 20_000);
    assert!(log <= said * MOST / 100, "{log} bytes for {said}");
    (log, events)
}

fn words(times: usize) -> Value {
    json!({ "repeat": { "text": "some words of an answer, number {n}, ", "times": times } })
}

#[tokio::test]
async fn the_chunks_of_a_long_answer_take_little_more_than_their_words() {
    let mut home = Home::new();
    home.setup = Setup::answers(json!([[words(20_000)]]));
    let mut agent = home.start("", &[]);
    ask(&mut agent, "say much").await;
    measure(&home, agent).await;
}

#[tokio::test]
async fn a_long_session_takes_little_more_than_what_was_said_however_often_it_is_compressed() {
    let mut home = Home::new();
    let summary = "<state_snapshot>\nMuch was read.\n</state_snapshot>";
    let read = json!({ "call": { "name": "read_file", "args": { "file_path": "long.txt" } } });
    let lines: String = (0..400).map(|n| format!("line {n} of a file that is read\n")).collect();
    home.setup = Setup::script(vec![
        json!({ "when": "<conversation>", "answers": [[{ "text": summary }]] }),
        json!({ "when": "", "answers": [[words(100), read], [words(100)]] }),
    ])
    .file("long.txt", &lines);
    let mut agent = home.start("", &[]);
    for n in 0..100 {
        ask(&mut agent, &format!("prompt {n}: {}", "and more. ".repeat(20))).await;
        ask(&mut agent, "/compress").await;
    }
    let (log, events) = measure(&home, agent).await;
    let compressed = events.iter().filter(|(_, event)| matches!(event, Event::Compressed(_)));
    let sizes: Vec<_> =
        compressed.map(|(_, event)| serde_json::to_string(event).unwrap().len()).collect();
    assert_eq!(sizes.len(), 100);
    assert!(sizes.iter().sum::<usize>() <= log * COMPRESSIONS / 100, "{sizes:?} of {log}");
}
