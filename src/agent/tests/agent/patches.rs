//! Patches in a session: one question, one undo, and an offer only to models that know patches.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use expect_test::expect;
use futures::stream::{self, BoxStream, StreamExt as _};
use serde_json::{Value, json};
use tandem_agent::session::{Answer, Event, Origin, Parts, Session, ToolOutcome};
use tandem_approval::Mode;
use tandem_model::{Chunk, Error, Model, Prompt};
use tandem_tools as tools;
use tempfile::TempDir;

use test_fakes::{Spy, calls, host, is_end, parts, says, text, until};

const LINES: &str = "*** Begin Patch\n*** Update File: a\n-one\n+1\n*** Add File: new/b\n+b\n\
    *** Delete File: c\n*** Update File: d\n*** Move to: e\n*** End Patch\n";

fn workspace() -> TempDir {
    let dir = TempDir::new().unwrap();
    for (path, content) in [("a", "one\n"), ("c", "c\n"), ("d", "d\n")] {
        fs::write(dir.path().join(path), content).unwrap();
    }
    dir
}

/// Returns the names and contents of all files, in order.
fn files(dir: &Path) -> String {
    let read = |path: &str| fs::read_to_string(dir.join(path)).ok();
    let paths = ["a", "c", "d", "e", "new/b"];
    paths.iter().filter_map(|path| Some(format!("{path}: {}", read(path)?))).collect()
}

/// Runs a turn in which the model makes one call, and gives this answer to each question.
async fn turn(dir: &TempDir, mode: Mode, call: (&str, Value), answer: Answer) -> Turn {
    let (spy, _) = Spy::new(vec![calls(call.0, call.1), says("done")]);
    let session =
        Session::new(Parts { tools: tools::all(), host: host(dir.path()), mode, ..parts(spy) });
    let mut log = session.events(0);
    session.prompt(text("go"), Origin::Editor);
    let mut events = Vec::new();
    loop {
        let event = test_fakes::next(&mut log).await;
        if let Event::CallStarted(started) = &*event
            && started.question.is_some()
        {
            session.answer(&started.call.id, answer.clone(), Origin::Editor).unwrap();
        }
        let ends = is_end(&event);
        events.push(event);
        if ends {
            return Turn { session, events };
        }
    }
}

struct Turn {
    session: Arc<Session>,
    events: Vec<Arc<Event>>,
}

impl Turn {
    fn questions(&self) -> usize {
        let asks = |event: &&Arc<Event>| matches!(&***event, Event::CallStarted(started) if started.question.is_some());
        self.events.iter().filter(asks).count()
    }

    fn outcome(&self) -> &ToolOutcome {
        let mut events = self.events.iter().rev();
        let outcome = events.find_map(|event| match &**event {
            Event::CallFinished { outcome, .. } => Some(outcome),
            _ => None,
        });
        outcome.unwrap()
    }
}

#[tokio::test]
async fn a_patch_of_several_files_is_asked_about_once_and_undone_as_one_call() {
    let dir = workspace();
    let before = files(dir.path());
    let yes = Answer::Once { edited: None };
    let turn = turn(&dir, Mode::Default, ("apply_patch", json!({ "input": LINES })), yes).await;
    assert_eq!(turn.questions(), 1);
    assert!(matches!(turn.outcome(), ToolOutcome::Done(_)), "{:?}", turn.outcome());
    expect![[r"
        a: 1
        e: d
        new/b: b
    "]]
    .assert_eq(&files(dir.path()));
    let mut log = turn.session.events(turn.session.position());
    turn.session.prompt(text("/restore turn 1"), Origin::Editor);
    until(&mut log, is_end).await;
    assert_eq!(files(dir.path()), before);
    assert!(!dir.path().join("new").exists());
}

#[tokio::test]
async fn a_no_to_the_question_changes_no_file() {
    let dir = workspace();
    let before = files(dir.path());
    let call = ("apply_patch", json!({ "input": LINES }));
    let turn = turn(&dir, Mode::Default, call, Answer::Reject).await;
    assert_eq!((turn.questions(), turn.outcome()), (1, &ToolOutcome::Rejected));
    assert_eq!(files(dir.path()), before);
}

#[tokio::test]
async fn a_text_in_place_of_several_files_is_refused() {
    let dir = workspace();
    let before = files(dir.path());
    let edited = Answer::Once { edited: Some("x".to_owned()) };
    let call = ("apply_patch", json!({ "input": LINES }));
    let turn = turn(&dir, Mode::Default, call, edited).await;
    assert!(matches!(turn.outcome(), ToolOutcome::Failed(error) if error.kind == "not_editable"));
    assert_eq!(files(dir.path()), before);
}

#[tokio::test]
async fn a_command_line_that_applies_a_patch_is_an_edit_and_no_command_runs() {
    let heredoc = format!("apply_patch <<'EOF'\n{LINES}EOF\n");
    for command in [json!(heredoc), json!(["apply_patch", LINES]), json!(["bash", "-lc", heredoc])]
    {
        let dir = workspace();
        let call = ("shell", json!({ "command": command }));
        // The mode allows edits without a question, and asks about commands: no question shows that the call is an
        // edit.
        let turn = turn(&dir, Mode::AutoEdit, call, Answer::Reject).await;
        assert_eq!(turn.questions(), 0);
        assert!(matches!(turn.outcome(), ToolOutcome::Done(_)), "{:?}", turn.outcome());
        assert!(files(dir.path()).starts_with("a: 1\n"));
    }
}

#[tokio::test]
async fn a_command_line_with_a_patch_is_not_allowed_by_what_allows_commands() {
    let dir = workspace();
    let before = files(dir.path());
    let call = ("shell", json!({ "command": ["apply_patch", LINES] }));
    let turn = turn(&dir, Mode::Plan, call, Answer::Reject).await;
    assert!(matches!(turn.outcome(), ToolOutcome::Failed(error) if error.kind == "policy_denied"));
    assert_eq!(files(dir.path()), before);
}

/// A model of which only the id is asked.
struct Named(&'static str);

impl Model for Named {
    fn id(&self) -> &str {
        self.0
    }

    fn ready(&self) -> Result<(), Error> {
        Ok(())
    }

    fn stream(&self, _: Prompt) -> BoxStream<'static, Result<Chunk, Error>> {
        stream::empty().boxed()
    }
}

/// Returns the tools with which a model of this id edits files, in a session that is limited to `limit`, if given.
fn editors(id: &'static str, limit: Option<&[&str]>) -> Vec<String> {
    let dir = workspace();
    let session = Session::new(Parts {
        tools: tools::all(),
        host: host(dir.path()),
        ..parts(Arc::new(Named(id)))
    });
    if let Some(limit) = limit {
        session.limit_tools(limit.iter().map(|&name| name.to_owned()).collect());
    }
    let names = session.tools().iter().map(|tool| tool.name.clone()).collect::<Vec<_>>();
    names.into_iter().filter(|name| ["apply_patch", "replace"].contains(&&**name)).collect()
}

#[tokio::test]
async fn gpt_models_are_offered_patches_and_others_replaced_texts() {
    assert_eq!(editors("openai:gpt-6.1-sol", None), ["apply_patch"]);
    assert_eq!(editors("openrouter:openai/gpt-5.4", None), ["apply_patch"]);
    assert_eq!(editors("anthropic:claude-opus-5", None), ["replace"]);
    // A session whose tool limit excludes the preferred tool is offered the other tool.
    assert_eq!(editors("gpt-5", Some(&["read_file", "replace"])), ["replace"]);
    assert_eq!(editors("gpt-5", Some(&["read_file"])), [""; 0]);
    assert_eq!(editors("claude-opus-5", Some(&["apply_patch"])), ["apply_patch"]);
}
