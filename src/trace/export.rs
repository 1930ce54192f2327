//! Export of spans to a collector, over OTLP as protobuf.
//!
//! A thread of OpenTelemetry's library collects ended spans in batches, and sends them. The thread that ends a span
//! never waits: if there is no room for the span, it is dropped.

use std::env;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use async_trait::async_trait;
use bytes::Bytes;
use opentelemetry::trace::TracerProvider as _;
use opentelemetry::{Context, KeyValue};
use opentelemetry_http::{HttpClient, HttpError, Request, Response};
use opentelemetry_otlp::{SpanExporter as OtlpExporter, WithHttpConfig as _};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::trace::{
    BatchSpanProcessor, SdkTracerProvider, Span, SpanData, SpanExporter, SpanProcessor,
};
use parking_lot::Mutex;
use reqwest::{Client, Url, redirect};
use tandem_net as net;
use tokio::runtime::{Builder, Runtime};
use tracing_subscriber::filter::filter_fn;
use tracing_subscriber::{Layer, Registry};

use super::counts;
use super::outage::Outage;
use super::sampler::sampler;
use super::target::TRACE_TARGET;

/// Maximum time to send the last spans when the process ends.
const LAST_SPANS: Duration = Duration::from_secs(3);

/// Default maximum time of a request.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(10);

/// Maximum length of a collector's answer, in bytes.
const MAX_ANSWER_BYTES: usize = 64 << 10;

/// Export of spans to a collector. When it is dropped, it sends the remaining spans, for which it waits a limited time.
pub struct Traces(SdkTracerProvider);

impl Traces {
    /// Prepares the export to the collector that the variables of OpenTelemetry name; `None` if they name none. The
    /// error says which of them is wrong.
    pub fn begin(service: &'static str, version: &'static str) -> anyhow::Result<Option<Self>> {
        if !is_wanted()? {
            return Ok(None);
        }
        let timeout = timeout()?;
        let sampler = sampler(
            variable("OTEL_TRACES_SAMPLER").as_deref(),
            variable("OTEL_TRACES_SAMPLER_ARG").as_deref(),
        )?;
        let exporter = OtlpExporter::builder()
            .with_http()
            .with_http_client(CollectorClient::new(timeout)?)
            .build()
            .context("traces cannot be sent")?;
        // A name of the service in the environment outranks this one.
        let names_service = variable("OTEL_SERVICE_NAME").is_some()
            || variable("OTEL_RESOURCE_ATTRIBUTES").is_some_and(|it| it.contains("service.name="));
        let mut resource =
            Resource::builder().with_attribute(KeyValue::new("service.version", version));
        if !names_service {
            resource = resource.with_service_name(service);
        }
        let batches = BatchSpanProcessor::builder(CountedExporter::new(exporter)).build();
        let provider = SdkTracerProvider::builder()
            .with_sampler(sampler)
            .with_resource(resource.build())
            .with_span_processor(CountedProcessor(batches))
            .build();
        Ok(Some(Self(provider)))
    }

    /// Returns the layer that takes the spans of [`TRACE_TARGET`]. The layer leaves out events of the log, whose texts
    /// could contain anything.
    pub fn layer(&self) -> Box<dyn Layer<Registry> + Send + Sync> {
        tracing_opentelemetry::layer()
            .with_tracer(self.0.tracer("tandem"))
            .with_location(false)
            .with_threads(false)
            .with_target(false)
            .with_tracked_inactivity(false)
            .with_context_activation(false)
            .with_filter(filter_fn(|metadata| {
                metadata.is_span() && metadata.target() == TRACE_TARGET
            }))
            .boxed()
    }
}

impl Drop for Traces {
    fn drop(&mut self) {
        if let Err(error) = self.0.shutdown_with_timeout(LAST_SPANS) {
            tracing::warn!("not all traces could be sent: {error}");
        }
    }
}

/// Returns the value of an environment variable, if it has one. The `.env` files of projects do not count: a project
/// must not decide where traces go.
fn variable(name: &str) -> Option<String> {
    env::var(name).ok().filter(|value| !value.trim().is_empty())
}

/// Returns the value and the name of the variable for traces, or else of the variable for all exports.
fn exporter_variable(name: &str) -> Option<(String, String)> {
    ["OTEL_EXPORTER_OTLP_TRACES_", "OTEL_EXPORTER_OTLP_"].into_iter().find_map(|prefix| {
        let name = format!("{prefix}{name}");
        Some((variable(&name)?, name))
    })
}

/// Returns `true` if the environment names a collector and does not disable the export. The error says which variable
/// is wrong.
fn is_wanted() -> anyhow::Result<bool> {
    let is_disabled =
        variable("OTEL_SDK_DISABLED").is_some_and(|it| it.eq_ignore_ascii_case("true"));
    let Some((endpoint, name)) = exporter_variable("ENDPOINT").filter(|_| !is_disabled) else {
        return Ok(false);
    };
    match variable("OTEL_TRACES_EXPORTER").as_deref() {
        None | Some("otlp") => {}
        Some("none") => return Ok(false),
        Some(other) => anyhow::bail!("OTEL_TRACES_EXPORTER is {other:?}, and not otlp or none"),
    }
    let url = Url::parse(&endpoint).ok().filter(|url| matches!(url.scheme(), "http" | "https"));
    anyhow::ensure!(url.is_some(), "{name} is not an address that begins with http: or https:");
    if let Some((protocol, name)) = exporter_variable("PROTOCOL") {
        anyhow::ensure!(
            protocol == "http/protobuf",
            "{name} is {protocol:?}, and traces are sent as http/protobuf only, which collectors take at port 4318"
        );
    }
    Ok(true)
}

fn timeout() -> anyhow::Result<Duration> {
    let Some((text, name)) = exporter_variable("TIMEOUT") else { return Ok(DEFAULT_TIMEOUT) };
    let millis = text
        .parse()
        .with_context(|| format!("{name} is {text:?}, and not a number of milliseconds"))?;
    Ok(Duration::from_millis(millis))
}

/// HTTP client of the thread that sends spans. It has a runtime of its own, so that sending does not depend on the
/// server's runtime, and continues after that has ended.
#[derive(Debug)]
struct CollectorClient {
    runtime: Runtime,
    client: Client,
}

impl CollectorClient {
    fn new(timeout: Duration) -> anyhow::Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let client = net::build(|| {
            Client::builder()
                .user_agent(net::USER_AGENT)
                .timeout(timeout)
                // The headers may contain a key that is meant for this host only.
                .redirect(redirect::Policy::none())
        });
        Ok(Self { runtime, client: client.context("the HTTP client of traces")? })
    }

    async fn send(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let sent = self.client.execute(request.try_into()?).await;
        let mut response = sent.map_err(|error| net::cause(&error))?;
        let mut answer = Response::new(Bytes::new());
        *answer.status_mut() = response.status();
        *answer.headers_mut() = std::mem::take(response.headers_mut());
        let mut body = Vec::new();
        while let Some(bytes) = response.chunk().await? {
            if body.len() + bytes.len() > MAX_ANSWER_BYTES {
                return Err("the collector's answer is too long".into());
            }
            body.extend_from_slice(&bytes);
        }
        *answer.body_mut() = body.into();
        Ok(answer)
    }
}

#[async_trait]
impl HttpClient for CollectorClient {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        // The thread that polls this future does nothing else and has no runtime, so it may block.
        self.runtime.block_on(self.send(request))
    }
}

/// Exporter that counts the spans that a collector has taken or not, and writes to the log when it takes none.
#[derive(Debug)]
struct CountedExporter {
    exporter: OtlpExporter,
    outage: Mutex<Outage>,
}

impl CountedExporter {
    fn new(exporter: OtlpExporter) -> Self {
        Self { exporter, outage: Mutex::default() }
    }
}

impl SpanExporter for CountedExporter {
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        let spans = batch.len();
        let result = self.exporter.export(batch).await;
        counts::exported(spans, result.is_ok());
        let line = match result {
            Ok(()) => self.outage.lock().sent(),
            Err(error) => self.outage.lock().failed(spans, &error.to_string(), Instant::now()),
        };
        if let Some(line) = line {
            tracing::warn!("{line}");
        }
        // If an error were returned, the library would log a line for each batch.
        Ok(())
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        if let Some(line) = self.outage.lock().last_line() {
            tracing::warn!("{line}");
        }
        self.exporter.shutdown_with_timeout(timeout)
    }

    fn force_flush(&self) -> OTelSdkResult {
        self.exporter.force_flush()
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.exporter.set_resource(resource);
    }
}

/// Span processor that counts the spans that have ended.
#[derive(Debug)]
struct CountedProcessor(BatchSpanProcessor);

impl SpanProcessor for CountedProcessor {
    fn on_start(&self, span: &mut Span, context: &Context) {
        self.0.on_start(span, context);
    }

    fn on_end(&self, span: SpanData) {
        counts::count_ended();
        self.0.on_end(span);
    }

    fn force_flush(&self) -> OTelSdkResult {
        self.0.force_flush()
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.0.shutdown_with_timeout(timeout)
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.0.set_resource(resource);
    }
}
