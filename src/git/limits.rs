//! Limits of workspaces that are clones.

use std::time::Duration;

/// Limits of workspaces that are clones.
#[derive(Debug, Clone, Copy)]
pub struct GitLimits {
    /// Time for one git command: a clone, a push.
    pub time: Duration,
    /// Bytes of a file that is part of a snapshot.
    pub file_bytes: u64,
    /// Bytes of all files of a snapshot that are not committed, and of what is pushed with one.
    pub snapshot_bytes: u64,
}

impl Default for GitLimits {
    fn default() -> Self {
        Self { time: Duration::from_mins(5), file_bytes: 50 << 20, snapshot_bytes: 1 << 30 }
    }
}
