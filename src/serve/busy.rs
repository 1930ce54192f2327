//! Refusals of connections and requests, because the server has no room for them or is ending.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use axum::http::StatusCode;
use axum::http::header::{CONNECTION, RETRY_AFTER};
use axum::response::{IntoResponse as _, Response};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::timeout;

use super::tls::Tls;

/// Time after which a refused client should try again, in seconds.
const RETRY_AFTER_SECONDS: &str = "1";

/// Maximum time that a refused connection stays open. The client may still be sending, and its bytes must be
/// read: closing with unread bytes resets the connection, and the client would lose the answer.
const LINGER_TIME: Duration = Duration::from_secs(1);

/// Maximum number of connections that are being refused with an answer at the same time; further connections
/// are closed without an answer.
pub const MAX_REFUSALS: usize = 16;

/// Returns the response to a request that is not carried out now.
pub fn response(why: &'static str) -> Response {
    let headers = [(RETRY_AFTER, RETRY_AFTER_SECONDS), (CONNECTION, "close")];
    (StatusCode::SERVICE_UNAVAILABLE, headers, why).into_response()
}

/// Refuses a connection because there are `connections` others already, and closes it. At most `most_bytes` of the
/// refused request are read. `_place` is the connection's permit, one of
/// [`MAX_REFUSALS`], and is released when the connection is closed.
pub async fn refuse(
    stream: TcpStream,
    tls: Option<Arc<Tls>>,
    connections: usize,
    most_bytes: usize,
    _place: OwnedSemaphorePermit,
) {
    let why = format!("there are {connections} connections already\n");
    let answer = format!(
        "HTTP/1.1 503 Service Unavailable\r\ncontent-type: text/plain; charset=utf-8\r\n\
         content-length: {}\r\nretry-after: {RETRY_AFTER_SECONDS}\r\nconnection: close\r\n\r\n{why}",
        why.len()
    );
    let most = u64::try_from(most_bytes).unwrap_or(u64::MAX);
    // An error means that the client has disconnected, so there is no client to tell.
    let _ = match tls {
        None => timeout(LINGER_TIME, tell(stream, &answer, most)).await,
        Some(tls) => match tls.accept(stream, false, LINGER_TIME).await {
            Ok(stream) => timeout(LINGER_TIME, tell(stream, &answer, most)).await,
            Err(err) => Ok(Err(err)),
        },
    };
}

async fn tell<S>(mut stream: S, answer: &str, most: u64) -> io::Result<u64>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    stream.write_all(answer.as_bytes()).await?;
    stream.shutdown().await?;
    tokio::io::copy(&mut (&mut stream).take(most), &mut tokio::io::sink()).await
}
