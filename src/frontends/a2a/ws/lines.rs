//! A line-based connection over a WebSocket, with one line per frame.

use std::time::Duration;

use axum::extract::ws::{Message, WebSocket};
use futures::StreamExt as _;
use futures::stream::SplitStream;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, DuplexStream, WriteHalf};
use tokio_util::sync::CancellationToken;

use super::heartbeat::{Heartbeat, HeartbeatAction};
use super::out::{CLIENT_SILENT, GOING_AWAY, WebSocketSender};

/// Size in bytes of the buffer between the WebSocket and the connection.
const BUFFER_BYTES: usize = 64 << 10;

/// Maximum time for answers to open requests when the server ends.
const LAST_LINES: Duration = Duration::from_millis(300);

/// Both halves of a WebSocket, and the pings that keep the WebSocket open.
pub(super) struct Socket<'a> {
    pub(super) input: &'a mut SplitStream<WebSocket>,
    pub(super) out: &'a mut WebSocketSender,
    pub(super) heartbeat: &'a Heartbeat,
}

/// Carries lines between a WebSocket and the connection that `serve` handles, until one of the two or the
/// server ends. `first`: text frame that was read before.
pub(super) async fn carry<F: Future<Output = ()>>(
    serve: impl FnOnce(DuplexStream) -> F,
    first: Option<String>,
    Socket { input, out, heartbeat }: Socket<'_>,
    over: &CancellationToken,
) {
    let (ours, theirs) = tokio::io::duplex(BUFFER_BYTES);
    let serving = serve(theirs);
    let (from, to) = tokio::io::split(ours);
    let reading = read(first, input, heartbeat, to, over);
    let writing = async {
        let mut lines = BufReader::new(from).lines();
        loop {
            let sent = tokio::select! {
                line = lines.next_line() => match line {
                    Ok(Some(line)) => match out.send(line.into_bytes()).await {
                        Ok(()) => out.flush().await,
                        Err(over) => Err(over),
                    },
                    _ => return,
                },
                due = heartbeat.due() => match due {
                    HeartbeatAction::Ping => out.ping().await,
                    HeartbeatAction::Gone => Err(out.close(GOING_AWAY, CLIENT_SILENT).await),
                },
            };
            if sent.is_err() {
                return;
            }
        }
    };
    let carrying = async {
        tokio::pin!(writing);
        tokio::select! {
            // The last lines must still be written after the connection has ended.
            ((), ()) = async { tokio::join!(serving, reading) } => writing.await,
            () = &mut writing => {}
        }
    };
    let too_long = async {
        over.cancelled().await;
        tokio::time::sleep(LAST_LINES).await;
    };
    tokio::select! {
        () = carrying => {}
        () = too_long => {}
    }
    if over.is_cancelled() {
        let _ = out.close(GOING_AWAY, "the agent ends").await;
    }
    out.farewell().await;
}

/// Passes the frames of a WebSocket on to the connection, until the client or the server ends. Then it shuts
/// the connection's input down, so that the connection answers the open requests and ends.
async fn read(
    first: Option<String>,
    input: &mut SplitStream<WebSocket>,
    heartbeat: &Heartbeat,
    mut to: WriteHalf<DuplexStream>,
    over: &CancellationToken,
) {
    let mut text = first.unwrap_or_default();
    loop {
        let line = text.replace(['\r', '\n'], " ") + "\n";
        if to.write_all(line.as_bytes()).await.is_err() {
            return;
        }
        text = loop {
            let message = tokio::select! {
                message = input.next() => message,
                () = over.cancelled() => return drop(to.shutdown().await),
            };
            heartbeat.heard();
            match message {
                Some(Ok(Message::Text(text))) => break text.as_str().to_owned(),
                Some(Ok(Message::Ping(_) | Message::Pong(_))) => {}
                _ => return drop(to.shutdown().await),
            }
        };
    }
}
