//! Files outside of the workspace, as the reading tools see them: files that are read without a question, files that
//! are asked about, and files that are never read.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use serde_json::{Value, json};
use tandem_agent::session::{Answer, ToolOutcome};
use tandem_approval::{Mode, Question, Scope};
use tandem_host::command_sandbox::SandboxSetup;
use tandem_host::home::ToolChains;
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

/// Makes a home outside of `/tmp`, in whose place commands see another directory.
fn home() -> TempDir {
    filled(seen_in_sandbox())
}

/// Puts the files into a directory.
fn filled(home: TempDir) -> TempDir {
    for (file, content) in FILES {
        let path = home.path().join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }
    home
}

/// Makes a session in a home whose tool chains commands can read.
fn in_home(home: TempDir, mode: Mode, calls: &[Value]) -> Stage {
    let chains = ToolChains::new(home.path().to_owned(), |_| None);
    Stage::in_home(home, mode, calls, |setup| SandboxSetup { tool_chains: chains, ..setup })
}

/// Runs calls in a mode, and answers each question with no. Returns the calls with their outcomes.
async fn made(home: TempDir, mode: Mode, calls: &[Value]) -> (Stage, Vec<Made>) {
    let mut stage = in_home(home, mode, calls);
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
            call("glob", &json!({ "pattern": registry.join("**/*.rs") })),
            call("read_many_files", &json!({ "include": [registry.join("**/*.rs")] })),
        ];
        let words = [
            "needle", "needle", "a-1.0.0", "lib.rs", "needle", "*.orig", "root", "bin", "lib.rs",
            "needle",
        ];
        let (_stage, made) = made(home, mode, &calls).await;
        for (made, word) in made.iter().zip(words) {
            let label = &made.started.summary.label;
            assert!(!made.is_asked() && made.is_done(), "{mode}: {label}: {}", made.told());
            assert!(made.told().contains(word), "{mode}: {label}: {}", made.told());
        }
    }
}

/// Calls of each tool that reads, all for the folder `notes` of a home.
fn of_notes(home: &Path) -> [Value; 8] {
    let notes = home.join("notes");
    [
        reads(&notes.join("diary.md")),
        call("read_many_files", &json!({ "include": [notes.join("diary.md")] })),
        call("read_many_files", &json!({ "include": [&notes] })),
        call("list_directory", &json!({ "dir_path": &notes })),
        call("glob", &json!({ "pattern": "**/*.md", "dir_path": &notes })),
        call("grep_search", &json!({ "pattern": "needle", "dir_path": &notes })),
        call("glob", &json!({ "pattern": notes.join("*.md") })),
        call("read_many_files", &json!({ "include": [notes.join("*.md")] })),
    ]
}

const ONCE: Answer = Answer::Once { edited: None };

/// Answers a question with the first "always" that it offers.
fn always(question: &Question) -> Answer {
    Answer::Always(question.scopes.first().expect("there is no \"always\"").clone())
}

/// Returns `true` if a call has read something of the notes.
fn tells_of_notes(outcome: &ToolOutcome) -> bool {
    let ToolOutcome::Done(output) = outcome else { return false };
    ["needle", "diary.md"].iter().any(|words| output.text.contains(words))
}

#[tokio::test]
async fn what_commands_do_not_read_of_the_home_is_asked_about_once_a_call() {
    if lacking(Need::Sandbox) {
        return;
    }
    for mode in [Mode::Default, Mode::AutoEdit, Mode::Plan] {
        for (answer, is_read) in [(ONCE, true), (Answer::Reject, false)] {
            let home = home();
            let calls = of_notes(home.path());
            let notes = home.path().join("notes");
            let mut stage = in_home(home, mode, &calls);
            let made = stage.go(answer).await;
            for made in &made {
                let label = &made.started.summary.label;
                let question = made.started.question.as_ref();
                let question = question.unwrap_or_else(|| panic!("{mode}: {label}: unasked"));
                assert!(question.why.contains(&*notes.to_string_lossy()), "{}", question.why);
                assert_eq!(question.scopes, [Scope::Reads(vec![notes.clone()])], "{label}");
                assert!(made.started.summary.locations.len() <= 1, "{label}");
                assert_eq!(tells_of_notes(&made.outcome), is_read, "{mode}: {label}");
                let is_rejected = made.outcome == ToolOutcome::Rejected;
                assert_eq!(is_rejected, !is_read, "{mode}: {label}");
            }
        }
    }
}

#[tokio::test]
async fn an_always_is_for_the_folder_and_ends_with_the_session() {
    if lacking(Need::Sandbox) {
        return;
    }
    let home = home();
    fs::write(home.path().join("notes2"), "canary\n").unwrap();
    let beside = [reads(&home.path().join("notes2")), reads(&home.path().join("notes/.env"))];
    fs::write(home.path().join("notes/.env"), "canary\n").unwrap();
    let calls = [of_notes(home.path()).to_vec(), beside.to_vec()].concat();
    let mut stage = in_home(home, Mode::Default, &calls);
    let made = stage
        .go_with(
            |question| if is_about(question, "notes2") { Answer::Reject } else { always(question) },
        )
        .await;
    let asked: Vec<_> = made.iter().map(super::Made::is_asked).collect();
    let [own, beside] = [&asked[..8], &asked[8..]];
    assert!(own[0] && !own[1..].contains(&true), "{own:?}");
    assert_eq!(beside, [true, false]);
    assert!(made[..8].iter().all(super::Made::is_done));
    assert!(made[5].told().contains("needle"), "{}", made[5].told());
    assert_eq!(made[8].outcome, ToolOutcome::Rejected);
    assert!(!made[9].is_done() && !made[9].told().contains("canary"), "{}", made[9].told());
}

fn is_about(question: &Question, name: &str) -> bool {
    question.why.contains(name)
}

#[tokio::test]
async fn a_yes_is_for_one_call_and_names_where_a_link_leads() {
    if lacking(Need::Sandbox) {
        return;
    }
    let home = home();
    let (link, diary) = (home.path().join("project/link"), home.path().join("notes/diary.md"));
    fs::create_dir(home.path().join("project")).unwrap();
    symlink(&diary, &link).unwrap();
    symlink(home.path().join("notes"), home.path().join(".cargo/registry/link")).unwrap();
    let calls = [
        reads(&link),
        reads(&home.path().join(".cargo/registry/link/diary.md")),
        reads(&home.path().join(".cargo/registry/../../notes/diary.md")),
    ];
    let mut stage = in_home(home, Mode::Default, &calls);
    for made in stage.go(ONCE).await {
        assert!(made.why().contains(&format!("`{}`", diary.display())), "{}", made.why());
        assert!(made.told().contains("needle"), "{}", made.told());
    }
}

#[tokio::test]
async fn several_files_of_one_call_are_one_question_and_the_home_as_a_whole_has_no_always() {
    if lacking(Need::Sandbox) {
        return;
    }
    let home = home();
    let path = |name: &str| home.path().join(name);
    for file in ["todo.md", "papers/a.md"] {
        fs::create_dir_all(path(file).parent().unwrap()).unwrap();
        fs::write(path(file), "needle\n").unwrap();
    }
    let all = [path("todo.md"), path("papers/a.md"), path("notes/diary.md"), path("notes")];
    let expected = vec![path("notes"), path("papers"), path("todo.md")];
    let list = call("list_directory", &json!({ "dir_path": home.path() }));
    let calls = [call("read_many_files", &json!({ "include": all })), list];
    let mut stage = in_home(home, Mode::Default, &calls);
    let made = stage.go(ONCE).await;
    let question = made[0].started.question.as_ref().unwrap();
    for name in ["todo.md`", "papers/a.md`", "notes`"] {
        assert!(question.why.contains(name), "{}", question.why);
    }
    assert_eq!(question.scopes, [Scope::Reads(expected)]);
    assert_eq!(made[0].told().matches("needle").count(), 3, "{}", made[0].told());
    assert!(made[1].started.question.as_ref().unwrap().every_time());
    assert!(made[1].told().contains("notes"), "{}", made[1].told());
}

#[tokio::test]
async fn what_is_allowed_in_the_mode_without_questions_is_read_unasked() {
    if lacking(Need::Sandbox) {
        return;
    }
    let home = home();
    let calls = of_notes(home.path());
    let mut stage = in_home(home, Mode::Yolo, &calls);
    for made in stage.go(Answer::Reject).await {
        let label = &made.started.summary.label;
        assert!(!made.is_asked() && made.is_done(), "{label}: {}", made.told());
    }
}

#[tokio::test]
async fn stores_of_secrets_and_what_is_no_file_of_the_machine_stay_closed_in_every_mode() {
    if lacking(Need::Sandbox) {
        return;
    }
    for mode in [Mode::Default, Mode::AutoEdit, Mode::Plan, Mode::Yolo] {
        let home = home();
        let path = |name: &str| home.path().join(name);
        fs::create_dir_all(path("other")).unwrap();
        fs::write(path("other/.env"), "canary\n").unwrap();
        let calls = [
            // Reading this file is allowed without a question, and allows no other file.
            reads(&path(".cargo/registry/src/a-1.0.0/src/lib.rs")),
            reads(&path(".cargo/credentials.toml")),
            reads(&path(".config/git/credentials")),
            reads(&path(".ssh/id_rsa")),
            reads(&path("other/.env")),
            reads(&path(".local/share/tandem/sessions/a/log.jsonl")),
            call("read_many_files", &json!({ "include": [path(".ssh")] })),
            call("grep_search", &json!({ "pattern": "canary", "dir_path": path(".ssh") })),
            call("glob", &json!({ "pattern": path(".ssh/*") })),
            call("read_many_files", &json!({ "include": [path(".ssh/*")] })),
            call("glob", &json!({ "pattern": "/proc/*" })),
            reads(&path("notes/none")),
            reads(Path::new("/etc/shadow")),
            reads(Path::new("/proc/self/environ")),
            reads(Path::new("/dev/null")),
            reads(Path::new("/tmp/none")),
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
async fn a_search_of_the_home_meets_no_secrets() {
    if lacking(Need::Sandbox) {
        return;
    }
    let home = home();
    fs::create_dir_all(home.path().join("other")).unwrap();
    fs::write(home.path().join("other/.env"), "canary needle\n").unwrap();
    let calls = [
        call(
            "grep_search",
            &json!({ "pattern": "needle", "dir_path": home.path(), "names_only": true }),
        ),
        call("glob", &json!({ "pattern": "**/*", "dir_path": home.path() })),
        call("read_many_files", &json!({ "include": [home.path()] })),
        call("glob", &json!({ "pattern": home.path().join("**/*") })),
        call("read_many_files", &json!({ "include": [home.path().join("**/*")] })),
    ];
    let mut stage = in_home(home, Mode::Default, &calls);
    for made in stage.go(ONCE).await {
        let told = made.told();
        assert!(made.is_asked() && told.contains("diary.md"), "{told}");
        for secret in ["id_rsa", "log.jsonl", ".env", "credentials"] {
            assert!(!told.contains(secret), "{secret}: {told}");
        }
    }
}

#[tokio::test]
async fn a_search_from_above_the_home_does_not_enter_what_is_hidden_of_it() {
    if lacking(Need::Sandbox) {
        return;
    }
    // The home is in a small directory, because searching a directory of this machine may take a minute.
    let outer = seen_in_sandbox();
    let home = filled(TempDir::new_in(outer.path()).unwrap());
    let above = outer.path().to_owned();
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

/// Runs a prompt that mentions a file of the home, and answers each question with `answer`. Returns the calls and the
/// notices.
async fn mentions(mode: Mode, file: &str, answer: Answer) -> (Vec<Made>, Vec<String>) {
    let home = home();
    let prompt = format!("see @\"{}\"", home.path().join(file).display());
    let mut stage = in_home(home, mode, &[]);
    let calls = stage.prompted(&prompt, |_| answer.clone()).await;
    let notices = super::notices(&stage).await;
    (calls, notices)
}

#[tokio::test]
async fn a_mention_of_a_file_outside_goes_by_the_rule_of_read_file() {
    if lacking(Need::Sandbox) {
        return;
    }
    for (answer, is_read) in [(ONCE, true), (Answer::Reject, false)] {
        let (made, notices) = mentions(Mode::Default, "notes/diary.md", answer).await;
        let [made] = &made[..] else { panic!("{notices:?}") };
        assert!(made.why().contains("notes/diary.md` is outside"), "{}", made.why());
        assert_eq!(tells_of_notes(&made.outcome), is_read);
    }
    // After a "no" for one file, the other file of the prompt is still read.
    let home = home();
    let prompt = format!("see @a.txt and @\"{}\"", home.path().join("notes/diary.md").display());
    let made = in_home(home, Mode::Default, &[]).prompted(&prompt, |_| Answer::Reject).await;
    assert_eq!(made.iter().map(Made::is_asked).collect::<Vec<_>>(), [false, true]);
    assert!(made[0].told().contains("a.txt"), "{}", made[0].told());
    let (made, _) = mentions(Mode::Yolo, "notes/diary.md", Answer::Reject).await;
    assert!(!made[0].is_asked() && tells_of_notes(&made[0].outcome));
    let source = ".cargo/registry/src/a-1.0.0/src/lib.rs";
    let (made, _) = mentions(Mode::Default, source, Answer::Reject).await;
    assert!(!made[0].is_asked() && made[0].told().contains("needle"), "{}", made[0].told());
    // A mention reads no file that `read_file` reads in no mode.
    for file in [".ssh/id_rsa", ".local/share/tandem/sessions/a/log.jsonl", ".ssh"] {
        let (made, notices) = mentions(Mode::Yolo, file, ONCE).await;
        let [notice] = &notices[..] else { panic!("{file}: {notices:?}") };
        assert!(made.is_empty() && notice.contains("is outside the workspace"), "{notice}");
    }
}

#[tokio::test]
async fn an_always_for_a_mention_counts_for_tools_and_directories_are_read_if_they_are_certain() {
    if lacking(Need::Sandbox) {
        return;
    }
    let home = home();
    let path = |name: &str| home.path().join(name).display().to_string();
    let (file, folder) = (path("notes/diary.md"), path("notes"));
    let calls = [reads(Path::new(&file))];
    let mut stage = in_home(home, Mode::Default, &calls);
    let made = stage.prompted(&format!("see @\"{file}\""), always).await;
    assert_eq!(made.iter().map(Made::is_asked).collect::<Vec<_>>(), [true, false]);
    let made = stage.prompted(&format!("see @\"{folder}\""), |_| Answer::Reject).await;
    assert!(!made[0].is_asked() && made[0].told().contains("needle"), "{}", made[0].told());
    // Without quotes, `@/usr` counts as code that imports from the project.
    let mut stage = in_home(self::home(), Mode::Default, &[]);
    for word in ["@/usr", "@/usr/*/*.md", "@/"] {
        assert!(stage.prompted(&format!("see {word} there"), |_| ONCE).await.is_empty(), "{word}");
    }
}
