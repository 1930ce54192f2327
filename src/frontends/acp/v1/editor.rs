//! Handler of one editor, and the sessions that the editor has opened.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use serde_json::value::RawValue;
use tokio_util::task::AbortOnDropHandle;

use super::answer::not_found;
use super::client::{ClientKind, SessionClient};
use super::found_models::FoundModels;
use super::login::PendingLogin;
use super::queue::{RequestQueues, WaitingRequest};
use super::remote::RemoteSessions;
use crate::Connection;
use tandem_agent::session::{BuffersGuard, Session, TerminalsGuard};
use tandem_agent::sessions::{Leased, LoadedSession};
use tandem_wire::jsonrpc::{Error, Params};
use tandem_wire::rpc::Responder;

/// Handler of one editor.
pub(crate) struct Editor {
    pub(super) connection: Connection,
    /// Properties of the editor, which `initialize` sets.
    pub(super) client: Mutex<ClientKind>,
    /// Parameters of the editor's `initialize`, unchanged, to be sent to other processes whose sessions are joined.
    pub(super) introduction: Mutex<Option<Box<RawValue>>>,
    pub(super) opened: OpenedSessions,
    /// Looks for models on this machine.
    pub(super) found_models: Arc<FoundModels>,
    /// Joined sessions of other processes, by their ids.
    pub(super) remote: RemoteSessions,
    /// Pending login, which continues after `authenticate` was answered.
    pub(super) login: Mutex<Option<PendingLogin>>,
    /// Requests that wait until a session is open, closed, deleted or has another model.
    queues: RequestQueues,
}

/// The sessions that an editor has opened and not closed, by their ids.
pub(super) type OpenedSessions = Arc<Mutex<HashMap<String, Arc<OpenedSession>>>>;

/// A session that the editor has opened. The session stays loaded as long as this value lives.
pub(super) struct OpenedSession {
    pub(super) loaded: Leased<LoadedSession>,
    pub(super) client: Arc<SessionClient>,
    pub(super) _view: AbortOnDropHandle<()>,
    /// Guard: while it lives, the session reads and writes files through the editor.
    pub(super) _buffers: Option<BuffersGuard>,
    /// Guard: while it lives, the session runs commands in the editor's terminals.
    pub(super) _terminals: Option<TerminalsGuard>,
}

/// Lock of a session that is being opened, closed, deleted or given another model. Dropping the lock serves the
/// requests about the session that wait.
pub(super) struct SessionLock {
    /// Weak reference: a task or value that the editor owns may hold the lock.
    editor: Weak<Editor>,
    id: String,
}

impl Drop for SessionLock {
    fn drop(&mut self) {
        let Some(editor) = self.editor.upgrade() else { return };
        editor.queues.unlock(&self.id);
        while let Some(WaitingRequest { method, params, responder }) = editor.queues.pop(&self.id) {
            editor.serve(&method, Params(params.as_deref()), responder);
        }
    }
}

impl OpenedSession {
    pub(super) fn session(&self) -> &Arc<Session> {
        self.loaded.session()
    }
}

impl Editor {
    pub(crate) fn new(connection: Connection) -> Arc<Self> {
        Arc::new(Self {
            connection,
            client: Mutex::default(),
            introduction: Mutex::default(),
            opened: Arc::default(),
            found_models: Arc::default(),
            remote: Arc::default(),
            login: Mutex::default(),
            queues: RequestQueues::default(),
        })
    }

    /// Begins to answer a request, or queues it if its session is locked.
    pub(crate) fn request(
        self: &Arc<Self>,
        method: &str,
        params: Params<'_>,
        responder: Responder,
    ) {
        if let Some(responder) = self.queues.push(method, params, responder) {
            self.serve(method, params, responder);
        }
    }

    /// Locks a session: requests about the session that follow the current request wait until the lock is dropped.
    pub(super) fn lock(self: &Arc<Self>, id: &str) -> SessionLock {
        self.queues.lock(id);
        SessionLock { editor: Arc::downgrade(self), id: id.to_owned() }
    }

    /// Returns the session with this id. The error says that the editor has not opened such a session.
    pub(super) fn opened(&self, id: &str) -> Result<Arc<OpenedSession>, Error> {
        self.opened.lock().get(id).cloned().ok_or_else(|| not_found(id))
    }
}
