//! The host of a session: its files, commands and limits.

use std::sync::Arc;

use std::path::PathBuf;

use super::background::Background;
use super::disk::Disk;
use super::files::Files;
use super::limits::ToolLimits;
use super::off_thread::off_thread;
use super::output::ToolError;
use super::outputs::Outputs;
use super::preimages::Preimages;
use super::scratch::Scratch;
use super::terminals::Terminals;
use super::workspace::Workspace;

/// Files, commands and limits of one session. Two sessions in two folders share nothing of them:
/// each host is made from the settings of its own folder.
pub struct Host {
    /// The directories that tools may touch, and the rules for what is in them.
    pub workspace: Arc<Workspace>,
    /// The contents of files.
    pub files: Arc<dyn Files>,
    /// The place where commands start.
    pub terminals: Arc<Terminals>,
    /// The commands that go on when their call has ended.
    pub background: Background,
    /// A directory on the disk for what the session keeps beside its log.
    pub scratch: Arc<Scratch>,
    /// Output that was too long for the model.
    pub outputs: Arc<Outputs>,
    /// Contents of files before they were changed.
    pub preimages: Preimages,
    /// Bounds of what tools do.
    pub limits: ToolLimits,
}

impl Host {
    /// A host on the disk of this machine. Nothing is read or made yet.
    pub fn new(
        workspace: Workspace,
        terminals: Arc<Terminals>,
        scratch: Scratch,
        limits: ToolLimits,
    ) -> Self {
        let scratch = Arc::new(scratch);
        Self {
            workspace: Arc::new(workspace),
            files: Arc::new(Disk),
            terminals,
            background: Background::new(&limits),
            outputs: Arc::new(Outputs::new(Arc::clone(&scratch), limits.kept_output_bytes)),
            preimages: Preimages::new(Arc::clone(&scratch), limits.undo_bytes),
            scratch,
            limits,
        }
    }

    /// Returns the real path that a path from the model leads to, if that is inside the workspace:
    /// see [`Workspace::resolve`].
    pub async fn resolve(&self, path: &str) -> Result<PathBuf, ToolError> {
        let (workspace, path) = (Arc::clone(&self.workspace), path.to_owned());
        off_thread(move || workspace.resolve(&path)).await
    }
}
