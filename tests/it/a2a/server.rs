//! The agent with its A2A server, and the messages of clients.

use std::process::Stdio;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, ChildStderr};
use tokio::sync::oneshot;
use tokio::time::timeout;

use super::http::{Response, Sse, request};
use super::socket::Socket;
use crate::agent::{Agent, HANG, Setup};

/// The extension's URI.
pub(crate) const URI: &str =
    "https://github.com/google-gemini/gemini-cli/blob/main/docs/a2a/developer-profile/v0/spec.md";

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

/// A client of a server.
#[derive(Clone, Copy)]
pub(super) struct Client {
    pub(super) port: u16,
}

impl Client {
    /// Sends a request with the usual headers, and these.
    pub(super) async fn send(self, line: &str, headers: &[&str], body: &[u8]) -> Response {
        let host = format!("Host: 127.0.0.1:{}", self.port);
        let kind = "Content-Type: application/json";
        let headers = [&[host.as_str(), kind, "Connection: close"], headers].concat();
        request(self.port, line, &headers, body).await.whole().await
    }

    pub(super) async fn get(self, path: &str) -> Response {
        self.send(&format!("GET {path}"), &[], b"").await
    }

    pub(super) async fn post(self, path: &str, body: &Value) -> Response {
        self.send(&format!("POST {path}"), &[], body.to_string().as_bytes()).await
    }

    /// Calls a method over HTTP; returns the whole response.
    pub(super) async fn call(self, method: &str, params: Value) -> Value {
        let call = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
        let response = self.post("/", &call).await;
        assert_eq!(response.status, 200, "{}", response.text());
        response.json()
    }

    pub(super) async fn result(self, method: &str, params: Value) -> Value {
        let response = self.call(method, params).await;
        assert!(response.get("error").is_none(), "{method}: {response}");
        response["result"].clone()
    }

    /// Calls a method that fails; returns the code and the message of the error.
    pub(super) async fn error(self, method: &str, params: Value) -> (i64, String) {
        let response = self.call(method, params).await;
        let error = &response["error"];
        (error["code"].as_i64().unwrap_or_default(), error["message"].to_string())
    }

    /// Calls a method whose answer is a stream.
    pub(super) async fn stream(self, method: &str, params: Value) -> Sse {
        self.stream_with(method, params, &[]).await
    }

    pub(super) async fn stream_with(self, method: &str, params: Value, with: &[&str]) -> Sse {
        let call = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
        let host = format!("Host: 127.0.0.1:{}", self.port);
        let headers = [&[host.as_str(), "Content-Type: application/json"], with].concat();
        let call = call.to_string();
        request(self.port, "POST /", &headers, call.as_bytes()).await.events()
    }

    pub(super) async fn socket(self) -> Socket {
        self.socket_at("/ws").await
    }

    pub(super) async fn socket_at(self, path: &str) -> Socket {
        Socket::open(self.port, path, &[]).await.unwrap()
    }
}

/// Returns a message with this text.
pub(super) fn prompt(text: &str) -> Value {
    parts(json!([{ "kind": "text", "text": text }]))
}

pub(super) fn parts(parts: Value) -> Value {
    json!({ "message": {
        "kind": "message", "messageId": uuid::Uuid::new_v4().to_string(), "role": "user",
        "parts": parts,
    } })
}

/// Returns a message in a task.
pub(super) fn within(task: &Value, mut params: Value) -> Value {
    params["message"]["taskId"] = task.clone();
    params
}

/// Returns a message that answers a question.
pub(super) fn answer(call: &Value, option: &str) -> Value {
    parts(json!([{ "kind": "data", "data": {
        "tool_call_id": call, "selected_option_id": option,
    } }]))
}

/// Returns a message whose session works in this directory.
pub(super) fn works_in(path: &std::path::Path, mut params: Value) -> Value {
    params["message"]["metadata"] = json!({ URI: { "workspace_path": path } });
    params
}

/// Returns the first part of an event's message.
pub(super) fn first_part(event: &Value) -> &Value {
    &event["status"]["message"]["parts"][0]
}

/// Returns the tool call that an event or a task is about.
pub(super) fn tool_call(event: &Value) -> &Value {
    let parts = event["status"]["message"]["parts"].as_array();
    let data = parts.into_iter().flatten().find_map(|part| part.get("data"));
    data.unwrap_or(&Value::Null)
}

/// Returns the kind of an event.
pub(super) fn kind(event: &Value) -> &str {
    event["metadata"][URI]["kind"].as_str().unwrap_or_default()
}

/// Returns whether an event asks a question.
pub(super) fn asks(event: &Value) -> bool {
    kind(event) == "TOOL_CALL_UPDATE" && tool_call(event)["confirmation_request"].is_object()
}

/// Returns whether an event ends a turn.
pub(super) fn ends(event: &Value) -> bool {
    let state = event["status"]["state"].as_str().unwrap_or_default();
    event["final"] == true && matches!(state, "completed" | "failed" | "canceled")
}

/// Returns the text of the model in these events.
pub(super) fn text(events: &[Value]) -> String {
    let said = events.iter().filter(|event| {
        kind(event) == "TEXT_CONTENT" && event["status"]["message"]["role"] != "user"
    });
    said.filter_map(|event| first_part(event)["text"].as_str()).collect()
}

/// Returns the statuses of calls, in order, without repetitions.
pub(super) fn statuses(events: &[Value]) -> Vec<&str> {
    let mut all: Vec<_> = events.iter().filter_map(|it| tool_call(it)["status"].as_str()).collect();
    all.dedup();
    all
}

/// Returns the states of the task, in order, without repetitions.
pub(super) fn states(events: &[Value]) -> Vec<&str> {
    let mut all: Vec<_> = events.iter().filter_map(|it| it["status"]["state"].as_str()).collect();
    all.dedup();
    all
}

/// Returns a step of a script that writes a file after a question.
pub(super) fn write(file: &str, content: &str) -> Value {
    let args = json!({ "file_path": file, "content": content });
    json!({ "call": { "name": "write_file", "args": args } })
}
