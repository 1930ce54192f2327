//! `curl`, as a client over TLS and HTTP/2.

use std::process::Stdio;

use futures::stream;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};
use tokio::time::timeout;

use super::http::until;
use crate::agent::HANG;

/// Certificate of the authority that has signed `first.pem` and `second.pem` beside it.
pub(super) const AUTHORITY: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/tls/authority.pem");

/// A client of a server at this URL.
#[derive(Clone)]
pub(super) struct Curl {
    url: String,
    args: Vec<String>,
}

/// Status of a response, version of HTTP and body.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Answer {
    pub(super) status: String,
    pub(super) version: String,
    pub(super) body: String,
}

impl Curl {
    /// Returns a client of a URL without a slash at its end.
    pub(super) fn new(url: &str) -> Self {
        let args = ["-q", "-sS", "-N", "--noproxy", "*", "--cacert", AUTHORITY];
        Self { url: url.to_owned(), args: args.map(ToOwned::to_owned).to_vec() }
    }

    /// Returns the client with more arguments.
    pub(super) fn with(&self, args: &[&str]) -> Self {
        let more = args.iter().map(|&arg| arg.to_owned());
        Self { url: self.url.clone(), args: self.args.iter().cloned().chain(more).collect() }
    }

    /// Returns the client with another header.
    pub(super) fn header(&self, header: &str) -> Self {
        self.with(&["-H", header])
    }

    fn command(&self, path: &str) -> Command {
        let mut command = Command::new("curl");
        command.args(&self.args).arg(format!("{}{path}", self.url));
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true);
        command
    }

    /// Sends a `GET`. Without a response, the error is the message of curl.
    pub(super) async fn get(&self, path: &str) -> Result<Answer, String> {
        let curl = self.with(&["-w", "\n%{http_code} %{http_version}"]);
        let child = curl.command(path).stderr(Stdio::piped()).spawn().unwrap();
        let output = timeout(HANG, child.wait_with_output()).await.expect("no response").unwrap();
        if !output.status.success() {
            return Err(String::from_utf8(output.stderr).unwrap());
        }
        let text = String::from_utf8(output.stdout).unwrap();
        let (body, last) = text.rsplit_once('\n').unwrap();
        let (status, version) = last.split_once(' ').unwrap();
        let [status, version, body] = [status, version, body].map(ToOwned::to_owned);
        Ok(Answer { status, version, body })
    }

    /// Calls a method, whose answer may be a stream.
    pub(super) async fn call(&self, method: &str, params: Value) -> Events {
        let call = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
        let json = ["-H", "Content-Type: application/json", "--data-binary", "@-"];
        let mut child = self.with(&json).command("/").spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        stdin.write_all(call.to_string().as_bytes()).await.unwrap();
        drop(stdin);
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Events { lines, _child: child }
    }

    /// Calls a method, and returns the result.
    pub(super) async fn result(&self, method: &str, params: Value) -> Value {
        self.call(method, params).await.next().await.expect("no response")
    }
}

/// Results of a call as they come.
pub(super) struct Events {
    lines: Lines<BufReader<ChildStdout>>,
    _child: Child,
}

impl Events {
    /// Returns the next result; `None` at the end.
    pub(super) async fn next(&mut self) -> Option<Value> {
        loop {
            let line = timeout(HANG, self.lines.next_line()).await.expect("the server is silent");
            let line = line.unwrap()?;
            let data = line.strip_prefix("data: ").unwrap_or(&line);
            if data.starts_with('{') {
                let response: Value = serde_json::from_str(data).unwrap();
                assert!(response.get("result").is_some(), "{response}");
                return Some(response["result"].clone());
            }
            let is_blank = data.is_empty() || data.starts_with(':') || line.starts_with("id: ");
            assert!(is_blank, "{line}");
        }
    }

    /// Reads results until one fits; returns it, and all results before it.
    pub(super) async fn until(&mut self, found: impl Fn(&Value) -> bool) -> Vec<Value> {
        let events = stream::unfold(self, |it| async move { Some((it.next().await?, it)) });
        until(events, found).await
    }
}
