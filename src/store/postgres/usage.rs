//! What principals use, counted by all nodes together.
//!
//! A row is what a session has used in a day: its owner says so, and the next owner, which counts from the log,
//! says so again. So nothing is counted twice, and what is deleted stays counted for the day.

use tandem_agent::session::{PrincipalId, SessionUsage, StoreError};

use super::connection::get;
use super::shared::Shared;

/// Notes what sessions have used in a day, and forgets the days before the last one.
const NOTE: &str = "
with old as (delete from tandem.usage where day < $1::bigint - 1)
insert into tandem.usage(day, session, tenant, name, tokens)
select $1, u.* from unnest($2::text[], $3::text[], $4::text[], $5::bigint[]) as u(session, tenant, name, tokens)
order by u.session
on conflict(day, session) do update set tokens = excluded.tokens where usage.tokens < excluded.tokens";

/// Sums up what each principal has used in a day.
const SUM: &str = "
select tenant, name, least(sum(tokens), 9223372036854775807)::bigint
from tandem.usage where day = $1 group by tenant, name";

/// Notes what sessions have used in a day, each at most once; returns what each principal has used in all of
/// them.
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
        shared.database.query(NOTE, &[&day, &ids, &tenants, &names, &tokens]).await?;
    }
    let rows = shared.database.query(SUM, &[&day]).await?;
    let sum = |row| {
        let (id, tokens) =
            (PrincipalId { tenant: get(row, 0)?, name: get(row, 1)? }, get::<i64>(row, 2)?);
        Ok((id, u64::try_from(tokens).unwrap_or(0)))
    };
    rows.iter().map(sum).collect()
}
