//! The search for command files, and the reading of them.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use serde::Deserialize;

use super::template::PromptTemplate;
use crate::commands::words::first_sentence;
use crate::session::{CommandArgument, SessionCommand};
use tandem_host::disk;

/// Maximum depth of the directories that make up a name.
const MAX_NAME_DEPTH: usize = 8;

/// A directory with files of commands in it, and in the directories below it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandDirectory {
    /// Path of the directory.
    pub dir: PathBuf,
    /// Owner of the commands in the directory.
    pub owner: CommandOwner,
}

/// Owner of commands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CommandOwner {
    /// The user, whose commands are for all projects.
    User,
    /// A project whose folder the user trusts.
    Project,
    /// A project that the user has neither trusted nor refused: the user is asked before a command of it runs anything.
    Unjudged,
}

/// Bounds of the files that are read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CustomLimits {
    /// Maximum number of files in a directory and the directories below it.
    pub files: usize,
    /// Maximum size of a file, in bytes.
    pub bytes: usize,
}

impl Default for CustomLimits {
    fn default() -> Self {
        Self { files: 500, bytes: 64 << 10 }
    }
}

impl CommandOwner {
    /// Returns the full name of a command whose short name is taken.
    pub(in crate::commands) fn whole(self, name: &str) -> String {
        match self {
            Self::User => format!("user.{name}"),
            Self::Project | Self::Unjudged => format!("workspace.{name}"),
        }
    }
}

/// A file that is, or should be, a command.
#[derive(Debug, Clone)]
pub(in crate::commands) struct CommandFile {
    /// Name of the command, without the slash.
    pub(in crate::commands) name: String,
    pub(in crate::commands) file: PathBuf,
    pub(in crate::commands) owner: CommandOwner,
    /// Content of the file, or an error that names the line.
    pub(in crate::commands) read: Arc<Result<CommandText, String>>,
}

/// Content of a command's file.
#[derive(Debug)]
pub(in crate::commands) struct CommandText {
    pub(super) description: String,
    pub(super) prompt: PromptTemplate,
}

#[derive(Deserialize)]
struct Keys {
    prompt: String,
    #[serde(default)]
    description: String,
}

/// Contents of the files that were read, each with the stamp that the file had then.
#[derive(Default)]
pub(super) struct CommandFileCache(Known);

type Known = BTreeMap<PathBuf, (FileStamp, Arc<Result<CommandText, String>>)>;

/// Properties of a file that tell if it has changed.
#[derive(Clone, Copy, PartialEq, Eq)]
struct FileStamp {
    modified: Option<SystemTime>,
    bytes: u64,
}

impl CommandFile {
    /// Describes the command for lists.
    pub(in crate::commands) fn listed(&self) -> SessionCommand {
        let description = match &*self.read {
            Ok(written) if !written.description.is_empty() => first_sentence(&written.description),
            Ok(_) => format!("your own command, from {}", self.file_name()),
            Err(_) => format!("cannot be used: {} is wrong", self.file_name()),
        };
        let takes =
            self.read.as_ref().as_ref().is_ok_and(|written| written.prompt.takes_arguments());
        let args = CommandArgument {
            name: "args".to_owned(),
            description: "what goes into the prompt".to_owned(),
            is_required: false,
        };
        SessionCommand {
            name: self.name.clone(),
            description,
            usage: if takes { "[ARGS]".to_owned() } else { String::new() },
            arguments: Some(args).filter(|_| takes).into_iter().collect(),
        }
    }

    fn file_name(&self) -> String {
        self.file.file_name().unwrap_or_default().to_string_lossy().into_owned()
    }
}

impl CommandFileCache {
    /// Returns the commands that the files have now, in the order of their names. Of two commands with one name, the
    /// command of the later directory counts.
    pub(super) fn current_commands(
        &mut self,
        places: &[CommandDirectory],
        limits: &CustomLimits,
    ) -> Vec<CommandFile> {
        let mut known = Known::new();
        let mut found: BTreeMap<String, CommandFile> = BTreeMap::new();
        for place in places {
            let mut walk = Walk { place, most: limits.files, found: Vec::new() };
            walk.through(&place.dir);
            for (mut name, file) in walk.found {
                let read = self.read(place, &file, limits, &mut known);
                let owner = place.owner;
                // A project that the user has not judged must not replace the user's own commands.
                if owner == CommandOwner::Unjudged && found.contains_key(&name) {
                    name = owner.whole(&name);
                }
                found.insert(name.clone(), CommandFile { name, file, owner, read });
            }
        }
        self.0 = known;
        found.into_values().collect()
    }

    /// Returns the content of a file, which is read only if its stamp has changed.
    fn read(
        &self,
        place: &CommandDirectory,
        file: &Path,
        limits: &CustomLimits,
        known: &mut Known,
    ) -> Arc<Result<CommandText, String>> {
        let data = fs::metadata(file).ok();
        let modified = data.as_ref().and_then(|data| data.modified().ok());
        let stamp = FileStamp { modified, bytes: data.map_or(0, |data| data.len()) };
        let as_before = self.0.get(file).filter(|(before, _)| *before == stamp);
        let read = match as_before {
            Some((_, read)) => Arc::clone(read),
            None => Arc::new(self::read(place, file, limits.bytes)),
        };
        known.insert(file.to_owned(), (stamp, Arc::clone(&read)));
        read
    }
}

/// A walk through a directory of commands.
struct Walk<'a> {
    place: &'a CommandDirectory,
    /// Maximum number of files.
    most: usize,
    /// Names of the commands, and paths of their files.
    found: Vec<(String, PathBuf)>,
}

impl Walk<'_> {
    /// Finds the command files below a directory, in alphabetical order.
    fn through(&mut self, dir: &Path) {
        let Ok(entries) = fs::read_dir(dir) else { return };
        let mut paths: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
        paths.sort();
        let top = &self.place.dir;
        for path in paths {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            if name.starts_with('.') || self.found.len() >= self.most || !self.may_load(&path) {
                continue;
            }
            let depth = path.strip_prefix(top).map_or(0, |below| below.components().count());
            if path.is_dir() && depth < MAX_NAME_DEPTH {
                self.through(&path);
            } else if path.is_file() && path.extension().is_some_and(|it| it == "toml") {
                self.found.extend(self::name(top, &path).map(|name| (name, path)));
            }
        }
    }

    /// Returns `true` if the real path is in the directory: a project's symbolic links must not lead out of it. The
    /// user's own links may.
    fn may_load(&self, path: &Path) -> bool {
        let real = |path: &Path| path.canonicalize().ok();
        self.place.owner == CommandOwner::User
            || real(path).zip(real(&self.place.dir)).is_some_and(|(it, top)| it.starts_with(top))
    }
}

/// Returns the name of the command in a file: `git:commit` for `git/commit.toml`. Characters that would end the name,
/// or begin another part of it, are replaced.
fn name(top: &Path, file: &Path) -> Option<String> {
    let below = file.strip_prefix(top).ok()?.with_extension("");
    let plain = |c: char| {
        if c.is_whitespace() || c.is_control() || c == ':' || c == '/' { '_' } else { c }
    };
    let part = |part: std::path::Component<'_>| {
        part.as_os_str().to_string_lossy().chars().map(plain).collect::<String>()
    };
    Some(below.components().map(part).collect::<Vec<_>>().join(":"))
}

fn read(place: &CommandDirectory, file: &Path, most: usize) -> Result<CommandText, String> {
    let bytes = if place.owner == CommandOwner::User {
        disk::read(file, most as u64)
    } else {
        let real = file.canonicalize();
        let real = real.map_err(|err| format!("{} cannot be read: {err}", file.display()))?;
        disk::read_below(&place.dir, &real, most as u64)
    };
    let place = file.display();
    let bytes = bytes.map_err(|error| match &*error.kind {
        "file_too_large" => format!("{place} is longer than {most} bytes"),
        _ => error.message,
    })?;
    let text = String::from_utf8(bytes).map_err(|_| format!("{place} is not UTF-8"))?;
    let keys: Keys = toml::from_str(&text).map_err(|err| {
        let at = err.span().map_or(0, |span| span.start.min(text.len()));
        let line = memchr::memchr_iter(b'\n', &text.as_bytes()[..at]).count() + 1;
        format!("{place}:{line}: {}", err.message().replace('\n', " "))
    })?;
    if keys.prompt.trim().is_empty() {
        return Err(format!("{place}: its `prompt` is empty"));
    }
    let prompt = PromptTemplate::parse(&keys.prompt).map_err(|why| format!("{place}: {why}"))?;
    Ok(CommandText { description: keys.description, prompt })
}
