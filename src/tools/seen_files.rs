//! Contents of files that the model has been shown, so that it replaces no content that it does not know.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use parking_lot::Mutex;

use super::preimages::ContentId;

/// Maximum number of files that are remembered.
const MAX_FILES: usize = 10_000;

/// The latest content of each file that the model has read or written.
///
/// Kept in memory alone: after a restart of the process the model reads a file again before it replaces it.
#[derive(Default)]
pub struct SeenFiles(Mutex<HashMap<PathBuf, ContentId>>);

/// Relation of a file's content to the content that the model knows.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Seen {
    /// The model has never been shown the file.
    Never,
    /// The file has changed since the model was shown it.
    Before,
    /// The model knows this content.
    Now,
}

impl SeenFiles {
    /// Notes that the model knows the content of the file at this real path.
    pub(super) fn note(&self, path: &Path, content: ContentId) {
        let mut files = self.0.lock();
        if files.len() >= MAX_FILES && !files.contains_key(path) {
            // An empty table costs one more read of each file that the model replaces from now on.
            files.clear();
        }
        files.insert(path.to_owned(), content);
    }

    /// Compares the content of the file at this real path with the content that the model knows.
    pub(super) fn compare(&self, path: &Path, content: &[u8]) -> Seen {
        let content = ContentId::of(content);
        match self.0.lock().get(path) {
            None => Seen::Never,
            Some(seen) if *seen == content => Seen::Now,
            Some(_) => Seen::Before,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_content_is_known_until_it_changes() {
        let (seen, path) = (SeenFiles::default(), Path::new("/w/a"));
        assert_eq!(seen.compare(path, b"x"), Seen::Never);
        seen.note(path, ContentId::of(b"x"));
        assert_eq!(seen.compare(path, b"x"), Seen::Now);
        assert_eq!(seen.compare(path, b"y"), Seen::Before);
        assert_eq!(seen.compare(Path::new("/w/b"), b"x"), Seen::Never);
    }

    #[test]
    fn no_more_than_a_bounded_number_of_files_is_remembered() {
        let seen = SeenFiles::default();
        for n in 0..=MAX_FILES {
            seen.note(Path::new(&format!("/w/{n}")), ContentId::of(b"x"));
        }
        assert_eq!(seen.0.lock().len(), 1);
        assert_eq!(seen.compare(Path::new(&format!("/w/{MAX_FILES}")), b"x"), Seen::Now);
    }
}
