//! The figures, and their text form.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;
use tandem_agent::session::{Session, Store};
use tandem_trace::{SpanCounts, span_counts};

use super::figures::{Label, family, gauge, gauges, times};
use super::session::{SessionMetrics, follow};
use super::store::{MeasuredStore, StoreMetrics};

/// Labels of a request: its route and status.
type RequestLabels = [(&'static str, String); 2];

/// The figures of one server.
pub struct Metrics {
    registry: Registry,
    sessions: SessionMetrics,
    store: StoreMetrics,
    connections: Gauge,
    clients: Family<Label, Gauge>,
    spans: Family<Label, Counter>,
    requests: Family<RequestLabels, Counter>,
    request_seconds: Histogram,
}

impl Default for Metrics {
    fn default() -> Self {
        let mut registry = Registry::with_prefix("tandem");
        let version = [("version", env!("CARGO_PKG_VERSION"))];
        let build = Family::<Label, Gauge>::default();
        build.get_or_create(&version).set(1);
        registry.register("build", "Version of the program", build);
        let sessions = SessionMetrics::registered(&mut registry);
        let store = StoreMetrics::registered(&mut registry);
        let connections = gauge(&mut registry, "connections", "Open connections");
        let clients =
            gauges(&mut registry, "clients", "Clients that are told what happens, by transport");
        let spans = family(&mut registry, "trace_spans", "Spans of traces, by what became of them");
        let requests = Family::default();
        registry.register("requests", "Requests, by route and status", requests.clone());
        let request_seconds =
            times(&mut registry, "request", "Time until the response to a request began");
        Self { registry, sessions, store, connections, clients, spans, requests, request_seconds }
    }
}

impl Metrics {
    /// Returns the figures as text in the format `OpenMetrics`.
    pub fn text(&self) -> String {
        let SpanCounts { ended, sent, failed } = span_counts();
        for (state, count) in [("ended", ended), ("sent", sent), ("failed", failed)] {
            self.spans.get_or_create(&[("state", state)]).inner().store(count, Ordering::Relaxed);
        }
        let mut text = String::new();
        // Writing to a string cannot fail.
        let _ = encode(&mut text, &self.registry);
        text
    }

    /// Counts the events of a session from now on, until the session is closed.
    pub fn watch(&self, session: &Arc<Session>) {
        let events = session.events(session.position());
        tokio::spawn(follow(events, session.turns().closed(), self.sessions.clone()));
    }

    /// Returns a store whose operations are timed.
    pub fn measured(&self, store: Arc<dyn Store>) -> Arc<dyn Store> {
        Arc::new(MeasuredStore { store, metrics: self.store.clone() })
    }

    /// Counts a client that receives events, as long as the guard lives. `transport` has only few values.
    pub fn client(&self, transport: &'static str) -> ClientGuard {
        let gauge = self.clients.get_or_create(&[("transport", transport)]).clone();
        gauge.inc();
        ClientGuard(gauge)
    }

    /// Records a request whose response has begun. `route` has only few values.
    pub fn request(&self, route: &str, status: u16, took: Duration) {
        let labels = [("route", route.to_owned()), ("status", status.to_string())];
        self.requests.get_or_create(&labels).inc();
        self.request_seconds.observe(took.as_secs_f64());
    }

    /// Records the number of open connections.
    pub fn connections(&self, count: usize) {
        self.connections.set(i64::try_from(count).unwrap_or(i64::MAX));
    }
}

/// Guard of a counted client: the client counts as long as the guard lives.
pub struct ClientGuard(Gauge);

impl Drop for ClientGuard {
    fn drop(&mut self) {
        self.0.dec();
    }
}
