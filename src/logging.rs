//! The program's log, on standard error or in a file, never on standard output.
//!
//! A separate thread writes the lines. A write blocks if the reader of standard error stops reading, and this must not
//! block the agent.

mod json;
mod queue;

use std::fs::OpenOptions;
use std::io::{IsTerminal, Write, stderr};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::str::FromStr as _;

use anyhow::Context as _;
use clap::ValueEnum;
use tracing::level_filters::LevelFilter;
use tracing::{Level, Metadata};
use tracing_subscriber::filter::FilterExt as _;
use tracing_subscriber::filter::{Targets, filter_fn};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{Layer as _, fmt};

use tandem_trace::{LOG_TARGET, TRACE_TARGET, Traces};

use self::json::JsonLines;
use self::queue::Queue;

/// Guard of the log. When it is dropped, it waits until the waiting lines are written, but only for a short time.
pub(crate) struct Logs(Option<Queue>);

/// Form of log lines.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogFormat {
    /// For people.
    Text,
    /// A JSON object a line, for programs.
    Json,
}

impl LogFormat {
    /// Returns the format that `TANDEM_LOG_FORMAT` names, if it names one.
    fn of_environment() -> anyhow::Result<Option<Self>> {
        let Some(name) = variable("TANDEM_LOG_FORMAT") else { return Ok(None) };
        let format = Self::from_str(&name, false);
        let format = format.map_err(|_| {
            anyhow::anyhow!("TANDEM_LOG_FORMAT is {name:?}, and must be `text` or `json`")
        })?;
        Ok(Some(format))
    }
}

/// Choices about the log.
pub(crate) struct LogOptions<'a> {
    /// The file for the log; `None` for standard error.
    pub(crate) file: Option<&'a Path>,
    /// `true` to log more, unless a variable in the environment sets the filter.
    pub(crate) debug: bool,
    /// The form of lines, if the user has chosen one.
    pub(crate) format: Option<LogFormat>,
    /// The traces, whose layer sends spans to a collector; `None` for no traces.
    pub(crate) traces: Option<&'a Traces>,
}

/// Starts the log. The variable `TANDEM_LOG`, or else `RUST_LOG`, is the filter of its messages. If neither is set, the
/// log has errors and warnings, and with `debug` also this program's own messages from level `DEBUG` on.
pub(crate) fn start(options: &LogOptions<'_>) -> anyhow::Result<Logs> {
    let LogOptions { file, debug, format, traces } = *options;
    let filter = ["TANDEM_LOG", "RUST_LOG"].into_iter().find_map(variable);
    let filter = match &filter {
        Some(filter) => Targets::from_str(filter)
            .with_context(|| format!("the log filter {filter:?} cannot be read"))?,
        None if debug => {
            Targets::new().with_default(LevelFilter::WARN).with_target("tandem", LevelFilter::DEBUG)
        }
        // People see the state of MCP servers in clearer messages elsewhere.
        None => Targets::new()
            .with_default(LevelFilter::WARN)
            .with_target("rmcp::transport::worker", LevelFilter::OFF),
    };
    let (output, colour): (Box<dyn Write + Send>, _) = if let Some(path) = file {
        let file = OpenOptions::new().create(true).append(true).mode(0o600).open(path);
        (Box::new(file.with_context(|| format!("cannot log to {}", path.display()))?), false)
    } else {
        (Box::new(stderr()), is_coloured(&stderr()))
    };
    let format = format.map_or_else(LogFormat::of_environment, |format| Ok(Some(format)))?;
    let is_json = format == Some(LogFormat::Json);
    let queue = Queue::new(output, if is_json { lost_json } else { lost_text });
    let lines = queue.clone();
    let layer = if is_json {
        // The filter must let spans pass: their fields tell to which session and turn a line belongs.
        let spans = filter_fn(is_owner).with_max_level_hint(LevelFilter::INFO);
        JsonLines::new(lines).with_filter(filter.or(spans)).boxed()
    } else {
        let layer = fmt::layer().with_ansi(colour).with_writer(move || lines.clone());
        layer.with_filter(filter).with_filter(filter_fn(|metadata| !is_owner(metadata))).boxed()
    };
    let layer = layer
        .with_filter(filter_fn(|metadata| tells_no_secret(metadata) && !is_lost_batch(metadata)));
    tracing_subscriber::registry().with(traces.map(Traces::layer)).with(layer).init();
    std::panic::set_hook(Box::new(|panic| tracing::error!("{panic}")));
    Ok(Logs(Some(queue)))
}

/// Returns `true` if text for people may have colours in this stream.
pub(crate) fn is_coloured(stream: &impl IsTerminal) -> bool {
    stream.is_terminal() && variable("NO_COLOR").is_none()
}

/// Returns the value of an environment variable, unless it is unset or empty.
fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// Returns `true` for a span that tells to which session and turn lines of the log belong.
fn is_owner(metadata: &Metadata<'_>) -> bool {
    metadata.is_span() && [TRACE_TARGET, LOG_TARGET].contains(&metadata.target())
}

/// Returns the line that replaces lines that were dropped because the queue was full. The line has their number.
fn lost_text(lines: usize) -> String {
    format!("({lines} lines of the log were dropped here, because they came too fast)\n")
}

fn lost_json(lines: usize) -> String {
    let line = serde_json::json!({ "level": "warn", "target": "tandem", "message": "lines of the log were \
        dropped here, because they came too fast", "fields": { "lines": lines } });
    format!("{line}\n")
}

/// Returns `true` if an event contains no secrets. The detailed events of rmcp's logins contain codes and tokens.
fn tells_no_secret(metadata: &Metadata<'_>) -> bool {
    *metadata.level() <= Level::INFO || !metadata.target().starts_with("rmcp::transport::auth")
}

/// Returns `true` for the event that OpenTelemetry's library logs for each batch that a collector does not accept.
/// `tandem_trace` logs one line for all such batches.
fn is_lost_batch(metadata: &Metadata<'_>) -> bool {
    metadata.target() == "opentelemetry-otlp" && metadata.name().starts_with("Export.Failed")
}

/// Turns the log off, and panic messages with it. Used if standard error is the screen of the terminal.
pub(crate) fn none() -> Logs {
    std::panic::set_hook(Box::new(|_| ()));
    Logs(None)
}

impl Drop for Logs {
    fn drop(&mut self) {
        if let Some(queue) = &self.0 {
            queue.finish();
        }
    }
}
