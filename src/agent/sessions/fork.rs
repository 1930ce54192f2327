//! Forks: copies of stored sessions, which are independent of the original.

use std::collections::BTreeSet;
use std::fmt;
use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::Path;
use std::sync::Arc;

use futures::StreamExt as _;

use crate::session::{
    Batch, BatchSummary, Event, ForkPoint, Head, SessionStarted, Shares, Store, StoreError, Stored,
    TaskEvent, WriteLease,
};
use tandem_content::blocking::blocking;

/// Directories of a session's files. `true`: the copy may share the files by hard links, because these files never
/// change once they are written.
const FORKED_DIRECTORIES: [(&str, bool); 2] = [("blobs", true), ("outputs", false)];

/// Reason why a session is not copied.
#[derive(Debug)]
pub enum ForkError {
    /// No turn of the session has ended.
    Empty,
    /// The store refused.
    Store(StoreError),
}

impl fmt::Display for ForkError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str("nothing has been said yet"),
            Self::Store(error) => f.write_str(&error.for_clients()),
        }
    }
}

impl std::error::Error for ForkError {}

impl From<StoreError> for ForkError {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

/// Copies a whole stored session, which may be open. Returns the head of the copy. A part of the log that cannot be
/// read is left out.
pub async fn fork(store: &dyn Store, id: &str) -> Result<Head, StoreError> {
    let batches = read(store, id).await?;
    write(store, id, batches, None).await
}

/// Copies the turns of a session that have ended, as a checkpoint if a tag is given. The running turn is left out, so a
/// turn may copy its own session.
pub async fn fork_ended(
    store: &dyn Store,
    id: &str,
    tag: Option<String>,
) -> Result<Head, ForkError> {
    let batches = without_open_turns(read(store, id).await?);
    let is_turn = |event: &Event| matches!(event, Event::TurnStarted { .. });
    if !batches.iter().flat_map(|batch| &batch.events).any(|(_, event)| is_turn(event)) {
        return Err(ForkError::Empty);
    }
    Ok(write(store, id, batches, tag).await?)
}

async fn read(store: &dyn Store, id: &str) -> Result<Vec<Batch>, StoreError> {
    let mut log = store.read(id).await?;
    let mut batches = Vec::new();
    while let Some(piece) = log.next().await {
        batches.extend(piece?.into_iter().filter_map(|stored| match stored {
            Stored::Batch(batch) => Some(batch),
            Stored::Damaged(_) => None,
        }));
    }
    Ok(batches)
}

/// Writes a copy of a session, with these batches as its log. Returns the head of the copy.
async fn write(
    store: &dyn Store,
    id: &str,
    batches: Vec<Batch>,
    tag: Option<String>,
) -> Result<Head, StoreError> {
    let new_id = uuid::Uuid::now_v7().to_string();
    let index = batches.last().map_or(0, Batch::end);
    let head = Head {
        id: new_id.clone(),
        created: now(),
        context: None,
        from: Some(ForkPoint { id: id.to_owned(), index, program: None }),
        tag,
        ..store.head(id).await?
    };
    if let (Some(from), Some(to)) = (store.directory(id), store.directory(&new_id)) {
        let copied = blocking(move || copy_files(&from, &to)).await;
        copied.map_err(io::Error::other)??;
    }
    let (old_id, copy_id) = (id.to_owned(), new_id.clone());
    let copy = move || {
        let batches = batches.into_iter();
        batches.flat_map(|batch| copied(batch, &old_id, &copy_id)).collect()
    };
    let batches = blocking(copy).await.map_err(io::Error::other)?;
    create_whole(store, &head, batches).await?;
    Ok(head)
}

/// Creates a session with a log, as a whole or not at all.
async fn create_whole(
    store: &dyn Store,
    head: &Head,
    batches: Vec<Batch>,
) -> Result<Box<dyn WriteLease>, StoreError> {
    let mut lease = store.create(head).await?;
    if let Err(err) = write_fork(store, &mut *lease, head, batches).await {
        // Half a copy would look like a whole session.
        drop(lease);
        let _ = store.delete(&head.id).await;
        return Err(err);
    }
    Ok(lease)
}

async fn write_fork(
    store: &dyn Store,
    lease: &mut dyn WriteLease,
    head: &Head,
    batches: Vec<Batch>,
) -> Result<(), StoreError> {
    if let (Some(shared), Some(original)) = (store.shared(), &head.from) {
        shared.copy_files(&original.id, &head.id).await?;
    }
    lease.append(batches).await?;
    lease.sync().await
}

fn now() -> i64 {
    jiff::Timestamp::now().as_millisecond()
}

/// Returns a log without the turns that have not ended: without all events since the start of the running turn, and
/// without waiting turns. Sets the number of turns in the summaries anew.
fn without_open_turns(batches: Vec<Batch>) -> Vec<Batch> {
    let mut running = None;
    for (index, event) in batches.iter().flat_map(indexed) {
        match event {
            Event::TurnStarted { turn } => running = Some((*turn, index)),
            Event::TurnFinished { turn, .. } => _ = running.take_if(|(it, _)| it == turn),
            _ => {}
        }
    }
    let end = running.map_or(usize::MAX, |(_, index)| index);
    let events = batches.iter().flat_map(indexed).take_while(|(index, _)| *index < end);
    let ended: BTreeSet<_> = events
        .filter_map(|(_, event)| match event {
            Event::TurnFinished { turn, .. } => Some(*turn),
            _ => None,
        })
        .collect();
    let mut turns = 0;
    let keep = |index, event: Arc<Event>| match *event {
        _ if index >= end => None,
        Event::TurnQueued { turn, .. } if !ended.contains(&turn) => None,
        _ => Some(event),
    };
    let mut batches: Vec<_> = batches.into_iter().flat_map(|batch| mapped(batch, keep)).collect();
    for batch in &mut batches {
        for (_, event) in indexed(batch) {
            if let Event::TurnQueued { turn, .. } = event {
                turns = turns.max(turn.0);
            }
        }
        batch.summary.iter_mut().for_each(|summary| summary.turns = turns);
    }
    batches
}

fn indexed(batch: &Batch) -> impl Iterator<Item = (usize, &Event)> {
    (batch.first..).zip(batch.events.iter().map(|(_, event)| &**event))
}

/// Returns a batch as the copy has it: with the copy's id, with paths to the copy's files, and without the tasks of A2A
/// clients, who know only the original. Indexes stay.
fn copied(batch: Batch, old_id: &str, id: &str) -> Vec<Batch> {
    mapped(batch, |_, event| match &*event {
        // The copy has the owner of the original, and is shared with nobody.
        Event::Task(TaskEvent::Owned { .. }) => Some(event),
        Event::Task(_) => None,
        Event::SessionStarted(started) => {
            let started = SessionStarted { id: id.to_owned(), ..(**started).clone() };
            Some(Arc::new(Event::SessionStarted(Arc::new(started))))
        }
        _ => Some(with_files(event, old_id, id)),
    })
}

/// Returns a batch with its events mapped, as several batches if `map` drops events: a batch has no gaps.
fn mapped(batch: Batch, map: impl Fn(usize, Arc<Event>) -> Option<Arc<Event>>) -> Vec<Batch> {
    let mut batches: Vec<Batch> = Vec::new();
    for (index, (at, event)) in (batch.first..).zip(batch.events) {
        let Some(event) = map(index, event) else { continue };
        if batches.last().is_none_or(|last| last.end() != index) {
            batches.push(Batch { first: index, ..Batch::default() });
        }
        if let Some(last) = batches.last_mut() {
            last.events.push((at, event));
        }
    }
    if let Some(last) = batches.last_mut() {
        last.summary = batch.summary.map(|it| BatchSummary { shares: Shares::new(), ..it });
    }
    batches
}

/// Returns an event in which the paths to the original's long outputs are replaced by those of the copy. The model was
/// told the paths, so they can be in the middle of any text.
fn with_files(event: Arc<Event>, old_id: &str, id: &str) -> Arc<Event> {
    let path = |id: &str| format!("/{id}/outputs/");
    let Ok(json) = serde_json::to_string(&*event) else { return event };
    if !json.contains(&path(old_id)) {
        return event;
    }
    serde_json::from_str(&json.replace(&path(old_id), &path(id))).map_or(event, Arc::new)
}

fn copy_files(from: &Path, to: &Path) -> io::Result<()> {
    for (name, is_shared) in FORKED_DIRECTORIES {
        let entries = match fs::read_dir(from.join(name)) {
            Err(err) if err.kind() == ErrorKind::NotFound => continue,
            entries => entries?,
        };
        let to = to.join(name);
        fs::DirBuilder::new().recursive(true).mode(0o700).create(&to)?;
        for entry in entries {
            let entry = entry?;
            if !entry.file_type()?.is_file() {
                continue;
            }
            let to = to.join(entry.file_name());
            // Some file systems have no hard links. Then the file is copied.
            if !is_shared || fs::hard_link(entry.path(), &to).is_err() {
                fs::copy(entry.path(), &to)?;
            }
        }
    }
    Ok(())
}
