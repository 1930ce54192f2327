//! Files of a project that decide what a command runs, and their content.

use std::fs;
use std::path::{Path, PathBuf};

use tandem_content::bounded;
use tandem_host::preimages::ContentId;
use tandem_shell::SimpleCommand;
use tandem_shell::prefix::{ProjectFiles, project_files};

use super::cwd::Cwd;

/// Maximum size of a file that is read, in bytes.
const MAX_FILE_BYTES: u64 = 1024 * 1024;

/// Content of the files of a project that decide what a command runs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum ProjectContent {
    /// The command is not known to run code that a project's files decide on.
    #[default]
    None,
    /// Names of the files, for people, and one hash of all their paths and contents.
    Known(String),
    /// The files are not known, or cannot be read.
    Unknown,
}

/// Reads the files of a project that decide what a command runs.
pub(super) fn content(command: &SimpleCommand, cwd: &Cwd<'_>) -> ProjectContent {
    let files = match project_files(command) {
        None => return ProjectContent::None,
        Some(ProjectFiles::Unknown) => None,
        Some(ProjectFiles::Script(word)) => cwd.paths_of(&word),
        Some(ProjectFiles::Named { names, above }) => {
            let here = cwd.here();
            (!here.is_empty())
                .then(|| here.iter().flat_map(|it| find_files(it, names, above)).collect())
        }
    };
    files.and_then(|files| hash(&files)).map_or(ProjectContent::Unknown, ProjectContent::Known)
}

/// Returns the files of these names in a directory, or, with `above`, in the nearest directory from there upwards that
/// has one. If there is none, returns the path of the last name, whose file may be created later.
fn find_files(directory: &Path, names: &[String], above: bool) -> Vec<PathBuf> {
    let there = |directory: &Path| -> Vec<PathBuf> {
        let paths = names.iter().map(|name| directory.join(name));
        paths.filter(|path| fs::symlink_metadata(path).is_ok()).collect()
    };
    let searched = directory.ancestors().take(if above { usize::MAX } else { 1 });
    let found = searched.map(there).find(|found| !found.is_empty());
    found.unwrap_or_else(|| names.last().map(|name| directory.join(name)).into_iter().collect())
}

/// Returns the names of files, and one hash of their paths and contents; `None` if a file cannot be read. A missing
/// file has a hash, too, so that its creation changes the result.
fn hash(files: &[PathBuf]) -> Option<String> {
    let mut all = Vec::new();
    for file in files {
        let content = match bounded::read(file, MAX_FILE_BYTES) {
            Ok(content) => ContentId::hash(&content).sha256().to_owned(),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => "missing".to_owned(),
            Err(_) => return None,
        };
        all.extend_from_slice(file.as_os_str().as_encoded_bytes());
        all.extend_from_slice(format!("\0{content}\0").as_bytes());
    }
    let name = |file: &PathBuf| Some(file.file_name()?.to_string_lossy().into_owned());
    let names: Vec<_> = files.iter().filter_map(name).collect();
    Some(format!("{} {}", names.join(", "), ContentId::hash(&all).sha256()))
}
