//! The context of one call.

use std::sync::Arc;

use futures::future::BoxFuture;
use tandem_sandbox::SandboxMode;
use tokio_util::sync::CancellationToken;

use super::background::Job;
use super::command_sandbox::ShownFiles;
use super::host::Host;
use super::network::Connect;
use super::output::ToolError;
use super::preimages::FileChange;
use super::user_question::AskUser;

/// Announcement of a change that is about to be made. If it fails, so does the call, and the file
/// stays as it is. An announced change may still not happen: the disk may be full, or the process
/// may end.
pub type Announce =
    Arc<dyn Fn(FileChange) -> BoxFuture<'static, Result<(), ToolError>> + Send + Sync>;

/// Context of a call: the host, and what belongs to the call alone.
#[derive(Clone)]
pub struct ToolContext {
    /// Id of the call.
    pub call: Arc<str>,
    /// The session's files, commands and limits.
    pub host: Arc<Host>,
    /// Environment variables that a command is given besides.
    pub variables: Arc<[(String, String)]>,
    /// `true` if a command goes to the background when its time is over; `false` for one that a person has typed.
    pub has_clock: bool,
    /// Mode of the sandbox that a command runs in.
    pub sandbox: SandboxMode,
    /// Files that a command sees in the sandbox besides those that every command sees.
    pub shown: Arc<ShownFiles>,
    /// Decides on hosts that a command in the sandbox, or a redirection of the web, leads to; `None`: the
    /// settings alone do.
    pub connect: Option<Connect>,
    /// Fires when the turn is cancelled. What runs should end soon after.
    pub cancel: CancellationToken,
    /// Takes the live output so far; each call replaces the one before.
    pub progress: Arc<dyn Fn(String) + Send + Sync>,
    /// Asks the user what comes up meanwhile.
    pub ask: AskUser,
    /// Announces each change of a file before the file is touched.
    pub announce: Announce,
    /// Called for each command in the background that has ended by itself, or was stopped by
    /// somebody.
    pub background_ended: Arc<dyn Fn(&Job) + Send + Sync>,
}
