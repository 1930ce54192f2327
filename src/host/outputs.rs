//! Output that is too long for the model. The model gets the beginning and the end; the whole is written to a file that
//! the model can read.

use std::collections::VecDeque;
use std::ffi::OsStr;
use std::fs::{self, OpenOptions};
use std::io::{self, ErrorKind, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::preimages::ContentId;
use super::scratch::Scratch;
use super::stored_files::{OUTPUTS_DIRECTORY, StoredFile, write_whole};
use parking_lot::Mutex;
use tandem_content::blocking::blocking;
use tandem_content::shorten::{shorten, shorten_with};

/// Prefix of the names of files that came with prompts.
const ATTACHMENT_PREFIX: &str = "attachment.";

/// Maximum size of all files of a session that came with prompts, in bytes.
const MAX_ATTACHED_BYTES: u64 = 64 << 20;

/// Maximum length of the part of such a file's name, and of its extension, that is used in the new name.
const MAX_STEM: usize = 40;
const MAX_ENDING: usize = 12;

/// Returns the name, relative to a session's directory, for a file that came with a prompt. The same name and content
/// give the same result.
pub fn attachment_name(name: &str, content: &[u8]) -> String {
    let plain = |text: &str, most: usize| -> String {
        text.chars().filter(|c| c.is_ascii_alphanumeric() || *c == '_').take(most).collect()
    };
    let path = Path::new(name);
    let part = |part: Option<&OsStr>, most| plain(part.and_then(OsStr::to_str).unwrap_or(""), most);
    let (stem, ending) = (part(path.file_stem(), MAX_STEM), part(path.extension(), MAX_ENDING));
    let content = ContentId::hash(content);
    let hash = content.short();
    let ending = if ending.is_empty() { "bin" } else { &ending };
    format!("{OUTPUTS_DIRECTORY}/{ATTACHMENT_PREFIX}{stem}.{hash}.{ending}")
}

/// The stored outputs of one session.
pub struct Outputs {
    scratch: Arc<Scratch>,
    /// Maximum number of bytes that are stored. Beyond it, the oldest files are removed.
    max_bytes: u64,
    /// The files of the session. Files from an earlier process of the session are looked up at first use. The lock is
    /// also held while a file is written.
    kept: Mutex<Option<OutputFiles>>,
}

#[derive(Default)]
struct OutputFiles {
    /// Number in the name of the newest file; numbers are not reused.
    count: u64,
    /// Files, the oldest first.
    files: VecDeque<OutputFile>,
    bytes: u64,
}

struct OutputFile {
    path: PathBuf,
    size: u64,
    /// Identity of the content; `None` for a file that an earlier process wrote.
    content: Option<ContentId>,
}

impl OutputFiles {
    /// Lists the output files of a session: those of the store if there is a store, or else those of the directory,
    /// which need not exist.
    fn find(scratch: &Scratch, directory: &Path) -> Self {
        let files = match scratch.stored_files() {
            Some(stored) => stored.in_directory(OUTPUTS_DIRECTORY),
            None => in_directory(directory),
        };
        let mut numbered: Vec<_> = files
            .into_iter()
            .filter_map(|StoredFile { name, bytes }| {
                let number: u32 = name.strip_suffix(".txt")?.rsplit_once('-')?.1.parse().ok()?;
                let path = directory.join(name);
                Some((number, OutputFile { path, size: bytes, content: None }))
            })
            .collect();
        numbered.sort_unstable_by_key(|(number, _)| *number);
        Self {
            count: numbered.last().map_or(0, |(number, _)| u64::from(*number)),
            bytes: numbered.iter().map(|(_, file)| file.size).sum(),
            files: numbered.into_iter().map(|(_, file)| file).collect(),
        }
    }
}

/// Returns the files of a directory, which need not exist.
fn in_directory(directory: &Path) -> Vec<StoredFile> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let file = |entry: fs::DirEntry| {
        let (name, bytes) = (entry.file_name().into_string().ok()?, entry.metadata().ok()?.len());
        Some(StoredFile { name, bytes })
    };
    entries.filter_map(file).collect()
}

impl Outputs {
    /// Returns a store of at most `max_bytes` bytes.
    pub fn new(scratch: Arc<Scratch>, max_bytes: u64) -> Self {
        Self { scratch, max_bytes, kept: Mutex::default() }
    }

    /// Returns a text of at most about `max_chars` characters. A longer text is shortened. The whole text is then
    /// written to a file, which the shortened text names.
    pub async fn fit(self: &Arc<Self>, tool: &str, text: String, max_chars: usize) -> String {
        // The number of bytes is compared first, as a character has at least one byte.
        if text.len() <= max_chars || text.chars().count() <= max_chars {
            return text;
        }
        let (outputs, tool) = (Arc::clone(self), tool.to_owned());
        let fit = move || match outputs.save(&tool, &text) {
            Some(path) => shorten_with(&text, max_chars, |missing| {
                format!(
                    "{missing} characters left out; all of it is in {}, which {CAN_READ}",
                    path.display()
                )
            })
            .into_owned(),
            None => shorten(&text, max_chars).into_owned(),
        };
        blocking(fit).await.unwrap_or_default()
    }

    /// Writes a text to a file that the model can read; `None` if the text is too long or cannot be written. Equal
    /// texts share one file.
    pub fn save(&self, tool: &str, text: &str) -> Option<PathBuf> {
        self.try_save(tool, text).unwrap_or_else(|err| {
            tracing::warn!(%err, "a long output is not kept");
            None
        })
    }

    /// Returns the name of a file relative to the session's directory, for records that must not depend on the place of
    /// that directory. `None` for a file that is not in it.
    pub fn name(&self, path: &Path) -> Option<String> {
        let path = path.strip_prefix(self.scratch.dir().ok()?).ok()?;
        path.to_str().map(ToOwned::to_owned)
    }

    /// Returns whether a path is in the directory of these files.
    pub(super) fn contains(&self, path: &Path) -> bool {
        self.scratch
            .existing()
            .is_some_and(|directory| path.starts_with(directory.join(OUTPUTS_DIRECTORY)))
    }

    /// Returns the path of the file with a name relative to the session's directory.
    pub fn path(&self, name: &str) -> PathBuf {
        self.scratch.dir().map_or_else(|_| name.into(), |directory| directory.join(name))
    }

    /// Returns the stored output to which a path from the model leads. The path may also be the path of the output
    /// on another node.
    pub fn find(&self, path: &str) -> Option<PathBuf> {
        let directory = self.scratch.existing()?;
        let stored = self.scratch.stored_files().and_then(|stored| stored.name_of(path.as_ref()));
        let is_stored = stored.is_some();
        let path = stored.map_or_else(|| path.into(), |name| directory.join(name));
        let directory = directory.join(OUTPUTS_DIRECTORY);
        let name = path.file_name().and_then(OsStr::to_str).unwrap_or_default();
        if name.starts_with(ATTACHMENT_PREFIX) && path.parent() == Some(&directory) {
            return (is_stored || path.is_file()).then_some(path);
        }
        let mut kept = self.kept.lock();
        let kept = kept.get_or_insert_with(|| OutputFiles::find(&self.scratch, &directory));
        let found = kept.files.iter().find(|file| path == file.path);
        found.map(|file| file.path.clone())
    }

    /// Writes a file that came with a prompt, under its [name](attachment_name). The error says why it was not written.
    pub fn attach(&self, name: &str, content: &[u8]) -> Result<(), String> {
        let failed = |err: io::Error| format!("it cannot be written: {err}");
        let directory = self.scratch.dir().map_err(failed)?;
        let path = directory.join(name);
        let is_there = match self.scratch.stored_files() {
            Some(stored) => stored.contains(name),
            None => path.exists(),
        };
        if is_there {
            return Ok(());
        }
        let files = match self.scratch.stored_files() {
            Some(stored) => stored.in_directory(OUTPUTS_DIRECTORY),
            None => in_directory(&directory.join(OUTPUTS_DIRECTORY)),
        };
        let attached = files.iter().filter(|file| file.name.starts_with(ATTACHMENT_PREFIX));
        let size = content.len() as u64;
        if attached.map(|file| file.bytes).sum::<u64>() + size > MAX_ATTACHED_BYTES {
            return Err(format!(
                "the files of this conversation have more than {MAX_ATTACHED_BYTES} bytes: begin another one"
            ));
        }
        write_whole(&path, content).map_err(failed)?;
        if let Some(stored) = self.scratch.stored_files() {
            stored.written(name.to_owned(), size);
        }
        Ok(())
    }

    /// Copies a stored output from the store into the session's directory, if the directory lacks it.
    pub async fn fetch(&self, file: &Path) -> io::Result<()> {
        match self.name(file) {
            Some(name) => self.scratch.fetch(&name).await.map(drop),
            None => Ok(()),
        }
    }

    fn try_save(&self, tool: &str, text: &str) -> io::Result<Option<PathBuf>> {
        let size = text.len() as u64;
        if size > self.max_bytes {
            return Ok(None);
        }
        let content = ContentId::hash(text.as_bytes());
        let directory = self.scratch.dir()?.join(OUTPUTS_DIRECTORY);
        let mut kept = self.kept.lock();
        let kept = kept.get_or_insert_with(|| OutputFiles::find(&self.scratch, &directory));
        let is_known = |known: &&OutputFile| known.content.as_ref() == Some(&content);
        if let Some(known) = kept.files.iter().find(is_known) {
            return Ok(Some(known.path.clone()));
        }
        fs::create_dir_all(&directory)?;
        while kept.bytes + size > self.max_bytes {
            let Some(oldest) = kept.files.pop_front() else { break };
            kept.bytes -= oldest.size;
            self.remove(&oldest.path)?;
        }
        kept.count += 1;
        let name = tool.chars().filter(|c| c.is_ascii_alphanumeric() || *c == '_').take(40);
        let name = format!("{}-{}.txt", name.collect::<String>(), kept.count);
        let path = directory.join(name);
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path)?;
        file.write_all(text.as_bytes())?;
        kept.files.push_back(OutputFile { path: path.clone(), size, content: Some(content) });
        kept.bytes += size;
        if let (Some(stored), Some(name)) = (self.scratch.stored_files(), self.name(&path)) {
            stored.written(name, size);
        }
        Ok(Some(path))
    }

    /// Removes a file from the session's directory, where it may be missing, and from the store.
    fn remove(&self, path: &Path) -> io::Result<()> {
        if let (Some(stored), Some(name)) = (self.scratch.stored_files(), self.name(path)) {
            stored.removed(name);
        }
        match fs::remove_file(path) {
            Err(err) if err.kind() == ErrorKind::NotFound => Ok(()),
            removed => removed,
        }
    }
}

/// Clause that tells the model how to read such a file.
pub const CAN_READ: &str = "read_file (offset, limit) and grep_search (dir_path) can read";

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn files(parent: &Path) -> Vec<String> {
        let session = fs::read_dir(parent).unwrap().next().unwrap().unwrap().path();
        let files = fs::read_dir(session.join(OUTPUTS_DIRECTORY)).unwrap();
        let mut names: Vec<_> =
            files.map(|file| file.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[tokio::test]
    async fn what_does_not_fit_is_in_a_file_that_only_the_user_can_read() {
        let parent = tempfile::tempdir().unwrap();
        let scratch = Arc::new(Scratch::new(Some(parent.path().to_owned())));
        let outputs = Arc::new(Outputs::new(Arc::clone(&scratch), 1000));
        assert_eq!(outputs.fit("x", "äöü".to_owned(), 3).await, "äöü");
        assert_eq!(fs::read_dir(parent.path()).unwrap().count(), 0);
        let said = outputs.fit("../x y", "0123456789abcdef".to_owned(), 10).await;
        let path = scratch.dir().unwrap().join("outputs/xy-1.txt");
        assert_eq!(
            said,
            format!(
                "01\n[... 6 characters left out; all of it is in {}, which read_file (offset, \
                 limit) and grep_search (dir_path) can read ...]\n89abcdef",
                path.display()
            )
        );
        assert_eq!(fs::read_to_string(&path).unwrap(), "0123456789abcdef");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(outputs.name(&path).as_deref(), Some("outputs/xy-1.txt"));
        assert_eq!(outputs.path("outputs/xy-1.txt"), path);
        assert_eq!(outputs.name(Path::new("/elsewhere/xy-1.txt")), None);
        assert_eq!(outputs.find(&path.display().to_string()), Some(path));
        assert_eq!(outputs.find("xy-1.txt"), None);
    }

    #[tokio::test]
    async fn what_an_earlier_process_kept_is_found_counts_and_goes_first() {
        let parent = tempfile::tempdir().unwrap();
        let dir = parent.path().join("session");
        let outputs = || {
            let scratch = Arc::new(Scratch::persistent(dir.clone()));
            Arc::new(Outputs::new(scratch, 100))
        };
        let first = outputs().save("a", &"1".repeat(60)).unwrap();
        let again = outputs();
        assert_eq!(again.find(&first.display().to_string()), Some(first));
        assert_eq!(again.find("/elsewhere/outputs/a-1.txt"), None);
        let second = again.save("b", &"2".repeat(60)).unwrap();
        assert_eq!(second, dir.join("outputs/b-2.txt"));
        assert_eq!(files(parent.path()), ["b-2.txt"]);
    }

    #[tokio::test]
    async fn the_oldest_go_when_there_are_too_many() {
        let parent = tempfile::tempdir().unwrap();
        let scratch = Arc::new(Scratch::new(Some(parent.path().to_owned())));
        let outputs = Arc::new(Outputs::new(scratch, 100));
        for text in ["1", "2", "2", "3"] {
            outputs.fit("a", text.repeat(40), 10).await;
        }
        assert_eq!(files(parent.path()), ["a-2.txt", "a-3.txt"]);
        let said = outputs.fit("a", "x".repeat(101), 10).await;
        assert!(said.contains("[... 91 characters left out ...]"), "{said}");
        assert_eq!(files(parent.path()), ["a-2.txt", "a-3.txt"]);
    }

    #[test]
    fn a_file_that_comes_with_a_prompt_is_found_and_bounded() {
        let parent = tempfile::tempdir().unwrap();
        let scratch = Arc::new(Scratch::persistent(parent.path().join("a")));
        let outputs = Outputs::new(Arc::clone(&scratch), 1000);
        let name = attachment_name("../x/my notes-5.txt", b"one");
        assert!(name.starts_with("outputs/attachment.mynotes5."), "{name}");
        assert_ne!(name, attachment_name("../x/my notes-5.txt", b"two"));
        assert_eq!(attachment_name("", b"").rsplit('.').next(), Some("bin"));
        outputs.attach(&name, b"one").unwrap();
        outputs.attach(&name, b"one").unwrap();
        let path = outputs.path(&name);
        assert_eq!(fs::read(&path).unwrap(), b"one");
        assert_eq!(outputs.find(path.to_str().unwrap()), Some(path));
        // New outputs replace the oldest outputs. An attachment is not an output and stays.
        let long = "x".repeat(900);
        assert!(
            outputs.save("t", &long).is_some() && outputs.save("u", &"y".repeat(900)).is_some()
        );
        assert_eq!(files(parent.path()).len(), 2);
        let large = attachment_name("large", b"");
        let file = fs::File::create(outputs.path(&large)).unwrap();
        file.set_len(MAX_ATTACHED_BYTES).unwrap();
        let why = outputs.attach("outputs/attachment.y.0.bin", b"y").unwrap_err();
        assert!(why.contains("begin another"), "{why}");
    }
}
