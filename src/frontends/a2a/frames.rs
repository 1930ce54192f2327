//! What happens in a session, as bytes for the wire: each event is written once a dialect, however
//! many read it.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use bytes::Bytes;
use serde::Serialize;
use serde_json::Value;

use super::context::Context;
use super::updates::{self, Names, News, Update};
use super::{flat, v1};
use parking_lot::Mutex;
use tandem_agent::session::{Entry, Event, Reader, TurnId};

/// How many bytes are kept for the next reader of the same event.
const KEPT: usize = 8 << 20;

/// How a client wants to be told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Dialect {
    /// A2A 0.3.
    V03,
    /// A2A 1.0.
    V1,
    /// What clients of an early implementation read: no envelope at all.
    Flat,
}

impl Dialect {
    /// The version of the protocol, for the log.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::V03 => "0.3",
            Self::V1 => "1.0",
            Self::Flat => "flat",
        }
    }

    /// The id of the task that a turn is part of: the session's own, for 0.3; version 1.0 has a
    /// task a turn.
    pub(super) fn task(self, context: &str, turn: TurnId) -> String {
        match self {
            Self::V03 | Self::Flat => context.to_owned(),
            Self::V1 => format!("{context}.{}", turn.0),
        }
    }
}

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
    frames.iter().map(|frame| frame.json.len() + size_of::<Frame>()).sum::<usize>() + 64
}

fn make(context: &Context, entry: &Entry, dialect: Dialect) -> Vec<Frame> {
    let model = context.session.model();
    let updates = context.story(|story| {
        let task = |turn| context.task_of(story, turn, dialect);
        updates::of(entry, story, &Names { context: &context.id, task: &task, model: &model })
    });
    let frame = |(n, update): (usize, Update)| {
        Some(Frame {
            index: entry.index,
            n,
            turn: update.turn,
            echo: update.echo,
            end: match &*entry.event {
                _ if !update.is_final() => End::No,
                Event::TurnFinished { .. } => End::Turn,
                _ => End::Question,
            },
            notable: update.is_notable(dialect),
            json: bytes(&update.news, dialect)?,
        })
    };
    updates.into_iter().enumerate().filter_map(frame).collect()
}

/// The news as JSON, if that dialect has it.
fn bytes(news: &News, dialect: Dialect) -> Option<Bytes> {
    let value = match (dialect, news) {
        (Dialect::V03, News::Status(status)) => return Some(json(status)),
        (Dialect::V03, News::Artifact(update)) => return Some(json(update)),
        (Dialect::Flat, News::Artifact(_)) => return None,
        (Dialect::V1, News::Status(status)) => v1::item(serde_json::to_value(status).ok()?),
        (Dialect::V1, News::Artifact(update)) => v1::item(serde_json::to_value(update).ok()?),
        (Dialect::Flat, News::Status(status)) => flat::frame(status)?,
    };
    Some(json(&value))
}

/// As JSON; what cannot be written (nothing can) would be `null`.
pub(super) fn json(value: &impl Serialize) -> Bytes {
    serde_json::to_vec(value).map_or_else(|_| Bytes::from_static(b"null"), Bytes::from)
}

/// The same in the dialect's form.
pub(super) fn object(value: Value, dialect: Dialect) -> Value {
    if dialect == Dialect::V1 { v1::object(value) } else { value }
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
