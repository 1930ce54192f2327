//! Writes a session's log to its store as it grows, and says in the log what is kept.
//!
//! The keeper is one more reader of the log: appending an event waits for no disk.

use std::collections::BTreeSet;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, sleep, sleep_until};
use tokio_util::sync::CancellationToken;

use super::file_uploads::FileUploads;
use super::store::{Batch, BatchSummary, Claim, Head, Secrets, Store, StoreError};
use super::store_health::StoreHealth;
use crate::session::events::event::{Event, TaskEvent, TurnId};
use crate::session::events::log::{Abandonment, Log, Reader};
use crate::session::events::principal::Shares;
use crate::session::state::session_state::{SessionState, prompt_title};

/// Least time between two writes of chunks, which come by the hundred; all else is written at once.
/// People don't notice it, and the file has one line for several chunks.
const GAP: Duration = Duration::from_millis(10);

/// Time after which a store that has refused is tried again, by a session that goes on without it.
const AGAIN: Duration = Duration::from_secs(10);

/// Time after which a store that has refused is tried again, by a session that waits for it.
const WAITING_RETRY_INTERVAL: Duration = Duration::from_secs(1);

/// Time after which an operation of the store counts as slow, each time that it passes.
const SLOW: Duration = Duration::from_secs(3);

/// Maximum number of events in a line.
const LONGEST_BATCH: usize = 512;

/// Maximum number of events that are written at once: bounds the memory of what is on its way.
const MOST_AT_ONCE: usize = 1024;

/// Content of a store that belongs to a session and is not in its log.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct BesideLog {
    /// Port of this machine at which others can join the session.
    pub(super) port: Option<u16>,
    pub(super) secrets: Secrets,
}

/// Progress of a session that was stored before.
pub(super) struct StoredProgress {
    /// The session as a list shows it.
    pub(super) summary: BatchSummary,
    /// The turns that go on.
    pub(super) open: BTreeSet<TurnId>,
    /// `true` if the session has no title yet.
    pub(super) is_untitled: bool,
}

/// Refusals of a session's store, and their effect on the session.
pub(crate) struct Refusals {
    /// Time for which the session waits for a store that refuses, and then ends; `None`: the session goes on
    /// without the store.
    patience: Option<Duration>,
    /// Time of the first refusal, while the store refuses.
    since: Option<Instant>,
    health: StoreHealth,
}

impl Refusals {
    /// Makes the refusals of a session: a session of clients waits for its store for so long, as what clients are
    /// told must be stored; at a terminal or in an editor the conversation goes on.
    pub(crate) fn new(is_served: bool, patience: Duration, health: StoreHealth) -> Self {
        Self { patience: is_served.then_some(patience), since: None, health }
    }

    fn is_failing(&self) -> bool {
        self.since.is_some()
    }

    /// Returns the time after which the store is tried again.
    fn retry_interval(&self) -> Duration {
        if self.patience.is_some() { WAITING_RETRY_INTERVAL } else { AGAIN }
    }

    /// Notes a refusal. People are told of the first. Returns the reason to end the session, if it has waited for
    /// long enough.
    fn note(&mut self, log: &Log, error: &StoreError) -> Option<Abandonment> {
        let now = Instant::now();
        let is_first = self.since.is_none();
        let since = *self.since.get_or_insert(now);
        self.health.note_refusal();
        let Some(patience) = self.patience else {
            if is_first {
                log.refused();
                log.append(not_saved(error));
            }
            return None;
        };
        if is_first {
            tracing::warn!("a session waits until it can be saved: {error}");
        }
        let why = match error {
            StoreError::Refused(why) => why.clone(),
            _ if now.duration_since(since) < patience => return None,
            error => error.to_string(),
        };
        tracing::error!(
            "a session ends, as it could not be saved for {} s: {why}",
            patience.as_secs()
        );
        Some(Abandonment::Refused(why))
    }

    /// Waits for an operation of the store. What takes long counts as a refusal in the store's health; a session
    /// that waits for its store gives up when its time is over.
    async fn wait_for<T>(
        &self,
        operation: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        let waited = self.since.map_or(Duration::ZERO, |since| since.elapsed());
        let mut left = self.patience.map(|patience| patience.saturating_sub(waited));
        tokio::pin!(operation);
        loop {
            // In steps: a process that was suspended polls the store once more before it gives up.
            let step = left.map_or(SLOW, |left| left.min(SLOW));
            tokio::select! {
                biased;
                result = &mut operation => return result,
                () = sleep(step) => self.health.note_refusal(),
            }
            left = left.map(|left| left.saturating_sub(step));
            if left == Some(Duration::ZERO) {
                let seconds = self.patience.unwrap_or_default().as_secs();
                let why = format!("its store has not answered for {seconds} s");
                return Err(StoreError::Refused(why));
            }
        }
    }

    /// Notes that the store has taken events. Returns `true` if it had refused them before.
    fn end(&mut self, log: &Log) -> bool {
        self.health.note_success();
        let has_refused = self.since.take().is_some();
        if has_refused {
            log.stored();
        }
        has_refused
    }

    /// Returns the reason to keep nothing of a session that ends while its store refuses.
    fn at_end(&self) -> Option<Abandonment> {
        (self.is_failing() && self.patience.is_some()).then(|| {
            Abandonment::Refused("the session has ended before it could be saved".to_owned())
        })
    }
}

/// Session that is kept: its log, and what a store has of it beside that.
pub(super) struct KeptSession {
    pub(super) log: Log,
    pub(super) changes: watch::Receiver<BesideLog>,
    /// Files, if several nodes share the store.
    pub(super) files: Option<FileUploads>,
    /// Fires when the session is closed.
    pub(super) closed: CancellationToken,
    /// Fires when the session is let go in the middle of a turn.
    pub(super) handed_over: CancellationToken,
}

/// The writer of one session's log.
pub(super) struct Keeper {
    log: Log,
    /// As it is to be stored.
    beside: watch::Receiver<BesideLog>,
    files: Option<FileUploads>,
    /// As it is stored.
    stored_beside: BesideLog,
    /// Gives what is not written yet.
    reader: Reader,
    claim: Box<dyn Claim>,
    /// Fires when the session is let go in the middle of a turn.
    handed_over: CancellationToken,
    /// When something was written last.
    written: Instant,
    /// Number of turns so far.
    turns: u64,
    /// The session's title, if it is not the head's.
    title: Option<String>,
    /// `true` until the session has a title.
    is_untitled: bool,
    /// Those with whom the session is shared.
    shares: Shares,
    /// The turns that have not ended.
    open: BTreeSet<TurnId>,
    refusals: Refusals,
    /// Reason to keep nothing any more.
    abandonment: Option<Abandonment>,
    /// Reason why a part of what is stored is lost, until all of it is saved anew.
    lost: Option<&'static str>,
    /// When that was last begun.
    renewed: Option<Instant>,
}

/// Keeps the log of a new session, as soon as it is worth it. Ends when the session is closed and
/// all is written.
pub(super) async fn keep_new(
    store: Arc<dyn Store>,
    session: KeptSession,
    head: impl FnOnce(&SessionState) -> Head + Send,
    refusals: impl FnOnce(bool) -> Refusals + Send,
) {
    let (log, closed) = (session.log.clone(), session.closed.clone());
    tokio::select! {
        biased;
        () = log.born() => {}
        () = closed.cancelled() => return,
    }
    let head = head(&SessionState::of(&mut log.read(0)));
    let mut refusals = refusals(head.served);
    let claim = loop {
        let err = match refusals.wait_for(store.create(&head)).await {
            Ok(claim) => break claim,
            // Another process has begun one of that id.
            Err(StoreError::TakenOver) => return log.abandon(Abandonment::TakenOver),
            Err(err) => err,
        };
        if let Some(reason) = refusals.note(&log, &err) {
            return log.abandon(reason);
        }
        if closed.is_cancelled() {
            return refusals.at_end().map_or((), |reason| log.abandon(reason));
        }
        tokio::select! {
            () = sleep(refusals.retry_interval()) => {}
            () = closed.cancelled() => {}
        }
    };
    let is_untitled = head.title.is_empty();
    let is_failing = refusals.is_failing();
    let mut keeper = Keeper { is_untitled, ..Keeper::new(session, claim, refusals) };
    if is_failing {
        // It has waited for this long enough.
        keeper.write().await;
    }
    keeper.run(closed).await;
}

/// Keeps the log of a session that was stored before.
pub(super) async fn keep_on(
    claim: Box<dyn Claim>,
    StoredProgress { summary, open, is_untitled }: StoredProgress,
    session: KeptSession,
    refusals: Refusals,
) {
    let stored_beside = BesideLog { port: None, ..session.changes.borrow().clone() };
    let closed = session.closed.clone();
    let keeper = Keeper::new(session, claim, refusals);
    let BatchSummary { turns, title, shares, .. } = summary;
    Keeper { stored_beside, turns, title, is_untitled, shares, open, ..keeper }.run(closed).await;
}

impl Keeper {
    fn new(session: KeptSession, claim: Box<dyn Claim>, refusals: Refusals) -> Self {
        Self {
            reader: session.log.read(claim.next()),
            log: session.log,
            beside: session.changes,
            files: session.files,
            stored_beside: BesideLog::default(),
            claim,
            handed_over: session.handed_over,
            written: Instant::now(),
            turns: 0,
            title: None,
            is_untitled: false,
            shares: Shares::new(),
            open: BTreeSet::new(),
            refusals,
            abandonment: None,
            lost: None,
            renewed: None,
        }
    }

    async fn run(mut self, closed: CancellationToken) {
        let mut is_closing = false;
        loop {
            self.wait(&closed, is_closing).await;
            // Before what has come is looked at: all turns that have begun are in it then.
            is_closing = closed.is_cancelled();
            let is_left = self.handed_over.is_cancelled();
            let ends_turn = self.write().await;
            if ends_turn || is_left || self.log.wants_sync() {
                self.sync().await;
            }
            if let Some(reason) = self.abandonment {
                if reason == Abandonment::TakenOver {
                    tracing::warn!("another process has taken the session over");
                }
                return self.log.abandon(reason);
            }
            if is_left && !self.refusals.is_failing() {
                // What the turn does from now on is not kept: the process that has the session next goes on with it.
                self.claim.release().await;
                return self.log.abandon(Abandonment::TakenOver);
            }
            // A turn that the closing cancels ends a little later.
            if is_closing && (self.open.is_empty() || self.refusals.is_failing()) {
                break;
            }
        }
        // A last attempt at what the store has refused.
        self.renewed = None;
        self.write().await;
        self.sync().await;
        self.claim.release().await;
        // Whoever still waits for something to be kept must not wait for ever.
        match self.abandonment.or_else(|| self.refusals.at_end()) {
            Some(reason) => self.log.abandon(reason),
            None => self.log.unstored(),
        }
    }

    /// Waits until there is something to do; `is_closing`: the closing is nothing new.
    async fn wait(&mut self, closed: &CancellationToken, is_closing: bool) {
        let closed = async {
            if is_closing { std::future::pending().await } else { closed.cancelled().await }
        };
        tokio::pin!(closed);
        let mut taken_over = self.claim.taken_over();
        if self.refusals.is_failing() {
            tokio::select! {
                () = sleep(self.refusals.retry_interval()) => {}
                () = closed => {}
                () = &mut taken_over => self.abandonment = Some(Abandonment::TakenOver),
            }
            return;
        }
        tokio::select! {
            () = self.reader.ready() => {}
            () = &mut taken_over => return self.abandonment = Some(Abandonment::TakenOver),
            () = self.log.sync_wanted() => return,
            () = self.handed_over.cancelled() => return,
            Ok(()) = self.beside.changed() => return,
            () = &mut closed => return,
        }
        tokio::select! {
            biased;
            () = self.log.urgent(self.reader.position()) => {}
            () = closed => {}
            () = sleep_until(self.written + GAP) => {}
        }
    }

    /// Writes what has come. Returns `true` if a turn has ended with it.
    async fn write(&mut self) -> bool {
        if self.abandonment.is_some() {
            return false;
        }
        if let Some(why) = self.lost {
            self.failed(StoreError::Lost(why)).await;
            return false;
        }
        let mut ends_turn = false;
        loop {
            let from = self.reader.position();
            let batches = self.collect(&mut ends_turn);
            let end = self.reader.position();
            // What an event says is beside the log must be there first.
            if let Err(err) = self.write_beside().await {
                self.failed(err).await;
                return false;
            }
            if end == from {
                return ends_turn;
            }
            if !batches.is_empty() {
                if let Err(err) = self.refusals.wait_for(self.claim.append(batches)).await {
                    self.failed(err).await;
                    return false;
                }
                self.written = Instant::now();
            }
            if self.refusals.end(&self.log) && self.refusals.patience.is_none() {
                self.log.append(Event::Notice("The conversation is saved again.".to_owned()));
            }
            self.log.set_kept(end);
        }
    }

    /// Writes what belongs beside the log, where it has changed.
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
            self.refusals.wait_for(self.claim.keep_secrets(&beside.secrets)).await?;
        }
        if let Some(port) = beside.port.filter(|port| self.stored_beside.port != Some(*port)) {
            // A courtesy, without which nothing is lost.
            if let Err(err) = self.refusals.wait_for(self.claim.announce(port)).await {
                tracing::debug!("others are not told where to join: {err}");
            }
        }
        self.stored_beside = beside;
        Ok(())
    }

    /// Returns what has come, or some of it, but for what is not to be kept.
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
            if self.note(&entry.event, ends_turn) {
                let (title, shares) = (self.title.clone(), self.shares.clone());
                let busy = !self.open.is_empty();
                batch.summary = Some(BatchSummary { turns: self.turns, title, shares, busy });
            }
            batch.events.push((entry.at, entry.event));
        }
        batches
    }

    /// Notes the turns that begin and end, the title and the shares. Returns `true` if a list of sessions shows it.
    fn note(&mut self, event: &Event, ends_turn: &mut bool) -> bool {
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

    async fn sync(&mut self) {
        if self.refusals.is_failing() || self.abandonment.is_some() {
            return;
        }
        let end = self.reader.position();
        match self.refusals.wait_for(self.claim.sync()).await {
            Ok(()) => self.log.set_synced(end),
            Err(err) => self.failed(err).await,
        }
    }

    /// Saves the whole log anew if a part of it is lost. Else notes the refusal; what was not written is read again
    /// later.
    async fn failed(&mut self, err: StoreError) {
        if matches!(err, StoreError::TakenOver) {
            self.abandonment = Some(Abandonment::TakenOver);
            return;
        }
        // Where all is lost again and again, not all is written again and again.
        let may_renew = self.renewed.is_none_or(|renewed| renewed.elapsed() >= AGAIN);
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
                    return self.abandonment = Some(Abandonment::TakenOver);
                }
                Err(err) => err,
            },
            err => err,
        };
        self.reader = self.log.read(self.claim.next());
        self.abandonment = self.refusals.note(&self.log, &err);
    }

    /// Writes the whole log anew, which counts when all of it is on the disk.
    async fn renew(&mut self) -> Result<(), StoreError> {
        self.renewed = Some(Instant::now());
        self.claim.renew().await?;
        // It may have gone with the log.
        self.stored_beside = BesideLog::default();
        self.files.iter().for_each(FileUploads::write_again);
        self.write_beside().await?;
        self.reader = self.log.read(0);
        let end = self.log.len();
        while self.reader.position() < end {
            let batches = self.collect(&mut false);
            if self.log.is_damaged() {
                // What is left of the stored log may have more.
                let why = "a part of the conversation cannot be read from the disk";
                return Err(StoreError::Io(io::Error::other(why)));
            }
            self.refusals.wait_for(self.claim.append(batches)).await?;
        }
        self.refusals.wait_for(self.claim.sync()).await?;
        let end = self.reader.position();
        self.refusals.end(&self.log);
        self.log.set_kept(end);
        self.log.set_synced(end);
        Ok(())
    }
}

fn saved_anew(why: &str) -> String {
    format!(
        "A part of the stored session was lost ({why}). This conversation is saved anew, whole; \
         what `/restore` and long outputs had in files may be missing."
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
        "This conversation is not being saved: {why}. It goes on, and is lost when tandem ends, \
         unless it can be saved again before."
    ))
}
