//! Search for the stored session that a person names.

use std::fmt;
use std::path::Path;

use crate::session::{Listed, Query, Store, StoreError};

/// The session to work in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WantedSession {
    /// A new session.
    New,
    /// The stored session of the directory that changed last.
    Newest,
    /// A stored session, named by its id, by the beginning of its id, by its number in the list of the directory, or by
    /// words in its title; or the checkpoint of the directory with this tag; or the last changed session that was
    /// imported from another program, with this id in that program.
    Named(String),
    /// The stored session that the person picks when asked.
    Pick,
}

/// Reason why no session is found.
#[derive(Debug)]
pub enum FindError {
    /// The directory has no stored session.
    NoneHere,
    /// The person must pick the session, but this search cannot ask the person.
    Unnamed,
    /// No session has this name.
    Unknown(String),
    /// Several sessions match this name; their ids and titles.
    Several(String, Vec<(String, String)>),
    /// The store cannot be read.
    Store(StoreError),
}

/// Maximum number of sessions that an error names.
const MAX_NAMED_SESSIONS: usize = 5;

impl fmt::Display for FindError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoneHere => {
                write!(
                    f,
                    "there is no stored session of this directory; `tandem sessions --all` lists those of others"
                )
            }
            Self::Unnamed => f.write_str(
                "no session is named; `tandem sessions` lists those of this directory, `--resume NUMBER` goes on \
                 with one of them, and `--continue` with the newest",
            ),
            Self::Unknown(name) => {
                write!(f, "there is no stored session `{name}`; `tandem sessions --all` lists all")
            }
            Self::Several(name, sessions) => {
                write!(f, "several stored sessions match `{name}`; give more of the id:")?;
                for (id, title) in sessions.iter().take(MAX_NAMED_SESSIONS) {
                    write!(f, "\n  {id}  {title}")?;
                }
                Ok(())
            }
            Self::Store(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for FindError {}

/// Finds the stored session that a person who works in a directory wants. A name is tried in this order:
///
/// 1. The number of a session in the list of the directory.
/// 2. A whole id, a tag of a checkpoint of the directory, or the id in another program.
/// 3. The beginning of an id.
/// 4. A part of a title.
pub async fn find(
    store: &dyn Store,
    directory: &Path,
    wanted: &WantedSession,
) -> Result<Listed, FindError> {
    let here = Query { directory: Some(directory.to_owned()), ..Query::default() };
    let name = match wanted {
        WantedSession::New => return Err(FindError::NoneHere),
        WantedSession::Pick => return Err(FindError::Unnamed),
        WantedSession::Newest => {
            let here = Query { most: Some(1), checkpoints: Some(false), ..here };
            let newest = store.list(&here).await;
            return newest.map_err(FindError::Store)?.pop().ok_or(FindError::NoneHere);
        }
        WantedSession::Named(name) => name.trim(),
    };
    if let Ok(number) = name.parse::<usize>()
        && let Some(skip) = number.checked_sub(1)
    {
        let numbered = store.list(&Query { skip, most: Some(1), ..here.clone() }).await;
        if let Some(listed) = numbered.map_err(FindError::Store)?.pop() {
            return Ok(listed);
        }
    }
    let all = store.list(&Query::default()).await.map_err(FindError::Store)?;
    let lower = name.to_lowercase();
    let with_id: Vec<_> = all.iter().filter(|it| it.head.id.starts_with(&lower)).collect();
    let with_title: Vec<_> =
        all.iter().filter(|it| it.title.to_lowercase().contains(&lower)).collect();
    let is_id = |it: &&Listed| it.head.id == lower;
    let is_tag =
        |it: &&Listed| it.head.tag.as_deref() == Some(name) && it.head.directory == directory;
    let is_original = |it: &&Listed| {
        it.head.from.as_ref().is_some_and(|from| from.program.is_some() && from.id == name)
    };
    let exact = with_id.iter().copied().find(is_id);
    let exact = exact.or_else(|| all.iter().find(is_tag)).or_else(|| all.iter().find(is_original));
    let matching = match exact {
        Some(exact) => vec![exact],
        None if with_id.is_empty() => with_title,
        None => with_id,
    };
    match matching[..] {
        [] => Err(FindError::Unknown(name.to_owned())),
        [one] => Ok(one.clone()),
        _ => {
            let named = matching.iter().map(|it| (it.head.id.clone(), it.title.clone())).collect();
            Err(FindError::Several(name.to_owned(), named))
        }
    }
}
