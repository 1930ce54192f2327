//! A proposed change of several files, or a change that removes files: made in all files or in none.

use std::fs::Permissions;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use super::change::{Original, Proposal, Write};
use tandem_host::files::{Files, UNCONFIRMED_KIND};
use tandem_host::off_thread::{off_thread, to_the_end};
use tandem_host::preimages::{ContentId, FileChange};
use tandem_host::{
    FileDiff, Host, Invocation, ResultContent, Summary, ToolContext, ToolError, ToolLimits,
    ToolOutput,
};
use tokio_util::sync::CancellationToken;

/// A change of one of several files.
pub(super) enum FileEdit {
    /// The file gets another text, or is made.
    Write {
        proposal: Proposal,
        /// Old file, if the change moves it. The new file has the permissions of the old file.
        moved_from: Option<MoveSource>,
    },
    /// The file is removed.
    Remove(Original),
}

/// The old file of a change that moves a file.
pub(super) struct MoveSource {
    pub(super) path: PathBuf,
    /// `true` if the model knew the whole content.
    pub(super) is_known: bool,
}

impl FileEdit {
    fn original(&self) -> &Original {
        match self {
            Self::Write { proposal, .. } => &proposal.original,
            Self::Remove(original) => original,
        }
    }
}

/// Changes of several files, in the order in which they are made.
pub(super) struct ChangeSet {
    pub(super) edits: Vec<FileEdit>,
    /// Changes for people.
    pub(super) diff: FileDiff,
    /// Report to the model after the change.
    pub(super) done: String,
}

/// A change of one file, ready to be made.
struct PlannedChange {
    /// New content; `None` if the file is removed.
    new: Option<Vec<u8>>,
    old: Option<Vec<u8>>,
    change: FileChange,
    moved_from: Option<PathBuf>,
    /// Permissions of the file that is moved or removed: a new file has them, and a removed file if it is put back.
    permissions: Option<Permissions>,
    /// `true` if the model knows the whole content after the change.
    is_known: bool,
    /// `true` if an editor has changed the file as it saved the file.
    altered: bool,
}

impl ChangeSet {
    /// Returns the call that makes the changes.
    pub(super) fn into_invocation(self, mut summary: Summary, limits: &ToolLimits) -> Invocation {
        for edit in &self.edits {
            if let FileEdit::Write { proposal, .. } = edit
                && let Err(error) = proposal.original.encode(&proposal.new, limits)
            {
                return Invocation::failing(summary, error);
            }
        }
        summary.diff = Some(self.diff.clone());
        let mut paths = self.edits.iter().map(|edit| edit.original().path.clone());
        let path = paths.next().unwrap_or_default();
        let others = paths.collect();
        Invocation::edits(summary, path, others, |cx| to_the_end(self.make(cx)))
    }

    /// Makes the changes:
    ///
    /// 1. Encodes the new texts and stores the contents before.
    /// 2. Checks that no file has changed meanwhile, and reads the permissions that are to stay.
    /// 3. Announces all changes, so that they can be undone.
    /// 4. Makes one change after the other. If one fails, takes back those before it.
    async fn make(self, cx: ToolContext) -> Result<ToolOutput, ToolError> {
        let host = Arc::clone(&cx.host);
        let Self { edits, diff, done } = self;
        let mut steps = off_thread(move || {
            edits.into_iter().map(|edit| step(edit, &host)).collect::<Result<Vec<_>, _>>()
        })
        .await?;
        let files = &*cx.host.files;
        for step in &mut steps {
            check_same(step, files, &cx.host.limits).await?;
            step.change.directories = files.missing_directories(&step.change.path).await?;
            step.permissions = permissions(step, files).await?;
        }
        if cx.cancel.is_cancelled() {
            return Err(ToolError::cancelled());
        }
        for step in &steps {
            (cx.announce)(step.change.clone()).await?;
        }
        for at in 0..steps.len() {
            if let Err(error) = make_change(&mut steps[at], &cx).await {
                return Err(taken_back(&steps[..at], files, error).await);
            }
            if let Err(error) = announce_altered(&steps[at], &cx).await {
                return Err(taken_back(&steps[..=at], files, error).await);
            }
        }
        for step in &steps {
            if let Some(sandbox) = &cx.host.sandbox {
                sandbox.accept(&step.change.path).await;
            }
            if step.is_known {
                cx.host.seen.note(&step.change.path, step.change.after.clone());
            }
        }
        let shown = Some(ResultContent::Diff(Box::new(diff)));
        Ok(ToolOutput { text: done, media: Vec::new(), shown })
    }
}

/// Encodes the new text of a change, and stores the content before.
fn step(edit: FileEdit, host: &Host) -> Result<PlannedChange, ToolError> {
    let (original, new, moved_from, is_known) = match edit {
        FileEdit::Write { proposal, moved_from } => {
            let Write { bytes, is_known, .. } = proposal.encode(None, host)?;
            let is_known = is_known && moved_from.as_ref().is_none_or(|source| source.is_known);
            (proposal.original, Some(bytes), moved_from.map(|source| source.path), is_known)
        }
        FileEdit::Remove(original) => (original, None, None, false),
    };
    let change = FileChange {
        before: host.preimages.save(original.bytes.as_deref()),
        after: ContentId::hash(new.as_deref().unwrap_or_default()),
        removes: new.is_none(),
        directories: Vec::new(),
        path: original.path,
    };
    let old = original.bytes;
    Ok(PlannedChange { new, old, change, moved_from, permissions: None, is_known, altered: false })
}

/// Returns an error if a file is not as it was when the change was worked out.
async fn check_same(
    step: &PlannedChange,
    files: &dyn Files,
    limits: &ToolLimits,
) -> Result<(), ToolError> {
    let path = &step.change.path;
    let now = match files.read(path, limits.file_bytes).await {
        Err(error) if error.is_file_not_found() => None,
        now => Some(now?),
    };
    if now == step.old { Ok(()) } else { Err(tandem_host::files::changed(path)) }
}

/// Returns the permissions of the file that a change moves or removes. A file that only an editor has, and not the
/// disk, has none.
async fn permissions(
    step: &PlannedChange,
    files: &dyn Files,
) -> Result<Option<Permissions>, ToolError> {
    let removed = step.new.is_none().then_some(&step.change.path);
    let Some(path) = step.moved_from.as_ref().or(removed) else { return Ok(None) };
    match files.permissions(path).await {
        Ok(permissions) => Ok(Some(permissions)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => {
            let message = format!("The permissions of {} are not known: {error}", path.display());
            Err(ToolError::new("read_content_failure", message))
        }
    }
}

/// Makes the change of one file.
async fn make_change(step: &mut PlannedChange, cx: &ToolContext) -> Result<(), ToolError> {
    let PlannedChange { new, old, change, permissions, altered, .. } = step;
    let (files, path) = (&cx.host.files, &change.path);
    let Some(new) = new else {
        return match files.remove(path, old.as_deref().unwrap_or_default()).await {
            Ok(true) => Ok(()),
            Ok(false) => Err(tandem_host::files::changed(path)),
            Err(error) => {
                let message = format!("{} cannot be removed: {error}", path.display());
                Err(ToolError::new("file_write_failure", message))
            }
        };
    };
    let written = match permissions.clone() {
        Some(permissions) => files.create(path, new, permissions, &cx.cancel).await.map(|()| None),
        None => files.write(path, old.as_deref(), new, &cx.cancel).await,
    };
    if let Some(now) = written? {
        change.after = ContentId::hash(&now);
        *new = now;
        *altered = true;
    }
    Ok(())
}

/// Announces the content of a file that an editor has changed as it saved the file: an undo compares the file with the
/// announced content.
async fn announce_altered(step: &PlannedChange, cx: &ToolContext) -> Result<(), ToolError> {
    if step.altered { (cx.announce)(step.change.clone()).await } else { Ok(()) }
}

/// Takes back the changes that were made before one failed. Returns the error for the model: it names the files that
/// could not be put back.
async fn taken_back(made: &[PlannedChange], files: &dyn Files, error: ToolError) -> ToolError {
    let mut left = Vec::new();
    for PlannedChange { new, old, change, permissions, .. } in made.iter().rev() {
        let (path, never) = (&change.path, CancellationToken::new());
        let is_back = match (old, new) {
            (None, Some(new)) => files.remove(path, new).await.is_ok_and(|removed| removed),
            (Some(old), None) if let Some(permissions) = permissions => {
                files.create(path, old, permissions.clone(), &never).await.is_ok()
            }
            (Some(old), new) => files.write(path, new.as_deref(), old, &never).await.is_ok(),
            (None, None) => true,
        };
        if !is_back {
            left.push(path.display().to_string());
            continue;
        }
        for directory in change.directories.iter().filter(|_| old.is_none()) {
            // A directory in which another program has put a file meanwhile stays.
            if files.remove_directory(directory).await.is_err() {
                break;
            }
        }
    }
    if left.is_empty() {
        return error;
    }
    let message = format!(
        "{} The files before it could not all be put back: {} stay changed. Read them to see what is in them.",
        error.message,
        left.join(", ")
    );
    ToolError { kind: UNCONFIRMED_KIND.to_owned(), message, ..error }
}
