//! Limits of workspaces that are clones.

use std::time::Duration;

/// Limits of workspaces that are clones.
#[derive(Debug, Clone, Copy)]
pub struct GitLimits {
    /// Maximum time of one git command, such as a clone or a push.
    pub time: Duration,
    /// Maximum size of a file in a snapshot, in bytes.
    pub file_bytes: u64,
    /// Maximum size of all files of a snapshot that are not committed, and of the data that is pushed with a snapshot,
    /// in bytes.
    pub snapshot_bytes: u64,
}

impl Default for GitLimits {
    fn default() -> Self {
        Self { time: Duration::from_mins(5), file_bytes: 50 << 20, snapshot_bytes: 1 << 30 }
    }
}
