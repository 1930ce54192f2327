//! `ListTasks`: the tasks there are, newest first, a page at a time (1.0, section 3.1.4).
//!
//! Of the sessions that are stored and not loaded, only the logs are read that have a task of the
//! page, or have to be read to know: the others have changed before.

use std::cmp::Reverse;
use std::sync::Arc;

use serde_json::{Value, json};
use tokio::task::coop::consume_budget;

use super::context::{self, SessionContext};
use super::contexts::Contexts;
use super::dialect::Dialect;
use super::requests::ListTasks;
use super::story::Story;
use tandem_agent::session::{Listed, Millis, TurnId};
use tandem_agent::sessions::stored_id;
use tandem_wire::a2a::Task;
use tandem_wire::jsonrpc::Error;

/// A task in the list.
struct ListedTask {
    session: ListedSession,
    turn: Option<TurnId>,
    /// Time of its last change.
    at: Millis,
}

/// Session of a task.
#[derive(Clone)]
enum ListedSession {
    Loaded(Arc<SessionContext>),
    /// A stored one, by the store's id.
    Stored(Arc<str>),
}

/// Returns a page of tasks.
pub(super) async fn tasks(
    contexts: &Contexts,
    request: &ListTasks,
    dialect: Dialect,
) -> Result<Value, Error> {
    let (found, unread) = find(contexts, request, dialect).await?;
    let page = found.iter().skip(request.from).take(request.size);
    let tasks = page_of(contexts, page, request.history).await;
    let total = found.len() + unread;
    let after = request.from.saturating_add(request.size);
    let next = if after < total { after.to_string() } else { String::new() };
    let tasks = tasks.into_iter().map(|mut task| {
        if !request.artifacts {
            task.artifacts.clear();
        }
        json!(dialect.task(&task))
    });
    Ok(json!({
        "tasks": tasks.collect::<Vec<_>>(),
        "nextPageToken": next,
        "pageSize": request.size,
        "totalSize": total,
    }))
}

/// Returns the tasks of a page. A stored session that was deleted meanwhile has none.
async fn page_of(
    contexts: &Contexts,
    page: impl Iterator<Item = &ListedTask>,
    history: usize,
) -> Vec<Task> {
    let mut tasks = Vec::new();
    // Tasks of one session often follow each other.
    let mut last: Option<(Arc<str>, (String, Story))> = None;
    for listed in page {
        match &listed.session {
            ListedSession::Loaded(context) => {
                tasks.push(context.task(listed.turn, Some(history)));
            }
            ListedSession::Stored(id) => {
                if last.as_ref().is_none_or(|(read, _)| read != id) {
                    last = contexts.read(id).await.map(|read| (Arc::clone(id), read));
                }
                if let Some((_, (name, story))) = &last {
                    tasks.push(context::task(name, story, listed.turn, Some(history)));
                }
            }
        }
    }
    tasks
}

/// Finds the tasks that fit, newest first: all up to the end of the page, and the number of those
/// that were not read.
async fn find(
    contexts: &Contexts,
    request: &ListTasks,
    dialect: Dialect,
) -> Result<(Vec<ListedTask>, usize), Error> {
    let mut found: Vec<ListedTask> = Vec::new();
    for context in contexts.all() {
        if request.context.as_ref().is_some_and(|id| *id != context.id) {
            continue;
        }
        // Of many, others have their turn in between.
        consume_budget().await;
        let tasks = context.story(|story| fitting(story, request, dialect));
        let session = ListedSession::Loaded(context);
        found.extend(tasks.map(|(turn, at)| ListedTask { session: session.clone(), turn, at }));
    }
    let mut unread = contexts.stored().await?;
    let stored_as = request.context.as_deref().map(stored_id);
    unread.retain(|listed| {
        stored_as.as_ref().is_none_or(|id| *id == listed.head.id)
            && request.after.is_none_or(|after| listed.changed >= after.as_millisecond())
    });
    // The newest last.
    unread.reverse();
    // Only the log tells the states and the times.
    let all = request.state.is_some() || request.after.is_some();
    let wanted = request.from.saturating_add(request.size);
    loop {
        found.sort_by_key(|task| Reverse((task.at, task.turn)));
        let oldest = wanted.checked_sub(1).and_then(|last| found.get(last)).map(|task| task.at);
        let is_needed = |next: &mut Listed| all || oldest.is_none_or(|at| next.changed >= at);
        let Some(next) = unread.pop_if(is_needed) else { break };
        let Some((_, story)) = contexts.read(&next.head.id).await else { continue };
        let session = ListedSession::Stored(next.head.id.into());
        let tasks = fitting(&story, request, dialect);
        found.extend(tasks.map(|(turn, at)| ListedTask { session: session.clone(), turn, at }));
    }
    let tasks = |listed: &Listed| match dialect {
        Dialect::V1 => usize::try_from(listed.turns).unwrap_or(usize::MAX),
        _ => 1,
    };
    Ok((found, unread.iter().map(tasks).sum()))
}

/// Returns the tasks of a session that fit, with the times of their last changes. In 0.3 all turns
/// are one task.
fn fitting(
    story: &Story,
    request: &ListTasks,
    dialect: Dialect,
) -> impl Iterator<Item = (Option<TurnId>, Millis)> + use<> {
    let turns: Vec<_> = story.turns().map(|turn| (turn.id, turn.changed_at)).collect();
    let mut tasks: Vec<_> = match dialect {
        Dialect::V1 => turns.into_iter().map(|(turn, at)| (Some(turn), at)).collect(),
        _ => vec![(None, turns.last().map_or(0, |(_, at)| *at))],
    };
    tasks.retain(|(turn, at)| {
        request.state.as_ref().is_none_or(|state| *state == story.state(*turn).name())
            && request.after.is_none_or(|after| *at >= after.as_millisecond())
    });
    tasks.into_iter()
}
