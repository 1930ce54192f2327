//! Tools, prompts and resources of a server. They are read again whenever the server announces a
//! change.

use rmcp::model::{
    ClientRequest, ListPromptsRequest, ListResourceTemplatesRequest, ListResourcesRequest,
    ListToolsRequest, PaginatedRequestParams, Prompt, Resource, ResourceTemplate, ServerResult,
    Tool,
};
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::config::{McpLimits, ServerConfig};
use super::connection::{RequestError, RequestOptions, ServerConnection};
use super::schema;
use tandem_content::plain::plain;
use tandem_content::shorten::{one_line, shorten};
use tandem_host::Hints;

/// Maximum number of characters of a name or a title.
const MAX_NAME_CHARS: usize = 200;

/// Maximum length of an address in bytes.
const MAX_URI_BYTES: usize = 4096;

/// Maximum number of pages of a list.
const MAX_PAGES: usize = 100;

/// Tools, prompts and resources of a server.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Offer {
    /// The server's own text on how to use it, for the model; empty if it has none.
    pub instructions: String,
    /// Tools.
    pub tools: Vec<ServerTool>,
    /// Prompts.
    pub prompts: Vec<ServerPrompt>,
    /// Resources.
    pub resources: Vec<ServerResource>,
    /// Resource templates, which are addresses with gaps to fill.
    pub templates: Vec<ServerResource>,
}

/// A tool of a server.
#[derive(Debug, Clone, PartialEq)]
pub struct ServerTool {
    /// Name that the server gives the tool.
    pub name: String,
    /// Title for people, on one line.
    pub title: String,
    /// Description for the model.
    pub description: String,
    /// JSON Schema of the tool's arguments, an object.
    pub parameters: Value,
    /// Annotations of the tool by its server.
    pub hints: Hints,
}

/// A prompt of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerPrompt {
    /// Name that the server gives the prompt.
    pub name: String,
    /// Description, on one line.
    pub description: String,
    /// Arguments, in order.
    pub arguments: Vec<PromptArgument>,
}

/// Argument of a prompt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PromptArgument {
    /// Name of the argument.
    pub name: String,
    /// Description, on one line.
    pub description: String,
    /// `true` if the prompt needs the argument.
    pub required: bool,
}

/// Resource of a server, or a template of resources.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerResource {
    /// Address of the resource, or the template of addresses.
    pub uri: String,
    /// Title for people, on one line.
    pub title: String,
    /// Description, on one line.
    pub description: String,
    /// Media type, if the server tells it.
    pub mime_type: Option<String>,
}

impl Offer {
    /// Reads all lists of a server. A list that the server does not give counts as empty; returns `None` if the
    /// connection has ended.
    pub(super) async fn read(
        connection: &ServerConnection,
        config: &ServerConfig,
        limits: &McpLimits,
    ) -> Option<Self> {
        let most = limits.tools;
        let can = &connection.capabilities;
        let tools = async {
            let tools: Vec<Tool> = match can.tools {
                Some(_) => {
                    list(connection, "tools", most, &|params| {
                        ClientRequest::ListToolsRequest(ListToolsRequest::with_param(params))
                    })
                    .await?
                }
                None => Vec::new(),
            };
            let tools = tools.into_iter().filter(|tool| config.wants(&tool.name));
            Some(tools.map(|it| tool(it, config, limits)).collect())
        };
        let prompts = async {
            let prompts: Vec<Prompt> = match can.prompts {
                Some(_) => {
                    list(connection, "prompts", most, &|params| {
                        ClientRequest::ListPromptsRequest(ListPromptsRequest::with_param(params))
                    })
                    .await?
                }
                None => Vec::new(),
            };
            Some(prompts.into_iter().map(prompt).collect())
        };
        let (tools, prompts, readable) = tokio::join!(tools, prompts, resources(connection, most));
        let (resources, templates) = readable?;
        let instructions = plain(connection.instructions.trim().as_bytes());
        let instructions = shorten(&instructions, limits.instructions_chars).into_owned();
        Some(Self { instructions, tools: tools?, prompts: prompts?, resources, templates })
    }
}

async fn resources(
    connection: &ServerConnection,
    most: usize,
) -> Option<(Vec<ServerResource>, Vec<ServerResource>)> {
    if connection.capabilities.resources.is_none() {
        return Some((Vec::new(), Vec::new()));
    }
    let resources = list::<Resource>(connection, "resources", most, &|params| {
        ClientRequest::ListResourcesRequest(ListResourcesRequest::with_param(params))
    });
    let templates = list::<ResourceTemplate>(connection, "resourceTemplates", most, &|params| {
        ClientRequest::ListResourceTemplatesRequest(ListResourceTemplatesRequest::with_param(
            params,
        ))
    });
    let (resources, templates) = tokio::join!(resources, templates);
    let resources = resources?.into_iter().map(|it| ServerResource {
        title: line(&it.title.unwrap_or(it.name)),
        description: line(&it.description.unwrap_or_default()),
        mime_type: it.mime_type.as_deref().map(line),
        uri: it.uri,
    });
    let templates = templates?.into_iter().map(|it| ServerResource {
        title: line(&it.title.unwrap_or(it.name)),
        description: line(&it.description.unwrap_or_default()),
        mime_type: it.mime_type.as_deref().map(line),
        uri: it.uri_template,
    });
    let sane =
        |it: &ServerResource| it.uri.len() <= MAX_URI_BYTES && !it.uri.contains(char::is_control);
    Some((resources.filter(sane).collect(), templates.filter(sane).collect()))
}

/// Returns the items of a list that can be read, of the first pages if the list has no end. Returns `None` if the
/// connection has ended.
async fn list<T: DeserializeOwned>(
    connection: &ServerConnection,
    what: &str,
    most: usize,
    request: &(dyn Fn(PaginatedRequestParams) -> ClientRequest + Sync),
) -> Option<Vec<T>> {
    let mut items = Vec::new();
    let mut cursor = None;
    for _ in 0..MAX_PAGES {
        let params = PaginatedRequestParams::default().with_cursor(cursor);
        let asked = Box::pin(connection.ask(request(params), RequestOptions::by_nobody()));
        let page = match asked.await {
            Ok(page) => page,
            Err(RequestError::Gone | RequestError::Cancelled) => return None,
            Err(RequestError::Other(why)) => {
                tracing::warn!(server = connection.name, what, "cannot be listed: {why}");
                break;
            }
            Err(RequestError::Login) => {
                tracing::warn!(server = connection.name, what, "not listed without a login");
                break;
            }
        };
        let (found, next) = items_of(page, what);
        for item in found {
            match serde_json::from_value(item) {
                Ok(item) => items.push(item),
                Err(why) => tracing::warn!(server = connection.name, what, "not readable: {why}"),
            }
        }
        cursor = next.filter(|next| !next.is_empty() && items.len() < most);
        if cursor.is_none() {
            break;
        }
    }
    if items.len() > most {
        tracing::warn!(server = connection.name, what, "only the first {most} are taken");
        items.truncate(most);
    }
    Some(items)
}

/// Returns the items of a page and the cursor of the next page. The items are not parsed yet: a wrong item must not
/// hide the others.
fn items_of(page: ServerResult, what: &str) -> (Vec<Value>, Option<String>) {
    let Ok(Value::Object(mut page)) = serde_json::to_value(page) else { return (Vec::new(), None) };
    let next = page.get("nextCursor").and_then(Value::as_str).map(str::to_owned);
    match page.remove(what) {
        Some(Value::Array(items)) => (items, next),
        _ => (Vec::new(), next),
    }
}

fn tool(tool: Tool, config: &ServerConfig, limits: &McpLimits) -> ServerTool {
    let said = tool.annotations.unwrap_or_default();
    let description = plain(tool.description.unwrap_or_default().as_bytes());
    let mut description = shorten(&description, limits.tool_chars).into_owned();
    let parameters = schema::parameters(&tool.input_schema, limits.tool_chars);
    let parameters = parameters.unwrap_or_else(|| {
        description.push_str("\n(The parameters are too long to be shown here.)");
        serde_json::json!({ "type": "object" })
    });
    ServerTool {
        title: line(&tool.title.or(said.title).unwrap_or_else(|| tool.name.to_string())),
        name: tool.name.into_owned(),
        description,
        parameters,
        hints: Hints {
            trusted: config.trust,
            read_only: said.read_only_hint,
            destructive: said.destructive_hint,
            idempotent: said.idempotent_hint,
            open_world: said.open_world_hint,
        },
    }
}

fn prompt(prompt: Prompt) -> ServerPrompt {
    let arguments = prompt.arguments.unwrap_or_default().into_iter().map(|it| PromptArgument {
        description: line(&it.description.or(it.title).unwrap_or_default()),
        required: it.required.unwrap_or_default(),
        name: it.name,
    });
    ServerPrompt {
        description: line(&prompt.description.or(prompt.title).unwrap_or_default()),
        arguments: arguments.collect(),
        name: prompt.name,
    }
}

/// Returns a text on one line, without characters that must not be shown to people.
fn line(text: &str) -> String {
    one_line(&plain(text.as_bytes()), MAX_NAME_CHARS)
}
