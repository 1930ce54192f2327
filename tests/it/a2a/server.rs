//! The agent with its A2A server, and the messages of clients.

use std::process::Stdio;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use tempfile::TempDir;
pub(super) use test_support::a2a::*;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, ChildStderr};
use tokio::sync::oneshot;
use tokio::time::timeout;

use crate::agent::{Agent, HANG, Setup};

/// Standard error so far.
pub(super) type Said = Arc<Mutex<String>>;

/// `tandem serve`.
pub(super) struct Served {
    pub(super) client: Client,
    pub(super) child: Child,
    pub(super) said: Said,
    pub(super) home: TempDir,
}

/// `tandem --acp --a2a-port 0`: an editor, and others.
pub(super) struct Shared {
    pub(super) client: Client,
    pub(super) editor: Agent,
    pub(super) said: Said,
}

/// Starts a server of sessions. More arguments come from the setup.
pub(super) async fn serve(setup: &Setup) -> Served {
    serve_at(setup, TempDir::new().unwrap()).await
}

async fn serve_at(setup: &Setup, home: TempDir) -> Served {
    let mut setup = setup.clone();
    let listens = setup.args.iter().any(|arg| arg == "--listen");
    let port = (!listens).then_some(["--port", "0"]);
    let args = ["serve"].into_iter().chain(port.into_iter().flatten());
    setup.args.splice(0..0, args.map(ToOwned::to_owned));
    let mut child = setup.command(home.path()).stderr(Stdio::piped()).spawn().unwrap();
    let (port, said) = listen(child.stderr.take().unwrap()).await;
    Served { client: Client { port }, child, said, home }
}

impl Served {
    /// Kills the server, and starts another in its place.
    pub(super) async fn killed(mut self, setup: &Setup) -> Self {
        self.child.kill().await.unwrap();
        serve_at(setup, self.home).await
    }
}

/// Starts an agent for an editor that has begun to watch.
pub(super) async fn shared(setup: &Setup) -> Shared {
    shared_with(setup, json!({ "protocolVersion": "0.0.9" })).await
}

/// Starts a shared session as [`shared`] does, with these parameters of the editor's `initialize`.
pub(super) async fn shared_with(setup: &Setup, initialize: Value) -> Shared {
    let home = TempDir::new().unwrap();
    let setup = setup.clone().arg("--acp").arg("--a2a-port").arg("0");
    let mut child = setup.command(home.path()).stderr(Stdio::piped()).spawn().unwrap();
    let (port, said) = listen(child.stderr.take().unwrap()).await;
    let mut editor = Agent::of(child, home);
    let id = editor.request("initialize", initialize).await;
    editor.answer_to(id).await;
    Shared { client: Client { port }, editor, said }
}

/// Reads the port from the first line of standard error. The rest is recorded.
pub(super) async fn listen(stderr: ChildStderr) -> (u16, Said) {
    let said = Said::default();
    let kept = Arc::clone(&said);
    let (found, port) = oneshot::channel();
    tokio::spawn(async move {
        let mut found = Some(found);
        let mut lines = BufReader::new(stderr).lines();
        while let Ok(Some(line)) = lines.next_line().await {
            let url = line.strip_prefix("tandem: A2A at ").and_then(|url| url.strip_suffix('/'));
            if let Some(port) = url.and_then(|url| url.rsplit_once(':')?.1.parse().ok())
                && let Some(found) = found.take()
            {
                let _ = found.send(port);
            }
            kept.lock().unwrap().push_str(&(line + "\n"));
        }
    });
    (timeout(HANG, port).await.expect("no port is said").expect("it has ended"), said)
}

/// Returns a step of a script that writes a file after a question.
pub(super) fn write(file: &str, content: &str) -> Value {
    let args = json!({ "file_path": file, "content": content });
    json!({ "call": { "name": "write_file", "args": args } })
}
