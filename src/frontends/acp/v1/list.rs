//! List of sessions, in pages.

use std::cmp::Reverse;
use std::future::ready;
use std::path::Path;

use futures::{StreamExt as _, TryStreamExt as _};

use super::answer::{answer, timestamp};
use super::editor::Editor;
use crate::EditorService;
use tandem_agent::session::{Listed, Millis, Origin};
use tandem_wire::acp::v1::{
    ListSessionsParams, ListSessionsResponse, SessionInfo, SessionInfoMeta,
};
use tandem_wire::jsonrpc::{Error, Params};
use tandem_wire::rpc::Responder;

/// Number of sessions on a page.
const PAGE_SESSIONS: usize = 50;

/// Position in the list: the time of the session's last change, and the session's id. Like the store, the list begins
/// with the latest change.
type Position = Reverse<(Millis, String)>;

impl Editor {
    pub(super) fn list_sessions(&self, params: Params<'_>, responder: Responder) {
        let params = match params.0 {
            Some(_) => params.parse(),
            None => Ok(ListSessionsParams::default()),
        };
        let params = params.and_then(|params: ListSessionsParams| {
            let after = params.cursor.as_deref().map(position).transpose()?;
            Ok((params.cwd, after))
        });
        let (cwd, after) = match params {
            Ok(params) => params,
            Err(error) => return answer(responder, Err::<(), _>(error)),
        };
        let service = self.connection.service.clone();
        tokio::spawn(async move {
            let listed = list(&service, cwd.as_deref(), after.as_ref()).await;
            answer(responder, listed.map(page));
        });
    }
}

/// Returns the sessions after a position that have a prompt, in no order: all such loaded sessions, and at most one
/// page and one session of the stored ones.
async fn list(
    service: &EditorService,
    cwd: Option<&Path>,
    after: Option<&Position>,
) -> Result<Vec<(Position, SessionInfo)>, Error> {
    let sessions = &service.sessions;
    let real = cwd.map(|cwd| cwd.canonicalize().unwrap_or_else(|_| cwd.to_owned()));
    let info = |id: String, directory: &Path, title: String, changed, meta| {
        let updated_at = timestamp(changed);
        // The path as the client has written it, because clients compare the paths.
        let cwd = cwd.unwrap_or(directory).to_owned();
        let position = Reverse((changed, id.clone()));
        (position, SessionInfo { session_id: id, cwd, title, updated_at, meta })
    };
    let meta = |listed: &Listed| {
        let open_elsewhere = listed.explain_holder()?;
        Some(SessionInfoMeta { open_elsewhere: format!("This session is {open_elsewhere}") })
    };
    let is_wanted = |directory: &Path| real.as_deref().is_none_or(|real| real == directory);
    let follows =
        |(position, _): &(Position, SessionInfo)| after.is_none_or(|after| position > after);
    let loaded = sessions.list().into_iter();
    let loaded = loaded
        .filter(|it| it.prompts > 0 && is_wanted(&it.directory))
        .map(|it| info(it.id, &it.directory, it.title, it.last_activity.unwrap_or_default(), None));
    let mut list: Vec<_> = loaded.filter(follows).collect();
    // A program that connects over a port may know loaded sessions only.
    if service.origin == Origin::Editor {
        let stored = sessions
            .stored_sessions(real.clone())
            .try_filter(|it| ready(it.turns > 0))
            .map_ok(|it| {
                let meta = meta(&it);
                info(it.head.id, &it.head.directory, it.title, it.changed, meta)
            })
            .try_filter(|it| ready(follows(it)))
            .take(PAGE_SESSIONS + 1);
        list.extend(stored.try_collect::<Vec<_>>().await.map_err(Error::internal)?);
    }
    Ok(list)
}

/// Returns the first page of the sessions, with a cursor if more sessions follow.
fn page(mut list: Vec<(Position, SessionInfo)>) -> ListSessionsResponse {
    list.sort_by(|(one, _), (other, _)| one.cmp(other));
    let is_more = list.len() > PAGE_SESSIONS;
    list.truncate(PAGE_SESSIONS);
    let end = list.last().filter(|_| is_more);
    let next_cursor = end.map(|(Reverse((changed, id)), _)| format!("{changed}:{id}"));
    ListSessionsResponse { sessions: list.into_iter().map(|(_, info)| info).collect(), next_cursor }
}

/// Reads a cursor, which an earlier page ended with.
fn position(cursor: &str) -> Result<Position, Error> {
    let position = cursor
        .split_once(':')
        .and_then(|(changed, id)| Some(Reverse((changed.parse().ok()?, id.to_owned()))));
    position.ok_or_else(|| Error::invalid_params("`cursor`: no list has returned this cursor"))
}
