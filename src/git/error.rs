//! Reasons for which a clone cannot be made, saved or removed.

use std::fmt;
use std::io;
use std::time::Duration;

use tandem_agent::session::StoreError;

use super::limits::GitLimits;

/// Reason for which a clone cannot be made, saved or removed. Its text is for people.
#[derive(Debug)]
pub enum GitError {
    /// The program git cannot be run.
    NotRun(io::Error),
    /// The turn that git ran for was cancelled.
    Cancelled,
    /// A command of git took longer than the limit.
    TooLong {
        /// Name of the command.
        command: String,
        /// The limit.
        limit: Duration,
    },
    /// A command of git wrote more than is read.
    TooMuchOutput {
        /// Name of the command.
        command: String,
    },
    /// A command of git has failed.
    Failed {
        /// Name of the command.
        command: String,
        /// Exit code; `None` if a signal ended git, or if the end is not known.
        code: Option<i32>,
        /// Error output of git on one line, without the secret of the URL. May be empty.
        output: String,
    },
    /// A command of git wrote no id of an object where one was due.
    NoObject,
    /// The repository has no branch or tag of this name.
    NoBranch(String),
    /// The repository has no revision of this name.
    NoRevision {
        /// URL of the repository.
        url: String,
        /// Name of a branch or a tag, or id of a commit.
        revision: String,
    },
    /// The commit in the repository is no snapshot.
    NoSnapshot,
    /// A snapshot would push more bytes than the limit.
    TooLarge {
        /// The limit, in bytes.
        limit: u64,
    },
    /// The files of the workspace cannot be used.
    Files(io::Error),
    /// The name of the directory of the workspaces is not UTF-8.
    DirectoryName,
    /// The clone that the session works in cannot be read.
    Clone(io::Error),
    /// The id of a session names no directory.
    SessionId(io::Error),
    /// The clone cannot be moved away.
    Remove(io::Error),
    /// The server was started without the repository of this name.
    NotOffered(String),
    /// A clone is removed, and its snapshot is not.
    SnapshotStays(Box<Self>),
    /// The store that has the sessions cannot be used.
    Store(StoreError),
    /// The store has become another store, which has none of the sessions.
    StoreLost,
}

impl GitError {
    pub(crate) fn too_large(limits: GitLimits) -> Self {
        Self::TooLarge { limit: limits.snapshot_bytes }
    }
}

impl fmt::Display for GitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotRun(error) => write!(f, "git cannot be run: {error}"),
            Self::Cancelled => f.write_str("the turn was cancelled"),
            Self::TooLong { command, limit } => {
                let seconds = limit.as_secs();
                write!(
                    f,
                    "`git {command}` took longer than {seconds} s (`--limit git-seconds=N` allows more)"
                )
            }
            Self::TooMuchOutput { command } => write!(f, "`git {command}` names too many files"),
            Self::Failed { command, output, .. } => {
                let output = if output.is_empty() { "it has failed" } else { output };
                write!(f, "`git {command}`: {output}")
            }
            Self::NoObject => f.write_str("git names no object"),
            Self::NoBranch(name) => write!(f, "it has no branch or tag `{name}`"),
            Self::NoRevision { url, revision } => {
                write!(f, "{url} has no branch, tag or commit `{revision}`")
            }
            Self::NoSnapshot => {
                f.write_str("the snapshot in the repository was not made by tandem")
            }
            Self::TooLarge { limit } => write!(
                f,
                "more than {limit} bytes would be pushed; delete files that need not be saved, or name them in \
                 `.gitignore` (`--limit git-snapshot-bytes=N` allows more)"
            ),
            Self::Files(error) => write!(f, "the files of the workspace cannot be used: {error}"),
            Self::DirectoryName => {
                f.write_str("the directory of the workspaces must have a name in UTF-8")
            }
            Self::Clone(error) => write!(f, "the clone cannot be read: {error}"),
            Self::SessionId(error) => write!(f, "{error}"),
            Self::Remove(error) => write!(f, "its clone cannot be removed: {error}"),
            Self::NotOffered(origin) => write!(f, "the server was started without `{origin}`"),
            Self::SnapshotStays(why) => {
                write!(f, "its snapshot stays in the repository: {why}")
            }
            Self::Store(error) => write!(f, "{error}"),
            Self::StoreLost => f.write_str("the store has lost its sessions"),
        }
    }
}

impl std::error::Error for GitError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::NotRun(error)
            | Self::Files(error)
            | Self::Clone(error)
            | Self::SessionId(error)
            | Self::Remove(error) => Some(error),
            Self::SnapshotStays(error) => Some(error),
            Self::Store(error) => Some(error),
            _ => None,
        }
    }
}
