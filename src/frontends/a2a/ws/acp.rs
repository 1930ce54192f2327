//! A client that begins with `initialize` is an ACP client, on the same socket.

use std::time::Duration;

use axum::extract::ws::{Message, WebSocket};
use futures::stream::{SplitSink, SplitStream};
use futures::{SinkExt as _, StreamExt as _};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};

use super::super::methods::Caller;
use super::super::{ServeAcp, Server};
use super::{Over, send};
use crate::protocol::acp::INITIALIZE;
use crate::protocol::jsonrpc;

/// Bytes on their way between the socket and the connection.
const BUFFER: usize = 64 << 10;

/// How long the last word may take.
const FAREWELL: Duration = Duration::from_secs(1);

/// What serves the client, if its first message says that it speaks ACP.
pub(super) fn wanted(server: &Server, text: &str) -> Option<ServeAcp> {
    let serve = server.options.acp.as_ref()?;
    match jsonrpc::Message::read(text.as_bytes()) {
        Ok(jsonrpc::Message::Request(request)) if request.method == INITIALIZE => {
            Some(ServeAcp::clone(serve))
        }
        _ => None,
    }
}

/// Carries lines between the socket and the connection, until one of them ends.
pub(super) async fn run(
    serve: ServeAcp,
    caller: &Caller,
    first: String,
    input: &mut SplitStream<WebSocket>,
    out: &mut SplitSink<WebSocket, Message>,
) -> Result<(), Over> {
    let (ours, theirs) = tokio::io::duplex(BUFFER);
    let serving = serve(theirs, caller.origin.clone());
    let (from, mut to) = tokio::io::split(ours);
    let reading = async {
        let mut text = first;
        loop {
            let line = text.replace(['\r', '\n'], " ") + "\n";
            if to.write_all(line.as_bytes()).await.is_err() {
                return;
            }
            text = loop {
                match input.next().await {
                    Some(Ok(Message::Text(text))) => break text.as_str().to_owned(),
                    Some(Ok(Message::Ping(_) | Message::Pong(_))) => {}
                    _ => return drop(to.shutdown().await),
                }
            };
        }
    };
    let writing = async {
        let mut lines = BufReader::new(from).lines();
        while let Ok(Some(line)) = lines.next_line().await {
            if send(out, line.into_bytes()).await.is_err() || out.flush().await.is_err() {
                return;
            }
        }
    };
    tokio::select! {
        ((), ()) = async { tokio::join!(serving, reading) } => {}
        () = writing => {}
    }
    // Says good-bye, or answers it; the other side may be gone.
    let _ = tokio::time::timeout(FAREWELL, out.close()).await;
    Ok(())
}
