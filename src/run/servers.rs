//! Conversion of the settings of MCP servers into the configurations that connections to the servers need.

use std::path::Path;

use tandem_host::terminals::Program;
use tandem_mcp::{OAuth, ServerConfig, ServerReach, ServerSandbox};
use tandem_settings::{McpServer, SandboxChoice, Settings, ToolsSettings};

/// Returns the configurations of the MCP servers that the settings enable, for a session in `directory`.
pub(super) fn configs(settings: &Settings, directory: &Path) -> Vec<ServerConfig> {
    let config = |(name, server): (&String, &McpServer)| ServerConfig {
        sandbox: sandbox(name, server, &settings.tools),
        ..config(name, server, directory)
    };
    settings.mcp_servers().map(config).collect()
}

/// Returns the choice of a sandbox for a server's program. By default only a server that a project's settings name
/// has a sandbox, and only if commands have one.
fn sandbox(name: &String, server: &McpServer, tools: &ToolsSettings) -> ServerSandbox {
    let by_default = server.entry.of_project() && tools.sandbox != SandboxChoice::Off;
    match server.sandbox {
        _ if tools.sandbox_excluded_servers.contains(name) => ServerSandbox::Never,
        true => ServerSandbox::Required,
        false if by_default => ServerSandbox::Preferred,
        false => ServerSandbox::Never,
    }
}

fn config(name: &str, server: &McpServer, directory: &Path) -> ServerConfig {
    let from = server.entry.origin.as_ref().map(ToString::to_string).unwrap_or_default();
    let held = "is not used yet: this folder's settings name it, and you have not trusted them (`/permissions \
        trust`)";
    let (mut reach, mut oauth) = (reach(server, directory), OAuth::default());
    if !server.oauth.is_null() {
        match serde_json::from_value(server.oauth.clone()) {
            Ok(said) => oauth = said,
            Err(err) => reach = ServerReach::Wrong(format!("its `oauth` cannot be read: {err}")),
        }
    }
    let provider = server.auth_provider_type.as_deref().unwrap_or(DISCOVERY_TYPE);
    if provider != DISCOVERY_TYPE && matches!(reach, ServerReach::Http { .. }) {
        reach = ServerReach::Wrong(format!(
            "its `authProviderType`, {provider:?}, is not supported: put a token into its `headers`, or remove \
             `authProviderType` and log in"
        ));
    }
    ServerConfig {
        oauth,
        description: server.description.clone(),
        trust: server.trust,
        include: server.include_tools.clone(),
        exclude: server.exclude_tools.clone(),
        timeout: server.call_timeout(),
        held: server.entry.unjudged().then(|| held.to_owned()),
        ..ServerConfig::new(name, reach, &from)
    }
}

/// The only supported value of `authProviderType`, which is also the default.
const DISCOVERY_TYPE: &str = "dynamic_discovery";

fn reach(server: &McpServer, directory: &Path) -> ServerReach {
    let address = server.http_url.as_ref().or(server.url.as_ref());
    match (&server.command, address) {
        (Some(command), _) => {
            let exposed =
                server.env.iter().map(|(name, it)| (name.clone(), it.expose().to_owned()));
            ServerReach::Stdio(Program {
                command: command.clone(),
                args: server.args.iter().map(|arg| arg.expose().to_owned()).collect(),
                env: exposed.collect(),
                directory: directory.join(server.cwd.as_deref().unwrap_or(Path::new(""))),
            })
        }
        (None, Some(address)) => {
            let headers = server.headers.iter();
            let headers = headers.map(|(name, it)| (name.clone(), it.expose().to_owned()));
            ServerReach::Http { url: address.expose().to_owned(), headers: headers.collect() }
        }
        (None, None) => {
            ServerReach::Wrong("it has neither `command` nor `httpUrl` nor `url`".to_owned())
        }
    }
}
