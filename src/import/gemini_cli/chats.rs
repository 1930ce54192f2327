//! The chats of Gemini CLI on this machine.
//!
//! The chats of a project are in `~/.gemini/tmp/PROJECT/chats`. PROJECT is the SHA-256 of the path of the project's
//! directory. From Gemini CLI 0.29 on, PROJECT is a short name, which `~/.gemini/projects.json` maps from the path.
//! Files of `/chat save` are in `~/.gemini/tmp/PROJECT`.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use parking_lot::Mutex;
use percent_encoding::percent_decode_str;
use rustix::fs::{CWD, OFlags};
use serde::Deserialize;
use tandem_agent::session::{Batch, BatchSummary, ForkPoint, Head, Listed, Millis, Shares};
use tandem_content::bounded;
use tandem_host::preimages::ContentId;

use super::chat::{Chat, text_of};
use super::events;

/// Name of Gemini CLI, for people.
pub(crate) const PROGRAM: &str = "Gemini CLI";

/// Maximum size in bytes of a chat's file.
const LARGEST_CHAT: u64 = 64 << 20;

/// Maximum size in bytes of the list of projects.
const LARGEST_REGISTRY: u64 = 4 << 20;

/// Maximum length in bytes of the id of Gemini CLI's session.
const LONGEST_ID: usize = 128;

/// Maximum number of events in one batch.
const PIECE: usize = 256;

/// The chats of Gemini CLI. Their files are never written.
#[derive(Debug)]
pub struct GeminiCli {
    /// The user's `.gemini` directory.
    dir: PathBuf,
    /// Working directory of this process. It need not be in the list of projects.
    directory: PathBuf,
    /// File and directory of each listed chat, by id, so that finding a chat again does not mean reading all of them.
    listed: Mutex<HashMap<String, (PathBuf, PathBuf)>>,
}

/// A chat that can be continued, with its file.
#[derive(Debug, Clone)]
pub(crate) struct ListedChat {
    file: PathBuf,
    pub(crate) listed: Listed,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Registry {
    projects: BTreeMap<PathBuf, String>,
}

impl GeminiCli {
    /// Returns the chats below the user's `.gemini` directory `dir`, for a process with the working directory
    /// `directory`.
    pub fn new(dir: PathBuf, directory: PathBuf) -> Self {
        Self { dir, directory, listed: Mutex::default() }
    }

    /// Lists the chats of a directory, or of all known directories, in no order.
    pub(crate) fn list(&self, directory: Option<&Path>) -> Vec<ListedChat> {
        let registry = self.registry();
        let directories = directory.map_or_else(|| self.directories(&registry), |one| vec![one]);
        directories.into_iter().flat_map(|directory| self.chats(directory, &registry)).collect()
    }

    /// Finds the chat with an id.
    pub(crate) fn find(&self, id: &str) -> Option<ListedChat> {
        let is_it = |chat: &ListedChat| chat.listed.head.id == id;
        let place = self.listed.lock().get(id).cloned();
        let listed = place.and_then(|(file, directory)| describe(&file, &directory));
        listed.filter(is_it).or_else(|| {
            let registry = self.registry();
            let mut directories = self.directories(&registry).into_iter();
            directories.find_map(|it| self.chats(it, &registry).into_iter().find(is_it))
        })
    }

    /// Returns the directories that may have chats. The working directory of this process comes first.
    fn directories<'a>(&'a self, registry: &'a Registry) -> Vec<&'a Path> {
        let others = registry.projects.keys().map(PathBuf::as_path);
        let others = others.filter(|path| path.is_absolute() && *path != self.directory);
        [self.directory.as_path()].into_iter().chain(others).collect()
    }

    fn registry(&self) -> Registry {
        let read = read(&self.dir.join("projects.json"), LARGEST_REGISTRY);
        read.ok().and_then(|json| serde_json::from_slice(&json).ok()).unwrap_or_default()
    }

    fn chats(&self, directory: &Path, registry: &Registry) -> Vec<ListedChat> {
        let hash =
            directory.to_str().map(|path| ContentId::of(path.as_bytes()).sha256().to_owned());
        // The name becomes part of a path, so it must not lead to another directory.
        let is_plain = |name: &&String| {
            name.bytes()
                .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-')
        };
        let name = registry.projects.get(directory).filter(is_plain).cloned();
        let files = hash.into_iter().chain(name).flat_map(|project| self.files(&project));
        let mut chats = HashMap::<String, ListedChat>::new();
        for chat in files.filter_map(|file| describe(&file, directory)) {
            // One chat may have files in both forms, and below both names of the project. The newest file counts.
            let session = chat.listed.head.from.as_ref().map(|from| from.id.clone());
            let newest = chats.entry(session.unwrap_or_default()).or_insert_with(|| chat.clone());
            if newest.listed.changed < chat.listed.changed {
                *newest = chat;
            }
        }
        let mut listed = self.listed.lock();
        for chat in chats.values() {
            let place = (chat.file.clone(), directory.to_owned());
            listed.insert(chat.listed.head.id.clone(), place);
        }
        chats.into_values().collect()
    }

    /// Returns the files of a project's chats, and the files that `/chat save` wrote.
    fn files(&self, project: &str) -> Vec<PathBuf> {
        let dir = self.dir.join("tmp").join(project);
        let paths = |dir: &Path| {
            let entries = fs::read_dir(dir).into_iter().flatten().flatten();
            entries.map(|entry| entry.path()).collect::<Vec<_>>()
        };
        let is_chat = |path: &PathBuf| {
            let name = path.file_stem().and_then(|name| name.to_str()).unwrap_or_default();
            let form = path.extension().and_then(|form| form.to_str());
            name.starts_with("session-") && matches!(form, Some("json" | "jsonl"))
        };
        let chats = paths(&dir.join("chats")).into_iter().filter(is_chat);
        chats.chain(paths(&dir).into_iter().filter(|path| tag(path).is_some())).collect()
    }
}

/// Returns the tag under which `/chat save` wrote a file; `None` for another file.
fn tag(file: &Path) -> Option<String> {
    let tag = file.file_name()?.to_str()?.strip_prefix("checkpoint-")?.strip_suffix(".json")?;
    Some(percent_decode_str(tag).decode_utf8_lossy().into_owned())
}

/// Parses a chat from the text of its file.
fn read_chat<'a>(file: &Path, text: &'a str) -> Option<Chat<'a>> {
    match tag(file) {
        Some(tag) => Chat::read_checkpoint(text, &tag),
        None => Chat::read(text),
    }
}

impl ListedChat {
    /// Reads the chat, and returns the batches of the log of a session that continues it.
    pub(crate) fn batches(&self) -> io::Result<Vec<Batch>> {
        let text = text_of(read(&self.file, LARGEST_CHAT)?);
        let gone = || io::Error::other("the chat has been changed meanwhile");
        let chat = read_chat(&self.file, &text).ok_or_else(gone)?;
        let Listed { head, title, turns, .. } = &self.listed;
        let started = events::started(&head.id, &head.directory);
        let mut events = events::events(&chat, started, head.created);
        let mut batches = Vec::new();
        while !events.is_empty() {
            let rest = events.split_off(events.len().min(PIECE));
            let first = batches.last().map_or(0, Batch::end);
            batches.push(Batch { first, events, summary: None });
            events = rest;
        }
        if let Some(last) = batches.last_mut() {
            let title = Some(title.clone()).filter(|title| *title != head.title);
            last.summary = Some(BatchSummary { turns: *turns, title, ..BatchSummary::default() });
        }
        Ok(batches)
    }
}

/// Describes a chat. Returns `None` if the chat has no prompt, if it is a subagent's, or if it cannot be read.
fn describe(file: &Path, directory: &Path) -> Option<ListedChat> {
    let bytes = read(file, LARGEST_CHAT).ok()?;
    let text = text_of(bytes);
    let chat = read_chat(file, &text)?;
    let session = chat.fields.session_id.clone().filter(|id| id.len() <= LONGEST_ID)?;
    if chat.fields.kind.as_deref() == Some("subagent") {
        return None;
    }
    let mut turns = 0;
    let mut first = None;
    for (_, prompt) in events::prompts(&chat) {
        turns += 1;
        first.get_or_insert(prompt.words);
    }
    let title = events::line_of(&first?);
    let modified = || fs::symlink_metadata(file).ok()?.modified().ok();
    let modified = || modified()?.duration_since(UNIX_EPOCH).ok()?.as_millis().try_into().ok();
    let time = |time: &Option<String>| time.as_deref().and_then(events::millis);
    let last_updated = &chat.fields.last_updated;
    let changed: Millis = time(last_updated).or_else(modified).unwrap_or(0);
    let version = last_updated.clone().unwrap_or_else(|| changed.to_string());
    let head = Head {
        id: id(&session, &version),
        created: time(&chat.fields.start_time).unwrap_or(changed),
        directory: directory.to_owned(),
        title: title.clone(),
        by: events::BY.to_owned(),
        served: false,
        owner: None,
        context: None,
        from: Some(ForkPoint {
            id: session,
            index: chat.messages.len(),
            program: Some(PROGRAM.to_owned()),
        }),
        git: None,
        tag: None,
    };
    let title = events::summary(&chat).unwrap_or(title);
    let program = Some(PROGRAM);
    let (shares, held_by) = (Shares::new(), None);
    let listed = Listed { head, title, turns, changed, program, shares, held_by };
    Some(ListedChat { file: file.to_owned(), listed })
}

/// Returns the id of a tandem session for a version of a chat. An unchanged chat always has the same id, so that a chat
/// that was continued in tandem is recognized. A chat that has gone on in Gemini CLI has another id.
fn id(session: &str, version: &str) -> String {
    ContentId::of(format!("{PROGRAM}\n{session}\n{version}").as_bytes()).to_uuid().to_string()
}

/// Reads a regular file of at most `most` bytes, which must not be a symbolic link.
fn read(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    bounded::read_at(CWD, path, most, OFlags::NOFOLLOW)
}
