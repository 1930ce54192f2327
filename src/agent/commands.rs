//! Slash commands, defined once for all front ends: the list of the commands, and the lookup of the command that a
//! prompt or a path names.
//!
//! A front end shows [`Registry::list`]. To begin a command, it calls `Session::prompt` with the prompt that
//! [`Registry::prompt`] makes from a path and arguments. All that follows comes as events. A prompt that a person types
//! goes to the session as it is.

mod about;
mod agents;
mod chat;
mod clear;
mod compress;
mod custom;
mod export;
mod fork;
mod go_on;
mod help;
mod init;
mod mcp;
mod memory;
mod model;
mod own;
mod permissions;
mod plan;
mod prompts;
mod registry;
mod rename;
mod restore;
mod rewind;
mod sandbox;
mod share;
mod shells;
mod stats;
mod thinking;
mod tools;
pub mod unknown;
mod words;

pub use self::custom::{CommandDirectory, CommandOwner, Custom, CustomLimits};
pub use self::registry::{Argument, Command, PathError, Registry, is_share};

/// All built-in commands, in the order in which people read them.
const BUILT_IN_COMMANDS: &[Command] = &[
    help::COMMAND,
    about::COMMAND,
    init::COMMAND,
    memory::COMMAND,
    model::COMMAND,
    thinking::COMMAND,
    permissions::COMMAND,
    plan::COMMAND,
    sandbox::COMMAND,
    restore::COMMAND,
    rewind::COMMAND,
    shells::COMMAND,
    tools::COMMAND,
    mcp::COMMAND,
    agents::COMMAND,
    own::COMMAND,
    stats::COMMAND,
    compress::COMMAND,
    go_on::COMMAND,
    rename::COMMAND,
    fork::COMMAND,
    chat::COMMAND,
    export::COMMAND,
    share::SHARE_COMMAND,
    share::UNSHARE_COMMAND,
    clear::COMMAND,
];

impl Default for Registry {
    fn default() -> Self {
        Self::new(BUILT_IN_COMMANDS)
    }
}
