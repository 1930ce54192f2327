//! Lists of sessions, made from the first and the last lines of their logs.

use std::collections::BinaryHeap;
use std::fs::{self, File, TryLockError};
use std::io::{self, ErrorKind};
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use tandem_agent::session::{BatchSummary, Holder, Listed, Millis, Query, StoreError};
use uuid::Uuid;

use super::directory::{
    LOG_FILE, OWNER_FILE, open, read_head_or_first_event, read_owner, session_id,
};
use crate::backwards::Backwards;
use crate::lines;

/// Lists sessions, the most recently changed first.
pub(super) fn list(root: &Path, query: &Query) -> Result<Vec<Listed>, StoreError> {
    let mut logs = find(root)?;
    // A heap sorts, and so reads, only as many sessions as are asked for.
    let newest = std::iter::from_fn(|| logs.pop());
    let described = newest.filter_map(|log| describe(root, log, query));
    Ok(described.skip(query.skip).take(query.most.unwrap_or(usize::MAX)).collect())
}

/// Time of a log's last change, and the session's id. The id makes the order definite: a list must not depend on the
/// order of directory entries.
type ChangedLog = (Millis, Uuid);

/// Returns the ids of all sessions, in no order.
pub(super) fn ids(root: &Path) -> io::Result<impl Iterator<Item = Uuid> + use<>> {
    let entries = match fs::read_dir(root) {
        Err(err) if err.kind() == ErrorKind::NotFound => None,
        entries => Some(entries?),
    };
    let entries = entries.into_iter().flatten().flatten();
    Ok(entries.filter_map(|entry| session_id(entry.file_name().to_str()?)))
}

fn find(root: &Path) -> io::Result<BinaryHeap<ChangedLog>> {
    Ok(ids(root)?.filter_map(|id| changed_log(root, id)).collect())
}

fn changed_log(root: &Path, id: Uuid) -> Option<ChangedLog> {
    let metadata = fs::metadata(root.join(id.as_hyphenated().to_string()).join(LOG_FILE)).ok()?;
    Some((metadata.modified().map_or(0, millis), id))
}

/// Returns the size of all files in a directory and its subdirectories, in bytes. A file that cannot be read counts
/// as 0.
pub(super) fn size(dir: &Path) -> u64 {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    let sizes = entries.filter_map(|entry| {
        // This does not follow symbolic links: the size is that of the link.
        let metadata = entry.metadata().ok()?;
        Some(if metadata.is_dir() { size(&entry.path()) } else { metadata.len() })
    });
    sizes.sum()
}

fn millis(time: SystemTime) -> Millis {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    Millis::try_from(since.as_millis()).unwrap_or(Millis::MAX)
}

/// Describes a session; returns `None` if the query does not match it, or it cannot be read.
fn describe(root: &Path, log: ChangedLog, query: &Query) -> Option<Listed> {
    let (changed, id) = (log.0, log.1.as_hyphenated().to_string());
    let mut log = open(&root.join(&id), &id).ok()?;
    let head = read_head_or_first_event(&mut log, &id).ok()?;
    if query.directory.as_ref().is_some_and(|directory| *directory != head.directory)
        || query.checkpoints.is_some_and(|wanted| wanted != head.tag.is_some())
    {
        return None;
    }
    let file = log.into_inner().into_inner();
    let summary = last_summary(&file, file.metadata().ok()?.len()).ok()?;
    let title = summary.title.unwrap_or_else(|| head.title.clone());
    let shares = summary.shares;
    let held_by = holder(&file, &root.join(&id));
    Some(Listed { title, turns: summary.turns, changed, head, shares, held_by })
}

/// Returns the other process that has a session open, if there is one.
fn holder(log: &File, dir: &Path) -> Option<Holder> {
    // Only the lock proves that a session is open. An open session always has this file, so without the file the lock
    // need not be tried.
    if !dir.join(OWNER_FILE).exists() {
        return None;
    }
    match log.try_lock_shared() {
        Ok(()) => {
            log.unlock().ok();
            None
        }
        Err(TryLockError::WouldBlock) => {
            Some(read_owner(dir)).filter(|holder| holder.pid != std::process::id())
        }
        Err(TryLockError::Error(_)) => None,
    }
}

/// Returns the last summary in a log, or an empty one if there is none.
fn last_summary(file: &File, size: u64) -> io::Result<BatchSummary> {
    let mut lines = Backwards::new(file, size);
    while let Some(line) = lines.next()? {
        if let Some(summary) = lines::batch_summary(&line.bytes) {
            return Ok(summary);
        }
    }
    Ok(BatchSummary::default())
}
