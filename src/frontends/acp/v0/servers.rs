//! MCP servers that an editor which speaks ACP 0.0.11 sends along.

use serde_json::Value;

use crate::servers::{EditorServer, config};
use tandem_agent::session::{Origin, ServerConfig, Session};
use tandem_wire::acp::v0::ContextServer;

/// Returns the configurations of the servers in the parameters of `initialize`.
pub(super) fn configs(servers: &Value, session: &Session, origin: &Origin) -> Vec<ServerConfig> {
    let directory = session.roots().first().cloned().unwrap_or_default();
    let servers = servers.as_object().into_iter().flatten();
    let read = |server: &Value| match serde_json::from_value(server.clone()) {
        Ok(ContextServer::Stdio { command, args, env }) => {
            Ok(EditorServer::Stdio { command, args, env: env.into_iter().collect() })
        }
        Ok(ContextServer::Http { url, headers }) => {
            Ok(EditorServer::Http { url, headers: headers.into_iter().collect() })
        }
        Err(err) => Err(err.to_string()),
    };
    servers.map(|(name, server)| config(name, read(server), &directory, origin)).collect()
}
