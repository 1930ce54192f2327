//! `read_many_files`: reads several files, named one by one or by globs, into one answer.

mod find;

use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use serde_json::{Value, json};

use self::find::{LinesOfFile, PlannedFile, ReadManyArgs, ReadPlan, plan};
use super::blocking::{blocking, stoppable};
use super::read_file::excerpt::{Excerpt, LineNumbers, LineSpan};
use super::read_file::{Contents, contents, max_bytes};
use tandem_content::media::Media;
use tandem_content::shorten::one_line;
use tandem_host::{
    Access, Invocation, NO_FILES_READ, ResultContent, Summary, Tool, ToolContext, ToolError,
    ToolKind, ToolOutput, ToolSpec, parse,
};

/// Maximum length of the patterns in a label, in characters.
const PATTERNS_CHARS: usize = 500;

/// Maximum number of files that people are told of, and of skipped files that the model is told of.
const MAX_NAMED: usize = 100;

/// The tool `read_many_files`.
pub(super) struct ReadManyFiles;

#[async_trait]
impl Tool for ReadManyFiles {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: "read_many_files".to_owned(),
            aliases: &[],
            description: "Reads several files of the workspace at once: files, directories (all \
                below them) and globs. For what you know you need; to find out where something \
                is, search. Images and the like are attached if they are named, or if a glob \
                asks for their kind (`*.png`). What programs made (node_modules, target, lock files) is left out unless named. Long files and long answers are cut, and say so."
                .to_owned(),
            parameters: json!({
                "type": "object",
                "properties": {
                    "include": {
                        "type": "array",
                        "items": { "type": "string" },
                        "description": "Files, directories and globs, relative to the workspace.",
                    },
                    "exclude": {
                        "type": "array",
                        "items": { "type": "string" },
                        "description": "Globs of what to leave out, as in a .gitignore file.",
                    },
                    "recursive": {
                        "type": "boolean",
                        "description": "Whether a directory in `include` means all below it, or \
                            only the files directly in it. Default: true.",
                    },
                },
                "required": ["include"],
            }),
            kind: ToolKind::Read,
        }
    }

    async fn prepare(&self, args: Value, cx: &ToolContext) -> Result<Invocation, ToolError> {
        let args: Arc<ReadManyArgs> = Arc::new(parse(args)?);
        if args.include.is_empty() && args.excerpts.is_empty() {
            return Err(ToolError::invalid_args("`include`: names nothing"));
        }
        let label = label(&args);
        // The files are looked for before the call is allowed, because its announcement names them.
        let plan = stoppable(cx, plan(cx, &args)).await?;
        let files = plan.files.iter().take(MAX_NAMED);
        let summary = files.fold(Summary::new(label), |summary, file| {
            let line = file.lines.and_then(|lines| u32::try_from(lines.first).ok());
            summary.at(&file.path, line)
        });
        let paths = plan.named_paths().map(Path::to_owned).collect();
        let outside = plan.outside.clone();
        Ok(Invocation::new(summary, Access::ReadFiles { paths, outside }, move |cx| async move {
            let numbers = if args.plain { LineNumbers::Hidden } else { LineNumbers::Shown };
            let plan = blocking(&cx, move |cx| plan.open(cx, &args)).await?;
            stoppable(&cx, read(&cx, plan, numbers)).await
        }))
    }
}

fn label(args: &ReadManyArgs) -> String {
    let patterns = args.include.iter().map(|pattern| format!("`{pattern}`"));
    let excerpts = args.excerpts.iter().map(|LinesOfFile { path, start_line, end_line }| {
        format!("`{path}` (lines {start_line}-{end_line})")
    });
    let patterns: Vec<_> = patterns.chain(excerpts).collect();
    let patterns = one_line(&patterns.join(", "), PATTERNS_CHARS);
    format!("Read {patterns}")
}

/// Content of the files read so far.
struct Collector {
    text: String,
    media: Vec<Media>,
    /// Names of the files that were read.
    read: Vec<String>,
    /// Names of the files that were not read, with the reason.
    skipped: Vec<(String, String)>,
    /// Number of characters of text that the answer still has room for.
    chars: usize,
    /// Number of bytes of images and the like that the answer still has room for.
    bytes: u64,
    numbers: LineNumbers,
}

/// Reads the planned files one after the other, until the answer has no room left.
async fn read(
    cx: &ToolContext,
    plan: ReadPlan,
    numbers: LineNumbers,
) -> Result<ToolOutput, ToolError> {
    let mut reading = Collector {
        text: String::new(),
        media: Vec::new(),
        read: Vec::new(),
        skipped: plan.skipped,
        chars: cx.host.limits.read_chars,
        bytes: cx.host.limits.file_bytes,
        numbers,
    };
    let mut more = plan.more;
    for file in plan.files {
        if cx.cancel.is_cancelled() {
            return Err(ToolError::cancelled());
        }
        if reading.chars == 0 {
            more += 1;
            continue;
        }
        let name = one_line(&cx.host.workspace.relative(&file.path), usize::MAX);
        let max = max_bytes(&file.path, &cx.host.limits);
        let bytes = if let Some(mime_type) = Media::type_of(&file.path).filter(|_| !file.media) {
            Err(format!("{mime_type}: name it to have it attached"))
        } else {
            let read = cx.cancel.run_until_cancelled(cx.host.files.read(&file.path, max)).await;
            read.ok_or_else(ToolError::cancelled)?.map_err(|error| error.message)
        };
        let add = move |cx: &ToolContext| {
            match bytes.and_then(|bytes| reading.add(cx, &file, &name, &bytes)) {
                Ok(name) => reading.read.push(name),
                Err(why) => reading.skipped.push((name, why)),
            }
            Ok(reading)
        };
        reading = blocking(cx, add).await?;
    }
    reading.finish(more)
}

impl Collector {
    /// Adds the content of one file, and returns its heading. The error says why the content was not added.
    fn add(
        &mut self,
        cx: &ToolContext,
        file: &PlannedFile,
        name: &str,
        bytes: &[u8],
    ) -> Result<String, String> {
        let mut heading = name.to_owned();
        let text = match contents(&file.path, bytes) {
            Ok(Contents::Text(text)) => {
                let lines = file.lines.unwrap_or(LineSpan::WHOLE_FILE);
                let excerpt = Excerpt::new(&text, lines, &cx.host.limits, self.chars);
                let Excerpt { first, last, total, .. } = excerpt;
                if first > total.max(1) {
                    return Err(format!("it has {total} lines; there is no line {first}"));
                }
                if excerpt.last < excerpt.first && !text.is_empty() {
                    self.chars = 0;
                    return Err("no room left in this answer".to_owned());
                }
                excerpt.note_seen(&file.path, bytes, &cx.host.seen);
                if file.lines.is_some() {
                    let _ = write!(heading, ", lines {first}-{last} of {total}");
                    excerpt.numbered()
                } else {
                    excerpt.into_text(&cx.host.limits, self.numbers)
                }
            }
            Ok(Contents::Media(media)) => {
                // `data` is in Base64: four characters stand for three bytes.
                let size = media.data.len() as u64 / 4 * 3;
                self.bytes = self.bytes.checked_sub(size).ok_or("no room left in this answer")?;
                let text = format!("(attached: {})", media.mime_type);
                self.media.push(media);
                text
            }
            Err(error) => return Err(error.message),
        };
        self.chars = self.chars.saturating_sub(text.chars().count() + heading.chars().count());
        // Writing to a string cannot fail.
        let _ = write!(self.text, "--- {heading} ---\n\n{text}\n\n");
        Ok(heading)
    }

    /// Returns the answer; an error if no file was read. `more` is the number of files that were left out for lack of
    /// room.
    fn finish(self, more: usize) -> Result<ToolOutput, ToolError> {
        let Self { mut text, media, read, mut skipped, .. } = self;
        let unnamed = skipped.len().saturating_sub(MAX_NAMED);
        skipped.truncate(MAX_NAMED);
        let mut skipped: Vec<_> =
            skipped.into_iter().map(|(name, why)| format!("{name}: {why}")).collect();
        if unnamed > 0 {
            skipped.push(format!("{unnamed} more"));
        }
        if more > 0 {
            skipped.push(format!("up to {more} more file(s): this answer holds no more"));
        }
        if read.is_empty() {
            let _ = write!(text, "{NO_FILES_READ}\n\n");
        }
        if !skipped.is_empty() {
            let _ = write!(text, "--- Not read ---\n\n{}\n\n", skipped.join("\n"));
        }
        text += "--- End of content ---";
        let shown = Some(ResultContent::Markdown(files_for_people(&read, &skipped)));
        if read.is_empty() {
            return Err(ToolError { shown, ..ToolError::new("no_files_read", text) });
        }
        Ok(ToolOutput { text, media, shown })
    }
}

fn files_for_people(read: &[String], skipped: &[String]) -> String {
    let mut shown = match read.len() {
        0 => "No files read".to_owned(),
        n => format!("Read {n} file(s):\n"),
    };
    for name in read.iter().take(MAX_NAMED) {
        let _ = write!(shown, "\n- `{name}`");
    }
    if read.len() > MAX_NAMED {
        let _ = write!(shown, "\n- and {} more", read.len() - MAX_NAMED);
    }
    if !skipped.is_empty() {
        shown += "\n\nNot read:\n";
    }
    for line in skipped {
        let _ = write!(shown, "\n- {}", one_line(line, 500));
    }
    shown
}
