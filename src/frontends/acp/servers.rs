//! The MCP servers that an editor brings.

use serde_json::Value;

use tandem_agent::session::{Origin, Program, ServerConfig, ServerReach, Session};
use tandem_net::Reach;
use tandem_wire::acp::ContextServer;

/// Returns the configurations of the servers among the parameters of `initialize`. The list of
/// servers shows why one cannot be read.
pub(super) fn configs(servers: &Value, session: &Session, origin: &Origin) -> Vec<ServerConfig> {
    let from = origin.to_string();
    let servers = servers.as_object().into_iter().flatten();
    servers
        .map(|(name, server)| {
            let reach = match serde_json::from_value(server.clone()) {
                Ok(server) => reach(server, session, origin),
                Err(err) => ServerReach::Wrong(format!("{from} describes it wrongly: {err}")),
            };
            // The editor has started this process. Others come over a port, and this machine's own
            // session is what they share.
            let confined = (*origin != Origin::Editor).then_some(Reach::Private);
            ServerConfig { confined, ..ServerConfig::new(name, reach, &from) }
        })
        .collect()
}

fn reach(server: ContextServer, session: &Session, origin: &Origin) -> ServerReach {
    match server {
        // The editor has started this process, and could start any. Others come over a port.
        ContextServer::Stdio { .. } if *origin != Origin::Editor => {
            ServerReach::Wrong(format!("programs are not started for {origin}"))
        }
        ContextServer::Stdio { command, args, env } => ServerReach::Stdio(Program {
            command,
            args,
            env: env.into_iter().collect(),
            directory: session.roots().first().cloned().unwrap_or_default(),
        }),
        ContextServer::Http { url, headers } => {
            ServerReach::Http { url, headers: headers.into_iter().collect() }
        }
    }
}
