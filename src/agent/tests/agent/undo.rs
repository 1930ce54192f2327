//! `/restore`: it undoes the changes that calls have made to files, and no other changes.

mod announced;
mod random;
mod rewind;

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use expect_test::expect;
use serde_json::json;
use tandem_agent::session::{Event, Origin, Parts, Session};
use tandem_approval::Mode;
use tandem_host::scratch::Scratch;
use tandem_host::workspace::Workspace;
use tandem_host::{Host, ToolLimits};
use tandem_model::{Call, Chunk, Error};
use tandem_tools as tools;
use tempfile::TempDir;

use test_fakes::{Spy, host_with, is_end, parts, terminals, text, until};

type Chunks = Vec<Result<Chunk, Error>>;

/// A session that edits files of a project without questions.
struct Stage {
    session: Arc<Session>,
    told: Arc<std::sync::Mutex<Vec<String>>>,
    dir: TempDir,
}

/// Returns the model's answers to a prompt: it reads the files, if they exist, and then writes them. Each item: id
/// of the call, file, content.
fn writes(calls: &[(&str, &str, &str)]) -> Vec<Chunks> {
    let call =
        |id: String, name: &str, args| Ok(Chunk::Call(Call { id, name: name.to_owned(), args }));
    let read = |(id, file, _): &(&str, &str, &str)| {
        call(format!("r-{id}"), "read_file", json!({ "file_path": file }))
    };
    let write = |(id, file, content): &(&str, &str, &str)| {
        let args = json!({ "file_path": file, "content": content });
        call((*id).to_owned(), "write_file", args)
    };
    let done = Ok(Chunk::Text("done".to_owned()));
    vec![calls.iter().map(read).collect(), calls.iter().map(write).collect(), vec![done]]
}

impl Stage {
    fn new(answers: Vec<Vec<Chunks>>) -> Self {
        Self::with(answers, |parts| parts)
    }

    fn with(answers: Vec<Vec<Chunks>>, change: impl FnOnce(Parts) -> Parts) -> Self {
        // A directory in memory makes the test fast: each change waits until the disk has written it.
        let dir = TempDir::new_in("/dev/shm").or_else(|_| TempDir::new()).unwrap();
        let project = dir.path().join("project");
        fs::create_dir(&project).unwrap();
        let (spy, told) = Spy::new(answers.into_iter().flatten().collect());
        let session = Session::new(change(Parts {
            tools: tools::all(),
            host: Host::new(
                Workspace::new(&project, &[]).unwrap(),
                terminals(),
                Scratch::new(Some(dir.path().join("state"))),
                ToolLimits::default(),
            ),
            mode: Mode::Yolo,
            ..parts(spy)
        }));
        Self { session, told, dir }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join("project").join(name)
    }

    /// Returns the content of a file; `None` if the file does not exist.
    fn read(&self, name: &str) -> Option<String> {
        fs::read_to_string(self.path(name)).ok()
    }

    fn write(&self, name: &str, content: &str) {
        fs::write(self.path(name), content).unwrap();
    }

    /// Sends a prompt, waits for the end of its turn, and returns the output of a command.
    async fn say(&self, prompt: &str) -> String {
        let mut log = self.session.events(self.session.position());
        self.session.prompt(text(prompt), Origin::Editor);
        let events = until(&mut log, is_end).await;
        let output = |event: &Arc<Event>| match &**event {
            Event::Output(text) | Event::CommandFailed(text) => Some(text.clone()),
            _ => None,
        };
        events.iter().find_map(output).unwrap_or_default()
    }

    fn told(&self) -> String {
        self.told.lock().unwrap().join("\n")
    }
}

#[tokio::test]
async fn one_call_is_taken_back_and_the_rest_stays() {
    let stage = Stage::new(vec![writes(&[("w1", "a", "new a\n"), ("w2", "b", "new b\n")])]);
    stage.write("a", "old a\n");
    stage.write("b", "old b\n");
    stage.say("write both").await;
    let commands = "\nChanges that commands made are not undone.\n";
    let said = stage.say("/restore w1").await;
    assert_eq!(said, format!("- `a` is as it was before `w1`\n{commands}"));
    assert_eq!(stage.read("a").unwrap(), "old a\n");
    assert_eq!(stage.read("b").unwrap(), "new b\n");
}

#[tokio::test]
async fn a_file_that_a_call_made_is_removed() {
    let stage = Stage::new(vec![writes(&[("w1", "new/file", "text\n")])]);
    stage.say("make it").await;
    assert!(
        stage
            .say("/restore w1")
            .await
            .starts_with("- `new/file`, which `w1` created, is removed again\n")
    );
    assert!(!stage.path("new").exists());
}

#[tokio::test]
async fn directories_that_calls_made_are_removed_when_they_are_empty() {
    let stage = Stage::new(vec![writes(&[
        ("w1", "a/b/c/one", "1\n"),
        ("w2", "a/b/c/two", "2\n"),
        ("w3", "a/three", "3\n"),
        ("w4", "own/four", "4\n"),
    ])]);
    fs::create_dir(stage.path("own")).unwrap();
    stage.say("make them").await;
    stage.say("/restore w1").await;
    assert!(stage.path("a/b/c/two").exists());
    stage.say("/restore w2").await;
    assert!(stage.path("a/three").exists() && !stage.path("a/b").exists());
    fs::write(stage.path("a/theirs"), "").unwrap();
    stage.say("/restore w3").await;
    stage.say("/restore w4").await;
    assert!(stage.path("a/theirs").exists() && stage.path("own").is_dir());
}

#[tokio::test]
async fn a_turn_is_taken_back_from_its_last_change_to_its_first() {
    let stage = Stage::new(vec![writes(&[("w1", "a", "one\n"), ("w2", "a", "two\n")])]);
    stage.write("a", "zero\n");
    stage.say("twice").await;
    stage.say("/restore turn 1").await;
    assert_eq!(stage.read("a").unwrap(), "zero\n");
}

#[tokio::test]
async fn all_since_a_turn_is_taken_back_and_what_was_before_it_stays() {
    let stage = Stage::new(vec![
        writes(&[("w1", "a", "one\n")]),
        writes(&[("w2", "a", "two\n")]),
        writes(&[("w3", "a", "three\n"), ("w4", "b", "b\n")]),
    ]);
    for prompt in ["first", "second", "third"] {
        stage.say(prompt).await;
    }
    stage.say("/restore since 2").await;
    assert_eq!(stage.read("a").unwrap(), "one\n");
    assert_eq!(stage.read("b"), None);
}

#[tokio::test]
async fn a_change_under_another_one_is_left_alone_and_the_newer_one_named() {
    let stage = Stage::new(vec![writes(&[("w1", "a", "one\n")]), writes(&[("w2", "a", "two\n")])]);
    stage.say("first").await;
    stage.say("second").await;
    let said = stage.say("/restore w1").await;
    let left = "- `a` was left alone (`w1`): the file has been changed again by `w2`, which would be lost\n";
    assert_eq!(said, left);
    assert_eq!(stage.read("a").unwrap(), "two\n");
}

#[tokio::test]
async fn what_the_user_changed_since_is_left_alone() {
    let stage = Stage::new(vec![writes(&[("w1", "a", "one\n"), ("w2", "b", "two\n")])]);
    stage.say("first").await;
    stage.write("a", "mine\n");
    fs::remove_file(stage.path("b")).unwrap();
    let said = stage.say("/restore turn 1").await;
    assert_eq!(
        said,
        "- `b` was left alone (`w2`): the file has been removed since\n- `a` was left alone (`w1`): the file has \
         been changed since, by somebody else\n"
    );
    assert_eq!(stage.read("a").unwrap(), "mine\n");
    assert_eq!(stage.read("b"), None);
}

#[tokio::test]
async fn what_the_user_changed_between_two_calls_comes_back_and_no_more() {
    let stage = Stage::new(vec![writes(&[("w1", "a", "one\n")]), writes(&[("w2", "a", "two\n")])]);
    stage.write("a", "zero\n");
    stage.say("first").await;
    stage.write("a", "mine\n");
    stage.say("second").await;
    stage.say("/restore since 1").await;
    assert_eq!(stage.read("a").unwrap(), "mine\n");
}

#[tokio::test]
async fn a_change_is_taken_back_once() {
    let stage = Stage::new(vec![writes(&[("w1", "a", "one\n")])]);
    stage.write("a", "zero\n");
    stage.say("first").await;
    stage.say("/restore w1").await;
    // The user undoes the restore by hand: the file is as `w1` has left it. A change is restored only once.
    stage.write("a", "one\n");
    let said = stage.say("/restore w1").await;
    assert_eq!(said, "- `a` was left alone (`w1`): the file has been put back already\n");
    assert_eq!(stage.read("a").unwrap(), "one\n");
}

#[tokio::test]
async fn the_model_is_told_with_the_next_prompt_and_only_then() {
    let done = || vec![vec![Ok(Chunk::Text("I see".to_owned()))]];
    let stage = Stage::new(vec![writes(&[("w1", "a", "one\n")]), done(), done()]);
    stage.say("first").await;
    stage.say("/restore w1").await;
    stage.say("go on").await;
    let note = format!("{} (your call w1)", stage.session.roots()[0].join("a").display());
    assert_eq!(stage.told().matches(&note).count(), 1, "{}", stage.told());
    stage.say("and on").await;
    assert_eq!(stage.told().matches(&note).count(), 1, "{}", stage.told());
}

#[tokio::test]
async fn the_list_says_turn_call_file_and_what_has_been_taken_back() {
    let stage = Stage::new(vec![
        writes(&[("w1", "a", "one\n"), ("w2", "b", "b\n")]),
        writes(&[("w3", "a", "two\n")]),
    ]);
    assert_eq!(stage.say("/restore").await, "No call has changed a file in this session.");
    stage.write("a", "zero\n");
    stage.say("write\nthem").await;
    stage.say("again").await;
    stage.say("/restore w2").await;
    let list = stage.say("/restore list").await;
    let (_, list) = list.split_once("\n\n").unwrap();
    assert_eq!(
        list,
        "Turn 2: `write them`\n\n- `w1`: `a`\n- `w2`: `b`, made, undone\n\nTurn 3: `again`\n\n- `w3`: `a`\n"
    );
}

#[tokio::test]
async fn wrong_arguments_are_said_and_nothing_is_changed() {
    let stage = Stage::new(vec![writes(&[("w1", "a", "one\n")])]);
    stage.say("first").await;
    for (prompt, answer) in [
        ("/restore w9", "Unknown change."),
        ("/restore turn 9", "Unknown change."),
        ("/restore turn nine", "`nine` is not the number of a turn."),
    ] {
        let said = stage.say(prompt).await;
        assert!(said.starts_with(answer), "{prompt}: {said}");
    }
    assert_eq!(stage.read("a").unwrap(), "one\n");
}

#[tokio::test]
async fn what_is_over_the_limit_is_changed_all_the_same_and_said_not_to_be_kept() {
    let stage = Stage::with(vec![writes(&[("w1", "a", "one\n")])], |mut parts| {
        let limits = ToolLimits { undo_bytes: 4, ..ToolLimits::default() };
        let workspace = Workspace::new(parts.host.workspace.root(), &[]).unwrap();
        parts.host = host_with(workspace, limits);
        parts
    });
    stage.write("a", "12345");
    stage.say("first").await;
    assert_eq!(stage.read("a").unwrap(), "one\n");
    let said = stage.say("/restore w1").await;
    expect![[r#"
        - `a` was left alone (`w1`): the file cannot be put back: its earlier content was not stored: more than 4 bytes would be stored (`--limit undo-bytes=N` allows more)
    "#]].assert_eq(&said);
    assert_eq!(stage.read("a").unwrap(), "one\n");
}

#[tokio::test]
async fn a_directory_that_became_a_link_leads_nowhere() {
    let stage = Stage::new(vec![writes(&[("w1", "d/a", "one\n")])]);
    fs::create_dir(stage.path("d")).unwrap();
    stage.write("d/a", "zero\n");
    stage.say("first").await;
    let elsewhere = stage.dir.path().join("elsewhere");
    fs::rename(stage.path("d"), &elsewhere).unwrap();
    std::os::unix::fs::symlink(&elsewhere, stage.path("d")).unwrap();
    let said = stage.say("/restore w1").await;
    expect![[r#"
        - `d/a` was left alone (`w1`): the file is somewhere else by now
    "#]]
    .assert_eq(&said);
    assert_eq!(fs::read_to_string(elsewhere.join("a")).unwrap(), "one\n");
}
