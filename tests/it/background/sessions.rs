//! Commands in the background of a session: who is told of their end, and what ends them.

use std::fs::{self, OpenOptions};
use std::path::PathBuf;
use std::sync::{Arc, OnceLock, Weak};

use expect_test::expect;
use rustix::process::Signal;
use serde_json::json;
use tandem_agent::session::{Event, Origin, Parts, Session, ToolKind};
use tandem_approval::Mode;
use tandem_host::{Access, Tool, ToolOutput};
use tandem_tools::all;
use tempfile::TempDir;
use tokio::net::unix::pipe;
use tokio::time::timeout;

use crate::agent::{Agent, HANG, Setup};
use crate::fakes::{Chunks, Fake, Spy, calls, host, is_end, parts, says, text, until};
use crate::family::{is_gone, make_fifo};
use crate::lifecycle::signal;
use crate::limit::wait_until;

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

/// Starts an agent with a command in the background that holds a pipe open, and has children that hide.
async fn with_family() -> (Agent, pipe::Receiver) {
    let command = "exec 3>family; (trap '' TERM; sleep 1000) & setsid sleep 1000 & echo > up; wait";
    let args = json!({ "command": command, "is_background": true });
    let call = json!([{ "call": { "name": "run_shell_command", "args": args } }]);
    let mut agent = Setup::answers(json!([call, [{ "text": "done" }]])).arg("-y").start();
    let workspace = agent.workspace();
    make_fifo(&workspace.join("family"));
    let family = pipe::OpenOptions::new().open_receiver(workspace.join("family")).unwrap();
    let id = agent.prompt("go").await;
    agent.until_answered(id, "allow").await;
    wait_until("its beginning", || workspace.join("up").exists()).await;
    (agent, family)
}

#[tokio::test]
async fn they_end_with_the_agent_however_that_ends() {
    let (mut agent, family) = with_family().await;
    assert!(agent.hang_up().await.1.success());
    is_gone(family).await;
    for how in [Signal::TERM, Signal::KILL] {
        let (agent, family) = with_family().await;
        signal(&agent, how);
        is_gone(family).await;
    }
}

#[tokio::test]
async fn an_editor_is_asked_as_for_any_command() {
    let args = json!({ "command": "touch x", "is_background": true, "delay_ms": 60_000 });
    let call = json!([{ "call": { "name": "run_shell_command", "args": args } }]);
    let answers = json!([call, [{ "text": "done" }]]);
    let mut agent = Setup::answers(answers).without_sandbox().start();
    let id = agent.prompt("go").await;
    let read = agent.until_answered(id, "reject").await;
    let asked = read.iter().find(|it| it["method"] == "requestToolCallConfirmation").unwrap();
    assert_eq!(asked["params"]["confirmation"]["type"], "execute");
    assert_eq!(asked["params"]["confirmation"]["command"], "touch x");
    assert_eq!(asked["params"]["label"], "Run touch x [in the background]");
    assert!(!fs::exists(agent.workspace().join("x")).unwrap());
}
