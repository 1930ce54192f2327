//! Stores that refuse events, as clients of a server see them.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Resource, Rlimit, getrlimit, prlimit};
use serde_json::{Value, json};
use tempfile::TempDir;
use test_fakes::postgres::Cluster;
use tokio::time::timeout;

use super::nodes::{Node, in_context};
use super::server::{Client, Said, Shared, prompt, serve, shared};
use crate::agent::{HANG, Setup};

/// Time for which a session waits for a store that refuses.
const REFUSAL_TIME: Duration = Duration::from_secs(2);

/// Returns a set-up in which each session runs a command, and waits [`REFUSAL_TIME`] for a store that refuses.
fn setup() -> Setup {
    let run = json!({ "name": "run_shell_command", "args": { "command": "echo ran >> effects" } });
    let setup = Setup::answers(json!([[{ "call": run }], [{ "text": "done" }]]));
    let limit = format!("store-refusal-seconds={}", REFUSAL_TIME.as_secs());
    let setup = setup.arg("--limit").arg(&limit).var("TANDEM_LOG", "warn");
    setup.without_sandbox()
}

/// Returns a message with an id, in a context.
fn message(context: &str, id: &str) -> Value {
    let mut sent = in_context(context, "go");
    sent["message"]["messageId"] = json!(id);
    sent
}

/// Returns how often the command has run.
fn effects(home: &Path) -> usize {
    let ran = fs::read_to_string(home.join("workspace/effects"));
    ran.map_or(0, |ran| ran.lines().count())
}

/// Sends a message that the server cannot store. Checks that the client is told to try again, and that the server is
/// not ready.
async fn send_in_vain(client: Client, sent: Value) {
    let (code, why) = timeout(HANG, client.error("message/send", sent)).await.unwrap();
    assert_eq!(
        (code, &*why),
        (-32030, "\"the server cannot save the session now; try again in 5 s\"")
    );
    let ready = client.get("/readyz").await;
    assert_eq!((ready.status, &*ready.text()), (503, "sessions cannot be saved now\n"));
}

/// Sends a message until the server has stored the message, and checks that its task is completed. The server may refuse
/// the message only after it has tried to store for 2 s, which is too short on a slow machine.
async fn check_completed(client: Client, sent: Value) {
    let answered = async {
        loop {
            let begun = Instant::now();
            let answer = client.call("message/send", sent.clone()).await;
            if answer["error"]["code"] != -32030 {
                return answer;
            }
            assert!(begun.elapsed() >= REFUSAL_TIME, "refused untried: {answer}");
        }
    };
    let answer = timeout(HANG, answered).await.unwrap();
    assert_eq!(answer["result"]["status"]["state"], "completed", "{answer}");
    assert_eq!(client.get("/readyz").await.status, 200);
}

fn check_said(said: &Said) {
    let said = said.lock().unwrap();
    assert!(said.contains("a session ends, as it could not be saved for 2 s"), "{said}");
}

/// Errors of a database, of each class that a server may meet.
const SQL_STATES: [&str; 12] = [
    "22P05", "23514", "25006", "40001", "42501", "53100", "54000", "55P03", "57014", "58030",
    "XX000", "P0001",
];

#[tokio::test]
async fn whatever_a_database_says_nothing_is_acknowledged_and_nothing_runs_before_it_is_stored() {
    let Some(cluster) = Cluster::shared() else { return };
    let (database, home) = (cluster.database(), TempDir::new().unwrap());
    let node = Node::start(&setup(), home.path(), &database).await;
    database.sql(
        "create function refuse() returns trigger language plpgsql as $$ begin \
         raise exception using errcode = TG_ARGV[0]; end $$",
    );
    for (n, code) in SQL_STATES.into_iter().enumerate() {
        let sent = message(code, "m");
        database.sql(&format!(
            "create trigger refuse before insert on tandem.batch for each row execute function refuse('{code}')"
        ));
        send_in_vain(node.client, sent.clone()).await;
        assert_eq!(effects(home.path()), n, "{code}");
        database.sql("drop trigger refuse on tandem.batch");
        // The store takes events again, so the same message is carried out. A third time, it has no effect.
        check_completed(node.client, sent.clone()).await;
        check_completed(node.client, sent).await;
        assert_eq!(effects(home.path()), n + 1, "{code}");
    }
    check_said(&node.said);
}

#[tokio::test]
async fn a_message_that_begins_with_a_nul_character_is_stored_in_a_database() {
    let Some(cluster) = Cluster::shared() else { return };
    let (database, home) = (cluster.database(), TempDir::new().unwrap());
    let node = Node::start(&setup(), home.path(), &database).await;
    let mut sent = message("c", "m");
    sent["message"]["parts"][0]["text"] = json!("\0go");
    check_completed(node.client, sent).await;
    assert_eq!(database.sql("select title from tandem.session"), "go");
}

/// Sets the size in bytes that files of a process may reach; `None`: any.
fn limit_files(pid: Option<u32>, bytes: Option<u64>) {
    let pid = pid.and_then(|pid| Pid::from_raw(pid.try_into().unwrap()));
    let limit = Rlimit { current: bytes, ..getrlimit(Resource::Fsize) };
    prlimit(pid, Resource::Fsize, limit).unwrap();
}

#[tokio::test]
async fn on_a_full_disk_nothing_is_acknowledged_and_after_a_kill_a_message_takes_effect_once() {
    let setup = setup().arg("-y");
    let served = serve(&setup).await;
    check_completed(served.client, message("c", "first")).await;
    limit_files(served.child.id(), Some(0));
    send_in_vain(served.client, message("c", "second")).await;
    send_in_vain(served.client, message("new", "first")).await;
    assert_eq!(effects(served.home.path()), 1);
    check_said(&served.said);

    let served = served.killed(&setup).await;
    for _ in 0..2 {
        check_completed(served.client, message("c", "second")).await;
        check_completed(served.client, message("new", "first")).await;
    }
    assert_eq!(effects(served.home.path()), 3);
}

#[tokio::test]
async fn an_editor_goes_on_when_its_session_cannot_be_saved_and_clients_are_told_to_try_again() {
    let setup = Setup::answers(json!([[{ "text": "done" }]]));
    let Shared { client, mut editor, .. } = shared(&setup).await;
    limit_files(editor.child.id(), Some(0));
    let id = editor.prompt("first").await;
    let told = editor.until_answered(id, "result").await;
    assert_eq!(crate::agent::text(&told), "done", "{told:?}");
    let (code, why) = client.error("message/send", prompt("second")).await;
    assert_eq!(code, -32030, "{why}");
    let id = editor.prompt("second").await;
    let told = editor.until_answered(id, "result").await;
    assert_eq!(crate::agent::text(&told), "done", "{told:?}");
}
