//! The events of a session, kept in order and read by any number of readers.
//!
//! Readers pull at their own pace from one shared list, so a slow one loses nothing, holds up
//! nobody and needs no queue of its own; a late or returning one starts anywhere. The price is
//! that a session keeps all its events.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use tokio::sync::watch;

use super::Event;
use crate::sync::Mutex;

/// Milliseconds since the beginning of 1970, UTC.
pub type Millis = i64;

/// An event, and its place in the log.
#[derive(Debug, Clone)]
pub struct Entry {
    /// Its place, from 0.
    pub index: usize,
    /// When it happened.
    pub at: Millis,
    /// What happened.
    pub event: Arc<Event>,
}

/// The list. Cheap to clone: all clones are the same list.
#[derive(Clone, Default)]
pub struct Log {
    shared: Arc<Shared>,
}

/// When, and what; `None` where a later event has taken the place of this one.
type Slot = Option<(Millis, Arc<Event>)>;

#[derive(Default)]
struct Shared {
    events: Mutex<Vec<Slot>>,
    /// How many there are; readers wait on it.
    count: watch::Sender<usize>,
}

impl Log {
    /// Adds an event; its index.
    pub(super) fn append(&self, event: Event) -> usize {
        tracing::trace!(?event);
        let mut events = self.shared.events.lock();
        events.push(Some((now(), Arc::new(event))));
        let count = events.len();
        self.shared.count.send_replace(count);
        count - 1
    }

    /// Adds an event that takes the place of the one at `earlier`: a reader that has not read
    /// that one never will, and its memory is free.
    pub(super) fn supersede(&self, earlier: Option<usize>, event: Event) -> usize {
        if let Some(earlier) = earlier {
            self.shared.events.lock()[earlier] = None;
        }
        self.append(event)
    }

    /// How many events there are.
    pub(super) fn len(&self) -> usize {
        *self.shared.count.borrow()
    }

    /// Everything from the index `from` on, past and to come.
    pub fn read(&self, from: usize) -> Reader {
        Reader {
            shared: Arc::clone(&self.shared),
            count: self.shared.count.subscribe(),
            next: from,
        }
    }
}

/// Reads a log from an index on.
pub struct Reader {
    shared: Arc<Shared>,
    count: watch::Receiver<usize>,
    next: usize,
}

impl Reader {
    /// The next event, when there is one.
    pub async fn next(&mut self) -> Arc<Event> {
        self.next_entry().await.event
    }

    /// The next event with its place, when there is one.
    pub async fn next_entry(&mut self) -> Entry {
        loop {
            if let Some(entry) = self.try_next_entry() {
                return entry;
            }
            self.ready().await;
        }
    }

    /// Waits until there is another event, or was one that a later one has taken the place of.
    pub async fn ready(&mut self) {
        let next = self.next;
        // It cannot fail: `shared` holds the sender.
        let _ = self.count.wait_for(|count| *count > next).await;
    }

    /// The next event, if there is one already.
    pub fn try_next(&mut self) -> Option<Arc<Event>> {
        self.try_next_entry().map(|entry| entry.event)
    }

    /// The next event with its place, if there is one already.
    pub fn try_next_entry(&mut self) -> Option<Entry> {
        let events = self.shared.events.lock();
        while let Some(entry) = events.get(self.next) {
            let index = self.next;
            self.next += 1;
            if let Some((at, event)) = entry {
                return Some(Entry { index, at: *at, event: Arc::clone(event) });
            }
        }
        None
    }

    /// The event that [`Reader::try_next`] would give, left where it is.
    pub fn peek(&mut self) -> Option<Arc<Event>> {
        let event = self.try_next();
        if event.is_some() {
            self.next -= 1;
        }
        event
    }

    /// The index of the event after the last one given.
    pub fn position(&self) -> usize {
        self.next
    }
}

fn now() -> Millis {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Millis::try_from(since.as_millis()).unwrap_or(Millis::MAX)
}
