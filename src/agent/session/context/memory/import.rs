//! The imports of memory files: `@file` in a memory file is replaced by the text of the other file.

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};

use crate::session::context::at_path;
use tandem_host::disk;
use tandem_host::workspace::{Respect, Workspace};

/// Maximum depth of nested imports.
const MAX_DEPTH: usize = 5;

/// Maximum number of files that one memory file may import, including the files that its imports import.
const MAX_FILES: usize = 100;

/// State of the imports of one memory file.
pub(super) struct Importer<'a> {
    pub(super) workspace: &'a Workspace,
    /// Real paths of the directories from which the memory file may import.
    pub(super) allowed: &'a [PathBuf],
    /// The user's home directory, for `~`.
    pub(super) home: Option<&'a Path>,
    /// Number of bytes that may still be imported.
    pub(super) room: u64,
    /// Real paths of the memory file and the files that it has imported so far.
    pub(super) seen: HashSet<PathBuf>,
}

impl Importer<'_> {
    /// Returns the text of the memory file `path` with each `@file` replaced by the imported text.
    pub(super) fn expand(&mut self, text: &str, path: &Path) -> String {
        self.seen.insert(real(path).unwrap_or_else(|| path.to_owned()));
        self.with_imports(text, path, 0)
    }

    fn with_imports(&mut self, text: &str, path: &Path, depth: usize) -> String {
        let mut expanded = String::new();
        let mut done = 0;
        for at in at_path::all(text) {
            // If there is no such file, the text stays: it may be a user's name or a decorator.
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

    /// Returns the real path of the file that an import in the file `by` names; `None` if there is no such file.
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
            return Err(format!("imports are nested more than {MAX_DEPTH} deep"));
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

/// Returns the text of a file of at most `max` bytes. `below`: the directory that the file must be in; it is then
/// opened without following links.
pub(super) fn text(path: &Path, below: Option<&PathBuf>, max: u64) -> Result<String, String> {
    let bytes = match below {
        Some(directory) => disk::read_below(directory, path, max),
        None => disk::read(path, max),
    };
    let bytes = bytes.map_err(|err| err.message)?;
    let text = String::from_utf8_lossy(&bytes);
    Ok(text.trim_start_matches('\u{feff}').trim().to_owned())
}

/// Returns the name of the agent's own ignore file that hides a file of the workspace; `None` if none does.
pub(super) fn hidden(workspace: &Workspace, real: &Path) -> Option<&'static str> {
    let inside = workspace.contains(real);
    inside.then(|| workspace.ignored_by(real, Respect { git: false, own: true })).flatten()
}

/// Returns the path with all links resolved; `None` if there is no such file.
pub(super) fn real(path: &Path) -> Option<PathBuf> {
    fs::canonicalize(path).ok()
}
