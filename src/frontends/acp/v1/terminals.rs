//! Terminals of an editor in which the agent runs commands.

use std::sync::Arc;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use serde::de::{DeserializeOwned, IgnoredAny};

use super::client::SessionClient;
use tandem_agent::session::{
    ClientCommand, ClientOutput, ClientTerminal, ClientTerminals, CommandExit,
};
use tandem_wire::acp::v1::{
    CREATE_TERMINAL, CreateTerminalParams, CreateTerminalResponse, EnvVariable, KILL_TERMINAL,
    RELEASE_TERMINAL, SessionUpdate, TERMINAL_OUTPUT, TerminalExitResponse, TerminalOutputResponse,
    TerminalParams, ToolCall, ToolCallContent, WAIT_FOR_TERMINAL_EXIT,
};
use tandem_wire::rpc::CallError;

/// Terminals of an editor, for the commands of one session.
pub(super) struct EditorTerminals(Arc<SessionClient>);

impl EditorTerminals {
    /// Returns the terminals of the editor, if the editor runs commands in terminals.
    pub(super) fn new(client: &Arc<SessionClient>) -> Option<Self> {
        client.kind.runs_commands.then(|| Self(Arc::clone(client)))
    }
}

impl ClientTerminals for EditorTerminals {
    fn create(
        &self,
        call: &str,
        command: &ClientCommand,
    ) -> BoxFuture<'static, Result<Box<dyn ClientTerminal>, String>> {
        let variables = command.variables.iter();
        let params = CreateTerminalParams {
            session_id: &self.0.id,
            command: &command.program,
            args: &command.args,
            env: variables.map(|(name, value)| EnvVariable { name, value }).collect(),
            cwd: &command.directory,
            output_byte_limit: command.output_bytes,
        };
        let answer = self.0.peer.call::<CreateTerminalResponse>(CREATE_TERMINAL, &params);
        let (client, call) = (Arc::clone(&self.0), call.to_owned());
        // A task of its own: if the caller drops the future before the editor answers, the terminal is still received,
        // and dropping the terminal releases it.
        let created = tokio::spawn(async move {
            let CreateTerminalResponse { terminal_id: id } = answer.await?;
            Ok::<_, CallError>(EditorTerminal { client, call, id })
        });
        async move {
            let terminal = created.await.map_err(|error| error.to_string())?;
            let terminal = terminal.map_err(|error| error.to_string())?;
            terminal.show();
            Ok(Box::new(terminal) as Box<dyn ClientTerminal>)
        }
        .boxed()
    }
}

/// A terminal of the editor in which a command runs. Dropping this value releases the terminal.
struct EditorTerminal {
    client: Arc<SessionClient>,
    /// Id of the tool call that runs the command.
    call: String,
    id: String,
}

impl EditorTerminal {
    /// Shows the terminal in its call.
    fn show(&self) {
        let Self { client, call, id } = self;
        client.terminals.set(call, id, || {
            let content = Some(vec![ToolCallContent::Terminal { terminal_id: id }]);
            let call = ToolCall { tool_call_id: call, content, ..ToolCall::default() };
            client.update(SessionUpdate::ToolCallUpdate(call));
        });
    }

    fn params(&self) -> TerminalParams<'_> {
        TerminalParams { session_id: &self.client.id, terminal_id: &self.id }
    }

    fn ask<R: DeserializeOwned + Send + 'static, T>(
        &self,
        method: &'static str,
        read: impl FnOnce(R) -> T + Send + 'static,
    ) -> BoxFuture<'static, Result<T, String>> {
        let answer = self.client.peer.call::<R>(method, &self.params());
        async move { answer.await.map(read).map_err(|error| error.to_string()) }.boxed()
    }
}

impl ClientTerminal for EditorTerminal {
    fn wait_for_exit(&self) -> BoxFuture<'static, Result<CommandExit, String>> {
        self.ask(WAIT_FOR_TERMINAL_EXIT, |exit: TerminalExitResponse| CommandExit {
            code: exit.exit_code,
            signal: exit.signal,
        })
    }

    fn output(&self) -> BoxFuture<'static, Result<ClientOutput, String>> {
        self.ask(TERMINAL_OUTPUT, |output: TerminalOutputResponse| ClientOutput {
            text: output.output,
            is_truncated: output.truncated,
        })
    }

    fn kill(&self) -> BoxFuture<'static, Result<(), String>> {
        // Some editors answer with `null` in place of an object.
        self.ask(KILL_TERMINAL, |_: IgnoredAny| ())
    }
}

impl Drop for EditorTerminal {
    fn drop(&mut self) {
        self.client.terminals.release(&self.call);
        self.client.peer.send(RELEASE_TERMINAL, &self.params());
    }
}
