//! MCP servers that an editor sends along when it opens a session.

use std::path::Path;

use tandem_agent::session::{Origin, Program, ServerConfig, ServerReach};
use tandem_net::Reach;

/// Description of an MCP server by an editor.
pub(crate) enum EditorServer {
    /// A program to start, which speaks MCP over its standard input and output.
    Stdio {
        /// Path of the program, or a name that is searched for.
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

/// Returns the configuration of a server for a session in `directory`. If the server cannot be used, for example
/// because its description has an error, the configuration holds the reason, which the list of servers shows.
pub(crate) fn config(
    name: &str,
    server: Result<EditorServer, String>,
    directory: &Path,
    origin: &Origin,
) -> ServerConfig {
    let from = origin.to_string();
    let reach = match server {
        // An editor that has started this process could start any program by itself. Programs that connect over a port
        // must not start programs here.
        Ok(EditorServer::Stdio { .. }) if *origin != Origin::Editor => {
            ServerReach::Wrong(format!("programs are not started for {from}"))
        }
        Ok(EditorServer::Stdio { command, args, env }) => {
            ServerReach::Stdio(Program { command, args, env, directory: directory.to_owned() })
        }
        Ok(EditorServer::Http { url, headers }) => ServerReach::Http { url, headers },
        Err(why) => ServerReach::Wrong(format!("its description by {from} is wrong: {why}")),
    };
    // Programs that connect over a port share a session of this machine, so their servers may not be at the address
    // where a cloud keeps the machine's secrets.
    let confined = (*origin != Origin::Editor).then_some(Reach::Private);
    ServerConfig { confined, ..ServerConfig::new(name, reach, &from) }
}
