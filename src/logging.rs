//! Logging: to standard error or a file, never to standard output.
//!
//! A thread writes them: whoever reads standard error may stop to, and must not stop the agent.

mod queue;

use std::fs::OpenOptions;
use std::io::{IsTerminal as _, Write, stderr};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::str::FromStr as _;

use anyhow::Context as _;
use tandem_trace::{TARGET, Traces};
use tracing::level_filters::LevelFilter;
use tracing::{Level, Metadata};
use tracing_subscriber::filter::{Targets, filter_fn};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{Layer as _, fmt};

use self::queue::Queue;

/// Guard of the log. When dropped, it writes waiting lines, if that takes no longer than a
/// moment.
pub(crate) struct Logs(Option<Queue>);

/// Begins to log what `TANDEM_LOG`, or else `RUST_LOG`, asks for. If neither does: warnings, and with
/// `debug` also what this program itself does. `traces`: the way of spans to a collector.
pub(crate) fn start(
    file: Option<&Path>,
    debug: bool,
    traces: Option<&Traces>,
) -> anyhow::Result<Logs> {
    let set = |name| std::env::var(name).ok().filter(|filter| !filter.is_empty());
    let filter = ["TANDEM_LOG", "RUST_LOG"].into_iter().find_map(set);
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
        let colour = stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
        (Box::new(stderr()), colour)
    };
    let queue = Queue::new(output);
    let lines = queue.clone();
    let layer = fmt::layer().with_ansi(colour).with_writer(move || lines.clone());
    let layer = layer.with_filter(filter).with_filter(filter_fn(|metadata| !is_traced(metadata)));
    let layer = layer.with_filter(filter_fn(tells_no_secret));
    tracing_subscriber::registry().with(traces.map(Traces::layer)).with(layer).init();
    std::panic::set_hook(Box::new(|panic| tracing::error!("{panic}")));
    Ok(Logs(Some(queue)))
}

/// Returns `true` for a span that is traced.
fn is_traced(metadata: &Metadata<'_>) -> bool {
    metadata.is_span() && metadata.target() == TARGET
}

/// Returns `true` if an event may be logged. rmcp's details on logins hold codes and tokens.
fn tells_no_secret(metadata: &Metadata<'_>) -> bool {
    *metadata.level() <= Level::INFO || !metadata.target().starts_with("rmcp::transport::auth")
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
