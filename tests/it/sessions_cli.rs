//! `tandem sessions`, and going on with a stored session from the command line.

use std::fs::{self, File};
use std::io::{Read as _, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, SystemTime};

use expect_test::{expect, expect_file};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use serde_json::{Value, json};
use tandem_agent::session::Store as _;
use tandem_store::FileStore;
use tempfile::TempDir;

/// A home with a workspace, in which prompts run one after another.
pub(crate) struct Place {
    pub(crate) home: TempDir,
}

pub(crate) struct Said {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Place {
    pub(crate) fn new() -> Self {
        let place = Self { home: TempDir::new().unwrap() };
        fs::create_dir(place.home.path().join("workspace")).unwrap();
        place
    }

    pub(crate) fn command(&self, directory: &str, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tandem"));
        command
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", self.home.path())
            .env("TANDEM_LOG", "off")
            .env("TANDEM_LOCAL_SERVERS", "")
            .current_dir(self.home.path().join(directory))
            .args(args)
            .stdin(Stdio::null());
        command
    }

    pub(crate) fn run(&self, args: &[&str]) -> Said {
        said(self.command("workspace", args).output().unwrap())
    }

    /// Returns the standard output of a run that works.
    pub(crate) fn out(&self, args: &[&str]) -> String {
        let said = self.run(args);
        assert_eq!((said.code, &*said.err), (Some(0), ""), "{args:?}: {}", said.out);
        said.out
    }

    /// Runs a prompt with a model that gives these answers.
    pub(crate) fn prompt(&self, answers: Value, args: &[&str]) -> Said {
        let script = self.home.path().join("script.jsonl");
        fs::write(&script, json!({ "when": "", "answers": answers }).to_string()).unwrap();
        let model = format!("replay:{}", script.display());
        self.run(&[&["--model", &model, "-y"], args].concat())
    }

    /// Stores a session with this prompt and answer; returns its id.
    pub(crate) fn talk(&self, prompt: &str, answer: &str) -> String {
        let said = self.prompt(json!([[{ "text": answer }]]), &["-o", "json", "-p", prompt]);
        let json: Value = serde_json::from_str(&said.out).unwrap();
        json["session_id"].as_str().unwrap().to_owned()
    }

    pub(crate) fn dir(&self, id: &str) -> PathBuf {
        self.home.path().join(".local/share/tandem/sessions").join(id)
    }

    fn store(&self) -> FileStore {
        FileStore::new(self.home.path().join(".local/share/tandem/sessions"))
    }

    pub(crate) fn ids(&self) -> Vec<String> {
        let entries = fs::read_dir(self.dir("")).unwrap();
        let mut ids: Vec<_> =
            entries.map(|it| it.unwrap().file_name().into_string().unwrap()).collect();
        ids.sort();
        ids
    }

    /// Lets a session be this old.
    pub(crate) fn age(&self, id: &str, minutes: u64) {
        let log = File::options().append(true).open(self.dir(id).join("log.jsonl")).unwrap();
        log.set_modified(SystemTime::now() - Duration::from_secs(minutes * 60)).unwrap();
    }

    /// Replaces in a text all that differs from run to run.
    fn constant(&self, text: &str) -> String {
        let home = fs::canonicalize(self.home.path()).unwrap();
        let mut text = text.replace(home.to_str().unwrap(), "/home/me");
        for (n, id) in (1..).zip(self.ids()) {
            text = text.replace(&id, &format!("ID-{n}"));
        }
        for (pattern, constant) in [
            (r" +\d+(\.\d)? kB ", "  SIZE "),
            (r"\d{4}-\d\d-\d\d \d\d:\d\d UTC", "DAY"),
            (r#""(created|changed|bytes)": \d+"#, "\"$1\": 0"),
        ] {
            text = regex::Regex::new(pattern).unwrap().replace_all(&text, constant).into_owned();
        }
        text
    }
}

fn said(output: Output) -> Said {
    let text = |bytes| String::from_utf8(bytes).unwrap();
    Said { code: output.status.code(), out: text(output.stdout), err: text(output.stderr) }
}

/// Stores a session with calls of all kinds, and words that must not become anything else.
fn story(place: &Place) -> String {
    let call = |name, args: Value| json!({ "call": { "name": name, "args": args } });
    fs::write(place.home.path().join("workspace/a.txt"), "one\ntwo\n").unwrap();
    let answers = json!([
        [{ "thought": "hidden" }, { "text": "Let me " }, { "text": "*see* <b>\u{1b}[1m</b>:\n```" },
            call("read_file", json!({ "file_path": "a.txt" }))],
        [call("write_file", json!({ "file_path": "a.txt", "content": "one\n<i>2</i>\n```\n" })),
            call("run_shell_command", json!({ "command": "echo '<script>'; false" })),
            call("read_file", json!({ "file_path": "none.txt" }))],
        [{ "text": "- done\n- [x](javascript:y) ![z](http://host/z.png)" }],
    ]);
    // Without a sandbox, the output is the same on machines that have a sandbox and on those that have none.
    let prompt = "Change <a.txt>\n```\nand say **how**";
    let args = ["-o", "json", "--sandbox", "danger-full-access", "-p", prompt];
    let said = place.prompt(answers, &args);
    let json: Value = serde_json::from_str(&said.out).unwrap();
    json["session_id"].as_str().unwrap().to_owned()
}

#[test]
fn the_sessions_of_a_directory_are_listed_the_last_changed_first() {
    let place = Place::new();
    let nothing = place.run(&["sessions"]);
    expect!["There is no stored session of this directory; `tandem sessions --all` lists those of others.\n"]
        .assert_eq(&nothing.err);
    assert_eq!((nothing.code, &*nothing.out), (Some(0), ""));
    assert_eq!(place.out(&["sessions", "--json"]), "[]\n");
    let first = place.talk("first question", "a");
    let second = place.talk(&format!("second, {}", "long ".repeat(30)), "b");
    let third = place.talk("third", "c");
    place.prompt(json!([[{ "text": "more" }]]), &["-r", &first, "-p", "and more"]);
    fs::create_dir(place.home.path().join("elsewhere")).unwrap();
    let elsewhere = place.command("elsewhere", &["--model", "replay", "-p", "fourth"]).output();
    assert!(elsewhere.unwrap().status.success());
    let fourth = place.ids().pop().unwrap();
    for (id, minutes) in [(&first, 0), (&second, 3), (&third, 150), (&fourth, 3000)] {
        place.age(id, minutes);
    }
    let said = [
        place.out(&["sessions"]),
        place.out(&["sessions", "list", "-n", "1"]),
        place.out(&["sessions", "--all"]),
        place.out(&["sessions", "list", "--json", "-n", "2"]),
    ];
    expect_file!["../../fixtures/sessions/list.txt"].assert_eq(&place.constant(&said.join("\n")));
}

#[test]
fn a_session_of_nothing_but_commands_is_not_stored() {
    let place = Place::new();
    for command in ["/about", "/model", "/rename Nothing", "/memory list", "/nonsense"] {
        place.prompt(json!([]), &["-p", command]);
    }
    assert_eq!(place.out(&["sessions", "--all", "--json"]), "[]\n");
}

#[test]
fn the_size_of_a_session_is_that_of_all_its_files() {
    let place = Place::new();
    let id = story(&place);
    let files = ["", "blobs", "outputs"].map(|name| fs::read_dir(place.dir(&id).join(name)));
    let files = files.into_iter().flatten().flatten().map(|entry| entry.unwrap().metadata());
    let sizes: Vec<_> = files.flatten().filter(fs::Metadata::is_file).map(|it| it.len()).collect();
    assert!(sizes.len() > 1, "a log and what it needs for undo");
    let list: Value = serde_json::from_str(&place.out(&["sessions", "--json"])).unwrap();
    assert_eq!(list[0]["bytes"], sizes.iter().sum::<u64>());
}

#[test]
fn a_session_is_shown_and_exported() {
    let place = Place::new();
    let id = story(&place);
    let check = |args: &[&str]| place.constant(&place.out(&[&["sessions"], args].concat()));
    expect_file!["../../fixtures/sessions/story.txt"].assert_eq(&check(&["show", "1"]));
    expect_file!["../../fixtures/sessions/story.md"].assert_eq(&check(&["export", &id]));
    let html = check(&["export", "Change", "--format", "html"]);
    expect_file!["../../fixtures/sessions/story.html"].assert_eq(&html);
    for element in ["<script", "<b>\u{241b}", "<i>", "<img", "javascript:", "src="] {
        assert!(!html.contains(element), "{element}");
    }
    let log = place.out(&["sessions", "export", &id[..13], "--format", "jsonl"]);
    assert_eq!(log, fs::read_to_string(place.dir(&id).join("log.jsonl")).unwrap());
}

#[test]
fn what_a_conversation_went_back_over_is_still_shown() {
    let place = Place::new();
    let id = place.talk("first", "one");
    for prompt in ["second", "/rewind conversation 2", "third"] {
        let said = place.prompt(json!([[{ "text": "more" }]]), &["-r", &id, "-p", prompt]);
        assert_eq!((said.code, &*said.err), (Some(0), ""), "{prompt}");
    }
    expect![[r#"
        first
        ID-1, /home/me/workspace, DAY, 4 turns

        > first

        one

        > second

        more

        > /rewind conversation 2

        Went back to before prompt 2: `second`

        > third

        more
    "#]]
    .assert_eq(&place.constant(&place.out(&["sessions", "show", &id])));
    assert!(place.out(&["sessions", "search", "second"]).contains("second"));
}

#[test]
fn an_export_goes_into_a_new_file_of_its_owners() {
    let place = Place::new();
    let id = place.talk("question", "answer");
    let export = ["sessions", "export", &id, "-o", "out.md"];
    assert_eq!(place.out(&export), "");
    let file = place.home.path().join("workspace/out.md");
    let written = fs::read_to_string(&file).unwrap();
    assert!(written.contains("> question") && written.contains("answer"), "{written}");
    assert_eq!(fs::metadata(&file).unwrap().mode() & 0o777, 0o600);
    fs::write(&file, "mine").unwrap();
    let again = place.run(&export);
    expect!["tandem: out.md exists already; delete it, or name another file\n"]
        .assert_eq(&again.err);
    assert_eq!((again.code, fs::read_to_string(&file).unwrap()), (Some(1), "mine".to_owned()));
}

#[test]
fn what_was_said_is_found_in_any_case_and_across_chunks() {
    let place = Place::new();
    let chunks = json!([[{ "text": "It is the \"Schö" }, { "text": "NE\" Müllerin.\nMore." },
        { "call": { "name": "read_file", "args": { "file_path": "secret-name" } } }], [{ "text": "!" }]]);
    place.prompt(chunks, &["-p", "which song?"]);
    place.talk("another", "Nothing of it");
    let search = |text: &str| place.run(&["sessions", "search", text]);
    let found = search("\"schöne\" müll");
    expect![[r#"
        2  just now  1 turn  SIZE  which song?  ID-1
            It is the "SchöNE" Müllerin.
    "#]]
    .assert_eq(&place.constant(&found.out));
    assert_eq!(search("WHICH").out.lines().count(), 2, "in a prompt");
    assert_eq!(search("a").out.lines().count(), 2, "words of names and paths are not said");
    let nothing = search("secret-name");
    assert_eq!((nothing.code, &*nothing.out), (Some(0), ""));
    expect!["`secret-name` is not in the sessions of this directory\n"].assert_eq(&nothing.err);
    let elsewhere = place.command("", &["sessions", "search", "--all", "Müllerin"]).output();
    expect![[r#"
        ~/workspace  just now  1 turn  SIZE  which song?  ID-1
            It is the "SchöNE" Müllerin.
    "#]]
    .assert_eq(&place.constant(&said(elsewhere.unwrap()).out));
}

#[test]
fn a_fork_has_all_of_the_original_and_goes_its_own_way() {
    let place = Place::new();
    let id = story(&place);
    let fork = place.out(&["sessions", "fork", &id]).trim_end().to_owned();
    let log = |id: &str| fs::read_to_string(place.dir(id).join("log.jsonl")).unwrap();
    let (before, copy) = (log(&id), log(&fork));
    let head: Value = serde_json::from_str(copy.lines().next().unwrap()).unwrap();
    let end: Value = serde_json::from_str(before.lines().next_back().unwrap()).unwrap();
    let count = |element: &Value| element["Text"].as_array().map_or(1, Vec::len) as u64;
    let counts = end["e"].as_array().unwrap().iter().map(count);
    let end = end["i"].as_u64().unwrap() + counts.sum::<u64>();
    assert_eq!(head["from"], json!({ "id": id, "index": end }));
    let batches = |log: &str| log.split_once('\n').unwrap().1.replace(&fork, &id);
    assert_eq!(batches(&copy), batches(&before));
    assert_eq!(copy.matches(&*id).count(), 1, "only where it comes from");
    let blobs = |id: &str| fs::read_dir(place.dir(id).join("blobs")).unwrap().count();
    assert!(blobs(&fork) > 0 && blobs(&fork) == blobs(&id));
    // The copy can undo the changes of the original's turns.
    let said = place.prompt(json!([]), &["-r", &fork, "-p", "/restore turn 1"]);
    assert_eq!((said.code, &*said.err), (Some(0), ""), "{}", said.out);
    assert_eq!(
        fs::read_to_string(place.home.path().join("workspace/a.txt")).unwrap(),
        "one\ntwo\n"
    );
    assert_eq!(log(&id), before, "the original stays");
    assert!(log(&fork).len() > copy.len());
}

#[test]
fn a_checkpoint_goes_on_in_a_copy_and_is_not_the_newest_session() {
    let place = Place::new();
    let id = place.talk("one", "first");
    let saved = place.prompt(json!([]), &["-c", "-p", "/chat save here"]);
    assert_eq!((saved.code, &*saved.err), (Some(0), ""), "{}", saved.out);
    let [_, checkpoint] = &place.ids()[..] else { panic!("{:?}", place.ids()) };
    place.age(&id, 3);
    let list = place.constant(&place.out(&["sessions"]));
    expect![[r#"
        1   just now   1 turn  SIZE  [here] one  ID-2
        2  3 min ago  2 turns  SIZE  one         ID-1
    "#]]
    .assert_eq(&list);
    let json: Value = serde_json::from_str(&place.out(&["sessions", "--json"])).unwrap();
    assert_eq!((&json[0]["tag"], &json[1]["tag"]), (&json!("here"), &Value::Null));
    let log = || fs::read_to_string(place.dir(checkpoint).join("log.jsonl")).unwrap();
    let before = log();
    let next = json!([[{ "text": "second" }]]);
    for name in ["here", checkpoint] {
        let said = place.prompt(next.clone(), &["-o", "json", "-r", name, "-p", "two"]);
        let json: Value = serde_json::from_str(&said.out).unwrap();
        let copy = place.ids().pop().unwrap();
        assert_eq!(json["session_id"], copy);
        assert!(![&id, checkpoint].contains(&&copy));
        place.age(&copy, 5);
    }
    assert_eq!(log(), before, "it stays as it is");
    let said = place.prompt(next, &["-o", "json", "-c", "-p", "three"]);
    let json: Value = serde_json::from_str(&said.out).unwrap();
    assert_eq!(json["session_id"], id);
}

#[test]
fn sessions_are_deleted_by_what_the_list_shows() {
    let place = Place::new();
    let ids: Vec<_> = (1..=4).map(|n| place.talk(&format!("question {n}"), "yes")).collect();
    for (id, minutes) in ids.iter().zip([40, 30, 20, 10]) {
        place.age(id, minutes);
    }
    let unasked = place.run(&["sessions", "delete", "1"]);
    expect!["tandem: nobody can be asked whether to delete; `--yes` deletes without a question\n"]
        .assert_eq(&unasked.err);
    assert_eq!(place.ids().len(), 4);
    let wrong = place.run(&["sessions", "delete", "--yes", "1", "nothing of the kind"]);
    assert_eq!((wrong.code, place.ids().len()), (Some(1), 4), "all or none: {}", wrong.err);
    let out = place.run(&["sessions", "delete", "--yes", "1", "2", "question 4"]).out;
    let expected =
        format!("{} (question 4) is deleted\n{} (question 3) is deleted\n", ids[3], ids[2]);
    assert_eq!(out, expected);
    assert_eq!(place.ids(), ids[..2]);
}

#[tokio::test]
async fn an_open_session_is_not_deleted() {
    let place = Place::new();
    let (open, closed) = (place.talk("open", "yes"), place.talk("closed", "yes"));
    let lease = place.store().acquire(&open).await.unwrap();
    let refused = place.run(&["sessions", "delete", "--yes", &open, &closed]);
    let expected = format!(
        "tandem: {open} (open) is not deleted: the session is open in process {}; end that \
         process, or copy the session with `tandem sessions fork {open}`\ntandem: not all sessions are deleted\n",
        std::process::id()
    );
    assert_eq!((refused.code, refused.err), (Some(1), expected));
    assert_eq!(place.ids(), std::slice::from_ref(&open));
    drop(lease);
    place.out(&["sessions", "delete", "--yes", &open]);
    assert!(place.ids().is_empty());
}

#[tokio::test]
async fn a_session_that_is_open_elsewhere_is_marked_with_the_way_to_it() {
    let place = Place::new();
    let (open, closed) = (place.talk("open", "yes"), place.talk("closed", "yes"));
    let list = || place.out(&["sessions"]);
    let json = || serde_json::from_str::<Value>(&place.out(&["sessions", "--json"])).unwrap();
    let pid = std::process::id();
    let mut lease = place.store().acquire(&open).await.unwrap();
    let shown = list();
    let marked = format!(
        "[open] open  {open}\n    open in process {pid}; end that process, or copy the session with \
         `tandem sessions fork {open}`\n"
    );
    assert!(shown.ends_with(&marked), "{shown}");
    assert_eq!(shown.matches("[open]").count(), 1, "{closed}: {shown}");
    assert_eq!(json()[1]["open"], json!({ "pid": pid }));
    assert_eq!(json()[0].get("open"), None);
    lease.announce(41242).await.unwrap();
    let join = format!("tandem attach 41242 --session {open}");
    let shown = list();
    let way = format!("\n    open in process {pid}; `{join}` joins it\n");
    assert!(shown.ends_with(&way), "{shown}");
    assert_eq!(json()[1]["open"], json!({ "pid": pid, "port": 41242, "join": join }));
    drop(lease);
    // The file was left by a process that was killed.
    fs::write(place.dir(&open).join("owner.json"), r#"{"pid":1}"#).unwrap();
    let shown = list();
    assert!(!shown.contains("[open]"), "{shown}");
    assert_eq!(json()[1].get("open"), None);
}

/// Runs a command in a terminal, types this text, and returns the screen.
fn at_a_terminal(mut command: Command, typed: &str) -> String {
    let terminal = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&terminal).unwrap();
    unlockpt(&terminal).unwrap();
    let name = ptsname(&terminal, Vec::new()).unwrap();
    let end = File::options().read(true).write(true).open(name.to_str().unwrap()).unwrap();
    command.stdin(end.try_clone().unwrap()).stdout(end.try_clone().unwrap()).stderr(end);
    let mut child = command.spawn().unwrap();
    drop(command);
    let mut terminal = File::from(terminal);
    terminal.write_all(typed.as_bytes()).unwrap();
    // An error is ignored: reading fails when the other end of the terminal is closed.
    let mut shown = Vec::new();
    let _ = terminal.read_to_end(&mut shown);
    child.wait().unwrap();
    String::from_utf8(shown).unwrap()
}

#[test]
fn a_person_is_asked_before_anything_is_deleted() {
    let place = Place::new();
    let id = place.talk("question", "yes");
    let delete = || place.command("workspace", &["sessions", "delete", &id]);
    let shown = at_a_terminal(delete(), "\n");
    assert!(shown.contains("Delete for ever? [y/N]") && shown.contains("question"), "{shown}");
    assert_eq!(place.ids(), std::slice::from_ref(&id));
    at_a_terminal(delete(), "y\n");
    assert!(place.ids().is_empty());
}

#[test]
fn a_script_goes_on_with_the_id_that_it_was_given() {
    let place = Place::new();
    let id = place.talk("one", "first");
    let next = json!([[{ "text": "second" }]]);
    let said = place.prompt(next.clone(), &["-o", "stream-json", "-r", &id, "-p", "two"]);
    let init: Value = serde_json::from_str(said.out.lines().next().unwrap()).unwrap();
    assert_eq!(init["session_id"], id);
    for newest in [&["-c"][..], &["--resume", "latest"], &["-r", "1"]] {
        let said = place.prompt(next.clone(), &[newest, &["-p", "more"]].concat());
        assert_eq!((&*said.out, &*said.err), ("second\n", ""), "{newest:?}");
    }
    assert_eq!(place.ids(), [id]);
    assert!(place.out(&["sessions"]).contains("5 turns"));
}

#[test]
fn which_session_is_to_be_resumed_must_be_said_where_nobody_can_be_asked() {
    let place = Place::new();
    place.talk("one", "first");
    let refused = place.prompt(json!([]), &["-p", "two", "-r"]);
    expect![
        "tandem: no session is named; `tandem sessions` lists those of this directory, `--resume NUMBER` goes on \
         with one of them, and `--continue` with the newest\n"
    ]
    .assert_eq(&refused.err);
    assert_eq!((refused.code, &*refused.out), (Some(42), ""));
    let editor = place.prompt(json!([]), &["--acp", "--resume"]);
    assert_eq!((editor.code, &*editor.out, editor.err), (Some(2), "", refused.err));
    assert_eq!(place.ids().len(), 1);
}

#[test]
fn nothing_is_stored_where_nothing_shall_be() {
    let place = Place::new();
    let mut unstored = place.command("workspace", &["--model", "replay", "-p", "go"]);
    let unstored = unstored.env("TANDEM_SESSIONS", "").output().unwrap();
    assert!(unstored.status.success());
    let record = concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/acp/demonstration.ndjson");
    assert!(place.run(&["replay", record]).out.ends_with("as recorded\n"));
    // A program that is named for the replay stores nothing in the user's sessions either.
    let program = env!("CARGO_BIN_EXE_tandem");
    place.run(&["replay", record, "--", program, "--model", "replay", "--acp"]);
    assert!(!place.home.path().join(".local/share").exists());
    let mut list = place.command("workspace", &["sessions"]);
    let refused = said(list.env("TANDEM_SESSIONS", "").output().unwrap());
    expect!["tandem: sessions are not stored, because `TANDEM_SESSIONS` is empty or there is no home directory: set `TANDEM_SESSIONS` to a directory, and start tandem again\n"]
        .assert_eq(&refused.err);
    assert_eq!(refused.code, Some(1));
}

#[tokio::test]
async fn old_sessions_are_removed_only_where_a_person_has_set_that() {
    let place = Place::new();
    let ids: Vec<_> = (1..=4).map(|n| place.talk(&format!("question {n}"), "yes")).collect();
    let days = [100, 99, 40, 5];
    let grow_old = || {
        for (id, days) in ids.iter().zip(days).filter(|(id, _)| place.dir(id).exists()) {
            place.age(id, days * 24 * 60);
        }
    };
    grow_old();
    let serve = || {
        let mut command = place.command("workspace", &["--model", "replay", "--acp"]);
        let mut editor = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut stdin = editor.stdin.take().unwrap();
        stdin.write_all(b"{\"id\":0,\"method\":\"initialize\"}\n").unwrap();
        drop(stdin);
        editor.wait_with_output().unwrap()
    };
    let set = |retention: Value| {
        let dir = place.home.path().join(".gemini");
        fs::create_dir_all(&dir).unwrap();
        let settings = json!({ "general": { "sessionRetention": retention } });
        fs::write(dir.join("settings.json"), settings.to_string()).unwrap();
    };
    assert!(serve().status.success());
    set(json!({ "enabled": false, "maxAge": "30d" }));
    assert!(serve().status.success());
    assert_eq!(place.ids(), ids, "off unless it is turned on");
    set(json!({ "enabled": true, "maxAge": "30d" }));
    let script = place.prompt(json!([[{ "text": "yes" }]]), &["-c", "-p", "more"]);
    assert_eq!((script.code, place.ids()), (Some(0), ids.clone()), "a script removes nothing");
    grow_old();
    let open = place.store().acquire(&ids[1]).await.unwrap();
    assert!(serve().status.success());
    assert_eq!(place.ids(), [ids[1].clone(), ids[3].clone()], "what is open stays");
    drop(open);
    set(json!({ "enabled": true, "maxCount": 1 }));
    assert!(serve().status.success());
    assert_eq!(place.ids(), ids[3..]);
}
