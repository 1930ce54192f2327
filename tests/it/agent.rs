//! The real binary over real pipes, and the editor at the other end.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;

use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::time::timeout;

pub(crate) use crate::limit::HANG;

/// Arguments, environment, script and files of an agent.
#[derive(Default, Clone)]
pub(crate) struct Setup {
    pub(crate) args: Vec<String>,
    /// Environment variables.
    pub(crate) vars: Vec<(String, String)>,
    /// The lines of the replay script.
    pub(crate) script: Vec<Value>,
    /// Files of the workspace. A name that ends in `/` is a directory.
    pub(crate) files: BTreeMap<String, String>,
    /// The program, if it is not the program that was just built.
    pub(crate) program: Option<PathBuf>,
}

impl Setup {
    /// Returns a setup with a script of one line, which is used for every prompt.
    pub(crate) fn answers(answers: Value) -> Self {
        Self::script(vec![json!({ "when": "", "answers": answers })])
    }

    pub(crate) fn script(script: Vec<Value>) -> Self {
        Self { script, ..Self::default() }
    }

    pub(crate) fn arg(mut self, arg: &str) -> Self {
        self.args.push(arg.to_owned());
        self
    }

    pub(crate) fn var(mut self, name: &str, value: &str) -> Self {
        self.vars.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Returns the setup without a sandbox for commands, for tests about questions before commands: with a sandbox,
    /// few questions are asked. All other tests run with the defaults.
    pub(crate) fn without_sandbox(self) -> Self {
        self.arg("--sandbox").arg("danger-full-access")
    }

    pub(crate) fn file(mut self, name: &str, content: &str) -> Self {
        self.files.insert(name.to_owned(), content.to_owned());
        self
    }

    /// Returns the command, with a home and workspace of its own, and without the key variables of the person who
    /// runs the tests.
    pub(crate) fn command(&self, home: &Path) -> Command {
        let workspace = home.join("workspace");
        fs::create_dir_all(&workspace).unwrap();
        for (name, content) in &self.files {
            let path = workspace.join(name);
            if name.ends_with('/') {
                fs::create_dir_all(path).unwrap();
                continue;
            }
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        }
        let script: String = self.script.iter().map(|line| format!("{line}\n")).collect();
        let path = home.join("script.jsonl");
        // Another node that was started with the same script may be reading the file, which a write would truncate.
        if fs::read_to_string(&path).ok().as_ref() != Some(&script) {
            fs::write(&path, script).unwrap();
        }
        let built = Path::new(env!("CARGO_BIN_EXE_tandem"));
        let mut command = Command::new(self.program.as_deref().unwrap_or(built));
        command
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", home)
            .env("TANDEM_LOG", "off")
            // Programs on the machine of the person who runs the tests are not asked for models.
            .env("TANDEM_LOCAL_SERVERS", "")
            .envs(self.vars.iter().map(|(name, value)| (name, value)))
            .current_dir(workspace)
            .args(&self.args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true);
        let has = |name: &str| self.args.iter().any(|arg| arg == name);
        if !has("--model") && !has("-m") {
            command.arg("--model").arg(format!("replay:{}", home.join("script.jsonl").display()));
        }
        if has("--acp")
            && !has("--record")
            && let Some(record) = record()
        {
            command.arg("--record").arg(record);
        }
        command
    }

    /// Runs the program to its end, without standard input.
    pub(crate) async fn run(&self) -> Ran {
        let home = TempDir::new().unwrap();
        let mut command = self.command(home.path());
        let child = command.stdin(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let output = timeout(HANG, child.wait_with_output()).await.expect("it does not end");
        let output = output.unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        let (stdout, stderr) = (text(output.stdout), text(output.stderr));
        Ran { stdout, stderr, code: output.status.code(), home }
    }

    pub(crate) fn start(&self) -> Agent {
        self.start_with(|command| command)
    }

    /// Starts the program with the command that `change` returns.
    pub(crate) fn start_with(&self, change: impl Fn(&mut Command) -> &mut Command) -> Agent {
        let home = TempDir::new().unwrap();
        let child = change(&mut self.command(home.path())).spawn().unwrap();
        Agent::of(child, home)
    }
}

/// Returns the file where an agent records its messages and those of its editor, if `$TANDEM_RECORDS` names a
/// directory for records. The file has the name of the test. `tests/interop/run schema` validates the files.
fn record() -> Option<PathBuf> {
    static RECORDS: AtomicU32 = AtomicU32::new(0);
    let directory = std::env::var_os("TANDEM_RECORDS")?;
    let number = RECORDS.fetch_add(1, Ordering::Relaxed);
    let test = thread::current().name().unwrap_or_default().replace("::", ".");
    Some(Path::new(&directory).join(format!("{test}-{number}.jsonl")))
}

/// Output and exit code of a run.
pub(crate) struct Ran {
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    pub(crate) code: Option<i32>,
    pub(crate) home: TempDir,
}

/// The agent, from the side of its editor.
pub(crate) struct Agent {
    pub(crate) child: Child,
    pub(crate) stdin: Option<ChildStdin>,
    pub(crate) lines: Lines<BufReader<ChildStdout>>,
    home: TempDir,
    next_id: u64,
    next_call: u64,
}

impl Agent {
    /// Returns the editor of an agent that was started in this home.
    pub(crate) fn of(mut child: Child, home: TempDir) -> Self {
        let stdin = child.stdin.take();
        let stdout = child.stdout.take().unwrap();
        let lines = BufReader::new(stdout).lines();
        Self { child, stdin, lines, home, next_id: 0, next_call: 0 }
    }

    /// Kills the agent, and starts another agent in its home.
    pub(crate) async fn killed_and_started_again(mut self, setup: &Setup) -> Self {
        self.child.kill().await.unwrap();
        let child = setup.command(self.home.path()).spawn().unwrap();
        Self::of(child, self.home)
    }

    pub(crate) fn workspace(&self) -> std::path::PathBuf {
        fs::canonicalize(self.home.path().join("workspace")).unwrap()
    }

    pub(crate) async fn send_bytes(&mut self, bytes: &[u8]) {
        self.stdin.as_mut().unwrap().write_all(bytes).await.unwrap();
    }

    pub(crate) async fn send_line(&mut self, line: &str) {
        self.send_bytes(format!("{line}\n").as_bytes()).await;
    }

    /// Sends a request; its id.
    pub(crate) async fn request(&mut self, method: &str, params: Value) -> u64 {
        let id = self.next_id;
        self.next_id += 1;
        let mut request = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
        if params.is_null() {
            request.as_object_mut().unwrap().remove("params");
        }
        self.send_line(&request.to_string()).await;
        id
    }

    pub(crate) async fn prompt(&mut self, text: &str) -> u64 {
        self.request("sendUserMessage", json!({ "chunks": [{ "text": text }] })).await
    }

    /// Reads the next line; `None` at the end.
    pub(crate) async fn line(&mut self) -> Option<String> {
        timeout(HANG, self.lines.next_line()).await.expect("the agent is silent").unwrap()
    }

    pub(crate) async fn message(&mut self) -> Value {
        let line = self.line().await.expect("the agent has gone");
        serde_json::from_str(&line).unwrap_or_else(|err| panic!("{err}: {line}"))
    }

    /// Answers a request of the agent.
    pub(crate) async fn answer(&mut self, request: &Value, result: Value) {
        let answer = json!({ "jsonrpc": "2.0", "id": request["id"], "result": result });
        self.send_line(&answer.to_string()).await;
    }

    /// Reads until the request `id` is answered, and answers as a friendly editor would: calls
    /// get ids, questions get `outcome`. All that was read, the answer last.
    pub(crate) async fn until_answered(&mut self, id: u64, outcome: &str) -> Vec<Value> {
        let mut read = Vec::new();
        loop {
            let message = self.message().await;
            read.push(message.clone());
            match message["method"].as_str() {
                None if message["id"] == id => return read,
                None => {}
                Some("pushToolCall" | "requestToolCallConfirmation") => {
                    self.next_call += 1;
                    let id = self.next_call;
                    let mut result = json!({ "id": id });
                    if message["method"] == "requestToolCallConfirmation" {
                        result["outcome"] = outcome.into();
                    }
                    self.answer(&message, result).await;
                }
                Some(_) => self.answer(&message, Value::Null).await,
            }
        }
    }

    /// Reads on until the agent calls `method`.
    pub(crate) async fn call_of(&mut self, method: &str) -> Value {
        loop {
            let message = self.message().await;
            if message["method"] == method {
                return message;
            }
        }
    }

    /// Reads on until the request `id` is answered.
    pub(crate) async fn answer_to(&mut self, id: impl Into<Value>) -> Value {
        let id = id.into();
        loop {
            let message = self.message().await;
            if message["id"] == id && message.get("method").is_none() {
                return message;
            }
        }
    }

    /// Closes standard input and reads the remaining output.
    pub(crate) async fn hang_up(&mut self) -> (Vec<String>, ExitStatus) {
        drop(self.stdin.take());
        let mut rest = Vec::new();
        while let Some(line) = self.line().await {
            rest.push(line);
        }
        (rest, self.exit().await)
    }

    pub(crate) async fn exit(&mut self) -> ExitStatus {
        timeout(HANG, self.child.wait()).await.expect("the agent does not exit").unwrap()
    }
}

/// Returns a text of this many bytes that a model can say. It is indented, so it counts as code, and it does not
/// repeat itself.
pub(crate) fn code(bytes: usize) -> String {
    (0..)
        .flat_map(|n: usize| format!("{n:>7}\n").into_bytes())
        .map(char::from)
        .take(bytes)
        .collect()
}

/// Returns all text of the chunks in these messages.
pub(crate) fn text(messages: &[Value]) -> String {
    let chunk = |message: &Value| {
        let chunk = &message["params"]["chunk"];
        chunk["text"].as_str().map(ToOwned::to_owned)
    };
    messages.iter().filter_map(chunk).collect()
}
