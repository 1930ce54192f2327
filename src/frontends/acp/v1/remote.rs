//! Sessions that another process of this machine has open: the editor drives them over that process's port.
//!
//! Messages about such a session are passed on unchanged, in both directions and in the order read.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use serde::de::IgnoredAny;
use serde_json::json;
use serde_json::value::RawValue;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::sync::oneshot;
use tokio::time::timeout;
use tokio_util::task::AbortOnDropHandle;

use super::answer::answer;
use super::editor::Editor;
use crate::Connection;
use tandem_wire::acp::INITIALIZE;
use tandem_wire::acp::v1::{CLOSE_SESSION, LOAD_SESSION, RESUME_SESSION, SessionIdParams, VERSION};
use tandem_wire::jsonrpc::{Error, Params};
use tandem_wire::rpc::{self, CallError, Peer, Responder};

/// Maximum time for the other process to answer `initialize`.
const INITIALIZE_TIMEOUT: Duration = Duration::from_secs(10);

/// Maximum number of bytes that wait for the editor before the other process is read further.
const MAX_BYTES_AHEAD: usize = 256 << 10;

/// Size of the pieces in which the other process is read, in bytes.
const PIECE_BYTES: usize = 16 << 10;

/// Joined sessions of other processes, by their ids.
pub(super) type RemoteSessions = Arc<Mutex<HashMap<String, Arc<RemoteSession>>>>;

/// A session that another process has open. Dropped, it ends the connection to that process.
pub(super) struct RemoteSession {
    peer: Peer,
    serving: AbortOnDropHandle<()>,
}

impl Editor {
    /// Returns the joined session of another process that a message is about, if it is about one.
    pub(super) fn remote_session(
        &self,
        method: &str,
        params: Params<'_>,
    ) -> Option<Arc<RemoteSession>> {
        let mut joined = self.remote.lock();
        // Parameters are read twice only while there are such sessions.
        if joined.is_empty() {
            return None;
        }
        let SessionIdParams { session_id } = params.parse().ok()?;
        let has_ended = joined.get(&session_id)?.serving.is_finished();
        match method {
            CLOSE_SESSION => joined.remove(&session_id),
            // The connection has ended: the store decides whether the session is loaded here or joined elsewhere.
            LOAD_SESSION | RESUME_SESSION if has_ended => {
                joined.remove(&session_id);
                None
            }
            _ => joined.get(&session_id).cloned(),
        }
    }
}

impl RemoteSession {
    /// Connects to the process that listens on a port, with the editor's own `initialize`. The error says, for people,
    /// why that failed.
    pub(super) async fn connect(
        connection: &Connection,
        port: u16,
        introduction: Option<Box<RawValue>>,
    ) -> Result<Self, String> {
        let service = &connection.service;
        let (input, output) = tokio::io::split((service.connect_acp)(port).await?);
        let options = rpc::ConnectionOptions {
            cancellation: true,
            ..rpc::ConnectionOptions::new(service.line_bytes)
        };
        let editor = connection.peer.clone();
        let (sender, peer) = oneshot::channel();
        let serving = tokio::spawn(async move {
            let (ahead, paced) = tokio::io::duplex(PIECE_BYTES);
            let relay = RelayToEditor(editor.clone());
            let served = rpc::serve(paced, output, options, |peer| {
                // Fails only if `connect` was dropped, which waits for the peer first.
                let _ = sender.send(peer);
                relay
            });
            let (served, ()) = tokio::join!(served, read_at_pace_of(&editor, input, ahead));
            if let Err(err) = served {
                tracing::debug!("the connection to a joined session has ended: {err:#}");
            }
        });
        let serving = AbortOnDropHandle::new(serving);
        let gone = |_| "the other process has hung up".to_owned();
        let peer = peer.await.map_err(gone)?;
        let initialized = match introduction {
            Some(params) => peer.call::<IgnoredAny>(INITIALIZE, &params),
            None => peer.call(INITIALIZE, &json!({ "protocolVersion": VERSION })),
        };
        match timeout(INITIALIZE_TIMEOUT, initialized).await {
            Ok(Ok(_)) => Ok(Self { peer, serving }),
            Ok(Err(err)) => Err(err.to_string()),
            Err(_) => {
                Err(format!("the other process did not answer within {INITIALIZE_TIMEOUT:?}"))
            }
        }
    }

    /// Loads the session at the other process. What is shown of the session goes to the editor before this returns.
    pub(super) async fn load(
        &self,
        method: &str,
        params: Option<&RawValue>,
    ) -> Result<Box<RawValue>, Error> {
        self.peer.call(method, &params).await.map_err(relayed_error)
    }

    /// Passes a message of the editor on, and the answer back.
    pub(super) fn relay(self: Arc<Self>, method: &str, params: Params<'_>, responder: Responder) {
        let peer = self.peer.clone();
        // `session/close` has removed the session from the list, and a session that is dropped ends the connection.
        relay(&peer, method, params, responder, self);
    }
}

/// Passes what the other process sends on to the editor.
struct RelayToEditor(Peer);

impl rpc::Handler for RelayToEditor {
    fn request(&self, method: &str, params: Params<'_>, responder: Responder) {
        relay(&self.0, method, params, responder, ());
    }
}

/// Passes a message on at once, and the answer back when there is one; `kept` lives until then.
fn relay(
    to: &Peer,
    method: &str,
    Params(params): Params<'_>,
    responder: Responder,
    kept: impl Send + 'static,
) {
    if responder.id().is_none() {
        return to.notify(method, &params);
    }
    let call = to.call::<Box<RawValue>>(method, &params);
    tokio::spawn(async move {
        match responder.cancellation().run_until_cancelled_owned(call).await {
            Some(result) => responder.send(result.map_err(relayed_error)),
            None => answer(responder, Err::<(), _>(Error::cancelled())),
        }
        drop(kept);
    });
}

/// Returns the error for a request that was passed on: the other side's own, if that answered.
fn relayed_error(error: CallError) -> Error {
    match error {
        CallError::Refused(error) => error,
        CallError::Gone => Error::internal(
            "the process that had this session open has ended; load the session again",
        )
        .reasoned(),
        CallError::Unreadable(_) => Error::internal(error).reasoned(),
    }
}

/// Copies what the other process sends, no faster than the editor reads.
async fn read_at_pace_of(
    editor: &Peer,
    mut input: impl AsyncRead + Unpin,
    mut output: impl AsyncWrite + Unpin,
) {
    let mut piece = vec![0; PIECE_BYTES];
    loop {
        editor.room(MAX_BYTES_AHEAD).await;
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
