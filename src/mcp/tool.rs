//! A server's tool in the form in which the model can call it.

use std::sync::Arc;

use async_trait::async_trait;
use rmcp::model::{
    CallToolRequest, CallToolRequestParams, CallToolResult, ClientRequest, ServerResult,
};
use serde_json::{Map, Value};

use super::connection::{RequestError, RequestOptions};
use super::offer::ServerTool;
use super::result::CollectedContent;
use super::server::ServerHandle;
use tandem_content::shorten::one_line;
use tandem_content::visible::visible_line;
use tandem_host::{
    Access, Invocation, Summary, Tool, ToolContext, ToolError, ToolKind, ToolLimits, ToolOutput,
    ToolSpec,
};

/// Maximum number of characters of a name, and of the line that describes a call.
const MAX_NAME_CHARS: usize = 100;
const MAX_LABEL_CHARS: usize = 160;

/// A tool of a server.
pub(super) struct McpTool {
    /// Name by which the model calls the tool.
    pub(super) name: String,
    pub(super) server: Arc<ServerHandle>,
    pub(super) tool: ServerTool,
}

#[async_trait]
impl Tool for McpTool {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: self.name.clone(),
            aliases: &[],
            description: self.tool.description.clone(),
            parameters: self.tool.parameters.clone(),
            kind: ToolKind::Other,
        }
    }

    fn access(&self) -> Option<Access> {
        Some(self.access())
    }

    async fn prepare(&self, args: Value, _: &ToolContext) -> Result<Invocation, ToolError> {
        let args = match args {
            Value::Object(args) => args,
            Value::Null => Map::new(),
            _ => return Err(ToolError::invalid_args("The arguments must be an object.")),
        };
        let server = one_line(&self.server.config.name, MAX_NAME_CHARS);
        let tool = one_line(&self.tool.name, MAX_NAME_CHARS);
        let access = self.access();
        let shown = if args.is_empty() { String::new() } else { format!(" {}", brief(&args)) };
        let label = format!("Call {tool} ({server}){shown}");
        let label = one_line(&visible_line(&label), MAX_LABEL_CHARS);
        let (server, name) = (Arc::clone(&self.server), self.tool.name.clone());
        Ok(Invocation::new(Summary::new(label), access, |cx| async move {
            call(&server, name, args, &cx).await
        }))
    }
}

impl McpTool {
    /// Returns the access that every call needs, for people and the policy.
    fn access(&self) -> Access {
        Access::Mcp {
            server: one_line(&self.server.config.name, MAX_NAME_CHARS),
            tool: one_line(&self.tool.name, MAX_NAME_CHARS),
            display_name: self.tool.title.clone(),
            hints: self.tool.hints,
        }
    }
}

/// Returns the arguments as JSON, with long values shortened or left out.
fn brief(args: &Map<String, Value>) -> String {
    let short = |value: &Value| match value {
        Value::String(text) if text.len() > MAX_LABEL_CHARS => {
            Value::String(one_line(text, MAX_LABEL_CHARS))
        }
        Value::Array(_) | Value::Object(_) => {
            let text = value.to_string();
            if text.len() > MAX_LABEL_CHARS {
                Value::String("…".to_owned())
            } else {
                value.clone()
            }
        }
        other => other.clone(),
    };
    let args: Map<_, _> = args.iter().map(|(name, value)| (name.clone(), short(value))).collect();
    Value::Object(args).to_string()
}

async fn call(
    server: &ServerHandle,
    name: String,
    args: Map<String, Value>,
    cx: &ToolContext,
) -> Result<ToolOutput, ToolError> {
    let down = |why| ToolError::new("mcp_server_down", why);
    let connection = server.connection(&cx.cancel).await.map_err(down)?;
    let params = CallToolRequestParams::new(name).with_arguments(args);
    let request = ClientRequest::CallToolRequest(CallToolRequest::new(params));
    let wanted = RequestOptions { cancel: cx.cancel.clone(), show: Arc::clone(&cx.progress) };
    let answer = connection.ask(request, wanted).await;
    match answer.map_err(|failure| failed(server, failure))? {
        ServerResult::CallToolResult(result) => output(server, result, &cx.host.limits),
        ServerResult::InputRequiredResult(_) => {
            Err(odd(server, "asks for more input, which is not supported"))
        }
        ServerResult::CreateTaskResult(_) => {
            Err(odd(server, "began a task, which is not supported"))
        }
        _ => Err(odd(server, "returned an invalid answer")),
    }
}

/// Returns the error for the model about a failed request.
pub(super) fn failed(server: &ServerHandle, failure: RequestError) -> ToolError {
    let name = &server.config.name;
    match failure {
        RequestError::Cancelled => ToolError::cancelled(),
        RequestError::Gone => ToolError::new(
            "mcp_server_down",
            format!(
                "The MCP server `{name}` ended before it answered. It is being restarted; the \
                 call may have taken effect in part."
            ),
        ),
        RequestError::Login => ToolError::new(
            "mcp_server_down",
            format!(
                "The MCP server `{name}` requires the user to log in again: `/mcp auth {name}`."
            ),
        ),
        RequestError::Other(why) => {
            let why = server.config.concealed(&why);
            ToolError::new("mcp_tool_error", format!("The MCP server `{name}`: {why}."))
        }
    }
}

fn odd(server: &ServerHandle, what: &str) -> ToolError {
    let name = &server.config.name;
    ToolError::new("mcp_tool_error", format!("The MCP server `{name}` {what}."))
}

fn output(
    server: &ServerHandle,
    result: CallToolResult,
    limits: &ToolLimits,
) -> Result<ToolOutput, ToolError> {
    let failed = result.is_error == Some(true);
    let gathered =
        CollectedContent::from_blocks(result.content).with_structured(result.structured_content);
    let text = gathered.model_text(&server.config.name);
    let shown = gathered.result_content(limits);
    if failed {
        let message = format!("The tool failed. {text}");
        return Err(ToolError { shown, ..ToolError::new("mcp_tool_error", message) });
    }
    Ok(ToolOutput { text, media: gathered.into_media(), shown })
}
