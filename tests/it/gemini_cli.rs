//! Sessions of Gemini CLI: imported once, as sessions of tandem.

use std::fs::{self, File};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use expect_test::{expect, expect_file};
use futures::StreamExt as _;
use serde_json::{Value, json};
use tandem_agent::session::{Listed, Query, Store, Stored};
use tandem_host::preimages::ContentId;
use tandem_import::{
    FoundSessions, GeminiCli, ImportOutcome, ImportScope, Importer, SkipReason, has_new_sessions,
};
use tandem_store::FileStore;
use test_support::api_server::{Reply, Server};

use crate::family::make_fifo;
use crate::sessions_cli::{Place, Said};

/// A chat of Gemini CLI 0.9: one JSON object.
const OLD: &str = include_str!("../../fixtures/gemini_cli/0.9.json");

/// A chat of Gemini CLI 0.56: JSON Lines.
const NEW: &str = include_str!("../../fixtures/gemini_cli/0.56.jsonl");

/// Id of the old chat.
const OLD_ID: &str = "3f0d1c9e-5b1a-4f57-9d7e-0f7a2c1b9e11";

/// Times of the last changes of both chats, in milliseconds.
const OLD_CHANGED: i64 = 1_772_355_930_500;

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

    /// Puts the old chat where Gemini CLI up to 0.28 stores chats of the workspace.
    fn with_old_chat(&self) -> PathBuf {
        let file =
            self.chats(&hash(&self.workspace())).join("session-2026-03-01T09-00-3f0d1c9e.json");
        fs::write(&file, OLD).unwrap();
        file
    }

    /// Puts the new chat where later versions store chats.
    fn with_new_chat(&self) -> PathBuf {
        self.name_projects(json!({ self.workspace().to_str().unwrap(): "workspace" }));
        let file = self.chats("workspace").join("session-2026-08-06T10-00-8a4f6e0d.jsonl");
        fs::write(&file, NEW).unwrap();
        file
    }

    fn import(&self, args: &[&str]) -> Said {
        self.run(&[&["sessions", "import"], args].concat())
    }

    /// Imports chats; returns the outcomes with the titles.
    fn outcomes(&self, args: &[&str]) -> Vec<(String, String)> {
        let said = self.import(&[&["--json"], args].concat());
        let list: Vec<Value> = serde_json::from_str(&said.out).unwrap();
        let text = |it: &Value, key: &str| it[key].as_str().unwrap_or_default().to_owned();
        list.iter().map(|it| (text(it, "outcome"), text(it, "title"))).collect()
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

    fn found(&self, scope: &ImportScope) -> FoundSessions {
        GeminiCli::new(self.home.path().join(".gemini"), self.workspace()).find(scope)
    }

    /// Imports the chats of the workspace into a store of the test, and returns the store.
    async fn imported(&self) -> FileStore {
        let store = FileStore::new(self.home.path().join("own"));
        let importer = Importer::new(store.clone()).await.unwrap();
        for session in self.found(&ImportScope::Directory).sessions {
            let outcome = importer.import(&session, false).await;
            assert!(matches!(outcome, ImportOutcome::Imported), "{outcome:?}");
        }
        store
    }
}

fn hash(directory: &Path) -> String {
    ContentId::hash(directory.to_str().unwrap().as_bytes()).sha256().to_owned()
}

/// Makes a file so old that no program can still be writing it.
fn settle(file: &Path) {
    let file = File::options().append(true).open(file).unwrap();
    file.set_modified(SystemTime::now() - Duration::from_mins(1)).unwrap();
}

async fn everything(store: &dyn Store) -> Vec<Listed> {
    store.list(&Query::default()).await.unwrap()
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
fn a_session_is_imported_once_with_its_title_its_time_and_its_directory() {
    let place = Place::new();
    let (old, new) = (place.with_old_chat(), place.with_new_chat());
    let own = place.talk("mine", "answer");
    let said = place.import(&[]);
    assert_eq!((said.code, &*said.err), (Some(0), "Sessions of Gemini CLI: 2 imported.\n"));
    let list = place.list(&[]);
    let lines = [&list[1], &list[2]].map(|it| {
        let text = |key: &str| it[key].as_str().unwrap().to_owned();
        format!("{} ({}) is imported\n", text("id"), text("title"))
    });
    assert_eq!(said.out, lines.concat());
    let facts: Vec<_> = list
        .iter()
        .map(|it| json!([it["number"], it["title"], it["turns"], it["from"]]).to_string())
        .collect();
    expect![[r#"
        [1,"mine",1,null]
        [2,"Make the theme blue",2,{"id":"8a4f6e0d-2b7c-4c7d-9a55-7f2d3b6c0e22","index":11,"program":"Gemini CLI"}]
        [3,"Where is the parser in @src/lib.rs?",2,{"id":"3f0d1c9e-5b1a-4f57-9d7e-0f7a2c1b9e11","index":5,"program":"Gemini CLI"}]"#]]
    .assert_eq(&facts.join("\n"));
    assert_eq!(list[2]["directory"], place.workspace().to_str().unwrap());
    assert_eq!(list[2]["changed"], OLD_CHANGED);
    let again = place.import(&[]);
    let summary = "Sessions of Gemini CLI: 2 imported before.\n";
    assert_eq!((again.code, &*again.err), (Some(0), summary));
    assert_eq!(again.out, said.out.replace("is imported", "was imported before"));
    assert_eq!(place.list(&[]), list);
    assert_eq!(fs::read_to_string(old).unwrap(), OLD);
    assert_eq!(fs::read_to_string(new).unwrap(), NEW);
    // The newest session is the one that was used last.
    place.go_on(&["-p", "more", "-c"]);
    assert_eq!((&place.list(&[])[0]["id"], &place.list(&[])[0]["turns"]), (&json!(own), &json!(2)));
}

#[test]
fn sessions_of_other_directories_are_imported_only_where_all_are() {
    let place = Place::new();
    place.with_old_chat();
    place.with_new_chat();
    fs::create_dir(place.home.path().join("elsewhere")).unwrap();
    let import = |args: &[&str]| {
        let args = [&["sessions", "import"], args].concat();
        let output = place.command("elsewhere", &args).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stderr).unwrap()
    };
    let none = import(&[]);
    assert!(none.starts_with("Gemini CLI has no sessions of this directory"), "{none}");
    assert_eq!(import(&["--all"]), "Sessions of Gemini CLI: 2 imported.\n");
    assert_eq!(place.titles(&[]).len(), 2);
    // Without the list of projects, a hash does not tell the directory of a chat.
    fs::remove_file(place.home.path().join(".gemini/projects.json")).unwrap();
    let left_out = import(&["--all"]);
    assert_eq!(left_out.matches("is left out").count(), 2, "{left_out}");
    assert!(left_out.ends_with("Gemini CLI has no sessions.\n"), "{left_out}");
}

#[test]
fn a_path_names_one_file_or_a_directory_of_them() {
    let place = Place::new();
    let backup = place.home.path().join("backup");
    fs::create_dir(&backup).unwrap();
    fs::write(backup.join("a.jsonl"), NEW).unwrap();
    fs::write(backup.join("notes.txt"), "no chat").unwrap();
    fs::write(backup.join("logs.json"), "[]").unwrap();
    // The hash in the chat names the directory of its project. If no known project has this hash, the session belongs
    // to the current directory.
    let elsewhere = place.workspace().with_file_name("elsewhere");
    place.name_projects(json!({ elsewhere.to_str().unwrap(): "elsewhere" }));
    let known = OLD.replace(&"0".repeat(64), &hash(&elsewhere));
    fs::write(backup.join("b.json"), known).unwrap();
    symlink(backup.join("b.json"), place.workspace().join("link")).unwrap();
    let parser = "Where is the parser in @src/lib.rs?".to_owned();
    assert_eq!(place.outcomes(&["link"]), [("imported".to_owned(), parser)]);
    assert_eq!(place.titles(&[]).len(), 0);
    let said = place.import(&["../backup"]);
    assert_eq!(said.code, Some(1));
    expect![[r"
        tandem: HOME/backup/logs.json is not imported: it is not a session of Gemini CLI
        Sessions of Gemini CLI: 1 imported, 1 imported before, 1 skipped.
        tandem: not all sessions are imported
    "]]
    .assert_eq(&said.err.replace(place.workspace().parent().unwrap().to_str().unwrap(), "HOME"));
    assert_eq!(place.titles(&[]), ["Make the theme blue"]);
    assert_eq!(place.titles(&["--all"]).len(), 2);
    let missing = place.import(&["nowhere.json"]);
    assert!(missing.code == Some(1) && missing.err.contains("nowhere.json is not imported"));
}

#[test]
fn json_has_each_session_and_each_skipped_file() {
    let place = Place::new();
    let file = place.with_new_chat();
    fs::write(file.with_file_name("session-x.json"), "{}").unwrap();
    let said = place.import(&["--json"]);
    assert_eq!((said.code, said.err.lines().count()), (Some(1), 2), "{}", said.err);
    let list: Vec<Value> = serde_json::from_str(&said.out).unwrap();
    let home = place.workspace().parent().unwrap().to_str().unwrap().to_owned();
    let facts = serde_json::to_string_pretty(&list).unwrap().replace(&home, "HOME");
    expect![[r#"
        [
          {
            "file": "HOME/.gemini/tmp/workspace/chats/session-x.json",
            "outcome": "skipped",
            "reason": "it is not a session of Gemini CLI"
          },
          {
            "file": "HOME/.gemini/tmp/workspace/chats/session-2026-08-06T10-00-8a4f6e0d.jsonl",
            "outcome": "imported",
            "id": "150a0b99-a456-8b78-aa3b-341ac3fab7dc",
            "title": "Make the theme blue",
            "turns": 2,
            "directory": "HOME/workspace",
            "created": 1786010400000,
            "changed": 1786010580000,
            "from": {
              "id": "8a4f6e0d-2b7c-4c7d-9a55-7f2d3b6c0e22",
              "index": 11,
              "program": "Gemini CLI"
            }
          }
        ]"#]]
    .assert_eq(&facts);
}

#[test]
fn a_session_that_went_on_there_is_said_and_imported_once_more_only_when_asked() {
    let place = Place::new();
    let file = place.with_old_chat();
    place.import(&[]);
    place.go_on(&["-p", "first", "-r", "1"]);
    fs::write(&file, OLD.replace("09:05:30.500Z", "09:06:00.000Z")).unwrap();
    let said = place.import(&[]);
    assert_eq!((said.code, &*said.err), (Some(0), "Sessions of Gemini CLI: 1 changed since.\n"));
    assert!(said.out.contains("has changed in Gemini CLI since it was imported; `--again`"));
    assert_eq!(place.titles(&[]).len(), 1);
    let parser = "Where is the parser in @src/lib.rs?".to_owned();
    for outcome in ["imported", "present"] {
        assert_eq!(place.outcomes(&["--again"]), [(outcome.to_owned(), parser.clone())]);
        assert_eq!(place.titles(&[]).len(), 2);
    }
    // The second import has not changed the imported session, which was continued in tandem.
    let turns: Vec<_> = place.list(&[]).iter().map(|it| it["turns"].as_u64().unwrap()).collect();
    assert_eq!(turns, [3, 2]);
}

#[test]
fn an_import_that_was_cut_off_is_in_no_list_and_is_done_anew() {
    let place = Place::new();
    let file = place.with_old_chat();
    place.import(&[]);
    let whole = place.out(&["sessions", "export", "1", "--format", "jsonl"]);
    let id = place.list(&[])[0]["id"].as_str().unwrap().to_owned();
    let staging = place.dir(".staging");
    // An import that is killed leaves a session without its last events in this directory.
    let cut_off = || {
        fs::rename(place.dir(&id), staging.join(&id)).unwrap();
        let lines: Vec<_> = whole.lines().collect();
        let log = lines[..lines.len() - 1].join("\n") + "\n";
        fs::write(staging.join(&id).join("log.jsonl"), log).unwrap();
        assert_eq!(place.list(&["--all"]).len(), 0);
    };
    cut_off();
    assert_eq!(place.outcomes(&[])[0].0, "imported");
    assert_eq!(place.out(&["sessions", "export", "1", "--format", "jsonl"]), whole);
    assert_eq!(place.list(&[])[0]["changed"], OLD_CHANGED);
    assert_eq!(place.outcomes(&[])[0].0, "present");
    // The half import is also replaced if the chat has gone on in Gemini CLI since.
    cut_off();
    fs::write(&file, OLD.replace("09:05:30.500Z", "09:06:00.000Z")).unwrap();
    assert_eq!(place.outcomes(&[])[0].0, "imported");
    assert_eq!(place.list(&["--all"]).len(), 1);
    assert_eq!(fs::read_dir(&staging).unwrap().count(), 0);
}

#[test]
fn a_session_that_cannot_be_stored_keeps_no_other_from_being_imported() {
    let place = Place::new();
    place.with_old_chat();
    place.with_new_chat();
    let newest = place.found(&ImportScope::Directory).sessions.remove(0);
    let taken = place.dir(&newest.head.id);
    fs::create_dir_all(&taken).unwrap();
    fs::write(taken.join("notes.txt"), "mine").unwrap();
    let said = place.import(&[]);
    assert_eq!(said.code, Some(1));
    assert!(said.err.contains("Sessions of Gemini CLI: 1 imported, 1 skipped.\n"), "{}", said.err);
    assert_eq!(place.titles(&[]), ["Where is the parser in @src/lib.rs?"]);
    assert_eq!(fs::read_to_string(taken.join("notes.txt")).unwrap(), "mine");
}

#[test]
fn an_imported_session_is_shown_exported_searched_copied_and_deleted_as_any() {
    let place = Place::new();
    place.with_old_chat();
    let new = place.with_new_chat();
    place.import(&[]);
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
    place.out(&["sessions", "fork", "1"]);
    let deleted = place.run(&["sessions", "delete", "--yes", OLD_ID]);
    assert_eq!(deleted.code, Some(0), "{}", deleted.err);
    assert_eq!(place.titles(&[]), ["Make the theme blue"; 2]);
    assert_eq!(fs::read_to_string(&new).unwrap(), NEW);
}

#[tokio::test]
async fn a_chat_is_the_events_that_a_session_here_would_have() {
    let place = Place::new();
    place.with_old_chat();
    place.with_new_chat();
    let store = place.imported().await;
    for listed in everything(&store).await {
        let id = &listed.head.id;
        let events = events(&store, id).await.replace(id, "ID");
        let events = events.replace(place.workspace().to_str().unwrap(), "/home/me/src/project");
        let file = if listed.title.starts_with("Where") {
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
    place.import(&[]);
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
fn an_imported_session_goes_on_by_its_number_its_id_there_and_as_the_newest() {
    let place = Place::new();
    place.with_old_chat();
    place.import(&[]);
    for args in [["-r", "1"].as_slice(), &["-r", OLD_ID], &["-c"]] {
        let said = place.go_on(&[&["-p", "more"], args].concat());
        assert_eq!((said.code, &*said.err, &*said.out), (Some(0), "", "on\n"));
    }
    assert_eq!(place.list(&[])[0]["turns"], 5);
}

#[test]
fn a_chat_that_was_not_imported_is_no_session() {
    let place = Place::new();
    place.with_new_chat();
    assert_eq!(place.titles(&["--all"]).len(), 0);
    let newest = place.go_on(&["-p", "on", "-c"]);
    assert!(newest.err.contains("there is no stored session of this directory"), "{}", newest.err);
    let named = place.go_on(&["-p", "on", "-r", "theme"]);
    assert!(named.err.contains("there is no stored session `theme`"), "{}", named.err);
}

#[test]
fn a_chat_goes_on_with_the_model_of_a_new_session() {
    let place = Place::new();
    place.with_new_chat();
    place.import(&[]);
    let script = place.home.path().join("script.jsonl");
    fs::write(&script, json!({ "when": "", "answers": [[{ "text": "mine" }]] }).to_string())
        .unwrap();
    let model = format!("replay:{}", script.display());
    let settings = json!({ "model": { "name": model } }).to_string();
    fs::write(place.home.path().join(".gemini/settings.json"), settings).unwrap();
    assert_eq!(place.out(&["-p", "on", "-r", "1"]), "mine\n");
}

#[test]
fn the_same_chat_in_both_forms_is_one_and_one_without_a_prompt_is_counted() {
    let place = Place::new();
    let old = place.with_old_chat();
    place.with_new_chat();
    let lines = NEW.replace("8a4f6e0d-2b7c-4c7d-9a55-7f2d3b6c0e22", OLD_ID);
    fs::write(old.with_extension("jsonl"), lines).unwrap();
    let agent = NEW.replacen("\"main\"", "\"subagent\"", 1).replace("8a4f6e0d", "00000000");
    fs::write(place.chats("workspace").join("session-agent.jsonl"), agent).unwrap();
    let found = place.found(&ImportScope::Directory);
    let originals: Vec<_> =
        found.sessions.iter().map(|it| it.head.from.as_ref().unwrap().id.as_str()).collect();
    assert_eq!((originals.len(), found.empty), (2, 1));
    assert!(originals.contains(&OLD_ID));
}

#[test]
fn the_same_chat_below_two_projects_is_imported_once() {
    let place = Place::new();
    place.with_new_chat();
    let other = place.workspace().with_file_name("other");
    place.name_projects(json!({
        place.workspace().to_str().unwrap(): "workspace",
        other.to_str().unwrap(): "other",
    }));
    fs::write(place.chats("other").join("session-2026-08-06T10-00-8a4f6e0d.jsonl"), NEW).unwrap();
    let said = place.import(&["--all"]);
    assert_eq!((said.code, &*said.err), (Some(0), "Sessions of Gemini CLI: 1 imported.\n"));
    assert_eq!(place.titles(&[]), ["Make the theme blue"]);
}

#[tokio::test]
async fn what_was_saved_by_name_is_imported_by_it_for_each_directory() {
    let place = Place::new();
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
    let other = place.workspace().with_file_name("other");
    place.name_projects(json!({ other.to_str().unwrap(): "other" }));
    for project in [hash(&place.workspace()), "other".to_owned()] {
        let dir = place.chats(&project).parent().unwrap().to_owned();
        fs::write(dir.join("checkpoint-before%20the%20release.json"), history.to_string()).unwrap();
    }
    let store = place.imported().await;
    let saved = everything(&store).await.remove(0);
    assert_eq!((saved.title.as_str(), saved.turns), ("before the release", 1));
    let events = events(&store, &saved.head.id).await;
    let order = ["Look around", "Looking.", "\"one\"", "\"two\"", "There are two."];
    let places: Vec<_> = order.iter().map(|text| events.find(text).unwrap()).collect();
    assert!(places.is_sorted() && !events.contains("Got it."), "{events}");
    // Chats of one tag in two directories are two conversations.
    let said = place.import(&["--all"]);
    assert_eq!(said.err, "Sessions of Gemini CLI: 2 imported.\n");
}

#[test]
fn what_is_no_chat_is_named_and_does_no_harm() {
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
        let file = chats.join(format!("session-{n}.json"));
        fs::write(&file, bytes).unwrap();
        settle(&file);
    }
    // These names are links that lead out of the directory.
    let workspace = place.workspace();
    let outside = place.home.path().join("outside/chats");
    fs::create_dir_all(&outside).unwrap();
    fs::write(outside.join("session-x.jsonl"), OLD.replace('\n', "")).unwrap();
    let others = json!({ workspace.to_str().unwrap(): "workspace", "/other": "../../outside",
        "relative": "workspace", "/absolute": outside.parent().unwrap(), "/empty": "" });
    place.name_projects(others);
    let found = place.found(&ImportScope::All);
    assert_eq!(found.sessions.len(), 1, "{found:?}");
    let skipped: Vec<_> = found
        .skipped
        .iter()
        .map(|it| format!("{}: {}\n", it.path.file_name().unwrap().display(), it.why))
        .collect();
    expect![[r"
        session-0.json: it is not a session of Gemini CLI
        session-1.json: it is not a session of Gemini CLI
        session-2.json: it is not a session of Gemini CLI
        session-3.json: it is not a session of Gemini CLI
        session-4.json: it is not a session of Gemini CLI
        session-dir.json: it is not a file
        session-fifo.jsonl: it is not a file
        session-huge.json: it is larger than 64 MiB
        session-link.jsonl: it is not a file
    "]]
    .assert_eq(&skipped.concat());
    // These names are links to directories.
    place
        .name_projects(json!({ workspace.to_str().unwrap(): "workspace", "/chats": "linked-chats",
        "/project": "linked-project" }));
    let linked = place.chats("linked-chats");
    fs::remove_dir(&linked).unwrap();
    symlink(&outside, &linked).unwrap();
    let project = linked.parent().unwrap().with_file_name("linked-project");
    symlink(outside.parent().unwrap(), &project).unwrap();
    let backup = workspace.with_file_name("backup");
    fs::create_dir(&backup).unwrap();
    symlink(&outside, backup.join("chats")).unwrap();
    let skips = |found: &FoundSessions, path: &Path| {
        found
            .skipped
            .iter()
            .any(|it| it.path == path && it.why.to_string() == "it is not a directory")
    };
    let found = place.found(&ImportScope::All);
    assert_eq!(found.sessions.len(), 1, "{found:?}");
    assert!(skips(&found, &linked) && skips(&found, &project), "{found:?}");
    let found = place.found(&ImportScope::Path(backup.clone()));
    assert!(found.sessions.is_empty() && skips(&found, &backup.join("chats")), "{found:?}");
    // Without a readable list of projects, a directory that is named after a project belongs to no known one, and its
    // session is skipped.
    place.name_projects(json!({ workspace.to_str().unwrap(): 7 }));
    let found = place.found(&ImportScope::All);
    assert!(found.sessions.is_empty() && found.skipped.len() == 1, "{found:?}");
    assert_eq!(found.unknown, [place.home.path().join(".gemini/tmp/workspace/chats")]);
}

#[tokio::test]
async fn of_a_damaged_chat_the_rest_is_imported_and_says_so_when_nobody_writes_it() {
    let place = Place::new();
    let file = place.with_old_chat();
    fs::write(&file, &OLD[..OLD.find("Rename it").unwrap()]).unwrap();
    let torn = place.with_new_chat();
    fs::write(&torn, &NEW[..NEW.len() - 20]).unwrap();
    let found = place.found(&ImportScope::Directory);
    assert_eq!((found.sessions.len(), found.skipped.len()), (0, 2));
    assert!(found.skipped.iter().all(|it| matches!(it.why, SkipReason::BeingWritten)));
    settle(&file);
    settle(&torn);
    let store = place.imported().await;
    for listed in everything(&store).await {
        let events = events(&store, &listed.head.id).await;
        assert!(events.contains("cannot be read: 1"), "{events}");
    }
    assert_eq!(everything(&store).await.len(), 2);
}

#[tokio::test]
async fn a_chat_that_changes_during_its_import_is_left_for_later() {
    let place = Place::new();
    let file = place.with_old_chat();
    let found = place.found(&ImportScope::Directory);
    fs::write(&file, OLD.replace("09:05:30.500Z", "09:06:00.000Z")).unwrap();
    let store = FileStore::new(place.home.path().join("own"));
    let importer = Importer::new(store.clone()).await.unwrap();
    let outcome = importer.import(&found.sessions[0], false).await;
    assert!(matches!(outcome, ImportOutcome::Skipped(SkipReason::BeingWritten)), "{outcome:?}");
    assert_eq!(everything(&store).await, []);
}

#[tokio::test]
async fn there_is_something_new_until_it_is_imported() {
    let place = Place::new();
    let gemini_cli = GeminiCli::new(place.home.path().join(".gemini"), place.workspace());
    let store: Arc<dyn Store> = Arc::new(FileStore::new(place.home.path().join("own")));
    assert!(!has_new_sessions(gemini_cli.clone(), Arc::clone(&store)).await);
    let file = place.with_old_chat();
    fs::write(file.with_file_name("session-broken.json"), "{").unwrap();
    assert!(has_new_sessions(gemini_cli.clone(), Arc::clone(&store)).await);
    place.imported().await;
    assert!(!has_new_sessions(gemini_cli.clone(), Arc::clone(&store)).await);
    // A tag that begins like another, and the same tag of another directory, name other chats.
    let history = json!([
        { "role": "user", "parts": [{ "text": "Look around" }] },
        { "role": "model", "parts": [{ "text": "There are two." }] },
    ]);
    let other = place.workspace().with_file_name("other");
    place.name_projects(json!({ other.to_str().unwrap(): "other" }));
    let save = |project: &str, tag: &str| {
        let dir = place.chats(project).parent().unwrap().to_owned();
        let file = dir.join(format!("checkpoint-{tag}.json"));
        fs::write(&file, history.to_string()).unwrap();
        file
    };
    let own = hash(&place.workspace());
    let longer = save(&own, "ab");
    save("other", "ac");
    let importer = Importer::new(FileStore::new(place.home.path().join("own"))).await.unwrap();
    for session in place.found(&ImportScope::All).sessions {
        importer.import(&session, false).await;
    }
    assert!(!has_new_sessions(gemini_cli.clone(), Arc::clone(&store)).await);
    for tag in ["a", "ac"] {
        let shorter = save(&own, tag);
        assert!(has_new_sessions(gemini_cli.clone(), Arc::clone(&store)).await, "{tag}");
        fs::remove_file(shorter).unwrap();
    }
    assert!(longer.exists() && !has_new_sessions(gemini_cli, store).await);
}
