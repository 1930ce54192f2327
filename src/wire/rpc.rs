//! A JSON-RPC connection over any byte stream, one message a line.
//!
//! [`serve`] reads and answers; the [`Peer`] it hands out calls the other side. Two tasks touch
//! the stream: the reader (`serve` itself), which waits for nothing but input, and the writer,
//! which alone writes. Requests are begun in the order read and end in any order.

mod lines;
mod outbox;

use std::collections::{HashMap, HashSet, VecDeque};
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use serde::Serialize;
use serde::de::{DeserializeOwned, IgnoredAny};
use serde_json::value::RawValue;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::oneshot;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::{AbortOnDropHandle, TaskTracker, task_tracker::TaskTrackerToken};

use self::lines::{Line, Lines};
use self::outbox::Outbox;
pub use self::outbox::PACKET;
use crate::jsonrpc::{Envelope, Error, Invalid, Message, Params, Request, Response};
use parking_lot::Mutex;

/// How many unwritten bytes of answers are kept for a peer that sends and does not read; over
/// that, the reader waits. No peer that reads what it is sent comes near. Our own calls do not
/// count: the peer did not cause them, and its answers must be read.
const MAX_UNREAD: usize = 8 << 20;

/// How long the reader waits for a peer that reads nothing at all.
const PATIENCE: Duration = Duration::from_secs(30);

/// How many calls whose answers nobody waits for are remembered by their method.
const REMEMBERED: usize = 1024;

/// What a connection is told from outside.
pub struct Options {
    /// The longest line read, in bytes; a longer one is skipped and answered by an error.
    pub max_line: usize,
    /// Sees every line, for a transcript.
    pub tap: Option<Tap>,
    /// Fires when the input has ended; fired from outside, it ends the input.
    pub input_ended: CancellationToken,
    /// `true` if text in place of the first message ends the connection with [`NoMessages`]. Any
    /// later line that is no message is answered by an error.
    pub refuse_text: bool,
}

/// The peer's first line is text that nobody who sends messages would send.
#[derive(Debug)]
pub struct NoMessages;

impl fmt::Display for NoMessages {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the first line is text and no message")
    }
}

impl std::error::Error for NoMessages {}

/// Sees a line, without its end, as it is read or written.
pub type Tap = Arc<dyn Fn(Direction, &[u8]) + Send + Sync>;

/// Which way a line goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// From the peer.
    In,
    /// To the peer.
    Out,
}

/// Answers the other side's calls.
pub trait Handler {
    /// Begins to answer a request; called in the order read. What takes time keeps the
    /// `responder` and answers later.
    fn request(&self, method: &str, params: Params<'_>, responder: Responder);
}

/// Answers one request, exactly once: an unanswered one answers with an error when dropped.
pub struct Responder {
    /// `None` if the request has no id, and so wants no answer.
    id: Option<Box<RawValue>>,
    connection: Arc<Connection>,
    answered: bool,
    /// While it lives, the connection does not end by itself.
    _open: TaskTrackerToken,
}

/// Calls the other side. Cheap to clone; outlives the connection harmlessly.
#[derive(Clone)]
pub struct Peer(Arc<Connection>);

/// Why a call brought no result.
#[derive(Debug)]
pub enum CallError {
    /// No answer can come any more.
    Gone,
    /// The peer answered with an error.
    Refused(Error),
    /// The peer's result is not what the method returns.
    Unreadable(serde_json::Error),
}

impl fmt::Display for CallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Gone => f.write_str("the peer has gone"),
            Self::Refused(error) => error.fmt(f),
            Self::Unreadable(error) => write!(f, "the answer cannot be read: {error}"),
        }
    }
}

impl std::error::Error for CallError {}

#[derive(Default)]
struct Connection {
    outbox: Outbox,
    calls: Mutex<Calls>,
    /// The requests that are not answered yet.
    open: TaskTracker,
}

/// The calls sent and not answered yet.
#[derive(Default)]
struct Calls {
    next_id: u64,
    waiting: HashMap<u64, oneshot::Sender<Result<Box<RawValue>, Error>>>,
    /// The last that were sent without waiting and are not answered yet, by id.
    sent: VecDeque<(u64, &'static str)>,
    /// Methods that the log says are refused.
    refused: HashSet<&'static str>,
    /// No answer can come any more.
    closed: bool,
}

/// Serves one connection until the other side sends no more and all it asked for is answered.
/// An error says that nobody reads the answers, or is [`NoMessages`].
pub async fn serve<H: Handler>(
    input: impl AsyncRead + Unpin,
    output: impl AsyncWrite + Unpin + Send + 'static,
    options: Options,
    handler: impl FnOnce(Peer) -> H,
) -> anyhow::Result<()> {
    let Options { max_line, tap, input_ended, refuse_text } = options;
    let connection = Arc::new(Connection::default());
    let handler = handler(Peer(Arc::clone(&connection)));
    let writing = {
        let (connection, tap) = (Arc::clone(&connection), tap.clone());
        async move { connection.outbox.write_to(output, tap.as_ref()).await }
    };
    let mut writer = AbortOnDropHandle::new(tokio::spawn(writing));
    let _closing = Closing(&connection);

    let finish = async {
        let lines = Lines::new(input, max_line);
        let reading = connection.read(lines, tap.as_ref(), refuse_text, &handler);
        let read = input_ended.run_until_cancelled(reading).await;
        input_ended.cancel();
        connection.close_calls();
        if let Some(Err(stuck)) = read {
            return stuck;
        }
        connection.open.close();
        connection.open.wait().await;
        connection.outbox.close();
        std::future::pending().await
    };
    let written = tokio::select! {
        written = &mut writer => written,
        stuck = finish => return Err(stuck),
    };
    written.context("the writer panicked")?.context("cannot write to the peer")
}

/// Returns whether a line neither is JSON nor begins as a message does.
fn is_text(line: &[u8]) -> bool {
    let line = line.strip_prefix("\u{feff}".as_bytes()).unwrap_or(line).trim_ascii_start();
    !line.starts_with(b"{")
        && !line.starts_with(b"[")
        && serde_json::from_slice::<IgnoredAny>(line).is_err()
}

/// When it is dropped, no answer can come any more.
struct Closing<'a>(&'a Connection);

impl Drop for Closing<'_> {
    fn drop(&mut self) {
        self.0.close_calls();
    }
}

impl Connection {
    /// Reads to the end. An error says that the peer sends and does not read, or sends text.
    async fn read(
        self: &Arc<Self>,
        mut lines: Lines<impl AsyncRead + Unpin>,
        tap: Option<&Tap>,
        mut refuse_text: bool,
        handler: &impl Handler,
    ) -> anyhow::Result<()> {
        let max_line = lines.max_line();
        loop {
            match lines.next().await {
                Ok(Some(Line::Whole(line))) => {
                    let line = line.trim_ascii();
                    if line.is_empty() {
                        continue;
                    }
                    if std::mem::take(&mut refuse_text) && is_text(line) {
                        return Err(NoMessages.into());
                    }
                    if let Some(tap) = tap {
                        tap(Direction::In, line);
                    }
                    self.dispatch(line, handler);
                }
                Ok(Some(Line::TooLong)) => {
                    let error = Error::invalid_request(format_args!(
                        "a line of more than {max_line} bytes was skipped"
                    ));
                    self.refuse(Invalid { id: None, error });
                }
                Ok(None) => return Ok(()),
                Err(err) => {
                    tracing::warn!(%err, "cannot read from the peer");
                    return Ok(());
                }
            }
            self.room_for_answers().await?;
        }
    }

    /// Waits until the peer has read enough of its answers, for as long as it reads at all.
    async fn room_for_answers(&self) -> anyhow::Result<()> {
        while self.outbox.answers() > MAX_UNREAD {
            let written = self.outbox.written();
            let room = timeout(PATIENCE, self.outbox.room_for_answers(MAX_UNREAD)).await;
            if room.is_err() && self.outbox.written() == written {
                anyhow::bail!("the peer sends and reads nothing: it is hung up on");
            }
        }
        Ok(())
    }

    fn dispatch(self: &Arc<Self>, line: &[u8], handler: &impl Handler) {
        match Message::read(line) {
            Ok(Message::Request(Request { id, method, params })) => {
                let (connection, open) = (Arc::clone(self), self.open.token());
                let responder = Responder { id, connection, answered: false, _open: open };
                let begin = AssertUnwindSafe(|| handler.request(&method, params, responder));
                if catch_unwind(begin).is_err() {
                    tracing::error!(%method, "the handler panicked");
                }
            }
            Ok(Message::Response(response)) => self.complete(response),
            Ok(Message::Bare(id, _)) if id < self.calls.lock().next_id => {
                self.complete(Response { id: Some(id), result: Ok(RawValue::NULL) });
            }
            Ok(Message::Bare(_, invalid)) | Err(invalid) => self.refuse(invalid),
        }
    }

    fn refuse(&self, Invalid { id, error }: Invalid) {
        tracing::warn!(%error, "not a message");
        let id = id.as_deref().unwrap_or(RawValue::NULL);
        self.outbox.push_answer(|line| Envelope::error(id.get()).write(line, &error));
    }

    fn complete(&self, Response { id, result }: Response<'_>) {
        let mut calls = self.calls.lock();
        let waiting = id.and_then(|id| calls.waiting.remove(&id));
        let method = id.and_then(|id| calls.sent(id)).unwrap_or("?");
        match (waiting, result) {
            // The caller may have stopped waiting; its answer is then of no use.
            (Some(waiting), result) => drop(waiting.send(result.map(ToOwned::to_owned))),
            // A peer that does not know a method refuses it each time.
            (None, Err(error)) if calls.refused.insert(method) => {
                tracing::warn!(?id, method, %error, "the peer refused a call");
            }
            (None, Err(error)) => tracing::debug!(?id, method, %error, "the peer refused a call"),
            (None, Ok(_)) => tracing::trace!(?id, "an answer that nobody waits for"),
        }
    }

    /// Lets every caller know that no answer will come.
    fn close_calls(&self) {
        let mut calls = self.calls.lock();
        calls.closed = true;
        calls.waiting.clear();
    }
}

impl Calls {
    /// The method of a call that was sent without waiting and is answered now.
    fn sent(&mut self, id: u64) -> Option<&'static str> {
        let at = self.sent.binary_search_by_key(&id, |(id, _)| *id).ok()?;
        self.sent.remove(at).map(|(_, method)| method)
    }
}

impl Responder {
    /// Answers.
    pub fn send(mut self, result: Result<impl Serialize, Error>) {
        self.answered = true;
        let Some(id) = self.id.as_deref() else {
            if let Err(error) = result {
                tracing::warn!(%error, "a request without an id failed");
            }
            return;
        };
        self.connection.outbox.push_answer(|line| match result {
            Ok(result) => Envelope::result(id.get()).write(line, &result),
            Err(error) => Envelope::error(id.get()).write(line, &error),
        });
    }
}

impl Drop for Responder {
    fn drop(&mut self) {
        if let (false, Some(id)) = (self.answered, self.id.as_deref()) {
            let error = Error::internal("the agent could not handle this request");
            let envelope = Envelope::error(id.get());
            self.connection.outbox.push_answer(|line| envelope.write(line, &error));
        }
    }
}

impl Peer {
    /// Sends a request at once; the future waits for its answer, and fails when none can come.
    pub fn call<R: DeserializeOwned>(
        &self,
        method: &'static str,
        params: &impl Serialize,
    ) -> BoxFuture<'static, Result<R, CallError>> {
        let (sender, answer) = oneshot::channel();
        self.request(method, params, Some(sender));
        let answer = async move {
            let result = answer.await.map_err(|_| CallError::Gone)?.map_err(CallError::Refused)?;
            serde_json::from_str(result.get()).map_err(CallError::Unreadable)
        };
        answer.boxed()
    }

    /// Sends a request at once and does not wait for its answer.
    pub fn send(&self, method: &'static str, params: &impl Serialize) {
        self.request(method, params, None);
    }

    /// Waits until no more than `bytes` are unwritten.
    pub async fn room(&self, bytes: usize) {
        self.0.outbox.room(bytes).await;
    }

    /// How many bytes are not written yet.
    pub fn backlog(&self) -> usize {
        self.0.outbox.backlog()
    }

    fn request(
        &self,
        method: &'static str,
        params: &impl Serialize,
        waiting: Option<oneshot::Sender<Result<Box<RawValue>, Error>>>,
    ) {
        // Held while the line is queued, so that ids ascend on the wire.
        let mut calls = self.0.calls.lock();
        let id = calls.next_id;
        calls.next_id += 1;
        match waiting {
            Some(waiting) if !calls.closed => {
                calls.waiting.insert(id, waiting);
            }
            Some(_) => {}
            None => {
                // Some peers never answer.
                if calls.sent.len() == REMEMBERED {
                    calls.sent.pop_front();
                }
                calls.sent.push_back((id, method));
            }
        }
        self.0.outbox.push(|line| Envelope::request(id, method).write(line, params));
    }
}
