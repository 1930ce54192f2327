//! The health of a store, as the sessions that are stored there have noted it.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

/// Time for which a refusal counts. If a refusal counted until the next success, a load balancer would send no more
/// requests to this node, and no request would ever try the store again.
const REFUSAL_MEMORY: Duration = Duration::from_secs(10);

/// Memory of the last refusal of a store. Cheap to clone: all clones share the memory.
#[derive(Debug, Clone, Default)]
pub struct StoreHealth {
    /// Time of the last refusal; `None` if the store has taken events since.
    refused: Arc<Mutex<Option<Instant>>>,
}

impl StoreHealth {
    /// Notes that the store has refused an operation, or that an operation takes long.
    pub(crate) fn note_refusal(&self) {
        *self.refused.lock() = Some(Instant::now());
    }

    /// Notes that the store has taken events.
    pub(super) fn note_success(&self) {
        *self.refused.lock() = None;
    }

    /// Returns `true` if the store has refused an operation lately, and has taken no events since.
    pub fn is_refusing(&self) -> bool {
        self.refused.lock().is_some_and(|at| at.elapsed() < REFUSAL_MEMORY)
    }
}
