//! A command in a terminal of a client, from its start to its end.

use std::path::Path;
use std::time::Duration;

use futures::future::BoxFuture;
use tokio::time::{Instant, sleep_until, timeout};

use tandem_content::shorten::one_line;
use tandem_host::client_terminals::{ClientCommand, ClientOutput, ClientTerminal, ClientTerminals};
use tandem_host::command_end::CommandEnd;
use tandem_host::shell_output::OutputBuffer;
use tandem_host::terminals::COMMAND_VARIABLES;
use tandem_host::{CommandExit, ToolContext, ToolError};

/// Time between two requests for the output of a command.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Maximum number of bytes of output that a client is asked for: every request returns all of them.
const MAX_OUTPUT_BYTES: usize = 1 << 20;

/// Maximum length of a client's message about an error or a signal, in characters.
const MAX_MESSAGE_CHARS: usize = 500;

/// Kind of the errors that a client's terminal causes.
const FAILED_KIND: &str = "client_terminal";

/// Runs a command line in a terminal of a client. Returns the way it ended, and its output.
pub(super) async fn run(
    client: &dyn ClientTerminals,
    line: &str,
    directory: &Path,
    time: Option<Duration>,
    cx: &ToolContext,
) -> Result<(CommandEnd, String), ToolError> {
    let fixed = COMMAND_VARIABLES.map(|(name, value)| (name.to_owned(), value.to_owned()));
    // `CDPATH` is emptied, which is the same as unset. With a value, it could make a `cd` lead elsewhere than the
    // policy has judged.
    let search_path = ("CDPATH".to_owned(), String::new());
    let command = ClientCommand {
        program: "bash".to_owned(),
        args: vec!["-c".to_owned(), line.to_owned()],
        variables: fixed.into_iter().chain([search_path]).chain(cx.variables.to_vec()).collect(),
        directory: directory.to_owned(),
        output_bytes: cx.host.limits.shell_bytes.min(MAX_OUTPUT_BYTES),
    };
    let created = in_time(cx, client.create(&cx.call, &command));
    let created = cx.cancel.run_until_cancelled(created).await.ok_or_else(ToolError::cancelled)?;
    let terminal = created.map_err(|why| {
        let message = format!("The command was not run: the editor has opened no terminal: {why}");
        ToolError::new(FAILED_KIND, message)
    })?;
    let mut command =
        FollowedCommand { terminal, cx, time, last: None, output_bytes: command.output_bytes };
    let end = command.follow().await?;
    Ok((end, command.text()))
}

/// A command that runs in a terminal of a client.
struct FollowedCommand<'a> {
    terminal: Box<dyn ClientTerminal>,
    cx: &'a ToolContext,
    /// Maximum time of the command; `None` if it has no limit.
    time: Option<Duration>,
    /// Output that was seen last.
    last: Option<ClientOutput>,
    output_bytes: usize,
}

impl FollowedCommand<'_> {
    /// Waits until the command has ended. Ends the command if it was cancelled, was silent for too long, or its time is
    /// over.
    async fn follow(&mut self) -> Result<CommandEnd, ToolError> {
        let deadline = self.time.map(|time| Instant::now() + time);
        let exit = match self.wait(deadline).await {
            Some(Ok(exit)) => exit,
            Some(Err(why)) => {
                let message = format!(
                    "The editor does not say how the command has ended: {why}. The command may have done all of \
                     its work, or a part.\nOutput: {}",
                    self.text()
                );
                return Err(ToolError::new(FAILED_KIND, message));
            }
            None => {
                let over = deadline.is_some_and(|deadline| Instant::now() >= deadline);
                let end = if over { CommandEnd::OutOfTime } else { CommandEnd::Silent };
                return Ok(self.end(end).await);
            }
        };
        let cx = self.cx;
        match cx.cancel.run_until_cancelled(in_time(cx, self.terminal.output())).await {
            Some(Ok(output)) => self.last = Some(output),
            Some(Err(why)) => {
                let ended = match (&exit.code, &exit.signal) {
                    (Some(code), _) => format!(" with exit code {code}"),
                    (None, Some(signal)) => format!(" by signal {signal}"),
                    (None, None) => String::new(),
                };
                let message = format!(
                    "The command has ended{ended}, and the editor does not give its output: {why}"
                );
                return Err(ToolError::new(FAILED_KIND, message));
            }
            None => return Ok(CommandEnd::Cancelled),
        }
        Ok(CommandEnd::Exited(exit))
    }

    /// Waits until the command has ended by itself, and shows its output meanwhile. Returns `None` if the caller has to
    /// end the command.
    async fn wait(&mut self, deadline: Option<Instant>) -> Option<Result<CommandExit, String>> {
        let cx = self.cx;
        let mut exit = self.terminal.wait_for_exit();
        let mut idle = Instant::now() + cx.host.limits.shell_idle;
        loop {
            let last = deadline.map_or(idle, |deadline| deadline.min(idle));
            let next = last.min(Instant::now() + LOOK_EVERY);
            let look = async {
                sleep_until(next).await;
                in_time(cx, self.terminal.output()).await
            };
            let looked = tokio::select! {
                biased;
                () = cx.cancel.cancelled() => return None,
                ended = &mut exit => return Some(match ended {
                    Ok(CommandExit { code, signal }) => {
                        let signal = signal.map(|signal| one_line(&signal, MAX_MESSAGE_CHARS));
                        Ok(CommandExit { code, signal })
                    }
                    Err(why) => Err(one_line(&why, MAX_MESSAGE_CHARS)),
                }),
                looked = look => looked,
            };
            match looked {
                Ok(output) if self.last.as_ref() != Some(&output) => {
                    if self.last.is_some() || !output.text.is_empty() {
                        idle = Instant::now() + cx.host.limits.shell_idle;
                        (cx.progress)(self.buffer(&output).live());
                    }
                    self.last = Some(output);
                }
                Ok(_) => {}
                Err(why) => tracing::debug!(why, "the client does not say what a command writes"),
            }
            if Instant::now() >= deadline.map_or(idle, |deadline| deadline.min(idle)) {
                return None;
            }
        }
    }

    /// Ends the command and shows its output. Returns `Cancelled` if the turn was cancelled, else `end`.
    async fn end(&mut self, end: CommandEnd) -> CommandEnd {
        let cx = self.cx;
        if let Err(why) = in_time(cx, self.terminal.kill()).await {
            // The client is told again to end the command when the terminal is freed.
            tracing::warn!(why, "the client has not ended a command");
        }
        if let Ok(output) = in_time(cx, self.terminal.output()).await {
            (cx.progress)(self.buffer(&output).live());
            self.last = Some(output);
        }
        if cx.cancel.is_cancelled() { CommandEnd::Cancelled } else { end }
    }

    fn buffer(&self, output: &ClientOutput) -> OutputBuffer {
        let mut buffer = OutputBuffer::new(self.output_bytes);
        buffer.push(output.text.as_bytes());
        buffer
    }

    /// Returns the output that was seen last.
    fn text(&self) -> String {
        let Some(output) = &self.last else { return String::new() };
        let mark = if output.is_truncated { "[... earlier output left out ...]\n" } else { "" };
        format!("{mark}{}", self.buffer(output).text())
    }
}

/// Waits for an answer of a client, at most for the time that the limits set.
async fn in_time<T>(
    cx: &ToolContext,
    answer: BoxFuture<'static, Result<T, String>>,
) -> Result<T, String> {
    let time = cx.host.limits.client_terminal_time;
    match timeout(time, answer).await {
        Ok(answer) => answer.map_err(|why| one_line(&why, MAX_MESSAGE_CHARS)),
        Err(_) => Err(format!("no answer within {} s", time.as_secs())),
    }
}
