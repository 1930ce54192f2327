//! An editor drives the session over the Agent Client Protocol 0.0.9.
//!
//! [`serve`] answers the editor's calls; `view` shows the editor the session's events, and answers
//! each `sendUserMessage` when all of its turn has been shown.

mod cards;
mod content;
mod servers;
mod view;

use std::sync::Arc;
use std::sync::atomic::Ordering;

use futures::future::BoxFuture;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use self::view::{AcpClient, EditorView};
use parking_lot::Mutex;
use tandem_agent::session::{Origin, PromptPart, Session, TurnId};
use tandem_wire::acp::{
    AUTHENTICATE, CANCEL_SEND_MESSAGE, INITIALIZE, InitializeParams, InitializeResponse,
    SEND_USER_MESSAGE, SendUserMessageParams, UserMessageChunk, VERSION,
};
use tandem_wire::jsonrpc::{Error, Params};
use tandem_wire::rpc::{self, Responder};

/// Action that obtains credentials; the error tells the user what to do.
pub type Authenticate = Arc<dyn Fn() -> BoxFuture<'static, Result<(), String>> + Send + Sync>;

/// Session and credentials that an editor is served with.
pub struct EditorService {
    /// Session that the editor drives.
    pub session: Arc<Session>,
    /// Origin of the editor's prompts and answers.
    pub origin: Origin,
    /// Action of the method `authenticate`.
    pub authenticate: Authenticate,
}

/// Serves one editor until it hangs up and all its requests are answered. An error means that nobody
/// reads the answers any more.
pub async fn serve(
    service: EditorService,
    input: impl AsyncRead + Unpin,
    output: impl AsyncWrite + Unpin + Send + 'static,
    options: rpc::ConnectionOptions,
) -> anyhow::Result<()> {
    let EditorService { session, origin, authenticate } = service;
    let view_ended = CancellationToken::new();
    let ended = view_ended.clone();
    let served = rpc::serve(input, output, options, |peer| {
        let client = Arc::new(AcpClient::new(origin));
        let view = EditorView::new(&session, peer, Arc::clone(&client));
        let guard = ended.drop_guard();
        let task = tokio::spawn(async move {
            let _guard = guard;
            view.run().await;
        });
        let turn = Mutex::default();
        EditorHandler { session, authenticate, client, turn, _view: AbortOnDropHandle::new(task) }
    });
    tokio::select! {
        served = served => served,
        // The view ends by a panic only.
        () = view_ended.cancelled() => Err(anyhow::anyhow!("the editor can be shown no more")),
    }
}

/// One editor, as the session's user.
struct EditorHandler {
    session: Arc<Session>,
    authenticate: Authenticate,
    client: Arc<AcpClient>,
    /// The last turn that the editor began.
    turn: Mutex<Option<TurnId>>,
    _view: AbortOnDropHandle<()>,
}

impl rpc::Handler for EditorHandler {
    fn request(&self, method: &str, params: Params<'_>, responder: Responder) {
        match method {
            INITIALIZE => self.initialize(params, responder),
            AUTHENTICATE => {
                let (authenticated, closed) = ((self.authenticate)(), self.session.closed());
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
}

impl EditorHandler {
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
        responder.send(Ok(InitializeResponse { protocol_version: VERSION, is_authenticated }));
        // After the answer, which nothing may delay.
        let servers = servers::configs(&params.context_servers, &self.session, &self.client.origin);
        self.session.add_servers(servers);
        self.session.start_servers();
    }

    /// Begins a turn. The view answers when the turn has ended and all of it has been shown.
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
        // A command works without a model, and may be what helps.
        if let Err(error) = self.session.ready()
            && self.session.needs_model(&prompt)
        {
            return responder.send(Err::<(), _>(Error::internal(error)));
        }
        let mut turn = self.turn.lock();
        // The protocol's first agent: a second message ends the turn of the first.
        if let Some(before) = *turn {
            self.session.cancel(before);
        }
        // Held over both, or the view could look for a responder that is not there yet.
        let mut replies = self.client.replies.lock();
        let begun = self.session.prompt(prompt, self.client.origin.clone());
        replies.insert(begun, responder);
        *turn = Some(begun);
    }

    /// Ends the editor's own turn, or else the running one. Answered before the turn's prompt.
    fn cancel_send_message(&self, responder: Responder) {
        let own = self.turn.lock().filter(|turn| self.client.replies.lock().contains_key(turn));
        let Some(turn) = own.or_else(|| self.session.running()) else {
            return responder.send(Err::<(), _>(Error::internal("Not currently generating")));
        };
        responder.send(Ok(()));
        *self.client.silenced.lock() = Some(turn);
        self.session.cancel(turn);
    }
}
