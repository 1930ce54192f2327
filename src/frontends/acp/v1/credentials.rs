//! Credentials: obtained, missed and forgotten.

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

/// Time for a browser that cannot be opened to fail. The answer to `authenticate` waits no longer:
/// clients give up after some seconds.
const LAUNCH: Duration = Duration::from_millis(500);

impl Editor {
    /// Checks and stores the key that comes with the request. Without one, opens a page that asks for
    /// it, unless there is a key, or has an editor show the page that can: the page stays open when the
    /// request is answered.
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
        // Those that come over a port are not told where the user enters a key.
        let shows_page = self.client.lock().shows_pages && self.is_user();
        let elicitation = responder.id().filter(|_| shows_page);
        let elicitation = elicitation.map(|id| Elicitation::new(&self.connection.peer, id));
        let patience = if elicitation.is_some() { Duration::MAX } else { LAUNCH };
        let Some(outcome) = self.begin_login(elicitation) else {
            return answer(responder, Ok(Empty {}));
        };
        tokio::spawn(responder.send_output(async move {
            match timeout(patience, outcome).await {
                Ok(Ok(Err(why))) => Err(failed(why)),
                Ok(Err(_)) => Err(Error::internal("the login was ended by another").reasoned()),
                // After an error some clients begin anew with another agent, which does not know of the
                // page. With this answer they go on, and a prompt that comes before the key is told
                // where to enter it.
                Ok(Ok(Ok(()))) | Err(_) => Ok(Empty {}),
            }
        }));
    }

    /// Begins a login, unless it is under way.
    fn begin_login(&self, elicitation: Option<Elicitation>) -> Option<LoginOutcome> {
        let login = &*self.connection.service.login;
        let session = self.session_to_log_in();
        let provider = login.provider_of(session.as_deref());
        let mut pending = self.login.lock();
        if pending.as_ref().is_some_and(|pending| pending.is_for(provider)) {
            return None;
        }
        // There is one page at a time, so that of another provider is closed first.
        *pending = None;
        let (begun, outcome) = PendingLogin::begin(login, session, elicitation);
        *pending = Some(begun);
        Some(outcome)
    }

    /// Returns a session that the editor has opened; one without credentials, if there is one.
    fn session_to_log_in(&self) -> Option<Arc<Session>> {
        let opened = self.opened.lock();
        let mut sessions = opened.values().map(|opened| opened.session());
        let any = sessions.clone().next();
        sessions.find(|session| session.ready().is_err()).or(any).cloned()
    }

    /// Checks that a session's model can be called, or that a turn may find the key for that.
    pub(super) fn check_ready(&self, session: &Session) -> Result<(), Error> {
        match session.ready() {
            Err(error) if !self.connection.service.login.may_find_key(session) => {
                Err(self.not_ready(session, &error))
            }
            _ => Ok(()),
        }
    }

    /// Returns the error for a session whose model cannot be called. It names the page that asks the
    /// user for the key, if that is open; to nobody else, or others could enter a key of theirs.
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

    /// Forgets the stored key.
    pub(super) fn logout(&self) -> Result<LogoutResponse, Error> {
        self.check_user()?;
        let kept = self.connection.service.login.logout().map_err(Error::internal)?;
        Ok(LogoutResponse { meta: kept.map(|message| LogoutMeta { message }) })
    }
}
