//! The files of Gemini CLI's chats on this machine.
//!
//! The chats of a project are in `~/.gemini/tmp/PROJECT/chats`. PROJECT is the SHA-256 of the path of the project's
//! directory. From Gemini CLI 0.29 on, PROJECT is a short name, which `~/.gemini/projects.json` maps from the path.
//! Files of `/chat save` are in `~/.gemini/tmp/PROJECT`.

use std::collections::{BTreeMap, HashSet};
use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use serde::Deserialize;
use tandem_agent::session::Head;
use tandem_host::preimages::ContentId;

use super::chat::saved_id;
use super::found::{FoundSession, read_regular, tag};
use crate::skip::{SkipReason, SkippedFile};

/// Maximum size in bytes of the list of projects.
const MAX_REGISTRY_BYTES: u64 = 4 << 20;

/// Number of characters of a session's id in the name of its file.
const NAMED_ID: usize = 8;

/// Maximum number of files among which a chat that was not imported is looked for.
const MAX_NEWEST_FILES: usize = 20;

/// The chats of Gemini CLI. Their files are never written.
#[derive(Debug, Clone)]
pub struct GeminiCli {
    /// The user's `.gemini` directory.
    dir: PathBuf,
    /// Working directory of this process. It need not be in the list of projects.
    directory: PathBuf,
}

/// Chats to import.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ImportScope {
    /// The chats of the working directory.
    Directory,
    /// The chats of every directory whose path is known.
    All,
    /// The chat in this file, or all chats in this directory.
    Path(PathBuf),
}

/// Result of a search for chats.
#[derive(Debug, Default)]
pub struct FoundSessions {
    /// The chats, the last changed first.
    pub sessions: Vec<FoundSession>,
    /// Files that have no chat, or cannot be read.
    pub skipped: Vec<SkippedFile>,
    /// Number of chats without a prompt, and of chats of subagents.
    pub empty: usize,
    /// Directories with chats of projects whose paths are not known.
    pub unknown: Vec<PathBuf>,
}

/// Content of `projects.json`.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Registry {
    projects: BTreeMap<PathBuf, String>,
}

impl GeminiCli {
    /// Returns the chats below the user's `.gemini` directory `dir`, for a process with the working directory
    /// `directory`.
    pub fn new(dir: PathBuf, directory: PathBuf) -> Self {
        Self { dir, directory }
    }

    /// Finds chats. Reads each of their files.
    pub fn find(&self, scope: &ImportScope) -> FoundSessions {
        let mut found = FoundSessions::default();
        let registry = self.registry().unwrap_or_else(|err| {
            found.skip(self.registry_file(), SkipReason::Unreadable(err));
            Registry::default()
        });
        match scope {
            ImportScope::Directory => self.find_in(&self.directory, &registry, &mut found),
            ImportScope::All => {
                for directory in self.directories(&registry) {
                    self.find_in(directory, &registry, &mut found);
                }
                found.unknown = self.unknown(&registry);
            }
            ImportScope::Path(path) => {
                for file in found.files_at(path) {
                    let project = project_name(&file);
                    found.read(&file, |hash| self.directory_of(hash, project, &registry));
                }
            }
        }
        found.sort();
        found
    }

    /// Returns the newest files of the working directory's chats, at most [`MAX_NEWEST_FILES`], by the times in their
    /// names.
    pub(crate) fn newest_files(&self) -> Vec<PathBuf> {
        let (registry, mut ignored) =
            (self.registry().unwrap_or_default(), FoundSessions::default());
        let projects = projects_of(&self.directory, &registry).into_iter();
        let mut files: Vec<_> =
            projects.flat_map(|project| self.files(&project, &mut ignored)).collect();
        files.sort_by(|a, b| b.file_name().cmp(&a.file_name()));
        files.truncate(MAX_NEWEST_FILES);
        files
    }

    /// Returns `true` if one of the working directory's files is named after the chat from which a session was
    /// imported. `original`: id of the chat; `stored`: head of the session.
    pub(crate) fn is_file_of_chat(&self, file: &Path, original: &str, stored: &Head) -> bool {
        // The tag of a saved chat is the whole id of the chat. Two directories may have chats of one tag.
        if let Some(tag) = tag(file) {
            return original == saved_id(&tag) && stored.directory == self.directory;
        }
        let name = file.file_stem().and_then(|name| name.to_str());
        let begins = name.and_then(|name| Some(name.rsplit_once('-')?.1));
        begins.is_some_and(|begins| begins.len() == NAMED_ID && original.starts_with(begins))
    }

    fn registry_file(&self) -> PathBuf {
        self.dir.join("projects.json")
    }

    fn registry(&self) -> io::Result<Registry> {
        match read_regular(&self.registry_file(), MAX_REGISTRY_BYTES) {
            Err(err) if err.kind() == ErrorKind::NotFound => Ok(Registry::default()),
            json => Ok(serde_json::from_slice(&json?)?),
        }
    }

    /// Returns the directories that may have chats. The working directory of this process comes first.
    fn directories<'a>(&'a self, registry: &'a Registry) -> Vec<&'a Path> {
        let others = registry.projects.keys().map(PathBuf::as_path);
        let others = others.filter(|path| path.is_absolute() && *path != self.directory);
        [self.directory.as_path()].into_iter().chain(others).collect()
    }

    /// Returns the directory of a chat: the known directory whose path has the hash, or to which the project
    /// belongs, or else the working directory.
    fn directory_of(
        &self,
        hash: Option<&str>,
        project: Option<&str>,
        registry: &Registry,
    ) -> PathBuf {
        let mut known = self.directories(registry).into_iter();
        let is_it = |directory: &&Path| {
            let projects = projects_of(directory, registry);
            projects.iter().any(|it| Some(it.as_str()) == hash || Some(it.as_str()) == project)
        };
        known.find(is_it).unwrap_or(&self.directory).to_owned()
    }

    /// Finds the chats of a project.
    fn find_in(&self, directory: &Path, registry: &Registry, found: &mut FoundSessions) {
        for project in projects_of(directory, registry) {
            for file in self.files(&project, found) {
                found.read(&file, |_| directory.to_owned());
            }
        }
    }

    /// Returns the files of a project's chats, and the files that `/chat save` wrote.
    fn files(&self, project: &str, found: &mut FoundSessions) -> Vec<PathBuf> {
        let dir = self.dir.join("tmp").join(project);
        let mut files = found.entries(&dir);
        let chats = dir.join("chats");
        // Of a project that is a link, `chats` is not read either.
        let has_chats = files.contains(&chats);
        files.retain(|path| tag(path).is_some());
        if has_chats {
            files.extend(found.entries(&chats).into_iter().filter(|path| {
                let name = path.file_stem().and_then(|name| name.to_str()).unwrap_or_default();
                name.starts_with("session-") && is_json(path)
            }));
        }
        files
    }

    /// Returns the directories of chats whose projects have no known path.
    fn unknown(&self, registry: &Registry) -> Vec<PathBuf> {
        let known = self.directories(registry).into_iter();
        let known: HashSet<_> = known.flat_map(|it| projects_of(it, registry)).collect();
        let projects = fs::read_dir(self.dir.join("tmp")).into_iter().flatten().flatten();
        let mut unknown: Vec<_> = projects
            .filter(|project| project.file_name().to_str().is_none_or(|it| !known.contains(it)))
            .filter(|project| project.file_type().is_ok_and(|it| it.is_dir()))
            .map(|project| project.path().join("chats"))
            .filter(|chats| fs::symlink_metadata(chats).is_ok_and(|chats| chats.is_dir()))
            .collect();
        unknown.sort();
        unknown
    }
}

impl FoundSessions {
    fn skip(&mut self, path: PathBuf, why: SkipReason) {
        self.skipped.push(SkippedFile { path, why });
    }

    fn read(&mut self, file: &Path, directory: impl FnOnce(Option<&str>) -> PathBuf) {
        match FoundSession::describe(file, directory) {
            Ok(Some(session)) => self.sessions.push(session),
            Ok(None) => self.empty += 1,
            Err(why) => self.skip(file.to_owned(), why),
        }
    }

    /// Returns the paths in a directory, in no order. A directory that cannot be read is skipped, as is a link to
    /// one. A missing directory is empty.
    fn entries(&mut self, dir: &Path) -> Vec<PathBuf> {
        match read_dir(dir) {
            Ok(entries) => entries.flatten().map(|entry| entry.path()).collect(),
            Err(err) => {
                if err.kind() != ErrorKind::NotFound {
                    self.skip(dir.to_owned(), SkipReason::Unreadable(err));
                }
                Vec::new()
            }
        }
    }

    /// Returns the file at a path. Of a directory, returns the files in it, and in its directory `chats`, that are JSON
    /// by their names.
    fn files_at(&mut self, path: &Path) -> Vec<PathBuf> {
        // A person may name a link. Links in a directory are not followed.
        let path = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        if !path.is_dir() {
            return vec![path];
        }
        let mut files = self.entries(&path);
        files.extend(self.entries(&path.join("chats")));
        files.retain(|file| is_json(file) && !file.is_dir());
        files
    }

    /// Sorts the chats and the skipped files, and leaves out other files of the same chat. A chat may have files in
    /// both forms, below both names of its project, and below two projects.
    fn sort(&mut self) {
        // Equal times are sorted by id, because the list must not depend on the order of files in a directory.
        self.sessions.sort_by(|a, b| (b.changed, &b.head.id).cmp(&(a.changed, &a.head.id)));
        let (mut chats, mut ids) = (HashSet::new(), HashSet::new());
        self.sessions.retain(|session| {
            let head = &session.head;
            // The same chat may lie below two projects. Both copies have one id, so only the first is imported.
            chats.insert((session.original().to_owned(), head.directory.clone()))
                && ids.insert(head.id.clone())
        });
        self.skipped.sort_by(|a, b| a.path.cmp(&b.path));
    }
}

/// Returns the names of a directory's project below `~/.gemini/tmp`.
fn projects_of(directory: &Path, registry: &Registry) -> Vec<String> {
    let hash = directory.to_str().map(|path| ContentId::hash(path.as_bytes()).sha256().to_owned());
    // The name becomes part of a path, so it must not lead to another directory.
    let is_plain = |name: &&String| {
        !name.is_empty()
            && name
                .bytes()
                .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-')
    };
    hash.into_iter().chain(registry.projects.get(directory).filter(is_plain).cloned()).collect()
}

/// Returns the name of the project that a chat's file belongs to, by the file's path.
fn project_name(file: &Path) -> Option<&str> {
    let dir = file.parent()?;
    let project = if dir.ends_with("chats") { dir.parent()? } else { dir };
    project.file_name()?.to_str()
}

/// Reads a directory, which must not be a symbolic link.
fn read_dir(dir: &Path) -> io::Result<fs::ReadDir> {
    if !fs::symlink_metadata(dir)?.is_dir() {
        return Err(io::Error::new(ErrorKind::NotADirectory, "it is not a directory"));
    }
    fs::read_dir(dir)
}

fn is_json(file: &Path) -> bool {
    matches!(file.extension().and_then(|form| form.to_str()), Some("json" | "jsonl"))
}
