//! Files that a prompt mentions: found, read in one call that everybody sees, and told the model
//! with the prompt.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use globset::{GlobBuilder, GlobMatcher};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::event::{Event, PromptPart};
use super::{Session, at_path, call};
use crate::model::Call;
use crate::tools::ToolError;
use crate::tools::workspace::{Respect, Workspace};

/// What the model is told first of what it mentions in vain.
const NOT_READ: &str = "\n\n--- Mentioned and not read ---\n";

/// How many mentions of a prompt are looked up.
const MOST: usize = 100;

/// Something that may be a file's path.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Mention {
    path: String,
    /// It is one for sure, and not a word that begins with `@`.
    certain: bool,
}

impl Mention {
    /// Whether people want to know that there is no such file.
    fn is_file_name(&self) -> bool {
        let name = self.path.rsplit('/').next().unwrap_or_default();
        self.certain || name.trim_start_matches('.').contains('.')
    }

    /// Whether it may be a pattern of paths.
    fn is_glob(&self) -> bool {
        let has = |chars: &[char]| chars.iter().all(|c| self.path.contains(*c));
        let glob = has(&['*']) || has(&['?']) || has(&['[', ']']) || has(&['{', '}']);
        glob && self.is_part_of_path()
    }

    /// Whether it may be a part of a path. A single word may be anything.
    fn is_part_of_path(&self) -> bool {
        self.is_file_name() || self.path.contains('/')
    }
}

/// Reads what the prompt mentions, if it mentions anything. What cannot be read stays as it was
/// typed, and people are told why.
pub(super) async fn read(
    session: &Session,
    prompt: &[PromptPart],
    cancel: &CancellationToken,
) -> bool {
    let (mut mentions, over) = mentions(prompt);
    mentions.retain(|mention| session.servers.resource(&mention.path).is_none());
    if mentions.is_empty() {
        return false;
    }
    let (workspace, stop) = (Arc::clone(&session.workspace), cancel.child_token());
    let _stop_on_drop = stop.clone().drop_guard();
    let search = tokio::task::spawn_blocking(move || find_all(&workspace, &mentions, &stop));
    let Some(Ok((include, mut notices))) = cancel.run_until_cancelled(search).await else {
        return true;
    };
    if over > 0 {
        notices
            .push(format!("{over} more mentions: only the first {MOST} of a prompt are looked up"));
    }
    if !notices.is_empty() {
        let text = format!("{NOT_READ}{}\n", notices.join("\n"));
        session.log.append(Event::Told { call: None, text });
    }
    for notice in notices {
        session.log.append(Event::Notice(notice));
    }
    if include.is_empty() {
        return true;
    }
    let call = Call {
        id: String::new(),
        name: "read_many_files".to_owned(),
        args: json!({ "include": include }),
    };
    call::run_for_prompt(session, session.unique(call), cancel).await;
    true
}

/// What a prompt mentions, each once; and how many more than are looked up.
fn mentions(prompt: &[PromptPart]) -> (Vec<Mention>, usize) {
    let mut mentions: Vec<Mention> = Vec::new();
    let mut over = 0;
    let mut add = |path: String, certain: bool| {
        let known = mentions.iter().any(|mention| mention.path == path);
        // With a scheme it is something that others know.
        if known || (!certain && path.contains("://")) {
            return;
        }
        let mention = Mention { path, certain };
        if mentions.len() < MOST {
            mentions.push(mention);
        } else if mention.is_file_name() {
            over += 1;
        }
    };
    for part in prompt {
        match part {
            PromptPart::Path(path) => add(path.clone(), true),
            PromptPart::Text(text) => {
                for at in at_path::all(text) {
                    add(at.path, at.quoted);
                }
            }
            PromptPart::Input(_) | PromptPart::Shell(_) => {}
        }
    }
    (mentions, over)
}

/// The paths to read, relative to the workspace where they can be; and what people are told of the
/// others.
fn find_all(
    workspace: &Workspace,
    mentions: &[Mention],
    stop: &CancellationToken,
) -> (Vec<String>, Vec<String>) {
    let exact = |mention: &Mention| workspace.resolve(&from_uri(&mention.path));
    let mut found: Vec<_> = mentions.iter().map(exact).collect();
    let missing = mentions.iter().zip(&mut found).filter(|(mention, found)| {
        mention.is_part_of_path()
            && !mention.is_glob()
            && found.as_ref().is_ok_and(|real| !real.exists())
    });
    by_name(workspace, missing.map(|(mention, found)| (from_uri(&mention.path), found)), stop);
    let (mut include, mut notices) = (Vec::new(), Vec::new());
    for (mention, found) in mentions.iter().zip(found) {
        match to_read(workspace, mention, found) {
            Some(Ok(path)) if !include.contains(&path) => include.push(path),
            Some(Err(why)) => notices.push(format!("@{}: {why}", mention.path)),
            _ => {}
        }
    }
    (include, notices)
}

/// The path to read, or why there is none; nothing if it is but a word.
fn to_read(
    workspace: &Workspace,
    mention: &Mention,
    found: Result<PathBuf, ToolError>,
) -> Option<Result<String, String>> {
    Some(match found {
        Ok(real) if real.exists() => match workspace.ignored_by(&real, Respect::ALL) {
            Some(rules) => Err(format!("not read, because it is ignored by {rules}")),
            None => Ok(workspace.relative(&real)),
        },
        // What there is of it, and what of that is not read, the tool says.
        Ok(real) if mention.is_glob() => Ok(workspace.relative(&real)),
        Ok(_) if !mention.is_file_name() => return None,
        Ok(_) => Err("there is no such file in the workspace".to_owned()),
        // A name that a program imports may look like this.
        Err(_) if !mention.is_file_name() && !Path::new(&mention.path).exists() => return None,
        Err(error) => Err(error.message),
    })
}

/// The files that are not ignored, those of the first root first.
pub(super) fn files(workspace: &Workspace, most: usize) -> Vec<String> {
    walk(workspace).take(most).map(|path| workspace.relative(&path)).collect()
}

fn walk(workspace: &Workspace) -> impl Iterator<Item = PathBuf> {
    let below = |root: &PathBuf| {
        let mut walk = workspace.walk(root, Respect::ALL);
        walk.sort_by_file_path(Path::cmp).build().flatten()
    };
    let files = workspace.roots().iter().flat_map(below);
    let files = files.filter(|entry| entry.file_type().is_some_and(|kind| kind.is_file()));
    files.map(ignore::DirEntry::into_path)
}

/// A path as it is, or the one in a `file://` URI.
fn from_uri(mentioned: &str) -> String {
    let Some(path) = mentioned.strip_prefix("file://") else { return mentioned.to_owned() };
    let path = path.strip_prefix("localhost").unwrap_or(path);
    percent_encoding::percent_decode_str(path).decode_utf8_lossy().into_owned()
}

/// Puts in the place of each what is found by its name: the first file, in alphabetical order,
/// whose path ends in something like it.
fn by_name<'a>(
    workspace: &Workspace,
    missing: impl Iterator<Item = (String, &'a mut Result<PathBuf, ToolError>)>,
    stop: &CancellationToken,
) {
    let mut missing: Vec<_> =
        missing.filter_map(|(name, found)| Some((like(&name)?, found))).collect();
    if missing.is_empty() {
        return;
    }
    for path in walk(workspace).take_while(|_| !stop.is_cancelled()) {
        let Some(root) = workspace.roots().iter().find(|root| path.starts_with(root)) else {
            continue;
        };
        let below = path.strip_prefix(root).unwrap_or(&path);
        missing.retain_mut(|(glob, found)| {
            let is_it = glob.is_match(below);
            if is_it {
                **found = Ok(path.clone());
            }
            !is_it
        });
        if missing.is_empty() {
            return;
        }
    }
}

/// What matches paths that end in something like the name.
fn like(name: &str) -> Option<GlobMatcher> {
    let name = name.trim_start_matches(['/', '.']);
    if name.is_empty() {
        return None;
    }
    let pattern = format!("**/*{}*", globset::escape(name));
    Some(GlobBuilder::new(&pattern).literal_separator(true).build().ok()?.compile_matcher())
}
