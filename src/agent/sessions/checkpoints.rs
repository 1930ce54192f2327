//! Checkpoints: copies of sessions under a tag, which never change.

use std::fmt;
use std::path::Path;

use crate::session::{Listed, Query, Store, StoreError};

/// Reason why no checkpoint is found.
#[derive(Debug)]
pub enum CheckpointError {
    /// No checkpoint of the directory has the tag.
    Unknown(String),
    /// The store cannot be read.
    Store(StoreError),
}

impl fmt::Display for CheckpointError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown(tag) => {
                write!(f, "there is no checkpoint `{tag}` here; `/chat list` lists all")
            }
            Self::Store(error) => f.write_str(&error.for_clients()),
        }
    }
}

impl std::error::Error for CheckpointError {}

/// Lists the checkpoints of sessions that began in a directory, the newest first.
pub async fn checkpoints(store: &dyn Store, directory: &Path) -> Result<Vec<Listed>, StoreError> {
    let directory = Some(directory.to_owned());
    store.list(&Query { directory, checkpoints: Some(true), ..Query::default() }).await
}

/// Finds the newest checkpoint of a directory with a tag.
pub async fn find_checkpoint(
    store: &dyn Store,
    directory: &Path,
    tag: &str,
) -> Result<Listed, CheckpointError> {
    let mut all = checkpoints(store, directory).await.map_err(CheckpointError::Store)?.into_iter();
    let tagged = all.find(|listed| listed.head.tag.as_deref() == Some(tag));
    tagged.ok_or_else(|| CheckpointError::Unknown(tag.to_owned()))
}
