//! A copy of a stored session, which goes its own way.

use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::Path;
use std::sync::Arc;

use futures::StreamExt as _;

use crate::session::{
    Batch, Claim, Event, ForkPoint, Head, SessionStarted, Store, StoreError, Stored,
};

/// Directories of a session's files, and whether the copy may share them: what is not changed any
/// more once it is written.
const FILES: [(&str, bool); 2] = [("blobs", true), ("outputs", false)];

/// Copies a stored session, up to its end; it may be open. Returns the copy's head. A part that
/// cannot be read is left out.
pub async fn fork(store: &dyn Store, id: &str) -> Result<Head, StoreError> {
    let original = store.head(id).await?;
    let mut log = store.read(id).await?;
    let (mut first, mut rest, mut end) = (Vec::new(), Vec::new(), 0);
    while let Some(piece) = log.next().await {
        for stored in piece? {
            let Stored::Batch(batch) = stored else { continue };
            end = batch.end();
            if first.is_empty() { first.push(batch) } else { rest.push(batch) }
        }
    }
    let new_id = uuid::Uuid::now_v7().to_string();
    let head = Head {
        id: new_id.clone(),
        created: now(),
        from: Some(ForkPoint { id: id.to_owned(), index: end }),
        ..original
    };
    if let (Some(from), Some(to)) = (store.directory(id), store.directory(&new_id)) {
        let copied = tokio::task::spawn_blocking(move || copy_files(&from, &to)).await;
        copied.map_err(io::Error::other)??;
    }
    let mut claim = store.create(&head).await?;
    let (old_id, copy_id) = (id.to_owned(), new_id.clone());
    let copy = move || {
        let batches = first.into_iter().chain(rest);
        batches.flat_map(|batch| copied(batch, &old_id, &copy_id)).collect()
    };
    let batches = tokio::task::spawn_blocking(copy).await.map_err(io::Error::other)?;
    if let Err(err) = append(&mut *claim, batches).await {
        // Half a copy would look like a whole one.
        drop(claim);
        let _ = store.delete(&new_id).await;
        return Err(err);
    }
    Ok(head)
}

async fn append(claim: &mut dyn Claim, batches: Vec<Batch>) -> Result<(), StoreError> {
    claim.append(batches).await?;
    claim.sync().await
}

fn now() -> i64 {
    jiff::Timestamp::now().as_millisecond()
}

/// Returns a batch as the copy has it: under its own id, with its own files, and without the tasks of
/// A2A clients, who know only the original. Indexes stay.
fn copied(batch: Batch, old_id: &str, id: &str) -> Vec<Batch> {
    let mut batches = vec![Batch { first: batch.first, ..Batch::default() }];
    for (index, (at, event)) in (batch.first..).zip(batch.events) {
        if matches!(*event, Event::Task(_)) {
            batches.push(Batch { first: index + 1, ..Batch::default() });
            continue;
        }
        let event = match &*event {
            Event::SessionStarted(started) => {
                let started = SessionStarted { id: id.to_owned(), ..(**started).clone() };
                Arc::new(Event::SessionStarted(Arc::new(started)))
            }
            _ => with_files(event, old_id, id),
        };
        if let Some(last) = batches.last_mut() {
            last.events.push((at, event));
        }
    }
    batches.retain(|batch| !batch.events.is_empty());
    if let Some(last) = batches.last_mut() {
        last.summary = batch.summary;
    }
    batches
}

/// Returns an event in which the paths of the original's long outputs lead to those of the copy: the
/// model was told them, in the middle of any text.
fn with_files(event: Arc<Event>, old_id: &str, id: &str) -> Arc<Event> {
    let path = |id: &str| format!("/{id}/outputs/");
    let Ok(json) = serde_json::to_string(&*event) else { return event };
    if !json.contains(&path(old_id)) {
        return event;
    }
    serde_json::from_str(&json.replace(&path(old_id), &path(id))).map_or(event, Arc::new)
}

fn copy_files(from: &Path, to: &Path) -> io::Result<()> {
    for (name, is_shared) in FILES {
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
            // Not every file system has links.
            if !is_shared || fs::hard_link(entry.path(), &to).is_err() {
                fs::copy(entry.path(), &to)?;
            }
        }
    }
    Ok(())
}
