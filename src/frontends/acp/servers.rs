//! The MCP servers that an editor brings.

use std::path::Path;

use tandem_agent::session::{Origin, Program, ServerConfig, ServerReach};
use tandem_net::Reach;

/// A server as an editor describes it.
pub(crate) enum EditorServer {
    /// A program to start.
    Stdio {
        /// Path, or a name that is searched for.
        command: String,
        /// Arguments of the command.
        args: Vec<String>,
        /// Variables that are added to the environment.
        env: Vec<(String, String)>,
    },
    /// A web service.
    Http {
        /// Address of the service.
        url: String,
        /// Headers of each request.
        headers: Vec<(String, String)>,
    },
}

/// Returns the configuration of a server for a session in this directory. The list of servers shows
/// why a server cannot be used, which may be the error of its description.
pub(crate) fn config(
    name: &str,
    server: Result<EditorServer, String>,
    directory: &Path,
    origin: &Origin,
) -> ServerConfig {
    let from = origin.to_string();
    let reach = match server {
        // The editor has started this process, and could start any. Others come over a port.
        Ok(EditorServer::Stdio { .. }) if *origin != Origin::Editor => {
            ServerReach::Wrong(format!("programs are not started for {from}"))
        }
        Ok(EditorServer::Stdio { command, args, env }) => {
            ServerReach::Stdio(Program { command, args, env, directory: directory.to_owned() })
        }
        Ok(EditorServer::Http { url, headers }) => ServerReach::Http { url, headers },
        Err(why) => ServerReach::Wrong(format!("{from} describes it wrongly: {why}")),
    };
    // This machine's own session is what those share that come over a port.
    let confined = (*origin != Origin::Editor).then_some(Reach::Private);
    ServerConfig { confined, ..ServerConfig::new(name, reach, &from) }
}
