//! Files that a prompt mentions: found, read in one call that everybody sees, and told the model
//! with the prompt.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use globset::GlobBuilder;
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::event::{Event, PromptPart};
use super::{Session, call};
use crate::model::Call;
use crate::tools::workspace::{Respect, Workspace};

/// Reads what the prompt mentions, if it mentions anything. What cannot be read stays as it was
/// typed, and people are told why.
pub(super) async fn read(
    session: &Session,
    prompt: &[PromptPart],
    cancel: &CancellationToken,
) -> bool {
    let mentions = prompt.iter().any(|part| matches!(part, PromptPart::Path(_)));
    let mut include: Vec<String> = Vec::new();
    for part in prompt {
        let PromptPart::Path(mentioned) = part else { continue };
        if session.servers.resource(mentioned).is_some() {
            continue;
        }
        let (workspace, path) = (Arc::clone(&session.workspace), mentioned.clone());
        let search = tokio::task::spawn_blocking(move || find(&workspace, &path));
        match cancel.run_until_cancelled(search).await {
            Some(Ok(Ok(found))) if !include.contains(&found) => include.push(found),
            Some(Ok(Err(why))) => {
                session.log.append(Event::Notice(format!("@{mentioned}: {why}")));
            }
            Some(_) => {}
            None => return mentions,
        }
    }
    if include.is_empty() {
        return mentions;
    }
    let call = Call {
        id: String::new(),
        name: "read_many_files".to_owned(),
        args: json!({ "include": include }),
    };
    call::run_for_prompt(session, session.unique(call), cancel).await;
    mentions
}

/// The path to read, relative to the workspace where it can be; or why there is none.
fn find(workspace: &Workspace, mentioned: &str) -> Result<String, String> {
    let path = from_uri(mentioned);
    let found = match workspace.resolve(&path) {
        Ok(real) if real.exists() => real,
        Ok(_) => by_name(workspace, &path).ok_or("there is no such file in the workspace")?,
        Err(error) => return Err(error.message),
    };
    match workspace.ignored_by(&found, Respect::ALL) {
        Some(rules) => Err(format!("not read, because it is ignored by {rules}")),
        None => Ok(workspace.relative(&found)),
    }
}

/// The files that are not ignored, those of the first root first.
pub(super) fn files(workspace: &Workspace, most: usize) -> Vec<String> {
    let below = |root: &PathBuf| {
        let mut walk = workspace.walk(root, Respect::ALL);
        walk.sort_by_file_path(Path::cmp).build().flatten()
    };
    let files = workspace.roots().iter().flat_map(below);
    let files = files.filter(|entry| entry.file_type().is_some_and(|kind| kind.is_file()));
    files.take(most).map(|entry| workspace.relative(entry.path())).collect()
}

/// A path as it is, or the one in a `file://` URI.
fn from_uri(mentioned: &str) -> String {
    let Some(path) = mentioned.strip_prefix("file://") else { return mentioned.to_owned() };
    let path = path.strip_prefix("localhost").unwrap_or(path);
    percent_encoding::percent_decode_str(path).decode_utf8_lossy().into_owned()
}

/// The first file, in alphabetical order, whose path ends in something like the name.
fn by_name(workspace: &Workspace, name: &str) -> Option<PathBuf> {
    let name = name.trim_start_matches(['/', '.']);
    if name.is_empty() {
        return None;
    }
    let pattern = format!("**/*{}*", globset::escape(name));
    let glob = GlobBuilder::new(&pattern).literal_separator(true).build().ok()?.compile_matcher();
    let below = |root: &PathBuf| {
        let mut walk = workspace.walk(root, Respect::ALL);
        walk.sort_by_file_path(Path::cmp);
        walk.build().flatten().find(|entry| {
            entry.file_type().is_some_and(|kind| kind.is_file())
                && entry.path().strip_prefix(root).is_ok_and(|path| glob.is_match(path))
        })
    };
    workspace.roots().iter().find_map(below).map(ignore::DirEntry::into_path)
}
