//! `/shells`: commands that run in the background.

use std::sync::Arc;

use super::registry::{Argument, Command, CommandRequest};
use crate::session::CommandReply;
use tandem_host::background::Job;

/// Number of lines that are shown of a background command's output.
const SHOWN_OUTPUT_LINES: usize = 100;

const PID_ARGUMENT: Argument =
    Argument { name: "pid", description: "the process, as `/shells` has it", is_required: false };

pub(super) const COMMAND: Command = Command {
    name: "shells",
    description: "the commands that run in the background, or the output of one",
    arguments: &[PID_ARGUMENT],
    sub_commands: &[Command {
        name: "stop",
        description: "stop a background command and all processes that it started",
        arguments: &[Argument { is_required: true, ..PID_ARGUMENT }],
        run: Some(|request| Box::pin(async move { stop(&request).await })),
        ..Command::BLANK_COMMAND
    }],
    run: Some(|request| {
        Box::pin(async move {
            match request.args {
                "" => Ok(CommandReply::Say(list(&request))),
                _ => find(&request).map(|job| CommandReply::Say(output(&job))),
            }
        })
    }),
    ..Command::BLANK_COMMAND
};

fn list(request: &CommandRequest<'_>) -> String {
    let turn = request.turn;
    let line = |job: Arc<Job>| {
        let directory = turn.engine.host.workspace.relative(&job.directory);
        format!("- {} {}, in `{directory}`: {}\n", job.pid, job.state(), code(&job.command))
    };
    let lines: String = turn.engine.host.background.jobs().into_iter().map(line).collect();
    if lines.is_empty() {
        return "No command has been started in the background.".to_owned();
    }
    format!(
        "`/shells PID` shows the output of a command, `/shells stop PID` ends the command. All of these commands \
         end with the session.\n\n{lines}"
    )
}

fn find(request: &CommandRequest<'_>) -> Result<Arc<Job>, String> {
    let pid = request.args.parse().ok();
    let job = pid.and_then(|pid| request.turn.engine.host.background.find(pid));
    job.ok_or_else(|| {
        format!("Unknown background command `{}`. `/shells` lists them.", request.args)
    })
}

fn output(job: &Job) -> String {
    let state = format!("{} {}: {}", job.pid, job.state(), code(&job.command));
    let written = job.output(SHOWN_OUTPUT_LINES);
    if written.trim().is_empty() {
        return format!("{state}\n\nThe command has written nothing.");
    }
    // The lines are indented as a block of code, because the output itself could close a fence.
    let lines = written.trim_end().lines().map(|line| format!("    {line}\n"));
    format!("{state}\n\n{}", lines.collect::<String>())
}

async fn stop(request: &CommandRequest<'_>) -> Result<CommandReply, String> {
    let job = find(request)?;
    job.stop().await;
    Ok(CommandReply::Say(format!("{} {}.", job.pid, job.state())))
}

/// Returns the first line of a command line, as inline code.
fn code(command: &str) -> String {
    let mut lines = command.trim().lines();
    let first = lines.next().unwrap_or_default().replace('`', "'");
    let more = if lines.next().is_some() { " …" } else { "" };
    format!("`{first}{more}`")
}
