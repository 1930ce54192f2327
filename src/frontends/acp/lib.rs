//! Editors, over the Agent Client Protocol: the first message tells which version of it an editor
//! speaks (`v0`: 0.0.9, `v1`: 1). Nothing is made before that.

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
use tandem_agent::sessions::{CreateError, LoadedSession, SessionRequest, Sessions};
use tandem_model::provider::Provider;
use tandem_wire::acp::Dialect;
use tandem_wire::jsonrpc::{Error, Params};
use tandem_wire::rpc::{self, Peer, Responder};

/// Function that is told the address of a page that asks for a key; returns whether the agent is to
/// open it in a browser.
pub type PageOpened = Box<dyn Fn(&str) -> bool + Send + Sync>;

/// Credentials of the model's provider.
pub trait Login: Send + Sync {
    /// Returns the provider that sessions begin with.
    fn provider(&self) -> Provider;

    /// Returns the provider of a session's model, if there is a session.
    fn provider_of(&self, session: Option<&Session>) -> Provider {
        session
            .map_or(self.provider(), |session| Provider::of(&session.model(), Provider::Gemini).0)
    }

    /// Obtains credentials, for the model of a session if there is one, and waits for them; the error
    /// tells the user what to do. Dropped, it closes the page that asks for them.
    fn authenticate(
        &self,
        session: Option<Arc<Session>>,
        opened: PageOpened,
    ) -> BoxFuture<'static, Result<(), String>>;

    /// Returns whether a turn of a session may find a key, though there is none as yet: it looks where
    /// that takes a while.
    fn may_find_key(&self, session: &Session) -> bool;

    /// Checks a key that the client has asked its user for, and stores it.
    fn accept(&self, key: String) -> BoxFuture<'static, Result<(), String>>;

    /// Forgets the stored key. Returns a sentence about the key that is used from then on, if there is one: the
    /// environment may have one.
    fn logout(&self) -> Result<Option<String>, String>;
}

/// Sessions and credentials that an editor is served with.
#[derive(Clone)]
pub struct EditorService {
    /// All sessions of the process.
    pub sessions: Arc<Sessions>,
    /// The session that the process was started for.
    pub own: Arc<OwnSession>,
    /// Origin of the editor's prompts and answers.
    pub origin: Origin,
    /// Credentials of the model's provider.
    pub login: Arc<dyn Login>,
    /// The way to sessions that another process of this machine has open.
    pub connect_acp: ConnectAcp,
    /// Fires when this process ends: requests that another process carries out are not waited for any longer.
    pub closing: CancellationToken,
}

/// Function that connects to the ACP endpoint of the tandem that listens on a port of this machine. Each line of the
/// stream is a message. The error says, for people, why there is no connection.
pub type ConnectAcp =
    Arc<dyn Fn(u16) -> BoxFuture<'static, Result<DuplexStream, String>> + Send + Sync>;

/// The session that the process was started for: the only one that an editor of 0.0.9 knows. Made
/// when it is first needed.
#[derive(Default)]
pub struct OwnSession {
    session: Mutex<Option<Arc<LoadedSession>>>,
    /// `true` if an editor drives it.
    taken: AtomicBool,
}

impl OwnSession {
    /// Returns the own session of a process that has it already.
    pub fn new(session: Arc<LoadedSession>) -> Self {
        Self { session: Mutex::new(Some(session)), taken: AtomicBool::new(false) }
    }

    /// Returns the session, if there is one.
    fn get(&self) -> Option<Arc<LoadedSession>> {
        self.session.lock().clone()
    }

    fn get_or_create(&self, sessions: &Sessions) -> Result<Arc<LoadedSession>, CreateError> {
        let mut session = self.session.lock();
        self.taken.store(true, Ordering::Relaxed);
        if let Some(session) = &*session {
            return Ok(Arc::clone(session));
        }
        let created = sessions.create(&SessionRequest::default(), |_| ())?;
        Ok(Arc::clone(session.insert(created)))
    }

    /// Returns the session for an editor that wants a new one in this directory, if there is one and
    /// nobody has used it yet.
    fn take_unused(&self, directory: &Path) -> Option<Arc<LoadedSession>> {
        let session = self.get().filter(|session| session.session().roots() == [directory])?;
        let is_unused = session.summary().prompts == 0 && !self.taken.swap(true, Ordering::Relaxed);
        is_unused.then_some(session)
    }
}

/// Serves one editor until it hangs up and all its requests are answered. An error means that nobody
/// reads the answers any more.
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
        () = view_ended.cancelled() => Err(anyhow::anyhow!("the editor can be shown no more")),
    }
}

/// Connection to one editor.
#[derive(Clone)]
struct Connection {
    service: EditorService,
    peer: Peer,
    /// Maximum size of a message that is read, in bytes.
    max_line: usize,
    /// Ends the connection when it fires.
    ended: CancellationToken,
}

impl Connection {
    /// Runs what shows the editor a session, until it is dropped. A panic of it ends the connection:
    /// nobody would answer prompts any more.
    fn spawn(&self, view: impl Future<Output = ()> + Send + 'static) -> AbortOnDropHandle<()> {
        let ended = self.ended.clone();
        AbortOnDropHandle::new(tokio::spawn(async move {
            if AssertUnwindSafe(view).catch_unwind().await.is_err() {
                ended.cancel();
            }
        }))
    }
}

/// One editor, of whichever version its first message shows.
struct EditorHandler {
    connection: Connection,
    dialect: OnceLock<Editor>,
}

/// An editor whose version is known.
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
        let editor = match Dialect::of(method, params)? {
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
