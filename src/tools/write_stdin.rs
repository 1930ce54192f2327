//! `write_stdin`: writes to a command in the background, and reads what the command has written since the last look.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde::Deserialize;
use serde_json::{Value, json};

use tandem_content::shorten::{first_chars, one_line};
use tandem_content::visible::visible_line;
use tandem_host::background::{InputState, Job, JobState, MAX_INPUT_BYTES, WriteEnd, WriteOutcome};
use tandem_host::{
    Access, Invocation, ProgramInput, ResultContent, Summary, Tool, ToolContext, ToolError,
    ToolKind, ToolOutput, ToolSpec, args, parse,
};

/// Default time to wait for output.
const DEFAULT_WAIT: Duration = Duration::from_secs(1);

/// Maximum time to wait for output.
const MAX_WAIT: Duration = Duration::from_mins(5);

/// Maximum length of the command in a label, in characters.
const COMMAND_CHARS: usize = 60;

/// Maximum length of the written text in a label, and of the text that was not taken in a message, in characters.
const TEXT_CHARS: usize = 60;

/// The tool `write_stdin`.
pub(super) struct WriteStdin;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WriteStdinArgs {
    #[serde(default, deserialize_with = "args::number")]
    pid: Option<usize>,
    chars: Option<String>,
    #[serde(default, deserialize_with = "args::number")]
    wait_ms: Option<usize>,
    #[serde(default, deserialize_with = "args::flag")]
    close: Option<bool>,
}

#[async_trait]
impl Tool for WriteStdin {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: "write_stdin".to_owned(),
            aliases: &[],
            description: "Writes to a command that you have started with `stdin`. Returns what it \
                has written since the last look, and whether it still runs. Empty `chars` only \
                look. It has no terminal: `\\u0003` is a byte like others, and interrupts nothing; \
                stop_background_command does."
                .to_owned(),
            parameters: json!({
                "type": "object",
                "properties": {
                    "pid": {
                        "type": "integer",
                        "description": "Its PID, as run_shell_command says it. Default: that of the \
                            only command that takes input.",
                    },
                    "chars": {
                        "type": "string",
                        "description": "What to write, exactly; a line ends with a line feed. \
                            Default: nothing.",
                    },
                    "wait_ms": {
                        "type": "integer",
                        "description": "Milliseconds to wait for output, at most five minutes. It \
                            returns as soon as there is some and no more comes. Default: 1000.",
                    },
                    "close": {
                        "type": "boolean",
                        "description": "Close its input afterwards.",
                    },
                },
            }),
            kind: ToolKind::Execute,
        }
    }

    async fn prepare(&self, args: Value, cx: &ToolContext) -> Result<Invocation, ToolError> {
        let args: WriteStdinArgs = parse(args)?;
        let text = args.chars.unwrap_or_default();
        let closes = args.close == Some(true);
        let only_looks = text.is_empty() && !closes;
        let job = match find(args.pid, only_looks, cx).await {
            Ok(job) => job,
            Err(error) => {
                let pid = args.pid.map(|pid| format!(", PID {pid}")).unwrap_or_default();
                let summary = Summary::new(format!("Write to a command in the background{pid}"));
                return Ok(Invocation::failing(summary, error));
            }
        };
        let summary = Summary::new(label(&job, &text, closes));
        let wait = args.wait_ms.map_or(DEFAULT_WAIT, |wait| Duration::from_millis(wait as u64));
        let wait = wait.min(MAX_WAIT);
        if only_looks {
            return Ok(Invocation::new(summary, Access::Nothing, move |cx| async move {
                look(&job, wait, &cx).await
            }));
        }
        if let Err(error) = check_writable(&job, &text).await {
            return Ok(Invocation::failing(summary, error));
        }
        let input = ProgramInput {
            pid: job.pid,
            command: job.command.clone(),
            directory: job.directory.clone(),
            sandbox: job.sandbox,
            sees_secrets: job.sees_secrets,
            unfinished: job.input.unfinished_line(),
            text: text.clone(),
            closes,
        };
        Ok(Invocation::new(summary, Access::ProgramInput(input), move |cx| async move {
            write(&job, &text, closes, wait, &cx).await
        }))
    }
}

/// Returns the title of a call, on one line.
fn label(job: &Job, text: &str, closes: bool) -> String {
    let program = format!("PID {} ({})", job.pid, one_line(&job.command, COMMAND_CHARS));
    match (text.is_empty(), closes) {
        (true, false) => format!("Read what {program} has written"),
        (true, true) => format!("Close the input of {program}"),
        (false, false) => format!("Write to {program}: {}", beginning(text)),
        (false, true) => {
            format!("Write to {program}, then close its input: {}", beginning(text))
        }
    }
}

/// Returns the beginning of a text on one line, with every character made visible.
fn beginning(text: &str) -> String {
    let first = first_chars(text, TEXT_CHARS);
    let more = if first.len() < text.len() { "…" } else { "" };
    format!("{}{more}", visible_line(first))
}

/// Returns the command with this PID or, without a PID, the only command that takes input. If none takes input any more,
/// a look is at the newest command that did.
async fn find(
    pid: Option<usize>,
    only_looks: bool,
    cx: &ToolContext,
) -> Result<Arc<Job>, ToolError> {
    let background = &cx.host.background;
    if let Some(pid) = pid {
        return background.find_newest(pid).map_err(|error| about_terminals(error, cx));
    }
    let (mut open, mut newest_closed) = (Vec::new(), None);
    for job in background.jobs() {
        match job.input.state().await {
            InputState::Open => open.push(job),
            InputState::Closed => newest_closed = Some(job),
            InputState::Missing => {}
        }
    }
    if open.len() == 1 {
        return Ok(open.remove(0));
    }
    if let Some(job) = newest_closed.filter(|_| only_looks && open.is_empty()) {
        return Ok(job);
    }
    let pids: Vec<_> = open.iter().map(|job| job.pid.to_string()).collect();
    let message = match &pids[..] {
        [] => "`pid`: is missing, and no command takes input".to_owned(),
        pids => format!("`pid`: is missing; these take input: {}", pids.join(", ")),
    };
    Err(about_terminals(ToolError::invalid_args(message), cx))
}

/// Adds to the error about an unknown command that commands in the terminals of a client cannot be written to.
fn about_terminals(error: ToolError, cx: &ToolContext) -> ToolError {
    if cx.host.client_terminals.as_ref().is_none_or(|clients| clients.last().is_none()) {
        return error;
    }
    let message = format!(
        "{} A command that ran in a terminal of the editor cannot be written to: start it with \
         `stdin`, and it runs here.",
        error.message
    );
    ToolError { message, ..error }
}

/// Checks that a command can be written to, before the user is asked about it.
async fn check_writable(job: &Job, text: &str) -> Result<(), ToolError> {
    let pid = job.pid;
    if !matches!(job.state(), JobState::Running(_)) {
        let message = format!("Nothing was written: PID {pid} {}.", job.state());
        return Err(ToolError::new("command_ended", message));
    }
    let message = match job.input.state().await {
        InputState::Open if text.len() > MAX_INPUT_BYTES => {
            let message = format!(
                "`chars`: has {} bytes, and at most {MAX_INPUT_BYTES} are written at once",
                text.len()
            );
            return Err(ToolError::invalid_args(message));
        }
        InputState::Open => return Ok(()),
        InputState::Missing => format!(
            "Nothing was written: PID {pid} was started without `stdin`. If it needs input, stop it \
             and start it again with `stdin`."
        ),
        InputState::Closed => format!("Nothing was written: the input of PID {pid} is closed."),
    };
    Err(ToolError::new("no_input", message))
}

/// Waits for new output of a command, and reports it.
async fn look(job: &Arc<Job>, wait: Duration, cx: &ToolContext) -> Result<ToolOutput, ToolError> {
    let bytes = job.bytes_written();
    let bytes = if job.has_new_output() { 0 } else { bytes };
    let waited = cx.cancel.run_until_cancelled(job.wait_for_output(bytes, wait)).await;
    waited.ok_or_else(ToolError::cancelled)?;
    let (text, shown) = report(job);
    Ok(ToolOutput { text, shown: Some(shown), ..ToolOutput::default() })
}

/// Writes to a command, waits for the output that follows, and reports it. A cancel leaves the command running.
async fn write(
    job: &Arc<Job>,
    text: &str,
    closes: bool,
    wait: Duration,
    cx: &ToolContext,
) -> Result<ToolOutput, ToolError> {
    let bytes = job.bytes_written();
    // The call that started the command is over, so this call asks about the hosts that the text leads to.
    if let Some(connect) = &cx.connect {
        job.decide_by(connect);
    }
    let exchange = async {
        let written = job.input.write(text.as_bytes()).await;
        match written.end {
            WriteEnd::NotRead => return written,
            WriteEnd::Complete if closes => job.input.close().await,
            WriteEnd::Complete | WriteEnd::Closed => {}
        }
        wait_for_answer(job, bytes, wait).await;
        written
    };
    let written = cx.cancel.run_until_cancelled(exchange).await.ok_or_else(ToolError::cancelled)?;
    let (report, shown) = report(job);
    match incomplete(&written, text, closes) {
        None => Ok(ToolOutput { text: report, shown: Some(shown), ..ToolOutput::default() }),
        Some(error) => {
            let message = format!("{}\n{report}", error.message);
            Err(ToolError { message, ..error })
        }
    }
}

/// Waits for output beyond `bytes` bytes. While a person decides about a host, the time does not count.
async fn wait_for_answer(job: &Job, mut bytes: u64, wait: Duration) {
    loop {
        job.wait_for_output(bytes, wait).await;
        if !job.is_asking() {
            return;
        }
        bytes = job.bytes_written();
        job.wait_for_decision().await;
    }
}

/// Returns the error of a write of which the command has not taken everything.
fn incomplete(written: &WriteOutcome, text: &str, closes: bool) -> Option<ToolError> {
    let taken = format!("{} of {} bytes were written", written.bytes, text.len());
    match written.end {
        WriteEnd::Complete => None,
        // The input was to be closed, and is.
        WriteEnd::Closed if text.is_empty() => None,
        WriteEnd::NotRead => {
            let rest = String::from_utf8_lossy(&text.as_bytes()[written.bytes..]);
            let open = if closes { ", and its input is still open" } else { "" };
            let message = format!(
                "Only {taken}, as the program does not read{open}. What is left begins with `{}`.",
                beginning(&rest)
            );
            Some(ToolError::new("input_not_read", message))
        }
        WriteEnd::Closed => {
            let message = format!("Only {taken}: the program reads no more input.");
            Some(ToolError::new("input_closed", message))
        }
    }
}

/// Returns the state of a command and its new output, for the model and for people.
fn report(job: &Job) -> (String, ResultContent) {
    // The state is read before the output: if the command has ended, all of its output is there. Output that comes later
    // is for the next call.
    let state = format!("PID {} {}.", job.pid, job.state());
    let output = job.new_output();
    let output = output.trim_end();
    let text = if output.is_empty() { "(empty)" } else { output };
    let text = format!("{state}\nOutput: {text}");
    let shown = format!("{output}\n{state}").trim_start_matches('\n').to_owned();
    (text, ResultContent::Output(shown))
}
