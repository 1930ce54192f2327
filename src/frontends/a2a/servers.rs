//! MCP servers that a client adds by its settings, through which it offers tools of its own (RFC 3.2,
//! "Initialization & Configuration", and 4).

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use serde::Deserialize;

use tandem_agent::session::{Program, ServerConfig, ServerReach, Session};
use tandem_net::Reach;
use tandem_wire::a2a::Fields;

/// Description of the servers' origin, for people.
const SERVER_ORIGIN: &str = "an A2A client";

/// An MCP server in the format of Gemini CLI's settings.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct McpServerEntry {
    command: Option<String>,
    #[serde(default)]
    args: Vec<String>,
    #[serde(default)]
    env: BTreeMap<String, String>,
    cwd: Option<PathBuf>,
    #[serde(alias = "http_url")]
    http_url: Option<String>,
    url: Option<String>,
    #[serde(default)]
    headers: BTreeMap<String, String>,
    /// Timeout in milliseconds.
    timeout: Option<u64>,
    #[serde(alias = "include_tools")]
    include_tools: Option<Vec<String>>,
    #[serde(default, alias = "exclude_tools")]
    exclude_tools: Vec<String>,
    description: Option<String>,
}

/// Returns the MCP servers in a client's settings. A server that cannot be parsed is included with the
/// reason, which lists of servers show.
pub(super) fn of_settings(settings: &Fields) -> Vec<ServerConfig> {
    let servers = settings.object("mcpServers").unwrap_or_default().0.into_iter();
    let server = servers.map(|(name, server)| {
        let wrong = |why| {
            let reach =
                ServerReach::Wrong(format!("its description by {SERVER_ORIGIN} is wrong: {why}"));
            ServerConfig::new(&name, reach, SERVER_ORIGIN)
        };
        McpServerEntry::deserialize(server).map_or_else(wrong, |entry| entry.config(&name))
    });
    server.collect()
}

impl McpServerEntry {
    fn config(self, name: &str) -> ServerConfig {
        let reach = match (self.command, self.http_url.or(self.url)) {
            (Some(command), _) => ServerReach::Stdio(Program {
                command,
                args: self.args,
                env: self.env.into_iter().collect(),
                directory: self.cwd.unwrap_or_default(),
            }),
            (None, Some(url)) => {
                ServerReach::Http { url, headers: self.headers.into_iter().collect() }
            }
            (None, None) => ServerReach::Wrong("it has neither `command` nor `url`".to_owned()),
        };
        ServerConfig {
            include: self.include_tools,
            exclude: self.exclude_tools,
            timeout: self.timeout.map(Duration::from_millis),
            description: self.description,
            ..ServerConfig::new(name, reach, SERVER_ORIGIN)
        }
    }
}

/// Permissions for MCP servers of clients.
#[derive(Debug, Clone, Copy)]
pub(super) struct ServerPermissions {
    /// `true` if servers that are programs are allowed; the agent starts them.
    pub(super) programs: bool,
    /// Reach of requests to servers over HTTP.
    pub(super) reach: Reach,
}

/// Adds a client's MCP servers to a session. Servers that are not allowed are added with the reason, and do
/// not start.
pub(super) fn add(servers: &[ServerConfig], session: &Session, allowed: ServerPermissions) {
    let root = session.roots().first().cloned().unwrap_or_default();
    let servers = servers.iter().cloned().map(|mut server| {
        server.confined = Some(allowed.reach);
        match &mut server.reach {
            ServerReach::Stdio(program) if allowed.programs => {
                program.directory = root.join(&program.directory);
            }
            ServerReach::Stdio(_) => {
                let why = "programs are started for clients only with `--allow-auto-execute`";
                server.reach = ServerReach::Wrong(why.to_owned());
            }
            ServerReach::Http { .. } | ServerReach::Wrong(_) => {}
        }
        server
    });
    session.add_servers(servers.collect());
}
