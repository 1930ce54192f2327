//! A connection of lines over a WebSocket: a line a frame.

use axum::extract::ws::{Message, WebSocket};
use futures::StreamExt as _;
use futures::stream::SplitStream;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, DuplexStream};
use tokio_util::sync::CancellationToken;

use super::heartbeat::{Due, Heartbeat};
use super::out::Out;
use super::{GOING_AWAY, SILENT};

/// Bytes on their way between the socket and the connection.
const BUFFER: usize = 64 << 10;

/// Carries lines between the socket and what serves them, until one of them ends or the agent does.
/// `first`: what was read before.
pub(super) async fn carry<F: Future<Output = ()>>(
    serve: impl FnOnce(DuplexStream) -> F,
    first: Option<String>,
    (input, out, heartbeat): (&mut SplitStream<WebSocket>, &mut Out, &Heartbeat),
    over: &CancellationToken,
) {
    let (ours, theirs) = tokio::io::duplex(BUFFER);
    let serving = serve(theirs);
    let (from, mut to) = tokio::io::split(ours);
    let reading = async {
        let mut text = first.unwrap_or_default();
        loop {
            let line = text.replace(['\r', '\n'], " ") + "\n";
            if to.write_all(line.as_bytes()).await.is_err() {
                return;
            }
            text = loop {
                let message = input.next().await;
                heartbeat.heard();
                match message {
                    Some(Ok(Message::Text(text))) => break text.as_str().to_owned(),
                    Some(Ok(Message::Ping(_) | Message::Pong(_))) => {}
                    _ => return drop(to.shutdown().await),
                }
            };
        }
    };
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
                    Due::Ping => out.ping().await,
                    Due::Gone => Err(out.close(GOING_AWAY, SILENT).await),
                },
            };
            if sent.is_err() {
                return;
            }
        }
    };
    let ends = tokio::select! {
        ((), ()) = async { tokio::join!(serving, reading) } => false,
        () = writing => false,
        () = over.cancelled() => true,
    };
    if ends {
        let _ = out.close(GOING_AWAY, "the agent ends").await;
    }
    out.farewell().await;
}
