//! `tandem replay`: replays a record of a conversation. Sends the client's lines to an agent, and compares the lines
//! of the agent with the recorded lines.

mod conversation;

use std::collections::HashMap;
use std::fs;
use std::io::{Write as _, stderr, stdout};
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use anyhow::Context as _;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::time::timeout;

use self::conversation::Conversation;
use super::ending::ExitReason;
use crate::cli::ReplayArgs;
use crate::logging::is_coloured;
use crate::record::{self, Record, RecordSetup, RecordedStep};
use tandem_content::visible::visible_line;
use tandem_wire::rpc::LineDirection;

/// Path of the workspace in records with a setup.
const EXAMPLE_WORKSPACE: &str = "/workspace";

/// Placeholder for the script in an agent's arguments.
const SCRIPT_PLACEHOLDER: &str = "{script}";

/// Replays a record against an agent. Writes the first difference to standard error.
pub(crate) async fn replay(replay: &ReplayArgs) -> anyhow::Result<ExitReason> {
    let record = record::read(&replay.file)?;
    let mut player = Player::start(&record, replay)?;
    let outcome = player.play(&record.steps).await?;
    player.shown.end();
    let file = replay.file.display();
    let Err(Difference { line, expected, got }) = outcome else {
        // If standard output is closed, the exit code still tells the outcome.
        let _ = writeln!(stdout(), "{file}: as recorded");
        if replay.show {
            let next = record.setup.iter().flat_map(|setup| &setup.next);
            next.for_each(|line| drop(writeln!(stdout(), "{}", visible_line(line))));
        }
        return Ok(ExitReason::Done);
    };
    let line = line.map_or(String::new(), |line| format!("{line}:"));
    let (expected, got) = (visible_line(&expected), visible_line(&got));
    let told = format!("{file}:{line} not as recorded\n  expected {expected}\n  got      {got}");
    let _ = writeln!(stderr(), "{told}");
    Ok(ExitReason::Failed(1))
}

/// The first place where the agent's output differs from the record.
struct Difference {
    /// Number of the line in the record; `None` after the last line.
    line: Option<usize>,
    expected: String,
    got: String,
}

/// Result of waiting for a line of the agent.
enum Received {
    Line(String),
    /// The agent has closed its output.
    End,
    /// No line came in time.
    Nothing,
}

/// Form in which the conversation is shown.
enum ReplayOutput {
    Nothing,
    /// As text for people.
    Conversation(Box<Conversation>),
    /// The lines of both sides, unchanged.
    Wire,
}

impl ReplayOutput {
    fn new(replay: &ReplayArgs) -> Self {
        if replay.show {
            Self::Conversation(Box::new(Conversation::new(is_coloured(&stdout()))))
        } else if replay.wire {
            Self::Wire
        } else {
            Self::Nothing
        }
    }

    fn line(&mut self, direction: LineDirection, line: &str) {
        let text = match (&mut *self, direction) {
            (Self::Nothing, _) => return,
            (Self::Conversation(conversation), _) => conversation.read(direction, line),
            (Self::Wire, LineDirection::In) => format!("> {}\n", visible_line(line)),
            (Self::Wire, LineDirection::Out) => format!("< {}\n", visible_line(line)),
        };
        print(&text);
    }

    fn end(&mut self) {
        if let Self::Conversation(conversation) = self {
            print(&conversation.end());
        }
    }
}

/// Prints text at once, without waiting for the end of a line: a model's answer arrives in pieces of a line.
fn print(text: &str) {
    let mut stdout = stdout().lock();
    // If standard output is closed, the exit code still tells the outcome.
    let _ = stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush());
}

/// The client's side of the replay.
struct Player {
    agent: Child,
    /// Standard input of the agent; `None` after the client has hung up.
    stdin: Option<ChildStdin>,
    lines: Lines<BufReader<ChildStdout>>,
    /// The directory that was made for the agent. It is removed together with the player.
    home: Option<TempDir>,
    /// The ids that the agent gave its requests, by the ids of these requests in the record.
    ids: HashMap<String, Value>,
    /// Maximum time for each line of the agent.
    patience: Duration,
    shown: ReplayOutput,
}

impl Player {
    fn start(record: &Record, replay: &ReplayArgs) -> anyhow::Result<Self> {
        let home = record.setup.as_ref().map(make_home).transpose()?;
        let mut command = match &replay.agent[..] {
            [program, args @ ..] => {
                let mut command = Command::new(program);
                let script = home.as_ref().map(|home| script(home.path()).display().to_string());
                command.args(args.iter().map(|arg| match &script {
                    Some(script) => arg.replace(SCRIPT_PLACEHOLDER, script),
                    None => arg.clone(),
                }));
                command
            }
            [] => self_as_agent(record.setup.as_ref(), home.as_ref().map(TempDir::path))?,
        };
        if let Some(home) = &home {
            command.current_dir(workspace(home.path()));
        }
        // A replayed conversation is not the user's, so the agent must not store it.
        command.env("TANDEM_SESSIONS", "");
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true);
        let mut agent = command.spawn().context("the agent cannot be started")?;
        let stdin = agent.stdin.take();
        let stdout = agent.stdout.take().context("the agent has no standard output")?;
        Ok(Self {
            agent,
            stdin,
            lines: BufReader::new(stdout).lines(),
            home,
            ids: HashMap::new(),
            patience: replay.timeout,
            shown: ReplayOutput::new(replay),
        })
    }

    async fn play(
        &mut self,
        steps: &[(usize, RecordedStep)],
    ) -> anyhow::Result<Result<(), Difference>> {
        for (line, step) in steps {
            match step {
                RecordedStep::Client(text) => {
                    if let Err(got) = self.send(text).await {
                        let expected = "an agent that reads the client's line".to_owned();
                        return Ok(Err(Difference { line: Some(*line), expected, got }));
                    }
                }
                RecordedStep::Agent(expected) => {
                    let received = self.receive_but_progress(expected).await?;
                    if let Received::Line(got) = &received
                        && self.is_expected(expected, got)
                    {
                        continue;
                    }
                    let (expected, got) = (expected.clone(), self.described(received));
                    return Ok(Err(Difference { line: Some(*line), expected, got }));
                }
                RecordedStep::End => drop(self.stdin.take()),
            }
        }
        self.end().await
    }

    /// Hangs up, and checks that the agent then writes nothing more and exits with success.
    async fn end(&mut self) -> anyhow::Result<Result<(), Difference>> {
        drop(self.stdin.take());
        let received = self.receive().await?;
        self.show(&received);
        let (expected, got) = match received {
            Received::End => match timeout(self.patience, self.agent.wait()).await {
                Ok(status) if status.as_ref().is_ok_and(ExitStatus::success) => return Ok(Ok(())),
                Ok(status) => ("exit status: 0", status?.to_string()),
                Err(_) => ("the agent's exit", "an agent that goes on".to_owned()),
            },
            received => ("the end of the agent's output", self.described(received)),
        };
        Ok(Err(Difference { line: None, expected: expected.to_owned(), got }))
    }

    /// Sends a line of the client. In an answer, replaces the recorded id by the id that the agent gave its request in
    /// this replay. The error is text for people.
    async fn send(&mut self, recorded: &str) -> Result<(), String> {
        let text = self.with_ids_of_agent(recorded);
        self.shown.line(LineDirection::In, &text);
        let text = match &self.home {
            Some(home) => {
                text.replace(EXAMPLE_WORKSPACE, &workspace(home.path()).display().to_string())
            }
            None => text,
        };
        self.write(&text).await
    }

    /// Writes a line to the agent. The error is text for people.
    async fn write(&mut self, text: &str) -> Result<(), String> {
        let Some(stdin) = &mut self.stdin else {
            return Err("a client that has hung up before".to_owned());
        };
        let line = format!("{text}\n");
        match timeout(self.patience, stdin.write_all(line.as_bytes())).await {
            Ok(written) => written.map_err(|err| err.to_string()),
            Err(_) => Err(format!("nothing is read within {:?}", self.patience)),
        }
    }

    fn with_ids_of_agent(&self, recorded: &str) -> String {
        let Ok(mut message) = serde_json::from_str::<Value>(recorded) else {
            return recorded.to_owned();
        };
        let id = message.get("id").filter(|_| message.get("method").is_none());
        match id.and_then(|id| self.ids.get(&id.to_string()).filter(|own| *own != id)) {
            Some(own) => {
                message["id"] = own.clone();
                message.to_string()
            }
            None => recorded.to_owned(),
        }
    }

    /// Receives a line where the record has the line `expected`, and shows the line. Passes over output of calls so far
    /// that the record has not: a slow machine sends an output in more pieces. The call's end has all of the output.
    async fn receive_but_progress(&mut self, expected: &str) -> anyhow::Result<Received> {
        loop {
            let received = self.receive().await?;
            if let Received::Line(got) = &received
                && let Some(progress) = Progress::read(got)
                && Progress::read(expected).is_none()
            {
                if let Some(id) = progress.request {
                    let answer = json!({ "jsonrpc": "2.0", "id": id, "result": null });
                    // The write fails if the agent reads nothing more. Then the agent's next line is missing, and is
                    // reported as the difference.
                    let _ = self.write(&answer.to_string()).await;
                }
                continue;
            }
            self.show(&received);
            return Ok(received);
        }
    }

    fn show(&mut self, received: &Received) {
        if let Received::Line(line) = received {
            self.shown.line(LineDirection::Out, line);
        }
    }

    async fn receive(&mut self) -> anyhow::Result<Received> {
        let Ok(line) = timeout(self.patience, self.lines.next_line()).await else {
            return Ok(Received::Nothing);
        };
        let Some(line) = line.context("the agent's output cannot be read")? else {
            return Ok(Received::End);
        };
        let line = match &self.home {
            Some(home) => {
                line.replace(&workspace(home.path()).display().to_string(), EXAMPLE_WORKSPACE)
            }
            None => line,
        };
        Ok(Received::Line(line))
    }

    fn described(&self, received: Received) -> String {
        match received {
            Received::Line(line) => line,
            Received::End => "the end of the agent's output".to_owned(),
            Received::Nothing => format!("nothing within {:?}", self.patience),
        }
    }

    /// Compares a line with the recorded one: as JSON, or as text if one of them is no JSON. The ids of the agent's
    /// requests may differ; the agent's id is remembered for the client's answer.
    fn is_expected(&mut self, recorded: &str, got: &str) -> bool {
        let parsed = (serde_json::from_str(recorded), serde_json::from_str(got));
        let (Ok(mut recorded), Ok(mut got)) = parsed else { return recorded == got };
        if let (Value::Object(recorded), Value::Object(got)) = (&mut recorded, &mut got)
            && recorded.contains_key("method")
            && let (Some(id), Some(own)) = (recorded.remove("id"), got.remove("id"))
        {
            self.ids.insert(id.to_string(), own);
        }
        recorded == got
    }
}

/// Line of the agent with the output of a running call so far.
struct Progress {
    /// Id of the line as a request, which the client answers (ACP 0.0.9); `None` for a notification (ACP 1).
    request: Option<Value>,
}

impl Progress {
    /// Reads a line; `None` if the line is any other.
    fn read(line: &str) -> Option<Self> {
        let mut message: Value = serde_json::from_str(line).ok()?;
        let update = &message["params"]["update"];
        let is_progress = match message["method"].as_str()? {
            "updateToolCall" => message["params"]["status"] == "running",
            // A running call's output so far is its `content`. The update has no `status` if the editor knows already that
            // the call runs.
            "session/update" => {
                update["sessionUpdate"] == "tool_call_update"
                    && update.get("content").is_some()
                    && (update["status"].is_null() || update["status"] == "in_progress")
            }
            _ => false,
        };
        is_progress.then(|| Self { request: message.get_mut("id").map(Value::take) })
    }
}

/// Returns the command that starts this program as the agent: with the arguments of the record's setup, or without a
/// setup as an editor would start it in this directory.
fn self_as_agent(setup: Option<&RecordSetup>, home: Option<&Path>) -> anyhow::Result<Command> {
    let program = std::env::current_exe().context("this program's file is not known")?;
    let mut command = Command::new(program);
    let (Some(setup), Some(home)) = (setup, home) else {
        command.arg("--acp");
        return Ok(command);
    };
    // The user's settings and keys must not influence the replay.
    command.env_clear().env("HOME", home).env("TANDEM_LOG", "off").args(&setup.args);
    command.envs(std::env::var_os("PATH").map(|path| ("PATH", path)));
    if !setup.args.iter().any(|arg| arg == "--model") {
        command.arg("--model").arg(format!("replay:{}", script(home).display()));
    }
    Ok(command)
}

/// Makes a home directory for the agent, with the workspace and the script of a record in it.
fn make_home(setup: &RecordSetup) -> anyhow::Result<TempDir> {
    let home = TempDir::new().context("cannot make a directory for the agent")?;
    fs::create_dir(home.path().join("workspace"))?;
    let workspace = workspace(home.path());
    for (name, content) in &setup.files {
        let path = workspace.join(name);
        anyhow::ensure!(
            Path::new(name).components().all(|it| matches!(it, std::path::Component::Normal(_))),
            "the record has a file outside its workspace: {name}"
        );
        if name.ends_with('/') {
            fs::create_dir_all(path)?;
            continue;
        }
        fs::create_dir_all(path.parent().unwrap_or(&workspace))?;
        fs::write(path, content)?;
    }
    let lines = setup.script.iter().map(|line| format!("{line}\n"));
    fs::write(script(home.path()), lines.collect::<String>())?;
    Ok(home)
}

/// Returns the real path of the workspace in a home directory that [`make_home`] made.
fn workspace(home: &Path) -> PathBuf {
    let workspace = home.join("workspace");
    fs::canonicalize(&workspace).unwrap_or(workspace)
}

fn script(home: &Path) -> PathBuf {
    home.join("script.jsonl")
}
