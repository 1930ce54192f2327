//! Calls of a terminal, carried out in a session that this node owns.

use std::sync::Arc;

use serde::Serialize;
use serde_json::Value;
use serde_json::value::to_raw_value;

use super::super::context::SessionContext;
use super::super::orders::TerminalCall;
use super::super::requests::SessionId;
use super::super::server::{A2aServer, CallOrigin};
use super::super::turns;
use tandem_agent::session::{
    Answer, AnswerError, ClientName, PromptPart, PromptTags, Session, TurnId,
};
use tandem_content::blocking::blocking;
use tandem_serve::principals::{self, DRIVE_RIGHT, Principal, SessionRight, WATCH_RIGHT};
use tandem_wire::attach::{
    ANSWER_METHOD, AnswerParams, CANCEL_METHOD, EVENTS_METHOD, FILES_METHOD, FilesParams,
    OPEN_METHOD, OpenedSession, PROMPT_METHOD, PROMPTS_METHOD, PromptParams, SET_MODE,
    SetModeParams, TAKE_BACK, TurnParams, refused,
};
use tandem_wire::jsonrpc::{Error, Params};

/// Message to a terminal whose session is no longer shared with its user.
pub(super) const NOT_SHARED: &str = "the session is not shared with you any more";

/// Message to a user other than the operator who types a command (`!ls`).
const NO_OWN_COMMANDS: &str = "`!` runs a command as the user of the server, without a sandbox, and is only for \
    the operator; ask the agent to run the command";

/// Maximum number of file names in one response.
const FILES_NAMED: usize = 20_000;

/// Returns the right that a call needs.
pub(super) fn needed(method: &str) -> SessionRight {
    match method {
        EVENTS_METHOD | FILES_METHOD | PROMPTS_METHOD => WATCH_RIGHT,
        ANSWER_METHOD => principals::ANSWER_RIGHT,
        _ => DRIVE_RIGHT,
    }
}

/// Gives a terminal its number in a session that this node owns, and describes the session.
pub(super) fn take_in(
    server: &A2aServer,
    principal: &Principal,
    context: &Arc<SessionContext>,
    terminal: &str,
) -> Result<(OpenedSession, ClientName), Error> {
    let session = context.session()?;
    let client = {
        let mut terminals = context.terminals.lock();
        let client = context.records(|records| terminals.client(terminal, records));
        client.with_principal(principal.id().cloned())
    };
    let opened = OpenedSession {
        session: context.id.clone(),
        number: client.number,
        directory: directory(context),
        model: session.model(),
        mode: session.modes().current().to_string(),
        modes: session.modes().allowed().iter().map(ToString::to_string).collect(),
        frame_bytes: server.options.body,
    };
    Ok((opened, client))
}

/// Carries out a call of a terminal that is attached at another node.
pub(in super::super) async fn obey(
    server: &A2aServer,
    call: &TerminalCall,
    caller: &CallOrigin,
) -> Result<Value, Error> {
    let TerminalCall { session: id, method, params, terminal } = call;
    let principal = &caller.principal;
    let context = server.open(principal, Some(SessionId::Session(id))).await?;
    let context = context.ok_or_else(|| refused(NOT_SHARED))?;
    let session = Arc::clone(context.session()?);
    let need = if method == OPEN_METHOD { WATCH_RIGHT } else { needed(method) };
    let checked = server.contexts.of(principal).check(&context, need);
    checked.map_err(|error| refused(error.message))?;
    let raw = to_raw_value(params).map_err(Error::internal)?;
    let params = Params(Some(&raw));
    match method.as_str() {
        OPEN_METHOD => to_value(take_in(server, principal, &context, terminal)?),
        FILES_METHOD => {
            let files = params.parse::<FilesParams>()?;
            let named = blocking(move || mentionable(&session, &files)).await;
            to_value(named.map_err(Error::internal)?)
        }
        PROMPTS_METHOD => {
            let commands = blocking(move || session.own_commands()).await;
            to_value(commands.map_err(Error::internal)?)
        }
        _ => {
            let actor = Actor { server, caller, context: &context, terminal };
            let done = actor.act(&session, method, params)?;
            if method == PROMPT_METHOD {
                context.promised().await.map_err(|error| refused(error.message))?;
            }
            Ok(done)
        }
    }
}

/// Returns the names of files that a prompt can mention.
pub(super) fn mentionable(session: &Session, files: &FilesParams) -> Vec<String> {
    session.mentionable(files.most.min(FILES_NAMED))
}

fn to_value(value: impl Serialize) -> Result<Value, Error> {
    serde_json::to_value(value).map_err(Error::internal)
}

/// A terminal that acts in a session that this node owns.
pub(super) struct Actor<'a> {
    pub(super) server: &'a A2aServer,
    pub(super) caller: &'a CallOrigin,
    pub(super) context: &'a Arc<SessionContext>,
    /// Name of the terminal.
    pub(super) terminal: &'a str,
}

impl Actor<'_> {
    pub(super) fn act(
        &self,
        session: &Session,
        method: &str,
        params: Params<'_>,
    ) -> Result<Value, Error> {
        match method {
            PROMPT_METHOD => self.prompt(session, params).map(|()| Value::Null),
            SET_MODE => self.set_mode(session, params).map(|()| Value::Null),
            CANCEL_METHOD => {
                let turn = params.parse::<TurnParams>();
                self.note("cancel");
                turn.map(|turn| session.cancel(TurnId(turn.turn)).into())
            }
            TAKE_BACK => {
                let turn = params.parse::<TurnParams>()?;
                Ok(session.turns().take_back(TurnId(turn.turn)).into())
            }
            ANSWER_METHOD => {
                to_value(self.answer(session, &params.parse::<AnswerParams<Answer>>()?))
            }
            _ => Err(Error::method_not_found(method)),
        }
    }

    fn prompt(&self, session: &Session, params: Params<'_>) -> Result<(), Error> {
        let prompt: PromptParams<PromptPart> = params.parse()?;
        if prompt.parts.iter().any(|part| matches!(part, PromptPart::Shell(_))) {
            self.trusted()?;
            // The command runs as the user who started the server, outside of the sandbox and of all rules.
            if !self.caller.principal.changes_for_all() {
                return Err(refused(NO_OWN_COMMANDS));
            }
        }
        // Media from a terminal are not validated, and invalid media would make this request to the model
        // fail, and all later ones.
        if prompt.parts.iter().any(|part| matches!(part, PromptPart::Media(_))) {
            return Err(refused("a terminal sends no media"));
        }
        self.server.check_open().map_err(|error| refused(error.message))?;
        let context = self.context;
        context.used();
        // The prompt may have been accepted before without the terminal knowing. The lock makes sure that of
        // two requests at the same time, only one is accepted.
        let mut terminals = context.terminals.lock();
        if context.records(|records| terminals.is_new(self.terminal, prompt.number, records)) {
            turns::check_room(session).map_err(|error| refused(error.message))?;
            let contexts = self.server.contexts.of(&self.caller.principal);
            let _room = contexts
                .check_turn(context, &prompt.parts)
                .map_err(|error| refused(error.message))?;
            let text = self.server.audit.text(&prompt.parts);
            terminals.accept(self.terminal, prompt.number);
            let tags = PromptTags::key(prompt.number.to_string());
            let turn = session.prompt_tagged(prompt.parts, self.caller.origin.clone(), tags);
            self.server.audit.prompted(self.caller.acting_in(context), turn, text);
        }
        Ok(())
    }

    fn set_mode(&self, session: &Session, params: Params<'_>) -> Result<(), Error> {
        let SetModeParams { mode } = params.parse()?;
        let mode = mode.parse().map_err(Error::invalid_params)?;
        self.trusted()?;
        self.note("mode");
        session.modes().set(mode).map_err(Error::invalid_params)
    }

    fn answer(&self, session: &Session, given: &AnswerParams<Answer>) -> Result<(), AnswerError> {
        // A saved answer applies to all sessions on this machine, so only the user of the machine may save an
        // answer.
        let started =
            self.context.records(|records| Some(Arc::clone(&records.call(&given.call)?.started)));
        let question = started.as_ref().and_then(|started| started.question.as_ref());
        let for_good = question.is_none_or(|it| it.is_permitted_for_good(&given.answer));
        if for_good && !self.caller.principal.changes_for_all() {
            return Err(AnswerError::NotOffered);
        }
        session.answer(&given.call, given.answer.clone(), self.caller.origin.clone())?;
        let (audit, by) = (&self.server.audit, self.caller.acting_in(self.context));
        audit.answered(by, &given.call, started.as_deref(), &given.answer);
        Ok(())
    }

    /// Records an act of the terminal in the audit log.
    fn note(&self, event: &str) {
        self.server.audit.act(event, self.caller.acting_in(self.context), |_| {});
    }

    /// Fails if the caller has no token. Every user of this machine can attach to a server without tokens,
    /// and may then do only what any A2A client may: prompt, cancel and answer questions.
    fn trusted(&self) -> Result<(), Error> {
        let trusted = self.caller.principal != Principal::Anyone;
        let why = "attached terminals can do this only if the agent has a token: start the agent with \
            --a2a-token-file";
        if trusted { Ok(()) } else { Err(refused(why)) }
    }
}

fn directory(context: &SessionContext) -> String {
    context.directory().map(|root| root.display().to_string()).unwrap_or_default()
}
