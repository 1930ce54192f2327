//! The stream of one turn: from a place in the log up to a question that the client has to answer, or to the
//! turn's end.

use std::collections::BTreeSet;
use std::sync::Arc;

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use super::context::{SessionContext, UnknownContext};
use super::dialect::Dialect;
use super::follow::Follow;
use super::frames::{Frame, FramePosition, StreamEnd};
use tandem_agent::session::TurnId;
use tandem_agent::sessions::Leased;
use tandem_serve::principals::Principal;
use tandem_wire::a2a::error;
use tandem_wire::jsonrpc::Error;

/// Selection of the events that make up a stream.
#[derive(Serialize, Deserialize)]
#[expect(clippy::struct_excessive_bools, reason = "each is a question of its own about the stream")]
pub(super) struct Span {
    pub(super) turn: TurnId,
    /// Earlier turns whose ends the client has not seen. In 0.3 they are parts of the same task.
    #[serde(default)]
    pub(super) earlier: BTreeSet<TurnId>,
    /// Index of the first log entry of the stream.
    pub(super) from: usize,
    /// Index of the first log entry at which a question can end the stream. Questions before that are
    /// answered.
    pub(super) ends_from: usize,
    /// First event of the stream, before the events of the log. The event is not serialized: another node gets it
    /// beside the span.
    #[serde(skip)]
    pub(super) first: Option<Bytes>,
    /// `true` if the stream begins with the state that the task had when the stream began.
    pub(super) describes: bool,
    /// `true` if the stream begins with the current task.
    #[serde(default)]
    pub(super) stands: bool,
    /// `true` if the stream ends after its first event.
    pub(super) over: bool,
    /// `true` if the client may have been told of the stream before, in another response.
    pub(super) again: bool,
    /// The last event that the client has seen. It and the events before it are left out.
    pub(super) after: Option<FramePosition>,
    /// `true` if the stream continues past questions, to the turn's end.
    pub(super) to_the_end: bool,
    /// `true` if the client sent something else than an answer to an open question, and the question is asked
    /// again.
    #[serde(default)]
    pub(super) asked_back: bool,
    /// `true` if the client accepts text, but no data.
    #[serde(default)]
    pub(super) text_only: bool,
    /// `true` if the client wanted to run without questions, and the server does not allow that.
    #[serde(default)]
    pub(super) auto_execute_refused: bool,
}

impl Span {
    /// Returns the span of all events to come of a turn that was just begun.
    pub(super) fn begun(turn: TurnId, from: usize, first: Option<Bytes>) -> Self {
        Self {
            turn,
            earlier: BTreeSet::new(),
            from,
            ends_from: from,
            first,
            describes: false,
            stands: false,
            over: false,
            again: false,
            after: None,
            to_the_end: false,
            asked_back: false,
            text_only: false,
            auto_execute_refused: false,
        }
    }

    /// Returns the span of a turn's events from a log index on, past and future.
    pub(super) fn since(context: &SessionContext, turn: TurnId, from: usize) -> Self {
        let ends_from = context.records(|records| {
            let asking = records.turn(turn).and_then(|turn| turn.questions.last());
            asking.and_then(|call| records.call(call)).and_then(|call| call.index)
        });
        let now = context.position();
        let ends_from = ends_from.filter(|index| *index >= from).unwrap_or(now);
        Self { ends_from, ..Self::begun(turn, from, None) }
    }

    /// Returns `true` if a frame is part of the stream.
    pub(super) fn has(&self, frame: &Frame) -> bool {
        let answered = frame.end == StreamEnd::Question && frame.index < self.ends_from;
        let is_of_it = frame.turn == self.turn || self.earlier.contains(&frame.turn);
        is_of_it && !frame.echo && !answered && self.is_new(frame)
    }

    /// Returns `true` if the stream ends with a frame. The turn's end ends the stream even if the client has
    /// seen that end already.
    pub(super) fn ends(&self, frame: &Frame) -> bool {
        match frame.end {
            StreamEnd::No => false,
            StreamEnd::Question => !self.to_the_end && self.has(frame),
            StreamEnd::Turn => frame.turn == self.turn,
        }
    }

    /// Returns the bytes of a frame for this stream.
    pub(super) fn frame_bytes(&self, frame: &Frame) -> Bytes {
        // A frame may end other streams: streams of its turn alone, or streams up to a question. For streams that
        // continue after the frame, it has a second form.
        let goes_on = match frame.end {
            StreamEnd::Turn => frame.turn != self.turn,
            StreamEnd::Question | StreamEnd::No => self.to_the_end,
        };
        let going_on = frame.going_on.as_ref().filter(|_| goes_on);
        going_on.unwrap_or(&frame.json).clone()
    }

    /// Returns `true` if the client has not seen a frame yet.
    fn is_new(&self, frame: &Frame) -> bool {
        self.after.is_none_or(|after| frame.position() > after)
    }
}

/// A stream before it is read.
pub(super) struct Streaming {
    pub(super) context: Leased<SessionContext>,
    pub(super) span: Span,
    pub(super) dialect: Dialect,
    /// Outcome for the context that the client named, if the context was not known.
    pub(super) unknown: Option<UnknownContext>,
    /// The principal that reads the stream.
    pub(super) reader: Principal,
}

impl Streaming {
    /// Waits until the beginning of the stream's turn is durable, and makes the first event of the stream.
    /// The turn has begun even if this future is dropped.
    pub(super) async fn promised(mut self) -> Self {
        self.context.synced().await;
        let (dialect, turn) = (self.dialect, self.span.turn);
        let first = if self.span.asked_back {
            let mut task = self.context.task_asked_back(dialect, turn, None).await;
            task.metadata.unknown_context = self.unknown;
            Some(task)
        } else if self.span.describes {
            Some(self.context.begun(dialect, turn, self.unknown))
        } else if self.span.stands {
            Some(self.context.task((dialect == Dialect::V1).then_some(turn), None).await)
        } else {
            None
        };
        if let Some(mut task) = first {
            task.metadata.auto_execute = self.span.auto_execute_refused.then_some(false);
            let task = if self.span.text_only { task.in_text() } else { task };
            self.span.first = Some(dialect.first(&task));
        }
        self
    }

    pub(super) fn subscribe(self) -> Subscription {
        Subscription::new(&self.context, self.span, self.dialect, self.reader)
    }
}

/// Reason for ending the streams of a client whose token was revoked.
pub(super) const TOKEN_REVOKED: &str = "the token is not valid any more";

/// Returns the error for the reader of a session that is not shared with the reader any more.
pub(super) fn not_shared() -> Error {
    let message = "Task not found: the session is not shared with you any more";
    Error::new(error::TASK_NOT_FOUND, message)
}

/// Reader of a stream.
pub(super) struct Subscription {
    span: Span,
    follow: Follow,
    reader: Principal,
    ended: bool,
    /// `true` if the stream has ended because the reader may not read the session any more.
    is_closed: bool,
}

impl Subscription {
    pub(super) fn new(
        context: &Leased<SessionContext>,
        span: Span,
        dialect: Dialect,
        reader: Principal,
    ) -> Self {
        let follow = Follow::leased(context, span.from, dialect).in_text(span.text_only);
        Self { follow, reader, ended: span.over, is_closed: false, span }
    }

    /// Returns the dialect of the stream.
    pub(super) fn dialect(&self) -> Dialect {
        self.follow.dialect()
    }

    /// Returns the principal who reads the stream.
    pub(super) fn reader(&self) -> &Principal {
        &self.reader
    }

    /// Returns the error that ended the stream; `None` if the stream has not ended, or has ended with its
    /// last event.
    pub(super) fn closed(&self) -> Option<Error> {
        self.is_closed.then(not_shared)
    }

    /// Waits for the next event, and returns it; `None` at the end, or if another process has taken the
    /// session over, where the remaining events can be read. No event is lost if this future is dropped.
    pub(super) async fn next(&mut self) -> Option<Bytes> {
        if let Some(first) = self.span.first.take() {
            return Some(first);
        }
        while !self.ended {
            let context = Arc::clone(&self.follow.context);
            let frame = tokio::select! {
                biased;
                frame = self.follow.next() => frame,
                () = context.moved() => self.follow.next_past().await?,
            };
            if let Some(json) = self.prepare(&frame) {
                return Some(json);
            }
        }
        None
    }

    /// Returns the next event of the entries that are in the log already; waits only while its frame is being
    /// made.
    pub(super) async fn next_past(&mut self) -> Option<Bytes> {
        if let Some(first) = self.span.first.take() {
            return Some(first);
        }
        while !self.ended {
            let frame = self.follow.next_past().await?;
            if let Some(json) = self.prepare(&frame) {
                return Some(json);
            }
        }
        None
    }

    /// Returns the next event if its frame is made already, or can be made at once.
    pub(super) fn try_next(&mut self) -> Option<Bytes> {
        if let Some(first) = self.span.first.take() {
            return Some(first);
        }
        while !self.ended {
            let frame = self.follow.try_next()?;
            if let Some(json) = self.prepare(&frame) {
                return Some(json);
            }
        }
        None
    }

    /// Reads the stream up to its end.
    pub(super) async fn end(mut self) {
        while self.next().await.is_some() {}
    }

    fn prepare(&mut self, frame: &Frame) -> Option<Bytes> {
        // The session may have ceased to be shared since the last frame.
        if !self.follow.context.is_open_to(&self.reader) {
            (self.ended, self.is_closed) = (true, true);
            return None;
        }
        self.ended = self.span.ends(frame);
        self.span.has(frame).then(|| self.span.frame_bytes(frame))
    }
}
