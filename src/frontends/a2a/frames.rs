//! Events of a session as bytes for the wire. Each event is serialized once per dialect, for all readers
//! together.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use tokio::sync::OwnedMutexGuard;

use super::dialect::Dialect;
use parking_lot::Mutex;
use tandem_agent::session::TurnId;

/// Maximum size in bytes of the frames that are cached for further readers of the same events.
const MAX_CACHED_BYTES: usize = 8 << 20;

/// Position of a frame in a session, which clients know as its `eventId`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(from = "(usize, usize)", into = "(usize, usize)")]
pub(super) struct FramePosition {
    /// Index of the log entry that the frame is made from.
    pub(super) index: usize,
    /// Number of the frame among the frames of the same entry.
    pub(super) n: usize,
}

impl From<(usize, usize)> for FramePosition {
    fn from((index, n): (usize, usize)) -> Self {
        Self { index, n }
    }
}

impl From<FramePosition> for (usize, usize) {
    fn from(FramePosition { index, n }: FramePosition) -> Self {
        (index, n)
    }
}

/// An update as bytes: the content of a JSON-RPC `result`, or a frame of its own.
#[derive(Debug, Clone)]
pub(super) struct Frame {
    /// Index of the log entry that the frame is made from, and number of the frame among those of the same
    /// entry. Together they are the [`FramePosition`].
    pub(super) index: usize,
    pub(super) n: usize,
    pub(super) turn: TurnId,
    /// `true` for a user's prompt, which its author knows.
    pub(super) echo: bool,
    /// Reason for a stream of the turn to end with this frame, if any.
    pub(super) end: StreamEnd,
    /// `true` for a change of state or a result, `false` for progress.
    pub(super) notable: bool,
    pub(super) json: Bytes,
    /// The frame for a stream that continues after it; `None` if that is the same as `json`.
    pub(super) going_on: Option<Bytes>,
}

impl Frame {
    /// Returns the position of the frame in its session.
    pub(super) fn position(&self) -> FramePosition {
        FramePosition { index: self.index, n: self.n }
    }
}

/// Reason for a stream to end, if any.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StreamEnd {
    /// The stream continues.
    No,
    /// A question that a client has to answer.
    Question,
    /// The end of the turn.
    Turn,
}

/// Cache of the frames that were made last.
#[derive(Default)]
pub(super) struct Frames {
    cache: Mutex<FrameCache>,
    /// Lock while frames are made off the runtime's thread, so that a second reader waits and finds them in
    /// the cache.
    making: Arc<tokio::sync::Mutex<()>>,
}

/// Key of the cache: a log entry and a form of its frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct FramesKey {
    /// Index of the log entry.
    pub(super) index: usize,
    pub(super) dialect: Dialect,
    /// `true` for clients that accept text, but no data.
    pub(super) text_only: bool,
}

#[derive(Default)]
struct FrameCache {
    by_key: HashMap<FramesKey, Arc<[Frame]>>,
    /// The keys of `by_key`, oldest first.
    order: VecDeque<FramesKey>,
    bytes: usize,
}

impl Frames {
    /// Returns the frames of a log entry from the cache, if they are there.
    pub(super) fn kept(&self, key: FramesKey) -> Option<Arc<[Frame]>> {
        self.cache.lock().by_key.get(&key).map(Arc::clone)
    }

    /// Waits until no other reader makes frames off the runtime's thread, and keeps others from it as long as
    /// the guard lives.
    pub(super) async fn lock_making(&self) -> OwnedMutexGuard<()> {
        Arc::clone(&self.making).lock_owned().await
    }

    /// Returns the frames of a log entry from the cache, and makes them if they are not in the cache.
    pub(super) fn get_or_make(
        &self,
        key: FramesKey,
        new: impl FnOnce() -> Vec<Frame>,
    ) -> Arc<[Frame]> {
        if let Some(made) = self.kept(key) {
            return made;
        }
        let made: Arc<[Frame]> = new().into();
        let size = size(&made);
        let mut kept = self.cache.lock();
        kept.bytes += size;
        kept.by_key.insert(key, Arc::clone(&made));
        kept.order.push_back(key);
        while kept.bytes > MAX_CACHED_BYTES
            && let Some(oldest) = kept.order.pop_front()
        {
            if let Some(frames) = kept.by_key.remove(&oldest) {
                kept.bytes -= self::size(&frames);
            }
        }
        made
    }
}

/// Returns the approximate memory that frames take, in bytes.
fn size(frames: &[Frame]) -> usize {
    frames.iter().map(|frame| frame_len(frame) + size_of::<Frame>()).sum::<usize>() + 64
}

fn frame_len(frame: &Frame) -> usize {
    frame.json.len() + frame.going_on.as_ref().map_or(0, Bytes::len)
}
