//! Commands of a session with a sandbox, from the model's call to the files on the disk.

mod background;
mod by_default;
mod git_state;
mod hidden_home;
mod memory;
#[cfg(target_os = "linux")]
mod network;
#[cfg(target_os = "linux")]
mod opened_once;
mod outside;
#[cfg(target_os = "linux")]
mod registries;
mod secrets;
mod sockets;
mod temporary;

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, LazyLock};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tandem_agent::session::{Answer, CallStarted, Event, Origin, Parts, Session, ToolOutcome};
use tandem_approval::{Mode, Question};
use tandem_host::command_sandbox::{SandboxDemand, SandboxSetup};
use tandem_host::home::ToolChains;
use tandem_host::network::NetworkSetup;
use tandem_host::{NameList, ToolError};
use tandem_model::replay::Replay;
use tandem_sandbox::{Limits, Mechanism, SandboxMode};
use tandem_shell::protected_files;
use tandem_tools as tools;
use tempfile::TempDir;
use tokio::io::AsyncReadExt as _;
use tokio::net::unix::pipe;
use tokio::time::timeout;

use crate::agent::{HANG, Setup};
use crate::fakes::{host, is_end, parts, text, until};
use crate::family::{is_gone, make_fifo};
use crate::needs::{Need, lacking, python};
use crate::places::seen_in_sandbox;

/// Mark at the end of labels of calls in a sandbox.
pub(crate) const SANDBOXED: &str = "[sandboxed]";

/// Returns `true` if this machine can make a record of what people are shown. A record with a sandbox needs a
/// sandbox, and one that explains refusals in the same words. Otherwise the test is recorded as skipped.
pub(crate) fn can_show(record: &str) -> bool {
    let is_sandboxed = [SANDBOXED, "inside the sandbox"].iter().any(|it| record.contains(it));
    let is_blocked = is_sandboxed && record.contains("Read-only file system");
    (!is_sandboxed || !lacking(Need::Sandbox)) && (!is_blocked || !lacking(Need::ProtectingSandbox))
}

/// A model's reason to leave the sandbox.
pub(crate) const REASON: &str = "It writes the log.";

fn run(command: &str) -> Value {
    with(command, json!({}))
}

/// Returns a call of a command with more arguments.
fn with(command: &str, more: Value) -> Value {
    let mut args = json!({ "command": command });
    args.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    json!({ "call": { "name": "run_shell_command", "args": args } })
}

/// Returns a call of a command that requests to leave the sandbox, for [`REASON`].
pub(crate) fn outside(command: &str) -> Value {
    with(command, json!({ "sandbox": "outside", "justification": REASON }))
}

static PROTECTED: LazyLock<NameList> = LazyLock::new(|| NameList::new(protected_files()).unwrap());

/// Returns a sandbox with the best mechanism of this machine and this program as its helper.
fn sandbox_setup(home: &Path) -> SandboxSetup {
    SandboxSetup {
        mode: None,
        demand: None,
        mechanism: None,
        helper: PathBuf::from(env!("CARGO_BIN_EXE_tandem")),
        home: Some(home.to_owned()),
        tool_chains: ToolChains::default(),
        readable: Vec::new(),
        writable: Vec::new(),
        sockets: Vec::new(),
        network: false,
        hosts: NetworkSetup::default(),
        protected: &PROTECTED,
        taken_back: Some(home.join("taken-back")),
        temporary: Some(home.join("state")),
        limits: Limits::default(),
    }
}

/// A session with a sandbox, in a project of its own.
struct Stage {
    session: Arc<Session>,
    home: TempDir,
    /// Number of events that were read.
    seen: usize,
}

/// A call, its question if it was asked about, and its outcome.
struct Made {
    started: Arc<CallStarted>,
    outcome: ToolOutcome,
}

impl Made {
    /// Returns the text for the model.
    fn told(&self) -> &str {
        match &self.outcome {
            ToolOutcome::Done(output) => &output.text,
            ToolOutcome::Failed(error) => &error.message,
            other => panic!("{other:?}"),
        }
    }

    fn why(&self) -> &str {
        &self.started.question.as_ref().expect("it was not asked about").why
    }

    fn is_asked(&self) -> bool {
        self.started.question.is_some()
    }

    fn is_done(&self) -> bool {
        matches!(self.outcome, ToolOutcome::Done(_))
    }

    fn is_sandboxed(&self) -> bool {
        self.started.summary.label.ends_with(" [sandboxed]")
    }
}

impl Stage {
    /// Makes a session whose model makes these calls, one in each answer.
    fn new(mode: Mode, calls: &[Value]) -> Self {
        Self::with(mode, calls, Vec::new())
    }

    /// Makes a session with more writable directories.
    fn with(mode: Mode, calls: &[Value], writable: Vec<PathBuf>) -> Self {
        Self::changed(mode, calls, |setup| SandboxSetup { writable, ..setup })
    }

    /// Makes a session with another sandbox.
    fn changed(
        mode: Mode,
        calls: &[Value],
        change: impl FnOnce(SandboxSetup) -> SandboxSetup,
    ) -> Self {
        Self::in_home(TempDir::new().unwrap(), mode, calls, change)
    }

    /// Makes a session in an existing home.
    fn in_home(
        home: TempDir,
        mode: Mode,
        calls: &[Value],
        change: impl FnOnce(SandboxSetup) -> SandboxSetup,
    ) -> Self {
        let project = home.path().join("project");
        fs::create_dir_all(project.join(".git")).unwrap();
        fs::write(project.join("a.txt"), "a\n").unwrap();
        let mut answers: Vec<_> = calls.iter().map(|call| json!([call])).collect();
        answers.push(json!([{ "text": "done" }]));
        let script = json!({ "when": "", "answers": answers }).to_string();
        let setup = sandbox_setup(home.path());
        let session = Session::new(Parts {
            tools: tools::all_with_sandbox(),
            host: host(&project).sandboxed(Some(change(setup))),
            mode,
            max_rounds: 1000,
            ..parts(Arc::new(Replay::from_script(&script).unwrap()))
        });
        Self { session, home, seen: 0 }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.home.path().join("project").join(name)
    }

    /// Runs a prompt; each question gets this answer. Returns the calls.
    async fn go(&mut self, answer: Answer) -> Vec<Made> {
        self.go_with(|_| answer.clone()).await
    }

    /// Runs a prompt; each question gets an answer. Returns the calls.
    async fn go_with(&mut self, answer: impl Fn(&Question) -> Answer) -> Vec<Made> {
        self.prompted("go", answer).await
    }

    /// Runs the prompt `prompt`; each question gets an answer. Returns the calls.
    async fn prompted(&mut self, prompt: &str, answer: impl Fn(&Question) -> Answer) -> Vec<Made> {
        self.session.prompt(text(prompt), Origin::Editor);
        let mut log = self.session.events(self.seen);
        let mut calls: Vec<Arc<CallStarted>> = Vec::new();
        let mut made = Vec::new();
        loop {
            let is_step = |event: &Event| {
                is_end(event) || matches!(event, Event::CallStarted(_) | Event::CallFinished { .. })
            };
            let events = until(&mut log, is_step).await;
            self.seen += events.len();
            match &**events.last().unwrap() {
                Event::CallStarted(started) => {
                    if let Some(question) = &started.question {
                        let answer = answer(question);
                        self.session.answer(&started.call.id, answer, Origin::Editor).unwrap();
                    }
                    calls.push(Arc::clone(started));
                }
                Event::CallFinished { call, outcome } => {
                    let started = calls.iter().find(|started| started.call.id == *call);
                    let started = Arc::clone(started.unwrap());
                    made.push(Made { started, outcome: outcome.clone() });
                }
                _ => return made,
            }
        }
    }
}

#[tokio::test]
async fn a_blocked_write_tells_the_model_how_to_ask_and_the_question_shows_why() {
    if lacking(Need::ProtectingSandbox) {
        return;
    }
    let asks = json!({ "sandbox": "workspace-write", "justification": "The build\nwrites b.txt." });
    let calls = [run("echo b | tee b.txt"), with("echo b | tee b.txt", asks)];
    let mut stage = Stage::new(Mode::Default, &calls);
    let made = stage.go(Answer::Once { edited: None }).await;
    let [blocked, written] = &made[..] else { panic!("{} calls", made.len()) };
    assert!(!blocked.is_asked() && !blocked.is_done() && blocked.is_sandboxed());
    let told = blocked.told();
    assert!(told.contains("Blocked by the sandbox (read-only)"), "{told}");
    assert!(told.contains("`sandbox`") && told.contains("`justification`"), "{told}");
    assert!(written.is_sandboxed() && written.is_done(), "{}", written.told());
    assert!(written.why().contains("\"The build writes b.txt.\""), "{}", written.why());
    assert_eq!(fs::read_to_string(stage.path("b.txt")).unwrap(), "b\n");
}

#[tokio::test]
async fn an_always_outside_is_remembered() {
    if lacking(Need::Sandbox) {
        return;
    }
    let line = "./log.sh";
    let calls = [run(line), outside(line), run(line), run("./other.sh")];
    let mut stage = Stage::new(Mode::Default, &calls);
    // The log is outside of `/tmp`, because commands in the sandbox have a `/tmp` of their own.
    let elsewhere = seen_in_sandbox();
    let log = elsewhere.path().join("log");
    for name in ["log.sh", "other.sh"] {
        let script = format!("#!/bin/sh\necho ran >> '{}'\n", log.display());
        fs::write(stage.path(name), script).unwrap();
        let mut chmod = Command::new("chmod");
        assert!(chmod.arg("+x").arg(stage.path(name)).status().unwrap().success());
    }
    let made = stage.go_with(|question| Answer::Always(question.scopes[0].clone())).await;
    let [held, asked, known, other] = &made[..] else { panic!("{} calls", made.len()) };
    assert!(held.is_sandboxed() && !held.is_asked() && !held.is_done());
    assert!(asked.is_asked() && asked.is_done() && !asked.is_sandboxed(), "{}", asked.told());
    let why = format!(
        "the model wants this command to run outside the sandbox; the model says: \"{REASON}\""
    );
    assert!(asked.why().starts_with(&why), "{}", asked.why());
    assert!(!known.is_asked() && known.is_done() && !known.is_sandboxed(), "{}", known.told());
    assert!(other.is_sandboxed() && !other.is_done(), "{}", other.told());
    assert_eq!(fs::read_to_string(log).unwrap(), "ran\nran\n");
}

#[tokio::test]
async fn what_runs_by_itself_is_moved_out_and_the_model_is_told() {
    if lacking(Need::ProtectingSandbox) {
        return;
    }
    let makes =
        "mkdir .vscode; echo evil > .vscode/tasks.json; echo x > b.txt; echo x > .git/config";
    let mut stage = Stage::new(Mode::AutoEdit, &[run(makes)]);
    let made = stage.go(Answer::Reject).await;
    assert!(!made[0].is_asked() && made[0].is_sandboxed());
    let told = made[0].told();
    assert!(told.contains("it was moved to") && told.contains(".vscode"), "{told}");
    assert!(!stage.path(".vscode").exists() && !stage.path(".git/config").exists());
    assert!(stage.path("b.txt").exists());
    let moved = fs::read_dir(stage.home.path().join("taken-back")).unwrap().next().unwrap();
    let moved = moved.unwrap().path().join(".vscode/tasks.json");
    assert_eq!(fs::read_to_string(moved).unwrap(), "evil\n");
}

#[tokio::test]
async fn what_is_planted_in_a_directory_that_was_there_is_moved_out_as_at_the_root() {
    if lacking(Need::ProtectingSandbox) {
        return;
    }
    let planted = ["AGENTS.md", ".envrc", ".vscode/tasks.json", ".git/hooks/pre-commit"];
    let makes = "cd src/deep; echo x > AGENTS.md; echo x > .envrc; mkdir -p .vscode .git/hooks; \
        echo x > .vscode/tasks.json; echo x > .git/hooks/pre-commit; echo x > b.txt";
    let mut stage = Stage::new(Mode::AutoEdit, &[run("sh make.sh")]);
    fs::write(stage.path("make.sh"), makes).unwrap();
    fs::create_dir_all(stage.path("src/deep")).unwrap();
    let made = stage.go(Answer::Reject).await;
    assert!(!made[0].is_asked() && made[0].is_sandboxed());
    for path in planted {
        let path = stage.path("src/deep").join(path);
        assert!(!path.exists(), "{}", path.display());
    }
    assert!(stage.path("src/deep/b.txt").exists());
    let told = made[0].told();
    for name in ["src/deep/AGENTS.md", "src/deep/.envrc", "src/deep/.vscode", "src/deep/.git"] {
        let path = stage.path(name).display().to_string();
        assert!(told.contains(&format!("{path}, which other programs run")), "{told}");
    }
}

#[tokio::test]
async fn a_file_among_very_many_is_moved_out_and_the_model_is_told_of_some() {
    if lacking(Need::ProtectingSandbox) {
        return;
    }
    let makes = "for i in $(seq 600); do echo x > $i/.envrc; done; mkdir src/.git";
    let mut stage = Stage::new(Mode::AutoEdit, &[run("sh make.sh")]);
    fs::write(stage.path("make.sh"), makes).unwrap();
    for name in (1..=600).map(|number| number.to_string()).chain(["src".to_owned()]) {
        fs::create_dir(stage.path(&name)).unwrap();
    }
    let made = stage.go(Answer::Reject).await;
    assert!(!stage.path("src/.git").exists());
    assert!((1..=600).all(|number| !stage.path(&format!("{number}/.envrc")).exists()));
    let told = made[0].told();
    assert!(told.contains("581 more files were moved") && told.len() < 10_000, "{told}");
}

#[tokio::test]
async fn what_comes_with_a_directory_of_its_own_stays_and_people_are_told() {
    if lacking(Need::ProtectingSandbox) {
        return;
    }
    let calls = [run("mkdir -p new/.git && echo x > new/AGENTS.md"), run("echo y > new/AGENTS.md")];
    let mut stage = Stage::new(Mode::AutoEdit, &calls);
    let made = stage.go(Answer::Reject).await;
    assert!(made[0].is_done() && !made[1].is_done(), "{} {}", made[0].told(), made[1].told());
    assert_eq!(fs::read_to_string(stage.path("new/AGENTS.md")).unwrap(), "x\n");
    let told = notices(&stage).await;
    let [told] = &told[..] else { panic!("{told:?}") };
    for name in ["new/.git", "new/AGENTS.md"] {
        assert!(told.contains(&format!("`{}`", stage.path(name).display())), "{told}");
    }
}

#[tokio::test]
async fn a_directory_that_the_settings_name_is_written_however_it_is_spelled() {
    if lacking(Need::Sandbox) {
        return;
    }
    let elsewhere = seen_in_sandbox();
    let real = fs::canonicalize(elsewhere.path()).unwrap();
    fs::create_dir(real.join("cache")).unwrap();
    std::os::unix::fs::symlink("cache", real.join("link")).unwrap();
    let spelled = vec![real.join("cache/../link"), real.join("missing")];
    let line = format!("touch '{0}/cache/a' && touch '{0}/b'", real.display());
    let mut stage = Stage::with(Mode::AutoEdit, &[run(&line)], spelled);
    let made = stage.go(Answer::Once { edited: None }).await;
    assert!(made[0].is_sandboxed() && !made[0].is_done(), "{}", made[0].told());
    assert!(real.join("cache/a").exists() && !real.join("b").exists(), "{}", made[0].told());
}

#[tokio::test]
async fn where_no_sandbox_works_it_is_told_once_and_asked_as_without_one() {
    let calls = [run("touch b.txt"), run("touch c.txt")];
    let mut stage = Stage::changed(Mode::Default, &calls, |setup| SandboxSetup {
        mechanism: Some(Mechanism::Namespaces),
        helper: PathBuf::from("/bin/false"),
        ..setup
    });
    let made = stage.go(Answer::Once { edited: None }).await;
    assert!(made.iter().all(|made| made.is_asked() && made.is_done() && !made.is_sandboxed()));
    assert_eq!(made[0].why(), "`touch` is not on the list of commands that only read");
    let mut log = stage.session.events(0);
    let told = until(&mut log, is_end).await;
    let told = told.iter().filter(|event| matches!(&***event, Event::Notice(_)));
    let told: Vec<_> = told.collect();
    assert_eq!(told.len(), 1, "{told:?}");
}

/// Makes a helper of the sandbox that holds namespaces, and does this for a command.
fn helper(setup: SandboxSetup, mechanism: Mechanism, does: &str) -> SandboxSetup {
    let helper = setup.home.as_ref().unwrap().join("helper");
    let program = env!("CARGO_BIN_EXE_tandem");
    let script = format!("#!/bin/sh\n[ $# -gt 2 ] && {does}\nexec \"{program}\" \"$@\"\n");
    fs::write(&helper, script.replace("PROGRAM", program)).unwrap();
    fs::set_permissions(&helper, Permissions::from_mode(0o700)).unwrap();
    SandboxSetup { mechanism: Some(mechanism), helper, ..setup }
}

/// Mechanisms of Linux, and the need of each.
const MECHANISMS: [(Mechanism, Need); 3] = [
    (Mechanism::Namespaces, Need::Namespaces),
    (Mechanism::Bubblewrap, Need::Bubblewrap),
    (Mechanism::Landlock, Need::Landlock),
];

/// Returns the error of a call.
fn failed(made: &Made) -> &ToolError {
    match &made.outcome {
        ToolOutcome::Failed(error) => error,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_sandbox_that_fails_says_so_and_sends_no_command_outside() {
    let check = async |mechanism, does| {
        let behind = json!({ "is_background": true, "delay_ms": 60000 });
        let calls = [run("touch b.txt"), with("touch b.txt", behind)];
        let mut stage =
            Stage::changed(Mode::Default, &calls, |setup| helper(setup, mechanism, does));
        for made in stage.go(Answer::Reject).await {
            assert_eq!(failed(&made).kind, "sandbox_failed", "{mechanism} {does}");
            let told = made.told();
            assert!(told.contains("was not run, as the sandbox failed: "), "{told}");
            assert!(!told.contains("outside") && !told.contains("justification"), "{told}");
        }
    };
    for (mechanism, _) in MECHANISMS.into_iter().filter(|(_, need)| !lacking(*need)) {
        // Three ways to fail: the helper does not begin, gets no order, or cannot start the command.
        check(mechanism, "exit 125").await;
        check(mechanism, "exec \"PROGRAM\" \"$1\" \"$2\"").await;
        check(mechanism, "exec \"PROGRAM\" \"$1\" \"$2\" /missing").await;
    }
}

#[tokio::test]
async fn a_command_that_ends_as_a_failing_helper_does_is_no_failure_of_the_sandbox() {
    for (mechanism, _) in MECHANISMS.into_iter().filter(|(_, need)| !lacking(*need)) {
        let says = "echo 'tandem: the command was not run, as the sandbox failed: x' >&2; exit 125";
        let open = "ls -l /proc/$$/fd | grep -c memfd; exit 1";
        let mut stage = Stage::changed(Mode::Default, &[run(says), run(open)], |setup| {
            SandboxSetup { mechanism: Some(mechanism), ..setup }
        });
        let made = stage.go(Answer::Reject).await;
        for made in &made {
            assert_eq!(failed(made).kind, "shell_exit", "{mechanism}: {}", made.told());
        }
        // The command cannot write the report of the helper, so its exit code counts.
        assert!(made[1].told().starts_with("Output: 0\n"), "{mechanism}: {}", made[1].told());
    }
}

#[tokio::test]
async fn words_in_the_output_are_no_reason_to_leave_the_sandbox() {
    if lacking(Need::ProtectingSandbox) {
        return;
    }
    let calls = [
        run("touch b.txt; echo 'ld: a.txt: Read-only file system'; exit 1"),
        run("touch b.txt; echo 'the log says: EROFS: /tmp/x'; exit 1"),
        run("touch b.txt; echo 'Could not resolve host: a.test'; exit 1"),
        run("touch b.txt; echo 'connect: Network is unreachable'; exit 1"),
        run("touch b.txt; echo 'a.txt: Permission denied'; exit 1"),
        run("echo x > .git/config"),
    ];
    let mut stage = Stage::new(Mode::AutoEdit, &calls);
    let made = stage.go(Answer::Reject).await;
    let (held, said) = made.split_last().unwrap();
    for made in said {
        let told = made.told();
        assert!(!made.is_done() && !told.contains("justification"), "{told}");
        assert!(!told.contains("outside"), "{told}");
    }
    let told = held.told();
    let blocked = "[Blocked by the sandbox (workspace-write): .git/config cannot be written there. If the \
        command must, call again with `sandbox` (`outside`)";
    assert!(told.contains(blocked), "{told}");
}

/// Returns the notices to people after a session's turn has ended.
async fn notices(stage: &Stage) -> Vec<String> {
    let mut log = stage.session.events(0);
    let events = until(&mut log, is_end).await;
    let notices = events.iter().filter_map(|event| match &**event {
        Event::Notice(text) => Some(text.clone()),
        _ => None,
    });
    notices.collect()
}

#[tokio::test]
async fn where_a_sandbox_is_demanded_and_none_works_no_command_runs_in_any_mode() {
    for mode in [Mode::Default, Mode::AutoEdit, Mode::Yolo, Mode::Plan] {
        let calls = [run("touch b.txt"), run("cat a.txt"), outside("touch c.txt")];
        let mut stage = Stage::changed(mode, &calls, |setup| SandboxSetup {
            mode: Some(SandboxMode::ReadOnly),
            demand: Some(SandboxDemand { place: "--sandbox".to_owned(), is_readable: true }),
            mechanism: Some(Mechanism::Namespaces),
            helper: PathBuf::from("/bin/false"),
            ..setup
        });
        let made = stage.go(Answer::Once { edited: None }).await;
        for made in &made {
            assert!(!made.is_asked() && !made.is_done(), "{mode}");
            let told = made.told();
            assert!(told.contains("no sandbox that --sandbox asks for works here"), "{told}");
            assert!(!told.contains("outside"), "{told}");
        }
        assert_eq!(made.len(), 3);
        assert!(!stage.path("b.txt").exists() && !stage.path("c.txt").exists());
        let notices = notices(&stage).await;
        let [notice] = &notices[..] else { panic!("{notices:?}") };
        assert!(notice.starts_with("Commands are refused: "), "{notice}");
        assert!(notice.ends_with("start tandem with `--sandbox danger-full-access`."), "{notice}");
    }
}

#[tokio::test]
async fn a_flag_that_names_no_sandbox_is_wrong_usage() {
    for value in ["bogus", "docker", "bwrap", "workspace_write", ""] {
        let setup = Setup::answers(json!([[run("touch ../out")], [{ "text": "done" }]]));
        let ran =
            setup.arg("-y").arg(&format!("--sandbox={value}")).arg("-p").arg("go").run().await;
        assert_eq!((&*ran.stdout, ran.code), ("", Some(42)), "{value}: {}", ran.stderr);
        assert!(ran.stderr.contains("--sandbox"), "{value}: {}", ran.stderr);
        let says = if value == "docker" { "`true`" } else { "read-only, workspace-write" };
        assert!(ran.stderr.contains(says), "{value}: {}", ran.stderr);
    }
}

#[tokio::test]
async fn a_setting_that_names_no_sandbox_refuses_every_command_and_says_so_once() {
    let user = r#"{ "tools": { "sandbox": "bogus" } }"#;
    let calls = json!([[run("touch ../out")], [run("true")], [{ "text": "done" }]]);
    for in_file in [true, false] {
        let setup = Setup::answers(calls.clone()).arg("-y").arg("-p").arg("go");
        let setup = if in_file {
            setup.file("../.gemini/settings.json", user)
        } else {
            setup.var("GEMINI_SANDBOX", "bogus")
        };
        let ran = setup.run().await;
        assert_eq!((&*ran.stdout, ran.code), ("done\n", Some(0)));
        assert!(!ran.home.path().join("out").exists());
        assert!(ran.stderr.contains("`bogus` is not one of: read-only"), "{}", ran.stderr);
        assert_eq!(ran.stderr.matches("Commands are refused: ").count(), 1, "{}", ran.stderr);
        assert!(ran.stderr.contains("start tandem with `--sandbox`"), "{}", ran.stderr);
    }
}

#[tokio::test]
async fn a_server_in_the_background_is_reached_by_a_later_command() {
    // Commands share a network only with `namespaces`.
    if lacking(Need::Namespaces) || lacking(Need::Python) {
        return;
    }
    let serves = "PYTHON -c 'import socket; s = socket.create_server((\"127.0.0.1\", 4567)); \
        print(\"ready\", flush=True); c, _ = s.accept(); c.sendall(b\"served\")'";
    let reads = "PYTHON -c 'import socket,time
for _ in range(1000):
    try:
        print(socket.create_connection((\"127.0.0.1\", 4567)).recv(9)); break
    except ConnectionRefusedError:
        time.sleep(0.01)'";
    let [serves, reads] = [serves, reads].map(|line| line.replace("PYTHON", python().unwrap()));
    let calls = [with(&serves, json!({ "is_background": true })), run(&reads)];
    let mut stage = Stage::new(Mode::Default, &calls);
    let made = stage.go(Answer::Reject).await;
    assert!(made.iter().all(|made| made.is_sandboxed() && !made.is_asked()));
    assert!(made[1].told().contains("served"), "{} {}", made[0].told(), made[1].told());
}

/// Shell line that starts processes outside of any common process group.
const FAMILY: &str = "exec 3>family; (setsid sleep 1000 &); (trap '' TERM; setsid setsid sleep 1000 &); \
    echo started >&3; sleep 1000";

#[tokio::test]
async fn a_killed_agent_leaves_nothing_behind_in_the_sandbox() {
    if lacking(Need::ProtectingSandbox) {
        return;
    }
    let setup = Setup::answers(json!([[run(FAMILY)], [{ "text": "done" }]]));
    let home = TempDir::new().unwrap();
    let mut command = setup.arg("-y").command(home.path());
    let fifo = home.path().join("workspace/family");
    make_fifo(&fifo);
    let mut family = pipe::OpenOptions::new().open_receiver(&fifo).unwrap();
    let mut agent = command.arg("-p").arg("go").stdin(Stdio::null()).spawn().unwrap();
    let mut started = [0; 8];
    timeout(HANG, family.read_exact(&mut started)).await.expect("it does not start").unwrap();
    let pid = Pid::from_raw(agent.id().unwrap().try_into().unwrap()).unwrap();
    kill_process(pid, Signal::KILL).unwrap();
    agent.wait().await.unwrap();
    is_gone(family).await;
}

#[tokio::test]
async fn an_editor_of_acp_0_0_9_is_shown_the_reason() {
    if lacking(Need::Sandbox) {
        return;
    }
    let setup = Setup::answers(json!([[outside("touch a.txt")], [{ "text": "done" }]]));
    let mut agent = setup.start();
    let id = agent.prompt("go").await;
    let read = agent.until_answered(id, "reject").await;
    let asked = read.iter().find(|it| it["method"] == "requestToolCallConfirmation").unwrap();
    let shown = asked["params"].to_string();
    assert!(shown.contains("outside the sandbox; the model says:"), "{shown}");
    assert!(shown.contains(REASON) && !shown.contains("[sandboxed]"), "{shown}");
}

#[tokio::test]
async fn without_a_person_what_has_to_leave_is_refused_and_the_rule_is_named() {
    if lacking(Need::Sandbox) {
        return;
    }
    let rule = "a rule that allows this call, with `sandbox = \"danger-full-access\"`";
    for (mode, call) in [("default", run("git commit -m x")), ("yolo", outside("touch a.txt"))] {
        let setup = Setup::answers(json!([[call], [{ "text": "done" }]]));
        let ran = setup.arg("--approval-mode").arg(mode).arg("-p").arg("go").run().await;
        let told = format!("not allowed without {rule}: ");
        assert!(ran.stderr.contains(&told), "{mode}: {}", ran.stderr);
        assert_eq!((&*ran.stdout, ran.code), ("done\n", Some(0)));
    }
}
