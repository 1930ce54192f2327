//! Contents of files that the model has been shown, so that the model does not replace a content that it does not know.

use std::collections::HashMap;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use parking_lot::Mutex;

use super::preimages::ContentId;

/// Maximum number of files that are remembered.
const MAX_FILES: usize = 10_000;

/// Maximum number of separate parts of a file that are remembered.
const MAX_PARTS: usize = 100;

/// The latest content of each file that the model has read or written.
///
/// The contents are held in memory alone: after a restart of the process, the model reads a file again before it
/// replaces the file.
#[derive(Default)]
pub struct SeenFiles(Mutex<HashMap<PathBuf, SeenFile>>);

struct SeenFile {
    content: ContentId,
    /// Ranges of lines that the model has been shown, in order and not adjacent; `None` if it knows all lines.
    parts: Option<Vec<RangeInclusive<usize>>>,
}

/// Relation of a file's content to the content that the model knows.
#[derive(Debug, PartialEq, Eq)]
pub enum Seen {
    /// The model has never been shown the file.
    Never,
    /// The file has changed since the model was shown it.
    Before,
    /// The model has been shown some lines of this content.
    Partly,
    /// The model knows this content.
    Whole,
}

impl SeenFiles {
    /// Records that the model knows the content of the file at this real path.
    pub fn note(&self, path: &Path, content: ContentId) {
        put(&mut self.0.lock(), path, SeenFile { content, parts: None });
    }

    /// Records that the model has been shown lines of the file at this real path. `lines` are counted from 1; `total`
    /// is the number of lines of the file.
    pub fn note_lines(
        &self,
        path: &Path,
        content: ContentId,
        lines: RangeInclusive<usize>,
        total: usize,
    ) {
        // The lock is held to the end, so that no lines are lost when two reads of a file run at the same time.
        let mut files = self.0.lock();
        let known = files.get(path).filter(|seen| seen.content == content);
        let mut parts = match known.map(|seen| &seen.parts) {
            Some(None) => return,
            Some(Some(parts)) => parts.clone(),
            None => Vec::new(),
        };
        parts.push(lines);
        let parts = joined(parts);
        let is_whole = parts.first().is_some_and(|part| *part.start() <= 1 && *part.end() >= total);
        put(&mut files, path, SeenFile { content, parts: (!is_whole).then_some(parts) });
    }

    /// Compares the content of the file at this real path with the content that the model knows.
    pub fn compare(&self, path: &Path, content: &[u8]) -> Seen {
        let content = ContentId::hash(content);
        match self.0.lock().get(path) {
            None => Seen::Never,
            Some(seen) if seen.content != content => Seen::Before,
            Some(SeenFile { parts: Some(_), .. }) => Seen::Partly,
            Some(SeenFile { parts: None, .. }) => Seen::Whole,
        }
    }
}

fn put(files: &mut HashMap<PathBuf, SeenFile>, path: &Path, seen: SeenFile) {
    if files.len() >= MAX_FILES && !files.contains_key(path) {
        // With an empty table, the model has to read each file once more before it replaces the file.
        files.clear();
    }
    files.insert(path.to_owned(), seen);
}

/// Joins parts that overlap or follow each other.
fn joined(mut parts: Vec<RangeInclusive<usize>>) -> Vec<RangeInclusive<usize>> {
    parts.sort_by_key(|part| *part.start());
    let mut joined: Vec<RangeInclusive<usize>> = Vec::new();
    for part in parts {
        match joined.last_mut() {
            Some(last) if *part.start() <= last.end() + 1 => {
                *last = *last.start()..=*last.end().max(part.end());
            }
            _ => joined.push(part),
        }
    }
    joined.truncate(MAX_PARTS);
    joined
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_content_is_known_until_it_changes() {
        let (seen, path) = (SeenFiles::default(), Path::new("/w/a"));
        assert_eq!(seen.compare(path, b"x"), Seen::Never);
        seen.note(path, ContentId::hash(b"x"));
        assert_eq!(seen.compare(path, b"x"), Seen::Whole);
        assert_eq!(seen.compare(path, b"y"), Seen::Before);
        assert_eq!(seen.compare(Path::new("/w/b"), b"x"), Seen::Never);
    }

    #[test]
    fn a_content_is_known_when_all_of_its_lines_have_been_shown() {
        let (seen, path) = (SeenFiles::default(), Path::new("/w/a"));
        let shown = |lines| {
            seen.note_lines(path, ContentId::hash(b"x"), lines, 9);
            seen.compare(path, b"x")
        };
        assert_eq!(shown(7..=9), Seen::Partly);
        assert_eq!(shown(1..=3), Seen::Partly);
        assert_eq!(shown(3..=5), Seen::Partly);
        assert_eq!(shown(6..=6), Seen::Whole);
        assert_eq!(shown(2..=2), Seen::Whole);
        // Lines of another content say nothing about this one.
        seen.note_lines(path, ContentId::hash(b"y"), 1..=3, 4);
        seen.note_lines(path, ContentId::hash(b"x"), 4..=4, 4);
        assert_eq!(seen.compare(path, b"x"), Seen::Partly);
    }

    #[test]
    fn no_more_than_a_bounded_number_of_files_is_remembered() {
        let seen = SeenFiles::default();
        for n in 0..=MAX_FILES {
            seen.note(Path::new(&format!("/w/{n}")), ContentId::hash(b"x"));
        }
        assert_eq!(seen.0.lock().len(), 1);
        assert_eq!(seen.compare(Path::new(&format!("/w/{MAX_FILES}")), b"x"), Seen::Whole);
    }
}
