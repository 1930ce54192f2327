//! Tasks that notify the receivers of a session's push notifications.

use std::collections::HashMap;

use tokio_util::task::AbortOnDropHandle;

use parking_lot::Mutex;
use tandem_agent::session::{Session, TaskEvent};
use tandem_wire::a2a::error;
use tandem_wire::jsonrpc::Error;

/// Maximum number of push configurations in a session.
const MAX_PUSH_CONFIGS: usize = 32;

/// Running notifiers of one session, by the ids of task and configuration. The configurations themselves are
/// stored with the session.
#[derive(Default)]
pub(super) struct Push(pub(super) Mutex<HashMap<String, AbortOnDropHandle<()>>>);

impl Push {
    /// Checks that there is room for the configuration `key`. If the session is full, configurations whose
    /// task has ended are deleted first.
    pub(super) fn room(&self, session: &Session, key: Option<&str>) -> Result<(), Error> {
        let mut configs = self.0.lock();
        if configs.len() < MAX_PUSH_CONFIGS || key.is_some_and(|key| configs.contains_key(key)) {
            return Ok(());
        }
        configs.retain(|key, notifies| {
            let keep = !notifies.is_finished();
            if !keep {
                session.persistence().set_secret(key, None);
                session.record(TaskEvent::PushConfigDeleted { key: key.clone() });
            }
            keep
        });
        if configs.len() < MAX_PUSH_CONFIGS {
            return Ok(());
        }
        let message = format!("there are {MAX_PUSH_CONFIGS} configurations already");
        Err(Error::new(error::UNSUPPORTED_OPERATION, message))
    }

    /// Waits until the notifiers have sent everything. The server must have ended all turns.
    pub(super) async fn finish(&self) {
        let configs = std::mem::take(&mut *self.0.lock());
        for notifies in configs.into_values() {
            // An error means that the notifier has panicked. Such a notifier sends nothing more, so the server need not
            // wait for the notifier.
            let _ = notifies.await;
        }
    }

    /// Stops all notifiers.
    pub(super) fn clear(&self) {
        self.0.lock().clear();
    }
}
