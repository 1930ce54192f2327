//! `read_file`: reads one file, or some of its lines.

pub(super) mod excerpt;

use std::path::Path;

use async_trait::async_trait;
use serde::Deserialize;
use serde_json::{Value, json};

use self::excerpt::{Excerpt, LineNumbers, LineSpan};
use super::blocking::{blocking, stoppable};
use super::target::PathTarget;
use tandem_content::media::Media;
use tandem_host::files::FileKind;
use tandem_host::workspace::Respect;
use tandem_host::{
    Host, Invocation, ResultContent, Tool, ToolContext, ToolError, ToolKind, ToolLimits,
    ToolOutput, ToolSpec, args, parse, text,
};

/// Maximum size of an SVG image, which is given as text, in bytes.
const SVG_BYTES: u64 = 1 << 20;

/// The tool `read_file`.
pub(super) struct ReadFile;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ReadFileArgs {
    file_path: String,
    #[serde(default, deserialize_with = "args::number")]
    offset: Option<usize>,
    #[serde(default, deserialize_with = "args::number")]
    limit: Option<usize>,
    // Arguments that models know from Gemini CLI: the first line, and the last one.
    #[serde(default, deserialize_with = "args::number")]
    start_line: Option<usize>,
    #[serde(default, deserialize_with = "args::number")]
    end_line: Option<usize>,
}

impl ReadFileArgs {
    /// Returns the range of lines that the call asks for; `None` for all lines.
    fn lines(&self) -> Result<Option<LineSpan>, ToolError> {
        // Some models count lines from 0, or mean the number of lines to skip.
        let first = self.start_line.or(self.offset.map(|first| first.max(1)));
        let from = first.unwrap_or(1);
        let last = match (self.end_line, self.limit) {
            (Some(last), _) => Some(last),
            (None, Some(0)) => return Err(ToolError::invalid_args("`limit`: must be at least 1")),
            (None, Some(limit)) => Some(from.saturating_add(limit) - 1),
            (None, None) => None,
        };
        if from == 0 {
            return Err(ToolError::invalid_args("`start_line`: lines are counted from 1"));
        }
        if last.is_some_and(|last| last < from) {
            return Err(ToolError::invalid_args("`end_line`: must not be less than `start_line`"));
        }
        Ok((first.is_some() || last.is_some()).then_some(LineSpan { first: from, last }))
    }
}

#[async_trait]
impl Tool for ReadFile {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: "read_file".to_owned(),
            aliases: &[],
            description: "Reads a file of the workspace. Of a text, at most 2000 lines at once, \
                each after its number and a tab, which are not part of the file. When there is \
                more, the answer says so and how to read on. Images, PDF files, \
                audio and video are attached for you to look at or listen to. Other binary files \
                and ignored files cannot be read."
                .to_owned(),
            parameters: json!({
                "type": "object",
                "properties": {
                    "file_path": {
                        "type": "string",
                        "description": "The file: relative to the workspace, or absolute.",
                    },
                    "offset": {
                        "type": "integer",
                        "description": "The first line to read, from 1. Default: 1.",
                    },
                    "limit": {
                        "type": "integer",
                        "description": "The number of lines to read. Default: 2000.",
                    },
                },
                "required": ["file_path"],
            }),
            kind: ToolKind::Read,
        }
    }

    async fn prepare(&self, args: Value, cx: &ToolContext) -> Result<Invocation, ToolError> {
        let args: ReadFileArgs = parse(args)?;
        let lines = args.lines()?;
        let target = PathTarget::to_read(cx, &args.file_path, Respect::GIT_AND_OWN).await;
        let summary = target.summary("Read", lines.map(|lines| lines.first));
        let found = match &target.found {
            Ok(FileKind::Directory) => Err(ToolError::new(
                "is_directory",
                format!("{} is a directory. List it with list_directory.", target.path.display()),
            )),
            Ok(_) => Ok(()),
            Err(error) => Err(error.clone()),
        };
        Ok(match found {
            Ok(()) => Invocation::new(summary, target.access(), move |cx| async move {
                stoppable(&cx, read(&cx, target, lines)).await
            }),
            Err(error) => Invocation::failing(summary, error),
        })
    }
}

async fn read(
    cx: &ToolContext,
    target: PathTarget,
    lines: Option<LineSpan>,
) -> Result<ToolOutput, ToolError> {
    let max = max_bytes(&target.path, &cx.host.limits);
    let bytes = cx.host.files.read(&target.path, max).await?;
    blocking(cx, move |cx| output(&target, &bytes, lines, &cx.host)).await
}

fn output(
    target: &PathTarget,
    bytes: &[u8],
    lines: Option<LineSpan>,
    host: &Host,
) -> Result<ToolOutput, ToolError> {
    let (label, limits) = (&target.label, &host.limits);
    let text = match contents(&target.path, bytes)? {
        Contents::Text(text) => text,
        Contents::Media(media) => {
            let kind = media.kind();
            return Ok(ToolOutput {
                text: format!("The {kind} file {label} ({}) is attached.", media.mime_type),
                shown: Some(ResultContent::Markdown(format!("Read {kind} file: {label}"))),
                media: vec![media],
            });
        }
    };
    if text.is_empty() {
        return Ok(ToolOutput { text: format!("{label} is empty."), ..ToolOutput::default() });
    }
    let excerpt =
        Excerpt::new(&text, lines.unwrap_or(LineSpan::WHOLE_FILE), limits, limits.read_chars);
    let Excerpt { first, last, total, cut, .. } = excerpt;
    if first > total {
        return Err(ToolError::new(
            "line_out_of_range",
            format!("{label} has {total} lines; there is no line {first}."),
        ));
    }
    excerpt.note_seen(&target.path, bytes, &host.seen);
    let cut = if cut == 0 { String::new() } else { format!(" ({cut} long line(s) cut)") };
    let shown = format!("Read lines {first}-{last} of {total} from {label}{cut}");
    let shown = (!excerpt.is_whole()).then_some(ResultContent::Markdown(shown));
    Ok(ToolOutput { text: excerpt.into_text(limits, LineNumbers::Shown), shown, media: Vec::new() })
}

/// Content of a file, for a model.
pub(super) enum Contents {
    /// Text to read.
    Text(String),
    /// Image, PDF file, audio or video, to look at or listen to.
    Media(Media),
}

/// Returns the maximum number of bytes of a file that are read.
pub(super) fn max_bytes(path: &Path, limits: &ToolLimits) -> u64 {
    let svg = path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("svg"));
    if svg { SVG_BYTES.min(limits.file_bytes) } else { limits.file_bytes }
}

/// Returns the content of a file for a model. The error says why the model cannot be given it.
pub(super) fn contents(path: &Path, bytes: &[u8]) -> Result<Contents, ToolError> {
    if let Some(mime_type) = Media::type_of(path).filter(|_| !is_plain(bytes)) {
        return Ok(Contents::Media(Media::new(mime_type, bytes)));
    }
    match text::decode(bytes) {
        Some(text) => Ok(Contents::Text(text.text)),
        None => Err(ToolError::new(
            "binary_file",
            format!(
                "{} is a binary file of a kind that cannot be read. A command may tell more \
                 about it.",
                path.display()
            ),
        )),
    }
}

/// Returns whether a file with the extension of an image or the like holds only plain text. It may be a pointer to a
/// file that is stored elsewhere. As an image, it would stay in the conversation, and the model's API would refuse
/// every request.
fn is_plain(bytes: &[u8]) -> bool {
    !bytes.starts_with(b"%PDF-") && !bytes.contains(&0) && std::str::from_utf8(bytes).is_ok()
}
