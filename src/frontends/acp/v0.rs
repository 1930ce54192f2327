//! ACP 0.0.9, over which an editor drives the process's own session.
//!
//! [`Editor`] answers the editor's calls. `view` shows the editor the session's events, and answers each
//! `sendUserMessage` once the whole turn of the message has been shown.

mod cards;
mod content;
mod servers;
mod view;

use std::sync::Arc;
use std::sync::atomic::Ordering;

use tokio_util::task::AbortOnDropHandle;

use self::view::{AcpClient, EditorView};
use crate::{Connection, Login};
use parking_lot::Mutex;
use tandem_agent::session::{PromptPart, Session, TurnId};
use tandem_agent::sessions::{Leased, LoadedSession};
use tandem_wire::acp::v0::{
    CANCEL_SEND_MESSAGE, InitializeParams, InitializeResponse, PROTOCOL_VERSION, SEND_USER_MESSAGE,
    SendUserMessageParams, UserMessageChunk,
};
use tandem_wire::acp::{AUTHENTICATE_METHOD, INITIALIZE_METHOD};
use tandem_wire::jsonrpc::{Error, Params};
use tandem_wire::rpc::Responder;

/// Handler of one editor, which is a user of the session.
pub(crate) struct Editor {
    session: Arc<Session>,
    login: Arc<dyn Login>,
    client: Arc<AcpClient>,
    /// Last turn that the editor began. The lock is held while the next turn begins.
    turn: Mutex<Option<TurnId>>,
    /// Lease that keeps the session loaded.
    _loaded: Leased<LoadedSession>,
    _view: AbortOnDropHandle<()>,
}

impl Editor {
    /// Creates the handler, and begins to show the editor the session's events.
    pub(crate) fn new(connection: &Connection, loaded: Leased<LoadedSession>) -> Self {
        let Connection { service, peer, .. } = connection;
        let (session, login) = (Arc::clone(loaded.session()), Arc::clone(&service.login));
        let client = Arc::new(AcpClient::new(service.origin.clone()));
        let view = EditorView::new(&session, peer.clone(), Arc::clone(&client));
        let (turn, view) = (Mutex::default(), connection.spawn(view.run()));
        Self { session, login, client, turn, _loaded: loaded, _view: view }
    }

    /// Begins to answer a request.
    pub(crate) fn request(&self, method: &str, params: Params<'_>, responder: Responder) {
        match method {
            INITIALIZE_METHOD => self.initialize(params, responder),
            AUTHENTICATE_METHOD => {
                let session = Some(Arc::clone(&self.session));
                let (authenticated, closed) = (
                    self.login.authenticate(session, Box::new(|_| true)),
                    self.session.turns().closed(),
                );
                tokio::spawn(responder.send_output(async move {
                    let result = tokio::select! {
                        result = authenticated => result,
                        () = closed => Err("the agent ends, and nobody has logged in".to_owned()),
                    };
                    result.map_err(Error::internal)
                }));
            }
            SEND_USER_MESSAGE => self.send_user_message(params, responder),
            CANCEL_SEND_MESSAGE => self.cancel_send_message(responder),
            _ => responder.send(Err::<(), _>(Error::method_not_found(method))),
        }
    }

    fn initialize(&self, params: Params<'_>, responder: Responder) {
        let params = match params.0 {
            Some(_) => params.parse(),
            None => Ok(InitializeParams::default()),
        };
        let params = match params {
            Ok(params) => params,
            Err(error) => return responder.send(Err::<(), _>(error)),
        };
        let version = params.protocol_version.as_str().unwrap_or_default();
        let patch = version.strip_prefix("0.0.").and_then(|patch| patch.parse::<u32>().ok());
        self.client.plans.store(patch.is_some_and(|patch| patch >= 10), Ordering::Relaxed);
        let is_authenticated = self.session.ready().is_ok();
        responder
            .send(Ok(InitializeResponse { protocol_version: PROTOCOL_VERSION, is_authenticated }));
        // The servers start only after the answer, which nothing may delay.
        let servers = servers::configs(&params.context_servers, &self.session, &self.client.origin);
        self.session.add_servers(servers);
        self.session.start_servers();
    }

    /// Begins a turn. The view answers the request when the turn has ended and has been shown completely.
    fn send_user_message(&self, params: Params<'_>, responder: Responder) {
        let params: SendUserMessageParams = match params.parse() {
            Ok(params) => params,
            Err(error) => return responder.send(Err::<(), _>(error)),
        };
        let is_empty = |chunk: &_| matches!(chunk, UserMessageChunk::Path(path) if path.is_empty());
        if let Some(n) = params.chunks.iter().position(is_empty) {
            let error = Error::invalid_params(format_args!("`chunks[{n}].path`: it is empty"));
            return responder.send(Err::<(), _>(error));
        }
        let chunks = params.chunks.into_iter().map(|chunk| match chunk {
            UserMessageChunk::Text(text) => PromptPart::Text(text),
            UserMessageChunk::Path(path) => PromptPart::Path(path),
        });
        let prompt: Vec<_> = chunks.collect();
        // A command works without a model, so an error of the model does not keep the user from running a command. With
        // a command, for example `/model set`, the user may cure the error.
        if let Err(error) = self.session.ready()
            && self.session.needs_model(&prompt)
            && !self.login.may_find_key(&self.session)
        {
            return responder.send(Err::<(), _>(Error::internal(error)));
        }
        let mut turn = self.turn.lock();
        // As in the protocol's first agent, a second message cancels the turn of the first message.
        if let Some(before) = *turn {
            self.session.cancel(before);
        }
        // Held until the responder is in the map: otherwise the view could handle the turn before its responder is
        // there, and the request would stay unanswered.
        let mut replies = self.client.replies.lock();
        let begun = self.session.prompt(prompt, self.client.origin.clone());
        replies.insert(begun, responder);
        *turn = Some(begun);
    }

    /// Cancels the editor's own turn, or else the running turn of another front end. This request is answered before
    /// the request that began the turn.
    fn cancel_send_message(&self, responder: Responder) {
        let own = self.turn.lock().filter(|turn| self.client.replies.lock().contains_key(turn));
        let Some(turn) = own.or_else(|| self.session.turns().running()) else {
            return responder.send(Err::<(), _>(Error::internal("Not currently generating")));
        };
        responder.send(Ok(()));
        *self.client.silenced.lock() = Some(turn);
        self.session.cancel(turn);
    }
}
