//! A chat that can be imported: its description, and its conversion to a session's log.

use std::fs::{self, Metadata};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

use percent_encoding::percent_decode_str;
use rustix::fs::{CWD, OFlags};
use serde::de::IgnoredAny;
use tandem_agent::session::{Batch, BatchSummary, ForkPoint, Head, Millis};
use tandem_content::bounded;
use tandem_host::preimages::ContentId;

use super::chat::{Chat, PROGRAM_NAME, text_of};
use super::events;
use crate::skip::SkipReason;

/// Maximum size in bytes of a chat's file. The whole file is in memory while it is read.
const MAX_CHAT_BYTES: u64 = 64 << 20;

/// Maximum length in bytes of a chat's id in Gemini CLI.
const MAX_ID_BYTES: usize = 128;

/// Number of attempts to read a file that changes while it is read.
const READ_ATTEMPTS: usize = 3;

/// Age up to which a file that breaks off counts as being written. Gemini CLI writes a file in much less time.
const WRITING_TIME: Duration = Duration::from_secs(10);

/// A chat of Gemini CLI that can be imported as a session.
#[derive(Debug, Clone)]
pub struct FoundSession {
    /// File of the chat.
    pub file: PathBuf,
    /// Head of the session that an import creates. Its id stays the same as long as the chat is not changed in Gemini
    /// CLI.
    pub head: Head,
    /// Title of the chat.
    pub title: String,
    /// Number of turns.
    pub turns: u64,
    /// Time of the last change.
    pub changed: Millis,
}

/// Content of a chat's file.
struct ChatText {
    text: String,
    modified: Millis,
    /// `true` if the file was modified so recently that a missing end may still be written.
    is_new: bool,
}

impl FoundSession {
    /// Describes the chat in a file. `directory` returns the chat's directory, given the hash of its path as the
    /// chat has it. Returns `None` if the chat has no prompt, or is a subagent's.
    pub(crate) fn describe(
        file: &Path,
        directory: impl FnOnce(Option<&str>) -> PathBuf,
    ) -> Result<Option<Self>, SkipReason> {
        let read = read(file)?;
        let chat = read.parse(file)?;
        let session = chat.fields.session_id.clone().filter(|id| id.len() <= MAX_ID_BYTES);
        let session = session.ok_or(SkipReason::Foreign)?;
        let mut turns = 0;
        let mut first = None;
        for (_, prompt) in events::prompts(&chat) {
            turns += 1;
            first.get_or_insert(prompt.words);
        }
        let Some(first) = first.filter(|_| chat.fields.kind.as_deref() != Some("subagent")) else {
            return Ok(None);
        };
        let directory = directory(chat.fields.project_hash.as_deref());
        let first = events::line_of(&first);
        let title = events::summary(&chat).unwrap_or_else(|| first.clone());
        let time = |time: &Option<String>| time.as_deref().and_then(events::millis);
        let changed = time(&chat.fields.last_updated).unwrap_or(read.modified);
        let head = Head {
            id: id(&session, &chat, &read.text, &directory),
            created: time(&chat.fields.start_time).unwrap_or(changed),
            directory,
            title: first,
            by: events::WRITER_NAME.to_owned(),
            served: false,
            owner: None,
            context: None,
            from: Some(ForkPoint {
                id: session,
                index: chat.messages.len(),
                program: Some(PROGRAM_NAME.to_owned()),
            }),
            git: None,
            tag: None,
        };
        Ok(Some(Self { file: file.to_owned(), head, title, turns, changed }))
    }

    /// Returns the chat's id in Gemini CLI.
    pub(crate) fn original(&self) -> &str {
        self.head.from.as_ref().map_or("", |from| &from.id)
    }

    /// Returns `true` if a stored session was imported from the same chat, in any state of the chat.
    pub(crate) fn is_state_of(&self, stored: &Head) -> bool {
        let from =
            stored.from.as_ref().filter(|from| from.program.as_deref() == Some(PROGRAM_NAME));
        // The tag of a saved chat is unique in its directory alone.
        from.is_some_and(|from| from.id == self.original())
            && (tag(&self.file).is_none() || stored.directory == self.head.directory)
    }

    /// Reads the chat, and hands the batches of the log of a session that continues it to `send`, until `send` returns
    /// `false`. Sends nothing if the chat has changed since it was found.
    pub(crate) fn read_batches(
        &self,
        mut send: impl FnMut(Batch) -> bool,
    ) -> Result<(), SkipReason> {
        let read = read(&self.file)?;
        let chat = read.parse(&self.file)?;
        let Head { id: wanted, created, directory, title: first, .. } = &self.head;
        if id(self.original(), &chat, &read.text, directory) != *wanted {
            return Err(SkipReason::BeingWritten);
        }
        let title = Some(self.title.clone()).filter(|title| title != first);
        let summary = BatchSummary { turns: self.turns, title, ..Default::default() };
        let started = events::started(wanted, directory);
        events::events(&chat, started, *created, summary, &mut send);
        Ok(())
    }
}

impl ChatText {
    /// Parses the chat of a file.
    fn parse(&self, file: &Path) -> Result<Chat<'_>, SkipReason> {
        let chat = match tag(file) {
            Some(tag) => Chat::read_checkpoint(&self.text, &tag),
            None => Chat::read(&self.text),
        };
        let is_torn = || match &chat {
            Some(chat) => chat.torn,
            None => serde_json::from_str::<IgnoredAny>(&self.text).is_err(),
        };
        if self.is_new && is_torn() {
            return Err(SkipReason::BeingWritten);
        }
        chat.ok_or(SkipReason::Foreign)
    }
}

/// Returns the tag under which `/chat save` wrote a file; `None` for another file.
pub(super) fn tag(file: &Path) -> Option<String> {
    let tag = file.file_name()?.to_str()?.strip_prefix("checkpoint-")?.strip_suffix(".json")?;
    Some(percent_decode_str(tag).decode_utf8_lossy().into_owned())
}

/// Returns the id of a session of tandem for a chat in its present state. An unchanged chat always has the same id, so
/// that no chat is imported twice.
fn id(session: &str, chat: &Chat<'_>, text: &str, directory: &Path) -> String {
    let name = match &chat.fields.last_updated {
        Some(time) => format!("{PROGRAM_NAME}\n{session}\n{time}"),
        // A saved chat has no times, and its tag is unique in its directory alone.
        None => format!(
            "{PROGRAM_NAME}\n{session}\n{}\n{}",
            ContentId::hash(text.as_bytes()).sha256(),
            directory.display()
        ),
    };
    ContentId::hash(name.as_bytes()).to_uuid().to_string()
}

/// Reads a chat's file: a regular file of at most [`MAX_CHAT_BYTES`], which must not be a symbolic link. Fails if the
/// file changes at every attempt.
fn read(file: &Path) -> Result<ChatText, SkipReason> {
    for _ in 0..READ_ATTEMPTS {
        let before = fs::symlink_metadata(file).map_err(SkipReason::Unreadable)?;
        if before.len() > MAX_CHAT_BYTES {
            return Err(SkipReason::TooLarge(MAX_CHAT_BYTES));
        }
        let bytes = read_regular(file, MAX_CHAT_BYTES).map_err(SkipReason::Unreadable)?;
        let after = fs::symlink_metadata(file).map_err(SkipReason::Unreadable)?;
        let state = |it: &Metadata| (it.len(), it.modified().ok());
        if state(&before) != state(&after) || after.len() != bytes.len() as u64 {
            continue;
        }
        let modified = after.modified().unwrap_or(UNIX_EPOCH);
        let since = modified.duration_since(UNIX_EPOCH).unwrap_or_default();
        return Ok(ChatText {
            text: text_of(bytes),
            modified: Millis::try_from(since.as_millis()).unwrap_or(Millis::MAX),
            // A file from the future does not count as new: the clock was set back.
            is_new: modified.elapsed().is_ok_and(|age| age < WRITING_TIME),
        });
    }
    Err(SkipReason::BeingWritten)
}

/// Reads a regular file of at most `most` bytes, which must not be a symbolic link.
pub(super) fn read_regular(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    bounded::read_at(CWD, path, most, OFlags::NOFOLLOW)
}
