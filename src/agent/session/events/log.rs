//! The events of a session, kept in order and read by any number of readers.
//!
//! Readers pull at their own pace from one shared list, so a slow one loses nothing, holds up
//! nobody and needs no queue of its own; a late or returning one starts anywhere. The price is
//! that a session keeps all its events; the oldest of many are in a file.

mod shelf;

use std::collections::BTreeMap;
use std::fs::File;
use std::mem::{self, Discriminant};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{SystemTime, UNIX_EPOCH};

use tokio::sync::watch;
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};

pub(crate) use self::shelf::Shelf;
use self::shelf::{FileSlice, size};
use super::event::Event;
use parking_lot::Mutex;

/// Milliseconds since the beginning of 1970, UTC.
pub type Millis = i64;

/// An event, and its place in the log.
#[derive(Debug, Clone)]
pub struct Entry {
    /// Place in the log, from 0.
    pub index: usize,
    /// Time at which it happened.
    pub at: Millis,
    /// The event.
    pub event: Arc<Event>,
}

/// The list of a session's events. Cheap to clone: all clones are the same list.
#[derive(Clone)]
pub struct Log {
    shared: Arc<LogShared>,
}

struct LogShared {
    events: Mutex<LogEvents>,
    /// Number of events; the session's own readers wait on it.
    count: watch::Sender<usize>,
    /// Number of events that outlive the process; front ends wait on it.
    kept: watch::Sender<usize>,
    /// Number of events that outlive a loss of power.
    synced: watch::Sender<usize>,
    /// Index after the last event that must be written at once.
    urgent: watch::Sender<usize>,
    /// Number of events that somebody wants synced.
    sync_wanted: watch::Sender<usize>,
    /// `true` if an event could not be read from the file of the oldest.
    is_damaged: AtomicBool,
    /// Fires when no further event will be kept.
    abandoned: CancellationToken,
    /// Reason for that.
    abandonment: OnceLock<Abandonment>,
}

/// Reason why no further event of a log is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Abandonment {
    /// Another process has taken the session over.
    TakenOver,
    /// The store has refused events for too long; its reason.
    Refused(String),
}

/// The party that says which events are kept. Changes under the lock of the events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PersistenceState {
    /// Nobody: there is no store. What happened is all there is, and counts as kept.
    Unstored,
    /// Nobody as long as the store refuses. Meanwhile what happened counts as kept.
    Refused,
    /// A store will, from the first event on that is worth it: a session without one is not worth a file.
    Unborn,
    /// The store.
    Stored,
    /// Nobody any more: the session has ended here, and no client is told what still happens.
    Abandoned,
}

struct LogEvents {
    persistence: PersistenceState,
    slots: Vec<LogSlot>,
    /// Runs of chunks that have ended, by the index of the first.
    runs: BTreeMap<usize, Run>,
    /// The run that goes on: the index of its first chunk, and of which kind they are.
    open: Option<(usize, Discriminant<Event>)>,
    /// No slot before this one is in memory.
    first: usize,
    /// Bytes of the events in memory, about.
    bytes: usize,
    /// File for the oldest events, if there are too many for memory.
    shelf: Shelf,
}

/// A place in the list.
enum LogSlot {
    /// Time, event, and about how many bytes it takes.
    Here(Millis, Arc<Event>, usize),
    /// Time, and the event's place in the file.
    Shelved(Millis, FileSlice),
    /// A later event has taken the place of this one.
    Gone,
}

/// Chunks of one text, one after the other, as one event: whoever only wants what has come of them
/// reads one.
struct Run {
    /// Index after the last chunk.
    end: usize,
    /// Time of the last chunk.
    at: Millis,
    whole: Whole,
}

/// The one event of a run.
enum Whole {
    /// Event, and about how many bytes it takes.
    Here(Arc<Event>, usize),
    Shelved(FileSlice),
}

/// Chunks that a run has at least.
const LEAST_CHUNKS: usize = 8;

impl Log {
    /// Makes an empty log that puts its oldest events on the shelf.
    pub(crate) fn new(shelf: Shelf) -> Self {
        let (slots, runs) = (Vec::new(), BTreeMap::new());
        let persistence = PersistenceState::Unstored;
        let events = LogEvents { persistence, slots, runs, open: None, first: 0, bytes: 0, shelf };
        Self {
            shared: Arc::new(LogShared {
                events: Mutex::new(events),
                count: watch::Sender::default(),
                kept: watch::Sender::default(),
                synced: watch::Sender::default(),
                urgent: watch::Sender::default(),
                sync_wanted: watch::Sender::default(),
                is_damaged: AtomicBool::default(),
                abandoned: CancellationToken::new(),
                abandonment: OnceLock::new(),
            }),
        }
    }

    /// Makes a log in memory, for tests of readers.
    pub fn in_memory() -> Self {
        Self::new(Shelf::new(Arc::new(tandem_host::scratch::Scratch::new(None)), usize::MAX))
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
        if is_worth_storing && events.persistence == PersistenceState::Unborn {
            events.persistence = PersistenceState::Stored;
        }
        match events.persistence {
            PersistenceState::Unstored | PersistenceState::Refused | PersistenceState::Unborn => {
                _ = self.shared.kept.send_replace(count);
            }
            PersistenceState::Stored if !is_chunk => _ = self.shared.urgent.send_replace(count),
            PersistenceState::Stored | PersistenceState::Abandoned => {}
        }
        // Last: who wakes by it finds all the rest as it is now.
        self.shared.count.send_replace(count);
        count - 1
    }

    /// Puts back an event that was read from a store, at its index: after all that are there.
    pub(crate) fn put_back(&self, index: usize, at: Millis, event: Arc<Event>) {
        let mut events = self.shared.events.lock();
        while events.slots.len() < index {
            events.slots.push(LogSlot::Gone);
        }
        events.push(at, event);
        let count = events.slots.len();
        self.shared.kept.send_replace(count);
        self.shared.count.send_replace(count);
    }

    /// Adds an event that takes the place of the one at `earlier`: a reader that has not read
    /// that one never will, and its memory is free.
    pub(crate) fn supersede(&self, earlier: Option<usize>, event: Event) -> usize {
        if let Some(earlier) = earlier {
            self.shared.events.lock().forget(earlier);
        }
        self.append(event)
    }

    /// Returns the number of events.
    #[expect(clippy::len_without_is_empty, reason = "a session's log begins with its first event")]
    pub fn len(&self) -> usize {
        *self.shared.count.borrow()
    }

    /// Returns a reader of everything from the index `from` on, past and to come.
    pub fn read(&self, from: usize) -> Reader {
        self.reader(from, &self.shared.count)
    }

    /// Everything from the index `from` on that is kept, past and to come: nobody is shown what a
    /// crash could still take back.
    pub fn read_kept(&self, from: usize) -> Reader {
        self.reader(from, &self.shared.kept)
    }

    fn reader(&self, from: usize, count: &watch::Sender<usize>) -> Reader {
        Reader { shared: Arc::clone(&self.shared), count: count.subscribe(), next: from }
    }

    /// Returns the index after the last event that is kept.
    pub(crate) fn kept_len(&self) -> usize {
        *self.shared.kept.borrow()
    }

    /// Waits until an event outlives the process. Returns `false` if it never will: what depends on it
    /// must not happen.
    #[must_use]
    pub(crate) async fn kept(&self, index: usize) -> bool {
        let mut kept = self.shared.kept.subscribe();
        tokio::select! {
            biased;
            // It cannot fail: `shared` holds the sender.
            _ = kept.wait_for(|kept| *kept > index) => true,
            () = self.shared.abandoned.cancelled() => false,
        }
    }

    /// Waits until no further event will be kept: another process adds to the log, or the store has refused for
    /// too long.
    pub(crate) fn abandoned(&self) -> WaitForCancellationFutureOwned {
        self.shared.abandoned.clone().cancelled_owned()
    }

    /// Returns the reason why no further event will be kept; `None` while events are kept.
    pub(crate) fn abandonment(&self) -> Option<&Abandonment> {
        self.shared.abandonment.get()
    }

    /// Waits until an event outlives a loss of power, as far as the store can say, or never will.
    pub(crate) async fn synced(&self, index: usize) {
        let mut synced = self.shared.synced.subscribe();
        if *synced.borrow() > index {
            return;
        }
        self.shared.sync_wanted.send_if_modified(|wanted| {
            let more = *wanted <= index;
            *wanted = (*wanted).max(index + 1);
            more
        });
        let mut kept = self.shared.kept.subscribe();
        loop {
            if *synced.borrow_and_update() > index || !self.is_stored() {
                return;
            }
            tokio::select! {
                _ = synced.changed() => {}
                // The store may have been given up.
                _ = kept.changed() => {}
                () = self.shared.abandoned.cancelled() => {}
            }
        }
    }

    /// Returns `true` if a store says which events are kept.
    pub(crate) fn is_stored(&self) -> bool {
        self.shared.events.lock().persistence == PersistenceState::Stored
    }

    /// Returns `true` while the store refuses, and events count as kept all the same.
    pub(crate) fn is_refused(&self) -> bool {
        self.shared.events.lock().persistence == PersistenceState::Refused
    }
}

/// The keeper's side: what it is told, and what it tells.
impl Log {
    /// From the first event on that is worth storing, a store says which events are kept.
    pub(crate) fn stored_when_worth_it(&self) {
        self.shared.events.lock().persistence = PersistenceState::Unborn;
    }

    /// From now on, a store says which events are kept.
    pub(crate) fn stored(&self) {
        self.shared.events.lock().persistence = PersistenceState::Stored;
    }

    /// From now on all events count as kept: there is no store any more.
    pub(crate) fn unstored(&self) {
        self.keep_nothing(PersistenceState::Unstored);
    }

    /// From now on all events count as kept, although the store refuses them.
    pub(crate) fn refused(&self) {
        self.keep_nothing(PersistenceState::Refused);
    }

    fn keep_nothing(&self, persistence: PersistenceState) {
        let mut events = self.shared.events.lock();
        events.persistence = persistence;
        self.shared.kept.send_replace(events.slots.len());
    }

    /// From now on no event is kept, and front ends read none: what is stored goes on from where it ends, here or
    /// in another process, at the same indexes.
    pub(crate) fn abandon(&self, reason: Abandonment) {
        self.shared.events.lock().persistence = PersistenceState::Abandoned;
        // A log may be given up for two reasons at once: the first is told.
        let _ = self.shared.abandonment.set(reason);
        self.shared.abandoned.cancel();
    }

    /// Returns `true` if not every event that was asked for could be read.
    pub(crate) fn is_damaged(&self) -> bool {
        self.shared.is_damaged.load(Ordering::Relaxed)
    }

    /// Waits for the first event that is worth storing.
    pub(crate) async fn born(&self) {
        let mut urgent = self.shared.urgent.subscribe();
        while !self.is_stored() {
            let _ = urgent.changed().await;
        }
    }

    /// Waits until an event from an index on must be written at once, or somebody waits for one.
    pub(crate) async fn urgent(&self, from: usize) {
        let mut urgent = self.shared.urgent.subscribe();
        let mut wanted = self.shared.sync_wanted.subscribe();
        tokio::select! {
            _ = urgent.wait_for(|urgent| *urgent > from) => {}
            _ = wanted.wait_for(|wanted| *wanted > from) => {}
        }
    }

    /// Returns `true` if somebody waits until events are synced that are not.
    pub(crate) fn wants_sync(&self) -> bool {
        *self.shared.sync_wanted.borrow() > *self.shared.synced.borrow()
    }

    /// Waits until somebody waits for that.
    pub(crate) async fn sync_wanted(&self) {
        let mut wanted = self.shared.sync_wanted.subscribe();
        let synced = *self.shared.synced.borrow();
        let _ = wanted.wait_for(|wanted| *wanted > synced).await;
    }

    /// Says that the events before an index are kept.
    pub(crate) fn set_kept(&self, end: usize) {
        let _events = self.shared.events.lock();
        self.shared.kept.send_if_modified(|kept| {
            let more = *kept < end;
            *kept = (*kept).max(end);
            more
        });
    }

    /// Says that the events before an index are synced.
    pub(crate) fn set_synced(&self, end: usize) {
        self.shared.synced.send_replace(end);
    }
}

impl LogEvents {
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
        self.make_room();
    }

    /// Puts the chunks of the run that ends here together. Those that are in the file already stay
    /// as they are.
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

    /// Puts the oldest events into the file if there are too many, some at once. If that cannot be
    /// done, all stay.
    fn make_room(&mut self) {
        let most = self.shelf.max_bytes();
        if self.bytes <= most {
            return;
        }
        let mut left = self.bytes;
        let mut oldest = Vec::new();
        let mut end = self.first;
        while left > most - most / SOME && end < self.slots.len() {
            if let LogSlot::Here(_, event, size) = &self.slots[end] {
                left -= size;
                oldest.push(Arc::clone(event));
            }
            end += 1;
        }
        let slots = oldest.len();
        for run in self.runs.range(self.first..end).map(|(_, run)| run) {
            if let Whole::Here(whole, size) = &run.whole {
                left -= size;
                oldest.push(Arc::clone(whole));
            }
        }
        match self.shelf.put(&oldest) {
            Ok(mut places) => {
                let mut of_runs = places.split_off(slots).into_iter();
                for run in self.runs.range_mut(self.first..end).map(|(_, run)| run) {
                    if let Whole::Here(..) = run.whole
                        && let Some(place) = of_runs.next()
                    {
                        run.whole = Whole::Shelved(place);
                    }
                }
                let mut places = places.into_iter();
                for slot in &mut self.slots[self.first..end] {
                    if let LogSlot::Here(at, ..) = slot
                        && let Some(place) = places.next()
                    {
                        *slot = LogSlot::Shelved(*at, place);
                    }
                }
                (self.first, self.bytes) = (end, left);
            }
            Err(err) => {
                tracing::warn!(%err, "the log stays in memory");
                self.shelf.stop();
            }
        }
    }
}

/// The share of what may be in memory that goes into the file at once.
const SOME: usize = 16;

/// Reads a log from an index on.
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

    /// Waits for the next event, with its place. Whoever reads many lets others run.
    pub async fn next_entry(&mut self) -> Entry {
        tokio::task::coop::consume_budget().await;
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

    /// Returns the next event, if there is one already.
    pub fn try_next(&mut self) -> Option<Arc<Event>> {
        self.try_next_entry().map(|entry| entry.event)
    }

    /// Returns the next event with its place, if there is one already.
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
                LogSlot::Shelved(at, place) => {
                    break (index, *at, *place, events.shelf.file());
                }
                LogSlot::Gone => {}
            }
        };
        drop(events);
        Some(Entry { index, at, event: self.read_shelved(file, place) })
    }

    /// Returns the next event with its place, if there is one already. Chunks of a text that has ended come
    /// as one, at the place of the first and with the time of the last.
    pub fn try_next_run(&mut self) -> Option<Entry> {
        let count = *self.count.borrow();
        let events = self.shared.events.lock();
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
            Whole::Shelved(place) => (*place, events.shelf.file()),
        };
        drop(events);
        Some(Entry { index, at, event: self.read_shelved(file, place) })
    }

    /// Returns the event that [`Reader::try_next`] would return, and leaves it where it is.
    pub fn peek(&mut self) -> Option<Arc<Event>> {
        let event = self.try_next();
        if event.is_some() {
            self.next -= 1;
        }
        event
    }

    /// Returns a reader of the same log, from its first event on.
    #[must_use]
    pub fn restarted(&self) -> Self {
        Self { shared: Arc::clone(&self.shared), count: self.count.clone(), next: 0 }
    }

    /// Skips what comes before an index.
    pub fn skip_to(&mut self, index: usize) {
        self.next = self.next.max(index);
    }

    /// Returns the index of the event after the last one returned.
    pub fn position(&self) -> usize {
        self.next
    }

    /// Reads an event from the file, or says in its place why that cannot be done.
    fn read_shelved(&self, file: Option<Arc<File>>, place: FileSlice) -> Arc<Event> {
        let event = file.ok_or_else(|| "its file is gone".to_owned()).and_then(|file| {
            shelf::read(&file, place).map_err(|err| format!("its file cannot be read: {err}"))
        });
        Arc::new(event.unwrap_or_else(|why| {
            self.shared.is_damaged.store(true, Ordering::Relaxed);
            Event::Notice(format!("Something that has happened is not shown: {why}"))
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
    use super::*;
    use tandem_host::scratch::Scratch;

    fn said(n: usize) -> Event {
        Event::Text(format!("{n}: {}", "words ".repeat(10)))
    }

    fn log(scratch: Scratch, max_bytes: usize) -> Log {
        Log::new(Shelf::new(Arc::new(scratch), max_bytes))
    }

    fn all(reader: &mut Reader) -> Vec<(usize, Event)> {
        let entries = std::iter::from_fn(|| reader.try_next_entry());
        entries.map(|entry| (entry.index, (*entry.event).clone())).collect()
    }

    /// Returns the numbers of events in memory and in the file.
    fn places(log: &Log) -> (usize, usize) {
        let events = log.shared.events.lock();
        let count = |is: fn(&LogSlot) -> bool| events.slots.iter().filter(|slot| is(slot)).count();
        let here = count(|slot| matches!(slot, LogSlot::Here(..)));
        (here, count(|slot| matches!(slot, LogSlot::Shelved(..))))
    }

    #[test]
    fn of_many_events_the_oldest_are_in_a_file_and_read_as_ever() {
        let dir = tempfile::tempdir().unwrap();
        let one = size(&said(100));
        let log = log(Scratch::new(Some(dir.path().to_owned())), 32 * one);
        let mut slow = log.read(0);
        for n in 0..200 {
            log.append(said(n));
            let (here, shelved) = places(&log);
            assert!(here <= 33 && here + shelved == n + 1, "{here} {shelved}");
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
        // In memory, and in the file.
        for max_bytes in [usize::MAX, 2000] {
            let log = log(Scratch::new(Some(dir.path().to_owned())), max_bytes);
            log.append(Event::Forgotten);
            for _ in 0..5 {
                log.append(Event::Thought("t".to_owned()));
            }
            for _ in 0..1000 {
                log.append(Event::Text("x".to_owned()));
            }
            // It may go on.
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
            // Whoever stands in the middle goes on from there, and every cursor is good.
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
        let (here, shelved) = places(&log);
        assert!(here < 200 && shelved > 20, "{here} {shelved}");
        let first = log.read(0).try_next_run().unwrap();
        assert_eq!((first.index, &*first.event), (0, &Event::Text("x".repeat(20))));
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
