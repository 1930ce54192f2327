//! Takeover of sessions whose process ended in the middle of a turn: this server resumes them even if no
//! client asks for them.

use std::collections::HashMap;
use std::future::ready;
use std::sync::Arc;
use std::time::Duration;

use futures::{StreamExt as _, stream};
use tokio::time::Instant;

use super::context::SessionContext;
use super::server::A2aServer;
use tandem_agent::session::{Orphan, StoreError};
use tandem_agent::sessions::LoadError;
use tandem_serve::principals::Principal;

/// Time after which the takeover of a session that failed is tried again.
const TAKEOVER_RETRY_INTERVAL: Duration = Duration::from_secs(10);

/// Maximum number of sessions that are taken over at the same time.
pub(super) const AT_ONCE: usize = 4;

/// Pause after an error of the store.
const STORE_RETRY_DELAY: Duration = Duration::from_secs(1);

/// Takes over the sessions that other processes left, at first and then whenever a process ends, until the
/// server begins to end.
pub(super) async fn run(server: Arc<A2aServer>) {
    let mut refused: HashMap<Orphan, Instant> = HashMap::new();
    let mut is_first = true;
    loop {
        refused.retain(|_, at| at.elapsed() < TAKEOVER_RETRY_INTERVAL);
        let taken = take_over_some(&server, &mut refused).await;
        if std::mem::take(&mut is_first) {
            server.notify_interrupted().await;
        }
        let waiting = async {
            match taken {
                // The store returns some orphans at a time, so there may be more.
                Ok(1..) => {}
                Ok(0) => server.contexts.orphaned().await,
                Err(error) => {
                    tracing::debug!("sessions that nobody has are not known: {error}");
                    tokio::time::sleep(STORE_RETRY_DELAY).await;
                }
            }
        };
        if server.ending.drain.run_until_cancelled(waiting).await.is_none() {
            return;
        }
    }
}

/// Takes over some sessions, few at a time so that other nodes get their share. Returns the number of orphans
/// that were tried.
async fn take_over_some(
    server: &A2aServer,
    refused: &mut HashMap<Orphan, Instant>,
) -> Result<usize, StoreError> {
    let mut orphans = server.contexts.of(&Principal::Operator).orphans().await?;
    orphans.retain(|orphan| !refused.contains_key(orphan));
    let count = orphans.len();
    let taking = stream::iter(orphans).map(|orphan| async move {
        let is_taken = take_over(server, &orphan).await;
        (!is_taken).then(|| (orphan, Instant::now()))
    });
    refused.extend(taking.buffer_unordered(AT_ONCE).filter_map(ready).collect::<Vec<_>>().await);
    Ok(count)
}

/// Takes over a session, unless the server is ending or another node was faster. Returns `false` if the
/// session cannot be taken over.
async fn take_over(server: &A2aServer, orphan: &Orphan) -> bool {
    if server.ending.draining() {
        return true;
    }
    match server.contexts.take_over(orphan).await {
        Ok(loaded) => server.restore_push(&SessionContext::of(&loaded)),
        Err(LoadError::Store(StoreError::Held(..) | StoreError::NotFound(_))) => {}
        Err(error) => {
            let Orphan { id, .. } = orphan;
            tracing::warn!(id, "a session whose node has ended is not taken over: {error}");
            return false;
        }
    }
    true
}
