//! Requests that create, open, close and delete sessions.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::Value;
use serde_json::value::RawValue;

use super::answer::{answer, not_found};
use super::client::SessionClient;
use super::editor::{Editor, OpenedSession, OpenedSessions, SessionLock};
use super::files::EditorFiles;
use super::found_models::FoundModels;
use super::options::session_options;
use super::remote::{RemoteSession, RemoteSessions};
use super::terminals::EditorTerminals;
use super::view::{Start, View};
use crate::servers::{EditorServer, config};
use crate::{Connection, EditorService};
use tandem_agent::session::{Origin, ServerConfig, ServerScope, Session, StoreError};
use tandem_agent::sessions::{
    CreateError, Leased, LoadError, LoadedSession, SessionRequest, stored_id,
};
use tandem_wire::acp::v1::{
    Empty, LOAD_SESSION, McpServer, NamedValue, OpenSessionParams, RESUME_SESSION, SessionIdParams,
    SessionSetup, SessionUpdate,
};
use tandem_wire::jsonrpc::{Error, Params};
use tandem_wire::rpc::Responder;

impl Editor {
    pub(super) fn new_session(&self, params: Params<'_>, responder: Responder) {
        let created = params.parse().and_then(|setup: SessionSetup| {
            let directories = setup.directories();
            Ok((create(&self.connection.service, setup)?, directories))
        });
        match created {
            Ok((loaded, directories)) => {
                let opener = self.opener(loaded.id().to_owned(), directories);
                tokio::spawn(opener.open(loaded, responder, Start::New, None));
            }
            Err(error) => answer(responder, Err::<(), _>(error)),
        }
    }

    /// Opens an existing session, which may be loaded here, stored, or open in another process.
    pub(super) fn open_session(
        self: &Arc<Self>,
        params: Params<'_>,
        responder: Responder,
        start: Start,
    ) {
        let raw = params.0.map(ToOwned::to_owned);
        let params: OpenSessionParams = match params.parse() {
            Ok(params) => params,
            Err(error) => return answer(responder, Err::<(), _>(error)),
        };
        let service = self.connection.service.clone();
        let opener = self.opener(params.session_id.clone(), params.setup.directories());
        let joiner = self.joiner(&params.session_id, start, raw);
        let lock = self.lock(&params.session_id);
        tokio::spawn(async move {
            let opening = async {
                match load(&service, params).await {
                    Err(Unloaded::Elsewhere { port, refusal }) => {
                        joiner.join(port, &refusal).await.map(Opening::Joined)
                    }
                    Err(Unloaded::Refused(error)) => Err(error),
                    Ok(loaded) => Ok(Opening::Loaded(loaded)),
                }
            };
            match responder.cancellation().run_until_cancelled_owned(opening).await {
                Some(Ok(Opening::Loaded(loaded))) => {
                    opener.open(loaded, responder, start, Some(lock)).await;
                }
                Some(Ok(Opening::Joined(result))) => responder.send(Ok(result)),
                Some(Err(error)) => answer(responder, Err::<(), _>(error)),
                None => answer(responder, Err::<(), _>(Error::cancelled())),
            }
        });
    }

    fn joiner(&self, id: &str, start: Start, params: Option<Box<RawValue>>) -> Joiner {
        Joiner {
            connection: self.connection.clone(),
            remote: Arc::clone(&self.remote),
            introduction: self.introduction.lock().clone(),
            id: id.to_owned(),
            method: if start == Start::Resume { RESUME_SESSION } else { LOAD_SESSION },
            params,
        }
    }

    fn opener(&self, id: String, directories: Vec<PathBuf>) -> Opener {
        let client = SessionClient::new(&self.connection, id, *self.client.lock());
        let (connection, opened) = (self.connection.clone(), Arc::clone(&self.opened));
        let found_models = Arc::clone(&self.found_models);
        Opener { connection, opened, found_models, client, directories }
    }

    /// Ends the editor's use of a session, and unloads the session unless another client uses it.
    pub(super) fn close_session(self: &Arc<Self>, params: Params<'_>, responder: Responder) {
        let opened = params.parse::<SessionIdParams>().and_then(|params| {
            let opened = self.opened.lock().remove(&params.session_id);
            opened.ok_or_else(|| not_found(&params.session_id))
        });
        match opened {
            Ok(opened) => {
                let (service, lock) =
                    (self.connection.service.clone(), self.lock(&opened.client.id));
                tokio::spawn(async move {
                    close(&service, opened).await;
                    answer(responder, Ok(Empty {}));
                    drop(lock);
                });
            }
            Err(error) => answer(responder, Err::<(), _>(error)),
        }
    }

    /// Closes a session and deletes its stored log, unless another client uses the session.
    pub(super) fn delete_session(self: &Arc<Self>, params: Params<'_>, responder: Responder) {
        let SessionIdParams { session_id } = match params.parse() {
            Ok(params) => params,
            Err(error) => return answer(responder, Err::<(), _>(error)),
        };
        let opened = self.opened.lock().remove(&session_id);
        let (service, lock) = (self.connection.service.clone(), self.lock(&session_id));
        tokio::spawn(async move {
            // Programs that connect over a port may delete only sessions that they have opened, because they may not
            // know which sessions are stored. Their other requests are answered as for a session that does not exist.
            let may = opened.is_some() || service.origin == Origin::Editor;
            if let Some(opened) = opened {
                close(&service, opened).await;
            }
            let deleted = if may { delete(&service, &session_id).await } else { Ok(()) };
            answer(responder, deleted.map(|()| Empty {}));
            drop(lock);
        });
    }
}

/// Parts that are needed to show an editor a session that is loaded in this process.
struct Opener {
    connection: Connection,
    opened: OpenedSessions,
    found_models: Arc<FoundModels>,
    client: SessionClient,
    /// Directories of the session, by the paths that the editor uses.
    directories: Vec<PathBuf>,
}

impl Opener {
    /// Shows the editor the session's earlier events if `start` asks for that, then answers the request, then shows the
    /// session's events as they happen.
    async fn open(
        self,
        loaded: Leased<LoadedSession>,
        responder: Responder,
        start: Start,
        lock: Option<SessionLock>,
    ) {
        let Self { connection, opened, found_models, client, directories } = self;
        let session = Arc::clone(loaded.session());
        let models = session.known_models().await.unwrap_or_default();
        // Held until the session is in the map: the editor may send a prompt as soon as the spawned view has answered.
        let mut opened = opened.lock();
        let before = opened.get(&client.id).map(|before| Arc::clone(&before.client));
        // If the editor has the session open already, the old client is used again: it holds the prompts that are not
        // answered yet, and the new view answers them.
        let client = before.unwrap_or_else(|| Arc::new(client.with_models(models)));
        let id = client.id.clone();
        let files = EditorFiles::new(&client, &directories);
        let buffers = files.map(|files| session.join_buffers(Arc::new(files)));
        let terminals = EditorTerminals::new(&client);
        let terminals = terminals.and_then(|all| session.join_terminals(Arc::new(all)));
        let mut view = View::new(&session, Arc::clone(&client), start);
        let shown = Arc::clone(&client);
        let view = connection.spawn(async move {
            view.replay().await;
            let new_id = (start == Start::New).then(|| shown.id.clone());
            let options = session_options(&session, &shown.models()).opened(new_id);
            responder.send(Ok(options));
            drop(lock);
            // The servers start only after the answer, which nothing may delay.
            session.start_servers();
            tokio::join!(view.run(), offer_found_models(&found_models, &session, &shown));
        });
        let opening =
            OpenedSession { loaded, client, _view: view, _buffers: buffers, _terminals: terminals };
        let before = opened.insert(id, Arc::new(opening));
        drop(opened);
        drop(before);
    }
}

/// Looks for models on this machine, and shows the editor the options anew if there are some. The editor has its answer
/// by then.
async fn offer_found_models(
    found_models: &FoundModels,
    session: &Arc<Session>,
    client: &SessionClient,
) {
    let directory = session.roots().first().map_or(Path::new(""), PathBuf::as_path);
    let find = || {
        let session = Arc::clone(session);
        async move {
            let found = session.served_models(ServerScope::ThisMachine).await;
            found.into_iter().flat_map(|group| group.models).map(|model| model.id).collect()
        }
    };
    let ids = found_models.look(directory, find).await;
    if client.add_models(ids.into_iter()) {
        let config_options = session_options(session, &client.models()).options();
        client.update(SessionUpdate::ConfigOptionUpdate { config_options });
    }
}

/// Result of opening a session.
enum Opening {
    /// The session is loaded in this process.
    Loaded(Leased<LoadedSession>),
    /// The session is open in another process and was joined; holds that process's result for the editor's request.
    Joined(Box<RawValue>),
}

/// Reason for which a session cannot be loaded in this process.
enum Unloaded {
    /// Another process of this machine has the session open and listens on `port`, over which the session can be
    /// joined.
    Elsewhere { port: u16, refusal: StoreError },
    /// Loading failed; holds the error for the editor.
    Refused(Error),
}

impl From<Error> for Unloaded {
    fn from(error: Error) -> Self {
        Self::Refused(error)
    }
}

/// Parts that are needed to join a session that another process has open.
struct Joiner {
    connection: Connection,
    remote: RemoteSessions,
    /// Parameters of the editor's `initialize`.
    introduction: Option<Box<RawValue>>,
    /// Id of the session.
    id: String,
    /// Method of the editor's request.
    method: &'static str,
    /// Parameters of the editor's request.
    params: Option<Box<RawValue>>,
}

impl Joiner {
    /// Joins the session at the process that listens on `port`, and returns that process's result. If there is no
    /// connection, the error also has `refusal`, the reason for which this process cannot load the session.
    async fn join(self, port: u16, refusal: &StoreError) -> Result<Box<RawValue>, Error> {
        let Self { connection, remote, introduction, id, method, params } = self;
        let joined = RemoteSession::connect(&connection, port, id.clone(), introduction).await;
        let session = joined.map_err(|why| {
            Error::invalid_params(format_args!(
                "`sessionId`: {refusal} (joining the session from here failed: {why})"
            ))
        })?;
        let result = session.load(method, params.as_deref()).await?;
        remote.lock().insert(id, Arc::new(session));
        Ok(result)
    }
}

/// Creates a session. If the process's own session is unused and works in the wanted directory alone, returns that
/// session.
fn create(service: &EditorService, setup: SessionSetup) -> Result<Leased<LoadedSession>, Error> {
    let directory = directory(&setup.cwd)?;
    let more = more_directories(&setup)?;
    // Programs that connect over a port may work only in directories where the process's own session works.
    if service.origin != Origin::Editor {
        let own = service.own.get().ok_or_else(|| Error::internal("no session is open"))?;
        for directory in more.iter().chain([&directory]) {
            own.session().works_in(directory).map_err(Error::invalid_params)?;
        }
    }
    let servers = servers(setup.mcp_servers, &directory, &service.origin);
    if more.is_empty()
        && let Some(own) = service.own.take_unused(&directory)
    {
        own.session().add_servers(servers);
        return Ok(own);
    }
    let request = SessionRequest { directory: Some(directory), more, auto_approve: false };
    let created = service.sessions.create(&request, |session| session.add_servers(servers));
    created.map_err(refused)
}

/// Returns the session if it is loaded, else loads the session from the store. A program that connects over a port can
/// open loaded sessions only, as all clients of the port can; stored sessions are answered as not found.
async fn load(
    service: &EditorService,
    OpenSessionParams { session_id, setup }: OpenSessionParams,
) -> Result<Leased<LoadedSession>, Unloaded> {
    let (sessions, cwd) = (&service.sessions, directory(&setup.cwd)?);
    let opened = sessions.open(&session_id);
    let is_at = match &opened {
        Some(opened) => opened.session().roots().first().cloned(),
        None if service.origin != Origin::Editor => None,
        None => sessions.head(&session_id).await.ok().flatten().map(|head| head.directory),
    };
    let is_at = is_at.ok_or_else(|| not_found(&session_id))?;
    if is_at != cwd {
        let is_at = is_at.display();
        let wrong = format_args!(
            "`cwd`: the session works in {is_at}; open the session with this directory"
        );
        return Err(Error::invalid_params(wrong).into());
    }
    let (more, servers) =
        (more_directories(&setup)?, servers(setup.mcp_servers, &cwd, &service.origin));
    if let Some(opened) = opened {
        opened.session().add_servers(servers);
        return Ok(opened);
    }
    let prepare = |session: &Session| session.add_servers(servers);
    let loaded = sessions.load(&session_id, more, prepare).await.map_err(unloaded)?;
    Ok(loaded.ok_or_else(|| not_found(&session_id))?)
}

fn unloaded(error: LoadError) -> Unloaded {
    Unloaded::Refused(match error {
        LoadError::Create(error) => refused(error),
        LoadError::Store(refusal) => match refusal {
            StoreError::Held(_, ref holder) if let Some(port) = holder.joinable_port() => {
                return Unloaded::Elsewhere { port, refusal };
            }
            // The session exists, and the message of the refusal tells the user how to open it.
            StoreError::Held(..) | StoreError::Checkpoint(_) | StoreError::Newer(_) => {
                Error::invalid_params(format_args!("`sessionId`: {refusal}"))
            }
            refusal => Error::internal(refusal),
        },
    })
}

/// Ends an editor's use of a session: cancels the editor's turns, waits until their prompts are answered, and unloads
/// the session unless another client uses it.
async fn close(service: &EditorService, opened: Arc<OpenedSession>) {
    let session = opened.session();
    opened.client.cancel_own(session);
    opened.client.answered().await;
    // One lease is this editor's own. A further lease is another client's, so the session stays loaded.
    if opened.loaded.leases().count() > 1 {
        return;
    }
    service.sessions.delete(opened.loaded.id());
    session.persistence().wait_released().await;
}

async fn delete(service: &EditorService, id: &str) -> Result<(), Error> {
    if service.sessions.contains(id) {
        return Err(Error::internal("the session is in use; close it first where it is open"));
    }
    let Some(store) = service.sessions.store() else { return Ok(()) };
    match store.delete(&stored_id(id)).await {
        Ok(()) | Err(StoreError::NotFound(_)) => Ok(()),
        Err(error) => Err(Error::internal(error)),
    }
}

fn refused(error: CreateError) -> Error {
    Error::internal(error)
}

/// Returns the canonical path of a directory that a client names.
fn directory(path: &Path) -> Result<PathBuf, Error> {
    if !path.is_absolute() {
        let path = path.display();
        return Err(Error::invalid_params(format_args!("`{path}` is not an absolute path")));
    }
    match path.canonicalize() {
        Ok(real) if real.is_dir() => Ok(real),
        Ok(_) => Err(Error::invalid_params(format_args!("{} is not a directory", path.display()))),
        Err(error) => Err(Error::invalid_params(format_args!("{}: {error}", path.display()))),
    }
}

fn more_directories(setup: &SessionSetup) -> Result<Vec<PathBuf>, Error> {
    setup.additional_directories.iter().map(|path| directory(path)).collect()
}

/// Returns the configurations of the MCP servers that a client sends along.
fn servers(servers: Option<Vec<Value>>, directory: &Path, origin: &Origin) -> Vec<ServerConfig> {
    let servers = servers.unwrap_or_default().into_iter().enumerate();
    let config = |(n, server): (usize, Value)| {
        let name = server.get("name").and_then(Value::as_str);
        let name = name.map_or_else(|| format!("server{}", n + 1), ToOwned::to_owned);
        config(&name, read(server), directory, origin)
    };
    servers.map(config).collect()
}

fn read(server: Value) -> Result<EditorServer, String> {
    let server: McpServer = serde_json::from_value(server).map_err(|err| err.to_string())?;
    match (server.r#type.as_deref(), server.command, server.url) {
        (None | Some("stdio"), Some(command), _) => Ok(EditorServer::Stdio {
            command,
            args: server.args,
            env: NamedValue::pairs(server.env),
        }),
        (Some("http"), _, Some(url)) => {
            Ok(EditorServer::Http { url, headers: NamedValue::pairs(server.headers) })
        }
        (None | Some("stdio"), None, _) => Err("`command` is missing".to_owned()),
        (Some("http"), _, None) => Err("`url` is missing".to_owned()),
        (Some(other), ..) => Err(format!("the transport `{other}` is not supported")),
    }
}
