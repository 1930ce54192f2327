//! Server-Sent Events: a stream of events as the body of a response (spec 3.3.3).

use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::response::{IntoResponse as _, Response};
use futures::stream::{self, StreamExt as _};
use tokio_util::sync::CancellationToken;

use super::dialect::Dialect;
use super::server::A2aServer;
use super::subscription::{Subscription, TOKEN_REVOKED};
use tandem_wire::a2a::RpcStatus;
use tandem_wire::jsonrpc::{Envelope, Error};

/// Maximum silence before a comment is sent. Some clients disconnect after five seconds of silence.
const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(2);

/// Size in bytes from which on a packet takes no further event.
const PACKET_BYTES: usize = 16 << 10;

/// Returns the response with the stream as its body. It ends with the stream, with the server, or with an
/// error event when its reader's token is revoked or the session is no longer shared. Each event is a
/// JSON-RPC response to the call of this id; without an id, events have no envelope.
pub(super) fn response(id: Option<String>, events: Subscription, server: &A2aServer) -> Response {
    let (over, principals) = (server.over.clone(), Arc::clone(&server.principals));
    let counted = server.options.metrics.as_ref().map(|metrics| metrics.client("sse"));
    let body = stream::unfold(Some(events), move |events| {
        let (id, over, principals) = (id.clone(), over.clone(), Arc::clone(&principals));
        async move {
            let mut events = events?;
            let reader = events.reader().clone();
            let packet = tokio::select! {
                biased;
                () = principals.wait_revoked(&reader) => Err(Error::new(Error::INVALID_REQUEST, TOKEN_REVOKED)),
                packet = next_packet(id.as_deref(), &mut events, &over) => match packet {
                    Some(packet) => Ok(packet),
                    None => Err(events.closed()?),
                },
            };
            Some(match packet {
                Ok(packet) => (packet, Some(events)),
                Err(error) => (last_words(id.as_deref(), &error, events.dialect()).into(), None),
            })
        }
    });
    let body = body.map(move |packet| {
        let _ = &counted;
        Ok::<_, std::convert::Infallible>(packet)
    });
    let headers = [(CONTENT_TYPE, "text/event-stream"), (CACHE_CONTROL, "no-cache")];
    (headers, Body::from_stream(body)).into_response()
}

/// Waits for the next events, or returns a comment after some silence; `None` at the end.
async fn next_packet(
    id: Option<&str>,
    events: &mut Subscription,
    over: &CancellationToken,
) -> Option<Bytes> {
    let next = tokio::time::timeout(KEEP_ALIVE_INTERVAL, events.next());
    match over.run_until_cancelled(next).await {
        Some(Ok(Some(first))) => Some(packet(id, first, events)),
        Some(Ok(None)) => None,
        // Clients ignore a comment, but see that the connection is alive.
        Some(Err(_)) => Some(Bytes::from_static(b": alive\n\n")),
        None => {
            let first = events.next_past().await?;
            Some(packet(id, first, events))
        }
    }
}

/// Returns this event and those that are ready, as one packet.
fn packet(id: Option<&str>, first: Bytes, events: &mut Subscription) -> Bytes {
    let mut packet = Vec::with_capacity(first.len() + id.map_or(0, str::len) + 48);
    let mut next = Some(first);
    while let Some(event) = next {
        packet.extend_from_slice(b"data: ");
        match id {
            Some(id) => Envelope::result(id).write_json(&mut packet, &event),
            None => packet.extend_from_slice(&event),
        }
        packet.extend_from_slice(b"\n\n");
        next = if packet.len() < PACKET_BYTES { events.try_next() } else { None };
    }
    packet.into()
}

/// Returns the error event that ends a stream, in the form of the client's version.
fn last_words(id: Option<&str>, error: &Error, dialect: Dialect) -> Vec<u8> {
    let error = dialect.error(error.clone());
    let mut event = if dialect == Dialect::V1 { Vec::new() } else { b"event: error\n".to_vec() };
    event.extend_from_slice(b"data: ");
    match id {
        Some(id) => Envelope::error(id).write(&mut event, &error),
        None => event.extend_from_slice(RpcStatus::of(&error).body().as_bytes()),
    }
    event.extend_from_slice(b"\n\n");
    event
}

/// Returns an error response in place of a stream, in the form of 0.3.
pub(super) fn error(id: &str, error: &Error) -> Response {
    let body = last_words(Some(id), error, Dialect::V03);
    ([(CONTENT_TYPE, "text/event-stream"), (CACHE_CONTROL, "no-cache")], body).into_response()
}
