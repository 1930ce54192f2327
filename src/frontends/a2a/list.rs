//! `ListTasks`: the tasks there are, newest first, a page at a time (1.0, section 3.1.4).

use std::sync::Arc;

use serde_json::{Value, json};
use tokio::task::coop::consume_budget;

use super::context::Context;
use super::contexts::Contexts;
use super::dialect::Dialect;
use super::fields;
use tandem_agent::session::{Millis, TurnId};
use tandem_wire::a2a::{Error, Task};

/// How many tasks a page has, unless the client says; and at most.
pub(super) const PAGE: usize = 50;
pub(super) const LARGEST_PAGE: usize = 100;

/// What a task's state can be called; ours have only the first six.
const STATES: [&str; 9] = [
    "submitted",
    "working",
    "input-required",
    "completed",
    "canceled",
    "failed",
    "rejected",
    "auth-required",
    "unknown",
];

/// A page of tasks.
pub(super) async fn tasks(
    contexts: &Contexts,
    params: &Value,
    dialect: Dialect,
) -> Result<Value, Error> {
    let size = fields::count(params, &["pageSize", "page_size"])?.unwrap_or(PAGE);
    if !(1..=LARGEST_PAGE).contains(&size) {
        return Err(Error::invalid_params(format!("`pageSize` must be 1 to {LARGEST_PAGE}")));
    }
    let token = fields::text(params, &["pageToken", "page_token"]);
    let from: usize = token.map_or(Ok(0), str::parse).map_err(|_| {
        Error::invalid_params("`pageToken` must be the `nextPageToken` of the page before")
    })?;
    let history = fields::count(params, &["historyLength", "history_length"])?.unwrap_or(0);
    let artifacts = fields::field(params, &["includeArtifacts", "include_artifacts"]);
    let artifacts = artifacts.and_then(Value::as_bool).unwrap_or(false);
    let found = found(contexts, params, dialect).await?;
    let page = found.iter().skip(from).take(size).map(|(context, turn, _)| {
        let mut task = context.task(*turn, Some(history));
        if !artifacts {
            task.artifacts.clear();
        }
        task
    });
    let tasks: Vec<Task> = page.collect();
    let after = from.saturating_add(tasks.len());
    let next = if after < found.len() { after.to_string() } else { String::new() };
    Ok(json!({
        "tasks": tasks.iter().map(|task| dialect.task(task)).collect::<Vec<_>>(),
        "nextPageToken": next,
        "pageSize": size,
        "totalSize": found.len(),
    }))
}

/// Returns the state that a client names, in the words of 0.3.
fn state(name: &str) -> String {
    name.trim_start_matches("TASK_STATE_").to_lowercase().replace('_', "-")
}

type Found = (Arc<Context>, Option<TurnId>, Millis);

/// All tasks that fit, newest first.
async fn found(contexts: &Contexts, params: &Value, dialect: Dialect) -> Result<Vec<Found>, Error> {
    let wanted = fields::text(params, &["contextId", "context_id"]);
    let state = fields::text(params, &["status", "state"]).map(self::state);
    if let Some(state) = state.as_deref().filter(|state| !STATES.contains(state)) {
        return Err(Error::invalid_params(format!("`{state}` is no state of a task")));
    }
    let after = fields::text(params, &["statusTimestampAfter", "lastUpdatedAfter"]);
    let after: Option<jiff::Timestamp> = after.map(str::parse).transpose().map_err(|_| {
        Error::invalid_params("`statusTimestampAfter` must be a time such as 2026-01-31T12:00:00Z")
    })?;
    let mut found: Vec<Found> = Vec::new();
    for context in contexts.all() {
        if wanted.is_some_and(|wanted| wanted != context.id) {
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
        state.as_ref().is_none_or(|state| *state == context.state(*turn).name())
            && after.is_none_or(|after| *at >= after.as_millisecond())
    });
    found.sort_by(|(_, a_turn, a), (_, b_turn, b)| (b, b_turn).cmp(&(a, a_turn)));
    Ok(found)
}
