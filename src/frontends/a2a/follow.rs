//! A reader of a session's events as frames.

use std::sync::Arc;

use super::context::SessionContext;
use super::dialect::Dialect;
use super::frames::{Frame, StreamEnd};
use super::updates::{self, TaskNames, TaskUpdate};
use tandem_agent::session::{Entry, Event, Reader};

/// Reads a session's frames from a place on, at its own pace.
pub(super) struct Follow {
    pub(super) context: Arc<SessionContext>,
    dialect: Dialect,
    text_only: bool,
    log: Reader,
    made: Arc<[Frame]>,
    next: usize,
}

impl Follow {
    pub(super) fn new(context: &Arc<SessionContext>, from: usize, dialect: Dialect) -> Self {
        Self {
            log: context.events(from),
            context: Arc::clone(context),
            dialect,
            text_only: false,
            made: Arc::new([]),
            next: 0,
        }
    }

    /// The same for a client that may take text and no data.
    pub(super) fn in_text(self, text_only: bool) -> Self {
        Self { text_only, ..self }
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

    /// Waits until there may be another, or another process has taken the session over. Nothing is
    /// taken.
    pub(super) async fn ready(&mut self) {
        if self.next >= self.made.len() {
            tokio::select! {
                () = self.log.ready() => {}
                () = self.context.moved() => {}
            }
        }
    }

    /// Returns the dialect that is spoken.
    pub(super) fn dialect(&self) -> Dialect {
        self.dialect
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
        self.made = self.context.frames.of((entry.index, self.dialect, self.text_only), || {
            make(&self.context, entry, self.dialect, self.text_only)
        });
        self.next = 0;
    }

    fn rest(&mut self) -> Option<Frame> {
        let frame = self.made.get(self.next).cloned()?;
        self.next += 1;
        Some(frame)
    }
}

fn make(context: &SessionContext, entry: &Entry, dialect: Dialect, text_only: bool) -> Vec<Frame> {
    let model = context.model();
    let updates = context.story(|story| {
        let task = |turn| context.task_of(story, turn, dialect);
        updates::of(entry, story, &TaskNames { context: &context.id, task: &task, model: &model })
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
