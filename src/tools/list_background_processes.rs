//! `list_background_processes`: lists the commands that were started in the background.

use async_trait::async_trait;
use serde_json::{Value, json};

use tandem_host::background::InputState;
use tandem_host::{
    Access, Invocation, Summary, Tool, ToolContext, ToolError, ToolKind, ToolOutput, ToolSpec,
};

/// The tool `list_background_processes`.
pub(super) struct ListBackgroundProcesses;

#[async_trait]
impl Tool for ListBackgroundProcesses {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: "list_background_processes".to_owned(),
            aliases: &[],
            description: "Lists the commands in the background, and says which run, which take \
                input, and how the others ended."
                .to_owned(),
            parameters: json!({ "type": "object", "properties": {} }),
            kind: ToolKind::Read,
        }
    }

    async fn prepare(&self, _: Value, _: &ToolContext) -> Result<Invocation, ToolError> {
        let summary = Summary::new("List the commands in the background");
        Ok(Invocation::new(summary, Access::Nothing, |cx| async move { Ok(list(&cx).await) }))
    }
}

async fn list(cx: &ToolContext) -> ToolOutput {
    let jobs = cx.host.background.jobs();
    if jobs.is_empty() {
        let none = "No command has been started in the background.";
        return ToolOutput::new(none, none);
    }
    let mut lines = String::new();
    for job in jobs {
        let directory = cx.host.workspace.relative(&job.directory);
        let is_open = job.input.state().await == InputState::Open;
        let input = if is_open { ", takes input" } else { "" };
        let (pid, state, command) = (job.pid, job.state(), &job.command);
        lines.push_str(&format!("PID {pid} {state}{input}, in {directory}: {command}\n"));
    }
    ToolOutput {
        text: lines.clone(),
        shown: Some(tandem_host::ResultContent::Output(lines)),
        ..ToolOutput::default()
    }
}
