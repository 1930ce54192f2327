//! A single connection: TLS if the server has it, then the HTTP version that the client has chosen.

use std::convert::Infallible;
use std::io;
use std::pin::pin;
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::http::{Request, Response};
use hyper::body::Incoming;
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tower::ServiceExt as _;

use super::http::without_empty_segments;
use super::server::A2aServer;
use tandem_serve::connection_room::ConnectionSlot;
use tandem_serve::http2::{OpenRequests, with_host};
use tandem_serve::patience::Patience;
use tandem_serve::proxy::PeerAddress;
use tandem_serve::tls;

/// Maximum number of bytes of an HTTP/2 response that wait for the client to read them.
const SEND_BUFFER: usize = 64 << 10;

/// Client of a connection, with the connection's slot.
#[derive(Clone)]
struct Client {
    router: Router,
    peer: PeerAddress,
    slot: Arc<ConnectionSlot>,
}

impl Client {
    async fn respond(self, mut request: Request<Incoming>) -> Result<Response<Body>, Infallible> {
        // A WebSocket outlives this connection's task and keeps the slot.
        request.extensions_mut().insert(self.slot);
        request.extensions_mut().insert(self.peer);
        self.router.oneshot(without_empty_segments(request.map(Body::new))).await
    }
}

/// Serves a connection.
pub(super) async fn serve(
    server: Arc<A2aServer>,
    router: Router,
    stream: TcpStream,
    peer: PeerAddress,
    slot: ConnectionSlot,
) {
    // Without Nagle's algorithm, small events leave at once.
    let _ = stream.set_nodelay(true);
    let gives_way = slot.gives_way().clone();
    let client = Client { router, peer, slot: Arc::new(slot) };
    match gives_way.run_until_cancelled(talk(&server, client, stream)).await {
        Some(Ok(())) => {}
        Some(Err(err)) => tracing::debug!("a connection of {} ended: {err}", peer.0),
        None => tracing::debug!("a connection of {} gave way to another one", peer.0),
    }
}

async fn talk(server: &A2aServer, client: Client, stream: TcpStream) -> io::Result<()> {
    let stream = Patience::new(stream, server.options.patience);
    match &server.network.tls {
        None => over_http1(server, client, stream).await.map_err(io::Error::other),
        Some(tls) => match tls.accept(stream, true, server.options.head_time).await? {
            stream if tls::is_http2(&stream) => {
                over_http2(server, client, stream).await.map_err(io::Error::other)
            }
            stream => over_http1(server, client, stream).await.map_err(io::Error::other),
        },
    }
}

async fn over_http1<S>(server: &A2aServer, client: Client, stream: S) -> hyper::Result<()>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let mut talk = pin!(
        http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(server.options.head_time)
            .serve_connection(
                TokioIo::new(stream),
                service_fn(move |request| client.clone().respond(request)),
            )
            .with_upgrades()
    );
    tokio::select! {
        ended = &mut talk => ended,
        () = server.over.cancelled() => {
            talk.as_mut().graceful_shutdown();
            talk.await
        }
    }
}

async fn over_http2<S>(server: &A2aServer, client: Client, stream: S) -> hyper::Result<()>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let options = &server.options;
    let open = OpenRequests::none();
    let counted = open.clone();
    let service = service_fn(move |request| {
        let (request, open) = (with_host(request), counted.begin());
        let response = client.clone().respond(request);
        async move { response.await.map(|response| open.answer(response)) }
    });
    let mut talk = pin!(
        http2::Builder::new(TokioExecutor::new())
            .timer(TokioTimer::new())
            .max_concurrent_streams(u32::try_from(options.streams).unwrap_or(u32::MAX))
            .max_send_buf_size(SEND_BUFFER)
            .keep_alive_interval(options.ping)
            .keep_alive_timeout(options.pong)
            .serve_connection(TokioIo::new(stream), service)
    );
    tokio::select! {
        ended = &mut talk => return ended,
        () = server.over.cancelled() => {}
        () = open.idle(options.head_time) => {}
    }
    talk.as_mut().graceful_shutdown();
    tokio::select! {
        ended = &mut talk => ended,
        // The client may not confirm the shutdown, or may never have sent anything, so the wait is limited.
        () = open.idle(options.head_time) => Ok(()),
    }
}
