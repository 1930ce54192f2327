//! A proposed change of one file: shown to the user, allowed, and made if the file has not changed meanwhile.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::blocking::blocking;
use tandem_host::off_thread::{off_thread, to_the_end};
use tandem_host::preimages::{ContentId, FileChange, Preimage};
use tandem_host::seen_files::{Seen, SeenFiles};
use tandem_host::text::{self, TextFormat, Unencodable};
use tandem_host::{
    FileDiff, Host, Invocation, ResultContent, Summary, ToolContext, ToolError, ToolLimits,
    ToolOutput, diff, files,
};

/// A file before a change.
pub(super) struct Original {
    /// Real path, inside the workspace. The change goes to this file, even if the path that the model has given leads
    /// elsewhere later.
    pub(super) path: PathBuf,
    /// Content; `None` if there is no such file.
    pub(super) bytes: Option<Vec<u8>>,
    /// Decoded content; empty if there is no such file.
    pub(super) text: Arc<str>,
    pub(super) format: TextFormat,
}

impl Original {
    /// Reads a file that is to be changed, if it exists.
    pub(super) async fn read(path: &Path, cx: &ToolContext) -> Result<Self, ToolError> {
        let path = path.to_owned();
        let files = &cx.host.files;
        let bytes = match files.read(&path, cx.host.limits.file_bytes).await {
            Err(error) if error.is_file_not_found() => {
                let (bytes, text, format) = (None, Arc::from(""), TextFormat::default());
                return Ok(Self { path, bytes, text, format });
            }
            bytes => bytes?,
        };
        files.check_writable(&path).await?;
        blocking(cx, move |_| Self::decode(path, bytes)).await
    }

    fn decode(path: PathBuf, bytes: Vec<u8>) -> Result<Self, ToolError> {
        let Some(decoded) = text::decode(&bytes) else {
            return Err(ToolError::new(
                "not_text",
                format!(
                    "{} is not a text file. To replace it by a text file, remove it first.",
                    path.display()
                ),
            ));
        };
        let text::FileText { text, format } = decoded;
        if !format.lossless {
            return Err(ToolError::new(
                "not_text",
                format!(
                    "{} looks like {format}, but some of its bytes are not. Writing the file as text would \
                     change these bytes, so the file was left alone. Change the file with a command that works \
                     on bytes, or convert the file first.",
                    path.display()
                ),
            ));
        }
        Ok(Self { path, bytes: Some(bytes), text: text.into(), format })
    }

    /// Returns the real path of the file.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns whether there is no such file yet.
    pub(super) fn is_new(&self) -> bool {
        self.bytes.is_none()
    }

    /// Compares the content before the change with the content that the model knows.
    fn seen(&self, files: &SeenFiles) -> Seen {
        match self.bytes.as_deref() {
            // A missing or empty file has no content that could be lost.
            None | Some([]) => Seen::Whole,
            Some(bytes) => files.compare(&self.path, bytes),
        }
    }

    /// Returns whether the model knows the whole content before the change.
    pub(super) fn is_known(&self, files: &SeenFiles) -> bool {
        self.seen(files) == Seen::Whole
    }

    /// Refuses to replace content that the model has not been shown.
    pub(super) fn check_seen(&self, relative: &str, cx: &ToolContext) -> Result<(), ToolError> {
        let edit = cx.audience.edit_tool;
        let edit = edit.map(|tool| format!(" To change a part of it, use `{tool}`."));
        let edit = edit.unwrap_or_default();
        match self.seen(&cx.host.seen) {
            Seen::Whole => Ok(()),
            Seen::Never => Err(ToolError::new(
                "file_not_read",
                format!(
                    "{relative} exists, and you have not read it: it was left as it is. Read it \
                     first with read_file, then write it.{edit}"
                ),
            )),
            Seen::Partly => Err(ToolError::new(
                "file_not_read",
                format!(
                    "You have read only a part of {relative}: it was left as it is. Read the rest of it \
                     first, then write it.{edit}"
                ),
            )),
            Seen::Before => Err(ToolError::new(
                "file_changed",
                format!(
                    "{relative} has changed since you read it: it was left as it is. Read it again \
                     first, then write it so that the changes stay."
                ),
            )),
        }
    }

    /// Encodes a new text in the encoding of the file.
    pub(super) fn encode(&self, new: &str, limits: &ToolLimits) -> Result<Vec<u8>, ToolError> {
        let lacking = |error: Unencodable| {
            let path = self.path.display();
            let message = format!(
                "{path} was not changed: {error}. Do without it, or convert the file to UTF-8 \
                 first."
            );
            ToolError::new("not_encodable", message)
        };
        let bytes = text::encode(new, &self.format).map_err(lacking)?;
        if bytes.len() as u64 > limits.file_bytes {
            return Err(files::too_large(&self.path, bytes.len() as u64, limits.file_bytes));
        }
        Ok(bytes)
    }
}

/// Bytes to write, and the content that they replace.
pub(super) struct Write {
    pub(super) bytes: Vec<u8>,
    after: ContentId,
    /// Text that the user has put in place of the proposed one.
    edited: Option<Arc<str>>,
    /// Content before the change; `None` if the content stays the same and nothing needs to be written.
    before: Option<Preimage>,
    /// `true` if the model knows the whole content before the change, and so the whole content after it.
    pub(super) is_known: bool,
}

/// A file, and its proposed new text.
pub(super) struct Proposal {
    /// The file before the change.
    pub(super) original: Original,
    /// New text of the file, with the line endings that it should have.
    pub(super) new: Arc<str>,
    /// Sentence for the model after the change.
    pub(super) done: String,
}

impl Proposal {
    /// Returns the call that makes the change.
    pub(super) fn into_invocation(self, mut summary: Summary, limits: &ToolLimits) -> Invocation {
        if let Err(error) = self.original.encode(&self.new, limits) {
            return Invocation::failing(summary, error);
        }
        summary.diff = Some(self.diff(&self.new));
        let path = self.original.path.clone();
        let make = |cx, edited| to_the_end(Arc::new(self).make(cx, edited));
        Invocation::edit(summary, path, make)
    }

    /// Makes the change:
    ///
    /// 1. Encodes the new text and stores the content before.
    /// 2. Announces the change, so that it can be undone.
    /// 3. Writes the file, if it has not changed meanwhile.
    /// 4. If an editor altered the text as it saved the file, announces that content and tells the model.
    async fn make(
        self: Arc<Self>,
        cx: ToolContext,
        edited: Option<String>,
    ) -> Result<ToolOutput, ToolError> {
        let Self { original, .. } = &*self;
        let path = &original.path;
        let (proposal, host) = (Arc::clone(&self), Arc::clone(&cx.host));
        let (write, output) = off_thread(move || {
            let write = proposal.encode(edited, &host)?;
            let output = proposal.output(write.edited.as_ref(), &host.limits);
            Ok::<_, ToolError>((write, output))
        })
        .await?;
        let Write { bytes, after, edited, before, is_known } = write;
        let Some(before) = before else { return Ok(output) };
        if cx.cancel.is_cancelled() {
            return Err(ToolError::cancelled());
        }
        let files = &cx.host.files;
        let directories = files.missing_directories(path).await?;
        let change = FileChange {
            path: path.clone(),
            before,
            after: after.clone(),
            removes: false,
            directories,
        };
        // The announcement comes before the write, so that a change can be undone even if a crash follows the write.
        (cx.announce)(change.clone()).await?;
        let old = original.bytes.as_deref();
        let written = files.write(path, old, &bytes, &cx.cancel).await?;
        if let Some(sandbox) = &cx.host.sandbox {
            sandbox.accept(path).await;
        }
        let content = written.as_deref().map_or(after, ContentId::hash);
        if is_known {
            cx.host.seen.note(path, content.clone());
        }
        // A failed call is understood to have left the file as it was, so nothing after the write should fail.
        let Some(now) = written else { return Ok(output) };
        // The editor has saved other content than was announced. The saved content is announced now, because an undo
        // compares the file with the announcement.
        (cx.announce)(FileChange { after: content, ..change }).await?;
        let host = Arc::clone(&cx.host);
        off_thread(move || Ok(self.altered(output, edited.as_ref(), &now, &host))).await
    }

    /// Returns the output of a change whose text an editor has altered as it saved the file. `now` is the saved
    /// content.
    fn altered(
        &self,
        output: ToolOutput,
        edited: Option<&Arc<str>>,
        now: &[u8],
        host: &Host,
    ) -> ToolOutput {
        let Some(now) = text::decode(now) else { return output };
        let intended = edited.unwrap_or(&self.new);
        if text::normalise(&now.text) == text::normalise(intended) {
            return output;
        }
        let changes = diff::unified(intended, &now.text, &host.limits);
        let text = format!(
            "{}\n\nBut the editor changed the file as it was saved, as a formatter does. From what was \
             written to what is in the file now:\n{changes}",
            output.text
        );
        let shown = Some(ResultContent::Diff(Box::new(self.diff(&now.text.into()))));
        ToolOutput { text, shown, ..output }
    }

    /// Encodes the text to write, and stores the content before.
    pub(super) fn encode(&self, edited: Option<String>, host: &Host) -> Result<Write, ToolError> {
        let Self { original, new, .. } = self;
        // The text comes from the user's editor, which may have used other line endings.
        let edited = edited.map(|edited| text::like(new, &edited));
        let edited = edited.filter(|edited| **edited != **new).map(Arc::from);
        let bytes = original.encode(edited.as_ref().unwrap_or(new), &host.limits)?;
        let changes = original.bytes.as_ref() != Some(&bytes);
        let before = changes.then(|| host.preimages.save(original.bytes.as_deref()));
        let is_known = original.is_known(&host.seen);
        Ok(Write { after: ContentId::hash(&bytes), bytes, edited, before, is_known })
    }

    fn output(&self, edited: Option<&Arc<str>>, limits: &ToolLimits) -> ToolOutput {
        let shown = Some(ResultContent::Diff(Box::new(self.diff(edited.unwrap_or(&self.new)))));
        let text = self.report(edited.map(|edited| &**edited), limits);
        ToolOutput { text, media: Vec::new(), shown }
    }

    /// Returns the report to the model.
    fn report(&self, edited: Option<&str>, limits: &ToolLimits) -> String {
        let Self { original, new, done } = self;
        if let Some(edited) = edited {
            let changes = diff::unified(new, edited, limits);
            return format!(
                "{done} But before it was written, the user changed the text you proposed. Keep \
                 to what the user wrote. From your proposal to what is in the file now:\n{changes}"
            );
        }
        if original.is_new() {
            return done.clone();
        }
        format!("{done} What changed:\n{}", diff::unified(&original.text, new, limits))
    }

    pub(super) fn diff(&self, new: &Arc<str>) -> FileDiff {
        let Original { path, bytes, text, .. } = &self.original;
        let old = bytes.as_ref().map(|_| Arc::clone(text));
        FileDiff::new(path.display().to_string(), old, Arc::clone(new))
    }
}

/// Returns the sentence for the model after a new file was written.
pub(super) fn created(relative: &str, text: &str) -> String {
    match text.lines().count() {
        1 => format!("Created {relative} with 1 line."),
        lines => format!("Created {relative} with {lines} lines."),
    }
}

/// Returns a call that failed before a change could be proposed.
pub(super) fn failing(label: String, path: Option<&Path>, error: ToolError) -> Invocation {
    let summary = Summary::new(label);
    Invocation::failing(path.iter().fold(summary, |summary, path| summary.at(path, None)), error)
}
