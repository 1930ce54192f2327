//! Events of a session as bytes for the wire: each event is written once a dialect, however many
//! read it.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::OwnedMutexGuard;

use super::dialect::Dialect;
use parking_lot::Mutex;
use tandem_agent::session::TurnId;

/// Maximum number of bytes kept for the next readers of the same events.
const KEPT: usize = 8 << 20;

/// An update as bytes: what goes into `result`, or is a frame of its own.
#[derive(Debug, Clone)]
pub(super) struct Frame {
    /// Index of the log's entry that the frame is made from, and number of the frame among those
    /// made from that entry: together the `eventId`.
    pub(super) index: usize,
    pub(super) n: usize,
    pub(super) turn: TurnId,
    /// `true` for a user's prompt.
    pub(super) echo: bool,
    /// Reason why a stream of the turn ends with this frame, if one does.
    pub(super) end: StreamEnd,
    /// `true` for another state or a result, `false` for progress.
    pub(super) notable: bool,
    pub(super) json: Bytes,
    /// The same for a stream that goes on after the frame, if that is not the same.
    pub(super) going_on: Option<Bytes>,
}

/// Reason why a stream ends, if one does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StreamEnd {
    /// It goes on.
    No,
    /// A question that somebody has to answer.
    Question,
    /// The turn is over.
    Turn,
}

/// The frames that were made last.
#[derive(Default)]
pub(super) struct Frames {
    cache: Mutex<FrameCache>,
    /// Held while frames are made off the runtime's thread: whoever comes second finds them made.
    making: Arc<tokio::sync::Mutex<()>>,
}

/// Form of the frames of a log entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct FramesKey {
    /// Index of the entry.
    pub(super) index: usize,
    pub(super) dialect: Dialect,
    /// `true` for clients that take text and no data.
    pub(super) text_only: bool,
}

#[derive(Default)]
struct FrameCache {
    by_key: HashMap<FramesKey, Arc<[Frame]>>,
    /// Oldest first.
    order: VecDeque<FramesKey>,
    bytes: usize,
}

impl Frames {
    /// Returns the frames of a log entry in a form, if they are kept.
    pub(super) fn kept(&self, key: FramesKey) -> Option<Arc<[Frame]>> {
        self.cache.lock().by_key.get(&key).map(Arc::clone)
    }

    /// Waits until nobody else makes frames off the runtime's thread.
    pub(super) async fn lock_making(&self) -> OwnedMutexGuard<()> {
        Arc::clone(&self.making).lock_owned().await
    }

    /// Returns the frames of a log entry in a form, which are made unless they are kept.
    pub(super) fn of(&self, key: FramesKey, new: impl FnOnce() -> Vec<Frame>) -> Arc<[Frame]> {
        if let Some(made) = self.kept(key) {
            return made;
        }
        let made: Arc<[Frame]> = new().into();
        let size = size(&made);
        let mut kept = self.cache.lock();
        kept.bytes += size;
        kept.by_key.insert(key, Arc::clone(&made));
        kept.order.push_back(key);
        while kept.bytes > KEPT
            && let Some(oldest) = kept.order.pop_front()
        {
            if let Some(frames) = kept.by_key.remove(&oldest) {
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
