//! Commands in the background of a session with a sandbox: files that appear while they run, and their end.

use std::fs::{self, OpenOptions};

use serde_json::json;
use tandem_agent::session::{Answer, Event};
use tandem_approval::Mode;
use tokio::io::AsyncReadExt as _;
use tokio::net::unix::pipe;
use tokio::time::timeout;

use super::{FAMILY, Stage, outside, run, with};
use crate::agent::{HANG, Setup};
use crate::fakes::until;
use crate::family::{is_gone, make_fifo};
use crate::limit::wait_until;
use crate::needs::{Need, lacking, python};

/// Returns a call of a command in the background.
fn behind(command: &str) -> serde_json::Value {
    with(command, json!({ "is_background": true, "delay_ms": 1 }))
}

/// Returns a call that starts a shell which takes input, with more arguments.
fn shell(more: serde_json::Value) -> serde_json::Value {
    let mut args = json!({ "stdin": true, "delay_ms": 1 });
    args.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    with("sh", args)
}

/// Returns a call that writes a line to the only command that takes input.
fn writes(line: &str) -> serde_json::Value {
    let args = json!({ "chars": format!("{line}\n"), "wait_ms": 60_000 });
    json!({ "call": { "name": "write_stdin", "args": args } })
}

/// Makes a session whose commands may write the workspace, with a pipe that a command can wait for.
fn stage(calls: &[serde_json::Value]) -> Stage {
    let stage = Stage::new(Mode::AutoEdit, calls);
    make_fifo(&stage.path("go"));
    stage
}

/// Lets a command go on that waits for the pipe.
async fn go(stage: &Stage) {
    let path = stage.path("go");
    let open = move || drop(OpenOptions::new().write(true).open(path).unwrap());
    timeout(HANG, tokio::task::spawn_blocking(open)).await.expect("nobody waits").unwrap();
}

/// Returns what people are told of new files until the command in the background ends.
async fn told(stage: &Stage) -> Vec<String> {
    let job = std::sync::Arc::clone(&stage.session.background().jobs()[0]);
    let ended = |event: &Event| matches!(event, Event::ToldNext(text) if text.contains("read_background_output"));
    let mut log = stage.session.events(0);
    let events = timeout(HANG, until(&mut log, ended)).await;
    let events = events.unwrap_or_else(|_| panic!("it does not end: {}", job.output(10)));
    let notices = events.iter().filter_map(|event| match &**event {
        Event::Notice(notice) if notice.contains("appeared") => Some(notice.clone()),
        _ => None,
    });
    notices.collect()
}

#[tokio::test]
async fn what_comes_up_while_one_runs_is_told_and_stays() {
    if lacking(Need::ProtectingSandbox) {
        return;
    }
    let mut stage = stage(&[behind("cat go; mkdir .vscode; echo task > .vscode/tasks.json")]);
    stage.go(Answer::Reject).await;
    go(&stage).await;
    let told = told(&stage).await;
    let [told] = &told[..] else { panic!("{told:?}") };
    assert!(told.contains(".vscode` appeared while `cat go; mkdir .vscode"), "{told}");
    // The file stays, because a person may have made it.
    assert_eq!(fs::read_to_string(stage.path(".vscode/tasks.json")).unwrap(), "task\n");
}

#[tokio::test]
async fn later_commands_cannot_change_it() {
    if lacking(Need::ProtectingSandbox) {
        return;
    }
    let makes = "mkdir .vscode; echo made > .vscode/tasks.json; touch ready; cat go";
    let changes = "until test -e ready; do sleep 0.01; done; echo changed > .vscode/tasks.json";
    // A command outside the sandbox waits for the file, so that the file exists before the next command begins.
    let waits = "until test -e ready; do sleep 0.01; done";
    let mut stage =
        stage(&[behind(makes), with(waits, json!({ "sandbox": "outside" })), run(changes)]);
    let made = stage.go(Answer::Once { edited: None }).await;
    assert!(!made[2].is_done(), "{}", made[2].told());
    assert_eq!(fs::read_to_string(stage.path(".vscode/tasks.json")).unwrap(), "made\n");
    go(&stage).await;
    // The next command has found the new file and told the model. The end of the command tells nothing more.
    assert_eq!(told(&stage).await.len(), 1);
}

#[tokio::test]
async fn a_file_that_the_agent_wrote_by_leave_is_not_told() {
    if lacking(Need::ProtectingSandbox) {
        return;
    }
    let writes = json!({ "file_path": ".vscode/tasks.json", "content": "{}\n" });
    let writes = json!({ "call": { "name": "write_file", "args": writes } });
    let mut stage = stage(&[behind("cat go"), writes]);
    let made = stage.go(Answer::Once { edited: None }).await;
    assert!(made[1].is_asked() && made[1].is_done(), "{}", made[1].told());
    go(&stage).await;
    assert_eq!(told(&stage).await, [""; 0]);
    assert!(stage.path(".vscode/tasks.json").exists());
}

#[tokio::test]
async fn what_an_allowed_command_made_outside_stays() {
    if lacking(Need::ProtectingSandbox) {
        return;
    }
    let mut stage =
        stage(&[behind("cat go"), outside("mkdir .idea; echo x > .idea/workspace.xml")]);
    let made = stage.go(Answer::Once { edited: None }).await;
    assert!(made[1].is_done(), "{}", made[1].told());
    go(&stage).await;
    told(&stage).await;
    assert!(stage.path(".idea/workspace.xml").exists());
}

#[tokio::test]
async fn what_an_earlier_command_has_left_behind_and_made_later_is_told_to_the_next() {
    if lacking(Need::Namespaces) {
        return;
    }
    let leaves = "(setsid sh -c 'cat go; mkdir .vscode; touch ready' > /dev/null 2>&1 &)";
    let mut stage = stage(&[run(leaves)]);
    stage.go(Answer::Reject).await;
    go(&stage).await;
    wait_until("the file `ready`", || stage.path("ready").exists()).await;
    let position = stage.session.position();
    stage.session.prompt(crate::fakes::text("go"), tandem_agent::session::Origin::Editor);
    let mut log = stage.session.events(position);
    let is_told = |event: &Event| {
        matches!(event, Event::ToldNext(text) if text.contains(".vscode` appeared \
        while processes may have run"))
    };
    until(&mut log, is_told).await;
    assert!(stage.path(".vscode").exists());
}

#[tokio::test]
async fn a_repository_that_came_up_is_protected_from_the_next_command_on() {
    if lacking(Need::ProtectingSandbox) {
        return;
    }
    let calls = [
        run("mkdir -p sub/.git && echo first > sub/.git/config"),
        run("echo next > sub/.git/config"),
    ];
    let mut stage = stage(&calls);
    let made = stage.go(Answer::Reject).await;
    assert!(made[0].is_done() && !made[1].is_done(), "{} {}", made[0].told(), made[1].told());
    assert_eq!(fs::read_to_string(stage.path("sub/.git/config")).unwrap(), "first\n");
}

#[tokio::test]
async fn a_program_that_the_sandbox_holds_is_written_to_without_a_question() {
    if lacking(Need::ProtectingSandbox) {
        return;
    }
    let calls = [
        shell(json!({})),
        writes("echo made > made.txt; cat made.txt"),
        writes("(echo changed >> .git/config) 2> /dev/null; echo $?"),
        writes("rm -rf made.txt; echo gone"),
        writes("cat .env"),
    ];
    let mut stage = stage(&calls);
    fs::write(stage.path(".env"), "KEY=of-a-person\n").unwrap();
    let made = stage.go(Answer::Once { edited: None }).await;
    let asked: Vec<_> = made.iter().map(super::Made::is_asked).collect();
    assert_eq!(asked, [false, false, false, true, true]);
    assert!(made.iter().all(super::Made::is_sandboxed));
    assert!(made[1].told().ends_with("Output: made"), "{}", made[1].told());
    assert!(!made[2].told().ends_with("Output: 0"), "{}", made[2].told());
    assert!(made[3].told().ends_with("Output: gone") && !stage.path("made.txt").exists());
    // A yes to a text shows the program no more than it saw when it was started.
    assert!(!made[4].told().contains("of-a-person"), "{}", made[4].told());
}

#[tokio::test]
async fn a_program_that_may_not_write_is_written_to_and_does_not_write() {
    if lacking(Need::ProtectingSandbox) {
        return;
    }
    let calls = [shell(json!({})), writes("(echo x > made.txt) 2> /dev/null; echo $((20 + 1))")];
    let mut stage = Stage::new(Mode::Default, &calls);
    let made = stage.go(Answer::Reject).await;
    assert!(made.iter().all(|made| !made.is_asked() && made.is_sandboxed()));
    assert!(made[1].told().ends_with("21"), "{}", made[1].told());
    assert!(!stage.path("made.txt").exists());
}

#[tokio::test]
async fn a_program_outside_the_sandbox_is_not_written_to_without_a_yes() {
    if lacking(Need::Sandbox) {
        return;
    }
    for mode in [Mode::Default, Mode::AutoEdit, Mode::Yolo] {
        let mut stage = Stage::new(
            mode,
            &[
                shell(json!({ "sandbox": "outside" })),
                writes("echo no > no.txt"),
                writes("echo x > x.txt; echo x"),
            ],
        );
        let answers = std::sync::Mutex::new(vec![true, false, true].into_iter());
        let made = stage
            .go_with(|_| match answers.lock().unwrap().next() {
                Some(true) => Answer::Once { edited: None },
                _ => Answer::Reject,
            })
            .await;
        assert!(made.iter().all(|made| made.is_asked() && !made.is_sandboxed()), "{mode}");
        let why = "the program, which runs outside the sandbox, may take the text for commands";
        assert!(made[2].why().starts_with(why), "{}", made[2].why());
        assert!(made[2].told().ends_with("Output: x"), "{}", made[2].told());
        assert!(stage.path("x.txt").exists() && !stage.path("no.txt").exists(), "{mode}");
    }
}

#[tokio::test]
async fn in_plan_mode_a_program_is_looked_at_and_not_written_to() {
    if lacking(Need::Sandbox) {
        return;
    }
    let looks = json!({ "call": { "name": "write_stdin", "args": { "wait_ms": 1 } } });
    let closes = json!({ "call": { "name": "write_stdin", "args": { "close": true } } });
    let calls = [with("cat", json!({ "stdin": true, "delay_ms": 1 })), looks, writes("x"), closes];
    let mut stage = Stage::new(Mode::Plan, &calls);
    let made = stage.go(Answer::Reject).await;
    let done: Vec<_> = made.iter().map(super::Made::is_done).collect();
    assert_eq!(done, [true, true, false, false]);
    assert!(made.iter().all(|made| !made.is_asked()));
    assert!(made[2].told().contains("Plan mode"), "{}", made[2].told());
}

#[tokio::test]
async fn a_repl_keeps_what_it_was_told() {
    if lacking(Need::ProtectingSandbox) || lacking(Need::Python) {
        return;
    }
    let python = python().unwrap();
    let starts = with(&format!("{python} -q -i"), json!({ "stdin": true, "delay_ms": 1 }));
    let mut stage = stage(&[starts, writes("a = 20"), writes("print(a + 1)")]);
    let made = stage.go(Answer::Reject).await;
    assert!(made.iter().all(|made| !made.is_asked() && made.is_done()), "{}", made[0].told());
    let mut said = format!("{}\n{}", made[1].told(), made[2].told());
    // The answer may come after the prompts of the start.
    let job = std::sync::Arc::clone(&stage.session.background().jobs()[0]);
    wait_until("the answer", || {
        said += &job.new_output();
        said.contains("21")
    })
    .await;
}

#[tokio::test]
async fn a_killed_agent_leaves_no_program_behind_that_waits_for_input() {
    if lacking(Need::ProtectingSandbox) {
        return;
    }
    let starts =
        with("exec 3>family; echo started >&3; cat", json!({ "stdin": true, "delay_ms": 1 }));
    let setup = Setup::answers(json!([[starts], [{ "text": "done" }]]));
    let mut agent = setup.arg("--sandbox=true").arg("-y").start();
    let fifo = agent.workspace().join("family");
    make_fifo(&fifo);
    let family = pipe::OpenOptions::new().open_receiver(&fifo).unwrap();
    let prompt = agent.prompt("go").await;
    agent.until_answered(prompt, "allow").await;
    let family = has_started(family).await;
    agent.child.start_kill().unwrap();
    agent.exit().await;
    is_gone(family).await;
}

/// Waits until the family has the pipe.
async fn has_started(mut family: pipe::Receiver) -> pipe::Receiver {
    let mut started = [0; 8];
    let read = timeout(HANG, family.read_exact(&mut started));
    read.await.expect("it does not start").unwrap();
    family
}

#[tokio::test]
async fn one_is_stopped_with_all_that_it_has_started() {
    if lacking(Need::ProtectingSandbox) {
        return;
    }
    let mut stage = stage(&[with(FAMILY, json!({ "is_background": true, "delay_ms": 1 }))]);
    make_fifo(&stage.path("family"));
    let family = pipe::OpenOptions::new().open_receiver(stage.path("family")).unwrap();
    stage.go(Answer::Reject).await;
    let family = has_started(family).await;
    stage.session.background().jobs()[0].stop().await;
    is_gone(family).await;
}

#[tokio::test]
async fn a_killed_agent_leaves_nothing_of_them_behind() {
    if lacking(Need::ProtectingSandbox) {
        return;
    }
    let setup = Setup::answers(json!([[behind(FAMILY)], [{ "text": "done" }]]));
    let mut agent = setup.arg("--sandbox=true").arg("-y").start();
    let fifo = agent.workspace().join("family");
    make_fifo(&fifo);
    let family = pipe::OpenOptions::new().open_receiver(&fifo).unwrap();
    let prompt = agent.prompt("go").await;
    agent.until_answered(prompt, "allow").await;
    let family = has_started(family).await;
    agent.child.start_kill().unwrap();
    agent.exit().await;
    is_gone(family).await;
}
