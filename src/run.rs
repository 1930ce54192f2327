//! Composition of the program: builds the parts of each way to run (editor, terminal, server, subcommands), connects
//! them, and ends them. No other module knows all parts.

#[cfg(feature = "serve")]
mod a2a;
mod agents;
mod attach;
#[cfg(feature = "serve")]
mod check;
mod editor;
mod ending;
mod generate;
mod headless;
mod keys;
mod login_keys;
mod model_list;
mod models;
mod parts;
mod printing;
mod replay;
mod retention;
mod sandbox;
mod search;
mod servers;
mod session_factory;
#[cfg(feature = "serve")]
mod session_server;
#[cfg(not(feature = "serve"))]
#[path = "run/no_session_server.rs"]
mod session_server;
mod sessions;
#[cfg(feature = "serve")]
mod store;
mod terminal;
#[cfg(feature = "serve")]
mod tokens;
#[cfg(feature = "serve")]
mod workspaces;

use std::fs;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::PathBuf;

use anyhow::Context as _;

#[cfg(feature = "serve")]
pub(crate) use self::a2a::serve;
pub(crate) use self::attach::attach;
#[cfg(feature = "serve")]
pub(crate) use self::check::check;
pub(crate) use self::editor::editor;
pub(crate) use self::ending::{BAD_INPUT, ExitReason, outlive_size_limit};
pub(crate) use self::generate::{completions, manual};
pub(crate) use self::headless::headless;
pub(crate) use self::keys::{login, logout};
pub(crate) use self::model_list::models;
pub(crate) use self::replay::replay;
pub(crate) use self::sandbox::sandbox;
use self::session_factory::{env, set_up};
pub(crate) use self::sessions::sessions;
pub(crate) use self::terminal::terminal;
#[cfg(feature = "serve")]
pub(crate) use self::tokens::tokens;
use crate::cli::ConfigArgs;
use tandem_settings::{limits, show};

/// Keeps other programs of the same user from reading the environment and the memory of this process, which contain
/// API keys. Must be called at the start of the program. Works only on Linux. Other programs can still read the
/// environment and the memory of the programs that the agent starts, but these programs get no key.
pub(crate) fn keep_others_out() {
    #[cfg(target_os = "linux")]
    {
        use rustix::process::{DumpableBehavior, set_dumpable_behavior};
        // The call fails only if a filter of system calls forbids it. The filter was set up on purpose, so no
        // warning is needed.
        let _ = set_dumpable_behavior(DumpableBehavior::NotDumpable);
    }
}

/// Returns the default log file, for a user who wants logs but has named no file. Makes the directory of the file.
pub(crate) fn debug_log() -> anyhow::Result<PathBuf> {
    let dir = env()?.state_dir().context("there is no home directory: set HOME, or --log-file")?;
    let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(&dir);
    made.with_context(|| format!("cannot make {}", dir.display()))?;
    Ok(dir.join("debug.log"))
}

/// Prints the settings that apply in the working directory, and the origin of each; or the limits that apply there.
pub(crate) fn config(config: &ConfigArgs) -> anyhow::Result<()> {
    let (env, settings) = set_up(&config.work, env()?);
    let text = if config.lists_limits {
        limits::text(&mut settings.limits(&config.work.limits))
    } else if config.json {
        format!("{:#}\n", show::json(&settings, &env))
    } else {
        show::text(&settings, &env)
    };
    printing::print(text)
}
