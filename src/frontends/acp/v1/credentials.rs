//! Credentials: the requests to log in and out, and the error for a prompt without credentials.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout;

use super::answer::{AUTH_REQUIRED, answer, model_error};
use super::editor::Editor;
use super::login::{Elicitation, LoginOutcome, PendingLogin};
use tandem_agent::session::{ModelError, Session};
use tandem_wire::acp::v1::{AuthenticateParams, Empty, LogoutMeta, LogoutResponse};
use tandem_wire::jsonrpc::{Error, Params};
use tandem_wire::rpc::Responder;

/// Time in which an attempt to open a browser is expected to fail, if it fails. The answer to `authenticate` does not
/// wait longer, because clients give up after some seconds.
const LAUNCH_TIMEOUT: Duration = Duration::from_millis(500);

impl Editor {
    /// Checks and stores the key that comes with the request. If neither the request nor the agent has a key, opens a
    /// page that asks for the key: in the editor if it can show pages, else in a browser. The page stays open after the
    /// request was answered.
    pub(super) fn authenticate(&self, params: Params<'_>, responder: Responder) {
        let login = &self.connection.service.login;
        let expected = format!("{}-api-key", login.provider().name());
        let params = params.parse::<AuthenticateParams>().and_then(|params| {
            if params.meta.api_key.is_some() {
                self.check_user()?;
            }
            let is_known = params.method_id == expected;
            is_known.then_some(params).ok_or_else(|| {
                Error::invalid_params(format_args!("`methodId` must be `{expected}`"))
            })
        });
        let key = match params {
            Ok(params) => params.meta.api_key,
            Err(error) => return answer(responder, Err::<(), _>(error)),
        };
        let failed = |why| Error::detailed(AUTH_REQUIRED, "Not authenticated", why).reasoned();
        if let Some(key) = key {
            let accepted = login.accept(key);
            tokio::spawn(
                responder
                    .send_output(async move { accepted.await.map(|()| Empty {}).map_err(failed) }),
            );
            return;
        }
        // A program that connects over a port is not told the address of the page where the user enters a key.
        let shows_page = self.client.lock().shows_pages && self.is_user();
        let elicitation = responder.id().filter(|_| shows_page);
        let elicitation = elicitation.map(|id| Elicitation::new(&self.connection.peer, id));
        let patience = if elicitation.is_some() { Duration::MAX } else { LAUNCH_TIMEOUT };
        let Some(outcome) = self.begin_login(elicitation) else {
            return answer(responder, Ok(Empty {}));
        };
        tokio::spawn(responder.send_output(async move {
            match timeout(patience, outcome).await {
                Ok(Ok(Err(why))) => Err(failed(why)),
                Ok(Err(_)) => Err(Error::internal("another login has ended this one").reasoned()),
                // A login that takes longer counts as a success. After an error some clients start another agent
                // process, which does not know of the page. After a success they go on, and the error of a prompt that
                // comes before the key says where to enter the key.
                Ok(Ok(Ok(()))) | Err(_) => Ok(Empty {}),
            }
        }));
    }

    /// Begins a login. Returns `None` if a login for the same provider is pending.
    fn begin_login(&self, elicitation: Option<Elicitation>) -> Option<LoginOutcome> {
        let login = &*self.connection.service.login;
        let session = self.session_to_log_in();
        let provider = login.provider_of(session.as_deref());
        let mut pending = self.login.lock();
        if pending.as_ref().is_some_and(|pending| pending.is_for(provider)) {
            return None;
        }
        // Only one page is open at a time, so the page for another provider is closed first.
        *pending = None;
        let (begun, outcome) = PendingLogin::begin(login, session, elicitation);
        *pending = Some(begun);
        Some(outcome)
    }

    /// Returns a session that the editor has opened, if there is one, preferably a session whose model has no
    /// credentials.
    fn session_to_log_in(&self) -> Option<Arc<Session>> {
        let opened = self.opened.lock();
        let mut sessions = opened.values().map(|opened| opened.session());
        let any = sessions.clone().next();
        sessions.find(|session| session.ready().is_err()).or(any).cloned()
    }

    /// Checks that a session's model can be called, or that a turn may find the missing key.
    pub(super) fn check_ready(&self, session: &Session) -> Result<(), Error> {
        match session.ready() {
            Err(error) if !self.connection.service.login.may_find_key(session) => {
                Err(self.not_ready(session, &error))
            }
            _ => Ok(()),
        }
    }

    /// Returns the error for a session whose model cannot be called. If the page that asks for the key is open, the
    /// error has its address. Only an editor that the user has started gets the address: another program could enter a
    /// key of its own there.
    fn not_ready(&self, session: &Session, error: &ModelError) -> Error {
        let provider = self.connection.service.login.provider_of(Some(session));
        let pending = self.login.lock();
        let pending = pending.as_ref().filter(|pending| pending.is_for(provider) && self.is_user());
        let Some(address) = pending.and_then(PendingLogin::address) else {
            return model_error(error);
        };
        let title = provider.title();
        Error::detailed(
            AUTH_REQUIRED,
            "Authentication required",
            format_args!(
                "There is no {title} API key yet: enter it at {address}, then send this again."
            ),
        )
    }

    /// Deletes the stored key.
    pub(super) fn logout(&self) -> Result<LogoutResponse, Error> {
        self.check_user()?;
        let kept = self.connection.service.login.logout().map_err(Error::internal)?;
        Ok(LogoutResponse { meta: kept.map(|message| LogoutMeta { message }) })
    }
}
