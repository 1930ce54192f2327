//! The front end alone: what the model is told, and a person who watches.

use std::sync::{Arc, OnceLock};

use serde_json::{Value, json};
use tandem_agent::session::Session;
use tandem_headless::{self as headless, Format, HeadlessOptions, OutputStreams, RunFailure};
use tandem_host::{Access, ToolError, ToolKind};
use tandem_model::{Call, Chunk, Error, Finish, Usage};
use test_fakes::{Fake, Spy, other, session, text, with_model};

/// Returns the answer, the rest of the output, and the failure.
async fn shown(session: &Arc<Session>, progress: bool) -> (String, String, Option<RunFailure>) {
    written(session, Format::Text, progress).await
}

async fn written(
    session: &Arc<Session>,
    format: Format,
    progress: bool,
) -> (String, String, Option<RunFailure>) {
    let (mut answer, mut notes) = (Vec::new(), Vec::new());
    let signal = Arc::new(OnceLock::new());
    let options =
        HeadlessOptions { format, shared: false, progress, fail_on_refusal: false, signal };
    let outputs = OutputStreams { answer: &mut answer, notes: &mut notes };
    let failure = headless::run(session, text("go"), options, outputs).await.unwrap();
    (String::from_utf8(answer).unwrap(), String::from_utf8(notes).unwrap(), failure)
}

#[tokio::test]
async fn the_model_is_told_that_nobody_can_be_asked() {
    let call = Call { id: "c1".to_owned(), name: "t".to_owned(), args: json!({}) };
    let answers: Vec<Vec<Result<Chunk, Error>>> =
        vec![vec![Ok(Chunk::Call(call))], vec![Ok(Chunk::Text("on".to_owned()))]];
    let (spy, told) = Spy::new(answers);
    let session = with_model(spy, vec![Fake::new("t", ToolKind::Other, other())]);
    let (answer, ..) = shown(&session, false).await;
    assert_eq!(answer, "on\n");
    assert_eq!(
        told.lock().unwrap()[2],
        "results: c1! Not run: this needs a person's permission (this mode asks before a call does more than \
         read [built-in rule other]), and this run has nobody who can be asked, now or later. Do not try it \
         again in another way. Go on without it; if the task cannot be done without it, say in your answer what \
         you would need."
    );
}

#[tokio::test]
async fn who_watches_is_told_what_goes_on() {
    let answers = json!([
        [{ "text": "half" }, { "retry": { "reason": "empty answer", "delay": 1, "attempt": 2,
            "of": 4, "discard": true } }, { "text": "whole" }, { "call": { "name": "look" } },
            { "call": { "name": "ask" } }],
        [{ "text": "red: \u{1b}[31m" }, { "finish": "max_tokens" }],
    ]);
    let look = Fake::new("look", ToolKind::Read, Access::Read)
        .running(|_| async { Err(ToolError::new("gone", "not\nthere \u{7}")) });
    let tools = vec![look, Fake::new("ask", ToolKind::Other, other())];
    let (answer, notes, failure) = shown(&session(answers, tools), true).await;
    let interrupted = "*The answer was interrupted (empty answer) and starts again from here.*";
    assert_eq!(answer, format!("half\n\n{interrupted}\n\nwhole\nred: ␛[31m\n"));
    assert_eq!(
        notes,
        "* Retrying in 1 s (2 of 4): empty answer; the answer begins again\n* look\n\u{20} failed: not there \
         ␇\ntandem: not allowed without `--allowed-tools ask`: ask (this mode asks before a call does more than \
         read [built-in rule other])\ntandem: The answer was cut at the model's output limit. Say \"continue\" \
         for the rest.\n"
    );
    let why = "The answer was cut at the model's output limit. Say \"continue\" for the rest.";
    assert_eq!(failure, Some(RunFailure::AnswerCut(why.to_owned())));
}

#[tokio::test]
async fn tokens_are_counted_as_gemini_cli_does() {
    let call = Call { id: "c1".to_owned(), name: "t".to_owned(), args: json!({}) };
    let usage = Usage { input: 100, cached: 30, output: 20, thoughts: 5, ..Usage::default() };
    let session = || {
        let finish = || Ok(Chunk::Finish(Finish { usage, ..Finish::default() }));
        let answers = vec![
            vec![Ok(Chunk::Call(call.clone())), finish()],
            vec![Ok(Chunk::Text("on".to_owned())), finish()],
        ];
        with_model(Spy::new(answers).0, vec![Fake::new("t", ToolKind::Read, Access::Read)])
    };
    let (json, ..) = written(&session(), Format::Json, false).await;
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(
        json["stats"]["models"]["spy"]["tokens"],
        json!({ "input": 140, "prompt": 200, "candidates": 40, "total": 250, "cached": 60,
            "thoughts": 10, "tool": 0 })
    );
    let (stream, ..) = written(&session(), Format::StreamJson, false).await;
    let last: Value = serde_json::from_str(stream.lines().last().unwrap()).unwrap();
    let mut stats = last["stats"].clone();
    stats.as_object_mut().unwrap().remove("duration_ms");
    let tokens = json!({ "total_tokens": 250, "input_tokens": 200, "output_tokens": 40,
        "cached": 60, "input": 140 });
    let mut expected = tokens.clone();
    expected["tool_calls"] = json!(1);
    expected["models"] = json!({ "spy": tokens });
    assert_eq!(stats, expected);
}
