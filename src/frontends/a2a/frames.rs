//! What happens in a session, as bytes for the wire: each event is written once a dialect, however
//! many read it.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use bytes::Bytes;

use super::context::Context;
use super::dialect::Dialect;
use super::updates::{self, Names, Update};
use parking_lot::Mutex;
use tandem_agent::session::{Entry, Event, Reader, TurnId};

/// How many bytes are kept for the next reader of the same event.
const KEPT: usize = 8 << 20;

/// An update as bytes: what goes into `result`, or is a frame of its own.
#[derive(Debug, Clone)]
pub(super) struct Frame {
    /// Where in the log it is made from, and which of the events made from there: its `eventId`.
    pub(super) index: usize,
    pub(super) n: usize,
    pub(super) turn: TurnId,
    /// Whether it is what the user said.
    pub(super) echo: bool,
    /// Whether a stream of the turn ends with this, and why.
    pub(super) end: End,
    /// Whether it says where the task stands or what came of it, rather than how it goes.
    pub(super) notable: bool,
    pub(super) json: Bytes,
    /// The same for a stream that goes on after a question, if that is not the same.
    pub(super) going_on: Option<Bytes>,
}

/// Whether a stream ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    /// It goes on.
    No,
    /// Somebody is asked, and has to answer.
    Question,
    /// The turn is over.
    Turn,
}

/// The frames that were made last.
#[derive(Default)]
pub(super) struct Frames(Mutex<Kept>);

#[derive(Default)]
struct Kept {
    by_place: HashMap<(usize, Dialect), Arc<[Frame]>>,
    /// Oldest first.
    order: VecDeque<(usize, Dialect)>,
    bytes: usize,
}

impl Frames {
    /// The frames of one entry of the log.
    pub(super) fn of(&self, context: &Context, entry: &Entry, dialect: Dialect) -> Arc<[Frame]> {
        let place = (entry.index, dialect);
        if let Some(made) = self.0.lock().by_place.get(&place) {
            return Arc::clone(made);
        }
        let made: Arc<[Frame]> = make(context, entry, dialect).into();
        let size = size(&made);
        let mut kept = self.0.lock();
        kept.bytes += size;
        kept.by_place.insert(place, Arc::clone(&made));
        kept.order.push_back(place);
        while kept.bytes > KEPT
            && let Some(oldest) = kept.order.pop_front()
        {
            if let Some(frames) = kept.by_place.remove(&oldest) {
                kept.bytes -= self::size(&frames);
            }
        }
        made
    }
}

/// About how much memory they take.
fn size(frames: &[Frame]) -> usize {
    frames.iter().map(|frame| frame_len(frame) + size_of::<Frame>()).sum::<usize>() + 64
}

fn frame_len(frame: &Frame) -> usize {
    frame.json.len() + frame.going_on.as_ref().map_or(0, Bytes::len)
}

fn make(context: &Context, entry: &Entry, dialect: Dialect) -> Vec<Frame> {
    let model = context.session.model();
    let updates = context.story(|story| {
        let task = |turn| context.task_of(story, turn, dialect);
        updates::of(entry, story, &Names { context: &context.id, task: &task, model: &model })
    });
    let frame = |(n, mut update): (usize, Update)| {
        let end = match &*entry.event {
            _ if !update.is_final() => End::No,
            Event::TurnFinished { .. } => End::Turn,
            _ => End::Question,
        };
        let json = dialect.item(&update.event)?;
        let going_on = (end == End::Question && dialect == Dialect::V03).then(|| {
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

/// Reads a session's frames from a place on, at its own pace.
pub(super) struct Follow {
    pub(super) context: Arc<Context>,
    dialect: Dialect,
    log: Reader,
    made: Arc<[Frame]>,
    next: usize,
}

impl Follow {
    pub(super) fn new(context: &Arc<Context>, from: usize, dialect: Dialect) -> Self {
        Self {
            log: context.session.events(from),
            context: Arc::clone(context),
            dialect,
            made: Arc::new([]),
            next: 0,
        }
    }

    /// The next frame, when there is one. Nothing is lost if it is dropped while it waits.
    pub(super) async fn next(&mut self) -> Frame {
        loop {
            if let Some(frame) = self.rest() {
                return frame;
            }
            let entry = self.log.next_entry().await;
            self.take(&entry);
        }
    }

    /// The next frame, if there is one already.
    pub(super) fn try_next(&mut self) -> Option<Frame> {
        loop {
            if let Some(frame) = self.rest() {
                return Some(frame);
            }
            let entry = self.log.try_next_entry()?;
            self.take(&entry);
        }
    }

    /// Waits until there may be another. Nothing is taken.
    pub(super) async fn ready(&mut self) {
        if self.next >= self.made.len() {
            self.log.ready().await;
        }
    }

    /// From the next entry on, speaks another dialect.
    pub(super) fn speak(&mut self, dialect: Dialect) {
        self.dialect = dialect;
    }

    /// The index of the entry after the last one taken.
    pub(super) fn position(&self) -> usize {
        self.log.position()
    }

    fn take(&mut self, entry: &Entry) {
        self.made = self.context.frames.of(&self.context, entry, self.dialect);
        self.next = 0;
    }

    fn rest(&mut self) -> Option<Frame> {
        let frame = self.made.get(self.next).cloned()?;
        self.next += 1;
        Some(frame)
    }
}
