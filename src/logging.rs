//! Logging: to standard error or a file, never to standard output.
//!
//! A thread writes them: whoever reads standard error may stop to, and must not stop the agent.

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

use tandem_trace::{LOG_TARGET, TARGET, Traces};

use self::json::JsonLines;
use self::queue::Queue;

/// Guard of the log. When dropped, it writes waiting lines, if that takes no longer than a
/// moment.
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
            anyhow::anyhow!("TANDEM_LOG_FORMAT is {name:?}, and neither `text` nor `json`")
        })?;
        Ok(Some(format))
    }
}

/// Choices about the log.
pub(crate) struct LogOptions<'a> {
    /// The file, instead of standard error.
    pub(crate) file: Option<&'a Path>,
    /// Logs more, unless the environment says how much.
    pub(crate) debug: bool,
    /// The form of lines, if the user has chosen one.
    pub(crate) format: Option<LogFormat>,
    /// The way of spans to a collector.
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
        // People are told what becomes of MCP servers, in better words.
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
        // The spans of what is traced tell to which session a line belongs.
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

/// Returns `true` if text for people has colours in this stream.
pub(crate) fn is_coloured(stream: &impl IsTerminal) -> bool {
    stream.is_terminal() && variable("NO_COLOR").is_none()
}

/// Returns the value of a variable, if it has one.
fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// Returns `true` for a span that tells to what lines of the log belong.
fn is_owner(metadata: &Metadata<'_>) -> bool {
    metadata.is_span() && [TARGET, LOG_TARGET].contains(&metadata.target())
}

/// Returns the line in place of lines that found no room.
fn lost_text(lines: usize) -> String {
    format!("({lines} lines of the log found no room here)\n")
}

fn lost_json(lines: usize) -> String {
    let line = serde_json::json!({ "level": "warn", "target": "tandem", "message": "lines of the log found no \
        room here", "fields": { "lines": lines } });
    format!("{line}\n")
}

/// Returns `true` if an event may be logged. rmcp's details on logins hold codes and tokens.
fn tells_no_secret(metadata: &Metadata<'_>) -> bool {
    *metadata.level() <= Level::INFO || !metadata.target().starts_with("rmcp::transport::auth")
}

/// Returns `true` for a line that OpenTelemetry's library has for each batch that a collector does not take.
/// `tandem_trace` has one for all.
fn is_lost_batch(metadata: &Metadata<'_>) -> bool {
    metadata.target() == "opentelemetry-otlp" && metadata.name().starts_with("Export.Failed")
}

/// Logs nothing, where there is no place that people could read it in.
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
