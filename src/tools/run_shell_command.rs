//! Runs a command line.

mod sandbox;

use std::io;
use std::path::Path;
use std::process::ExitStatus;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde::Deserialize;
use serde_json::{Value, json};
use tandem_sandbox::SandboxMode;
use tokio::time::{Instant, sleep_until};

use self::sandbox::SandboxNotes;
use super::client_command;
use tandem_content::shorten::shorten;
use tandem_host::background::{CommandPlace, JobEnd, JobState, NotAdopted, StartedCommand};
use tandem_host::client_terminals::ClientTerminals;
use tandem_host::command_end::CommandEnd;
use tandem_host::command_sandbox::Confinement;
use tandem_host::off_thread::off_thread;
use tandem_host::shell_output::OutputBuffer;
use tandem_host::terminals::RunningCommand;
use tandem_host::{
    Access, CommandExit, Invocation, ResultContent, Summary, Tool, ToolAudience, ToolContext,
    ToolError, ToolKind, ToolLimits, ToolOutput, ToolSpec, args, parse,
};

/// Time between two updates of the live output.
const SHOW_EVERY: Duration = Duration::from_millis(300);

/// Time to wait for further output after the command has ended, while a process that it started still holds the output
/// open.
const DRAIN_TIME: Duration = Duration::from_millis(100);

/// Longest time that a model may set before a command goes to the background.
const LONGEST_TIME: Duration = Duration::from_hours(1);

/// Time between two checks whether a person still has to decide about a host, once a command's time is over.
const ASKING_RECHECK: Duration = Duration::from_secs(1);

/// Time to watch a background command before its call returns: the default, and the maximum.
const MAX_WATCH_TIME: Duration = Duration::from_millis(200);
const LONGEST_DELAY: Duration = Duration::from_mins(1);

/// Description, and names of the parameters, for models that are told of no tools for commands in the background.
const SHORT_DESCRIPTION: &str = "Runs a command line with `bash -c` and returns what it wrote (standard output and error \
    together) and its exit code if that is not 0. It gets no input.";
const SHORT_TIMEOUT: &str =
    "Milliseconds until the command is ended, at most an hour. Default: 120000.";
const SHORT_PARAMETERS: [&str; 4] = ["command", "description", "dir_path", "timeout"];

/// Reason why a command of a model with the short set of tools does not go to the background.
const NO_BACKGROUND_TOOLS: &str = "you have no tools for commands in the background";

/// The tool `run_shell_command`.
pub(super) struct RunShellCommand {
    /// `true` if commands may have a sandbox.
    pub(super) sandboxed: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ShellArgs {
    command: String,
    description: Option<String>,
    dir_path: Option<String>,
    #[serde(default, deserialize_with = "args::number")]
    timeout: Option<usize>,
    #[serde(default, deserialize_with = "args::flag")]
    is_background: Option<bool>,
    #[serde(default, deserialize_with = "args::flag")]
    stdin: Option<bool>,
    #[serde(default, deserialize_with = "args::number")]
    delay_ms: Option<usize>,
    sandbox: Option<String>,
    justification: Option<String>,
}

#[async_trait]
impl Tool for RunShellCommand {
    fn spec(&self) -> ToolSpec {
        self.spec_for(ToolAudience::default())
    }

    fn spec_for(&self, audience: ToolAudience) -> ToolSpec {
        let mut spec = ToolSpec {
            name: "run_shell_command".to_owned(),
            aliases: &[],
            description: "Runs a command line with `bash -c` and returns what it wrote (standard \
                output and error together) and its exit code if that is not 0. It gets no input \
                without `stdin`. For what runs on, such as a server, \
                say `is_background` (and no `&`): it then returns at once, read_background_output \
                reads on, stop_background_command ends it, and the session's end does."
                .to_owned(),
            parameters: json!({
                "type": "object",
                "properties": {
                    "command": { "type": "string", "description": "The command line." },
                    "description": {
                        "type": "string",
                        "description": "What it does and why, in a few words, for the user."
                    },
                    "dir_path": {
                        "type": "string",
                        "description": "The directory to run it in. Default: the workspace."
                    },
                    "timeout": {
                        "type": "integer",
                        "description": "Milliseconds to wait for the command's end, at most an \
                            hour; then it runs on in the background. Default: 120000."
                    },
                    "is_background": {
                        "type": "boolean",
                        "description": "Let it run in the background."
                    },
                    "stdin": {
                        "type": "boolean",
                        "description": "Let it run in the background with an open standard input \
                            (a pipe, no terminal), for write_stdin: `python3 -i`, `sh`. \
                            Editors need no input but a program in their place: \
                            `GIT_SEQUENCE_EDITOR=\"sed -i '2s/^pick/squash/'\" GIT_EDITOR=true \
                            git rebase -i HEAD~3`."
                    },
                    "delay_ms": {
                        "type": "integer",
                        "description": "With `is_background` or `stdin`: milliseconds to wait for \
                            what it writes first, at most a minute. Default: 200."
                    }
                },
                "required": ["command"]
            }),
            kind: ToolKind::Execute,
        };
        if audience.has_short_set {
            SHORT_DESCRIPTION.clone_into(&mut spec.description);
            if let Some(Value::Object(parameters)) = spec.parameters.get_mut("properties") {
                parameters.retain(|name, _| SHORT_PARAMETERS.contains(&name.as_str()));
                parameters["timeout"]["description"] = SHORT_TIMEOUT.into();
            }
        }
        if self.sandboxed {
            sandbox::describe(&mut spec, audience);
        }
        spec
    }

    async fn prepare(&self, args: Value, cx: &ToolContext) -> Result<Invocation, ToolError> {
        let args: ShellArgs = parse(args)?;
        let summary = Summary::new(label(&args));
        if args.command.trim().is_empty() {
            let error = ToolError::invalid_args("The command is empty.");
            return Ok(Invocation::failing(summary, error));
        }
        let directory = match cx.host.resolve(args.dir_path.as_deref().unwrap_or(".")).await {
            Ok(directory) if directory.is_dir() => directory,
            Ok(other) => {
                let message = format!("{} is not a directory.", other.display());
                let error = ToolError::new("not_a_directory", message);
                return Ok(Invocation::failing(summary, error));
            }
            Err(error) => return Ok(Invocation::failing(summary, error)),
        };
        let takes_input = args.takes_input();
        // A call that waits for the command's end could not write to the command.
        let is_background = takes_input || args.is_background == Some(true);
        let delay = is_background.then(|| args.delay());
        let time = args.time(&cx.host.limits);
        let sandbox = sandbox::request(args.sandbox.as_deref(), args.justification.as_deref());
        let sandbox = sandbox.map_err(ToolError::invalid_args);
        let sandbox = match sandbox {
            Ok(sandbox) => sandbox,
            Err(error) => return Ok(Invocation::failing(summary, error)),
        };
        let command = args.command;
        let access =
            Access::Execute { command: command.clone(), directory: directory.clone(), sandbox };
        Ok(Invocation::new(summary, access, move |cx| async move {
            if let Some(delay) = delay {
                let line =
                    BackgroundLine { line: &command, directory: &directory, delay, takes_input };
                return leave_running(line, &cx).await;
            }
            let time = cx.has_clock.then_some(time);
            run(CommandLine { line: &command, directory: &directory, time }, cx).await
        }))
    }
}

impl ShellArgs {
    /// Returns the time after which the command goes to the background.
    fn time(&self, limits: &ToolLimits) -> Duration {
        let named = self.timeout.filter(|timeout| *timeout > 0);
        named.map_or(limits.shell_time, |timeout| {
            Duration::from_millis(timeout as u64).min(LONGEST_TIME)
        })
    }

    /// Returns whether the command gets a standard input that it can be written to.
    fn takes_input(&self) -> bool {
        self.stdin == Some(true)
    }

    /// Returns the time to watch a command in the background before its call returns.
    fn delay(&self) -> Duration {
        self.delay_ms
            .map_or(MAX_WATCH_TIME, |delay| Duration::from_millis(delay as u64))
            .min(LONGEST_DELAY)
    }
}

/// Returns the title of a call: `Run command [in dir] [in the background] (description)`, on one line.
fn label(args: &ShellArgs) -> String {
    let mut lines = args.command.trim().lines();
    let mut label = format!("Run {}", lines.next().unwrap_or("an empty command"));
    if lines.next().is_some() {
        label.push_str(" …");
    }
    if let Some(dir) = &args.dir_path {
        label.push_str(&format!(" [in {dir}]"));
    }
    if args.takes_input() {
        label.push_str(" [in the background, takes input]");
    } else if args.is_background == Some(true) {
        label.push_str(" [in the background]");
    }
    if let Some(description) = args.description.as_deref().filter(|text| !text.trim().is_empty()) {
        let description: Vec<_> = description.split_whitespace().collect();
        label.push_str(&format!(" ({})", description.join(" ")));
    }
    label
}

/// Returns the terminals of a client, if the command is to run in one of them.
fn client_terminals(cx: &ToolContext) -> Option<Arc<dyn ClientTerminals>> {
    // The terminals of a client have no sandbox.
    let may = cx.sandbox == SandboxMode::DangerFullAccess;
    cx.host.client_terminals.as_ref().filter(|_| may)?.last()
}

/// A command line whose end the call waits for.
struct CommandLine<'a> {
    /// The text for `bash -c`.
    line: &'a str,
    /// Working directory; absolute.
    directory: &'a Path,
    /// Time after which the command goes to the background; `None` if the call waits until the command ends.
    time: Option<Duration>,
}

/// A command line that runs in the background from the start.
struct BackgroundLine<'a> {
    /// The text for `bash -c`.
    line: &'a str,
    /// Working directory; absolute.
    directory: &'a Path,
    /// Time to wait for the first output.
    delay: Duration,
    /// `true` if the command gets a standard input that it can be written to.
    takes_input: bool,
}

/// Runs a command line until it ends or, if its time is over before, goes on in the background.
async fn run(command: CommandLine<'_>, cx: ToolContext) -> Result<ToolOutput, ToolError> {
    if cx.cancel.run_until_cancelled(cx.host.terminals.find_programs()).await.is_none() {
        return Err(ToolError::cancelled());
    }
    let _timer = cx.host.commands.start();
    match client_terminals(&cx) {
        Some(client) => run_in_client(&*client, command, &cx).await,
        None => run_here(command, &cx).await,
    }
}

/// Runs a command line in a terminal of a client.
async fn run_in_client(
    client: &dyn ClientTerminals,
    CommandLine { line, directory, time }: CommandLine<'_>,
    cx: &ToolContext,
) -> Result<ToolOutput, ToolError> {
    let limits = &cx.host.limits;
    let (end, written) = client_command::run(client, line, directory, time, cx).await?;
    match end {
        CommandEnd::Exited(exit) => report(&exit, &written, &SandboxNotes::default(), None, limits),
        CommandEnd::Silent => Err(silent(&written, limits)),
        CommandEnd::OutOfTime => {
            let why = "in a terminal of the editor it cannot run on in the background";
            Err(out_of_time(time, why, &written))
        }
        CommandEnd::Cancelled => Err(ToolError::cancelled()),
    }
}

/// Runs a command line on this machine:
///
/// 1. Prepares the sandbox and starts the command in it.
/// 2. Follows the command until it ends, falls silent, is cancelled, or its time is over. In the last case the command
///    goes to the background, and the call returns, if the model is told of the tools for such commands.
/// 3. Ends a command that has not ended by itself, then moves away protected files that were made.
/// 4. Reports the exit code, the output and notes on the sandbox, or else that a limit was exceeded or the sandbox
///    failed.
async fn run_here(command: CommandLine<'_>, cx: &ToolContext) -> Result<ToolOutput, ToolError> {
    let CommandLine { line, directory, time } = command;
    let limits = &cx.host.limits;
    let confinement = sandbox::confinement(cx).await?;
    let terminals = &cx.host.terminals;
    check_in_place(cx, directory).await?;
    let running = terminals.start(line, directory, &cx.variables, confinement.as_ref());
    let mut running = running.map_err(|err| not_started(&err, confinement.as_ref()))?;
    let mut output = OutputBuffer::new(limits.shell_bytes);
    let network = confinement.as_ref().and_then(Confinement::network);
    let is_asking = || network.is_some_and(|network| network.is_pending());
    let end = follow(&mut running, &mut output, time, cx, is_asking).await;
    // A model that is told of no tool for commands in the background could neither read nor end the command there.
    let has_background = !cx.audience.has_short_set;
    if let (CommandEnd::OutOfTime, true) = (&end, has_background) {
        let started =
            StartedCommand { command: place(line, directory, cx), running, written: output };
        return runs_on(started, time, confinement.as_ref(), cx).await;
    }
    if !matches!(end, CommandEnd::Exited(_)) {
        // The command is ended before the search for protected files that it made: it must not make more of them
        // afterwards.
        running.end().await;
    }
    let written = output.text();
    let notes = notes(&command, &written, confinement.as_ref(), cx).await;
    match end {
        CommandEnd::Exited(exit) => {
            let failed = exit.code.is_some_and(|code| code != 0);
            let failure = confinement.as_ref().filter(|_| failed).and_then(Confinement::failure);
            match (running.exceeded_memory(), failure) {
                (Some(why), _) => Err(exceeded(&why, &written)),
                (None, Some(why)) => Err(sandbox::failed(&why)),
                (None, None) => report(&exit, &written, &notes, Some(&running), limits),
            }
        }
        CommandEnd::Silent => Err(silent(&written, limits)),
        CommandEnd::OutOfTime => Err(out_of_time(time, NO_BACKGROUND_TOOLS, &written)),
        CommandEnd::Cancelled => Err(ToolError::cancelled()),
    }
}

/// Moves protected files that a command has made out of the workspace. Returns notes on the sandbox for the model.
async fn notes(
    &CommandLine { line, directory, .. }: &CommandLine<'_>,
    written: &str,
    confinement: Option<&Confinement>,
    cx: &ToolContext,
) -> SandboxNotes {
    match (confinement, &cx.host.sandbox) {
        (Some(confinement), Some(sandbox)) => {
            let taken = sandbox.take_back(confinement).await;
            let (texts, is_attended) = ([line, written], cx.audience.is_attended);
            SandboxNotes::new(&taken, written, directory, confinement, cx)
                .await
                .about_hidden(&confinement.hidden_in_workspace(), texts, is_attended)
                .about_home(confinement.profile(), texts, is_attended)
                .about_sockets(confinement.profile(), texts)
        }
        (None, Some(sandbox)) => {
            // The command ran without a sandbox and may have made repositories. Their files have to be protected from
            // later commands.
            sandbox.search_again();
            SandboxNotes::default()
        }
        _ => SandboxNotes::default(),
    }
}

/// Moves a command whose time is over to the background, or ends it if the background takes no more commands.
async fn runs_on(
    started: StartedCommand<'_>,
    time: Option<Duration>,
    confinement: Option<&Confinement>,
    cx: &ToolContext,
) -> Result<ToolOutput, ToolError> {
    let written = started.written.text();
    let look = sandbox::look_at_end(cx, started.command.line, confinement);
    let end = JobEnd { look, tell: Arc::clone(&cx.background_ended) };
    let job = match cx.host.background.adopt(started, end) {
        Ok(job) => job,
        Err(NotAdopted { mut running, why }) => {
            running.end().await;
            return Err(out_of_time(time, &why.to_string(), &written));
        }
    };
    let written = if written.trim().is_empty() { "(empty)" } else { written.trim_end() };
    let text = format!(
        "The command has not ended within {} and runs on in the background as PID {}. \
         read_background_output reads what it writes from now on, stop_background_command ends it; you are told when it \
         ends.\nOutput so far: {written}",
        in_words(time),
        job.pid
    );
    let shown = shorten(&text, cx.host.limits.output_chars).into_owned();
    Ok(ToolOutput { text, media: Vec::new(), shown: Some(ResultContent::Output(shown)) })
}

/// Returns the place of a command that goes to the background.
fn place<'a>(line: &'a str, directory: &'a Path, cx: &ToolContext) -> CommandPlace<'a> {
    let sees_secrets = !cx.shown.secrets.is_empty();
    CommandPlace { line, directory, sandbox: cx.sandbox, sees_secrets }
}

/// Returns a time in seconds or, below one second, in milliseconds.
fn in_words(time: Option<Duration>) -> String {
    let time = time.unwrap_or_default();
    match time.as_secs() {
        0 => format!("{} ms", time.as_millis()),
        seconds => format!("{seconds} s"),
    }
}

/// Returns the error of a command that was ended because its time was over and it could not go to the background.
/// `why`: the reason why it could not.
fn out_of_time(time: Option<Duration>, why: &str, written: &str) -> ToolError {
    let message = format!(
        "The command was ended after {}: {why}. Give it a longer `timeout`.\nOutput: {written}",
        in_words(time)
    );
    ToolError::new("shell_timeout", message)
}

/// Checks that the directory is still the directory that the user was asked about. A link in its path may have
/// appeared since, and the command would start where the link leads.
async fn check_in_place(cx: &ToolContext, directory: &Path) -> Result<(), ToolError> {
    let (host, directory) = (Arc::clone(&cx.host), directory.to_owned());
    off_thread(move || host.workspace.check_in_place(&directory)).await
}

/// Returns the error of a command that was ended because it exceeded a limit.
fn exceeded(why: &str, written: &str) -> ToolError {
    ToolError::new("shell_limit", format!("{why}\nOutput: {written}"))
}

/// Returns the error of a command that was ended because it wrote nothing.
fn silent(written: &str, limits: &ToolLimits) -> ToolError {
    let seconds = limits.shell_idle.as_secs();
    let message = format!(
        "The command was ended because it wrote nothing for {seconds} s.\nOutput: {written}"
    );
    ToolError::new("shell_idle", message)
}

/// Starts a command in the background, waits for its first output, and reports it.
async fn leave_running(
    command: BackgroundLine<'_>,
    cx: &ToolContext,
) -> Result<ToolOutput, ToolError> {
    let BackgroundLine { line, directory, delay, takes_input } = command;
    let _timer = cx.host.commands.start();
    let confinement = sandbox::confinement(cx).await?;
    let terminals = &cx.host.terminals;
    check_in_place(cx, directory).await?;
    let start = || {
        let (variables, confinement) = (&cx.variables, confinement.as_ref());
        if takes_input {
            terminals.start_with_input(line, directory, variables, confinement)
        } else {
            terminals.start(line, directory, variables, confinement)
        }
    };
    let look = sandbox::look_at_end(cx, line, confinement.as_ref());
    let end = JobEnd { look, tell: Arc::clone(&cx.background_ended) };
    let started = cx.host.background.start(place(line, directory, cx), start, end);
    let job = started.map_err(|err| not_started(&err, confinement.as_ref()))?;
    let Some(state) = cx.cancel.run_until_cancelled(job.settle(delay)).await else {
        job.stop().await;
        return Err(ToolError::cancelled());
    };
    let output = job.new_output();
    let output = if output.trim().is_empty() { "(empty)" } else { output.trim_end() };
    let mut text = format!("In the background: PID {} {state}.\nOutput: {output}", job.pid);
    let network = confinement.as_ref().and_then(Confinement::network);
    text.extend(network.and_then(|network| sandbox::hosts(network, output)));
    match state {
        JobState::Ended(Some(status)) if status.code().is_some_and(|code| code != 0) => {
            let failure = confinement.as_ref().and_then(Confinement::failure);
            let exit = || ToolError { status: status.code(), ..ToolError::new("shell_exit", text) };
            Err(failure.map_or_else(exit, |why| sandbox::failed(&why)))
        }
        JobState::Ended(Some(status)) if !status.success() => {
            Err(ToolError::new("shell_exit", text))
        }
        _ => Ok(ToolOutput {
            shown: Some(ResultContent::Output(text.clone())),
            text,
            media: Vec::new(),
        }),
    }
}

fn not_started(err: &io::Error, confinement: Option<&Confinement>) -> ToolError {
    if confinement.is_some() {
        return sandbox::failed(&err.to_string());
    }
    ToolError::new("shell_execute_error", format!("The command could not be started: {err}"))
}

/// Reads the output until the command has ended or its time is over, and shows the output as it grows.
///
/// While `is_asking`, the command waits for the decision of a person: neither silence nor the end of its time ends the
/// wait.
async fn follow(
    running: &mut RunningCommand,
    output: &mut OutputBuffer,
    time: Option<Duration>,
    cx: &ToolContext,
    is_asking: impl Fn() -> bool,
) -> CommandEnd {
    let mut buffer = vec![0; 64 * 1024];
    let mut idle = Instant::now() + cx.host.limits.shell_idle;
    let mut deadline = time.map(|time| Instant::now() + time);
    let mut show = None;
    let mut exited: Option<(Option<ExitStatus>, Instant)> = None;
    let mut open = true;
    loop {
        if let (Some((status, _)), false) = (&exited, open) {
            return CommandEnd::Exited((*status).into());
        }
        let drained = exited.as_ref().map_or(idle, |(_, until)| *until);
        tokio::select! {
            // The cancel comes first, so that a command that writes without pause can still be cancelled.
            biased;
            () = cx.cancel.cancelled() => return CommandEnd::Cancelled,
            read = running.output.read(&mut buffer), if open => match read {
                Ok(0) | Err(_) => open = false,
                Ok(n) => {
                    output.push(&buffer[..n]);
                    idle = Instant::now() + cx.host.limits.shell_idle;
                    show.get_or_insert_with(|| Instant::now() + SHOW_EVERY);
                }
            },
            status = running.exit.wait(), if exited.is_none() => {
                exited = Some((status, Instant::now() + DRAIN_TIME));
            }
            () = sleep_until(show.unwrap_or(idle)), if show.is_some() => {
                show = None;
                (cx.progress)(output.live());
            }
            () = sleep_until(deadline.unwrap_or(idle)), if deadline.is_some() && exited.is_none() => {
                if !is_asking() {
                    return CommandEnd::OutOfTime;
                }
                deadline = Some(Instant::now() + ASKING_RECHECK);
            }
            // `drained` is the end of the wait for further output if the command has exited, else the time at which it
            // counts as silent.
            () = sleep_until(drained) => match exited {
                Some((status, _)) => return CommandEnd::Exited(status.into()),
                None if is_asking() => idle = Instant::now() + cx.host.limits.shell_idle,
                None => return CommandEnd::Silent,
            },
        }
    }
}

/// Returns the report on a command that has ended, for the model and for people.
fn report(
    CommandExit { code, signal }: &CommandExit,
    written: &str,
    notes: &SandboxNotes,
    running: Option<&RunningCommand>,
    limits: &ToolLimits,
) -> Result<ToolOutput, ToolError> {
    let mut text = if written.is_empty() {
        "Output: (empty)".to_owned()
    } else {
        format!("Output: {}", written.trim_end())
    };
    let mut ended = String::new();
    if let Some(code) = code.filter(|code| *code != 0) {
        text.push_str(&format!("\nExit Code: {code}"));
        ended = format!("Command exited with code: {code}");
    } else if let Some(signal) = signal {
        text.push_str(&format!("\nSignal: {signal}"));
        ended = format!("Command ended by signal: {signal}");
    }
    let left = running.map(|running| (running.group, running.left_behind()));
    if let Some((group, left)) = left.filter(|(_, left)| !left.is_empty()) {
        let left: Vec<_> = left.iter().map(ToString::to_string).collect();
        text.push_str(&format!(
            "\nBackground PIDs: {}\nProcess Group PGID: {group}",
            left.join(", ")
        ));
    }
    if !ended.is_empty() {
        text.extend(notes.blocked.as_deref());
        text.extend(notes.limits.as_deref());
        text.extend(notes.home.as_deref());
        text.extend(notes.sockets.as_deref());
    }
    text.extend(notes.hosts.as_deref());
    text.extend(notes.taken.as_deref());
    text.extend(notes.hidden.as_deref());
    let shown = match (written.trim().is_empty(), ended.is_empty()) {
        (false, _) => {
            let output = shorten(written, limits.output_chars);
            Some(ResultContent::Output(format!("{}\n{ended}", output.trim_end())))
        }
        (true, false) => Some(ResultContent::Markdown(ended.clone())),
        (true, true) => None,
    };
    if ended.is_empty() {
        return Ok(ToolOutput { text, media: Vec::new(), shown });
    }
    let status = code.and_then(|code| i32::try_from(code).ok());
    Err(ToolError { shown, status, ..ToolError::new("shell_exit", text) })
}
