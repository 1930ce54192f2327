//! Sessions that another process of this machine has open. The editor drives such a session over that process's port.
//!
//! Messages about the session are passed on unchanged, in both directions and in the order in which they are read.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use serde::de::IgnoredAny;
use serde_json::json;
use serde_json::value::RawValue;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, DuplexStream};
use tokio::sync::oneshot;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use super::answer::answer;
use super::editor::Editor;
use crate::Connection;
use tandem_wire::acp::INITIALIZE_METHOD;
use tandem_wire::acp::v1::{
    CLOSE_SESSION, LOAD_SESSION, PROTOCOL_VERSION, REQUEST_PERMISSION, RESUME_SESSION,
    SessionIdParams, UPDATE_METHOD,
};
use tandem_wire::jsonrpc::{Error, Params};
use tandem_wire::rpc::{self, CallError, Peer, Responder};

/// Maximum time for the other process to answer `initialize`.
const INITIALIZE_TIMEOUT: Duration = Duration::from_secs(10);

/// Number of bytes queued for the editor above which nothing more is read from the other process.
const MAX_BYTES_AHEAD: usize = 256 << 10;

/// Size of the pieces in which messages of the other process are read, in bytes.
const PIECE_BYTES: usize = 16 << 10;

/// Joined sessions of other processes, by their ids.
pub(super) type RemoteSessions = Arc<Mutex<HashMap<String, Arc<RemoteSession>>>>;

/// Error of a request about a session whose process has ended.
const PROCESS_GONE: &str =
    "the process that had this session open has ended; load the session again";

/// Error of a request that another process still carries out when this process ends.
const SESSION_CLOSING: &str =
    "the agent is ending; the request goes on in the process that has the session open";

/// A session that another process has open. Dropping it ends the connection to that process.
pub(super) struct RemoteSession {
    peer: Peer,
    /// Token that fires when the other process sends nothing more.
    ended: CancellationToken,
    /// Token that fires when this process ends.
    closing: CancellationToken,
    _serving: AbortOnDropHandle<()>,
}

impl Editor {
    /// Returns the joined session of another process that a message is about. `None` if the message is about no such
    /// session, so that this process answers the message.
    pub(super) fn remote_session(
        &self,
        method: &str,
        params: Params<'_>,
    ) -> Option<Arc<RemoteSession>> {
        let mut joined = self.remote.lock();
        // Reading the parameters costs time, so they are read only while sessions of other processes are joined.
        if joined.is_empty() {
            return None;
        }
        let SessionIdParams { session_id } = params.parse().ok()?;
        let has_ended = joined.get(&session_id)?.ended.is_cancelled();
        match method {
            CLOSE_SESSION => joined.remove(&session_id),
            // The process that had the session open has ended, so the session is opened as any other: the store tells
            // whether the session is free or open in yet another process.
            LOAD_SESSION | RESUME_SESSION if has_ended => {
                joined.remove(&session_id);
                None
            }
            _ => joined.get(&session_id).cloned(),
        }
    }
}

impl RemoteSession {
    /// Connects to the process that listens on `port` and has the session `id` open. Sends the parameters of the
    /// editor's `initialize` (`introduction`) to that process. The error tells the user why there is no connection.
    pub(super) async fn connect(
        connection: &Connection,
        port: u16,
        id: String,
        introduction: Option<Box<RawValue>>,
    ) -> Result<Self, String> {
        let Connection { service, peer: editor, max_line, .. } = connection;
        let stream = (service.connect_acp)(port).await?;
        let (ended, editor_gone) = (CancellationToken::new(), CancellationToken::new());
        let relay = RelayToEditor { editor: editor.clone(), id, ended: ended.clone(), editor_gone };
        let (sender, peer) = oneshot::channel();
        let serving = tokio::spawn(serve(stream, *max_line, relay, sender));
        let serving = AbortOnDropHandle::new(serving);
        let peer =
            peer.await.map_err(|_| "the other process has closed the connection".to_owned())?;
        let initialized = match introduction {
            Some(params) => peer.call::<IgnoredAny>(INITIALIZE_METHOD, &params),
            None => peer.call(INITIALIZE_METHOD, &json!({ "protocolVersion": PROTOCOL_VERSION })),
        };
        let closing = service.closing.clone();
        match timeout(INITIALIZE_TIMEOUT, initialized).await {
            Ok(Ok(_)) => Ok(Self { peer, ended, closing, _serving: serving }),
            Ok(Err(err)) => Err(err.to_string()),
            Err(_) => {
                Err(format!("the other process did not answer within {INITIALIZE_TIMEOUT:?}"))
            }
        }
    }

    /// Loads the session at the other process. The events that the other process shows before its answer are queued for
    /// the editor before this returns.
    pub(super) async fn load(
        &self,
        method: &str,
        params: Option<&RawValue>,
    ) -> Result<Box<RawValue>, Error> {
        self.peer.call(method, &params).await.map_err(relayed_error)
    }

    /// Passes a message of the editor on at once, and passes the answer back when it comes.
    pub(super) fn relay(
        self: Arc<Self>,
        method: &str,
        Params(params): Params<'_>,
        responder: Responder,
    ) {
        if responder.id().is_none() {
            return self.peer.notify(method, &params);
        }
        let cancelled = responder.cancellation();
        let call = self.peer.call_cancellable::<Box<RawValue>>(method, &params, cancelled);
        tokio::spawn(async move {
            // This task holds `self` until the answer comes: `session/close` has removed the session from the map, and
            // dropping the last reference would end the connection.
            match self.closing.run_until_cancelled(call).await {
                Some(result) => responder.send(result.map_err(relayed_error)),
                None => answer(responder, Err::<(), _>(Error::internal(SESSION_CLOSING))),
            }
        });
    }
}

/// Serves the connection to another process until that process or the editor has gone. Reads from the other process no
/// faster than the editor reads.
async fn serve(
    stream: DuplexStream,
    max_line: usize,
    relay: RelayToEditor,
    sender: oneshot::Sender<Peer>,
) {
    let (input, output) = tokio::io::split(stream);
    let (ahead, paced) = tokio::io::duplex(PIECE_BYTES);
    let (editor, editor_gone) = (relay.editor.clone(), relay.editor_gone.clone());
    let ended = relay.ended.clone().drop_guard();
    let reading = async move {
        let _ended = ended;
        read_at_pace_of(&editor, input, ahead).await;
    };
    let options =
        rpc::ConnectionOptions { cancellation: true, ..rpc::ConnectionOptions::new(max_line) };
    let served = rpc::serve(paced, output, options, |peer| {
        // Sending fails only if `connect`, which waits for the peer, was dropped.
        let _ = sender.send(peer);
        relay
    });
    let both = async { tokio::join!(served, reading).0 };
    if let Some(Err(err)) = editor_gone.run_until_cancelled(both).await {
        tracing::debug!("the connection to a joined session has ended: {err:#}");
    }
}

/// Handler that passes messages of the other process about the joined session on to the editor. It refuses all other
/// messages, so that the other process has no access to the editor's files, terminals and other sessions.
struct RelayToEditor {
    editor: Peer,
    /// Id of the session.
    id: String,
    /// Token that fires when the other process sends nothing more.
    ended: CancellationToken,
    /// Token that is fired when the editor has gone, and ends the connection.
    editor_gone: CancellationToken,
}

impl rpc::Handler for RelayToEditor {
    fn request(&self, method: &str, params: Params<'_>, responder: Responder) {
        let is_of_session =
            || params.parse::<SessionIdParams>().is_ok_and(|params| params.session_id == self.id);
        if !matches!(method, UPDATE_METHOD | REQUEST_PERMISSION) || !is_of_session() {
            return responder.send(Err::<(), _>(Error::method_not_found(method)));
        }
        if responder.id().is_none() {
            return self.editor.notify(method, &params.0);
        }
        let call = self.editor.call::<Box<RawValue>>(method, &params.0);
        let (ended, editor_gone) = (self.ended.clone(), self.editor_gone.clone());
        tokio::spawn(async move {
            let cancelled = responder.cancellation();
            // A return drops `call`, which withdraws the question at the editor.
            let result = tokio::select! {
                result = call => result,
                () = cancelled.cancelled() => return,
                () = ended.cancelled() => return,
            };
            if matches!(result, Err(CallError::Gone)) {
                // The other process gets no answer: the end of the connection tells it that this editor cannot be
                // asked.
                editor_gone.cancel();
                return ended.cancelled().await;
            }
            responder.send(result.map_err(relayed_error));
        });
    }
}

/// Returns the error for a request that was passed on: the error that the other side answered, or else the reason for
/// which there is no usable answer.
fn relayed_error(error: CallError) -> Error {
    match error {
        CallError::Refused(error) => error,
        CallError::Gone => Error::internal(PROCESS_GONE).reasoned(),
        CallError::Unreadable(_) => Error::internal(error).reasoned(),
    }
}

/// Copies the bytes that the other process sends, no faster than the editor reads.
async fn read_at_pace_of(
    editor: &Peer,
    mut input: impl AsyncRead + Unpin,
    mut output: impl AsyncWrite + Unpin,
) {
    let mut piece = vec![0; PIECE_BYTES];
    loop {
        editor.wait_backlog_below(MAX_BYTES_AHEAD).await;
        match input.read(&mut piece).await {
            Ok(0) | Err(_) => return,
            Ok(read) => {
                if output.write_all(&piece[..read]).await.is_err() {
                    return;
                }
            }
        }
    }
}
