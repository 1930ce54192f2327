//! Slash commands for clients: their list, and their execution (RFC 3.3, and
//! "Custom endpoints" of the server document; `docs/protocols.md` says where both are).

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::timeout;

use super::context::SessionContext;
use super::contexts::locate;
use super::dialect::Dialect;
use super::requests::{Execute, SessionName};
use super::server::{A2aServer, CallOrigin};
use super::turns;
use tandem_agent::commands::{Argument, Command, Registry};
use tandem_agent::session::{
    Access, CallStarted, Event, PromptPart, PromptTags, Session, SessionCommand, TurnId,
};
use tandem_agent::sessions::Leased;
use tandem_serve::principals::{DRIVE, Principal};
use tandem_serve::quotas::Reservation;
use tandem_wire::jsonrpc::Error;

/// Statuses of a started command (RFC 3.3, `CommandExecutionStatus`).
const STARTED: &str = "STARTED";
const AWAITING_SHELL: &str = "AWAITING_SHELL_CONFIRMATION";
const AWAITING_ACTION: &str = "AWAITING_ACTION_CONFIRMATION";

/// Maximum time that the response waits for the first step of a command.
const FIRST_STEP_TIME: Duration = Duration::from_secs(1);

/// End of the message about a command that cannot start.
const NOT_BEGUN: &str = "Nothing was begun, so there is no execution id.";

/// Returns the response to `commands/get`.
pub(super) fn all(registry: &Registry, session: Option<&Session>) -> Value {
    let commands = registry.list().iter().map(command).chain(own(session));
    json!({ "commands": commands.collect::<Vec<_>>() })
}

/// Returns the commands that only this session has.
fn own(session: Option<&Session>) -> Vec<Value> {
    session.map(Session::own_commands).unwrap_or_default().iter().map(own_command).collect()
}

fn own_command(command: &SessionCommand) -> Value {
    let arguments = command.arguments.iter().map(|argument| {
        json!({
            "name": argument.name,
            "description": argument.description,
            "is_required": argument.is_required,
            "isRequired": argument.is_required,
        })
    });
    json!({
        "name": command.name,
        "description": command.description,
        "arguments": arguments.collect::<Vec<_>>(),
        "sub_commands": [],
        "subCommands": [],
    })
}

fn command(command: &Command) -> Value {
    let arguments: Vec<_> = command.arguments.iter().map(argument).collect();
    let sub_commands: Vec<_> = command.sub_commands.iter().map(self::command).collect();
    json!({
        "name": command.name,
        "description": command.description,
        "arguments": arguments,
        "sub_commands": sub_commands,
        "subCommands": sub_commands,
    })
}

fn argument(argument: &Argument) -> Value {
    json!({
        "name": argument.name,
        "description": argument.description,
        "is_required": argument.is_required,
        "isRequired": argument.is_required,
    })
}

/// Returns the response to `GET /listCommands`: the same commands, named by their whole paths.
pub(super) fn listed(registry: &Registry, session: Option<&Session>) -> Value {
    let commands = registry.list().iter().map(|command| full(command, ""));
    let commands = commands.chain(own(session));
    json!({ "commands": commands.collect::<Vec<_>>() })
}

fn full(command: &Command, above: &str) -> Value {
    let name = format!("{above}{}", command.name);
    let below = format!("{name} ");
    let sub_commands: Vec<_> = command.sub_commands.iter().map(|it| full(it, &below)).collect();
    json!({
        "name": name,
        "description": command.description,
        "arguments": command.arguments.iter().map(argument).collect::<Vec<_>>(),
        "subCommands": sub_commands,
    })
}

impl A2aServer {
    /// Handles `command/execute`: starts a command. The effects of the command are updates of the task
    /// `execution_id`.
    pub(super) async fn execute(
        &self,
        request: &Execute,
        located: Option<Leased<SessionContext>>,
        caller: &CallOrigin,
    ) -> Result<Value, Error> {
        let Execute { path, args, session } = request;
        let path: Vec<&str> = path.iter().map(String::as_str).collect();
        let is_unknown = located.is_none() && session.task.is_none() && session.context.is_some();
        let unknown = is_unknown.then(|| self.contexts.of(&caller.principal).unknown());
        let known = self.known(session, located.clone());
        let own = known.as_ref().and_then(|context| context.here());
        let (id, status, message) = match self.commands.prompt(&path, args, own) {
            Ok(prompt) => {
                let prompt = vec![PromptPart::Text(prompt)];
                let principal = &caller.principal;
                let (context, room) = self.commanded(session, located, principal, &prompt)?;
                let turn = self.command(&context, room, prompt, caller).await?;
                (context.execution(turn), first_status(&context, turn).await, String::new())
            }
            Err(why) => {
                let why = format!("{why} {NOT_BEGUN}");
                (String::new(), "FAILED_TO_START", why)
            }
        };
        let mut response = json!({
            "execution_id": id, "executionId": id, "status": status, "message": message,
        });
        if let Some(unknown) = unknown {
            response["metadata"] = json!({ "unknownContext": unknown });
        }
        Ok(response)
    }

    /// Returns the session that a call names, or the shared session, if it exists already.
    pub(super) fn known(
        &self,
        session: &SessionName,
        located: Option<Leased<SessionContext>>,
    ) -> Option<Leased<SessionContext>> {
        match &session.task {
            Some(task) => locate::task(located, task).ok().map(|task| task.context),
            None => located.or_else(|| self.contexts.shared().cloned()),
        }
    }

    /// Returns the session in which a command is to run, and the place reserved for its turn in the owner's
    /// quota.
    pub(super) fn commanded(
        &self,
        session: &SessionName,
        located: Option<Leased<SessionContext>>,
        principal: &Principal,
        prompt: &[PromptPart],
    ) -> Result<(Leased<SessionContext>, Option<Reservation>), Error> {
        self.check_open()?;
        let contexts = self.contexts.of(principal);
        let (context, is_new) = if let Some(task) = &session.task {
            let task = locate::task(located, task)?;
            contexts.check(&task.context, DRIVE)?;
            (task.context, false)
        } else {
            let chosen = session.context.as_deref();
            contexts.prompted(located, chosen, None, &session.settings)?
        };
        turns::check_room(context.session()?)?;
        let room = contexts.check_turn(&context, prompt)?;
        if session.task.is_none() && !is_new {
            contexts.apply_settings(&context, &session.settings)?;
        }
        Ok((context, room))
    }

    /// Starts a command in a task of its own. The command is durable when this returns.
    pub(super) async fn command(
        &self,
        context: &SessionContext,
        room: Option<Reservation>,
        prompt: Vec<PromptPart>,
        caller: &CallOrigin,
    ) -> Result<TurnId, Error> {
        let session = context.session()?;
        // The previous owner of the session may have started the command for the same order.
        let begun = caller
            .order
            .as_ref()
            .and_then(|key| context.story(|story| story.sent(key).map(|turn| turn.id)));
        if let Some(begun) = begun {
            return Ok(begun);
        }
        let tags =
            PromptTags { key: caller.order.clone(), own_task: true, ..PromptTags::default() };
        let text = self.audit.text(&prompt);
        let turn = session.prompt_tagged(prompt, caller.origin.clone(), tags);
        drop(room);
        self.audit.prompted((&caller.principal, &caller.origin), context, turn, text);
        session.synced().await;
        Ok(turn)
    }
}

/// Returns the status of a started command: waiting, if its first step is a question.
async fn first_status(context: &SessionContext, turn: TurnId) -> &'static str {
    let queued = context.story(|story| Some(story.turn(turn)?.queued.0));
    let (Some(queued), true) = (queued, context.running_now() == Some(turn)) else {
        return STARTED;
    };
    let mut log = context.events(queued);
    let first_step = async {
        loop {
            match &*log.next_entry().await.event {
                Event::CallStarted(started) => return asked_status(started),
                Event::Asked(_)
                | Event::Output(_)
                | Event::CommandFailed(_)
                | Event::TurnFinished { .. } => return STARTED,
                _ => {}
            }
        }
    };
    timeout(FIRST_STEP_TIME, first_step).await.unwrap_or(STARTED)
}

/// Returns the status of a command by its first call.
fn asked_status(started: &CallStarted) -> &'static str {
    match (&started.question, &started.access) {
        (None, _) => STARTED,
        (Some(_), Access::Execute { .. }) => AWAITING_SHELL,
        (Some(_), _) => AWAITING_ACTION,
    }
}

/// Returns `true` if the command at a path asks the model, so that its answer is a stream.
pub(super) fn asks_model(registry: &Registry, path: &str, session: Option<&Session>) -> bool {
    let name = path.trim_start_matches('/');
    let is_own = |session: &Session| session.own_commands().iter().any(|it| it.name == name);
    command_asks_model(registry.list(), path) || session.is_some_and(is_own)
}

fn command_asks_model(commands: &[Command], path: &str) -> bool {
    let path = path.trim_start_matches('/');
    let (name, rest) = path.split_once(' ').unwrap_or((path, ""));
    commands.iter().find(|command| command.name == name).is_some_and(|command| {
        command.asks_model || (!rest.is_empty() && command_asks_model(command.sub_commands, rest))
    })
}

impl SessionContext {
    /// Returns the id of a command's own task.
    fn execution(&self, turn: TurnId) -> String {
        Dialect::V1.task_id(&self.id, turn)
    }
}
