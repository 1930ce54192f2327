//! The stores for logs of sessions (`docs/session-format.md` has the format). [`FileStore`] has one append-only file of
//! JSON Lines a session, and no index that could disagree with it. `PostgresStore` has the same lines in a database
//! that several machines share.

mod backwards;
mod files;
mod lines;
#[cfg(feature = "postgres")]
mod postgres;

use futures::TryStreamExt as _;
use tandem_agent::session::{Store, StoreError, Stored};

pub use self::files::FileStore;
#[cfg(feature = "postgres")]
pub use self::postgres::{
    AddressError, DatabaseAddress, DatabaseFinding, PostgresLimits, PostgresStore,
};

/// Returns the log of a session as the lines of a log file, the head first. Leaves out batches that cannot be read.
pub async fn log_lines(store: &dyn Store, id: &str) -> Result<Vec<u8>, StoreError> {
    let invalid = |error: serde_json::Error| StoreError::Io(error.into());
    let mut out = lines::write_head(&store.head(id).await?).map_err(invalid)?;
    let mut log = store.read(id).await?;
    while let Some(pieces) = log.try_next().await? {
        for piece in pieces {
            if let Stored::Batch(batch) = piece {
                lines::write_batch(&batch, &mut out).map_err(invalid)?;
            }
        }
    }
    Ok(out)
}
