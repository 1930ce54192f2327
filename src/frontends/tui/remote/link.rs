//! Link to the session: asks for new entries, sends requests, and connects again after a lost connection.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use futures::{FutureExt as _, StreamExt as _};
use serde_json::value::RawValue;
use tokio::sync::{mpsc, oneshot};

use super::super::news::SessionNotification;
use super::agent::AttachableAgent;
use super::socket::{AttachError, SocketConnection};
use tandem_agent::session::{Entry, Event};
use tandem_net::Backoff;
use tandem_wire::attach::{
    self, EVENTS_METHOD, EventsParams, EventsResult, OPEN_METHOD, OpenParams, OpenResult,
    REFUSED_CODE,
};
use tandem_wire::jsonrpc::Error;
use tandem_wire::rpc::{CallError, Peer};

/// Upper bound of a request's size without its parameters, in bytes.
pub(super) const MAX_ENVELOPE_BYTES: usize = 200;

/// Waiting times before attempts to connect again.
const RECONNECT_BACKOFF: Backoff =
    Backoff::doubling(Duration::from_millis(100), Duration::from_secs(5));

/// A request to the session. It is sent again if the connection is lost before the answer comes.
pub(super) struct PendingRequest {
    pub(super) method: &'static str,
    pub(super) params: Box<RawValue>,
    /// Sender of the answer; the error is a text for the user.
    pub(super) reply: oneshot::Sender<Result<Box<RawValue>, String>>,
}

type CallResult = Result<Box<RawValue>, CallError>;

/// State of the link to the session.
pub(super) struct Link {
    agent: AttachableAgent,
    /// Parameters that join the same session again.
    open: OpenParams,
    news: mpsc::Sender<SessionNotification>,
    input_limit: Arc<AtomicU64>,
    /// Index of the log entry to report next.
    next: usize,
    /// Requests without an answer, by their numbers.
    asks: BTreeMap<u64, PendingRequest>,
    /// Number of requests so far.
    count: u64,
}

/// Joins a session over a new connection.
pub(super) async fn open(
    connection: &SocketConnection,
    agent: &AttachableAgent,
    ask: &OpenParams,
) -> Result<OpenResult, AttachError> {
    connection.peer.call(OPEN_METHOD, ask).await.map_err(|error| match error {
        CallError::Gone => AttachError::ForNow(format!("{agent} has closed the connection")),
        CallError::Refused(error) => AttachError::Final(for_people(&error)),
        CallError::Unreadable(err) => {
            AttachError::Final(format!("the agent on {agent} is another version of tandem: {err}"))
        }
    })
}

impl Link {
    pub(super) fn new(
        agent: AttachableAgent,
        open: OpenParams,
        news: mpsc::Sender<SessionNotification>,
        input_limit: Arc<AtomicU64>,
    ) -> Self {
        Self { agent, open, news, input_limit, next: 0, asks: BTreeMap::new(), count: 0 }
    }

    /// Runs the link until the session is over or cannot be reached any more.
    pub(super) async fn run(
        mut self,
        mut connection: SocketConnection,
        mut asked: mpsc::UnboundedReceiver<PendingRequest>,
    ) {
        let why = loop {
            if let Err(fault) = self.follow(&connection.peer, &mut asked).await {
                break fault;
            }
            if connection.closed().await {
                break format!("the agent on {} has ended", self.agent);
            }
            self.tell(SessionNotification::Lost).await;
            connection = match self.again().await {
                Ok(connection) => connection,
                Err(why) => break why,
            };
            self.tell(SessionNotification::Restored).await;
        };
        self.tell(SessionNotification::Ended(why)).await;
    }

    /// Reports new entries and sends requests until the connection is lost. The error says why another connection would
    /// be of no use.
    async fn follow(
        &mut self,
        peer: &Peer,
        asked: &mut mpsc::UnboundedReceiver<PendingRequest>,
    ) -> Result<(), String> {
        let again = self.asks.iter().map(|(number, ask)| call(peer, *number, ask));
        let mut answers: FuturesUnordered<_> = again.collect();
        let mut events = self.events(peer);
        loop {
            tokio::select! {
                Some((number, answer)) = answers.next() => self.answered(number, answer),
                Some(ask) = asked.recv() => {
                    self.count += 1;
                    answers.push(call(peer, self.count, &ask));
                    self.asks.insert(self.count, ask);
                }
                happened = &mut events => {
                    match happened {
                        Ok(happened) => self.happened(happened).await?,
                        Err(CallError::Gone) => return Ok(()),
                        // An agent that is ending refuses this request a moment before it closes the connection.
                        Err(CallError::Refused(error)) if error.code == Error::INTERNAL_ERROR => {
                            return Ok(());
                        }
                        Err(CallError::Refused(error)) => return Err(for_people(&error)),
                        Err(CallError::Unreadable(err)) => {
                            return Err(format!("the agent's message cannot be read: {err}"));
                        }
                    }
                    events = self.events(peer);
                }
            }
        }
    }

    fn events(
        &self,
        peer: &Peer,
    ) -> BoxFuture<'static, Result<EventsResult<Box<RawValue>>, CallError>> {
        let bytes = self.agent.line_bytes.saturating_sub(MAX_ENVELOPE_BYTES);
        peer.call(EVENTS_METHOD, &EventsParams { from: self.next, bytes })
    }

    async fn happened(&mut self, happened: EventsResult<Box<RawValue>>) -> Result<(), String> {
        // Without progress, this task would request the same entries for ever.
        if happened.next <= self.next {
            return Err("the agent sends the same events again and again".to_owned());
        }
        let new = happened.entries.into_iter().filter(|entry| entry.index >= self.next);
        let entries = new.map(read).collect();
        self.next = happened.next;
        self.input_limit.store(happened.input_limit.unwrap_or(0), Ordering::Relaxed);
        self.tell(SessionNotification::Entries(entries)).await;
        Ok(())
    }

    fn answered(&mut self, number: u64, answer: CallResult) {
        let answer = match answer {
            // The request stays in `asks`, and is sent again over the next connection.
            Err(CallError::Gone) => return,
            Ok(answer) => Ok(answer),
            Err(CallError::Refused(error)) => Err(for_people(&error)),
            Err(CallError::Unreadable(err)) => Err(err.to_string()),
        };
        if let Some(ask) = self.asks.remove(&number) {
            // A failed send is ignored: the caller may have stopped waiting.
            let _ = ask.reply.send(answer);
        }
    }

    async fn tell(&self, news: SessionNotification) {
        // A failed send is ignored: the `Remote` is dropped then, which aborts this task.
        let _ = self.news.send(news).await;
    }

    /// Connects again, however long that takes. The error is the reason why no further connection is possible.
    async fn again(&self) -> Result<SocketConnection, String> {
        let mut failures = 0;
        loop {
            failures += 1;
            tokio::time::sleep(RECONNECT_BACKOFF.delay(failures)).await;
            match self.connect().await {
                Ok(connection) => return Ok(connection),
                Err(AttachError::Nobody) => {
                    return Err(format!("the agent on {} has ended", self.agent));
                }
                Err(AttachError::Final(why)) => return Err(why),
                Err(AttachError::ForNow(why)) => tracing::debug!("not connected again: {why}"),
            }
        }
    }

    async fn connect(&self) -> Result<SocketConnection, AttachError> {
        let connection = SocketConnection::open(&self.agent).await?;
        match open(&connection, &self.agent, &self.open).await? {
            OpenResult::Opened(_) => Ok(connection),
            OpenResult::Choose(_) => {
                Err(AttachError::Final(format!("the session on {} has ended", self.agent)))
            }
        }
    }
}

fn call(peer: &Peer, number: u64, ask: &PendingRequest) -> BoxFuture<'static, (u64, CallResult)> {
    peer.call(ask.method, &ask.params).map(move |answer| (number, answer)).boxed()
}

/// Returns an entry of the log, with a note in place of an event that cannot be read.
fn read(entry: attach::LogEntry<Box<RawValue>>) -> Entry {
    let note = |why: &str| Event::Notice(format!("An event is not shown: {why}."));
    let event = match entry.event.map(|event| serde_json::from_str(event.get())) {
        Some(Ok(Event::Unknown(_)) | Err(_)) => note("the agent is another version of tandem"),
        Some(Ok(event)) => event,
        None => note("it is too large (--limit line-bytes=N)"),
    };
    Entry { index: entry.index, at: entry.at, event: Arc::new(event) }
}

/// Returns the message of an error for people.
fn for_people(error: &tandem_wire::jsonrpc::Error) -> String {
    match error.details() {
        Some(details) if error.code == REFUSED_CODE => details.into_owned(),
        _ => error.to_string(),
    }
}
