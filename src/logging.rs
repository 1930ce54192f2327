//! Where logs go: standard error or a file, never standard output.

use std::fs::OpenOptions;
use std::io::{IsTerminal as _, stderr};
use std::path::Path;
use std::str::FromStr as _;
use std::sync::Mutex;

use anyhow::Context as _;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{Layer as _, fmt};

/// Begins to log what `TANDEM_LOG`, or else `RUST_LOG`, asks for; warnings if neither does.
pub fn start(file: Option<&Path>) -> anyhow::Result<()> {
    let filter = ["TANDEM_LOG", "RUST_LOG"].into_iter().find_map(|name| std::env::var(name).ok());
    let filter = match &filter {
        Some(filter) => Targets::from_str(filter)
            .with_context(|| format!("the log filter {filter:?} cannot be read"))?,
        None => Targets::new().with_default(LevelFilter::WARN),
    };
    let layer = if let Some(path) = file {
        let file = OpenOptions::new().create(true).append(true).open(path);
        let file = file.with_context(|| format!("cannot log to {}", path.display()))?;
        fmt::layer().with_ansi(false).with_writer(Mutex::new(file)).boxed()
    } else {
        let colour = stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
        fmt::layer().with_ansi(colour).with_writer(stderr).boxed()
    };
    tracing_subscriber::registry().with(layer.with_filter(filter)).init();
    std::panic::set_hook(Box::new(|panic| tracing::error!("{panic}")));
    Ok(())
}
