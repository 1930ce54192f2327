//! The log of a session: its events in order, read by any number of readers.
//!
//! Readers pull events at their own pace from one shared list. So a slow reader loses no event, holds up no other
//! reader, and needs no queue of its own, and a reader may start at any index. The price is that a session holds all
//! its events. If they need too much memory, the oldest are moved to a spill file, on another thread, so that appending
//! waits for no disk.
//!
//! An event is persistent if it outlives the process, and durable if it outlives
//! a loss of power. If no store decides which events are persistent, every event counts as persistent, so that front
//! ends are shown it.

mod size;
mod spill_file;

use std::collections::BTreeMap;
use std::fs::File;
use std::mem::{self, Discriminant};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{SystemTime, UNIX_EPOCH};

use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};

use self::size::size;
use self::spill_file::{FileSlice, SpillFile};
use super::event::Event;
use parking_lot::{Mutex, MutexGuard};
use tandem_host::scratch::Scratch;

/// Milliseconds since the beginning of 1970, UTC.
pub type Millis = i64;

/// An event, and its place in the log.
#[derive(Debug, Clone)]
pub struct Entry {
    /// Index in the log, from 0.
    pub index: usize,
    /// Time at which the event was appended.
    pub at: Millis,
    /// The event.
    pub event: Arc<Event>,
}

/// The list of a session's events. Cheap to clone: all clones share the list.
#[derive(Clone)]
pub struct Log {
    shared: Arc<LogShared>,
}

struct LogShared {
    events: Mutex<LogEvents>,
    /// Number of events. Readers of the session itself wait for its changes.
    count: watch::Sender<usize>,
    /// Number of events that outlive the process, or count as such. Readers of front ends wait for its changes.
    persisted: watch::Sender<usize>,
    /// Number of events that outlive a loss of power.
    durable: watch::Sender<usize>,
    /// Index after the last event that must be written to the store at once.
    urgent: watch::Sender<usize>,
    /// Number of events that a task needs to be durable.
    sync_wanted: watch::Sender<usize>,
    /// `true` while events are moved to the spill file.
    spilling: watch::Sender<bool>,
    /// `true` if an event could not be read from the spill file.
    is_damaged: AtomicBool,
    /// Token that fires when no further event will be persistent.
    fenced: CancellationToken,
    /// Reason why no further event will be persistent.
    fence_reason: OnceLock<FenceReason>,
}

/// Reason why no further event of a log is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum FenceReason {
    /// Another process has taken the session over.
    TakenOver,
    /// The store has refused events for too long; the store's reason.
    Refused(String),
}

/// The party that decides which events count as persistent. Changes only under the lock of the events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PersistenceState {
    /// No party: there is no store, and every event counts as persistent.
    Unstored,
    /// No party while the store refuses events. Meanwhile every event counts as persistent.
    Bypassed,
    /// A store, as soon as an event is worth storing. Until then every event counts as persistent, and nothing is
    /// stored.
    Pending,
    /// The store: an event is persistent once the store has it.
    Stored,
    /// No party any more: the session has ended here, no further event becomes persistent, and clients are shown none.
    Fenced,
}

struct LogEvents {
    persistence: PersistenceState,
    slots: Vec<LogSlot>,
    /// Runs of chunks that have ended, by the index of the first chunk.
    runs: BTreeMap<usize, Run>,
    /// The run that goes on: the index of its first chunk, and the kind of its chunks.
    open: Option<(usize, Discriminant<Event>)>,
    /// Index before which no event is in memory.
    first: usize,
    /// Index before which no joined event of a run is in memory.
    first_run: usize,
    /// Approximate number of bytes of the events in memory.
    bytes: usize,
    /// Maximum number of bytes of the events in memory. With more, the oldest are moved to the spill file.
    max_bytes: usize,
    /// Writing end of the spill file. `None` while a task writes to the file, or if the file could not be written.
    spill_file: Option<SpillFile>,
    /// Reading end of the spill file, once it has events.
    spilled_file: Option<Arc<File>>,
}

/// The oldest events in memory, which are moved to the spill file in one write.
struct Spill {
    /// Events, with their indexes.
    slots: Vec<(usize, Arc<Event>)>,
    /// Joined events of runs, with the index of each run's first chunk.
    runs: Vec<(usize, Arc<Event>)>,
    /// Index before which no event is in memory afterwards.
    end: usize,
    /// Index before which no joined event of a run is in memory afterwards.
    end_of_runs: usize,
}

/// A place in the list of events.
enum LogSlot {
    /// An event in memory: its time, the event, and its approximate number of bytes.
    Here(Millis, Arc<Event>, usize),
    /// An event in the spill file: its time, and its place in the file.
    Spilled(Millis, FileSlice),
    /// No event: a later one has replaced it, or it was never stored.
    Gone,
}

/// A run of chunks: all chunks of one text, joined in one event for readers that need only the whole text.
struct Run {
    /// Index after the last chunk.
    end: usize,
    /// Time of the last chunk.
    at: Millis,
    whole: Whole,
}

/// The joined event of a run.
enum Whole {
    /// The event in memory, and its approximate number of bytes.
    Here(Arc<Event>, usize),
    /// The event's place in the spill file.
    Spilled(FileSlice),
}

/// Minimum number of chunks of a run. Shorter texts are read as single chunks.
const LEAST_CHUNKS: usize = 8;

impl Log {
    /// Makes an empty log. If its events need more than `max_bytes` of memory, it moves the oldest to a file in
    /// `scratch`.
    pub fn new(scratch: Arc<Scratch>, max_bytes: usize) -> Self {
        let events = LogEvents {
            persistence: PersistenceState::Unstored,
            slots: Vec::new(),
            runs: BTreeMap::new(),
            open: None,
            first: 0,
            first_run: 0,
            bytes: 0,
            max_bytes,
            spill_file: Some(SpillFile::new(scratch)),
            spilled_file: None,
        };
        Self {
            shared: Arc::new(LogShared {
                events: Mutex::new(events),
                count: watch::Sender::default(),
                persisted: watch::Sender::default(),
                durable: watch::Sender::default(),
                urgent: watch::Sender::default(),
                sync_wanted: watch::Sender::default(),
                spilling: watch::Sender::default(),
                is_damaged: AtomicBool::default(),
                fenced: CancellationToken::new(),
                fence_reason: OnceLock::new(),
            }),
        }
    }

    /// Adds an event. Returns its index.
    pub fn append(&self, event: Event) -> usize {
        tracing::trace!(?event);
        let (is_worth_storing, is_chunk) = (
            event.is_worth_storing(),
            matches!(event, Event::Text(_) | Event::Thought(_) | Event::CallProgress { .. }),
        );
        let mut events = self.shared.events.lock();
        events.push(now(), Arc::new(event));
        let count = events.slots.len();
        if is_worth_storing && events.persistence == PersistenceState::Pending {
            events.persistence = PersistenceState::Stored;
        }
        match events.persistence {
            PersistenceState::Unstored | PersistenceState::Bypassed | PersistenceState::Pending => {
                _ = self.shared.persisted.send_replace(count);
            }
            PersistenceState::Stored if !is_chunk => _ = self.shared.urgent.send_replace(count),
            PersistenceState::Stored | PersistenceState::Fenced => {}
        }
        // `count` comes last: a reader that it wakes finds `persisted` and `urgent` up to date.
        self.shared.count.send_replace(count);
        LogShared::spill(&self.shared, events);
        count - 1
    }

    /// Appends an event that was read from a store, at its stored index, which must not be lower than [`Self::len`].
    /// Indexes in between, whose events were not stored, stay empty. The event counts as persistent.
    pub(crate) fn restore(&self, index: usize, at: Millis, event: Arc<Event>) {
        let mut events = self.shared.events.lock();
        while events.slots.len() < index {
            events.slots.push(LogSlot::Gone);
        }
        events.push(at, event);
        let count = events.slots.len();
        self.shared.persisted.send_replace(count);
        self.shared.count.send_replace(count);
        LogShared::spill(&self.shared, events);
    }

    /// Waits until no events are being moved to the spill file. A task that reads a stored log calls this between
    /// two pieces. Otherwise the log would grow faster than the disk takes its oldest events, and need memory for
    /// all of it.
    pub(crate) async fn spill_finished(&self) {
        let mut spilling = self.shared.spilling.subscribe();
        // Waiting cannot fail: `shared` holds the sender.
        let _ = spilling.wait_for(|spilling| !*spilling).await;
    }

    /// Appends an event that replaces the event at the index `earlier`. Readers that have not read the earlier event
    /// yet never will, and its memory is freed.
    pub(crate) fn supersede(&self, earlier: Option<usize>, event: Event) -> usize {
        if let Some(earlier) = earlier {
            self.shared.events.lock().forget(earlier);
        }
        self.append(event)
    }

    /// Returns the number of events, which is the index of the next one.
    #[expect(clippy::len_without_is_empty, reason = "a session's log begins with its first event")]
    pub fn len(&self) -> usize {
        *self.shared.count.borrow()
    }

    /// Returns a reader of all events from the index `from` on, past and to come.
    pub fn read(&self, from: usize) -> Reader {
        self.reader(from, &self.shared.count)
    }

    /// Returns a reader of the persistent events from the index `from` on, past and to come. Front ends use this, so
    /// that no client is shown an event that a crash could still take back.
    pub(crate) fn read_persisted(&self, from: usize) -> Reader {
        self.reader(from, &self.shared.persisted)
    }

    fn reader(&self, from: usize, count: &watch::Sender<usize>) -> Reader {
        Reader { shared: Arc::clone(&self.shared), count: count.subscribe(), next: from }
    }

    /// Returns the index after the last persistent event.
    pub(crate) fn persisted_len(&self) -> usize {
        *self.shared.persisted.borrow()
    }

    /// Waits until the event at an index is persistent. Returns `false` if the event never will be: the caller must not
    /// do anything that depends on the event then.
    #[must_use]
    pub(crate) async fn wait_persisted(&self, index: usize) -> bool {
        let mut persisted = self.shared.persisted.subscribe();
        tokio::select! {
            biased;
            // Waiting cannot fail: `shared` holds the sender.
            _ = persisted.wait_for(|persisted| *persisted > index) => true,
            () = self.shared.fenced.cancelled() => false,
        }
    }

    /// Waits until no further event will be persistent, because another process has taken the session over, or the
    /// store has refused events for too long.
    pub(crate) fn wait_fenced(&self) -> WaitForCancellationFutureOwned {
        self.shared.fenced.clone().cancelled_owned()
    }

    /// Returns the reason why no further event will be persistent; `None` while events can still become persistent.
    pub(crate) fn fence_reason(&self) -> Option<&FenceReason> {
        self.shared.fence_reason.get()
    }

    /// Waits until the event at an index is durable, as far as the store knows. Returns at once if no store decides
    /// which events are persistent: the event will then never be durable.
    pub(crate) async fn wait_durable(&self, index: usize) {
        let mut durable = self.shared.durable.subscribe();
        if *durable.borrow() > index {
            return;
        }
        self.shared.sync_wanted.send_if_modified(|wanted| {
            let more = *wanted <= index;
            *wanted = (*wanted).max(index + 1);
            more
        });
        let mut persisted = self.shared.persisted.subscribe();
        loop {
            if *durable.borrow_and_update() > index || !self.awaits_store() {
                return;
            }
            tokio::select! {
                _ = durable.changed() => {}
                // `persisted` also changes when the log goes on without its store. Then the loop ends.
                _ = persisted.changed() => {}
                () = self.shared.fenced.cancelled() => {}
            }
        }
    }

    /// Returns `true` if a store decides which events count as persistent.
    pub(crate) fn awaits_store(&self) -> bool {
        self.shared.events.lock().persistence == PersistenceState::Stored
    }

    /// Returns `true` while the store refuses events, and the events count as persistent nevertheless.
    pub(crate) fn is_store_bypassed(&self) -> bool {
        self.shared.events.lock().persistence == PersistenceState::Bypassed
    }
}

/// Methods for the session writer, which writes the log to the store.
impl Log {
    /// Lets a store decide which events count as persistent, from the first event on that is worth storing.
    pub(crate) fn attach_store_when_needed(&self) {
        self.shared.events.lock().persistence = PersistenceState::Pending;
    }

    /// Lets a store decide which events count as persistent, from now on.
    pub(crate) fn attach_store(&self) {
        self.shared.events.lock().persistence = PersistenceState::Stored;
    }

    /// Counts all events as persistent from now on, because there is no store any more.
    pub(crate) fn detach_store(&self) {
        self.persist_without_store(PersistenceState::Unstored);
    }

    /// Counts all events as persistent while the store refuses them.
    pub(crate) fn bypass_store(&self) {
        self.persist_without_store(PersistenceState::Bypassed);
    }

    /// Counts all events as persistent, in a state in which no store decides that.
    fn persist_without_store(&self, persistence: PersistenceState) {
        let mut events = self.shared.events.lock();
        events.persistence = persistence;
        self.shared.persisted.send_replace(events.slots.len());
    }

    /// Ends the log here: from now on no event becomes persistent, and front ends read none. The stored log is
    /// continued after its last event, here or in another process, so that its indexes stay valid.
    pub(crate) fn fence(&self, reason: FenceReason) {
        self.shared.events.lock().persistence = PersistenceState::Fenced;
        // A log may be abandoned for two reasons at once: the first one counts.
        let _ = self.shared.fence_reason.set(reason);
        self.shared.fenced.cancel();
    }

    /// Returns `true` if an event could not be read from the spill file.
    pub(crate) fn is_damaged(&self) -> bool {
        self.shared.is_damaged.load(Ordering::Relaxed)
    }

    /// Waits until an event is worth storing, for the first time.
    pub(crate) async fn wait_worth_storing(&self) {
        let mut urgent = self.shared.urgent.subscribe();
        while !self.awaits_store() {
            let _ = urgent.changed().await;
        }
    }

    /// Waits until there is an event, from the index `from` on, that must be written at once, or that a task needs to
    /// be durable.
    pub(crate) async fn wait_urgent(&self, from: usize) {
        let mut urgent = self.shared.urgent.subscribe();
        let mut wanted = self.shared.sync_wanted.subscribe();
        tokio::select! {
            _ = urgent.wait_for(|urgent| *urgent > from) => {}
            _ = wanted.wait_for(|wanted| *wanted > from) => {}
        }
    }

    /// Returns `true` if a task waits for an event to be durable that is not durable yet.
    pub(crate) fn wants_durable(&self) -> bool {
        *self.shared.sync_wanted.borrow() > *self.shared.durable.borrow()
    }

    /// Waits until a task waits for an event to be durable that is not durable yet.
    pub(crate) async fn wait_sync_wanted(&self) {
        let mut wanted = self.shared.sync_wanted.subscribe();
        let durable = *self.shared.durable.borrow();
        let _ = wanted.wait_for(|wanted| *wanted > durable).await;
    }

    /// Notes that the events before an index are persistent.
    pub(crate) fn set_persisted(&self, end: usize) {
        let _events = self.shared.events.lock();
        self.shared.persisted.send_if_modified(|persisted| {
            let more = *persisted < end;
            *persisted = (*persisted).max(end);
            more
        });
    }

    /// Notes that the events before an index are durable.
    pub(crate) fn set_durable(&self, end: usize) {
        self.shared.durable.send_replace(end);
    }
}

impl LogEvents {
    /// Adds an event. Ends the open run of chunks if the event is of another kind, and begins a run with a chunk.
    fn push(&mut self, at: Millis, event: Arc<Event>) {
        let is_chunk = matches!(*event, Event::Text(_) | Event::Thought(_));
        let kind = mem::discriminant(&*event);
        if self.open.is_none_or(|(_, open)| open != kind) {
            self.close_run();
            self.open = is_chunk.then_some((self.slots.len(), kind));
        }
        let size = size(&event);
        self.bytes += size;
        self.slots.push(LogSlot::Here(at, event, size));
    }

    /// Joins the chunks of the open run, which ends here, unless they are few. If a chunk is in the spill file already,
    /// the chunks are not joined, and readers get them one by one.
    fn close_run(&mut self) {
        let Some((start, _)) = self.open.take() else { return };
        let end = self.slots.len();
        if end - start < LEAST_CHUNKS {
            return;
        }
        let (mut text, mut thinks, mut last) = (String::new(), false, 0);
        for slot in &self.slots[start..end] {
            let LogSlot::Here(at, event, _) = slot else { return };
            let (Event::Text(chunk) | Event::Thought(chunk)) = &**event else { return };
            text.push_str(chunk);
            (thinks, last) = (matches!(**event, Event::Thought(_)), *at);
        }
        let whole = Arc::new(if thinks { Event::Thought(text) } else { Event::Text(text) });
        let size = size(&whole);
        self.bytes += size;
        self.runs.insert(start, Run { end, at: last, whole: Whole::Here(whole, size) });
    }

    fn forget(&mut self, index: usize) {
        if let LogSlot::Here(.., size) = mem::replace(&mut self.slots[index], LogSlot::Gone) {
            self.bytes -= size;
        }
    }

    /// Returns the oldest events to be moved to the spill file, and the file, if the events in memory need too many
    /// bytes. `None` also while other events are being moved.
    fn next_spill(&mut self) -> Option<(Spill, SpillFile)> {
        if self.bytes <= self.max_bytes {
            return None;
        }
        let file = self.spill_file.take()?;
        let piece = self.max_bytes / SPILL_DIVISOR;
        // A backlog is moved in pieces of about twice this size, because a piece needs memory for its JSON as well.
        let least = (self.max_bytes - piece).max(self.bytes.saturating_sub(2 * piece + 1));
        let (mut bytes, mut end) = (self.bytes, self.first);
        let mut slots = Vec::new();
        while bytes > least && end < self.slots.len() {
            if let LogSlot::Here(_, event, size) = &self.slots[end] {
                bytes -= size;
                slots.push((end, Arc::clone(event)));
            }
            end += 1;
        }
        // The open run still gets chunks. While events are written to the file, the run may end, and its chunks be
        // joined in one event. The next write takes that event.
        let end_of_runs = self.open.map_or(end, |(start, _)| start.min(end));
        let runs =
            self.runs.range(self.first_run..end_of_runs).filter_map(|(start, run)| {
                match &run.whole {
                    Whole::Here(whole, _) => Some((*start, Arc::clone(whole))),
                    Whole::Spilled(_) => None,
                }
            });
        let runs = runs.collect();
        Some((Spill { slots, runs, end, end_of_runs }, file))
    }

    /// Puts the places in the file, those of events before those of runs, in place of the events that were written.
    fn finish_spill(&mut self, spill: &Spill, places: &[FileSlice]) {
        let (of_slots, of_runs) = places.split_at(spill.slots.len());
        for ((index, _), place) in spill.slots.iter().zip(of_slots) {
            // A later event may have replaced this one meanwhile.
            if let LogSlot::Here(at, _, size) = self.slots[*index] {
                self.slots[*index] = LogSlot::Spilled(at, *place);
                self.bytes -= size;
            }
        }
        for ((start, _), place) in spill.runs.iter().zip(of_runs) {
            if let Some(run) = self.runs.get_mut(start)
                && let Whole::Here(_, size) = run.whole
            {
                run.whole = Whole::Spilled(*place);
                self.bytes -= size;
            }
        }
        (self.first, self.first_run) = (spill.end, spill.end_of_runs);
    }
}

impl LogShared {
    /// Begins to move the oldest events to the spill file if the events in memory need too many bytes. The file is
    /// written on a thread for blocking work, or at once in a program without an async runtime.
    fn spill(shared: &Arc<Self>, mut events: MutexGuard<'_, LogEvents>) {
        let Some((spill, file)) = events.next_spill() else { return };
        drop(events);
        let spilling = Spilling::begin(shared);
        match Handle::try_current() {
            Ok(runtime) => _ = runtime.spawn_blocking(move || spilling.0.write_spills(spill, file)),
            Err(_) => spilling.0.write_spills(spill, file),
        }
    }

    /// Writes events to the spill file until the events in memory need few enough bytes. If the file cannot be written,
    /// all events stay in memory from now on.
    fn write_spills(&self, mut spill: Spill, mut file: SpillFile) {
        loop {
            let written =
                file.put(spill.slots.iter().chain(&spill.runs).map(|(_, event)| &**event));
            let mut events = self.events.lock();
            match written {
                Ok(places) => {
                    events.finish_spill(&spill, &places);
                    events.spilled_file = file.file();
                    events.spill_file = Some(file);
                }
                // Without its writing end, no further event is moved.
                Err(err) => tracing::warn!(%err, "the log stays in memory"),
            }
            let next = events.next_spill();
            // The events are freed after the lock is released, so that no reader waits for that.
            drop(events);
            let Some(next) = next else { return };
            (spill, file) = next;
        }
    }
}

/// Guard of a move of events to the spill file. A runtime that shuts down drops a task for blocking work without
/// running it: a reader of a stored log that waits for the end of the move must go on then, too.
struct Spilling(Arc<LogShared>);

impl Spilling {
    fn begin(shared: &Arc<LogShared>) -> Self {
        shared.spilling.send_replace(true);
        Self(Arc::clone(shared))
    }
}

impl Drop for Spilling {
    fn drop(&mut self) {
        self.0.spilling.send_replace(false);
    }
}

/// Divisor of the memory limit: events are moved to the spill file until a 16th of the limit is free, so that not each
/// event is moved by itself.
const SPILL_DIVISOR: usize = 16;

/// Reader of a log, from an index on.
pub struct Reader {
    shared: Arc<LogShared>,
    count: watch::Receiver<usize>,
    next: usize,
}

impl Reader {
    /// Waits for the next event.
    pub async fn next(&mut self) -> Arc<Event> {
        self.next_entry().await.event
    }

    /// Waits for the next event, with its place in the log. A task that reads many events yields to other tasks from
    /// time to time.
    pub async fn next_entry(&mut self) -> Entry {
        tokio::task::coop::consume_budget().await;
        loop {
            if let Some(entry) = self.try_next_entry() {
                return entry;
            }
            self.ready().await;
        }
    }

    /// Waits until the log has an event at the reader's position or later. That event may have been replaced by a later
    /// one already: then [`Self::try_next`] may still return `None`.
    pub async fn ready(&mut self) {
        let next = self.next;
        // Waiting cannot fail: `shared` holds the sender.
        let _ = self.count.wait_for(|count| *count > next).await;
    }

    /// Returns the next event, if the log has one already.
    pub fn try_next(&mut self) -> Option<Arc<Event>> {
        self.try_next_entry().map(|entry| entry.event)
    }

    /// Returns the next event with its place, if the log has one already.
    pub fn try_next_entry(&mut self) -> Option<Entry> {
        let count = *self.count.borrow();
        let events = self.shared.events.lock();
        let (index, at, place, file) = loop {
            let slot = events.slots[..count].get(self.next)?;
            let index = self.next;
            self.next += 1;
            match slot {
                LogSlot::Here(at, event, _) => {
                    return Some(Entry { index, at: *at, event: Arc::clone(event) });
                }
                LogSlot::Spilled(at, place) => {
                    break (index, *at, *place, events.spilled_file.clone());
                }
                LogSlot::Gone => {}
            }
        };
        // The file is read without the lock: appending must not wait for a disk.
        drop(events);
        Some(Entry { index, at, event: self.read_spilled(file, place) })
    }

    /// Returns the next event with its place, if the log has one already. The chunks of a text that has ended come
    /// as one event, with the index of the first chunk and the time of the last.
    pub fn try_next_run(&mut self) -> Option<Entry> {
        let count = *self.count.borrow();
        let events = self.shared.events.lock();
        // This reader sees only the first `count` events. If the run ends after these events, the reader gets the
        // chunks of the run one by one.
        let Some(run) = events.runs.get(&self.next).filter(|run| run.end <= count) else {
            drop(events);
            return self.try_next_entry();
        };
        let (index, at) = (self.next, run.at);
        self.next = run.end;
        let (place, file) = match &run.whole {
            Whole::Here(whole, _) => {
                return Some(Entry { index, at, event: Arc::clone(whole) });
            }
            Whole::Spilled(place) => (*place, events.spilled_file.clone()),
        };
        drop(events);
        Some(Entry { index, at, event: self.read_spilled(file, place) })
    }

    /// Returns the event that [`Reader::try_next`] would return, and does not move past the event.
    pub fn peek(&mut self) -> Option<Arc<Event>> {
        let event = self.try_next();
        if event.is_some() {
            self.next -= 1;
        }
        event
    }

    /// Returns a reader of the same log that starts at the first event.
    #[must_use]
    pub fn restarted(&self) -> Self {
        Self { shared: Arc::clone(&self.shared), count: self.count.clone(), next: 0 }
    }

    /// Skips the events before an index.
    pub fn skip_to(&mut self, index: usize) {
        self.next = self.next.max(index);
    }

    /// Returns the index after the last event that was returned or skipped.
    pub fn position(&self) -> usize {
        self.next
    }

    /// Reads an event from the spill file. If the event cannot be read, returns a notice with the reason in its
    /// place.
    fn read_spilled(&self, file: Option<Arc<File>>, place: FileSlice) -> Arc<Event> {
        let event = file.ok_or_else(|| "its file is gone".to_owned()).and_then(|file| {
            spill_file::read(&file, place).map_err(|err| format!("its file cannot be read: {err}"))
        });
        Arc::new(event.unwrap_or_else(|why| {
            self.shared.is_damaged.store(true, Ordering::Relaxed);
            Event::Notice(format!("An event is not shown: {why}"))
        }))
    }
}

/// Returns the time of this machine's clock.
pub fn now() -> Millis {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Millis::try_from(since.as_millis()).unwrap_or(Millis::MAX)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::runtime::{Builder, Runtime};
    use tokio::time::timeout;

    use super::*;

    fn said(n: usize) -> Event {
        Event::Text(format!("{n}: {}", "words ".repeat(10)))
    }

    fn log(scratch: Scratch, max_bytes: usize) -> Log {
        Log::new(Arc::new(scratch), max_bytes)
    }

    fn all(reader: &mut Reader) -> Vec<(usize, Event)> {
        let entries = std::iter::from_fn(|| reader.try_next_entry());
        entries.map(|entry| (entry.index, (*entry.event).clone())).collect()
    }

    /// Returns the number of events in memory, and the number of events in the spill file.
    fn places(log: &Log) -> (usize, usize) {
        let events = log.shared.events.lock();
        let count = |is: fn(&LogSlot) -> bool| events.slots.iter().filter(|slot| is(slot)).count();
        let here = count(|slot| matches!(slot, LogSlot::Here(..)));
        (here, count(|slot| matches!(slot, LogSlot::Spilled(..))))
    }

    #[test]
    fn of_many_events_the_oldest_are_in_a_file_and_read_as_ever() {
        let dir = tempfile::tempdir().unwrap();
        let one = size(&said(100));
        let log = log(Scratch::new(Some(dir.path().to_owned())), 32 * one);
        let mut slow = log.read(0);
        for n in 0..200 {
            log.append(said(n));
            let (here, spilled) = places(&log);
            assert!(here <= 33 && here + spilled == n + 1, "{here} {spilled}");
            if n == 60 {
                assert_eq!(*slow.try_next().unwrap(), said(0));
            }
        }
        let expected: Vec<_> = (0..200).map(|n| (n, said(n))).collect();
        assert_eq!(all(&mut log.read(0)), expected);
        assert_eq!(all(&mut slow), expected[1..]);
        assert_eq!(all(&mut log.read(150)), expected[150..]);
        assert_eq!(*log.read(3).peek().unwrap(), said(3));
    }

    #[test]
    fn what_a_later_event_has_taken_the_place_of_is_gone_from_the_file_too() {
        let dir = tempfile::tempdir().unwrap();
        let log = log(Scratch::new(Some(dir.path().to_owned())), 0);
        for n in 0..3 {
            log.append(said(n));
        }
        assert_eq!(places(&log), (0, 3));
        log.supersede(Some(1), said(3));
        assert_eq!(all(&mut log.read(0)), [(0, said(0)), (2, said(2)), (3, said(3))]);
    }

    fn runs(reader: &mut Reader) -> Vec<(usize, Event)> {
        let entries = std::iter::from_fn(|| reader.try_next_run());
        entries.map(|entry| (entry.index, (*entry.event).clone())).collect()
    }

    #[test]
    fn a_text_that_has_ended_is_read_as_one_however_many_chunks_it_came_in() {
        let dir = tempfile::tempdir().unwrap();
        // The test runs once with all events in memory, and once with the oldest events in the spill file.
        for max_bytes in [usize::MAX, 2000] {
            let log = log(Scratch::new(Some(dir.path().to_owned())), max_bytes);
            log.append(Event::Forgotten);
            for _ in 0..5 {
                log.append(Event::Thought("t".to_owned()));
            }
            for _ in 0..1000 {
                log.append(Event::Text("x".to_owned()));
            }
            // The log joins the chunks of a text when another event ends the text. This text has not ended, so the
            // reader gets all 1006 events one by one.
            if max_bytes == usize::MAX {
                assert_eq!(runs(&mut log.read(0)).len(), 1006);
            }
            log.append(Event::Forgotten);
            let whole = runs(&mut log.read(0));
            if max_bytes == usize::MAX {
                let thoughts = (1..6).map(|at| (at, Event::Thought("t".to_owned())));
                let mut expected = vec![(0, Event::Forgotten)];
                expected.extend(thoughts);
                expected.push((6, Event::Text("x".repeat(1000))));
                expected.push((1006, Event::Forgotten));
                assert_eq!(whole, expected);
            }
            // A reader in the middle of a run goes on from there, and any index can be read from.
            assert_eq!(runs(&mut log.read(1000)).len(), 7);
            assert_eq!(all(&mut log.read(0)).len(), 1007);
            let text: String = whole
                .iter()
                .filter_map(|(_, event)| match event {
                    Event::Text(text) => Some(text.as_str()),
                    _ => None,
                })
                .collect();
            assert_eq!(text.len(), 1000);
        }
    }

    #[test]
    fn a_text_that_has_ended_is_one_in_the_file_too() {
        let dir = tempfile::tempdir().unwrap();
        let log = log(Scratch::new(Some(dir.path().to_owned())), 16_000);
        for _ in 0..20 {
            log.append(Event::Text("x".to_owned()));
        }
        for _ in 0..200 {
            log.append(Event::Notice("y".repeat(100)));
        }
        let (here, spilled) = places(&log);
        assert!(here < 200 && spilled > 20, "{here} {spilled}");
        let first = log.read(0).try_next_run().unwrap();
        assert_eq!((first.index, &*first.event), (0, &Event::Text("x".repeat(20))));
    }

    /// Returns a runtime with one thread for blocking work.
    fn runtime() -> Runtime {
        let mut runtime = Builder::new_current_thread();
        runtime.max_blocking_threads(1).enable_time().build().unwrap()
    }

    /// Time in which every move to a file ends.
    const LONG: Duration = Duration::from_mins(1);

    #[test]
    fn appending_waits_for_no_disk_and_an_event_that_is_replaced_meanwhile_stays_away() {
        runtime().block_on(async {
            // While this task has the only thread for blocking work, nothing is written to the file.
            let (begin, wait) = std::sync::mpsc::channel::<()>();
            let busy = tokio::task::spawn_blocking(move || wait.recv());
            let dir = tempfile::tempdir().unwrap();
            let log = log(Scratch::new(Some(dir.path().to_owned())), 2000);
            let replaced = log.append(Event::Notice("replaced".to_owned()));
            for _ in 0..100 {
                log.append(Event::Text("x".to_owned()));
            }
            log.append(Event::Forgotten);
            log.supersede(Some(replaced), said(102));
            assert_eq!(places(&log), (102, 0));
            begin.send(()).unwrap();
            busy.await.unwrap().unwrap();
            timeout(LONG, log.spill_finished()).await.expect("the events are moved");
            let (here, spilled) = places(&log);
            assert!(spilled > 80 && here + spilled == 102, "{here} {spilled}");
            let read = all(&mut log.read(0));
            assert_eq!((read.len(), read[0].0), (102, 1));
            let text = log.read(0).try_next_run().unwrap().event;
            assert_eq!(*text, Event::Text("x".to_owned()));
            let text = log.read(1).try_next_run().unwrap().event;
            assert_eq!(*text, Event::Text("x".repeat(100)));
            assert!(matches!(log.shared.events.lock().runs[&1].whole, Whole::Spilled(_)));
        });
    }

    #[test]
    fn a_move_that_the_end_of_the_runtime_cuts_off_holds_up_nobody() {
        let ended = runtime();
        let (begin, wait) = std::sync::mpsc::channel::<()>();
        let dir = tempfile::tempdir().unwrap();
        let log = log(Scratch::new(Some(dir.path().to_owned())), 2000);
        ended.block_on(async {
            drop(tokio::task::spawn_blocking(move || wait.recv()));
            (0..100).for_each(|n| _ = log.append(said(n)));
        });
        ended.shutdown_background();
        drop(begin);
        let waited = runtime().block_on(async { timeout(LONG, log.spill_finished()).await });
        waited.expect("the move is over");
        assert_eq!(all(&mut log.read(0)).len(), 100);
    }

    #[test]
    fn what_cannot_be_put_into_a_file_stays_in_memory() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let log = log(Scratch::new(Some(file.path().join("below"))), 100);
        for n in 0..10 {
            log.append(said(n));
        }
        assert_eq!(places(&log), (10, 0));
        assert_eq!(all(&mut log.read(0)).len(), 10);
    }
}
