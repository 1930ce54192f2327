//! The health of a server and its figures, for those who run it.

use std::sync::Arc;
use std::time::Instant;

use axum::Router;
use axum::extract::{MatchedPath, Request, State};
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use tandem_telemetry::Metrics;
use tokio::net::TcpListener;
use tokio::sync::watch;

use super::server::{A2aServer, Ending};

/// Content type of the figures.
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Returns the routes by which a service manager or a load balancer sees how the server is. They are for
/// everybody: they say nothing else.
pub(super) fn health<S: Clone + Send + Sync + 'static>(ending: Ending) -> Router<S> {
    let ready = move || {
        let ending = ending.clone();
        async move {
            if ending.draining() {
                (StatusCode::SERVICE_UNAVAILABLE, "draining\n").into_response()
            } else {
                "ready\n".into_response()
            }
        }
    };
    Router::new().route("/livez", get(async || "alive\n")).route("/readyz", get(ready))
}

/// Serves the figures, and the health of the server, to whoever reaches the listener, for as long as
/// this is polled. `connected`: number of connections of the server.
pub async fn monitor(
    listener: TcpListener,
    metrics: Arc<Metrics>,
    connected: watch::Receiver<usize>,
    ending: Ending,
) {
    let figures = move || {
        metrics.connections(*connected.borrow());
        let text = metrics.text();
        async move { ([(CONTENT_TYPE, OPEN_METRICS)], text) }
    };
    let router = Router::new().route("/metrics", get(figures));
    // It only fails if it cannot begin, which it has.
    let _ = axum::serve(listener, router.merge(health(ending))).await;
}

/// Notes how long the response to a request took to begin.
pub(super) async fn observe(
    State(server): State<Arc<A2aServer>>,
    request: Request,
    next: Next,
) -> Response {
    let Some(metrics) = &server.options.metrics else { return next.run(request).await };
    let route = request.extensions().get::<MatchedPath>().cloned();
    let began = Instant::now();
    let response = next.run(request).await;
    let route = route.as_ref().map_or("none", MatchedPath::as_str);
    metrics.request(route, response.status().as_u16(), began.elapsed());
    response
}
