//! Files outside of the workspace, as the tools that read see them: those that commands read without a question.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use serde_json::{Value, json};
use tandem_agent::permission::Mode;
use tandem_agent::session::Answer;
use tandem_tools::command_sandbox::SandboxSetup;
use tandem_tools::home::tool_chains;
use tempfile::TempDir;

use super::{Made, Stage, run};
use crate::needs::{Need, lacking};
use crate::places::seen_in_sandbox;

fn call(name: &str, args: &Value) -> Value {
    json!({ "call": { "name": name, "args": args } })
}

fn reads(path: &Path) -> Value {
    call("read_file", &json!({ "file_path": path }))
}

/// Files of the home.
const FILES: &[(&str, &str)] = &[
    (".cargo/registry/src/a-1.0.0/src/lib.rs", "pub fn needle() {}\n"),
    (".cargo/credentials.toml", "canary\n"),
    (".config/git/ignore", "*.orig\n"),
    (".config/git/credentials", "canary\n"),
    (".local/share/tandem/sessions/a/log.jsonl", "canary needle\n"),
    (".ssh/id_rsa", "canary needle\n"),
    ("notes/diary.md", "canary needle\n"),
];

/// A home outside of `/tmp`, which commands see another one of.
fn home() -> TempDir {
    let home = seen_in_sandbox();
    for (file, content) in FILES {
        let path = home.path().join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }
    home
}

/// Returns what came of calls in a mode; a question is answered with no.
async fn made(home: TempDir, mode: Mode, calls: &[Value]) -> (Stage, Vec<Made>) {
    let chains = tool_chains(home.path(), |_| None);
    let change = |setup| SandboxSetup { tool_chains: chains, ..setup };
    let mut stage = Stage::in_home(home, mode, calls, change);
    let outcomes = stage.go(Answer::Reject).await;
    assert_eq!(outcomes.len(), calls.len());
    (stage, outcomes)
}

#[tokio::test]
async fn sources_of_dependencies_and_files_of_the_system_are_read_unasked() {
    if lacking(Need::Sandbox) {
        return;
    }
    for mode in [Mode::Default, Mode::AutoEdit, Mode::Plan, Mode::Yolo] {
        let home = home();
        let registry = home.path().join(".cargo/registry");
        let source = registry.join("src/a-1.0.0/src/lib.rs");
        let calls = [
            reads(&source),
            call("read_many_files", &json!({ "include": [&source] })),
            call("list_directory", &json!({ "dir_path": registry.join("src") })),
            call("glob", &json!({ "pattern": "**/*.rs", "dir_path": &registry })),
            call("grep_search", &json!({ "pattern": "needle", "dir_path": &registry })),
            reads(&home.path().join(".config/git/ignore")),
            reads(Path::new("/etc/passwd")),
            call("list_directory", &json!({ "dir_path": "/usr" })),
        ];
        let words = ["needle", "needle", "a-1.0.0", "lib.rs", "needle", "*.orig", "root", "bin"];
        let (_stage, made) = made(home, mode, &calls).await;
        for (made, word) in made.iter().zip(words) {
            let label = &made.started.summary.label;
            assert!(!made.is_asked() && made.is_done(), "{mode}: {label}: {}", made.told());
            assert!(made.told().contains(word), "{mode}: {label}: {}", made.told());
        }
    }
}

#[tokio::test]
async fn what_commands_do_not_read_outside_the_tools_do_not_read_either() {
    if lacking(Need::Sandbox) {
        return;
    }
    for mode in [Mode::Default, Mode::Yolo] {
        let home = home();
        let path = |name: &str| home.path().join(name);
        symlink(path("notes"), path(".cargo/registry/link")).unwrap();
        let calls = [
            // What is read first opens nothing else.
            reads(&path(".cargo/registry/src/a-1.0.0/src/lib.rs")),
            reads(&path("notes/diary.md")),
            reads(&path(".cargo/registry/link/diary.md")),
            reads(&path(".cargo/registry/../../notes/diary.md")),
            reads(&path(".cargo/credentials.toml")),
            reads(&path(".config/git/credentials")),
            reads(&path(".ssh/id_rsa")),
            reads(&path(".local/share/tandem/sessions/a/log.jsonl")),
            reads(Path::new("/etc/shadow")),
            reads(Path::new("/proc/self/environ")),
            reads(Path::new("/dev/null")),
            call("list_directory", &json!({ "dir_path": home.path() })),
            call("grep_search", &json!({ "pattern": "canary", "dir_path": home.path() })),
            call("glob", &json!({ "pattern": "**/*", "dir_path": path("notes") })),
        ];
        let (_stage, made) = made(home, mode, &calls).await;
        assert!(made[0].is_done(), "{}", made[0].told());
        for made in &made[1..] {
            let label = &made.started.summary.label;
            assert!(!made.is_done() && !made.is_asked(), "{mode}: {label}: {}", made.told());
            assert!(!made.told().contains("canary"), "{mode}: {label}: {}", made.told());
        }
    }
}

#[tokio::test]
async fn a_search_from_above_the_home_does_not_enter_what_is_hidden_of_it() {
    if lacking(Need::Sandbox) {
        return;
    }
    let home = home();
    let above = home.path().parent().unwrap().to_owned();
    let name = home.path().file_name().unwrap().to_string_lossy().into_owned();
    let calls = [
        call(
            "grep_search",
            &json!({ "pattern": "canary", "dir_path": &above, "include": format!("{name}/**") }),
        ),
        call("glob", &json!({ "pattern": format!("{name}/**/*.md"), "dir_path": &above })),
    ];
    let (_stage, made) = made(home, Mode::Default, &calls).await;
    for made in &made {
        assert!(
            !made.told().contains("diary") && !made.told().contains("needle"),
            "{}",
            made.told()
        );
    }
}

#[tokio::test]
async fn nothing_outside_is_changed_without_the_refusal_of_before() {
    if lacking(Need::Sandbox) {
        return;
    }
    let home = home();
    let source = home.path().join(".cargo/registry/src/a-1.0.0/src/lib.rs");
    let calls = [
        reads(&source),
        call("write_file", &json!({ "file_path": &source, "content": "evil\n" })),
        run("cat ~/notes/diary.md"),
    ];
    let (stage, made) = made(home, Mode::Yolo, &calls).await;
    assert!(made[0].is_done() && !made[1].is_done(), "{}", made[1].told());
    assert!(!made[2].told().contains("canary"), "{}", made[2].told());
    let content =
        fs::read_to_string(stage.home.path().join(".cargo/registry/src/a-1.0.0/src/lib.rs"));
    assert_eq!(content.unwrap(), "pub fn needle() {}\n");
}
