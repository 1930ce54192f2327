//! The tables, which the first node creates when it connects.

use tandem_agent::session::StoreError;

use super::connection::{Database, get};

/// Version of the tables. A program that knows only a lower version must not touch them.
const SCHEMA_VERSION: i32 = 1;

/// Number of the advisory lock that is held while the tables are created: the bytes of "tandem" as a number.
const LOCK_NUMBER: i64 = 0x74_61_6e_64_65_6d;

/// Statements that create the tables of version 1.
///
/// `session.changed` is in an index, so an update of this column cannot be made in place. The column changes with
/// turns, not with every batch. Times are only shown and sorted by; no decision depends on them. `session.tenant` is
/// the tenant of the session's owner, for operators who look into the database; `head` and `shares` decide who sees a
/// session.
const CREATE_TABLES: &str = "
create table tandem.schema_version(version int not null);
create table tandem.session(
  id text primary key, tenant text not null default '',
  epoch bigint not null, owner text not null, port int, next bigint not null default 0,
  head text not null, directory text not null, is_checkpoint bool not null,
  title text not null, turns bigint not null default 0, changed bigint not null,
  shares text not null default '{}'
) with (fillfactor = 70);
create index session_owner on tandem.session(owner) where owner <> '';
create index session_changed on tandem.session(changed desc, id desc);
create table tandem.batch(
  session text not null references tandem.session on delete cascade,
  first bigint not null, body text not null, primary key(session, first)
);
create table tandem.secret(
  session text primary key references tandem.session on delete cascade, body text not null
);
create table tandem.node(name text primary key, beat bigint not null);
insert into tandem.schema_version values (1);
";

/// Columns and tables that were added to version 1 later, oldest first. Each entry begins with the name of a table or
/// index that exists once the addition is made.
///
/// `session.busy` is true while a turn runs or waits. `inbox` has the orders of other nodes for a session's owner.
/// `file` has parts of files, each with the size of the whole file. `usage` has the tokens that a session has used in
/// a day, and keeps them when the session is deleted. `node_use` has the sessions and turns that a principal has at a
/// node now. `store` has the id of the database.
const ADDED_COLUMNS: [(&str, &str); 5] = [
    (
        "inbox_asker",
        "
alter table tandem.session add column if not exists busy bool not null default false;
create index if not exists session_busy on tandem.session(owner) where busy;
create table if not exists tandem.inbox(
  id bigserial, session text not null references tandem.session on delete cascade,
  key text not null, asker text not null, body text not null, reply text, primary key(session, key)
);
create index if not exists inbox_asker on tandem.inbox(asker);
",
    ),
    (
        "file",
        "
create table if not exists tandem.file(
  session text not null references tandem.session on delete cascade,
  name text not null, part int not null, bytes bigint not null, content bytea not null,
  primary key(session, name, part)
);
",
    ),
    (
        "usage",
        "
create table if not exists tandem.usage(
  day bigint not null, session text not null, tenant text not null, name text not null,
  tokens bigint not null, primary key(day, session)
);
",
    ),
    (
        "node_use",
        "
create table if not exists tandem.node_use(
  node text not null references tandem.node on delete cascade, tenant text not null, name text not null,
  sessions bigint not null, turns bigint not null, primary key(node, tenant, name)
);
",
    ),
    (
        "store",
        "
create table if not exists tandem.store(id text not null);
insert into tandem.store select gen_random_uuid()::text where not exists (select from tandem.store);
",
    ),
];

/// Creates the tables that do not exist yet.
pub(super) async fn prepare(database: &Database) -> Result<(), StoreError> {
    if let Some(version) = version(database).await? {
        check(version, database)?;
        return add(database).await;
    }
    // All statements run in one transaction, under the lock, so nodes that start together do not create the tables
    // twice. The schema is created only if it is missing: a user without the right to create one can use a schema
    // that an administrator has created.
    let make = format!(
        "select pg_advisory_xact_lock({LOCK_NUMBER}); do $do$ begin \
         if to_regnamespace('tandem') is null then create schema tandem; end if; \
         if to_regclass('tandem.schema_version') is null then {CREATE_TABLES} end if; \
         end $do$"
    );
    database.batch(&make).await?;
    match version(database).await? {
        Some(version) => check(version, database)?,
        None => return Err(database.error("it has no version of its tables")),
    }
    add(database).await
}

/// Makes the additions to version 1 that are missing. Programs that do not know an addition keep working.
async fn add(database: &Database) -> Result<(), StoreError> {
    for (name, sql) in ADDED_COLUMNS {
        // This checks first, because even an `alter table` that changes nothing waits for all users of the table.
        if !is_there(name, database).await? {
            database.batch(&format!("select pg_advisory_xact_lock({LOCK_NUMBER}); {sql}")).await?;
        }
    }
    Ok(())
}

/// Returns `true` if a table or index of this name exists in the schema `tandem`.
async fn is_there(name: &str, database: &Database) -> Result<bool, StoreError> {
    let sql = "select to_regclass('tandem.' || $1::text) is not null";
    let rows = database.query(sql, &[&name]).await?;
    Ok(rows.first().map(|row| get(row, 0)).transpose()?.unwrap_or(false))
}

/// Returns the version of the tables; `None` if there are no tables.
pub(super) async fn version(database: &Database) -> Result<Option<i32>, StoreError> {
    if !is_there("schema_version", database).await? {
        return Ok(None);
    }
    let rows = database.query("select max(version) from tandem.schema_version", &[]).await?;
    rows.first().map_or(Ok(None), |row| get(row, 0))
}

/// Returns an error unless this program knows this version of the tables.
pub(super) fn check(version: i32, database: &Database) -> Result<(), StoreError> {
    match version {
        SCHEMA_VERSION => Ok(()),
        newer => Err(database.error(&format!(
            "a newer tandem made its tables (version {newer}, and this program knows {SCHEMA_VERSION}); \
             update tandem"
        ))),
    }
}
