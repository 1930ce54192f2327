//! `stop_background_command`: ends a command in the background.

use std::sync::Arc;

use async_trait::async_trait;
use serde::Deserialize;
use serde_json::{Value, json};

use tandem_content::shorten::one_line;
use tandem_host::background::{Job, JobState};
use tandem_host::{
    Access, Invocation, Summary, Tool, ToolContext, ToolError, ToolKind, ToolOutput, ToolSpec,
    args, parse,
};

/// Maximum length of the command in a label, in characters.
const LABEL_CHARS: usize = 80;

/// The tool `stop_background_command`.
pub(super) struct StopBackgroundCommand;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct StopBackgroundArgs {
    #[serde(deserialize_with = "args::number")]
    pid: Option<usize>,
}

#[async_trait]
impl Tool for StopBackgroundCommand {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: "stop_background_command".to_owned(),
            aliases: &[],
            description: "Ends a command in the background, with all that it has started, in the \
                sandbox or outside."
                .to_owned(),
            parameters: json!({
                "type": "object",
                "properties": {
                    "pid": {
                        "type": "integer",
                        "description": "Its PID, as run_shell_command and \
                            list_background_processes say it.",
                    },
                },
                "required": ["pid"],
            }),
            kind: ToolKind::Other,
        }
    }

    async fn prepare(&self, args: Value, cx: &ToolContext) -> Result<Invocation, ToolError> {
        let args: StopBackgroundArgs = parse(args)?;
        let pid = args.pid.ok_or_else(|| ToolError::invalid_args("`pid`: is missing"))?;
        let job = match cx.host.background.find_newest(pid) {
            Ok(job) => job,
            Err(error) => {
                let summary = Summary::new(format!("Stop PID {pid}"));
                return Ok(Invocation::failing(summary, error));
            }
        };
        let command = one_line(&job.command, LABEL_CHARS);
        let summary = Summary::new(format!("Stop PID {pid}: {command}"));
        // No permission is needed: the command belongs to the session, and would end with it anyway.
        Ok(Invocation::new(summary, Access::Nothing, move |_| async move { Ok(stop(&job).await) }))
    }
}

async fn stop(job: &Arc<Job>) -> ToolOutput {
    let already = if matches!(job.state(), JobState::Running(_)) { "" } else { " already" };
    job.stop_unannounced().await;
    let text = format!("PID {} {}{already}.", job.pid, job.state());
    ToolOutput::new(text.clone(), text)
}
