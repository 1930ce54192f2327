//! Connections to a database, and the error texts for operators when a connection or a statement fails.

use std::future::poll_fn;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use tandem_agent::session::StoreError;
use tandem_net::Backoff;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::Mutex;
use tokio::time::{Instant, sleep, timeout, timeout_at};
use tokio_postgres::error::SqlState;
use tokio_postgres::types::{FromSql, ToSql};
use tokio_postgres::{AsyncMessage, Client, Config, Connection, Error, NoTls, Row};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::address::{DatabaseAddress, cause};

/// Time between attempts to reach a database.
pub(super) const CONNECT_BACKOFF: Backoff = Backoff {
    first: Duration::from_millis(50),
    factor: 2,
    longest: Duration::from_secs(1),
    jitter: 0.7..1.3,
};

/// Error message of `tokio-postgres` for a server without TLS.
const NO_TLS: &str = "server does not support TLS";

/// Error message of `tokio-postgres` if the server wants a password and the address has none.
const NO_PASSWORD: &str = "password missing";

/// A database, with one connection for the queries of all callers in this process.
pub(super) struct Database {
    address: DatabaseAddress,
    tls: Option<MakeRustlsConnect>,
    /// Time after which a call to a database that does not answer fails.
    pub(super) patience: Duration,
    /// Connection for queries. The lock is held only while a connection is opened or forgotten.
    client: Mutex<Option<Arc<Client>>>,
}

/// Parameters of a statement.
pub(super) type Params<'a> = &'a [&'a (dyn ToSql + Sync)];

impl Database {
    pub(super) fn new(address: &DatabaseAddress, patience: Duration) -> Result<Self, StoreError> {
        let mut tls = None;
        if address.has_tls() {
            let config = tandem_net::tls().map_err(io::Error::other)?;
            tls = Some(MakeRustlsConnect::new(config));
        }
        Ok(Self { address: address.clone(), tls, patience, client: Mutex::default() })
    }

    /// Returns the settings of connections.
    pub(super) fn config(&self) -> &Config {
        self.address.config()
    }

    /// Returns the TLS connector; `None` if connections are not encrypted.
    pub(super) fn tls(&self) -> Option<&MakeRustlsConnect> {
        self.tls.as_ref()
    }

    /// Opens a connection, without retries.
    pub(super) async fn connect(&self) -> Result<Client, Failure> {
        self.connect_hearing(|_| ()).await
    }

    /// Opens a connection that listens for the notifications of other nodes, and calls `heard` with each.
    pub(super) async fn listen(
        &self,
        heard: impl Fn(&str) + Send + 'static,
    ) -> Result<Client, Failure> {
        let client = self.connect_hearing(heard).await?;
        let listening = timeout(self.patience, client.batch_execute("listen tandem")).await;
        listening.map_err(|_| Failure::Silent)?.map_err(Failure::Refused)?;
        Ok(client)
    }

    /// Opens a connection, without retries, and calls `heard` with each notification on it.
    async fn connect_hearing(
        &self,
        heard: impl Fn(&str) + Send + 'static,
    ) -> Result<Client, Failure> {
        let connecting = async {
            let Some(tls) = &self.tls else {
                let (client, connection) = self.address.config().connect(NoTls).await?;
                tokio::spawn(carry(connection, heard));
                return Ok(client);
            };
            let (client, connection) = self.address.config().connect(tls.clone()).await?;
            tokio::spawn(carry(connection, heard));
            Ok(client)
        };
        match timeout(self.patience, connecting).await {
            Ok(connected) => connected.map_err(Failure::Refused),
            Err(_) => Err(Failure::Silent),
        }
    }

    /// Runs a statement and returns its rows. If the connection breaks, the statement runs again on a new connection,
    /// until `patience` is over. So the statement must be safe to run twice.
    pub(super) async fn query(
        &self,
        sql: &str,
        params: Params<'_>,
    ) -> Result<Vec<Row>, StoreError> {
        self.run(sql, Some(params), Some(self.patience)).await
    }

    /// Runs a statement as [`Self::query`] does, but without a time limit: retries until the database has answered.
    pub(super) async fn query_until_answered(
        &self,
        sql: &str,
        params: Params<'_>,
    ) -> Result<Vec<Row>, StoreError> {
        self.run(sql, Some(params), None).await
    }

    /// Runs statements without parameters. They must be safe to run twice.
    pub(super) async fn batch(&self, sql: &str) -> Result<(), StoreError> {
        self.run(sql, None, Some(self.patience)).await.map(drop)
    }

    /// Runs one statement with parameters, or several without. Gives up after `patience`; without it, retries until
    /// the database answers or refuses for good.
    async fn run(
        &self,
        sql: &str,
        params: Option<Params<'_>>,
        patience: Option<Duration>,
    ) -> Result<Vec<Row>, StoreError> {
        let end = patience.map(|patience| Instant::now() + patience);
        let mut failures = 0;
        loop {
            let attempt_end = end.unwrap_or_else(|| Instant::now() + self.patience);
            let failure = match self.attempt(sql, params, attempt_end).await {
                Ok(rows) => return Ok(rows),
                Err(failure) => failure,
            };
            failures += 1;
            let wait = CONNECT_BACKOFF.delay(failures);
            let is_over = end.is_some_and(|end| Instant::now() + wait >= end);
            if failure.is_final() || is_over {
                return Err(self.explain(&failure));
            }
            sleep(wait).await;
        }
    }

    /// Runs a statement once; fails if it has not answered by `end`.
    async fn attempt(
        &self,
        sql: &str,
        params: Option<Params<'_>>,
        end: Instant,
    ) -> Result<Vec<Row>, Failure> {
        // Several callers may wait for the lock of the connection; the limit of each covers this wait too.
        let client = timeout_at(end, self.client()).await.map_err(|_| Failure::Silent)??;
        let ran = async {
            match params {
                Some(params) => client.query(sql, params).await,
                None => client.batch_execute(sql).await.map(|()| Vec::new()),
            }
        };
        if let Ok(ran) = timeout_at(end, ran).await {
            return ran.map_err(Failure::Refused);
        }
        // The statement may still be running on this connection, and later ones would queue behind it. They get a new
        // connection.
        self.forget(&client).await;
        Err(Failure::Silent)
    }

    /// Returns the connection for queries; opens a new connection if the last is broken.
    async fn client(&self) -> Result<Arc<Client>, Failure> {
        let mut client = self.client.lock().await;
        if let Some(client) = client.as_ref().filter(|client| !client.is_closed()) {
            return Ok(Arc::clone(client));
        }
        let connected = Arc::new(self.connect().await?);
        *client = Some(Arc::clone(&connected));
        Ok(connected)
    }

    /// Forgets a broken connection, unless a newer one has replaced it.
    async fn forget(&self, broken: &Arc<Client>) {
        let mut client = self.client.lock().await;
        client.take_if(|client| Arc::ptr_eq(client, broken));
    }

    /// Returns an error about this database.
    pub(super) fn error(&self, why: &str) -> StoreError {
        StoreError::Unavailable(format!("the database {}: {why}", self.address))
    }

    /// Returns the error for a failed attempt, with a text that tells the operator what to do.
    pub(super) fn explain(&self, failure: &Failure) -> StoreError {
        let error = match failure {
            Failure::Silent => {
                let seconds = self.patience.as_secs();
                return self.error(&format!(
                    "it has not answered for {seconds} s; is it running, and can it be reached from here?"
                ));
            }
            Failure::Refused(error) => error,
        };
        let user = self.address.user();
        let Some(refused) = error.as_db_error() else {
            return self.error(&match tandem_net::tls_error(error) {
                Some(tls) => format!(
                    "its certificate is not trusted ({tls}); put the certificate of its authority into a \
                     file that SSL_CERT_FILE names, or add `sslmode=disable` on a network that you trust"
                ),
                None if cause(error) == NO_TLS => {
                    "it has no TLS; add `sslmode=disable` on a network that you trust".to_owned()
                }
                None if cause(error) == NO_PASSWORD => {
                    format!("it wants a password of the user `{user}`; set PGPASSWORD")
                }
                None => format!(
                    "it cannot be reached ({}); is it running, and is its address right?",
                    cause(error)
                ),
            });
        };
        let said = refused.message();
        self.error(&match *refused.code() {
            SqlState::INVALID_PASSWORD | SqlState::INVALID_AUTHORIZATION_SPECIFICATION => format!(
                "it does not let the user `{user}` in ({said}); check the password in the address or in PGPASSWORD"
            ),
            SqlState::INVALID_CATALOG_NAME => format!(
                "there is no such database; make it with `createdb {}`",
                self.address.database()
            ),
            SqlState::INSUFFICIENT_PRIVILEGE => format!(
                "the user `{user}` may not do this ({said}); let it own the database, or the schema `tandem`, or \
                 grant it the rights that `docs/deploy/roles.sql` grants"
            ),
            SqlState::READ_ONLY_SQL_TRANSACTION => format!(
                "it is read-only ({said}); give the address of the primary, or all hosts and \
                 `target_session_attrs=read-write`"
            ),
            _ => said.to_owned(),
        })
    }
}

/// Drives a connection until it ends, and calls `heard` with each notification.
async fn carry<S, T>(mut connection: Connection<S, T>, heard: impl Fn(&str))
where
    S: AsyncRead + AsyncWrite + Unpin,
    T: AsyncRead + AsyncWrite + Unpin,
{
    while let Some(Ok(message)) = poll_fn(|cx| connection.poll_message(cx)).await {
        if let AsyncMessage::Notification(notification) = message {
            heard(notification.payload());
        }
    }
}

/// Failure of an attempt to connect, or of a statement.
pub(super) enum Failure {
    /// The database does not answer.
    Silent,
    /// The connection failed, or the database reported an error.
    Refused(Error),
}

impl Failure {
    /// Returns `true` if another attempt would fail in the same way.
    pub(super) fn is_final(&self) -> bool {
        match self {
            Self::Silent => false,
            Self::Refused(error) => match error.code() {
                Some(code) => !is_passing(code),
                // Refused TLS and a missing password do not pass by themselves.
                None => {
                    tandem_net::tls_error(error).is_some()
                        || matches!(&*cause(error), NO_TLS | NO_PASSWORD)
                }
            },
        }
    }

    /// Returns `true` if it is unknown whether the database has executed the statement.
    pub(super) fn is_unclear(&self) -> bool {
        match self {
            Self::Silent => true,
            Self::Refused(error) => error.code().is_none_or(|code| class(code) == "57"),
        }
    }
}

/// Returns the class of a SQLSTATE, which is its first two characters.
fn class(code: &SqlState) -> &str {
    code.code().get(..2).unwrap_or_default()
}

/// Classes of SQLSTATE whose errors pass by themselves, or when an operator makes room: the statement is retried.
/// Errors of all other classes mean that the statement, the rights or the database are wrong. They are returned to
/// the caller at once, and the caller may retry within its own time limit.
const PASSING_ERRORS: [(&str, &str); 6] = [
    ("08", "the connection broke"),
    ("40", "the statement conflicts with another one (deadlock, serialization)"),
    ("53", "there is no room on the disk, in memory, or for another connection"),
    ("55", "another client holds a lock for longer than `lock_timeout`"),
    ("57", "the database starts or ends, or `statement_timeout` is over"),
    ("58", "the database's disk cannot be read or written"),
];

/// Returns `true` for errors of the database that pass by themselves.
fn is_passing(code: &SqlState) -> bool {
    // A primary that has become a standby is read-only; a new primary takes its place.
    *code == SqlState::READ_ONLY_SQL_TRANSACTION
        || PASSING_ERRORS.iter().any(|(passing, _)| *passing == class(code))
}

/// Returns a column of a row.
pub(super) fn get<'a, T: FromSql<'a>>(row: &'a Row, column: usize) -> Result<T, StoreError> {
    row.try_get(column)
        .map_err(|err| StoreError::Invalid(format!("column {column} of a row: {}", cause(&err))))
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use futures::future::join_all;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn of_several_who_ask_a_silent_database_none_waits_for_the_others() {
        let silent = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = silent.local_addr().unwrap().port();
        let address = format!("postgres://me@127.0.0.1:{port}/x").parse().unwrap();
        let patience = Duration::from_secs(10);
        let database = Database::new(&address, patience).unwrap();
        let begun = Instant::now();
        let asked = join_all((0..5).map(|_| database.query("select 1", &[]))).await;
        assert!(asked.iter().all(Result::is_err));
        assert!(begun.elapsed() < patience + Duration::from_secs(1), "{:?}", begun.elapsed());
    }
}
