//! `write_file`: writes the whole content of a file, new or not.

use async_trait::async_trait;
use serde::Deserialize;
use serde_json::{Value, json};

use super::blocking::{blocking, stoppable};
use super::change::{Original, Proposal, created, failing};
use super::omission;
use tandem_host::{
    Access, Invocation, Summary, Tool, ToolAudience, ToolContext, ToolError, ToolKind, ToolOutput,
    ToolSpec, parse, text,
};

/// The tool `write_file`.
pub(super) struct WriteFile;

/// Addition to the description where a user can edit the content.
const EDITED_CONTENT: &str = " The user may edit the content before it is written; you are told.";

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WriteArgs {
    file_path: String,
    content: String,
}

#[async_trait]
impl Tool for WriteFile {
    fn spec(&self) -> ToolSpec {
        self.spec_for(ToolAudience::default())
    }

    fn spec_for(&self, audience: ToolAudience) -> ToolSpec {
        let edit =
            audience.edit_tool.map(|tool| format!("To change a part of a file, use `{tool}`. "));
        let edit = edit.unwrap_or_default();
        let edited = if audience.is_attended { EDITED_CONTENT } else { "" };
        ToolSpec {
            name: "write_file".to_owned(),
            aliases: &[],
            description: format!(
                "Creates a file, or overwrites all that is in it; directories on the way are made. Give the whole \
                 content: a placeholder for parts left out is refused. {edit}Read \
                 a file that exists before you overwrite it. The encoding and the line endings of a file that exists \
                 are kept.{edited}"
            ),
            parameters: json!({
                "type": "object",
                "properties": {
                    "file_path": {
                        "type": "string",
                        "description": "The file: relative to the workspace, or absolute.",
                    },
                    "content": {
                        "type": "string",
                        "description": "All that shall be in the file.",
                    },
                },
                "required": ["file_path", "content"],
            }),
            kind: ToolKind::Edit,
        }
    }

    async fn prepare(&self, args: Value, cx: &ToolContext) -> Result<Invocation, ToolError> {
        let args: WriteArgs = parse(args)?;
        stoppable(cx, prepare(args, cx)).await
    }
}

async fn prepare(args: WriteArgs, cx: &ToolContext) -> Result<Invocation, ToolError> {
    let label = |path: &str| format!("Write {path}");
    let path = match cx.host.resolve(&args.file_path).await {
        Ok(path) => path,
        Err(error) => return Ok(failing(label(&args.file_path), None, error)),
    };
    let relative = cx.host.workspace.relative(&path);
    let summary = Summary::new(label(&relative)).at(&path, None);
    let original = match Original::read(&path, cx).await {
        Ok(original) => original,
        Err(error) => return Ok(Invocation::failing(summary, error)),
    };
    let invocation = move |cx: &ToolContext| match propose(&args, original, &relative, cx) {
        Ok(Some(proposal)) => proposal.into_invocation(summary, &cx.host.limits),
        Ok(None) => {
            let said = format!("{relative} has exactly this content already; nothing to do.");
            let output = ToolOutput::new(said.clone(), said);
            Invocation::new(summary, Access::Read, |_| std::future::ready(Ok(output)))
        }
        Err(error) => Invocation::failing(summary, error),
    };
    blocking(cx, |cx| Ok(invocation(cx))).await
}

/// Returns the proposed change; `None` if the file has this content already.
fn propose(
    args: &WriteArgs,
    original: Original,
    relative: &str,
    cx: &ToolContext,
) -> Result<Option<Proposal>, ToolError> {
    omission::check(&original.text, &args.content)?;
    let new = text::like(&original.text, &args.content);
    if !original.is_new() && *new == *original.text {
        return Ok(None);
    }
    original.check_seen(relative, cx)?;
    let done =
        if original.is_new() { created(relative, &new) } else { format!("Wrote {relative}.") };
    Ok(Some(Proposal { original, new: new.into(), done }))
}
