//! The target of a path from the model, with its label, whether or not the path can be used.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::similar_paths::similar_paths;
use tandem_content::shorten::one_line;
use tandem_content::visible::visible_line;
use tandem_host::files::FileKind;
use tandem_host::off_thread::off_thread;
use tandem_host::workspace::{OutsideFile, PathToRead, Respect};
use tandem_host::{Access, Summary, ToolContext, ToolError};

/// Maximum length of a path or pattern in a label, in characters.
pub(super) const LABEL_CHARS: usize = 200;

/// Kind of the error for an ignored file.
pub(super) const FILE_IGNORED: &str = "file_ignored";

/// Maximum length of the paths that an error suggests, in characters.
const SIMILAR_CHARS: usize = 600;

/// A path from the model, looked up.
pub(super) struct PathTarget {
    /// Name of the target in messages: a path relative to the workspace if possible.
    pub(super) label: String,
    /// Real path if it may be read, even if there is no file; otherwise empty.
    pub(super) path: PathBuf,
    /// The same path, if it is outside of the workspace and a person has to agree to reading it.
    pub(super) outside: Option<OutsideFile>,
    /// `true` if the path is of long output that was stored for the model.
    kept: bool,
    /// Kind of the entry at the path, or the reason for which the path cannot be used.
    pub(super) found: Result<FileKind, ToolError>,
}

impl PathTarget {
    /// Looks up a path that is only read. An ignored path cannot be used.
    pub(super) async fn look_up(cx: &ToolContext, path: &str, respect: Respect) -> Self {
        match cx.host.resolve_to_read(path).await {
            Ok(PathToRead { real, is_asked }) => {
                let relative = cx.host.workspace.relative(&real);
                let label = one_line(&visible_line(&relative), LABEL_CHARS);
                // The question to the person says whether the path is a directory. So the tool looks at the path before
                // the person has agreed; the permit covers this look alone.
                let permit = is_asked.then(|| cx.host.workspace.permit(vec![real.clone()]));
                let found = check(cx, &real, respect).await;
                drop(permit);
                let is_directory = matches!(found, Ok(FileKind::Directory));
                let asked_about = || cx.host.workspace.asked_about(&real, is_directory);
                let outside = if is_asked { asked_about() } else { None };
                Self { label, path: real, outside, kept: false, found }
            }
            Err(error) => {
                let label = one_line(&visible_line(path), LABEL_CHARS);
                let path = PathBuf::new();
                Self { label, path, outside: None, kept: false, found: Err(error) }
            }
        }
    }

    /// Looks up a path as [`Self::look_up`] does, or the path of long output that was stored for the model.
    pub(super) async fn to_read(cx: &ToolContext, path: &str, respect: Respect) -> Self {
        let Some(kept) = cx.host.outputs.find(path) else {
            return Self::look_up(cx, path, respect).await;
        };
        let found = match cx.host.outputs.fetch(&kept).await {
            Ok(()) => kind(cx, &kept).await,
            Err(err) => Err(ToolError::new(
                "read_content_failure",
                format!("{path} cannot be read from where sessions are stored: {err}"),
            )),
        };
        let label = one_line(&visible_line(path), LABEL_CHARS);
        Self { label, path: kept, outside: None, kept: true, found }
    }

    /// Returns the title of a call, made of a verb and the target, with the target's location if it may be read.
    pub(super) fn summary(&self, verb: &str, line: Option<usize>) -> Summary {
        let summary = Summary::new(format!("{verb} {}", self.label));
        if self.path.as_os_str().is_empty() {
            return summary;
        }
        summary.at(&self.path, line.map(|line| u32::try_from(line).unwrap_or(u32::MAX)))
    }

    /// Returns whether the path is of long output that was stored for the model.
    pub(super) fn is_kept(&self) -> bool {
        self.kept
    }

    /// Returns the access of a call that reads the target.
    pub(super) fn access(&self) -> Access {
        if self.kept {
            return Access::Read;
        }
        let (paths, outside) = (vec![self.path.clone()], self.outside.iter().cloned().collect());
        Access::ReadFiles { paths, outside }
    }

    /// Returns the path if it is a directory.
    pub(super) fn directory(&self) -> Result<&Path, ToolError> {
        match &self.found {
            Ok(FileKind::Directory) => Ok(&self.path),
            Ok(_) => Err(ToolError::new(
                "not_a_directory",
                format!("{} is not a directory.", self.path.display()),
            )),
            Err(error) if error.is_file_not_found() => Err(ToolError::new(
                "directory_not_found",
                error.message.replacen("File not found", "Directory not found", 1),
            )),
            Err(error) => Err(error.clone()),
        }
    }
}

async fn check(cx: &ToolContext, real: &Path, respect: Respect) -> Result<FileKind, ToolError> {
    let found = match kind(cx, real).await {
        Err(error) if error.is_file_not_found() => return Err(suggest(cx, real, error).await),
        found => found?,
    };
    let (workspace, path) = (Arc::clone(&cx.host.workspace), real.to_owned());
    off_thread(move || match workspace.ignored_by(&path, respect) {
        Some(rules) => Err(ignored(&path, rules)),
        None => Ok(found),
    })
    .await
}

/// Adds the paths that may have been meant to the error for a path that does not exist.
async fn suggest(cx: &ToolContext, real: &Path, error: ToolError) -> ToolError {
    let (workspace, path) = (Arc::clone(&cx.host.workspace), real.to_owned());
    let similar = off_thread(move || Ok::<_, ToolError>(similar_paths(&workspace, &path)));
    let similar = match similar.await {
        Ok(similar) if !similar.is_empty() => similar,
        _ => return error,
    };
    let similar = one_line(&visible_line(&similar.join(", ")), SIMILAR_CHARS);
    ToolError { message: format!("{}. Did you mean {similar}?", error.message), ..error }
}

async fn kind(cx: &ToolContext, real: &Path) -> Result<FileKind, ToolError> {
    let shown = cx.host.workspace.shown(real);
    cx.host.files.kind(real).await.map_err(|err| match err.kind() {
        io::ErrorKind::NotFound => {
            ToolError::file_not_found(format!("File not found: {}", shown.display()))
        }
        _ => ToolError::new(
            "read_content_failure",
            format!("{} cannot be looked at: {err}", shown.display()),
        ),
    })
}

/// Returns the error for an ignored file.
fn ignored(path: &Path, rules: &str) -> ToolError {
    let message = format!(
        "{} is ignored by {rules}, and so it is left alone. If it is needed, ask the user.",
        path.display()
    );
    ToolError::new(FILE_IGNORED, message)
}
