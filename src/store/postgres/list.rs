//! Lists of the sessions in a database.

use std::collections::HashSet;

use tandem_agent::session::{ActiveSession, Listed, Query, StoreError};
use tokio_postgres::Row;

use super::connection::{Database, get};
use super::nodes::NodeState;
use super::shared::Shared;
use crate::lines;

/// Lists sessions, the most recently changed first.
pub(super) async fn list(database: &Database, query: &Query) -> Result<Vec<Listed>, StoreError> {
    let sql = "select head, title, turns, changed, shares from tandem.session where ($1::text is null or directory = $1) \
               and ($2::bool is null or is_checkpoint = $2) \
               order by changed desc, id desc offset $3 limit $4";
    let directory = query.directory.as_ref().map(|directory| directory.to_string_lossy());
    let skip = i64::try_from(query.skip).unwrap_or(i64::MAX);
    let most = query.most.map(|most| i64::try_from(most).unwrap_or(i64::MAX));
    let directory = directory.as_deref();
    let rows = database.query(sql, &[&directory, &query.checkpoints, &skip, &most]).await?;
    // A session whose row cannot be read is left out, so that the others are still listed.
    Ok(rows.iter().filter_map(describe).collect())
}

/// Maximum number of sessions in use that a query returns. The most recently changed sessions are returned.
const MOST_ACTIVE: i64 = 10_000;

/// Lists the sessions that other live nodes own, and the sessions in which a turn runs or waits although no live node
/// owns them. The most recently changed session is first. Beyond [`MOST_ACTIVE`], the oldest are left out.
pub(super) async fn active_elsewhere(shared: &Shared) -> Result<Vec<ActiveSession>, StoreError> {
    let sql = "select head, title, turns, changed, shares, busy from tandem.session \
               where owner <> $1 and (owner <> '' or busy) and not is_checkpoint \
               order by changed desc, id desc limit $2";
    let rows = shared.database.query(sql, &[&shared.nodes.own_name(), &MOST_ACTIVE]).await?;
    let active = |row| Some(ActiveSession { listed: describe(row)?, busy: get(row, 5).ok()? });
    let mut all: Vec<_> = rows.iter().filter_map(active).collect();
    let ids: Vec<&str> = all.iter().map(|active| &*active.listed.head.id).collect();
    let owners = shared.owners(&ids).await?.into_iter();
    let owned = owners.filter(|(id, owner)| shared.life(id, owner) != NodeState::Dead);
    let owned: HashSet<_> = owned.map(|(id, _)| id).collect();
    all.retain(|active| active.busy || owned.contains(&active.listed.head.id));
    Ok(all)
}

fn describe(row: &Row) -> Option<Listed> {
    let (_, head) = lines::read_head(get::<&str>(row, 0).ok()?.as_bytes()).ok()?;
    Some(Listed {
        head,
        title: get(row, 1).ok()?,
        turns: u64::try_from(get::<i64>(row, 2).ok()?).ok()?,
        changed: get(row, 3).ok()?,
        // Another version may have written shares of a kind that this version does not know.
        shares: serde_json::from_str(get(row, 4).ok()?).unwrap_or_default(),
        held_by: None,
    })
}
