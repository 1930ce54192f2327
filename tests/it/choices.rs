//! The answers that questions offer: each has the effect that its label names, and every front end offers the same.

use std::path::PathBuf;
use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::{Value, json};
use tandem_agent::session::{
    Access, CallStarted, Choice, ChoiceKind, Event, Origin, Parts, Question, QuestionSubject,
    Scope, Session, ToolKind, ToolOutcome,
};
use tandem_approval::consent::{Consent, ConsentStatus, Executable, Review};
use tandem_approval::{LoadedRules, PolicySetup, RuleStore, Saved};
use tokio::time::timeout;

use crate::a2a::first_options;
use crate::acp_v1::first_names;
use crate::agent::{HANG, Setup};
use crate::fakes::{Fake, NoRules, Spy, calls, is_end, parts, says, text, until};

/// Saved answers, as a file would keep them.
#[derive(Default)]
struct SavedAnswers(Mutex<Vec<Saved>>);

impl RuleStore for SavedAnswers {
    fn load(&self) -> LoadedRules {
        LoadedRules { saved: self.0.lock().clone(), ..NoRules.load() }
    }

    fn save(&self, saved: &Saved) -> Result<PathBuf, String> {
        self.0.lock().push(saved.clone());
        Ok(PathBuf::from("saved.toml"))
    }

    fn remove(&self, _: &Saved) -> Result<(), String> {
        Err("nothing is removed in this test".to_owned())
    }
}

/// Returns `true` if a choice is saved for later sessions.
fn is_saved(choice: &Choice) -> bool {
    matches!(choice.kind, ChoiceKind::AllowAndSave | ChoiceKind::RejectAndSave)
}

/// Runs a turn, and answers its question with the choice of this index. Returns the choice, and `true` if the call
/// ran; `None` if no question is asked.
async fn turn(session: &Session, choice: usize) -> Option<(Choice, bool)> {
    let mut log = session.events(session.position());
    session.prompt(text("go"), Origin::Editor);
    let (mut chosen, mut ran) = (None, false);
    let reading = until(&mut log, |event| {
        match event {
            Event::CallStarted(started) if started.question.is_some() => {
                let choice = offered(started).swap_remove(choice);
                session.answer(&started.call.id, choice.answer.clone(), Origin::Editor).unwrap();
                chosen = Some(choice);
            }
            Event::CallFinished { outcome, .. } => ran = matches!(outcome, ToolOutcome::Done(_)),
            _ => {}
        }
        is_end(event)
    });
    timeout(HANG, reading).await.expect("the turn does not end");
    chosen.map(|choice| (choice, ran))
}

fn offered(started: &CallStarted) -> Vec<Choice> {
    started.question.as_ref().map(Question::choices).unwrap_or_default()
}

/// Returns a session whose model fetches a page in each turn, and the session's saved answers.
fn fetching() -> (Arc<Session>, Arc<SavedAnswers>) {
    let fetch = || calls("fetch", json!({}));
    let (model, _) = Spy::new(vec![fetch(), says("done"), fetch(), says("done")]);
    let access =
        Access::Fetch { urls: vec!["https://example.com/".to_owned()], allowed: Vec::new() };
    let kept = Arc::<SavedAnswers>::default();
    let store = Arc::<SavedAnswers>::clone(&kept);
    let policy = PolicySetup { can_save: true, ..PolicySetup::new(store) };
    let tools: Vec<Arc<dyn tandem_host::Tool>> =
        vec![Arc::new(Fake::new("fetch", ToolKind::Fetch, access))];
    (Session::new(Parts { tools, policy, ..parts(model) }), kept)
}

#[tokio::test]
async fn each_answer_about_a_call_lasts_as_long_as_its_kind_says() {
    let expected = [
        ChoiceKind::AllowOnce,
        ChoiceKind::AllowAlways,
        ChoiceKind::AllowAndSave,
        ChoiceKind::RejectOnce,
        ChoiceKind::RejectSaying,
    ];
    for (n, expected) in expected.into_iter().enumerate() {
        let (session, kept) = fetching();
        let (choice, ran) = turn(&session, n).await.expect("nothing is asked");
        assert_eq!(choice.kind, expected, "{choice:?}");
        assert_eq!(ran, choice.kind.allows(), "{choice:?}");
        assert_eq!(kept.0.lock().len(), usize::from(is_saved(&choice)), "{choice:?}");
        let asks_again = turn(&session, n).await.is_some();
        let lasts = choice.scope().is_some();
        assert_eq!(asks_again, !lasts, "{choice:?}");
    }
}

#[tokio::test]
async fn each_answer_about_a_folders_programs_is_stored() {
    for (n, yes) in [(0, true), (1, false)] {
        let kept = Arc::<Mutex<Vec<bool>>>::default();
        let keep = Arc::clone(&kept);
        let program = Executable {
            kind: "hook",
            name: "x".to_owned(),
            runs: "x".to_owned(),
            shown: "x".to_owned(),
        };
        let found = Review { executables: vec![program], status: ConsentStatus::Pending };
        let look = move || found.clone();
        let consent = Consent::new(look, move |_, yes| {
            keep.lock().push(yes);
            Ok(())
        });
        let (model, _) = Spy::new(vec![says("done"), says("done")]);
        let session = Session::new(Parts { consent, ..parts(model) });
        let (choice, ran) = turn(&session, n).await.expect("nothing is asked");
        assert!(is_saved(&choice) && choice.kind.allows() == yes && ran == yes, "{choice:?}");
        assert_eq!(*kept.lock(), [yes]);
        assert_eq!(turn(&session, n).await, None);
    }
}

#[test]
fn an_answer_that_is_stored_never_says_once() {
    let scopes = vec![Scope::Edits, Scope::Tool("x".to_owned())];
    let of = |subject| Question {
        subject,
        scopes: scopes.clone(),
        can_save: true,
        ..Question::default()
    };
    let subjects = [
        QuestionSubject::Call,
        QuestionSubject::Connection,
        QuestionSubject::FolderPrograms,
        QuestionSubject::Repetition,
        QuestionSubject::UserInput,
    ];
    for choice in subjects.into_iter().flat_map(|subject| of(subject).choices()) {
        let label = &choice.label;
        let passing = ["once", "session", "until"].iter().any(|word| label.contains(word));
        assert!(!(is_saved(&choice) && passing), "{label}");
        assert_eq!(choice.label.starts_with("Yes"), choice.kind.allows(), "{label}");
        assert_eq!(choice.answer.decision().runs(), choice.kind.allows(), "{label}");
    }
}

/// Checks that the first question of an agent offers the same over ACP 1 and A2A.
async fn same(setup: &Setup, expected: &[&str]) {
    assert_eq!(first_names(setup).await, expected);
    assert_eq!(first_options(setup).await, expected);
}

fn calling(tool: &str, args: Value) -> Setup {
    let call = json!({ "call": { "name": tool, "args": args } });
    let setup = Setup::answers(json!([[call], [{ "text": "done" }]])).without_sandbox();
    let saves = r#"{ "security": { "enablePermanentToolApproval": true } }"#;
    setup.file("../.gemini/settings.json", saves)
}

#[tokio::test]
async fn every_protocol_offers_the_same_answers_about_a_command() {
    let setup = calling("run_shell_command", json!({ "command": "touch a" }));
    let expected = [
        "Yes, this once",
        "Yes, and while this session is open: commands that begin with `touch`",
        "Yes, and while this session is open: exactly `touch a`",
        "Yes, and while this session is open: every call of `run_shell_command`",
        "Yes, and for good in this folder: commands that begin with `touch`",
        "No",
    ];
    same(&setup, &expected).await;
}

#[tokio::test]
async fn every_protocol_offers_the_same_answers_about_a_folders_programs() {
    let program = "prompt = \"\"\"made !{touch made}\"\"\"\n";
    let setup = calling("list_directory", json!({ "path": "." }));
    let setup = setup.file(".gemini/commands/x.toml", program);
    let expected = ["Yes, run these programs from now on", "No, never run these programs"];
    same(&setup, &expected).await;
}
