//! `ListTasks`: all tasks, newest first, one page at a time (1.0, section 3.1.4).
//!
//! Stored sessions that are not loaded are read from the last changed one on, only as far as a session may
//! still have a task for the page, since there may be very many.

use std::collections::{BTreeSet, HashSet};
use std::future::ready;
use std::sync::Arc;

use bytes::Bytes;
use futures::stream::FuturesOrdered;
use futures::{StreamExt as _, TryStreamExt as _, stream};
use serde::Serialize;
use tokio::task::coop::consume_budget;

use super::context::{self, SessionContext};
use super::contexts::locate::Located;
use super::contexts::visible::{ReadSession, VisibleContexts};
use super::dialect::{Dialect, json};
use super::requests::{ListTasks, SessionId};
use super::results::TurnChanges;
use super::session_records::SessionRecords;
use tandem_agent::session::{Listed, Millis, TurnId};
use tandem_agent::sessions::stored_id;
use tandem_wire::a2a::{InVersion, Task};
use tandem_wire::jsonrpc::Error;

/// A task in the list.
struct ListedTask {
    source: TaskSource,
    turn: Option<TurnId>,
    /// Time of the task's last change.
    at: Millis,
}

/// Source of a listed task.
enum TaskSource {
    /// A loaded session.
    Loaded(Arc<SessionContext>),
    /// A stored session; the task was taken from its log when the task came onto the page.
    Read(Box<ReadTask>),
    /// A stored session, by its id in the store; the task was on an earlier page when the log was read, and
    /// was not retained.
    Stored(Arc<str>),
}

/// A task that was read from a log.
struct ReadTask {
    task: Task,
    /// Plan and changed files of the task's turn, which become artifacts of the task. `None` if the request wants no
    /// artifacts, if the turn has not ended, or once the artifacts have been added to the task.
    changes: Option<TurnChanges>,
}

impl ReadTask {
    /// Makes a task for the list from a session's log.
    fn of(
        context: &str,
        records: &SessionRecords,
        turn: Option<TurnId>,
        request: &ListTasks,
    ) -> Self {
        let mut task = context::task(context, records, turn, Some(request.history));
        if !request.artifacts {
            task.artifacts.clear();
        }
        let changes = request.artifacts.then(|| context::changes(records, turn)).flatten();
        Self { task, changes }
    }

    /// Adds the turn's changes to the task. The log is not held any more after that.
    async fn complete(&mut self) {
        if let Some(changes) = self.changes.take() {
            self.task.artifacts.extend(changes.artifacts_off_thread().await);
        }
    }
}

impl TaskSource {
    /// Returns the session's id in the store if its log has to be read again.
    fn unread(&self) -> Option<&Arc<str>> {
        match self {
            Self::Stored(id) => Some(id),
            Self::Loaded(_) | Self::Read(_) => None,
        }
    }
}

/// Number of stored sessions beyond the page that are still counted. If there are more, the total only shows
/// that at least one more task follows.
const MAX_COUNTED_AHEAD: usize = 100;

/// Maximum number of logs that are read at the same time for a page, since each takes memory.
const READ_AT_ONCE: usize = 4;

/// Returns a page of tasks.
pub(super) async fn tasks(
    contexts: VisibleContexts<'_>,
    request: &ListTasks,
    dialect: Dialect,
) -> Result<Bytes, Error> {
    let found = find(contexts, request, dialect).await?;
    let (total, page) = (found.total, found.newest.into_iter().skip(request.from).collect());
    let tasks = page_of(contexts, page, request).await?;
    let after = request.from.saturating_add(request.size);
    let next = if after < total { after.to_string() } else { String::new() };
    let tasks = tasks.iter().map(|task| dialect.task(task)).collect();
    let (page_size, total_size) = (request.size, total);
    Ok(json(&TaskPage { tasks, next_page_token: next, page_size, total_size }))
}

/// A page of tasks (1.0, section 3.1.4).
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct TaskPage<'a> {
    tasks: Vec<InVersion<'a, Task>>,
    /// Token of the next page; empty on the last page.
    next_page_token: String,
    page_size: usize,
    total_size: usize,
}

/// The tasks that match a request.
struct FittingTasks {
    /// Tasks of all pages up to the requested one, newest first.
    newest: Vec<ListedTask>,
    /// Maximum number of tasks on these pages.
    most: usize,
    /// Number of all counted tasks.
    total: usize,
    /// Ids of the sessions whose tasks are counted. A session that is loaded or unloaded during the search may be found
    /// twice, and must be counted once.
    sessions: HashSet<String>,
}

impl FittingTasks {
    /// Adds the tasks of a session. `source` returns the source of a task that comes to the index given.
    fn add(
        &mut self,
        tasks: impl Iterator<Item = (Option<TurnId>, Millis)>,
        source: impl Fn(usize, Option<TurnId>) -> TaskSource,
    ) {
        for (turn, at) in tasks {
            self.total += 1;
            let index = self.newest.partition_point(|task| (task.at, task.turn) >= (at, turn));
            if index < self.most {
                self.newest.insert(index, ListedTask { source: source(index, turn), turn, at });
                self.newest.truncate(self.most);
            }
        }
    }

    /// Adds the changes to the tasks that were read.
    async fn complete(&mut self) {
        for listed in &mut self.newest {
            if let TaskSource::Read(read) = &mut listed.source {
                read.complete().await;
            }
        }
    }

    /// Returns `true` if a task with this time of change may be on one of the pages.
    fn may_have(&self, changed: Millis) -> bool {
        self.newest.len() < self.most || self.newest.last().is_some_and(|task| changed >= task.at)
    }
}

/// Returns the tasks of a page. A log is read again, once, if its tasks on the page were on an earlier page
/// when it was read first. Tasks of a session that was deleted meanwhile are left out.
async fn page_of(
    contexts: VisibleContexts<'_>,
    mut page: Vec<ListedTask>,
    request: &ListTasks,
) -> Result<Vec<Task>, Error> {
    let unread = page.iter().filter_map(|listed| listed.source.unread().cloned());
    let reads = unread.collect::<BTreeSet<_>>().into_iter().map(|id| async move {
        let read = read(contexts, &id).await;
        (id, read)
    });
    let mut reading = stream::iter(reads).buffer_unordered(READ_AT_ONCE);
    while let Some((id, read)) = reading.next().await {
        let Some(session) = read? else { continue };
        for listed in page.iter_mut().filter(|listed| listed.source.unread() == Some(&id)) {
            listed.source = match &session {
                ReadSession::Loaded(context) => TaskSource::Loaded(Arc::clone(context)),
                ReadSession::Stored(name, records) => {
                    let mut read = ReadTask::of(name, records, listed.turn, request);
                    read.complete().await;
                    TaskSource::Read(Box::new(read))
                }
            };
        }
    }
    let mut shown = Vec::new();
    for ListedTask { source, turn, .. } in page {
        let mut read = match source {
            TaskSource::Loaded(context) => {
                context.records(|records| ReadTask::of(&context.id, records, turn, request))
            }
            TaskSource::Read(read) => *read,
            TaskSource::Stored(_) => continue,
        };
        read.complete().await;
        shown.push(read.task);
    }
    Ok(shown)
}

/// Reads the log of a stored session; `None` if it cannot be read.
async fn read(contexts: VisibleContexts<'_>, id: &str) -> Result<Option<ReadSession>, Error> {
    contexts.read(id).await.map_err(|error| contexts.store_error(&error))
}

/// Finds the tasks that match a request.
async fn find(
    contexts: VisibleContexts<'_>,
    request: &ListTasks,
    dialect: Dialect,
) -> Result<FittingTasks, Error> {
    let most = request.from.saturating_add(request.size);
    let newest = Vec::new();
    let mut found = FittingTasks { newest, most, total: 0, sessions: HashSet::new() };
    contexts.all_begun().await;
    add_loaded(&mut found, contexts, request, dialect).await;
    if let Some(context) = &request.context {
        let id = match contexts.locate(SessionId::Context(context)).await? {
            Located::Stored(id) => Some(stored_id(&id)),
            Located::Elsewhere(context) => Some(context.session_id().to_owned()),
            // `add_loaded` has searched the loaded sessions already.
            Located::Here(_) | Located::Unusable(_) | Located::None => None,
        };
        if let Some(id) = id.filter(|id| found.sessions.insert(id.clone())) {
            let read = read(contexts, &id).await?;
            add_read(&mut found, &id, read.as_ref(), request, dialect).await;
        }
    } else {
        add_stored(&mut found, contexts, request, dialect).await?;
    }
    // The search of the store passes over loaded sessions. A session that was loaded meanwhile was not among the loaded
    // sessions of the first search either, so these are searched again.
    add_loaded(&mut found, contexts, request, dialect).await;
    Ok(found)
}

/// Adds the tasks of loaded sessions that are not added yet.
async fn add_loaded(
    found: &mut FittingTasks,
    contexts: VisibleContexts<'_>,
    request: &ListTasks,
    dialect: Dialect,
) {
    for context in contexts.all() {
        let is_meant = request.context.as_ref().is_none_or(|id| *id == context.id);
        if !is_meant || !found.sessions.insert(context.session_id().to_owned()) {
            continue;
        }
        // There may be many sessions, so other tasks of the runtime get their turn in between.
        consume_budget().await;
        let tasks = context.records(|records| fitting(records, request, dialect));
        found.add(tasks, |_, _| TaskSource::Loaded(Arc::clone(&context)));
    }
}

/// Adds the tasks of stored sessions, as far as they may be on one of the pages or have to be counted.
async fn add_stored(
    found: &mut FittingTasks,
    contexts: VisibleContexts<'_>,
    request: &ListTasks,
    dialect: Dialect,
) -> Result<(), Error> {
    let tasks_of = |listed: &Listed| match dialect {
        Dialect::V1 => usize::try_from(listed.turns).unwrap_or(usize::MAX),
        _ => 1,
    };
    // States and times of tasks are in the log only.
    let is_filtered = request.state.is_some() || request.after.is_some();
    // Sessions come in the order of their changes, so all later sessions are older still.
    let is_over = |listed: &Listed| {
        request.after.is_some_and(|after| listed.changed < after.as_millisecond())
    };
    let stored = contexts.stored().try_take_while(|listed| ready(Ok(!is_over(listed))));
    let mut stored = stored.fuse();
    let mut reading = FuturesOrdered::new();
    let mut beyond = 0;
    loop {
        while reading.len() < READ_AT_ONCE
            && let Some(next) = stored.try_next().await?
        {
            let is_read = is_filtered || found.may_have(next.changed);
            reading.push_back(async move {
                let read = if is_read { Some(read(contexts, &next.head.id).await) } else { None };
                (next, read)
            });
        }
        let Some((next, read)) = reading.next().await else { return Ok(()) };
        if !found.sessions.insert(next.head.id.clone()) {
            continue;
        }
        if !found.may_have(next.changed) {
            beyond += 1;
            if beyond > MAX_COUNTED_AHEAD {
                found.total += 1;
                return Ok(());
            }
        }
        match read {
            Some(read) => {
                add_read(found, &next.head.id, read?.as_ref(), request, dialect).await;
            }
            None => found.total = found.total.saturating_add(tasks_of(&next)),
        }
    }
}

/// Adds the matching tasks of a stored session; none if its log cannot be read. Of the log, only the contents
/// of tasks that are on the page now are retained.
async fn add_read(
    found: &mut FittingTasks,
    id: &str,
    read: Option<&ReadSession>,
    request: &ListTasks,
    dialect: Dialect,
) {
    match read {
        Some(ReadSession::Stored(name, records)) => {
            let id: Arc<str> = id.into();
            found.add(fitting(records, request, dialect), |index, turn| {
                if index < request.from {
                    return TaskSource::Stored(Arc::clone(&id));
                }
                TaskSource::Read(Box::new(ReadTask::of(name, records, turn, request)))
            });
        }
        Some(ReadSession::Loaded(context)) => {
            let tasks = context.records(|records| fitting(records, request, dialect));
            found.add(tasks, |_, _| TaskSource::Loaded(Arc::clone(context)));
        }
        None => return,
    }
    if request.artifacts {
        found.complete().await;
    }
}

/// Returns the matching tasks of a session, newest first, with the times of their last changes. In 0.3 all
/// turns of a session are one task.
fn fitting(
    records: &SessionRecords,
    request: &ListTasks,
    dialect: Dialect,
) -> impl Iterator<Item = (Option<TurnId>, Millis)> + use<> {
    let mut turns = records.turns().rev().map(|turn| (turn.id, turn.changed_at));
    let mut tasks: Vec<_> = match dialect {
        Dialect::V1 => turns.map(|(turn, at)| (Some(turn), at)).collect(),
        _ => vec![(None, turns.next().map_or(0, |(_, at)| at))],
    };
    tasks.retain(|(turn, at)| {
        request.state.as_ref().is_none_or(|state| *state == records.state(*turn))
            && request.after.is_none_or(|after| *at >= after.as_millisecond())
    });
    tasks.into_iter()
}
