//! Search of many files in several threads, with the same result as a search of one file after the other.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::thread;

use super::lines::{FileMatches, LineQuery, search, searcher};
use crate::blocking::Deadline;
use parking_lot::Mutex;

/// Maximum number of threads: more do not make a disk faster.
const MAX_THREADS: usize = 8;

/// Matches of a search.
#[derive(Default)]
pub(super) struct SearchMatches {
    /// Files with matches, in the order in which the files were given.
    pub(super) files: Vec<(PathBuf, FileMatches)>,
    /// Number of matching lines in all files.
    pub(super) matches: usize,
    /// `true` if there may be more matches than were wanted.
    pub(super) more: bool,
    /// Number of files and directories that could not be read.
    pub(super) unreadable: usize,
    /// Number of files that were not searched because they may hold secrets.
    pub(super) secret: usize,
}

/// State that the threads share.
struct HuntState<I> {
    /// Files left to search; `None` for a file that could not be read.
    files: I,
    /// Number of files that the threads have taken.
    taken: usize,
    /// Matches of each file, with the number of the file: threads do not end in the order in which they begin.
    found: Vec<(usize, PathBuf, FileMatches)>,
    hits: SearchMatches,
}

/// Searches files, which `open` opens, until `max` lines have matched.
///
/// Threads take the files in order, and take no more once the searched files have `max` matches. Matches in files that
/// were not taken come after these, so the first `max` matches are always the same.
pub(super) fn hunt(
    files: impl Iterator<Item = Option<PathBuf>> + Send,
    open: impl Fn(&Path) -> io::Result<File> + Sync,
    wanted: &LineQuery,
    max: usize,
    until: &Deadline,
) -> SearchMatches {
    let shared = Mutex::new(HuntState {
        files,
        taken: 0,
        found: Vec::new(),
        hits: SearchMatches::default(),
    });
    let threads = thread::available_parallelism().map_or(1, |n| n.get().min(MAX_THREADS));
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| work(&shared, &open, wanted, max, until));
        }
    });
    let HuntState { mut found, mut hits, .. } = shared.into_inner();
    found.sort_unstable_by_key(|(number, ..)| *number);
    let mut left = max;
    for (_, path, mut lines) in found {
        hits.more |= lines.matches > left;
        if left == 0 {
            break;
        }
        lines.truncate(left, wanted.around);
        left -= lines.matches;
        hits.files.push((path, lines));
    }
    hits.matches = max - left;
    hits
}

fn work<I: Iterator<Item = Option<PathBuf>>>(
    shared: &Mutex<HuntState<I>>,
    open: &impl Fn(&Path) -> io::Result<File>,
    wanted: &LineQuery,
    max: usize,
    until: &Deadline,
) {
    let mut searcher = searcher(wanted);
    loop {
        // A statement of its own, so that the lock is not held while the file is searched.
        let next = shared.lock().next(max, until);
        let Some((number, path)) = next else { return };
        let lines = open(&path).and_then(|file| search(&mut searcher, file, wanted, until));
        let mut shared = shared.lock();
        match lines {
            Ok(lines) if lines.matches == 0 => {}
            Ok(lines) => {
                shared.hits.matches += lines.matches;
                shared.found.push((number, path, lines));
            }
            Err(err) if !until.over() => {
                tracing::debug!(file = %path.display(), %err, "not searched");
                shared.hits.unreadable += 1;
            }
            Err(_) => {}
        }
    }
}

impl<I: Iterator<Item = Option<PathBuf>>> HuntState<I> {
    /// Returns the next file, with its number.
    fn next(&mut self, max: usize, until: &Deadline) -> Option<(usize, PathBuf)> {
        loop {
            if until.over() || self.hits.more {
                return None;
            }
            let Some(path) = self.files.next()? else {
                self.hits.unreadable += 1;
                continue;
            };
            if self.hits.matches >= max {
                self.hits.more = true;
                return None;
            }
            self.taken += 1;
            return Some((self.taken, path));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};
    use std::iter;
    use std::path::Path;

    use grep_regex::RegexMatcher;
    use tokio_util::sync::CancellationToken;

    use super::super::lines::ContextLines;
    use super::{LineQuery, SearchMatches, hunt};
    use crate::blocking::Deadline;

    fn check(lines: usize, max: usize, cancel_at: usize) -> SearchMatches {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        fs::write(&path, "x\n".repeat(lines)).unwrap();
        let cancel = CancellationToken::new();
        let until = Deadline::at_most(std::time::Duration::MAX, &cancel);
        let wanted = LineQuery {
            pattern: RegexMatcher::new_line_matcher("x").unwrap(),
            but_not: None,
            around: ContextLines::default(),
            max,
            max_line: 1 << 20,
        };
        let mut taken = 0;
        let endless = iter::repeat_with(|| {
            taken += 1;
            if taken == cancel_at {
                cancel.cancel();
            }
            Some(path.clone())
        });
        hunt(endless, |path: &Path| File::open(path), &wanted, max, &until)
    }

    #[test]
    fn an_endless_search_ends_when_enough_is_found() {
        let hits = check(3, 10, 0);
        assert_eq!((hits.matches, hits.files.len(), hits.more), (10, 4, true));
        assert_eq!(hits.files[3].1.matches, 1);
    }

    #[test]
    fn an_endless_search_ends_when_it_is_cancelled() {
        check(0, 10, 100);
    }
}
