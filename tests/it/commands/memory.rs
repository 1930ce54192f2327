//! `/memory`, and what the model is told of what is written down.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};

use tandem::session::{Event, Memory, Parts};

use super::{Stage, contains, says};

#[tokio::test]
async fn the_model_is_told_what_the_user_and_the_project_have_written() {
    let stage = Stage::new(vec![says("hi")]);
    fs::create_dir(stage.home.path().join(".gemini")).unwrap();
    fs::write(stage.user_file(), "\u{feff}Use tabs.\n\n").unwrap();
    fs::write(stage.project("GEMINI.md"), "It is a parser.\n").unwrap();
    stage.turn("hello").await;
    let system = stage.system();
    let (user, project) = (stage.user_file(), stage.project("GEMINI.md"));
    let part = |path: &std::path::Path, text: &str| {
        let path = path.display();
        format!("--- Context from: {path} ---\n{text}\n--- End of Context from: {path} ---\n")
    };
    let expected = part(&user, "Use tabs.") + &part(&project, "It is a parser.");
    assert!(system.ends_with(&expected), "{system}");
    contains(&stage.output("/memory show").await, &["Use tabs.", "\n\n---\n\n", "It is a parser."]);
    let list = stage.output("/memory list").await;
    contains(&list, &[&user.display().to_string(), "GEMINI.md`: 15 characters"]);
}

#[tokio::test]
async fn without_such_files_nothing_is_told() {
    let stage = Stage::new(vec![says("hi")]);
    stage.turn("hello").await;
    assert!(!stage.system().contains("written down"), "{}", stage.system());
    contains(&stage.output("/memory show").await, &["Nothing is written down"]);
    contains(&stage.output("/memory list").await, &["Nothing is written down"]);
}

#[tokio::test]
async fn a_file_is_read_again_only_when_asked() {
    let stage = Stage::new(vec![says("1"), says("2"), says("3")]);
    fs::write(stage.project("GEMINI.md"), "old").unwrap();
    stage.turn("one").await;
    fs::write(stage.project("GEMINI.md"), "new!").unwrap();
    stage.turn("two").await;
    assert!(stage.system().contains("\nold\n"));
    contains(&stage.output("/memory show").await, &["old"]);
    contains(&stage.output("/memory refresh").await, &["GEMINI.md`: 4 characters"]);
    stage.turn("three").await;
    assert!(stage.system().contains("\nnew!\n"));
}

#[tokio::test]
async fn what_is_added_is_written_as_one_line_and_told_at_once() {
    let stage = Stage::new(vec![says("1"), says("2")]);
    stage.turn("one").await;
    let added = stage.output("/memory add  use tabs\n\n## Rules\r\nObey.").await;
    contains(&added, &["Added to `", ".gemini/GEMINI.md"]);
    stage.output("/memory add - like `this`").await;
    let written = fs::read_to_string(stage.user_file()).unwrap();
    assert_eq!(written, "## Gemini Added Memories\n- use tabs ## Rules Obey.\n- like `this`\n");
    stage.turn("two").await;
    contains(&stage.system(), &["- use tabs ## Rules Obey.\n- like `this`\n"]);
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
    contains(&stage.output("/memory add - -").await, &["nothing in it to remember"]);
    fs::create_dir(stage.home.path().join(".gemini")).unwrap();
    fs::write(stage.user_file(), b"\xff\xfe").unwrap();
    contains(&stage.output("/memory add x").await, &["Nothing was added: ", "is not UTF-8"]);
    assert_eq!(fs::read(stage.user_file()).unwrap(), b"\xff\xfe");
    let homeless =
        Stage::with(vec![], |parts| Parts { memory: Memory::new(None, |_| true), ..parts });
    contains(&homeless.output("/memory add x").await, &["Nothing was added: Nobody knows"]);
}

/// What people are told when the model is first asked, and what it is told.
async fn not_told(stage: &Stage, why: &str) {
    let events = stage.turn("hello").await;
    let notice = events.iter().find_map(|event| match &**event {
        Event::Notice(notice) => Some(notice.clone()),
        _ => None,
    });
    contains(&notice.unwrap(), &["GEMINI.md is not told to the model: ", why]);
    assert!(!stage.system().contains("Context from"), "{}", stage.system());
    contains(&stage.output("/memory list").await, &["not told to the model", why]);
}

#[tokio::test]
async fn a_project_cannot_have_a_file_elsewhere_told() {
    let stage = Stage::new(vec![says("hi")]);
    let secret = stage.home.path().join("secret");
    fs::write(&secret, "secret").unwrap();
    symlink(&secret, stage.project("GEMINI.md")).unwrap();
    not_told(&stage, "outside the workspace").await;
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
    let memory = Memory::new(None, |_| false);
    let stage = Stage::with(vec![says("hi")], |parts| Parts { memory, ..parts });
    fs::write(stage.project("GEMINI.md"), "obey").unwrap();
    not_told(&stage, "not to trust").await;
}
