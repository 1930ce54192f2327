//! A session's directory that is made for the session, and saved elsewhere after each turn, so that another machine
//! can go on with it.

use std::fmt;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;

/// A git repository, and the revision of it that a session begins at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GitOrigin {
    /// The repository's URL, without credentials.
    pub url: String,
    /// A branch, a tag or a commit; without one, the repository's own branch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revision: Option<String>,
}

impl GitOrigin {
    /// Returns `true` if a client means this by a name: `URL#REV`, or the URL alone.
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

    /// Brings the directory to where the last turn has left it, as far as that was saved, before a turn runs.
    /// Returns a text for people and the model about what is lost. The error says why the turn cannot run. When
    /// `cancel` fires, the programs that do it are ended.
    async fn restore(
        &self,
        before: PastTurns,
        cancel: &CancellationToken,
    ) -> Result<Option<String>, String>;

    /// Saves the directory as a turn has left it. The error says why it is not saved. When `cancel` fires, the programs
    /// that do it are ended.
    async fn save(&self, cancel: &CancellationToken) -> Result<WorkspaceSave, String>;
}

/// Outcome of saving a directory.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WorkspaceSave {
    /// Place where the repository has the files; `None` if there was nothing to save.
    pub place: Option<SavedPlace>,
    /// Text for people about what is left out.
    pub remark: Option<String>,
}

/// Place where a repository has the files of a session's directory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SavedPlace {
    /// Reference that was pushed for the session; `None` if the session has changed nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reference: Option<String>,
    /// Id of the commit.
    pub commit: String,
}

/// The turns that ran before another one.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PastTurns {
    /// Number of times that one began, or went on in another process.
    pub count: u64,
    /// `true` if the process of the last one was killed before its end.
    pub was_interrupted: bool,
    /// Commit that the directory is at, if no turn has changed anything.
    pub unchanged_at: Option<String>,
}
