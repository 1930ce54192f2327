//! Checks of a database before a server uses it: what would go wrong, and what the operator can do about it.

use std::future::poll_fn;
use std::time::Duration;

use futures::future::join;
use tandem_agent::session::StoreError;
use tokio::time::timeout;
use tokio_postgres::tls::MakeTlsConnect;
use tokio_postgres::{AsyncMessage, Client, NoTls, Row, SimpleQueryMessage, Socket};

use super::address::DatabaseAddress;
use super::connection::{Database, Failure, get};
use super::schema;

/// Maximum time to wait for a notification.
const NOTIFICATION_TIMEOUT: Duration = Duration::from_secs(3);

/// Oldest version of Postgres that the tests run with.
const MIN_TESTED_VERSION: i32 = 15;

/// Number of connections that one node needs.
const NODE_CONNECTIONS: i64 = 4;

/// Result of a check of a database, as a text for its operator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DatabaseFinding {
    /// The check found no fault.
    Good(String),
    /// Servers work with the database, but events may be lost or calls refused later.
    Doubtful(String),
    /// Servers do not work with the database.
    Wrong(String),
}

use DatabaseFinding::{Doubtful, Good, Wrong};

/// Statement that returns the rights in the schema `tandem` which the user lacks. `case` fixes the order of
/// evaluation: each privilege function fails for other kinds of objects.
const MISSING_RIGHTS: &str = "
select r || ' on ' || c.relname from pg_class c, unnest(array['select', 'insert', 'update', 'delete', 'usage']) r
where c.relnamespace = to_regnamespace('tandem') and case
  when c.relkind = 'S' then r = 'usage' and not has_sequence_privilege(c.oid, 'usage')
  when c.relkind not in ('r', 'p') or r = 'usage' then false
  else (c.relname <> 'schema_version' or r = 'select') and not has_table_privilege(c.oid, r)
end order by 1";

/// Statement that returns the settings on which it depends that acknowledged events are durable, and the number of
/// free connections.
const SETTINGS_QUERY: &str = "
select current_setting('fsync') = 'on', current_setting('full_page_writes') = 'on',
  current_setting('synchronous_commit') <> 'off', current_setting('synchronous_standby_names') <> '',
  (select count(*) from pg_stat_replication),
  current_setting('max_connections')::bigint - (select count(*) from pg_stat_activity)";

/// Checks everything that nodes need of a database. Changes nothing there.
pub(super) async fn check(address: &DatabaseAddress, patience: Duration) -> Vec<DatabaseFinding> {
    let database = match Database::new(address, patience) {
        Ok(database) => database,
        Err(error) => return vec![Wrong(error.to_string())],
    };
    // Connects without retries: an operator who checks a set-up wants to see the error now.
    let client = match database.connect().await {
        Ok(client) => client,
        Err(failure) => return vec![Wrong(database.explain(&failure).to_string())],
    };
    drop(client);
    let mut findings = Vec::new();
    for looked in [
        version(&database).await,
        encoding(&database).await,
        tables(&database).await,
        session_lock(&database).await,
        notifications(&database).await,
        safety(&database).await,
    ] {
        findings.extend(looked.unwrap_or_else(|error| vec![Wrong(error.to_string())]));
    }
    findings
}

/// Runs a query that returns exactly one row; returns that row.
async fn first(database: &Database, sql: &str) -> Result<Row, StoreError> {
    let row = database.query(sql, &[]).await?.pop();
    row.ok_or_else(|| database.error("a query that has one row has none"))
}

async fn version(database: &Database) -> Result<Vec<DatabaseFinding>, StoreError> {
    let sql = "select current_setting('server_version_num')::int / 10000, pg_is_in_recovery()";
    let row = first(database, sql).await?;
    let (version, is_standby): (i32, bool) = (get(&row, 0)?, get(&row, 1)?);
    Ok(vec![if is_standby {
        Wrong(
            "it is a standby, and read-only: give the address of the primary, or all hosts and \
             `target_session_attrs=read-write`"
                .to_owned(),
        )
    } else if version < MIN_TESTED_VERSION {
        Doubtful(format!(
            "it is Postgres {version}, and the oldest version that is tested is {MIN_TESTED_VERSION}"
        ))
    } else {
        Good(format!("it answers, and is Postgres {version}"))
    }])
}

/// Checks that the database can store texts of all scripts.
async fn encoding(database: &Database) -> Result<Vec<DatabaseFinding>, StoreError> {
    // A database without an encoding stores bytes unchanged.
    const ANY_SCRIPT: [&str; 2] = ["UTF8", "SQL_ASCII"];
    let encoding: String = get(&first(database, "show server_encoding").await?, 0)?;
    Ok(vec![if ANY_SCRIPT.contains(&&*encoding) {
        Good(format!("its encoding is {encoding}"))
    } else {
        Wrong(format!(
            "its encoding is {encoding}, and a session with other characters cannot be saved: make a database with \
             `createdb --encoding=UTF8 --template=template0 NAME`"
        ))
    }])
}

/// Checks that the tables exist or can be created, and that the user has the rights to use them.
async fn tables(database: &Database) -> Result<Vec<DatabaseFinding>, StoreError> {
    let Some(version) = schema::version(database).await? else {
        let sql = "select case when to_regnamespace('tandem') is null \
                   then has_database_privilege(current_database(), 'create') \
                   else has_schema_privilege('tandem', 'create') end";
        let may_make: bool = get(&first(database, sql).await?, 0)?;
        return Ok(vec![if may_make {
            Good("the tables are made at the first start of `tandem serve`".to_owned())
        } else {
            Wrong(
                "there are no tables, and the user may not make them: start `tandem serve` once as a \
                 user that may, and grant the rights on the tables to this one, as `docs/deploy/roles.sql` does"
                    .to_owned(),
            )
        }]);
    };
    schema::check(version, database)?;
    let rows = database.query(MISSING_RIGHTS, &[]).await?;
    let missing: Vec<String> = rows.iter().map(|row| get(row, 0)).collect::<Result<_, _>>()?;
    Ok(vec![if missing.is_empty() {
        Good(format!("the tables (version {version}) are there, and can be used"))
    } else {
        let missing = missing.join(", ");
        Wrong(format!(
            "the user lacks rights in the schema `tandem`: {missing}; grant them, as `docs/deploy/roles.sql` does"
        ))
    }])
}

/// Checks that a connection stays one server connection. A node's lock belongs to its connection, and shows others
/// that the node is alive.
async fn session_lock(database: &Database) -> Result<Vec<DatabaseFinding>, StoreError> {
    let explain = |failure| database.explain(&failure);
    let holder = database.connect().await.map_err(explain)?;
    let other = database.connect().await.map_err(explain)?;
    let number = fastrand::i64(..);
    let lock = format!("select pg_try_advisory_lock({number})");
    let unlock = format!("select pg_advisory_unlock({number})");
    let looked = async {
        is_true(&holder, &lock).await?;
        // A pooler that shares connections between statements lends the holder's connection to `other`, which then
        // gets the lock too.
        other.batch_execute("begin").await?;
        let is_shared = is_true(&other, &lock).await?;
        let is_kept = is_true(&holder, &unlock).await?;
        other.batch_execute("rollback").await?;
        Ok(is_kept && !is_shared)
    };
    let is_kept = timeout(database.patience, looked).await.map_err(|_| explain(Failure::Silent))?;
    let is_kept = is_kept.map_err(|error| explain(Failure::Refused(error)))?;
    Ok(vec![if is_kept {
        Good("a connection stays one connection".to_owned())
    } else {
        Wrong(
            "a pooler gives one connection to several clients: set `pool_mode = session`, or give the \
             address of the database itself"
                .to_owned(),
        )
    }])
}

/// Runs a statement in the simple protocol, which prepares nothing, so that poolers accept it. Returns `true` if the
/// row's only value is true.
async fn is_true(client: &Client, sql: &str) -> Result<bool, tokio_postgres::Error> {
    let messages = client.simple_query(sql).await?;
    Ok(messages
        .iter()
        .any(|message| matches!(message, SimpleQueryMessage::Row(row) if row.get(0) == Some("t"))))
}

/// Checks that a connection receives the notifications of another connection.
async fn notifications(database: &Database) -> Result<Vec<DatabaseFinding>, StoreError> {
    let heard = match database.tls() {
        Some(tls) => hears(database, tls.clone()).await,
        None => hears(database, NoTls).await,
    };
    Ok(vec![if heard.map_err(|failure| database.explain(&failure))? {
        Good("notifications come (LISTEN, NOTIFY)".to_owned())
    } else {
        let seconds = NOTIFICATION_TIMEOUT.as_secs();
        Wrong(format!(
            "no notification has come within {seconds} s (LISTEN, NOTIFY): set `pool_mode = session` in \
             the pooler, or give the address of the database itself"
        ))
    }])
}

/// Returns `true` if a notification of a second connection arrives within [`NOTIFICATION_TIMEOUT`].
async fn hears<T: MakeTlsConnect<Socket>>(database: &Database, tls: T) -> Result<bool, Failure> {
    let connecting = timeout(database.patience, database.config().connect(tls)).await;
    let (listener, mut connection) =
        connecting.map_err(|_| Failure::Silent)?.map_err(Failure::Refused)?;
    let channel = format!("tandem_check_{:016x}", fastrand::u64(..));
    let heard = async {
        loop {
            match poll_fn(|cx| connection.poll_message(cx)).await {
                Some(Ok(AsyncMessage::Notification(it))) if it.channel() == channel => return true,
                Some(Ok(_)) => {}
                Some(Err(_)) | None => return false,
            }
        }
    };
    let told = async {
        let listens = listener.batch_execute(&format!("listen {channel}")).await;
        listens.map_err(Failure::Refused)?;
        let client = database.connect().await?;
        let told = client.batch_execute(&format!("notify {channel}")).await;
        told.map_err(Failure::Refused)
    };
    let (heard, told) = join(timeout(NOTIFICATION_TIMEOUT, heard), told).await;
    told?;
    Ok(heard.unwrap_or(false))
}

/// Checks that acknowledged events are durable, and that there are connections for another node.
async fn safety(database: &Database) -> Result<Vec<DatabaseFinding>, StoreError> {
    let row = first(database, SETTINGS_QUERY).await?;
    let mut doubts = Vec::new();
    for (column, name) in [(0, "fsync"), (1, "full_page_writes")] {
        if !get::<bool>(&row, column)? {
            doubts.push(Doubtful(format!(
                "`{name}` is off: if the database's machine fails, the database may be damaged; set `{name}` to on"
            )));
        }
    }
    if !get::<bool>(&row, 2)? {
        doubts.push(Doubtful(
            "`synchronous_commit` is off: if the database's machine fails, the last events that clients have \
             seen are lost; set `synchronous_commit` to on"
                .to_owned(),
        ));
    }
    let (is_synchronous, standbys): (bool, i64) = (get(&row, 3)?, get(&row, 4)?);
    if standbys > 0 && !is_synchronous {
        doubts.push(Doubtful(
            "its standbys are asynchronous: a failover may lose the last events; set \
             `synchronous_standby_names`"
                .to_owned(),
        ));
    }
    let free: i64 = get(&row, 5)?;
    if free < NODE_CONNECTIONS {
        doubts.push(Doubtful(format!(
            "{free} connections are free, and a server needs {NODE_CONNECTIONS}: raise `max_connections`"
        )));
    }
    if doubts.is_empty() {
        doubts.push(Good("events that it acknowledges survive a crash".to_owned()));
    }
    Ok(doubts)
}
