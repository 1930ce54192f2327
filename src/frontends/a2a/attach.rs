//! A terminal that attaches to a session (`wire/attach.rs`).

use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};

use futures::{FutureExt as _, StreamExt as _, TryStreamExt as _};
use parking_lot::Mutex;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use serde_json::value::{RawValue, to_raw_value};
use tokio::io::DuplexStream;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};
use tokio::task::spawn_blocking;
use tokio_util::sync::CancellationToken;

use super::audit::{client_address, for_client};
use super::context::SessionContext;
use super::contexts::visible::VisibleContexts;
use super::orders::{OrderReply, OrderedCall, TerminalCall};
use super::principals::{self, DRIVE, Principal, SessionRight, WATCH};
use super::read::AgentSettings;
use super::requests::SessionId;
use super::server::{A2aServer, CallOrigin};
use super::turns;
use tandem_agent::session::{
    Answer, AnswerError, ClientName, Listed, Origin, PromptPart, PromptTags, Reader, Session,
    StoreError, TurnId,
};
use tandem_agent::sessions::SessionSummary;
use tandem_trace::TraceContext;
use tandem_wire::attach::{
    ANSWER, AnswerParams, CANCEL, EVENTS, EventsParams, EventsResult, FILES, FilesParams,
    ListedSession, LogEntry, OPEN, OpenParams, OpenResult, OpenedSession, PROMPT, PROMPTS,
    PromptParams, REFUSED, SET_MODE, SessionSelector, SetModeParams, TAKE_BACK, TurnParams,
    VERSION, VersionParams,
};
use tandem_wire::jsonrpc::{Error, Params};
use tandem_wire::rpc::{self, Responder};

/// Maximum number of bytes of events in one answer, unless a single event has more.
const BATCH: usize = 256 << 10;

/// Maximum number of events in one answer.
const ENTRIES: usize = 1000;

/// Maximum number of calls of one terminal that wait for something.
const WAITING: usize = 8;

/// The longest name that a terminal may have.
const LONGEST_NAME: usize = 64;

/// Maximum number of stored sessions that a terminal is shown to choose from.
const STORED_LISTED: usize = 100;

/// Number of characters of a prompt that a list shows.
const BEGINNING: usize = 60;

/// Message of a session that the owner shares no longer.
const NOT_SHARED: &str = "the session is not shared with you any more";

/// Maximum number of files named in one answer.
const FILES_NAMED: usize = 20_000;

/// Serves one terminal.
pub(super) async fn serve(server: Arc<A2aServer>, principal: Principal, stream: DuplexStream) {
    let (input, output) = tokio::io::split(stream);
    let ended = CancellationToken::new();
    let max_line = server.options.body;
    let options = rpc::ConnectionOptions {
        input_ended: ended.clone(),
        cancellation: true,
        ..rpc::ConnectionOptions::new(max_line)
    };
    let waiting = Arc::new(Semaphore::new(WAITING));
    let (joined, ordered) = (Arc::default(), Mutex::default());
    let seat = Seat { server, principal, joined, waiting, ordered, ended };
    if let Err(err) = rpc::serve(input, output, options, |_| seat).await {
        tracing::debug!("an attached terminal has gone: {err:#}");
    }
}

/// One connection of a terminal.
struct Seat {
    server: Arc<A2aServer>,
    principal: Principal,
    /// The session, when one is opened.
    joined: Arc<OnceLock<JoinedSession>>,
    waiting: Arc<Semaphore>,
    /// Fires when the last order is carried out that was left for another node.
    ordered: Mutex<Option<oneshot::Receiver<()>>>,
    ended: CancellationToken,
}

struct JoinedSession {
    context: Arc<SessionContext>,
    /// Name of the terminal.
    terminal: String,
    origin: Origin,
}

impl Drop for JoinedSession {
    fn drop(&mut self) {
        self.context.attached.fetch_sub(1, Ordering::Relaxed);
    }
}

impl rpc::Handler for Seat {
    fn request(&self, method: &str, params: Params<'_>, responder: Responder) {
        if method == OPEN {
            let open = open_params(params);
            let (server, seat) = (Arc::clone(&self.server), Arc::clone(&self.joined));
            let principal = self.principal.clone();
            // The session may have to be loaded.
            tokio::spawn(for_client(client_address(), async move {
                let opened = match open {
                    Ok(open) => open_session(&server, &principal, &seat, open).await,
                    Err(error) => Err(error),
                };
                responder.send(opened);
            }));
            return;
        }
        let Some(joined) = self.joined.get() else {
            return responder.send(Err::<(), _>(refused("no session is open")));
        };
        if let Err(error) = self.check(joined, method) {
            return responder.send(Err::<(), _>(error));
        }
        if method == EVENTS {
            return self.events(joined, params, responder);
        }
        let Ok(session) = joined.context.session().map(Arc::clone) else {
            return self.order(joined, method, params, responder);
        };
        match method {
            FILES => self.files(session, params, responder),
            PROMPTS => self.prompts(session, responder),
            _ => {
                let done = self.actor(joined).act(&session, method, params);
                if method != PROMPT {
                    return responder.send(done);
                }
                let context = Arc::clone(&joined.context);
                // A prompt that is accepted is not lost.
                tokio::spawn(async move {
                    let promised = context.promised().await.map_err(|error| refused(error.message));
                    responder.send(done.and_then(|done| promised.map(|()| done)));
                });
            }
        }
    }
}

/// Returns the right that a call needs.
fn needed(method: &str) -> SessionRight {
    match method {
        EVENTS | FILES | PROMPTS => WATCH,
        ANSWER => principals::ANSWER,
        _ => DRIVE,
    }
}

/// Reads what a terminal wants to open.
fn open_params(params: Params<'_>) -> Result<OpenParams, Error> {
    let VersionParams { version } = params.parse()?;
    if version != VERSION {
        let own = env!("CARGO_PKG_VERSION");
        return Err(refused(format!(
            "the agent (tandem {own}) lets terminals of version {VERSION} attach, and this one \
             is of version {version}: use the same tandem for both"
        )));
    }
    let open: OpenParams = params.parse()?;
    if open.terminal.len() > LONGEST_NAME {
        return Err(refused("the terminal's name is too long"));
    }
    Ok(open)
}

/// Opens a session for a terminal.
async fn open_session(
    server: &A2aServer,
    principal: &Principal,
    seat: &OnceLock<JoinedSession>,
    open: OpenParams,
) -> Result<OpenResult, Error> {
    let context = match wanted(server, principal, &open.session).await? {
        Ok(context) => context,
        Err(all) => return Ok(OpenResult::Choose(all)),
    };
    let (opened, client) = match context.followed() {
        None => take_in(server, principal, &context, &open.terminal)?,
        Some(followed) => {
            let caller = terminal_caller(principal, Origin::Terminal);
            let call = TerminalCall::new(&context, OPEN, &open.terminal, Value::Null);
            let taken_in = server.order(followed, OrderedCall::Terminal(call), &caller).await?;
            taken_in.parse()?
        }
    };
    let opened = OpenedSession { frame_bytes: server.options.body, ..opened };
    context.attached.fetch_add(1, Ordering::Relaxed);
    let joined =
        JoinedSession { context, terminal: client.name.clone(), origin: Origin::Attached(client) };
    match seat.set(joined) {
        Ok(()) => Ok(OpenResult::Opened(opened)),
        Err(_) => Err(refused("a session is open already")),
    }
}

/// Gives a terminal its number in a session that this node has, and describes the session.
fn take_in(
    server: &A2aServer,
    principal: &Principal,
    context: &Arc<SessionContext>,
    terminal: &str,
) -> Result<(OpenedSession, ClientName), Error> {
    let session = context.session()?;
    let client = {
        let mut terminals = context.terminals.lock();
        let client = context.story(|story| terminals.client(terminal, story));
        client.of(principal.id().cloned())
    };
    let opened = OpenedSession {
        session: context.id.clone(),
        number: client.number,
        directory: directory(context),
        model: session.model(),
        mode: session.mode().to_string(),
        modes: session.modes().iter().map(ToString::to_string).collect(),
        frame_bytes: server.options.body,
    };
    Ok((opened, client))
}

fn terminal_caller(principal: &Principal, origin: Origin) -> CallOrigin {
    let (principal, trace) = (principal.clone(), TraceContext::current());
    CallOrigin { origin, principal, last_event: None, trace, order: None }
}

/// Carries out a call of a terminal that has attached at another node.
pub(super) async fn obey(
    server: &A2aServer,
    call: &TerminalCall,
    CallOrigin { principal, origin, .. }: &CallOrigin,
) -> Result<Value, Error> {
    let TerminalCall { session: id, method, params, terminal } = call;
    let named = SessionId { task: None, context: Some(id) };
    let context = server.load(principal, &named).await?;
    let context = context.ok_or_else(|| refused(NOT_SHARED))?;
    let session = Arc::clone(context.session()?);
    let need = if method == OPEN { WATCH } else { needed(method) };
    let checked = server.contexts.of(principal).check(&context, need);
    checked.map_err(|error| refused(error.message))?;
    let raw = to_raw_value(params).map_err(Error::internal)?;
    let params = Params(Some(&raw));
    match method.as_str() {
        OPEN => to_value(take_in(server, principal, &context, terminal)?),
        FILES => {
            let files = params.parse::<FilesParams>()?;
            let named = spawn_blocking(move || mentionable(&session, &files)).await;
            to_value(named.map_err(Error::internal)?)
        }
        PROMPTS => {
            let commands = spawn_blocking(move || session.own_commands()).await;
            to_value(commands.map_err(Error::internal)?)
        }
        _ => {
            let actor = Actor { server, principal, context: &context, terminal, origin };
            let done = actor.act(&session, method, params)?;
            if method == PROMPT {
                context.promised().await.map_err(|error| refused(error.message))?;
            }
            Ok(done)
        }
    }
}

/// Returns the names of files that a prompt can mention.
fn mentionable(session: &Session, files: &FilesParams) -> Vec<String> {
    session.mentionable(files.most.min(FILES_NAMED))
}

fn to_value(value: impl Serialize) -> Result<Value, Error> {
    serde_json::to_value(value).map_err(Error::internal)
}

/// The session that is meant; all there are if that is not clear, but not the oldest of very many.
/// One alone that is loaded is meant if none is named.
async fn wanted(
    server: &A2aServer,
    principal: &Principal,
    wanted: &SessionSelector,
) -> Result<Result<Arc<SessionContext>, Vec<ListedSession>>, Error> {
    let contexts = server.contexts.of(principal);
    let new = |directory: &str| {
        let workspace = Some(PathBuf::from(directory));
        let settings = AgentSettings { workspace, ..AgentSettings::default() };
        contexts.context(None, &settings).map_err(|error| refused(error.message))
    };
    let list = contexts.list();
    let found = match wanted {
        SessionSelector::New(_) if server.contexts.shared().is_some() => {
            return Err(refused("this agent begins no sessions for others"));
        }
        SessionSelector::New(directory) => return Ok(Ok(new(directory)?)),
        SessionSelector::Only(directory) if list.is_empty() => return Ok(Ok(new(directory)?)),
        SessionSelector::Only(_) => list.iter().map(|session| session.id.clone()).collect(),
        SessionSelector::Id(id) => match open_exactly(server, principal, id).await? {
            Some(exactly) => return Ok(Ok(exactly)),
            None => named(contexts, &list, id).await?,
        },
    };
    if let [id] = &found[..]
        && let Some(context) = open_exactly(server, principal, id).await?
    {
        return Ok(Ok(context));
    }
    let stored = contexts.stored().map_ok(|stored| listed_stored(&stored)).take(STORED_LISTED);
    let stored: Vec<_> = stored.try_collect().await.map_err(|error| refused(error.message))?;
    Ok(Err(list.iter().map(listed).chain(stored).collect()))
}

/// Opens the session of exactly this id, which may have to be loaded.
async fn open_exactly(
    server: &A2aServer,
    principal: &Principal,
    id: &str,
) -> Result<Option<Arc<SessionContext>>, Error> {
    let session = SessionId { task: None, context: Some(id) };
    let loaded = server.load(principal, &session).await;
    let _stays_loaded = loaded.map_err(|error| refused(error.message))?;
    Ok(server.contexts.of(principal).get(id))
}

/// Returns the ids of the sessions of which a part of the id is given, of stored ones only as many as
/// show that it does not name one.
async fn named(
    contexts: VisibleContexts<'_>,
    loaded: &[SessionSummary],
    part: &str,
) -> Result<Vec<String>, Error> {
    let loaded = loaded.iter().map(|session| &session.id).filter(|id| is_named(id, part));
    let mut found: Vec<_> = loaded.cloned().collect();
    let mut stored = contexts.stored();
    while found.len() < 2
        && let Some(next) = stored.try_next().await.map_err(|error| refused(error.message))?
    {
        found.extend(Some(next.head.id).filter(|id| is_named(id, part)));
    }
    Ok(found)
}

impl Seat {
    /// Answers when something has happened.
    fn events(&self, joined: &JoinedSession, params: Params<'_>, responder: Responder) {
        let (since, slot) = match self.asked::<EventsParams>(params) {
            Ok(asked) => asked,
            Err(error) => return responder.send(Err::<(), _>(error)),
        };
        let (context, ended) = (Arc::clone(&joined.context), self.ended.clone());
        let reader = self.principal.clone();
        tokio::spawn(async move {
            let mut log = context.events(since.from);
            let limit = || context.here().and_then(Session::input_limit);
            let cancelled = responder.cancellation();
            // A responder that is dropped says by itself why there are no events.
            tokio::select! {
                () = log.ready() => {
                    // It may be shared no longer.
                    if !context.is_open_to(&reader) {
                        return responder.send(Err::<(), _>(refused(NOT_SHARED)));
                    }
                    responder.send(happened(&mut log, since.bytes, limit()));
                }
                () = context.moved() => {
                    responder.send(Err::<(), _>(refused(StoreError::TakenOver)));
                }
                () = ended.cancelled() => {}
                () = cancelled.cancelled() => {}
            }
            drop(slot);
        });
    }

    fn files(&self, session: Arc<Session>, params: Params<'_>, responder: Responder) {
        let (files, slot) = match self.asked::<FilesParams>(params) {
            Ok(asked) => asked,
            Err(error) => return responder.send(Err::<(), _>(error)),
        };
        answer_blocking(responder, slot, move || mentionable(&session, &files));
    }

    fn prompts(&self, session: Arc<Session>, responder: Responder) {
        let slot = match self.slot() {
            Ok(slot) => slot,
            Err(error) => return responder.send(Err::<(), _>(error)),
        };
        answer_blocking(responder, slot, move || session.own_commands());
    }

    /// Takes a place among the calls that wait, and reads what is asked for.
    fn asked<T: DeserializeOwned>(
        &self,
        params: Params<'_>,
    ) -> Result<(T, OwnedSemaphorePermit), Error> {
        let slot = self.slot()?;
        Ok((params.parse()?, slot))
    }

    /// A place among the calls that wait.
    fn slot(&self) -> Result<OwnedSemaphorePermit, Error> {
        let slot = Arc::clone(&self.waiting).try_acquire_owned();
        slot.map_err(|_| refused(format!("{WAITING} calls wait already")))
    }

    /// Checks that the terminal may call a method now.
    fn check(&self, joined: &JoinedSession, method: &str) -> Result<(), Error> {
        let (server, id) = (&self.server, self.principal.id());
        let checked = server.contexts.of(&self.principal).check(&joined.context, needed(method));
        checked.map_err(|error| refused(error.message))?;
        // Events are what a terminal waits for, as often as there are some.
        if method == EVENTS {
            return Ok(());
        }
        server.meter.request(id).map_err(|used_up| {
            server.audit.denied(id, method, &used_up.message());
            refused(used_up.message())
        })
    }

    /// Has the owner of the session carry a call out, after those that came before.
    fn order(
        &self,
        joined: &JoinedSession,
        method: &str,
        params: Params<'_>,
        responder: Responder,
    ) {
        let params = match params.parse::<Value>() {
            Ok(params) => params,
            Err(error) => return responder.send(Err::<(), _>(error)),
        };
        let (done, is_done) = oneshot::channel::<()>();
        let before = self.ordered.lock().replace(is_done);
        let call = TerminalCall::new(&joined.context, method, &joined.terminal, params);
        let caller = terminal_caller(&self.principal, joined.origin.clone());
        let (server, context) = (Arc::clone(&self.server), Arc::clone(&joined.context));
        tokio::spawn(async move {
            if let Some(before) = before {
                // It is told by its end.
                let _ = before.await;
            }
            let _done = done;
            let Some(followed) = context.followed() else { return };
            let reply = server.order(followed, OrderedCall::Terminal(call), &caller).await;
            responder.send(reply.and_then(OrderReply::parse::<Value>));
        });
    }

    fn actor<'a>(&'a self, joined: &'a JoinedSession) -> Actor<'a> {
        let JoinedSession { context, terminal, origin } = joined;
        Actor { server: &self.server, principal: &self.principal, context, terminal, origin }
    }
}

/// A terminal that acts in a session that this node has.
struct Actor<'a> {
    server: &'a A2aServer,
    principal: &'a Principal,
    context: &'a Arc<SessionContext>,
    /// Name of the terminal.
    terminal: &'a str,
    origin: &'a Origin,
}

impl Actor<'_> {
    fn act(&self, session: &Session, method: &str, params: Params<'_>) -> Result<Value, Error> {
        match method {
            PROMPT => self.prompt(session, params).map(|()| Value::Null),
            SET_MODE => self.set_mode(session, params).map(|()| Value::Null),
            CANCEL => {
                let turn = params.parse::<TurnParams>();
                self.note("cancel");
                turn.map(|turn| session.cancel(TurnId(turn.turn)).into())
            }
            TAKE_BACK => {
                let turn = params.parse::<TurnParams>()?;
                Ok(session.take_back(TurnId(turn.turn)).into())
            }
            ANSWER => to_value(self.answer(session, &params.parse::<AnswerParams<Answer>>()?)),
            _ => Err(Error::method_not_found(method)),
        }
    }

    fn prompt(&self, session: &Session, params: Params<'_>) -> Result<(), Error> {
        let prompt: PromptParams<PromptPart> = params.parse()?;
        if prompt.parts.iter().any(|part| matches!(part, PromptPart::Shell(_))) {
            self.trusted()?;
        }
        // Nobody has checked it, and one request with something in it that is none would fail, and all
        // that follow.
        if prompt.parts.iter().any(|part| matches!(part, PromptPart::Media(_))) {
            return Err(refused("a terminal sends no media"));
        }
        self.server.check_open().map_err(|error| refused(error.message))?;
        let context = self.context;
        context.used();
        // It may have been taken, and the terminal not know. Of two at once, one is.
        let mut terminals = context.terminals.lock();
        if context.story(|story| terminals.is_new(self.terminal, prompt.number, story)) {
            turns::check_room(session).map_err(|error| refused(error.message))?;
            let contexts = self.server.contexts.of(self.principal);
            let _room = contexts.check_turn(context).map_err(|error| refused(error.message))?;
            let text = self.server.audit.text(&prompt.parts);
            terminals.take(self.terminal, prompt.number);
            let tags = PromptTags::key(prompt.number.to_string());
            let turn = session.prompt_tagged(prompt.parts, self.origin.clone(), tags);
            let by = (self.principal, self.origin);
            self.server.audit.prompted(by, context, turn, text);
        }
        Ok(())
    }

    fn set_mode(&self, session: &Session, params: Params<'_>) -> Result<(), Error> {
        let SetModeParams { mode } = params.parse()?;
        let mode = mode.parse().map_err(Error::invalid_params)?;
        self.trusted()?;
        self.note("mode");
        session.set_mode(mode).map_err(Error::invalid_params)
    }

    fn answer(&self, session: &Session, given: &AnswerParams<Answer>) -> Result<(), AnswerError> {
        // A saved rule counts for everybody here.
        let saves = matches!(given.answer, Answer::AlwaysAndSave(_));
        if saves && !self.principal.changes_for_all() {
            return Err(AnswerError::NotOffered);
        }
        session.answer(&given.call, given.answer.clone(), self.origin.clone())?;
        let by = (self.principal, self.origin);
        self.server.audit.answered(by, self.context, &given.call, &given.answer);
        Ok(())
    }

    /// Notes in the audit log what a terminal does.
    fn note(&self, event: &str) {
        let by = (self.principal, self.origin);
        self.server.audit.act(event, by, self.context, |_| {});
    }

    /// Returns an error unless more is allowed than any client of A2A may do, which is to say
    /// something, to cancel, and to answer what is asked: everybody on this machine can attach if
    /// there is no token.
    fn trusted(&self) -> Result<(), Error> {
        let trusted = *self.principal != Principal::Anyone;
        let why = "only an agent with a token (--a2a-token-file) takes this from here";
        if trusted { Ok(()) } else { Err(refused(why)) }
    }
}

/// Answers with the output of blocking work. The slot is taken until the work ends, even if the
/// terminal cancels the request before.
fn answer_blocking<T: Serialize + Send + 'static>(
    responder: Responder,
    slot: OwnedSemaphorePermit,
    work: impl FnOnce() -> T + Send + 'static,
) {
    let work = tokio::task::spawn_blocking(move || {
        let output = work();
        drop(slot);
        output
    });
    tokio::spawn(responder.send_output(work.map(|output| output.map_err(Error::internal))));
}

/// Returns the events that have happened and are not read yet, as many as fit one answer.
fn happened(
    log: &mut Reader,
    most: usize,
    input_limit: Option<u64>,
) -> Result<EventsResult<Box<RawValue>>, Error> {
    let (mut entries, mut bytes, mut next) = (Vec::new(), 0, None);
    while entries.len() < ENTRIES
        && let Some(entry) = log.try_next_entry()
    {
        let json = to_raw_value(&*entry.event).map_err(Error::internal)?;
        let size = json.get().len();
        if !entries.is_empty() && bytes + size > BATCH.min(most) {
            next = Some(entry.index);
            break;
        }
        bytes += size;
        let event = Some(json).filter(|_| size <= most);
        entries.push(LogEntry { index: entry.index, at: entry.at, event });
    }
    let next = next.unwrap_or(log.position());
    Ok(EventsResult { entries, next, input_limit })
}

/// Returns whether an id begins or ends so. The beginnings of two that were made one soon after the
/// other are the same: it is the time.
fn is_named(id: &str, part: &str) -> bool {
    id.starts_with(part) || id.ends_with(part)
}

fn directory(context: &SessionContext) -> String {
    context.directory().map(|root| root.display().to_string()).unwrap_or_default()
}

/// A session as a terminal is shown it in the list.
fn listed(summary: &SessionSummary) -> ListedSession {
    ListedSession {
        id: summary.id.clone(),
        directory: summary.directory.display().to_string(),
        prompts: usize::try_from(summary.prompts).unwrap_or(usize::MAX),
        last: summary.last_prompt.chars().take(BEGINNING).collect(),
        at: summary.last_activity.unwrap_or_default(),
        busy: summary.busy,
    }
}

/// The same of a session that is stored and not loaded.
fn listed_stored(stored: &Listed) -> ListedSession {
    ListedSession {
        id: stored.head.id.clone(),
        directory: stored.head.directory.display().to_string(),
        prompts: usize::try_from(stored.turns).unwrap_or(usize::MAX),
        last: stored.title.chars().take(BEGINNING).collect(),
        at: stored.changed,
        busy: false,
    }
}

fn refused(why: impl std::fmt::Display) -> Error {
    Error::detailed(REFUSED, "Refused", why)
}
