//! `ListTasks`: the tasks there are, newest first, a page at a time (1.0, section 3.1.4).

use std::sync::Arc;

use serde_json::{Value, json};
use tokio::task::coop::consume_budget;

use super::context::SessionContext;
use super::contexts::Contexts;
use super::dialect::Dialect;
use super::requests::ListTasks;
use tandem_agent::session::{Millis, TurnId};
use tandem_wire::a2a::Task;

/// Returns a page of tasks.
pub(super) async fn tasks(contexts: &Contexts, request: &ListTasks, dialect: Dialect) -> Value {
    let found = found(contexts, request, dialect).await;
    let page = found.iter().skip(request.from).take(request.size).map(|(context, turn, _)| {
        let mut task = context.task(*turn, Some(request.history));
        if !request.artifacts {
            task.artifacts.clear();
        }
        task
    });
    let tasks: Vec<Task> = page.collect();
    let after = request.from.saturating_add(tasks.len());
    let next = if after < found.len() { after.to_string() } else { String::new() };
    json!({
        "tasks": tasks.iter().map(|task| dialect.task(task)).collect::<Vec<_>>(),
        "nextPageToken": next,
        "pageSize": request.size,
        "totalSize": found.len(),
    })
}

/// A task, by its context and turn, and the time of its last change.
type ListedTask = (Arc<SessionContext>, Option<TurnId>, Millis);

/// Returns all tasks that fit, newest first.
async fn found(contexts: &Contexts, request: &ListTasks, dialect: Dialect) -> Vec<ListedTask> {
    let mut found: Vec<ListedTask> = Vec::new();
    for context in contexts.all() {
        if request.context.as_ref().is_some_and(|id| *id != context.id) {
            continue;
        }
        // Of many, others have their turn in between.
        consume_budget().await;
        let turns: Vec<_> =
            context.story(|story| story.turns().map(|turn| (turn.id, turn.changed_at)).collect());
        // In 0.3 all turns are one task.
        let turns = match dialect {
            Dialect::V1 => turns.into_iter().map(|(turn, at)| (Some(turn), at)).collect(),
            _ => vec![(None, turns.last().map_or(0, |(_, at)| *at))],
        };
        found.extend(turns.into_iter().map(|(turn, at)| (Arc::clone(&context), turn, at)));
    }
    found.retain(|(context, turn, at)| {
        request.state.as_ref().is_none_or(|state| *state == context.state(*turn).name())
            && request.after.is_none_or(|after| *at >= after.as_millisecond())
    });
    found.sort_by(|(_, a_turn, a), (_, b_turn, b)| (b, b_turn).cmp(&(a, a_turn)));
    found
}
