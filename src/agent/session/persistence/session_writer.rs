//! Writer of a session's log to its store: stores events as the log grows, and tells the log which events are stored.
//!
//! The [`SessionWriter`] reads the log like any other reader, so that appending an event never waits for a disk.

use std::collections::BTreeSet;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, sleep, sleep_until};
use tokio_util::sync::CancellationToken;

use super::file_uploads::FileUploads;
use super::store::{Batch, BatchSummary, Head, Secrets, Store, StoreError, WriteLease};
use super::store_health::StoreHealth;
use crate::session::events::event::{Event, TaskEvent, TurnId};
use crate::session::events::log::{FenceReason, Log, Reader};
use crate::session::events::principal::Shares;
use crate::session::state::session_state::{SessionState, prompt_title};

/// Minimum time between two writes of chunks of text, which come by the hundred; all other events are written at once.
/// People don't notice the delay, and the file has one line for several chunks.
const MIN_CHUNK_WRITE_INTERVAL: Duration = Duration::from_millis(10);

/// Retry interval after a refusal of the store, for a session that goes on without its store. Also the minimum time
/// between two attempts to save the whole log anew.
const STORE_RETRY_INTERVAL: Duration = Duration::from_secs(10);

/// Retry interval after a refusal of the store, for a session that waits for its store.
const WAITING_RETRY_INTERVAL: Duration = Duration::from_secs(1);

/// Time after which an operation of the store that has not ended is noted as a refusal. While the operation still runs,
/// it is noted again each time that this time has passed.
const SLOW_OPERATION_TIME: Duration = Duration::from_secs(3);

/// Maximum number of events in a [`Batch`], which is a line of a stored log.
const LONGEST_BATCH: usize = 512;

/// Maximum number of events that are passed to the store in one call. Bounds the memory for events that are being
/// written.
const MOST_AT_ONCE: usize = 1024;

/// Data of a session that the store has beside the session's log.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct BesideLog {
    /// Port of this machine at which others can join the session.
    pub(super) port: Option<u16>,
    pub(super) secrets: Secrets,
}

/// Progress of a session that is read from a store, at the moment at which it is opened again.
pub(super) struct StoredProgress {
    /// The session as a list shows it.
    pub(super) summary: BatchSummary,
    /// The turns that run or wait.
    pub(super) open: BTreeSet<TurnId>,
    /// `true` if the session has no title yet.
    pub(super) is_untitled: bool,
}

/// Refusals of a session's store, and their effect on the session.
pub(crate) struct Refusals {
    /// Time for which the session waits for a store that refuses, before the session ends. `None`: the session goes on
    /// without the store.
    max_wait: Option<Duration>,
    /// Time of the first refusal since the store last took events; `None` if it does not refuse now.
    since: Option<Instant>,
    health: StoreHealth,
}

impl Refusals {
    /// Makes the record of a session's refusals, which is empty at first. If A2A clients began the session
    /// (`is_served`), it waits `max_wait` for its store, because events that clients are told must be stored. A session
    /// of a terminal or an editor goes on without its store.
    pub(crate) fn new(is_served: bool, max_wait: Duration, health: StoreHealth) -> Self {
        Self { max_wait: is_served.then_some(max_wait), since: None, health }
    }

    fn is_failing(&self) -> bool {
        self.since.is_some()
    }

    /// Returns the time between a refusal of the store and the next attempt.
    fn retry_interval(&self) -> Duration {
        if self.max_wait.is_some() { WAITING_RETRY_INTERVAL } else { STORE_RETRY_INTERVAL }
    }

    /// Notes a refusal. The first of several is reported: by a notice in the session, or, if the session waits for its
    /// store, to the server's operator. Returns the reason to end the session, if it has waited for as long as it may.
    fn note_refusal(&mut self, log: &Log, error: &StoreError) -> Option<FenceReason> {
        let now = Instant::now();
        let is_first = self.since.is_none();
        let since = *self.since.get_or_insert(now);
        self.health.note_refusal();
        let Some(max_wait) = self.max_wait else {
            if is_first {
                log.bypass_store();
                log.append(not_saved(error));
            }
            return None;
        };
        if is_first {
            tracing::warn!("a session waits until it can be saved: {error}");
        }
        let why = match error {
            StoreError::Refused(why) => why.clone(),
            _ if now.duration_since(since) < max_wait => return None,
            error => error.to_string(),
        };
        tracing::error!(
            "a session ends, as it could not be saved for {} s: {why}",
            max_wait.as_secs()
        );
        Some(FenceReason::Refused(why))
    }

    /// Waits for an operation of the store. An operation that takes longer than [`SLOW_OPERATION_TIME`] is noted as a
    /// refusal in the store's health. If the session waits for its store, this fails with [`StoreError::Refused`] once
    /// `max_wait`, counted from the first refusal, is over.
    async fn wait_for<T>(
        &self,
        operation: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        let waited = self.since.map_or(Duration::ZERO, |since| since.elapsed());
        let mut left = self.max_wait.map(|max_wait| max_wait.saturating_sub(waited));
        tokio::pin!(operation);
        loop {
            // Time is counted in steps, because all of it may pass while the process is suspended: then only one step
            // is counted, and the operation is polled again before the session gives up.
            let step = left.map_or(SLOW_OPERATION_TIME, |left| left.min(SLOW_OPERATION_TIME));
            tokio::select! {
                biased;
                result = &mut operation => return result,
                () = sleep(step) => self.health.note_refusal(),
            }
            left = left.map(|left| left.saturating_sub(step));
            if left == Some(Duration::ZERO) {
                let seconds = self.max_wait.unwrap_or_default().as_secs();
                let why = format!("its store has not answered for {seconds} s");
                return Err(StoreError::Refused(why));
            }
        }
    }

    /// Notes that the store has taken events. Returns `true` if the store had refused before.
    fn note_success(&mut self, log: &Log) -> bool {
        self.health.note_success();
        let has_refused = self.since.take().is_some();
        if has_refused {
            log.attach_store();
        }
        has_refused
    }

    /// Returns the reason to fence the log, if the session ends while a store that it waits for refuses.
    fn fence_reason_at_end(&self) -> Option<FenceReason> {
        (self.is_failing() && self.max_wait.is_some()).then(|| {
            FenceReason::Refused("the session has ended before it could be saved".to_owned())
        })
    }
}

/// Parts of a session that are stored: the log, and the data and files beside the log.
pub(super) struct PersistedSession {
    pub(super) log: Log,
    pub(super) changes: watch::Receiver<BesideLog>,
    /// Writer of the session's files to the store, if several nodes share the store.
    pub(super) files: Option<FileUploads>,
    /// Token that fires when the session is closed.
    pub(super) closed: CancellationToken,
    /// Token that fires when the session is to be released for another process in the middle of a turn.
    pub(super) handed_over: CancellationToken,
}

/// The writer of one session's log to a store.
pub(super) struct SessionWriter {
    log: Log,
    /// Port and secrets as they should be stored.
    beside: watch::Receiver<BesideLog>,
    files: Option<FileUploads>,
    /// Port and secrets as they are stored.
    stored_beside: BesideLog,
    /// Reader at the first event that is not written yet.
    reader: Reader,
    lease: Box<dyn WriteLease>,
    /// Token that fires when the session is to be released for another process in the middle of a turn.
    handed_over: CancellationToken,
    /// Time of the last write of events.
    last_write: Instant,
    /// Number of turns so far.
    turns: u64,
    /// The session's title, if it differs from the title in the session's [`Head`].
    title: Option<String>,
    /// `true` until the session has a title.
    is_untitled: bool,
    /// Members of the owner's tenant with whom the session is shared.
    shares: Shares,
    /// The turns that run or wait.
    open: BTreeSet<TurnId>,
    refusals: Refusals,
    /// Reason why no further event is stored.
    fence_reason: Option<FenceReason>,
    /// Reason why a part of the stored log is lost; `None` again as soon as the whole log is saved anew.
    lost: Option<&'static str>,
    /// Time of the last attempt to save the whole log anew.
    last_renewal: Option<Instant>,
}

/// Stores the log of a new session, from the first event on that is worth storing. Returns when the session is closed
/// and all its events are written. `refusals` is called with `true` if A2A clients began the session.
pub(super) async fn write_new_session(
    store: Arc<dyn Store>,
    session: PersistedSession,
    head: impl FnOnce(&SessionState) -> Head + Send,
    refusals: impl FnOnce(bool) -> Refusals + Send,
) {
    let (log, closed) = (session.log.clone(), session.closed.clone());
    tokio::select! {
        biased;
        () = log.wait_worth_storing() => {}
        () = closed.cancelled() => return,
    }
    let head = head(&SessionState::from_log(&mut log.read(0)));
    let mut refusals = refusals(head.served);
    let lease = loop {
        let err = match refusals.wait_for(store.create(&head)).await {
            Ok(lease) => break lease,
            // Another process has created a session of the same id.
            Err(StoreError::TakenOver) => return log.fence(FenceReason::TakenOver),
            Err(err) => err,
        };
        if let Some(reason) = refusals.note_refusal(&log, &err) {
            return log.fence(reason);
        }
        if closed.is_cancelled() {
            return refusals.fence_reason_at_end().map_or((), |reason| log.fence(reason));
        }
        tokio::select! {
            () = sleep(refusals.retry_interval()) => {}
            () = closed.cancelled() => {}
        }
    };
    let is_untitled = head.title.is_empty();
    let is_failing = refusals.is_failing();
    let mut writer = SessionWriter { is_untitled, ..SessionWriter::new(session, lease, refusals) };
    if is_failing {
        // The first write is made here, because `run` would first wait for the retry interval: the store has refused to
        // create the session before.
        writer.write().await;
    }
    writer.run(closed).await;
}

/// Stores what is added to the log of a session that was read from the store. Returns when the session is closed and
/// all its events are written.
pub(super) async fn write_stored_session(
    lease: Box<dyn WriteLease>,
    StoredProgress { summary, open, is_untitled }: StoredProgress,
    session: PersistedSession,
    refusals: Refusals,
) {
    // The secrets were read from the store. The port was not: each process announces its own.
    let stored_beside = BesideLog { port: None, ..session.changes.borrow().clone() };
    let closed = session.closed.clone();
    let writer = SessionWriter::new(session, lease, refusals);
    let BatchSummary { turns, title, shares, .. } = summary;
    SessionWriter { stored_beside, turns, title, is_untitled, shares, open, ..writer }
        .run(closed)
        .await;
}

impl SessionWriter {
    fn new(session: PersistedSession, lease: Box<dyn WriteLease>, refusals: Refusals) -> Self {
        Self {
            reader: session.log.read(lease.next()),
            log: session.log,
            beside: session.changes,
            files: session.files,
            stored_beside: BesideLog::default(),
            lease,
            handed_over: session.handed_over,
            last_write: Instant::now(),
            turns: 0,
            title: None,
            is_untitled: false,
            shares: Shares::new(),
            open: BTreeSet::new(),
            refusals,
            fence_reason: None,
            lost: None,
            last_renewal: None,
        }
    }

    /// Runs until the session is closed, released for another process, or fenced. Each round:
    ///
    /// 1. waits until there is something to write or to sync,
    /// 2. writes the events that have come, and syncs them if a turn has ended or a reader waits for that,
    /// 3. stops if the log is fenced or was released, or if it is closed and no turn is open.
    ///
    /// After the session was closed, the rest is written once more, and the lease is released.
    async fn run(mut self, closed: CancellationToken) {
        let mut is_closing = false;
        loop {
            self.wait(&closed, is_closing).await;
            // `closed` is read before events are collected. Then each turn that was queued before the closing is among
            // the open turns.
            is_closing = closed.is_cancelled();
            let is_left = self.handed_over.is_cancelled();
            let ends_turn = self.write().await;
            if ends_turn || is_left || self.log.wants_durable() {
                self.sync().await;
            }
            if let Some(reason) = self.fence_reason {
                if reason == FenceReason::TakenOver {
                    tracing::warn!("another process has taken the session over");
                }
                return self.log.fence(reason);
            }
            if is_left && !self.refusals.is_failing() {
                // Events of the running turn are not stored from now on: the next process that has the session resumes
                // the turn from its last stored event.
                self.lease.release().await;
                return self.log.fence(FenceReason::TakenOver);
            }
            // Closing cancels the running turn, whose end comes a little later and should be stored too.
            if is_closing && (self.open.is_empty() || self.refusals.is_failing()) {
                break;
            }
        }
        // This is the last attempt to write events that the store has refused. It may save the whole log anew, although
        // the last attempt to do so was shortly before.
        self.last_renewal = None;
        self.write().await;
        self.sync().await;
        self.lease.release().await;
        // Tasks that wait until an event is stored must not wait for ever.
        match self.fence_reason.or_else(|| self.refusals.fence_reason_at_end()) {
            Some(reason) => self.log.fence(reason),
            None => self.log.detach_store(),
        }
    }

    /// Waits until there is something to write or to sync, or until the session is closed, released or taken over.
    /// While the store refuses, waits for the retry interval instead. If `is_closing`, the caller knows of the closing
    /// already, and the closing alone no longer ends the wait.
    async fn wait(&mut self, closed: &CancellationToken, is_closing: bool) {
        let closed = async {
            if is_closing { std::future::pending().await } else { closed.cancelled().await }
        };
        tokio::pin!(closed);
        let mut taken_over = self.lease.taken_over();
        if self.refusals.is_failing() {
            tokio::select! {
                () = sleep(self.refusals.retry_interval()) => {}
                () = closed => {}
                () = &mut taken_over => self.fence_reason = Some(FenceReason::TakenOver),
            }
            return;
        }
        tokio::select! {
            () = self.reader.ready() => {}
            () = &mut taken_over => return self.fence_reason = Some(FenceReason::TakenOver),
            () = self.log.wait_sync_wanted() => return,
            () = self.handed_over.cancelled() => return,
            Ok(()) = self.beside.changed() => return,
            () = &mut closed => return,
        }
        // There may be only chunks of text now. Further chunks are awaited, so that they are written together.
        tokio::select! {
            biased;
            () = self.log.wait_urgent(self.reader.position()) => {}
            () = closed => {}
            () = sleep_until(self.last_write + MIN_CHUNK_WRITE_INTERVAL) => {}
        }
    }

    /// Writes all new events, and before them the data and files that they refer to. Returns `true` if one of the
    /// events ends a turn.
    async fn write(&mut self) -> bool {
        if self.fence_reason.is_some() {
            return false;
        }
        if let Some(why) = self.lost {
            self.handle_store_error(StoreError::Lost(why)).await;
            return false;
        }
        let mut ends_turn = false;
        loop {
            let from = self.reader.position();
            let batches = self.collect(&mut ends_turn);
            let end = self.reader.position();
            // Secrets and files must be stored before the events that refer to them. They are read after the events
            // were collected, so they are at least as new as the events.
            if let Err(err) = self.write_beside().await {
                self.handle_store_error(err).await;
                return false;
            }
            if end == from {
                return ends_turn;
            }
            if !batches.is_empty() {
                if let Err(err) = self.refusals.wait_for(self.lease.append(batches)).await {
                    self.handle_store_error(err).await;
                    return false;
                }
                self.last_write = Instant::now();
            }
            if self.refusals.note_success(&self.log) && self.refusals.max_wait.is_none() {
                self.log.append(Event::Notice("The conversation is saved again.".to_owned()));
            }
            self.log.set_persisted(end);
        }
    }

    /// Stores the session's files and secrets, and the port of this machine at which other processes can join the
    /// session, as far as they have changed since they were last stored. A port that the store does not take is only
    /// noted in the program's log.
    async fn write_beside(&mut self) -> Result<(), StoreError> {
        if let Some(files) = &mut self.files
            && let Some(notice) = self.refusals.wait_for(files.write()).await?
        {
            self.log.append(Event::Notice(notice));
        }
        let beside = self.beside.borrow_and_update().clone();
        if beside == self.stored_beside {
            return Ok(());
        }
        if beside.secrets != self.stored_beside.secrets {
            self.refusals.wait_for(self.lease.store_secrets(&beside.secrets)).await?;
        }
        if let Some(port) = beside.port.filter(|port| self.stored_beside.port != Some(*port)) {
            // An error is no refusal: without the port, others cannot join the session here, but no data is lost.
            if let Err(err) = self.refusals.wait_for(self.lease.announce(port)).await {
                tracing::debug!("others are not told where to join: {err}");
            }
        }
        self.stored_beside = beside;
        Ok(())
    }

    /// Returns the next events that are to be stored, at most [`MOST_AT_ONCE`], as batches. Leaves out events that do
    /// not outlive the process.
    fn collect(&mut self, ends_turn: &mut bool) -> Vec<Batch> {
        let mut batches: Vec<Batch> = Vec::new();
        for _ in 0..MOST_AT_ONCE {
            let Some(entry) = self.reader.try_next_entry() else { break };
            if !entry.event.is_lasting() {
                continue;
            }
            let goes_on =
                |last: &&mut Batch| last.end() == entry.index && last.events.len() < LONGEST_BATCH;
            if batches.last_mut().as_ref().is_none_or(|x| !goes_on(x)) {
                batches.push(Batch { first: entry.index, ..Batch::default() });
            }
            let Some(batch) = batches.last_mut() else { break };
            if self.note_event(&entry.event, ends_turn) {
                let (title, shares) = (self.title.clone(), self.shares.clone());
                let busy = !self.open.is_empty();
                batch.summary = Some(BatchSummary { turns: self.turns, title, shares, busy });
            }
            batch.events.push((entry.at, entry.event));
        }
        batches
    }

    /// Notes the effect of an event on the turns, the title and the shares. Returns `true` if the event changes what a
    /// list of sessions shows.
    fn note_event(&mut self, event: &Event, ends_turn: &mut bool) -> bool {
        match event {
            Event::TurnQueued { turn, prompt, .. } => {
                self.turns = self.turns.max(turn.0);
                self.open.insert(*turn);
                if self.is_untitled
                    && let Some(title) = prompt_title(prompt)
                {
                    (self.title, self.is_untitled) = (Some(title), false);
                }
            }
            Event::TurnFinished { turn, .. } => {
                self.open.remove(turn);
                *ends_turn = true;
            }
            Event::SessionRenamed { title, .. } => {
                (self.title, self.is_untitled) = (Some(title.clone()), false);
            }
            Event::Task(TaskEvent::Shared { name, role }) => {
                self.shares.insert(name.clone(), *role);
            }
            Event::Task(TaskEvent::Unshared { name }) => _ = self.shares.remove(name),
            _ => return false,
        }
        true
    }

    /// Waits until the store has all written events on its disk, and notes this in the log. Does nothing while the
    /// store refuses.
    async fn sync(&mut self) {
        if self.refusals.is_failing() || self.fence_reason.is_some() {
            return;
        }
        let end = self.reader.position();
        match self.refusals.wait_for(self.lease.sync()).await {
            Ok(()) => self.log.set_durable(end),
            Err(err) => self.handle_store_error(err).await,
        }
    }

    /// Handles an error of the store. If a part of the stored log is lost, saves the whole log anew. Otherwise notes
    /// the refusal, and moves the reader back to the first event that is not stored, so that it is written later.
    async fn handle_store_error(&mut self, err: StoreError) {
        if matches!(err, StoreError::TakenOver) {
            self.fence_reason = Some(FenceReason::TakenOver);
            return;
        }
        // On a disk that loses data again and again, the whole log must not be written each time.
        let may_renew =
            self.last_renewal.is_none_or(|renewed| renewed.elapsed() >= STORE_RETRY_INTERVAL);
        if let StoreError::Lost(why) = err {
            self.lost = Some(why);
        }
        let err = match err {
            StoreError::Lost(why) if may_renew => match self.renew().await {
                Ok(()) => {
                    self.lost = None;
                    self.log.append(Event::Notice(saved_anew(why)));
                    return;
                }
                Err(StoreError::TakenOver) => {
                    return self.fence_reason = Some(FenceReason::TakenOver);
                }
                Err(err) => err,
            },
            err => err,
        };
        self.reader = self.log.read(self.lease.next());
        self.fence_reason = self.refusals.note_refusal(&self.log, &err);
    }

    /// Writes the whole log anew. The new log replaces the old log when all of the new log is on the disk.
    async fn renew(&mut self) -> Result<(), StoreError> {
        self.last_renewal = Some(Instant::now());
        self.lease.renew().await?;
        // Secrets and files may be lost like the log.
        self.stored_beside = BesideLog::default();
        self.files.iter().for_each(FileUploads::write_again);
        self.write_beside().await?;
        self.reader = self.log.read(0);
        let end = self.log.len();
        while self.reader.position() < end {
            let batches = self.collect(&mut false);
            if self.log.is_damaged() {
                // Replacing the stored log now could destroy events that can still be read there.
                let why = "a part of the conversation cannot be read from the disk";
                return Err(StoreError::Io(io::Error::other(why)));
            }
            self.refusals.wait_for(self.lease.append(batches)).await?;
        }
        self.refusals.wait_for(self.lease.sync()).await?;
        let end = self.reader.position();
        self.refusals.note_success(&self.log);
        self.log.set_persisted(end);
        self.log.set_durable(end);
        Ok(())
    }
}

fn saved_anew(why: &str) -> String {
    format!(
        "A part of the stored session was lost ({why}). All of this conversation is saved anew; files that \
         `/restore` and long outputs need may be missing."
    )
}

/// Makes the notice that a conversation is not saved any more.
fn not_saved(err: &StoreError) -> Event {
    let why = match err {
        // Clients read the notice, too: the database's address is only in the server's log.
        StoreError::Unavailable(why) => {
            tracing::warn!("a conversation is not being saved: {why}");
            err.for_clients()
        }
        err => err.to_string(),
    };
    Event::Notice(format!(
        "This conversation is not being saved: {why}. You can go on, but what is not saved is lost if tandem \
         ends before saving works again."
    ))
}
