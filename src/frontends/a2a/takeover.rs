//! Sessions in the middle of a turn whose process has ended: gone on with although nobody asks for them.

use std::collections::HashMap;
use std::time::Duration;

use tokio::time::Instant;

use super::context::SessionContext;
use super::principals::Principal;
use super::server::A2aServer;
use tandem_agent::session::{Orphan, StoreError};
use tandem_agent::sessions::LoadError;

/// Time after which a session that cannot be taken over is tried again.
const AGAIN: Duration = Duration::from_secs(10);

/// Time after which a store that does not answer is asked again.
const PAUSE: Duration = Duration::from_secs(1);

/// Takes over what other processes have left, and then whenever one ends, until the server begins to end.
pub(super) async fn run(server: &A2aServer) {
    let mut refused: HashMap<Orphan, Instant> = HashMap::new();
    let mut is_first = true;
    loop {
        refused.retain(|_, at| at.elapsed() < AGAIN);
        let taken = take_over_some(server, &mut refused).await;
        if std::mem::take(&mut is_first) {
            server.notify_interrupted().await;
        }
        let waiting = async {
            match taken {
                // There may be more.
                Ok(1..) => {}
                Ok(0) => server.contexts.orphaned().await,
                Err(error) => {
                    tracing::debug!("sessions that nobody has are not known: {error}");
                    tokio::time::sleep(PAUSE).await;
                }
            }
        };
        if server.ending.drain.run_until_cancelled(waiting).await.is_none() {
            return;
        }
    }
}

/// Takes over some sessions, one after the other, so that other nodes have their share; returns how many
/// there were.
async fn take_over_some(
    server: &A2aServer,
    refused: &mut HashMap<Orphan, Instant>,
) -> Result<usize, StoreError> {
    let mut orphans = server.contexts.of(&Principal::Operator).orphans().await?;
    orphans.retain(|orphan| !refused.contains_key(orphan));
    for orphan in &orphans {
        if server.ending.draining() {
            break;
        }
        match server.contexts.take_over(orphan).await {
            Ok(loaded) => server.restore_push(&SessionContext::of(&loaded)),
            // Another node has been faster.
            Err(LoadError::Store(StoreError::Held(..) | StoreError::NotFound(_))) => {}
            Err(error) => {
                let Orphan { id, .. } = orphan;
                tracing::warn!(id, "a session whose node has ended is not taken over: {error}");
                refused.insert(orphan.clone(), Instant::now());
            }
        }
    }
    Ok(orphans.len())
}
