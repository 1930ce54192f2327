//! The context of one call.

use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use super::background::Job;
use super::host::Host;
use super::preimages::FileChange;

/// Context of a call: the host, and what belongs to the call alone.
#[derive(Clone)]
pub struct ToolContext {
    /// The session's files, commands and limits.
    pub host: Arc<Host>,
    /// Environment variables that a command is given besides.
    pub variables: Arc<[(String, String)]>,
    /// Fires when the turn is cancelled. What runs should end soon after.
    pub cancel: CancellationToken,
    /// Takes the live output so far; each call replaces the one before.
    pub progress: Arc<dyn Fn(String) + Send + Sync>,
    /// Is told of each file that has been changed.
    pub changed: Arc<dyn Fn(FileChange) + Send + Sync>,
    /// Called for each command in the background that has ended by itself, or was stopped by
    /// somebody.
    pub background_ended: Arc<dyn Fn(&Job) + Send + Sync>,
}
