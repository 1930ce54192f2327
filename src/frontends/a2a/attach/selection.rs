//! Selection of the session that a terminal attaches to.

use std::cmp::Reverse;
use std::collections::HashSet;
use std::future::ready;
use std::path::PathBuf;

use futures::{StreamExt as _, TryStreamExt as _};

use super::super::context::SessionContext;
use super::super::contexts::visible::VisibleContexts;
use super::super::read::AgentSettings;
use super::super::requests::SessionId;
use super::super::server::A2aServer;
use tandem_agent::session::Listed;
use tandem_agent::sessions::{Leased, SessionSummary};
use tandem_content::shorten::first_chars;
use tandem_serve::principals::Principal;
use tandem_wire::attach::{ListedSession, SessionSelector, refused};
use tandem_wire::jsonrpc::Error;

/// Maximum number of stored sessions in the list that a terminal chooses from.
const STORED_LISTED: usize = 100;

/// Maximum number of characters of a prompt in the list.
const MAX_PROMPT_CHARS: usize = 60;

/// Returns the session that the terminal means; if that is not clear, the list to choose from, without the
/// oldest of very many. If the terminal names no session, the only session that a node has loaded is meant.
pub(super) async fn wanted(
    server: &A2aServer,
    principal: &Principal,
    wanted: &SessionSelector,
) -> Result<Result<Leased<SessionContext>, Vec<ListedSession>>, Error> {
    let contexts = server.contexts.of(principal);
    let new = |directory: &str| {
        let workspace = Some(PathBuf::from(directory));
        let settings = AgentSettings { workspace, ..AgentSettings::default() };
        let begun = contexts.prompted(None, None, None, &settings);
        begun.map(|(context, _)| context).map_err(|error| refused(error.message))
    };
    let found = match wanted {
        SessionSelector::New(_) if server.contexts.shared().is_some() => {
            return Err(refused(
                "this agent begins no sessions for others: attach without `--new`, or to a `tandem serve`",
            ));
        }
        SessionSelector::New(directory) => return Ok(Ok(new(directory)?)),
        SessionSelector::Only(directory) => {
            let active = active(contexts).await?;
            if active.is_empty() {
                return Ok(Ok(new(directory)?));
            }
            active.into_iter().map(|session| session.id).collect()
        }
        SessionSelector::Id(id) => match open_exactly(server, principal, id).await? {
            Some(exactly) => return Ok(Ok(exactly)),
            None => matching_sessions(contexts, id).await?,
        },
    };
    if let [id] = &found[..]
        && let Some(context) = open_exactly(server, principal, id).await?
    {
        return Ok(Ok(context));
    }
    let mut all = active(contexts).await?;
    let ids: HashSet<_> = all.iter().map(|session| session.id.clone()).collect();
    let stored = contexts.stored().try_filter(|stored| ready(!ids.contains(&stored.head.id)));
    let stored = stored.map_ok(|stored| listed_stored(&stored, false)).take(STORED_LISTED);
    let stored: Vec<_> = stored.try_collect().await.map_err(|error| refused(error.message))?;
    all.extend(stored);
    Ok(Err(all))
}

/// Returns the sessions that some node has loaded, the last used first.
async fn active(contexts: VisibleContexts<'_>) -> Result<Vec<ListedSession>, Error> {
    let mut active: Vec<_> = contexts.list().iter().map(listed).collect();
    let elsewhere = contexts.active_elsewhere().await.map_err(|error| refused(error.message))?;
    active.extend(elsewhere.iter().map(|it| listed_stored(&it.listed, it.busy)));
    active.sort_by_key(|session| Reverse(session.at));
    Ok(active)
}

/// Opens the session of exactly this id, and loads it if it is not loaded.
async fn open_exactly(
    server: &A2aServer,
    principal: &Principal,
    id: &str,
) -> Result<Option<Leased<SessionContext>>, Error> {
    let opened = server.open(principal, Some(SessionId::Session(id))).await;
    opened.map_err(|error| refused(error.message))
}

/// Returns the ids of the sessions that a part of an id fits. Stored sessions are searched only until a
/// second one is found, since then the part is ambiguous.
async fn matching_sessions(
    contexts: VisibleContexts<'_>,
    part: &str,
) -> Result<Vec<String>, Error> {
    let loaded = contexts.list().into_iter().map(|session| session.id);
    let mut found: Vec<_> = loaded.filter(|id| matches_part(id, part)).collect();
    let mut stored = contexts.stored();
    while found.len() < 2
        && let Some(next) = stored.try_next().await.map_err(|error| refused(error.message))?
    {
        found.extend(Some(next.head.id).filter(|id| matches_part(id, part)));
    }
    Ok(found)
}

/// Returns `true` if an id begins or ends with the part. The beginning of an id is its time of creation, so
/// sessions that were created soon after each other differ at the end only.
fn matches_part(id: &str, part: &str) -> bool {
    id.starts_with(part) || id.ends_with(part)
}

/// Describes a loaded session for the list.
fn listed(summary: &SessionSummary) -> ListedSession {
    ListedSession {
        id: summary.id.clone(),
        directory: summary.directory.display().to_string(),
        prompts: usize::try_from(summary.prompts).unwrap_or(usize::MAX),
        last: first_chars(&summary.last_prompt, MAX_PROMPT_CHARS).to_owned(),
        at: summary.last_activity.unwrap_or_default(),
        busy: summary.busy,
    }
}

/// Describes a session for the list that is stored and not loaded here.
fn listed_stored(stored: &Listed, busy: bool) -> ListedSession {
    ListedSession {
        id: stored.head.id.clone(),
        directory: stored.head.directory.display().to_string(),
        prompts: usize::try_from(stored.turns).unwrap_or(usize::MAX),
        last: first_chars(&stored.title, MAX_PROMPT_CHARS).to_owned(),
        at: stored.changed,
        busy,
    }
}
