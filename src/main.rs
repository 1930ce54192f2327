//! Entry point: reads the command line, starts the log, runs what the user asked for, and returns the exit code.

mod cli;
mod logging;
mod record;
mod run;

use std::io::{IsTerminal as _, Write as _, stderr, stdin, stdout};
use std::process::ExitCode;

use tandem_content::visible::visible;
use tandem_trace::Traces;
use tokio::runtime::{Builder, Runtime};

#[cfg(feature = "serve")]
use crate::cli::ServeCommand;
use crate::cli::{Cli, Command};
use crate::logging::{LogOptions, Logs};
use crate::run::{BAD_INPUT, ExitReason};

fn main() -> ExitCode {
    // Must run first, while the process has one thread: a process that was started as the sandbox's helper becomes the
    // command here.
    tandem_sandbox::helper();
    run::keep_others_out();
    let cli = match cli::parse() {
        Ok(cli) => cli,
        Err(err) => {
            // `print` writes help to standard output and errors to standard error.
            let _ = err.print();
            let wrong = err.use_stderr() && cli::wants_prompt();
            return exit_code(if wrong { BAD_INPUT } else { err.exit_code() });
        }
    };
    match start(&cli) {
        Ok(ExitReason::Done) => ExitCode::SUCCESS,
        Ok(ExitReason::TimedOut | ExitReason::Unread) => ExitCode::FAILURE,
        Ok(ExitReason::Signal(signal)) => exit_code(128 + signal),
        Ok(ExitReason::Failed(code)) => exit_code(code),
        Err(err) => {
            say(&format!("tandem: {err:#}"));
            let asked = cli.command.is_some() || cli.agent.first_prompt().is_some();
            exit_code(if asked { 1 } else { 2 })
        }
    }
}

fn start(cli: &Cli) -> anyhow::Result<ExitReason> {
    let alone = cli.command.is_none() && !cli.agent.acp && !cli.agent.one_prompt();
    let person = alone || matches!(cli.command, Some(Command::Attach(_)));
    let terminal = person && stdin().is_terminal() && stdout().is_terminal();
    let traces = match threads(cli) {
        Some(_) => Traces::begin("tandem", env!("CARGO_PKG_VERSION"))?,
        None => None,
    };
    let _logs = logs(cli, terminal, traces.as_ref())?;
    // Variables are dropped in reverse order: the last traces are sent after everything else has ended, and before the
    // log ends, because a failure to send them is logged.
    let _traces = traces;
    let runtime = runtime(cli)?;
    runtime.block_on(async { run::outlive_size_limit() });
    if let Some(command) = &cli.command {
        return subcommand(command, runtime, terminal);
    }
    if cli.agent.prompt_interactive.is_some() && !terminal {
        say("tandem: -i needs a terminal, and standard input or output is not one; use -p");
        return Ok(ExitReason::Failed(BAD_INPUT));
    }
    if let Some(prompt) = cli.agent.first_prompt().filter(|_| !terminal) {
        let end = runtime.block_on(run::headless(&cli.agent, &prompt));
        // A thread may still block on reading or writing. A plain drop of the runtime would wait for it.
        runtime.shutdown_background();
        return end;
    }
    if terminal {
        let end = runtime.block_on(run::terminal(&cli.agent));
        runtime.shutdown_background();
        return end;
    }
    if !cli.agent.acp && stdin().is_terminal() {
        anyhow::bail!(
            "standard output is not a terminal, so the conversation cannot be shown: `tandem -p PROMPT` runs one \
             prompt, and `tandem --help` lists other ways to start"
        );
    }
    let end = runtime.block_on(run::editor(&cli.agent));
    // A thread may still wait for standard input. A plain drop of the runtime would wait for this thread.
    runtime.shutdown_background();
    end
}

/// Makes the async runtime. A server's runtime has several threads, for the sessions of many clients. Any other
/// runtime has one thread, which starts fastest and needs the least memory.
fn runtime(cli: &Cli) -> std::io::Result<Runtime> {
    let mut builder = match threads(cli).unwrap_or(1) {
        1 => Builder::new_current_thread(),
        threads => {
            let mut builder = Builder::new_multi_thread();
            builder.worker_threads(threads);
            builder
        }
    };
    builder.enable_all().build()
}

/// Returns the number of threads of a server of sessions; `None` if no sessions are to be served.
#[cfg(feature = "serve")]
fn threads(cli: &Cli) -> Option<usize> {
    cli.served().map(cli::ServeArgs::threads)
}

/// Returns `None`, as no sessions are served without the feature `serve`.
#[cfg(not(feature = "serve"))]
fn threads(_: &Cli) -> Option<usize> {
    None
}

/// Runs a subcommand. `terminal` is `true` if a person uses the program in a terminal.
fn subcommand(command: &Command, runtime: Runtime, terminal: bool) -> anyhow::Result<ExitReason> {
    match command {
        Command::Login { provider } => {
            runtime.block_on(run::login(provider)).map(|()| ExitReason::Done)
        }
        Command::Logout { provider } => run::logout(provider).map(|()| ExitReason::Done),
        #[cfg(feature = "serve")]
        Command::Serve(serve) => match &serve.command {
            Some(ServeCommand::Token(token)) => run::tokens(token).map(|()| ExitReason::Done),
            Some(ServeCommand::Check(serve)) => runtime.block_on(run::check(serve)),
            None => runtime.block_on(run::serve(&serve.serve)),
        },
        Command::Attach(attach) => {
            anyhow::ensure!(
                terminal,
                "`tandem attach` needs a terminal, and standard input or output is not one"
            );
            let end = runtime.block_on(run::attach(attach));
            runtime.shutdown_background();
            end
        }
        Command::Replay(replay) => runtime.block_on(run::replay(replay)),
        Command::Sessions(sessions) => {
            let done = runtime.block_on(run::sessions(sessions));
            done.map(|()| ExitReason::Done)
        }
        Command::Sandbox(sandbox) => runtime.block_on(run::sandbox(sandbox)),
        Command::Completions { shell } => run::completions(*shell).map(|()| ExitReason::Done),
        Command::Manual { directory } => run::manual(directory).map(|()| ExitReason::Done),
        Command::Models(models) => runtime.block_on(run::models(models)).map(|()| ExitReason::Done),
        Command::Config(config) => run::config(config).map(|()| ExitReason::Done),
    }
}

/// Starts the log. If the screen of the terminal would be the log's output, logs to a file instead with `--debug`, and
/// nothing without it: log lines would destroy the picture on the screen.
fn logs(cli: &Cli, terminal: bool, traces: Option<&Traces>) -> anyhow::Result<Logs> {
    let default = terminal && cli.log_file.is_none() && stderr().is_terminal();
    if default && !cli.debug {
        return Ok(logging::none());
    }
    let file = if default { Some(run::debug_log()?) } else { cli.log_file.clone() };
    if let Some(file) = file.as_deref().filter(|_| default) {
        say(&format!("tandem: logs go to {}", file.display()));
    }
    let (file, debug, format) = (file.as_deref(), cli.debug, cli.log_format);
    logging::start(&LogOptions { file, debug, format, traces })
}

fn exit_code(code: i32) -> ExitCode {
    ExitCode::from(u8::try_from(code).unwrap_or(1))
}

fn say(line: &str) {
    // The line may contain text of another program, so control characters are made visible. If standard error is
    // closed there is nobody to tell.
    let _ = writeln!(stderr(), "{}", visible(line));
}
