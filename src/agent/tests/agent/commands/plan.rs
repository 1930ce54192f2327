//! `/plan`.

use serde_json::json;
use tandem_agent::session::{Answer, Event, Origin, ToolOutcome};
use tandem_approval::Mode;
use tandem_tools as tools;

use super::{Stage, calls, says};
use test_fakes::{is_end, text, until};

/// Returns all outputs of a command.
async fn said(stage: &Stage, command: &str) -> String {
    let events = stage.turn(command).await;
    let said = events.iter().filter_map(|event| match &**event {
        Event::Output(said) | Event::CommandFailed(said) => Some(said.as_str()),
        _ => None,
    });
    said.collect()
}

const BEGUN: &str = "The mode is `plan` now: calls that read files or the web are allowed, and all others are \
    refused. `/plan off` ends this mode.";
const NOT_BEGUN: &str = "The mode is not changed: `/plan off` ends plan mode only where `/plan` began it. Set \
    another mode in your editor or terminal.";

#[tokio::test]
async fn in_plan_mode_nothing_is_changed_and_nobody_asked() {
    let write = calls("write_file", json!({ "file_path": "a.txt", "content": "a" }));
    let stage = Stage::with(vec![write, says("done")], |parts| tandem_agent::session::Parts {
        tools: tools::all(),
        mode: Mode::Yolo,
        ..parts
    });
    assert_eq!(said(&stage, "/plan").await, BEGUN);
    assert_eq!(stage.session.modes().current(), Mode::Plan);
    let events = stage.turn("go").await;
    let refused = events.iter().any(|event| {
        matches!(&**event, Event::CallFinished { outcome: ToolOutcome::Failed(_), .. })
    });
    assert!(refused, "{events:?}");
    assert!(!stage.project("a.txt").exists());
    assert_eq!(said(&stage, "/plan").await, "The mode is `plan` already.");
    assert_eq!(said(&stage, "/plan off").await, "The mode is `yolo` again.");
    assert_eq!(stage.session.modes().current(), Mode::Yolo);
}

#[tokio::test]
async fn a_mode_that_a_person_has_set_is_not_undone_by_the_command() {
    let stage =
        Stage::with(vec![], |parts| tandem_agent::session::Parts { mode: Mode::Plan, ..parts });
    assert_eq!(said(&stage, "/plan off").await, NOT_BEGUN);
    assert_eq!(stage.session.modes().current(), Mode::Plan);
    stage.session.modes().set(Mode::Yolo).unwrap();
    assert_eq!(said(&stage, "/plan").await, BEGUN);
    stage.session.modes().set(Mode::Default).unwrap();
    stage.session.modes().set(Mode::Plan).unwrap();
    assert_eq!(said(&stage, "/plan off").await, NOT_BEGUN);
    assert_eq!(stage.session.modes().current(), Mode::Plan);
}

/// Returns the texts in brackets that the model was told, in order. `true`: the text tells that plan mode has begun.
fn told_of_plan(stage: &Stage) -> Vec<(String, bool)> {
    let told = stage.told();
    let line = |line: &String| {
        let (said, of_plan) = line.split_once("\n\n[Plan mode ")?;
        Some((said.to_owned(), of_plan.starts_with("is on")))
    };
    told.iter().filter_map(line).collect()
}

#[tokio::test]
async fn the_model_is_told_when_plan_mode_begins_and_ends_and_nothing_between() {
    let answers = ["one", "two", "three", "four", "five", "six"].map(says);
    let stage = Stage::new(answers.into());
    stage.turn("first").await;
    assert_eq!(told_of_plan(&stage), []);
    stage.turn("/plan").await;
    stage.turn("second").await;
    stage.turn("third").await;
    stage.turn("/plan off").await;
    // Plan mode was on only between two prompts, so the model is told nothing.
    stage.session.modes().set(Mode::Plan).unwrap();
    stage.session.modes().set(Mode::Default).unwrap();
    stage.turn("fourth").await;
    stage.turn("fifth").await;
    let told = told_of_plan(&stage);
    assert_eq!(told, [("user: second".to_owned(), true), ("user: fourth".to_owned(), false)]);
    stage.session.modes().set(Mode::Plan).unwrap();
    stage.turn("/clear").await;
    stage.turn("sixth").await;
    // The conversation begins anew, so its system instruction has the mode.
    assert_eq!(told_of_plan(&stage), []);
    assert!(stage.system().contains("\n- Plan mode is on: "), "{}", stage.system());
}

#[tokio::test]
async fn a_change_of_the_mode_in_the_middle_of_a_turn_is_told_once_with_the_next_results() {
    let read = || calls("list_directory", json!({ "path": "." }));
    let write = || calls("write_file", json!({ "file_path": "a.txt", "content": "a" }));
    let answers = vec![read(), write(), read(), says("done"), says("again")];
    let stage =
        Stage::with(answers, |parts| tandem_agent::session::Parts { tools: tools::all(), ..parts });
    // The mode changes while the call waits for the answer to its question.
    let mut log = stage.session.events(0);
    stage.session.prompt(text("go"), Origin::Editor);
    let asked = until(
        &mut log,
        |event| matches!(event, Event::CallStarted(started) if started.question.is_some()),
    );
    let asked = asked.await;
    let Event::CallStarted(asked) = &**asked.last().unwrap() else { unreachable!() };
    stage.session.modes().set(Mode::AutoEdit).unwrap();
    stage.session.answer(&asked.call.id, Answer::Once { edited: None }, Origin::Editor).unwrap();
    until(&mut log, is_end).await;
    stage.turn("and now?").await;
    let told = stage.told();
    let says_it = |line: &&String| line.contains("[Approval mode `auto_edit`: ");
    let saying: Vec<_> = told.iter().filter(says_it).collect();
    assert!(saying.len() == 1 && saying[0].starts_with("results: write_file-2 "), "{told:#?}");
    assert!(stage.system().contains("\n- Approval mode `default`: "), "{}", stage.system());
}
