//! Work that reads, writes or compares files: it runs off the runtime's thread, and nothing overtakes it.

use std::sync::mpsc::{self, Sender};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Value, json};
use tandem_agent::session::{Access, FileDiff, ResultContent, ToolOutput};
use tandem_host::ToolKind;
use test_fakes::{Fake, session};
use test_served::{Server, shared};
use test_support::a2a::{Client, parts, prompt};
use test_support::limit::HANG;
use tokio::runtime::Builder;
use tokio::task::spawn_blocking;
use tokio::time::timeout;

/// Runs a test on a runtime that has one thread for work that blocks.
fn run(test: impl Future<Output = ()>) {
    let runtime = Builder::new_current_thread().enable_all().max_blocking_threads(1).build();
    runtime.unwrap().block_on(async { timeout(HANG, test).await.expect("it hangs") });
}

/// Keeps the thread for work that blocks busy until the sender is dropped.
fn occupy() -> Sender<()> {
    let (free, wait) = mpsc::channel();
    spawn_blocking(move || wait.recv());
    free
}

/// Starts a server of one session, whose model changes a file.
async fn changes() -> Server {
    let diff = FileDiff::new("/x/a.txt", None, "new\n");
    let tool = Fake::new("t", ToolKind::Read, Access::Read).running(move |_| {
        let shown = Some(ResultContent::Diff(Box::new(diff.clone())));
        async { Ok(ToolOutput { shown, ..ToolOutput::new("ran", "ran") }) }
    });
    let answers = json!([[{ "call": { "name": "t" } }], [{ "text": "done" }]]);
    Server::of(shared(session(answers, vec![tool]))).await
}

fn client(server: &Server) -> Client {
    Client { port: server.port }
}

/// Waits for the answer to another request: until then, nothing has come of work that waits for its thread.
async fn other_answer(client: Client, work: impl Future<Output = Value>) {
    tokio::select! {
        biased;
        told = work => panic!("the runtime's thread has done it: {told}"),
        (code, _) = client.error("tasks/get", json!({ "id": "?" })) => assert_eq!(code, -32001),
    }
}

/// Returns the ids of artifacts.
fn artifact_ids<'a>(artifacts: impl IntoIterator<Item = &'a Value>) -> Vec<&'a str> {
    artifacts.into_iter().map(|it| it["artifactId"].as_str().unwrap()).collect()
}

#[test]
fn a_task_is_told_when_the_files_that_it_has_changed_have_been_compared() {
    run(async {
        let server = changes().await;
        let client = client(&server);
        let task = client.result("message/send", prompt("go")).await;
        let free = occupy();
        let mut got = Box::pin(client.result("tasks/get", json!({ "id": task["id"] })));
        other_answer(client, &mut got).await;
        drop(free);
        let got = got.await;
        let ids = artifact_ids(got["artifacts"].as_array().unwrap());
        assert_eq!(ids, ["response", "file:/x/a.txt"]);
    });
}

#[test]
fn a_stream_has_its_files_in_their_order_when_they_have_been_compared() {
    run(async {
        let server = changes().await;
        let client = client(&server);
        let message = prompt("go");
        client.result("message/send", message.clone()).await;
        let free = occupy();
        // A message of the same id joins the running turn, as the first stream of version 1.
        let mut stream = client.stream("SendStreamingMessage", message).await;
        let is_said = |event: &Value| {
            event["statusUpdate"]["status"]["message"]["parts"][0]["text"] == "done"
        };
        stream.until(is_said).await;
        other_answer(client, Box::pin(async { stream.next().await.unwrap_or_default() })).await;
        drop(free);
        let rest = stream.rest().await;
        let artifacts = rest.iter().filter_map(|event| event["artifactUpdate"].get("artifact"));
        assert_eq!(artifact_ids(artifacts), ["file:/x/a.txt", "response"]);
        let last = &rest.last().unwrap()["statusUpdate"]["status"]["state"];
        assert_eq!(last, "TASK_STATE_COMPLETED");
    });
}

#[test]
fn a_message_begins_when_its_file_is_there_and_the_next_one_begins_after_it() {
    run(async {
        let server = Server::of(shared(session(json!([[{ "text": "hi" }]]), Vec::new()))).await;
        let client = client(&server);
        let task = client.result("message/send", prompt("go")).await;
        let (words, bytes) = (json!({ "text": "first" }), BASE64_STANDARD.encode([0, 1, 2]));
        let file = json!({ "kind": "file", "file": { "name": "a.bin", "bytes": bytes } });
        let mut first = parts(json!([words, file]));
        first["configuration"] = json!({ "blocking": false });
        let mut socket = client.socket().await;
        let free = occupy();
        socket.send("first", "message/send", first).await;
        socket.send("second", "message/send", prompt("second")).await;
        socket.send("other", "tasks/get", json!({ "id": "?" })).await;
        let frames = socket.until(|frame| frame["id"] == "other").await;
        assert_eq!(frames.len(), 1, "the runtime's thread has done it: {frames:?}");
        drop(free);
        socket.until(|frame| frame["id"] == "second").await;
        let got = client.result("tasks/get", json!({ "id": task["id"] })).await;
        let history = got["history"].as_array().unwrap().iter();
        let said = history.filter(|message| message["role"] == "user");
        let said: Vec<_> = said.map(|message| message["parts"][0]["text"].clone()).collect();
        assert_eq!(said, ["go", "first[file `a.bin`, 3 bytes]", "second"]);
    });
}
