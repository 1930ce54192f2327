//! Programs in a project's own settings: the user is asked once for the folder.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use tandem_agent::session::{Answer, Event, Origin, Parts, Session, StopReason, ToolOutcome};
use tandem_approval::consent::{Consent, ConsentError, ConsentStatus, Executable, Review};
use tandem_model::replay::Replay;
use tandem_settings::{self as config, Env};
use tempfile::TempDir;

use test_fakes::{Spy, is_end, next, parts, text, until};

fn server(runs: &str) -> Executable {
    let (name, runs) = ("db".to_owned(), runs.to_owned());
    Executable { kind: "MCP server", name, shown: runs.clone(), runs }
}

/// Returns a consent without an answer, and the answers that it has saved.
fn open() -> (Arc<Consent>, Arc<Mutex<Vec<bool>>>) {
    let kept = Arc::<Mutex<Vec<bool>>>::default();
    let keep = Arc::clone(&kept);
    let found =
        Review { executables: vec![server("npx db-server")], status: ConsentStatus::Pending };
    let consent = Consent::new(
        move || found.clone(),
        move |_, yes| {
            keep.lock().unwrap().push(yes);
            Ok(())
        },
    );
    (consent, kept)
}

fn session(consent: &Arc<Consent>) -> Arc<Session> {
    let script = json!({ "when": "", "answers": [[{ "text": "hi" }]] }).to_string();
    let model = Arc::new(Replay::from_script(&script).unwrap());
    Session::new(Parts { consent: Arc::clone(consent), ..parts(model) })
}

/// Runs a turn in which each question gets this answer. Returns the questions and their outcomes, and the end of the
/// turn.
async fn turn(session: &Arc<Session>, answer: &Answer) -> (Vec<String>, StopReason) {
    let mut log = session.events(session.position());
    let mut seen = Vec::new();
    session.prompt(text("go"), Origin::Editor);
    loop {
        match &*next(&mut log).await {
            Event::CallStarted(started) => {
                seen.push(format!("asked {}", started.call.args["runs"][0]));
                session.answer(&started.call.id, answer.clone(), Origin::Editor).unwrap();
            }
            Event::CallFinished { outcome, .. } => seen.push(match outcome {
                ToolOutcome::Done(_) => "done".to_owned(),
                ToolOutcome::Failed(error) => error.kind.clone(),
                other => format!("{other:?}"),
            }),
            Event::TurnFinished { reason, .. } => return (seen, reason.clone()),
            _ => {}
        }
    }
}

const ASKED: &str = "asked \"MCP server `db`: npx db-server\"";

#[tokio::test]
async fn the_first_turn_asks_once_and_yes_settles_it() {
    let (consent, kept) = open();
    let session = session(&consent);
    let waiting = tokio::spawn({
        let consent = Arc::clone(&consent);
        async move { consent.settled().await }
    });
    assert!(!consent.is_given());
    let once = Answer::Once { edited: None };
    assert_eq!(
        turn(&session, &once).await,
        (vec![ASKED.into(), "done".into()], StopReason::EndTurn)
    );
    assert!(consent.is_given() && waiting.await.unwrap());
    assert_eq!(turn(&session, &once).await, (vec![], StopReason::EndTurn));
    assert_eq!(*kept.lock().unwrap(), [true]);
}

#[tokio::test]
async fn after_a_no_the_turn_goes_on_without_it() {
    let (consent, kept) = open();
    let session = session(&consent);
    let seen = turn(&session, &Answer::Reject).await;
    assert_eq!(seen, (vec![ASKED.into(), "Rejected".into()], StopReason::EndTurn));
    assert!(!consent.settled().await);
    assert_eq!(turn(&session, &Answer::Reject).await, (vec![], StopReason::EndTurn));
    assert_eq!(*kept.lock().unwrap(), [false]);
}

#[tokio::test]
async fn what_is_no_answer_is_not_kept() {
    let (consent, kept) = open();
    let session = session(&consent);
    let cancelled = StopReason::Cancelled { answering: false };
    let seen = turn(&session, &Answer::Cancel).await;
    assert_eq!(seen, (vec![ASKED.into(), "Cancelled".into()], cancelled));
    let unclear = Answer::Unclear("?".into());
    assert_eq!(turn(&session, &unclear).await.0, [ASKED, "answer_unclear"]);
    let nobody = Answer::Nobody("nobody".into());
    assert_eq!(turn(&session, &nobody).await.0, [ASKED, "nobody_to_ask"]);
    assert_eq!(turn(&session, &nobody).await.0, Vec::<String>::new());
    assert!(!consent.is_given());
    assert!(kept.lock().unwrap().is_empty());
}

#[tokio::test]
async fn the_model_is_told_nothing_of_it() {
    let (model, told) = Spy::new(vec![vec![]]);
    let (consent, _) = open();
    let session = Session::new(Parts { consent, ..parts(model) });
    let mut log = session.events(0);
    session.prompt(text("go"), Origin::Editor);
    let events = until(&mut log, |event| matches!(event, Event::CallStarted(_))).await;
    let Some(Event::CallStarted(started)) = events.last().map(|event| &**event) else { panic!() };
    session.answer(&started.call.id, Answer::Reject, Origin::Editor).unwrap();
    until(&mut log, is_end).await;
    assert_eq!(*told.lock().unwrap(), ["user: go"]);
}

/// Answers about the present programs.
async fn answer(consent: &Arc<Consent>, yes: bool) -> Result<(), ConsentError> {
    let shown = consent.review().await.executables;
    consent.answer(&shown, yes).await
}

#[tokio::test]
async fn a_yes_counts_only_for_the_programs_that_were_shown() {
    let (runs, kept) = (Arc::new(Mutex::new("npx db-server")), Arc::<Mutex<Vec<_>>>::default());
    let (now, keep) = (Arc::clone(&runs), Arc::clone(&kept));
    let consent = Consent::new(
        move || {
            let executables = vec![server(*now.lock().unwrap())];
            Review { executables, status: ConsentStatus::Pending }
        },
        move |executables, yes| {
            keep.lock().unwrap().push((executables[0].runs.clone(), yes));
            Ok(())
        },
    );
    let session = session(&consent);
    for (begins, ends, outcome) in
        [("npx db-server", "npx evil", "programs_changed"), ("npx evil", "npx evil", "done")]
    {
        *runs.lock().unwrap() = begins;
        let mut log = session.events(session.position());
        session.prompt(text("go"), Origin::Editor);
        let events = until(&mut log, |event| matches!(event, Event::CallStarted(_))).await;
        let Some(Event::CallStarted(asked)) = events.last().map(|event| &**event) else { panic!() };
        assert!(asked.call.args["runs"][0].as_str().unwrap().ends_with(begins));
        *runs.lock().unwrap() = ends;
        // Another command, or a server that starts again, would have the programs reviewed in this way.
        consent.review_again();
        consent.status().await;
        session.answer(&asked.call.id, Answer::Once { edited: None }, Origin::Editor).unwrap();
        let events = until(&mut log, is_end).await;
        let came = events.iter().find_map(|event| match &**event {
            Event::CallFinished { outcome: ToolOutcome::Failed(error), .. } => Some(&*error.kind),
            Event::CallFinished { outcome: ToolOutcome::Done(_), .. } => Some("done"),
            _ => None,
        });
        assert_eq!((came, consent.is_given()), (Some(outcome), outcome == "done"));
    }
    assert_eq!(*kept.lock().unwrap(), [("npx evil".to_owned(), true)]);
}

/// A user's home, and a project in it.
struct Home {
    dir: TempDir,
}

impl Home {
    fn new() -> Self {
        let home = Self { dir: tempfile::tempdir().unwrap() };
        fs::create_dir_all(home.project()).unwrap();
        home
    }

    fn project(&self) -> PathBuf {
        self.dir.path().join("project")
    }

    fn file(&self) -> PathBuf {
        self.dir.path().join(".config/tandem/folders.json")
    }

    fn consent(&self, folder: &Path, runs: &[&str]) -> Arc<Consent> {
        let env = Env::new([("HOME".into(), self.dir.path().display().to_string())], folder);
        let runs: Vec<_> = runs.iter().map(|runs| server(runs)).collect();
        config::consent(env, folder, move || runs.clone())
    }

    async fn status(&self, runs: &[&str]) -> ConsentStatus {
        self.consent(&self.project(), runs).status().await
    }
}

#[tokio::test]
async fn an_answer_is_remembered_until_what_would_run_changes() {
    let home = Home::new();
    assert_eq!(home.status(&[]).await, ConsentStatus::Given);
    assert_eq!(home.status(&["a", "b"]).await, ConsentStatus::Pending);
    answer(&home.consent(&home.project(), &["a", "b"]), true).await.unwrap();
    assert_eq!(home.status(&["b", "a"]).await, ConsentStatus::Given);
    assert_eq!(home.status(&["a", "c"]).await, ConsentStatus::Pending);
    assert_eq!(home.status(&["a"]).await, ConsentStatus::Pending);
    answer(&home.consent(&home.project(), &["a"]), false).await.unwrap();
    assert_eq!(home.status(&["a"]).await, ConsentStatus::Refused);
    assert_eq!(home.consent(home.dir.path(), &["a"]).status().await, ConsentStatus::Pending);
    let mode = fs::metadata(home.file()).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}

#[tokio::test]
async fn a_folder_that_was_judged_elsewhere_is_not_asked_about() {
    let check = async |said: Value, expected| {
        let home = Home::new();
        fs::create_dir(home.dir.path().join(".gemini")).unwrap();
        let file = home.dir.path().join(".gemini/trustedFolders.json");
        fs::write(file, json!({ home.project().display().to_string(): said }).to_string()).unwrap();
        assert_eq!(home.status(&["a"]).await, expected, "{said}");
        assert!(!home.file().exists());
    };
    check(json!("TRUST_FOLDER"), ConsentStatus::Given).await;
    check(json!("DO_NOT_TRUST"), ConsentStatus::Refused).await;
    check(json!(null), ConsentStatus::Pending).await;
}

#[tokio::test]
async fn a_file_of_answers_that_cannot_be_believed_answers_nothing() {
    let home = Home::new();
    answer(&home.consent(&home.project(), &["a"]), true).await.unwrap();
    fs::set_permissions(home.file(), fs::Permissions::from_mode(0o666)).unwrap();
    assert_eq!(home.status(&["a"]).await, ConsentStatus::Pending);
    let consent = home.consent(&home.project(), &["a"]);
    let why = answer(&consent, true).await.unwrap_err().to_string();
    assert!(why.contains("folders.json can be written by other users"), "{why}");
    assert!(consent.is_given());
    fs::set_permissions(home.file(), fs::Permissions::from_mode(0o600)).unwrap();
    fs::write(home.file(), "{").unwrap();
    assert_eq!(home.status(&["a"]).await, ConsentStatus::Pending);
}
