//! A JSON-RPC connection over any byte stream, with one message on each line.
//!
//! [`serve`] reads the other side's requests and passes them to a [`Handler`], which answers them. The [`Peer`] that
//! `serve` hands out sends requests to the other side. Two tasks use the stream: the reader, which is `serve` itself
//! and waits only for input and for the writer, and the writer, which is the only task that writes. Requests are begun
//! in the order in which they are read, and end in any order.

mod calls;
mod cancellation;
mod lines;
mod outbox;

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

use self::calls::PendingCalls;
use self::cancellation::{CANCEL_REQUEST, CancelRequestParams, Cancellations};
use self::lines::{LineRead, LineReader};
use self::outbox::Outbox;
pub use self::outbox::{LineDirection, PACKET_BYTES, Tap};
use crate::jsonrpc::{Envelope, Error, IncomingMessage, Invalid, Params, Request, Response};
use parking_lot::Mutex;

/// Maximum size of the answers that wait to be written, in bytes. Above it, the reader waits, so that a peer which
/// sends and does not read cannot fill the memory. A peer that reads never comes near the limit. Requests of this side
/// do not count: the peer did not cause them, and its answers to them must be read.
const MAX_UNREAD: usize = 8 << 20;

/// Time after which a connection ends if the peer takes none of the output. Meanwhile no further message of the peer is
/// read.
const WRITE_STALL_TIMEOUT: Duration = Duration::from_secs(30);

/// Settings of a connection.
pub struct ConnectionOptions {
    /// Maximum size of a line to read, in bytes. A longer line is skipped and answered with an error.
    pub max_line: usize,
    /// Function that gets every line read or written, for a transcript.
    pub tap: Option<Tap>,
    /// Token that fires when the input has ended. Firing it from outside ends the input.
    pub input_ended: CancellationToken,
    /// `true` if a first line that is text and no message ends the connection with [`NoMessages`]. A later line that is
    /// no message is always answered with an error.
    pub refuse_text: bool,
    /// `true` if the protocol has `$/cancel_request`. Then a dropped call sends a cancellation to the peer, and the
    /// peer's cancellations fire [`Responder::cancellation`].
    pub cancellation: bool,
}

impl ConnectionOptions {
    /// Returns the settings of a connection without a tap, without a check of the first line, and without cancellation.
    pub fn new(max_line: usize) -> Self {
        let input_ended = CancellationToken::new();
        Self { max_line, tap: None, input_ended, refuse_text: false, cancellation: false }
    }
}

/// Error of a connection whose first line is text that no JSON-RPC peer would send.
#[derive(Debug)]
pub struct NoMessages;

impl fmt::Display for NoMessages {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the first line is text and not a message")
    }
}

impl std::error::Error for NoMessages {}

/// Handler of the other side's requests.
pub trait Handler {
    /// Begins to answer a request. Called in the order in which the requests are read, and on the reader's task: work
    /// that takes time should run on another task, which gets the `responder` and answers later.
    fn request(&self, method: &str, params: Params<'_>, responder: Responder);
}

/// Means to answer one request, exactly once. A responder that is dropped without an answer answers with an error.
pub struct Responder {
    /// Id of the request; `None` for a notification, which is not answered.
    id: Option<Box<RawValue>>,
    connection: Arc<RpcConnection>,
    /// Token that fires when the peer cancels the request; `None` if the request cannot be cancelled.
    cancellation: Option<CancellationToken>,
    answered: bool,
    /// Token that keeps the connection open until the responder is dropped.
    _open: TaskTrackerToken,
}

/// The other side of a connection, for requests to it. Cloning is cheap. A peer may outlive the connection: its calls
/// then fail.
#[derive(Clone)]
pub struct Peer(Arc<RpcConnection>);

/// Reason why a call brought no result.
#[derive(Debug)]
pub enum CallError {
    /// No answer can come any more.
    Gone,
    /// The peer answered with an error.
    Refused(Error),
    /// The peer's result is not of the method's type.
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
struct RpcConnection {
    outbox: Outbox,
    /// Requests of this side that have no response yet.
    calls: Mutex<PendingCalls>,
    /// Tokens of the peer's open requests; `None` if the protocol has no cancellation.
    cancellations: Option<Cancellations>,
    /// Tracker of the responders that are not dropped yet.
    open: TaskTracker,
}

/// Serves one connection until the other side sends no more and all its requests are answered. An error means that the
/// other side does not read the answers, or is [`NoMessages`].
pub async fn serve<H: Handler>(
    input: impl AsyncRead + Unpin,
    output: impl AsyncWrite + Unpin + Send + 'static,
    options: ConnectionOptions,
    handler: impl FnOnce(Peer) -> H,
) -> anyhow::Result<()> {
    let ConnectionOptions { max_line, tap, input_ended, refuse_text, cancellation } = options;
    let cancellations = cancellation.then(Cancellations::default);
    let connection = Arc::new(RpcConnection { cancellations, ..RpcConnection::default() });
    let handler = handler(Peer(Arc::clone(&connection)));
    let writing = {
        let (connection, tap) = (Arc::clone(&connection), tap.clone());
        async move { connection.outbox.write_to(output, tap.as_ref()).await }
    };
    let mut writer = AbortOnDropHandle::new(tokio::spawn(writing));
    let _closing = Closing(&connection);

    let finish = async {
        let lines = LineReader::new(input, max_line);
        let reading = connection.read(lines, tap.as_ref(), refuse_text, &handler);
        let read = input_ended.run_until_cancelled(reading).await;
        input_ended.cancel();
        // The peer's answers can no longer come, so all calls fail now: a request that waits for such a call would
        // otherwise never be answered.
        connection.calls.lock().close();
        if let Some(Err(stuck)) = read {
            return stuck;
        }
        connection.open.close();
        connection.open.wait().await;
        connection.outbox.close();
        // The writer ends once everything is written, and with it the `select!` below.
        std::future::pending().await
    };
    let written = tokio::select! {
        written = &mut writer => written,
        stuck = finish => return Err(stuck),
    };
    written.context("the writer panicked")?.context("cannot write to the peer")
}

/// Returns `true` if a line neither is JSON nor begins like a message.
fn is_text(line: &[u8]) -> bool {
    let line = line.strip_prefix("\u{feff}".as_bytes()).unwrap_or(line).trim_ascii_start();
    !line.starts_with(b"{")
        && !line.starts_with(b"[")
        && serde_json::from_slice::<IgnoredAny>(line).is_err()
}

/// Guard that makes all waiting calls fail when the connection is no longer served.
struct Closing<'a>(&'a RpcConnection);

impl Drop for Closing<'_> {
    fn drop(&mut self) {
        self.0.calls.lock().close();
    }
}

impl RpcConnection {
    /// Reads until the input ends. An error means that the peer sends and does not read, or sends text.
    async fn read(
        self: &Arc<Self>,
        mut lines: LineReader<impl AsyncRead + Unpin>,
        tap: Option<&Tap>,
        mut refuse_text: bool,
        handler: &impl Handler,
    ) -> anyhow::Result<()> {
        let max_line = lines.max_line();
        loop {
            match lines.next().await {
                Ok(Some(LineRead::Whole(line))) => {
                    let line = line.trim_ascii();
                    if line.is_empty() {
                        continue;
                    }
                    if std::mem::take(&mut refuse_text) && is_text(line) {
                        return Err(NoMessages.into());
                    }
                    if let Some(tap) = tap {
                        tap(LineDirection::In, line);
                    }
                    self.dispatch(line, handler);
                }
                Ok(Some(LineRead::TooLong)) => {
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

    /// Waits until at most [`MAX_UNREAD`] bytes of answers are unwritten. Fails if the peer has read nothing for
    /// [`WRITE_STALL_TIMEOUT`].
    async fn room_for_answers(&self) -> anyhow::Result<()> {
        while self.outbox.answers() > MAX_UNREAD {
            let written = self.outbox.written();
            let room = timeout(WRITE_STALL_TIMEOUT, self.outbox.room_for_answers(MAX_UNREAD)).await;
            if room.is_err() && self.outbox.written() == written {
                anyhow::bail!("the peer sends and reads nothing: the connection is closed");
            }
        }
        Ok(())
    }

    fn dispatch(self: &Arc<Self>, line: &[u8], handler: &impl Handler) {
        match IncomingMessage::read(line) {
            Ok(IncomingMessage::Request(request)) => self.begin(request, handler),
            Ok(IncomingMessage::Response(response)) => self.calls.lock().complete(response),
            Ok(IncomingMessage::Bare(id, invalid)) => {
                let mut calls = self.calls.lock();
                if calls.has_sent(id) {
                    calls.complete(Response { id: Some(id), result: Ok(RawValue::NULL) });
                } else {
                    self.refuse(invalid);
                }
            }
            Err(invalid) => self.refuse(invalid),
        }
    }

    fn begin(self: &Arc<Self>, request: Request<'_>, handler: &impl Handler) {
        let Request { id, method, params } = request;
        let cancellation = match (&self.cancellations, &id) {
            (Some(cancellations), None) if method == CANCEL_REQUEST => {
                return match params.parse::<CancelRequestParams<Box<RawValue>>>() {
                    Ok(params) => cancellations.cancel(params.request_id.get()),
                    Err(error) => tracing::warn!(%error, "a cancellation cannot be read"),
                };
            }
            (Some(cancellations), Some(id)) => Some(cancellations.add(id.get())),
            _ => None,
        };
        let (connection, open) = (Arc::clone(self), self.open.token());
        let responder = Responder { id, connection, cancellation, answered: false, _open: open };
        let begin = AssertUnwindSafe(|| handler.request(&method, params, responder));
        // A panic drops the responder, which answers the request with an error.
        if catch_unwind(begin).is_err() {
            tracing::error!(%method, "the handler panicked");
        }
    }

    fn refuse(&self, Invalid { id, error }: Invalid) {
        tracing::warn!(%error, "not a message");
        let id = id.as_deref().unwrap_or(RawValue::NULL);
        self.outbox.push_answer(|line| Envelope::error(id.get()).write(line, &error));
    }

    /// Sends the peer the cancellation of a call, if the protocol has cancellation.
    fn cancel(&self, id: u64) {
        if self.cancellations.is_some() {
            self.notify(CANCEL_REQUEST, &CancelRequestParams { request_id: id });
        }
    }

    fn notify(&self, method: &str, params: &impl Serialize) {
        self.outbox.push(|line| Envelope::notification(method).write(line, params));
    }
}

/// Guard of a request that was sent. Dropping it stops the waiting for the response, and cancels the request if the
/// protocol has cancellation and there is no response yet.
struct AbandonOnDrop {
    connection: Arc<RpcConnection>,
    id: u64,
}

impl Drop for AbandonOnDrop {
    fn drop(&mut self) {
        if self.connection.calls.lock().abandon(self.id) {
            self.connection.cancel(self.id);
        }
    }
}

impl Responder {
    /// Returns the id of the request, as the peer wrote it; `None` for a notification.
    pub fn id(&self) -> Option<&RawValue> {
        self.id.as_deref()
    }

    /// Answers the request.
    pub fn send(mut self, result: Result<impl Serialize, Error>) {
        self.answered = true;
        let Some(id) = self.id.as_deref() else {
            if let Err(error) = result {
                tracing::warn!(%error, "a notification failed");
            }
            return;
        };
        self.connection.outbox.push_answer(|line| match result {
            Ok(result) => Envelope::result(id.get()).write(line, &result),
            Err(error) => Envelope::error(id.get()).write(line, &error),
        });
    }

    /// Answers with the output of `work`. If the peer cancels the request before `work` ends, `work` is dropped, and
    /// the answer is [`Error::cancelled`].
    pub async fn send_output<R: Serialize>(self, work: impl Future<Output = Result<R, Error>>) {
        let output = self.cancellation().run_until_cancelled_owned(work).await;
        self.send(output.unwrap_or_else(|| Err(Error::cancelled())));
    }

    /// Returns a token that fires when the peer cancels the request. A cancelled request must be answered too, with a
    /// result if that is of use. If the responder is dropped instead, the answer is [`Error::cancelled`].
    pub fn cancellation(&self) -> CancellationToken {
        self.cancellation.clone().unwrap_or_default()
    }
}

impl Drop for Responder {
    fn drop(&mut self) {
        let Some(id) = self.id.as_deref() else { return };
        if !self.answered {
            let cancelled = self.cancellation.as_ref().is_some_and(CancellationToken::is_cancelled);
            let error = if cancelled {
                Error::cancelled()
            } else {
                Error::internal("the agent could not handle this request")
            };
            let envelope = Envelope::error(id.get());
            self.connection.outbox.push_answer(|line| envelope.write(line, &error));
        }
        if let Some(cancellations) = &self.connection.cancellations {
            cancellations.remove(id.get());
        }
    }
}

impl Peer {
    /// Sends a request at once. The returned future waits for the answer, and fails when no answer can come. Dropping
    /// the future before the answer cancels the request, if the protocol has cancellation.
    pub fn call<R: DeserializeOwned>(
        &self,
        method: &str,
        params: &impl Serialize,
    ) -> BoxFuture<'static, Result<R, CallError>> {
        self.call_cancellable(method, params, CancellationToken::new())
    }

    /// Sends a request at once, as [`Self::call`] does. When `cancelled` fires, the peer is sent a cancellation, if the
    /// protocol has cancellation. The future then goes on to wait for the peer's answer.
    pub fn call_cancellable<R: DeserializeOwned>(
        &self,
        method: &str,
        params: &impl Serialize,
        cancelled: CancellationToken,
    ) -> BoxFuture<'static, Result<R, CallError>> {
        let (sender, mut answer) = oneshot::channel();
        let id = self.request(method, params, |calls| calls.awaited(sender));
        let abandon = AbandonOnDrop { connection: Arc::clone(&self.0), id };
        let answer = async move {
            let early = tokio::select! {
                biased;
                result = &mut answer => Some(result),
                () = cancelled.cancelled() => None,
            };
            let result = if let Some(result) = early {
                result
            } else {
                abandon.connection.cancel(id);
                answer.await
            };
            let result = result.map_err(|_| CallError::Gone)?.map_err(CallError::Refused)?;
            serde_json::from_str(result.get()).map_err(CallError::Unreadable)
        };
        answer.boxed()
    }

    /// Sends a request at once and does not wait for its answer.
    pub fn send(&self, method: &'static str, params: &impl Serialize) {
        self.request(method, params, |calls| calls.unawaited(method));
    }

    /// Sends a notification, which has no answer.
    pub fn notify(&self, method: &str, params: &impl Serialize) {
        self.0.notify(method, params);
    }

    /// Waits until at most `bytes` bytes to the peer are unwritten.
    pub async fn wait_backlog_below(&self, bytes: usize) {
        self.0.outbox.wait_backlog_below(bytes).await;
    }

    /// Returns the number of bytes that are not written yet.
    pub fn backlog(&self) -> usize {
        self.0.outbox.backlog()
    }

    /// Sends a request, and returns its id.
    fn request(
        &self,
        method: &str,
        params: &impl Serialize,
        register: impl FnOnce(&mut PendingCalls) -> u64,
    ) -> u64 {
        // The lock is held while the line is queued, so that ids ascend on the wire.
        let mut calls = self.0.calls.lock();
        let id = register(&mut calls);
        self.0.outbox.push(|line| Envelope::request(id, method).write(line, params));
        id
    }
}
