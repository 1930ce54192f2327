//! The health of a store, as the sessions that are kept there have found it.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

/// Time for which a refusal counts. If it counted until the next success, a load balancer would send no more requests,
/// and none would ever try the store again.
const REFUSAL_MEMORY: Duration = Duration::from_secs(10);

/// Memory of the last refusal of a store. Cheap to clone: all clones are the same memory.
#[derive(Debug, Clone, Default)]
pub struct StoreHealth {
    refused: Arc<Mutex<Option<Instant>>>,
}

impl StoreHealth {
    /// Notes that the store has refused an operation, or lets somebody wait for long.
    pub fn note_refusal(&self) {
        *self.refused.lock() = Some(Instant::now());
    }

    /// Notes that the store has taken events.
    pub(super) fn note_success(&self) {
        *self.refused.lock() = None;
    }

    /// Returns `true` if the store has refused something lately, and nothing has been kept there since.
    pub fn is_refusing(&self) -> bool {
        self.refused.lock().is_some_and(|at| at.elapsed() < REFUSAL_MEMORY)
    }
}
