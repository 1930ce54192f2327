//! Room for connections.
//!
//! A connection costs room before anybody knows whose it is. So when there is none left, the one gives way that
//! has been longest without showing who its client is; those that have shown it stay.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::task_tracker::TaskTrackerToken;

/// Room for a number of connections.
pub struct ConnectionRoom {
    room: Arc<Semaphore>,
    /// Number of connections there are.
    connected: watch::Sender<usize>,
    unknown: Mutex<UnknownConnections>,
}

/// Connections whose clients have not shown who they are, in the order in which they came.
#[derive(Default)]
struct UnknownConnections {
    /// Number of connections that there have been.
    last: u64,
    all: BTreeMap<u64, UnknownConnection>,
}

struct UnknownConnection {
    permit: OwnedSemaphorePermit,
    gives_way: CancellationToken,
}

impl ConnectionRoom {
    /// Makes room for so many connections, which are counted.
    pub fn new(most: usize, connected: watch::Sender<usize>) -> Arc<Self> {
        Arc::new(Self {
            room: Arc::new(Semaphore::new(most)),
            connected,
            unknown: Mutex::default(),
        })
    }

    /// Returns the slot of one more connection; `None` if there is room neither beside the others nor in the
    /// place of one that is not known.
    pub fn admit(self: &Arc<Self>, served: TaskTrackerToken) -> Option<ConnectionSlot> {
        let mut unknown = self.unknown.lock();
        let permit = if let Ok(permit) = Arc::clone(&self.room).try_acquire_owned() {
            permit
        } else {
            let (_, first) = unknown.all.pop_first()?;
            first.gives_way.cancel();
            first.permit
        };
        unknown.last += 1;
        let (number, gives_way) = (unknown.last, CancellationToken::new());
        unknown.all.insert(number, UnknownConnection { permit, gives_way: gives_way.clone() });
        self.connected.send_modify(|count| *count += 1);
        let (room, permit) = (Arc::clone(self), OnceLock::new());
        Some(ConnectionSlot { room, number, gives_way, permit, _served: served })
    }
}

/// A connection's slot in the room; it counts as long as it lives.
pub struct ConnectionSlot {
    room: Arc<ConnectionRoom>,
    number: u64,
    gives_way: CancellationToken,
    /// Permit of a connection whose client is known.
    permit: OnceLock<OwnedSemaphorePermit>,
    /// Waited for when the server ends: a WebSocket is closed after its connection has become one.
    _served: TaskTrackerToken,
}

impl ConnectionSlot {
    /// Notes that the client has shown who it is: the connection gives way to no other from now on.
    pub fn known(&self) {
        if self.permit.get().is_some() {
            return;
        }
        let unknown = self.room.unknown.lock().all.remove(&self.number);
        if let Some(unknown) = unknown {
            // Of two requests at once, one has taken it out.
            let _ = self.permit.set(unknown.permit);
        }
    }

    /// Returns what fires when the connection has given way to another one.
    pub fn gives_way(&self) -> &CancellationToken {
        &self.gives_way
    }
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        self.room.unknown.lock().all.remove(&self.number);
        self.room.connected.send_modify(|count| *count = count.saturating_sub(1));
    }
}
