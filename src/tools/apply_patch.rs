//! `apply_patch`: changes, adds, removes and moves files by a patch, in the format that GPT models are trained on.

mod hunks;
mod patch;

use std::mem;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use serde::Deserialize;
use serde_json::{Value, json};

use self::hunks::NoPlace;
use self::patch::{FilePatch, Hunk, PATCH_GRAMMAR};
use super::blocking::{blocking, stoppable};
use super::change::{Original, Proposal, created};
use super::change_set::{ChangeSet, FileEdit, MoveSource};
use super::omission;
use super::replace::{first_change, nearest};
use super::similar_paths::similar_paths;
use tandem_content::shorten::one_line;
use tandem_host::text::TextFormat;
use tandem_host::workspace::Workspace;
use tandem_host::{
    Access, FileDiff, Freeform, Invocation, Summary, Tool, ToolContext, ToolError, ToolKind,
    ToolLimits, ToolSpec, parse, text,
};

/// Maximum length of a title, in characters.
const TITLE_CHARS: usize = 500;

/// The tool `apply_patch`.
pub(super) struct ApplyPatch;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PatchArgs {
    input: String,
    /// Directory in which relative paths begin, if the call comes from a command line. Models are not told of this
    /// field.
    dir_path: Option<String>,
}

#[async_trait]
impl Tool for ApplyPatch {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: "apply_patch".to_owned(),
            aliases: &[],
            description: "Changes files by a patch: all of it or nothing. Text between `*** Begin Patch` \
                and `*** End Patch`, with a part for each file: `*** Add File: PATH` and its lines, each \
                after `+`; `*** Delete File: PATH`; `*** Update File: PATH`, perhaps `*** Move to: PATH`, \
                and groups of lines. A group begins with `@@`, behind which may be a line of the file that \
                comes before (a class, a function), and has lines after ` ` (stays), `-` (goes) or `+` \
                (comes): three that stay before and after a change, without line numbers. Encoding and line \
                endings are kept."
                .to_owned(),
            parameters: json!({
                "type": "object",
                "properties": { "input": { "type": "string", "description": "The patch." } },
                "required": ["input"],
            }),
            kind: ToolKind::Edit,
        }
    }

    fn freeform(&self) -> Option<Freeform> {
        Some(Freeform { argument: "input", grammar: PATCH_GRAMMAR })
    }

    async fn prepare(&self, args: Value, cx: &ToolContext) -> Result<Invocation, ToolError> {
        let args: PatchArgs = parse(args)?;
        let mut files = patch::parse(&args.input).map_err(|why| {
            let message = format!("Nothing was changed: this is no patch: {why}.");
            ToolError::new("invalid_patch", message)
        })?;
        if let Some(directory) = &args.dir_path {
            for file in &mut files {
                file.begin_in(directory);
            }
        }
        stoppable(cx, prepare(files, cx)).await
    }
}

/// Prepares the call. All files are read first, so that the patch is applied as a whole to one state of them.
async fn prepare(patch: Vec<FilePatch>, cx: &ToolContext) -> Result<Invocation, ToolError> {
    let mut work = WorkingFiles::default();
    for file in &patch {
        for named in file.paths() {
            if let Err(error) = work.read(named, cx).await {
                return Ok(Invocation::failing(Summary::new(format!("Patch {named}")), error));
            }
        }
        if let Err(error) = check_no_link(file, &work, cx).await {
            return Ok(Invocation::failing(Summary::new(title(&patch, &work)), error));
        }
    }
    let invocation = move |cx: &ToolContext| {
        let summary = Summary::new(title(&patch, &work));
        for file in patch {
            if let Err(Refusal { path, source, error }) = work.apply(file, cx) {
                // The error may quote the text, so the failing call needs the permission to read the file, and to read
                // the file from which an earlier part of the patch has moved the text.
                let mut invocation = Invocation::failing(summary.at(&path, None), *error);
                let paths = std::iter::once(path).chain(source).collect();
                invocation.access = Access::ReadFiles { paths, outside: Vec::new() };
                return invocation;
            }
        }
        work.into_invocation(summary, cx)
    };
    blocking(cx, |cx| Ok(invocation(cx))).await
}

/// Refuses to remove or move a link: the path leads to the file behind the link, and that file is not meant.
async fn check_no_link(
    file: &FilePatch,
    work: &WorkingFiles,
    cx: &ToolContext,
) -> Result<(), ToolError> {
    let (FilePatch::Delete { path } | FilePatch::Update { path, moved_to: Some(_), .. }) = file
    else {
        return Ok(());
    };
    let written = Path::new(path);
    let above = written.parent().filter(|above| !above.as_os_str().is_empty());
    let above = cx.host.resolve(&above.unwrap_or(Path::new(".")).to_string_lossy()).await?;
    let is_plain = written
        .file_name()
        .is_some_and(|name| above.join(name) == work.files[work.find(path)].path());
    if is_plain {
        return Ok(());
    }
    let message = format!(
        "Nothing was changed: {path} is a link. Name the file that it leads to, or remove the link with a command."
    );
    Err(ToolError::new("is_link", message))
}

/// Returns the title of a patch: what it does with each file. Removals come first, so that no cut hides them.
fn title(patch: &[FilePatch], files: &WorkingFiles) -> String {
    let mut parts: Vec<(u8, String)> = patch
        .iter()
        .map(|file| match file {
            FilePatch::Delete { path } => (0, format!("remove {path}")),
            FilePatch::Update { path, moved_to: Some(to), .. } => {
                (1, format!("move {path} to {to}"))
            }
            FilePatch::Add { path, .. } if files.exists(path) => (2, format!("replace {path}")),
            FilePatch::Add { path, .. } => (2, format!("create {path}")),
            FilePatch::Update { path, .. } => (3, format!("edit {path}")),
        })
        .collect();
    parts.sort_by_key(|(rank, _)| *rank);
    let parts: Vec<_> = parts.into_iter().map(|(_, part)| part).collect();
    let title = one_line(&parts.join(", "), TITLE_CHARS);
    let first = title.chars().next().map(|c| c.to_ascii_uppercase());
    first.into_iter().chain(title.chars().skip(1)).collect()
}

/// A file that a patch names, in the state in which the parts of the patch so far have left it.
struct WorkingFile {
    original: Original,
    /// Text now; `None` if there is no such file.
    now: Option<Arc<str>>,
    /// The file before, if the patch has moved it here.
    moved_from: Option<MovedFile>,
}

/// A file that a patch moves, as it was before.
#[derive(Clone)]
struct MovedFile {
    path: PathBuf,
    text: Arc<str>,
    format: TextFormat,
    /// `true` if the model knew the whole content.
    is_known: bool,
}

impl WorkingFile {
    fn path(&self) -> &Path {
        self.original.path()
    }

    fn is_changed(&self) -> bool {
        match &self.now {
            Some(now) => self.original.is_new() || **now != *self.original.text,
            None => !self.original.is_new(),
        }
    }
}

/// The files that a patch names.
#[derive(Default)]
struct WorkingFiles {
    files: Vec<WorkingFile>,
    /// Names in the patch, each with the index of its file.
    names: Vec<(String, usize)>,
    /// Size of all files before the patch.
    total_bytes: u64,
}

/// Error of a part of a patch.
struct Refusal {
    /// File that the part is about.
    path: PathBuf,
    /// File from which an earlier part has moved the text.
    source: Option<PathBuf>,
    error: Box<ToolError>,
}

impl WorkingFiles {
    /// Reads a file by its name in the patch. Two names may lead to the same file.
    async fn read(&mut self, named: &str, cx: &ToolContext) -> Result<(), ToolError> {
        if self.names.iter().any(|(name, _)| name == named) {
            return Ok(());
        }
        let path = cx.host.resolve(named).await?;
        let known = self.files.iter().position(|file| file.path() == path);
        if known.is_none() {
            let original = Original::read(&path, cx).await?;
            self.total_bytes += original.bytes.as_ref().map_or(0, |bytes| bytes.len() as u64);
            if self.total_bytes > cx.host.limits.file_bytes {
                return Err(too_much(self.total_bytes, cx.host.limits.file_bytes));
            }
            let now = (!original.is_new()).then(|| Arc::clone(&original.text));
            self.files.push(WorkingFile { original, now, moved_from: None });
        }
        self.names.push((named.to_owned(), known.unwrap_or(self.files.len() - 1)));
        Ok(())
    }

    /// Returns whether a file exists before the patch, as far as the file has been read.
    fn exists(&self, named: &str) -> bool {
        let is_there = |at: usize| !self.files[at].original.is_new();
        self.names.iter().any(|(name, at)| name == named && is_there(*at))
    }

    /// Returns the index of a file that was read.
    fn find(&self, named: &str) -> usize {
        self.names.iter().find(|(name, _)| name == named).map_or(0, |(_, at)| *at)
    }

    /// Applies a part of the patch.
    fn apply(&mut self, part: FilePatch, cx: &ToolContext) -> Result<(), Refusal> {
        let (FilePatch::Add { path, .. }
        | FilePatch::Delete { path }
        | FilePatch::Update { path, .. }) = &part;
        let at = self.find(path);
        let path = self.files[at].path().to_owned();
        let source = self.files[at].moved_from.as_ref().map(|source| source.path.clone());
        let applied = match part {
            FilePatch::Add { text, .. } => self.add(at, &text, cx),
            FilePatch::Delete { .. } => self.take_file(at, cx).map(drop),
            FilePatch::Update { moved_to, hunks, .. } => {
                let to = moved_to.map_or(at, |to| self.find(&to));
                self.update(at, to, &hunks, cx)
            }
        };
        applied.map_err(|error| Refusal { path, source, error: Box::new(error) })
    }

    fn add(&mut self, at: usize, new: &str, cx: &ToolContext) -> Result<(), ToolError> {
        let file = &mut self.files[at];
        let old = file.now.as_deref().unwrap_or_default();
        omission::check(old, new)?;
        if !file.original.is_new() && file.now.is_some() {
            file.original.check_seen(&cx.host.workspace.relative(file.path()), cx)?;
        }
        file.now = Some(text::like(&file.original.text, new).into());
        Ok(())
    }

    /// Removes a file, and returns its text.
    fn take_file(&mut self, at: usize, cx: &ToolContext) -> Result<Arc<str>, ToolError> {
        let missing = || missing(self.files[at].path(), cx);
        if self.files[at].now.is_none() {
            return Err(missing());
        }
        Ok(self.files[at].now.take().unwrap_or_default())
    }

    /// Changes lines of a file, which is moved if `to` is another file.
    fn update(
        &mut self,
        at: usize,
        to: usize,
        hunks: &[Hunk],
        cx: &ToolContext,
    ) -> Result<(), ToolError> {
        let old = self.take_file(at, cx)?;
        let relative = cx.host.workspace.relative(self.files[at].path());
        let normal = text::normalise(&old);
        let edits =
            hunks::edits(&normal, hunks).map_err(|miss| missed(&miss, &normal, &relative))?;
        let new: Arc<str> = text::splice(&old, &edits).into();
        omission::check(&old, &new)?;
        if to != at {
            // A file that an earlier part removes is refused, too: no diff would show the text that is lost.
            if self.files[to].now.is_some() || !self.files[to].original.is_new() {
                let to = cx.host.workspace.relative(self.files[to].path());
                let message = format!(
                    "Nothing was changed: {relative} cannot be moved to {to}, which exists."
                );
                return Err(ToolError::new("target_exists", message));
            }
            let file = &mut self.files[at];
            let from = file.moved_from.take().unwrap_or_else(|| MovedFile {
                path: file.path().to_owned(),
                text: Arc::clone(&file.original.text),
                format: file.original.format.clone(),
                is_known: file.original.is_known(&cx.host.seen),
            });
            self.files[to].moved_from = Some(from);
        } else if new == old {
            let message = format!(
                "Nothing to change: {relative} already has the text that it would have after this patch."
            );
            return Err(ToolError::new("edit_no_change", message));
        }
        self.files[to].now = Some(new);
        Ok(())
    }

    /// Returns the call that makes the changes. The user can edit the change of the text of a single file.
    fn into_invocation(self, summary: Summary, cx: &ToolContext) -> Invocation {
        let changed = self.files.into_iter().filter(WorkingFile::is_changed);
        let (written, removed): (Vec<_>, Vec<_>) = changed.partition(|file| file.now.is_some());
        let mut change = PatchChange { summary, ..PatchChange::default() };
        // Files are removed last: what was written before can then still be taken back without a loss.
        for file in written {
            change.write(file, &cx.host.workspace);
        }
        for file in removed {
            change.remove(file.original, &cx.host.workspace);
        }
        change.into_invocation(&cx.host.limits)
    }
}

/// The changes of a patch, file by file.
#[derive(Default)]
struct PatchChange {
    summary: Summary,
    edits: Vec<FileEdit>,
    diffs: Vec<FileDiff>,
    /// Sentences for the model after the changes.
    done: Vec<String>,
    /// Files whose removal is a part of a move.
    moved: Vec<PathBuf>,
}

impl PatchChange {
    /// Adds a file that gets a text.
    fn write(&mut self, file: WorkingFile, workspace: &Workspace) {
        let WorkingFile { mut original, now, moved_from: source } = file;
        let new = now.unwrap_or_default();
        let relative = workspace.relative(original.path());
        let line = first_change(&original.text, &new);
        self.summary = mem::take(&mut self.summary).at(original.path(), Some(line));
        let done = match &source {
            Some(source) => format!("Moved {} to {relative}.", workspace.relative(&source.path)),
            None if original.is_new() => created(&relative, &new),
            None => format!("Changed {relative}."),
        };
        if let Some(source) = &source {
            original.format = source.format.clone();
            self.moved.push(source.path.clone());
        }
        self.done.push(done.clone());
        let proposal = Proposal { original, new, done };
        let mut diff = proposal.diff(&proposal.new);
        if let Some(source) = &source {
            diff.old = Some(Arc::clone(&source.text));
            diff.moved_from = Some(source.path.display().to_string());
        }
        self.diffs.push(diff);
        let moved_from =
            source.map(|source| MoveSource { path: source.path, is_known: source.is_known });
        self.edits.push(FileEdit::Write { proposal, moved_from });
    }

    /// Adds a file that is removed.
    fn remove(&mut self, original: Original, workspace: &Workspace) {
        let path = original.path();
        // An editor shows the last place. So files that are gone come before files that still exist.
        let others = mem::take(&mut self.summary.locations);
        self.summary = mem::take(&mut self.summary).at(path, None);
        self.summary.locations.extend(others);
        if !self.moved.iter().any(|moved| moved == path) {
            self.done.push(format!("Removed {}.", workspace.relative(path)));
            let old = Some(Arc::clone(&original.text));
            let diff = FileDiff::new(path.display().to_string(), old, "");
            self.diffs.push(FileDiff { removes: true, ..diff });
        }
        self.edits.push(FileEdit::Remove(original));
    }

    fn into_invocation(self, limits: &ToolLimits) -> Invocation {
        let Self { summary, mut edits, mut diffs, done, .. } = self;
        if edits.is_empty() {
            let message =
                "Nothing to change: the files say already what they would say after this.";
            return Invocation::failing(summary, ToolError::new("edit_no_change", message));
        }
        if let [FileEdit::Write { moved_from: None, .. }] = &edits[..]
            && let Some(FileEdit::Write { proposal, .. }) = edits.pop()
        {
            return proposal.into_invocation(summary, limits);
        }
        let mut diff = diffs.remove(0);
        diff.others = diffs;
        ChangeSet { edits, diff, done: done.join("\n") }.into_invocation(summary, limits)
    }
}

/// Returns the error for a patch of files that are too large together: the question about a patch holds all their texts.
fn too_much(size: u64, max: u64) -> ToolError {
    let message = format!(
        "Nothing was changed: the files of this patch have {size} bytes together, more than the limit of {max}. Change fewer files in one patch."
    );
    ToolError::new("file_too_large", message)
}

/// Returns the error for a file that does not exist.
fn missing(path: &Path, cx: &ToolContext) -> ToolError {
    let relative = cx.host.workspace.relative(path);
    let similar = match similar_paths(&cx.host.workspace, path).as_slice() {
        [] => "Look for the right path with glob.".to_owned(),
        similar => format!("Did you mean {}?", similar.join(", ")),
    };
    let message = format!("Nothing was changed: {relative} does not exist. {similar}");
    ToolError::file_not_found(message)
}

/// Returns the error for a group of lines that cannot be applied.
fn missed(miss: &NoPlace, text: &str, relative: &str) -> ToolError {
    let (kind, why) = match miss {
        NoPlace::Lines(lines) => {
            let near = nearest::lines_like(text, lines);
            let near = near.unwrap_or_else(|| "Nothing in the file is like them.\n".to_owned());
            (
                "patch_lines_not_found",
                format!(
                    "these lines are not in {relative}, or not after the group of lines before:\n{lines}\n{near}Read the file again, and copy the lines that stay or go exactly."
                ),
            )
        }
        NoPlace::Indentation { line } => (
            "patch_indentation_mismatch",
            format!(
                "lines of the patch are in {relative} from line {line} on, but indented otherwise. Give them with the indentation of the file."
            ),
        ),
        NoPlace::Head(head) => (
            "patch_lines_not_found",
            format!(
                "`@@ {head}` is not in {relative} after the group of lines before. Behind `@@` stands a whole line of the file."
            ),
        ),
    };
    ToolError::new(kind, format!("Nothing was changed: {why}"))
}
