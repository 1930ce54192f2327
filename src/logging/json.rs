//! Log lines as JSON, for programs that collect them.

use std::fmt;
use std::io::Write as _;
use std::sync::OnceLock;

use serde_json::{Map, Value};
use tandem_trace::TraceContext;
use tracing::dispatcher::WeakDispatch;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Dispatch, Event, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Context;
use tracing_subscriber::registry::{LookupSpan, Scope};

use super::queue::Queue;

/// Fields of spans that are copied into the lines within these spans: the name in the span, and the name in the line.
const OF_SPANS: [(&str, &str); 2] =
    [("gen_ai.conversation.id", "session"), ("tandem.turn", "turn")];

/// Writes a line of JSON for each event.
pub(super) struct JsonLines {
    queue: Queue,
    /// Subscriber that this layer belongs to. It knows the trace of a span.
    dispatch: OnceLock<WeakDispatch>,
}

impl JsonLines {
    pub(super) fn new(queue: Queue) -> Self {
        Self { queue, dispatch: OnceLock::new() }
    }

    /// Returns the place of a span in a trace; an empty one if there are no traces.
    fn trace(&self, span: &Id) -> TraceContext {
        let dispatch = self.dispatch.get().and_then(WeakDispatch::upgrade);
        dispatch
            .map_or_else(TraceContext::default, |dispatch| TraceContext::of_span(span, &dispatch))
    }
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for JsonLines {
    fn on_register_dispatch(&self, dispatch: &Dispatch) {
        // The program has only one subscriber, so this is called once.
        let _ = self.dispatch.set(dispatch.downgrade());
    }

    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let mut fields = Fields::default();
        attributes.record(&mut fields);
        if let Some(span) = context.span(id) {
            span.extensions_mut().insert(fields.of_span());
        }
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, context: Context<'_, S>) {
        let mut fields = Fields::default();
        values.record(&mut fields);
        if let Some(span) = context.span(id)
            && let Some(SpanFields(known)) = span.extensions_mut().get_mut()
        {
            known.extend(fields.of_span().0);
        }
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        let metadata = event.metadata();
        let mut fields = Fields::default();
        event.record(&mut fields);
        let Fields(mut fields) = fields;
        let mut line = Map::new();
        let mut add = |name: &str, value: Value| _ = line.insert(name.to_owned(), value);
        add("time", format!("{:.3}", jiff::Timestamp::now()).into());
        add("level", metadata.level().as_str().to_lowercase().into());
        add("target", metadata.target().into());
        // Some libraries give an event a name instead of a message.
        let message = fields.shift_remove("message");
        add("message", message.unwrap_or_else(|| metadata.name().into()));
        for span in context.event_scope(event).into_iter().flat_map(Scope::from_root) {
            if let Some(SpanFields(known)) = span.extensions().get() {
                known.iter().for_each(|(name, value)| add(name, value.clone()));
            }
        }
        if let Some(span) = context.event_span(event) {
            let trace = self.trace(&span.id());
            if let (Some(id), Some(span)) = (trace.trace_id(), trace.span_id()) {
                add("trace_id", id.into());
                add("span_id", span.into());
            }
        }
        if !fields.is_empty() {
            add("fields", fields.into());
        }
        let mut text = Value::Object(line).to_string();
        text.push('\n');
        // The queue takes every write, or drops and counts it.
        let _ = self.queue.clone().write_all(text.as_bytes());
    }
}

/// The fields of a span that are copied into the lines within the span.
struct SpanFields(Map<String, Value>);

/// Values of fields, by name.
#[derive(Default)]
struct Fields(Map<String, Value>);

impl Fields {
    fn of_span(mut self) -> SpanFields {
        let known = OF_SPANS
            .iter()
            .filter_map(|(field, name)| Some(((*name).to_owned(), self.0.shift_remove(*field)?)));
        SpanFields(known.collect())
    }

    fn add(&mut self, field: &Field, value: impl Into<Value>) {
        self.0.insert(field.name().to_owned(), value.into());
    }
}

impl Visit for Fields {
    fn record_f64(&mut self, field: &Field, value: f64) {
        self.add(field, value);
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.add(field, value);
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.add(field, value);
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.add(field, value);
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.add(field, value);
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.add(field, format!("{value:?}"));
    }
}
