//! The list of sessions, made from the first and the last lines of their logs.

use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use tandem_agent::session::{BatchSummary, Listed, Millis, Query, StoreError};

use super::{LOG, open, read_head};
use crate::backwards::Backwards;
use crate::lines;

/// A log, and the time of its last change.
struct StoredLogFile {
    dir: PathBuf,
    id: String,
    changed: Millis,
    /// Bytes of the log.
    bytes: u64,
}

/// Lists sessions, the last changed first.
pub(super) fn list(root: &Path, query: &Query) -> Result<Vec<Listed>, StoreError> {
    let mut found = find(root)?;
    // By name, too: a list must not depend on the order of a directory.
    found.sort_unstable_by(|a, b| (b.changed, &b.id).cmp(&(a.changed, &a.id)));
    let described = found.iter().filter_map(|found| describe(found, query.directory.as_deref()));
    Ok(described.skip(query.skip).take(query.most.unwrap_or(usize::MAX)).collect())
}

fn find(root: &Path) -> io::Result<Vec<StoredLogFile>> {
    let entries = match fs::read_dir(root) {
        Err(err) if err.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    Ok(entries.flatten().filter_map(|entry| found(&entry)).collect())
}

fn found(entry: &fs::DirEntry) -> Option<StoredLogFile> {
    let id = entry.file_name().into_string().ok()?;
    uuid::Uuid::try_parse(&id).ok()?;
    let dir = entry.path();
    let metadata = fs::metadata(dir.join(LOG)).ok()?;
    let changed = metadata.modified().map_or(0, millis);
    Some(StoredLogFile { dir, id, changed, bytes: metadata.len() })
}

/// Returns the bytes of all files in a directory and those below it. What cannot be read counts for
/// nothing.
pub(super) fn size(dir: &Path) -> u64 {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    let sizes = entries.filter_map(|entry| {
        // Not that of what a link leads to.
        let metadata = entry.metadata().ok()?;
        Some(if metadata.is_dir() { size(&entry.path()) } else { metadata.len() })
    });
    sizes.sum()
}

fn millis(time: SystemTime) -> Millis {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    Millis::try_from(since.as_millis()).unwrap_or(Millis::MAX)
}

/// Describes a session, unless it started in another directory or cannot be read.
fn describe(found: &StoredLogFile, directory: Option<&Path>) -> Option<Listed> {
    let mut log = open(&found.dir, &found.id).ok()?;
    let (_, head) = read_head(&mut log).ok()?;
    if directory.is_some_and(|directory| directory != head.directory) {
        return None;
    }
    let summary = last_summary(&log.into_inner().into_inner(), found.bytes).ok()?;
    Some(Listed {
        title: summary.title.unwrap_or_else(|| head.title.clone()),
        turns: summary.turns,
        changed: found.changed,
        head,
    })
}

/// Finds the last summary of a log.
fn last_summary(file: &File, size: u64) -> io::Result<BatchSummary> {
    let mut lines = Backwards::new(file, size);
    while let Some(line) = lines.next()? {
        if let Some(summary) = lines::batch_summary(&line.bytes) {
            return Ok(summary);
        }
    }
    Ok(BatchSummary::default())
}
