//! Commands in terminals of a client: the model is told the same as of commands that run here.

use std::fs;
use std::process::Command;
use std::sync::{Arc, Mutex};

use futures::FutureExt as _;
use futures::future::{BoxFuture, ready};
use serde_json::json;
use tandem_host::client_terminals::{ClientCommand, ClientOutput, ClientTerminal, ClientTerminals};
use tandem_host::workspace::Workspace;
use tandem_host::{CommandExit, ToolContext, ToolError, ToolLimits, ToolOutput};
use tandem_sandbox::SandboxMode;
use tempfile::TempDir;

use test_support::host::{context, host_with};

/// A client that runs each command to its end at once, or answers as the test says.
#[derive(Default)]
struct Client {
    answers: Option<(CommandExit, ClientOutput)>,
    /// Commands that the client has run.
    run: Mutex<Vec<ClientCommand>>,
}

struct Terminal {
    exit: CommandExit,
    output: ClientOutput,
}

impl ClientTerminals for Client {
    fn create(
        &self,
        call: &str,
        command: &ClientCommand,
    ) -> BoxFuture<'static, Result<Box<dyn ClientTerminal>, String>> {
        assert_eq!(call, "call");
        self.run.lock().unwrap().push(command.clone());
        let (exit, output) = self.answers.clone().unwrap_or_else(|| {
            let mut run = Command::new(&command.program);
            run.args(&command.args).current_dir(&command.directory);
            let output = run.envs(command.variables.iter().cloned()).output().unwrap();
            let text = String::from_utf8(output.stdout).unwrap();
            let output_of_terminal =
                ClientOutput { text: text.replace('\n', "\r\n"), is_truncated: false };
            (CommandExit::from(Some(output.status)), output_of_terminal)
        });
        let terminal: Box<dyn ClientTerminal> = Box::new(Terminal { exit, output });
        ready(Ok(terminal)).boxed()
    }
}

impl ClientTerminal for Terminal {
    fn wait_for_exit(&self) -> BoxFuture<'static, Result<CommandExit, String>> {
        ready(Ok(self.exit.clone())).boxed()
    }

    fn output(&self) -> BoxFuture<'static, Result<ClientOutput, String>> {
        ready(Ok(self.output.clone())).boxed()
    }

    fn kill(&self) -> BoxFuture<'static, Result<(), String>> {
        ready(Ok(())).boxed()
    }
}

/// Runs a command with this client; `None`: without a client.
async fn run(
    client: Option<&Arc<Client>>,
    command: &str,
    change: impl FnOnce(ToolContext) -> ToolContext,
) -> Result<ToolOutput, ToolError> {
    let home = TempDir::new().unwrap();
    let (workspace, limits) = (|| Workspace::new(home.path(), &[]).unwrap(), ToolLimits::default());
    let host = host_with(workspace(), limits.clone()).with_client_terminals();
    let cx = ToolContext { host: Arc::new(host), ..context(workspace(), limits) };
    let open = cx.host.client_terminals.clone().unwrap();
    let _guard = client.map(|client| open.join(Arc::clone(client) as Arc<dyn ClientTerminals>));
    let cx = change(cx);
    let tools = tandem_tools::all();
    let shell = tools.iter().find(|tool| tool.spec().name == "run_shell_command").unwrap();
    let invocation = shell.prepare(json!({ "command": command }), &cx).await?;
    invocation.run(cx, None).await
}

#[tokio::test]
async fn the_model_is_told_the_same_as_of_a_command_here() {
    for command in ["echo a; echo b", "true", "echo a; exit 3", "exit 3", "kill -9 $$"] {
        let client = Arc::<Client>::default();
        let there = run(Some(&client), command, |cx| cx).await;
        assert_eq!(client.run.lock().unwrap().len(), 1, "{command}");
        let here = run(None, command, |cx| cx).await;
        assert_eq!(format!("{there:?}"), format!("{here:?}"), "{command}");
    }
}

#[tokio::test]
async fn a_command_has_the_variables_of_its_call() {
    let variables = Arc::from([("NAME".to_owned(), "value".to_owned())]);
    let client = Arc::<Client>::default();
    let told = run(Some(&client), "echo $NAME", |cx| ToolContext { variables, ..cx }).await;
    assert_eq!(told.unwrap().text, "Output: value");
}

#[tokio::test]
async fn a_command_that_is_to_have_a_sandbox_never_runs_there() {
    for sandbox in [SandboxMode::ReadOnly, SandboxMode::WorkspaceWrite] {
        let client = Arc::<Client>::default();
        let told = run(Some(&client), "true", |cx| ToolContext { sandbox, ..cx }).await;
        assert_eq!(told.unwrap_err().kind, "no_sandbox");
        assert!(client.run.lock().unwrap().is_empty());
    }
}

#[tokio::test]
async fn more_output_than_was_asked_for_is_cut_and_its_missing_beginning_is_named() {
    let text = "x".repeat(8 << 20);
    let output = ClientOutput { text, is_truncated: true };
    let answers = Some((CommandExit { code: Some(0), signal: None }, output));
    let client = Arc::new(Client { answers, ..Client::default() });
    let told = run(Some(&client), "true", |cx| cx).await.unwrap().text;
    assert!(told.starts_with("Output: [... earlier output left out ...]\nx"), "{}", &told[..80]);
    assert!(told.len() < (1 << 20) + 200, "{}", told.len());
}

#[tokio::test]
async fn a_client_that_has_left_runs_nothing_any_more() {
    let home = TempDir::new().unwrap();
    let workspace = Workspace::new(home.path(), &[]).unwrap();
    let host = host_with(workspace, ToolLimits::default()).with_client_terminals();
    let open = host.client_terminals.clone().unwrap();
    let (first, last) = (Arc::<Client>::default(), Arc::<Client>::default());
    let first_guard = open.join(Arc::clone(&first) as Arc<dyn ClientTerminals>);
    let last_guard = open.join(Arc::clone(&last) as Arc<dyn ClientTerminals>);
    let workspace = Workspace::new(home.path(), &[]).unwrap();
    let cx = ToolContext { host: Arc::new(host), ..context(workspace, ToolLimits::default()) };
    let runs = || {
        let counts = [&first, &last].map(|client| client.run.lock().unwrap().len());
        (counts[0], counts[1], fs::read_dir(home.path()).unwrap().count())
    };
    let shell = tandem_tools::all();
    let shell = shell.iter().find(|tool| tool.spec().name == "run_shell_command").unwrap();
    let command = json!({ "command": "mktemp -p ." });
    let mut seen = Vec::new();
    let mut guards = vec![first_guard, last_guard];
    loop {
        let call = shell.prepare(command.clone(), &cx).await.unwrap();
        call.run(cx.clone(), None).await.unwrap();
        seen.push(runs());
        if guards.pop().is_none() {
            break;
        }
    }
    assert_eq!(seen, [(0, 1, 1), (1, 1, 2), (1, 1, 3)]);
}
