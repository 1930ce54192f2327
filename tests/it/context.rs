//! A project with instruction files in every place: what the model is sent, beside what it should be.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use expect_test::expect_file;
use serde_json::json;
use tandem::model::{Call, Chunk};
use tandem::session::{Event, Memory, Origin, Parts, Places, Session};
use tandem::tools;
use tandem::tools::workspace::Workspace;
use tempfile::TempDir;

use crate::fakes::{Spy, is_end, parts, text, until};

const NESTED: &str = include_str!("../../fixtures/context/nested.txt");

/// Writes the files that a fixture describes.
fn write_files(fixture: &str, home: &Path) {
    for file in fixture.split("== ").skip(1) {
        let (name, content) = file.split_once('\n').unwrap();
        let path = home.join(name);
        if name.ends_with('/') {
            fs::create_dir_all(path).unwrap();
            continue;
        }
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }
}

/// Reads files, then says something: one answer each.
fn reads(files: &[&str]) -> Vec<Vec<Result<Chunk, tandem::model::Error>>> {
    let read = |file: &&str| {
        let args = json!({ "file_path": file });
        let call = Call { id: (*file).to_owned(), name: "read_file".to_owned(), args };
        vec![Ok(Chunk::Call(call))]
    };
    let mut answers: Vec<_> = files.iter().map(read).collect();
    answers.push(vec![Ok(Chunk::Text("I see.".to_owned()))]);
    answers
}

async fn turn(session: &Arc<Session>, prompt: &str) -> Vec<Arc<Event>> {
    let mut log = session.events(session.position());
    session.prompt(text(prompt), Origin::Editor);
    until(&mut log, is_end).await
}

#[tokio::test]
async fn the_model_is_sent_what_is_written_in_every_place() {
    let home = TempDir::new().unwrap();
    let home = fs::canonicalize(home.path()).unwrap();
    write_files(NESTED, &home);
    let answers = [
        reads(&["sub/other.rs", "sub/deep/code.rs", "sub/deep/code.rs", "other/thing.rs"]),
        reads(&["sub/deep/code.rs", "hidden/x.txt"]),
    ];
    let (spy, told) = Spy::new(answers.concat());
    let places = Places {
        user: vec![home.join(".gemini"), home.join(".config/tandem")],
        home: Some(home.clone()),
        ..Places::default()
    };
    let session = Session::new(Parts {
        tools: tools::all(),
        workspace: Arc::new(Workspace::new(&home.join("repo/work"), &[]).unwrap()),
        memory: Memory::new(places, |_| true),
        ..parts(Arc::clone(&spy) as _)
    });
    let events = turn(&session, "What is in it?").await;
    fs::write(home.join("repo/work/sub/GEMINI.md"), "The new rules for sub.\n").unwrap();
    fs::remove_file(home.join("repo/work/other/GEMINI.md")).unwrap();
    turn(&session, "And now?").await;

    let notices = events.iter().filter_map(|event| match &**event {
        Event::Notice(notice) => Some(format!("{notice}\n")),
        _ => None,
    });
    let system = spy.system.lock().unwrap().clone();
    let written = system.split_once("\n# What the user and the project").unwrap().1;
    let told = told.lock().unwrap().join("\n\n");
    let sent = format!(
        "{}\n# What the user and the project{written}\n{told}\n",
        notices.collect::<String>()
    );
    let sent = sent.replace(&home.display().to_string(), "/home/me");
    expect_file!["../../fixtures/context/nested.sent.txt"].assert_eq(&sent);
}
