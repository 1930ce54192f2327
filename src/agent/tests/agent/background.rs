//! Commands in the background of a session: who is told of their end.

use std::fs::OpenOptions;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock, Weak};

use expect_test::expect;
use serde_json::json;
use tandem_agent::session::{Event, Origin, Parts, Session, ToolKind, ToolOutcome};
use tandem_approval::Mode;
use tandem_host::background::JobState;
use tandem_host::{Access, Tool, ToolOutput};
use tandem_tools::all;
use tempfile::TempDir;
use test_fakes::{Chunks, Fake, Spy, calls, host, is_end, parts, says, text, until};
use test_support::fifo::make_fifo;
use test_support::limit::{HANG, wait_until};
use tokio::time::timeout;

fn starts(command: &str) -> Chunks {
    let args = json!({ "command": command, "is_background": true, "delay_ms": 1 });
    calls("run_shell_command", args)
}

/// A session in yolo mode, in a directory with a pipe that a command can wait for.
struct Stage {
    session: Arc<Session>,
    told: Arc<std::sync::Mutex<Vec<String>>>,
    home: TempDir,
}

impl Stage {
    fn new(answers: Vec<Chunks>, more: Option<Fake>) -> Self {
        let home = TempDir::new().unwrap();
        make_fifo(&home.path().join("go"));
        let (spy, told) = Spy::new(answers);
        let more = more.map(|fake| -> Arc<dyn Tool> { Arc::new(fake) });
        let session = Session::new(Parts {
            tools: all().into_iter().chain(more).collect(),
            host: host(home.path()),
            mode: Mode::Yolo,
            ..parts(spy as _)
        });
        Self { session, told, home }
    }

    async fn turn(&self, prompt: &str) -> Vec<Arc<Event>> {
        let mut log = self.session.events(self.session.position());
        self.session.prompt(text(prompt), Origin::Editor);
        until(&mut log, is_end).await
    }

    /// Returns the output of a command, or its error.
    async fn says(&self, prompt: &str) -> String {
        let events = self.turn(prompt).await;
        let outputs = events.iter().filter_map(|event| match &**event {
            Event::Output(output) | Event::CommandFailed(output) => Some(output.clone()),
            _ => None,
        });
        outputs.collect()
    }

    async fn go(&self) {
        go(self.home.path().join("go")).await;
    }
}

/// Lets a command go on that waits for this pipe.
async fn go(path: PathBuf) {
    let open = move || drop(OpenOptions::new().write(true).open(path).unwrap());
    timeout(HANG, tokio::task::spawn_blocking(open)).await.expect("nobody waits").unwrap();
}

/// Waits until a text for the model's next message is logged.
async fn until_told(session: &Session) {
    let mut log = session.events(0);
    until(&mut log, |event| matches!(event, Event::ToldNext(_))).await;
}

#[tokio::test]
async fn people_are_told_that_one_has_ended_and_the_model_is_with_the_next_prompt() {
    let stage = Stage::new(vec![starts("cat go; exit 2"), says("up"), says("seen")], None);
    stage.turn("start it").await;
    let pid = stage.session.background().jobs()[0].pid;
    stage.go().await;
    until_told(&stage.session).await;
    let mut log = stage.session.events(0);
    let events = until(&mut log, |event| matches!(event, Event::ToldNext(_))).await;
    let notice = format!(
        "In the background: PID {pid} has ended with exit code 2: `cat go; exit 2` (`/shells {pid}`)"
    );
    assert!(events.iter().any(|event| matches!(&**event, Event::Notice(it) if *it == notice)));
    stage.turn("and now?").await;
    let told = stage.told.lock().unwrap().clone();
    let expected = format!(
        "user: and now?\n\n[The command in the background with the PID {pid} has ended with exit \
         code 2: `cat go; exit 2`. read_background_output reads what it wrote.]"
    );
    assert_eq!(told.last(), Some(&expected));
}

#[tokio::test]
async fn in_the_middle_of_a_turn_the_model_is_told_with_the_results_of_calls() {
    // The reference is weak: the session has the tool, so a strong one would keep the session and its directory.
    let slot = Arc::new(OnceLock::<Weak<Session>>::new());
    let seen = Arc::clone(&slot);
    let wait = Fake::new("wait", ToolKind::Other, Access::Nothing).running(move |_| {
        let session = seen.get().unwrap().upgrade().unwrap();
        async move {
            go(session.roots()[0].join("go")).await;
            until_told(&session).await;
            Ok(ToolOutput::new("waited", ""))
        }
    });
    let answers = vec![starts("exec cat go"), calls("wait", json!({})), says("done")];
    let stage = Stage::new(answers, Some(wait));
    assert!(slot.set(Arc::downgrade(&stage.session)).is_ok());
    stage.turn("go").await;
    let told = stage.told.lock().unwrap().clone();
    let last = told.last().unwrap();
    assert!(last.contains("waited\n\n[The command in the background with the PID "), "{last}");
    assert_eq!(told.concat().matches("[The command in the background").count(), 1);
}

#[tokio::test]
async fn people_see_them_and_stop_them() {
    let stage = Stage::new(vec![starts("echo hello; cat go"), says("up"), says("ok")], None);
    assert_eq!(stage.says("/shells").await, "No command has been started in the background.");
    stage.turn("start it").await;
    let job = Arc::clone(&stage.session.background().jobs()[0]);
    let listed = stage.says("/shells").await;
    assert!(listed.contains(&format!("- {} runs, for ", job.pid)), "{listed}");
    assert!(listed.contains("in `.`: `echo hello; cat go`"), "{listed}");
    wait_until("its output", || !job.output(1).is_empty()).await;
    let shown = stage.says(&format!("/shells {}", job.pid)).await;
    assert!(shown.ends_with("`echo hello; cat go`\n\n    hello\n"), "{shown}");
    assert!(stage.says("/shells 1").await.starts_with("Unknown background command `1`."));
    let stopped = stage.says(&format!("/shells stop {}", job.pid)).await;
    assert_eq!(stopped, format!("{} was stopped.", job.pid));
    until_told(&stage.session).await;
    stage.turn("what is it doing?").await;
    let told = stage.told.lock().unwrap().last().unwrap().clone();
    let pid = job.pid.to_string();
    expect![[r#"
        user: what is it doing?

        [The command in the background with the PID PID was stopped: `echo hello; cat go`. read_background_output reads what it wrote.]"#]].assert_eq(&told.replace(&pid, "PID"));
}

#[tokio::test]
async fn what_the_model_forgets_it_is_not_told_of() {
    let stage = Stage::new(vec![starts("cat go"), says("up"), says("ok")], None);
    stage.turn("start it").await;
    stage.go().await;
    until_told(&stage.session).await;
    stage.turn("/clear").await;
    stage.turn("anything?").await;
    assert_eq!(*stage.told.lock().unwrap(), ["user: anything?"]);
}

#[tokio::test]
async fn a_cancel_of_the_turn_ends_the_wait_for_a_program_and_not_the_program() {
    let args = json!({ "command": "cat > /dev/null", "stdin": true, "delay_ms": 1 });
    let write = calls("write_stdin", json!({ "chars": "x\n", "wait_ms": 300_000 }));
    let answers = vec![calls("run_shell_command", args), write, says("stopped")];
    let stage = Stage::new(answers, None);
    let mut log = stage.session.events(stage.session.position());
    let turn = stage.session.prompt(text("go"), Origin::Editor);
    let is_write = |event: &Event| matches!(event, Event::CallStarted(started) if started.call.name == "write_stdin");
    until(&mut log, is_write).await;
    stage.session.cancel(turn);
    let events = until(&mut log, is_end).await;
    let is_cancelled = |event: &Arc<Event>| {
        matches!(&**event, Event::CallFinished { outcome: ToolOutcome::Cancelled, .. })
    };
    assert!(events.iter().any(is_cancelled), "{events:?}");
    let job = Arc::clone(&stage.session.background().jobs()[0]);
    assert!(matches!(job.state(), JobState::Running(_)), "{}", job.state());
    job.stop_unannounced().await;
}
