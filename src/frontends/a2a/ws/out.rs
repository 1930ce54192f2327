//! Outgoing side of a WebSocket: one message per frame.

use std::time::Duration;

use axum::body::Bytes;
use axum::extract::ws::{CloseFrame, Message, WebSocket};
use futures::SinkExt as _;
use futures::stream::SplitSink;

use super::super::envelope::failure;
use tandem_wire::jsonrpc::{Envelope, Error};

/// Close codes (RFC 6455, section 7.4.1).
pub(super) const GOING_AWAY: u16 = 1001;
pub(super) const UNSUPPORTED_CODE: u16 = 1003;
pub(super) const POLICY_CODE: u16 = 1008;
pub(super) const TOO_BIG: u16 = 1009;

/// Reason for closing the connection of a client that does not answer a ping.
pub(super) const CLIENT_SILENT: &str = "no sign of life";

/// Reason for closing a connection whose session another process has taken over.
pub(super) const SESSION_MOVED: &str = "the session goes on at another node";

/// Maximum time for the closing handshake.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);

/// Error that means that the connection has ended, or must end.
pub(super) struct ConnectionEnded;

/// Outgoing side of a client's WebSocket.
pub(super) struct WebSocketSender(pub(super) SplitSink<WebSocket, Message>);

impl WebSocketSender {
    /// Sends the result of a call, or the next event of the call's stream.
    pub(super) async fn result(&mut self, id: &str, json: &[u8]) -> Result<(), ConnectionEnded> {
        self.send(Envelope::result(id).with_payload(json)).await
    }

    /// Sends an event that is part of no requested stream.
    pub(super) async fn event(&mut self, json: &[u8]) -> Result<(), ConnectionEnded> {
        self.send(Envelope::notification("tasks/event").with_payload(json)).await
    }

    /// Sends the end of a stream.
    pub(super) async fn end(&mut self, id: &str) -> Result<(), ConnectionEnded> {
        self.send(Envelope::stream_end(id).with_payload(b"true")).await
    }

    /// Sends the error of a call that failed.
    pub(super) async fn fail(&mut self, id: &str, error: &Error) -> Result<(), ConnectionEnded> {
        self.send(failure(id, error)).await
    }

    /// Queues a frame. Fails if the client does not read for too long.
    pub(super) async fn send(&mut self, json: Vec<u8>) -> Result<(), ConnectionEnded> {
        // JSON is always UTF-8, so this cannot fail.
        let text = String::from_utf8(json).map_err(|_| ConnectionEnded)?;
        self.0.feed(Message::Text(text.into())).await.map_err(|_| ConnectionEnded)
    }

    /// Sends a ping.
    pub(super) async fn ping(&mut self) -> Result<(), ConnectionEnded> {
        self.0.send(Message::Ping(Bytes::new())).await.map_err(|_| ConnectionEnded)
    }

    /// Sends all queued frames.
    pub(super) async fn flush(&mut self) -> Result<(), ConnectionEnded> {
        self.0.flush().await.map_err(|_| ConnectionEnded)
    }

    /// Closes the connection, or answers the client's close frame. The client may be gone, so the wait is
    /// limited.
    pub(super) async fn farewell(&mut self) {
        let _ = tokio::time::timeout(CLOSE_TIMEOUT, self.0.close()).await;
    }

    /// Closes the connection with a code and a reason.
    pub(super) async fn close(&mut self, code: u16, reason: &'static str) -> ConnectionEnded {
        let frame = CloseFrame { code, reason: reason.into() };
        // An error means that the client is gone already.
        let _ = self.0.send(Message::Close(Some(frame))).await;
        ConnectionEnded
    }
}
