//! A client that begins with `initialize` is an ACP client, on the same socket.

use axum::extract::ws::{Message, WebSocket};
use futures::StreamExt as _;
use futures::stream::SplitStream;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};

use super::super::methods::Caller;
use super::super::{ServeAcp, Server};
use super::out::{Out, Over};
use crate::protocol::acp::INITIALIZE;
use crate::protocol::jsonrpc;

/// Bytes on their way between the socket and the connection.
const BUFFER: usize = 64 << 10;

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
    out: &mut Out,
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
            if out.send(line.into_bytes()).await.is_err() || out.flush().await.is_err() {
                return;
            }
        }
    };
    tokio::select! {
        ((), ()) = async { tokio::join!(serving, reading) } => {}
        () = writing => {}
    }
    out.farewell().await;
    Ok(())
}
