//! `@file` in a file that people have written for the model: the other file's text in its place.

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};

use crate::session::context::at_path;
use tandem_host::disk;
use tandem_host::workspace::{Respect, Workspace};

/// Maximum depth of nested imports.
const MAX_DEPTH: usize = 5;

/// Files that one file may import, those in its imports included.
const MAX_FILES: usize = 100;

/// State of one file's imports.
pub(super) struct Importer<'a> {
    pub(super) workspace: &'a Workspace,
    /// Real paths of the directories that it may import from.
    pub(super) allowed: &'a [PathBuf],
    /// The user's home directory, for `~`.
    pub(super) home: Option<&'a Path>,
    /// Bytes of text that there is still room for.
    pub(super) room: u64,
    /// Real paths of what is in it already.
    pub(super) seen: HashSet<PathBuf>,
}

impl Importer<'_> {
    /// The text with what it imports in place of each `@file`; the text is that of `path`.
    pub(super) fn expand(&mut self, text: &str, path: &Path) -> String {
        self.seen.insert(real(path).unwrap_or_else(|| path.to_owned()));
        self.with_imports(text, path, 0)
    }

    fn with_imports(&mut self, text: &str, path: &Path, depth: usize) -> String {
        let mut expanded = String::new();
        let mut done = 0;
        for at in at_path::all(text) {
            // What is no file is but a word: a name, a decorator.
            let Some(import) = self.file(&at.path, path) else { continue };
            expanded.push_str(&text[done..at.place.start]);
            done = at.place.end;
            let name = at.path.replace("--", "- -");
            expanded.push_str(&match self.import(&import, depth) {
                Ok(text) => format!(
                    "<!-- Imported from: {name} -->\n{text}\n<!-- End of import from: {name} -->"
                ),
                Err(why) => format!("<!-- Import failed: {name} - {why} -->"),
            });
        }
        expanded.push_str(&text[done..]);
        expanded
    }

    /// The real path of the file that an import names.
    fn file(&self, named: &str, by: &Path) -> Option<PathBuf> {
        let directory = by.parent()?;
        let path = match named.strip_prefix("~/") {
            Some(below) => self.home?.join(below),
            None => directory.join(named),
        };
        real(&path).filter(|real| real.is_file())
    }

    fn import(&mut self, file: &Path, depth: usize) -> Result<String, String> {
        let Some(directory) = self.allowed.iter().find(|dir| file.starts_with(dir)) else {
            return Err("outside the directories that it may import from".to_owned());
        };
        if let Some(rules) = hidden(self.workspace, file) {
            return Err(format!("ignored by {rules}"));
        }
        if let Some(why) = self.workspace.secrets().why(file) {
            return Err(format!("it may hold secrets: {why}"));
        }
        if depth == MAX_DEPTH {
            return Err(format!("more than {MAX_DEPTH} imports in each other"));
        }
        if self.seen.len() > MAX_FILES {
            return Err(format!("more than {MAX_FILES} files"));
        }
        if !self.seen.insert(file.to_owned()) {
            return Err("imported already".to_owned());
        }
        let text = text(file, Some(directory), self.room)?;
        self.room = self.room.saturating_sub(text.len() as u64);
        Ok(self.with_imports(&text, file, depth + 1))
    }
}

/// Returns the text of a file; of one that must be below a directory, only from there.
pub(super) fn text(path: &Path, below: Option<&PathBuf>, max: u64) -> Result<String, String> {
    let bytes = match below {
        Some(directory) => disk::read_below(directory, path, max),
        None => disk::read(path, max),
    };
    let bytes = bytes.map_err(|err| err.message)?;
    let text = String::from_utf8_lossy(&bytes);
    Ok(text.trim_start_matches('\u{feff}').trim().to_owned())
}

/// Returns the agent's own ignore file that covers a file of the workspace.
pub(super) fn hidden(workspace: &Workspace, real: &Path) -> Option<&'static str> {
    let inside = workspace.contains(real);
    inside.then(|| workspace.ignored_by(real, Respect { git: false, own: true })).flatten()
}

/// Returns a path without links; `None` if nothing is there.
pub(super) fn real(path: &Path) -> Option<PathBuf> {
    fs::canonicalize(path).ok()
}
