//! `/memory`, and what the model is told of the memory files.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;

use serde_json::json;
use tandem_agent::session::{Answer, Event, Memory, Origin, Parts, Places};
use tandem_tools as tools;

use super::{Stage, calls, contains, says};
use test_fakes::{is_end, text, until};

/// Beginning of the line before the text of each file.
const BEGINS: &str = "--- Context from: ";

/// Returns a file's part of the system instruction.
fn block(path: &Path, text: &str) -> String {
    let path = path.display();
    format!("{BEGINS}{path} ---\n{text}\n--- End of Context from: {path} ---\n")
}

/// Returns the number of files whose text is in the system instruction.
fn blocks_in(system: &str) -> usize {
    system.lines().filter(|line| line.starts_with(BEGINS)).count()
}

#[tokio::test]
async fn the_model_is_told_what_the_user_and_the_project_have_written() {
    let stage = Stage::new(vec![says("hi")]);
    fs::create_dir(stage.home.path().join(".gemini")).unwrap();
    fs::write(stage.user_file(), "\u{feff}Use tabs.\n\n").unwrap();
    fs::write(stage.project("GEMINI.md"), "It is a parser.\n").unwrap();
    stage.turn("hello").await;
    let system = stage.system();
    let (user, project) = (stage.user_file(), stage.project("GEMINI.md"));
    let expected = block(&user, "Use tabs.") + &block(&project, "It is a parser.");
    assert!(system.ends_with(&expected), "{system}");
    assert_eq!(blocks_in(&system), 2);
    contains(&stage.output("/memory show").await, &["Use tabs.", "\n\n---\n\n", "It is a parser."]);
    let list = stage.output("/memory list").await;
    contains(&list, &[&user.display().to_string(), "GEMINI.md`: 15 characters"]);
}

#[tokio::test]
async fn without_such_files_nothing_is_told() {
    let stage = Stage::new(vec![says("hi")]);
    stage.turn("hello").await;
    assert_eq!(blocks_in(&stage.system()), 0, "{}", stage.system());
    contains(&stage.output("/memory show").await, &["No memory files were found"]);
    contains(&stage.output("/memory list").await, &["No memory files were found"]);
}

#[tokio::test]
async fn a_change_is_told_with_the_next_prompt_and_the_beginning_stays() {
    let stage = Stage::new(vec![says("1"), says("2"), says("3"), says("4")]);
    fs::write(stage.project("GEMINI.md"), "old").unwrap();
    fs::write(stage.project("AGENTS.md"), "stays").unwrap();
    stage.turn("one").await;
    let system = stage.system();
    assert!(system.contains(&block(&stage.project("GEMINI.md"), "old")), "{system}");
    fs::write(stage.project("GEMINI.md"), "new!").unwrap();
    contains(&stage.output("/memory show").await, &["new!"]);
    stage.turn("two").await;
    assert_eq!(stage.system(), system);
    let path = stage.project("GEMINI.md");
    let block = block(&path, "new!");
    let note = "[What is written down for you has changed; this takes the place of what it said.]";
    assert_eq!(stage.told().last().unwrap(), &format!("user: two\n\n{note}\n{block}"));
    fs::remove_file(&path).unwrap();
    stage.turn("three").await;
    let gone = format!("\n\n[What these said does not count any more.]\n- {}\n", path.display());
    assert_eq!(stage.told().last().unwrap(), &format!("user: three{gone}"));
    stage.turn("four").await;
    assert_eq!(stage.told().last().unwrap(), "user: four");
    assert_eq!(stage.system(), system);
}

#[tokio::test]
async fn after_a_refresh_all_files_are_told_again_and_the_beginning_stays() {
    let stage = Stage::new(vec![says("1"), says("2"), says("3")]);
    fs::write(stage.project("GEMINI.md"), "old").unwrap();
    fs::write(stage.project("AGENTS.md"), "stays").unwrap();
    stage.turn("one").await;
    let system = stage.system();
    fs::write(stage.project("GEMINI.md"), "new!").unwrap();
    contains(&stage.output("/memory refresh").await, &["GEMINI.md`: 4 characters"]);
    stage.turn("two").await;
    assert_eq!(stage.system(), system);
    let blocks =
        block(&stage.project("GEMINI.md"), "new!") + &block(&stage.project("AGENTS.md"), "stays");
    let note = "[What is written down for you has changed; this takes the place of what it said.]";
    assert_eq!(stage.told().last().unwrap(), &format!("user: two\n\n{note}\n{blocks}"));
    stage.turn("three").await;
    assert_eq!(stage.told().last().unwrap(), "user: three");
}

#[tokio::test]
async fn what_is_added_is_written_as_one_line_and_told_with_the_next_prompt() {
    let stage = Stage::new(vec![says("1"), says("2")]);
    stage.turn("one").await;
    let added = stage.output("/memory add  use tabs\n\n## Rules\r\nObey.").await;
    contains(&added, &["The text is added to `", ".gemini/GEMINI.md"]);
    stage.output("/memory add - like `this`").await;
    let written = fs::read_to_string(stage.user_file()).unwrap();
    assert_eq!(written, "## Gemini Added Memories\n- use tabs ## Rules Obey.\n- like `this`\n");
    stage.turn("two").await;
    contains(stage.told().last().unwrap(), &["- use tabs ## Rules Obey.\n- like `this`\n"]);
}

#[tokio::test]
async fn the_model_writes_down_what_it_is_to_remember_when_the_user_allows_it() {
    let stage = Stage::with(
        vec![calls("save_memory", json!({ "fact": "- Likes\n# tabs" })), says("ok"), says("yes")],
        |mut parts| {
            parts.tools.extend(parts.memory.user_file().map(tools::save_memory));
            parts
        },
    );
    let mut log = stage.session.events(0);
    stage.session.prompt(text("remember that I like tabs"), Origin::Editor);
    let asked = until(&mut log, |event| matches!(event, Event::CallStarted(_))).await;
    let Event::CallStarted(asked) = &**asked.last().unwrap() else { unreachable!() };
    assert_eq!(asked.summary.label, "Remember: Likes # tabs");
    assert!(asked.question.is_some() && asked.summary.diff.is_some());
    assert!(!stage.user_file().exists());
    stage.session.answer("c1", Answer::Once { edited: None }, Origin::Editor).unwrap();
    until(&mut log, is_end).await;
    let written = fs::read_to_string(stage.user_file()).unwrap();
    assert_eq!(written, "## Gemini Added Memories\n- Likes # tabs\n");
    stage.turn("what do I like?").await;
    contains(stage.told().last().unwrap(), &["- Likes # tabs\n"]);
}

#[tokio::test]
async fn adding_keeps_what_is_there_the_link_and_the_permissions() {
    let stage = Stage::new(vec![]);
    let real = stage.home.path().join("dotfiles.md");
    fs::write(&real, "# Me\n\n## Gemini Added Memories\n- one\n\n## Other\nx\n").unwrap();
    fs::set_permissions(&real, fs::Permissions::from_mode(0o600)).unwrap();
    fs::create_dir(stage.home.path().join(".gemini")).unwrap();
    symlink(&real, stage.user_file()).unwrap();
    stage.output("/memory add two").await;
    let expected = "# Me\n\n## Gemini Added Memories\n- one\n- two\n\n## Other\nx\n";
    assert_eq!(fs::read_to_string(&real).unwrap(), expected);
    assert!(stage.user_file().is_symlink());
    assert_eq!(fs::metadata(&real).unwrap().permissions().mode() & 0o777, 0o600);
}

#[tokio::test]
async fn what_cannot_be_added_is_said_and_nothing_is_written() {
    let stage = Stage::new(vec![]);
    contains(&stage.output("/memory add - -").await, &["the text is empty"]);
    fs::create_dir(stage.home.path().join(".gemini")).unwrap();
    fs::write(stage.user_file(), b"\xff\xfe").unwrap();
    contains(&stage.output("/memory add x").await, &["Nothing was added: ", "is not UTF-8"]);
    assert_eq!(fs::read(stage.user_file()).unwrap(), b"\xff\xfe");
    let homeless = Stage::with(vec![], |parts| Parts {
        memory: Memory::new(Places::default(), || Box::new(|_| true)),
        ..parts
    });
    contains(
        &homeless.output("/memory add x").await,
        &["Nothing was added: Your home directory is unknown"],
    );
}

/// Checks that the memory file is not in the system instruction, and that people are told the reason.
async fn not_told(stage: &Stage, why: &str) {
    let events = stage.turn("hello").await;
    let notice = events.iter().find_map(|event| match &**event {
        Event::Notice(notice) => Some(notice.clone()),
        _ => None,
    });
    contains(&notice.unwrap(), &["GEMINI.md is not sent to the model: ", why]);
    assert_eq!(blocks_in(&stage.system()), 0, "{}", stage.system());
    contains(&stage.output("/memory list").await, &["not sent to the model", why]);
}

#[tokio::test]
async fn a_project_cannot_have_a_file_elsewhere_told() {
    let stage = Stage::new(vec![says("hi")]);
    let secret = stage.home.path().join("secret");
    fs::write(&secret, "secret").unwrap();
    symlink(&secret, stage.project("GEMINI.md")).unwrap();
    not_told(&stage, "outside the project").await;
}

#[tokio::test]
async fn what_is_no_file_or_too_large_is_not_told() {
    let stage = Stage::new(vec![says("hi")]);
    fs::create_dir(stage.project("GEMINI.md")).unwrap();
    not_told(&stage, "is a directory").await;
    let stage = Stage::new(vec![says("hi")]);
    fs::write(stage.project("GEMINI.md"), "x".repeat(300_000)).unwrap();
    not_told(&stage, "more than the limit").await;
}

#[tokio::test]
async fn the_file_of_a_folder_that_the_user_distrusts_is_not_told() {
    let memory = Memory::new(Places::default(), || Box::new(|_| false));
    let stage = Stage::with(vec![says("hi")], |parts| Parts { memory, ..parts });
    fs::write(stage.project("GEMINI.md"), "obey").unwrap();
    not_told(&stage, "you have distrusted its folder").await;
}
