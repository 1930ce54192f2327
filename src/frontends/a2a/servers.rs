//! The MCP servers that a client brings with its settings: what only it knows comes through them
//! (RFC 3.2, "Initialization & Configuration", and 4).

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use serde::Deserialize;
use serde_json::Value;

use super::fields;
use tandem_agent::session::{Program, ServerConfig, ServerReach, Session};
use tandem_net::Reach;

/// Origin of the servers that clients name, in words.
const FROM: &str = "an A2A client";

/// A server, as Gemini's settings have it.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Brought {
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
    /// Milliseconds.
    timeout: Option<u64>,
    #[serde(alias = "include_tools")]
    include_tools: Option<Vec<String>>,
    #[serde(default, alias = "exclude_tools")]
    exclude_tools: Vec<String>,
    description: Option<String>,
}

/// The servers among a client's settings. Of one that cannot be read it is said why wherever
/// servers are listed.
pub(super) fn brought(settings: &Value) -> Vec<ServerConfig> {
    let servers =
        fields::field(settings, &["mcpServers", "mcp_servers"]).and_then(Value::as_object);
    let server = |(name, server): (&String, &Value)| {
        let wrong = |why| {
            let reach = ServerReach::Wrong(format!("{FROM} describes it wrongly: {why}"));
            ServerConfig::new(name, reach, FROM)
        };
        Brought::deserialize(server).map_or_else(wrong, |brought| brought.config(name))
    };
    servers.into_iter().flatten().map(server).collect()
}

impl Brought {
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
            ..ServerConfig::new(name, reach, FROM)
        }
    }
}

/// The servers that clients may bring.
#[derive(Debug, Clone, Copy)]
pub(super) struct Allowed {
    /// Programs, too, which are started for them.
    pub(super) programs: bool,
    /// Reach of requests to the other servers.
    pub(super) reach: Reach,
}

/// Takes them over, as far as they are allowed.
pub(super) fn add(servers: &[ServerConfig], session: &Session, allowed: Allowed) {
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
