//! A stream of events as the body of a response: Server-Sent Events (spec 3.3.3).

use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::response::{IntoResponse as _, Response};
use futures::stream::{self, StreamExt as _};
use tokio_util::sync::CancellationToken;

use super::server::A2aServer;
use super::subscription::Subscription;
use tandem_wire::jsonrpc::{Envelope, Error};

/// Maximum silence before a comment is sent: some clients hang up after five seconds of silence.
const ALIVE: Duration = Duration::from_secs(2);

/// Number of bytes from which on a packet takes no further event.
const PACKET: usize = 16 << 10;

/// The response; it ends with the stream, when nothing more happens, or when its reader is not served
/// any more. Each event is a response to the call of this id; without an id it stands by itself.
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
                () = principals.ended(&reader) => return None,
                packet = next_packet(id.as_deref(), &mut events, &over) => packet?,
            };
            Some((packet, Some(events)))
        }
    });
    let body = body.map(move |packet| {
        let _ = &counted;
        Ok::<_, std::convert::Infallible>(packet)
    });
    let headers = [(CONTENT_TYPE, "text/event-stream"), (CACHE_CONTROL, "no-cache")];
    (headers, Body::from_stream(body)).into_response()
}

/// The next events, or a sign of life; nothing at the end.
async fn next_packet(
    id: Option<&str>,
    events: &mut Subscription,
    over: &CancellationToken,
) -> Option<Bytes> {
    let next = tokio::time::timeout(ALIVE, events.next());
    match over.run_until_cancelled(next).await {
        Some(Ok(Some(first))) => Some(packet(id, first, events)),
        Some(Ok(None)) => None,
        // A comment: nobody reads it, and everybody sees that somebody is there.
        Some(Err(_)) => Some(Bytes::from_static(b": alive\n\n")),
        None => {
            let first = events.try_next()?;
            Some(packet(id, first, events))
        }
    }
}

/// This event and those that are there already.
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
        next = if packet.len() < PACKET { events.try_next() } else { None };
    }
    packet.into()
}

/// An error in place of a stream, as clients of 0.3 read it.
pub(super) fn error(id: &str, error: &Error) -> Response {
    let mut body = b"event: error\ndata: ".to_vec();
    Envelope::error(id).write(&mut body, error);
    body.extend_from_slice(b"\n\n");
    ([(CONTENT_TYPE, "text/event-stream"), (CACHE_CONTROL, "no-cache")], body).into_response()
}
