//! Commands that name files of the hidden home: a person is asked, and after a yes the command can read these files.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use serde_json::Value;
use tandem_agent::session::{Answer, ToolOutcome};
use tandem_approval::{Mode, Question, Scope};
use tempfile::TempDir;

use super::{Made, SandboxSetup, Stage, outside, run};
use crate::needs::{Need, lacking};
use crate::places::seen_in_sandbox;

const ONCE: Answer = Answer::Once { edited: None };

/// Makes a home outside of `/tmp`, in whose place commands see another directory.
fn home() -> TempDir {
    let home = seen_in_sandbox();
    for (file, content) in [
        ("notes/diary.md", "needle\n"),
        ("notes/deep/list.md", "milk\n"),
        ("notes/.env", "canary\n"),
        ("notes/keys/server.pem", "canary\n"),
        ("other/x", "straw\n"),
        (".ssh/id_rsa", "canary\n"),
        ("todo.md", "needle\n"),
        ("tool.sh", "echo needle\n"),
    ] {
        let path = home.path().join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }
    home
}

/// Makes a session in a home. In the commands, `~` is the home.
fn stage(mode: Mode, lines: &[&str]) -> Stage {
    let home = home();
    let calls: Vec<Value> = lines.iter().map(|line| run(&named(home.path(), line))).collect();
    Stage::in_home(home, mode, &calls, |setup| setup)
}

/// Replaces each `~` by the path of a home, which may contain a space.
fn named(home: &Path, line: &str) -> String {
    line.replace('~', &format!("'{}'", home.display()))
}

/// Runs a command, and answers its question with "yes, once". Returns the question, and the output.
async fn asked(mode: Mode, line: &str) -> (Option<String>, String) {
    let mut stage = stage(mode, &[line]);
    let home = stage.home.path().display().to_string();
    let call = stage.go(ONCE).await.remove(0);
    let why = call.started.question.as_ref().map(|question| question.why.replace(&home, "~"));
    (why, call.told().to_owned())
}

/// Answers a question with the first "always" that it offers.
fn always(question: &Question) -> Answer {
    Answer::Always(question.scopes.first().expect("there is no \"always\"").clone())
}

fn questions(made: &[Made]) -> Vec<bool> {
    made.iter().map(Made::is_asked).collect()
}

#[tokio::test]
async fn a_command_that_names_a_file_of_the_home_is_asked_about_and_sees_it() {
    if lacking(Need::Sandbox) {
        return;
    }
    for mode in [Mode::Default, Mode::AutoEdit] {
        for (line, paths) in [
            ("cat ~/notes/diary.md", "`~/notes/diary.md` is"),
            ("grep needle < ~/notes/diary.md", "`~/notes/diary.md` is"),
            ("cat ~/notes/*.md", "`~/notes` is"),
            ("cat ~/todo.md ~/notes/diary.md", "`~/notes/diary.md`, `~/todo.md` are"),
            ("cd ~/notes && cat diary.md", "`~/notes` is"),
            ("cd ~ && cat todo.md", "`~/todo.md` is"),
            ("bash ~/tool.sh", "`~/tool.sh` is"),
            ("for name in diary; do cat ~/notes/$name.md; done", "`~/notes/diary.md` is"),
            ("grep -r needle ~/notes", "`~/notes` is"),
            (
                "python3 -c 'print(open(input()).read())' <<< ~/todo.md || cat ~/todo.md",
                "`~/todo.md` is",
            ),
        ] {
            let (why, told) = asked(mode, line).await;
            let why = why.unwrap_or_else(|| panic!("{mode}: {line}: {told}"));
            // Some mechanisms put another reason before this one, so the test searches the text.
            assert!(why.contains(paths), "{mode}: {line}: {why}");
            assert!(told.contains("needle") && !told.contains("canary"), "{mode}: {line}: {told}");
        }
    }
}

#[tokio::test]
async fn nothing_is_asked_about_what_is_not_there_or_not_hidden() {
    if lacking(Need::Sandbox) {
        return;
    }
    for line in
        ["cat ~/none", "ls ~", "cat ~/project/a.txt", "cat /etc/passwd", "echo ~/notes/diary.md"]
    {
        let (why, told) = asked(Mode::Default, line).await;
        assert_eq!(why, None, "{line}");
        assert!(!told.contains("needle"), "{line}: {told}");
    }
}

#[tokio::test]
async fn without_a_yes_the_command_does_not_run_and_a_yes_is_for_one_command() {
    if lacking(Need::Sandbox) {
        return;
    }
    // Some sandboxes show commands the machine's own `/tmp`, which may have a file of any simple name.
    let name = format!("tandem-ran-{:x}", fastrand::u64(..));
    let touches = format!("touch /tmp/{name}; cat ~/notes/diary.md");
    let lines = [&touches, "ls /tmp", "cat ~/other/x", "cat ~/notes/diary.md"];
    let mut stage = stage(Mode::Default, &lines);
    let made = stage
        .go_with(|question| if question.why.contains("diary") { Answer::Reject } else { ONCE })
        .await;
    assert_eq!(questions(&made), [true, false, true, true]);
    assert_eq!(made[0].outcome, ToolOutcome::Rejected);
    assert!(!made[1].told().contains(&name), "{}", made[1].told());
    assert!(made[2].told().contains("straw"), "{}", made[2].told());
    assert_eq!(made[3].outcome, ToolOutcome::Rejected);
}

#[tokio::test]
async fn an_always_lays_the_folder_into_later_commands_without_its_secrets_and_read_only() {
    if lacking(Need::ProtectingSandbox) {
        return;
    }
    let lines = [
        "cat ~/notes/diary.md; cat deep/list.md 2>/dev/null; bash peek.sh",
        "cat ~/notes/deep/list.md && bash peek.sh",
        "bash peek.sh; echo x > ~/notes/new; echo x >> ~/notes/diary.md",
        "cat ~/other/x",
    ];
    let mut stage = stage(Mode::AutoEdit, &lines);
    let notes = stage.home.path().join("notes");
    let peek = named(
        stage.home.path(),
        "cat ~/notes/deep/list.md ~/notes/.env ~/notes/keys/server.pem ~/.ssh/id_rsa ~/todo.md\n",
    );
    fs::write(stage.path("peek.sh"), peek).unwrap();
    let made = stage
        .go_with(|question| {
            if question.why.contains("other") {
                return Answer::Reject;
            }
            assert_eq!(question.scopes, [Scope::Reads(vec![notes.clone()])]);
            always(question)
        })
        .await;
    assert_eq!(questions(&made), [true, false, false, true]);
    for made in &made[..3] {
        assert!(made.told().contains("milk"), "{}", made.told());
        assert!(!made.told().contains("canary"), "{}", made.told());
    }
    assert!(!made[1].told().contains("needle"), "{}", made[1].told());
    assert!(!notes.join("new").exists());
    assert_eq!(fs::read_to_string(notes.join("diary.md")).unwrap(), "needle\n");
}

#[tokio::test]
async fn an_always_of_a_tool_counts_for_commands_and_that_of_a_command_for_tools() {
    if lacking(Need::Sandbox) {
        return;
    }
    let home = home();
    let read = |name: &str| {
        let args = serde_json::json!({ "file_path": home.path().join(name) });
        serde_json::json!({ "call": { "name": "read_file", "args": args } })
    };
    let cat = |name: &str| run(&format!("cat '{}'", home.path().join(name).display()));
    let calls =
        [read("notes/diary.md"), cat("notes/deep/list.md"), cat("other/x"), read("other/x")];
    let mut stage = Stage::in_home(home, Mode::Default, &calls, |setup| setup);
    let made = stage.go_with(always).await;
    assert_eq!(questions(&made), [true, false, true, false]);
    let told: Vec<_> = made.iter().map(|made| made.told().trim()).collect();
    assert!(told[0].contains("needle") && told[1].contains("milk"), "{told:?}");
    assert!(told[2].contains("straw") && told[3].contains("straw"), "{told:?}");
}

#[tokio::test]
async fn a_link_is_asked_about_by_the_file_that_it_leads_to() {
    if lacking(Need::Sandbox) {
        return;
    }
    let home = home();
    let (project, notes) = (home.path().join("project"), home.path().join("notes"));
    fs::create_dir(&project).unwrap();
    symlink(notes.join("diary.md"), project.join("link")).unwrap();
    let mut stage = Stage::in_home(home, Mode::Default, &[run("cat link")], |setup| setup);
    let made = stage.go(ONCE).await.remove(0);
    let path = notes.join("diary.md");
    assert!(made.why().contains(&format!("`{}`", path.display())), "{}", made.why());
    assert!(made.told().contains("needle"), "{}", made.told());
}

#[tokio::test]
async fn modes_that_show_nothing_of_the_home_are_as_strict_as_before() {
    if lacking(Need::Sandbox) {
        return;
    }
    let lines = ["cat ~/notes/diary.md", "cat ~/notes/.env ~/.ssh/id_rsa"];
    let mut unasked = stage(Mode::Yolo, &lines);
    for made in unasked.go(Answer::Reject).await {
        assert!(!made.is_asked(), "{}", made.told());
        assert!(!made.told().contains("needle") && !made.told().contains("canary"));
    }
    let mut plan = stage(Mode::Plan, &["cat ~/notes/diary.md"]);
    let made = plan.go(ONCE).await.remove(0);
    assert!(!made.is_asked() && made.told().contains("Plan mode"), "{}", made.told());
}

#[tokio::test]
async fn the_mode_without_questions_shows_no_named_secret_of_a_home_that_is_shown() {
    if lacking(Need::Sandbox) {
        return;
    }
    let home = home();
    let readable = vec![home.path().to_owned()];
    let call = run(&named(home.path(), "cat ~/notes/diary.md; cat ~/.ssh/id_rsa"));
    let mut stage =
        Stage::in_home(home, Mode::Yolo, &[call], |setup| SandboxSetup { readable, ..setup });
    let made = stage.go(Answer::Reject).await.remove(0);
    assert!(!made.is_asked() && made.told().contains("needle"), "{}", made.told());
    assert!(!made.told().contains("canary"), "{}", made.told());
}

#[tokio::test]
async fn a_command_that_is_to_leave_the_sandbox_is_one_question_about_that() {
    if lacking(Need::Sandbox) {
        return;
    }
    let home = home();
    let line = named(home.path(), "cat ~/notes/diary.md");
    let mut stage = Stage::in_home(home, Mode::Default, &[outside(&line)], |setup| setup);
    let made = stage.go(ONCE).await.remove(0);
    assert!(made.why().contains("outside the sandbox"), "{}", made.why());
    assert!(!made.why().contains("where nothing is read without a question"), "{}", made.why());
    assert!(made.told().contains("needle"), "{}", made.told());
}

#[tokio::test]
async fn a_store_of_secrets_that_comes_up_during_the_question_is_hidden_from_the_command() {
    if lacking(Need::Sandbox) {
        return;
    }
    let line = "cat ~/notes/diary.md; cat ~/.cargo/config.toml; ls ~/.cargo; cat ~/.cargo/cred*";
    let home = home();
    fs::create_dir_all(home.path().join(".cargo")).unwrap();
    fs::write(home.path().join(".cargo/config.toml"), "straw\n").unwrap();
    let store = home.path().join(".cargo/credentials.toml");
    let call = run(&named(home.path(), line));
    let readable = vec![home.path().join(".cargo")];
    let set = |setup| SandboxSetup { readable, ..setup };
    let mut stage = Stage::in_home(home, Mode::Default, &[call], set);
    let logs_in = |_: &Question| {
        fs::write(&store, "canary\n").unwrap();
        ONCE
    };
    let call = stage.go_with(logs_in).await.remove(0);
    assert!(call.is_asked() && store.exists());
    assert!(call.told().contains("needle") && call.told().contains("straw"), "{}", call.told());
    assert!(!call.told().contains("canary"), "{}", call.told());
}

#[tokio::test]
async fn a_yes_to_a_secret_of_the_home_shows_that_file_to_that_command_and_no_other() {
    if lacking(Need::Sandbox) {
        return;
    }
    for (line, path) in [
        ("cat ~/.ssh/id_rsa; bash peek.sh", "`~/.ssh/id_rsa`"),
        ("cat < ~/.ssh/id_rsa; bash peek.sh", "`~/.ssh/id_rsa`"),
        ("cat ~/.ssh/*; bash peek.sh", "`~/.ssh`"),
        ("tar cf - -C ~ ~/.ssh | tar xOf -; bash peek.sh", "`~/.ssh`"),
    ] {
        let mut stage = stage(Mode::Default, &[line, "bash peek.sh"]);
        let home = stage.home.path().to_owned();
        let peek = named(&home, "cat ~/notes/.env ~/notes/keys/server.pem; cat ~/.ssh/id_rsa\n");
        fs::write(stage.path("peek.sh"), peek.replace("canary", "")).unwrap();
        for file in ["notes/.env", "notes/keys/server.pem"] {
            fs::write(home.join(file), "other\n").unwrap();
        }
        let made = stage.go(ONCE).await;
        let why = made[0].why().replace(&home.display().to_string(), "~");
        assert!(why.contains("may hold secrets") && why.contains(path), "{line}: {why}");
        assert!(made[0].started.question.as_ref().unwrap().every_time(), "{line}");
        assert_eq!(made[0].told().matches("canary").count(), 2, "{line}: {}", made[0].told());
        assert!(!made[0].told().contains("other"), "{line}: {}", made[0].told());
        assert!(!made[1].told().contains("canary"), "{line}: {}", made[1].told());
    }
}

#[tokio::test]
async fn a_yes_to_a_file_of_a_store_that_a_link_leads_to_shows_that_file_and_no_other() {
    if lacking(Need::Sandbox) {
        return;
    }
    let home = home();
    let store = home.path().join("dotfiles/ssh");
    fs::create_dir_all(&store).unwrap();
    fs::write(store.join("config"), "canary\n").unwrap();
    fs::write(store.join("other"), "straw\n").unwrap();
    fs::remove_dir_all(home.path().join(".ssh")).unwrap();
    symlink(&store, home.path().join(".ssh")).unwrap();
    let lines = ["cat ~/.ssh/config; bash peek.sh", "bash peek.sh"];
    let calls = lines.map(|line| run(&named(home.path(), line)));
    let peek = named(home.path(), "cat ~/dotfiles/ssh/*\n");
    let mut stage = Stage::in_home(home, Mode::Default, &calls, |setup| setup);
    fs::write(stage.path("peek.sh"), peek).unwrap();
    let made = stage.go(ONCE).await;
    let expected = format!("`{}` may hold secrets", store.join("config").display());
    assert!(made[0].why().contains(&expected), "{}", made[0].why());
    assert!(made[0].started.question.as_ref().unwrap().every_time());
    assert!(made[0].told().contains("canary"), "{}", made[0].told());
    assert!(!made[0].told().contains("straw"), "{}", made[0].told());
    assert!(!made[1].told().contains("canary"), "{}", made[1].told());
}

#[tokio::test]
async fn neither_a_no_nor_an_always_for_the_folder_shows_a_secret_of_the_home() {
    if lacking(Need::Sandbox) {
        return;
    }
    let lines = ["cat ~/notes/diary.md", "cat ~/notes/.env", "cat ~/notes/diary.md ~/notes/.env"];
    let mut stage = stage(Mode::Default, &lines);
    let is_about_secret = |question: &Question| question.why.contains("may hold secrets");
    let made = stage
        .go_with(
            |question| {
                if is_about_secret(question) { Answer::Reject } else { always(question) }
            },
        )
        .await;
    assert_eq!(questions(&made), [true, true, true]);
    assert!(made[0].is_done());
    for made in &made[1..] {
        assert_eq!(made.outcome, ToolOutcome::Rejected);
    }
}

#[tokio::test]
async fn to_delete_a_file_of_the_home_is_asked_about_as_that_and_deletes_it_after_a_yes() {
    if lacking(Need::Sandbox) {
        return;
    }
    for mode in [Mode::Default, Mode::AutoEdit, Mode::Yolo] {
        for line in [
            "rm ~/notes/diary.md",
            "cd ~/notes && rm diary.md",
            "mv ~/notes/diary.md ~/notes/old",
            "mv -t ~/project ~/notes/diary.md",
            "unlink ~/notes/diary.md",
        ] {
            for answer in [ONCE, Answer::Reject] {
                let mut stage = stage(mode, &[line]);
                let diary = stage.home.path().join("notes/diary.md");
                let made = stage.go(answer.clone()).await.remove(0);
                let why = made.why();
                assert!(why.contains("cannot work inside the sandbox"), "{mode}: {line}: {why}");
                assert!(
                    !why.contains("where nothing is read without a question"),
                    "{mode}: {line}: {why}"
                );
                assert!(!made.is_sandboxed(), "{line}");
                assert_eq!(diary.exists(), answer == Answer::Reject, "{mode}: {line}");
            }
        }
    }
    // Files that are only read, or do not exist, give the command no reason to leave the sandbox.
    for line in ["cp ~/notes/diary.md .", "rm ~/none", "touch a.txt"] {
        let mut stage = stage(Mode::AutoEdit, &[line]);
        let made = stage.go(ONCE).await.remove(0);
        assert!(made.is_sandboxed(), "{line}");
    }
}
