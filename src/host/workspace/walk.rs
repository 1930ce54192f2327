//! Walks through the files of a workspace. Each directory is opened from the descriptor of its root, so that no link is
//! followed.

use std::cmp::Reverse;
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::FileType;

use crate::root::{Entries, Metadata, RootedPath};

/// Maximum number of directories that a walk has open at once. Beyond it, the remaining entries of the outermost open
/// directory are read into memory.
const MAX_OPEN: usize = 16;

/// Filter of a walk: returns `true` for entries to meet. A directory that is filtered out is not entered.
type EntryFilter = Box<dyn Fn(&WalkEntry) -> bool + Send + Sync>;

/// A walk through the files below a directory. It yields the directory itself, and each entry before the entries below
/// it. Links are yielded and not followed.
pub struct Walk {
    /// The directory itself, until it has been yielded.
    start: Option<io::Result<RootedPath>>,
    /// Directory to be entered next, with the depth of its entries.
    enter: Option<(RootedPath, usize)>,
    /// Directories that were entered, the innermost last.
    levels: Vec<Level>,
    keep: EntryFilter,
    max_depth: usize,
    is_sorted: bool,
}

/// A file, directory or link that a walk meets.
#[derive(Debug)]
pub struct WalkEntry {
    path: PathBuf,
    kind: FileType,
    depth: usize,
}

impl WalkEntry {
    /// Returns the path, which is real but for a link at its end.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the path without copying it.
    pub fn into_path(self) -> PathBuf {
        self.path
    }

    /// Returns the last name of the path.
    pub fn file_name(&self) -> &OsStr {
        self.path.file_name().unwrap_or_default()
    }

    /// Returns whether the entry is a regular file.
    pub fn is_file(&self) -> bool {
        self.kind == FileType::RegularFile
    }

    /// Returns whether the entry is a directory.
    pub fn is_dir(&self) -> bool {
        self.kind == FileType::Directory
    }

    /// Returns whether the entry is a symbolic link.
    pub fn is_symlink(&self) -> bool {
        self.kind == FileType::Symlink
    }

    /// Returns the depth below the directory in which the walk begins, which has depth 0.
    pub fn depth(&self) -> usize {
        self.depth
    }
}

/// A directory that a walk has entered.
struct Level {
    place: RootedPath,
    /// Depth of the directory's entries.
    depth: usize,
    left: RemainingEntries,
}

/// Entries of a directory that the walk has not yielded yet.
enum RemainingEntries {
    /// An open directory, whose entries are read one by one.
    Open(Entries),
    /// Entries that were read in advance, the next one last.
    Read(Vec<io::Result<WalkEntry>>),
}

impl Walk {
    /// Returns a walk below a directory without the entries for which `keep` returns `false`.
    pub(super) fn new(
        start: io::Result<RootedPath>,
        keep: impl Fn(&WalkEntry) -> bool + Send + Sync + 'static,
    ) -> Self {
        Self {
            start: Some(start),
            enter: None,
            levels: Vec::new(),
            keep: Box::new(keep),
            max_depth: usize::MAX,
            is_sorted: false,
        }
    }

    /// Limits the walk to a depth; `None` for no limit.
    #[must_use]
    pub fn max_depth(self, depth: Option<usize>) -> Self {
        Self { max_depth: depth.unwrap_or(usize::MAX), ..self }
    }

    /// Sorts the entries of each directory by name.
    #[must_use]
    pub fn sorted(self) -> Self {
        Self { is_sorted: true, ..self }
    }

    /// Returns the metadata of the entry that was yielded last, with fewer system calls than by its path. Fails for a
    /// link, and for entries that were read in advance.
    pub fn metadata(&self, entry: &WalkEntry) -> io::Result<Metadata> {
        match self.levels.last() {
            Some(Level { depth, left: RemainingEntries::Open(entries), .. })
                if *depth == entry.depth =>
            {
                entries.metadata(entry.file_name())
            }
            _ => Err(io::ErrorKind::NotFound.into()),
        }
    }

    fn begin(&mut self, start: io::Result<RootedPath>) -> io::Result<WalkEntry> {
        let start = start?;
        let kind = start.metadata()?.kind();
        let path = start.path().to_owned();
        if kind == FileType::Directory && self.max_depth > 0 {
            self.enter = Some((start, 1));
        }
        Ok(WalkEntry { path, kind, depth: 0 })
    }

    fn enter(&mut self, place: RootedPath, depth: usize) -> io::Result<()> {
        let entries = place.entries()?;
        let mut level = Level { place, depth, left: RemainingEntries::Open(entries) };
        if self.is_sorted {
            level.read(&self.keep);
            level.sort();
        }
        let open =
            self.levels.iter().filter(|level| matches!(level.left, RemainingEntries::Open(_)));
        if open.count() >= MAX_OPEN {
            let outermost =
                self.levels.iter_mut().find(|it| matches!(it.left, RemainingEntries::Open(_)));
            if let Some(level) = outermost {
                level.read(&self.keep);
            }
        }
        self.levels.push(level);
        Ok(())
    }
}

impl Iterator for Walk {
    type Item = io::Result<WalkEntry>;

    fn next(&mut self) -> Option<Self::Item> {
        if let Some(start) = self.start.take() {
            return Some(self.begin(start));
        }
        if let Some((place, depth)) = self.enter.take()
            && let Err(error) = self.enter(place, depth)
        {
            return Some(Err(error));
        }
        loop {
            let level = self.levels.last_mut()?;
            let Some(entry) = level.next(&self.keep) else {
                self.levels.pop();
                continue;
            };
            if let Ok(entry) = &entry
                && entry.is_dir()
                && entry.depth < self.max_depth
            {
                self.enter = Some((level.place.at(&entry.path), entry.depth + 1));
            }
            return Some(entry);
        }
    }
}

impl Level {
    /// Returns the next entry that passes the filter.
    fn next(&mut self, keep: &EntryFilter) -> Option<io::Result<WalkEntry>> {
        let entries = match &mut self.left {
            RemainingEntries::Open(entries) => entries,
            RemainingEntries::Read(entries) => return entries.pop(),
        };
        for entry in entries {
            match entry {
                Ok((name, kind)) => {
                    let path = self.place.path().join(name);
                    let entry = WalkEntry { path, kind, depth: self.depth };
                    if keep(&entry) {
                        return Some(Ok(entry));
                    }
                }
                Err(error) => return Some(Err(error)),
            }
        }
        None
    }

    /// Reads the remaining entries, so that the directory can be closed.
    fn read(&mut self, keep: &EntryFilter) {
        let mut entries: Vec<_> = std::iter::from_fn(|| self.next(keep)).collect();
        entries.reverse();
        self.left = RemainingEntries::Read(entries);
    }

    /// Sorts entries that were read in advance by name, for reading from the end.
    fn sort(&mut self) {
        if let RemainingEntries::Read(entries) = &mut self.left {
            // An error has no name, so it sorts first.
            let name = |entry: &io::Result<WalkEntry>| {
                entry.as_ref().map_or_else(|_| OsString::new(), |it| it.file_name().to_owned())
            };
            entries.sort_by_cached_key(|entry| Reverse(name(entry)));
        }
    }
}
