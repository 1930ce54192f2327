//! Walks through the files of a workspace, each directory opened from the descriptor of its root.

use std::cmp::Reverse;
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::FileType;

use crate::root::{Entries, Metadata, RootedPath};

/// Maximum number of directories that a walk has open at once. Of those above, the rest is read.
const MAX_OPEN: usize = 16;

/// Decides which entries a walk meets: a file, or all of a directory.
type Keep = Box<dyn Fn(&WalkEntry) -> bool + Send + Sync>;

/// A walk through the files below a directory: the directory itself, then each entry before what is below it. Links
/// are met and not followed.
pub struct Walk {
    /// The directory itself, until it has been met.
    start: Option<io::Result<RootedPath>>,
    /// The directory to be entered next.
    enter: Option<(RootedPath, usize)>,
    /// The directories that were entered, the innermost last.
    levels: Vec<Level>,
    keep: Keep,
    max_depth: usize,
    is_sorted: bool,
}

/// A file that a walk meets.
#[derive(Debug)]
pub struct WalkEntry {
    path: PathBuf,
    kind: FileType,
    depth: usize,
}

impl WalkEntry {
    /// Returns the path: a real one but for a link at its end.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the path without a copy of it.
    pub fn into_path(self) -> PathBuf {
        self.path
    }

    /// Returns the last name of the path.
    pub fn file_name(&self) -> &OsStr {
        self.path.file_name().unwrap_or_default()
    }

    /// Returns whether it is a regular file.
    pub fn is_file(&self) -> bool {
        self.kind == FileType::RegularFile
    }

    /// Returns whether it is a directory.
    pub fn is_dir(&self) -> bool {
        self.kind == FileType::Directory
    }

    /// Returns whether it is a link.
    pub fn is_symlink(&self) -> bool {
        self.kind == FileType::Symlink
    }

    /// Returns the number of names after the directory in which the walk begins.
    pub fn depth(&self) -> usize {
        self.depth
    }
}

/// A directory that a walk is in.
struct Level {
    place: RootedPath,
    /// Depth of its entries.
    depth: usize,
    left: Left,
}

/// The entries of a directory that are still to be met.
enum Left {
    /// They are read one by one.
    Open(Entries),
    /// They have been read, the next one last.
    Read(Vec<io::Result<WalkEntry>>),
}

impl Walk {
    /// A walk below a directory, past what `keep` says no to.
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

    /// The same down to a depth.
    #[must_use]
    pub fn max_depth(self, depth: Option<usize>) -> Self {
        Self { max_depth: depth.unwrap_or(usize::MAX), ..self }
    }

    /// The same with the entries of each directory in the order of their names.
    #[must_use]
    pub fn sorted(self) -> Self {
        Self { is_sorted: true, ..self }
    }

    /// Returns facts about the entry that was met last, if it is no link: with fewer calls than by its path.
    pub fn metadata(&self, entry: &WalkEntry) -> io::Result<Metadata> {
        match self.levels.last() {
            Some(Level { depth, left: Left::Open(entries), .. }) if *depth == entry.depth => {
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
        let mut level = Level { place, depth, left: Left::Open(entries) };
        if self.is_sorted {
            level.read(&self.keep);
            level.sort();
        }
        let open = self.levels.iter().filter(|level| matches!(level.left, Left::Open(_)));
        if open.count() >= MAX_OPEN {
            let outermost = self.levels.iter_mut().find(|it| matches!(it.left, Left::Open(_)));
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
    /// Returns the next entry that is kept.
    fn next(&mut self, keep: &Keep) -> Option<io::Result<WalkEntry>> {
        let entries = match &mut self.left {
            Left::Open(entries) => entries,
            Left::Read(entries) => return entries.pop(),
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

    /// Reads the entries that are left, so that the directory need not stay open.
    fn read(&mut self, keep: &Keep) {
        let mut entries: Vec<_> = std::iter::from_fn(|| self.next(keep)).collect();
        entries.reverse();
        self.left = Left::Read(entries);
    }

    /// Puts entries that were read into the order of their names.
    fn sort(&mut self) {
        if let Left::Read(entries) = &mut self.left {
            // An error has no name, and comes first.
            let name = |entry: &io::Result<WalkEntry>| {
                entry.as_ref().map_or_else(|_| OsString::new(), |it| it.file_name().to_owned())
            };
            entries.sort_by_cached_key(|entry| Reverse(name(entry)));
        }
    }
}
