//! Sessions of Gemini CLI: listed beside the own ones, and taken up.

use std::fs::{self, File};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use expect_test::{expect, expect_file};
use futures::StreamExt as _;
use serde_json::{Value, json};
use tandem_agent::session::{Query, Store, StoreError, Stored};
use tandem_host::preimages::ContentId;
use tandem_import::{GeminiCli, WithGeminiCli};
use tandem_store::FileStore;

use crate::family::make_fifo;
use crate::gemini::server::{Reply, Server};
use crate::sessions_cli::{Place, Said};

/// A chat of Gemini CLI 0.9: one JSON object.
const OLD: &str = include_str!("../../fixtures/gemini_cli/0.9.json");

/// A chat of Gemini CLI 0.56: JSON Lines.
const NEW: &str = include_str!("../../fixtures/gemini_cli/0.56.jsonl");

/// The id of the old chat there.
const OLD_ID: &str = "3f0d1c9e-5b1a-4f57-9d7e-0f7a2c1b9e11";

impl Place {
    fn workspace(&self) -> PathBuf {
        fs::canonicalize(self.home.path()).unwrap().join("workspace")
    }

    /// Returns the directory of a project's chats.
    fn chats(&self, project: &str) -> PathBuf {
        let chats = self.home.path().join(".gemini/tmp").join(project).join("chats");
        fs::create_dir_all(&chats).unwrap();
        chats
    }

    /// Has Gemini CLI know projects by names.
    fn name_projects(&self, projects: Value) {
        let file = self.home.path().join(".gemini/projects.json");
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, json!({ "projects": projects }).to_string()).unwrap();
    }

    /// Puts the old chat where Gemini CLI up to 0.28 has those of the workspace.
    fn with_old_chat(&self) -> PathBuf {
        let file =
            self.chats(&hash(&self.workspace())).join("session-2026-03-01T09-00-3f0d1c9e.json");
        fs::write(&file, OLD).unwrap();
        file
    }

    /// Puts the new chat where later ones have it.
    fn with_new_chat(&self) -> PathBuf {
        self.name_projects(json!({ self.workspace().to_str().unwrap(): "workspace" }));
        let file = self.chats("workspace").join("session-2026-08-06T10-00-8a4f6e0d.jsonl");
        fs::write(&file, NEW).unwrap();
        file
    }

    fn list(&self, args: &[&str]) -> Vec<Value> {
        let json = self.out(&[&["sessions", "list", "--json"], args].concat());
        serde_json::from_str(&json).unwrap()
    }

    fn titles(&self, args: &[&str]) -> Vec<String> {
        let title = |it: &Value| it["title"].as_str().unwrap().to_owned();
        self.list(args).iter().map(title).collect()
    }

    /// Goes on with a session; the model says "on".
    fn go_on(&self, args: &[&str]) -> Said {
        self.prompt(json!([[{ "text": "on" }]]), args)
    }

    /// A store as the program has it.
    fn stores(&self) -> WithGeminiCli {
        let own = FileStore::new(self.home.path().join("own"));
        let chats = GeminiCli::new(self.home.path().join(".gemini"), self.workspace());
        WithGeminiCli::new(Arc::new(own), chats)
    }
}

fn hash(directory: &Path) -> String {
    ContentId::of(directory.to_str().unwrap().as_bytes()).sha256().to_owned()
}

async fn everything(store: &dyn Store) -> Vec<tandem_agent::session::Listed> {
    store.list(&Query { others: true, ..Query::default() }).await.unwrap()
}

/// Returns the events of a session, one a line.
async fn events(store: &dyn Store, id: &str) -> String {
    let mut pieces = store.read(id).await.unwrap();
    let mut lines = String::new();
    while let Some(piece) = pieces.next().await {
        for stored in piece.unwrap() {
            let Stored::Batch(batch) = stored else { panic!("{stored:?}") };
            for (at, event) in &batch.events {
                lines.push_str(&format!("{at} {}\n", serde_json::to_string(event).unwrap()));
            }
        }
    }
    lines
}

#[test]
fn the_chats_of_the_directory_are_listed_among_the_own_sessions() {
    let place = Place::new();
    place.with_old_chat();
    place.with_new_chat();
    let id = place.talk("mine", "answer");
    place.age(&id, 60);
    let list = place.list(&[]);
    let facts: Vec<_> = list
        .iter()
        .map(|it| json!([it["number"], it["title"], it["turns"], it["program"], it["from"]["id"]]))
        .collect();
    let facts = serde_json::to_string_pretty(&facts).unwrap();
    expect![[r#"
        [
          [
            1,
            "mine",
            1,
            null,
            null
          ],
          [
            2,
            "Make the theme blue",
            2,
            "Gemini CLI",
            "8a4f6e0d-2b7c-4c7d-9a55-7f2d3b6c0e22"
          ],
          [
            3,
            "Where is the parser in @src/lib.rs?",
            2,
            "Gemini CLI",
            "3f0d1c9e-5b1a-4f57-9d7e-0f7a2c1b9e11"
          ]
        ]"#]]
    .assert_eq(&facts);
    assert_eq!(list[2]["directory"], place.workspace().to_str().unwrap());
    let marked = place.out(&["sessions"]);
    assert_eq!(marked.matches("[Gemini CLI] ").count(), 2, "{marked}");
    assert_eq!(place.titles(&["-n", "2"]), ["mine", "Make the theme blue"]);
    assert_eq!(place.titles(&["--all"]).len(), 3);
}

#[test]
fn a_chat_of_another_directory_is_listed_only_among_all() {
    let place = Place::new();
    place.with_old_chat();
    place.with_new_chat();
    fs::create_dir(place.home.path().join("elsewhere")).unwrap();
    let list = |args: &[&str]| {
        let output = place.command("elsewhere", &[&["sessions", "--json"], args].concat()).output();
        serde_json::from_slice::<Vec<Value>>(&output.unwrap().stdout).unwrap().len()
    };
    assert_eq!(list(&[]), 0);
    assert_eq!(list(&["--all"]), 2);
    fs::remove_file(place.home.path().join(".gemini/projects.json")).unwrap();
    // A hash alone does not say which directory it is of.
    assert_eq!(list(&["--all"]), 0);
}

#[test]
fn a_chat_is_shown_exported_and_searched_as_it_is() {
    let place = Place::new();
    place.with_old_chat();
    let new = place.with_new_chat();
    let show = |words: &str| {
        let shown = place.out(&["sessions", "show", words]);
        let home = place.workspace().parent().unwrap().to_str().unwrap().to_owned();
        let id = regex::Regex::new("^[0-9a-f-]{36}").unwrap();
        let lines =
            shown.lines().map(|line| id.replace(line, "ID").replace(&home, "/home/me") + "\n");
        lines.collect::<String>()
    };
    expect_file!["../../fixtures/gemini_cli/0.9.txt"].assert_eq(&show("parser"));
    expect_file!["../../fixtures/gemini_cli/0.56.txt"].assert_eq(&show("theme"));
    assert!(place.out(&["sessions", "export", "2"]).contains("src/parser.rs"));
    assert!(place.out(&["sessions", "search", "IT IS BLUE"]).contains("It is blue"));
    let log = place.run(&["sessions", "export", "1", "--format", "jsonl"]);
    let deleted = place.run(&["sessions", "delete", "--yes", "1"]);
    assert_eq!((log.code, deleted.code), (Some(1), Some(1)));
    for said in [log, deleted] {
        assert!(said.err.contains("a session of Gemini CLI"), "{}", said.err);
    }
    assert_eq!(fs::read_to_string(&new).unwrap(), NEW);
    assert!(!place.dir("").exists(), "nothing is stored by looking");
}

#[tokio::test]
async fn a_chat_is_the_events_that_a_session_here_would_have() {
    let place = Place::new();
    place.with_old_chat();
    place.with_new_chat();
    let store = place.stores();
    for listed in everything(&store).await {
        let id = &listed.head.id;
        let events = events(&store, id).await.replace(id, "ID");
        let events = events.replace(place.workspace().to_str().unwrap(), "/home/me/src/project");
        let file = if listed.turns == 2 && listed.title.starts_with("Where") {
            expect_file!["../../fixtures/gemini_cli/0.9.events.txt"]
        } else {
            expect_file!["../../fixtures/gemini_cli/0.56.events.txt"]
        };
        file.assert_eq(&events);
    }
}

#[tokio::test]
async fn the_model_is_told_what_was_said_there_and_the_file_stays_as_it_is() {
    let place = Place::new();
    let (old, new) = (place.with_old_chat(), place.with_new_chat());
    let server = Server::start(vec![Reply::text("Going on."), Reply::text("And on.")]).await;
    let run = |args: &[&str]| {
        let mut command = place.command("workspace", args);
        command
            .env("GEMINI_API_KEY", "AIzaSyGeminiCli0123456789")
            .env("GOOGLE_GEMINI_BASE_URL", server.address());
        async move {
            let output =
                tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
            assert!(output.status.success(), "{output:?}");
            String::from_utf8(output.stdout).unwrap()
        }
    };
    let model = ["--model", "gemini-3.8-flash", "-p"];
    run(&[&model[..], &["Go on", "-r", "parser"]].concat()).await;
    run(&[&model[..], &["Go on", "-r", "theme"]].concat()).await;
    let asked = server.asked();
    let told = |n: usize| serde_json::to_string_pretty(&asked[n].body["contents"]).unwrap();
    expect_file!["../../fixtures/gemini_cli/0.9.told.json"].assert_eq(&told(0));
    expect_file!["../../fixtures/gemini_cli/0.56.told.json"].assert_eq(&told(1));
    assert_eq!(fs::read_to_string(old).unwrap(), OLD);
    assert_eq!(fs::read_to_string(new).unwrap(), NEW);
}

#[test]
fn a_chat_that_is_taken_up_again_goes_on_where_it_went_on_here() {
    let place = Place::new();
    let file = place.with_old_chat();
    place.go_on(&["-p", "first", "-r", "1"]);
    let list = place.list(&[]);
    assert_eq!(list.len(), 1);
    assert_eq!((&list[0]["turns"], &list[0]["program"]), (&json!(3), &Value::Null));
    assert_eq!(list[0]["from"], json!({ "id": OLD_ID, "index": 5, "program": "Gemini CLI" }));
    // By its number, by its id there, and as the newest.
    for args in [["-r", "1"].as_slice(), &["-r", OLD_ID], &["-c"]] {
        let said = place.go_on(&[&["-p", "more"], args].concat());
        assert_eq!((said.code, &*said.err, &*said.out), (Some(0), "", "on\n"));
    }
    assert_eq!(place.list(&[])[0]["turns"], 6);
    // What is said there afterwards is another session here.
    fs::write(&file, OLD.replace("09:05:30.500Z", "09:06:00.000Z")).unwrap();
    assert_eq!(place.titles(&[]).len(), 2);
    assert_eq!(place.ids().len(), 1);
}

#[test]
fn a_chat_goes_on_with_the_model_of_a_new_session() {
    let place = Place::new();
    place.with_new_chat();
    let script = place.home.path().join("script.jsonl");
    fs::write(&script, json!({ "when": "", "answers": [[{ "text": "mine" }]] }).to_string())
        .unwrap();
    let model = format!("replay:{}", script.display());
    let settings = json!({ "model": { "name": model } }).to_string();
    fs::write(place.home.path().join(".gemini/settings.json"), settings).unwrap();
    assert_eq!(place.out(&["-p", "on", "-r", "1"]), "mine\n");
}

#[test]
fn a_copy_of_a_chat_is_one_of_tandems_own() {
    let place = Place::new();
    place.with_new_chat();
    let id = place.out(&["sessions", "fork", "1"]);
    let list = place.list(&[]);
    let programs: Vec<_> = list.iter().map(|it| it["program"].as_str()).collect();
    assert_eq!(programs, [None, Some("Gemini CLI")]);
    assert_eq!((list[0]["id"].as_str(), &list[0]["turns"]), (Some(id.trim()), &json!(2)));
}

#[test]
fn the_newest_session_is_one_of_tandems_own() {
    let place = Place::new();
    place.with_new_chat();
    let said = place.go_on(&["-p", "on", "-c"]);
    assert!(said.err.contains("there is no stored session of this directory"), "{}", said.err);
}

#[tokio::test]
async fn who_asks_for_the_own_sessions_is_not_told_of_chats() {
    let place = Place::new();
    place.with_new_chat();
    let store = place.stores();
    assert_eq!(store.list(&Query::default()).await.unwrap(), []);
    let chat = everything(&store).await.remove(0);
    assert!(matches!(store.delete(&chat.head.id).await, Err(StoreError::Foreign(_))));
    assert!(matches!(store.claim("no-id").await, Err(StoreError::NotFound(_))));
}

#[tokio::test]
async fn the_same_chat_in_both_forms_is_one_and_what_a_tool_has_held_is_none() {
    let place = Place::new();
    let old = place.with_old_chat();
    place.with_new_chat();
    let lines = NEW.replace("8a4f6e0d-2b7c-4c7d-9a55-7f2d3b6c0e22", OLD_ID);
    fs::write(old.with_extension("jsonl"), lines).unwrap();
    let agent = NEW.replacen("\"main\"", "\"subagent\"", 1).replace("8a4f6e0d", "00000000");
    fs::write(place.chats("workspace").join("session-agent.jsonl"), agent).unwrap();
    let listed = everything(&place.stores()).await;
    let ids: Vec<_> = listed.iter().map(|it| it.head.from.as_ref().unwrap().id.as_str()).collect();
    assert_eq!(ids.len(), 2);
    assert!(ids.contains(&OLD_ID));
}

#[tokio::test]
async fn what_was_saved_by_name_is_listed_by_it() {
    let place = Place::new();
    let dir = place.chats(&hash(&place.workspace())).parent().unwrap().to_owned();
    let call = json!({ "functionCall": { "name": "glob", "args": { "pattern": "*" } } });
    let result = |output: &str| json!({ "functionResponse": { "name": "glob", "response": { "output": output } } });
    let own =
        "This is the Gemini CLI. We are setting up the context for our chat.\nToday's date is";
    let history = json!([
        { "role": "user", "parts": [{ "text": own }] },
        { "role": "model", "parts": [{ "text": "Got it. Thanks for the context!" }] },
        { "role": "user", "parts": [{ "text": "Look around" }] },
        { "role": "model", "parts": [{ "text": "Looking." }, call, call] },
        { "role": "user", "parts": [result("one"), result("two")] },
        { "role": "model", "parts": [{ "text": "There are two." }] },
    ]);
    fs::write(dir.join("checkpoint-before%20the%20release.json"), history.to_string()).unwrap();
    let store = place.stores();
    let saved = everything(&store).await.remove(0);
    assert_eq!((saved.title.as_str(), saved.turns), ("before the release", 1));
    let events = events(&store, &saved.head.id).await;
    let order = ["Look around", "Looking.", "\"one\"", "\"two\"", "There are two."];
    let places: Vec<_> = order.iter().map(|text| events.find(text).unwrap()).collect();
    assert!(places.is_sorted() && !events.contains("Got it."), "{events}");
}

#[tokio::test]
async fn what_is_no_chat_does_no_harm() {
    let place = Place::new();
    place.with_new_chat();
    let chats = place.chats("workspace");
    let secret = place.home.path().join("session-elsewhere.jsonl");
    fs::write(&secret, OLD.replace('\n', "")).unwrap();
    symlink(&secret, chats.join("session-link.jsonl")).unwrap();
    make_fifo(&chats.join("session-fifo.jsonl"));
    fs::create_dir(chats.join("session-dir.json")).unwrap();
    File::create(chats.join("session-huge.json")).unwrap().set_len(65 << 20).unwrap();
    for (n, bytes) in
        [&b""[..], b"\xff\xfe{\0", b"{", b"null\n", &b"[".repeat(1 << 20)].iter().enumerate()
    {
        fs::write(chats.join(format!("session-{n}.json")), bytes).unwrap();
    }
    // Names that lead elsewhere.
    let workspace = place.workspace();
    let outside = place.home.path().join("outside/chats");
    fs::create_dir_all(&outside).unwrap();
    fs::write(outside.join("session-x.jsonl"), OLD.replace('\n', "")).unwrap();
    let others = json!({ workspace.to_str().unwrap(): "workspace", "/other": "../../outside",
        "relative": "workspace", "/absolute": outside.parent().unwrap() });
    place.name_projects(others);
    let listed = everything(&place.stores()).await;
    assert_eq!(listed.len(), 1, "{listed:?}");
    place.name_projects(json!({ workspace.to_str().unwrap(): 7 }));
    assert_eq!(everything(&place.stores()).await, []);
}

#[tokio::test]
async fn of_a_damaged_chat_the_rest_goes_on_and_says_so() {
    let place = Place::new();
    let file = place.with_old_chat();
    fs::write(&file, &OLD[..OLD.find("Rename it").unwrap()]).unwrap();
    let store = place.stores();
    let chat = everything(&store).await.remove(0);
    assert_eq!(chat.turns, 1);
    drop(store.claim(&chat.head.id).await.unwrap());
    let events = events(&store, &chat.head.id).await;
    assert!(events.contains("src/parser.rs") && events.contains("cannot be read: 1"), "{events}");
    assert_eq!(everything(&store).await[0].program, None);
}
