//! Resources of servers, which the model can read and prompts can mention.

use std::sync::Arc;

use async_trait::async_trait;
use rmcp::model::{ClientRequest, ReadResourceRequest, ReadResourceRequestParams, ServerResult};
use serde::Deserialize;
use serde_json::{Value, json};

use super::connection::RequestOptions;
use super::offer::ServerResource;
use super::registry::ServerRegistry;
use super::result::CollectedContent;
use super::server::ServerHandle;
use super::tool::failed;
use tandem_content::shorten::{one_line, shorten};
use tandem_host::{
    Access, Invocation, Summary, Tool, ToolContext, ToolError, ToolKind, ToolOutput, ToolSpec,
    parse,
};

/// Name of the tool that reads a resource.
pub const READ_RESOURCE: &str = "read_mcp_resource";

/// Maximum number of characters of an address that people are shown.
const MAX_LABEL_CHARS: usize = 160;

/// Returns the tools that list and read resources, if a server has any.
pub(super) fn tools(registry: &Arc<ServerRegistry>) -> Vec<Arc<dyn Tool>> {
    if !registry.all().iter().any(has_resources) {
        return Vec::new();
    }
    vec![
        Arc::new(ListResources(Arc::clone(registry))),
        Arc::new(ReadResource(Arc::clone(registry))),
    ]
}

/// Returns the listed resources in the form in which a prompt mentions them: `server:uri`.
pub(super) fn mentionable(registry: &ServerRegistry) -> Vec<String> {
    let mut names = Vec::new();
    for server in registry.all() {
        let name = &server.config.name;
        let state = server.state();
        names.extend(state.offer.resources.iter().map(|it| format!("{name}:{}", it.uri)));
    }
    names
}

/// Returns `true` if a word may name a resource: it begins with a server's name and a colon, or is an address.
pub(super) fn may_name(registry: &ServerRegistry, word: &str) -> bool {
    let of_server =
        |server: &Arc<ServerHandle>| after_server_name(word, &server.config.name).is_some();
    let is_address = word.contains("://") && !word.starts_with("file:");
    let servers = registry.all();
    !servers.is_empty() && (is_address || servers.iter().any(of_server))
}

/// Returns the server and the address of the resource that a word names. The word is `server:uri`, `server://uri`, or
/// the address of a listed resource.
pub(super) fn resolve(registry: &ServerRegistry, word: &str) -> Option<(String, String)> {
    let servers = registry.all();
    let lists = |server: &Arc<ServerHandle>, uri: &str| {
        server.state().offer.resources.iter().any(|resource| resource.uri == uri)
    };
    let name = |server: &Arc<ServerHandle>| server.config.name.clone();
    if let Some(server) = servers.iter().find(|server| lists(server, word)) {
        return Some((name(server), word.to_owned()));
    }
    let (server, rest) = servers
        .iter()
        .find_map(|server| Some((server, after_server_name(word, &server.config.name)?)))?;
    let uri = match rest.strip_prefix("//") {
        // The scheme of a resource's address may be the same as the server's name.
        Some(uri) if !uri.contains("://") && !lists(server, uri) => word,
        Some(uri) => uri,
        None => rest,
    };
    Some((name(server), uri.to_owned()))
}

/// Returns the server to ask for a resource, and the resource's address.
fn server_of(
    registry: &ServerRegistry,
    server: Option<&str>,
    uri: &str,
) -> Result<(Arc<ServerHandle>, String), String> {
    if let Some(server) = server {
        return Ok((registry.find(server)?, uri.to_owned()));
    }
    if let Some((server, uri)) = resolve(registry, uri) {
        return Ok((registry.find(&server)?, uri));
    }
    let mut servers = registry.all();
    servers.retain(has_resources);
    if let [server] = &servers[..] {
        return Ok((Arc::clone(server), uri.to_owned()));
    }
    let names: Vec<_> = servers.iter().map(|it| format!("`{}`", it.config.name)).collect();
    Err(format!("Set `serverName` to the resource's server, one of {}.", names.join(", ")))
}

fn has_resources(server: &Arc<ServerHandle>) -> bool {
    let offer = server.state().offer;
    !offer.resources.is_empty() || !offer.templates.is_empty()
}

/// Returns the text after a server's name and a colon.
fn after_server_name<'a>(word: &'a str, server: &str) -> Option<&'a str> {
    word.strip_prefix(server)?.strip_prefix(':').filter(|rest| !rest.is_empty())
}

struct ListResources(Arc<ServerRegistry>);

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ListArgs {
    #[serde(alias = "server_name")]
    server_name: Option<String>,
}

#[async_trait]
impl Tool for ListResources {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: "list_mcp_resources".to_owned(),
            aliases: &[],
            description:
                "Lists the resources of MCP servers: URIs, and URI templates with gaps to \
                fill, for read_mcp_resource."
                    .to_owned(),
            parameters: json!({
                "type": "object",
                "properties": {
                    "serverName": { "type": "string", "description": "Lists only the resources of this server." }
                }
            }),
            kind: ToolKind::List,
        }
    }

    async fn prepare(&self, args: Value, _: &ToolContext) -> Result<Invocation, ToolError> {
        let args = if args.is_null() { json!({}) } else { args };
        let ListArgs { server_name } = parse(args)?;
        let only = server_name.filter(|name| !name.is_empty());
        let of = only.as_deref().map(|name| format!(" of {name}")).unwrap_or_default();
        let label = one_line(&format!("List the resources{of}"), MAX_LABEL_CHARS);
        let registry = Arc::clone(&self.0);
        Ok(Invocation::new(Summary::new(label), Access::Read, |cx| async move {
            list(&registry, only.as_deref(), &cx)
        }))
    }
}

fn list(
    registry: &ServerRegistry,
    only: Option<&str>,
    cx: &ToolContext,
) -> Result<ToolOutput, ToolError> {
    let servers = match only {
        Some(name) => {
            vec![registry.find(name).map_err(|why| ToolError::new("mcp_no_server", why))?]
        }
        None => registry.all(),
    };
    let (mut text, mut count) = (String::new(), 0);
    for server in servers.iter().filter(|server| has_resources(server)) {
        let offer = server.state().offer;
        text.push_str(&format!("Server `{}`:\n", server.config.name));
        for resource in offer.resources.iter().chain(&offer.templates) {
            text.push_str(&line(resource));
            count += 1;
        }
    }
    if count == 0 {
        text.push_str("There are no resources.");
    }
    let text = shorten(&text, cx.host.limits.output_chars).into_owned();
    Ok(ToolOutput::new(text, format!("Listed {count} resource(s).")))
}

fn line(resource: &ServerResource) -> String {
    let mut line = format!("- {} ({})", resource.uri, resource.title);
    if let Some(mime_type) = &resource.mime_type {
        line.push_str(&format!(" [{mime_type}]"));
    }
    if !resource.description.is_empty() {
        line.push_str(&format!(": {}", resource.description));
    }
    line + "\n"
}

struct ReadResource(Arc<ServerRegistry>);

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ReadArgs {
    uri: String,
    #[serde(alias = "server_name")]
    server_name: Option<String>,
}

#[async_trait]
impl Tool for ReadResource {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: READ_RESOURCE.to_owned(),
            aliases: &[],
            description: "Reads a resource of an MCP server, as list_mcp_resources lists them."
                .to_owned(),
            parameters: json!({
                "type": "object",
                "properties": {
                    "uri": { "type": "string", "description": "URI of the resource." },
                    "serverName": {
                        "type": "string",
                        "description": "Name of its server. May be left out if only one server has resources."
                    }
                },
                "required": ["uri"]
            }),
            kind: ToolKind::Read,
        }
    }

    async fn prepare(&self, args: Value, _: &ToolContext) -> Result<Invocation, ToolError> {
        let ReadArgs { uri, server_name } = parse(args)?;
        let found =
            server_of(&self.0, server_name.as_deref().filter(|name| !name.is_empty()), &uri);
        let (server, uri) = match found {
            Ok(found) => found,
            Err(why) => {
                let summary = Summary::new(one_line(&format!("Read {uri}"), MAX_LABEL_CHARS));
                let error = ToolError::new("mcp_no_server", why);
                return Ok(Invocation::failing(summary, error));
            }
        };
        let label = one_line(&format!("Read {uri} ({})", server.config.name), MAX_LABEL_CHARS);
        Ok(Invocation::new(Summary::new(label), Access::Read, |cx| async move {
            read(&server, uri, &cx).await
        }))
    }
}

async fn read(
    server: &ServerHandle,
    uri: String,
    cx: &ToolContext,
) -> Result<ToolOutput, ToolError> {
    let down = |why| ToolError::new("mcp_server_down", why);
    let connection = server.connection(&cx.cancel).await.map_err(down)?;
    let params = ReadResourceRequestParams::new(uri);
    let request = ClientRequest::ReadResourceRequest(ReadResourceRequest::new(params));
    let wanted = RequestOptions { cancel: cx.cancel.clone(), show: Arc::clone(&cx.progress) };
    let answer = connection.ask(request, wanted).await;
    let answer = answer.map_err(|failure| failed(server, failure))?;
    let ServerResult::ReadResourceResult(result) = answer else {
        let why = format!("The MCP server `{}` returned no resource.", server.config.name);
        return Err(ToolError::new("mcp_tool_error", why));
    };
    let mut gathered = CollectedContent::default();
    for contents in result.contents {
        gathered.resource(contents);
    }
    let text = gathered.model_text(&server.config.name);
    let text = cx.host.outputs.fit(READ_RESOURCE, text, cx.host.limits.output_chars).await;
    let shown = gathered.result_content(&cx.host.limits);
    Ok(ToolOutput { text, media: gathered.into_media(), shown })
}
