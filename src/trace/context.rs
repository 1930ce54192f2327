//! Trace context, which the headers of W3C's Trace Context carry from one program to the next.

use std::collections::HashMap;
use std::sync::OnceLock;

use opentelemetry::Context;
use opentelemetry::propagation::{Extractor, TextMapPropagator as _};
use opentelemetry::trace::{SpanContext, TraceContextExt as _};
use opentelemetry_sdk::propagation::TraceContextPropagator;
use reqwest::header::{HeaderName, HeaderValue};
use reqwest::{Request, Url};
use tandem_net::is_self_hosted;
use tracing::span::Id;
use tracing::{Dispatch, Span};
use tracing_opentelemetry::{OpenTelemetrySpanExt as _, get_otel_context};

/// Maximum length of a `tracestate` that is passed on, in bytes; a longer one is dropped, as W3C's recommendation
/// allows.
const MAX_STATE_BYTES: usize = 512;

/// Hosts outside of the user's own network that requests may carry the trace context to. Set at most once in the life
/// of the process.
static TRACE_RECIPIENTS: OnceLock<Vec<String>> = OnceLock::new();

/// Place in a trace: a span of this process or of a caller; may be empty.
#[derive(Debug, Clone)]
pub struct TraceContext(SpanContext);

impl Default for TraceContext {
    fn default() -> Self {
        Self(SpanContext::empty_context())
    }
}

impl TraceContext {
    /// Returns the place of the current span.
    pub fn current() -> Self {
        Self::from_otel(&Span::current().context())
    }

    /// Returns the place of a span that the subscriber knows.
    pub fn of_span(id: &Id, dispatch: &Dispatch) -> Self {
        get_otel_context(id, dispatch)
            .map_or_else(Self::default, |context| Self::from_otel(&context))
    }

    /// Reads the fields `traceparent` and `tracestate` that a caller has sent.
    pub fn read<'a>(field: impl Fn(&str) -> Option<&'a str>) -> Self {
        let Some(parent) = field("traceparent") else { return Self::default() };
        let mut fields = HashMap::from([("traceparent".to_owned(), parent.to_owned())]);
        if let Some(state) = field("tracestate").filter(|state| state.len() <= MAX_STATE_BYTES) {
            fields.insert("tracestate".to_owned(), state.to_owned());
        }
        let context = TraceContextPropagator::new()
            .extract_with_context(&Context::new(), &fields as &dyn Extractor);
        Self::from_otel(&context)
    }

    fn from_otel(context: &Context) -> Self {
        Self(context.span().span_context().clone())
    }

    /// Makes a span, which must not have begun, a child of this place.
    pub fn adopt(&self, span: &Span) {
        if self.0.is_valid() {
            // Without a subscriber that traces the span, this fails, and there is nothing to do.
            let _ = span.set_parent(Context::new().with_remote_span_context(self.0.clone()));
        }
    }

    /// Returns the id of the trace in hexadecimal, if there is a trace.
    pub fn trace_id(&self) -> Option<String> {
        self.0.is_valid().then(|| self.0.trace_id().to_string())
    }

    /// Returns the id of the span in hexadecimal, if there is a trace.
    pub fn span_id(&self) -> Option<String> {
        self.0.is_valid().then(|| self.0.span_id().to_string())
    }

    /// Returns the fields that carry this place to another program; no fields if there is no trace.
    pub fn fields(&self) -> HashMap<String, String> {
        let mut fields = HashMap::new();
        if self.0.is_valid() {
            let context = Context::new().with_remote_span_context(self.0.clone());
            TraceContextPropagator::new().inject_context(&context, &mut fields);
            fields.retain(|_, value| !value.is_empty());
        }
        fields
    }
}

/// Lets requests carry the trace context to these hosts, in addition to those of the user's own network; `*` means
/// all hosts. To be called once.
pub fn send_to(hosts: Vec<String>) {
    // A second call has no effect.
    let _ = TRACE_RECIPIENTS.set(hosts);
}

/// Returns the fields that carry the current span in a request to an address. There are none if nothing is traced, or
/// the address is outside of the user's own network and its host is not named.
pub fn outgoing(url: &Url) -> HashMap<String, String> {
    let host = url.host_str().unwrap_or_default();
    let is_named = |named: &String| named == "*" || named.eq_ignore_ascii_case(host);
    if is_self_hosted(url) || TRACE_RECIPIENTS.get().is_some_and(|hosts| hosts.iter().any(is_named))
    {
        TraceContext::current().fields()
    } else {
        HashMap::new()
    }
}

/// Adds the trace context to a request, if its receiver may have the context.
pub fn add_to(request: &mut Request) {
    for (name, value) in outgoing(request.url()) {
        if let (Ok(name), Ok(value)) = (HeaderName::try_from(name), HeaderValue::try_from(value)) {
            request.headers_mut().insert(name, value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    fn read(parent: &str, state: &str) -> HashMap<String, String> {
        TraceContext::read(|name| Some(if name == "traceparent" { parent } else { state })).fields()
    }

    #[test]
    fn what_a_caller_sends_is_passed_on() {
        let fields = read(PARENT, "vendor=1");
        assert_eq!(fields["traceparent"], PARENT);
        assert_eq!(fields["tracestate"], "vendor=1");
    }

    #[test]
    fn what_is_no_context_is_none() {
        for parent in ["", "00", "00-00000000000000000000000000000000-b7ad6b7169203331-01", "ü"] {
            assert_eq!(read(parent, "vendor=1"), HashMap::new(), "{parent}");
        }
        assert_eq!(TraceContext::read(|_| None).trace_id(), None);
    }

    #[test]
    fn a_state_that_is_too_long_is_dropped() {
        let state = format!("vendor={}", "x".repeat(MAX_STATE_BYTES));
        assert_eq!(read(PARENT, &state).len(), 1);
    }
}
