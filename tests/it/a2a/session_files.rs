//! Files beside a session's log, at whichever node goes on with the session.

use std::fs;

use serde_json::{Value, json};
use tempfile::TempDir;
use test_fakes::postgres::{Cluster, Database};

use super::nodes::{Node, in_context};
use crate::agent::Setup;

/// A home whose nodes have separate directories for files of sessions.
struct Home<'a> {
    database: Database<'a>,
    dir: TempDir,
}

impl Home<'_> {
    fn new() -> Option<Self> {
        Some(Self { database: Cluster::shared()?.database(), dir: TempDir::new().unwrap() })
    }

    async fn start(&self, name: &str, setup: Setup) -> Node {
        let state = self.dir.path().join(name).display().to_string();
        Node::start(&setup.var("TANDEM_STATE_DIR", &state), self.dir.path(), &self.database).await
    }

    /// Kills a node, and removes its files.
    async fn lose(&self, name: &str, mut node: Node) {
        node.child.kill().await.unwrap();
        fs::remove_dir_all(self.dir.path().join(name)).unwrap();
    }

    /// Returns the path of the file with the whole long output, of which the model was told.
    fn output(&self) -> String {
        let path = "select substring(body from 'all of it is in ([^,]*),') from tandem.batch \
                    where body like '%all of it is in %' order by first desc limit 1";
        self.database.sql(path)
    }

    fn text(&self) -> String {
        fs::read_to_string(self.dir.path().join("workspace/a.txt")).unwrap()
    }
}

/// Returns a model that changes a file, and prints many lines that begin with a word, more than a result may have.
fn changes_and_prints(word: &str) -> Setup {
    Setup::answers(json!([[changes()], [prints(word)], [{ "text": "done" }]]))
        .file("a.txt", "old\n")
}

/// Returns a step of a script that changes a file.
fn changes() -> Value {
    let args = json!({ "file_path": "a.txt", "old_string": "old", "new_string": "new" });
    json!({ "call": { "name": "replace", "args": args } })
}

fn prints(word: &str) -> Value {
    let command = format!("seq -f '{word}-%.0f' 1 20000");
    json!({ "call": { "name": "run_shell_command", "args": { "command": command } } })
}

/// Has the model read a line of a file.
fn reads(path: &str) -> Setup {
    let args = json!({ "file_path": path, "start_line": 12_345, "end_line": 12_345 });
    let read = json!({ "call": { "name": "read_file", "args": args } });
    Setup::answers(json!([[read], [{ "text": "done" }]]))
}

async fn run(node: &Node, command: &str, argument: &str) -> String {
    let body = json!({ "command": command, "args": [argument], "taskId": "c" });
    let ran = node.client.post("/executeCommand", &body).await;
    assert_eq!(ran.status, 200, "{}", ran.text());
    ran.json()["data"].as_str().unwrap_or_default().to_owned()
}

async fn send(node: &Node) {
    let task = node.client.result("message/send", in_context("c", "go")).await;
    assert_eq!(task["status"]["state"], "completed", "{task}");
}

#[tokio::test]
async fn who_goes_on_for_a_killed_node_takes_changes_back_and_reads_long_outputs() {
    let Some(home) = Home::new() else { return };
    let first = home.start("first", changes_and_prints("line")).await;
    send(&first).await;
    home.lose("first", first).await;
    let second = home.start("second", reads(&home.output())).await;
    let said = run(&second, "restore turn", "1").await;
    assert!(said.contains("`a.txt` is as it was before"), "{said}");
    assert_eq!(home.text(), "old\n");
    send(&second).await;
    let read = "select count(*) from tandem.batch where body like '%line-12345%'";
    assert_eq!(home.database.sql(read), "1");
    home.lose("second", second).await;
    // A node leaves such a file if it dies before the event that names the file is stored.
    let file = "insert into tandem.file select id, 'outputs/run_shell_command-7.txt', 0, 1, 'x' from tandem.session";
    home.database.sql(file);
    let third = home.start("third", changes_and_prints("more")).await;
    send(&third).await;
    let names = "select string_agg(split_part(name, '/', 2), ' ' order by name) from tandem.file \
                 where name like 'outputs/%'";
    let expected = [1, 7, 8].map(|n| format!("run_shell_command-{n}.txt")).join(" ");
    assert_eq!(home.database.sql(names), expected, "no name is used twice");
}

#[tokio::test]
async fn a_session_that_was_unloaded_has_its_files_when_it_is_loaded_again() {
    let Some(home) = Home::new() else { return };
    let setup = changes_and_prints("line").arg("--limit").arg("sessions=1");
    let node = home.start("first", setup).await;
    send(&node).await;
    node.client.result("message/send", in_context("other", "go")).await;
    fs::write(home.dir.path().join("workspace/a.txt"), "new\n").unwrap();
    let said = run(&node, "restore turn", "1").await;
    assert!(said.contains("`a.txt` is as it was before"), "{said}");
}

#[tokio::test]
async fn a_copy_of_a_session_has_its_own_files() {
    let Some(home) = Home::new() else { return };
    let node = home.start("first", changes_and_prints("line")).await;
    send(&node).await;
    run(&node, "chat save", "mine").await;
    let files = "select string_agg(f.name, ' ' order by f.name) from tandem.file f \
                 join tandem.session s on s.id = f.session where s.is_checkpoint = ";
    let (copy, original) = (format!("{files} true"), format!("{files} false"));
    assert_eq!(home.database.sql(&copy), home.database.sql(&original));
    let told = "select count(*) > 0 from tandem.batch b join tandem.session s on s.id = b.session \
                where s.is_checkpoint and b.body like '%/' || s.id || '/outputs/run_shell_command-1.txt%'";
    assert_eq!(home.database.sql(told), "t");
}

#[tokio::test]
async fn a_session_of_which_the_database_has_enough_goes_on_and_that_is_said_once() {
    let Some(home) = Home::new() else { return };
    let answers = json!([[changes()], [prints("a")], [prints("b")], [{ "text": "done" }]]);
    let setup = Setup::answers(answers).file("a.txt", "old\n");
    let node = home.start("first", setup.arg("--limit").arg("session-files-bytes=1000")).await;
    send(&node).await;
    let said = "select sum(cardinality(string_to_array(body, 'session-files-bytes')) - 1) from tandem.batch";
    assert_eq!(home.database.sql(said), "1");
    let names = "select string_agg(split_part(name, '/', 1), ' ') from tandem.file";
    assert_eq!(home.database.sql(names), "blobs", "what fits is there");
    // The file that is too large for the database is on this machine.
    assert!(fs::metadata(home.output()).unwrap().len() > 1000);
}

#[tokio::test]
async fn names_of_files_in_the_database_lead_nowhere_else() {
    let Some(home) = Home::new() else { return };
    let mut first = home.start("first", Setup::answers(json!([[{ "text": "done" }]]))).await;
    send(&first).await;
    first.child.kill().await.unwrap();
    let id = home.database.sql("select id from tandem.session");
    for name in ["../../workspace/a.txt", "outputs/../../../workspace/b-1.txt", "outputs/.c-1.txt"]
    {
        let row = format!("'{id}', '{name}', 0, 16, 'kept in the rows'");
        home.database.sql(&format!("insert into tandem.file values ({row})"));
    }
    let path = format!("/elsewhere/{id}/outputs/../../../workspace/b-1.txt");
    let second = home.start("second", reads(&path)).await;
    send(&second).await;
    // The text contains blanks, so that it cannot be part of a random id.
    let bad = "select count(*) from tandem.batch where body like '%kept in the rows%'";
    assert_eq!(home.database.sql(bad), "0");
    let mut names: Vec<_> = fs::read_dir(home.dir.path().join("workspace")).unwrap().collect();
    assert!(names.pop().is_none(), "{names:?}");
}
