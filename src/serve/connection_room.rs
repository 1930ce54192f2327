//! Limit on the number of connections.
//!
//! A connection takes a place before the server knows its client. So if no place is left, the oldest connection of
//! an unknown client is closed in favor of the new connection. Connections of known clients stay.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::task_tracker::TaskTrackerToken;

/// Places for a limited number of connections.
pub struct ConnectionRoom {
    room: Arc<Semaphore>,
    /// Number of open connections.
    connected: watch::Sender<usize>,
    unknown: Mutex<UnknownConnections>,
}

/// The connections whose clients are not known yet, in the order in which they came.
#[derive(Default)]
struct UnknownConnections {
    /// Number of the latest connection; numbers count up from 1.
    last: u64,
    all: BTreeMap<u64, UnknownConnection>,
}

struct UnknownConnection {
    permit: OwnedSemaphorePermit,
    gives_way: CancellationToken,
}

impl ConnectionRoom {
    /// Makes a room with `most` places, which publishes the number of connections in `connected`.
    pub fn new(most: usize, connected: watch::Sender<usize>) -> Arc<Self> {
        Arc::new(Self {
            room: Arc::new(Semaphore::new(most)),
            connected,
            unknown: Mutex::default(),
        })
    }

    /// Admits one more connection, and returns its slot. If no place is free, takes the place of the oldest
    /// connection of an unknown client; returns `None` if there is no such connection.
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

/// Place of a connection, held as long as the slot lives.
pub struct ConnectionSlot {
    room: Arc<ConnectionRoom>,
    number: u64,
    gives_way: CancellationToken,
    /// Permit of the place once the client is known. Until then, the permit is among the unknown connections,
    /// so that another connection can take it.
    permit: OnceLock<OwnedSemaphorePermit>,
    /// Token that a shutdown of the server waits for. A WebSocket holds its slot, so the shutdown also waits until
    /// the WebSocket is closed, although the task of its connection has ended.
    _served: TaskTrackerToken,
}

impl ConnectionSlot {
    /// Notes that the client has shown its identity: from now on, no other connection takes this place.
    pub fn mark_authenticated(&self) {
        if self.permit.get().is_some() {
            return;
        }
        let unknown = self.room.unknown.lock().all.remove(&self.number);
        if let Some(unknown) = unknown {
            // Of two requests at the same time, only one finds the permit and sets it.
            let _ = self.permit.set(unknown.permit);
        }
    }

    /// Returns the token that is cancelled when another connection takes this place.
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
