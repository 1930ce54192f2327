//! The summary that is written in the background while turns go on. The summary belongs to the session, and not to
//! the turn that began it. It is abandoned when the session ends, or when it does not fit the conversation any more.

use std::mem;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use super::old::SummarizedMessages;
use super::summary::{SummedUp, Writing};
use crate::session::context::conversation::MessageHistory;
use parking_lot::Mutex;
use tandem_model::Error;

/// State of a session's compression.
#[derive(Default)]
pub(in crate::session) struct Compression {
    /// Number of tokens below which no compression is tried.
    pub(super) next_size: AtomicU64,
    /// The summary that is written in the background.
    pub(super) summary: UnderWay,
}

impl Compression {
    /// Resets the state after the conversation or the model was changed: a compression that failed may work now, and a
    /// summary that is under way is abandoned, because it does not fit.
    pub(in crate::session) fn reset(&self) {
        self.summary.give_up();
        self.next_size.store(0, Ordering::Relaxed);
    }

    /// Abandons the summary that is under way, and lets none begin any more, because the session ends.
    pub(in crate::session) fn end(&self) {
        self.summary.replace(SummaryState::Ended);
    }
}

/// The summary that is under way, if there is one. The lock guards its state.
#[derive(Default)]
pub(super) struct UnderWay(Mutex<SummaryState>);

#[derive(Default)]
enum SummaryState {
    #[default]
    Idle,
    Running(PendingSummary),
    /// The session has ended, and no summary begins any more.
    Ended,
}

/// A summary that is being written, or that is ready and not used yet.
struct PendingSummary {
    old: Arc<SummarizedMessages>,
    /// Fires when the task has ended, also by a panic or because it was aborted.
    ended: CancellationToken,
    task: AbortOnDropHandle<SummedUp>,
}

impl UnderWay {
    /// Begins to write a summary, and abandons a summary that is under way. Does nothing if the session has ended.
    pub(super) fn begin(&self, writing: Writing) {
        let mut state = self.0.lock();
        if matches!(*state, SummaryState::Ended) {
            return;
        }
        let (old, ended) = (Arc::clone(&writing.old), CancellationToken::new());
        let end_on_drop = ended.clone().drop_guard();
        let task = AbortOnDropHandle::new(tokio::spawn(async move {
            let _end_on_drop = end_on_drop;
            // Retries are not shown, because no turn waits for the summary.
            writing.sum_up("", |_| ()).await
        }));
        *state = SummaryState::Running(PendingSummary { old, ended, task });
    }

    /// Returns `true` if a summary is under way that fits this conversation. Abandons a summary that does not fit.
    pub(super) fn is_for(&self, conversation: &MessageHistory) -> bool {
        let mut state = self.0.lock();
        let SummaryState::Running(running) = &*state else { return false };
        if running.old.begins(conversation) {
            return true;
        }
        *state = SummaryState::Idle;
        false
    }

    /// Returns `true` if the summary is ready.
    pub(super) fn is_there(&self) -> bool {
        self.cancel_token().is_some_and(|ended| ended.is_cancelled())
    }

    /// Waits until the summary is ready or abandoned.
    pub(super) async fn wait_ready(&self) {
        if let Some(ended) = self.cancel_token() {
            ended.cancelled().await;
        }
    }

    /// Waits for the summary, and returns it with the summarized messages; `None` if the summary was abandoned. If this
    /// future is dropped, the summary is aborted.
    pub(super) async fn wait_result(&self) -> Option<(Arc<SummarizedMessages>, SummedUp)> {
        let running = self.replace(SummaryState::Idle)?;
        let fault = |_| {
            Err(Error::BadAnswer("a bug in tandem; the log (`--log-file`) says more".to_owned()))
        };
        Some((running.old, running.task.await.unwrap_or_else(fault)))
    }

    /// Abandons the summary that is under way.
    pub(super) fn give_up(&self) {
        self.replace(SummaryState::Idle);
    }

    fn cancel_token(&self) -> Option<CancellationToken> {
        match &*self.0.lock() {
            SummaryState::Running(running) => Some(running.ended.clone()),
            SummaryState::Idle | SummaryState::Ended => None,
        }
    }

    /// Sets the state and returns the summary that was under way. `Ended` is final.
    fn replace(&self, by: SummaryState) -> Option<PendingSummary> {
        let mut state = self.0.lock();
        if matches!(*state, SummaryState::Ended) {
            return None;
        }
        match mem::replace(&mut *state, by) {
            SummaryState::Running(running) => Some(running),
            SummaryState::Idle | SummaryState::Ended => None,
        }
    }
}
