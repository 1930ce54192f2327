//! The use of principals, counted by all nodes together.
//!
//! A row of `usage` has the tokens that a session has used in a day. The session's owner writes the row; the next
//! owner counts from the log and writes it again. So no token is counted twice, and a deleted session still counts
//! for its day. A row of `node_use` has the sessions and turns that a principal has at one node now. It counts only
//! while that node lives.

use tandem_agent::session::{CurrentUse, PrincipalId, SessionUsage, StoreError};

use super::connection::get;
use super::shared::Shared;

/// Statement that writes the tokens of sessions in a day, and deletes the rows of days before the previous one.
const NOTE_STATEMENT: &str = "
with old as (delete from tandem.usage where day < $1::bigint - 1)
insert into tandem.usage(day, session, tenant, name, tokens)
select $1, u.* from unnest($2::text[], $3::text[], $4::text[], $5::bigint[]) as u(session, tenant, name, tokens)
order by u.session
on conflict(day, session) do update set tokens = excluded.tokens where usage.tokens < excluded.tokens";

/// Statement that returns the tokens of each principal in a day.
const SUM_QUERY: &str = "
select tenant, name, least(sum(tokens), 9223372036854775807)::bigint
from tandem.usage where day = $1 group by tenant, name";

/// Statement that writes the sessions and turns of principals at a node, in place of the earlier rows of that node.
const NOTE_CURRENT: &str = "
with u as (
  select * from unnest($2::text[], $3::text[], $4::bigint[], $5::bigint[]) as u(tenant, name, sessions, turns)
), old as (
  delete from tandem.node_use where node = $1 and (tenant, name) not in (select tenant, name from u)
)
insert into tandem.node_use(node, tenant, name, sessions, turns) select $1, u.* from u
on conflict(node, tenant, name) do update set sessions = excluded.sessions, turns = excluded.turns
where (node_use.sessions, node_use.turns) is distinct from (excluded.sessions, excluded.turns)";

/// Statement that returns the sessions and turns of each principal at all other nodes that are not dead.
const SUM_CURRENT: &str = "
select tenant, name, sum(sessions)::bigint, sum(turns)::bigint from tandem.node_use
where node <> $1 and node <> all($2) group by tenant, name";

/// Writes the tokens that sessions have used in a day; `sessions` names each session at most once. Returns the tokens
/// that each principal has used in that day, in the sessions of all nodes.
pub(super) async fn share(
    shared: &Shared,
    day: i64,
    sessions: &[SessionUsage],
) -> Result<Vec<(PrincipalId, u64)>, StoreError> {
    if !sessions.is_empty() {
        let texts = |of: fn(&SessionUsage) -> &str| sessions.iter().map(of).collect::<Vec<_>>();
        let ids = texts(|usage| &usage.session);
        let (tenants, names) =
            (texts(|usage| &usage.owner.tenant), texts(|usage| &usage.owner.name));
        let tokens = sessions.iter().map(|usage| i64::try_from(usage.tokens).unwrap_or(i64::MAX));
        let tokens: Vec<_> = tokens.collect();
        shared.database.query(NOTE_STATEMENT, &[&day, &ids, &tenants, &names, &tokens]).await?;
    }
    let rows = shared.database.query(SUM_QUERY, &[&day]).await?;
    let sum = |row| {
        let (id, tokens) =
            (PrincipalId { tenant: get(row, 0)?, name: get(row, 1)? }, get::<i64>(row, 2)?);
        Ok((id, u64::try_from(tokens).unwrap_or(0)))
    };
    rows.iter().map(sum).collect()
}

/// Writes the sessions and turns of principals at this node; returns those of each principal at all other live nodes.
pub(super) async fn share_current(
    shared: &Shared,
    here: &[CurrentUse],
) -> Result<Vec<CurrentUse>, StoreError> {
    let own = shared.nodes.own_name();
    let texts = |of: fn(&CurrentUse) -> &str| here.iter().map(of).collect::<Vec<_>>();
    let (tenants, names) = (texts(|used| &used.owner.tenant), texts(|used| &used.owner.name));
    let numbers = |of: fn(&CurrentUse) -> usize| {
        here.iter().map(|used| i64::try_from(of(used)).unwrap_or(i64::MAX)).collect::<Vec<_>>()
    };
    let (sessions, turns) = (numbers(|used| used.sessions), numbers(|used| used.turns));
    shared.database.query(NOTE_CURRENT, &[&own, &tenants, &names, &sessions, &turns]).await?;
    let rows = shared.database.query(SUM_CURRENT, &[&own, &shared.nodes.dead()]).await?;
    let number = |row, column| {
        get::<i64>(row, column).map(|number| usize::try_from(number).unwrap_or(usize::MAX))
    };
    let used = |row| {
        let owner = PrincipalId { tenant: get(row, 0)?, name: get(row, 1)? };
        Ok(CurrentUse { owner, sessions: number(row, 2)?, turns: number(row, 3)? })
    };
    rows.iter().map(used).collect()
}
