//! The chats of Gemini CLI on this machine.
//!
//! `~/.gemini/tmp/PROJECT/chats` has those of a project. PROJECT is the SHA-256 of its directory's
//! path; from Gemini CLI 0.29 on it is a short name, which `~/.gemini/projects.json` has for the path.
//! Files of `/chat save` are in the directory above.

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

use crate::chat::{Chat, text_of};
use crate::events;

/// Name of the program, for people.
pub(crate) const PROGRAM: &str = "Gemini CLI";

/// Bytes of the largest chat that is read.
const LARGEST_CHAT: u64 = 64 << 20;

/// Bytes of the largest list of projects that is read.
const LARGEST_REGISTRY: u64 = 4 << 20;

/// Longest id of a session, in bytes.
const LONGEST_ID: usize = 128;

/// Number of events that are given out at once.
const PIECE: usize = 256;

/// The chats of Gemini CLI. Nothing of them is ever written.
#[derive(Debug)]
pub struct GeminiCli {
    /// The user's `.gemini`.
    dir: PathBuf,
    /// The directory of this process, which need not be in the list of projects.
    directory: PathBuf,
    /// Files of chats that were listed, and their directories, by id, so that not all are read to find one again.
    listed: Mutex<HashMap<String, (PathBuf, PathBuf)>>,
}

/// A chat that can go on.
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
    /// The chats below the user's `.gemini`, for a process that works in a directory.
    pub fn new(dir: PathBuf, directory: PathBuf) -> Self {
        Self { dir, directory, listed: Mutex::default() }
    }

    /// Lists the chats of a directory, or of all that are known, in no order.
    pub(crate) fn list(&self, directory: Option<&Path>) -> Vec<ListedChat> {
        let registry = self.registry();
        let directories = directory.map_or_else(|| self.directories(&registry), |one| vec![one]);
        directories.into_iter().flat_map(|directory| self.chats(directory, &registry)).collect()
    }

    /// Finds the chat of an id.
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

    /// Returns the directories that may have chats; this process's comes first.
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
        let is_plain = |name: &&String| {
            name.bytes()
                .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-')
        };
        let name = registry.projects.get(directory).filter(is_plain).cloned();
        let files = hash.into_iter().chain(name).flat_map(|project| self.files(&project));
        let mut chats = HashMap::<String, ListedChat>::new();
        for chat in files.filter_map(|file| describe(&file, directory)) {
            // A chat may be there in both forms, and below both names of the project.
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

    /// Returns the files with chats of a project, and with what was saved of them by name.
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

/// Returns the name under which `/chat save` wrote a file, if it did.
fn tag(file: &Path) -> Option<String> {
    let tag = file.file_name()?.to_str()?.strip_prefix("checkpoint-")?.strip_suffix(".json")?;
    Some(percent_decode_str(tag).decode_utf8_lossy().into_owned())
}

/// Reads a chat from the text of its file.
fn read_chat<'a>(file: &Path, text: &'a str) -> Option<Chat<'a>> {
    match tag(file) {
        Some(tag) => Chat::read_checkpoint(text, &tag),
        None => Chat::read(text),
    }
}

impl ListedChat {
    /// Reads the chat and returns what a session that goes on with it has.
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

/// Describes a chat, unless nothing was said in it, a tool call has had it, or it cannot be read.
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

/// Returns the id here of a chat as it was at a time. The same chat always has the same, so that one
/// that went on here is known; with what is said there afterwards, it is another one.
fn id(session: &str, version: &str) -> String {
    ContentId::of(format!("{PROGRAM}\n{session}\n{version}").as_bytes()).to_uuid().to_string()
}

/// Reads a regular file that is no longer than this, and no link.
fn read(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    bounded::read_at(CWD, path, most, OFlags::NOFOLLOW)
}
