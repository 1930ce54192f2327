//! Saved workspaces: directories that are made for one session each, and saved elsewhere after each turn, so that
//! another machine can go on with the session.

use std::fmt;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;

/// A git repository, and the revision at which a session begins.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GitOrigin {
    /// The repository's URL, without credentials.
    pub url: String,
    /// A branch, a tag or a commit; `None` for the repository's default branch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revision: Option<String>,
}

impl GitOrigin {
    /// Returns `true` if a client's name for a repository, `URL#REV` or the URL alone, means this origin.
    pub fn is_named(&self, name: &str) -> bool {
        name == self.url || name == self.to_string()
    }
}

impl fmt::Display for GitOrigin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.url)?;
        self.revision.iter().try_for_each(|revision| write!(f, "#{revision}"))
    }
}

/// A session's directory that is saved elsewhere after each turn.
#[async_trait]
pub trait SavedWorkspace: Send + Sync {
    /// Returns the repository that the directory is a clone of.
    fn origin(&self) -> &GitOrigin;

    /// Brings the directory, before a turn runs, to the state in which the last turn has left it, as far as that state
    /// was saved. Returns a text for people and the model about changes that are lost, if any are. The error says why
    /// the turn cannot run. When `cancel` fires, the programs that restore the directory are ended.
    async fn restore(
        &self,
        before: PastTurns,
        cancel: &CancellationToken,
    ) -> Result<Option<String>, String>;

    /// Saves the directory as a turn has left it. The error says why the directory is not saved. When `cancel` fires,
    /// the programs that save the directory are ended.
    async fn save(&self, cancel: &CancellationToken) -> Result<WorkspaceSave, String>;
}

/// Outcome of saving a directory.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WorkspaceSave {
    /// Place in the repository where the files are saved; `None` if there was nothing to save.
    pub place: Option<SavedPlace>,
    /// Text for people about files that are left out.
    pub remark: Option<String>,
}

/// Place in a repository where the files of a session's directory are saved.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SavedPlace {
    /// Git reference that was pushed for the session; `None` if the session has changed no file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reference: Option<String>,
    /// Id of the commit.
    pub commit: String,
}

/// The turns of a session that ran before the turn that is about to run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PastTurns {
    /// Number of times that a turn began, or was resumed in another process.
    pub count: u64,
    /// `true` if the process of the last turn was killed before the turn ended.
    pub was_interrupted: bool,
    /// Id of the commit at which the directory is, if no turn has changed a file.
    pub unchanged_at: Option<String>,
}
