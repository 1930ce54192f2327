//! The front end alone: what the model is told, and a person who watches.

use std::sync::{Arc, OnceLock};

use serde_json::{Value, json};
use tandem_agent::session::{AnswerSchema, Session};
use tandem_headless::{self as headless, Format, HeadlessOptions, OutputStreams, RunFailure};
use tandem_host::{Access, ToolError, ToolKind};
use tandem_model::{Call, Chunk, Error, Finish, Usage};
use test_fakes::{Fake, Spy, other, says, session, text, with_model};

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
    let options = HeadlessOptions {
        format,
        shared: false,
        progress,
        fail_on_refusal: false,
        answer_schema: None,
        signal,
    };
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

/// Runs a prompt for an answer that has `files`. Returns the answer and the failure.
async fn structured(answers: &[&str], format: Format) -> (String, Option<RunFailure>) {
    let schema = json!({ "type": "object", "required": ["files"] });
    let (mut answer, mut notes) = (Vec::new(), Vec::new());
    let options = HeadlessOptions {
        format,
        shared: false,
        progress: false,
        fail_on_refusal: false,
        answer_schema: Some(AnswerSchema::new(schema).unwrap()),
        signal: Arc::new(OnceLock::new()),
    };
    let outputs = OutputStreams { answer: &mut answer, notes: &mut notes };
    let (model, _) = Spy::new(answers.iter().map(|answer| says(answer)).collect());
    let session = with_model(model, vec![]);
    let failure = headless::run(&session, text("go"), options, outputs).await.unwrap();
    (String::from_utf8(answer).unwrap(), failure)
}

fn last_line(lines: &str) -> Value {
    serde_json::from_str(lines.lines().last().unwrap()).unwrap()
}

#[tokio::test]
async fn an_answer_of_a_schema_is_all_of_the_text_and_a_field_of_the_json() {
    let answers = ["Three.", "```json\n{\"files\": [1, \"\u{202e}\"]}\n```"];
    let (text, failure) = structured(&answers, Format::Text).await;
    assert_eq!((text.as_str(), failure), ("{\"files\":[1,\"\\u202e\"]}\n", None));
    let expected = json!({ "files": [1, "\u{202e}"] });
    let (object, _) = structured(&answers, Format::Json).await;
    let object: Value = serde_json::from_str(&object).unwrap();
    assert_eq!(object["structured_output"], expected);
    assert!(object["response"].as_str().unwrap().starts_with("```json"));
    let (lines, _) = structured(&answers, Format::StreamJson).await;
    let result = last_line(&lines);
    assert_eq!((&result["status"], &result["structured_output"]), (&json!("success"), &expected));
    // The schema is no word of the prompt.
    let prompt = lines.lines().find(|line| line.contains("\"role\":\"user\"")).unwrap();
    assert_eq!(last_line(prompt)["content"], "go");
}

#[tokio::test]
async fn an_answer_that_never_fits_is_a_failure_of_its_own() {
    let answers = ["{}", "{}", "{}"];
    let (text, failure) = structured(&answers, Format::Text).await;
    let failure = failure.unwrap();
    assert_eq!((text.as_str(), failure.code()), ("", 5));
    assert!(failure.to_string().contains("the value lacks `files`"), "{failure}");
    let (lines, _) = structured(&answers, Format::StreamJson).await;
    let result = last_line(&lines);
    assert_eq!(result.get("structured_output"), None);
    let found = [&result["status"], &result["stop_reason"], &result["error"]["type"]];
    assert_eq!(found, ["error", "schema_mismatch", "SchemaMismatchError"]);
}

#[tokio::test]
async fn a_command_that_asks_no_model_has_no_answer_of_a_schema() {
    let session = session(json!([]), vec![]);
    let schema = AnswerSchema::new(json!({ "type": "object" })).unwrap();
    let options = HeadlessOptions {
        format: Format::Text,
        shared: false,
        progress: false,
        fail_on_refusal: false,
        answer_schema: Some(schema),
        signal: Arc::new(OnceLock::new()),
    };
    let (mut answer, mut notes) = (Vec::new(), Vec::new());
    let outputs = OutputStreams { answer: &mut answer, notes: &mut notes };
    let failure = headless::run(&session, text("/about"), options, outputs).await.unwrap();
    let expected =
        "The prompt is a command that has not asked the model, so no answer fits the schema.";
    assert_eq!(failure, Some(RunFailure::SchemaMismatch(expected.to_owned())));
    assert!(answer.is_empty());
}
