//! ACP 1, over which an editor drives any number of sessions.
//!
//! [`Editor`] answers the editor's calls. A `view` for each session shows the editor the session's events, and answers
//! each prompt once the whole turn of the prompt has been shown.

mod answer;
mod call_terminals;
mod calls;
mod client;
mod commands;
mod credentials;
mod editor;
mod files;
mod found_models;
mod initialize;
mod list;
mod login;
mod open;
mod options;
mod permission;
mod prompt;
mod queue;
mod remote;
mod terminals;
mod user_input;
mod view;

use std::sync::Arc;

use serde::Serialize;

use self::answer::answer;
pub(crate) use self::editor::Editor;
use self::editor::OpenedSession;
use self::options::{Setting, session_options};
use self::prompt::parts;
use self::queue::MOST_WAITING;
use self::view::Start;
use tandem_content::blocking::blocking;
use tandem_wire::acp::v1::{
    CANCEL_METHOD, CLOSE_SESSION, DELETE_SESSION, Empty, LIST_SESSIONS, LOAD_SESSION,
    LOGOUT_METHOD, NEW_SESSION, PROMPT_METHOD, PromptParams, RESUME_SESSION, SET_CONFIG_OPTION,
    SET_MODE, SET_MODEL, STEERING_METHOD, SessionIdParams, SetConfigOptionParams, SetModeParams,
    SetModelParams, SteeringResponse,
};
use tandem_wire::acp::{AUTHENTICATE_METHOD, INITIALIZE_METHOD};
use tandem_wire::jsonrpc::{Error, Params};
use tandem_wire::rpc::Responder;

impl Editor {
    /// Begins to answer a request that does not have to wait in its session's queue.
    pub(super) fn serve(self: &Arc<Self>, method: &str, params: Params<'_>, responder: Responder) {
        if let Some(remote) = self.remote_session(method, params) {
            return remote.relay(method, params, responder);
        }
        match method {
            INITIALIZE_METHOD => answer(responder, self.initialize(params)),
            AUTHENTICATE_METHOD => self.authenticate(params, responder),
            LOGOUT_METHOD => answer(responder, self.logout()),
            NEW_SESSION => self.new_session(params, responder),
            LOAD_SESSION => self.open_session(params, responder, Start::Load),
            RESUME_SESSION => self.open_session(params, responder, Start::Resume),
            LIST_SESSIONS => self.list_sessions(params, responder),
            CLOSE_SESSION => self.close_session(params, responder),
            DELETE_SESSION => self.delete_session(params, responder),
            PROMPT_METHOD => self.prompt(params, responder),
            CANCEL_METHOD => self.cancel(params),
            STEERING_METHOD => answer(responder, self.steer(params)),
            SET_MODE => answer(responder, self.set_mode(params)),
            SET_MODEL => self.set_model(params, responder),
            SET_CONFIG_OPTION => self.set_config_option(params, responder),
            _ => answer(responder, Err::<(), _>(Error::method_not_found(method))),
        }
    }

    /// Begins a turn. The session's view answers the request when the turn has ended and has been shown completely.
    fn prompt(self: &Arc<Self>, params: Params<'_>, responder: Responder) {
        let prompt = params.parse::<PromptParams>().and_then(|params| {
            let opened = self.opened(&params.session_id)?;
            let prompt = parts(params.prompt)?;
            if opened.session().turns().waiting() >= MOST_WAITING {
                return Err(Error::internal(format_args!("{MOST_WAITING} prompts wait already")));
            }
            Ok((opened, prompt))
        });
        let (opened, prompt) = match prompt {
            Ok(prompt) => prompt,
            Err(error) => return answer(responder, Err::<(), _>(error)),
        };
        let Err(error) = self.check_ready(opened.session()) else {
            return opened.client.prompt(opened.session(), prompt, responder);
        };
        // A slash command works without a model, and may make a model available. A command is recognised on another
        // thread, because files may have to be read for that. Only later requests about this session wait for it.
        let lock = self.lock(&opened.client.id);
        tokio::spawn(async move {
            let session = Arc::clone(opened.session());
            let needs_model = blocking(move || {
                let needs_model = session.needs_model(&prompt);
                (needs_model, prompt)
            });
            match needs_model.await {
                Ok((false, prompt)) => opened.client.prompt(opened.session(), prompt, responder),
                _ => answer(responder, Err::<(), _>(error)),
            }
            drop(lock);
        });
    }

    /// Cancels the running turn of any front end, and all of this editor's turns that wait.
    fn cancel(&self, params: Params<'_>) {
        let opened =
            params.parse::<SessionIdParams>().and_then(|params| self.opened(&params.session_id));
        match opened {
            Ok(opened) => opened.client.cancel(opened.session()),
            Err(error) => tracing::warn!(%error, "nothing is cancelled"),
        }
    }

    /// Adds a text of the user to the running turn. Without a running turn, begins a new turn, or answers that a prompt
    /// is required if the editor asks for that.
    fn steer(&self, params: Params<'_>) -> Result<SteeringResponse, Error> {
        let params: PromptParams = params.parse()?;
        let opened = self.opened(&params.session_id)?;
        let (session, prompt) = (opened.session(), parts(params.prompt)?);
        let text: String = prompt.iter().map(ToString::to_string).collect();
        let answer = |outcome| Ok(SteeringResponse { outcome, reason: None });
        if session.turns().steer(&text) {
            return answer("injected");
        }
        if params.meta.steering.idle_behavior.as_deref() == Some("promptRequired") {
            let reason = Some("noRunningTurn");
            return Ok(SteeringResponse { outcome: "promptRequired", reason });
        }
        self.check_ready(session)?;
        opened.client.begin(session, prompt);
        answer("startedNewTurn")
    }

    fn set_mode(&self, params: Params<'_>) -> Result<Empty, Error> {
        self.check_user()?;
        let params: SetModeParams = params.parse()?;
        let opened = self.opened(&params.session_id)?;
        Setting::mode(&params.mode_id)
            .and_then(|mode| opened.session().modes().set(mode))
            .map_err(Error::invalid_params)?;
        Ok(Empty {})
    }

    fn set_model(self: &Arc<Self>, params: Params<'_>, responder: Responder) {
        let setting = params.parse::<SetModelParams>().and_then(|params| {
            self.check_user()?;
            Ok((self.opened(&params.session_id)?, Setting::Model(params.model_id)))
        });
        self.change(setting, responder, |_| Empty {});
    }

    fn set_config_option(self: &Arc<Self>, params: Params<'_>, responder: Responder) {
        let setting = params.parse::<SetConfigOptionParams>().and_then(|params| {
            self.check_user()?;
            let opened = self.opened(&params.session_id)?;
            let setting = Setting::read(&params.config_id, params.value);
            Ok((opened, setting.map_err(Error::invalid_params)?))
        });
        self.change(setting, responder, |opened| {
            session_options(opened.session(), &opened.client.models()).changed()
        });
    }

    /// Changes a setting, and answers when the change is done. A change of the model takes time: until then, later
    /// requests about the session wait.
    fn change<R: Serialize + 'static>(
        self: &Arc<Self>,
        setting: Result<(Arc<OpenedSession>, Setting), Error>,
        responder: Responder,
        result: impl FnOnce(&OpenedSession) -> R + Send + 'static,
    ) {
        match setting {
            Err(error) => answer(responder, Err::<(), _>(error)),
            Ok((opened, Setting::Mode(mode))) => {
                let changed = opened.session().modes().set(mode).map_err(Error::invalid_params);
                answer(responder, changed.map(|()| result(&opened)));
            }
            Ok((opened, Setting::Thinking(level))) => {
                let changed = opened.session().set_thinking(level.as_deref());
                answer(responder, changed.map(|()| result(&opened)).map_err(Error::invalid_params));
            }
            Ok((opened, Setting::Model(id))) => {
                // A prompt that the editor sends after this request is meant for the new model.
                let lock = self.lock(&opened.client.id);
                tokio::spawn(async move {
                    let changed =
                        opened.session().set_model(&id).await.map_err(Error::invalid_params);
                    answer(responder, changed.map(|()| result(&opened)));
                    drop(lock);
                });
            }
        }
    }
}
