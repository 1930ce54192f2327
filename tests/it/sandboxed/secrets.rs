//! Files of the workspace with secrets: hidden from commands, unless a person has allowed them.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};
use tandem_agent::session::Answer;
use tandem_approval::Mode;
use tandem_host::command_sandbox::SandboxSetup;
use tandem_sandbox::Mechanism;
use tempfile::TempDir;
use tokio::time::timeout;

use super::{Made, Stage, run};
use crate::agent::Setup;
use crate::needs::{Need, lacking};
use crate::sandbox::works;

/// Secret of the workspace.
const TOKEN: &str = "canary7319";

/// The secret in the forms in which programs print it: plain, reversed, in base 64, and as single bytes.
const TRACES: [&str; 5] =
    [TOKEN, "9137yranac", "VE9LRU49Y2FuYXJ5", "c   a   n   a   r", "6361 6e61"];

/// Longer than all the command lines of the table take.
const TABLE_HANG: Duration = Duration::from_mins(5);

/// Files of a workspace that print its secret in different ways.
const FILES: [(&str, &str); 8] = [
    (".env", "TOKEN=canary7319\n"),
    ("README.md", "# Project\n"),
    ("names", ".env\n"),
    ("Makefile", "print:\n\t@cat .env\n"),
    ("package.json", "{ \"scripts\": { \"print\": \"cat .env\" } }\n"),
    ("print.sh", "cat .env\n"),
    ("print.py", "print(open('.env').read())\n"),
    ("sub/a.txt", "a\n"),
];

/// Returns the command lines of the table that print the secret of a workspace.
fn spellings(root: &Path) -> Vec<String> {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/policy/secret_spellings.txt");
    let table = fs::read_to_string(file).unwrap();
    let lines = table.lines().filter(|line| !line.is_empty() && !line.starts_with("--"));
    let root = root.display().to_string();
    let lines: Vec<_> = lines
        .map(|line| line.replace("{root}", &root).replace('⏎', "\n").replace('⇥', "\t"))
        .collect();
    assert!(lines.len() > 60);
    lines
}

/// Checks that the text for the model of a command line does not contain the secret.
#[track_caller]
fn has_no_secret(told: &str, line: &str, why: &str) {
    let trace = TRACES.into_iter().find(|trace| told.contains(trace));
    assert_eq!(trace, None, "{why}: {line:?} told the model: {told}");
}

/// Runs every command line of the table in a session; each question is answered with no.
async fn check(mode: Mode, mechanism: Option<Mechanism>) {
    let home = TempDir::new().unwrap();
    let project = home.path().join("project");
    let lines = spellings(&project);
    let calls: Vec<_> = lines.iter().map(|line| run(line)).collect();
    let change = |setup| match mechanism {
        Some(_) => SandboxSetup { mechanism, ..setup },
        // Without a mechanism, the sandbox is broken: its helper always fails.
        None => SandboxSetup {
            mechanism: Some(Mechanism::Namespaces),
            helper: PathBuf::from("/bin/false"),
            ..setup
        },
    };
    let mut stage = Stage::in_home(home, mode, &calls, change);
    for (name, content) in FILES {
        fs::create_dir_all(stage.path(name).parent().unwrap()).unwrap();
        fs::write(stage.path(name), content).unwrap();
    }
    symlink(".env", stage.path("link")).unwrap();
    let mut calls = stage.go(Answer::Reject).await;
    // npm sometimes looks for a newer version of itself. The question about its host is a call of the agent, which
    // is left out.
    calls.retain(|made| made.started.call.name == "run_shell_command");
    assert_eq!(calls.len(), lines.len());
    let why = format!("{mode} {mechanism:?}");
    for (made, line) in calls.iter().zip(&lines) {
        if !made.is_asked() {
            has_no_secret(made.told(), line, &why);
        }
    }
    let asked = calls.iter().filter(|made| made.is_asked()).count();
    assert!(asked > 20, "{why}: {asked} questions");
    assert_eq!(fs::read_to_string(stage.path(".env")).unwrap(), FILES[0].1);
}

async fn check_mechanism(mechanism: Mechanism) {
    if works(mechanism.name()) {
        for mode in [Mode::Default, Mode::AutoEdit] {
            check(mode, Some(mechanism)).await;
        }
    }
}

#[tokio::test]
async fn no_spelling_of_a_secret_is_printed_in_namespaces() {
    check_mechanism(Mechanism::Namespaces).await;
}

#[tokio::test]
async fn no_spelling_of_a_secret_is_printed_with_bubblewrap() {
    check_mechanism(Mechanism::Bubblewrap).await;
}

#[tokio::test]
async fn no_spelling_of_a_secret_is_printed_with_landlock() {
    check_mechanism(Mechanism::Landlock).await;
}

#[tokio::test]
async fn every_spelling_of_a_secret_is_asked_about_where_no_mechanism_works() {
    for mode in [Mode::Default, Mode::AutoEdit] {
        check(mode, None).await;
    }
}

#[tokio::test]
async fn the_program_prints_no_secret_whatever_the_spelling() {
    for mode in ["default", "auto_edit"] {
        let home = TempDir::new().unwrap();
        let lines = spellings(&home.path().canonicalize().unwrap().join("workspace"));
        // The calls are spread over fewer rounds than a turn may have.
        let mut answers: Vec<Value> =
            lines.chunks(10).map(|lines| lines.iter().map(|line| run(line)).collect()).collect();
        answers.push(json!([{ "text": "done" }]));
        let mut setup = Setup::answers(json!(answers));
        for (name, content) in FILES {
            setup = setup.file(name, content);
        }
        let setup = setup.arg("--approval-mode").arg(mode).arg("-o").arg("stream-json");
        let mut command = setup.arg("-p").arg("go").command(home.path());
        symlink(".env", home.path().join("workspace/link")).unwrap();
        let child = command.stdin(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let output = timeout(TABLE_HANG, child.wait_with_output()).await.expect("it does not end");
        let output = String::from_utf8(output.unwrap().stdout).unwrap();
        let events = output.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        let events: Vec<_> = events.collect();
        let of =
            |kind: &str| events.iter().filter(|event| event["type"] == kind).collect::<Vec<_>>();
        // A program may also connect to a host, which is a call of the agent and left out here.
        let is_command = |event: &&&Value| event["tool_name"] == "run_shell_command";
        let uses: Vec<_> = of("tool_use").into_iter().filter(|it| is_command(&it)).collect();
        let results = of("tool_result");
        assert_eq!(uses.len(), lines.len());
        for called in uses {
            let line = called["parameters"]["command"].as_str().unwrap();
            let result = results.iter().find(|result| result["tool_id"] == called["tool_id"]);
            let result = result.unwrap_or_else(|| panic!("{mode}: {line:?} has no result"));
            has_no_secret(&result.to_string(), line, mode);
        }
    }
}

/// Runs git in a directory, without settings of a user.
fn git(directory: &Path, args: &[&str]) {
    let mut git = Command::new("git");
    git.current_dir(directory).args(["-c", "user.name=t", "-c", "user.email=t@t"]).args(args);
    git.env("GIT_CONFIG_GLOBAL", "/dev/null").env("GIT_CONFIG_NOSYSTEM", "1");
    let output = git.output().unwrap();
    assert!(output.status.success(), "git {args:?}: {output:?}");
}

/// Runs these lines in a project that `prepare` makes, gives each question this answer, and returns the calls.
async fn runs(
    mode: Mode,
    lines: &[&str],
    answer: Answer,
    prepare: impl FnOnce(&Path),
) -> Vec<Made> {
    let calls: Vec<_> = lines.iter().map(|line| run(line)).collect();
    let mut stage = Stage::new(mode, &calls);
    let project = stage.home.path().join("project");
    fs::remove_dir_all(project.join(".git")).unwrap();
    fs::remove_file(project.join("a.txt")).unwrap();
    prepare(&project);
    stage.go(answer).await
}

/// Makes two files with secrets.
fn two_secrets(project: &Path) {
    fs::create_dir(project.join("sub")).unwrap();
    fs::write(project.join(".env"), "one\n").unwrap();
    fs::write(project.join("sub/.env.local"), "two\n").unwrap();
}

#[tokio::test]
async fn a_yes_shows_to_this_run_what_the_question_names_and_nothing_else() {
    if lacking(Need::ProtectingSandbox) {
        return;
    }
    let lines = ["cat .env; cat sub/.e*", "cat .env; sh print.sh", "source .env; sh print.sh"];
    for mode in [Mode::Default, Mode::AutoEdit] {
        let made = runs(mode, &lines, Answer::Once { edited: None }, |project| {
            two_secrets(project);
            fs::write(project.join("print.sh"), "cat .env sub/.env.local\n").unwrap();
        });
        let made = made.await;
        for (made, line) in made.iter().zip(lines) {
            assert!(made.is_asked() && made.is_sandboxed(), "{line}");
            assert!(made.why().contains("`.env` may hold secrets"), "{line}: {}", made.why());
            assert!(made.told().contains("one"), "{line}: {}", made.told());
            let names_both = line.contains("sub");
            assert_eq!(made.told().contains("two"), names_both, "{line}: {}", made.told());
        }
    }
}

#[tokio::test]
async fn what_is_not_asked_about_sees_no_secret_in_either_mode() {
    if lacking(Need::Sandbox) {
        return;
    }
    for mode in [Mode::Default, Mode::AutoEdit] {
        let made = runs(mode, &["sh print.sh; echo read"], Answer::Reject, |project| {
            two_secrets(project);
            fs::write(project.join("print.sh"), "cat .env sub/.env.local\n").unwrap();
        });
        let made = made.await;
        let is_held = lacking(Need::ProtectingSandbox) && mode == Mode::AutoEdit;
        assert_eq!(made[0].is_asked(), is_held);
        if !is_held {
            let told = made[0].told();
            assert!(
                told.contains("read") && !told.contains("one") && !told.contains("two"),
                "{told}"
            );
        }
    }
}

#[tokio::test]
async fn what_git_tracks_is_seen_and_what_it_does_not_is_hidden() {
    if lacking(Need::ProtectingSandbox) {
        return;
    }
    let tracked = ["keys/test.pem", ".npmrc", ".ssh/config", ".env.shared"];
    let hidden = [".env", "keys/own.pem", ".ssh/id", "own.key", "nested/other.pem", "later.pem"];
    for (format, version) in [("sha1", "2"), ("sha1", "4"), ("sha256", "3")] {
        let lines = ["sh print.sh", "git status --short"];
        let made = runs(Mode::AutoEdit, &lines, Answer::Reject, |project| {
            let format = format!("--object-format={format}");
            git(project, &["init", "-q", &format]);
            let all = [&tracked[..], &hidden].concat();
            for name in &all {
                fs::create_dir_all(project.join(name).parent().unwrap()).unwrap();
                fs::write(project.join(name), format!("content of {name};\n")).unwrap();
            }
            fs::write(project.join("print.sh"), format!("cat {}\n", all.join(" "))).unwrap();
            git(project, &[&["add", "-f", "print.sh", "later.pem"], &tracked[..]].concat());
            git(project, &["commit", "-qm", "x"]);
            git(project, &["update-index", "--skip-worktree", "later.pem"]);
            git(project, &["update-index", "--index-version", version]);
            // This repository is no submodule. A command could have made it, so its index hides no files.
            git(project, &["init", "-q", &format, "nested"]);
            git(&project.join("nested"), &["add", "-f", "."]);
        });
        let made = made.await;
        let told = made[0].told();
        assert!(!made[0].is_asked() && made[0].is_sandboxed());
        for name in tracked {
            assert!(
                told.contains(&format!("content of {name};")),
                "{format} {version} {name}: {told}"
            );
        }
        for name in hidden {
            assert!(
                !told.contains(&format!("content of {name};")),
                "{format} {version} {name}: {told}"
            );
        }
        // In a repository of this format, `git` commands are asked about.
        assert_eq!(made[1].is_asked(), format == "sha256", "{format} {version}");
        if !made[1].is_asked() {
            let told = made[1].told();
            assert!(!told.contains(" M ") && !told.contains(" D "), "git sees a change: {told}");
        }
    }
}

#[tokio::test]
async fn a_worktree_and_its_submodule_have_files_that_git_tracks() {
    if lacking(Need::ProtectingSandbox) {
        return;
    }
    let made = runs(Mode::AutoEdit, &["sh print.sh"], Answer::Reject, |project| {
        let beside = |name| project.with_file_name(name);
        let (origin, library) = (beside("origin"), beside("library"));
        for (directory, name) in [(&library, "library.pem"), (&origin, "origin.pem")] {
            fs::create_dir(directory).unwrap();
            git(directory, &["init", "-q"]);
            fs::write(directory.join(name), format!("content of {name}\n")).unwrap();
            git(directory, &["add", "."]);
            git(directory, &["commit", "-qm", "x"]);
        }
        let submodule = ["-c", "protocol.file.allow=always", "submodule", "--quiet"];
        let library = library.to_str().unwrap();
        git(&origin, &[&submodule[..], &["add", library, "lib"]].concat());
        git(&origin, &["commit", "-qm", "y"]);
        git(&origin, &["worktree", "add", "-q", project.to_str().unwrap()]);
        git(project, &[&submodule[..], &["update", "--init"]].concat());
        fs::write(project.join("lib/own.pem"), "content of own.pem\n").unwrap();
        fs::write(project.join("print.sh"), "cat origin.pem lib/library.pem lib/own.pem\n")
            .unwrap();
    });
    let made = made.await;
    let told = made[0].told();
    assert!(told.contains("content of origin.pem\ncontent of library.pem"), "{told}");
    assert!(!told.contains("content of own.pem"), "{told}");
}

#[tokio::test]
async fn a_repository_that_a_command_makes_shows_nothing() {
    if lacking(Need::ProtectingSandbox) {
        return;
    }
    let makes = "cd sub && git init -q . && mkdir x && touch x/.env.local && cd x && \
        git --git-dir=../.git --work-tree=. add -f .env.local; sh ../../print.sh";
    let made = runs(
        Mode::AutoEdit,
        &["sh make.sh; echo made", "sh print.sh"],
        Answer::Reject,
        |project| {
            two_secrets(project);
            fs::write(project.join("make.sh"), makes).unwrap();
            fs::write(project.join("print.sh"), "cat sub/.env.local .env\n").unwrap();
        },
    );
    let made = made.await;
    assert!(made[0].told().contains("made"), "{}", made[0].told());
    let told = made[1].told();
    assert!(!told.contains("one") && !told.contains("two"), "{told}");
}

#[tokio::test]
async fn the_model_is_told_what_was_hidden_and_what_to_do() {
    if lacking(Need::ProtectingSandbox) {
        return;
    }
    let lines = ["sh print.sh; echo .env", "echo a"];
    let made = runs(Mode::AutoEdit, &lines, Answer::Reject, |project| {
        two_secrets(project);
        fs::write(project.join("print.sh"), "cat .env\n").unwrap();
    });
    let made = made.await;
    let told = made[0].told();
    assert!(told.contains("[Hidden by the sandbox") && told.contains("`outside`"), "{told}");
    assert!(told.contains("project/.env.") && !told.contains(".env.local"), "{told}");
    assert!(!made[1].told().contains("Hidden by the sandbox"), "{}", made[1].told());
}

#[tokio::test]
async fn a_file_that_the_settings_name_is_seen() {
    if lacking(Need::ProtectingSandbox) {
        return;
    }
    let home = TempDir::new().unwrap();
    let named = home.path().join("project/.env");
    let change = |setup| SandboxSetup { writable: vec![named], ..setup };
    let mut stage = Stage::in_home(home, Mode::AutoEdit, &[run("sh print.sh")], change);
    two_secrets(&stage.path("."));
    fs::write(stage.path("print.sh"), "cat .env sub/.env.local\n").unwrap();
    let made = stage.go(Answer::Reject).await;
    let told = made[0].told();
    assert!(told.contains("one") && !told.contains("two"), "{told}");
}
