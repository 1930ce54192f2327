//! Pending login, which continues after `authenticate` was answered.

use std::future::poll_fn;
use std::sync::{Arc, OnceLock};
use std::task::Poll;

use futures::future::BoxFuture;
use serde_json::value::RawValue;
use tokio::sync::oneshot;
use tokio_util::task::AbortOnDropHandle;

use crate::Login;
use tandem_agent::session::Session;
use tandem_model::provider::Provider;
use tandem_wire::acp::v1::{
    COMPLETE_ELICITATION, CREATE_ELICITATION, ElicitationIdParams, ElicitationResponse,
    UrlElicitationParams,
};
use tandem_wire::rpc::Peer;

/// A pending login. Dropping it closes the page that asks for the key.
pub(super) struct PendingLogin {
    provider: Provider,
    /// Address of the page that asks for the key, once the page is open.
    address: Arc<OnceLock<String>>,
    task: AbortOnDropHandle<()>,
}

/// Advice at the end of an error message: other ways to log in.
const OTHER_WAYS: &str = "Authenticate again, or run `tandem login` in a terminal.";

/// Receiver of a login's outcome, or, if the editor shows the page, of the user's consent to open the page. The error
/// tells the user what to do.
pub(super) type LoginOutcome = oneshot::Receiver<Result<(), String>>;

/// Request to the editor to show the page that asks for the key.
pub(super) struct Elicitation {
    peer: Peer,
    /// Id of the editor's request that needs the page.
    request: Box<RawValue>,
    id: String,
}

impl PendingLogin {
    /// Begins a login, for the model of `session` if a session is given. With an elicitation, the editor shows the
    /// page; without one, the agent opens a browser.
    pub(super) fn begin(
        login: &dyn Login,
        session: Option<Arc<Session>>,
        elicitation: Option<Elicitation>,
    ) -> (Self, LoginOutcome) {
        let provider = login.provider_of(session.as_deref());
        let address = Arc::<OnceLock<String>>::default();
        let (page, in_browser) = (Arc::clone(&address), elicitation.is_none());
        let opened = move |url: &str| {
            // This cannot fail: a login opens one page only.
            let _ = page.set(url.to_owned());
            in_browser
        };
        let credentials = login.authenticate(session, Box::new(opened));
        let (ended, outcome) = oneshot::channel();
        let page = Arc::clone(&address);
        let task = tokio::spawn(async move {
            match elicitation {
                Some(elicitation) => elicitation.run(provider, &page, credentials, ended).await,
                // Sending fails if the login takes long: `authenticate` was then answered already.
                None => drop(ended.send(credentials.await)),
            }
        });
        (Self { provider, address, task: AbortOnDropHandle::new(task) }, outcome)
    }

    /// Returns `true` if this login still waits for the key of `provider`.
    pub(super) fn is_for(&self, provider: Provider) -> bool {
        self.provider == provider && !self.task.is_finished()
    }

    /// Returns the address of the page that asks for the key, once the page is open.
    pub(super) fn address(&self) -> Option<&str> {
        self.address.get().map(String::as_str)
    }
}

impl Elicitation {
    /// Creates an elicitation for the editor's request whose id is `request`.
    pub(super) fn new(peer: &Peer, request: &RawValue) -> Self {
        let id = format!("login-{}", request.get().trim_matches('"'));
        Self { peer: peer.clone(), request: request.to_owned(), id }
    }

    /// Asks the editor to show the page as soon as the page is open, sends the user's consent or the outcome of the
    /// login to `ended`, and waits for the credentials.
    async fn run(
        self,
        provider: Provider,
        page: &OnceLock<String>,
        mut credentials: BoxFuture<'static, Result<(), String>>,
        mut ended: oneshot::Sender<Result<(), String>>,
    ) {
        // Polling the credentials opens the page and sets its address.
        let consent = poll_fn(|context| {
            let result = credentials.as_mut().poll(context);
            match (result.is_pending(), page.get()) {
                (true, Some(url)) => Poll::Ready(Ok(self.ask(provider, url))),
                (true, None) => Poll::Pending,
                (false, _) => result.map(Err),
            }
        });
        let mut consent = match consent.await {
            Ok(consent) => consent,
            Err(result) => return drop(ended.send(result)),
        };
        // First branch: the login has ended without consent. Returning drops `consent`, which withdraws the request
        // to show the page, before the editor learns the outcome. Second branch: the editor has cancelled
        // `authenticate`, which closes `ended`. Third branch: the user has answered.
        let consent = tokio::select! {
            result = &mut credentials => return drop(ended.send(result)),
            () = ended.closed() => return drop(credentials),
            consent = &mut consent => consent,
        };
        if consent.is_err() {
            drop(credentials);
            return drop(ended.send(consent));
        }
        // The answer to `authenticate` waits only for the consent, not for the key.
        let _ = ended.send(consent);
        if credentials.await.is_ok() {
            let params = ElicitationIdParams { elicitation_id: &self.id };
            self.peer.notify(COMPLETE_ELICITATION, &params);
        }
    }

    /// Asks the editor to show the page. The returned future waits for the user's consent.
    fn ask(&self, provider: Provider, url: &str) -> BoxFuture<'static, Result<(), String>> {
        let message = format!("Enter your {} API key in this page.", provider.title());
        let answer = self.peer.call::<ElicitationResponse>(
            CREATE_ELICITATION,
            &UrlElicitationParams {
                request_id: &self.request,
                mode: "url",
                elicitation_id: &self.id,
                url,
                message: &message,
            },
        );
        Box::pin(async move {
            match answer.await {
                Ok(answer) if answer.action == "accept" => Ok(()),
                Ok(_) => {
                    Err(format!("The page that asks for the key was not opened. {OTHER_WAYS}"))
                }
                Err(error) => Err(format!(
                    "The editor could not show the page that asks for the key: {error}. {OTHER_WAYS}"
                )),
            }
        })
    }
}
