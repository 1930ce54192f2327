//! Context of one call.

use std::sync::Arc;

use futures::future::BoxFuture;
use tandem_sandbox::SandboxMode;
use tokio_util::sync::CancellationToken;

use super::audience::ToolAudience;
use super::background::Job;
use super::command_sandbox::ShownFiles;
use super::host::Host;
use super::network::Connect;
use super::output::ToolError;
use super::preimages::FileChange;
use super::user_question::AskUser;

/// Callback that announces a change before it is made. If it fails, the call fails, and the file is not touched. An
/// announced change may still not happen: the disk may be full, or the process may end.
pub type Announce =
    Arc<dyn Fn(FileChange) -> BoxFuture<'static, Result<(), ToolError>> + Send + Sync>;

/// Context of a call: the session's host, and data of the call alone.
#[derive(Clone)]
pub struct ToolContext {
    /// Id of the call.
    pub call: Arc<str>,
    /// The session's files, commands and limits.
    pub host: Arc<Host>,
    /// Facts on the model, which decide on the words of results.
    pub audience: ToolAudience,
    /// Additional environment variables for a command.
    pub variables: Arc<[(String, String)]>,
    /// `true` if a command goes to the background when its time is over; `false` for a command that a person has typed.
    pub has_clock: bool,
    /// Mode of the sandbox that a command runs in.
    pub sandbox: SandboxMode,
    /// Hidden files that a command in the sandbox may see after all.
    pub shown: Arc<ShownFiles>,
    /// Callback that decides on hosts that a command in the sandbox, or a redirection of the web, leads to. `None`:
    /// only the settings decide.
    pub connect: Option<Connect>,
    /// Token that is cancelled with the turn. The call should end soon after.
    pub cancel: CancellationToken,
    /// Callback for the live output so far; each text replaces the text before.
    pub progress: Arc<dyn Fn(String) + Send + Sync>,
    /// Callback that asks the user a question while the call runs.
    pub ask: AskUser,
    /// Callback that announces each change of a file before the file is touched.
    pub announce: Announce,
    /// Callback for each background command that has ended by itself or was stopped.
    pub background_ended: Arc<dyn Fn(&Job) + Send + Sync>,
}
