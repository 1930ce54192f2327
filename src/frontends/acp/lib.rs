//! Front end for editors that speak the Agent Client Protocol. An editor's first message shows the version of the
//! protocol that the editor speaks (`v0`: 0.0.9, `v1`: 1). Before that message, this front end creates nothing for the
//! editor.

mod content;
mod servers;
mod v0;
mod v1;

use std::panic::AssertUnwindSafe;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use futures::FutureExt as _;
use futures::future::BoxFuture;
use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite, DuplexStream};
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use tandem_agent::session::{Origin, Session};
use tandem_agent::sessions::{CreateError, Leased, LoadedSession, SessionRequest, Sessions};
use tandem_model::provider::Provider;
use tandem_wire::acp::Dialect;
use tandem_wire::jsonrpc::{Error, Params};
use tandem_wire::rpc::{self, Peer, Responder};

/// Callback that gets the address of a page that asks for a key, and returns `true` if the agent should open the page
/// in a browser.
pub type PageOpened = Box<dyn Fn(&str) -> bool + Send + Sync>;

/// Credentials of the model's provider.
pub trait Login: Send + Sync {
    /// Returns the provider of the model that new sessions use.
    fn provider(&self) -> Provider;

    /// Returns the provider of the session's model, or without a session the provider of new sessions.
    fn provider_of(&self, session: Option<&Session>) -> Provider;

    /// Obtains credentials, for the model of `session` if a session is given, and waits until the credentials are
    /// there. The error tells the user what to do. Dropping the future closes the page that asks for the key.
    fn authenticate(
        &self,
        session: Option<Arc<Session>>,
        opened: PageOpened,
    ) -> BoxFuture<'static, Result<(), String>>;

    /// Returns `true` if there is no key yet for the session's model, but a turn may find one: a turn also searches in
    /// places that take a while to ask.
    fn may_find_key(&self, session: &Session) -> bool;

    /// Checks and stores a key for which the client has asked its user.
    fn accept(&self, key: String) -> BoxFuture<'static, Result<(), String>>;

    /// Deletes the stored key. If another key is used from then on, such as a key from the environment, returns a
    /// sentence about that key.
    fn logout(&self) -> Result<Option<String>, String>;
}

/// Sessions, credentials and connections that the front end needs to serve an editor.
#[derive(Clone)]
pub struct EditorService {
    /// Registry of all sessions of the process.
    pub sessions: Arc<Sessions>,
    /// The session that the process was started for.
    pub own: Arc<OwnSession>,
    /// Origin of the editor's prompts and answers.
    pub origin: Origin,
    /// Credentials of the model's provider.
    pub login: Arc<dyn Login>,
    /// Function that connects to another process of this machine, to drive a session which that process has open.
    pub connect_acp: ConnectAcp,
    /// Token that fires when this process ends. Requests that were passed on to another process are then answered with
    /// an error, and no longer waited for.
    pub closing: CancellationToken,
}

/// Function that connects to the ACP endpoint of the tandem process that listens on a port of this machine. Each line
/// of the stream is a message. The error tells the user why there is no connection.
pub type ConnectAcp =
    Arc<dyn Fn(u16) -> BoxFuture<'static, Result<DuplexStream, String>> + Send + Sync>;

/// The session that the process was started for. An editor that speaks ACP 0.0.9 knows no other session. If there is
/// none yet when such an editor needs it, it is created then.
#[derive(Default)]
pub struct OwnSession {
    /// The session, once it is created. The lock is held during the creation, so that only one session is created.
    session: Mutex<Option<Leased<LoadedSession>>>,
    /// `true` once an editor drives the session.
    taken: AtomicBool,
}

impl OwnSession {
    /// Wraps the session of a process that has already created its session.
    pub fn new(session: Leased<LoadedSession>) -> Self {
        Self { session: Mutex::new(Some(session)), taken: AtomicBool::new(false) }
    }

    /// Returns the session, if it has been created.
    fn get(&self) -> Option<Leased<LoadedSession>> {
        self.session.lock().clone()
    }

    fn get_or_create(&self, sessions: &Sessions) -> Result<Leased<LoadedSession>, CreateError> {
        let mut session = self.session.lock();
        self.taken.store(true, Ordering::Relaxed);
        if let Some(session) = &*session {
            return Ok(session.clone());
        }
        let created = sessions.create(&SessionRequest::default(), |_| ())?;
        Ok(session.insert(created).clone())
    }

    /// Returns the session to an editor that wants a new session in `directory`, if the session works there, has no
    /// prompt yet and has not been taken by another editor.
    fn take_unused(&self, directory: &Path) -> Option<Leased<LoadedSession>> {
        let session = self.get().filter(|session| session.session().roots() == [directory])?;
        let is_unused = session.summary().prompts == 0 && !self.taken.swap(true, Ordering::Relaxed);
        is_unused.then_some(session)
    }
}

/// Serves one editor until the editor hangs up and all its requests are answered. An error means that the editor gets
/// no more answers: the connection broke, or the task that shows the editor a session panicked.
pub async fn serve(
    service: EditorService,
    input: impl AsyncRead + Unpin,
    output: impl AsyncWrite + Unpin + Send + 'static,
    options: rpc::ConnectionOptions,
) -> anyhow::Result<()> {
    let options = rpc::ConnectionOptions { cancellation: true, ..options };
    let max_line = options.max_line;
    let view_ended = CancellationToken::new();
    let ended = view_ended.clone();
    let served = rpc::serve(input, output, options, |peer| {
        let connection = Connection { service, peer, max_line, ended };
        EditorHandler { connection, dialect: OnceLock::new() }
    });
    tokio::select! {
        served = served => served,
        () = view_ended.cancelled() => Err(anyhow::anyhow!("nothing more can be shown to the editor")),
    }
}

/// Connection to one editor.
#[derive(Clone)]
struct Connection {
    service: EditorService,
    peer: Peer,
    /// Maximum size of a message from the editor, in bytes.
    max_line: usize,
    /// Token that ends the connection when it fires.
    ended: CancellationToken,
}

impl Connection {
    /// Spawns the task that shows the editor a session; dropping the handle stops the task. If the task panics, the
    /// connection ends, because the task would no longer answer prompts.
    fn spawn(&self, view: impl Future<Output = ()> + Send + 'static) -> AbortOnDropHandle<()> {
        let ended = self.ended.clone();
        AbortOnDropHandle::new(tokio::spawn(async move {
            if AssertUnwindSafe(view).catch_unwind().await.is_err() {
                ended.cancel();
            }
        }))
    }
}

/// Handler of one editor. The editor's first message decides the version of the protocol.
struct EditorHandler {
    connection: Connection,
    dialect: OnceLock<Editor>,
}

/// Handler of an editor whose version of the protocol is known.
enum Editor {
    V0(v0::Editor),
    V1(Arc<v1::Editor>),
}

impl rpc::Handler for EditorHandler {
    fn request(&self, method: &str, params: Params<'_>, responder: Responder) {
        match self.editor(method, params) {
            Ok(Editor::V0(editor)) => editor.request(method, params, responder),
            Ok(Editor::V1(editor)) => editor.request(method, params, responder),
            Err(error) => responder.send(Err::<(), _>(error)),
        }
    }
}

impl EditorHandler {
    /// Returns the handler for the editor's version of the protocol. The editor's first message decides the version.
    fn editor(&self, method: &str, params: Params<'_>) -> Result<&Editor, Error> {
        if let Some(editor) = self.dialect.get() {
            return Ok(editor);
        }
        let editor = match Dialect::detect(method, params)? {
            Dialect::V0 => {
                let service = &self.connection.service;
                let session = service.own.get_or_create(&service.sessions);
                Editor::V0(v0::Editor::new(&self.connection, session.map_err(Error::internal)?))
            }
            Dialect::V1 => Editor::V1(v1::Editor::new(self.connection.clone())),
        };
        Ok(self.dialect.get_or_init(|| editor))
    }
}
