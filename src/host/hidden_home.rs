//! Files of the hidden home as the approval policy sees them: those that a person can be asked about.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use super::command_sandbox::CommandSandbox;
use super::workspace::{FilesOutside, OutsideFile, ReadCondition};

/// The hidden part of a user's home during the judgement of one command line. Files are looked up only if the line
/// names a file of the home.
pub struct HiddenHome {
    sandbox: Arc<CommandSandbox>,
    home: OnceLock<Option<PathBuf>>,
    files: OnceLock<Option<FilesOutside>>,
}

impl HiddenHome {
    /// Returns the home that the sandbox hides from commands. Files are looked up later.
    pub fn new(sandbox: Arc<CommandSandbox>) -> Self {
        Self { sandbox, home: OnceLock::new(), files: OnceLock::new() }
    }

    /// Returns the question to ask about a file or directory, given by its real path; `None` if the file does not exist
    /// or is not hidden. No "always" covers a file that may hold secrets. The home as a whole is never asked about:
    /// commands see an empty one. Blocks.
    pub fn asked_about(&self, real: &Path) -> Option<OutsideFile> {
        let home = || self.sandbox.home()?.canonicalize().ok();
        let home = self.home.get_or_init(home).as_deref()?;
        if !real.starts_with(home) || real == home || self.sandbox.is_in_roots(real) {
            return None;
        }
        let found = real.symlink_metadata().ok()?;
        let files = || self.sandbox.files_outside_now().ok();
        let files = self.files.get_or_init(files).as_ref()?;
        match files.reading(real) {
            ReadCondition::Asked => Some(files.outside_file(real, found.is_dir())),
            ReadCondition::Never if files.is_hidden_secret(real) => {
                Some(OutsideFile { path: real.to_owned(), folder: None })
            }
            ReadCondition::Never | ReadCondition::Unasked => None,
        }
    }
}

impl fmt::Debug for HiddenHome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HiddenHome").finish_non_exhaustive()
    }
}
