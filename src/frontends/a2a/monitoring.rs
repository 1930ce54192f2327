//! Health, metrics and traces of a server, for its operators.

use std::sync::Arc;
use std::time::Instant;

use axum::Router;
use axum::extract::{MatchedPath, Request, State};
use axum::http::header::CONTENT_TYPE;
use axum::http::{Method, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use tandem_agent::session::StoreHealth;
use tandem_telemetry::Metrics;
use tandem_trace::TRACE_TARGET;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tracing::field::Empty;
use tracing::{Instrument as _, Span};

use super::server::{A2aServer, CallOrigin, Ending, trace};

/// Content type of the metrics.
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// State that decides whether the server takes requests.
#[derive(Clone)]
pub struct ServerHealth {
    /// Signals for the server to end.
    pub ending: Ending,
    /// Health of the store of the server's sessions.
    pub store: StoreHealth,
}

/// Returns the routes by which a service manager or a load balancer checks the server. They need no token,
/// since they reveal nothing else.
pub(super) fn health<S: Clone + Send + Sync + 'static>(health: ServerHealth) -> Router<S> {
    let ready = move || {
        let unready = if health.ending.draining() {
            Some("draining\n")
        } else if health.store.is_refusing() {
            Some("sessions cannot be saved now\n")
        } else {
            None
        };
        async move {
            match unready {
                Some(why) => (StatusCode::SERVICE_UNAVAILABLE, why).into_response(),
                None => "ready\n".into_response(),
            }
        }
    };
    Router::new().route("/livez", get(async || "alive\n")).route("/readyz", get(ready))
}

/// Serves the metrics and the health of the server to all clients of the listener, for as long as this future
/// is polled. `connected`: number of connections of the server.
pub async fn monitor(
    listener: TcpListener,
    metrics: Arc<Metrics>,
    connected: watch::Receiver<usize>,
    health: ServerHealth,
) {
    let figures = move || {
        metrics.connections(*connected.borrow());
        let text = metrics.text();
        async move { ([(CONTENT_TYPE, OPEN_METRICS)], text) }
    };
    let router = Router::new().route("/metrics", get(figures));
    // Serving fails only at its start, which has succeeded.
    let _ = axum::serve(listener, router.merge(self::health(health))).await;
}

/// Records the time until the response to a request began, in the metrics and in a trace.
pub(super) async fn observe(
    State(server): State<Arc<A2aServer>>,
    request: Request,
    next: Next,
) -> Response {
    let route = request.extensions().get::<MatchedPath>().cloned();
    let route = route.as_ref().map_or("none", MatchedPath::as_str);
    let span = request_span(&request, route);
    let began = Instant::now();
    let response = next.run(request).instrument(span.clone()).await;
    let status = response.status();
    span.record("http.response.status_code", i64::from(status.as_u16()));
    if status.is_server_error() {
        span.record("otel.status_code", "ERROR");
    }
    if let Some(metrics) = &server.options.metrics {
        metrics.request(route, status.as_u16(), began.elapsed());
    }
    response
}

/// Returns the trace span of a request up to the start of its response, as a child of the caller's span.
fn request_span(request: &Request, route: &str) -> Span {
    // Clients can invent methods, which must not become values in traces.
    let known = [Method::GET, Method::POST, Method::PUT, Method::PATCH, Method::DELETE];
    let method = known.iter().find(|known| *known == request.method());
    let method = method.map_or("_OTHER", Method::as_str);
    let span = tracing::info_span!(
        target: TRACE_TARGET,
        parent: None,
        "request",
        "otel.name" = format!("{method} {route}"),
        "otel.kind" = "server",
        "otel.status_code" = Empty,
        "http.request.method" = method,
        "http.route" = route,
        "http.response.status_code" = Empty,
        "rpc.system" = Empty,
        "rpc.method" = Empty,
    );
    trace(request.headers()).adopt(&span);
    span
}

/// Returns the trace span of a call that is no HTTP request, such as a call over a WebSocket, as a child of the
/// caller's span.
pub(super) fn call_span(caller: &CallOrigin, name: &'static str) -> Span {
    let span = tracing::info_span!(
        target: TRACE_TARGET,
        parent: None,
        "call",
        "otel.name" = name,
        "otel.kind" = "server",
        "rpc.system" = Empty,
        "rpc.method" = Empty,
    );
    caller.trace.adopt(&span);
    span
}

/// Records the name of a known method in the current span.
pub(super) fn note_method(name: &str) {
    let span = Span::current();
    span.record("rpc.system", "jsonrpc");
    span.record("rpc.method", name);
}
