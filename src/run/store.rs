//! The store of a server's sessions: files on this machine, or a database that several nodes share.

use std::sync::Arc;
#[cfg(feature = "postgres")]
use std::time::Duration;

use anyhow::anyhow;

use super::session_factory::SessionFactory;
use crate::cli::ServeArgs;
use tandem_agent::session::Store;
#[cfg(feature = "postgres")]
use tandem_settings::Env;
use tandem_settings::limits::Limits;
#[cfg(feature = "postgres")]
use tandem_store::{DatabaseAddress, PostgresLimits, PostgresStore};

/// Name of the environment variable with the address of a database.
#[cfg(feature = "postgres")]
const STORE_VARIABLE: &str = "TANDEM_STORE";

/// Name of the environment variable with the password. The programs of Postgres use the same name.
#[cfg(feature = "postgres")]
const PASSWORD_VARIABLE: &str = "PGPASSWORD";

/// Time between the end of the commands of a node that is frozen or cut off, and the moment when other nodes count
/// this node as dead.
#[cfg(feature = "postgres")]
const FROZEN_NODE_MARGIN: Duration = Duration::from_secs(1);

/// Returns the store that the user has chosen; `None` if sessions are not stored. Connects if it is a database.
#[cfg(feature = "postgres")]
pub(super) async fn store(
    serve: &ServeArgs,
    factory: &SessionFactory,
    limits: &Limits,
) -> anyhow::Result<Option<Arc<dyn Store>>> {
    let Some(address) = address(serve, factory)? else { return Ok(factory.store()) };
    let limits =
        PostgresLimits { patience: limits.store.patience, node_dead: limits.store.node_dead };
    let store = PostgresStore::connect(&address, limits).await;
    let store = store.map_err(|error| anyhow!(error.to_string()))?;
    // If the heartbeat to the database stops, this node's commands end before other nodes count this node as dead
    // and may take over its sessions.
    factory
        .supervisor
        .need_beats(limits.node_dead.saturating_sub(FROZEN_NODE_MARGIN).max(FROZEN_NODE_MARGIN));
    let supervisor = Arc::clone(&factory.supervisor);
    store.on_beat(move || supervisor.beat());
    tracing::info!(
        "sessions are kept in the database {address}, of which this is node {}",
        store.node()
    );
    Ok(Some(Arc::new(store)))
}

/// Returns the address of the database, if the user has named one. Hides it from the model's commands.
#[cfg(feature = "postgres")]
pub(super) fn address(
    serve: &ServeArgs,
    factory: &SessionFactory,
) -> anyhow::Result<Option<DatabaseAddress>> {
    use tandem_model::Secret;

    let Some(text) = database_address(serve.store.as_deref(), factory.env()) else {
        return Ok(None);
    };
    let address = parse(text, factory.env())?;
    // With the address, the model's commands could read and change all sessions.
    factory.credentials.redact_key(&Secret::new(text));
    if let Some(password) = address.password() {
        factory.credentials.redact_key(&Secret::new(&password));
    }
    Ok(Some(address))
}

/// Opens a database of sessions as an observer: makes no tables and takes over no sessions. Returns `None` if the user
/// has named no database.
#[cfg(feature = "postgres")]
pub(super) async fn existing(
    flag: Option<&str>,
    env: &Env,
) -> anyhow::Result<Option<Arc<dyn Store>>> {
    let Some(text) = database_address(flag, env) else { return Ok(None) };
    let store = PostgresStore::open(&parse(text, env)?, PostgresLimits::default()).await;
    Ok(Some(Arc::new(store.map_err(|error| anyhow!(error.to_string()))?)))
}

/// Returns the address of the database as the user has written it in the flag or the variable.
#[cfg(feature = "postgres")]
fn database_address<'a>(flag: Option<&'a str>, env: &'a Env) -> Option<&'a str> {
    flag.or_else(|| env.var(STORE_VARIABLE)).filter(|address| !address.is_empty())
}

/// Parses the address of a database. If it has no password, takes the password from the environment.
#[cfg(feature = "postgres")]
fn parse(text: &str, env: &Env) -> anyhow::Result<DatabaseAddress> {
    let mut address: DatabaseAddress = text.parse()?;
    if let Some(password) = env.var(PASSWORD_VARIABLE).filter(|password| !password.is_empty()) {
        address.set_password(password);
    }
    Ok(address)
}

/// Returns the store of this machine; `None` if sessions are not stored. Fails if the user has named a database.
#[cfg(not(feature = "postgres"))]
#[expect(clippy::unused_async, reason = "with the feature `postgres` it connects to a database")]
pub(super) async fn store(
    _: &ServeArgs,
    factory: &SessionFactory,
    _: &Limits,
) -> anyhow::Result<Option<Arc<dyn Store>>> {
    match factory.env().var("TANDEM_STORE") {
        Some(address) if !address.is_empty() => Err(anyhow!(
            "TANDEM_STORE is set, and this program was built without the feature `postgres`"
        )),
        _ => Ok(factory.store()),
    }
}
