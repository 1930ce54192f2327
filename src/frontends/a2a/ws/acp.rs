//! A client that begins with `initialize` is an ACP client, on the same socket.

use super::super::server::{A2aServer, ServeAcp};
use tandem_wire::acp::INITIALIZE;
use tandem_wire::jsonrpc;

/// Returns what serves the client, if the first message says that the client speaks ACP.
pub(super) fn wanted(server: &A2aServer, text: &str) -> Option<ServeAcp> {
    let serve = server.options.acp.as_ref()?;
    match jsonrpc::IncomingMessage::read(text.as_bytes()) {
        Ok(jsonrpc::IncomingMessage::Request(request)) if request.method == INITIALIZE => {
            Some(ServeAcp::clone(serve))
        }
        _ => None,
    }
}
