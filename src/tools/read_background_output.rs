//! `read_background_output`: reads the output of a background command.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::time::sleep;

use tandem_host::background::Job;
use tandem_host::{
    Access, Invocation, ResultContent, Summary, Tool, ToolContext, ToolError, ToolKind, ToolOutput,
    ToolSpec, args, parse,
};

/// Default number of lines to read.
const DEFAULT_LINES: usize = 100;

/// Maximum wait before reading.
const MAX_WAIT: Duration = Duration::from_mins(5);

/// The tool `read_background_output`.
pub(super) struct ReadBackgroundOutput;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ReadBackgroundArgs {
    #[serde(deserialize_with = "args::number")]
    pid: Option<usize>,
    #[serde(default, deserialize_with = "args::number")]
    lines: Option<usize>,
    #[serde(default, deserialize_with = "args::number")]
    delay_ms: Option<usize>,
}

#[async_trait]
impl Tool for ReadBackgroundOutput {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: "read_background_output".to_owned(),
            aliases: &[],
            description: "Reads the last lines that a command in the background has written, and \
                says whether it still runs."
                .to_owned(),
            parameters: json!({
                "type": "object",
                "properties": {
                    "pid": {
                        "type": "integer",
                        "description": "Its PID, as run_shell_command and \
                            list_background_processes say it.",
                    },
                    "lines": {
                        "type": "integer",
                        "description": "How many lines, from the end. Default: 100.",
                    },
                    "delay_ms": {
                        "type": "integer",
                        "description": "Milliseconds to wait before reading, at most five minutes. \
                            It is read at once when the command ends. Default: 0.",
                    },
                },
                "required": ["pid"],
            }),
            kind: ToolKind::Read,
        }
    }

    async fn prepare(&self, args: Value, cx: &ToolContext) -> Result<Invocation, ToolError> {
        let args: ReadBackgroundArgs = parse(args)?;
        let pid = args.pid.ok_or_else(|| ToolError::invalid_args("`pid`: is missing"))?;
        let summary =
            Summary::new(format!("Read the output of the command in the background, PID {pid}"));
        let job = match cx.host.background.find_newest(pid) {
            Ok(job) => job,
            Err(error) => return Ok(Invocation::failing(summary, error)),
        };
        let delay = Duration::from_millis(args.delay_ms.unwrap_or(0) as u64).min(MAX_WAIT);
        let lines = args.lines.unwrap_or(DEFAULT_LINES);
        Ok(Invocation::new(summary, Access::Nothing, move |cx| async move {
            read(&job, lines, delay, &cx).await
        }))
    }
}

async fn read(
    job: &Arc<Job>,
    lines: usize,
    delay: Duration,
    cx: &ToolContext,
) -> Result<ToolOutput, ToolError> {
    tokio::select! {
        () = cx.cancel.cancelled() => return Err(ToolError::cancelled()),
        () = job.wait() => {}
        () = sleep(delay) => {}
    }
    let output = job.output(lines);
    let state = format!("PID {} {}.", job.pid, job.state());
    if output.trim().is_empty() {
        return Ok(ToolOutput::new(format!("{state}\nOutput: (empty)"), state));
    }
    let output = output.trim_end();
    Ok(ToolOutput {
        text: format!("{state}\nOutput: {output}"),
        shown: Some(ResultContent::Output(format!("{output}\n{state}"))),
        ..ToolOutput::default()
    })
}
