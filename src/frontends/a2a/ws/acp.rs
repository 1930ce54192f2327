//! ACP clients on the same WebSocket: a client whose first message is `initialize` speaks ACP.

use super::super::server::{A2aServer, ServeAcp};
use tandem_wire::acp::INITIALIZE_METHOD;
use tandem_wire::jsonrpc;

/// Returns the function that serves ACP, if the client's first message shows that the client speaks ACP.
pub(super) fn wanted(server: &A2aServer, text: &str) -> Option<ServeAcp> {
    let serve = server.options.acp.as_ref()?;
    match jsonrpc::IncomingMessage::read(text.as_bytes()) {
        Ok(jsonrpc::IncomingMessage::Request(request)) if request.method == INITIALIZE_METHOD => {
            Some(ServeAcp::clone(serve))
        }
        _ => None,
    }
}
