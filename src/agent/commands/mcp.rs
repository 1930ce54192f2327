//! `/mcp`: the MCP servers, their status, and their tools, prompts and resources.

use super::registry::{Argument, Command, CommandRequest};
use super::words::{first_sentence, word};
use crate::session::{CommandReply, ServerStatus};

/// Maximum number of names of one kind in a list.
const MAX_LISTED_NAMES: usize = 100;

const SERVER_ARGUMENT: Argument =
    Argument { name: "server", description: "the server's name", is_required: true };

pub(super) const COMMAND: Command = Command {
    name: "mcp",
    description: "the MCP servers and their tools",
    sub_commands: &[
        Command {
            name: "list",
            description: "the servers, with the status, tools, prompts and resources of each",
            run: Some(|request| Box::pin(list(request, ToolDetail::Names))),
            ..Command::BLANK_COMMAND
        },
        Command {
            name: "desc",
            description: "the servers, with the description of each tool",
            run: Some(|request| Box::pin(list(request, ToolDetail::Descriptions))),
            ..Command::BLANK_COMMAND
        },
        Command {
            name: "schema",
            description: "the servers, with the arguments of each tool",
            run: Some(|request| Box::pin(list(request, ToolDetail::Schemas))),
            ..Command::BLANK_COMMAND
        },
        Command {
            name: "auth",
            description: "log in to a server, in your browser",
            arguments: &[
                SERVER_ARGUMENT,
                Argument {
                    name: "address",
                    description: "the address of the browser's last page, if the browser could not open that page",
                    is_required: false,
                },
            ],
            asks_model: true,
            run: Some(|request| Box::pin(auth(request))),
            ..Command::BLANK_COMMAND
        },
        Command {
            name: "logout",
            description: "forget the login to a server",
            arguments: &[SERVER_ARGUMENT],
            run: Some(|request| Box::pin(log_out(request))),
            ..Command::BLANK_COMMAND
        },
        Command {
            name: "reload",
            description: "reload the settings and reconnect the servers, or one of them",
            arguments: &[Argument { is_required: false, ..SERVER_ARGUMENT }],
            run: Some(|request| Box::pin(reload(request))),
            ..Command::BLANK_COMMAND
        },
        Command {
            name: "enable",
            description: "use a server again",
            arguments: &[SERVER_ARGUMENT],
            run: Some(|request| Box::pin(enable(request, true))),
            ..Command::BLANK_COMMAND
        },
        Command {
            name: "disable",
            description: "stop using a server until the session ends; `mcp.excluded` in the settings: for good",
            arguments: &[SERVER_ARGUMENT],
            run: Some(|request| Box::pin(enable(request, false))),
            ..Command::BLANK_COMMAND
        },
    ],
    run: Some(|request| Box::pin(list(request, ToolDetail::Names))),
    ..Command::BLANK_COMMAND
};

/// Level of detail for tools.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ToolDetail {
    Names,
    Descriptions,
    Schemas,
}

const NO_SERVERS: &str = "No MCP servers are configured. Add them under `mcpServers` in \
    `settings.json`, or in your editor.";

async fn list(request: CommandRequest<'_>, detail: ToolDetail) -> Result<CommandReply, String> {
    let servers = request.turn.engine.servers.status_when_started().await;
    if servers.is_empty() {
        return Ok(CommandReply::Say(NO_SERVERS.to_owned()));
    }
    let said: Vec<_> = servers.iter().map(|server| about(server, detail)).collect();
    Ok(CommandReply::Say(said.join("\n")))
}

fn about(server: &ServerStatus, detail: ToolDetail) -> String {
    let mut said = format!("**{}**: {}", server.name, server.phase);
    for what in [server.description.as_deref().unwrap_or_default(), &server.place] {
        if !what.is_empty() {
            said += &format!(" · {what}");
        }
    }
    if server.sandboxed {
        said += " [sandboxed]";
    }
    if !server.from.is_empty() {
        said += &format!(" · named by {}", server.from);
    }
    said.push('\n');
    let offer = &server.offer;
    if !offer.instructions.is_empty() {
        let chars = offer.instructions.chars().count();
        said += &match detail {
            ToolDetail::Names => format!("- instructions for the model: {chars} characters\n"),
            _ => format!(
                "- instructions for the model:\n  > {}\n",
                offer.instructions.replace('\n', "\n  > ")
            ),
        };
    }
    let tools = offer.tools.iter().zip(&server.tool_names).map(|(tool, name)| match detail {
        ToolDetail::Names => format!("`{name}`"),
        ToolDetail::Descriptions => format!("`{name}`: {}", first_sentence(&tool.description)),
        ToolDetail::Schemas => {
            let schema = format!("{:#}", tool.parameters).replace('\n', "\n    ");
            format!(
                "`{name}`: {}\n    ```json\n    {schema}\n    ```",
                first_sentence(&tool.description)
            )
        }
    });
    said += &names("tools", tools.collect(), detail);
    let prompts = offer.prompts.iter().map(|prompt| match prompt.description.as_str() {
        "" => format!("`{}`", prompt.name),
        description => format!("`{}`: {description}", prompt.name),
    });
    said += &names("prompts", prompts.collect(), ToolDetail::Descriptions);
    let resources = offer.resources.iter().chain(&offer.templates);
    let resources = resources.map(|resource| format!("`{}`: {}", resource.uri, resource.title));
    said + &names("resources", resources.collect(), ToolDetail::Descriptions)
}

/// Returns a list of names: on one line if the names have no details.
fn names(what: &str, mut names: Vec<String>, detail: ToolDetail) -> String {
    if names.is_empty() {
        return String::new();
    }
    let count = names.len();
    if count > MAX_LISTED_NAMES {
        names.truncate(MAX_LISTED_NAMES);
        names.push(format!("and {} more", count - MAX_LISTED_NAMES));
    }
    match detail {
        ToolDetail::Names => format!("- {count} {what}: {}\n", names.join(", ")),
        _ => format!("- {count} {what}:\n  - {}\n", names.join("\n  - ")),
    }
}

async fn auth(request: CommandRequest<'_>) -> Result<CommandReply, String> {
    let (server, address) = word(request.args);
    let address = Some(address).filter(|address| !address.is_empty());
    request.turn.log_in(server, address).await.map(CommandReply::Say)
}

async fn log_out(request: CommandRequest<'_>) -> Result<CommandReply, String> {
    request.turn.engine.servers.hub.log_out(request.args).await.map(CommandReply::Say)
}

async fn reload(request: CommandRequest<'_>) -> Result<CommandReply, String> {
    let only = Some(request.args).filter(|name| !name.is_empty());
    request.turn.engine.servers.reload(only).await?;
    list(request, ToolDetail::Names).await
}

async fn enable(request: CommandRequest<'_>, enabled: bool) -> Result<CommandReply, String> {
    request.turn.enable_server(request.args, enabled).await?;
    list(request, ToolDetail::Names).await
}
