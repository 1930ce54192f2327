//! A reader of a session's events as frames.

use std::sync::Arc;

use futures::FutureExt as _;
use tokio::task::{JoinError, spawn_blocking};
use tokio_util::task::AbortOnDropHandle;

use super::context::SessionContext;
use super::dialect::Dialect;
use super::frames::{Frame, FramesKey, StreamEnd};
use super::results::{TurnChanges, made_or_empty};
use super::updates::{self, TaskNames, TaskUpdate};
use tandem_agent::session::{Entry, Event, Reader};
use tandem_agent::sessions::{Lease, Leased};

/// Reader of a session's frames from a log index on, at its own pace.
pub(super) struct Follow {
    pub(super) context: Arc<SessionContext>,
    /// Lease that keeps the session loaded for the reader; `None` for a reader that does not keep the session loaded.
    _lease: Option<Lease>,
    dialect: Dialect,
    text_only: bool,
    log: Reader,
    made: Arc<[Frame]>,
    next: usize,
    /// The next frames after `made`, while they are being made.
    making: Option<MakingFrames>,
}

/// Frames of an entry, being made off the runtime's thread.
struct MakingFrames {
    /// Index of the entry.
    index: usize,
    frames: AbortOnDropHandle<Result<Arc<[Frame]>, JoinError>>,
}

impl Follow {
    /// Makes a reader that keeps the session loaded.
    pub(super) fn leased(context: &Leased<SessionContext>, from: usize, dialect: Dialect) -> Self {
        Self { _lease: Some(context.lease().clone()), ..Self::new(context, from, dialect) }
    }

    /// Makes a reader that does not keep the session loaded.
    pub(super) fn new(context: &Arc<SessionContext>, from: usize, dialect: Dialect) -> Self {
        Self {
            log: context.events(from),
            context: Arc::clone(context),
            _lease: None,
            dialect,
            text_only: false,
            made: Arc::new([]),
            next: 0,
            making: None,
        }
    }

    /// Makes the frames contain text only, if the client takes no data.
    pub(super) fn in_text(self, text_only: bool) -> Self {
        Self { text_only, ..self }
    }

    /// Waits for the next frame, and returns it. No frame is lost if this future is dropped.
    pub(super) async fn next(&mut self) -> Frame {
        loop {
            if let Some(frame) = self.next_past().await {
                return frame;
            }
            let entry = self.log.next_entry().await;
            self.make_frames(entry);
        }
    }

    /// Returns the next frame of the entries that are in the log already; waits only while the frame is being
    /// made. No frame is lost if this future is dropped.
    pub(super) async fn next_past(&mut self) -> Option<Frame> {
        loop {
            if let Some(frame) = self.try_next() {
                return Some(frame);
            }
            self.making.as_ref()?;
            self.made().await;
        }
    }

    /// Returns the next frame if it is made already, or can be made at once.
    pub(super) fn try_next(&mut self) -> Option<Frame> {
        loop {
            if let Some(frame) = self.rest() {
                return Some(frame);
            }
            if self.making.is_some() {
                self.made().now_or_never()?;
            } else {
                let entry = self.log.try_next_entry()?;
                self.make_frames(entry);
            }
        }
    }

    /// Waits until there may be another frame, or another process has taken the session over. Consumes no
    /// frame.
    pub(super) async fn ready(&mut self) {
        if self.next < self.made.len() {
            return;
        }
        if self.making.is_some() {
            return self.made().await;
        }
        tokio::select! {
            () = self.log.ready() => {}
            () = self.context.moved() => {}
        }
    }

    /// Returns the dialect of the frames.
    pub(super) fn dialect(&self) -> Dialect {
        self.dialect
    }

    /// Changes the dialect of the frames, from the next entry on.
    pub(super) fn speak(&mut self, dialect: Dialect) {
        self.dialect = dialect;
    }

    /// Returns the index of the first entry whose frames are not made yet.
    pub(super) fn position(&self) -> usize {
        self.making.as_ref().map_or_else(|| self.log.position(), |making| making.index)
    }

    /// Makes the frames of an entry; frames that need a comparison of files are only begun, off the runtime's
    /// thread.
    fn make_frames(&mut self, entry: Entry) {
        let (dialect, text_only) = (self.dialect, self.text_only);
        let key = FramesKey { index: entry.index, dialect, text_only };
        self.next = 0;
        if let Some(made) = self.context.frames.kept(key) {
            self.made = made;
        } else if changes(&self.context, &entry).is_none_or(|changes| changes.is_empty()) {
            self.made = self.context.frames.get_or_make(key, || make(&self.context, &entry, key));
        } else {
            self.made = Arc::new([]);
            let index = entry.index;
            let frames = tokio::spawn(make_off_thread(Arc::clone(&self.context), entry, key));
            self.making = Some(MakingFrames { index, frames: AbortOnDropHandle::new(frames) });
        }
    }

    /// Waits for the frames in `making`, and moves them to `made`. No frame is lost if this future is
    /// dropped.
    async fn made(&mut self) {
        let Some(making) = &mut self.making else { return };
        self.made = made_or_empty((&mut making.frames).await.flatten());
        self.making = None;
    }

    fn rest(&mut self) -> Option<Frame> {
        let frame = self.made.get(self.next).cloned()?;
        self.next += 1;
        Some(frame)
    }
}

/// Returns the changes of the turn whose end an entry records; `None` for any other entry.
fn changes(context: &SessionContext, entry: &Entry) -> Option<TurnChanges> {
    let Event::TurnFinished { turn, .. } = &*entry.event else { return None };
    Some(context.records(|records| TurnChanges::of(records, *turn)))
}

/// Makes the frames of an entry off the runtime's thread, since files are compared for them.
async fn make_off_thread(
    context: Arc<SessionContext>,
    entry: Entry,
    key: FramesKey,
) -> Result<Arc<[Frame]>, JoinError> {
    let making = context.frames.lock_making().await;
    let make = move || {
        let _making = making;
        context.frames.get_or_make(key, || make(&context, &entry, key))
    };
    spawn_blocking(make).await
}

fn make(context: &SessionContext, entry: &Entry, key: FramesKey) -> Vec<Frame> {
    let FramesKey { dialect, text_only, .. } = key;
    let model = context.model();
    let results = changes(context, entry).map(TurnChanges::artifacts).unwrap_or_default();
    let updates = context.records(|records| {
        let task = |turn| context.task_of(records, turn, dialect);
        let names = TaskNames { context: &context.id, task: &task, model: &model };
        updates::of_entry(entry, records, &names, results)
    });
    let frame = |(n, mut update): (usize, TaskUpdate)| {
        if text_only && !update.keep_text() {
            return None;
        }
        let end = match &*entry.event {
            _ if !update.is_final() => StreamEnd::No,
            Event::TurnFinished { .. } => StreamEnd::Turn,
            _ => StreamEnd::Question,
        };
        let json = dialect.item(&update.event)?;
        let going_on = (end != StreamEnd::No && dialect == Dialect::V03).then(|| {
            update.go_on();
            dialect.item(&update.event)
        });
        Some(Frame {
            index: entry.index,
            n,
            turn: update.turn,
            echo: update.echo,
            end,
            notable: update.is_notable(dialect),
            json,
            going_on: going_on.flatten(),
        })
    };
    updates.into_iter().enumerate().filter_map(frame).collect()
}
