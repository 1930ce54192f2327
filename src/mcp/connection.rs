//! An established connection to a server: requests, and the server's notifications about them.

use std::collections::HashMap;
use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use reqwest::Url;
use rmcp::model::{
    CancelledNotificationParam, ClientRequest, ProgressNotificationParam, ProgressToken, RequestId,
    RequestMetaObject, ServerCapabilities, ServerResult,
};
use rmcp::service::{Peer, PeerRequestOptions, RoleClient, ServiceError};
use rmcp::transport::auth::AuthError;
use rmcp::transport::streamable_http_client::AuthRequiredError;
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until, timeout};
use tokio_util::sync::CancellationToken;

use super::error_text::{causes, discreet};
use parking_lot::Mutex;
use tandem_content::plain::plain;
use tandem_content::shorten::one_line;
use tandem_trace::{self as trace, TraceContext};

/// Minimum time between two updates of a call's progress.
const SHOW_EVERY: Duration = Duration::from_millis(300);

/// Maximum time for sending a cancellation.
const GOOD_BYE: Duration = Duration::from_millis(300);

/// Maximum number of characters of a progress message.
const MAX_PROGRESS_CHARS: usize = 500;

/// The connection to a server that is ready.
pub(super) struct ServerConnection {
    /// The server's name.
    pub(super) name: String,
    pub(super) peer: Peer<RoleClient>,
    pub(super) capabilities: ServerCapabilities,
    /// The server's own text on how to use it; may be empty.
    pub(super) instructions: String,
    /// Notifications of the server on running requests.
    pub(super) hearing: Arc<Notifications>,
    /// Maximum time for a request without any message from the server.
    pub(super) patience: Duration,
    /// `true` if a peer has named the server.
    pub(super) is_confined: bool,
    /// The server's address, if it is a web service.
    pub(super) url: Option<Url>,
}

/// Notifications of a server on running requests.
#[derive(Default)]
pub(super) struct Notifications {
    /// Channels to running requests for their progress, by their tokens.
    progress: Mutex<HashMap<ProgressToken, watch::Sender<String>>>,
    /// Number of messages that were too long to be read. Running requests watch it, because the lost message may have
    /// been their answer.
    too_long: watch::Sender<u64>,
}

/// Failure of a request.
#[derive(Debug)]
pub(super) enum RequestError {
    /// The request was cancelled.
    Cancelled,
    /// The connection is closed.
    Gone,
    /// The server requires the user to log in.
    Login,
    /// The server has refused the request, has sent an invalid answer, or has not answered; the text says why.
    Other(String),
}

/// Options of a request.
pub(super) struct RequestOptions {
    /// Token that cancels the request.
    pub(super) cancel: CancellationToken,
    /// Function that shows the request's progress.
    pub(super) show: Arc<dyn Fn(String) + Send + Sync>,
}

impl RequestOptions {
    /// Returns options of a request that no user waits for, which cannot be cancelled and shows no progress.
    pub(super) fn by_nobody() -> Self {
        Self { cancel: CancellationToken::new(), show: Arc::new(|_| ()) }
    }
}

impl Notifications {
    /// Notes the progress of a request.
    pub(super) fn progressed(&self, said: &ProgressNotificationParam) {
        if let Some(progress) = self.progress.lock().get(&said.progress_token) {
            progress.send_replace(in_words(said));
        }
    }

    /// Notes that a message was too long to be read.
    pub(super) fn too_long(&self) {
        self.too_long.send_modify(|count| *count += 1);
    }
}

fn in_words(said: &ProgressNotificationParam) -> String {
    let amount = match said.total {
        Some(total) => format!("{} of {total}", said.progress),
        None => said.progress.to_string(),
    };
    match &said.message {
        Some(message) => {
            format!("{amount}: {}", one_line(&plain(message.as_bytes()), MAX_PROGRESS_CHARS))
        }
        None => amount,
    }
}

impl ServerConnection {
    /// Returns the trace context for the protocol's field `_meta`, if there is one for this server.
    fn trace(&self) -> Option<RequestMetaObject> {
        let mut fields = match &self.url {
            Some(url) => trace::outgoing(url),
            None => TraceContext::current().fields(),
        };
        let mut meta = RequestMetaObject::new();
        meta.set_traceparent(fields.remove("traceparent")?);
        if let Some(state) = fields.remove("tracestate") {
            meta.set_tracestate(state);
        }
        Some(meta)
    }

    /// Sends a request and waits for the answer. Fails if the server is silent for longer than `patience`; each
    /// progress message starts this time anew.
    pub(super) async fn ask(
        &self,
        request: ClientRequest,
        wanted: RequestOptions,
    ) -> Result<ServerResult, RequestError> {
        let mut too_long = self.hearing.too_long.subscribe();
        let mut options = PeerRequestOptions::default();
        options.meta = self.trace();
        let sent = self.peer.send_cancellable_request(request, options);
        let failure = |error| failure(error, self.is_confined);
        let mut handle = sent.await.map_err(failure)?;
        let (sender, mut progress) = watch::channel(String::new());
        self.hearing.progress.lock().insert(handle.progress_token.clone(), sender);
        let (token, id) = (handle.progress_token.clone(), Some(handle.id.clone()));
        let mut heard = RequestGuard { connection: self, token, id };
        let mut silent = Instant::now() + self.patience;
        let mut show = None;
        let why = loop {
            tokio::select! {
                biased;
                answer = &mut handle.rx => {
                    heard.id = None;
                    let answer = answer.map_err(|_| RequestError::Gone);
                    return answer.and_then(|answer| answer.map_err(failure)).map_err(|failure| {
                        self.broke_off(failure)
                    });
                }
                () = wanted.cancel.cancelled() => break RequestError::Cancelled,
                Ok(()) = too_long.changed() => break RequestError::Other(
                    "its message was longer than the limit; raise `--limit mcp-message-bytes=N`"
                        .to_owned(),
                ),
                Ok(()) = progress.changed(), if show.is_none() => {
                    silent = Instant::now() + self.patience;
                    show = Some(Instant::now());
                    (wanted.show)(progress.borrow_and_update().clone());
                }
                () = sleep_until(show.unwrap_or(silent) + SHOW_EVERY), if show.is_some() => {
                    show = None;
                }
                () = sleep_until(silent) => {
                    let seconds = self.patience.as_secs_f64();
                    break RequestError::Other(format!("no answer for {seconds} s"));
                }
            }
        };
        Err(why)
    }
}

impl ServerConnection {
    /// Corrects the error of a request whose answer broke off while the transport is still open: a web service may
    /// break off a single answer.
    fn broke_off(&self, failure: RequestError) -> RequestError {
        if matches!(failure, RequestError::Gone) && !self.peer.is_transport_closed() {
            return RequestError::Other(
                "it broke off its answer, or the answer was too long (`--limit mcp-message-bytes=N` allows more)"
                    .to_owned(),
            );
        }
        failure
    }
}

fn failure(error: ServiceError, is_confined: bool) -> RequestError {
    match error {
        ServiceError::TransportClosed => RequestError::Gone,
        ServiceError::McpError(error) => {
            RequestError::Other(format!("it answers: {}", plain(error.message.as_bytes())))
        }
        // The transport's own wrapping is left out of the texts: it has a long name and tells people nothing.
        ServiceError::TransportSend(error) if wants_login(&*error.error) => RequestError::Login,
        ServiceError::TransportSend(error) if is_confined => {
            RequestError::Other(format!("the request failed: {}", discreet(&*error.error)))
        }
        ServiceError::TransportSend(error) => {
            RequestError::Other(format!("the request failed: {}", causes(&*error.error)))
        }
        other => RequestError::Other(causes(&other)),
    }
}

fn wants_login(error: &(dyn Error + 'static)) -> bool {
    let mut cause = Some(error);
    while let Some(error) = cause {
        let required = error.downcast_ref::<AuthError>();
        if error.is::<AuthRequiredError>()
            || matches!(required, Some(AuthError::AuthorizationRequired))
        {
            return true;
        }
        cause = error.source();
    }
    false
}

/// Guard of a running request. If it is dropped before the answer, for example with a cancelled command, it tells the
/// server that the request is cancelled.
struct RequestGuard<'a> {
    connection: &'a ServerConnection,
    token: ProgressToken,
    /// Id of the request; `None` once it has its answer.
    id: Option<RequestId>,
}

impl Drop for RequestGuard<'_> {
    fn drop(&mut self) {
        self.connection.hearing.progress.lock().remove(&self.token);
        if let (Some(id), Ok(runtime)) = (self.id.take(), Handle::try_current()) {
            let peer = self.connection.peer.clone();
            let cancelled = CancelledNotificationParam::new(
                Some(id),
                Some("nobody waits for it any more".to_owned()),
            );
            runtime.spawn(async move {
                let _ = timeout(GOOD_BYE, peer.notify_cancelled(cancelled)).await;
            });
        }
    }
}
