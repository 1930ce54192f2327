//! What people have written down for the model: `GEMINI.md` files, of the user and of the project.

use std::path::{Path, PathBuf};

use tokio_util::sync::CancellationToken;

use crate::tools::files;
use crate::tools::workspace::Workspace;

/// What the file is called in a project.
pub const FILE: &str = "GEMINI.md";

/// Bytes of one such file at most.
const MAX: u64 = 256 * 1024;

/// What is added goes below this line; other programs know it too.
const HEADING: &str = "## Gemini Added Memories";

/// Whether what a folder says may be told to the model.
type Trusts = Box<dyn Fn(&Path) -> bool + Send + Sync>;

/// Where it is written down.
pub struct Memory {
    user: Option<PathBuf>,
    trusts: Trusts,
}

/// One file, and what it says; or why that is not told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemoryFile {
    /// Absolute.
    pub path: PathBuf,
    /// Trimmed, and not empty.
    pub content: Result<String, String>,
}

impl Memory {
    /// `user` is the user's own file, for every project; `trusts` says no to a folder whose file
    /// is not to be followed.
    pub fn new(
        user: Option<PathBuf>,
        trusts: impl Fn(&Path) -> bool + Send + Sync + 'static,
    ) -> Self {
        Self { user, trusts: Box::new(trusts) }
    }

    /// Reads the files that there are: the user's own, then those at the workspace's roots.
    pub(super) fn read(&self, workspace: &Workspace) -> Vec<MemoryFile> {
        let own = self.user.iter().filter(|path| path.symlink_metadata().is_ok());
        let own = own.map(|path| (path.clone(), text(path)));
        let project = workspace.roots().iter().map(|root| root.join(FILE));
        let project = project.filter(|path| path.symlink_metadata().is_ok()).map(|path| {
            let text = self.of_project(&path, workspace);
            (path, text)
        });
        let mut files: Vec<MemoryFile> = Vec::new();
        for (path, content) in own.chain(project) {
            let new = !files.iter().any(|file| same(&file.path, &path));
            if new && content.as_deref() != Ok("") {
                files.push(MemoryFile { path, content });
            }
        }
        files
    }

    /// A file of a project leads nowhere outside it, and counts unless the user has said no.
    fn of_project(&self, path: &Path, workspace: &Workspace) -> Result<String, String> {
        let root = path.parent().unwrap_or(path);
        if !(self.trusts)(root) {
            return Err("you have said not to trust its folder".to_owned());
        }
        let real = workspace.resolve(&path.display().to_string()).map_err(|err| err.message)?;
        text(&real)
    }

    /// Adds a line to the user's own file; which file that is. What it says otherwise is kept.
    pub(super) fn add(&self, text: &str) -> Result<PathBuf, String> {
        let path = self.user.as_ref().ok_or("Nobody knows where your home directory is.")?;
        // A link stays one: it is what it leads to that is written.
        let real = path.canonicalize().unwrap_or_else(|_| path.clone());
        let old = real.exists().then(|| files::read(&real, MAX)).transpose();
        let old = old.map_err(|err| err.message)?;
        let before = String::from_utf8(old.clone().unwrap_or_default());
        let before = before.map_err(|_| format!("{} is not UTF-8.", path.display()))?;
        let new = with(&before, text);
        if new.len() as u64 > MAX {
            return Err(format!("{} would be larger than {MAX} bytes.", path.display()));
        }
        files::write(&real, old.as_deref(), new.as_bytes(), &CancellationToken::new())
            .map_err(|err| err.message)?;
        Ok(path.clone())
    }
}

fn text(path: &Path) -> Result<String, String> {
    let bytes = files::read(path, MAX).map_err(|err| err.message)?;
    let text = String::from_utf8_lossy(&bytes);
    Ok(text.trim_start_matches('\u{feff}').trim().to_owned())
}

fn same(one: &Path, other: &Path) -> bool {
    let real = |path: &Path| path.canonicalize().ok();
    real(one).is_some_and(|one| real(other) == Some(one))
}

/// The file's text with one more thing to remember, in one line.
fn with(before: &str, text: &str) -> String {
    let words: Vec<_> = text.split_whitespace().collect();
    let words = words.join(" ");
    let words = words.trim_start_matches(['-', ' ']);
    let end = if before.contains("\r\n") { "\r\n" } else { "\n" };
    let line = format!("- {words}{end}");
    let Some(below) = section(before) else {
        let before = before.trim_end();
        let gap = if before.is_empty() { String::new() } else { end.repeat(2) };
        return format!("{before}{gap}{HEADING}{end}{line}");
    };
    let (above, below) = before.split_at(below);
    let gap = if below.is_empty() { "" } else { end };
    format!("{}{end}{line}{gap}{below}", above.trim_end())
}

/// Where the section of what was added ends.
fn section(text: &str) -> Option<usize> {
    let mut inside = false;
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        let heading = line.trim_end();
        if inside && (heading.starts_with("# ") || heading.starts_with("## ")) {
            return Some(at);
        }
        inside |= heading == HEADING;
        at += line.len();
    }
    inside.then_some(at)
}

#[cfg(test)]
mod tests {
    use super::with;

    #[track_caller]
    fn check(before: &str, text: &str, expected: &str) {
        assert_eq!(with(before, text), expected);
    }

    #[test]
    fn what_is_added_goes_to_the_end_of_its_section() {
        check("", "tabs", "## Gemini Added Memories\n- tabs\n");
        check("# Me\n", "tabs", "# Me\n\n## Gemini Added Memories\n- tabs\n");
        check(
            "## Gemini Added Memories\n- one\n\n## More\nx\n",
            "two",
            "## Gemini Added Memories\n- one\n- two\n\n## More\nx\n",
        );
        check("a\r\n", "b", "a\r\n\r\n## Gemini Added Memories\r\n- b\r\n");
    }

    #[test]
    fn what_is_added_is_one_bullet_whatever_is_in_it() {
        check("", "a\n\n## Rules\r\nb\u{2028}c", "## Gemini Added Memories\n- a ## Rules b c\n");
        check("", " - - a", "## Gemini Added Memories\n- a\n");
    }
}
