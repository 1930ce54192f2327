//! `ListTasks`: the tasks there are, newest first, a page at a time (1.0, section 3.1.4).
//!
//! Sessions that are stored and not loaded are looked at from the last changed on, as far as one may
//! have a task of the page, and no further: there may be very many.

use std::sync::Arc;

use futures::TryStreamExt as _;
use serde_json::{Value, json};
use tokio::task::coop::consume_budget;

use super::context::{self, SessionContext};
use super::contexts::visible::VisibleContexts;
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

/// Number of stored sessions beyond a page that are still counted: where there are more, the total
/// says only that more follows.
const COUNTED: usize = 100;

/// Returns a page of tasks.
pub(super) async fn tasks(
    contexts: VisibleContexts<'_>,
    request: &ListTasks,
    dialect: Dialect,
) -> Result<Value, Error> {
    let found = find(contexts, request, dialect).await?;
    let page = found.newest.iter().skip(request.from);
    let tasks = page_of(contexts, page, request.history).await;
    let after = request.from.saturating_add(request.size);
    let next = if after < found.total { after.to_string() } else { String::new() };
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
        "totalSize": found.total,
    }))
}

/// Tasks that fit.
struct FittingTasks {
    /// Those of the pages up to the wanted one, newest first.
    newest: Vec<ListedTask>,
    /// Number of tasks on these pages.
    most: usize,
    /// Number of all that were counted.
    total: usize,
}

impl FittingTasks {
    fn add(
        &mut self,
        session: &ListedSession,
        tasks: impl Iterator<Item = (Option<TurnId>, Millis)>,
    ) {
        for (turn, at) in tasks {
            self.total += 1;
            let index = self.newest.partition_point(|task| (task.at, task.turn) >= (at, turn));
            self.newest.insert(index, ListedTask { session: session.clone(), turn, at });
            self.newest.truncate(self.most);
        }
    }

    /// Returns `true` if a task that changed then may be on one of the pages.
    fn may_have(&self, changed: Millis) -> bool {
        self.newest.len() < self.most || self.newest.last().is_some_and(|task| changed >= task.at)
    }
}

/// Returns the tasks of a page. A stored session that was deleted meanwhile has none.
async fn page_of(
    contexts: VisibleContexts<'_>,
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

/// Finds the tasks that fit.
async fn find(
    contexts: VisibleContexts<'_>,
    request: &ListTasks,
    dialect: Dialect,
) -> Result<FittingTasks, Error> {
    let most = request.from.saturating_add(request.size);
    let mut found = FittingTasks { newest: Vec::new(), most, total: 0 };
    for context in contexts.all() {
        if request.context.as_ref().is_some_and(|id| *id != context.id) {
            continue;
        }
        // Of many, others have their turn in between.
        consume_budget().await;
        let tasks = context.story(|story| fitting(story, request, dialect));
        found.add(&ListedSession::Loaded(context), tasks);
    }
    if let Some(context) = &request.context {
        if let Some(id) = contexts.stored_id(context).await {
            read(contexts, &stored_id(&id), request, dialect, &mut found).await;
        }
        return Ok(found);
    }
    let tasks_of = |listed: &Listed| match dialect {
        Dialect::V1 => usize::try_from(listed.turns).unwrap_or(usize::MAX),
        _ => 1,
    };
    // Only the log tells the states and the times.
    let is_filtered = request.state.is_some() || request.after.is_some();
    let mut beyond = 0;
    let mut stored = contexts.stored();
    while let Some(next) = stored.try_next().await? {
        // All that follow have changed before.
        if request.after.is_some_and(|after| next.changed < after.as_millisecond()) {
            break;
        }
        let may_be_shown = found.may_have(next.changed);
        if !may_be_shown {
            beyond += 1;
            if beyond > COUNTED {
                found.total += 1;
                break;
            }
        }
        if may_be_shown || is_filtered {
            read(contexts, &next.head.id, request, dialect, &mut found).await;
        } else {
            found.total = found.total.saturating_add(tasks_of(&next));
        }
    }
    Ok(found)
}

/// Adds the tasks of a stored session that fit; none if its log cannot be read.
async fn read(
    contexts: VisibleContexts<'_>,
    id: &str,
    request: &ListTasks,
    dialect: Dialect,
    found: &mut FittingTasks,
) {
    let Some((_, story)) = contexts.read(id).await else { return };
    found.add(&ListedSession::Stored(id.into()), fitting(&story, request, dialect));
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
